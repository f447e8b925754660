//! What has to be a condition: DataFusion would make one of any value, where it does not refuse it, and take each number but 0 for true.

use arrow::datatypes::DataType;
use datafusion_common::Result;
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan};
use pelton_data::column::sql_name;

use crate::bind::foreign_types::place_in;
use crate::errors::{PlanError, external};

/// Refuses other values behind `FILTER (WHERE` and `CASE WHEN`, before types are made to agree.
pub(crate) fn check(plan: &LogicalPlan) -> Result<()> {
    plan.apply(|node| {
        let schema = merge_schema(&node.inputs());
        for expression in node.expressions() {
            expression.apply(|part| {
                for condition in conditions(part) {
                    let data_type = condition.get_type(&schema)?;
                    if !matches!(data_type, DataType::Boolean | DataType::Null) {
                        let found = sql_name(&data_type);
                        let message = format!("FILTER, CASE WHEN and IF need a condition, and this is {found}");
                        let error = PlanError::invalid(place_in(condition), message);
                        return Err(external(error.with_hint("compare it with something")));
                    }
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// The conditions of an expression. Some calls with a filter have been respelt as CASE.
fn conditions(expression: &Expr) -> Vec<&Expr> {
    match expression {
        Expr::AggregateFunction(call) => call.params.filter.as_deref().into_iter().collect(),
        Expr::WindowFunction(call) => call.params.filter.as_deref().into_iter().collect(),
        Expr::Case(case) if case.expr.is_none() => {
            case.when_then_expr.iter().map(|(condition, _)| condition.as_ref()).collect()
        }
        _ => Vec::new(),
    }
}
