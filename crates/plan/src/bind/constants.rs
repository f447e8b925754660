//! What is constant in a call, and wrong for every row: it is refused where it is written, before there is a row.

use std::ops::ControlFlow;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::Schema;
use datafusion_common::DFSchema;
use datafusion_expr::planner::ContextProvider;
use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Spanned, UnaryOperator, Value, Visit, Visitor,
};

use crate::bind::context::Context;
use crate::bind::syntax_parts::parts;
use crate::errors::rephrase::in_sql_terms;
use crate::errors::{Place, PlanError, rephrase};
use crate::lower::physical::physical_expression;
use crate::parse::{BASE64_PADDED, written_name};

/// Checks the pattern, or the path, that stands second in a call of a function by its own name.
pub(crate) fn check_pattern(name: &str, call: &Function) -> Result<(), PlanError> {
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
            if let Some((message, instead)) = pelton_functions::java_only(text) {
                return refuse(message, instead);
            }
            let Err(error) = regex::Regex::new(&pelton_functions::translated_pattern(text)) else { return Ok(()) };
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
            let hint = "write a backslash before a letter such as ( [ * + ? that stands for itself";
            refuse(format!("'{text}' is not a valid regular expression: {reason}"), hint)
        }
        "json_exists" | "json_value" if !pelton_functions::is_json_path(text) => {
            refuse(format!("'{text}' is not a valid JSON path"), "write one such as '$.a.b[0]'")
        }
        _ => Ok(()),
    }
}

/// Refuses an expression of constants alone that has no value, and would fail for the first row, at the smallest part that has none.
pub(crate) fn check_value(expression: &Expr, context: &Context<'_>) -> Result<(), PlanError> {
    let Some(problem) = problem(expression, context) else { return Ok(()) };
    for part in parts(expression) {
        if is_constant(&part, context) {
            check_value(&part, context)?;
        }
    }
    Err(match expression {
        Expr::Function(call) => {
            let (name, problem) = (written_name(call).to_uppercase(), in_sql_terms(&problem));
            let problem = problem.replace(&format!(" using {BASE64_PADDED}"), "");
            PlanError::invalid(Place::of(call.name.span()), format!("this call of {name} has no value: {problem}"))
                .with_hint("change its arguments")
        }
        other => {
            let error = rephrase::of_expression(&problem).unwrap_or_else(|| {
                let division = problem.contains("Divide by zero").then(|| "division by zero".to_string());
                let problem = division.unwrap_or_else(|| in_sql_terms(&problem));
                PlanError::invalid(None, format!("{problem} in {}", shown(other))).with_hint("change its operands")
            });
            PlanError { place: Place::of(other.span()), ..error }
        }
    })
}

/// Why an expression of constants alone has no value.
fn problem(expression: &Expr, context: &Context<'_>) -> Option<String> {
    let columns = DFSchema::empty();
    // What cannot be planned is told when the whole query is.
    let planned = context.plan_expression(expression, &columns).ok()?;
    if matches!(planned, datafusion_expr::Expr::Literal(..)) || planned.is_volatile() {
        return None;
    }
    let expression = physical_expression(&planned, &columns).ok()?;
    let one_row = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Schema::empty().into(), Vec::new(), &one_row).ok()?;
    let problem = expression.evaluate(&row).err()?.message().into_owned();
    // Integers wrap around where queries run, also where a constant is negated.
    let is_wrapped = problem.contains("Overflow happened on: - ");
    (!is_wrapped).then_some(problem)
}

/// An expression as it is named in a message.
fn shown(expression: &Expr) -> String {
    let text = expression.to_string();
    if text.chars().count() <= SHOWN_LETTERS_MAX { text } else { "this expression".to_string() }
}

/// The longest expression that is shown whole.
const SHOWN_LETTERS_MAX: usize = 60;

/// Whether an expression computes something from constants alone, by operators and functions that are no program's own.
pub(crate) fn is_constant(expression: &Expr, context: &Context<'_>) -> bool {
    if is_literal(expression) {
        return false;
    }
    expression.visit(&mut Constants { context }).is_continue()
}

/// Breaks at what is no constant.
struct Constants<'w, 'c> {
    context: &'w Context<'c>,
}

impl Visitor for Constants<'_, '_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        let is_constant = match expression {
            Expr::Value(_)
            | Expr::TypedString(_)
            | Expr::Interval(_)
            | Expr::Nested(_)
            | Expr::UnaryOp { .. }
            | Expr::BinaryOp { .. }
            | Expr::Cast { .. }
            | Expr::Between { .. }
            | Expr::InList { .. }
            | Expr::Like { .. }
            | Expr::ILike { .. }
            | Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::Case { .. }
            | Expr::Extract { .. }
            | Expr::Floor { .. }
            | Expr::Ceil { .. }
            | Expr::Substring { .. }
            | Expr::Position { .. }
            | Expr::Overlay { .. }
            | Expr::Trim { .. } => true,
            Expr::Function(call) => {
                let name = call.name.to_string();
                let is_known = !self.context.is_own(&name) && self.context.get_function_meta(&name).is_some();
                is_known && call.over.is_none() && !arguments(call).is_empty()
            }
            _ => false,
        };
        if is_constant { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
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
