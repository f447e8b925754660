//! Aggregates of all values of a group: computed when its window closes.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, Decimal128Array, Float64Array, Int64Array, ListArray, PrimitiveArray,
    StringViewBuilder, UInt32Array, downcast_primitive_array, make_comparator,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{SortOptions, cast, concat, take};
use arrow::datatypes::{ArrowNativeTypeOp, DataType, Decimal128Type, Float64Type, Int32Type, Int64Type};
use pelton_data::aggregate::Holistic;
use pelton_data::allowance::Allowance;
use pelton_data::decimal::{DecimalTotal, fitting};
use pelton_data::percentile::{between, continuous_place, discrete_place};
use pelton_data::significant;
use pelton_state::aggregates::{Aggregate, FloatVariance, SumFloatWide, Takes, Variance};
use pelton_state::kernel::KernelError;
use pelton_state::table::{Chosen, GroupedValues, ValueGroups};

use crate::read_out::{converted, means, nulls_where_zero, too_many_digits, with_nulls};

/// What a column is computed from.
pub(crate) struct ColumnState<'a> {
    /// The values.
    pub(crate) values: ValueGroups<'a>,
    /// Their positions, where these are kept apart.
    pub(crate) arrivals: Option<ValueGroups<'a>>,
    /// Positions of NULLs.
    pub(crate) nulls: Option<ValueGroups<'a>>,
}

/// Values that are brought together at once, about: they stay in the cache, and take no fresh memory each time.
const VALUES_AT_ONCE: usize = 8 * 1024;

/// The values of a column for these entries.
///
/// # Errors
/// Where a value does not fit its type.
pub(crate) fn column(
    function: &Holistic,
    kept: &ColumnState<'_>,
    entries: Chosen<'_>,
    data_type: &DataType,
) -> Result<ArrayRef, KernelError> {
    if matches!(function, Holistic::Count | Holistic::Array { .. } | Holistic::Joined { .. }) {
        return part(function, kept, entries, data_type);
    }
    let (mut parts, mut start, mut values) = (Vec::new(), 0, 0);
    for (at, count) in kept.values.counts(entries).into_iter().enumerate() {
        values += count;
        if values >= VALUES_AT_ONCE || at + 1 == entries.len() {
            parts.push(part(function, kept, entries.part(start..at + 1), data_type)?);
            (start, values) = (at + 1, 0);
        }
    }
    match parts.as_slice() {
        [] => part(function, kept, entries, data_type),
        [all] => Ok(all.clone()),
        parts => {
            let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
            Ok(concat(&parts).expect("parts of a column have its type"))
        }
    }
}

/// The same for groups that have few values.
fn part(
    function: &Holistic,
    kept: &ColumnState<'_>,
    entries: Chosen<'_>,
    data_type: &DataType,
) -> Result<ArrayRef, KernelError> {
    Ok(match function {
        Holistic::Count => {
            Arc::new(kept.values.counts(entries).into_iter().map(|count| count as i64).collect::<Int64Array>())
        }
        Holistic::Sum | Holistic::Mean => {
            let (sums, counts, scale) = sums(kept.values.of(entries), function)?;
            if *function == Holistic::Mean {
                return means(&sums, &counts, scale, data_type);
            }
            with_nulls(converted(sums, data_type), nulls_where_zero(&counts))
        }
        Holistic::Variance { is_sample, is_root } => variances(kept.values.of(entries), *is_sample, *is_root),
        Holistic::Percentile { fraction, is_continuous: true, is_descending } => {
            Arc::new(continuous_percentiles(kept.values.of(entries), *fraction, *is_descending))
        }
        Holistic::Percentile { fraction, is_continuous: false, is_descending } => {
            let place = |count| discrete_place(count, *fraction, *is_descending);
            picked(kept.values.of(entries), Pick::Place(&place))
        }
        Holistic::RoundedPercentile { fraction } => Arc::new(rounded_percentiles(kept, entries, *fraction)),
        Holistic::Mode => match kept.values.frequencies(entries) {
            Some(frequencies) => modes(kept.values.of(entries), &frequencies),
            None => picked(kept.values.of(entries), Pick::Mode),
        },
        Holistic::Array { is_distinct } => Arc::new(arrays(kept, entries, *is_distinct, data_type)?),
        Holistic::Joined { delimiter } => Arc::new(joined(kept, entries, delimiter)?),
    })
}

impl ColumnState<'_> {
    /// The values of each group in the order of their arrival, and their positions.
    fn in_order(&self, entries: Chosen<'_>) -> (GroupedValues, Vec<u64>) {
        let GroupedValues { offsets, values } = self.values.of(entries);
        let positions = self.arrivals.as_ref().unwrap_or(&self.values).positions(entries);
        assert_eq!(positions.len(), values.len(), "each value has a position");
        if offsets.windows(2).all(|ends| positions[ends[0]..ends[1]].is_sorted()) {
            return (GroupedValues { offsets, values }, positions);
        }
        let mut rows: Vec<u32> = (0..values.len() as u32).collect();
        for ends in offsets.windows(2) {
            // Values of one position stand side by side in their order already.
            rows[ends[0]..ends[1]].sort_by_key(|&row| positions[row as usize]);
        }
        let sorted = rows.iter().map(|&row| positions[row as usize]).collect();
        let values = take(&values, &UInt32Array::from(rows), None).expect("rows are those of the values");
        (GroupedValues { offsets, values }, sorted)
    }
}

/// Sums of each group (`Float64` or `Decimal128`), counts, and the scale of decimals. Floats are added in ascending order: sets
/// have none.
///
/// # Errors
/// Where a sum of decimals has too many digits.
fn sums(groups: GroupedValues, function: &Holistic) -> Result<(ArrayRef, Int64Array, i8), KernelError> {
    let GroupedValues { offsets, values } = groups;
    let counts = offsets.windows(2).map(|ends| (ends[1] - ends[0]) as i64).collect();
    let groups = offsets.windows(2).map(|ends| ends[0]..ends[1]);
    Ok(match values.data_type() {
        DataType::Decimal128(_, scale) => {
            let values = values.as_primitive::<Decimal128Type>().values();
            let function = if *function == Holistic::Mean { "AVG" } else { "SUM" };
            let sums = groups.map(|group| {
                let total =
                    values[group].iter().fold(DecimalTotal::default(), |total, &value| total.plus(value)).exact();
                fitting(total).ok_or_else(|| too_many_digits(function, total, *scale))
            });
            let sums: Decimal128Array = sums.collect::<Result<Vec<_>, _>>()?.into();
            let sums = sums.with_data_type(DataType::Decimal128(38, *scale));
            (Arc::new(sums), counts, *scale)
        }
        data_type if data_type.is_floating() => {
            let mut values = doubles(&values);
            let sums = groups.map(|group| {
                let group = &mut values[group];
                group.sort_unstable_by(f64::total_cmp);
                group.iter().copied().fold(SumFloatWide::EMPTY, SumFloatWide::add)
            });
            (Arc::new(sums.map(|sum| sum.high).collect::<Float64Array>()), counts, 0)
        }
        _ => {
            let values = cast(&values, &DataType::Int64).expect("whole numbers have 64 bits");
            let values = values.as_primitive::<Int64Type>().values();
            let sums = groups.map(|group| values[group].iter().map(|&value| i128::from(value)).sum::<i128>());
            let sums: Decimal128Array = sums.collect::<Vec<_>>().into();
            (Arc::new(sums.with_data_type(DataType::Decimal128(38, 0))), counts, 0)
        }
    })
}

fn doubles(values: &ArrayRef) -> Vec<f64> {
    let values = cast(values, &DataType::Float64).expect("the planner casts what is not a number");
    values.as_primitive::<Float64Type>().values().to_vec()
}

fn variances(groups: GroupedValues, is_sample: bool, is_root: bool) -> ArrayRef {
    let mut values = doubles(&groups.values);
    let variances = groups.offsets.windows(2).map(|ends| {
        let group = &mut values[ends[0]..ends[1]];
        group.sort_unstable_by(f64::total_cmp);
        let sums = group.iter().copied().fold(FloatVariance::EMPTY, FloatVariance::add);
        let variance = FloatVariance::finalize(sums, group.len() as i64, is_sample);
        if is_root { variance.map(f64::sqrt) } else { variance }
    });
    Arc::new(variances.collect::<Float64Array>())
}

fn continuous_percentiles(groups: GroupedValues, fraction: f64, is_descending: bool) -> Float64Array {
    let mut values = doubles(&groups.values);
    let percentile = |ends: &[usize]| {
        let group = &mut values[ends[0]..ends[1]];
        if group.is_empty() {
            return None;
        }
        let (place, share) = continuous_place(group.len(), fraction, is_descending);
        let (_, low, above) = group.select_nth_unstable_by(place, f64::total_cmp);
        let low = *low;
        let high = above.iter().copied().min_by(f64::total_cmp).unwrap_or(low);
        Some(between(low, high, share))
    };
    groups.offsets.windows(2).map(percentile).collect()
}

/// The first value, of numbers as [`significant`] rounds them, that the fraction of all does not come behind.
fn rounded_percentiles(kept: &ColumnState<'_>, entries: Chosen<'_>, fraction: f64) -> Float64Array {
    let GroupedValues { offsets, values } = kept.values.of(entries);
    let frequencies = kept.values.frequencies(entries).expect("numbers are kept in sets");
    let values = values.as_primitive::<Int32Type>().values();
    let mut numbers: Vec<(i32, i64)> = values.iter().copied().zip(frequencies).collect();
    let percentile = |ends: &[usize]| {
        let group = &mut numbers[ends[0]..ends[1]];
        group.sort_unstable();
        let count: i64 = group.iter().map(|(_, frequency)| frequency).sum();
        if count == 0 {
            return None;
        }
        let mut left = discrete_place(count as usize, fraction, false) as i64;
        let place = group.iter().position(|(_, frequency)| {
            left -= frequency;
            left < 0
        });
        Some(significant::value(group[place.expect("a place of them")].0))
    };
    offsets.windows(2).map(percentile).collect()
}

/// Which of a group's values.
#[derive(Clone, Copy)]
enum Pick<'a> {
    /// The one at this place in ascending order, of so many.
    Place(&'a dyn Fn(usize) -> usize),
    /// The most frequent, the smallest of several.
    Mode,
}

impl Pick<'_> {
    /// The value; `None` where there are none.
    fn of<T: Copy>(self, group: &mut [T], compare: impl Fn(&T, &T) -> Ordering + Copy) -> Option<T> {
        if group.is_empty() {
            return None;
        }
        match self {
            Pick::Place(place) => Some(*group.select_nth_unstable_by(place(group.len()), compare).1),
            Pick::Mode => {
                group.sort_unstable_by(compare);
                let runs = group.chunk_by(|left, right| compare(left, right).is_eq());
                let longest = runs.reduce(|best, run| if run.len() > best.len() { run } else { best });
                longest.map(|run| run[0])
            }
        }
    }
}

/// One value of each group, NULL where there are none.
fn picked(groups: GroupedValues, pick: Pick<'_>) -> ArrayRef {
    fn of<T: ArrowPrimitiveType>(values: &PrimitiveArray<T>, offsets: &[usize], pick: Pick<'_>) -> ArrayRef {
        let mut held = values.values().to_vec();
        let compare = |left: &T::Native, right: &T::Native| left.compare(*right);
        let chosen: PrimitiveArray<T> =
            offsets.windows(2).map(|ends| pick.of(&mut held[ends[0]..ends[1]], compare)).collect();
        Arc::new(chosen.with_data_type(values.data_type().clone()))
    }
    let GroupedValues { offsets, values } = groups;
    let values = values.as_ref();
    downcast_primitive_array!(
        values => of(values, &offsets, pick),
        _ => {
            let compare = make_comparator(values, values, SortOptions::default()).expect("values of a type have an order");
            let mut rows: Vec<u32> = (0..values.len() as u32).collect();
            let compare = |left: &u32, right: &u32| compare(*left as usize, *right as usize);
            let chosen: UInt32Array =
                offsets.windows(2).map(|ends| pick.of(&mut rows[ends[0]..ends[1]], compare)).collect();
            take(values, &chosen, None).expect("rows are those of the values")
        }
    )
}

/// The most frequent value of each set, the smallest of several, NULL where there are none: each is there once, and came so often.
fn modes(groups: GroupedValues, frequencies: &[i64]) -> ArrayRef {
    fn chosen(offsets: &[usize], frequencies: &[i64], compare: impl Fn(usize, usize) -> Ordering) -> UInt32Array {
        let mode = |ends: &[usize]| {
            let frequent = |left: &usize, right: &usize| {
                frequencies[*left].cmp(&frequencies[*right]).then_with(|| compare(*right, *left))
            };
            (ends[0]..ends[1]).max_by(frequent).map(|row| row as u32)
        };
        offsets.windows(2).map(mode).collect()
    }
    fn of<T: ArrowPrimitiveType>(values: &PrimitiveArray<T>, offsets: &[usize], frequencies: &[i64]) -> UInt32Array {
        let values = values.values();
        chosen(offsets, frequencies, |left, right| values[left].compare(values[right]))
    }
    let GroupedValues { offsets, values } = groups;
    let values = values.as_ref();
    let rows = downcast_primitive_array!(
        values => of(values, &offsets, frequencies),
        _ => {
            let compare = make_comparator(values, values, SortOptions::default()).expect("values of a type have an order");
            chosen(&offsets, frequencies, compare)
        }
    );
    take(values, &rows, None).expect("rows are those of the values")
}

fn arrays(
    kept: &ColumnState<'_>,
    entries: Chosen<'_>,
    is_distinct: bool,
    data_type: &DataType,
) -> Result<ListArray, KernelError> {
    let DataType::List(field) = data_type else { unreachable!("the planner makes an array of values") };
    let (GroupedValues { mut offsets, mut values }, positions) = kept.in_order(entries);
    if let Some(nulls) = &kept.nulls {
        let null_offsets = nulls.of(entries).offsets;
        let null_positions = nulls.positions(entries);
        let nulls = null_offsets.windows(2).map(|ends| {
            let nulls = &null_positions[ends[0]..ends[1]];
            if is_distinct { nulls.iter().min().map_or(&[][..], std::slice::from_ref) } else { nulls }
        });
        (offsets, values) = with_null_elements(&offsets, &values, &positions, nulls);
    }
    let any: Vec<bool> = offsets.windows(2).map(|ends| ends[0] < ends[1]).collect();
    let ends: Result<Vec<i32>, _> = offsets.iter().map(|&offset| i32::try_from(offset)).collect();
    let too_long = |_| KernelError::State("arrays of one batch have more than 2^31 elements".to_owned());
    let offsets = OffsetBuffer::new(ends.map_err(too_long)?.into());
    Ok(ListArray::new(field.clone(), offsets, values, nulls_of(any)))
}

fn nulls_of(any: Vec<bool>) -> Option<NullBuffer> {
    Some(NullBuffer::from(any)).filter(|nulls| nulls.null_count() > 0)
}

/// The values of each group, with a NULL at each of its positions in `nulls`.
fn with_null_elements<'p>(
    offsets: &[usize],
    values: &ArrayRef,
    positions: &[u64],
    nulls: impl Iterator<Item = &'p [u64]>,
) -> (Vec<usize>, ArrayRef) {
    let (mut ends, mut rows) = (vec![0], Vec::with_capacity(values.len()));
    for (own, nulls) in offsets.windows(2).zip(nulls) {
        let start = rows.len();
        rows.extend((own[0]..own[1]).map(|row| (positions[row], Some(row as u32))));
        rows.extend(nulls.iter().map(|&position| (position, None)));
        rows[start..].sort_by_key(|row| row.0);
        ends.push(rows.len());
    }
    let rows: UInt32Array = rows.into_iter().map(|(_, row)| row).collect();
    (ends, take(values, &rows, None).expect("rows are those of the values"))
}

fn joined(
    kept: &ColumnState<'_>,
    entries: Chosen<'_>,
    delimiter: &str,
) -> Result<arrow::array::StringViewArray, KernelError> {
    let (GroupedValues { offsets, values }, _) = kept.in_order(entries);
    let strings = values.as_string_view();
    let of_strings: usize = strings.lengths().map(|length| length as usize).sum();
    if let Some(refusal) = Allowance::get().refusal(of_strings.saturating_add(delimiter.len() * strings.len())) {
        return Err(KernelError::Expression(format!("LISTAGG {refusal}")));
    }
    let mut builder = StringViewBuilder::with_capacity(entries.len());
    let mut text = String::new();
    for ends in offsets.windows(2) {
        text.clear();
        for row in ends[0]..ends[1] {
            if row > ends[0] {
                text.push_str(delimiter);
            }
            text.push_str(strings.value(row));
        }
        builder.append_option((ends[0] < ends[1]).then_some(&text));
    }
    Ok(builder.finish())
}
