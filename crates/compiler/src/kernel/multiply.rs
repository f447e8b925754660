//! Columns of integers times a constant, as decimals of 128 bits.

use crate::select::{Instructions, Level};

/// The products of integers with a constant.
pub(crate) fn multiply(level: Level, integers: &[i64], factor: i64) -> Vec<i128> {
    match (level.instructions(), u32::try_from(factor)) {
        #[cfg(target_arch = "x86_64")]
        (Instructions::Avx512, Ok(factor)) if i32::try_from(factor).is_ok() => {
            let mut products = Vec::with_capacity(integers.len());
            // SAFETY: the level's instructions are there, and there is room for a product of each integer; all are written.
            unsafe {
                x86::multiply_avx512(integers, factor, products.as_mut_ptr());
                products.set_len(integers.len());
            }
            products
        }
        _ => integers.iter().map(|&integer| i128::from(integer) * i128::from(factor)).collect(),
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// Eight integers at a time. The factor has no more than 31 bits.
    ///
    /// # Safety
    /// There must be room for as many products as there are integers.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) unsafe fn multiply_avx512(integers: &[i64], factor: u32, products: *mut i128) {
        let by = _mm512_set1_epi64(i64::from(factor));
        let first = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
        let second = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
        let (eights, rest) = integers.as_chunks::<8>();
        for (index, eight) in eights.iter().enumerate() {
            // SAFETY: these are eight integers.
            let value = unsafe { _mm512_loadu_si512(eight.as_ptr().cast()) };
            // The lower half times the factor has no sign, the upper half times the factor has one: their sum, the latter 32 bits further
            // up, is the product of 96 bits.
            let lower = _mm512_mul_epu32(value, by);
            let upper = _mm512_mul_epi32(_mm512_srli_epi64::<32>(value), by);
            let carried = _mm512_add_epi64(upper, _mm512_srli_epi64::<32>(lower));
            let low = _mm512_mask_blend_epi32(0xaaaa, lower, _mm512_slli_epi64::<32>(carried));
            let high = _mm512_srai_epi64::<32>(carried);
            // SAFETY: there is room for these eight products, by the caller's promise.
            unsafe {
                let place = products.add(index * 8);
                _mm512_storeu_si512(place.cast(), _mm512_permutex2var_epi64(low, first, high));
                _mm512_storeu_si512(place.add(4).cast(), _mm512_permutex2var_epi64(low, second, high));
            }
        }
        for (index, &integer) in rest.iter().enumerate() {
            // SAFETY: as above, of the products that are left.
            unsafe { products.add(eights.len() * 8 + index).write(i128::from(integer) * i128::from(factor)) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_exact_at_every_level() {
        let ends = [0, 1, -1, i64::MIN, i64::MAX, 1 << 32, -(1 << 32), (1 << 32) - 1, 1 << 31, -(1 << 31), 12_345];
        let integers: Vec<i64> =
            (0..45).map(|index: i64| ends[index as usize % ends.len()].wrapping_add(index / 11)).collect();
        for factor in
            [0, 1, -1, 908, i64::from(i32::MAX), i64::from(i32::MAX) + 1, i64::from(u32::MAX), i64::MIN, i64::MAX]
        {
            let expected: Vec<i128> =
                integers.iter().map(|&integer| i128::from(integer) * i128::from(factor)).collect();
            for level in Level::available() {
                assert_eq!(multiply(level, &integers, factor), expected, "times {factor} at {level}");
            }
        }
    }
}
