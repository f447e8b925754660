//! Top-N: the first rows of each window and key.
//!
//! Rows are kept as bytes that compare as the rows do (arrow's row format): first the columns of the order, then all others, which tell
//! apart what the order does not. So which rows are kept depends neither on the order in which they come nor on who brings them, and a
//! row that is not among the first of its slice is not among those of any window. Workers choose the first rows of a block by themselves
//! ([`Ranker`]); these go into the slice that all share ([`RankedWindows`]).

use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::Arc;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::{SortOptions, take};
use arrow::error::ArrowError;
use arrow::row::{RowConverter, Rows, SortField};
use pelton_data::Micros;
use pelton_data::arrangement::OrderKey;
use pelton_data::ranking::Ranking;
use pelton_data::window::{ResultKind, Window};

use crate::kernel::KernelError;
use crate::slice::SliceId;
use crate::waiting::Leaving;
use crate::window::{CloseLimits, ClosedWindow, Contents};

/// What a kept row takes beside its bytes, about: where they are, and what the allocator needs.
const ENTRY_BYTES: usize = 32;

/// Chooses the first rows.
#[derive(Debug)]
pub struct Ranker {
    ranking: Ranking,
    /// The columns by which rows of one key are told apart; those of the order come first.
    sorted: Vec<usize>,
    keys: RowConverter,
    /// The columns of the order alone: the bytes that a whole row begins with.
    order: RowConverter,
    rows: RowConverter,
}

/// The rows of a batch that may be among the first.
#[derive(Debug)]
pub struct Candidates {
    /// None where all rows are of one key.
    keys: Option<Rows>,
    /// For each candidate its row in `keys`.
    places: Vec<u32>,
    rows: Rows,
}

/// The first rows of windows that have ended.
#[derive(Debug, Clone, Copy)]
pub struct ClosedRows<'a> {
    /// Rows of the ranking's schema: key by key, and by rank.
    pub rows: &'a RecordBatch,
    /// Their ranks.
    pub ranks: &'a [i64],
    /// Which window they are of.
    pub window: ClosedWindow,
}

/// The first rows of the open windows.
#[derive(Debug)]
pub struct RankedWindows {
    window: Window,
    ranker: Arc<Ranker>,
    slices: BTreeMap<SliceId, RankedSlice>,
}

/// The first rows of one slice.
#[derive(Debug)]
struct RankedSlice {
    /// End of the next window that needs them.
    next_end: Micros,
    /// End of the last window that does.
    last_end: Micros,
    /// By key. The last row is on top.
    keys: HashMap<Box<[u8]>, BinaryHeap<Box<[u8]>>>,
    bytes: usize,
}

impl Ranker {
    /// Chooses rows by `ranking`.
    ///
    /// # Panics
    /// Where a column's values have no order: planning refuses it.
    pub fn new(ranking: Ranking) -> Ranker {
        let field = |key: &OrderKey| {
            let options = SortOptions { descending: key.descending, nulls_first: key.nulls_first };
            SortField::new_with_options(ranking.schema.field(key.column).data_type().clone(), options)
        };
        let converter =
            |fields: Vec<SortField>| RowConverter::new(fields).expect("planning lets only types in that have an order");
        let sorted = ranking.sorted();
        let key = |&column: &usize| SortField::new(ranking.schema.field(column).data_type().clone());
        Ranker {
            keys: converter(ranking.keys.iter().map(key).collect()),
            order: converter(ranking.order.iter().map(field).collect()),
            rows: converter(sorted.iter().map(field).collect()),
            sorted: sorted.into_iter().map(|key| key.column).collect(),
            ranking,
        }
    }

    /// The rows of a batch that may be among the first.
    ///
    /// # Errors
    /// Where arrow cannot encode them.
    pub fn choose(&self, batch: &RecordBatch) -> Result<Candidates, KernelError> {
        self.candidates(batch).map_err(state_error)
    }

    fn candidates(&self, batch: &RecordBatch) -> Result<Candidates, ArrowError> {
        let columns =
            |indices: &[usize]| indices.iter().map(|&column| batch.column(column).clone()).collect::<Vec<_>>();
        let encoded = |converter: &RowConverter, indices: &[usize]| match indices {
            [] => Ok(None),
            indices => converter.convert_columns(&columns(indices)).map(Some),
        };
        let keys = encoded(&self.keys, &self.ranking.keys)?;
        let order = encoded(&self.order, &self.sorted[..self.ranking.order.len()])?;
        let all: Vec<u32> = (0..batch.num_rows() as u32).collect();
        let places = match &order {
            None => all.clone(),
            Some(order) => first_of_keys(all.clone(), keys.as_ref(), order, self.rows_max()),
        };
        let mut sorted = columns(&self.sorted);
        if places.len() < all.len() {
            let taken = UInt32Array::from(places.clone());
            sorted = sorted.iter().map(|column| take(column, &taken, None)).collect::<Result<_, _>>()?;
        }
        // Where none goes, all are where they were.
        let places = if places.len() < all.len() { places } else { all };
        Ok(Candidates { keys, places, rows: self.rows.convert_columns(&sorted)? })
    }

    fn rows_max(&self) -> usize {
        usize::try_from(self.ranking.last).unwrap_or(usize::MAX)
    }

    /// Rows, each as the bytes of its key and its own, as columns.
    fn decoded(&self, rows: &[(&[u8], &[u8])]) -> Result<RecordBatch, ArrowError> {
        let (key_parser, parser) = (self.keys.parser(), self.rows.parser());
        let mut values = self.rows.convert_rows(rows.iter().map(|(_, row)| parser.parse(row)))?;
        if !self.ranking.keys.is_empty() {
            values.extend(self.keys.convert_rows(rows.iter().map(|(key, _)| key_parser.parse(key)))?);
        }
        let places: Vec<usize> = self.sorted.iter().chain(&self.ranking.keys).copied().collect();
        let place = |column: usize| places.iter().position(|&place| place == column).expect("a column is a key or not");
        let columns = (0..places.len()).map(|column| values[place(column)].clone());
        RecordBatch::try_new(self.ranking.schema.clone(), columns.collect())
    }
}

/// Those rows of each key that are among its first `rows_max`, and those that are equal in the order to the last of them.
fn first_of_keys(mut places: Vec<u32>, keys: Option<&Rows>, order: &Rows, rows_max: usize) -> Vec<u32> {
    let Some(keys) = keys else {
        let count = bring_to_front(&mut places, order, rows_max);
        places.truncate(count);
        return places;
    };
    let key = |place: u32| keys.row(place as usize);
    places.sort_unstable_by(|&a, &b| key(a).cmp(&key(b)));
    let mut first = Vec::with_capacity(places.len());
    for of_key in places.chunk_by_mut(|&a, &b| key(a) == key(b)) {
        let count = bring_to_front(of_key, order, rows_max);
        first.extend_from_slice(&of_key[..count]);
    }
    first
}

/// Brings those rows to the front that are among the first `rows_max`, and those that are equal in the order to the last of them. Returns
/// how many they are.
fn bring_to_front(places: &mut [u32], order: &Rows, rows_max: usize) -> usize {
    if places.len() <= rows_max || rows_max == 0 {
        return places.len().min(rows_max);
    }
    let row = |place: u32| order.row(place as usize);
    let (_, &mut last, _) = places.select_nth_unstable_by(rows_max - 1, |&a, &b| row(a).cmp(&row(b)));
    let mut count = rows_max;
    for place in rows_max..places.len() {
        if row(places[place]) == row(last) {
            places.swap(count, place);
            count += 1;
        }
    }
    count
}

impl RankedWindows {
    /// No rows yet.
    pub fn new(window: Window, ranker: Arc<Ranker>) -> RankedWindows {
        RankedWindows { window, ranker, slices: BTreeMap::new() }
    }

    /// Adds rows of a slice that were chosen by the same ranker.
    ///
    /// # Panics
    /// Where the slice is in no window.
    pub fn add(&mut self, id: SliceId, candidates: &Candidates) {
        let slice = self.slices.entry(id).or_insert_with(|| {
            let covered = self.window.slice(id.start).covered.expect("a slice with rows belongs to a window");
            RankedSlice { next_end: id.first_end, last_end: covered.last_end, keys: HashMap::new(), bytes: 0 }
        });
        let rows_max = self.ranker.rows_max();
        for (row, &place) in candidates.rows.iter().zip(&candidates.places) {
            let key = candidates.keys.as_ref().map_or(&[][..], |keys| keys.row(place as usize).data());
            slice.add(key, row.data(), rows_max);
        }
    }

    /// Closes windows that have rows and ended, in the order of their ends. Returns up to which end windows have been closed.
    ///
    /// # Errors
    /// Where rows cannot be decoded, or what `hand_on` returns.
    pub fn close<E: From<KernelError>>(
        &mut self,
        limits: CloseLimits,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<Micros, E> {
        let mut rows = 0;
        while let Some(end) = self.next_end().filter(|&end| end <= limits.until) {
            rows += self.read_out(end, limits.groups_at_once.max(1), hand_on)?;
            self.slices.retain(|_, slice| {
                if slice.next_end == end {
                    slice.next_end = self.window.next_end(end);
                }
                slice.next_end <= slice.last_end
            });
            if rows >= limits.groups_max {
                return Ok(end);
            }
        }
        Ok(limits.until)
    }

    /// Hands on the rows of the window that ends at `end`. Returns how many they are.
    fn read_out<E: From<KernelError>>(
        &self,
        end: Micros,
        rows_at_once: usize,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<usize, E> {
        let mut all: Vec<(&[u8], &[u8])> = Vec::new();
        for slice in self.slices.values().filter(|slice| slice.next_end == end) {
            all.extend(slice.keys.iter().flat_map(|(key, rows)| rows.iter().map(move |row| (&**key, &**row))));
        }
        all.sort_unstable();
        let Ranking { first, last, .. } = self.ranker.ranking;
        let (mut rows, mut ranks) = (Vec::new(), Vec::new());
        for of_key in all.chunk_by(|a, b| a.0 == b.0) {
            let ranked = (1..).zip(of_key).filter(|(rank, _)| (first..=last).contains(rank));
            ranked.for_each(|(rank, row)| {
                ranks.push(rank as i64);
                rows.push(*row);
            });
        }
        let start = self.window.start(end);
        for (rows, ranks) in rows.chunks(rows_at_once).zip(ranks.chunks(rows_at_once)) {
            let batch = self.ranker.decoded(rows).map_err(state_error)?;
            let window = ClosedWindow { start, end, groups: rows.len(), kind: ResultKind::Final };
            hand_on(Leaving::Now(Contents::Rows(ClosedRows { rows: &batch, ranks, window })))?;
        }
        Ok(rows.len())
    }

    /// The end of the first window that has rows.
    pub fn next_end(&self) -> Option<Micros> {
        self.slices.values().map(|slice| slice.next_end).min()
    }

    /// Slices with rows of windows that are open.
    pub fn slices(&self) -> usize {
        self.slices.len()
    }

    /// Bytes of memory that their rows take.
    pub fn bytes(&self) -> usize {
        self.slices.values().map(|slice| slice.bytes).sum()
    }
}

impl RankedSlice {
    fn add(&mut self, key: &[u8], row: &[u8], rows_max: usize) {
        if rows_max == 0 {
            return;
        }
        let Some(rows) = self.keys.get_mut(key) else {
            self.bytes += ENTRY_BYTES * 2 + key.len() + row.len();
            self.keys.insert(key.into(), BinaryHeap::from([row.into()]));
            return;
        };
        if rows.len() < rows_max {
            self.bytes += ENTRY_BYTES + row.len();
            rows.push(row.into());
        } else if let Some(mut last) = rows.peek_mut().filter(|last| row < &***last) {
            self.bytes = self.bytes + row.len() - last.len();
            *last = row.into();
        }
    }
}

fn state_error(error: ArrowError) -> KernelError {
    KernelError::State(error.to_string())
}
