//! Columns that come from memory: the lines that a loop is about to read are asked for while it computes the rows before.
//!
//! A processor reads ahead by itself where rows follow each other, but not enough of it where a loop does more than read: then it waits for memory and
//! computes in turn. Rows of a joined table are in no order at all. Cranelift has no instruction that asks for a line, so the driver does, between runs of the loop over few rows.

use std::ops::Range;

use pelton_data::abi::{CallFrame, Status};
use pelton_state::vector::{LINE_BYTES, prefetch};

use super::call::Call;
use crate::code_memory::Code;

/// Positions of one run: few, so that no more lines are asked for at once than a processor can wait for.
const RUN_POSITIONS: usize = 64;

/// How many positions before it is read a line is asked for: a few hundred nanoseconds.
const AHEAD_POSITIONS: usize = 3 * RUN_POSITIONS;

/// A column that a loop reads, and that comes from memory.
pub(super) struct FarColumn {
    /// Where row 0 is,
    pub(super) start: *const u8,
    /// and bytes from one to the next.
    pub(super) width: usize,
    /// The lookup that finds its rows; `None` for a column of the block.
    pub(super) lookup: Option<usize>,
}

/// Whether lines can be asked for.
pub(super) const CAN_FETCH: bool = cfg!(target_arch = "x86_64");

/// Runs a loop over the frame's positions, and asks for what it reads some positions later.
///
/// # Safety
/// As [`Code::run`].
pub(super) unsafe fn run(code: &Code, call: &Call<'_>, columns: &[FarColumn], frame: &mut CallFrame) -> Status {
    let end = frame.count;
    let mut status = Status::Done;
    while status == Status::Done && frame.position < end {
        let start = frame.position as usize;
        frame.count = end.min(frame.position + RUN_POSITIONS as u64);
        let ahead = |position: usize| (position + AHEAD_POSITIONS).min(call.count);
        fetch(call, columns, ahead(start)..ahead(frame.count as usize));
        // SAFETY: the caller's promise holds for each part of the positions, and a loop goes on where the one before it left.
        status = unsafe { code.run(frame) };
        if status == Status::Done {
            frame.position = frame.count;
        }
    }
    frame.count = end;
    status
}

/// Asks for the rows of some positions.
fn fetch(call: &Call<'_>, columns: &[FarColumn], positions: Range<usize>) {
    for &FarColumn { start, width, lookup } in columns {
        let rows = lookup.map_or(call.selection.as_ref(), |lookup| Some(&call.matches[lookup]));
        match rows {
            Some(rows) => {
                // What is asked for a row without a match is not read.
                rows[positions.clone()].iter().for_each(|&row| prefetch(start.wrapping_add(row as usize * width)))
            }
            None => {
                let byte = |position: usize| (call.first + position) * width;
                let bytes = byte(positions.start)..byte(positions.end);
                bytes.step_by(LINE_BYTES).for_each(|byte| prefetch(start.wrapping_add(byte)));
            }
        }
    }
}
