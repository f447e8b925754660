//! Rows to the slices of windows that count rows.

use pelton_data::Block;
use pelton_data::window::Window;
use pelton_state::slice::{Belong, SliceRows};

use super::{Assignment, slice_in_time};

/// How many rows of its stream have come when all of the block's have: what the watermark is of windows that count rows.
pub(crate) fn rows_until(block: &Block) -> i64 {
    block.stamp.rows_before as i64 + block.rows() as i64
}

/// As [`assign`], by the numbers that rows have in their stream.
pub(super) fn by_number(block: &Block, window: &Window) -> Assignment {
    let (first, end) = (block.stamp.rows_before as i64, rows_until(block));
    let mut slices = Vec::new();
    let mut number = first;
    while number < end {
        let slice = window.slice(number);
        let next = slice.end.min(end);
        if let Some(id) = slice_in_time(window, &slice) {
            let rows = (number - first) as usize..(next - first) as usize;
            slices.push(SliceRows { slice: id, rows, belong: Belong::All });
        }
        number = next;
    }
    Assignment { slices, ..Assignment::default() }
}
