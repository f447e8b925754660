//! Rows of several slices that come in no order: one loop adds each to the dense table of its slice.
//!
//! To list the rows of each slice, and to go through the lists one after the other, costs half as much again as to go through the rows once. Which slice a
//! row is of is a number, which is found from its time for many rows at once; all tables have entries for the same keys, so that the loop
//! needs no more for a row than where its table is.

use std::ops::Range;

use pelton_data::Block;
use pelton_data::abi::{SliceTable, Status};
use pelton_state::join::Lookups;
use pelton_state::kernel::{KernelError, KernelInput, Scratch};
use pelton_state::slice::{Belong, SLICES_BY_TIME_MAX, SliceRows, SliceStore};
use pelton_state::table::{IntegerMode, Table};

use super::CompiledKernel;
use super::aggregate::{Aggregation, Grouping, dense_from};
use super::call::Call;
use super::integer_keys::IntegerKeys;
use super::loops::Loop;
use crate::select::{Integers, Level, count_reached};

/// Tables take no more together than this: else the entries of one slice stay in the cache only while rows of the others do not come in between.
const TABLES_BYTES_MAX: usize = 512 << 10;

/// A byte has a bit for each slice.
const _: () = assert!(SLICES_BY_TIME_MAX <= u8::BITS as usize);

/// Slices of rows, and how rows are added to their tables.
pub(super) struct ByRow<'a> {
    slices: &'a [SliceRows],
    /// The first ticks of all slices but the first.
    bounds: [i64; SLICES_BY_TIME_MAX],
    code: &'a Loop,
    keys: (&'a Loop, Option<usize>),
}

/// Where the entries of slices are.
enum Found {
    /// For all keys between these, both inclusive, in dense tables, one for each slice.
    Between((i64, i64), [SliceTable; SLICES_BY_TIME_MAX]),
    /// There is no key that all tables have been prepared for.
    Nowhere,
    /// Where rows of one slice had better be added after those of another.
    Apart,
}

/// Whether slices with these tables have their rows added after those of each other: some find their entries by hash, or all would not be in the cache together.
fn are_apart<'a>(mut tables: impl Iterator<Item = &'a Table> + Clone) -> bool {
    let bytes: usize = tables.clone().map(Table::bytes).sum();
    bytes > TABLES_BYTES_MAX || tables.any(|table| table.integer_mode() == Some(IntegerMode::Hash))
}

impl<'a> ByRow<'a> {
    /// How rows are added one by one, where that can be done with these: all of the block's times are of one of the slices, and keys are integers.
    pub(super) fn new(
        aggregation: &'a Aggregation,
        block: &Block,
        slices: &'a [SliceRows],
        store: &SliceStore,
    ) -> Option<ByRow<'a>> {
        let Grouping::Integer { keys, column, dense: Some(dense) } = &aggregation.grouping else { return None };
        if !aggregation.others.is_empty() || !(2..=SLICES_BY_TIME_MAX).contains(&slices.len()) {
            return None;
        }
        let (time, range) = (block.time_column()?, block.time_range()?);
        let [least, largest] =
            [range.min, range.max].map(|micros| micros / time.micros_per_tick - block.time_shift_ticks());
        let mut bounds = [i64::MAX; SLICES_BY_TIME_MAX];
        let mut next = least;
        for (index, slice) in slices.iter().enumerate() {
            let Belong::Ticks(ticks) = &slice.belong else { return None };
            let follows = if index == 0 { *ticks.start() <= least } else { *ticks.start() == next };
            if !follows || slice.rows != slices[0].rows {
                return None;
            }
            bounds[index.saturating_sub(1)] = *ticks.start();
            next = ticks.end().checked_add(1)?;
        }
        if largest >= next || are_apart(slices.iter().filter_map(|slice| store.known_table(slice.slice))) {
            return None;
        }
        Some(ByRow { slices, bounds, code: &dense.of_slices, keys: (keys, *column) })
    }

    /// The numbers of the slices of the block's rows.
    fn number(&self, block: &Block, numbers: &mut Vec<u8>) {
        let Range { start, end } = self.slices[0].rows;
        numbers.resize(block.rows(), 0);
        count_reached(
            Level::best(),
            Integers::ticks(block),
            &self.bounds[..self.slices.len() - 1],
            (start, end),
            numbers,
        );
    }

    /// Adds the rows of a call, as far as all tables are dense: up to which position.
    fn run(
        &self,
        call: &Call<'_>,
        numbers: &mut Vec<u8>,
        store: &mut SliceStore,
        scratch: &mut Scratch,
    ) -> Result<usize, KernelError> {
        let bound = call.bind(self.code)?;
        if !bound.variant.all_valid {
            return Ok(0);
        }
        self.number(call.block, numbers);
        let keys = IntegerKeys::new(call, self.keys.0, self.keys.1);
        let of_rows = Numbers::new(call, numbers, self.slices.len());
        let mut position = 0;
        while position < call.count {
            match self.find(store, &of_rows) {
                Found::Apart => break,
                Found::Between((first, last), tables) => {
                    let mut frame = call.frame(&bound, position, call.count);
                    (frame.slice_numbers, frame.slice_tables) = (numbers.as_ptr(), tables.as_ptr());
                    (frame.dense_base, frame.dense_length) = (first, last.wrapping_sub(first) as u64 + 1);
                    // SAFETY: each row of the call has the number of a slice whose table has an entry, and a flag, for each key from `first` to
                    // `last`; tables stay where they are during the call.
                    let status = unsafe { call.run(self.code, &bound, &mut frame)? };
                    position = frame.position as usize;
                    if status == Status::Done {
                        break;
                    }
                    scratch.met.guards_failed += 1;
                }
                Found::Nowhere => {}
            }
            // Then one is by hash, or all have the keys of all rows that are left.
            self.prepare(&keys, &of_rows, position, store, scratch)?;
        }
        let mut tables = self.with_rows(of_rows.present).filter_map(|(_, slice)| store.known_table(slice.slice));
        scratch.met.keys = tables.find_map(Table::keys_found);
        Ok(position)
    }

    /// Finds the tables of all slices that have rows.
    fn find(&self, store: &mut SliceStore, of_rows: &Numbers<'_>) -> Found {
        let present = of_rows.present;
        for (_, slice) in self.with_rows(present) {
            store.table(slice.slice);
        }
        let known = self.with_rows(present).filter_map(|(_, slice)| store.known_table(slice.slice));
        if are_apart(known.clone()) {
            return Found::Apart;
        }
        let (mut first, mut last) = (i64::MIN, i64::MAX);
        for extent in known.map(|table| table.integer_mode().and(table.prepared_integers())) {
            let Some((from, to)) = extent else { return Found::Nowhere };
            (first, last) = (first.max(from), last.min(to));
        }
        if first > last {
            return Found::Nowhere;
        }
        let mut tables =
            [SliceTable { entries: std::ptr::null_mut(), present: std::ptr::null_mut() }; SLICES_BY_TIME_MAX];
        for (number, slice) in self.with_rows(present) {
            let table = store.table(slice.slice);
            let Some(IntegerMode::Dense { base, .. }) = table.integer_mode() else { unreachable!("it is dense") };
            tables[number] = dense_from(table, base, first);
        }
        Found::Between((first, last), tables)
    }

    /// Prepares the tables of slices for the keys of the rows from a position on.
    fn prepare(
        &self,
        keys: &IntegerKeys<'_>,
        of_rows: &Numbers<'_>,
        position: usize,
        store: &mut SliceStore,
        scratch: &mut Scratch,
    ) -> Result<(), KernelError> {
        let (minimum, maximum) = keys.extent(of_rows.call, scratch, position..of_rows.call.count)?;
        for (number, slice) in self.with_rows(of_rows.present) {
            let rows = of_rows.count(number as u8, position);
            store.table(slice.slice).prepare_integers(minimum, maximum, rows);
        }
        Ok(())
    }

    /// The slices whose bits are set, with their numbers.
    fn with_rows(&self, present: u8) -> impl Iterator<Item = (usize, &SliceRows)> + Clone {
        self.slices.iter().enumerate().filter(move |(number, _)| present >> number & 1 == 1)
    }
}

/// The numbers of the slices of a call's rows.
struct Numbers<'a> {
    call: &'a Call<'a>,
    /// From the block's row 0 on.
    numbers: &'a [u8],
    /// One bit for each number that a row has.
    present: u8,
}

impl<'a> Numbers<'a> {
    /// There are so many slices.
    fn new(call: &'a Call<'a>, numbers: &'a [u8], slices: usize) -> Numbers<'a> {
        let mut of_rows = Numbers { call, numbers, present: 0 };
        let all = u8::MAX >> (u8::BITS as usize - slices);
        // Mostly the first rows have all.
        match &call.selection {
            Some(rows) => {
                for &row in rows {
                    of_rows.present |= 1 << numbers[row as usize];
                    if of_rows.present == all {
                        break;
                    }
                }
            }
            None => {
                let has = |number: &u8| of_rows.of_range(0).contains(number);
                of_rows.present = (0..slices as u8).filter(has).fold(0, |present, number| present | 1 << number);
            }
        }
        of_rows
    }

    /// How many rows from a position on have a number.
    fn count(&self, number: u8, position: usize) -> usize {
        match &self.call.selection {
            Some(rows) => rows[position..].iter().filter(|&&row| self.numbers[row as usize] == number).count(),
            None => self.of_range(position).iter().filter(|&&other| other == number).count(),
        }
    }

    /// Where rows are a range, those from a position on.
    fn of_range(&self, position: usize) -> &[u8] {
        &self.numbers[self.call.first + position..self.call.first + self.call.count]
    }
}

impl CompiledKernel {
    /// Adds rows of slices, all of which lie in the same range, one by one, as far as that can be done: up to which row.
    ///
    /// # Errors
    /// Where an expression fails.
    pub(super) fn aggregate_by_row(
        &self,
        by_row: &ByRow<'_>,
        (block, lookups): (&Block, &Lookups),
        store: &mut SliceStore,
        scratch: &mut Scratch,
    ) -> Result<usize, KernelError> {
        let Range { start: first, end } = by_row.slices[0].rows;
        let call = self.surviving(&self.steps, KernelInput { block, first, end, mask: None }, lookups, scratch)?;
        let mut numbers = std::mem::take(&mut call.spare.borrow_mut().numbers);
        let position = if call.count > 0 { by_row.run(&call, &mut numbers, store, scratch)? } else { 0 };
        let row = if position == call.count { end } else { call.row(position) };
        call.spare.borrow_mut().numbers = numbers;
        call.end(scratch);
        Ok(row)
    }
}
