//! Totals of short frames of rows: each from its values, all rows of a run at once.

use arrow::datatypes::ArrowNativeType;
use pelton_data::over::Frame;

use crate::aggregates::Aggregate;
use crate::snapshot::{Reader, SnapshotError, Writer};
use crate::vector::{LINE_BYTES, copy_prefetching, vectorised};

/// Frames of at most so many rows are short: to put each together anew costs less than what two stacks do where runs are short,
const SHORT_ROWS_MAX: u64 = 32;

/// and of so many where all rows are of one key, and runs are mostly long.
const SHORT_ROWS_OF_ONE_KEY_MAX: u64 = 256;

/// Rows whose frames are put together at a time: what is made on the way stays in the first-level cache.
const CHUNK_ROWS: usize = 1024;

/// Whether frames of rows, all of which are `of_one_key` or of several, are short.
pub(super) fn is_short(frame: Frame, of_one_key: bool) -> bool {
    let rows_max = if of_one_key { SHORT_ROWS_OF_ONE_KEY_MAX } else { SHORT_ROWS_MAX };
    matches!(frame, Frame::Rows { preceding: Some(preceding) } if preceding < rows_max)
}

/// The values before the next row that its frame has.
#[derive(Debug)]
pub(super) struct ShortFrames<V> {
    recent: Vec<V>,
}

impl<V: Copy> ShortFrames<V> {
    /// No rows yet. Each frame has so many rows before its own.
    pub fn new<O: Aggregate<State = V>>(preceding: usize) -> ShortFrames<V> {
        ShortFrames { recent: vec![O::EMPTY; preceding] }
    }

    /// Appends the total of each row's frame to `totals`.
    ///
    /// A frame is put together from pieces whose lengths are the powers of two that add up to its own: those of one length are made of
    /// those half as long, for all rows in one loop.
    pub fn slide<O: Aggregate<State = V>>(&mut self, entering: &[V], buffer: &mut Vec<V>, totals: &mut Vec<V>) {
        let (preceding, line_values) = (self.recent.len(), LINE_BYTES / size_of::<V>());
        for entering in entering.chunks(CHUNK_ROWS) {
            let values = preceding + entering.len();
            // Vectors that are written across the ends of lines take twice as long.
            let room = values.next_multiple_of(line_values);
            // What is behind the values is overwritten, so that it does not matter what it is.
            buffer.resize((line_values + 2 * room).max(buffer.len()), O::EMPTY);
            let unused = buffer.as_ptr().align_offset(LINE_BYTES);
            let (pieces, longer) = buffer[unused..].split_at_mut(room);
            let pieces = &mut pieces[..values];
            pieces[..preceding].copy_from_slice(&self.recent);
            copy_prefetching(&mut pieces[preceding..], entering);
            self.recent.copy_from_slice(&pieces[entering.len()..]);
            vectorised(
                #[inline(always)]
                || append_totals::<O>(preceding + 1, entering.len(), (pieces, longer), totals),
            );
        }
    }

    /// Writes the values that the next frame has.
    pub fn write_to(&self, out: &mut Writer)
    where
        V: ArrowNativeType,
    {
        out.column(&self.recent);
    }

    /// Becomes what was written.
    pub fn read_from(&mut self, input: &mut Reader<'_>) -> Result<(), SnapshotError>
    where
        V: ArrowNativeType,
    {
        self.recent = input.column(self.recent.len(), "values of a short frame")?.to_vec();
        Ok(())
    }

    /// Bytes of memory held elsewhere.
    pub fn bytes(&self) -> usize {
        self.recent.capacity() * size_of::<V>()
    }
}

/// Appends the totals of the last `rows` frames of `frame_rows` values to `totals`. The values are overwritten, and so is what is in `longer`, which has at least as
/// many.
#[inline(always)]
fn append_totals<O: Aggregate>(
    frame_rows: usize,
    rows: usize,
    (mut pieces, mut longer): (&mut [O::State], &mut [O::State]),
    totals: &mut Vec<O::State>,
) {
    let (first, mut done) = (totals.len(), 0);
    for piece_rows in (0..frame_rows.ilog2()).map(|bit| 1 << bit) {
        if frame_rows & piece_rows != 0 {
            add::<O>(totals, first, pieces[done..done + rows].iter().copied());
            done += piece_rows;
        }
        if 4 * piece_rows > frame_rows {
            // The longest are made where they are added.
            return add::<O>(totals, first, doubled::<O>(&pieces[done..done + rows + piece_rows], piece_rows));
        }
        longer.iter_mut().zip(doubled::<O>(pieces, piece_rows)).for_each(|(longer, piece)| *longer = piece);
        let count = pieces.len() - piece_rows;
        (pieces, longer) = (&mut longer[..count], pieces);
    }
    totals.extend_from_slice(&pieces[..rows]);
}

/// Pieces of so many rows, each with the one that follows it.
#[inline(always)]
fn doubled<O: Aggregate>(pieces: &[O::State], piece_rows: usize) -> impl ExactSizeIterator<Item = O::State> {
    pieces.iter().zip(&pieces[piece_rows..]).map(|(&older, &younger)| O::combine(older, younger))
}

/// Adds the next piece of each frame to its total, which are those from the `first` on, or else appends it.
#[inline(always)]
fn add<O: Aggregate>(totals: &mut Vec<O::State>, first: usize, pieces: impl ExactSizeIterator<Item = O::State>) {
    if totals.len() == first {
        return totals.extend(pieces);
    }
    totals[first..].iter_mut().zip(pieces).for_each(|(total, piece)| *total = O::combine(*total, piece));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregates::SumFloat;

    #[test]
    fn totals_are_those_of_the_frames_however_rows_are_cut() {
        let values: Vec<f64> = (0..2_500).map(|row| f64::from(row * 31 % 17)).collect();
        for rows in (1..=SHORT_ROWS_MAX as usize).chain([33, 64, 255, SHORT_ROWS_OF_ONE_KEY_MAX as usize]) {
            let fresh = |row: usize| values[(row + 1).saturating_sub(rows)..=row].iter().sum::<f64>();
            let expected: Vec<f64> = (0..values.len()).map(fresh).collect();
            for run_rows in [1, 7, 1_500] {
                let mut frames = ShortFrames::new::<SumFloat>(rows - 1);
                let (mut buffer, mut totals) = (Vec::new(), Vec::new());
                values.chunks(run_rows).for_each(|run| frames.slide::<SumFloat>(run, &mut buffer, &mut totals));
                assert_eq!(totals, expected, "{rows} rows in runs of {run_rows}");
            }
        }
    }
}
