//! Table functions of your own.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, FieldRef};
use pelton_data::column::sql_name;
use pelton_data::table_function::{OutputRows, TableFunction, TableFunctionError, TableFunctionHandle};
use pelton_plan::query::accepts;

use crate::display::type_names;
use crate::function::guarded;

/// A table function: see [`crate::Session::register_table_function`]. Where there are no types of arguments, it takes any.
pub(crate) fn table_function<F>(
    name: &str,
    arguments: Option<Vec<DataType>>,
    returns: Vec<Field>,
    body: F,
) -> TableFunctionHandle
where
    F: Fn(&[ArrayRef]) -> Result<OutputRows, String> + Send + Sync + 'static,
{
    let returns = returns.into_iter().map(Arc::new).collect();
    TableFunctionHandle(Arc::new(OwnTableFunction { name: name.to_uppercase(), arguments, returns, body }))
}

struct OwnTableFunction<F> {
    name: String,
    arguments: Option<Vec<DataType>>,
    returns: Vec<FieldRef>,
    body: F,
}

impl<F> fmt::Debug for OwnTableFunction<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TableFunction").field(&self.name).finish()
    }
}

impl<F> TableFunction for OwnTableFunction<F>
where
    F: Fn(&[ArrayRef]) -> Result<OutputRows, String> + Send + Sync,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn argument_types(&self, given: &[DataType]) -> Result<Vec<DataType>, TableFunctionError> {
        let (name, Some(wanted)) = (&self.name, &self.arguments) else { return Ok(given.to_vec()) };
        let types: Vec<String> = wanted.iter().map(sql_name).collect();
        let hint = format!("write {name}({})", types.join(", "));
        if given.len() != wanted.len() {
            let plural = if wanted.len() == 1 { "" } else { "s" };
            let message = format!("{name} takes {} argument{plural}, not {}", wanted.len(), given.len());
            return Err(TableFunctionError { message, argument: None, hint });
        }
        match wanted.iter().zip(given).position(|(wanted, given)| !accepts(wanted, given)) {
            None => Ok(wanted.clone()),
            Some(argument) => {
                let (given, wanted) = (sql_name(&given[argument]), &types[argument]);
                let message = format!("argument {} of {name} is {given}; it must be {wanted}", argument + 1);
                Err(TableFunctionError { message, argument: Some(argument), hint: "use CAST".to_string() })
            }
        }
    }

    fn columns(&self, _arguments: &[FieldRef]) -> Result<Vec<FieldRef>, TableFunctionError> {
        Ok(self.returns.clone())
    }

    fn call(&self, arguments: &[ArrayRef], rows: usize, wanted: &[usize]) -> Result<OutputRows, String> {
        let called = if arguments.is_empty() { 1 } else { rows };
        let made = self.checked(guarded(|| (self.body)(arguments))?, called)?;
        let columns = wanted.iter().map(|&column| made.columns[column].clone()).collect();
        let made = OutputRows { columns, ..made };
        if arguments.is_empty() { repeated(&made, rows) } else { Ok(made) }
    }
}

impl<F> OwnTableFunction<F> {
    /// What the function returned, which must be columns of its types, and ascending numbers of so many rows.
    fn checked(&self, made: OutputRows, rows: usize) -> Result<OutputRows, String> {
        let OutputRows { input_rows, columns } = &made;
        if columns.len() != self.returns.len() {
            let names: Vec<&str> = self.returns.iter().map(|field| field.name().as_str()).collect();
            return Err(format!("it must return the columns {}, not {} columns", names.join(", "), columns.len()));
        }
        for (column, field) in columns.iter().zip(&self.returns) {
            let (name, wanted) = (field.name(), input_rows.len());
            if column.data_type() != field.data_type() {
                let [wanted, found] = type_names(field.data_type(), column.data_type());
                return Err(format!("it must return column {name} with the type {wanted}, not {found}"));
            }
            if column.len() != wanted {
                let found = column.len();
                return Err(format!(
                    "it must return column {name} with as many values as input_rows, {wanted}, not {found}"
                ));
            }
            if !field.is_nullable() && column.null_count() > 0 {
                return Err(format!("it returned a NULL as column {}, which is NOT NULL", field.name()));
            }
        }
        if let Some(last) = input_rows.last().filter(|last| **last as usize >= rows) {
            return Err(format!(
                "it returned a row for row {last}, and the last one it got is row {}",
                rows.saturating_sub(1)
            ));
        }
        match input_rows.is_sorted() {
            true => Ok(made),
            false => Err("it must return its rows in the order of their input rows".to_string()),
        }
    }
}

/// The output rows of one input row for each of so many.
fn repeated(made: &OutputRows, rows: usize) -> Result<OutputRows, String> {
    let count = made.input_rows.len() as u32;
    let input_rows = (0..rows as u32).flat_map(|row| std::iter::repeat_n(row, count as usize)).collect();
    let places: UInt32Array = (0..rows).flat_map(|_| 0..count).collect::<Vec<u32>>().into();
    let columns = made.columns.iter().map(|column| take(column, &places, None).map_err(|error| error.to_string()));
    Ok(OutputRows { columns: columns.collect::<Result<_, _>>()?, input_rows })
}
