//! Calls of aggregate functions that a program defines.
//!
//! How a frame is followed is decided by what can be done with its function's states: what leaves is taken away, or there are two stacks of states, or the
//! value is computed from all rows of each frame. Of frames that no row leaves there is one state. Rows reach states one by one, so that results do not
//! depend on how rows come.

use std::collections::VecDeque;
use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::compute::{concat, take};
use arrow::datatypes::DataType;
use pelton_data::column::{compacted, gathered};
use pelton_data::udaf::{Change, Merging, States, UdafHandle};

use super::call::KeyRows;
use super::frame::Bounds;
use super::held::Members;
use crate::snapshot::{Reader, SnapshotError, Writer};
use crate::table::udaf::{expect_states, named, read_states, write_states};

/// Rows are copied to those before as long as they are no more together.
const SMALL_SLICE_ROWS_MAX: usize = 128;

/// The only group of states that are of one frame.
const ONLY: u32 = 0;

/// What a call remembers of the rows of one key.
#[derive(Debug)]
pub(super) struct UdafState {
    function: UdafHandle,
    frame: UdafFrame,
    members: Members,
    /// Rows of the frame that count: the function has a value of none.
    counted: u64,
    /// The rows from the last frame's start on, where any leave.
    rows: UdafRows,
}

/// How the function's value follows a frame.
#[derive(Debug)]
enum UdafFrame {
    /// Of all rows so far, or of those from which others are taken away: the frame's state, and one that rows which leave are put into.
    Running(Box<dyn States>, Box<dyn States>),
    Stacks(Box<UdafStacks>),
    /// Of all rows anew.
    Rows,
}

/// Two stacks: rows in front of `front_end` leave next. For each of them there is the state of all from it on, and one of those that came after.
#[derive(Debug)]
struct UdafStacks {
    /// Those of even rows, and those of odd ones: states are combined with others than their own.
    front: [Box<dyn States>; 2],
    front_start: u64,
    front_end: u64,
    back: Box<dyn States>,
}

/// Rows of one key that come next, and where their frames are.
pub(super) struct UdafRun<'a> {
    /// The arguments, and, where some rows do not count, which do.
    pub columns: &'a [ArrayRef],
    pub rows: Range<usize>,
    pub bounds: &'a Bounds,
}

impl UdafState {
    /// No rows yet. Rows leave where it `is_bounded`; the last of the columns says which count where `has_condition`.
    pub fn new(function: &UdafHandle, is_bounded: bool, has_condition: bool) -> UdafState {
        let frame = match (function.0.merging(), is_bounded) {
            (_, false) | (Merging::Invert, true) => UdafFrame::Running(one_group(function), one_group(function)),
            (Merging::Combine, true) => UdafFrame::Stacks(Box::new(UdafStacks::new(function))),
            (Merging::Rows, true) => UdafFrame::Rows,
        };
        let rows = UdafRows { pieces: VecDeque::new(), end: 0, has_condition };
        UdafState { function: function.clone(), frame, members: Members::new(is_bounded), counted: 0, rows }
    }

    /// The values of each row of a run.
    ///
    /// # Errors
    /// What the function's own code returns.
    pub fn compute(&mut self, run: &UdafRun<'_>) -> Result<ArrayRef, String> {
        self.rows.append(run.columns, run.rows.clone());
        let mut values = Vec::with_capacity(run.rows.len());
        for frame in run.bounds.frames() {
            let value = self.value(frame);
            values.push(value.map_err(|error| named(&self.function, &error))?);
        }
        self.rows.forget(if self.members.is_bounded { self.members.start() } else { self.rows.end });
        let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
        concat(&values).map_err(|error| error.to_string())
    }

    fn value(&mut self, (start, end): (u64, u64)) -> Result<ArrayRef, String> {
        let UdafState { function, frame, members, counted, rows } = self;
        let (entering, leaving) = members.move_to((start, end));
        let (entering, leaving) = (rows.that_count(entering), rows.that_count(leaving));
        *counted = *counted + entering.len() as u64 - leaving.len() as u64;
        let only = (*counted > 0).then_some(ONLY);
        match frame {
            UdafFrame::Running(states, left) => {
                entering.into_iter().try_for_each(|row| states.accumulate(ONLY, &rows.arguments(row)))?;
                for row in leaving {
                    left.clear();
                    left.grow_to(1);
                    left.accumulate(ONLY, &rows.arguments(row))?;
                    states.merge(left.as_ref(), &[(ONLY, ONLY)], Change::Subtract)?;
                }
                states.finish(&[only])
            }
            UdafFrame::Stacks(stacks) => {
                entering.into_iter().try_for_each(|row| stacks.back.accumulate(ONLY, &rows.arguments(row)))?;
                if start > stacks.front_end {
                    stacks.turn(rows, start..end)?;
                }
                stacks.total(function, start)?.finish(&[only])
            }
            UdafFrame::Rows => {
                let mut states = one_group(function);
                let frame = rows.that_count(start..end);
                frame.into_iter().try_for_each(|row| states.accumulate(ONLY, &rows.arguments(row)))?;
                states.finish(&[only])
            }
        }
    }

    /// Bytes of memory held elsewhere, as far as they are known.
    pub fn bytes(&self) -> usize {
        let states = match &self.frame {
            UdafFrame::Running(states, left) => states.bytes() + left.bytes(),
            UdafFrame::Stacks(stacks) => {
                stacks.front.iter().map(|front| front.bytes()).sum::<usize>() + stacks.back.bytes()
            }
            UdafFrame::Rows => 0,
        };
        states + self.rows.bytes()
    }

    /// Writes what is remembered.
    pub fn write_to(&self, out: &mut Writer) -> Result<(), SnapshotError> {
        out.number(self.counted);
        self.rows.write_to(out)?;
        match &self.frame {
            UdafFrame::Running(states, _) => write_states(&self.function, states.as_ref(), &[ONLY], out)?,
            UdafFrame::Stacks(stacks) => out.number(stacks.front_end),
            UdafFrame::Rows => {}
        }
        Ok(())
    }

    /// Becomes what was written, of rows with columns of these types.
    pub fn read_from(
        &mut self,
        (known, columns): (&KeyRows, &[DataType]),
        input: &mut Reader<'_>,
    ) -> Result<(), SnapshotError> {
        let UdafState { function, frame, members, counted, rows } = self;
        *counted = input.number("rows that count")?;
        rows.read_from(known, (columns, members.is_bounded), input)?;
        let are_right = match members.is_bounded {
            true => *counted == rows.that_count(known.frame_start..known.end).len() as u64,
            false => *counted <= known.end,
        };
        input.check(are_right, "rows that count, of those that have come")?;
        members.resume(known);
        match frame {
            UdafFrame::Running(states, _) => read_states(function, states.as_mut(), &[ONLY], input),
            UdafFrame::Stacks(stacks) => {
                let front_end = input.number("the end of the first rows of a frame")?;
                let is_right = (known.frame_start..=known.end).contains(&front_end);
                input.check(is_right, "first rows of a frame")?;
                let back = rows.that_count(front_end..known.end);
                let result = stacks.turn(rows, known.frame_start..front_end).and_then(|()| {
                    back.into_iter().try_for_each(|row| stacks.back.accumulate(ONLY, &rows.arguments(row)))
                });
                expect_states(function, &result, input)
            }
            UdafFrame::Rows => Ok(()),
        }
    }
}

/// States that have seen no row.
fn one_group(function: &UdafHandle) -> Box<dyn States> {
    let mut states = function.0.states();
    states.grow_to(1);
    states
}

impl UdafStacks {
    fn new(function: &UdafHandle) -> UdafStacks {
        let front = [function.0.states(), function.0.states()];
        UdafStacks { front, front_start: 0, front_end: 0, back: one_group(function) }
    }

    /// The group of a row that leaves next, among those of the even rows or of the odd ones.
    fn group(&self, row: u64) -> u32 {
        (row / 2 - self.front_start / 2) as u32
    }

    /// All rows of a frame leave next, and none has come after them.
    fn turn(&mut self, rows: &UdafRows, frame: Range<u64>) -> Result<(), String> {
        (self.front_start, self.front_end) = (frame.start, frame.end);
        let groups = ((frame.end - frame.start) / 2 + 1) as usize;
        for states in &mut self.front {
            states.clear();
            states.grow_to(groups);
        }
        for row in frame.clone().rev() {
            let (group, next) = (self.group(row), self.group(row + 1));
            let [even, odd] = &mut self.front;
            let (states, others) = if row % 2 == 0 { (even, odd) } else { (odd, even) };
            if rows.counts(row) {
                states.accumulate(group, &rows.arguments(row))?;
            }
            if row + 1 < frame.end {
                states.merge(others.as_ref(), &[(next, group)], Change::Add)?;
            }
        }
        self.back.clear();
        self.back.grow_to(1);
        Ok(())
    }

    /// Of all rows from one on.
    fn total(&self, function: &UdafHandle, start: u64) -> Result<Box<dyn States>, String> {
        let mut total = one_group(function);
        if start < self.front_end {
            total.merge(self.front[(start % 2) as usize].as_ref(), &[(self.group(start), ONLY)], Change::Add)?;
        }
        total.merge(self.back.as_ref(), &[(ONLY, ONLY)], Change::Add)?;
        Ok(total)
    }
}

/// Rows of one key, by their positions. Those at the front can be forgotten.
#[derive(Debug)]
struct UdafRows {
    pieces: VecDeque<Piece>,
    /// One past the last position.
    end: u64,
    /// The last column says which rows count.
    has_condition: bool,
}

/// Neighbouring rows.
#[derive(Debug)]
struct Piece {
    start: u64,
    columns: Vec<ArrayRef>,
}

impl Piece {
    fn rows(&self) -> usize {
        self.columns[0].len()
    }

    fn end(&self) -> u64 {
        self.start + self.rows() as u64
    }
}

impl UdafRows {
    /// Adds some rows of columns, copied: what they are a part of is not held.
    fn append(&mut self, columns: &[ArrayRef], rows: Range<usize>) {
        let places = UInt32Array::from_iter_values(rows.start as u32..rows.end as u32);
        let taken = |column: &ArrayRef| compacted(&take(column, &places, None).expect("places are those of the rows"));
        let columns: Vec<ArrayRef> = columns.iter().map(taken).collect();
        let start = self.end;
        self.end += rows.len() as u64;
        match self.pieces.back_mut().filter(|last| last.rows() + rows.len() <= SMALL_SLICE_ROWS_MAX) {
            None => self.pieces.push_back(Piece { start, columns }),
            Some(last) => {
                for (known, more) in last.columns.iter_mut().zip(&columns) {
                    *known = gathered(concat(&[known.as_ref(), more.as_ref()]).expect("both are of one column"));
                }
            }
        }
    }

    fn piece(&self, row: u64) -> (&Piece, usize) {
        let piece = &self.pieces[self.pieces.partition_point(|piece| piece.end() <= row)];
        (piece, (row - piece.start) as usize)
    }

    /// Whether a row counts.
    fn counts(&self, row: u64) -> bool {
        let (piece, at) = self.piece(row);
        let condition = piece.columns.last().filter(|_| self.has_condition);
        condition.is_none_or(|condition| condition.is_valid(at) && condition.as_boolean().value(at))
    }

    /// Those of some rows that count.
    fn that_count(&self, rows: Range<u64>) -> Vec<u64> {
        rows.filter(|&row| self.counts(row)).collect()
    }

    /// The arguments of a row.
    fn arguments(&self, row: u64) -> Vec<ArrayRef> {
        let (piece, at) = self.piece(row);
        let columns = piece.columns.len() - usize::from(self.has_condition);
        piece.columns[..columns].iter().map(|column| column.slice(at, 1)).collect()
    }

    /// Forgets rows before a position, as far as whole pieces are of no others.
    fn forget(&mut self, until: u64) {
        while self.pieces.pop_front_if(|piece| piece.end() <= until).is_some() {}
    }

    fn bytes(&self) -> usize {
        let columns = self.pieces.iter().flat_map(|piece| &piece.columns);
        columns.map(|column| column.get_array_memory_size()).sum()
    }

    fn write_to(&self, out: &mut Writer) -> Result<(), SnapshotError> {
        out.number(self.pieces.front().map_or(self.end, |piece| piece.start));
        out.count(self.pieces.len());
        for piece in &self.pieces {
            out.count(piece.rows());
            piece.columns.iter().try_for_each(|column| out.array(column))?;
        }
        Ok(())
    }

    fn read_from(
        &mut self,
        known: &KeyRows,
        (columns, are_kept): (&[DataType], bool),
        input: &mut Reader<'_>,
    ) -> Result<(), SnapshotError> {
        let first = input.number("the first row that is kept")?;
        self.end = first;
        for _ in 0..input.count(1, "pieces of rows")? {
            let rows = input.count(1, "rows of a piece")?;
            let column = |data_type: &DataType| input.array(data_type, rows, "rows that are kept");
            let columns = columns.iter().map(column).collect::<Result<Vec<ArrayRef>, _>>()?;
            input.check(rows > 0, "pieces with rows")?;
            self.pieces.push_back(Piece { start: self.end, columns });
            self.end = self.end.saturating_add(rows as u64);
        }
        let are_all = !are_kept || first <= known.frame_start;
        input.check(are_all && self.end == known.end, "rows that are kept, to the last")
    }
}

#[cfg(test)]
mod tests {
    use std::any::Any;
    use std::sync::Arc;

    use arrow::array::{BooleanArray, Int64Array, StringArray};
    use arrow::datatypes::Int64Type;
    use pelton_data::udaf::AggregateFunction;

    use super::*;

    /// The numbers of a frame, side by side: what is combined in another order is not the same.
    #[derive(Debug)]
    struct Numbers(Merging);

    #[derive(Debug, Default)]
    struct Lists(Vec<Vec<i64>>);

    impl AggregateFunction for Numbers {
        fn name(&self) -> &str {
            "numbers"
        }

        fn merging(&self) -> Merging {
            self.0
        }

        fn saved_type(&self) -> Option<&DataType> {
            None
        }

        fn states(&self) -> Box<dyn States> {
            Box::new(Lists::default())
        }
    }

    impl States for Lists {
        fn groups(&self) -> usize {
            self.0.len()
        }

        fn grow_to(&mut self, groups: usize) {
            self.0.resize(groups.max(self.0.len()), Vec::new());
        }

        fn clear(&mut self) {
            self.0.clear();
        }

        fn bytes(&self) -> usize {
            0
        }

        fn accumulate(&mut self, group: u32, arguments: &[ArrayRef]) -> Result<(), String> {
            self.0[group as usize].extend(arguments[0].as_primitive::<Int64Type>().values());
            Ok(())
        }

        fn merge(&mut self, other: &dyn States, pairs: &[(u32, u32)], change: Change) -> Result<(), String> {
            let other = (other as &dyn Any).downcast_ref::<Lists>().expect("states of one function");
            for &(theirs, mine) in pairs {
                let (theirs, mine) = (&other.0[theirs as usize], &mut self.0[mine as usize]);
                match change {
                    Change::Add => mine.extend(theirs),
                    Change::Subtract => drop(mine.drain(..theirs.len())),
                }
            }
            Ok(())
        }

        fn save(&self, _groups: &[u32]) -> Result<ArrayRef, String> {
            Err("never".to_string())
        }

        fn restore(&mut self, _groups: &[u32], _saved: &ArrayRef) -> Result<(), String> {
            Err("never".to_string())
        }

        fn finish(&self, groups: &[Option<u32>]) -> Result<ArrayRef, String> {
            let list = |group: &Option<u32>| group.map(|group| format!("{:?}", self.0[group as usize]));
            Ok(Arc::new(groups.iter().map(list).collect::<StringArray>()))
        }
    }

    #[test]
    fn rows_are_combined_in_their_order_however_the_frame_is_followed() {
        for merging in [Merging::Invert, Merging::Combine, Merging::Rows] {
            for preceding in [0, 1, 2, 7, 300] {
                let mut state = UdafState::new(&UdafHandle(Arc::new(Numbers(merging))), true, true);
                let mut position = 0;
                for rows in [1, 1, 5, 200, 3, 90, 7] {
                    let numbers: Vec<i64> = (position..position + rows as i64).collect();
                    let condition: BooleanArray =
                        numbers.iter().map(|number| (number % 11 > 0).then_some(number % 5 > 1)).collect();
                    let columns: [ArrayRef; 2] = [Arc::new(Int64Array::from(numbers.clone())), Arc::new(condition)];
                    let bounds = Bounds::Rows { position: position as u64, rows, preceding: Some(preceding) };
                    let found = state.compute(&UdafRun { columns: &columns, rows: 0..rows, bounds: &bounds }).unwrap();
                    let expected = numbers.iter().map(|&last| {
                        let frame = (last - preceding as i64).max(0)..=last;
                        let frame: Vec<i64> = frame.filter(|number| number % 11 > 0 && number % 5 > 1).collect();
                        (!frame.is_empty()).then(|| format!("{frame:?}"))
                    });
                    assert_eq!(found.as_string::<i32>(), &expected.collect::<StringArray>(), "{merging:?} {preceding}");
                    position += rows as i64;
                }
                assert!(
                    state.rows.pieces.iter().map(Piece::rows).sum::<usize>()
                        <= preceding as usize + SMALL_SLICE_ROWS_MAX
                );
            }
        }
    }
}
