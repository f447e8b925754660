//! Calls over strings and bytes, and what is kept of them.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, BinaryViewBuilder};
use arrow::datatypes::DataType;
use hashbrown::HashSet;
use pelton_data::allowance::Allowance;
use pelton_data::over::{OverCall, OverFunction};

use super::call::KeyRows;
use super::frame::Bounds;
use super::held::{HeldCall, HeldValues, Members};
use super::planned::PlannedCall;
use super::value::{Overflow, Results};
use crate::snapshot::{Reader, SnapshotError, Writer};

/// Values of a chunk.
const CHUNK_ROWS: u64 = 128;

/// Values of one column, by the position of their row among all rows of the key: their bytes, side by side in chunks. Values at the front can
/// be forgotten.
#[derive(Debug, Default)]
pub(super) struct TextStore {
    chunks: VecDeque<Chunk>,
    /// Number of the first chunk.
    first: u64,
    /// One past the last position.
    end: u64,
    /// A chunk that was emptied, for the next one.
    spare: Option<Chunk>,
}

#[derive(Debug, Default)]
struct Chunk {
    bytes: Vec<u8>,
    /// For each value one past its last byte, and whether it is not NULL.
    values: Vec<(usize, bool)>,
}

impl TextStore {
    pub fn append(&mut self, column: &BinaryViewArray, rows: Range<usize>) {
        for row in rows {
            if self.end.is_multiple_of(CHUNK_ROWS) {
                self.chunks.push_back(self.spare.take().unwrap_or_default());
            }
            let chunk = self.chunks.back_mut().expect("a chunk was just added where there was no room");
            let is_valid = column.is_valid(row);
            if is_valid {
                chunk.bytes.extend_from_slice(column.value(row));
            }
            chunk.values.push((chunk.bytes.len(), is_valid));
            self.end += 1;
        }
    }

    /// The value at a position that was appended and not forgotten; `None` where it is NULL.
    fn get(&self, position: u64) -> Option<&[u8]> {
        let chunk = &self.chunks[(position / CHUNK_ROWS - self.first) as usize];
        let row = (position % CHUNK_ROWS) as usize;
        let start = if row == 0 { 0 } else { chunk.values[row - 1].0 };
        let (end, is_valid) = chunk.values[row];
        is_valid.then(|| &chunk.bytes[start..end])
    }

    /// Forgets values before a position, as far as whole chunks hold nothing else.
    pub fn forget(&mut self, until: u64) {
        while (self.first + 1) * CHUNK_ROWS <= until.min(self.end) {
            let Some(mut chunk) = self.chunks.pop_front() else { break };
            chunk.bytes.clear();
            chunk.values.clear();
            self.spare = Some(chunk);
            self.first += 1;
        }
    }

    /// Writes the values that were not forgotten.
    pub fn write_to(&self, out: &mut Writer) -> Result<(), SnapshotError> {
        let start = self.first * CHUNK_ROWS;
        out.number(start);
        out.number(self.end);
        let values: BinaryViewArray = (start..self.end).map(|position| self.get(position)).collect();
        out.array(&(Arc::new(values) as ArrayRef))
    }

    /// Becomes what was written when there were so many rows. Returns the first position.
    pub fn read_from(&mut self, rows: u64, input: &mut Reader<'_>) -> Result<u64, SnapshotError> {
        let (start, end) = (input.number("the first row that is kept")?, input.number("the end of the rows")?);
        let is_right = start <= end && end == rows && start.is_multiple_of(CHUNK_ROWS);
        input.check(is_right, "rows that are kept, to the last")?;
        let kept = usize::try_from(end - start).unwrap_or(usize::MAX);
        let values = input.array(&DataType::BinaryView, kept, "values that are kept")?;
        (self.first, self.end) = (start / CHUNK_ROWS, start);
        self.append(values.as_binary_view(), 0..kept);
        Ok(start)
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        let chunk = |chunk: &Chunk| chunk.bytes.capacity() + chunk.values.capacity() * size_of::<(usize, bool)>();
        self.chunks.iter().chain(&self.spare).map(chunk).sum()
    }
}

/// What a call remembers.
#[derive(Debug)]
pub(super) enum TextState {
    /// Nothing: values are looked up.
    None,
    /// The first value of all that is not NULL.
    First(Option<Vec<u8>>),
    /// Where the first value of the last frame is that is not NULL, or the next may be.
    FirstOfFrame(u64),
    /// The last value so far that is not NULL, and the position behind it.
    Last { value: Vec<u8>, end: u64 },
    /// The smallest or largest value of all.
    Extreme { value: Option<Vec<u8>>, rows: u64 },
    /// Positions of values that may become the extreme one of a frame one day: each is more extreme than those behind it.
    Candidates { positions: VecDeque<u64>, rows: u64 },
    /// All values of the frame.
    Held(HeldValues<Arc<[u8]>>, Members),
}

/// Rows of one key that come next, and where their frames are.
pub(super) struct TextRun<'a> {
    pub values: &'a BinaryViewArray,
    pub rows: Range<usize>,
    /// Of the first row.
    pub position: u64,
    pub bounds: &'a Bounds,
    /// The values from the first frame's start to the run's end, where the call looks back at any.
    pub kept: Option<&'a TextStore>,
}

impl TextRun<'_> {
    fn value(&self, position: u64) -> Option<&[u8]> {
        let row = self.rows.start + (position - self.position) as usize;
        self.values.is_valid(row).then(|| self.values.value(row))
    }

    fn kept(&self) -> &TextStore {
        self.kept.expect("the call looks back")
    }

    fn arrays(&self, (ignores_nulls, is_distinct): (bool, bool), results: &mut Results) -> Result<(), Overflow> {
        let mut listed = HashSet::new();
        let mut bytes = 0;
        self.bounds.frames().try_for_each(|(start, end)| {
            listed.clear();
            let values = (start..end).map(|row| self.kept().get(row));
            let values = values.filter(|value| value.is_some() || !ignores_nulls);
            let values = values.filter(|value| !is_distinct || listed.insert(*value));
            let values = values.inspect(|value| bytes += value.map_or(0, <[u8]>::len));
            results.push_list(|items| values.for_each(|value| items.bytes().append_option(value)))?;
            if Allowance::get().allows(bytes) { Ok(()) } else { Err(Overflow) }
        })
    }
}

impl TextState {
    pub fn new(planned: &PlannedCall) -> TextState {
        let PlannedCall { call, held, sliding, .. } = planned;
        if let Some(values) = HeldValues::of(held, sliding.counts_values()) {
            return TextState::Held(values, Members::new(call.frame.is_bounded()));
        }
        match (&call.function, call.frame.is_bounded()) {
            (OverFunction::First, false) => TextState::First(None),
            (OverFunction::First, true) => TextState::FirstOfFrame(0),
            (OverFunction::Last, _) => TextState::Last { value: Vec::new(), end: 0 },
            (OverFunction::Minimum | OverFunction::Maximum, false) => TextState::Extreme { value: None, rows: 0 },
            (OverFunction::Minimum | OverFunction::Maximum, true) => {
                TextState::Candidates { positions: VecDeque::new(), rows: 0 }
            }
            _ => TextState::None,
        }
    }

    /// Bytes of memory held elsewhere.
    pub fn bytes(&self) -> usize {
        match self {
            TextState::None | TextState::FirstOfFrame(_) => 0,
            TextState::First(value) | TextState::Extreme { value, .. } => value.as_ref().map_or(0, Vec::capacity),
            TextState::Last { value, .. } => value.capacity(),
            TextState::Candidates { positions, .. } => positions.capacity() * size_of::<u64>(),
            TextState::Held(values, _) => values.bytes(),
        }
    }

    /// Writes what is remembered.
    pub fn write_to(&self, out: &mut Writer) {
        let mut optional = |value: &Option<Vec<u8>>| {
            out.flag(value.is_some());
            value.iter().for_each(|value| out.list(value));
        };
        match self {
            TextState::None => {}
            TextState::First(value) => optional(value),
            TextState::FirstOfFrame(first) => out.number(*first),
            TextState::Last { value, end } => {
                out.list(value);
                out.number(*end);
            }
            TextState::Extreme { value, rows } => {
                optional(value);
                out.number(*rows);
            }
            TextState::Candidates { positions, rows } => {
                out.list(&positions.iter().copied().collect::<Vec<_>>());
                out.number(*rows);
            }
            TextState::Held(_, Members { is_bounded: true, .. }) => {}
            TextState::Held(values, _) => write_values(values, out),
        }
    }

    /// Becomes what was written.
    pub fn read_from(&mut self, rows: &KeyRows, input: &mut Reader<'_>) -> Result<(), SnapshotError> {
        fn optional(input: &mut Reader<'_>) -> Result<Option<Vec<u8>>, SnapshotError> {
            let is_there = input.flag("whether there is a value")?;
            if is_there { input.list("a value").map(|value| Some(value.to_vec())) } else { Ok(None) }
        }
        let (first, end) = (rows.kept_from, rows.end);
        match self {
            TextState::None => {}
            TextState::First(value) => *value = optional(input)?,
            TextState::FirstOfFrame(first) => {
                *first = input.number("the position of a value")?;
                input.check(*first <= end, "a value of a row that has come")?;
            }
            TextState::Last { value, end: behind } => {
                *value = input.list("a value")?.to_vec();
                *behind = input.number("the position behind a value")?;
                input.check(*behind <= end, "a value of a row that has come")?;
            }
            TextState::Extreme { value, rows } => {
                *value = optional(input)?;
                *rows = input.number("rows")?;
                input.check(*rows == end, "all rows of a key")?;
            }
            TextState::Candidates { positions, rows } => {
                *positions = input.list::<u64>("positions of values")?.iter().copied().collect();
                *rows = input.number("rows")?;
                let are_kept = positions.iter().all(|position| (first..end).contains(position));
                let are_kept = are_kept && positions.iter().is_sorted_by(|one, next| one < next);
                input.check(*rows == end && are_kept, "positions of values that are kept")?;
            }
            TextState::Held(values, members) => {
                members.begin_again(rows);
                if !members.is_bounded {
                    read_values(values, end, input)?;
                }
            }
        }
        Ok(())
    }

    /// Appends the result of each row of a run to those of the call, the `index`th of all, and of those that are computed with it.
    pub fn compute(
        &mut self,
        planned: &PlannedCall,
        run: &TextRun<'_>,
        (index, results): (usize, &mut [Results]),
    ) -> Result<(), Overflow> {
        let call = &planned.call;
        if let TextState::Held(values, members) = self {
            of_all_values(&planned.held, run, (values, members), results);
            return Ok(());
        }
        if let OverFunction::Array { ignores_nulls } = call.function {
            return run.arrays((ignores_nulls, call.is_distinct), &mut results[index]);
        }
        let results = results[index].bytes();
        let frames = || run.bounds.frames();
        let is_smallest = call.function == OverFunction::Minimum;
        let is_overtaken = |older: Option<&[u8]>, younger: &[u8]| match older {
            Some(older) if is_smallest => younger <= older,
            Some(older) => younger >= older,
            None => true,
        };
        match self {
            TextState::First(first) => {
                let mut passed = run.position;
                for (_, end) in frames() {
                    if first.is_none() {
                        *first = (passed..end).find_map(|row| run.value(row)).map(<[u8]>::to_vec);
                        passed = end;
                    }
                    results.append_option(first.as_ref());
                }
            }
            TextState::FirstOfFrame(first) => {
                for (start, end) in frames() {
                    *first = (start.max(*first)..end).find(|&row| run.kept().get(row).is_some()).unwrap_or(end);
                    results.append_option((*first..end).next().and_then(|row| run.kept().get(row)));
                }
            }
            TextState::Last { value, end } => last_values(run, (value, end), results),
            TextState::Extreme { value: extreme, rows } => {
                for (_, end) in frames() {
                    for value in (*rows..end).filter_map(|row| run.value(row)) {
                        if is_overtaken(extreme.as_deref(), value) {
                            let extreme = extreme.get_or_insert_default();
                            extreme.clear();
                            extreme.extend_from_slice(value);
                        }
                    }
                    *rows = end;
                    results.append_option(extreme.as_ref());
                }
            }
            TextState::Candidates { positions, rows } => {
                for (start, end) in frames() {
                    for row in *rows..end {
                        let Some(value) = run.value(row) else { continue };
                        while positions.pop_back_if(|older| is_overtaken(run.kept().get(*older), value)).is_some() {}
                        positions.push_back(row);
                    }
                    *rows = end;
                    while positions.pop_front_if(|older| *older < start).is_some() {}
                    results.append_option(positions.front().and_then(|&row| run.kept().get(row)));
                }
            }
            TextState::Held(..) => unreachable!("what is of all values has been computed"),
            TextState::None => return look_up(call, run, results),
        }
        Ok(())
    }
}

/// Appends for each row a value before it, or those of its frame side by side.
fn look_up(call: &OverCall, run: &TextRun<'_>, results: &mut BinaryViewBuilder) -> Result<(), Overflow> {
    match &call.function {
        OverFunction::Lag { rows } => {
            let before = (run.position..run.position + run.rows.len() as u64).map(|row| row.checked_sub(*rows));
            before.for_each(|row| results.append_option(row.and_then(|row| run.kept().get(row))));
        }
        OverFunction::Lead { rows } => {
            for (start, end) in run.bounds.frames() {
                results.append_option(if end - start > *rows { run.value(end - 1) } else { None });
            }
        }
        OverFunction::Joined { delimiter } => {
            let (mut joined, mut listed) = (Vec::new(), HashSet::new());
            let (mut bytes, allowance) = (0, Allowance::get());
            for (start, end) in run.bounds.frames() {
                joined.clear();
                listed.clear();
                let mut is_any = false;
                let values = (start..end).filter_map(|row| run.kept().get(row));
                for value in values.filter(|value| !call.is_distinct || listed.insert(*value)) {
                    is_any = true;
                    // A frame alone may be more than there is memory for.
                    if !allowance.allows(bytes + joined.len() + value.len() + delimiter.len()) {
                        return Err(Overflow);
                    }
                    joined.extend_from_slice(value);
                    joined.extend_from_slice(delimiter.as_bytes());
                }
                bytes += joined.len();
                results.append_option(is_any.then(|| &joined[..joined.len() - delimiter.len()]));
            }
        }
        other => unreachable!("{other:?} is not of text"),
    }
    Ok(())
}

/// Appends how many values of each frame are distinct, or the one that is picked, for each call.
fn of_all_values(
    calls: &[HeldCall],
    run: &TextRun<'_>,
    (values, members): (&mut HeldValues<Arc<[u8]>>, &mut Members),
    results: &mut [Results],
) {
    for frame in run.bounds.frames() {
        let (entering, leaving) = members.move_to(frame);
        for row in entering {
            if let Some(value) = if row < run.position { run.kept().get(row) } else { run.value(row) } {
                values.enter(value);
            }
        }
        for value in leaving.filter_map(|row| run.kept().get(row)) {
            values.leave(value);
        }
        for HeldCall { index, function, .. } in calls {
            let results = &mut results[*index];
            if *function == OverFunction::Count {
                results.integers().push(values.distinct() as i64);
                results.append_valid(1);
            } else {
                results.bytes().append_option(values.picked(function));
            }
        }
    }
}

fn write_values(values: &HeldValues<Arc<[u8]>>, out: &mut Writer) {
    let (values, counts) = values.in_order();
    let mut bytes = Vec::new();
    let ends = values.into_iter().map(|value| {
        bytes.extend_from_slice(value);
        bytes.len() as u64
    });
    let ends: Vec<u64> = ends.collect();
    out.list(&ends);
    out.list(&bytes);
    out.list(&counts);
}

/// Values of no more rows than so many.
fn read_values(values: &mut HeldValues<Arc<[u8]>>, rows: u64, input: &mut Reader<'_>) -> Result<(), SnapshotError> {
    let ends = input.list::<u64>("where each value ends")?;
    let bytes = input.list::<u8>("values")?;
    let counts = input.list::<u64>("how often each value comes")?;
    let are_all = ends.last().map_or(bytes.is_empty(), |end| *end == bytes.len() as u64);
    input.check(are_all && ends.is_sorted(), "the bytes of values, side by side")?;
    let mut start = 0;
    let each = ends.iter().map(|&end| &bytes[std::mem::replace(&mut start, end as usize)..end as usize]);
    let is_right = values.restore(each, &counts, rows);
    input.check(is_right, "values of rows that have come")
}

/// Appends the last value of each frame that is not NULL, and keeps the last of all with the position behind it.
fn last_values(run: &TextRun<'_>, (value, behind): (&mut Vec<u8>, &mut u64), results: &mut BinaryViewBuilder) {
    let (before, mut passed) = (*behind, run.position);
    for (start, end) in run.bounds.frames() {
        let last = (passed..end).rev().find(|&row| run.value(row).is_some());
        (*behind, passed) = (last.map_or(*behind, |row| row + 1), end);
        let last = if *behind > before { run.value(*behind - 1) } else { Some(&**value) };
        results.append_option(last.filter(|_| *behind > start));
    }
    if *behind > before {
        value.clear();
        value.extend_from_slice(run.value(*behind - 1).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_position_until_they_are_forgotten() {
        let words: Vec<Option<String>> = (0..1000).map(|row| (row % 7 > 0).then(|| "x".repeat(row % 40))).collect();
        let column: BinaryViewArray = words.iter().map(|word| word.as_ref().map(String::as_bytes)).collect();
        let mut store = TextStore::default();
        for first in (0..1000).step_by(100) {
            store.append(&column, first..first + 100);
            store.forget(first as u64);
            for (row, word) in words.iter().enumerate().skip(first).take(100) {
                assert_eq!(store.get(row as u64), word.as_ref().map(String::as_bytes));
            }
        }
        assert!(store.chunks.len() < 4);
    }
}
