//! The session's time zone: windows of instants (`TIMESTAMP_LTZ`) go by its clocks, as in Flink. What else would depend on it is refused.

use arrow::datatypes::DataType;
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, Result};
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{Cast, Expr, ExprSchemable, LogicalPlan, TryCast};
use pelton_data::clocked::Clocked;
use pelton_data::zone::Zone;

use super::context::external;
use super::diagnose::sql_name;
use super::lower::Lowering;
use crate::catalog::Catalog;
use crate::error::PlanError;
use crate::pipeline::Window;

/// The setting.
pub(crate) const LOCAL_TIME_ZONE: &str = "table.local-time-zone";

/// The time zone of a session, where it is not UTC.
pub(super) fn of_session(catalog: &Catalog) -> Option<Zone> {
    let (_, name) = catalog.settings().find(|(key, _)| *key == LOCAL_TIME_ZONE)?;
    Some(name).filter(|name| *name != "UTC").and_then(Zone::named)
}

impl Lowering<'_> {
    /// The windows by the clocks of the session's zone, where rows are cut by instants.
    pub(super) fn in_zone(&self, window: Window, time_type: &DataType) -> Result<Window> {
        let Some(zone) = self.draft.zone.filter(|_| is_instant(time_type)) else { return Ok(window) };
        if let Some(clocked) = Clocked::new(window, zone) {
            return Ok(Window::Clocked(clocked));
        }
        let construct = match window {
            Window::Session { .. } => format!("SESSION by instants in the time zone {}", zone.name()),
            _ => format!("windows of such lengths by the clocks of {}", zone.name()),
        };
        let hint = "TUMBLE by a length that divides half an hour, or by hours or days, HOP by one that divides half an hour, or by days, \
                    and CUMULATE by days, of which a zone must have left out none; or SET 'table.local-time-zone' = 'UTC'";
        Err(external(PlanError::unsupported(self.landmarks.window, construct, hint)))
    }

    /// Refuses what would have to be told what clocks show, besides windows.
    pub(super) fn check_zone(&self, plan: &LogicalPlan) -> Result<()> {
        let Some(zone) = self.draft.zone else { return Ok(()) };
        plan.apply(|node| {
            let schema = merge_schema(&node.inputs());
            for expression in node.expressions() {
                expression.apply(|part| {
                    self.check_part(part, &schema, zone)?;
                    Ok(TreeNodeRecursion::Continue)
                })?;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(())
    }

    fn check_part(&self, part: &Expr, schema: &DFSchema, zone: Zone) -> Result<()> {
        let refused = |construct: String| {
            let construct = format!("{construct} in the time zone {}", zone.name());
            let hint = "SET 'table.local-time-zone' = 'UTC'";
            Err(external(PlanError::unsupported(self.landmarks.query, construct, hint)))
        };
        match part {
            Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) => {
                let (from, to) = (expr.get_type(schema)?, part.get_type(schema)?);
                if is_instant(&from) && is_clock(&to) || is_clock(&from) && is_instant(&to) {
                    return refused(format!("a cast of {} to {}", sql_name(&from), sql_name(&to)));
                }
                Ok(())
            }
            Expr::ScalarFunction(call) if !NO_CLOCK.contains(&call.name()) => {
                let types = call.args.iter().map(|argument| argument.get_type(schema)).collect::<Result<Vec<_>>>()?;
                match types.iter().find(|data_type| is_instant(data_type)) {
                    Some(instant) => refused(format!("{} of {}", call.name().to_uppercase(), sql_name(instant))),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
}

/// Functions that only hand instants on, or make them of numbers.
const NO_CLOCK: [&str; 5] = ["cast_as", "coalesce", "greatest", "least", "nullif"];

fn is_instant(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(_, Some(_)))
}

/// Whether values are what clocks show.
fn is_clock(data_type: &DataType) -> bool {
    data_type.is_string() || matches!(data_type, DataType::Timestamp(_, None) | DataType::Date32 | DataType::Date64)
}
