//! Numbers rounded to the bits that count, for aggregates that need not be exact.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float64Type, Int32Type};
use datafusion_common::Result;
use pelton_data::significant::rounded;

use crate::definition::{Definition, Evaluate, Parameter, always};

/// A DOUBLE as [`rounded`]. No query calls it: the planner does.
pub(super) const DEFINITION: Definition = Definition {
    name: "rounded_to_8_bits",
    parameters: &[Parameter::Any],
    required: 1,
    repeats: false,
    returns: |_| DataType::Int32,
    is_nullable: always,
    evaluate: Evaluate::Arrays(evaluate),
};

fn evaluate(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    Ok(Arc::new(arguments[0].as_primitive::<Float64Type>().unary::<_, Int32Type>(rounded)))
}
