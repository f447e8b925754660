//! Joins of rows that are in the same window.
//!
//! Each side's rows wait in slices, which belong to the same windows as a whole. When a window ends, rows of one side become buckets, one for each slice,
//! and those of the other look for their matches in them: a window join's side is a bucket a slice (design, section 3, "Buckets"). A slice of several windows is made
//! a bucket once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use arrow::array::RecordBatch;
use pelton_data::Micros;
use pelton_data::batch_buffer::BatchBuffer;
use pelton_data::column::bytes_of;
use pelton_data::join::{JoinKind, JoinSide, JoinSpec, JoinTime, Side};
use pelton_data::time::WATERMARK_MIN;
use pelton_data::window::Window;

use super::early::Reported;
use super::pairs::{Residual, WindowBounds, unexpected};
use super::window_pairs::{Leaving, Pass, WindowPairs};
use crate::join::{Bucket, BucketBuild};
use crate::kernel::KernelError;
use crate::slice::SliceId;
use crate::snapshot::{Reader, Snapshot, SnapshotError, Writer};

/// Rows of both sides in windows that have not ended.
pub struct WindowJoin {
    spec: Arc<JoinSpec>,
    windows: [Window; 2],
    bounds: Window,
    sides: [BTreeMap<SliceId, SliceOfSide>; 2],
    /// Windows that end at or before this have been closed.
    closed_until: Micros,
    /// What has been reported of windows that have not ended, by their ends.
    pub(super) reported: BTreeMap<Micros, Reported>,
    /// Windows that end at or before this have been reported early, this time.
    pub(super) reported_until: Micros,
    rows: usize,
    bytes: usize,
}

/// The rows of one side in one slice.
enum SliceOfSide {
    /// They are still coming.
    Open(BatchBuffer),
    /// A window with all of them has ended.
    Closed(ClosedSlice),
}

/// Rows of a slice that gets no more.
#[derive(Clone)]
pub(super) struct ClosedSlice {
    pub batches: Arc<Vec<RecordBatch>>,
    /// Their index, once a window needed it.
    index: Option<Indexed>,
}

/// The rows of a slice by their keys.
#[derive(Clone)]
pub(super) struct Indexed {
    pub bucket: Arc<Bucket>,
    /// The most rows of one key.
    pub matches_max: usize,
}

impl WindowJoin {
    /// No rows yet.
    ///
    /// # Panics
    /// Where the join is not one of windows.
    pub fn new(spec: Arc<JoinSpec>) -> WindowJoin {
        let JoinTime::Windows { sides: windows, bounds } = spec.time else { panic!("the join is one of windows") };
        WindowJoin {
            spec,
            windows,
            bounds,
            sides: Default::default(),
            closed_until: WATERMARK_MIN,
            reported: BTreeMap::new(),
            reported_until: WATERMARK_MIN,
            rows: 0,
            bytes: 0,
        }
    }

    /// Adds rows of a slice. They count in windows that have not been closed; returns how many are late, for which there is none.
    pub fn add(&mut self, side: Side, slice: SliceId, rows: RecordBatch) -> usize {
        let window = &self.windows[side.port()];
        let last_end = window.slice(slice.start).covered.map_or(slice.first_end, |covered| covered.last_end);
        if rows.num_rows() == 0 || last_end <= self.closed_until {
            return rows.num_rows();
        }
        // A side that was idle may be behind what has been closed meanwhile.
        let first_end = match slice.first_end > self.closed_until {
            true => slice.first_end,
            false => window.next_end(self.closed_until),
        };
        let slices = &mut self.sides[side.port()];
        let slice =
            slices.entry(SliceId { first_end, ..slice }).or_insert_with(|| SliceOfSide::Open(BatchBuffer::default()));
        let SliceOfSide::Open(open) = slice else { unreachable!("a slice counts in no window before its first") };
        let before = open.bytes();
        self.rows += rows.num_rows();
        open.push(rows);
        self.bytes += open.bytes() - before;
        0
    }

    /// The end of the next window with rows that has not been closed.
    pub fn next_end(&self) -> Option<Micros> {
        // A slice whose first window has been closed counts in the next one, and no slice counts in an earlier one.
        let ends = self.sides.iter().zip(&self.windows).filter_map(|(slices, window)| {
            let (slice, _) = slices.first_key_value()?;
            Some(match slice.first_end > self.closed_until {
                true => slice.first_end,
                false => window.next_end(self.closed_until),
            })
        });
        ends.min()
    }

    /// Closes windows without rows.
    pub fn pass(&mut self, until: Micros) {
        self.closed_until = self.closed_until.max(until);
    }

    /// Closes the window that ends at `end`: takes its rows out, as far as no other window needs them.
    pub fn close(&mut self, end: Micros, residual: Option<&Residual>) -> WindowPairs {
        let kind = self.spec.kind;
        let reported = self.reported.remove(&end).unwrap_or_default();
        let rows = Side::BOTH.map(|side| self.rows_until(side, end));
        let probing: &[Side] = match kind {
            JoinKind::Left | JoinKind::Semi | JoinKind::Anti => &[Side::Left],
            JoinKind::Right => &[Side::Right],
            JoinKind::Full => &[Side::Left, Side::Right],
            JoinKind::Inner if rows[0] >= rows[1] => &[Side::Left],
            JoinKind::Inner => &[Side::Right],
        };
        let mut passes = VecDeque::new();
        for (number, &side) in probing.iter().enumerate() {
            let rows = self.closed(side, end);
            // In a second pass pairs have left.
            let leaving = Leaving {
                pairs: number == 0 && kind.has_pairs(),
                matched: kind == JoinKind::Semi,
                unmatched: kind.keeps_unmatched(side),
            };
            passes.push_back(reported.pass(side, &rows, self.closed(side.other(), end), leaving));
        }
        let bytes = self.forget(end);
        self.closed_until = end;
        for pass in &mut passes {
            let slices = &self.sides[pass.probing.other().port()];
            pass.others_are_needed = pass.slices.iter().any(|(slice, _)| slices.contains_key(slice));
        }
        self.pairs(end, residual, passes, bytes)
    }

    /// What is left to do for the window that ends at `end`.
    pub(super) fn pairs(
        &self,
        end: Micros,
        residual: Option<&Residual>,
        passes: VecDeque<Pass>,
        bytes: usize,
    ) -> WindowPairs {
        let (start, shown_end) = self.bounds.shown(self.bounds.start(end), end);
        let bounds = WindowBounds { start, end: shown_end, time: self.bounds.result_time(end) };
        WindowPairs { spec: self.spec.clone(), residual: residual.cloned(), bounds, passes, bytes }
    }

    /// Keeps the buckets of slices that other windows have as well.
    pub fn keep_buckets(&mut self, pairs: &WindowPairs) {
        for pass in pairs.passes.iter().filter(|pass| pass.others_are_needed) {
            let slices = &mut self.sides[pass.probing.other().port()];
            for (slice, built) in &pass.slices {
                if let Some(kept) = slices.get_mut(slice) {
                    self.bytes = (self.bytes + built.bytes()).saturating_sub(kept.bytes());
                    *kept = SliceOfSide::Closed(built.clone());
                }
            }
        }
    }

    fn rows_until(&self, side: Side, end: Micros) -> usize {
        let counts = self.in_window(side, end).into_iter().map(|slice| self.sides[side.port()][&slice].rows());
        counts.sum()
    }

    /// When the window begins that ends at `end`.
    pub(super) fn start_of(&self, end: Micros) -> Micros {
        self.bounds.start(end)
    }

    /// The slices of a side whose rows count in the window that ends at `end`.
    pub(super) fn in_window(&self, side: Side, end: Micros) -> Vec<SliceId> {
        let window = &self.windows[side.port()];
        let start = window.start(end);
        let slices = begun(&self.sides[side.port()], end);
        slices.filter(|slice| slice.start >= start && slice.start < end).collect()
    }

    /// The rows of these slices, which get no more.
    fn closed(&mut self, side: Side, end: Micros) -> Vec<(SliceId, ClosedSlice)> {
        let ids = self.in_window(side, end);
        let slices = &mut self.sides[side.port()];
        ids.into_iter().map(|id| (id, slices.get_mut(&id).expect("it is there").close().clone())).collect()
    }

    /// Forgets slices that no window after `end` has. Returns their bytes.
    fn forget(&mut self, end: Micros) -> usize {
        let (mut forgotten_rows, mut forgotten_bytes) = (0, 0);
        for (slices, window) in self.sides.iter_mut().zip(&self.windows) {
            let is_needed =
                |slice: &SliceId| window.slice(slice.start).covered.is_some_and(|covered| covered.last_end > end);
            let forgotten: Vec<SliceId> = begun(slices, end).filter(|slice| !is_needed(slice)).collect();
            for rows in forgotten.iter().filter_map(|slice| slices.remove(slice)) {
                forgotten_rows += rows.rows();
                forgotten_bytes += rows.bytes();
            }
        }
        self.rows -= forgotten_rows;
        self.bytes = self.bytes.saturating_sub(forgotten_bytes);
        forgotten_bytes
    }

    /// The ends of windows that have not been closed, and that a side has rows in.
    pub(super) fn open_ends(&self, side: Side) -> BTreeSet<Micros> {
        let window = &self.windows[side.port()];
        let mut ends = BTreeSet::new();
        for slice in self.sides[side.port()].keys() {
            let last = window.slice(slice.start).covered.map_or(slice.first_end, |covered| covered.last_end);
            let mut end = slice.first_end;
            while end <= last {
                ends.insert(end);
                end = window.next_end(end);
            }
        }
        ends.split_off(&self.closed_until.saturating_add(1))
    }

    /// The rows of these slices that have come so far.
    pub(super) fn so_far(&self, side: Side, end: Micros) -> Vec<(SliceId, ClosedSlice)> {
        let so_far = |slice| (slice, self.sides[side.port()][&slice].so_far());
        self.in_window(side, end).into_iter().map(so_far).collect()
    }

    /// Rows that wait.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of these.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The side and the first window of the slice that takes the most bytes, and how many these are.
    pub fn largest(&self) -> Option<(Side, Micros, usize)> {
        let slices = Side::BOTH.into_iter().flat_map(|side| {
            self.sides[side.port()].iter().map(move |(slice, rows)| (side, slice.first_end, rows.bytes()))
        });
        slices.max_by_key(|(_, _, bytes)| *bytes)
    }

    /// Slices that are open, of the side that has more.
    pub fn slices(&self) -> usize {
        self.sides.iter().map(BTreeMap::len).max().unwrap_or(0)
    }
}

/// Slices whose rows count in the window that ends at `end`, or in one before it. Many later ones may wait where the other side is behind: they are not looked at.
fn begun(slices: &BTreeMap<SliceId, SliceOfSide>, end: Micros) -> impl Iterator<Item = SliceId> {
    slices.keys().take_while(move |slice| slice.first_end <= end).copied()
}

impl SliceOfSide {
    fn batches(&self) -> &[RecordBatch] {
        match self {
            SliceOfSide::Open(open) => open.batches(),
            SliceOfSide::Closed(closed) => &closed.batches,
        }
    }

    fn rows(&self) -> usize {
        match self {
            SliceOfSide::Open(open) => open.rows(),
            SliceOfSide::Closed(closed) => closed.rows(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            SliceOfSide::Open(open) => open.bytes(),
            SliceOfSide::Closed(closed) => closed.bytes(),
        }
    }

    fn so_far(&self) -> ClosedSlice {
        match self {
            SliceOfSide::Open(open) => ClosedSlice::new(open.batches().to_vec()),
            SliceOfSide::Closed(closed) => closed.clone(),
        }
    }

    fn close(&mut self) -> &mut ClosedSlice {
        if let SliceOfSide::Open(open) = self {
            *self = SliceOfSide::Closed(ClosedSlice::new(std::mem::take(open).into_batches()));
        }
        match self {
            SliceOfSide::Closed(closed) => closed,
            SliceOfSide::Open(_) => unreachable!("it has been closed"),
        }
    }
}

impl ClosedSlice {
    pub fn new(batches: Vec<RecordBatch>) -> ClosedSlice {
        ClosedSlice { batches: Arc::new(batches), index: None }
    }

    pub fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    pub fn bytes(&self) -> usize {
        match &self.index {
            Some(index) => index.bucket.bytes(),
            None => self.batches.iter().map(bytes_of).sum(),
        }
    }

    /// The rows as a bucket, in place of the batches that they came in.
    ///
    /// # Errors
    /// Where Arrow cannot put rows together.
    pub fn build(&mut self, spec: &JoinSpec, side: Side) -> Result<Indexed, KernelError> {
        if let Some(built) = &self.index {
            return Ok(built.clone());
        }
        let JoinSide { schema, keys, .. } = &spec.sides[side.port()];
        let mut rows = BatchBuffer::default();
        self.batches.iter().for_each(|batch| rows.push(batch.clone()));
        let bucket = BucketBuild::new(schema.clone(), rows, keys, None).complete().map_err(unexpected)?;
        self.batches = Arc::new(vec![bucket.columns().clone()]);
        let index = Indexed { matches_max: bucket.matches_max(), bucket: Arc::new(bucket) };
        self.index = Some(index.clone());
        Ok(index)
    }
}

impl Snapshot for WindowJoin {
    fn description(&self) -> String {
        let types = |side: Side| {
            let fields = self.spec.sides[side.port()].schema.fields();
            fields.iter().map(|field| field.data_type().to_string()).collect::<Vec<_>>().join(", ")
        };
        format!("joined rows ({}) and ({}) in {:?}", types(Side::Left), types(Side::Right), self.windows)
    }

    fn write_to(&self, out: &mut Writer) -> Result<(), SnapshotError> {
        out.instant(self.closed_until);
        for side in Side::BOTH {
            let slices = &self.sides[side.port()];
            out.count(slices.len());
            for (slice, rows) in slices {
                slice.write_to(out);
                let batches = rows.batches();
                out.count(batches.len());
                let schema = &self.spec.sides[side.port()].schema;
                batches.iter().try_for_each(|batch| out.batch(batch, schema))?;
            }
        }
        out.count(self.reported.len());
        for (end, reported) in &self.reported {
            out.instant(*end);
            reported.write_to(out);
        }
        Ok(())
    }

    fn read_from(&mut self, input: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let closed_until = input.instant("up to where windows have been closed")?;
        for side in Side::BOTH {
            for _ in 0..input.count(1, "slices of joined rows")? {
                let slice = SliceId::read_from(&self.windows[side.port()], input)?;
                let is_new = !self.sides[side.port()].contains_key(&slice);
                input.check(is_new, "each slice once")?;
                for _ in 0..input.count(1, "batches of a slice")? {
                    let rows = input.batch(&self.spec.sides[side.port()].schema, "joined rows")?;
                    self.add(side, slice, rows);
                }
            }
        }
        for _ in 0..input.count(1, "windows that were reported early")? {
            let end = input.instant("the end of a window")?;
            let reported = Reported::read_from(&self.windows, input)?;
            input.check(end > closed_until && !self.reported.contains_key(&end), "each open window once")?;
            self.reported.insert(end, reported);
        }
        self.closed_until = closed_until;
        Ok(())
    }
}
