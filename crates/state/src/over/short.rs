//! Totals of short frames of rows: each from its values, all rows of a run at once.

use pelton_data::over::Frame;

use super::two_stacks::Operation;

/// Frames of at most so many rows are short: to put each together anew costs less than what two stacks do where runs are short.
const SHORT_ROWS_MAX: u64 = 32;

/// Whether frames are short.
pub(super) fn is_short(frame: Frame) -> bool {
    matches!(frame, Frame::Rows { preceding: Some(preceding) } if preceding < SHORT_ROWS_MAX)
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
        buffer.clear();
        buffer.extend_from_slice(&self.recent);
        buffer.extend_from_slice(entering);
        self.recent.copy_from_slice(&buffer[entering.len()..]);
        let frame_rows = preceding + 1;
        let (first, rows) = (totals.len(), entering.len());
        let mut done = 0;
        for piece_rows in (0..=frame_rows.ilog2()).map(|bit| 1 << bit) {
            if frame_rows & piece_rows != 0 {
                let pieces = &buffer[done..done + rows];
                if done == 0 {
                    totals.extend_from_slice(pieces);
                } else {
                    let totals = totals[first..].iter_mut().zip(pieces);
                    totals.for_each(|(total, &piece)| *total = O::combine(*total, piece));
                }
                done += piece_rows;
            }
            if done < frame_rows {
                let pieces = buffer.len() - piece_rows;
                let longer = buffer.as_mut_slice();
                for row in 0..pieces {
                    longer[row] = O::combine(longer[row], longer[row + piece_rows]);
                }
                buffer.truncate(pieces);
            }
        }
    }

    /// Bytes of memory held elsewhere.
    pub fn bytes(&self) -> usize {
        self.recent.capacity() * size_of::<V>()
    }
}

#[cfg(test)]
mod tests {
    use super::super::sum::Addition;
    use super::*;

    #[test]
    fn totals_are_those_of_the_frames_however_rows_are_cut() {
        let values: Vec<f64> = (0..200).map(|row| f64::from(row * 31 % 17)).collect();
        for rows in 1..=SHORT_ROWS_MAX as usize {
            let fresh = |row: usize| values[(row + 1).saturating_sub(rows)..=row].iter().sum::<f64>();
            let expected: Vec<f64> = (0..values.len()).map(fresh).collect();
            for run_rows in [1, 7, 200] {
                let mut frames = ShortFrames::new::<Addition>(rows - 1);
                let (mut buffer, mut totals) = (Vec::new(), Vec::new());
                values.chunks(run_rows).for_each(|run| frames.slide::<Addition>(run, &mut buffer, &mut totals));
                assert_eq!(totals, expected, "{rows} rows in runs of {run_rows}");
            }
        }
    }
}
