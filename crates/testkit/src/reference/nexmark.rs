//! Nexmark's queries without state: q1 changes a price into another currency, q2 picks some auctions.

use pelton_data::Block;

use super::integers;

/// q1: the prices in thousandths of a euro (price × 0.908, a DECIMAL with scale 3). All other columns are handed on as they are.
pub fn q1(block: &Block, price: usize, euros: &mut Vec<i128>) {
    euros.clear();
    euros.extend(integers(block, price).iter().map(|price| i128::from(*price) * 908));
}

/// q2's divisor.
const DIVISOR: u64 = 123;
/// Its inverse modulo 2^64: a multiple of the divisor times this is the quotient, anything else is larger than every quotient.
const INVERSE: u64 = inverse(DIVISOR);
const QUOTIENT_MAX: u64 = u64::MAX / DIVISOR;

/// Newton's iteration; each step doubles the number of right bits.
const fn inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    let mut step = 0;
    while step < 5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
}

/// q2: auction and price of the bids whose auction is a multiple of 123.
pub fn q2(block: &Block, auction: usize, price: usize, auctions: &mut Vec<i64>, prices: &mut Vec<i64>) {
    let (auction_column, price_column) = (integers(block, auction), integers(block, price));
    auctions.clear();
    prices.clear();
    for (keys, values) in auction_column.chunks(64).zip(price_column.chunks(64)) {
        let mut mask = multiples(keys);
        while mask != 0 {
            let row = mask.trailing_zeros() as usize;
            auctions.push(keys[row]);
            prices.push(values[row]);
            mask &= mask - 1;
        }
    }
}

/// One bit for each of at most 64 numbers: whether it is a multiple of the divisor.
fn multiples(numbers: &[i64]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if numbers.len() == 64 && is_x86_feature_detected!("avx512dq") && is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has the instructions.
        return unsafe { multiples_avx512(numbers) };
    }
    let is_multiple = |number: &i64| number.unsigned_abs().wrapping_mul(INVERSE) <= QUOTIENT_MAX;
    numbers.iter().enumerate().fold(0, |mask, (row, number)| mask | u64::from(is_multiple(number)) << row)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq")]
fn multiples_avx512(numbers: &[i64]) -> u64 {
    use std::arch::x86_64::{
        _mm512_abs_epi64, _mm512_cmple_epu64_mask, _mm512_loadu_epi64, _mm512_mullo_epi64, _mm512_set1_epi64,
    };
    let inverse = _mm512_set1_epi64(INVERSE as i64);
    let quotient_max = _mm512_set1_epi64(QUOTIENT_MAX as i64);
    let mut mask = 0;
    for (part, eight) in numbers.chunks_exact(8).enumerate() {
        // SAFETY: the part is eight numbers long.
        let eight = unsafe { _mm512_loadu_epi64(eight.as_ptr()) };
        let quotients = _mm512_mullo_epi64(_mm512_abs_epi64(eight), inverse);
        mask |= u64::from(_mm512_cmple_epu64_mask(quotients, quotient_max)) << (part * 8);
    }
    mask
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, RecordBatch};

    use super::*;

    fn block(auctions: &[i64]) -> Block {
        let auction: ArrayRef = Arc::new(Int64Array::from(auctions.to_vec()));
        let price: ArrayRef = Arc::new(Int64Array::from_iter_values((0..auctions.len() as i64).map(|row| row * 10)));
        Block::new(RecordBatch::try_from_iter(vec![("auction", auction), ("price", price)]).unwrap(), None).unwrap()
    }

    #[test]
    fn q1_multiplies_prices() {
        let mut euros = vec![1];
        q1(&block(&[0, 0, 0]), 1, &mut euros);
        assert_eq!(euros, [0, 9080, 18160]);
        q1(&block(&[i64::MAX]), 0, &mut euros);
        assert_eq!(euros, [i128::from(i64::MAX) * 908]);
    }

    #[test]
    fn q2_keeps_multiples() {
        let mut numbers: Vec<i64> = (-300..1700).collect();
        numbers.extend([i64::MIN, i64::MAX, i64::MAX / 123 * 123, i64::MIN / 123 * 123, i64::MIN + 1]);
        let expected: Vec<(i64, i64)> =
            numbers.iter().zip(0..).filter(|(n, _)| **n % 123 == 0).map(|(n, row)| (*n, row * 10)).collect();
        let (mut auctions, mut prices) = (Vec::new(), Vec::new());
        q2(&block(&numbers), 0, 1, &mut auctions, &mut prices);
        assert_eq!(auctions.into_iter().zip(prices).collect::<Vec<_>>(), expected);
    }
}
