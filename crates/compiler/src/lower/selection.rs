//! Predicates that precompiled primitives evaluate over whole blocks.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion_common::ScalarValue;
use datafusion_expr::Operator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use pelton_data::column::logical_type;

use crate::select::{Comparison, Selector};

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
    let binary = predicate.downcast_ref::<BinaryExpr>()?;
    let comparison = comparison(binary.op())?;
    let (subject, comparison, constant) =
        match (binary.left().downcast_ref::<Literal>(), binary.right().downcast_ref::<Literal>()) {
            (None, Some(constant)) => (binary.left(), comparison, constant),
            (Some(constant), None) => (binary.right(), comparison.exchanged(), constant),
            _ => return None,
        };
    let column = column(subject, schema)?;
    Some((column, Selector::compare(data_type(column), comparison, constant.value())?))
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
