//! Functions of a simulation's own, which fail: what they do with a row is written in it.

use std::panic::resume_unwind;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Int64Type};
use pelton::Session;
use pelton::function::AggregateFunction;

/// Makes the functions known.
pub(super) fn register(session: &Session) {
    session.register_function("fragile", vec![DataType::Int64], DataType::Int64, |arguments| {
        let mut values = integers(&arguments[0]);
        match values.find(|value| *value <= 0) {
            None => Ok(arguments[0].clone()),
            Some(0) => panic_silently(),
            Some(_) => Err(FRAGILE.to_owned()),
        }
    });
    session.register_aggregate(fragile_sum());
    session.register_aggregate(doomed_sum());
}

const FRAGILE: &str = "a function is fragile";

/// Nothing is printed, because it is no news.
fn panic_silently() -> ! {
    resume_unwind(Box::new(FRAGILE))
}

fn integers(array: &ArrayRef) -> impl Iterator<Item = i64> + '_ {
    array.as_primitive::<Int64Type>().values().iter().copied()
}

/// A sum, and the worst that rows have said shall happen.
#[derive(Default)]
struct Sum {
    sum: i64,
    worst: i64,
}

/// `FRAGILE_SUM(i, d)`: the sum of `i`. For a row whose `d` is 0 it panics, for -1 it fails; for -2 and -3 it does when it is combined or read, for -4
/// it panics when it is read.
fn fragile_sum() -> AggregateFunction<Sum> {
    AggregateFunction::new(
        "fragile_sum",
        vec![DataType::Int64, DataType::Int64],
        DataType::Int64,
        Sum::default,
        |state: &mut Sum, arguments| {
            for (i, d) in integers(&arguments[0]).zip(integers(&arguments[1])) {
                match d {
                    0 => panic_silently(),
                    -1 => return Err(FRAGILE.to_owned()),
                    _ => *state = Sum { sum: state.sum + i, worst: state.worst.min(d) },
                }
            }
            Ok(())
        },
        |states| {
            states.iter().try_for_each(|state| fail_if(state.worst, true))?;
            Ok(Arc::new(states.iter().map(|state| state.sum).collect::<Int64Array>()))
        },
    )
    .with_combine(|state: &mut Sum, other| {
        *state = Sum { sum: state.sum + other.sum, worst: state.worst.min(other.worst) };
        fail_if(state.worst, false)
    })
}

/// `DOOMED_SUM(i)`: there are no groups of it, so that the first row takes a worker down that it reaches.
fn doomed_sum() -> AggregateFunction<i64> {
    let sum = |state: &mut i64, arguments: &[ArrayRef]| {
        *state += integers(&arguments[0]).sum::<i64>();
        Ok(())
    };
    let values = |states: &[&i64]| Ok(Arc::new(states.iter().map(|&&state| state).collect::<Int64Array>()) as ArrayRef);
    AggregateFunction::new("doomed_sum", vec![DataType::Int64], DataType::Int64, || panic_silently(), sum, values)
        .with_combine(|state, other| {
            *state += other;
            Ok(())
        })
}

fn fail_if(worst: i64, is_read: bool) -> Result<(), String> {
    match worst {
        -2 => panic_silently(),
        -4 if is_read => panic_silently(),
        -3 => Err(FRAGILE.to_owned()),
        _ => Ok(()),
    }
}
