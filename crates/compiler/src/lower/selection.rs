//! Predicates that precompiled primitives evaluate over whole blocks.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion_common::ScalarValue;
use datafusion_expr::Operator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use pelton_data::column::logical_type;

use super::linear::Linear;
use crate::select::{Comparison, Selector, between, number};

/// The column and the test of a predicate over one column; `None` where no primitive knows it.
pub(crate) fn selector(predicate: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<(usize, Selector)> {
    let data_type = |column: usize| schema.field(column).data_type();
    if let Some(column) = column(predicate, schema) {
        return (*data_type(column) == DataType::Boolean).then(|| (column, Selector::boolean(true)));
    }
    if let Some(not) = predicate.downcast_ref::<NotExpr>() {
        let column = column(not.arg(), schema)?;
        return (*data_type(column) == DataType::Boolean).then(|| (column, Selector::boolean(false)));
    }
    if let Some(is_null) = predicate.downcast_ref::<IsNullExpr>() {
        return Some((column(is_null.arg(), schema)?, Selector::null(true)));
    }
    if let Some(is_not_null) = predicate.downcast_ref::<IsNotNullExpr>() {
        return Some((column(is_not_null.arg(), schema)?, Selector::null(false)));
    }
    if let Some(like) = predicate.downcast_ref::<LikeExpr>() {
        let column = column(like.expr(), schema)?;
        let prefix = string(like.pattern().downcast_ref::<Literal>()?.value())?.strip_suffix('%')?;
        let is_plain = !like.case_insensitive() && !prefix.contains(['%', '_', '\\']);
        let selector = is_plain.then(|| Selector::prefix(data_type(column), prefix, like.negated()))?;
        return Some((column, selector?));
    }
    if let Some(in_list) = predicate.downcast_ref::<InListExpr>() {
        let column = column(in_list.expr(), schema)?;
        let list: Option<Vec<_>> = in_list.list().iter().map(|item| item.downcast_ref().map(Literal::value)).collect();
        return Some((column, Selector::among(data_type(column), list?, in_list.negated())?));
    }
    let binary = predicate.downcast_ref::<BinaryExpr>()?;
    if *binary.op() == Operator::Or {
        let ((left_column, left), (right_column, right)) =
            (selector(binary.left(), schema)?, selector(binary.right(), schema)?);
        return (left_column == right_column).then(|| left.or(right).map(|either| (left_column, either)))?;
    }
    let comparison = comparison(binary.op())?;
    let (subject, comparison, constant) =
        match (binary.left().downcast_ref::<Literal>(), binary.right().downcast_ref::<Literal>()) {
            (None, Some(constant)) => (binary.left(), comparison, constant.value()),
            (Some(constant), None) => (binary.right(), comparison.exchanged(), constant.value()),
            _ => return None,
        };
    if let Some(column) = column(subject, schema) {
        return Some((column, Selector::compare(data_type(column), comparison, constant)?));
    }
    remainder(subject, comparison, constant, schema).or_else(|| linear(subject, comparison, constant, schema))
}

/// `column % constant` that equals a constant or does not; the column may be widened first.
fn remainder(
    subject: &Arc<dyn PhysicalExpr>,
    comparison: Comparison,
    constant: &ScalarValue,
    schema: &Schema,
) -> Option<(usize, Selector)> {
    let negate = match comparison {
        Comparison::Equal => false,
        Comparison::NotEqual => true,
        _ => return None,
    };
    let subject_type = subject.data_type(schema).ok()?;
    let binary = subject.downcast_ref::<BinaryExpr>().filter(|binary| *binary.op() == Operator::Modulo)?;
    if !subject_type.is_signed_integer() {
        return None;
    }
    let Linear { column, factor: 1, addend: 0 } = Linear::of(binary.left(), schema)? else { return None };
    let divisor = number(&subject_type, binary.right().downcast_ref::<Literal>()?.value())?;
    let remainder = number(&subject_type, constant)?;
    let (divisor, remainder) = (i64::try_from(divisor).ok()?, i64::try_from(remainder).ok()?);
    Some((column, Selector::remainder(schema.field(column).data_type(), divisor, remainder, negate)?))
}

/// A multiple of a column plus a constant, compared with a constant.
fn linear(
    subject: &Arc<dyn PhysicalExpr>,
    comparison: Comparison,
    constant: &ScalarValue,
    schema: &Schema,
) -> Option<(usize, Selector)> {
    let linear = Linear::of(subject, schema)?;
    let data_type = schema.field(linear.column).data_type();
    let (range, negate) = between(comparison, number(&subject.data_type(schema).ok()?, constant)?);
    let range = range.map(|range| linear.preimage(range));
    Some((linear.column, Selector::ranges(data_type, range.as_slice(), negate)?))
}

/// The column that an expression is, dictionary-coded strings that are cast to strings included.
fn column(expression: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<usize> {
    if let Some(cast) = expression.downcast_ref::<CastExpr>() {
        let inner = cast.expr().downcast_ref::<Column>()?.index();
        let own = schema.field(inner).data_type();
        let is_decoding = matches!(own, DataType::Dictionary(..)) && logical_type(own) == cast.cast_type();
        return is_decoding.then_some(inner);
    }
    expression.downcast_ref::<Column>().map(Column::index)
}

fn string(value: &ScalarValue) -> Option<&str> {
    match value {
        ScalarValue::Utf8(text) | ScalarValue::Utf8View(text) => text.as_deref(),
        _ => None,
    }
}

fn comparison(operator: &Operator) -> Option<Comparison> {
    Some(match operator {
        Operator::Eq => Comparison::Equal,
        Operator::NotEq => Comparison::NotEqual,
        Operator::Lt => Comparison::Less,
        Operator::LtEq => Comparison::LessOrEqual,
        Operator::Gt => Comparison::Greater,
        Operator::GtEq => Comparison::GreaterOrEqual,
        _ => return None,
    })
}
