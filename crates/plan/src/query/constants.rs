//! What is constant in a call, and wrong for every row: it is refused where it is written, before there is a row.

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::Schema;
use datafusion_common::DFSchema;
use sqlparser::ast::{Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, UnaryOperator, Value};

use super::context::Context;
use super::finish::physical_expression;
use super::rephrase::in_sql_terms;
use crate::error::{Place, PlanError};

/// Checks the pattern, or the path, that stands second in a call of a function by its own name.
pub(super) fn check_pattern(name: &str, call: &Function) -> Result<(), PlanError> {
    let arguments = arguments(call);
    let Some(Expr::Value(literal)) = arguments.get(1) else { return Ok(()) };
    let Value::SingleQuotedString(text) = &literal.value else { return Ok(()) };
    let refuse =
        |message: String, hint: &str| Err(PlanError::invalid(Place::of(literal.span), message).with_hint(hint));
    match name {
        "date_format" | "from_unixtime" | "to_date" | "to_timestamp" | "unix_timestamp" => {
            match pelton_functions::time_pattern_error(text) {
                Some(error) => {
                    let (message, hint) =
                        error.split_once("; ").unwrap_or((&error, "write one such as 'yyyy-MM-dd HH:mm:ss'"));
                    refuse(message.to_string(), hint)
                }
                None => Ok(()),
            }
        }
        "regexp_count" | "regexp_extract" | "regexp_instr" | "regexp_like" | "regexp_match" | "regexp_replace" => {
            let Err(error) = regex::Regex::new(text) else { return Ok(()) };
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
            let hint = "write a backslash before a letter such as ( [ * + ? that stands for itself";
            refuse(format!("'{text}' is no regular expression: {reason}"), hint)
        }
        "json_exists" | "json_value" if !pelton_functions::is_json_path(text) => {
            refuse(format!("'{text}' is no path into JSON"), "write one such as '$.a.b[0]'")
        }
        _ => Ok(()),
    }
}

/// Refuses a call of literals alone that has no value, and would fail for the first row.
pub(super) fn check_value(call: &Function, context: &Context<'_>, place: Option<Place>) -> Result<(), PlanError> {
    let arguments = arguments(call);
    if arguments.is_empty() || !arguments.iter().all(|argument| is_literal(argument)) {
        return Ok(());
    }
    let columns = DFSchema::empty();
    // What cannot be planned is told when the whole query is.
    let Ok(planned) = context.plan_expression(&Expr::Function(call.clone()), &columns) else { return Ok(()) };
    if matches!(planned, datafusion_expr::Expr::Literal(..)) || planned.is_volatile() {
        return Ok(());
    }
    let Ok(expression) = physical_expression(&planned, &columns) else { return Ok(()) };
    let one_row = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Schema::empty().into(), Vec::new(), &one_row);
    match row.map(|row| expression.evaluate(&row)) {
        Ok(Err(error)) => {
            let (message, name) = (in_sql_terms(&error.message()), call.name.to_string().to_uppercase());
            Err(PlanError::invalid(place, format!("this call of {name} has no value: {message}"))
                .with_hint("change its arguments"))
        }
        _ => Ok(()),
    }
}

fn arguments(call: &Function) -> Vec<&Expr> {
    let FunctionArguments::List(list) = &call.args else { return Vec::new() };
    let arguments = list.args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expression)) => Some(expression),
        _ => None,
    });
    arguments.collect::<Option<_>>().unwrap_or_default()
}

fn is_literal(expression: &Expr) -> bool {
    match expression {
        Expr::Value(_) | Expr::TypedString(_) => true,
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } | Expr::Nested(expr) => is_literal(expr),
        _ => false,
    }
}
