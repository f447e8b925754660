//! DataFusion's physical expressions to nodes of a [`Graph`].
//!
//! What machine code cannot compute becomes a foreign column: the smallest number of largest such subexpressions,
//! evaluated by DataFusion before the call. A conditional expression one of whose conditional parts is foreign and may
//! fail is foreign as a whole, so that the part is looked at only for the rows that need it.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion_common::ScalarValue;
use datafusion_expr::Operator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::ScalarFunctionExpr;
use datafusion_physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, Literal as LiteralExpr,
    NegativeExpr, NotExpr, TryCastExpr,
};
use datafusion_physical_expr_common::physical_expr::is_volatile;

use pelton_data::column::VIEW_INLINE_LENGTH_MAX;
use pelton_data::time::ticks_per_second;

use super::convert::{Convert, conversion, flink_conversion, own_conversion};
use super::graph::{Arithmetic, Bounds, Conversion, Graph, Literal, Machine, Misfit, NodeId, Operation, Rounding};
use crate::interpret::expression::can_fail;
use crate::select::Comparison;

/// Longest IN list that is compared one by one.
const AMONG_MAX: usize = 32;

/// From the beginning of the year -262143 to the end of 262142, in seconds since 1970.
const CALENDAR_SECONDS: Bounds = Bounds { min: -8_334_601_228_800, max: 8_210_266_876_799 };

/// Translates the expressions of one pipeline.
#[derive(Debug)]
pub(crate) struct Translator {
    /// What has been translated.
    pub(crate) graph: Graph,
    /// The expressions that DataFusion evaluates.
    pub(crate) foreign: Vec<Arc<dyn PhysicalExpr>>,
    /// The pipeline's columns, as far as its steps have come.
    pub(crate) schema: Schema,
}

impl Translator {
    /// For a pipeline whose columns are `schema`.
    pub(crate) fn new(schema: Schema) -> Translator {
        Translator { graph: Graph::default(), foreign: Vec::new(), schema }
    }

    /// The node of an expression, foreign at worst; `None` where even so its values have no form in machine code.
    pub(crate) fn expression(&mut self, expression: &Arc<dyn PhysicalExpr>) -> Option<NodeId> {
        match self.compiled(expression) {
            Some(id) => Some(id),
            None => self.foreign(expression),
        }
    }

    /// The node of an expression that is not foreign itself, though its operands may be.
    pub(crate) fn compiled(&mut self, expression: &Arc<dyn PhysicalExpr>) -> Option<NodeId> {
        let any = expression;
        if let Some(column) = any.downcast_ref::<Column>() {
            let data_type = self.schema.field(column.index()).data_type().clone();
            return Graph::loads(&data_type)
                .then(|| self.graph.add(Operation::Column(column.index()), data_type, None))?;
        }
        if let Some(literal) = any.downcast_ref::<LiteralExpr>() {
            return self.constant(literal.value());
        }
        if let Some(binary) = any.downcast_ref::<BinaryExpr>() {
            return self.binary(binary, self.type_of(expression)?);
        }
        if let Some(not) = any.downcast_ref::<NotExpr>() {
            let operand = self.expression(not.arg())?;
            return self.boolean(Operation::Not(operand));
        }
        if let Some(is_null) = any.downcast_ref::<IsNullExpr>() {
            let operand = self.expression(is_null.arg())?;
            return self.boolean(Operation::IsNull(operand));
        }
        if let Some(is_not_null) = any.downcast_ref::<IsNotNullExpr>() {
            let operand = self.expression(is_not_null.arg())?;
            let is_null = self.boolean(Operation::IsNull(operand))?;
            return self.boolean(Operation::Not(is_null));
        }
        if let Some(negative) = any.downcast_ref::<NegativeExpr>() {
            return self.negative(negative.arg());
        }
        if let Some(cast) = any.downcast_ref::<CastExpr>() {
            let misfit = if cast.cast_options().safe { Misfit::Null } else { Misfit::Fails };
            return self.cast(cast.expr(), cast.cast_type(), misfit, conversion);
        }
        if let Some(cast) = any.downcast_ref::<TryCastExpr>() {
            return self.cast(cast.expr(), cast.cast_type(), Misfit::Null, conversion);
        }
        if let Some(case) = any.downcast_ref::<CaseExpr>() {
            return self.case(case, as_views(self.type_of(expression)?));
        }
        if let Some(in_list) = any.downcast_ref::<InListExpr>() {
            return self.in_list(in_list);
        }
        self.function(any.downcast_ref::<ScalarFunctionExpr>()?)
    }

    /// The type of an expression over the pipeline's columns.
    pub(crate) fn type_of(&self, expression: &Arc<dyn PhysicalExpr>) -> Option<DataType> {
        expression.data_type(&self.schema).ok()
    }

    fn boolean(&mut self, operation: Operation) -> Option<NodeId> {
        self.graph.add(operation, DataType::Boolean, None)
    }

    /// A column that DataFusion computes; `None` where its values have no form in machine code.
    pub(crate) fn foreign(&mut self, expression: &Arc<dyn PhysicalExpr>) -> Option<NodeId> {
        let data_type = self.type_of(expression)?;
        if !Graph::loads(&data_type) {
            return None;
        }
        let equal = |other: &Arc<dyn PhysicalExpr>| other.as_ref() == expression.as_ref();
        let known = if is_volatile(expression) { None } else { self.foreign.iter().position(equal) };
        let index = known.unwrap_or_else(|| {
            self.foreign.push(expression.clone());
            self.foreign.len() - 1
        });
        let id = self.graph.add(Operation::Foreign(index), data_type, None)?;
        if can_fail(expression, &self.schema).unwrap_or(true) {
            self.graph.mark_foreign_may_fail(id);
        }
        Some(id)
    }

    fn constant(&mut self, value: &ScalarValue) -> Option<NodeId> {
        let data_type = as_views(value.data_type());
        let literal = literal(value, &mut self.graph.strings)?;
        let bounds = match literal {
            Literal::Integer(value) => Some(Bounds { min: value, max: value }),
            _ => None,
        };
        self.graph.add(Operation::Constant(literal), data_type, bounds)
    }

    fn binary(&mut self, binary: &BinaryExpr, data_type: DataType) -> Option<NodeId> {
        use Operator::*;
        if !matches!(
            binary.op(),
            And | Or
                | Eq
                | NotEq
                | Lt
                | LtEq
                | Gt
                | GtEq
                | IsDistinctFrom
                | IsNotDistinctFrom
                | Plus
                | Minus
                | Multiply
                | Divide
                | Modulo
        ) {
            return None;
        }
        let left = self.expression(binary.left())?;
        let right = self.expression(binary.right())?;
        match binary.op() {
            And | Or if self.graph.node(right).foreign_may_fail => None,
            And => self.boolean(Operation::And(left, right)),
            Or => self.boolean(Operation::Or(left, right)),
            IsDistinctFrom | IsNotDistinctFrom => {
                self.can_be_equated(left, right).then_some(())?;
                let distinct = self.boolean(Operation::Distinct(left, right))?;
                match binary.op() {
                    IsDistinctFrom => Some(distinct),
                    _ => self.boolean(Operation::Not(distinct)),
                }
            }
            Eq => self.compare(Comparison::Equal, left, right),
            NotEq => self.compare(Comparison::NotEqual, left, right),
            Lt => self.compare(Comparison::Less, left, right),
            LtEq => self.compare(Comparison::LessOrEqual, left, right),
            Gt => self.compare(Comparison::Greater, left, right),
            GtEq => self.compare(Comparison::GreaterOrEqual, left, right),
            Plus => self.arithmetic(Arithmetic::Add, left, right, data_type),
            Minus => self.arithmetic(Arithmetic::Subtract, left, right, data_type),
            Multiply => self.arithmetic(Arithmetic::Multiply, left, right, data_type),
            Divide => self.arithmetic(Arithmetic::Divide, left, right, data_type),
            _ => self.arithmetic(Arithmetic::Remainder, left, right, data_type),
        }
    }

    /// Whether values of both nodes compare as machine values: the same type, and for strings one side a constant whose
    /// bytes are all in its view.
    fn can_be_equated(&self, left: NodeId, right: NodeId) -> bool {
        let (a, b) = (self.graph.node(left), self.graph.node(right));
        let short = |id| match self.graph.literal(id) {
            Some(Literal::View(view)) => view as u32 <= VIEW_INLINE_LENGTH_MAX,
            Some(Literal::Null) => true,
            _ => false,
        };
        match (&a.data_type, &b.data_type) {
            (DataType::Utf8View, DataType::Utf8View) => short(left) || short(right),
            (DataType::Timestamp(a, _), DataType::Timestamp(b, _)) => a == b,
            (DataType::Decimal128(_, a), DataType::Decimal128(_, b)) => a == b,
            (a, b) => a == b,
        }
    }

    /// As [`Self::can_be_equated`] where DataFusion compares with Arrow's kernels (IN, NULLIF, a CASE with a subject), which
    /// tell the zeros of floats apart: those are left to it.
    fn can_be_identified(&self, left: NodeId, right: NodeId) -> bool {
        !self.graph.node(left).data_type.is_floating() && self.can_be_equated(left, right)
    }

    fn compare(&mut self, comparison: Comparison, left: NodeId, right: NodeId) -> Option<NodeId> {
        let is_order = !matches!(comparison, Comparison::Equal | Comparison::NotEqual);
        if !self.can_be_equated(left, right) || is_order && self.graph.node(left).machine == Machine::View {
            return None;
        }
        self.boolean(Operation::Compare(comparison, left, right))
    }

    fn arithmetic(&mut self, operator: Arithmetic, left: NodeId, right: NodeId, data_type: DataType) -> Option<NodeId> {
        let (a, b) = (self.graph.node(left), self.graph.node(right));
        match (&a.data_type, &b.data_type) {
            (DataType::Decimal128(..), DataType::Decimal128(..)) => self.decimal(operator, left, right, data_type),
            (a_type, b_type) if *a_type != data_type || *b_type != data_type => None,
            (DataType::Float32 | DataType::Float64, _) => match operator {
                Arithmetic::Remainder => None,
                _ => self.graph.add(Operation::Arithmetic(operator, left, right), data_type, None),
            },
            (integer, _) if integer.is_integer() => {
                let exact = exact_bounds(operator, a.bounds?, b.bounds?);
                let bounds = exact.filter(|exact| Bounds::of(&data_type).is_some_and(|all| exact.fits(all)));
                self.graph.add(Operation::Arithmetic(operator, left, right), data_type, bounds)
            }
            _ => None,
        }
    }

    /// Decimals of 128 bits whose exact result always fits: Arrow checks for overflow, and so there is none to find.
    fn decimal(&mut self, operator: Arithmetic, left: NodeId, right: NodeId, data_type: DataType) -> Option<NodeId> {
        let (&DataType::Decimal128(_, a), &DataType::Decimal128(_, b)) =
            (&self.graph.node(left).data_type, &self.graph.node(right).data_type)
        else {
            return None;
        };
        let DataType::Decimal128(_, scale) = data_type else { return None };
        let (raise_left, raise_right) = match operator {
            Arithmetic::Multiply => (0, 0),
            Arithmetic::Divide => (scale - a + b, 0),
            _ => (a.max(b) - a, a.max(b) - b),
        };
        let left = self.raised(left, raise_left, scale)?;
        let right = self.raised(right, raise_right, scale)?;
        let bounds = exact_bounds(operator, self.graph.node(left).bounds?, self.graph.node(right).bounds?)?;
        if matches!(operator, Arithmetic::Divide | Arithmetic::Remainder) {
            let narrow = |id| self.graph.node(id).bounds.is_some_and(|bounds| bounds.fits(Bounds::I64));
            if !narrow(left) || !narrow(right) || !bounds.fits(Bounds::I64) {
                return None;
            }
        }
        self.graph.add(Operation::Arithmetic(operator, left, right), data_type, Some(bounds))
    }

    /// An operator on decimals whose types leave room for results that are none, where the values themselves do not.
    fn fitting_decimal(
        &mut self,
        operator: Arithmetic,
        left: &Arc<dyn PhysicalExpr>,
        right: &Arc<dyn PhysicalExpr>,
        data_type: DataType,
    ) -> Option<NodeId> {
        let (left, right) = (self.expression(left)?, self.expression(right)?);
        let (a, b) = (scale_of(&self.graph.node(left).data_type)?, scale_of(&self.graph.node(right).data_type)?);
        let exact_scale = if operator == Arithmetic::Multiply { a + b } else { a.max(b) };
        if scale_of(&data_type)? != exact_scale {
            return None;
        }
        let all = Bounds::of(&data_type)?;
        let result = self.decimal(operator, left, right, data_type)?;
        self.graph.node(result).bounds?.fits(all).then_some(result)
    }

    /// The decimal times ten to the `digits`, where that always fits 128 bits.
    fn raised(&mut self, value: NodeId, digits: i8, scale: i8) -> Option<NodeId> {
        if digits == 0 {
            return Some(value);
        }
        let multiplier = 10i128.checked_pow(u32::try_from(digits).ok()?)?;
        let bounds = self.graph.node(value).bounds?;
        let bounds = bounds.combine(Bounds { min: multiplier, max: multiplier }, i128::checked_mul)?;
        let conversion = Conversion::Scale { multiplier, check: None, misfit: Misfit::Fails };
        self.graph.add(Operation::Cast(conversion, value), DataType::Decimal128(38, scale), Some(bounds))
    }

    fn negative(&mut self, operand: &Arc<dyn PhysicalExpr>) -> Option<NodeId> {
        let operand = self.expression(operand)?;
        let node = self.graph.node(operand);
        let data_type = node.data_type.clone();
        let exact = node.bounds.and_then(|bounds| bounds.combine(bounds, |value, _| value.checked_neg()));
        let bounds = match &data_type {
            DataType::Float32 | DataType::Float64 => None,
            DataType::Decimal128(..) => Some(exact?),
            signed if signed.is_signed_integer() => {
                exact.filter(|exact| Bounds::of(signed).is_some_and(|all| exact.fits(all)))
            }
            _ => return None,
        };
        self.graph.add(Operation::Negate(operand), data_type, bounds)
    }

    fn cast(
        &mut self,
        operand: &Arc<dyn PhysicalExpr>,
        to: &DataType,
        misfit: Misfit,
        convert: Convert,
    ) -> Option<NodeId> {
        let operand = self.expression(operand)?;
        let node = self.graph.node(operand);
        if node.data_type == *to {
            return Some(operand);
        }
        if self.graph.literal(operand) == Some(Literal::Null) {
            return self.graph.add(Operation::Constant(Literal::Null), to.clone(), None);
        }
        let (conversion, bounds) = convert(node, to, misfit)?;
        self.graph.add(Operation::Cast(conversion, operand), to.clone(), bounds)
    }

    fn case(&mut self, case: &CaseExpr, data_type: DataType) -> Option<NodeId> {
        let subject = case.expr().map(|subject| self.expression(subject).ok_or(())).transpose().ok()?;
        let mut branches = Vec::new();
        for (when, then) in case.when_then_expr() {
            let mut condition = self.expression(when)?;
            if let Some(subject) = subject {
                self.can_be_identified(subject, condition).then_some(())?;
                condition = self.compare(Comparison::Equal, subject, condition)?;
            }
            branches.push((condition, self.typed(then, &data_type)?));
        }
        let otherwise = match case.else_expr() {
            Some(value) => Some(self.typed(value, &data_type)?),
            None => None,
        };
        let conditional = branches[1..].iter().map(|&(condition, _)| condition);
        let values = branches.iter().map(|&(_, value)| value).chain(otherwise);
        if conditional.chain(values).any(|id| self.graph.node(id).foreign_may_fail) {
            return None;
        }
        self.choice(branches, otherwise, data_type)
    }

    fn choice(
        &mut self,
        branches: Vec<(NodeId, NodeId)>,
        otherwise: Option<NodeId>,
        data_type: DataType,
    ) -> Option<NodeId> {
        let values = || branches.iter().map(|&(_, value)| value).chain(otherwise);
        let present = values().filter(|&id| self.graph.literal(id) != Some(Literal::Null));
        let bounds = present
            .map(|id| self.graph.node(id).bounds)
            .reduce(|a, b| Some(Bounds { min: a?.min.min(b?.min), max: a?.max.max(b?.max) }))
            .flatten();
        self.graph.add(Operation::Case(branches, otherwise), data_type, bounds)
    }

    /// An operand that must have the type of the whole.
    fn typed(&mut self, expression: &Arc<dyn PhysicalExpr>, data_type: &DataType) -> Option<NodeId> {
        let id = self.expression(expression)?;
        if self.graph.literal(id) == Some(Literal::Null) {
            return self.graph.add(Operation::Constant(Literal::Null), data_type.clone(), None);
        }
        (self.graph.node(id).data_type == *data_type).then_some(id)
    }

    fn in_list(&mut self, in_list: &InListExpr) -> Option<NodeId> {
        if in_list.len() > AMONG_MAX {
            return None;
        }
        let value = self.expression(in_list.expr())?;
        let mut list = Vec::new();
        for item in in_list.list() {
            let item = self.constant(item.downcast_ref::<LiteralExpr>()?.value())?;
            if self.graph.literal(item) != Some(Literal::Null) && !self.can_be_identified(value, item) {
                return None;
            }
            list.push(item);
        }
        let among = self.boolean(Operation::Among(value, list))?;
        if in_list.negated() { self.boolean(Operation::Not(among)) } else { Some(among) }
    }

    fn function(&mut self, function: &ScalarFunctionExpr) -> Option<NodeId> {
        let data_type = function.return_type().clone();
        match (function.name(), function.args()) {
            ("nullif", [value, other]) => {
                let (value, other) = (self.typed(value, &data_type)?, self.expression(other)?);
                let is_view = self.graph.node(value).machine == Machine::View;
                if is_view || !self.can_be_identified(value, other) {
                    return None;
                }
                let bounds = self.graph.node(value).bounds;
                self.graph.add(Operation::NullIf(value, other), data_type, bounds)
            }
            ("cast_as", [value, _]) => self.cast(value, &data_type, Misfit::Fails, flink_conversion),
            ("try_cast_as", [value, _]) => self.cast(value, &data_type, Misfit::Null, flink_conversion),
            ("strict_cast_as", [value, _]) => self.cast(value, &data_type, Misfit::Fails, own_conversion),
            ("decimal_add", [left, right]) => self.fitting_decimal(Arithmetic::Add, left, right, data_type),
            ("decimal_subtract", [left, right]) => self.fitting_decimal(Arithmetic::Subtract, left, right, data_type),
            ("decimal_multiply", [left, right]) => self.fitting_decimal(Arithmetic::Multiply, left, right, data_type),
            ("decimal_upper_half", [decimal]) => {
                let decimal = self.expression(decimal)?;
                let bounds = self.graph.node(decimal).bounds?;
                let bounds = Bounds { min: bounds.min >> 64, max: bounds.max >> 64 };
                self.graph.add(Operation::Cast(Conversion::UpperHalf, decimal), data_type, Some(bounds))
            }
            ("date_part", [field, time]) => {
                let Some(ScalarValue::Utf8(Some(field)) | ScalarValue::Utf8View(Some(field))) =
                    field.downcast_ref::<LiteralExpr>().map(LiteralExpr::value)
                else {
                    return None;
                };
                let (seconds, count) = match field.to_lowercase().as_str() {
                    "hour" => (3600, 24),
                    "minute" => (60, 60),
                    "second" => (1, 60),
                    _ => return None,
                };
                self.part_of_time(time, seconds, count, data_type)
            }
            _ => None,
        }
    }

    /// Which of `count` parts of `seconds` each, counted again and again from 1970, a timestamp lies in.
    fn part_of_time(
        &mut self,
        time: &Arc<dyn PhysicalExpr>,
        seconds: i64,
        count: i64,
        data_type: DataType,
    ) -> Option<NodeId> {
        let time = self.expression(time)?;
        let DataType::Timestamp(unit, zone) = &self.graph.node(time).data_type else { return None };
        if data_type != DataType::Int32 || zone.as_deref().is_some_and(|zone| !matches!(zone, "UTC" | "+00:00")) {
            return None;
        }
        let ticks = ticks_per_second(*unit);
        // Arrow knows no calendar beyond these, and gives NULL.
        let known = Bounds {
            min: CALENDAR_SECONDS.min * i128::from(ticks),
            max: (CALENDAR_SECONDS.max + 1) * i128::from(ticks) - 1,
        };
        let check = (!Bounds::I64.fits(known)).then_some(known);
        let checked = Conversion::Scale { multiplier: 1, check, misfit: Misfit::Null };
        let time = self.graph.add(Operation::Cast(checked, time), DataType::Int64, check)?;
        let part = self.floor_divided(time, ticks * seconds)?;
        let round = self.floor_divided(part, count)?;
        let count_node = self.constant(&ScalarValue::Int64(Some(count)))?;
        let before = Operation::Arithmetic(Arithmetic::Multiply, round, count_node);
        let before = self.graph.add(before, DataType::Int64, None)?;
        let within = Operation::Arithmetic(Arithmetic::Subtract, part, before);
        let bounds = Bounds { min: 0, max: i128::from(count) - 1 };
        let within = self.graph.add(within, DataType::Int64, Some(bounds))?;
        let (conversion, bounds) = conversion(self.graph.node(within), &data_type, Misfit::Fails)?;
        self.graph.add(Operation::Cast(conversion, within), data_type, bounds)
    }

    /// A 64-bit integer divided towards minus infinity.
    fn floor_divided(&mut self, dividend: NodeId, divisor: i64) -> Option<NodeId> {
        let bounds = self.graph.node(dividend).bounds?;
        let by = i128::from(divisor);
        let bounds = Bounds { min: bounds.min.div_euclid(by), max: bounds.max.div_euclid(by) };
        let rounding = Rounding::Floor;
        let floor = Conversion::Divide { divisor, rounding, check: None, misfit: Misfit::Fails };
        self.graph.add(Operation::Cast(floor, dividend), DataType::Int64, Some(bounds))
    }
}

/// The digits behind the point of a decimal.
fn scale_of(data_type: &DataType) -> Option<i8> {
    match data_type {
        DataType::Decimal128(_, scale) => Some(*scale),
        _ => None,
    }
}

/// The type with strings as views, the only form in which machine code has them.
fn as_views(data_type: DataType) -> DataType {
    if data_type == DataType::Utf8 { DataType::Utf8View } else { data_type }
}

/// Of the exact results, before any wrapping; `None` where they do not fit 128 bits.
fn exact_bounds(operator: Arithmetic, a: Bounds, b: Bounds) -> Option<Bounds> {
    match operator {
        Arithmetic::Add => a.combine(b, i128::checked_add),
        Arithmetic::Subtract => a.combine(b, i128::checked_sub),
        Arithmetic::Multiply => a.combine(b, i128::checked_mul),
        Arithmetic::Divide => {
            let largest = a.min.checked_abs()?.max(a.max.checked_abs()?);
            Some(Bounds { min: -largest, max: largest })
        }
        Arithmetic::Remainder => Some(Bounds { min: a.min.min(0), max: a.max.max(0) }),
    }
}

/// A constant in machine form. The bytes of long strings are appended to `strings`.
fn literal(value: &ScalarValue, strings: &mut Vec<u8>) -> Option<Literal> {
    use ScalarValue::*;
    if value.is_null() {
        return Some(Literal::Null);
    }
    Some(match value {
        Boolean(value) => Literal::Integer(i128::from((*value)?)),
        Int8(value) => Literal::Integer((*value)?.into()),
        Int16(value) => Literal::Integer((*value)?.into()),
        Int32(value) | Date32(value) => Literal::Integer((*value)?.into()),
        Int64(value)
        | TimestampSecond(value, _)
        | TimestampMillisecond(value, _)
        | TimestampMicrosecond(value, _)
        | TimestampNanosecond(value, _) => Literal::Integer((*value)?.into()),
        UInt8(value) => Literal::Integer((*value)?.into()),
        UInt16(value) => Literal::Integer((*value)?.into()),
        UInt32(value) => Literal::Integer((*value)?.into()),
        UInt64(value) => Literal::Integer((*value)?.into()),
        Decimal128(value, ..) => Literal::Integer((*value)?),
        Float32(value) => Literal::Float((*value)?.to_bits().into()),
        Float64(value) => Literal::Float((*value)?.to_bits()),
        Utf8(text) | Utf8View(text) => {
            let text = text.as_ref()?.as_bytes();
            let offset = strings.len() as u32;
            if text.len() > VIEW_INLINE_LENGTH_MAX as usize {
                strings.extend_from_slice(text);
            }
            Literal::View(arrow::array::make_view(text, 0, offset))
        }
        _ => return None,
    })
}
