//! Which rows of a block come too late.

use pelton_data::window::Window;
use pelton_data::{Block, Micros};

use crate::late::LateList;

/// The rows of a block that come when all of their windows have closed.
pub(crate) fn late_rows(block: &Block, window: &Window) -> LateList {
    let mut late = LateList::default();
    let Some((time, ticks)) = block.time_column().zip(block.raw_ticks()) else { return late };
    let mut watermark = block.stamp.watermark_before;
    for (row, tick) in ticks.iter().enumerate() {
        let micros = (tick + block.time_shift_ticks()) * time.micros_per_tick;
        if window.slice(micros).covered.is_some_and(|covered| covered.last_end <= watermark) {
            late.push(row, watermark);
        }
        watermark = watermark.max(micros.saturating_sub(block.stamp.watermark_delay));
    }
    late
}

/// Rows that come after the watermark which the rows before them in their partition had reached, in the ticks of the time column.
pub(crate) struct Late {
    /// Which.
    pub rows: LateList,
    /// All others: one bit for every row of the block.
    pub others: Vec<u64>,
}

/// The late rows of a block, where there are any. As in [`assign`], that does not depend on where blocks begin.
pub(crate) fn late(block: &Block) -> Option<Late> {
    let (time, range) = (block.time_column()?, block.time_range()?);
    let stamp = &block.stamp;
    let floor = |micros: Micros| micros.div_euclid(time.micros_per_tick);
    let watermark_at_end = stamp.watermark_before.max(range.max.saturating_sub(stamp.watermark_delay));
    // Rows in their order are behind no watermark but that of the blocks before, unless the delay is below zero.
    let in_order = block.in_time_order() && stamp.watermark_delay >= 0;
    let watermark_at_last = if in_order { stamp.watermark_before } else { watermark_at_end };
    if floor(range.min) >= floor(watermark_at_last) {
        return None;
    }
    let ticks = block.raw_ticks().expect("it has a time column");
    let shift = block.time_shift_ticks();
    let mut watermark = stamp.watermark_before;
    let mut late = Late { rows: LateList::default(), others: vec![0; block.rows().div_ceil(64)] };
    for (row, tick) in ticks.iter().enumerate() {
        let tick = tick + shift;
        if tick < floor(watermark) {
            late.rows.push(row, watermark);
        } else {
            late.others[row / 64] |= 1 << (row % 64);
        }
        watermark = watermark.max((tick * time.micros_per_tick).saturating_sub(stamp.watermark_delay));
    }
    (late.rows.count > 0).then_some(late)
}
