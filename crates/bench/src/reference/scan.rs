//! How fast the machine can read the columns a query uses, doing next to nothing with them.

use pelton_data::Block;
use pelton_data::column::{Layout, values_ptr};

/// Reads every byte of the columns' fixed-width parts, and returns their exclusive or, so that nothing is left out.
///
/// # Panics
/// Where a column holds booleans: the benchmarks' inputs do not.
pub fn read(blocks: &[Block], columns: &[usize]) -> u64 {
    let mut folded = 0;
    for block in blocks {
        for &column in columns {
            let array = &block.raw_columns()[column];
            let width = Layout::of(array.data_type()).map(Layout::width).filter(|width| *width > 0);
            let bytes = width.expect("a column of whole bytes") * block.rows();
            // SAFETY: the column's values are `rows` times its width long, and live as long as the block.
            folded ^= fold(unsafe { std::slice::from_raw_parts(values_ptr(array.as_ref()), bytes) });
        }
    }
    folded
}

/// Four independent lanes of 64 bytes: as many loads in flight as the memory system takes.
fn fold(bytes: &[u8]) -> u64 {
    let mut lanes = [0u64; 32];
    let parts = bytes.chunks_exact(256);
    let rest = parts.remainder();
    for part in parts {
        for (lane, word) in lanes.iter_mut().zip(part.chunks_exact(8)) {
            *lane ^= u64::from_le_bytes(word.try_into().expect("eight bytes"));
        }
    }
    let whole = lanes.into_iter().fold(0, |folded, lane| folded ^ lane);
    rest.iter().enumerate().fold(whole, |folded, (at, byte)| folded ^ u64::from(*byte) << (at % 8 * 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_read() {
        let mut bytes = vec![0u8; 1000];
        assert_eq!(fold(&bytes), 0);
        for at in 0..bytes.len() {
            bytes[at] = 1;
            assert_ne!(fold(&bytes), 0, "byte {at}");
            bytes[at] = 0;
        }
    }
}
