//! Remainders: which integers leave a given remainder when a constant divides them.
//!
//! A number is a multiple of an odd divisor where its product with the divisor's inverse modulo two to the word size, which then is the
//! quotient, lies between the smallest and the largest quotient. A power of two in the divisor is rotated out: what was not zero below it
//! makes the quotient too large (Granlund and Montgomery, "Division by Invariant Integers using Multiplication", section 9). The remainder
//! and the smallest quotient are both taken away after the multiplication, by one addition: a test takes no division, and no look at signs.

use super::mask::{WordBytes, refine, word_of};
use super::range::{Bits, Range};
use pelton_state::vector::{Instructions, Level};

/// The numbers that are `remainder` more than a multiple of a divisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Residue<T> {
    /// Of the divisor's odd part.
    inverse: T,
    /// Added to the product: the remainder's and the smallest quotient's, both negated.
    offset: T,
    /// Factors of two in the divisor.
    rotation: u32,
    /// The largest quotient, counted from the smallest.
    quotient_max: T,
    /// Where numbers with this remainder lie: a remainder has the sign of the dividend.
    within: Option<Range<T>>,
}

impl<T: Word> Residue<T> {
    /// Whether a number leaves this remainder.
    #[inline(always)]
    pub(super) fn has(&self, value: T) -> bool {
        self.within.is_none_or(|range| T::within::<false>(value, range)) && value.leaves(self)
    }
}

/// An integer of 32 or 64 bits, without its sign.
pub(super) trait Word: Bits {
    /// The residue of numbers whose remainder by `divisor` (not 0) is `remainder` (smaller than the divisor), either with a sign.
    fn residue(divisor: u64, remainder: i64) -> Residue<Self>;

    /// Whether the number belongs to the residue, the range where it lies aside.
    fn leaves(self, residue: &Residue<Self>) -> bool;

    /// Writes one bit for each of 64 values, the range where they lie aside. `EVEN` says whether the divisor is: only then must be rotated.
    ///
    /// # Safety
    /// `values` must point to 64 values, and the processor must have the level's instructions.
    #[cfg(target_arch = "x86_64")]
    unsafe fn residues_avx2<const EVEN: bool>(values: *const Self, residue: &Residue<Self>, bits: &mut WordBytes);

    /// As [`Word::residues_avx2`].
    ///
    /// # Safety
    /// As there.
    #[cfg(target_arch = "x86_64")]
    unsafe fn residues_avx512<const EVEN: bool>(values: *const Self, residue: &Residue<Self>, bits: &mut WordBytes);
}

macro_rules! word {
    ($type:ty, $signed:ty, $avx2:ident, $avx512:ident) => {
        impl Word for $type {
            fn residue(divisor: u64, remainder: i64) -> Residue<$type> {
                let divisor = <$type>::try_from(divisor).expect("larger divisors leave every value as it is");
                let rotation = divisor.trailing_zeros();
                let odd = divisor >> rotation;
                // Newton's iteration doubles the number of right bits each time, beginning with three.
                let step =
                    |inverse: $type, _| inverse.wrapping_mul((2 as $type).wrapping_sub(odd.wrapping_mul(inverse)));
                let inverse = (0..5).fold(odd, step);
                let within = match remainder.signum() {
                    0 => None,
                    1 => Some(Range { low: 1, span: <$signed>::MAX as $type - 1 }),
                    _ => Some(Range { low: <$signed>::MIN as $type, span: <$signed>::MAX as $type }),
                };
                let quotients_below_zero = (<$signed>::MIN as $type) / divisor;
                let quotients_above_zero = (<$signed>::MAX as $type) / divisor;
                Residue {
                    inverse,
                    offset: (quotients_below_zero << rotation).wrapping_sub((remainder as $type).wrapping_mul(inverse)),
                    rotation,
                    quotient_max: quotients_below_zero + quotients_above_zero,
                    within,
                }
            }

            #[inline(always)]
            fn leaves(self, residue: &Residue<$type>) -> bool {
                let product = self.wrapping_mul(residue.inverse).wrapping_add(residue.offset);
                product.rotate_right(residue.rotation) <= residue.quotient_max
            }

            #[cfg(target_arch = "x86_64")]
            #[inline]
            #[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
            unsafe fn residues_avx2<const EVEN: bool>(
                values: *const $type,
                residue: &Residue<$type>,
                bits: &mut WordBytes,
            ) {
                // SAFETY: the caller's promise, passed on.
                unsafe { x86::$avx2::<EVEN>(values, residue, bits) }
            }

            #[cfg(target_arch = "x86_64")]
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt,lzcnt")]
            unsafe fn residues_avx512<const EVEN: bool>(
                values: *const $type,
                residue: &Residue<$type>,
                bits: &mut WordBytes,
            ) {
                // SAFETY: the caller's promise, passed on.
                unsafe { x86::$avx512::<EVEN>(values, residue, bits) }
            }
        }
    };
}

word!(u32, i32, words_avx2, words_avx512);
word!(u64, i64, doubles_avx2, doubles_avx512);

/// Clears the bits of the rows `first..end` of `mask` whose value does not leave the remainder, or with `negate` does.
///
/// # Safety
/// `values` must point to at least `end` values.
pub(super) unsafe fn refine_residue<T: Word>(
    level: Level,
    values: *const T,
    residue: &Residue<T>,
    negate: bool,
    (first, end): (usize, usize),
    mask: &mut [u64],
) {
    let flip = if negate { u64::MAX } else { 0 };
    let one = |row: usize| {
        // SAFETY: only rows below `end` are asked for, which the caller promises.
        let value = unsafe { values.add(row).read() };
        residue.has(value) != negate
    };
    match level.instructions() {
        Instructions::Portable => {
            let full = |start: usize, bits: &mut WordBytes| *bits = word_of(|row| one(start + row));
            refine(mask, first, end, 0, full, one);
        }
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level's instructions are there; values are as the caller promises.
        Instructions::Avx2 => unsafe {
            match residue.rotation {
                0 => refine_avx2::<T, false>(values, residue, flip, (first, end), mask, one),
                _ => refine_avx2::<T, true>(values, residue, flip, (first, end), mask, one),
            }
        },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Instructions::Avx512 => unsafe {
            match residue.rotation {
                0 => refine_avx512::<T, false>(values, residue, flip, (first, end), mask, one),
                _ => refine_avx512::<T, true>(values, residue, flip, (first, end), mask, one),
            }
        },
    }
}

macro_rules! refine_by_vectors {
    ($name:ident, $residues:ident, $word:ident, $features:literal) => {
        /// # Safety
        /// As for [`refine_residue`].
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $name<T: Word, const EVEN: bool>(
            values: *const T,
            residue: &Residue<T>,
            flip: u64,
            (first, end): (usize, usize),
            mask: &mut [u64],
            one: impl Fn(usize) -> bool,
        ) {
            let leaves = |start: usize, bits: &mut WordBytes| {
                // SAFETY: a full word has 64 rows, all below `end`.
                unsafe { T::$residues::<EVEN>(values.add(start), residue, bits) }
            };
            match residue.within {
                None => refine(mask, first, end, flip, leaves, one),
                Some(range) => {
                    let leaves_there = |start: usize, bits: &mut WordBytes| {
                        leaves(start, bits);
                        let mut there = [0; 8];
                        // SAFETY: as above.
                        unsafe { T::$word::<false>(values.add(start), range, &mut there) };
                        *bits = (u64::from_le_bytes(*bits) & u64::from_le_bytes(there)).to_le_bytes();
                    };
                    refine(mask, first, end, flip, leaves_there, one);
                }
            }
        }
    };
}

refine_by_vectors!(refine_avx2, residues_avx2, word_avx2, "avx2,bmi1,bmi2,popcnt,lzcnt");
refine_by_vectors!(
    refine_avx512,
    residues_avx512,
    word_avx512,
    "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt,lzcnt"
);

/// 64 values to a word. Each function's safety is that of [`Word::residues_avx2`].
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Residue, WordBytes};

    macro_rules! avx512 {
        ($name:ident, $type:ty, $lanes:literal, $set:ident($signed:ty), $multiply:ident, $add:ident, $rotate:ident, $compare:ident) => {
            /// # Safety
            /// See the module.
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt,lzcnt")]
            pub(super) unsafe fn $name<const EVEN: bool>(
                values: *const $type,
                residue: &Residue<$type>,
                bits: &mut WordBytes,
            ) {
                let inverse = $set(residue.inverse as $signed);
                let offset = $set(residue.offset as $signed);
                let rotation = $set(residue.rotation as $signed);
                let quotient_max = $set(residue.quotient_max as $signed);
                for (vector, bits) in bits.chunks_exact_mut($lanes / 8).enumerate() {
                    // SAFETY: there are 64 values, by the caller's promise.
                    let value = unsafe { _mm512_loadu_si512(values.add(vector * $lanes).cast()) };
                    let product = $add($multiply(value, inverse), offset);
                    let quotient = if EVEN { $rotate(product, rotation) } else { product };
                    bits.copy_from_slice(&$compare(quotient, quotient_max).to_le_bytes());
                }
            }
        };
    }

    avx512!(
        words_avx512,
        u32,
        16,
        _mm512_set1_epi32(i32),
        _mm512_mullo_epi32,
        _mm512_add_epi32,
        _mm512_rorv_epi32,
        _mm512_cmple_epu32_mask
    );
    avx512!(
        doubles_avx512,
        u64,
        8,
        _mm512_set1_epi64(i64),
        _mm512_mullo_epi64,
        _mm512_add_epi64,
        _mm512_rorv_epi64,
        _mm512_cmple_epu64_mask
    );

    /// # Safety
    /// See the module.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
    pub(super) unsafe fn words_avx2<const EVEN: bool>(
        values: *const u32,
        residue: &Residue<u32>,
        bits: &mut WordBytes,
    ) {
        let inverse = _mm256_set1_epi32(residue.inverse as i32);
        let offset = _mm256_set1_epi32(residue.offset as i32);
        let quotient_max = _mm256_set1_epi32(residue.quotient_max as i32);
        let right = _mm_cvtsi32_si128(residue.rotation as i32);
        let left = _mm_cvtsi32_si128(32 - residue.rotation as i32);
        for (vector, bits) in bits.iter_mut().enumerate() {
            // SAFETY: there are 64 values, by the caller's promise.
            let value = unsafe { _mm256_loadu_si256(values.add(vector * 8).cast()) };
            let product = _mm256_add_epi32(_mm256_mullo_epi32(value, inverse), offset);
            let quotient = if EVEN {
                _mm256_or_si256(_mm256_srl_epi32(product, right), _mm256_sll_epi32(product, left))
            } else {
                product
            };
            let leaves = _mm256_cmpeq_epi32(_mm256_min_epu32(quotient, quotient_max), quotient);
            *bits = _mm256_movemask_ps(_mm256_castsi256_ps(leaves)) as u8;
        }
    }

    /// # Safety
    /// See the module.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
    pub(super) unsafe fn doubles_avx2<const EVEN: bool>(
        values: *const u64,
        residue: &Residue<u64>,
        bits: &mut WordBytes,
    ) {
        let inverse = _mm256_set1_epi64x(residue.inverse as i64);
        let inverse_swapped = _mm256_shuffle_epi32::<0b10_11_00_01>(inverse);
        // There is no comparison without a sign: both sides move by half the range, products that are not rotated with their offset.
        let half = _mm256_set1_epi64x(i64::MIN);
        let offset = _mm256_set1_epi64x(residue.offset as i64);
        let offset = if EVEN { offset } else { _mm256_xor_si256(offset, half) };
        let quotient_max = _mm256_xor_si256(_mm256_set1_epi64x(residue.quotient_max as i64), half);
        let right = _mm_cvtsi64_si128(i64::from(residue.rotation));
        let left = _mm_cvtsi64_si128(64 - i64::from(residue.rotation));
        let leaves = |vector: usize| {
            // SAFETY: there are 64 values, by the caller's promise.
            let value = unsafe { _mm256_loadu_si256(values.add(vector * 4).cast()) };
            // Of the products of one value's low half and the other's high half only the low halves count, and only in the high half.
            let crossed = _mm256_mullo_epi32(value, inverse_swapped);
            let crossed = _mm256_add_epi32(crossed, _mm256_slli_epi64::<32>(crossed));
            let high = _mm256_blend_epi32::<0b1010_1010>(_mm256_setzero_si256(), crossed);
            let product = _mm256_add_epi64(_mm256_add_epi64(_mm256_mul_epu32(value, inverse), offset), high);
            let quotient = if EVEN {
                let rotated = _mm256_or_si256(_mm256_srl_epi64(product, right), _mm256_sll_epi64(product, left));
                _mm256_xor_si256(rotated, half)
            } else {
                product
            };
            let larger = _mm256_cmpgt_epi64(quotient, quotient_max);
            !_mm256_movemask_pd(_mm256_castsi256_pd(larger)) as u8 & 0xf
        };
        for (pair, bits) in bits.iter_mut().enumerate() {
            *bits = leaves(2 * pair) | leaves(2 * pair + 1) << 4;
        }
    }
}
