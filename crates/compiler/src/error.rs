//! Why a pipeline has no kernel, and why a kernel has no result.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion_common::DataFusionError;
use datafusion_expr::Operator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, CaseExpr};
use datafusion_physical_expr::utils::collect_columns;
use pelton_data::column::logical_type;
use pelton_plan::growth::is_too_large;
use pelton_plan::terms::{no_decimal, no_value, with_sql_types};

/// A pipeline that cannot be turned into code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// An expression that has no type over the pipeline's columns. The user's error where planning let it pass.
    #[error("cannot evaluate {expression}: {problem}")]
    Expression {
        /// The expression, as SQL writes it.
        expression: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Values of a type that no accumulator takes.
    #[error("{aggregate} does not take values of type {data_type}")]
    Argument {
        /// What would have been accumulated.
        aggregate: &'static str,
        /// The type of the values.
        data_type: String,
    },
    /// The code generator refused what it was given. Our error.
    #[error("code generation failed: {0}")]
    CodeGeneration(String),
}

/// An expression that failed on some of the rows of `batch`, in words a user can act on: what is wrong with the first such row,
/// the expression, and the values that it has there; behind the number of that row. `evaluate` does what failed once more, which must not depend on the
/// rows around one.
pub fn row_failure(
    expression: &Arc<dyn PhysicalExpr>,
    batch: &RecordBatch,
    error: DataFusionError,
    evaluate: impl Fn(&RecordBatch) -> Result<(), DataFusionError>,
) -> (usize, String) {
    // So many rows, and more, fail; one less does not.
    let (mut least, mut most) = (1, batch.num_rows());
    while least < most {
        let middle = usize::midpoint(least, most);
        match evaluate(&batch.slice(0, middle)) {
            Ok(()) => least = middle + 1,
            Err(_) => most = middle,
        }
    }
    let row = batch.slice(least - 1, 1);
    // Parts are evaluated without a bound for what they make.
    let expression = if is_too_large(&error) { expression } else { smallest_failing(expression, &row) };
    let (error, words) = match evaluate(&row) {
        Err(error) => (error, words_at_row(expression, &row)),
        Ok(()) => (error, words(expression)),
    };
    (least - 1, format!("{} in {words}", sql_message(&plain_message(&error))))
}

/// An expression in words, and the values that it has in a batch of one row.
pub fn words_at_row(expression: &Arc<dyn PhysicalExpr>, row: &RecordBatch) -> String {
    format!("{}{}", words(expression), values_at(expression, row))
}

/// An expression in words, cut where its constants are long.
fn words(expression: &Arc<dyn PhysicalExpr>) -> String {
    cut(pelton_plan::explain::expression(expression.as_ref()).to_string(), EXPRESSION_CHARACTERS_MAX)
}

/// The first characters of a text, with a sign that there are more.
fn cut(mut text: String, characters_max: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(characters_max) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// The smallest part of an expression that has no value for a row, which is the same however code is divided into functions. Parts of AND, OR and CASE are
/// not looked into: they are evaluated for some rows only.
fn smallest_failing<'a>(expression: &'a Arc<dyn PhysicalExpr>, row: &RecordBatch) -> &'a Arc<dyn PhysicalExpr> {
    let is_guard = expression.is::<CaseExpr>()
        || expression
            .downcast_ref::<BinaryExpr>()
            .is_some_and(|binary| matches!(binary.op(), Operator::And | Operator::Or));
    if is_guard {
        return expression;
    }
    let failing = expression.children().into_iter().find(|part| part.evaluate(row).is_err());
    failing.map_or(expression, |part| smallest_failing(part, row))
}

/// Characters of an expression that an error shows.
const EXPRESSION_CHARACTERS_MAX: usize = 500;

/// Columns whose values an error shows, and characters of each.
const COLUMNS_SHOWN_MAX: usize = 6;
const CHARACTERS_SHOWN_MAX: usize = 60;

/// The values of an expression's columns: ", where a = 1 and b = NULL".
fn values_at(expression: &Arc<dyn PhysicalExpr>, row: &RecordBatch) -> String {
    let names: BTreeSet<String> = collect_columns(expression).iter().map(|column| column.name().to_owned()).collect();
    let columns = row.schema_ref().fields().iter().zip(row.columns()).filter(|(field, _)| names.contains(field.name()));
    let mut shown: Vec<String> =
        columns.map(|(field, column)| format!("{} = {}", field.name(), value_of(column))).collect();
    if shown.is_empty() {
        return String::new();
    }
    if shown.len() > COLUMNS_SHOWN_MAX {
        shown.truncate(COLUMNS_SHOWN_MAX);
        shown.push("…".to_owned());
    }
    format!(", where {}", shown.join(" and "))
}

/// The only value of a column, as SQL writes it where it is a string or NULL.
fn value_of(column: &ArrayRef) -> String {
    let options = FormatOptions::default().with_null("NULL");
    let text = ArrayFormatter::try_new(column, &options).map(|formatter| formatter.value(0).to_string());
    let text = text.unwrap_or_else(|_| "…".to_owned());
    let shown = cut(text, CHARACTERS_SHOWN_MAX);
    let is_string = logical_type(column.data_type()).is_string();
    if is_string && !column.is_null(0) { format!("'{shown}'") } else { shown }
}

/// What went wrong with a value, with SQL's names of types.
fn sql_message(message: &str) -> String {
    if let Some((text, data_type)) = no_value(message) {
        return format!("'{text}' is not a valid {data_type}");
    }
    if let Some(problem) = no_decimal(message) {
        return problem;
    }
    match message.strip_prefix("Can't cast value ").and_then(|rest| rest.split_once(" to type ")) {
        Some((value, data_type)) => format!("{value} does not fit {}", with_sql_types(data_type)),
        None => with_sql_types(message.trim_end_matches('.')),
    }
}

/// What went wrong, without the names of the libraries it went wrong in.
pub(crate) fn plain_message(error: &DataFusionError) -> String {
    let message = match error.find_root() {
        DataFusionError::ArrowError(error, _) => arrow_message(error),
        DataFusionError::Execution(message)
        | DataFusionError::Plan(message)
        | DataFusionError::ResourcesExhausted(message) => message.clone(),
        DataFusionError::External(error) => error.to_string(),
        DataFusionError::NotImplemented(message) => format!("not supported: {message}"),
        other => other.strip_backtrace(),
    };
    match message.split_once(DataFusionError::BACK_TRACE_SEP) {
        Some((message, _)) => message.to_owned(),
        None => message,
    }
}

fn arrow_message(error: &ArrowError) -> String {
    match error {
        ArrowError::DivideByZero => "division by zero".to_owned(),
        ArrowError::ArithmeticOverflow(message)
        | ArrowError::CastError(message)
        | ArrowError::ComputeError(message)
        | ArrowError::InvalidArgumentError(message)
        | ArrowError::ParseError(message) => message.clone(),
        ArrowError::ExternalError(error) => error.to_string(),
        other => other.to_string(),
    }
}
