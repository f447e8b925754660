//! What aggregate functions that a program defines keep of groups: their states, or rows where states of parts cannot be combined.

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array, UInt64Array};
use arrow::compute::{interleave, take};
use arrow::datatypes::{DataType, UInt64Type};
use pelton_data::udaf::{Change, Merging, States, UdafHandle};

use crate::snapshot::{Reader, SnapshotError, Writer};

/// What a function keeps of the groups of a table.
#[derive(Debug)]
pub(super) struct UdafStore {
    function: UdafHandle,
    kept: Retained,
    /// What the function's own code returned as its first error: the query ends with it when a window is read.
    error: Option<String>,
}

#[derive(Debug)]
enum Retained {
    States(Box<dyn States>),
    Rows { groups: usize, rows: GroupedRows },
}

/// Rows as they came, and which of them belong to a group.
#[derive(Debug, Default)]
struct GroupedRows {
    pieces: Vec<Piece>,
    /// How many rows are in the pieces before each.
    starts: Vec<usize>,
    /// The last row of each group, counted through all pieces, or [`NO_ROW`].
    last: Vec<u32>,
    /// For each row the one before it that belongs to its group, or [`NO_ROW`].
    previous: Vec<u32>,
}

const NO_ROW: u32 = u32::MAX;

/// Rows as they came.
#[derive(Debug)]
struct Piece {
    /// The group of each.
    numbers: Vec<u32>,
    /// The position of each.
    positions: ArrayRef,
    /// Their arguments.
    rows: ArrayRef,
}

impl UdafStore {
    pub(super) fn new(function: &UdafHandle) -> UdafStore {
        let kept = match function.0.merging() {
            Merging::Rows => Retained::Rows { groups: 0, rows: GroupedRows::default() },
            Merging::Combine | Merging::Invert => Retained::States(function.0.states()),
        };
        UdafStore { function: function.clone(), kept, error: None }
    }

    pub(super) fn groups(&self) -> usize {
        match &self.kept {
            Retained::States(states) => states.groups(),
            Retained::Rows { groups, .. } => *groups,
        }
    }

    pub(super) fn grow_to(&mut self, wanted: usize) {
        match &mut self.kept {
            Retained::States(states) => states.grow_to(wanted),
            Retained::Rows { groups, .. } => *groups = wanted.max(*groups),
        }
    }

    pub(super) fn clear(&mut self) {
        self.error = None;
        match &mut self.kept {
            Retained::States(states) => states.clear(),
            Retained::Rows { groups, rows } => {
                *groups = 0;
                rows.clear();
            }
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match &self.kept {
            Retained::States(states) => states.bytes(),
            Retained::Rows { rows, .. } => rows.bytes(),
        }
    }

    /// Lets the rows at some places reach the groups that stand beside these; `position` is that of the row at a place.
    pub(super) fn update(
        &mut self,
        numbered: impl Iterator<Item = (usize, u32)>,
        rows: &ArrayRef,
        position: impl Fn(usize) -> u64,
    ) {
        let mut order: Vec<(u32, u32)> = numbered.map(|(at, number)| (number, at as u32)).collect();
        match &mut self.kept {
            Retained::Rows { rows: kept, .. } => {
                let places: UInt32Array = order.iter().map(|(_, at)| *at).collect::<Vec<_>>().into();
                let positions: Vec<u64> = order.iter().map(|(_, at)| position(*at as usize)).collect();
                let rows = take(rows, &places, None).expect("places are those of the rows");
                let numbers = order.into_iter().map(|(number, _)| number).collect();
                kept.push(Piece { numbers, positions: std::sync::Arc::new(UInt64Array::from(positions)), rows });
            }
            Retained::States(states) => {
                // Rows of a group stay in their order.
                order.sort_by_key(|(number, _)| *number);
                let result = accumulate(states.as_mut(), &order, rows);
                note(&mut self.error, &self.function, result);
            }
        }
    }

    /// Adds what another store keeps, or takes it away again: of each pair, what it has of the first to what this one has of the second.
    pub(super) fn merge(&mut self, other: &UdafStore, pairs: &[(u32, u32)], change: Change) {
        if self.error.is_none() {
            self.error.clone_from(&other.error);
        }
        match (&mut self.kept, &other.kept) {
            (Retained::States(mine), Retained::States(theirs)) => {
                let result = mine.merge(theirs.as_ref(), pairs, change);
                note(&mut self.error, &self.function, result);
            }
            (Retained::Rows { rows, .. }, Retained::Rows { groups, rows: theirs }) => {
                assert!(change == Change::Add, "rows are not taken away");
                let mut to = vec![None; *groups];
                pairs.iter().for_each(|&(from, mine)| to[from as usize] = Some(mine));
                theirs.pieces.iter().filter_map(|piece| piece.renumbered(&to)).for_each(|piece| rows.push(piece));
            }
            _ => unreachable!("stores of one function keep the same"),
        }
    }

    /// Writes what is kept of some groups, those of them that have a number.
    pub(super) fn write_to(&self, numbers: &[Option<u32>], out: &mut Writer) -> Result<(), SnapshotError> {
        out.column(&numbers.iter().map(|number| u8::from(number.is_some())).collect::<Vec<_>>());
        out.optional_text(self.error.as_deref());
        match &self.kept {
            Retained::States(states) => {
                let numbers: Vec<u32> = numbers.iter().flatten().copied().collect();
                write_states(&self.function, states.as_ref(), &numbers, out)
            }
            Retained::Rows { groups, rows } => {
                let mut to = vec![None; *groups];
                let known = numbers.iter().flatten().zip(0..);
                known.for_each(|(&number, place)| to[number as usize] = Some(place));
                let pieces: Vec<Piece> = rows.pieces.iter().filter_map(|piece| piece.renumbered(&to)).collect();
                out.count(pieces.len());
                pieces.iter().try_for_each(|piece| {
                    out.list(&piece.numbers);
                    out.array(&piece.positions)?;
                    out.array(&piece.rows)
                })
            }
        }
    }

    /// Reads what was kept of groups that have these numbers now, with rows of this type.
    pub(super) fn read_from(
        &mut self,
        numbers: &[u32],
        rows: &DataType,
        input: &mut Reader<'_>,
    ) -> Result<(), SnapshotError> {
        let error = input.optional_text("an error")?;
        self.error = self.error.take().or(error.map(str::to_string));
        match &mut self.kept {
            Retained::States(states) => read_states(&self.function, states.as_mut(), numbers, input)?,
            Retained::Rows { rows: kept, .. } => {
                for _ in 0..input.count(1, "pieces of rows")? {
                    let places = input.list::<u32>("groups of rows")?;
                    let are_known = places.iter().all(|&place| (place as usize) < numbers.len());
                    input.check(are_known, "groups that are known")?;
                    let positions = input.array(&DataType::UInt64, places.len(), "positions of rows")?;
                    let rows = input.array(rows, places.len(), "rows of groups")?;
                    let numbers = places.iter().map(|&place| numbers[place as usize]).collect();
                    kept.push(Piece { numbers, positions, rows });
                }
            }
        }
        Ok(())
    }

    /// The function's values for groups; of one without rows where there is no number.
    pub(super) fn finish(&self, numbers: &[Option<u32>]) -> Result<ArrayRef, String> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let result = match &self.kept {
            Retained::States(states) => states.finish(numbers),
            Retained::Rows { rows, .. } => self.finish_rows(rows, numbers),
        };
        result.map_err(|error| named(&self.function, &error))
    }

    /// Computes the function from the rows of some groups, in the order of their positions. The groups' states are numbered as these are listed, so that the
    /// rows and states of others cost nothing.
    fn finish_rows(&self, rows: &GroupedRows, numbers: &[Option<u32>]) -> Result<ArrayRef, String> {
        let mut states = self.function.0.states();
        states.grow_to(numbers.len());
        let listed = (0..).zip(numbers);
        let mut order: Vec<(u32, u64, usize)> = Vec::new();
        for (state, number) in listed.clone().filter_map(|(state, number)| Some((state, (*number)?))) {
            order.extend(rows.of(number).map(|row| (state, rows.position(row), row)));
        }
        if !order.is_empty() {
            order.sort_unstable();
            let found = rows.gather(order.iter().map(|&(_, _, row)| row));
            let order: Vec<(u32, u32)> = order.iter().zip(0..).map(|(&(state, _, _), at)| (state, at)).collect();
            accumulate(states.as_mut(), &order, &found)?;
        }
        states.finish(&listed.map(|(state, number)| number.map(|_| state)).collect::<Vec<_>>())
    }
}

impl GroupedRows {
    fn push(&mut self, piece: Piece) {
        self.starts.push(self.previous.len());
        for &number in &piece.numbers {
            let group = number as usize;
            if self.last.len() <= group {
                self.last.resize(group + 1, NO_ROW);
            }
            let row = u32::try_from(self.previous.len()).ok().filter(|&row| row != NO_ROW);
            let row = row.expect("rows that memory has room for are fewer than 2^32");
            self.previous.push(std::mem::replace(&mut self.last[group], row));
        }
        self.pieces.push(piece);
    }

    fn clear(&mut self) {
        self.pieces.clear();
        self.starts.clear();
        self.last.clear();
        self.previous.clear();
    }

    fn bytes(&self) -> usize {
        self.pieces.iter().map(Piece::bytes).sum::<usize>()
            + self.starts.capacity() * size_of::<usize>()
            + (self.last.capacity() + self.previous.capacity()) * size_of::<u32>()
    }

    /// The rows of a group, the last first.
    fn of(&self, number: u32) -> impl Iterator<Item = usize> {
        let known = |row: u32| (row != NO_ROW).then_some(row as usize);
        let last = self.last.get(number as usize).copied().and_then(known);
        std::iter::successors(last, move |&row| known(self.previous[row]))
    }

    /// The piece that has a row, and where in it.
    fn place(&self, row: usize) -> (usize, usize) {
        let piece = self.starts.partition_point(|&start| start <= row) - 1;
        (piece, row - self.starts[piece])
    }

    fn position(&self, row: usize) -> u64 {
        let (piece, at) = self.place(row);
        self.pieces[piece].positions.as_primitive::<UInt64Type>().value(at)
    }

    /// The arguments of some rows, of which there must be one.
    fn gather(&self, rows: impl Iterator<Item = usize>) -> ArrayRef {
        let mut places: Vec<(usize, usize)> = rows.map(|row| self.place(row)).collect();
        let mut pieces: Vec<usize> = places.iter().map(|&(piece, _)| piece).collect();
        pieces.sort_unstable();
        pieces.dedup();
        for (piece, _) in &mut places {
            *piece = pieces.binary_search(piece).expect("it is one of them");
        }
        let pieces: Vec<&dyn Array> = pieces.iter().map(|&piece| self.pieces[piece].rows.as_ref()).collect();
        interleave(&pieces, &places).expect("pieces have the same columns")
    }
}

impl Piece {
    /// The rows of the groups that have a number in `to`, with these; none where there are none.
    fn renumbered(&self, to: &[Option<u32>]) -> Option<Piece> {
        let moved = self.numbers.iter().enumerate().filter_map(|(at, &number)| Some((at as u32, to[number as usize]?)));
        let (places, numbers): (Vec<u32>, Vec<u32>) = moved.unzip();
        if numbers.is_empty() {
            return None;
        }
        if numbers.len() == self.numbers.len() {
            return Some(Piece { numbers, positions: self.positions.clone(), rows: self.rows.clone() });
        }
        let places = UInt32Array::from(places);
        let taken = |array: &ArrayRef| take(array, &places, None).expect("places are those of the rows");
        Some(Piece { numbers, positions: taken(&self.positions), rows: taken(&self.rows) })
    }

    fn bytes(&self) -> usize {
        self.numbers.capacity() * size_of::<u32>()
            + self.positions.get_array_memory_size()
            + self.rows.get_array_memory_size()
    }
}

/// Lets rows reach the states of their groups: `order` has a group's number and a row's place, groups together.
fn accumulate(states: &mut dyn States, order: &[(u32, u32)], rows: &ArrayRef) -> Result<(), String> {
    let is_in_place = order.len() == rows.len() && order.iter().enumerate().all(|(at, (_, row))| at as u32 == *row);
    let rows = if is_in_place {
        rows.clone()
    } else {
        let places: UInt32Array = order.iter().map(|(_, at)| *at).collect::<Vec<_>>().into();
        take(rows, &places, None).expect("places are those of the rows")
    };
    let columns = rows.as_struct().columns();
    let mut start = 0;
    for run in order.chunk_by(|left, right| left.0 == right.0) {
        let arguments: Vec<ArrayRef> = columns.iter().map(|column| column.slice(start, run.len())).collect();
        states.accumulate(run[0].0, &arguments)?;
        start += run.len();
    }
    Ok(())
}

/// Writes the states of some groups.
pub(crate) fn write_states(
    function: &UdafHandle,
    states: &dyn States,
    numbers: &[u32],
    out: &mut Writer,
) -> Result<(), SnapshotError> {
    let data_type = saved_type(function)?;
    let saved = states.save(numbers).map_err(|error| SnapshotError::NoForm(named(function, &error)))?;
    out.array_of(&saved, data_type)
}

/// Gives groups the states that were written.
pub(crate) fn read_states(
    function: &UdafHandle,
    states: &mut dyn States,
    numbers: &[u32],
    input: &mut Reader<'_>,
) -> Result<(), SnapshotError> {
    let saved = input.array(saved_type(function)?, numbers.len(), "states of groups")?;
    expect_states(function, &states.restore(numbers, &saved), input)
}

/// Fails where the function's own code does with what was read.
pub(crate) fn expect_states(
    function: &UdafHandle,
    result: &Result<(), String>,
    input: &Reader<'_>,
) -> Result<(), SnapshotError> {
    let error = || result.as_ref().err().map_or(String::new(), |error| named(function, error));
    input.expect(result.is_ok(), "states of groups", error)
}

/// As what the function's states are written down.
fn saved_type(function: &UdafHandle) -> Result<&DataType, SnapshotError> {
    let none = || "its states cannot be written down (give it `with_snapshot`)".to_string();
    function.0.saved_type().ok_or_else(|| SnapshotError::NoForm(named(function, &none())))
}

fn note(error: &mut Option<String>, function: &UdafHandle, result: Result<(), String>) {
    if let (Err(first), None) = (result, &error) {
        *error = Some(named(function, &first));
    }
}

/// What the function's own code says, with its name.
pub(crate) fn named(function: &UdafHandle, error: &str) -> String {
    format!("{}: {error}", function.0.name().to_uppercase())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use arrow::array::{Int64Array, StructArray};
    use arrow::datatypes::{Field, Fields, Int64Type};
    use pelton_data::udaf::{Definition, function};

    use super::*;

    /// The last row of a group, and how many states were made.
    #[derive(Debug)]
    struct LastRow(Arc<AtomicUsize>);

    impl Definition for LastRow {
        type State = Option<i64>;

        fn name(&self) -> &str {
            "last_row"
        }

        fn merging(&self) -> Merging {
            Merging::Rows
        }

        fn saved_type(&self) -> Option<&DataType> {
            None
        }

        fn initial(&self) -> Result<Option<i64>, String> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(None)
        }

        fn bytes(&self, _: &[Option<i64>]) -> usize {
            0
        }

        fn accumulate(&self, state: &mut Option<i64>, arguments: &[ArrayRef]) -> Result<(), String> {
            *state = arguments[0].as_primitive::<Int64Type>().iter().next_back().flatten();
            Ok(())
        }

        fn merge(&self, _: &mut [Option<i64>], _: &[Option<i64>], _: &[(u32, u32)], _: Change) -> Result<(), String> {
            Err("rows are kept".to_owned())
        }

        fn save(&self, _: &[&Option<i64>]) -> Result<ArrayRef, String> {
            Err("rows are kept".to_owned())
        }

        fn restore(&self, _: &ArrayRef) -> Result<Vec<Option<i64>>, String> {
            Err("rows are kept".to_owned())
        }

        fn finish(&self, states: &[&Option<i64>]) -> Result<ArrayRef, String> {
            Ok(Arc::new(states.iter().map(|state| **state).collect::<Int64Array>()))
        }
    }

    #[test]
    fn values_of_some_groups_cost_nothing_for_others() {
        const GROUPS: u32 = 1_000;
        let made = Arc::new(AtomicUsize::new(0));
        let mut store = UdafStore::new(&UdafHandle(function(LastRow(made.clone()))));
        store.grow_to(GROUPS as usize + 1);
        // The second piece has the rows that came first.
        for (first, sign) in [(2_000, 1), (0, -1)] {
            let values = Int64Array::from_iter_values((0..i64::from(GROUPS)).map(|value| sign * value));
            let fields = Fields::from(vec![Field::new("v", DataType::Int64, true)]);
            let rows: ArrayRef = Arc::new(StructArray::new(fields, vec![Arc::new(values)], None));
            store.update((0..GROUPS as usize).map(|at| (at, at as u32)), &rows, |at| first + at as u64);
        }
        let values = store.finish(&[Some(7), None, Some(GROUPS), Some(999), Some(7)]).unwrap();
        let expected = [Some(7), None, None, Some(999), Some(7)];
        assert_eq!(values.as_primitive::<Int64Type>(), &Int64Array::from_iter(expected));
        assert!(made.load(Ordering::Relaxed) <= 6);
        store.clear();
        assert_eq!((store.groups(), store.finish(&[Some(7)]).unwrap().null_count()), (0, 1));
    }
}
