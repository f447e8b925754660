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
/// Its inverse modulo 2^64: a multiple of the divisor times this is the quotient, which anything else is too large or too small for.
const INVERSE: u64 = inverse(DIVISOR);
/// Quotients lie from this below zero to this above it.
const QUOTIENT_MAX: u64 = i64::MAX as u64 / DIVISOR;

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

/// Words of bits that are looked at together.
const SEGMENT_WORDS: usize = 64;

/// q2: auction and price of the bids whose auction is a multiple of 123.
///
/// First a bit for each row; then only words with a bit are visited, as whether the next one has a bit is hard to predict.
pub fn q2(block: &Block, auction: usize, price: usize, auctions: &mut Vec<i64>, prices: &mut Vec<i64>) {
    let (auction_column, price_column) = (integers(block, auction), integers(block, price));
    auctions.clear();
    prices.clear();
    let mut masks = [0; SEGMENT_WORDS];
    let segments = auction_column.chunks(SEGMENT_WORDS * 64).zip(price_column.chunks(SEGMENT_WORDS * 64));
    for (keys, values) in segments {
        auctions.reserve(keys.len());
        prices.reserve(keys.len());
        let (held, count) = multiples(keys, &mut masks);
        for &word in &held[..count] {
            let mut mask = masks[word as usize];
            while mask != 0 {
                let row = word as usize * 64 + mask.trailing_zeros() as usize;
                auctions.push(keys[row]);
                prices.push(values[row]);
                mask &= mask - 1;
            }
        }
    }
}

/// Sets one bit for each number that is a multiple of the divisor. Returns the words that have a bit, and how many these are.
fn multiples(numbers: &[i64], masks: &mut [u64; SEGMENT_WORDS]) -> ([u32; SEGMENT_WORDS + 8], usize) {
    #[cfg(target_arch = "x86_64")]
    if numbers.len() == SEGMENT_WORDS * 64
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
    {
        // SAFETY: the processor has the instructions.
        return unsafe { multiples_avx512(numbers, masks) };
    }
    #[cfg(target_arch = "x86_64")]
    if numbers.len() == SEGMENT_WORDS * 64 && is_x86_feature_detected!("avx2") {
        // SAFETY: as above.
        return unsafe { multiples_avx2(numbers, masks) };
    }
    let is_multiple = |number: &i64| {
        let quotient = (*number as u64).wrapping_mul(INVERSE);
        quotient.wrapping_add(QUOTIENT_MAX) <= 2 * QUOTIENT_MAX
    };
    let (mut held, mut count) = ([0; SEGMENT_WORDS + 8], 0);
    for (word, (numbers, mask)) in numbers.chunks(64).zip(masks).enumerate() {
        let bits = numbers.iter().enumerate();
        *mask = bits.fold(0, |mask, (row, number)| mask | u64::from(is_multiple(number)) << row);
        held[count] = word as u32;
        count += usize::from(*mask != 0);
    }
    (held, count)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,popcnt")]
fn multiples_avx512(numbers: &[i64], masks: &mut [u64; SEGMENT_WORDS]) -> ([u32; SEGMENT_WORDS + 8], usize) {
    use std::arch::x86_64::{
        _mm256_add_epi32, _mm256_maskz_compress_epi32, _mm256_set1_epi32, _mm256_setr_epi32, _mm256_storeu_si256,
        _mm512_add_epi64, _mm512_cmple_epu64_mask, _mm512_loadu_epi64, _mm512_mullo_epi64, _mm512_set1_epi64,
        _mm512_test_epi64_mask,
    };
    let inverse = _mm512_set1_epi64(INVERSE as i64);
    let below_zero = _mm512_set1_epi64(QUOTIENT_MAX as i64);
    let quotients = _mm512_set1_epi64(2 * QUOTIENT_MAX as i64);
    for (numbers, mask) in numbers.chunks_exact(64).zip(masks.iter_mut()) {
        let mut parts = [0_u8; 8];
        for (eight, part) in numbers.chunks_exact(8).zip(&mut parts) {
            // SAFETY: the part is eight numbers long.
            let eight = unsafe { _mm512_loadu_epi64(eight.as_ptr()) };
            let quotient = _mm512_add_epi64(_mm512_mullo_epi64(eight, inverse), below_zero);
            *part = _mm512_cmple_epu64_mask(quotient, quotients);
        }
        // Byte for byte to memory, which is half the work of shifting each to its place in a register.
        *mask = u64::from_le_bytes(parts);
    }
    let places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    let (mut held, mut count) = ([0_u32; SEGMENT_WORDS + 8], 0);
    for (vector, eight) in masks.chunks_exact(8).enumerate() {
        // SAFETY: the part is eight words long; at most as many numbers are kept as there are words before these, and eight more are written.
        unsafe {
            let bits = _mm512_loadu_epi64(eight.as_ptr().cast());
            let found = _mm512_test_epi64_mask(bits, bits);
            let words = _mm256_add_epi32(places, _mm256_set1_epi32(vector as i32 * 8));
            let listed = _mm256_maskz_compress_epi32(found, words);
            _mm256_storeu_si256(held.as_mut_ptr().add(count).cast(), listed);
            count += found.count_ones() as usize;
        }
    }
    (held, count)
}

/// Products of 64 bits are put together from those of halves.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn multiples_avx2(numbers: &[i64], masks: &mut [u64; SEGMENT_WORDS]) -> ([u32; SEGMENT_WORDS + 8], usize) {
    use std::arch::x86_64::{
        _mm256_add_epi32, _mm256_add_epi64, _mm256_blend_epi32, _mm256_castsi256_pd, _mm256_cmpgt_epi64,
        _mm256_loadu_si256, _mm256_movemask_pd, _mm256_mul_epu32, _mm256_mullo_epi32, _mm256_set1_epi64x,
        _mm256_setzero_si256, _mm256_slli_epi64,
    };
    let inverse = _mm256_set1_epi64x(INVERSE as i64);
    let inverse_swapped = _mm256_set1_epi64x(INVERSE.rotate_left(32) as i64);
    // Comparisons have a sign: both sides are moved by half the range.
    let below_zero = _mm256_set1_epi64x((QUOTIENT_MAX as i64).wrapping_add(i64::MIN));
    let quotients = _mm256_set1_epi64x((2 * QUOTIENT_MAX as i64).wrapping_add(i64::MIN));
    let (mut held, mut count) = ([0_u32; SEGMENT_WORDS + 8], 0);
    for (word, (numbers, mask)) in numbers.chunks_exact(64).zip(masks.iter_mut()).enumerate() {
        let mut beyond = 0;
        for (part, four) in numbers.chunks_exact(4).enumerate() {
            // SAFETY: the part is four numbers long.
            let four = unsafe { _mm256_loadu_si256(four.as_ptr().cast()) };
            let crossed = _mm256_mullo_epi32(four, inverse_swapped);
            let crossed = _mm256_add_epi32(crossed, _mm256_slli_epi64::<32>(crossed));
            let high = _mm256_blend_epi32::<0b1010_1010>(_mm256_setzero_si256(), crossed);
            let quotient = _mm256_add_epi64(_mm256_add_epi64(_mm256_mul_epu32(four, inverse), below_zero), high);
            let larger = _mm256_cmpgt_epi64(quotient, quotients);
            beyond |= (_mm256_movemask_pd(_mm256_castsi256_pd(larger)) as u64) << (part * 4);
        }
        *mask = !beyond;
        held[count] = word as u32;
        count += usize::from(*mask != 0);
    }
    (held, count)
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
        let mut numbers: Vec<i64> = (-300..9_700).collect();
        numbers.extend([i64::MIN, i64::MAX, i64::MAX / 123 * 123, i64::MIN / 123 * 123, i64::MIN + 1]);
        let expected: Vec<(i64, i64)> =
            numbers.iter().zip(0..).filter(|(n, _)| **n % 123 == 0).map(|(n, row)| (*n, row * 10)).collect();
        let (mut auctions, mut prices) = (Vec::new(), Vec::new());
        q2(&block(&numbers), 0, 1, &mut auctions, &mut prices);
        assert_eq!(auctions.into_iter().zip(prices).collect::<Vec<_>>(), expected);
    }
}
