//! Which rows are among the first: of a block, of a batch of groups, and of rows that are kept.

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::{SortOptions, take};
use arrow::datatypes::FieldRef;
use arrow::error::ArrowError;
use arrow::row::{RowConverter, Rows, SortField};
use pelton_data::arrangement::OrderKey;
use pelton_data::ranking::{Numbering, Ranking};

use super::{KeyedRow, state_error};
use crate::kernel::KernelError;

/// Chooses the first rows.
#[derive(Debug)]
pub struct Ranker {
    pub(super) ranking: Ranking,
    /// The columns by which rows of one key are told apart; those of the order come first.
    sorted: Vec<usize>,
    keys: RowConverter,
    /// The columns of the order alone, without that of the arrival: the bytes that a whole row begins with.
    order: RowConverter,
    rows: RowConverter,
}

/// The rows of a batch that may be among the first.
#[derive(Debug)]
pub struct Candidates {
    /// None where all rows are of one key.
    pub(super) keys: Option<Rows>,
    /// For each candidate its row in `keys`.
    pub(super) places: Vec<u32>,
    pub(super) rows: Rows,
    /// For each candidate how many of its first bytes are those of the order, where rows that are equal in it have one number.
    pub(super) order_bytes: Option<Vec<u32>>,
}

impl Candidates {
    /// Bytes of memory held.
    pub(super) fn bytes(&self) -> usize {
        let keys = self.keys.as_ref().map_or(0, Rows::size);
        keys + self.rows.size() + self.places.capacity() * size_of::<u32>()
    }
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
            order: converter(ranking.order[..ranking.peer_columns()].iter().map(field).collect()),
            rows: converter(sorted.iter().map(field).collect()),
            sorted: sorted.into_iter().map(|key| key.column).collect(),
            ranking,
        }
    }

    /// The column that says how rows came, if any does, and whether that is known: whoever has the rows chosen writes it, as
    /// `pelton_data::aggregate::position` says.
    pub fn arrival(&self) -> Option<(FieldRef, bool)> {
        let field = |column: usize| self.ranking.schema.fields()[column].clone();
        self.ranking.arrival.map(|column| (field(column), self.ranking.knows_arrival))
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
        let order = encoded(&self.order, &self.sorted[..self.ranking.peer_columns()])?;
        let all: Vec<u32> = (0..batch.num_rows() as u32).collect();
        let places = match &order {
            Some(order) if self.ranking.numbering != Numbering::DenseRank => {
                first_of_keys(all.clone(), keys.as_ref(), order, self.rows_max())
            }
            _ => all.clone(),
        };
        let mut sorted = columns(&self.sorted);
        if places.len() < all.len() {
            let taken = UInt32Array::from(places.clone());
            sorted = sorted.iter().map(|column| take(column, &taken, None)).collect::<Result<_, _>>()?;
        }
        // Where none goes, all are where they were.
        let places = if places.len() < all.len() { places } else { all };
        let order_bytes = match self.ranking.numbering {
            Numbering::Rows => None,
            _ => Some(
                places
                    .iter()
                    .map(|&place| order.as_ref().map_or(0, |order| order.row(place as usize).data().len() as u32))
                    .collect(),
            ),
        };
        Ok(Candidates { keys, places, rows: self.rows.convert_columns(&sorted)?, order_bytes })
    }

    /// How many rows of a key are kept, of which these are all, in their order.
    pub(super) fn kept(&self, rows: &[Box<[u8]>]) -> usize {
        let rows: Vec<KeyedRow<'_>> = rows.iter().map(|row| (&[][..], &**row)).collect();
        let last = self.ranking.last;
        self.numbered(&rows).take_while(|(number, _)| *number <= last).count()
    }

    /// Whether a row's number is certainly too large, as RANK of a row that is neither among the `retained` rows of its key nor a peer of the last
    /// of them. DENSE_RANK counts values, of which there may be few.
    pub(super) fn is_behind(&self, row: &[u8], last: &[u8], retained: usize) -> bool {
        self.ranking.numbering == Numbering::Rank && retained >= self.rows_max() && order_of(row) > order_of(last)
    }

    pub(super) fn rows_max(&self) -> usize {
        usize::try_from(self.ranking.last).unwrap_or(usize::MAX)
    }

    /// Those rows of each group and key that leave, by rank: their places in the batch, and their ranks. The rows of a group, which has a number, stand side by
    /// side.
    ///
    /// # Errors
    /// Where arrow cannot encode them.
    pub fn rank(&self, batch: &RecordBatch, groups: &[u32]) -> Result<(Vec<u32>, Vec<i64>), KernelError> {
        let columns = |indices: &[usize]| -> Vec<ArrayRef> {
            indices.iter().map(|&column| batch.column(column).clone()).collect()
        };
        let keys = match self.ranking.keys.as_slice() {
            [] => None,
            keys => Some(self.keys.convert_columns(&columns(keys)).map_err(state_error)?),
        };
        let rows = self.rows.convert_columns(&columns(&self.sorted)).map_err(state_error)?;
        let of = |place: u32| (groups[place as usize], keys.as_ref().map(|keys| keys.row(place as usize)));
        let peer_columns = self.ranking.peer_columns();
        let order = match &self.sorted[..peer_columns] {
            [] => None,
            order => Some(self.order.convert_columns(&columns(order)).map_err(state_error)?),
        };
        let are_peers =
            |a: u32, b: u32| order.as_ref().is_none_or(|order| order.row(a as usize) == order.row(b as usize));
        let mut all: Vec<u32> = (0..batch.num_rows() as u32).collect();
        all.sort_unstable_by(|&a, &b| of(a).cmp(&of(b)).then_with(|| rows.row(a as usize).cmp(&rows.row(b as usize))));
        let (mut places, mut ranks) = (Vec::new(), Vec::new());
        for of_key in all.chunk_by(|&a, &b| of(a) == of(b)) {
            let numbers = numbers(self.ranking.numbering, of_key, |a, b| are_peers(*a, *b));
            for (rank, place) in self.leaving(numbers) {
                places.push(*place);
                ranks.push(rank);
            }
        }
        Ok((places, ranks))
    }

    /// Those rows of one key that leave, of all in their order, with their ranks.
    pub(super) fn ranked<'k>(&self, of_key: &[KeyedRow<'k>]) -> impl Iterator<Item = (i64, KeyedRow<'k>)> {
        self.leaving(self.numbered(of_key)).map(|(rank, row)| (rank, *row))
    }

    /// All rows of one key in their order, with their numbers.
    fn numbered<'r, 'k>(&self, of_key: &'r [KeyedRow<'k>]) -> impl Iterator<Item = (u64, &'r KeyedRow<'k>)> {
        numbers(self.ranking.numbering, of_key, |(_, a), (_, b)| order_of(a) == order_of(b))
    }

    /// Whether ranked rows are the same, whenever they came.
    pub(super) fn are_same(&self, some: &[(i64, KeyedRow<'_>)], others: &[(i64, KeyedRow<'_>)]) -> bool {
        let Some(arrival) = self.ranking.arrival.filter(|_| some != others) else { return some == others };
        let rows =
            |ranked: &[(i64, KeyedRow<'_>)]| self.decoded(&ranked.iter().map(|(_, row)| *row).collect::<Vec<_>>());
        let (Ok(left), Ok(right)) = (rows(some), rows(others)) else { return false };
        let mut columns = (0..left.num_columns()).filter(|column| *column != arrival);
        some.iter().map(|(rank, _)| rank).eq(others.iter().map(|(rank, _)| rank))
            && columns.all(|column| left.column(column) == right.column(column))
    }

    /// Those of numbered rows that leave.
    fn leaving<T>(&self, numbered: impl Iterator<Item = (u64, T)>) -> impl Iterator<Item = (i64, T)> {
        let (first, last) = (self.ranking.first, self.ranking.last);
        let kept = numbered.take_while(move |(number, _)| *number <= last);
        kept.skip_while(move |(number, _)| *number < first).map(|(number, row)| (number as i64, row))
    }

    /// The bytes of a kept row that arrow encoded.
    fn encoded<'r>(&self, row: &'r [u8]) -> &'r [u8] {
        match self.ranking.numbering {
            Numbering::Rows => row,
            _ => &row[..row.len() - ORDER_LENGTH_BYTES],
        }
    }

    /// Rows, each as the bytes of its key and its own, as columns.
    pub(super) fn decoded(&self, rows: &[KeyedRow<'_>]) -> Result<RecordBatch, ArrowError> {
        let (key_parser, parser) = (self.keys.parser(), self.rows.parser());
        let mut values = self.rows.convert_rows(rows.iter().map(|(_, row)| parser.parse(self.encoded(row))))?;
        if !self.ranking.keys.is_empty() {
            values.extend(self.keys.convert_rows(rows.iter().map(|(key, _)| key_parser.parse(key)))?);
        }
        let places: Vec<usize> = self.sorted.iter().chain(&self.ranking.keys).copied().collect();
        let place = |column: usize| places.iter().position(|&place| place == column).expect("a column is a key or not");
        let columns = (0..places.len()).map(|column| values[place(column)].clone());
        RecordBatch::try_new(self.ranking.schema.clone(), columns.collect())
    }
}

/// Rows of one key in their order, with their numbers.
fn numbers<T>(numbering: Numbering, rows: &[T], are_peers: impl Fn(&T, &T) -> bool) -> impl Iterator<Item = (u64, &T)> {
    let mut number = 0;
    (1_u64..).zip(rows).enumerate().map(move |(index, (row_number, row))| {
        let is_peer = numbering != Numbering::Rows && index > 0 && are_peers(&rows[index - 1], row);
        number = match numbering {
            _ if is_peer => number,
            Numbering::DenseRank => number + 1,
            Numbering::Rows | Numbering::Rank => row_number,
        };
        (number, row)
    })
}

/// Bytes behind a kept row that say how many of its first are those of the order, where rows that are equal in it have one number. They change
/// nothing about how rows compare: none is the beginning of another.
const ORDER_LENGTH_BYTES: usize = size_of::<u32>();

/// The bytes of the order of such a row.
fn order_of(row: &[u8]) -> &[u8] {
    let (row, length) =
        row.split_last_chunk::<ORDER_LENGTH_BYTES>().expect("the length of the order is behind the row");
    &row[..u32::from_be_bytes(*length) as usize]
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
