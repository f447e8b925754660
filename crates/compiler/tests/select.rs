//! Selection primitives against Arrow's comparison kernels, at every level the processor has.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, DictionaryArray, Int64Array, PrimitiveArray, Scalar,
    StringViewArray, UInt8Array, UInt16Array,
};
use arrow::compute::kernels::{boolean, cmp};
use arrow::datatypes::*;
use datafusion_common::ScalarValue;
use datafusion_common::utils::normalize_float_zero;
use pelton_compiler::select::{Comparison, Level, Selector, append_rows, compare_columns, set_range};
use proptest::prelude::*;

const COMPARISONS: [Comparison; 6] = [
    Comparison::Equal,
    Comparison::NotEqual,
    Comparison::Less,
    Comparison::LessOrEqual,
    Comparison::Greater,
    Comparison::GreaterOrEqual,
];

/// By Arrow's kernels, which tell the zeros of floats apart, where SQL does not.
fn arrow_compare(
    comparison: Comparison,
    left: &dyn arrow::array::Datum,
    right: &dyn arrow::array::Datum,
) -> BooleanArray {
    let (left, right) = (one_zero(left), one_zero(right));
    let (left, right) = (left.as_ref(), right.as_ref());
    match comparison {
        Comparison::Equal => cmp::eq(left, right),
        Comparison::NotEqual => cmp::neq(left, right),
        Comparison::Less => cmp::lt(left, right),
        Comparison::LessOrEqual => cmp::lt_eq(left, right),
        Comparison::Greater => cmp::gt(left, right),
        Comparison::GreaterOrEqual => cmp::gt_eq(left, right),
    }
    .unwrap()
}

/// The same values without -0.0.
fn one_zero(datum: &dyn arrow::array::Datum) -> Box<dyn arrow::array::Datum> {
    let (array, is_scalar) = datum.get();
    let array = normalize_float_zero(&arrow::array::make_array(array.to_data()));
    if is_scalar { Box::new(arrow::array::Scalar::new(array)) } else { Box::new(array) }
}

/// A small generator, so that one number describes a whole test.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 11) as usize % end
    }
}

fn numbers<T: ArrowPrimitiveType>(random: &mut Random, rows: usize, value: impl Fn(u64) -> T::Native) -> ArrayRef {
    let nulls = random.below(2) == 0;
    let values = (0..rows).map(|_| {
        let drawn = match random.below(6) {
            0 => 0,
            1 => u64::MAX,
            2 => 1 << 63,
            3 => (1 << 63) - 1,
            4 => random.next() % 4,
            _ => random.next(),
        };
        (!nulls || random.below(4) > 0).then(|| value(drawn))
    });
    Arc::new(values.collect::<PrimitiveArray<T>>())
}

fn float(bits: u64) -> f64 {
    match bits % 8 {
        0 => f64::NAN,
        1 => -f64::NAN,
        2 => f64::INFINITY,
        3 => f64::NEG_INFINITY,
        4 => 0.0,
        5 => -0.0,
        6 => f64::MIN_POSITIVE / 2.0,
        _ => bits as i64 as f64,
    }
}

fn text(bits: u64) -> String {
    match bits % 5 {
        0 => String::new(),
        1 => "view".into(),
        2 => format!("view {}", bits >> 60),
        3 => format!("a string longer than its view holds {}", bits >> 62),
        _ => format!("ab\0{}", bits >> 60),
    }
}

/// A column of any type that has a selector, at least `rows` long, sliced from a longer one.
fn column(random: &mut Random, kind: usize, rows: usize) -> ArrayRef {
    let offset = random.below(70);
    let total = rows + offset + random.below(5);
    let r = random;
    let array: ArrayRef = match kind {
        0 => numbers::<Int8Type>(r, total, |v| v as i8),
        1 => numbers::<Int16Type>(r, total, |v| v as i16),
        2 => numbers::<Int32Type>(r, total, |v| v as i32),
        3 => numbers::<Int64Type>(r, total, |v| v as i64),
        4 => numbers::<UInt8Type>(r, total, |v| v as u8),
        5 => numbers::<UInt16Type>(r, total, |v| v as u16),
        6 => numbers::<UInt32Type>(r, total, |v| v as u32),
        7 => numbers::<UInt64Type>(r, total, |v| v),
        8 => numbers::<Float32Type>(r, total, |v| float(v) as f32),
        9 => numbers::<Float64Type>(r, total, float),
        10 => numbers::<Date32Type>(r, total, |v| v as i32),
        11 => numbers::<TimestampMillisecondType>(r, total, |v| v as i64),
        12 => {
            let wide = numbers::<Decimal128Type>(r, total, |v| i128::from(v as i64) * 1_000_000_007);
            let wide = wide.as_any().downcast_ref::<Decimal128Array>().unwrap().clone();
            Arc::new(wide.with_precision_and_scale(38, 3).unwrap())
        }
        13 => Arc::new((0..total).map(|_| (r.below(5) > 0).then(|| r.below(2) == 0)).collect::<BooleanArray>()),
        14 => Arc::new((0..total).map(|_| (r.below(5) > 0).then(|| text(r.next()))).collect::<StringViewArray>()),
        15 => Arc::new((0..total).map(|_| Some(format!("view {}", r.below(3)))).collect::<StringViewArray>()),
        16 => {
            let codes = (0..total).map(|_| (r.below(5) > 0).then(|| r.below(9) as u8)).collect::<UInt8Array>();
            let values = (0..9).map(|_| (r.below(9) > 0).then(|| text(r.next()))).collect::<StringViewArray>();
            Arc::new(DictionaryArray::<UInt8Type>::new(codes, Arc::new(values)))
        }
        _ => {
            let codes = UInt16Array::from_iter_values((0..total).map(|_| r.below(200) as u16));
            let values = StringViewArray::from_iter_values((0..200).map(|_| text(r.next())));
            Arc::new(DictionaryArray::<UInt16Type>::new(codes, Arc::new(values)))
        }
    };
    array.slice(offset, rows)
}

/// What boundaries blocks guarantee: bits aligned to row 0, or any.
fn block_column(random: &mut Random, kind: usize, rows: usize) -> ArrayRef {
    let array = column(random, kind, rows);
    if random.below(2) == 0 { pelton_data::column::align_bits(array) } else { array }
}

/// Checks one predicate on a random range at every level.
fn check(random: &mut Random, rows: usize, expected: &BooleanArray, refine: impl Fn(Level, usize, usize, &mut [u64])) {
    let first = random.below(rows + 1);
    let end = first + random.below(rows - first + 1);
    let (outer_first, outer_end) = (random.below(first + 1), end + random.below(rows - end + 1));
    let mut held = Vec::new();
    set_range(&mut held, rows, outer_first, outer_end);
    if random.below(2) == 0 {
        held.iter_mut().for_each(|word| *word &= random.next());
    }
    for level in Level::available() {
        let mut mask = held.clone();
        refine(level, first, end, &mut mask);
        let bit = |mask: &[u64], row: usize| mask[row / 64] >> (row % 64) & 1 == 1;
        for row in 0..rows {
            let passes = !(first..end).contains(&row) || expected.is_valid(row) && expected.value(row);
            assert_eq!(bit(&mask, row), bit(&held, row) && passes, "row {row} of {first}..{end} at {level}");
        }
        let mut appended = vec![7];
        append_rows(level, &mask, first, end, &mut appended);
        let rows = (first..end).filter(|&row| bit(&mask, row)).map(|row| row as u32);
        assert_eq!(appended, std::iter::once(7).chain(rows).collect::<Vec<_>>(), "rows at {level}");
    }
}

/// Checks a predicate over one column, on a random range and on some rows that are listed.
fn check_selector(random: &mut Random, expected: &BooleanArray, selector: &Selector, array: &ArrayRef) {
    let rows = array.len();
    check(random, rows, expected, |level, first, end, mask| selector.refine(level, array, first, end, mask));
    let mut listed: Vec<u32> = (0..rows as u32).filter(|_| random.below(3) > 0).collect();
    let passing = listed.iter().copied().filter(|&row| {
        let row = row as usize;
        expected.is_valid(row) && expected.value(row)
    });
    let passing: Vec<u32> = passing.collect();
    selector.keep(array, &mut listed);
    assert_eq!(listed, passing, "rows that were listed");
}

/// The type's SQL-level scalar at a row, and the same as an Arrow scalar of the column's own type.
fn constant(array: &ArrayRef, row: usize) -> (ScalarValue, Scalar<ArrayRef>) {
    let scalar = ScalarValue::try_from_array(array, row).unwrap();
    let datum = match &scalar {
        ScalarValue::Dictionary(_, value) => value.to_array().unwrap(),
        value => value.to_array().unwrap(),
    };
    (scalar, Scalar::new(datum))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn comparisons_with_a_constant_are_arrows(seed in 1u64.., kind in 0usize..18, comparison in 0usize..6) {
        let random = &mut Random(seed);
        let rows = 1 + random.below(400);
        let array = block_column(random, kind, rows);
        let (scalar, datum) = constant(&array, random.below(rows));
        let comparison = COMPARISONS[comparison];
        let selector = Selector::compare(array.data_type(), comparison, &scalar).unwrap();
        let expected = arrow_compare(comparison, &array, &datum);
        check_selector(random, &expected, &selector, &array);
    }

    #[test]
    fn between_is_two_comparisons(seed in 1u64.., kind in 0usize..13) {
        let random = &mut Random(seed);
        let rows = 1 + random.below(400);
        let array = block_column(random, kind, rows);
        let (low, low_datum) = constant(&array, random.below(rows));
        let (high, high_datum) = constant(&array, random.below(rows));
        let selector = Selector::between(array.data_type(), &low, &high).unwrap();
        let above = arrow_compare(Comparison::GreaterOrEqual, &array, &low_datum);
        let below = arrow_compare(Comparison::LessOrEqual, &array, &high_datum);
        let expected = boolean::and_kleene(&above, &below).unwrap();
        check_selector(random, &expected, &selector, &array);
    }

    #[test]
    fn remainders_are_those_of_a_division(seed in 1u64.., wide: bool, negate: bool) {
        let random = &mut Random(seed);
        let rows = 1 + random.below(400);
        let array = block_column(random, if wide { 3 } else { 2 }, rows);
        let divisor = match random.below(4) {
            0 => *[1, -1, 2, -2, 3, -7, 123, 1 << 31, -(1 << 31), i64::MAX, i64::MIN].get(random.below(11)).unwrap(),
            1 => (random.next() as i64 >> random.below(64)).max(1),
            2 => 1 << random.below(63),
            _ => 1 + random.below(20) as i64,
        };
        let numbers = arrow::compute::cast(&array, &DataType::Int64).unwrap();
        let numbers = numbers.as_primitive::<Int64Type>();
        let some = numbers.is_valid(0).then(|| numbers.value(0).wrapping_rem(divisor));
        let remainder = match random.below(3) {
            0 => 0,
            1 => some.unwrap_or(1),
            _ => random.next() as i64 >> random.below(64),
        };
        let selector = Selector::remainder(array.data_type(), divisor, remainder, negate).unwrap();
        let holds = |value: i64| (value.wrapping_rem(divisor) == remainder) != negate;
        let expected: BooleanArray = numbers.iter().map(|value| value.map(holds)).collect();
        check_selector(random, &expected, &selector, &array);
    }

    #[test]
    fn a_list_is_many_comparisons(seed in 1u64.., kind in 0usize..12, negate: bool) {
        let random = &mut Random(seed);
        let rows = 1 + random.below(400);
        let array = block_column(random, kind, rows);
        let list: Vec<_> = (0..random.below(9)).map(|_| constant(&array, random.below(rows))).collect();
        let selector = Selector::among(array.data_type(), list.iter().map(|(value, _)| value), negate).unwrap();
        let none: BooleanArray = (0..rows).map(|row| array.is_valid(row).then_some(false)).collect();
        let equal = list.iter().map(|(_, datum)| cmp::eq(&array, datum).unwrap());
        let any = equal.fold(none, |any, equal| boolean::or_kleene(&any, &equal).unwrap());
        let expected = if negate { boolean::not(&any).unwrap() } else { any };
        check_selector(random, &expected, &selector, &array);
    }

    #[test]
    fn columns_compare_as_in_arrow(seed in 1u64.., kind in 0usize..15, comparison in 0usize..6) {
        let random = &mut Random(seed);
        let rows = 1 + random.below(400);
        let (left, right) = (block_column(random, kind, rows), block_column(random, kind, rows));
        let comparison = COMPARISONS[comparison];
        let expected = arrow_compare(comparison, &left, &right);
        check(random, rows, &expected, |level, first, end, mask| {
            assert!(compare_columns(level, comparison, &left, &right, first, end, mask));
        });
    }

    #[test]
    fn prefixes_nulls_and_booleans_are_what_they_say(seed in 1u64.., kind in 0usize..18, choice in 0usize..7) {
        let random = &mut Random(seed);
        let rows = 1 + random.below(400);
        let is_null = random.below(2) == 0;
        let array = block_column(random, kind, rows);
        let nulls = array.logical_nulls();
        let valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        let (selector, expected) = if kind >= 14 && choice < 6 {
            let prefix = ["", "v", "view", "view 1", "a string longer than its view", "ab\0"][choice];
            let strings = arrow::compute::cast(&array, &DataType::Utf8View).unwrap();
            let strings = strings.as_any().downcast_ref::<StringViewArray>().unwrap();
            let expected = strings.iter().map(|value| value.map(|value| value.starts_with(prefix) != is_null));
            (Selector::prefix(array.data_type(), prefix, is_null).unwrap(), expected.collect::<BooleanArray>())
        } else if kind == 13 && choice < 4 {
            let booleans = array.as_any().downcast_ref::<BooleanArray>().unwrap();
            (Selector::boolean(is_null), booleans.iter().map(|value| value.map(|value| value == is_null)).collect())
        } else {
            (Selector::null(is_null), (0..rows).map(|row| Some(valid(row) != is_null)).collect())
        };
        check_selector(random, &expected, &selector, &array);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rows_are_those_of_the_bits_however_many(seed in 1u64.., rows in 0usize..20_000) {
        let mut random = Random(seed);
        // Stretches of all densities, empty and full ones among them.
        let mut mask = vec![0_u64; rows.div_ceil(64)];
        for stretch in mask.chunks_mut(40) {
            let density = random.below(9);
            let word = |random: &mut Random| match density {
                0 => 0,
                8 => u64::MAX,
                density => (0..density).fold(u64::MAX, |bits, _| bits & random.next()),
            };
            stretch.iter_mut().for_each(|bits| *bits = word(&mut random));
        }
        let (first, end) = (random.below(rows + 1), random.below(rows + 1));
        let (first, end) = (first.min(end), first.max(end));
        for level in Level::available() {
            let mut found = vec![7];
            append_rows(level, &mask, first, end, &mut found);
            let expected = (first..end).filter(|&row| mask[row / 64] >> (row % 64) & 1 == 1).map(|row| row as u32);
            prop_assert_eq!(&found, &std::iter::once(7).chain(expected).collect::<Vec<_>>(), "{}", level);
        }
    }
}

#[test]
fn a_comparison_with_null_is_never_true() {
    let array: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let selector = Selector::compare(&DataType::Int64, Comparison::NotEqual, &ScalarValue::Int64(None)).unwrap();
    let mut mask = vec![0b111];
    selector.refine(Level::best(), &array, 0, 3, &mut mask);
    assert_eq!(mask, [0]);
}

#[test]
fn a_zero_divisor_is_left_to_whoever_fails_for_it() {
    assert_eq!(Selector::remainder(&DataType::Int64, 0, 0, false), None);
    assert_eq!(Selector::remainder(&DataType::Int8, 3, 0, false), None);
}

#[test]
fn constants_of_another_type_are_left_to_others() {
    let constant = ScalarValue::Int32(Some(1));
    assert_eq!(Selector::compare(&DataType::Int64, Comparison::Equal, &constant), None);
    let cents = ScalarValue::Decimal128(Some(100), 10, 2);
    assert_eq!(Selector::compare(&DataType::Decimal128(10, 3), Comparison::Equal, &cents), None);
    assert_eq!(Selector::between(&DataType::Utf8View, &constant, &constant), None);
}
