//! Arithmetic on decimals, and aggregates of numbers, with the types that they have in Flink.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::{DFSchema, Result, internal_err};
use datafusion_expr::function::AccumulatorArgs;
use datafusion_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, ExprSchemable, Operator, Signature, binary_expr, cast, not,
};
use pelton_functions::decimal::{DIGITS_MAX, Digits, arithmetic, comparison};
use sqlparser::ast::BinaryOperator;

/// Digits of an INT.
const INT_DIGITS: u8 = 10;

/// Digits of a BIGINT.
pub(crate) const BIGINT_DIGITS: u8 = 19;

/// Digits behind the point that a mean has at least.
const MEAN_SCALE_MIN: i8 = 6;

/// `left operator right` where one of them is a decimal and the other a whole number or a decimal as well; `None` for all else.
pub(crate) fn decimal_arithmetic(operator: Operator, (left, right): (&Expr, &Expr), schema: &DFSchema) -> Option<Expr> {
    let (left, right) = decimals((left, right), schema)?;
    arithmetic(operator, left, right)
}

/// The same of comparisons that no common type has room for. Columns of several tables are compared as the others are where they must be equal, because joins look
/// for equal values.
pub(crate) fn decimal_comparison(operator: Operator, (left, right): (&Expr, &Expr), schema: &DFSchema) -> Option<Expr> {
    let (decimal_left, decimal_right) = decimals((left, right), schema)?;
    let compared = comparison(operator, decimal_left, decimal_right)?;
    let tables =
        |side: &Expr| side.column_refs().into_iter().map(|column| column.relation.clone()).collect::<HashSet<_>>();
    let (left, right) = (tables(left), tables(right));
    let joins = operator == Operator::Eq && !left.is_empty() && !right.is_empty() && left != right;
    (!joins).then_some(compared)
}

/// `BETWEEN` and `IN` of decimals, put together from comparisons where one of these has no room.
pub(crate) fn decimal_range(expression: &Expr, schema: &DFSchema) -> Option<Expr> {
    let compare = |operator, value: &Expr, other: &Expr| {
        let exact = decimal_comparison(operator, (value, other), schema);
        (exact.is_some(), exact.unwrap_or_else(|| binary_expr(value.clone(), operator, other.clone())))
    };
    let (parts, joined, negated): (Vec<(bool, Expr)>, _, _) = match expression {
        Expr::Between(between) => {
            let [low, high] = [(Operator::GtEq, &between.low), (Operator::LtEq, &between.high)]
                .map(|(operator, bound)| compare(operator, &between.expr, bound));
            (vec![low, high], Operator::And, between.negated)
        }
        Expr::InList(list) => {
            let equal = list.list.iter().map(|value| compare(Operator::Eq, &list.expr, value));
            (equal.collect(), Operator::Or, list.negated)
        }
        _ => return None,
    };
    if !parts.iter().any(|(is_exact, _)| *is_exact) {
        return None;
    }
    let all = parts.into_iter().map(|(_, part)| part).reduce(|left, right| binary_expr(left, joined, right))?;
    Some(if negated { not(all) } else { all })
}

/// Two operands as decimals, with their digits, where one of them is a decimal and the other a whole number or a decimal as well.
fn decimals((left, right): (&Expr, &Expr), schema: &DFSchema) -> Option<((Expr, Digits), (Expr, Digits))> {
    let typed = |operand: &Expr| {
        let data_type = operand.get_type(schema).ok()?;
        let digits = digits_of(&data_type)?;
        let decimal = DataType::Decimal128(digits.0, digits.1);
        let is_decimal = data_type == decimal;
        let operand = if is_decimal { operand.clone() } else { cast(operand.clone(), decimal) };
        Some((is_decimal, (operand, digits)))
    };
    let ((left_is_decimal, left), (right_is_decimal, right)) = (typed(left)?, typed(right)?);
    (left_is_decimal || right_is_decimal).then_some((left, right))
}

/// Plans products of decimals that have more digits behind the point than a decimal has in all: DataFusion, which gives them a type as it plans them,
/// has none for these.
#[derive(Debug)]
pub(crate) struct LongProducts;

impl ExprPlanner for LongProducts {
    fn plan_binary_op(&self, call: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let scale = |operand: &Expr| match operand.get_type(schema) {
            Ok(DataType::Decimal128(_, scale)) => i16::from(scale),
            _ => 0,
        };
        let product = (call.op == BinaryOperator::Multiply
            && scale(&call.left) + scale(&call.right) > i16::from(DIGITS_MAX))
        .then(|| decimal_arithmetic(Operator::Multiply, (&call.left, &call.right), schema));
        Ok(product.flatten().map_or(PlannerResult::Original(call), PlannerResult::Planned))
    }
}

/// How many digits a number has as a decimal.
fn digits_of(data_type: &DataType) -> Option<Digits> {
    Some(match data_type {
        DataType::Decimal128(precision, scale) => (*precision, *scale),
        DataType::Int8 | DataType::UInt8 => (3, 0),
        DataType::Int16 | DataType::UInt16 => (5, 0),
        DataType::Int32 | DataType::UInt32 => (INT_DIGITS, 0),
        DataType::Int64 => (BIGINT_DIGITS, 0),
        DataType::UInt64 => (BIGINT_DIGITS + 1, 0),
        _ => return None,
    })
}

/// A sum, mean, variance or standard deviation with Flink's type, where DataFusion has another: that of its argument, and of decimals one with all digits.
pub(crate) fn typed_aggregate(
    function: &AggregateUDF,
    arguments: &[Expr],
    schema: &DFSchema,
) -> Option<Arc<AggregateUDF>> {
    let scale_min = match function.name() {
        "sum" => i8::MIN,
        "avg" | "var" | "var_pop" | "stddev" | "stddev_pop" => MEAN_SCALE_MIN,
        _ => return None,
    };
    // A wrong number of arguments is the function's to refuse.
    let [argument] = arguments else { return None };
    let data_type = match argument.get_type(schema).ok()? {
        DataType::Decimal128(_, scale) => DataType::Decimal128(DIGITS_MAX, scale.max(scale_min)),
        same if same.is_signed_integer() || same == DataType::Float32 => same,
        _ => return None,
    };
    let inner = function.inner().clone();
    let signature = match data_type.is_integer() {
        true => Signature::user_defined(inner.signature().volatility),
        false => inner.signature().clone(),
    };
    Some(Arc::new(AggregateUDF::new_from_impl(Typed { inner, signature, data_type })))
}

/// An aggregate function of DataFusion with another type.
#[derive(Debug)]
struct Typed {
    inner: Arc<dyn AggregateUDFImpl>,
    /// That of the function, but for integers, which stay what they are.
    signature: Signature,
    data_type: DataType,
}

impl PartialEq for Typed {
    fn eq(&self, other: &Typed) -> bool {
        self.inner.name() == other.inner.name() && self.data_type == other.data_type
    }
}

impl Eq for Typed {}

impl Hash for Typed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.name().hash(state);
        self.data_type.hash(state);
    }
}

impl AggregateUDFImpl for Typed {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if self.data_type.is_integer() { Ok(types.to_vec()) } else { self.inner.coerce_types(types) }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.data_type.clone())
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        internal_err!("windows compute aggregates, not DataFusion")
    }
}
