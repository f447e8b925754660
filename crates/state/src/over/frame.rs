//! Where the frame of each row begins and ends.

use pelton_data::over::Frame;

use super::row_store::ColumnStore;

/// A frame in the units of the time column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameTicks {
    /// So many rows before each row, or all.
    Rows(Option<u64>),
    /// So many ticks before each row, or all; and all rows of the row's own time.
    Range(Option<i64>),
    /// So many ticks before each row, and none of the rows behind it.
    Arrived(i64),
    /// So many rows before each row, or all, up to where the frames of its node end, which is after the row.
    RowsAround(Option<u64>),
    /// So many ticks before each row, or all, up to there.
    RangeAround(Option<i64>),
}

/// The frames of a run of rows: positions among the key's rows. None ends behind the run.
#[derive(Debug)]
pub(super) enum Bounds {
    /// Each row's begins so many rows before it, or at the first of all, and ends with it.
    Rows {
        /// The run's first row.
        position: u64,
        rows: usize,
        preceding: Option<u64>,
    },
    /// Rows of one time have one frame.
    Range {
        /// The run's first row.
        position: u64,
        /// For each time its frame's first row, and one past its last, which is the last row of the time. Where rows have no peers, for each row.
        frames: Vec<(u64, u64)>,
    },
    /// Each row of those that are computed has a frame of its own: its first row, and one past its last.
    Each(Vec<(u64, u64)>),
}

/// Frames of neighbouring rows of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    pub rows: usize,
    /// First row of the first frame.
    pub start: u64,
    /// One past the last row of the first frame.
    pub end: u64,
    pub moves: Moves,
}

/// What of a frame lies one row further than of the frame before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moves {
    /// Nothing: the frames are one.
    Nothing,
    /// Its end.
    End,
    /// Its start and its end.
    Both,
}

impl FrameTicks {
    pub fn new(frame: Frame, micros_per_tick: i64) -> FrameTicks {
        match frame {
            Frame::Rows { preceding } => FrameTicks::Rows(preceding),
            Frame::Range { preceding } => FrameTicks::Range(preceding.map(|micros| micros.div_euclid(micros_per_tick))),
            Frame::Arrived { preceding } => FrameTicks::Arrived(preceding.div_euclid(micros_per_tick)),
            Frame::RowsAround { preceding, .. } => FrameTicks::RowsAround(preceding),
            Frame::RangeAround { preceding, .. } => {
                FrameTicks::RangeAround(preceding.map(|micros| micros.div_euclid(micros_per_tick)))
            }
        }
    }

    /// Whether rows of one time must be seen at once.
    pub fn needs_peers(self) -> bool {
        matches!(self, FrameTicks::Range(_) | FrameTicks::RangeAround(_))
    }

    /// Whether the times of the rows themselves are looked at.
    pub fn needs_ticks(self) -> bool {
        !matches!(self, FrameTicks::Rows(_) | FrameTicks::RowsAround(_))
    }

    /// Whether the times of earlier rows are looked back at.
    pub fn needs_times(self) -> bool {
        self.length().is_some() || matches!(self, FrameTicks::RangeAround(_))
    }

    /// How many ticks before each row its frame begins, where it begins at a time.
    pub fn length(self) -> Option<i64> {
        match self {
            FrameTicks::Range(preceding) | FrameTicks::RangeAround(preceding) => preceding,
            FrameTicks::Arrived(preceding) => Some(preceding),
            FrameTicks::Rows(_) | FrameTicks::RowsAround(_) => None,
        }
    }

    /// Where the frame of the last of so many rows begins, where its time does not say.
    pub fn last_start(self, rows: u64) -> Option<u64> {
        match self {
            FrameTicks::Rows(Some(preceding)) | FrameTicks::RowsAround(Some(preceding)) => {
                Some(rows.saturating_sub(1).saturating_sub(preceding))
            }
            FrameTicks::Rows(None) | FrameTicks::Range(None) => Some(0),
            FrameTicks::RowsAround(None) | FrameTicks::RangeAround(None) => Some(0),
            FrameTicks::Range(Some(_)) | FrameTicks::Arrived(_) => None,
            FrameTicks::RangeAround(Some(_)) => None,
        }
    }

    /// The frames of no rows.
    pub fn no_bounds(self) -> Bounds {
        match self {
            FrameTicks::Rows(preceding) => Bounds::Rows { position: 0, rows: 0, preceding },
            FrameTicks::Range(_) | FrameTicks::Arrived(_) => Bounds::Range { position: 0, frames: Vec::new() },
            FrameTicks::RowsAround(_) | FrameTicks::RangeAround(_) => Bounds::Each(Vec::new()),
        }
    }

    /// Makes `bounds` the frames of the `count` rows whose times are `ticks`, which only a range looks at; the first is the key's row
    /// `first`. `start` is where the frame of the row before began, and is moved; `times` holds the times of the rows from there to
    /// the end of the run.
    pub fn bounds(
        self,
        (ticks, count, first): (&[i64], usize, u64),
        start: &mut u64,
        times: &ColumnStore<i64>,
        bounds: &mut Bounds,
    ) {
        match bounds {
            Bounds::Rows { position, rows, preceding } => {
                (*position, *rows) = (first, count);
                let last = (first + count as u64).saturating_sub(1);
                *start = preceding.map_or(0, |preceding| last.saturating_sub(preceding));
            }
            Bounds::Range { position, frames } => {
                *position = first;
                frames.clear();
                let (has_peers, mut end) = (self.needs_peers(), first);
                for peers in ticks.chunk_by(|a, b| has_peers && a == b) {
                    end += peers.len() as u64;
                    if let Some(preceding) = self.length() {
                        let first_tick = peers[0].saturating_sub(preceding);
                        while times.get(*start) < first_tick {
                            *start += 1;
                        }
                    }
                    frames.push((*start, end));
                }
            }
            Bounds::Each(_) => unreachable!("frames that end after their rows are found by their ends"),
        }
    }

    /// Moves `start` to where the frame of a row begins, whose position among the rows of its key is `row`. `times` holds the times of the rows from there to
    /// the row's own, where frames go by time.
    pub fn move_start(self, start: &mut u64, row: u64, times: &ColumnStore<i64>) {
        match self {
            FrameTicks::RowsAround(Some(preceding)) => *start = row.saturating_sub(preceding),
            FrameTicks::RangeAround(Some(preceding)) => {
                let first_tick = times.get(row).saturating_sub(preceding);
                while times.get(*start) < first_tick {
                    *start += 1;
                }
            }
            _ => {}
        }
    }
}

impl Bounds {
    /// The frames, as many at a time as lie alike.
    pub fn steps(&self) -> impl Iterator<Item = Step> {
        let mut done = 0;
        let mut frames: &[(u64, u64)] = match self {
            Bounds::Range { frames, .. } | Bounds::Each(frames) => frames,
            Bounds::Rows { .. } => &[],
        };
        std::iter::from_fn(move || {
            let step = match *self {
                Bounds::Rows { rows, .. } if done == rows => return None,
                Bounds::Rows { position, rows, preceding } => {
                    let row = position + done as u64;
                    let end = row + 1;
                    match preceding {
                        Some(preceding) if row > preceding => {
                            Step { rows: rows - done, start: row - preceding, end, moves: Moves::Both }
                        }
                        _ => {
                            let growing = preceding.map_or(u64::MAX, |preceding| (preceding - row).saturating_add(1));
                            let rows = usize::try_from(growing).unwrap_or(usize::MAX).min(rows - done);
                            Step { rows, start: 0, end, moves: Moves::End }
                        }
                    }
                }
                Bounds::Range { position, .. } => {
                    let (&(start, end), rest) = frames.split_first()?;
                    frames = rest;
                    Step { rows: (end - position) as usize - done, start, end, moves: Moves::Nothing }
                }
                Bounds::Each(_) => {
                    let &(start, end) = frames.first()?;
                    let rows = frames.iter().take_while(|frame| **frame == (start, end)).count();
                    frames = &frames[rows..];
                    Step { rows, start, end, moves: Moves::Nothing }
                }
            };
            done += step.rows;
            Some(step)
        })
    }

    /// How many rows have frames.
    pub fn rows(&self) -> usize {
        match self {
            Bounds::Rows { rows, .. } => *rows,
            Bounds::Range { position, frames } => frames.last().map_or(0, |(_, end)| (end - position) as usize),
            Bounds::Each(frames) => frames.len(),
        }
    }

    /// For each row where its frame begins and ends.
    pub fn frames(&self) -> impl Iterator<Item = (u64, u64)> {
        self.steps().flat_map(|step| step.starts().zip(step.ends()))
    }
}

impl Step {
    /// How many rows each of the frames has.
    pub fn lengths(self) -> impl Iterator<Item = u64> {
        let grows = u64::from(self.moves == Moves::End);
        (0..self.rows as u64).map(move |row| self.end - self.start + row * grows)
    }

    /// For each of the frames one past its last row.
    pub fn ends(self) -> impl Iterator<Item = u64> {
        let moves = u64::from(self.moves != Moves::Nothing);
        (0..self.rows as u64).map(move |row| self.end + row * moves)
    }

    /// For each of the frames its first row.
    pub fn starts(self) -> impl Iterator<Item = u64> {
        let moves = u64::from(self.moves == Moves::Both);
        (0..self.rows as u64).map(move |row| self.start + row * moves)
    }
}

#[cfg(test)]
mod tests {
    use arrow::buffer::ScalarBuffer;

    use super::super::row_store::Coming;
    use super::*;

    fn frames(bounds: &Bounds) -> Vec<(u64, u64)> {
        bounds.frames().collect()
    }

    #[test]
    fn frames_of_rows_grow_and_then_slide() {
        let bounds = |preceding, position, rows| Bounds::Rows { position, rows, preceding };
        assert_eq!(frames(&bounds(Some(2), 1, 4)), [(0, 2), (0, 3), (1, 4), (2, 5)]);
        assert_eq!(bounds(Some(2), 1, 4).steps().count(), 2);
        assert_eq!(frames(&bounds(Some(0), 0, 2)), [(0, 1), (1, 2)]);
        assert_eq!(frames(&bounds(Some(u64::MAX), 3, 2)), [(0, 4), (0, 5)]);
        assert_eq!(frames(&bounds(None, 3, 2)), [(0, 4), (0, 5)]);
        assert_eq!(frames(&bounds(None, 3, 0)), []);
    }

    #[test]
    fn rows_of_one_time_have_one_frame() {
        let mut times = ColumnStore::new(false, None);
        let ticks = [1, 2, 2, 5, 5, 9];
        let values = ScalarBuffer::from(ticks.to_vec());
        times.append(Coming { values: &values, nulls: None, is_whole: true }, 0..6);
        let range = FrameTicks::Range(Some(3));
        let (mut bounds, mut start) = (range.no_bounds(), 0);
        range.bounds((&ticks[1..], 5, 1), &mut start, &times, &mut bounds);
        assert_eq!(frames(&bounds), [(0, 3), (0, 3), (1, 5), (1, 5), (5, 6)]);
        assert_eq!(start, 5);
    }

    #[test]
    fn frames_that_end_after_their_rows_are_told_one_by_one() {
        let each = vec![(0, 2), (0, 3), (1, 3), (1, 3), (2, 3)];
        let bounds = Bounds::Each(each.clone());
        assert_eq!((frames(&bounds), bounds.steps().count(), bounds.rows()), (each, 4, 5));
        let mut times = ColumnStore::new(false, None);
        let values = ScalarBuffer::from(vec![1, 2, 2, 5, 5, 9]);
        times.append(Coming { values: &values, nulls: None, is_whole: true }, 0..6);
        let starts = |frame: FrameTicks| {
            let mut start = 0;
            (0..6).map(move |row| {
                frame.move_start(&mut start, row, &times);
                start
            })
        };
        assert_eq!(starts(FrameTicks::RangeAround(Some(3))).collect::<Vec<_>>(), [0, 0, 0, 1, 1, 5]);
    }

    #[test]
    fn rows_without_peers_have_a_frame_each() {
        let mut times = ColumnStore::new(false, None);
        let ticks = [1, 2, 2, 5, 5, 9];
        let values = ScalarBuffer::from(ticks.to_vec());
        times.append(Coming { values: &values, nulls: None, is_whole: true }, 0..6);
        let arrived = FrameTicks::Arrived(3);
        let (mut bounds, mut start) = (arrived.no_bounds(), 0);
        arrived.bounds((&ticks[1..], 5, 1), &mut start, &times, &mut bounds);
        assert_eq!(frames(&bounds), [(0, 2), (0, 3), (1, 4), (1, 5), (5, 6)]);
        assert_eq!(start, 5);
    }
}
