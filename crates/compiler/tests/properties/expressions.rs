//! Random expressions over given columns, typed enough to be planned.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema, TimeUnit};
use datafusion_common::tree_node::TreeNode;
use datafusion_common::{DFSchema, ScalarValue};
use datafusion_expr::execution_props::ExecutionProps;
use datafusion_expr::expr::Case;
use datafusion_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion_expr::{Expr, Operator, binary_expr, cast, col, in_list, lit, not, try_cast};
use datafusion_functions::expr_fn;
use datafusion_optimizer::analyzer::type_coercion::TypeCoercionRewriter;
use datafusion_physical_expr::{PhysicalExpr, create_physical_expr};

use crate::choices::Choices;

/// What kind of value an expression is to have; the exact type follows from its columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Integer,
    Boolean,
    Text,
    Float,
    Decimal,
    Time,
    Date,
    Binary,
}

/// All kinds, simplest first.
pub const KINDS: [Kind; 8] =
    [Kind::Integer, Kind::Text, Kind::Float, Kind::Boolean, Kind::Decimal, Kind::Time, Kind::Date, Kind::Binary];

/// The kind of a column's values.
pub fn kind_of(data_type: &DataType) -> Kind {
    match data_type {
        DataType::Boolean => Kind::Boolean,
        DataType::Float32 | DataType::Float64 => Kind::Float,
        DataType::Decimal128(..) => Kind::Decimal,
        DataType::Timestamp(..) => Kind::Time,
        DataType::Date32 => Kind::Date,
        DataType::BinaryView => Kind::Binary,
        DataType::Utf8 | DataType::Utf8View | DataType::Dictionary(..) => Kind::Text,
        _ => Kind::Integer,
    }
}

/// Makes expressions over the columns of one schema.
pub struct Expressions<'a> {
    schema: DFSchema,
    /// Whether expressions may fail for some values.
    pub may_fail: bool,
    arrow: &'a Schema,
}

impl<'a> Expressions<'a> {
    /// Over the columns of `schema`, whose names are distinct.
    pub fn new(schema: &'a Schema, may_fail: bool) -> Expressions<'a> {
        Expressions { schema: DFSchema::try_from(schema.clone()).unwrap(), may_fail, arrow: schema }
    }

    /// A planned expression of that kind, and what it was planned from.
    pub fn any(&self, choices: &mut Choices<'_>, kind: Kind, depth: usize) -> Arc<dyn PhysicalExpr> {
        let expression = self.expression(choices, kind, depth);
        self.planned(expression).unwrap_or_else(|| self.planned(self.leaf(choices, kind)).unwrap())
    }

    /// A planned expression of exactly that type.
    pub fn typed(&self, choices: &mut Choices<'_>, data_type: &DataType, depth: usize) -> Arc<dyn PhysicalExpr> {
        let kind = kind_of(data_type);
        let to_type = |expression: Expr| {
            // Casts between decimals, or of large integers to small ones, fail.
            if self.may_fail { cast(expression, data_type.clone()) } else { try_cast(expression, data_type.clone()) }
        };
        let expression = self.expression(choices, kind, depth);
        let as_it_is = self.planned(expression.clone());
        if let Some(planned) = as_it_is.filter(|planned| &planned.data_type(self.arrow).unwrap() == data_type) {
            return planned;
        }
        self.planned(to_type(expression)).unwrap_or_else(|| self.planned(to_type(self.leaf(choices, kind))).unwrap())
    }

    /// A column as it is.
    pub fn column(&self, choices: &mut Choices<'_>) -> Arc<dyn PhysicalExpr> {
        let index = choices.number(0..=self.arrow.fields().len() - 1);
        self.planned(col(self.arrow.field(index).name().as_str())).unwrap()
    }

    fn planned(&self, expression: Expr) -> Option<Arc<dyn PhysicalExpr>> {
        let coerced = expression.rewrite(&mut TypeCoercionRewriter::new(&self.schema)).ok()?.data;
        let properties = ExecutionProps::new();
        let planned =
            create_physical_expr(&coerced, &self.schema, &properties, &PhysicalPlanningContext::default()).ok()?;
        let data_type = planned.data_type(self.arrow).ok()?;
        pelton_data::column::Layout::of(&data_type).or((data_type == DataType::Utf8).then_some(
            // Functions that return Utf8 are cast to views by whoever uses them.
            pelton_data::column::Layout::View,
        ))?;
        Some(planned)
    }

    fn leaf(&self, choices: &mut Choices<'_>, kind: Kind) -> Expr {
        let fields = self.arrow.fields().iter().filter(|field| kind_of(field.data_type()) == kind);
        // As planning does: DataFusion would bring the branches of a CASE to a dictionary whose codes are too few.
        let columns: Vec<Expr> = fields
            .map(|field| match field.data_type() {
                DataType::Dictionary(..) => cast(col(field.name().as_str()), DataType::Utf8View),
                _ => col(field.name().as_str()),
            })
            .collect();
        if columns.is_empty() || choices.once_in(4) { literal(choices, kind) } else { choices.pick(&columns).clone() }
    }

    fn expression(&self, choices: &mut Choices<'_>, kind: Kind, depth: usize) -> Expr {
        if depth == 0 || choices.once_in(5) {
            return self.leaf(choices, kind);
        }
        let depth = depth - 1;
        if choices.once_in(5) {
            return self.conditional(choices, kind, depth);
        }
        match kind {
            Kind::Integer => self.integer(choices, depth),
            Kind::Float => self.float(choices, depth),
            Kind::Boolean => self.boolean(choices, depth),
            Kind::Text => self.text(choices, depth),
            Kind::Decimal => self.decimal(choices, depth),
            Kind::Time => match choices.number(0..=2) {
                0 => self.expression(choices, Kind::Time, depth),
                1 => expr_fn::date_trunc(lit("minute"), self.expression(choices, Kind::Time, depth)),
                _ => cast(self.leaf(choices, Kind::Date), DataType::Timestamp(TimeUnit::Millisecond, None)),
            },
            Kind::Date => match choices.number(0..=1) {
                0 => self.expression(choices, Kind::Date, depth),
                _ => cast(self.leaf(choices, Kind::Time), DataType::Date32),
            },
            Kind::Binary => self.leaf(choices, kind),
        }
    }

    fn conditional(&self, choices: &mut Choices<'_>, kind: Kind, depth: usize) -> Expr {
        let condition = self.expression(choices, Kind::Boolean, depth);
        let first = self.expression(choices, kind, depth);
        match choices.number(0..=3) {
            0 => case(vec![(condition, first)], Some(self.expression(choices, kind, depth))),
            1 => case(vec![(condition, first)], None),
            2 => {
                let second = (self.expression(choices, Kind::Boolean, depth), self.leaf(choices, kind));
                case(vec![(condition, first), second], Some(self.leaf(choices, kind)))
            }
            _ => expr_fn::coalesce(vec![first, self.expression(choices, kind, depth)]),
        }
    }

    fn integer(&self, choices: &mut Choices<'_>, depth: usize) -> Expr {
        let first = self.expression(choices, Kind::Integer, depth);
        match choices.number(0..=11) {
            11 => {
                let field = *choices.pick(&["hour", "minute", "second"]);
                expr_fn::date_part(lit(field), self.expression(choices, Kind::Time, depth))
            }
            10 => {
                let divisor = self.leaf(choices, Kind::Integer);
                let quotient = binary_expr(first, Operator::Divide, divisor.clone());
                case(vec![(divisor.gt(lit(0_i64)), quotient)], None)
            }
            0 => first + self.expression(choices, Kind::Integer, depth),
            1 => first - self.expression(choices, Kind::Integer, depth),
            2 => first * self.expression(choices, Kind::Integer, depth),
            3 => self.divided(choices, first, depth, Operator::Divide),
            4 => self.divided(choices, first, depth, Operator::Modulo),
            5 => expr_fn::character_length(self.expression(choices, Kind::Text, depth)),
            6 => expr_fn::strpos(self.expression(choices, Kind::Text, depth), self.leaf(choices, Kind::Text)),
            7 => {
                let kind = *choices.pick(&[Kind::Integer, Kind::Float, Kind::Boolean, Kind::Text]);
                let to = choices.pick(&[DataType::Int64, DataType::Int32, DataType::Int16, DataType::Int8]).clone();
                let value = self.expression(choices, kind, depth);
                if self.may_fail { cast(value, to) } else { try_cast(value, to) }
            }
            8 => binary_expr(first, Operator::BitwiseAnd, self.leaf(choices, Kind::Integer)),
            _ => Expr::Negative(Box::new(first)),
        }
    }

    /// A division, which fails only where failing is allowed.
    fn divided(&self, choices: &mut Choices<'_>, dividend: Expr, depth: usize, operator: Operator) -> Expr {
        let divisor = if self.may_fail && choices.once_in(2) {
            self.expression(choices, Kind::Integer, depth)
        } else {
            lit(*choices.pick(&[3_i64, 1, 2, 10, 60, 1_000_000, -3]))
        };
        binary_expr(dividend, operator, divisor)
    }

    fn float(&self, choices: &mut Choices<'_>, depth: usize) -> Expr {
        let first = self.expression(choices, Kind::Float, depth);
        match choices.number(0..=6) {
            0 => first + self.expression(choices, Kind::Float, depth),
            1 => first - self.expression(choices, Kind::Float, depth),
            2 => first * self.expression(choices, Kind::Float, depth),
            3 => first / self.expression(choices, Kind::Float, depth),
            4 => cast(self.expression(choices, Kind::Integer, depth), DataType::Float64),
            5 => cast(first, choices.pick(&[DataType::Float64, DataType::Float32]).clone()),
            _ => expr_fn::floor(first),
        }
    }

    fn decimal(&self, choices: &mut Choices<'_>, depth: usize) -> Expr {
        let first = self.leaf(choices, Kind::Decimal);
        if !self.may_fail {
            return first;
        }
        match choices.number(0..=4) {
            0 => first + self.expression(choices, Kind::Decimal, depth),
            1 => first - self.expression(choices, Kind::Decimal, depth),
            2 => first * self.leaf(choices, Kind::Decimal),
            3 => first / self.leaf(choices, Kind::Decimal),
            _ => cast(self.expression(choices, Kind::Integer, depth), DataType::Decimal128(24, 2)),
        }
    }

    fn text(&self, choices: &mut Choices<'_>, depth: usize) -> Expr {
        let first = self.expression(choices, Kind::Text, depth);
        match choices.number(0..=6) {
            0 => expr_fn::upper(first),
            1 => expr_fn::lower(first),
            2 => expr_fn::concat(vec![first, self.leaf(choices, Kind::Text)]),
            3 => expr_fn::substr(first, lit(choices.number(1..=6) as i64)),
            4 => cast(self.expression(choices, Kind::Integer, depth), DataType::Utf8View),
            5 => expr_fn::btrim(vec![first]),
            _ => expr_fn::replace(first, lit("e"), self.leaf(choices, Kind::Text)),
        }
    }

    fn boolean(&self, choices: &mut Choices<'_>, depth: usize) -> Expr {
        match choices.number(0..=12) {
            0..=3 => self.comparison(choices, depth),
            11 | 12 => self.guarded_division(choices, depth),
            4 => self.expression(choices, Kind::Boolean, depth).and(self.expression(choices, Kind::Boolean, depth)),
            5 => self.expression(choices, Kind::Boolean, depth).or(self.expression(choices, Kind::Boolean, depth)),
            6 => not(self.expression(choices, Kind::Boolean, depth)),
            7 => {
                let kind = *choices.pick(&KINDS);
                let value = self.expression(choices, kind, depth);
                if choices.once_in(2) { value.is_not_null() } else { value.is_null() }
            }
            8 => {
                let kind = *choices.pick(&[Kind::Integer, Kind::Text, Kind::Float]);
                let list = (0..choices.number(1..=4)).map(|_| literal(choices, kind)).collect();
                in_list(self.expression(choices, kind, depth), list, choices.once_in(2))
            }
            9 => {
                let pattern = *choices.pick(&["a%", "%e%", "%k", "vie_", "_", "%", "same prefix%", "view"]);
                let text = self.expression(choices, Kind::Text, depth);
                if choices.once_in(3) { text.not_like(lit(pattern)) } else { text.like(lit(pattern)) }
            }
            _ => {
                let kind = *choices.pick(&[Kind::Integer, Kind::Float, Kind::Time, Kind::Decimal]);
                let (low, high) = (self.leaf(choices, kind), self.leaf(choices, kind));
                self.expression(choices, kind, depth).between(low, high)
            }
        }
    }

    /// A division that AND or OR keeps from failing.
    fn guarded_division(&self, choices: &mut Choices<'_>, depth: usize) -> Expr {
        let divisor = self.leaf(choices, Kind::Integer);
        let dividend = self.expression(choices, Kind::Integer, depth);
        let operator = *choices.pick(&[Operator::Divide, Operator::Modulo]);
        let quotient = binary_expr(dividend, operator, divisor.clone()).gt(literal(choices, Kind::Integer));
        if choices.once_in(2) {
            divisor.clone().is_not_null().and(divisor.gt(lit(0_i64))).and(quotient)
        } else {
            divisor.clone().is_null().or(divisor.lt_eq(lit(0_i64))).or(quotient)
        }
    }

    fn comparison(&self, choices: &mut Choices<'_>, depth: usize) -> Expr {
        use Operator::*;
        let kind = *choices.pick(&KINDS);
        let operator = *choices.pick(&[Gt, Eq, Lt, LtEq, GtEq, NotEq, IsDistinctFrom, IsNotDistinctFrom]);
        let coded = self.arrow.fields().iter().find(|field| matches!(field.data_type(), DataType::Dictionary(..)));
        if let Some(field) = coded.filter(|_| kind == Kind::Text) {
            return binary_expr(col(field.name().as_str()), operator, coded_literal(choices, field.data_type()));
        }
        let right = if choices.once_in(2) { literal(choices, kind) } else { self.expression(choices, kind, depth) };
        binary_expr(self.expression(choices, kind, depth), operator, right)
    }
}

/// A CASE, built without the checking builder: branches of different types are for coercion to bring together.
fn case(branches: Vec<(Expr, Expr)>, otherwise: Option<Expr>) -> Expr {
    let branches = branches.into_iter().map(|(when, then)| (Box::new(when), Box::new(then))).collect();
    Expr::Case(Case::new(None, branches, otherwise.map(Box::new)))
}

/// A string of a dictionary's type: planning compares codes with such literals.
fn coded_literal(choices: &mut Choices<'_>, data_type: &DataType) -> Expr {
    let (DataType::Dictionary(codes, _), Expr::Literal(text, _)) = (data_type, literal(choices, Kind::Text)) else {
        unreachable!("a coded column and a literal")
    };
    Expr::Literal(ScalarValue::Dictionary(codes.clone(), Box::new(text)), None)
}

fn literal(choices: &mut Choices<'_>, kind: Kind) -> Expr {
    let null = choices.once_in(20);
    match kind {
        _ if null && kind != Kind::Binary => {
            let data_type = match kind {
                Kind::Boolean => DataType::Boolean,
                Kind::Float => DataType::Float64,
                Kind::Text => DataType::Utf8View,
                Kind::Decimal => DataType::Decimal128(10, 2),
                Kind::Time => DataType::Timestamp(TimeUnit::Millisecond, None),
                Kind::Date => DataType::Date32,
                _ => DataType::Int64,
            };
            Expr::Literal(ScalarValue::try_from(&data_type).unwrap(), None)
        }
        Kind::Integer => match choices.number(0..=9) {
            8 => lit(*choices.pick(&[i64::MAX, i64::MIN])),
            9 => lit(*choices.pick(&[i32::MAX, i32::MIN])),
            small => lit(small as i64 - 1),
        },
        Kind::Float => lit(*choices.pick(&[0.5, 0.0, 1.0, -2.25, 1e300, -0.0, f64::NAN])),
        Kind::Boolean => lit(choices.once_in(2)),
        Kind::Text => {
            let strings = ["view", "", "a", "click", "same prefix, other end 2", "twelve bytes", "12", "abcd"];
            Expr::Literal(ScalarValue::Utf8View(Some((*choices.pick(&strings)).to_owned())), None)
        }
        Kind::Decimal => {
            let unscaled = *choices.pick(&[100, 0, -1, 12_345, 99_999]);
            Expr::Literal(ScalarValue::Decimal128(Some(unscaled), 5, 2), None)
        }
        Kind::Time => {
            let ticks = *choices.pick(&[0, 3, -1, 500, 86_400_000]);
            Expr::Literal(ScalarValue::TimestampMillisecond(Some(ticks), None), None)
        }
        Kind::Date => Expr::Literal(ScalarValue::Date32(Some(*choices.pick(&[0, 1, -1, 365]))), None),
        Kind::Binary => Expr::Literal(ScalarValue::BinaryView(Some(b"view".to_vec())), None),
    }
}
