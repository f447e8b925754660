//! Masks: one bit a row; and the rows whose bits are set.

use arrow::array::Array;
use arrow::buffer::BooleanBuffer;

use pelton_state::vector::{Instructions, Level};

/// Words of a mask over `rows` rows.
pub fn words(rows: usize) -> usize {
    rows.div_ceil(64)
}

/// Makes `mask` a mask over `rows` rows of which exactly `first..end` are set.
pub fn set_range(mask: &mut Vec<u64>, rows: usize, first: usize, end: usize) {
    assert!(first <= end && end <= rows);
    mask.clear();
    mask.resize(words(rows), u64::MAX);
    if first == end {
        return mask.fill(0);
    }
    let (first_word, last_word) = (first / 64, (end - 1) / 64);
    mask[..first_word].fill(0);
    mask[last_word + 1..].fill(0);
    mask[first_word] &= u64::MAX << (first % 64);
    mask[last_word] &= u64::MAX >> (63 - (end - 1) % 64);
}

/// Clears the bits of the rows `first..end` that hold NULL.
pub fn clear_invalid(array: &dyn Array, first: usize, end: usize, mask: &mut [u64]) {
    if let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) {
        refine_by_bits(mask, first, end, nulls.inner(), false);
    }
}

/// Clears the bits of the rows `first..end` whose bit in `bits` is not set, or with `negate` those whose bit is.
pub(super) fn refine_by_bits(mask: &mut [u64], first: usize, end: usize, bits: &BooleanBuffer, negate: bool) {
    let flip = if negate { u64::MAX } else { 0 };
    for_words(first, end, |word, range| mask[word] &= (bits_of_word(bits, word) ^ flip) | !range);
}

/// The bits of word `word` that stand for rows of `first..end`, some of which it has.
#[inline(always)]
pub(crate) fn bits_in_range(word: usize, first: usize, end: usize) -> u64 {
    let (skipped, left) = (first.saturating_sub(word * 64), end - word * 64);
    let before_end = if left < 64 { (1 << left) - 1 } else { u64::MAX };
    before_end & (u64::MAX << skipped)
}

/// The bits of rows `64 * word..64 * word + 64`, zero beyond the end.
#[inline]
pub(crate) fn bits_of_word(bits: &BooleanBuffer, word: usize) -> u64 {
    let bytes = bits.inner().as_slice();
    let start = bits.offset() + word * 64;
    let (byte, shift) = (start / 8, start % 8);
    if let Some(nine) = bytes.get(byte..byte + 9) {
        let low = u64::from_le_bytes(nine[..8].try_into().expect("eight bytes"));
        // A shift by 64 in two steps: it may be one by 64.
        return low >> shift | u64::from(nine[8]) << 1 << (63 - shift);
    }
    let mut rest = [0; 16];
    let tail = &bytes[byte.min(bytes.len())..];
    rest[..tail.len()].copy_from_slice(tail);
    (u128::from_le_bytes(rest) >> shift) as u64
}

/// Visits each word of `first..end` with the bits of it that lie in the range.
#[inline(always)]
pub(super) fn for_words(first: usize, end: usize, mut visit: impl FnMut(usize, u64)) {
    if first >= end {
        return;
    }
    let (first_word, last_word) = (first / 64, (end - 1) / 64);
    let from_first = u64::MAX << (first % 64);
    let to_last = u64::MAX >> (63 - (end - 1) % 64);
    if first_word == last_word {
        return visit(first_word, from_first & to_last);
    }
    visit(first_word, from_first);
    (first_word + 1..last_word).for_each(|word| visit(word, u64::MAX));
    visit(last_word, to_last);
}

/// Whole words that are tested one after the other before any is cut into the mask: their bits go to memory as they come, which is half the
/// work of putting those of several vectors together in a register. To read them as words again must wait until they are there, so that is
/// done for as many at once as cost nothing to begin with.
const SEGMENT_WORDS: usize = 64;

/// One bit for each of 64 rows, the first one's lowest in the first byte. As bytes, because the compiler would otherwise shift what vectors'
/// masks have in registers, one after the other.
pub(super) type WordBytes = [u8; 8];

/// A bit for each of 64 rows for which `holds` is true of its number.
#[inline(always)]
pub(super) fn word_of(holds: impl Fn(usize) -> bool) -> WordBytes {
    (0..64).fold(0, |word, row| word | u64::from(holds(row)) << row).to_le_bytes()
}

/// Clears the bits of rows in `first..end` that fail: `full` tests the 64 rows from a row on (a bit that `flip` has too stands for the
/// opposite), `one` a single row. Words without a bit are not tested.
#[inline(always)]
pub(super) fn refine(
    mask: &mut [u64],
    first: usize,
    end: usize,
    flip: u64,
    full: impl Fn(usize, &mut WordBytes),
    one: impl Fn(usize) -> bool,
) {
    // Whole words; the bits before them, and those behind.
    let whole = (end / 64).min(first.div_ceil(64))..end / 64;
    let before = first..end.min(whole.start * 64).max(first);
    let behind = before.end.max(whole.end * 64)..end;
    refine_each(mask, before.start, before.end, &one);
    for (segment, words) in mask[whole.clone()].chunks_mut(SEGMENT_WORDS).enumerate() {
        let start = (whole.start + segment * SEGMENT_WORDS) * 64;
        let mut tested = [[0; 8]; SEGMENT_WORDS];
        for (at, bits) in tested.iter_mut().enumerate().take(words.len()) {
            if words[at] != 0 {
                full(start + at * 64, bits);
            }
        }
        words.iter_mut().zip(&tested).for_each(|(word, bits)| *word &= u64::from_le_bytes(*bits) ^ flip);
    }
    refine_each(mask, behind.start, behind.end, &one);
}

/// As [`refine`], for tests that cost more than looking at one row after the other.
#[inline(always)]
pub(super) fn refine_each(mask: &mut [u64], first: usize, end: usize, one: impl Fn(usize) -> bool) {
    for_words(first, end, |word, range| {
        mask[word] &= single_rows(mask[word] & range, word * 64, &one) | !range;
    });
}

/// Those of the bits `held` of the rows from `start` on that pass.
#[inline(always)]
fn single_rows(held: u64, start: usize, one: impl Fn(usize) -> bool) -> u64 {
    let mut passed = 0;
    let mut rest = held;
    while rest != 0 {
        let bit = rest.trailing_zeros();
        passed |= u64::from(one(start + bit as usize)) << bit;
        rest &= rest - 1;
    }
    passed
}

/// Appends the rows of `first..end` whose bits are set, ascending.
pub fn append_rows(level: Level, mask: &[u64], first: usize, end: usize, rows: &mut Vec<u32>) {
    assert!(end <= mask.len() * 64 && u32::try_from(end).is_ok());
    // Vector stores write whole vectors: up to a vector's worth of places after the last row are overwritten.
    rows.reserve(end.saturating_sub(first) + VECTOR_ROWS_MAX);
    match level.instructions() {
        Instructions::Portable => for_words(first, end, |word, range| {
            let mut rest = mask[word] & range;
            while rest != 0 {
                rows.push(word as u32 * 64 + rest.trailing_zeros());
                rest &= rest - 1;
            }
        }),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level's instructions are there, and room for all rows and a vector was reserved.
        Instructions::Avx2 => unsafe { x86::append_rows_avx2(mask, first, end, rows) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Instructions::Avx512 => unsafe { x86::append_rows_avx512(mask, first, end, rows) },
    }
}

/// Row numbers in the widest vector.
const VECTOR_ROWS_MAX: usize = 16;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{bits_in_range, for_words};

    /// For each byte, the places of its bits.
    static PLACES: [[u8; 8]; 256] = places();

    const fn places() -> [[u8; 8]; 256] {
        let mut places = [[0; 8]; 256];
        let mut byte = 0;
        while byte < 256 {
            let (mut bit, mut count) = (0, 0);
            while bit < 8 {
                if byte >> bit & 1 == 1 {
                    places[byte][count] = bit as u8;
                    count += 1;
                }
                bit += 1;
            }
            byte += 1;
        }
        places
    }

    /// A word with no more bits than it has bytes is read bit by bit.
    const BITS_ONE_BY_ONE_MAX: u32 = 8;

    /// # Safety
    /// `rows` must have room for a number for each row of `first..end` and for a vector more.
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
    pub(super) unsafe fn append_rows_avx2(mask: &[u64], first: usize, end: usize, rows: &mut Vec<u32>) {
        let start = rows.as_mut_ptr();
        let mut length = rows.len();
        for (word, &bits) in mask.iter().enumerate().take(end.div_ceil(64)).skip(first / 64) {
            // SAFETY: by the caller's promise there is room for a vector after the rows of this word and those before it.
            length = unsafe { append_bytes(start, length, word, bits & bits_in_range(word, first, end)) };
        }
        // SAFETY: as many rows were written, one for each bit.
        unsafe { rows.set_len(length) }
    }

    /// Writes the rows of a word's bits from `length` on, and says where they end.
    ///
    /// # Safety
    /// There must be room for a number for each bit and for a vector more.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
    unsafe fn append_bytes(start: *mut u32, mut length: usize, word: usize, mut bits: u64) -> usize {
        if bits.count_ones() <= BITS_ONE_BY_ONE_MAX {
            while bits != 0 {
                // SAFETY: the caller's promise.
                unsafe { start.add(length).write(word as u32 * 64 + bits.trailing_zeros()) };
                length += 1;
                bits &= bits - 1;
            }
            return length;
        }
        // All eight bytes, whether they have bits or not: which do not is hard to predict.
        let mut row = _mm256_set1_epi32(word as i32 * 64);
        for byte in bits.to_le_bytes() {
            // SAFETY: the caller's promise.
            unsafe {
                let places = _mm_loadl_epi64(PLACES[usize::from(byte)].as_ptr().cast());
                let found = _mm256_add_epi32(_mm256_cvtepu8_epi32(places), row);
                _mm256_storeu_si256(start.add(length).cast(), found);
            }
            length += byte.count_ones() as usize;
            row = _mm256_add_epi32(row, _mm256_set1_epi32(8));
        }
        length
    }

    /// Words looked at together: few of them having a bit, only these are visited.
    const LISTED_WORDS: usize = 64;

    /// # Safety
    /// As for [`append_rows_avx2`].
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt,lzcnt")]
    pub(super) unsafe fn append_rows_avx512(mask: &[u64], first: usize, end: usize, rows: &mut Vec<u32>) {
        let start = rows.as_mut_ptr();
        let mut length = rows.len();
        // Whole words; the bits before them, and those behind.
        let whole = (end / 64).min(first.div_ceil(64))..end / 64;
        let before = first..end.min(whole.start * 64).max(first);
        let behind = before.end.max(whole.end * 64)..end;
        for_words(before.start, before.end, |word, range| {
            // SAFETY: by the caller's promise there is room for a vector after the rows of this word and those before it.
            length = unsafe { append_word(start, length, word, mask[word] & range) };
        });
        for (segment, words) in mask[whole.clone()].chunks(LISTED_WORDS).enumerate() {
            let first_word = whole.start + segment * LISTED_WORDS;
            let mut held = [0; LISTED_WORDS + 8];
            let count = words_with_bits(words, &mut held);
            if count * 2 > words.len() {
                for (at, &bits) in words.iter().enumerate() {
                    // SAFETY: as above.
                    length = unsafe { append_word(start, length, first_word + at, bits) };
                }
                continue;
            }
            // Where few words have a bit most of these have one, and which do is hard to predict.
            for &word in &held[..count] {
                let mut bits = words[word as usize];
                while bits != 0 {
                    // SAFETY: as above.
                    unsafe { start.add(length).write((first_word as u32 + word) * 64 + bits.trailing_zeros()) };
                    length += 1;
                    bits &= bits - 1;
                }
            }
        }
        for_words(behind.start, behind.end, |word, range| {
            // SAFETY: as above.
            length = unsafe { append_word(start, length, word, mask[word] & range) };
        });
        // SAFETY: as many rows were written, one for each bit.
        unsafe { rows.set_len(length) }
    }

    /// Writes the rows of a word's bits from `length` on, and says where they end.
    ///
    /// # Safety
    /// There must be room for a number for each bit and for a vector more.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt,lzcnt")]
    unsafe fn append_word(start: *mut u32, mut length: usize, word: usize, bits: u64) -> usize {
        if bits == 0 {
            return length;
        }
        let places = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        for quarter in 0..4 {
            let bits = (bits >> (16 * quarter)) as u16;
            let found = _mm512_add_epi32(places, _mm512_set1_epi32((word * 64 + 16 * quarter) as i32));
            // SAFETY: the caller's promise.
            unsafe { _mm512_storeu_si512(start.add(length).cast(), _mm512_maskz_compress_epi32(bits, found)) };
            length += bits.count_ones() as usize;
        }
        length
    }

    /// Lists the words that have a bit, and says how many do.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt,lzcnt")]
    fn words_with_bits(words: &[u64], held: &mut [u32; LISTED_WORDS + 8]) -> usize {
        assert!(words.len() <= LISTED_WORDS);
        let places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        let mut count = 0;
        for (vector, eight) in words.chunks(8).enumerate() {
            // SAFETY: only as many words are loaded as there are; at most as many numbers are kept as there are words before these, and eight
            // more are written.
            unsafe {
                let lanes = (0xff_u16 >> (8 - eight.len())) as u8;
                let bits = _mm512_maskz_loadu_epi64(lanes, eight.as_ptr().cast());
                let found = _mm512_test_epi64_mask(bits, bits);
                let numbers = _mm256_add_epi32(places, _mm256_set1_epi32(vector as i32 * 8));
                let listed = _mm256_maskz_compress_epi32(found, numbers);
                _mm256_storeu_si256(held.as_mut_ptr().add(count).cast(), listed);
                count += found.count_ones() as usize;
            }
        }
        count
    }
}
