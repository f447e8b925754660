//! Names of columns within a branch: which stream, lookup or window function a column comes from.

use std::collections::BTreeSet;

use arrow::datatypes::{DataType, Field};
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, DFSchema, Result, ScalarValue, TableReference};
use datafusion_expr::{Cast, Expr, ExprSchemable};
use pelton_data::column::{is_nested, logical_type};
use pelton_functions::{fit_nested, is_flink_cast, is_own_cast, strict_cast_as, strict_cast_literal};

use crate::errors::{PlanError, external};

/// Qualifies columns of the stream that a branch reads.
pub(crate) const INPUT: &str = "input";

/// Qualifies the columns of a window function before its windows are grouped by.
pub(crate) const WINDOW: &str = "window";

/// The column of a branch's input that says how its rows came, where rows that an order does not tell apart stand so.
pub(crate) const ARRIVAL: &str = "$arrival";

/// The column of a loaded table that numbers its rows.
pub(crate) const ROW: &str = "$row";

/// Qualifies the columns that a lookup added.
pub(crate) fn lookup_qualifier(table: usize) -> String {
    format!("lookup{table}")
}

/// Qualifies the columns that a flat map added.
pub(crate) fn flat_map_qualifier(number: usize) -> String {
    format!("flat{number}")
}

/// A column of a scope.
pub(crate) fn column(qualifier: &str, name: &str) -> Expr {
    Expr::Column(Column::new(Some(TableReference::bare(qualifier)), name))
}

/// The column with this qualifier that an expression is.
pub(crate) fn column_of<'e>(expression: &'e Expr, qualifier: &str) -> Option<&'e Column> {
    match expression {
        Expr::Column(column) => Some(column).filter(|column| is_of(column, qualifier)),
        _ => None,
    }
}

/// Whether a column has this qualifier.
pub(crate) fn is_of(column: &Column, qualifier: &str) -> bool {
    column.relation.as_ref().is_some_and(|relation| relation.table() == qualifier)
}

/// Adds the names of the columns with this qualifier that expressions read.
pub(crate) fn add_columns_of<'e>(
    qualifier: &str,
    expressions: impl IntoIterator<Item = &'e Expr>,
    names: &mut BTreeSet<String>,
) {
    for expression in expressions {
        let columns = expression.column_refs().into_iter().filter(|column| is_of(column, qualifier));
        names.extend(columns.map(|column| column.name.clone()));
    }
}

/// A column as SQL sees it: a dictionary of strings is cast to strings, which later vanishes wherever codes serve as well.
pub(crate) fn sql_level(column: Expr, field: &Field) -> Expr {
    match logical_type(field.data_type()) {
        same if same == field.data_type() => column,
        other => Expr::Cast(Cast::new(Box::new(column), other.clone())),
    }
}

/// Parts of an expression over a stream. One that reads a computed column twice has that twice, and views over views double it each time.
const PARTS_MAX: usize = 100_000;

/// An expression over the columns that `schema` describes, in terms of what these are computed from. Names go.
pub(crate) fn substitute(expression: Expr, schema: &DFSchema, columns: &[Expr]) -> Result<Expr> {
    let mut parts = 0;
    let replaced = expression.transform_up(|node| {
        Ok(match node {
            Expr::Column(column) => {
                let value = &columns[schema.index_of_column(&column)?];
                value.apply(|_| {
                    parts += 1;
                    Ok(TreeNodeRecursion::Continue)
                })?;
                if parts > PARTS_MAX {
                    let construct = format!(
                        "{}, which is computed from computed columns more than {PARTS_MAX} times over,",
                        column.name
                    );
                    let hint = "INSERT what an inner view computes into a table, and read that";
                    return Err(external(PlanError::unsupported(None, construct, hint)));
                }
                Transformed::yes(value.clone())
            }
            Expr::Alias(alias) => Transformed::yes(*alias.expr),
            other => Transformed::no(other),
        })
    })?;
    Ok(replaced.data)
}

/// `expression` as a value of `data_type`. A cast that only changed how a string is laid out is taken back; one to coarser times leaves out what is finer, as
/// casts that a query asks for do.
pub(crate) fn cast_to(expression: Expr, data_type: &DataType, scope: &DFSchema) -> Result<Expr> {
    let own_type = expression.get_type(scope)?;
    if own_type == *data_type {
        return Ok(expression);
    }
    if is_nested(data_type) {
        let target = Expr::Literal(ScalarValue::try_from(data_type)?, None);
        return Ok(if own_type.is_null() { target } else { fit_nested(expression, target) });
    }
    // Nobody asked for this cast: what does not fit is an error, also where a query's own cast would make something else of it.
    if is_own_cast(&own_type, data_type) || is_flink_cast(&own_type, data_type) {
        return Ok(match expression {
            Expr::Literal(value, _) => Expr::Literal(strict_cast_literal(&value, data_type)?, None),
            computed => strict_cast_as(computed, Expr::Literal(ScalarValue::try_from(data_type)?, None)),
        });
    }
    if let Expr::Cast(cast) = &expression
        && *data_type == DataType::Utf8View
        && matches!(cast.field.data_type(), DataType::Utf8 | DataType::LargeUtf8)
        && cast.expr.get_type(scope)? == *data_type
    {
        return Ok(cast.expr.as_ref().clone());
    }
    Ok(Expr::Cast(Cast::new(Box::new(expression), data_type.clone())))
}

/// The column under the cast that [`sql_level`] put over a dictionary of strings.
pub(crate) fn without_dictionary_cast(expression: Expr, scope: &DFSchema) -> Result<Expr> {
    if let Expr::Cast(cast) = &expression
        && matches!(cast.expr.as_ref(), Expr::Column(_))
        && matches!(cast.expr.get_type(scope)?, DataType::Dictionary(..))
    {
        return Ok(cast.expr.as_ref().clone());
    }
    Ok(expression)
}
