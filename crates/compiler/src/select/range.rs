//! Values between two bounds: what comparisons of a column with a constant become.
//!
//! `v < c`, `v = c`, `v BETWEEN a AND b` are all `low <= v <= high`, or not. In wrapping arithmetic that is
//! `v - low <= high - low` without a sign, for signed and unsigned integers alike: one subtraction and one comparison.
//! Floats in total order are integers after one transformation of their bits.

use pelton_data::Block;

use super::mask::{WordBytes, refine, word_of};
use pelton_state::vector::{Instructions, Level};

/// The values from `low` to `low + span`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range<T> {
    pub(super) low: T,
    pub(super) span: T,
}

/// Bits of a value that ranges are tested on.
pub(super) trait Bits: Copy {
    /// Whether `value` lies in the range. With `FLOAT` the value is a float's bits.
    fn within<const FLOAT: bool>(value: Self, range: Range<Self>) -> bool;

    /// Writes one bit for each of 64 values, by a level's instructions.
    ///
    /// # Safety
    /// `values` must point to 64 values, and the processor must have the level's instructions.
    #[cfg(target_arch = "x86_64")]
    unsafe fn word_avx2<const FLOAT: bool>(values: *const Self, range: Range<Self>, bits: &mut WordBytes);

    /// As [`Bits::word_avx2`].
    ///
    /// # Safety
    /// As there.
    #[cfg(target_arch = "x86_64")]
    unsafe fn word_avx512<const FLOAT: bool>(values: *const Self, range: Range<Self>, bits: &mut WordBytes);
}

/// The bits of a float of `$bits` as a number that orders as floats do in total order.
macro_rules! ordered_float {
    ($value:expr, $signed:ty, $bits:ty) => {{
        let bits = $value as $signed;
        (bits ^ ((bits >> (<$bits>::BITS - 1)) as $bits >> 1) as $signed) as $bits
    }};
}

/// Places a 64-bit float in total order among signed integers.
#[inline(always)]
pub(crate) fn ordered_f64(value: f64) -> i64 {
    ordered_float!(value.to_bits(), i64, u64) as i64
}

/// Places a 32-bit float in total order among signed integers.
#[inline(always)]
pub(crate) fn ordered_f32(value: f32) -> i32 {
    ordered_float!(value.to_bits(), i32, u32) as i32
}

macro_rules! bits {
    ($type:ty, $signed:ty, $avx2:ident, $avx512:ident) => {
        impl Bits for $type {
            #[inline(always)]
            fn within<const FLOAT: bool>(value: $type, range: Range<$type>) -> bool {
                let value = if FLOAT { ordered_float!(value, $signed, $type) } else { value };
                value.wrapping_sub(range.low) <= range.span
            }

            #[cfg(target_arch = "x86_64")]
            #[inline]
            #[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
            unsafe fn word_avx2<const FLOAT: bool>(values: *const $type, range: Range<$type>, bits: &mut WordBytes) {
                // SAFETY: the caller's promise, passed on.
                unsafe { x86::$avx2::<FLOAT>(values, range, bits) }
            }

            #[cfg(target_arch = "x86_64")]
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt,lzcnt")]
            unsafe fn word_avx512<const FLOAT: bool>(values: *const $type, range: Range<$type>, bits: &mut WordBytes) {
                // SAFETY: the caller's promise, passed on.
                unsafe { x86::$avx512::<FLOAT>(values, range, bits) }
            }
        }
    };
}

bits!(u8, i8, bytes_avx2, bytes_avx512);
bits!(u16, i16, halves_avx2, halves_avx512);
bits!(u32, i32, words_avx2, words_avx512);
bits!(u64, i64, doubles_avx2, doubles_avx512);

/// Clears the bits of the rows `first..end` of `mask` whose value is in none of the ranges, or with `negate` in one of them. With `FLOAT`
/// values are bits of floats.
///
/// # Safety
/// `values` must point to at least `end` values.
pub(super) unsafe fn refine_ranges<T: Bits, const FLOAT: bool>(
    level: Level,
    values: *const T,
    ranges: &[Range<T>],
    negate: bool,
    (first, end): (usize, usize),
    mask: &mut [u64],
) {
    let flip = if negate { u64::MAX } else { 0 };
    // SAFETY: only rows below `end` are asked for, which the caller promises.
    let value = |row: usize| unsafe { values.add(row).read() };
    let one = |row: usize| ranges.iter().any(|&range| T::within::<FLOAT>(value(row), range)) != negate;
    match level.instructions() {
        Instructions::Portable => {
            let full = |start: usize, bits: &mut WordBytes| *bits = word_of(|row| one(start + row));
            refine(mask, first, end, 0, full, one);
        }
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level's instructions are there; values are as the caller promises.
        Instructions::Avx2 => unsafe { refine_avx2::<T, FLOAT>(values, ranges, flip, (first, end), mask, one) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Instructions::Avx512 => unsafe { refine_avx512::<T, FLOAT>(values, ranges, flip, (first, end), mask, one) },
    }
}

/// Clears the bits of the rows `first..end` of `mask` whose value does not lie from `low` to `high`, both inclusive.
pub(crate) fn refine_between(
    level: Level,
    values: Integers<'_>,
    (low, high): (i64, i64),
    (first, end): (usize, usize),
    mask: &mut [u64],
) {
    let length = match values {
        Integers::Wide(values) => values.len(),
        Integers::Distances { distances, .. } => distances.len(),
    };
    assert!(end <= length && end <= mask.len() * 64, "a mask and its column cover the rows");
    match values {
        Integers::Wide(values) => {
            let range = (low <= high).then(|| Range { low: low as u64, span: high.wrapping_sub(low) as u64 });
            // SAFETY: there are at least `end` values.
            unsafe {
                refine_ranges::<u64, false>(level, values.as_ptr().cast(), range.as_slice(), false, (first, end), mask)
            };
        }
        Integers::Distances { from, distances } => {
            let largest = i64::from(u16::MAX);
            let (low, high) = (low.saturating_sub(from).max(0), high.saturating_sub(from).min(largest));
            let range = (low <= high).then(|| Range { low: low as u16, span: (high - low) as u16 });
            // SAFETY: as above.
            unsafe {
                refine_ranges::<u16, false>(level, distances.as_ptr(), range.as_slice(), false, (first, end), mask)
            };
        }
    }
}

/// A column of integers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Integers<'a> {
    Wide(&'a [i64]),
    /// By their distances from the smallest.
    Distances {
        from: i64,
        distances: &'a [u16],
    },
}

impl<'a> Integers<'a> {
    /// The event times of a block's rows, as they lie in memory: as distances where there are, which are a quarter of the bytes.
    ///
    /// # Panics
    /// Where it has none.
    pub(crate) fn ticks(block: &'a Block) -> Integers<'a> {
        match block.tick_distances() {
            Some((from, distances)) => Integers::Distances { from, distances },
            None => Integers::Wide(block.raw_ticks().expect("rows with event times belong to a slice by them")),
        }
    }
}

macro_rules! refine_by_vectors {
    ($name:ident, $word:ident, $features:literal) => {
        /// # Safety
        /// As for [`refine_ranges`].
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $name<T: Bits, const FLOAT: bool>(
            values: *const T,
            ranges: &[Range<T>],
            flip: u64,
            (first, end): (usize, usize),
            mask: &mut [u64],
            one: impl Fn(usize) -> bool,
        ) {
            let word = |start: usize, range: Range<T>, bits: &mut WordBytes| {
                // SAFETY: a full word has 64 rows, all below `end`.
                unsafe { T::$word::<FLOAT>(values.add(start), range, bits) }
            };
            match *ranges {
                // Apart, so that the bounds of the only range stay in registers.
                [range] => refine(mask, first, end, flip, |start, bits| word(start, range, bits), one),
                _ => {
                    let any = |start: usize, bits: &mut WordBytes| {
                        for &range in ranges {
                            let mut others = [0; 8];
                            word(start, range, &mut others);
                            *bits = (u64::from_le_bytes(*bits) | u64::from_le_bytes(others)).to_le_bytes();
                        }
                    };
                    refine(mask, first, end, flip, any, one);
                }
            }
        }
    };
}

refine_by_vectors!(refine_avx2, word_avx2, "avx2,bmi1,bmi2,popcnt,lzcnt");
refine_by_vectors!(refine_avx512, word_avx512, "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt,lzcnt");

/// 64 values to a word. Each function's safety is that of [`Bits::word_avx2`].
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Range, WordBytes};

    macro_rules! avx512 {
        ($name:ident, $type:ty, $lanes:literal, $set:ident($signed:ty), $subtract:ident, $compare:ident, |$value:ident| $ordered:expr) => {
            /// # Safety
            /// See the module.
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt,lzcnt")]
            pub(super) unsafe fn $name<const FLOAT: bool>(
                values: *const $type,
                range: Range<$type>,
                bits: &mut WordBytes,
            ) {
                let (low, span) = ($set(range.low as $signed), $set(range.span as $signed));
                for (vector, bits) in bits.chunks_exact_mut($lanes / 8).enumerate() {
                    // SAFETY: there are 64 values, by the caller's promise.
                    let $value = unsafe { _mm512_loadu_si512(values.add(vector * $lanes).cast()) };
                    let $value = if FLOAT { $ordered } else { $value };
                    bits.copy_from_slice(&$compare($subtract($value, low), span).to_le_bytes());
                }
            }
        };
    }

    avx512!(bytes_avx512, u8, 64, _mm512_set1_epi8(i8), _mm512_sub_epi8, _mm512_cmple_epu8_mask, |value| value);
    avx512!(halves_avx512, u16, 32, _mm512_set1_epi16(i16), _mm512_sub_epi16, _mm512_cmple_epu16_mask, |value| {
        _mm512_xor_si512(value, _mm512_srli_epi16::<1>(_mm512_srai_epi16::<15>(value)))
    });
    avx512!(words_avx512, u32, 16, _mm512_set1_epi32(i32), _mm512_sub_epi32, _mm512_cmple_epu32_mask, |value| {
        _mm512_xor_si512(value, _mm512_srli_epi32::<1>(_mm512_srai_epi32::<31>(value)))
    });
    avx512!(doubles_avx512, u64, 8, _mm512_set1_epi64(i64), _mm512_sub_epi64, _mm512_cmple_epu64_mask, |value| {
        _mm512_xor_si512(value, _mm512_srli_epi64::<1>(_mm512_srai_epi64::<63>(value)))
    });

    /// # Safety
    /// See the module.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
    pub(super) unsafe fn bytes_avx2<const FLOAT: bool>(values: *const u8, range: Range<u8>, bits: &mut WordBytes) {
        const { assert!(!FLOAT, "no float has eight bits") };
        let (low, span) = (_mm256_set1_epi8(range.low as i8), _mm256_set1_epi8(range.span as i8));
        for (vector, bits) in bits.chunks_exact_mut(4).enumerate() {
            // SAFETY: there are 64 values, by the caller's promise.
            let value = unsafe { _mm256_loadu_si256(values.add(vector * 32).cast()) };
            let distance = _mm256_sub_epi8(value, low);
            let within = _mm256_cmpeq_epi8(_mm256_min_epu8(distance, span), distance);
            bits.copy_from_slice(&_mm256_movemask_epi8(within).to_le_bytes());
        }
    }

    /// # Safety
    /// See the module.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
    pub(super) unsafe fn halves_avx2<const FLOAT: bool>(values: *const u16, range: Range<u16>, bits: &mut WordBytes) {
        let (low, span) = (_mm256_set1_epi16(range.low as i16), _mm256_set1_epi16(range.span as i16));
        let within = |vector: usize| {
            // SAFETY: there are 64 values, by the caller's promise.
            let value = unsafe { _mm256_loadu_si256(values.add(vector * 16).cast()) };
            let value = if FLOAT {
                _mm256_xor_si256(value, _mm256_srli_epi16::<1>(_mm256_srai_epi16::<15>(value)))
            } else {
                value
            };
            let distance = _mm256_sub_epi16(value, low);
            _mm256_cmpeq_epi16(_mm256_min_epu16(distance, span), distance)
        };
        for (pair, bits) in bits.chunks_exact_mut(4).enumerate() {
            // Packing takes eight values of each vector in turn: the order is restored before bits are taken.
            let packed = _mm256_packs_epi16(within(2 * pair), within(2 * pair + 1));
            let ordered = _mm256_permute4x64_epi64::<0b11_01_10_00>(packed);
            bits.copy_from_slice(&_mm256_movemask_epi8(ordered).to_le_bytes());
        }
    }

    /// # Safety
    /// See the module.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
    pub(super) unsafe fn words_avx2<const FLOAT: bool>(values: *const u32, range: Range<u32>, bits: &mut WordBytes) {
        let (low, span) = (_mm256_set1_epi32(range.low as i32), _mm256_set1_epi32(range.span as i32));
        for (vector, bits) in bits.iter_mut().enumerate() {
            // SAFETY: there are 64 values, by the caller's promise.
            let value = unsafe { _mm256_loadu_si256(values.add(vector * 8).cast()) };
            let value = if FLOAT {
                _mm256_xor_si256(value, _mm256_srli_epi32::<1>(_mm256_srai_epi32::<31>(value)))
            } else {
                value
            };
            let distance = _mm256_sub_epi32(value, low);
            let within = _mm256_cmpeq_epi32(_mm256_min_epu32(distance, span), distance);
            *bits = _mm256_movemask_ps(_mm256_castsi256_ps(within)) as u8;
        }
    }

    /// # Safety
    /// See the module.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
    pub(super) unsafe fn doubles_avx2<const FLOAT: bool>(values: *const u64, range: Range<u64>, bits: &mut WordBytes) {
        // There is no comparison without a sign: both sides move by half the range.
        let low = _mm256_set1_epi64x(range.low.wrapping_sub(1 << 63) as i64);
        let span = _mm256_set1_epi64x((range.span ^ 1 << 63) as i64);
        let within = |vector: usize| {
            // SAFETY: there are 64 values, by the caller's promise.
            let value = unsafe { _mm256_loadu_si256(values.add(vector * 4).cast()) };
            let value = if FLOAT {
                let sign = _mm256_cmpgt_epi64(_mm256_setzero_si256(), value);
                _mm256_xor_si256(value, _mm256_srli_epi64::<1>(sign))
            } else {
                value
            };
            let beyond = _mm256_cmpgt_epi64(_mm256_sub_epi64(value, low), span);
            !_mm256_movemask_pd(_mm256_castsi256_pd(beyond)) as u8 & 0xf
        };
        for (pair, bits) in bits.iter_mut().enumerate() {
            *bits = within(2 * pair) | within(2 * pair + 1) << 4;
        }
    }
}
