//! Totals of short frames of rows: each from its values, all rows of a run at once.

use arrow::datatypes::ArrowNativeType;
use pelton_data::over::Frame;

use super::two_stacks::Operation;
use crate::snapshot::{Reader, SnapshotError, Writer};
use crate::vector::{copy_asking, vectorised};

/// Frames of at most so many rows are short: to put each together anew costs less than what two stacks do where runs are short,
const SHORT_ROWS_MAX: u64 = 32;

/// and of so many where all rows are of one key, and runs are mostly long.
const SHORT_ROWS_OF_ONE_KEY_MAX: u64 = 256;

/// Rows whose frames are put together at a time: what is made on the way stays in the first-level cache.
const CHUNK_ROWS: usize = 1024;

/// Values that come are copied to a multiple of so many: processors that copy by one instruction take 25 times as long where they go to just behind the place in a
/// page that they come from.
const ALIGNED_VALUES: usize = 8;

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
    pub fn new<O: Operation<Value = V>>(preceding: usize) -> ShortFrames<V> {
        ShortFrames { recent: vec![O::NEUTRAL; preceding] }
    }

    /// Appends the total of each row's frame to `totals`.
    ///
    /// A frame is put together from pieces whose lengths are the powers of two that add up to its own: those of one length are made of
    /// those half as long, for all rows in one loop.
    pub fn slide<O: Operation<Value = V>>(&mut self, entering: &[V], buffer: &mut Vec<V>, totals: &mut Vec<V>) {
        let preceding = self.recent.len();
        let unused = preceding.next_multiple_of(ALIGNED_VALUES) - preceding;
        for entering in entering.chunks(CHUNK_ROWS) {
            let values = preceding + entering.len();
            // What is behind the values is overwritten, so that it does not matter what it is.
            buffer.resize((unused + 2 * values).max(buffer.len()), O::NEUTRAL);
            let (values, longer) = buffer[unused..].split_at_mut(values);
            values[..preceding].copy_from_slice(&self.recent);
            copy_asking(&mut values[preceding..], entering);
            self.recent.copy_from_slice(&values[entering.len()..]);
            vectorised(
                #[inline(always)]
                || append_totals::<O>(preceding + 1, entering.len(), (values, longer), totals),
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
fn append_totals<O: Operation>(
    frame_rows: usize,
    rows: usize,
    (mut pieces, mut longer): (&mut [O::Value], &mut [O::Value]),
    totals: &mut Vec<O::Value>,
) {
    let first = totals.len();
    let mut done = 0;
    for piece_rows in (0..=frame_rows.ilog2()).map(|bit| 1 << bit) {
        if frame_rows & piece_rows != 0 {
            let pieces = &pieces[done..done + rows];
            if done == 0 {
                totals.extend_from_slice(pieces);
            } else {
                let totals = totals[first..].iter_mut().zip(pieces);
                totals.for_each(|(total, &piece)| *total = O::combine(*total, piece));
            }
            done += piece_rows;
        }
        if done < frame_rows {
            let halves = pieces.iter().zip(&pieces[piece_rows..]).zip(&mut *longer);
            halves.for_each(|((&older, &younger), longer)| *longer = O::combine(older, younger));
            let count = pieces.len() - piece_rows;
            (pieces, longer) = (&mut longer[..count], pieces);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sum::Addition;
    use super::*;

    #[test]
    fn totals_are_those_of_the_frames_however_rows_are_cut() {
        let values: Vec<f64> = (0..2_500).map(|row| f64::from(row * 31 % 17)).collect();
        for rows in (1..=SHORT_ROWS_MAX as usize).chain([33, 64, 255, SHORT_ROWS_OF_ONE_KEY_MAX as usize]) {
            let fresh = |row: usize| values[(row + 1).saturating_sub(rows)..=row].iter().sum::<f64>();
            let expected: Vec<f64> = (0..values.len()).map(fresh).collect();
            for run_rows in [1, 7, 1_500] {
                let mut frames = ShortFrames::new::<Addition>(rows - 1);
                let (mut buffer, mut totals) = (Vec::new(), Vec::new());
                values.chunks(run_rows).for_each(|run| frames.slide::<Addition>(run, &mut buffer, &mut totals));
                assert_eq!(totals, expected, "{rows} rows in runs of {run_rows}");
            }
        }
    }
}
