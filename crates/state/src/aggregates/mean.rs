//! AVG: a sum by a count. That of decimals is [`pelton_data::aggregate::decimal_mean`].

/// Integers below this are doubles as well.
const EXACT_IN_DOUBLE: u64 = 1 << f64::MANTISSA_DIGITS;

/// The mean of so many integers, without its fraction; of none it is not defined.
#[inline]
pub fn integer_mean(sum: i128, count: u64) -> i64 {
    match i64::try_from(sum) {
        // The quotient of doubles that are exact does not reach a whole number from below, and takes less time.
        Ok(sum) if sum.unsigned_abs() < EXACT_IN_DOUBLE => (sum as f64 / count.max(1) as f64) as i64,
        _ => (sum / i128::from(count.max(1))) as i64,
    }
}
