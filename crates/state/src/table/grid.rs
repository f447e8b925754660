//! Groups by several integers that lie close together, known by them: a place for each combination of their values says which entry is
//! theirs.
//!
//! Entries are those of the table, found by hash where a place does not know one yet. So nothing moves when a place is wanted that the
//! grid does not have: it is made anew, wider, and forgets what it knew.

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};

use super::pack::KeyRows;
use super::probing::ABSENT;
use crate::layout::{DenseKeys, PackedColumn};
use crate::vector::vectorised;

/// Places of a grid, which are four bytes each.
const PLACES_MAX: u64 = 1 << 20;

/// Places for each row that the table has had.
const PLACES_PER_ROW: u64 = 8;

/// Where keys go on, there is room for as much as this part of them: half, or where that is too much, a little.
const ROOM_PARTS: [u64; 2] = [2, 64];

/// Rows before a table whose keys did not suit is looked at again, at first and at last.
const PATIENCE_ROWS_MIN: u64 = 512;
const PATIENCE_ROWS_MAX: u64 = 1 << 24;

#[derive(Debug, Default)]
pub(super) struct Grid {
    /// The values of each key column that have places; none where there is no grid.
    axes: Vec<Axis>,
    /// For each place the complement of its entry's number; zero where that is not known.
    known: Vec<u32>,
    /// Where entries are, by how often they have moved.
    moves: u64,
    /// Rows that were looked up, and how many there must be before values are looked at again.
    rows: u64,
    rows_wanted: u64,
    patience_rows: u64,
    /// How often a row had no place, and whether the table does without since then.
    outside: u64,
    has_ended: bool,
    /// Places of a batch.
    places: Vec<u32>,
}

/// Values of one key column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Axis {
    first: i64,
    last: i64,
}

impl Axis {
    fn length(self) -> u64 {
        (self.last.wrapping_sub(self.first) as u64).saturating_add(1)
    }

    /// With the values of another; where it grows, by a part of its length more.
    fn widened(self, other: Axis, part: u64) -> Axis {
        let all = Axis { first: self.first.min(other.first), last: self.last.max(other.last) };
        let room = (all.length() / part).min(PLACES_MAX) as i64;
        Axis {
            first: if all.first < self.first { all.first.saturating_sub(room) } else { all.first },
            last: if all.last > self.last { all.last.saturating_add(room) } else { all.last },
        }
    }
}

impl Grid {
    /// Whether keys of these columns could have places.
    pub(super) fn suits(columns: &[PackedColumn], dense_keys: DenseKeys) -> bool {
        dense_keys != DenseKeys::Never
            && columns.len() > 1
            && columns.iter().all(|column| has_places(&column.data_type))
    }

    /// Appends what is known of the entries of a batch's keys, else [`ABSENT`]; `false`, and nothing is appended, where they have no places.
    /// `table_rows` are those that the table has had, `moves` says where entries are.
    pub(super) fn append_known(
        &mut self,
        columns: &[ArrayRef],
        rows: &KeyRows<'_>,
        (table_rows, moves): (usize, u64),
        dense_keys: DenseKeys,
        entries: &mut Vec<u32>,
    ) -> bool {
        self.rows += rows.count() as u64;
        if self.axes.is_empty() && self.rows < self.rows_wanted || columns.iter().any(|column| column.null_count() > 0)
        {
            return false;
        }
        if self.axes.is_empty() || !self.place(columns, rows) {
            self.outside += u64::from(!self.axes.is_empty());
            let table_rows = (table_rows + rows.count()) as u64;
            let places_max = match dense_keys {
                DenseKeys::WherePossible => PLACES_MAX,
                DenseKeys::WhereClose => PLACES_MAX.min(table_rows.saturating_mul(PLACES_PER_ROW)),
                DenseKeys::Never => 0,
            };
            if !self.widen(columns, rows, places_max) {
                return false;
            }
            let is_placed = self.place(columns, rows);
            assert!(is_placed, "a grid is made for the rows that it is made from");
        }
        if self.moves != moves {
            self.known.fill(0);
            self.moves = moves;
        }
        entries.extend(self.places.iter().map(|&place| !self.known[place as usize]));
        true
    }

    /// Takes in the entry of a key of the last batch.
    pub(super) fn learn(&mut self, row: usize, entry: u32) {
        debug_assert_ne!(entry, ABSENT);
        self.known[self.places[row] as usize] = !entry;
    }

    /// Leaves the places of keys in `places`; `false` where one has none.
    fn place(&mut self, columns: &[ArrayRef], rows: &KeyRows<'_>) -> bool {
        self.places.clear();
        self.places.resize(rows.count(), 0);
        let mut step = 1_u64;
        for (column, axis) in columns.iter().zip(&self.axes) {
            let placing = Placing { places: &mut self.places, first: axis.first, step: step as u32 };
            if visit(column, rows, placing) >= axis.length() {
                return false;
            }
            step *= axis.length();
        }
        true
    }

    /// Makes the grid wide enough for some keys, with as many places at most. Otherwise there is none, and for a while no other is made.
    fn widen(&mut self, columns: &[ArrayRef], rows: &KeyRows<'_>, places_max: u64) -> bool {
        let found: Vec<Axis> = columns.iter().map(|column| extent(column, rows)).collect();
        let before = if self.axes.is_empty() { &found } else { &self.axes };
        // Not by one value at a time: places are made anew each time.
        let widened = |part| before.iter().zip(&found).map(|(axis, other)| axis.widened(*other, part)).collect();
        let axes = ROOM_PARTS.into_iter().map(widened).find(|axes: &Vec<Axis>| count(axes) <= places_max);
        self.known.clear();
        let Some(axes) = axes else {
            self.has_ended |= !self.axes.is_empty();
            self.axes.clear();
            self.known.shrink_to_fit();
            self.patience_rows = (self.patience_rows * 2).clamp(PATIENCE_ROWS_MIN, PATIENCE_ROWS_MAX);
            self.rows_wanted = self.rows + self.patience_rows;
            return false;
        };
        self.known = vec![0; count(&axes) as usize];
        self.axes = axes;
        self.has_ended = false;
        true
    }

    /// The table has forgotten all groups, which so many rows had. A grid that was worth it stays.
    pub(super) fn clear(&mut self, table_rows: usize) {
        self.has_ended = false;
        if self.known.len() as u64 > (table_rows as u64).saturating_mul(PLACES_PER_ROW) {
            (self.axes, self.known) = Default::default();
        } else if !self.axes.is_empty() {
            self.known.fill(0);
            self.patience_rows = PATIENCE_ROWS_MIN;
        }
    }

    /// How many combinations of values have places, if any; `Some(None)` where a grid did not hold.
    pub(super) fn places(&self) -> Option<Option<u64>> {
        match self.axes.as_slice() {
            [] => self.has_ended.then_some(None),
            axes => Some(Some(count(axes))),
        }
    }

    /// How often rows have had no place.
    pub(super) fn outside(&self) -> u64 {
        self.outside
    }

    pub(super) fn bytes(&self) -> usize {
        self.known.len() * 4
    }
}

fn count(axes: &[Axis]) -> u64 {
    axes.iter().fold(1, |places: u64, axis| places.saturating_mul(axis.length()))
}

/// Integers and dates: booleans are bits, and times go on.
fn has_places(data_type: &DataType) -> bool {
    use DataType::{Date32, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
    matches!(data_type, Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64 | Date32)
}

fn extent(column: &ArrayRef, rows: &KeyRows<'_>) -> Axis {
    visit(column, rows, Extent)
}

/// What is done with the values of a column.
trait Visit {
    type Result;
    fn values(self, values: impl ExactSizeIterator<Item = i64>) -> Self::Result;
}

/// Finds the least and the greatest.
struct Extent;

impl Visit for Extent {
    type Result = Axis;

    #[inline(always)]
    fn values(self, values: impl ExactSizeIterator<Item = i64>) -> Axis {
        values.fold(Axis { first: i64::MAX, last: i64::MIN }, |axis, value| Axis {
            first: axis.first.min(value),
            last: axis.last.max(value),
        })
    }
}

/// Adds how far each is from the first of its axis, so many places apart, to its row's place, and finds the greatest distance.
struct Placing<'a> {
    places: &'a mut [u32],
    first: i64,
    step: u32,
}

impl Visit for Placing<'_> {
    type Result = u64;

    #[inline(always)]
    fn values(self, values: impl ExactSizeIterator<Item = i64>) -> u64 {
        let Placing { places, first, step } = self;
        places.iter_mut().zip(values).fold(0, |greatest, (place, value)| {
            let distance = value.wrapping_sub(first) as u64;
            *place = place.wrapping_add((distance as u32).wrapping_mul(step));
            greatest.max(distance)
        })
    }
}

/// Visits the values of a column without NULLs, widened to 64 bits, unsigned ones by their bits.
fn visit<V: Visit>(column: &ArrayRef, rows: &KeyRows<'_>, visitor: V) -> V::Result {
    fn all<T: ArrowPrimitiveType, V: Visit>(
        column: &ArrayRef,
        rows: &KeyRows<'_>,
        wide: impl Fn(T::Native) -> i64,
        visitor: V,
    ) -> V::Result {
        let values = column.as_primitive::<T>().values();
        match rows {
            KeyRows::Range(range) => {
                let values = &values[range.clone()];
                vectorised(
                    #[inline(always)]
                    || visitor.values(values.iter().map(|&value| wide(value))),
                )
            }
            KeyRows::Listed(rows) => visitor.values(rows.iter().map(|&row| wide(values[row as usize]))),
        }
    }
    match column.data_type() {
        DataType::Int8 => all::<Int8Type, V>(column, rows, i64::from, visitor),
        DataType::Int16 => all::<Int16Type, V>(column, rows, i64::from, visitor),
        DataType::Int32 => all::<Int32Type, V>(column, rows, i64::from, visitor),
        DataType::Date32 => all::<Date32Type, V>(column, rows, i64::from, visitor),
        DataType::Int64 => all::<Int64Type, V>(column, rows, |value| value, visitor),
        DataType::UInt8 => all::<UInt8Type, V>(column, rows, i64::from, visitor),
        DataType::UInt16 => all::<UInt16Type, V>(column, rows, i64::from, visitor),
        DataType::UInt32 => all::<UInt32Type, V>(column, rows, i64::from, visitor),
        DataType::UInt64 => all::<UInt64Type, V>(column, rows, |value| value as i64, visitor),
        other => unreachable!("values of type {other} have no places"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int32Array, Int64Array};

    use super::*;

    fn columns(k: &[i64], l: &[i32]) -> Vec<ArrayRef> {
        vec![Arc::new(Int64Array::from(k.to_vec())), Arc::new(Int32Array::from(l.to_vec()))]
    }

    fn known(grid: &mut Grid, columns: &[ArrayRef], table_rows: usize, moves: u64) -> Option<Vec<u32>> {
        let mut entries = Vec::new();
        let rows = KeyRows::Range(0..columns[0].len());
        let found = grid.append_known(columns, &rows, (table_rows, moves), DenseKeys::WhereClose, &mut entries);
        found.then_some(entries)
    }

    #[test]
    fn entries_are_known_until_they_move_or_a_row_has_no_place() {
        let mut grid = Grid::default();
        let few = columns(&[-7, -5, -7], &[3, 4, 3]);
        assert_eq!(known(&mut grid, &few, 0, 1), Some(vec![ABSENT; 3]));
        grid.learn(0, 0);
        grid.learn(1, 64);
        assert_eq!(known(&mut grid, &few, 3, 1), Some(vec![0, 64, 0]));
        assert_eq!(grid.places(), Some(Some(6)));
        // Entries have moved.
        assert_eq!(known(&mut grid, &few, 6, 2), Some(vec![ABSENT; 3]));
        grid.learn(0, 8);
        // A row outside: the grid is made anew.
        assert_eq!(known(&mut grid, &columns(&[-7, 9], &[3, 3]), 9, 2), Some(vec![ABSENT; 2]));
        assert_eq!(grid.outside(), 1);
        assert_eq!(known(&mut grid, &columns(&[i64::MIN, i64::MAX], &[0, 1]), 11, 2), None);
        assert_eq!((grid.places(), grid.outside(), grid.bytes()), (Some(None), 2, 0));
        // It waits for some rows before it is tried again.
        assert_eq!(known(&mut grid, &few, 13, 2), None);
        let many = columns(&[1; 600], &[1; 600]);
        assert_eq!(known(&mut grid, &many, 16, 2), Some(vec![ABSENT; 600]));
    }

    #[test]
    fn a_grid_that_few_rows_used_does_not_stay() {
        let mut grid = Grid::default();
        assert!(known(&mut grid, &columns(&[0, 9], &[0, 9]), 1000, 1).is_some());
        grid.clear(1000);
        assert_eq!(grid.places(), Some(Some(100)));
        grid.clear(2);
        assert_eq!(grid.places(), None);
    }
}
