//! Which rows of a block go into which slice, and which come too late.
//!
//! Time is decided per block first: nearly every block lies inside one slice, and its event-time range says so without a
//! look at its rows. Only a block that straddles an edge, or that may hold late rows, is looked at row by row.

mod late;
mod rows;

use std::collections::BTreeMap;
use std::ops::Range;

use pelton_data::window::{Covered, Slice, Window};
use pelton_data::{Block, Micros, TimeRange};
use pelton_state::slice::{Belong, SLICES_BY_TIME_MAX, SliceId, SliceRows};
use pelton_state::vector::prefetch;

use crate::late::LateList;

pub(crate) use late::late;
pub(super) use late::late_rows;
pub(super) use rows::rows_until;

/// How the rows of a block are spread over slices.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Assignment {
    /// Rows by slice. A slice may occur more than once.
    pub slices: Vec<SliceRows>,
    /// Rows all of whose windows were final before they came.
    pub late: LateList,
    /// Whether some of the windows of any row may have been.
    pub is_behind: bool,
}

impl Assignment {
    fn whole(block: &Block, slice: SliceId, mut slices: Vec<SliceRows>) -> Assignment {
        slices.push(SliceRows::all(slice, 0..block.rows()));
        Assignment { slices, ..Assignment::default() }
    }

    /// The same rows in each of their windows, as if each window were one slice.
    pub fn into_buckets(self, window: &Window) -> Assignment {
        let slices = self.slices.into_iter().flat_map(|rows| {
            let covered = window.slice(rows.slice.start).covered.expect("a slice with rows belongs to a window");
            let ends = std::iter::successors(Some(rows.slice.first_end), |&end| Some(window.next_end(end)));
            ends.take_while(move |&end| end <= covered.last_end)
                .map(move |end| SliceRows { slice: SliceId::new(end, window.start(end)), ..rows.clone() })
        });
        Assignment { slices: slices.collect(), ..self }
    }
}

/// Where a row belongs.
enum Assigned<T> {
    Slice(T),
    /// It came when all of its windows had closed.
    Late,
    /// No window holds its time.
    Nowhere,
}

/// The slice of rows that come before any of their windows has closed.
fn slice_in_time(window: &Window, slice: &Slice) -> Option<SliceId> {
    let Covered { first_end, .. } = slice.covered?;
    let first_end = if let Window::Session { .. } = window { slice.start } else { first_end };
    Some(SliceId::new(first_end, slice.start))
}

/// Whether a row of that slice comes before any of its windows has closed.
fn is_in_time(window: &Window, slice: SliceId, time: Micros, watermark: Micros) -> bool {
    match window {
        Window::Session { .. } => time >= watermark,
        _ => slice.first_end > watermark,
    }
}

/// Where a row of this time and slice belongs that comes when the watermark of its partition is `watermark`.
fn place(window: &Window, lateness: Micros, slice: &Slice, time: Micros, watermark: Micros) -> Assigned<SliceId> {
    let Some(id) = slice_in_time(window, slice) else { return Assigned::Nowhere };
    if is_in_time(window, id, time, watermark) {
        return Assigned::Slice(id);
    }
    if slice.covered.is_none_or(|covered| covered.last_end.saturating_add(lateness) <= watermark) {
        return Assigned::Late;
    }
    // Whether there is a session that a row behind the watermark can join is seen when all rows before it are known.
    if matches!(window, Window::Session { .. }) {
        return Assigned::Slice(SliceId { first_end: watermark, ..id });
    }
    let first_end = window.next_end(watermark.saturating_sub(lateness)).max(id.first_end);
    if first_end > watermark {
        return Assigned::Slice(SliceId { first_end, ..id });
    }
    Assigned::Slice(SliceId { first_end: watermark.saturating_add(1), corrects: true, ..id })
}

/// Assigns the rows of `block` to slices, which go into the list `slices`.
///
/// A row counts in those of its windows that end after the watermark which the rows before it in its partition had reached, and is
/// late where none does. That is a property of the stream alone: it does not depend on where blocks begin or who computes them. Windows that end up
/// to `lateness` before that watermark are corrected.
/// Whether a row is late for all sessions is found where they are merged (`pelton_state::session`).
pub(crate) fn assign(block: &Block, window: &Window, lateness: Micros, mut slices: Vec<SliceRows>) -> Assignment {
    slices.clear();
    if *window == Window::Global {
        return Assignment::whole(block, SliceId::new(Micros::MAX, Micros::MIN), slices);
    }
    if window.goes_by_arrival() {
        return rows::by_number(block, window);
    }
    let Some(range) = block.time_range() else { return Assignment::default() };
    let slice = window.slice(range.min);
    let watermark_at_end = block.stamp.watermark_before.max(range.max.saturating_sub(block.stamp.watermark_delay));
    if range.max < slice.end {
        let Some(id) = slice_in_time(window, &slice) else { return Assignment::default() };
        if is_in_time(window, id, range.min, watermark_at_end) {
            return Assignment::whole(block, id, slices);
        }
    }
    if slices_in_order(block, window, &mut slices) {
        return Assignment { slices, ..Assignment::default() };
    }
    if let Some(slices) = slices_by_time(block, window) {
        return Assignment { slices, ..Assignment::default() };
    }
    let mut runs = runs(block, window, lateness);
    let late = std::mem::take(&mut runs.late);
    let slices = if runs.are_scattered() { runs.into_masks(block.rows()) } else { runs.into_ranges() };
    Assignment { slices, late, is_behind: true }
}

/// Consecutive rows of one slice each.
struct Runs {
    /// Each slice once.
    slices: Vec<SliceId>,
    /// Indices of slices, and rows.
    runs: Vec<(usize, Range<usize>)>,
    late: LateList,
}

/// Slices that rows were in last: the rows of a block that are out of order mostly go to and fro between a few.
const RECENT_SLICES: usize = 4;

/// Finds the slices of rows that come in whatever order.
struct Finder<'a> {
    window: &'a Window,
    lateness: Micros,
    slices: Vec<SliceId>,
    indices: BTreeMap<SliceId, usize>,
    recent: [Recent; RECENT_SLICES],
    /// The one of them that was replaced last.
    replaced: usize,
}

#[derive(Clone, Copy)]
struct Recent {
    slice: Slice,
    /// The slice of its rows that come in time, and its index, once there was one.
    in_time: Option<(SliceId, usize)>,
}

/// Below this many rows a run costs more in calls than a mask costs in looking at it.
const RUN_ROWS_MIN: usize = 64;

/// So many runs of one slice are put together by a mask.
const RUNS_PER_SLICE_MIN: usize = 2;

/// A block in which so many windows close and more is looked at row by row.
const PIECES_BY_TIME_MAX: usize = 4;

/// For so many slices ahead the line is asked for in which they end, if they have as many rows as the one before.
const SLICES_AHEAD: usize = 12;

/// The slices of a block whose rows are in the order of their times, and come before any of their windows has closed: each slice's end is
/// searched for, and no row is looked at. Not where a row may be out of order or late.
fn slices_in_order(block: &Block, window: &Window, slices: &mut Vec<SliceRows>) -> bool {
    let Some(time) = block.time_column() else { return false };
    let stamp = &block.stamp;
    // With a delay below zero a row is behind the watermark that it makes itself.
    if stamp.watermark_delay < 0 || !block.in_time_order() {
        return false;
    }
    let ticks = block.raw_ticks().expect("it has a time column");
    let micros = |tick: i64| (tick + block.time_shift_ticks()) * time.micros_per_tick;
    let (mut row, mut before, mut likely) = (0, 0, None::<Slice>);
    let stride = window.stride();
    while row < ticks.len() {
        let time = micros(ticks[row]);
        // To divide takes longer than to see that it is the next one.
        let slice = likely.filter(|next| time < next.end).unwrap_or_else(|| window.slice(time));
        likely = stride.filter(|_| slice.start > Micros::MIN).map(|stride| slice.next(stride));
        let end = run_end(ticks, row, before, |tick| micros(tick) < slice.end);
        before = end - row;
        // Slices are skipped through faster than a processor reads ahead.
        prefetch(ticks.as_ptr().wrapping_add(end + SLICES_AHEAD * before).cast());
        if let Some(id) = slice_in_time(window, &slice) {
            if !is_in_time(window, id, micros(ticks[row]), stamp.watermark_before) {
                return false;
            }
            slices.push(SliceRows::all(id, row..end));
        }
        row = end;
    }
    true
}

/// One past the last row from `row` on that is in the slice, as `row` is. Rows at a steady rate are `before`, as many as in the slice before. Else the search begins
/// near `row`: to look at the middle of a long block for each of its slices would bring all of it into the cache, line by line.
fn run_end(ticks: &[i64], row: usize, before: usize, is_in: impl Fn(i64) -> bool) -> usize {
    let likely = row + before;
    if before > 0 && likely < ticks.len() && is_in(ticks[likely - 1]) && !is_in(ticks[likely]) {
        return likely;
    }
    let (mut first, mut step) = (row + 1, 16);
    while first + step < ticks.len() && is_in(ticks[first + step]) {
        first += step;
        step *= 2;
    }
    first + ticks[first..ticks.len().min(first + step + 1)].partition_point(|&tick| is_in(tick))
}

/// The slices of a block whose rows come in whatever order, few slices in all, and each before any of its windows has closed: whoever adds the rows tells
/// them apart by their times, many at once. The block is cut behind a row that moves the watermark so far that a window closes. `None` where
/// a row may be late, or slices are many.
fn slices_by_time(block: &Block, window: &Window) -> Option<Vec<SliceRows>> {
    let (time, mut range) = (block.time_column()?, block.time_range()?);
    let (ticks, shift, delay) = (block.raw_ticks()?, block.time_shift_ticks(), block.stamp.watermark_delay);
    let micros = |tick: i64| (tick + shift) * time.micros_per_tick;
    // The first raw tick that is not before a time.
    let tick = |micros: Micros| {
        let (tick, rest) = (micros.div_euclid(time.micros_per_tick), micros.rem_euclid(time.micros_per_tick));
        tick.saturating_add(i64::from(rest > 0)).saturating_sub(shift)
    };
    let (mut slices, mut first, mut watermark) = (Vec::new(), 0, block.stamp.watermark_before);
    for _ in 0..PIECES_BY_TIME_MAX {
        let found = slices_of_range(window, range)?;
        let closing = match (window, found.first()) {
            (Window::Session { .. }, _) => range.min.saturating_add(1),
            (_, Some((id, _))) => id.first_end,
            (_, None) => Micros::MAX,
        };
        if closing <= watermark {
            return None;
        }
        let mut end = ticks.len();
        if range.max.saturating_sub(delay) >= closing {
            let closes = tick(closing.saturating_add(delay));
            end = first + ticks[first..].iter().position(|&tick| tick >= closes).map_or(end - first, |row| row + 1);
        }
        slices.extend(found.into_iter().map(|(slice, times)| {
            let belonging = tick(times.start)..=tick(times.end).saturating_sub(1);
            SliceRows { slice, rows: first..end, belong: Belong::Ticks(belonging) }
        }));
        if end == ticks.len() {
            return Some(slices);
        }
        watermark = micros(ticks[end - 1]).saturating_sub(delay);
        let bounds = |(min, max): (i64, i64), &tick: &i64| (min.min(tick), max.max(tick));
        let (min, max) = ticks[end..].iter().fold((i64::MAX, i64::MIN), bounds);
        (first, range) = (end, TimeRange { min: micros(min), max: micros(max) });
    }
    None
}

/// The slices of rows of these times that come in time, with the times of each; `None` where they are many.
fn slices_of_range(window: &Window, range: TimeRange) -> Option<Vec<(SliceId, Range<Micros>)>> {
    let (mut slices, mut start) = (Vec::new(), range.min);
    for _ in 0..SLICES_BY_TIME_MAX {
        let slice = window.slice(start);
        slices.extend(slice_in_time(window, &slice).map(|id| (id, slice.start..slice.end)));
        if range.max < slice.end {
            return Some(slices);
        }
        start = slice.end;
    }
    None
}

fn runs(block: &Block, window: &Window, lateness: Micros) -> Runs {
    let time = block.time_column().expect("a block with a time range has a time column");
    let ticks = block.raw_ticks().expect("it has a time column");
    let shift = block.time_shift_ticks();
    let delay = block.stamp.watermark_delay;
    let mut watermark = block.stamp.watermark_before;
    let mut finder = Finder::new(window, lateness);
    let mut runs: Vec<(usize, Range<usize>)> = Vec::new();
    let mut late = LateList::default();
    for (row, tick) in ticks.iter().enumerate() {
        let micros = (tick + shift) * time.micros_per_tick;
        match finder.find(micros, watermark) {
            Assigned::Slice(index) => match runs.last_mut() {
                Some((last, rows)) if *last == index && rows.end == row => rows.end = row + 1,
                _ => runs.push((index, row..row + 1)),
            },
            Assigned::Late => late.push(row, watermark),
            Assigned::Nowhere => {}
        }
        watermark = watermark.max(micros.saturating_sub(delay));
    }
    Runs { slices: finder.slices, runs, late }
}

impl Finder<'_> {
    fn new(window: &Window, lateness: Micros) -> Finder<'_> {
        // Empty slices to begin with.
        let none = Recent { slice: Slice { start: Micros::MAX, end: Micros::MIN, covered: None }, in_time: None };
        let recent = [none; RECENT_SLICES];
        Finder { window, lateness, slices: Vec::new(), indices: BTreeMap::new(), recent, replaced: 0 }
    }

    /// As [`place`], with the index of the slice.
    fn find(&mut self, time: Micros, watermark: Micros) -> Assigned<usize> {
        let holds = |recent: &Recent| recent.slice.start <= time && time < recent.slice.end;
        let at = self.recent.iter().position(holds).unwrap_or_else(|| {
            self.replaced = (self.replaced + 1) % RECENT_SLICES;
            self.recent[self.replaced] = Recent { slice: self.window.slice(time), in_time: None };
            self.replaced
        });
        let Recent { slice, in_time } = self.recent[at];
        if let Some((id, index)) = in_time
            && is_in_time(self.window, id, time, watermark)
        {
            return Assigned::Slice(index);
        }
        match place(self.window, self.lateness, &slice, time, watermark) {
            Assigned::Slice(id) => {
                let slices = &mut self.slices;
                let index = *self.indices.entry(id).or_insert_with(|| {
                    slices.push(id);
                    slices.len() - 1
                });
                if slice_in_time(self.window, &slice) == Some(id) {
                    self.recent[at].in_time = Some((id, index));
                }
                Assigned::Slice(index)
            }
            Assigned::Late => Assigned::Late,
            Assigned::Nowhere => Assigned::Nowhere,
        }
    }
}

impl Runs {
    /// Whether many short runs belong to few slices.
    fn are_scattered(&self) -> bool {
        let rows: usize = self.runs.iter().map(|(_, rows)| rows.len()).sum();
        self.runs.len() >= 2
            && rows / self.runs.len() < RUN_ROWS_MIN
            && self.runs.len() / self.slices.len() >= RUNS_PER_SLICE_MIN
    }

    fn into_ranges(self) -> Vec<SliceRows> {
        let Runs { slices, runs, .. } = self;
        runs.into_iter().map(|(index, rows)| SliceRows::all(slices[index], rows)).collect()
    }

    fn into_masks(self, block_rows: usize) -> Vec<SliceRows> {
        let masked = |&slice: &SliceId| (slice, 0..0, vec![0; block_rows.div_ceil(64)]);
        let mut slices: Vec<(SliceId, Range<usize>, Vec<u64>)> = self.slices.iter().map(masked).collect();
        for (index, rows) in self.runs {
            let (_, span, mask) = &mut slices[index];
            *span = if span.end == 0 { rows.clone() } else { span.start..rows.end };
            for row in rows {
                mask[row / 64] |= 1 << (row % 64);
            }
        }
        slices.sort_unstable_by_key(|(slice, ..)| *slice);
        let masked = |(slice, rows, mask)| SliceRows { slice, rows, belong: Belong::Mask(mask) };
        slices.into_iter().map(masked).collect()
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

    fn rows_of(assignment: &Assignment, block: &Block) -> Vec<(SliceId, usize)> {
        let mut rows: Vec<(SliceId, usize)> = Vec::new();
        for slice in &assignment.slices {
            let mut mask = Vec::new();
            let input = slice.input(block, &mut mask);
            let wanted = |row: &usize| input.mask.is_none_or(|mask| mask[row / 64] >> (row % 64) & 1 == 1);
            rows.extend(slice.rows.clone().filter(wanted).map(|row| (slice.slice, row)));
        }
        rows.sort_by_key(|&(_, row)| row);
        rows
    }

    /// The rows of each slice, and how many are late.
    fn assigned(block: &Block, window: &Window, lateness: Micros) -> (Vec<(SliceId, usize)>, u64) {
        let assignment = assign(block, window, lateness, Vec::new());
        (rows_of(&assignment, block), assignment.late.count)
    }

    fn slice(start: Micros, first_end: Micros) -> SliceId {
        SliceId::new(first_end, start)
    }

    const TUMBLING: Window = Window::Tumbling { size: 10, offset: 0 };

    #[test]
    fn a_run_ends_where_a_search_of_the_whole_block_says() {
        for length in 0..200_i64 {
            let ticks: Vec<i64> = (0..length).map(|row| row / 3 + row * row / 500).collect();
            for end in 0..ticks.last().map_or(0, |last| last + 2) {
                let expected = ticks.partition_point(|&tick| tick < end);
                for row in 0..expected {
                    for before in [0, 1, expected - row - 1, expected - row, expected - row + 1] {
                        let found = run_end(&ticks, row, before, |tick| tick < end);
                        assert_eq!(found, expected, "{length} {end} {row} {before}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_block_inside_one_slice_is_one_range() {
        let assignment = assign(&block(&[10, 19, 12], WATERMARK_MIN, 0), &TUMBLING, 0, Vec::new());
        assert_eq!(assignment.slices, [SliceRows::all(slice(10, 20), 0..3)]);
    }

    #[test]
    fn a_row_behind_its_own_blocks_watermark_is_late() {
        let late_in_it = block(&[9, 25, 8, 21], WATERMARK_MIN, 5);
        let assignment = assign(&late_in_it, &TUMBLING, 0, Vec::new());
        assert_eq!(rows_of(&assignment, &late_in_it), [(slice(0, 10), 0), (slice(20, 30), 1), (slice(20, 30), 3)]);
        assert_eq!(assignment.late.count, 1);
        let (rows, each) = assignment.late.take(&late_in_it, 0, Some(&TUMBLING)).unwrap().rows;
        assert_eq!((rows.num_rows(), each[0].time, each[0].window_end, each[0].watermark), (1, 8, Some(10), 20));
    }

    #[test]
    fn rows_in_order_are_late_only_behind_the_blocks_before() {
        let late_rows = |times: &[i64], watermark, delay| {
            late(&block(times, watermark, delay)).map_or(Vec::new(), |late| {
                (0..times.len()).filter(|row| late.others[row / 64] >> (row % 64) & 1 == 0).collect::<Vec<_>>()
            })
        };
        assert_eq!(late_rows(&[10, 10, 19, 25], WATERMARK_MIN, 0), [0_usize; 0]);
        assert_eq!(late_rows(&[10, 10, 19, 25], 10, 0), [0_usize; 0]);
        assert_eq!(late_rows(&[10, 10, 19, 25], 11, 0), [0, 1]);
        assert_eq!(late_rows(&[10, 19, 10, 25], WATERMARK_MIN, 0), [2]);
        // A watermark that is ahead of its row.
        assert_eq!(late_rows(&[10, 11, 25], WATERMARK_MIN, -5), [1]);
    }

    #[test]
    fn a_row_counts_in_those_of_its_windows_that_are_open() {
        let hopping = Window::Hopping { size: 30, slide: 10, offset: 0 };
        let expected = [(slice(0, 10), 0), (slice(20, 30), 1), (slice(0, 30), 2), (slice(40, 50), 3)];
        assert_eq!(assigned(&block(&[5, 21, 6, 45, 7], WATERMARK_MIN, 0), &hopping, 0), (expected.to_vec(), 1));
    }

    #[test]
    fn buckets_are_the_windows_of_a_row() {
        let hopping = Window::Hopping { size: 30, slide: 10, offset: 0 };
        let rows = block(&[5, 21, 6], WATERMARK_MIN, 0);
        let assignment = assign(&rows, &hopping, 0, Vec::new()).into_buckets(&hopping);
        let expected = [(-20, 10, 0), (-10, 20, 0), (0, 30, 0), (0, 30, 1), (10, 40, 1), (20, 50, 1), (0, 30, 2)];
        assert_eq!(rows_of(&assignment, &rows), expected.map(|(start, end, row)| (slice(start, end), row)));
    }

    #[test]
    fn a_row_between_windows_is_not_late() {
        let gaps = Window::Hopping { size: 3, slide: 10, offset: 0 };
        let found = assigned(&block(&[2, 3, 9, 12, 5], WATERMARK_MIN, 0), &gaps, 0);
        assert_eq!(found, (vec![(slice(0, 3), 0), (slice(10, 13), 3)], 0));
    }

    #[test]
    fn a_row_within_the_lateness_corrects_its_windows() {
        let found = assigned(&block(&[5, 21, 6, 45, 7, 28], WATERMARK_MIN, 0), &TUMBLING, 25);
        let correcting = |start: Micros, watermark: Micros| SliceId { first_end: watermark + 1, start, corrects: true };
        let expected = [
            (slice(0, 10), 0),
            (slice(20, 30), 1),
            (correcting(0, 21), 2),
            (slice(40, 50), 3),
            (correcting(20, 45), 5),
        ];
        assert_eq!(found, (expected.to_vec(), 1));
        let hopping = Window::Hopping { size: 30, slide: 10, offset: 0 };
        // Of the windows that end at 10, 20 and 30 the first is final, the second is corrected, and the third has not ended.
        let found = assigned(&block(&[22, 7], WATERMARK_MIN, 0), &hopping, 5);
        assert_eq!(found.0, [(slice(20, 30), 0), (correcting(0, 22), 1)]);
        let found = assigned(&block(&[26, 7], WATERMARK_MIN, 0), &hopping, 5);
        assert_eq!(found.0, [(slice(20, 30), 0), (slice(0, 30), 1)]);
    }

    #[test]
    fn sessions_take_rows_behind_the_watermark_apart() {
        let sessions = Window::Session { gap: 10 };
        let found = assigned(&block(&[3, 12, 14, 12, 14, 5], WATERMARK_MIN, 0), &sessions, 0);
        let in_time = [(slice(0, 0), 0), (slice(10, 10), 1), (slice(10, 10), 2), (slice(10, 10), 4)];
        let behind = [(slice(10, 14), 3), (slice(0, 14), 5)];
        let mut expected = [in_time.as_slice(), &behind].concat();
        expected.sort_by_key(|&(_, row)| row);
        assert_eq!(found, (expected, 0));
        let disorder_within_the_delay = assign(&block(&[11, 19, 15], 5, 8), &sessions, 0, Vec::new());
        assert_eq!(disorder_within_the_delay.slices, [SliceRows::all(slice(10, 10), 0..3)]);
    }

    fn any_window() -> impl Strategy<Value = Window> {
        (0..3, 1i64..60, 1i64..20, -70i64..70).prop_map(|(kind, size, short, offset)| match kind {
            0 => Window::Tumbling { size, offset },
            1 => Window::Hopping { size, slide: short, offset },
            _ => Window::Cumulative { size: short * (size % 5 + 1), step: short, offset },
        })
    }

    proptest! {
        #[test]
        fn where_blocks_begin_makes_no_difference(
            mut times in prop::collection::vec(-500i64..500, 1..300),
            window in any_window(), delay in -20i64..80, cut in 1usize..80, are_sorted in any::<bool>(),
            drift in prop::option::of((1i64..100, 0i64..3)),
        ) {
            if let Some((spread, pace)) = drift {
                // As streams are: about in order.
                times.iter_mut().zip(0..).for_each(|(time, row)| *time = *time % spread + row * pace);
            }
            if are_sorted {
                times.sort_unstable();
            }
            let mut expected = Vec::new();
            let (mut late, mut watermark) = (0, WATERMARK_MIN);
            for (row, &time) in times.iter().enumerate() {
                let slice = window.slice(time);
                if let Some(covered) = slice.covered {
                    if covered.last_end <= watermark {
                        late += 1;
                    } else {
                        let is_whole = covered.first_end > watermark;
                        let first_end = if is_whole { covered.first_end } else { window.next_end(watermark) };
                        expected.push((SliceId::new(first_end, slice.start), row));
                    }
                }
                watermark = watermark.max(time - delay);
            }
            let (mut found, mut found_late, mut before, mut begin) = (Vec::new(), 0, WATERMARK_MIN, 0);
            for piece in times.chunks(cut) {
                let (rows, late) = assigned(&block(piece, before, delay), &window, 0);
                found.extend(rows.into_iter().map(|(slice, row)| (slice, row + begin)));
                found_late += late;
                before = before.max(piece.iter().max().unwrap() - delay);
                begin += piece.len();
            }
            prop_assert_eq!(found, expected);
            prop_assert_eq!(found_late, late);
        }
    }
}
