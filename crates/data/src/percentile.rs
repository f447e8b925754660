//! Where the value lies that a fraction of all values does not come behind.

/// Of a number of values, the place of one in ascending order.
///
/// The fraction is from 0 to 1; it is counted from the largest value where `is_descending`.
///
/// # Panics
/// Where there are no values.
pub fn discrete_place(count: usize, fraction: f64, is_descending: bool) -> usize {
    let place = ((count as f64 * fraction).ceil() as usize).clamp(1, count) - 1;
    if is_descending { count - 1 - place } else { place }
}

/// As [`discrete_place`], where it may lie between that one and the next, and how far: a share of the distance, less than one.
pub fn continuous_place(count: usize, fraction: f64, is_descending: bool) -> (usize, f64) {
    let last = (count - 1) as f64;
    let rank = last * fraction;
    let rank = if is_descending { last - rank } else { rank };
    (rank.floor() as usize, rank - rank.floor())
}

/// The value between two, at a share of their distance.
pub fn between(low: f64, high: f64, share: f64) -> f64 {
    if share == 0.0 || low == high { low } else { low + (high - low) * share }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_from_either_end() {
        let places =
            |is_descending| [0.0, 0.25, 0.5, 0.51, 1.0].map(|fraction| discrete_place(4, fraction, is_descending));
        assert_eq!((places(false), places(true)), ([0, 0, 1, 2, 3], [3, 3, 2, 1, 0]));
        assert_eq!((continuous_place(4, 0.5, false), continuous_place(5, 0.25, true)), ((1, 0.5), (3, 0.0)));
        assert_eq!((between(1.0, 3.0, 0.25), between(f64::INFINITY, f64::INFINITY, 0.5)), (1.5, f64::INFINITY));
    }
}
