//! Aggregate functions of your own, and what all functions of a program share.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use datafusion_expr::AggregateUDF;
use pelton_data::udaf::{self, Change, Merging};
use pelton_plan::query::aggregate_udf;
use pelton_runtime::pool::panic_text;

use crate::display::type_names;

pub use pelton_data::table_function::OutputRows;

/// Runs code of the program's own: a panic becomes an error, so that who reads it learns of which function it is.
pub(crate) fn guarded<T>(body: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    // What it has left half done belongs to a query that ends with this error.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        Err(format!("it panicked: {}", panic_text(panic.as_ref()).unwrap_or("without a message")))
    })
}

/// A user-defined aggregate function: the state of a group, how rows update it, and the result computed from it.
///
/// Its further abilities decide how windows are computed. A function that can [combine](AggregateFunction::with_combine) the states of
/// two parts of a window is computed slice by slice, each row once, however many windows it is in. One that can also
/// [take a part away](AggregateFunction::with_subtract) lets windows slide: the slice that leaves is subtracted. Of a
/// function that can do neither, all rows of a window are kept until it closes, and reach the function then, in the order of their
/// arrival. `EXPLAIN` says which.
///
/// Rows reach a function as one array for each argument, NULLs included; a `FILTER` is applied before. Parts of a window come in no
/// order: what a function that combines gives must not depend on it.
///
/// ```
/// use std::sync::Arc;
/// use pelton::arrow::{array::{Array, AsArray, Float64Array}, compute::{max, min}, datatypes::{DataType, Float64Type}};
/// use pelton::function::AggregateFunction;
///
/// // How far the smallest and the largest value are apart.
/// let spread = AggregateFunction::new(
///     "spread",
///     vec![DataType::Float64],
///     DataType::Float64,
///     || None::<(f64, f64)>,
///     |state, arguments| {
///         let values = arguments[0].as_primitive::<Float64Type>();
///         if let (Some(low), Some(high)) = (min(values), max(values)) {
///             let (known_low, known_high) = state.unwrap_or((low, high));
///             *state = Some((low.min(known_low), high.max(known_high)));
///         }
///         Ok(())
///     },
///     |states| Ok(Arc::new(states.iter().map(|state| state.map(|(low, high)| high - low)).collect::<Float64Array>())),
/// )
/// .with_combine(|state, other| {
///     *state = match (*state, *other) {
///         (Some(own), Some(other)) => Some((own.0.min(other.0), own.1.max(other.1))),
///         (own, other) => own.or(other),
///     };
///     Ok(())
/// });
///
/// let session = pelton::Session::new();
/// session.register_aggregate(spread);
/// let query = session.sql(
///     "CREATE TABLE n (i INT) WITH ('connector' = 'datagen', 'number-of-rows' = '9', 'pace' = 'flat-out',
///                                   'fields.i.kind' = 'sequence', 'fields.i.start' = '1', 'fields.i.end' = '9');
///      SELECT SPREAD(i) FILTER (WHERE i > 3) AS spread FROM n",
/// )?;
/// let rows = query.collect()?;
/// assert_eq!(rows[0].column(0).as_primitive::<Float64Type>().value(0), 5.0);
/// # Ok::<(), pelton::Error>(())
/// ```
pub struct AggregateFunction<S>(Definition<S>);

type Accumulate<S> = Box<dyn Fn(&mut S, &[ArrayRef]) -> Result<(), String> + Send + Sync>;

type Finish<S> = Box<dyn Fn(&[&S]) -> Result<ArrayRef, String> + Send + Sync>;

type Restore<S> = Box<dyn Fn(&ArrayRef) -> Result<Vec<S>, String> + Send + Sync>;

type Merge<S> = Box<dyn Fn(&mut S, &S) -> Result<(), String> + Send + Sync>;

struct Definition<S> {
    name: String,
    arguments: Vec<DataType>,
    returns: DataType,
    initial: Box<dyn Fn() -> S + Send + Sync>,
    accumulate: Accumulate<S>,
    finish: Finish<S>,
    combine: Option<Merge<S>>,
    subtract: Option<Merge<S>>,
    saved: Option<Saved<S>>,
}

/// How states are written down.
struct Saved<S> {
    data_type: DataType,
    save: Finish<S>,
    restore: Restore<S>,
}

impl<S: Send + Sync + 'static> AggregateFunction<S> {
    /// A function that queries call by this name. Arguments are cast to these types.
    ///
    /// `initial` creates the state of a group; `accumulate` updates it with rows of the group; `finish` returns
    /// one value for each state. Errors stop the query when a window is read, and are shown to the user.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use pelton::arrow::{array::{Array, ArrayRef, AsArray, Int64Array}, datatypes::{DataType, Int64Type}};
    /// use pelton::function::AggregateFunction;
    ///
    /// let values = |states: &[&i64]| Ok(Arc::new(states.iter().map(|&&state| state).collect::<Int64Array>()) as ArrayRef);
    /// let total = AggregateFunction::new("total", vec![DataType::Int64], DataType::Int64, || 0, |state, arguments| {
    ///     *state += arguments[0].as_primitive::<Int64Type>().iter().flatten().sum::<i64>();
    ///     Ok(())
    /// }, values);
    /// let session = pelton::Session::new();
    /// session.register_aggregate(total);
    /// let rows = session.sql("SELECT TOTAL(i) AS total FROM (VALUES (1), (2)) AS t (i)")?.collect()?;
    /// assert_eq!(rows[0].column(0).as_primitive::<Int64Type>().value(0), 3);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn new(
        name: &str,
        arguments: Vec<DataType>,
        returns: DataType,
        initial: impl Fn() -> S + Send + Sync + 'static,
        accumulate: impl Fn(&mut S, &[ArrayRef]) -> Result<(), String> + Send + Sync + 'static,
        finish: impl Fn(&[&S]) -> Result<ArrayRef, String> + Send + Sync + 'static,
    ) -> AggregateFunction<S> {
        AggregateFunction(Definition {
            name: name.to_owned(),
            arguments,
            returns,
            initial: Box::new(initial),
            accumulate: Box::new(accumulate),
            finish: Box::new(finish),
            combine: None,
            subtract: None,
            saved: None,
        })
    }

    /// Merges the second state into the first.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use pelton::arrow::{array::{Array, ArrayRef, AsArray, Int64Array}, datatypes::{DataType, Int64Type}};
    /// use pelton::function::AggregateFunction;
    ///
    /// let values = |states: &[&i64]| Ok(Arc::new(states.iter().map(|&&state| state).collect::<Int64Array>()) as ArrayRef);
    /// let total = AggregateFunction::new("total", vec![DataType::Int64], DataType::Int64, || 0, |state, arguments| {
    ///     *state += arguments[0].as_primitive::<Int64Type>().iter().flatten().sum::<i64>();
    ///     Ok(())
    /// }, values)
    /// .with_combine(|state, other| {
    ///     *state += other;
    ///     Ok(())
    /// });
    /// let session = pelton::Session::new();
    /// session.register_aggregate(total);
    /// let rows = session.sql("SELECT TOTAL(i) AS total FROM (VALUES (1), (2)) AS t (i)")?.collect()?;
    /// assert_eq!(rows[0].column(0).as_primitive::<Int64Type>().value(0), 3);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn with_combine(
        mut self,
        combine: impl Fn(&mut S, &S) -> Result<(), String> + Send + Sync + 'static,
    ) -> AggregateFunction<S> {
        self.0.combine = Some(Box::new(combine));
        self
    }

    /// Removes the second state, which was combined before, from the first. This must be exact: what
    /// only nearly is, such as a sum of floating-point numbers, would drift. It has no effect without [`AggregateFunction::with_combine`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use pelton::arrow::{array::{Array, ArrayRef, AsArray, Int64Array}, datatypes::{DataType, Int64Type}};
    /// use pelton::function::AggregateFunction;
    ///
    /// let values = |states: &[&i64]| Ok(Arc::new(states.iter().map(|&&state| state).collect::<Int64Array>()) as ArrayRef);
    /// let total = AggregateFunction::new("total", vec![DataType::Int64], DataType::Int64, || 0, |state, arguments| {
    ///     *state += arguments[0].as_primitive::<Int64Type>().iter().flatten().sum::<i64>();
    ///     Ok(())
    /// }, values)
    /// .with_combine(|state, other| {
    ///     *state += other;
    ///     Ok(())
    /// })
    /// .with_subtract(|state, other| {
    ///     *state -= other;
    ///     Ok(())
    /// });
    /// let session = pelton::Session::new();
    /// session.register_aggregate(total);
    /// let rows = session.sql("SELECT TOTAL(i) AS total FROM (VALUES (1), (2)) AS t (i)")?.collect()?;
    /// assert_eq!(rows[0].column(0).as_primitive::<Int64Type>().value(0), 3);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn with_subtract(
        mut self,
        subtract: impl Fn(&mut S, &S) -> Result<(), String> + Send + Sync + 'static,
    ) -> AggregateFunction<S> {
        self.0.subtract = Some(Box::new(subtract));
        self
    }

    /// Makes states part of a window's snapshot: `save` writes states to an array of this type, one value for each, and `restore` reads
    /// the same states of it again. A function that does not combine
    /// needs it only `OVER` all rows up to each: of its windows rows are written.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use pelton::arrow::{array::{Array, ArrayRef, AsArray, Int64Array}, datatypes::{DataType, Int64Type}};
    /// use pelton::function::AggregateFunction;
    ///
    /// let values = |states: &[&i64]| Ok(Arc::new(states.iter().map(|&&state| state).collect::<Int64Array>()) as ArrayRef);
    /// let total = AggregateFunction::new("total", vec![DataType::Int64], DataType::Int64, || 0, |state, arguments| {
    ///     *state += arguments[0].as_primitive::<Int64Type>().iter().flatten().sum::<i64>();
    ///     Ok(())
    /// }, values)
    /// .with_combine(|state, other| {
    ///     *state += other;
    ///     Ok(())
    /// })
    /// .with_snapshot(DataType::Int64, values, |saved| Ok(saved.as_primitive::<Int64Type>().values().to_vec()));
    /// let session = pelton::Session::new();
    /// session.register_aggregate(total);
    /// let rows = session.sql("SELECT TOTAL(i) AS total FROM (VALUES (1), (2)) AS t (i)")?.collect()?;
    /// assert_eq!(rows[0].column(0).as_primitive::<Int64Type>().value(0), 3);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn with_snapshot(
        mut self,
        data_type: DataType,
        save: impl Fn(&[&S]) -> Result<ArrayRef, String> + Send + Sync + 'static,
        restore: impl Fn(&ArrayRef) -> Result<Vec<S>, String> + Send + Sync + 'static,
    ) -> AggregateFunction<S> {
        self.0.saved = Some(Saved { data_type, save: Box::new(save), restore: Box::new(restore) });
        self
    }

    /// The function as the planner sees it.
    pub(crate) fn planned(self) -> AggregateUDF {
        let (arguments, returns) = (self.0.arguments.clone(), self.0.returns.clone());
        aggregate_udf(udaf::function(self.0), arguments, returns)
    }
}

impl<S> fmt::Debug for Definition<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AggregateFunction").field(&self.name).finish()
    }
}

impl<S: Send + Sync + 'static> udaf::Definition for Definition<S> {
    type State = S;

    fn name(&self) -> &str {
        &self.name
    }

    fn merging(&self) -> Merging {
        match (&self.combine, &self.subtract) {
            (None, _) => Merging::Rows,
            (Some(_), None) => Merging::Combine,
            (Some(_), Some(_)) => Merging::Invert,
        }
    }

    fn saved_type(&self) -> Option<&DataType> {
        self.saved.as_ref().map(|saved| &saved.data_type)
    }

    fn initial(&self) -> Result<S, String> {
        guarded(|| Ok((self.initial)()))
    }

    fn accumulate(&self, state: &mut S, arguments: &[ArrayRef]) -> Result<(), String> {
        guarded(|| (self.accumulate)(state, arguments))
    }

    fn merge(&self, states: &mut [S], others: &[S], pairs: &[(u32, u32)], change: Change) -> Result<(), String> {
        let merge = match change {
            Change::Add => &self.combine,
            Change::Subtract => &self.subtract,
        };
        let merge = merge.as_ref().expect("the function can do what it was planned for");
        guarded(|| pairs.iter().try_for_each(|&(from, to)| merge(&mut states[to as usize], &others[from as usize])))
    }

    fn save(&self, states: &[&S]) -> Result<ArrayRef, String> {
        let saved = self.saved()?;
        checked(guarded(|| (saved.save)(states))?, states.len(), &saved.data_type)
    }

    fn restore(&self, saved: &ArrayRef) -> Result<Vec<S>, String> {
        let restore = &self.saved()?.restore;
        guarded(|| restore(saved))
    }

    fn finish(&self, states: &[&S]) -> Result<ArrayRef, String> {
        checked(guarded(|| (self.finish)(states))?, states.len(), &self.returns)
    }
}

impl<S> Definition<S> {
    fn saved(&self) -> Result<&Saved<S>, String> {
        self.saved.as_ref().ok_or_else(|| "its states cannot be written down".to_string())
    }
}

/// What a function returned, which must be so many values of this type.
pub(crate) fn checked(values: ArrayRef, count: usize, data_type: &DataType) -> Result<ArrayRef, String> {
    if values.len() != count || values.data_type() != data_type {
        let [wanted, found] = type_names(data_type, values.data_type());
        return Err(format!("it must return {count} values of type {wanted}, not {} of type {found}", values.len()));
    }
    Ok(values)
}
