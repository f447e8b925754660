//! Table functions: each row becomes any number of rows.

use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, FieldRef};

/// Stands for the output row of an input row that has none.
pub const NO_OUTPUT: u32 = u32::MAX;

/// A table function. It is called once for the rows of a block, not once a row.
pub trait TableFunction: Debug + Send + Sync {
    /// The name that queries call it by, in upper case.
    fn name(&self) -> &str;

    /// The types that arguments of these types are cast to.
    ///
    /// # Errors
    /// Where the function does not take so many arguments, or not of these types.
    fn argument_types(&self, given: &[DataType]) -> Result<Vec<DataType>, TableFunctionError>;

    /// The columns of its rows, where its arguments are these.
    ///
    /// # Errors
    /// As [`TableFunction::argument_types`].
    fn columns(&self, arguments: &[FieldRef]) -> Result<Vec<FieldRef>, TableFunctionError>;

    /// The output rows of `rows` input rows, which have one value each in every argument. The columns at `wanted` are needed, and only these are returned.
    ///
    /// # Errors
    /// What is wrong with a row; it ends the query.
    fn call(&self, arguments: &[ArrayRef], rows: usize, wanted: &[usize]) -> Result<OutputRows, String>;
}

/// Why a call of a table function cannot be planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableFunctionError {
    /// What is wrong.
    pub message: String,
    /// The argument that is wrong, if it is one.
    pub argument: Option<usize>,
    /// What to write instead.
    pub hint: String,
}

/// The output rows of a table function.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputRows {
    /// For each output row the number of its input row, from 0, in ascending order.
    pub input_rows: Vec<u32>,
    /// The columns, one value for each output row.
    pub columns: Vec<ArrayRef>,
}

/// Pairs of input rows and output rows, by their numbers: those given, which ascend by input row, and one with [`NO_OUTPUT`] for each of `rows` input rows that
/// has none.
pub fn with_unmatched(pairs: impl Iterator<Item = (u32, u32)>, rows: usize) -> (Vec<u32>, Vec<u32>) {
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    let mut next = 0;
    for (input, output) in pairs {
        inputs.extend(next..input);
        outputs.resize(inputs.len(), NO_OUTPUT);
        inputs.push(input);
        outputs.push(output);
        next = input + 1;
    }
    inputs.extend(next..rows as u32);
    outputs.resize(inputs.len(), NO_OUTPUT);
    (inputs, outputs)
}

/// A table function, which equals itself only.
#[derive(Debug, Clone)]
pub struct TableFunctionHandle(pub Arc<dyn TableFunction>);

impl PartialEq for TableFunctionHandle {
    fn eq(&self, other: &TableFunctionHandle) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for TableFunctionHandle {}

impl Hash for TableFunctionHandle {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_rows_without_output_rows_are_kept() {
        let padded = |inputs: &[u32], rows: usize| with_unmatched(inputs.iter().copied().zip(0..), rows);
        let none = NO_OUTPUT;
        assert_eq!(padded(&[1, 1, 3], 5), (vec![0, 1, 1, 2, 3, 4], vec![none, 0, 1, none, 2, none]));
        assert_eq!(padded(&[0, 0, 0, 1], 2), (vec![0, 0, 0, 1], vec![0, 1, 2, 3]));
        assert_eq!(padded(&[], 2), (vec![0, 1], vec![none, none]));
    }
}
