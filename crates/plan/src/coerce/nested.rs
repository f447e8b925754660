//! Parts of nested values: `row.field`, `array[index]`, `map[key]`.

use arrow::datatypes::Field;
use datafusion_common::{Column, DFSchema, Result, TableReference};
use datafusion_expr::planner::{ExprPlanner, PlannerResult, RawFieldAccessExpr};
use datafusion_expr::{Expr, GetFieldAccess, lit};
use pelton_functions::{field as row_field, item};

/// Plans them as calls of a function, which knows of which type the value is.
#[derive(Debug)]
pub(crate) struct NestedParts;

impl ExprPlanner for NestedParts {
    fn plan_compound_identifier(
        &self,
        field: &Field,
        qualifier: Option<&TableReference>,
        nested_names: &[String],
    ) -> Result<PlannerResult<Vec<Expr>>> {
        let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
        let part = nested_names.iter().fold(column, |value, name| row_field(value, lit(name.as_str())));
        Ok(PlannerResult::Planned(part))
    }

    fn plan_field_access(
        &self,
        access: RawFieldAccessExpr,
        _schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        let RawFieldAccessExpr { expr, field_access } = access;
        Ok(match field_access {
            GetFieldAccess::NamedStructField { name } => PlannerResult::Planned(row_field(expr, lit(name))),
            GetFieldAccess::ListIndex { key } => PlannerResult::Planned(item(expr, *key)),
            range => PlannerResult::Original(RawFieldAccessExpr { expr, field_access: range }),
        })
    }
}
