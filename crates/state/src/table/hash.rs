//! The hash functions of tables and join indexes.

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
const SEED: u64 = 0x2545_f491_4f6c_dd1d;

/// Both halves of the 128-bit product, folded: every bit of either factor reaches the low bits.
#[inline(always)]
pub(crate) fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    product as u64 ^ (product >> 64) as u64
}

/// Hash of one 64-bit word; its low bits are well spread for sequential, strided and random words.
#[inline(always)]
pub(crate) fn hash_word(word: u64) -> u64 {
    fold(word, MULTIPLIER)
}

/// Hash of two 64-bit words.
#[inline(always)]
pub(crate) fn hash_pair(first: u64, second: u64) -> u64 {
    fold(first ^ SEED, second ^ MULTIPLIER)
}

/// Hash of any bytes.
#[inline]
pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    let mut hash = bytes.len() as u64;
    let mut chunks = bytes.chunks_exact(16);
    for chunk in &mut chunks {
        let (first, second) = chunk.split_at(8);
        hash = fold(hash ^ word(first) ^ SEED, word(second) ^ MULTIPLIER);
    }
    let rest = chunks.remainder();
    if rest.is_empty() {
        return hash;
    }
    // The last 16 bytes overlap those before where there are any: all are hashed without a byte loop.
    let (first, second) = match bytes.len() {
        length @ 16.. => (word(&bytes[length - 16..length - 8]), word(&bytes[length - 8..])),
        length @ 8.. => (word(&bytes[..8]), word(&bytes[length - 8..])),
        _ => (rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)), 0),
    };
    fold(hash ^ first ^ SEED, second ^ MULTIPLIER)
}

#[inline(always)]
fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}
