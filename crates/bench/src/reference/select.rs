//! Rows that pass a predicate, as row numbers.

/// Rows looked at in one go: their numbers fit in a quarter of a first-level cache.
pub const CHUNK_ROWS: usize = 2048;

/// Row numbers of one chunk, with room for a whole register behind the last.
pub type Selection = [u32; CHUNK_ROWS + 16];

/// Writes the positions in `codes` (at most a chunk) that hold `wanted`, ascending, and returns how many there are.
///
/// # Panics
/// Where there are more codes than a chunk has rows.
pub fn equal(codes: &[u8], wanted: u8, selection: &mut Selection) -> usize {
    assert!(codes.len() <= CHUNK_ROWS);
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has the instructions, and the chunk fits the selection.
        return unsafe { equal_avx512(codes, wanted, selection) };
    }
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt") {
        // SAFETY: as above.
        return unsafe { equal_avx2(codes, wanted, selection) };
    }
    equal_portable(codes, 0, wanted, selection, 0)
}

fn equal_portable(codes: &[u8], first: usize, wanted: u8, selection: &mut Selection, mut count: usize) -> usize {
    for (row, code) in codes.iter().enumerate().skip(first) {
        selection[count] = row as u32;
        count += usize::from(*code == wanted);
    }
    count
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw")]
fn equal_avx512(codes: &[u8], wanted: u8, selection: &mut Selection) -> usize {
    use std::arch::x86_64::{
        _mm512_add_epi32, _mm512_cmpeq_epi8_mask, _mm512_loadu_epi8, _mm512_maskz_compress_epi32, _mm512_set1_epi8,
        _mm512_set1_epi32, _mm512_setr_epi32, _mm512_storeu_epi32,
    };
    let wanted_everywhere = _mm512_set1_epi8(wanted as i8);
    let sixteen = _mm512_set1_epi32(16);
    let mut rows = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let mut count = 0;
    let whole = codes.len() / 64 * 64;
    for part in codes[..whole].chunks_exact(64) {
        // SAFETY: the part is 64 bytes long.
        let codes = unsafe { _mm512_loadu_epi8(part.as_ptr().cast()) };
        let mut mask = _mm512_cmpeq_epi8_mask(codes, wanted_everywhere);
        for _ in 0..4 {
            let passing = _mm512_maskz_compress_epi32(mask as u16, rows);
            // SAFETY: `count` is at most the rows before this step, so that 16 more fit the selection.
            unsafe { _mm512_storeu_epi32(selection.as_mut_ptr().add(count).cast(), passing) };
            count += (mask as u16).count_ones() as usize;
            mask >>= 16;
            rows = _mm512_add_epi32(rows, sixteen);
        }
    }
    equal_portable(codes, whole, wanted, selection, count)
}

/// For each byte, the places of its bits.
#[cfg(target_arch = "x86_64")]
static PLACES: [[u8; 8]; 256] = places();

#[cfg(target_arch = "x86_64")]
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

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
fn equal_avx2(codes: &[u8], wanted: u8, selection: &mut Selection) -> usize {
    use std::arch::x86_64::{
        _mm_loadl_epi64, _mm256_add_epi32, _mm256_cmpeq_epi8, _mm256_cvtepu8_epi32, _mm256_loadu_si256,
        _mm256_movemask_epi8, _mm256_set1_epi8, _mm256_set1_epi32, _mm256_storeu_si256,
    };
    let wanted_everywhere = _mm256_set1_epi8(wanted as i8);
    let eight = _mm256_set1_epi32(8);
    let mut first = _mm256_set1_epi32(0);
    let mut count = 0;
    let whole = codes.len() / 32 * 32;
    for part in codes[..whole].chunks_exact(32) {
        // SAFETY: the part is 32 bytes long.
        let codes = unsafe { _mm256_loadu_si256(part.as_ptr().cast()) };
        let mask = _mm256_movemask_epi8(_mm256_cmpeq_epi8(codes, wanted_everywhere)) as u32;
        for byte in mask.to_le_bytes() {
            // SAFETY: eight places are loaded; `count` is at most the rows before this step, so that 8 more fit the selection.
            unsafe {
                let places = _mm_loadl_epi64(PLACES[usize::from(byte)].as_ptr().cast());
                let passing = _mm256_add_epi32(_mm256_cvtepu8_epi32(places), first);
                _mm256_storeu_si256(selection.as_mut_ptr().add(count).cast(), passing);
            }
            count += byte.count_ones() as usize;
            first = _mm256_add_epi32(first, eight);
        }
    }
    equal_portable(codes, whole, wanted, selection, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_of_equal_codes() {
        for length in [0, 1, 63, 64, 65, 200, CHUNK_ROWS] {
            let codes: Vec<u8> = (0..length).map(|row| (row * 7 % 11 % 3) as u8).collect();
            let expected: Vec<u32> = (0..length as u32).filter(|row| codes[*row as usize] == 1).collect();
            let mut selection = [0; CHUNK_ROWS + 16];
            let count = equal(&codes, 1, &mut selection);
            assert_eq!(selection[..count], expected);
            let count = equal_portable(&codes, 0, 1, &mut selection, 0);
            assert_eq!(selection[..count], expected);
        }
    }
}
