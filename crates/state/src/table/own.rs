//! What aggregate functions that a program defines keep of groups: their states, or rows where states of parts cannot be combined.

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array, UInt64Array};
use arrow::compute::{concat, take};
use arrow::datatypes::DataType;
use pelton_data::own::{Change, Merging, OwnFunction, States};

use crate::snapshot::{Reader, SnapshotError, Writer};

/// What a function keeps of the groups of a table.
#[derive(Debug)]
pub(super) struct OwnStore {
    function: OwnFunction,
    kept: Kept,
    /// What the function's own code returned as its first error: the query ends with it when a window is read.
    error: Option<String>,
}

#[derive(Debug)]
enum Kept {
    States(Box<dyn States>),
    Rows { groups: usize, pieces: Vec<Piece> },
}

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

impl OwnStore {
    pub(super) fn new(function: &OwnFunction) -> OwnStore {
        let kept = match function.0.merging() {
            Merging::Rows => Kept::Rows { groups: 0, pieces: Vec::new() },
            Merging::Combine | Merging::Invert => Kept::States(function.0.states()),
        };
        OwnStore { function: function.clone(), kept, error: None }
    }

    pub(super) fn groups(&self) -> usize {
        match &self.kept {
            Kept::States(states) => states.groups(),
            Kept::Rows { groups, .. } => *groups,
        }
    }

    pub(super) fn grow_to(&mut self, wanted: usize) {
        match &mut self.kept {
            Kept::States(states) => states.grow_to(wanted),
            Kept::Rows { groups, .. } => *groups = wanted.max(*groups),
        }
    }

    pub(super) fn clear(&mut self) {
        self.error = None;
        match &mut self.kept {
            Kept::States(states) => states.clear(),
            Kept::Rows { groups, pieces } => {
                *groups = 0;
                pieces.clear();
            }
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match &self.kept {
            Kept::States(states) => states.bytes(),
            Kept::Rows { pieces, .. } => pieces.iter().map(Piece::bytes).sum(),
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
            Kept::Rows { pieces, .. } => {
                let places: UInt32Array = order.iter().map(|(_, at)| *at).collect::<Vec<_>>().into();
                let positions: Vec<u64> = order.iter().map(|(_, at)| position(*at as usize)).collect();
                let rows = take(rows, &places, None).expect("places are those of the rows");
                let numbers = order.into_iter().map(|(number, _)| number).collect();
                pieces.push(Piece { numbers, positions: std::sync::Arc::new(UInt64Array::from(positions)), rows });
            }
            Kept::States(states) => {
                // Rows of a group stay in their order.
                order.sort_by_key(|(number, _)| *number);
                let result = accumulate(states.as_mut(), &order, rows);
                note(&mut self.error, &self.function, result);
            }
        }
    }

    /// Adds what another store keeps, or takes it away again: of each pair, what it has of the first to what this one has of the second.
    pub(super) fn merge(&mut self, other: &OwnStore, pairs: &[(u32, u32)], change: Change) {
        if self.error.is_none() {
            self.error.clone_from(&other.error);
        }
        match (&mut self.kept, &other.kept) {
            (Kept::States(mine), Kept::States(theirs)) => {
                let result = mine.merge(theirs.as_ref(), pairs, change);
                note(&mut self.error, &self.function, result);
            }
            (Kept::Rows { pieces, .. }, Kept::Rows { groups, pieces: theirs }) => {
                assert!(change == Change::Add, "rows are not taken away");
                let mut to = vec![None; *groups];
                pairs.iter().for_each(|&(from, mine)| to[from as usize] = Some(mine));
                pieces.extend(theirs.iter().filter_map(|piece| piece.renumbered(&to)));
            }
            _ => unreachable!("stores of one function keep the same"),
        }
    }

    /// Writes what is kept of some groups, those of them that have a number.
    pub(super) fn write_to(&self, numbers: &[Option<u32>], out: &mut Writer) -> Result<(), SnapshotError> {
        out.column(&numbers.iter().map(|number| u8::from(number.is_some())).collect::<Vec<_>>());
        out.optional_text(self.error.as_deref());
        match &self.kept {
            Kept::States(states) => {
                let numbers: Vec<u32> = numbers.iter().flatten().copied().collect();
                write_states(&self.function, states.as_ref(), &numbers, out)
            }
            Kept::Rows { groups, pieces } => {
                let mut to = vec![None; *groups];
                let known = numbers.iter().flatten().zip(0..);
                known.for_each(|(&number, place)| to[number as usize] = Some(place));
                let pieces: Vec<Piece> = pieces.iter().filter_map(|piece| piece.renumbered(&to)).collect();
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
            Kept::States(states) => read_states(&self.function, states.as_mut(), numbers, input)?,
            Kept::Rows { pieces, .. } => {
                for _ in 0..input.count(1, "pieces of rows")? {
                    let places = input.list::<u32>("groups of rows")?;
                    let are_known = places.iter().all(|&place| (place as usize) < numbers.len());
                    input.check(are_known, "groups that are known")?;
                    let positions = input.array(&DataType::UInt64, places.len(), "positions of rows")?;
                    let rows = input.array(rows, places.len(), "rows of groups")?;
                    let numbers = places.iter().map(|&place| numbers[place as usize]).collect();
                    pieces.push(Piece { numbers, positions, rows });
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
            Kept::States(states) => states.finish(numbers),
            Kept::Rows { groups, pieces } => self.finish_rows(*groups, pieces, numbers),
        };
        result.map_err(|error| named(&self.function, &error))
    }

    /// Computes the function from the rows of some groups, in the order of their positions.
    fn finish_rows(&self, groups: usize, pieces: &[Piece], numbers: &[Option<u32>]) -> Result<ArrayRef, String> {
        let mut states = self.function.0.states();
        states.grow_to(groups);
        let mut is_wanted = vec![false; groups];
        numbers.iter().flatten().for_each(|&number| is_wanted[number as usize] = true);
        let mut order: Vec<(u32, u64, u32)> = Vec::new();
        let mut at = 0;
        for piece in pieces {
            let positions = piece.positions.as_primitive::<arrow::datatypes::UInt64Type>().values();
            for (&number, &position) in piece.numbers.iter().zip(positions) {
                if is_wanted[number as usize] {
                    order.push((number, position, at));
                }
                at += 1;
            }
        }
        if !order.is_empty() {
            order.sort_unstable();
            let order: Vec<(u32, u32)> = order.into_iter().map(|(number, _, at)| (number, at)).collect();
            let rows: Vec<&dyn Array> = pieces.iter().map(|piece| piece.rows.as_ref()).collect();
            let rows = concat(&rows).expect("pieces have the same columns");
            accumulate(states.as_mut(), &order, &rows)?;
        }
        states.finish(numbers)
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
    function: &OwnFunction,
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
    function: &OwnFunction,
    states: &mut dyn States,
    numbers: &[u32],
    input: &mut Reader<'_>,
) -> Result<(), SnapshotError> {
    let saved = input.array(saved_type(function)?, numbers.len(), "states of groups")?;
    expect_states(function, &states.restore(numbers, &saved), input)
}

/// Fails where the function's own code does with what was read.
pub(crate) fn expect_states(
    function: &OwnFunction,
    result: &Result<(), String>,
    input: &Reader<'_>,
) -> Result<(), SnapshotError> {
    let error = || result.as_ref().err().map_or(String::new(), |error| named(function, error));
    input.expect(result.is_ok(), "states of groups", error)
}

/// As what the function's states are written down.
fn saved_type(function: &OwnFunction) -> Result<&DataType, SnapshotError> {
    let none = || "its states cannot be written down (give it `with_snapshot`)".to_string();
    function.0.saved_type().ok_or_else(|| SnapshotError::NoForm(named(function, &none())))
}

fn note(error: &mut Option<String>, function: &OwnFunction, result: Result<(), String>) {
    if let (Err(first), None) = (result, &error) {
        *error = Some(named(function, &first));
    }
}

/// What the function's own code says, with its name.
pub(crate) fn named(function: &OwnFunction, error: &str) -> String {
    format!("{}: {error}", function.0.name().to_uppercase())
}
