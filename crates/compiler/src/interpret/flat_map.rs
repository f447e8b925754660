//! Calls of table functions, for the rows of a call that are alive.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Schema};
use pelton_data::table_function::{OutputRows, TableFunctionHandle, with_unmatched};
use pelton_plan::pipeline::Step;
use pelton_state::kernel::KernelError;

use super::expression::Expression;
use super::rows::{Found, Rows};
use crate::error::CompileError;

/// A step that makes any number of rows of each.
#[derive(Debug)]
pub(crate) struct FlatMap {
    function: TableFunctionHandle,
    arguments: Vec<Expression>,
    keep_unmatched: bool,
    condition: Option<Expression>,
    /// The columns that are wanted of the function, and what they become.
    columns: Vec<usize>,
    fields: Vec<FieldRef>,
}

/// Rows, each with an output row of a function.
pub(crate) struct Made {
    /// Positions of the rows, ascending.
    pub(crate) positions: Vec<u32>,
    /// For each its output row, or [`pelton_data::table_function::NO_OUTPUT`].
    pub(crate) matches: Vec<u32>,
    /// The columns of the output rows.
    pub(crate) columns: Arc<[ArrayRef]>,
}

impl FlatMap {
    /// The step over the columns `schema` of a pipeline; `None` where the step is another one.
    ///
    /// # Errors
    /// Where an argument has no type.
    pub(crate) fn new(step: &Step, schema: &Schema) -> Result<Option<FlatMap>, CompileError> {
        let Step::FlatMap { function, arguments, keep_unmatched, condition, columns, fields } = step else {
            return Ok(None);
        };
        let arguments = arguments.iter().map(|argument| Expression::new(argument, schema, None));
        let joined = Schema::new(schema.fields().iter().chain(fields).cloned().collect::<Vec<_>>());
        let condition = condition.as_ref().map(|planned| Expression::new(planned, &joined, Some(&DataType::Boolean)));
        Ok(Some(FlatMap {
            function: function.clone(),
            arguments: arguments.collect::<Result<_, _>>()?,
            keep_unmatched: *keep_unmatched,
            condition: condition.transpose()?,
            columns: columns.clone(),
            fields: fields.clone(),
        }))
    }

    /// Whether rows for which the function makes none stay.
    pub(crate) fn keep_unmatched(&self) -> bool {
        self.keep_unmatched
    }

    /// The fields that it adds.
    pub(crate) fn fields(&self) -> &[FieldRef] {
        &self.fields
    }

    /// Calls the function for all rows.
    ///
    /// # Errors
    /// Where an argument has no value for one of the rows, or the function refuses one.
    pub(crate) fn call(&self, rows: &mut Rows<'_>) -> Result<Made, KernelError> {
        let arguments = self.arguments.iter().map(|argument| argument.evaluate_array(rows));
        let arguments: Vec<ArrayRef> = arguments.collect::<Result<_, _>>()?;
        let made = self.rows_of(&arguments, rows.len()).map_err(|error| self.failure(rows, &arguments, error))?;
        let typed = made.columns.iter().zip(&self.fields).map(|(column, field)| typed(column, field.data_type()));
        let columns: Arc<[ArrayRef]> = typed.collect();
        let mut inputs = made.input_rows;
        let mut outputs: Vec<u32> = (0..inputs.len() as u32).collect();
        let conditions = self.condition.as_slice();
        rows.retain_pairs(&Found::Made(columns.clone()), conditions, &mut inputs, &mut outputs)?;
        let (positions, matches) = match self.keep_unmatched {
            true => with_unmatched(inputs.into_iter().zip(outputs), rows.len()),
            false => (inputs, outputs),
        };
        Ok(Made { positions, matches, columns })
    }

    fn rows_of(&self, arguments: &[ArrayRef], rows: usize) -> Result<OutputRows, String> {
        let made = self.function.0.call(arguments, rows, &self.columns)?;
        if made.input_rows.len() >= u32::MAX as usize {
            return Err(format!("it makes {} rows of one block, more than can be numbered", made.input_rows.len()));
        }
        Ok(made)
    }

    /// Why the function refuses one of the rows, with the place of that row.
    fn failure(&self, rows: &Rows<'_>, arguments: &[ArrayRef], mut error: String) -> KernelError {
        // So many rows, and more, fail; one less does not.
        let (mut least, mut most) = (1, rows.len());
        while least < most {
            let middle = usize::midpoint(least, most);
            let first: Vec<ArrayRef> = arguments.iter().map(|argument| argument.slice(0, middle)).collect();
            match self.rows_of(&first, middle) {
                Ok(_) => least = middle + 1,
                Err(refused) => (most, error) = (middle, refused),
            }
        }
        let place = rows.provenance(least - 1).map_or(String::new(), |place| place.to_string());
        KernelError::Expression(format!("{}: {error}{place}", self.function.0.name()))
    }

    /// Its call, as SQL writes it.
    pub(crate) fn text(&self) -> String {
        let arguments: Vec<String> = self.arguments.iter().map(ToString::to_string).collect();
        format!("{}({})", self.function.0.name(), arguments.join(", "))
    }
}

/// A column of a function with the type that pipelines hold.
fn typed(column: &ArrayRef, data_type: &DataType) -> ArrayRef {
    match column.data_type() == data_type {
        true => column.clone(),
        false => {
            cast(column, data_type).expect("columns of functions differ from those of blocks in their layout alone")
        }
    }
}
