//! Which of several bounds values have reached: the numbers of slices, from times.

use pelton_state::vector::Level;

use super::level::at_level;
use super::range::Integers;

/// Rows at a time: their values and numbers stay in the first-level cache while they are compared with one bound after the other.
const ROWS_AT_ONCE: usize = 2048;

/// Writes for the rows `first..end` how many of `bounds`, which ascend, each value has reached. There is a number for each row from 0 on.
///
/// # Panics
/// Where there are more bounds than a number can count, or fewer rows or numbers than `end`.
pub(crate) fn count_reached(
    level: Level,
    values: Integers<'_>,
    bounds: &[i64],
    (first, end): (usize, usize),
    numbers: &mut [u8],
) {
    assert!(bounds.len() <= usize::from(u8::MAX), "a byte counts the bounds");
    let numbers = &mut numbers[first..end];
    match values {
        Integers::Wide(values) => {
            numbers.fill(0);
            add_all(level, &values[first..end], bounds, numbers);
        }
        Integers::Distances { from, distances } => {
            let far: Vec<u16> =
                bounds.iter().filter_map(|bound| u16::try_from(bound.checked_sub(from)?).ok()).collect();
            // All have reached what is not behind the smallest.
            numbers.fill(bounds.partition_point(|&bound| bound < from) as u8);
            add_all(level, &distances[first..end], &far, numbers);
        }
    }
}

fn add_all<T: Ord>(level: Level, values: &[T], bounds: &[T], numbers: &mut [u8]) {
    at_level!(level, add_reached::<T: Ord>(values: &[T], bounds: &[T], numbers: &mut [u8]));
}

#[inline(always)]
fn add_reached<T: Ord>(values: &[T], bounds: &[T], numbers: &mut [u8]) {
    for (values, numbers) in values.chunks(ROWS_AT_ONCE).zip(numbers.chunks_mut(ROWS_AT_ONCE)) {
        for bound in bounds {
            numbers.iter_mut().zip(values).for_each(|(number, value)| *number += u8::from(value >= bound));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_last_bound_that_is_not_behind() {
        let values: Vec<i64> = (0..5000).map(|row| 100 + row * 7919 % 70_000).collect();
        let from = *values.iter().min().unwrap();
        for bounds in
            [&[][..], &[i64::MIN, 100, 101], &[200, 5_000, 5_000, 66_000], &[0, 69_999, 70_099, 70_100, i64::MAX]]
        {
            // Distances that fit only.
            let near: Vec<i64> = values.iter().map(|&value| value.min(from + 65_535)).collect();
            let distances: Vec<u16> = near.iter().map(|value| (value - from) as u16).collect();
            for level in Level::available() {
                for (values, integers) in
                    [(&values, Integers::Wide(&values)), (&near, Integers::Distances { from, distances: &distances })]
                {
                    let mut numbers = vec![99; values.len()];
                    count_reached(level, integers, bounds, (3, 4_990), &mut numbers);
                    let expected = |row: usize| match row {
                        3..4_990 => bounds.iter().filter(|&&bound| values[row] >= bound).count() as u8,
                        _ => 99,
                    };
                    assert!((0..values.len()).all(|row| numbers[row] == expected(row)), "{level} {bounds:?}");
                }
            }
        }
    }
}
