//! Which rows of a block go into which slice, and which come too late.
//!
//! Time is decided per block first: nearly every block lies inside one slice, and its event-time range says so without a
//! look at its rows. Only a block that straddles an edge, or that may hold late rows, is looked at row by row.

use std::collections::BTreeMap;
use std::ops::Range;

use pelton_data::block::ticks;
use pelton_data::time::slice_start;
use pelton_data::{Block, Micros};

/// Rows of a block that go into one slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceRows {
    /// First instant of the slice, in microseconds.
    pub start: Micros,
    /// The rows lie in here.
    pub rows: Range<usize>,
    /// Which of them, where not all: one bit for every row of the block.
    pub mask: Option<Vec<u64>>,
}

/// How the rows of a block are spread over slices.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Assignment {
    /// Rows by slice. A slice may occur more than once.
    pub slices: Vec<SliceRows>,
    /// Rows whose slice had closed before they came.
    pub late_rows: u64,
}

/// Assigns the rows of `block` to slices `[offset + k * size, offset + (k + 1) * size)`.
///
/// A row is late where its slice ends at or before the watermark that the rows before it in its partition had reached. That is a
/// property of the stream alone: it does not depend on where blocks begin or who computes them.
pub fn assign(block: &Block, size: Micros, offset: Micros) -> Assignment {
    let Some(range) = block.time_range() else { return Assignment::default() };
    let first = slice_start(range.min, size, offset);
    let watermark_at_end = block.stamp.watermark_before.max(range.max.saturating_sub(block.stamp.watermark_delay));
    let may_be_late = first.saturating_add(size) <= watermark_at_end;
    if range.max < first.saturating_add(size) && !may_be_late {
        return Assignment {
            slices: vec![SliceRows { start: first, rows: 0..block.rows(), mask: None }],
            late_rows: 0,
        };
    }
    let runs = runs(block, size, offset);
    let late_rows = runs.late_rows;
    Assignment { slices: if runs.are_short() { runs.into_masks(block.rows()) } else { runs.into_ranges() }, late_rows }
}

/// Consecutive rows of one slice.
struct Runs {
    runs: Vec<(Micros, Range<usize>)>,
    late_rows: u64,
}

/// Below this many rows a run costs more in calls than a mask costs in looking at it.
const RUN_ROWS_MIN: usize = 64;

fn runs(block: &Block, size: Micros, offset: Micros) -> Runs {
    let time = block.time_column().expect("a block with a time range has a time column");
    let ticks = ticks(&block.raw_columns()[time.index]);
    let shift = block.time_shift_ticks();
    let delay = block.stamp.watermark_delay;
    let mut watermark = block.stamp.watermark_before;
    let mut runs: Vec<(Micros, Range<usize>)> = Vec::new();
    let mut late_rows = 0;
    // The slice of the row before: an empty one to begin with.
    let (mut start, mut end) = (Micros::MAX, Micros::MIN);
    for (row, tick) in ticks.values().iter().enumerate() {
        let micros = (tick + shift) * time.micros_per_tick;
        if micros < start || micros >= end {
            start = slice_start(micros, size, offset);
            end = start.saturating_add(size);
        }
        if end <= watermark {
            late_rows += 1;
        } else {
            match runs.last_mut() {
                Some((slice, rows)) if *slice == start && rows.end == row => rows.end = row + 1,
                _ => runs.push((start, row..row + 1)),
            }
        }
        watermark = watermark.max(micros.saturating_sub(delay));
    }
    Runs { runs, late_rows }
}

impl Runs {
    fn are_short(&self) -> bool {
        let rows: usize = self.runs.iter().map(|(_, rows)| rows.len()).sum();
        self.runs.len() > 1 && rows / self.runs.len() < RUN_ROWS_MIN
    }

    fn into_ranges(self) -> Vec<SliceRows> {
        self.runs.into_iter().map(|(start, rows)| SliceRows { start, rows, mask: None }).collect()
    }

    fn into_masks(self, block_rows: usize) -> Vec<SliceRows> {
        let mut slices: BTreeMap<Micros, (Range<usize>, Vec<u64>)> = BTreeMap::new();
        for (start, rows) in self.runs {
            let (span, mask) = slices.entry(start).or_insert_with(|| (rows.clone(), vec![0; block_rows.div_ceil(64)]));
            span.end = rows.end;
            for row in rows {
                mask[row / 64] |= 1 << (row % 64);
            }
        }
        let sliced = slices.into_iter();
        sliced.map(|(start, (rows, mask))| SliceRows { start, rows, mask: Some(mask) }).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{RecordBatch, TimestampMicrosecondArray};
    use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
    use pelton_data::TimeColumn;
    use pelton_data::time::WATERMARK_MIN;
    use proptest::prelude::*;

    use super::*;

    fn block(times: &[i64], watermark_before: Micros, delay: Micros) -> Block {
        let data_type = DataType::Timestamp(TimeUnit::Microsecond, None);
        let schema = Arc::new(Schema::new(vec![Field::new("ts", data_type.clone(), false)]));
        let column = Arc::new(TimestampMicrosecondArray::from(times.to_vec()));
        let batch = RecordBatch::try_new(schema, vec![column]).unwrap();
        let mut block = Block::new(batch, TimeColumn::new(0, &data_type)).unwrap();
        block.stamp.watermark_before = watermark_before;
        block.stamp.watermark_delay = delay;
        block
    }

    fn rows_of(assignment: &Assignment) -> Vec<(Micros, usize)> {
        let mut rows: Vec<(Micros, usize)> = Vec::new();
        for slice in &assignment.slices {
            let wanted = |row: &usize| slice.mask.as_ref().is_none_or(|mask| mask[row / 64] >> (row % 64) & 1 == 1);
            rows.extend(slice.rows.clone().filter(wanted).map(|row| (slice.start, row)));
        }
        rows.sort_by_key(|&(_, row)| row);
        rows
    }

    #[test]
    fn a_block_inside_one_slice_is_one_range() {
        let assignment = assign(&block(&[10, 19, 12], WATERMARK_MIN, 0), 10, 0);
        assert_eq!(assignment.slices, [SliceRows { start: 10, rows: 0..3, mask: None }]);
    }

    #[test]
    fn a_row_behind_its_own_blocks_watermark_is_late() {
        let assignment = assign(&block(&[9, 25, 8, 21], WATERMARK_MIN, 5), 10, 0);
        assert_eq!(rows_of(&assignment), [(0, 0), (20, 1), (20, 3)]);
        assert_eq!(assignment.late_rows, 1);
    }

    proptest! {
        #[test]
        fn where_blocks_begin_makes_no_difference(
            times in prop::collection::vec(-500i64..500, 1..300),
            size in 1i64..60, offset in -70i64..70, delay in 0i64..80, cut in 1usize..80,
        ) {
            let mut expected = Vec::new();
            let (mut late, mut watermark) = (0, WATERMARK_MIN);
            for (row, &time) in times.iter().enumerate() {
                let start = (time - offset).div_euclid(size) * size + offset;
                if start + size <= watermark { late += 1 } else { expected.push((start, row)) }
                watermark = watermark.max(time - delay);
            }
            let (mut found, mut found_late, mut before, mut begin) = (Vec::new(), 0, WATERMARK_MIN, 0);
            for piece in times.chunks(cut) {
                let assignment = assign(&block(piece, before, delay), size, offset);
                found.extend(rows_of(&assignment).into_iter().map(|(start, row)| (start, row + begin)));
                found_late += assignment.late_rows;
                before = before.max(piece.iter().max().unwrap() - delay);
                begin += piece.len();
            }
            prop_assert_eq!(found, expected);
            prop_assert_eq!(found_late, late);
        }
    }
}
