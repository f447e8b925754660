//! Aggregate functions in Python: classes whose instances are the states of groups.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray};
use arrow::datatypes::{DataType, FieldRef};
use pelton::function::AggregateFunction;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::error::{invalid, traceback};
use crate::from_python::array;
use crate::functions::{python_array, with_python};
use crate::to_python::python_values;

/// A state, or why there is none.
type State = Result<Py<PyAny>, String>;

/// The function of a class with the methods `accumulate` and `finish`, and where it has them `combine` and `subtract`.
pub fn aggregate_function(
    class: &Bound<'_, PyAny>,
    name: &str,
    arguments: Vec<DataType>,
    returns: FieldRef,
    is_by_row: bool,
) -> PyResult<AggregateFunction<State>> {
    let (can_combine, can_subtract) = (class.hasattr("combine")?, class.hasattr("subtract")?);
    let new = {
        let class: Py<PyAny> = class.clone().unbind();
        move || with_python(|py| class.call0(py))
    };
    let data_type = returns.data_type().clone();
    let function = AggregateFunction::new(
        name,
        arguments,
        data_type,
        new,
        move |state: &mut State, arguments: &[ArrayRef]| accumulate(state, arguments, is_by_row),
        move |states: &[&State]| finish(states, &returns),
    )
    .with_snapshot(DataType::Binary, save, restore);
    let function =
        if can_combine { function.with_combine(|state, other| merge("combine", state, other)) } else { function };
    Ok(if can_subtract { function.with_subtract(|state, other| merge("subtract", state, other)) } else { function })
}

fn accumulate(state: &mut State, arguments: &[ArrayRef], is_by_row: bool) -> Result<(), String> {
    let state = known(state)?;
    with_python(|py| {
        let method = state.bind(py).getattr("accumulate")?;
        if !is_by_row {
            let arrays = arguments.iter().map(|values| python_array(py, values));
            method.call1(PyTuple::new(py, arrays.collect::<PyResult<Vec<_>>>()?)?)?;
            return Ok(());
        }
        let columns = arguments.iter().map(|values| python_values(py, values)).collect::<PyResult<Vec<_>>>()?;
        for row in 0..columns.first().map_or(0, Vec::len) {
            let values = PyTuple::new(py, columns.iter().map(|column| &column[row]))?;
            method.call1(&values).map_err(|error| {
                let shown = values.repr().map_or_else(|_| "values".to_owned(), |text| text.to_string());
                invalid(format!("{}\nraised for the row {shown}", traceback(py, &error)))
            })?;
        }
        Ok(())
    })
}

fn finish(states: &[&State], returns: &FieldRef) -> Result<ArrayRef, String> {
    let states = states.iter().map(|state| known(state)).collect::<Result<Vec<_>, _>>()?;
    with_python(|py| {
        let values = states.iter().map(|state| state.bind(py).call_method0("finish"));
        let values = values.map(|value| value.map(|value| Some(value).filter(|value| !value.is_none())));
        array(&values.collect::<PyResult<Vec<_>>>()?, returns)
    })
}

fn merge(method: &str, state: &mut State, other: &State) -> Result<(), String> {
    let (state, other) = (known(state)?, known(other)?);
    with_python(|py| state.bind(py).call_method1(method, (other,)).map(drop))
}

/// States as `pickle` writes them.
fn save(states: &[&State]) -> Result<ArrayRef, String> {
    let states = states.iter().map(|state| known(state)).collect::<Result<Vec<_>, _>>()?;
    with_python(|py| {
        let pickle = py.import("pickle")?;
        let saved = states.iter().map(|state| pickle.call_method1("dumps", (state,))?.extract::<Vec<u8>>());
        Ok(Arc::new(BinaryArray::from_iter_values(saved.collect::<PyResult<Vec<_>>>()?)) as ArrayRef)
    })
}

fn restore(saved: &ArrayRef) -> Result<Vec<State>, String> {
    with_python(|py| {
        let pickle = py.import("pickle")?;
        let saved = saved.as_binary::<i32>();
        let restored = (0..saved.len()).map(|row| pickle.call_method1("loads", (PyBytes::new(py, saved.value(row)),)));
        restored.map(|state| state.map(|state| Ok(state.unbind()))).collect()
    })
}

fn known(state: &State) -> Result<&Py<PyAny>, String> {
    state.as_ref().map_err(Clone::clone)
}
