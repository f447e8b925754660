//! Conditions of a join beside its keys: pairs that do not meet them are no matches.

use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema};
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DFSchema, Result, TableReference};
use datafusion_expr::Expr;
use datafusion_expr::utils::conjunction;
use pelton_data::join::Side;

use super::JoinParts;
use crate::coerce::simplify::simplify;
use crate::lower::aggregate::as_planned;
use crate::lower::physical::physical_expression;
use crate::lower::scope::column;
use crate::pipeline::Residual;

/// Qualifies the columns of each side's rows.
const QUALIFIERS: [&str; 2] = ["left", "right"];

/// The conditions, over the columns that rows are kept with; `None` where there are none.
pub(super) fn residual(parts: &mut JoinParts<'_>, conditions: Vec<Expr>) -> Result<Option<Residual>> {
    let Some(condition) = conjunction(conditions) else { return Ok(None) };
    let mut columns: Vec<(Side, usize)> = Vec::new();
    let bound = condition.transform_up(|part| {
        let Expr::Column(name) = &part else { return Ok(Transformed::no(part)) };
        let side = if parts.sides[0].planned.has_column(name) { Side::Left } else { Side::Right };
        let rows = &mut parts.sides[side.port()];
        let index = rows.planned.index_of_column(name)?;
        let kept = rows.planned_column(index)?;
        if !columns.contains(&(side, kept)) {
            columns.push((side, kept));
        }
        let held = rows.field(kept);
        let value = column(QUALIFIERS[side.port()], held.name());
        Ok(Transformed::yes(as_planned(value, held.data_type(), rows.planned.field(index))))
    })?;
    let fields: Vec<FieldRef> =
        columns.iter().map(|&(side, column)| parts.sides[side.port()].field(column).clone()).collect();
    let qualifiers = columns.iter().map(|(side, _)| Some(TableReference::bare(QUALIFIERS[side.port()])));
    let qualified = qualifiers.zip(fields.iter().cloned()).collect();
    let scope = Arc::new(DFSchema::new_with_metadata(qualified, Default::default())?);
    let predicate = physical_expression(&simplify(bound.data, &scope)?, &scope)?;
    Ok(Some(Residual { predicate, columns, schema: Arc::new(Schema::new(fields)) }))
}
