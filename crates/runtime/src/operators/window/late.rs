//! Pieces of sessions that came too late.

use std::iter::repeat_n;

use arrow::array::RecordBatch;
use pelton_state::session::LateSessions;
use pelton_state::table::Chosen;
use pelton_state::window::{ClosedGroups, Contents};

use super::{ReadOut, WindowNode};
use crate::late::LateRow;

/// Late pieces of sessions as they are kept.
pub(super) fn of_sessions(node: &WindowNode, late: &LateSessions) -> (Option<RecordBatch>, Vec<LateRow>) {
    let each = late.windows.iter().zip(&late.arrivals).map(|(window, arrival)| LateRow {
        time: window.start,
        window_end: Some(window.end),
        watermark: arrival.watermark,
        count: arrival.rows,
    });
    let entries = Chosen::first(late.pieces.groups());
    let pieces = ClosedGroups { table: &late.pieces, entries, windows: &late.windows };
    // They are not results: an average that does not fit its type is no error.
    let read = |read_out: &ReadOut| read_out(Contents::Groups(pieces)).ok().flatten();
    match &node.read_all {
        None => (read(&node.read_out), each.collect()),
        Some(read_all) => {
            let row_by_row = |piece: LateRow| repeat_n(LateRow { count: 1, ..piece }, piece.count as usize);
            (read(read_all), each.flat_map(row_by_row).collect())
        }
    }
}
