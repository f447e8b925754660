//! The session's time zone: windows of instants (`TIMESTAMP_LTZ`) go by its clocks, and so do casts and functions of instants, as in Flink.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{Cast, Expr, ExprSchemable, LogicalPlan, TryCast};
use pelton_data::column::sql_name;
use pelton_data::zone::Zone;

use crate::errors::{PlanError, external};

/// The plan, whose types agree, with casts and functions of instants by the clocks of a zone.
pub(crate) fn plan_in_zone(plan: LogicalPlan, zone: Option<Zone>) -> Result<LogicalPlan> {
    let Some(zone) = zone else { return Ok(plan) };
    let rewritten = plan.transform_up(|node| {
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        let node = node.map_expressions(|expression| {
            let name = names.save(&expression);
            let zoned = expression.transform_up(|part| part_in_zone(part, &schema, zone))?;
            Ok(zoned.update_data(|expression| name.restore(expression)))
        })?;
        if node.transformed { node.map_data(LogicalPlan::recompute_schema) } else { Ok(node) }
    });
    rewritten.map(|rewritten| rewritten.data)
}

/// The same for an expression.
pub(crate) fn expression_in_zone(expression: Expr, schema: &DFSchema, zone: Option<Zone>) -> Result<Expr> {
    let Some(zone) = zone else { return Ok(expression) };
    expression.transform_up(|part| part_in_zone(part, schema, zone)).map(|zoned| zoned.data)
}

/// A value as one of another type, by the clocks of a zone where one of the two is an instant.
pub(crate) fn cast_to_in_zone(value: Expr, to: &DataType, schema: &DFSchema, zone: Option<Zone>) -> Result<Expr> {
    match zone.filter(|_| value.get_type(schema).is_ok_and(|from| crosses(&from, to))) {
        Some(zone) => in_zone(value, to, false, zone),
        None => Ok(value),
    }
}

fn part_in_zone(part: Expr, schema: &DFSchema, zone: Zone) -> Result<Transformed<Expr>> {
    match part {
        Expr::Cast(Cast { expr, field }) if crosses(&expr.get_type(schema)?, field.data_type()) => {
            in_zone(*expr, field.data_type(), false, zone).map(Transformed::yes)
        }
        Expr::TryCast(TryCast { expr, field }) if crosses(&expr.get_type(schema)?, field.data_type()) => {
            in_zone(*expr, field.data_type(), true, zone).map(Transformed::yes)
        }
        Expr::ScalarFunction(call) => call_in_zone(call, schema, zone),
        other => Ok(Transformed::no(other)),
    }
}

fn call_in_zone(mut call: ScalarFunction, schema: &DFSchema, zone: Zone) -> Result<Transformed<Expr>> {
    let types = call.args.iter().map(|argument| argument.get_type(schema)).collect::<Result<Vec<_>>>()?;
    let name = call.name().to_string();
    let name = name.as_str();
    let Some(instant) = types.iter().find(|data_type| is_instant(data_type)) else {
        // What is read and written as text depends on the zone as well.
        let zoned = matches!(name, "from_unixtime" | "unix_timestamp");
        let zoned = zoned.then(|| pelton_functions::in_zone(name, call.args.clone(), &zone.to_string())).flatten();
        return Ok(zoned.map_or_else(|| Transformed::no(Expr::ScalarFunction(call)), Transformed::yes));
    };
    match (name, types.as_slice()) {
        ("cast_as" | "strict_cast_as" | "try_cast_as", [from, to]) => {
            if crosses(from, to) {
                let (is_try, to) = (name == "try_cast_as", to.clone());
                return in_zone(call.args.swap_remove(0), &to, is_try, zone).map(Transformed::yes);
            }
            Ok(Transformed::no(Expr::ScalarFunction(call)))
        }
        ("date_part" | "date_format" | "timestamp_to_string", _) => {
            for (argument, data_type) in call.args.iter_mut().zip(&types) {
                if let DataType::Timestamp(unit, Some(_)) = data_type {
                    *argument = in_zone(std::mem::take(argument), &DataType::Timestamp(*unit, None), false, zone)?;
                }
            }
            Ok(Transformed::yes(Expr::ScalarFunction(call)))
        }
        ("floor_to" | "ceil_to", _) => {
            let zoned = pelton_functions::in_zone(name, call.args, &zone.to_string());
            Ok(Transformed::yes(zoned.expect("rounding goes by clocks")))
        }
        ("length_between" | "timestampdiff" | "timestampdiff_micros", _) => {
            let mut is_changed = false;
            for (argument, data_type) in
                call.args.iter_mut().zip(&types).filter(|(_, of)| is_clock(of) && !of.is_string())
            {
                let unit = if let DataType::Timestamp(unit, _) = data_type { *unit } else { TimeUnit::Millisecond };
                let to = DataType::Timestamp(unit, Some("+00:00".into()));
                *argument = in_zone(std::mem::take(argument), &to, false, zone)?;
                is_changed = true;
            }
            Ok(Transformed::new_transformed(Expr::ScalarFunction(call), is_changed))
        }
        _ if !is_of_clocks(name) => Ok(Transformed::no(Expr::ScalarFunction(call))),
        _ => {
            let construct = format!("{} of {} in the time zone {zone}", name.to_uppercase(), sql_name(instant));
            let hint =
                "write CAST(instant AS TIMESTAMP(3)) for what clocks show, or SET 'table.local-time-zone' = 'UTC'";
            Err(external(PlanError::unsupported(None, construct, hint)))
        }
    }
}

/// DataFusion's functions of times, that Flink does not have: they go by clocks, which are UTC's.
fn is_of_clocks(function: &str) -> bool {
    matches!(function, "date_bin" | "date_trunc" | "to_char" | "to_date" | "to_local_time" | "to_time" | "to_unixtime")
        || function.starts_with("to_timestamp")
}

fn in_zone(value: Expr, to: &DataType, is_try: bool, zone: Zone) -> Result<Expr> {
    let target = Expr::Literal(ScalarValue::try_from(to)?, None);
    let cast = if is_try { pelton_functions::try_cast_in_zone } else { pelton_functions::cast_in_zone };
    Ok(cast(value, target, &zone.to_string()))
}

/// Whether a cast makes an instant of what clocks show, or the reverse, also of the parts of a value that becomes a text.
fn crosses(from: &DataType, to: &DataType) -> bool {
    is_instant(from) && is_clock(to) || is_clock(from) && is_instant(to) || has_instants(from) && to.is_string()
}

/// Whether a value is nested and has parts that are instants.
fn has_instants(data_type: &DataType) -> bool {
    let is_part = |part: &DataType| is_instant(part) || has_instants(part);
    match data_type {
        DataType::Struct(fields) => fields.iter().any(|field| is_part(field.data_type())),
        DataType::List(part) | DataType::Map(part, _) => is_part(part.data_type()),
        _ => false,
    }
}

pub(crate) fn is_instant(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(_, Some(_)))
}

/// Whether values are what clocks show.
fn is_clock(data_type: &DataType) -> bool {
    data_type.is_string() || matches!(data_type, DataType::Timestamp(_, None) | DataType::Date32 | DataType::Date64)
}
