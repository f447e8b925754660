//! Physical expressions over the columns of a pipeline.

use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion_common::{DFSchema, Result, TableReference};
use datafusion_expr::Expr;
use datafusion_expr::execution_props::ExecutionProps;
use datafusion_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion_physical_expr::{PhysicalExpr, create_physical_expr};

use super::scope::INPUT;

pub(crate) fn scope_of(input: &[FieldRef], looked_up: &[(String, Vec<FieldRef>)]) -> Result<DFSchema> {
    let qualified = |qualifier: &str, field: &FieldRef| (Some(TableReference::bare(qualifier)), field.clone());
    let mut fields: Vec<_> = input.iter().map(|field| qualified(INPUT, field)).collect();
    for (qualifier, added) in looked_up {
        fields.extend(added.iter().map(|field| qualified(qualifier, field)));
    }
    DFSchema::new_with_metadata(fields, Default::default())
}

pub(crate) fn physical_expression(expression: &Expr, scope: &DFSchema) -> Result<Arc<dyn PhysicalExpr>> {
    create_physical_expr(expression, scope, &ExecutionProps::new(), &PhysicalPlanningContext::default())
}
