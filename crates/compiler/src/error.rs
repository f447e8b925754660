//! Why a pipeline has no kernel, and why a kernel has no result.

use arrow::error::ArrowError;
use datafusion_common::DataFusionError;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr_common::physical_expr::fmt_sql;
use pelton_state::kernel::KernelError;

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

/// An expression that failed on some row, in words a user can act on.
pub(crate) fn expression_error(expression: &dyn PhysicalExpr, error: &DataFusionError) -> KernelError {
    KernelError::Expression(format!("{} in {}", plain_message(error), fmt_sql(expression)))
}

/// What went wrong, without the names of the libraries it went wrong in.
pub(crate) fn plain_message(error: &DataFusionError) -> String {
    let message = match error.find_root() {
        DataFusionError::ArrowError(error, _) => arrow_message(error),
        DataFusionError::Execution(message) | DataFusionError::Plan(message) => message.clone(),
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
