//! Casts in arguments of functions get names. DataFusion's names of columns leave casts out, so that `SUM(v)` and `SUM(CAST(v AS DOUBLE))`
//! would be two columns of one name.

use datafusion_common::Result;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::Expr;
use datafusion_expr::planner::{ExprPlanner, PlannerResult, RawAggregateExpr, RawWindowExpr};

/// Names them where a query's text is planned.
#[derive(Debug)]
pub(crate) struct NamedCasts;

impl ExprPlanner for NamedCasts {
    fn plan_aggregate(&self, mut call: RawAggregateExpr) -> Result<PlannerResult<RawAggregateExpr>> {
        name_casts(&mut call.args);
        call.order_by.iter_mut().for_each(|key| name_casts(std::slice::from_mut(&mut key.expr)));
        Ok(PlannerResult::Original(call))
    }

    fn plan_window(&self, mut call: RawWindowExpr) -> Result<PlannerResult<RawWindowExpr>> {
        name_casts(&mut call.args);
        Ok(PlannerResult::Original(call))
    }
}

/// The same expression with names for the casts in arguments of aggregate functions and functions OVER rows.
pub(crate) fn with_named_casts(expression: Expr) -> Result<Expr> {
    let named = expression.transform_up(|part| match part {
        Expr::AggregateFunction(mut call) => {
            name_casts(&mut call.params.args);
            Ok(Transformed::yes(Expr::AggregateFunction(call)))
        }
        Expr::WindowFunction(mut call) => {
            name_casts(&mut call.params.args);
            Ok(Transformed::yes(Expr::WindowFunction(call)))
        }
        other => Ok(Transformed::no(other)),
    });
    named.map(|named| named.data)
}

fn name_casts(arguments: &mut [Expr]) {
    for argument in arguments {
        let has_cast = argument.exists(|part| Ok(matches!(part, Expr::Cast(_) | Expr::TryCast(_))));
        if has_cast.expect("nothing fails in looking") {
            let name = argument.to_string();
            *argument = std::mem::take(argument).alias(name);
        }
    }
}
