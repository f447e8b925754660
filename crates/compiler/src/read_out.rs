//! A closed window becomes rows: groups and accumulators to output columns.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array, RecordBatch, RecordBatchOptions,
    StringViewArray, UInt32Array, UInt64Array, make_array, new_null_array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::{cast, take};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Decimal128Type, Decimal256Type, DecimalType,
    FieldRef, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, i256,
};
use arrow::error::ArrowError;
use pelton_data::Micros;
use pelton_data::aggregate::{Accumulate, Holistic, KeyColumn, decimal_mean};
use pelton_data::column::{logical_type, sql_name};
use pelton_data::decimal::{fitting, total_of_halves};
use pelton_data::square_sum::SquareSum;
use pelton_data::time::micros_per_tick;
use pelton_data::window::ResultKind;
use pelton_plan::pipeline::{Window, WindowAggregate, WindowColumn};
use pelton_state::aggregates::{FloatVariance, IntegerVariance, Variance, integer_mean};
use pelton_state::kernel::KernelError;
use pelton_state::layout::EntryLayout;
use pelton_state::ranking::Ranker;
use pelton_state::window::{ClosedGroups, ClosedRows, ClosedWindow};

use crate::holistic::{self, ColumnState};

/// What one group of a window aggregation keeps, for whichever code updates it.
pub fn entry_layout(window: &WindowAggregate) -> Arc<EntryLayout> {
    let keys = window
        .keys
        .iter()
        .map(|field| KeyColumn { data_type: logical_type(field.data_type()).clone(), nullable: field.is_nullable() });
    EntryLayout::new(&keys.collect::<Vec<_>>(), &window.accumulators)
}

/// The rows of windows that have ended, one for each group.
///
/// A window without groups has no rows; the one window of a whole input that is not grouped has one all the same, as
/// SQL wants: it counts zero rows, and all else is NULL.
///
/// # Errors
/// Where a sum or an average does not fit its decimal type.
pub fn read_out(window: &WindowAggregate, closed: ClosedGroups<'_>) -> Result<Option<RecordBatch>, KernelError> {
    let columns = window.columns.iter().zip(window.schema.fields());
    if !closed.entries.is_empty() {
        let groups = Groups { window, closed };
        let columns = columns.map(|(column, field)| groups.column(column, field.data_type()));
        return to_batch(window, closed.entries.len(), columns).map(Some);
    }
    if window.window != Window::Global || !window.keys.is_empty() {
        return Ok(None);
    }
    to_batch(window, 1, columns.map(|(column, field)| without_rows(window, column, field.data_type()))).map(Some)
}

/// The first rows of windows that have ended, and kept all of theirs with their groups.
///
/// # Errors
/// Where rows cannot be put in order.
pub fn read_collected(
    window: &WindowAggregate,
    ranker: &Ranker,
    closed: ClosedGroups<'_>,
) -> Result<Option<RecordBatch>, KernelError> {
    let ranking = window.ranking.as_ref().expect("rows are ranked");
    let of_groups = Groups { window, closed };
    let read = window.collected.iter().zip(ranking.schema.fields()).map(|(column, field)| {
        let data_type = match column {
            WindowColumn::Key(_) => field.data_type().clone(),
            WindowColumn::Rank => return Ok(None),
            _ => DataType::new_list(field.data_type().clone(), true),
        };
        of_groups.column(column, &data_type).map(Some)
    });
    let read = read.collect::<Result<Vec<Option<ArrayRef>>, KernelError>>()?;
    let lists = || read.iter().flatten().filter_map(|column| column.as_list_opt::<i32>());
    let lengths = lists().next().expect("one column at least is kept row by row").offsets().lengths();
    let groups = (0..).zip(lengths).flat_map(|(group, rows)| std::iter::repeat_n(group, rows));
    let groups = UInt32Array::from_iter_values(groups);
    let chosen =
        |values: &dyn Array, places: &UInt32Array| take(values, places, None).expect("places are those of values");
    // Arrays of a group are in the order in which its rows came.
    let positions = (0..groups.len() as i64).map(|position| if ranking.knows_arrival { position } else { 0 });
    let positions = Int64Array::from_iter_values(positions);
    let rows = read.iter().zip(ranking.schema.fields()).map(|(column, field)| {
        let Some(column) = column else {
            return Arc::new(positions.clone()) as ArrayRef;
        };
        match column.as_list_opt::<i32>() {
            Some(list) => converted(list.values().clone(), field.data_type()),
            None => chosen(column, &groups),
        }
    });
    let rows =
        RecordBatch::try_new(ranking.schema.clone(), rows.collect()).expect("arrays of a group are equally long");
    let (places, ranks) = ranker.rank(&rows, groups.values())?;
    if places.is_empty() {
        return Ok(None);
    }
    let (places, count) = (UInt32Array::from(places), ranks.len());
    let groups = chosen(&groups, &places);
    let columns = window.columns.iter().zip(window.schema.fields()).map(|(column, field)| match column {
        WindowColumn::Rank => Ok(Arc::new(Int64Array::from(ranks.clone())) as ArrayRef),
        WindowColumn::Row(column) => Ok(chosen(rows.column(*column), &places)),
        of_group => Ok(chosen(&of_groups.column(of_group, field.data_type())?, groups.as_primitive())),
    });
    to_batch(window, count, columns).map(Some)
}

/// The first rows of a window that has ended.
pub fn read_rows(window: &WindowAggregate, closed: ClosedRows<'_>) -> RecordBatch {
    let ClosedRows { rows, ranks, window: closed } = closed;
    let column = |(column, field): (&WindowColumn, &FieldRef)| -> ArrayRef {
        let bound = |of: &dyn Fn(&ClosedWindow) -> Micros| instants(&[closed], ranks.len(), field.data_type(), of);
        match column {
            WindowColumn::Start => bound(&|closed| start_shown(window, closed)),
            WindowColumn::End => bound(&|closed| end_shown(window, closed)),
            WindowColumn::Time => bound(&|closed| time_shown(window, closed)),
            WindowColumn::Rank => Arc::new(Int64Array::from(ranks.to_vec())),
            WindowColumn::Kind => {
                Arc::new(StringViewArray::from_iter_values(std::iter::repeat_n(closed.kind.name(), ranks.len())))
            }
            WindowColumn::Row(column) => rows.column(*column).clone(),
            other => unreachable!("{other:?} is computed from groups"),
        }
    };
    let columns = window.columns.iter().zip(window.schema.fields()).map(column);
    RecordBatch::try_new(window.schema.clone(), columns.collect()).expect("rows are kept in the types of the schema")
}

/// Where a window begins whose bounds are read out. Results of windows that overlap are put into windows that do not; those of sessions say themselves
/// where they begin.
fn start_shown(window: &WindowAggregate, closed: &ClosedWindow) -> Micros {
    let WindowAggregate { window, bounds, .. } = window;
    let start = if bounds == window { closed.start } else { bounds.start(closed.end) };
    bounds.shown(start, closed.end).0
}

/// Where it ends.
fn end_shown(window: &WindowAggregate, closed: &ClosedWindow) -> Micros {
    window.bounds.shown(closed.start, closed.end).1
}

/// The time of what it comes to.
fn time_shown(window: &WindowAggregate, closed: &ClosedWindow) -> Micros {
    window.bounds.result_time(closed.end)
}

/// An instant for all rows of each window, in the column's unit, or the number of a row; there are `rows` of all.
fn instants(
    windows: &[ClosedWindow],
    rows: usize,
    data_type: &DataType,
    of: impl Fn(&ClosedWindow) -> Micros,
) -> ArrayRef {
    let unit = micros_per_tick(data_type).unwrap_or(1);
    let mut ticks = Vec::with_capacity(rows);
    for window in windows {
        ticks.resize(ticks.len() + window.groups, of(window).div_euclid(unit));
    }
    retyped(&Int64Array::from(ticks), data_type)
}

fn to_batch(
    window: &WindowAggregate,
    rows: usize,
    columns: impl Iterator<Item = Result<ArrayRef, KernelError>>,
) -> Result<RecordBatch, KernelError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    Ok(RecordBatch::try_new_with_options(window.schema.clone(), columns, &options)
        .expect("a window's columns are read out with the types of its schema"))
}

/// A column's only value where there was no row.
fn without_rows(
    window: &WindowAggregate,
    column: &WindowColumn,
    data_type: &DataType,
) -> Result<ArrayRef, KernelError> {
    Ok(match column {
        WindowColumn::Value { accumulator, .. }
            if window.accumulators[*accumulator].accumulate == Accumulate::Count =>
        {
            converted(Arc::new(Int64Array::from(vec![0])), data_type)
        }
        WindowColumn::Holistic { function: Holistic::Count, .. } => Arc::new(Int64Array::from(vec![0])),
        WindowColumn::Value { accumulator, .. } if window.accumulators[*accumulator].function.is_some() => {
            let function = window.accumulators[*accumulator].function.as_ref().expect("just seen");
            let value = function.0.states().finish(&[None]);
            converted(value.map_err(KernelError::Expression)?, data_type)
        }
        WindowColumn::Kind => Arc::new(StringViewArray::from_iter_values([ResultKind::Final.name()])),
        _ => new_null_array(data_type, 1),
    })
}

/// Groups of windows of an aggregation.
struct Groups<'a> {
    window: &'a WindowAggregate,
    closed: ClosedGroups<'a>,
}

impl Groups<'_> {
    fn column(&self, column: &WindowColumn, data_type: &DataType) -> Result<ArrayRef, KernelError> {
        match column {
            WindowColumn::Start => Ok(self.instants(data_type, |closed| start_shown(self.window, closed))),
            WindowColumn::End => Ok(self.instants(data_type, |closed| end_shown(self.window, closed))),
            WindowColumn::Time => Ok(self.instants(data_type, |closed| time_shown(self.window, closed))),
            WindowColumn::Kind => {
                let kinds =
                    self.closed.windows.iter().flat_map(|window| std::iter::repeat_n(window.kind, window.groups));
                Ok(Arc::new(StringViewArray::from_iter_values(kinds.map(ResultKind::name))))
            }
            WindowColumn::Rank | WindowColumn::Row(_) => unreachable!("only rows have a rank, and values of their own"),
            WindowColumn::Key(key) => Ok(self.closed.table.key_array(*key, self.closed.entries)),
            WindowColumn::Value { accumulator, .. } if self.window.accumulators[*accumulator].function.is_some() => {
                let values = self.closed.table.own_values(*accumulator, self.closed.entries);
                Ok(converted(values.map_err(KernelError::Expression)?, data_type))
            }
            WindowColumn::Value { accumulator, count } => {
                let values =
                    converted(self.closed.table.accumulator_array(*accumulator, self.closed.entries), data_type);
                Ok(match count {
                    Some(count) => with_nulls(values, nulls_where_zero(&self.counts(*count))),
                    None => values,
                })
            }
            WindowColumn::DecimalSum { sum, upper_sum, count } => {
                let sums = converted(self.decimal_sums(*sum, *upper_sum, "SUM")?, data_type);
                Ok(match count {
                    Some(count) => with_nulls(sums, nulls_where_zero(&self.counts(*count))),
                    None => sums,
                })
            }
            WindowColumn::Mean { sum, upper_sum, count } => {
                let sums = match upper_sum {
                    Some(upper_sum) => self.decimal_sums(*sum, *upper_sum, "AVG")?,
                    None => self.closed.table.accumulator_array(*sum, self.closed.entries),
                };
                means(&sums, &self.counts(*count), self.scale(*sum), data_type)
            }
            WindowColumn::Holistic { function, values, arrivals, nulls } => {
                let groups = |accumulator: usize| self.closed.table.value_groups(accumulator);
                let kept =
                    ColumnState { values: groups(*values), arrivals: arrivals.map(groups), nulls: nulls.map(groups) };
                holistic::column(function, &kept, self.closed.entries, data_type)
            }
            WindowColumn::Variance { sum, squares, count, is_sample, is_root } => {
                let variances = self.variances(*sum, *squares, *count, *is_sample);
                Ok(Arc::new(
                    variances
                        .into_iter()
                        .map(|value| if *is_root { value.map(f64::sqrt) } else { value })
                        .collect::<Float64Array>(),
                ))
            }
        }
    }

    fn instants(&self, data_type: &DataType, of: impl Fn(&ClosedWindow) -> Micros) -> ArrayRef {
        instants(self.closed.windows, self.closed.entries.len(), data_type, of)
    }

    /// Of the decimals that are summed.
    fn scale(&self, sum: usize) -> i8 {
        match self.window.accumulators[sum].argument_type {
            Some(DataType::Decimal128(_, scale)) => scale,
            _ => 0,
        }
    }

    /// The sums of decimals, where none has too many digits.
    fn decimal_sums(&self, sum: usize, upper_sum: usize, function: &str) -> Result<ArrayRef, KernelError> {
        let array = |slot: usize| self.closed.table.accumulator_array(slot, self.closed.entries);
        let (wrapped, upper) = (array(sum), array(upper_sum));
        let upper = upper.as_primitive::<Decimal128Type>();
        let wrapped = wrapped.as_primitive::<Decimal128Type>().values().iter();
        let totals = wrapped.zip(upper.values()).map(|(&wrapped, &upper)| total_of_halves(wrapped, upper));
        let sums = totals.map(|total| fitting(total).ok_or_else(|| too_many_digits(function, total, self.scale(sum))));
        let sums = Decimal128Array::new(sums.collect::<Result<Vec<_>, _>>()?.into(), None);
        Ok(Arc::new(sums.with_data_type(DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0))))
    }

    /// How many values each group has.
    fn counts(&self, count: usize) -> Int64Array {
        self.closed.table.accumulator_array(count, self.closed.entries).as_primitive::<Int64Type>().clone()
    }

    fn variances(&self, sum: usize, squares: usize, count: usize, is_sample: bool) -> Vec<Option<f64>> {
        let Groups { window, closed: ClosedGroups { table, entries, .. } } = self;
        let counts = table.integers(count, *entries).into_iter();
        if window.accumulators[squares].accumulate == Accumulate::SumSquares {
            let sums = table.wide_floats(sum, *entries).into_iter().zip(table.wide_floats(squares, *entries));
            return sums.zip(counts).map(|(sums, count)| FloatVariance::finalize(sums, count, is_sample)).collect();
        }
        let sums = table.accumulator_array(sum, *entries);
        let sums = sums.as_primitive::<Decimal128Type>().values().iter().zip(table.square_sums(squares, *entries));
        sums.zip(counts)
            .map(|((&sum, squares), count)| {
                IntegerVariance::finalize((sum, SquareSum::of_exact(squares)), count, is_sample)
            })
            .collect()
    }
}

/// The error for a sum of decimals that is no DECIMAL.
pub(crate) fn too_many_digits(function: &str, total: i256, scale: i8) -> KernelError {
    let sum = Decimal256Type::format_decimal(total, DECIMAL256_MAX_PRECISION, scale);
    let fits = sql_name(&DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale));
    KernelError::Expression(format!(
        "{function}: the sum {sum} does not fit {fits} (cast what is aggregated to DOUBLE, or to DECIMAL of fewer digits)"
    ))
}

/// AVG with Flink's types: means of decimals are rounded to their scale, means of integers lose their fraction. `scale` is that of sums of decimals.
pub(crate) fn means(
    sums: &ArrayRef,
    counts: &Int64Array,
    scale: i8,
    data_type: &DataType,
) -> Result<ArrayRef, KernelError> {
    let nulls = nulls_where_zero(counts);
    if let DataType::Decimal128(precision, mean_scale) = *data_type {
        let sums = sums.as_primitive::<Decimal128Type>();
        let mut counted = (0..sums.len()).filter(|&group| counts.value(group) != 0);
        let means = counted.try_fold(vec![0; sums.len()], |mut means, group| {
            means[group] = decimal_mean(sums.value(group), counts.value(group), mean_scale - scale, precision)
                .ok_or_else(|| KernelError::Expression(format!("AVG does not fit {}", sql_name(data_type))))?;
            Ok(means)
        })?;
        let means = Decimal128Array::new(means.into(), nulls);
        return Ok(Arc::new(means.with_data_type(data_type.clone())));
    }
    if data_type.is_integer() {
        return Ok(converted(integer_means(sums, counts, nulls), data_type));
    }
    let sums: Cow<'_, [f64]> = match sums.data_type() {
        DataType::Float64 => Cow::Borrowed(sums.as_primitive::<Float64Type>().values()),
        DataType::Int64 => sums.as_primitive::<Int64Type>().values().iter().map(|&sum| sum as f64).collect(),
        _ => {
            let unit = 10f64.powi(scale.into());
            sums.as_primitive::<Decimal128Type>().values().iter().map(|&sum| sum as f64 / unit).collect()
        }
    };
    let means = sums.iter().zip(counts.values()).map(|(sum, &count)| sum / count as f64).collect::<Vec<_>>();
    Ok(converted(Arc::new(Float64Array::new(means.into(), nulls)), data_type))
}

/// Means of integers without their fractions.
fn integer_means(sums: &ArrayRef, counts: &Int64Array, nulls: Option<NullBuffer>) -> ArrayRef {
    let counts = counts.values().iter().map(|&count| count as u64);
    let means: Vec<i64> = match sums.as_primitive_opt::<Int64Type>() {
        Some(sums) => sums.values().iter().zip(counts).map(|(&sum, count)| integer_mean(sum.into(), count)).collect(),
        None => {
            let sums = sums.as_primitive::<Decimal128Type>().values().iter();
            sums.zip(counts).map(|(&sum, count)| integer_mean(sum, count)).collect()
        }
    };
    Arc::new(Int64Array::new(means.into(), nulls))
}

/// NULL where nothing was counted; `None` where something was of all groups, as nearly always.
pub(crate) fn nulls_where_zero(counts: &Int64Array) -> Option<NullBuffer> {
    // All are looked at: many at a time.
    let are_any_zero = counts.values().iter().fold(false, |any, &count| any | (count == 0));
    are_any_zero.then(|| BooleanBuffer::collect_bool(counts.len(), |at| counts.value(at) != 0).into())
}

/// Accumulated values as the output's type. Sums that wrapped stay wrapped.
pub(crate) fn converted(values: ArrayRef, data_type: &DataType) -> ArrayRef {
    match (values.data_type(), data_type) {
        (same, wanted) if same == wanted => values,
        (DataType::Int64, DataType::UInt64) => retyped(values.as_primitive::<Int64Type>(), data_type),
        (DataType::Int64, DataType::Int32) => {
            Arc::new(values.as_primitive::<Int64Type>().unary::<_, Int32Type>(|sum| sum as i32))
        }
        (DataType::Int64, DataType::Int16) => {
            Arc::new(values.as_primitive::<Int64Type>().unary::<_, Int16Type>(|sum| sum as i16))
        }
        (DataType::Int64, DataType::Int8) => {
            Arc::new(values.as_primitive::<Int64Type>().unary::<_, Int8Type>(|sum| sum as i8))
        }
        (DataType::Decimal128(..), DataType::Int8 | DataType::Int16 | DataType::Int32) => {
            converted(converted(values, &DataType::Int64), data_type)
        }
        (DataType::Decimal128(..), DataType::Decimal128(..)) => {
            Arc::new(values.as_primitive::<Decimal128Type>().clone().with_data_type(data_type.clone()))
        }
        (DataType::Decimal128(..), DataType::Int64) => {
            Arc::new(values.as_primitive::<Decimal128Type>().unary::<_, Int64Type>(|sum| sum as i64))
        }
        (DataType::Decimal128(..), DataType::UInt64) => {
            let sums = values.as_primitive::<Decimal128Type>();
            Arc::new(UInt64Array::new(sums.values().iter().map(|&sum| sum as u64).collect(), sums.nulls().cloned()))
        }
        (held, wanted) => cast(&values, wanted).unwrap_or_else(|_| panic!("the planner reads {held} out as {wanted}")),
    }
}

/// The same 64-bit values as another type of 64 bits.
fn retyped(values: &Int64Array, data_type: &DataType) -> ArrayRef {
    let data = values.to_data().into_builder().data_type(data_type.clone());
    make_array(data.build().unwrap_or_else(|error: ArrowError| panic!("{data_type} has 64 bits: {error}")))
}

/// The values, NULL also where `valid` says so.
pub(crate) fn with_nulls(values: ArrayRef, valid: Option<NullBuffer>) -> ArrayRef {
    let Some(valid) = valid else { return values };
    let nulls = NullBuffer::union(values.nulls(), Some(&valid));
    let data = values.to_data().into_builder().nulls(nulls);
    make_array(data.build().unwrap_or_else(|error| panic!("one bit for each group: {error}")))
}
