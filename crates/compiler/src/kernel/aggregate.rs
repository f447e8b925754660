//! Rows that are alive to the entries of a table.

use std::ops::Range;
use std::rc::Rc;

use arrow::array::{Array, ArrayRef};
use pelton_data::Block;
use pelton_data::abi::{SliceTable, Status};
use pelton_data::aggregate::{Accumulate, position};
use pelton_state::kernel::{KernelError, Scratch};
use pelton_state::slice::SliceRows;
use pelton_state::small_slices::SmallSliceWriter;
use pelton_state::table::{Entries, IntegerMode, KeyLayout, KeyRows, Positions, Table};

use super::by_lookup::ByLookup;
use super::call::{Bound, Call, positions_between};
use super::integer_keys::IntegerKeys;
use super::loops::Loop;
use super::project::{Projected, Projection};
use crate::fold::CountedRows;
use crate::interpret::aggregate::find_entries;
use crate::interpret::update::update;
use crate::lower::ask::FAR_BYTES_MIN;

/// Positions at a time where keys and entries are listed: both stay in the first-level cache.
pub(super) const BATCH: usize = 2048;

/// How a pipeline adds rows to a table.
pub(crate) struct Aggregation {
    /// Which of the window's inputs the pipeline is.
    pub(crate) input: usize,
    /// How a row's entry is found.
    pub(crate) grouping: Grouping,
    /// Changes accumulators at listed entries, or at the only one.
    pub(crate) update: Loop,
    /// What precompiled primitives do beside it for the only entry. At listed ones a loop that changes all accumulators of an entry at once is faster.
    pub(crate) folds: Vec<Fold>,
    /// Accumulators that machine code does not know, with their arguments.
    pub(crate) others: Vec<(usize, Projection)>,
    /// What is done instead, once it is worthwhile, where all keys are columns of one looked-up table.
    pub(crate) by_lookup: Option<ByLookup>,
}

/// An accumulator that takes the values of a column as they lie in the block, or counts rows.
pub(crate) struct Fold {
    /// Which accumulator.
    pub(crate) slot: usize,
    /// What it does.
    pub(crate) accumulate: Accumulate,
    /// The column; `None` counts rows.
    pub(crate) column: Option<usize>,
}

/// How entries are found.
#[expect(clippy::large_enum_variant, reason = "made once a kernel, and not moved after")]
pub(crate) enum Grouping {
    /// There is one.
    Single,
    /// By one integer that machine code computes.
    Integer {
        /// Lists the keys.
        keys: Loop,
        /// The column of 64-bit integers of the block that the key is.
        column: Option<usize>,
        /// Finds entries and changes accumulators at once, in dense tables; keys are not NULL.
        dense: Option<Dense>,
    },
    /// By columns of the pipeline.
    Columns(Vec<usize>),
    /// By computed columns.
    Computed(Projection),
}

/// Loops over rows whose entries are in dense tables.
pub(crate) struct Dense {
    /// All of one slice.
    pub(crate) of_slice: Loop,
    /// Each of its own slice.
    pub(crate) of_slices: Loop,
}

/// Arrays of all rows of a call: what machine code does not compute itself.
pub(crate) struct Arguments {
    /// Keys that entries are found by.
    keys: Vec<ArrayRef>,
    /// Of [`Aggregation::others`].
    others: Vec<ArrayRef>,
}

impl Arguments {
    /// Leaves the lists to the next call.
    pub(super) fn end(mut self, call: &Call<'_>) {
        self.keys.clear();
        self.others.clear();
        call.spare.borrow_mut().arguments = [self.keys, self.others];
    }

    pub(super) fn keys(&self) -> &[ArrayRef] {
        &self.keys
    }

    pub(super) fn others(&self) -> &[ArrayRef] {
        &self.others
    }
}

impl Aggregation {
    /// What all parts of a call need.
    ///
    /// # Errors
    /// Where an expression fails.
    pub(crate) fn arguments(&self, call: &Call<'_>) -> Result<Arguments, KernelError> {
        let [mut keys, mut others] = std::mem::take(&mut call.spare.borrow_mut().arguments);
        match &self.grouping {
            Grouping::Single | Grouping::Integer { .. } => {}
            Grouping::Columns(columns) => {
                keys.extend(columns.iter().map(|&column| call.block.column(column).into_owned()))
            }
            Grouping::Computed(projection) => projection.evaluate(call, &mut keys)?,
        }
        self.others.iter().try_for_each(|(_, projection)| projection.evaluate(call, &mut others))?;
        Ok(Arguments { keys, others })
    }

    /// Adds the rows of a call at some positions, of which there is at least one.
    ///
    /// # Errors
    /// Where an expression fails.
    pub(crate) fn run(
        &self,
        call: &Call<'_>,
        arguments: &Arguments,
        positions: Range<usize>,
        table: &mut Table,
        scratch: &mut Scratch,
    ) -> Result<(), KernelError> {
        let (Range { start, end }, others) = (positions.clone(), arguments.others.as_slice());
        match &self.grouping {
            Grouping::Single => {
                let entry = table.single_entry();
                self.run_entry(call, positions, (table, entry), others)
            }
            Grouping::Integer { keys, column, dense } => {
                let keys = IntegerKeys::new(call, keys, *column);
                let mut position = start;
                if let (Some(dense), true) = (dense, others.is_empty()) {
                    position = run_dense(call, positions, table, scratch, &keys, &dense.of_slice)?;
                }
                if position < end {
                    self.run_listed(call, position..end, table, scratch, &keys, others)?;
                }
                scratch.met.keys = table.keys_found();
                Ok(())
            }
            Grouping::Columns(_) => self.run_columns(call, (positions, rows_of(call)), table, scratch, arguments),
            Grouping::Computed(_) if matches!(table.layout().keys(), KeyLayout::Packed { .. }) => {
                self.run_columns(call, (positions, KeyRows::Range(0..call.count)), table, scratch, arguments)
            }
            Grouping::Computed(_) => {
                let keys: Vec<ArrayRef> = arguments.keys.iter().map(|keys| keys.slice(start, end - start)).collect();
                let bound = self.bind_listed(call)?;
                let entries = find_entries(table, &keys, scratch);
                self.update_others(call, table, entries, others, start, end - start);
                let Entries::Each(entries) = entries else { unreachable!("the table has keys") };
                self.update_listed(call, bound.as_deref(), table, entries, start)
            }
        }
    }

    /// Adds the rows of some of the slices, which follow each other, to pieces. `ends` says where the positions of each slice end.
    ///
    /// # Errors
    /// Where an expression fails.
    pub(crate) fn run_pieces(
        &self,
        call: &Call<'_>,
        arguments: &Arguments,
        (slices, ends, some): (&[SliceRows], &[usize], Range<usize>),
        pieces: &mut SmallSliceWriter,
        scratch: &mut Scratch,
    ) -> Result<(), KernelError> {
        if let Grouping::Single = self.grouping {
            for index in some {
                let positions = positions_between(ends, index);
                if !positions.is_empty() {
                    let entry = pieces.place_single(slices[index].slice);
                    self.run_entry(call, positions, (pieces.values(), entry), &arguments.others)?;
                }
            }
            return Ok(());
        }
        let bound = self.bind_listed(call)?;
        let mut index = some.start;
        while index < some.end {
            let (first, start) = (index, positions_between(ends, index).start);
            while index < some.end && (index == first || ends[index] - start <= BATCH) {
                index += 1;
            }
            let end = ends[index - 1];
            if start == end {
                continue;
            }
            self.find_groups(call, &arguments.keys, start..end, pieces.groups(end - start), scratch)?;
            let of_slices = (first..index).map(|slice| (slices[slice].slice, positions_between(ends, slice).len()));
            pieces.place_all(of_slices, &mut scratch.entries);
            let entries = &scratch.entries;
            self.update_others(call, pieces.values(), Entries::Each(entries), &arguments.others, start, end - start);
            self.update_listed(call, bound.as_deref(), pieces.values(), entries, start)?;
        }
        Ok(())
    }

    /// Leaves in `scratch.entries` the entries of the groups of some positions, by their keys.
    pub(super) fn find_groups(
        &self,
        call: &Call<'_>,
        keys: &[ArrayRef],
        positions: Range<usize>,
        table: &mut Table,
        scratch: &mut Scratch,
    ) -> Result<(), KernelError> {
        let rows = match &self.grouping {
            Grouping::Single => unreachable!("rows without keys are of one group"),
            Grouping::Integer { keys, column, .. } => {
                let keys = IntegerKeys::new(call, keys, *column);
                return keys.find(call, keys.bind(call)?.as_deref(), table, scratch, positions);
            }
            Grouping::Computed(_) if !matches!(table.layout().keys(), KeyLayout::Packed { .. }) => {
                let keys: Vec<ArrayRef> =
                    keys.iter().map(|keys| keys.slice(positions.start, positions.len())).collect();
                find_entries(table, &keys, scratch);
                return Ok(());
            }
            Grouping::Computed(_) => KeyRows::Range(0..call.count),
            Grouping::Columns(_) => rows_of(call),
        };
        let Scratch { entries, keys: packed, hashes, .. } = scratch;
        table.find_or_insert_columns(keys, rows.part(positions), entries, packed, hashes);
        Ok(())
    }

    /// Whether primitives over columns of the block do all there is to do, and rows need not be listed.
    pub(crate) fn only_folds(&self) -> bool {
        matches!(self.grouping, Grouping::Single) && self.others.is_empty() && self.update.effect.is_nothing()
    }

    /// Whether a loop of machine code changes accumulators at listed entries, or at the only one.
    pub(crate) fn has_loop(&self) -> bool {
        !self.update.effect.is_nothing()
    }

    /// Lets primitives change the only entry by the rows of a block that count. There is at least one.
    pub(crate) fn fold(&self, block: &Block, table: &mut Table, kept: CountedRows<'_>) {
        let entry = table.single_entry();
        self.fold_into(block, table, entry, kept);
    }

    /// As [`Aggregation::fold`], all rows of some slices, which follow each other.
    pub(crate) fn fold_pieces(&self, block: &Block, slices: &[SliceRows], pieces: &mut SmallSliceWriter) {
        for SliceRows { slice, rows, .. } in slices.iter().filter(|slice| !slice.rows.is_empty()) {
            let entry = pieces.place_single(*slice);
            self.fold_into(block, pieces.values(), entry, CountedRows::Range(rows.start, rows.end));
        }
    }

    fn fold_into(&self, block: &Block, table: &mut Table, entry: u32, kept: CountedRows<'_>) {
        let positions = Positions::From(position(self.input, block.stamp.rows_before));
        for Fold { slot, column, .. } in &self.folds {
            let column = column.map(|column| block.column(column));
            update(table, *slot, Entries::Single(entry), column.as_deref(), kept, positions);
        }
    }

    /// Adds the rows at some positions to one entry.
    fn run_entry(
        &self,
        call: &Call<'_>,
        Range { start, end }: Range<usize>,
        (table, entry): (&mut Table, u32),
        others: &[ArrayRef],
    ) -> Result<(), KernelError> {
        self.fold_into(call.block, table, entry, kept(call, start, end));
        self.update_others(call, table, Entries::Single(entry), others, start, end - start);
        if !self.has_loop() {
            return Ok(());
        }
        let bound = call.bind(&self.update)?;
        let mut frame = call.frame(&bound, start, end);
        // SAFETY: an entry of a table with the layout that the updates were planned for.
        unsafe {
            frame.table = table.base().add(entry as usize * 8);
            call.run(&self.update, &bound, &mut frame)?;
        }
        Ok(())
    }

    pub(super) fn update_others(
        &self,
        call: &Call<'_>,
        table: &mut Table,
        entries: Entries<'_>,
        arguments: &[ArrayRef],
        start: usize,
        rows: usize,
    ) {
        let positions = call.arrivals(self.input);
        for ((slot, _), argument) in self.others.iter().zip(arguments) {
            update(table, *slot, entries, Some(argument), CountedRows::Range(start, start + rows), positions);
        }
    }

    /// What the loop over listed entries reads, where there is one.
    pub(super) fn bind_listed(&self, call: &Call<'_>) -> Result<Option<Rc<Bound>>, KernelError> {
        self.has_loop().then(|| call.bind(&self.update)).transpose()
    }

    /// Changes accumulators of the entries listed for the positions from `start` on, by the loop where there is one.
    pub(super) fn update_listed(
        &self,
        call: &Call<'_>,
        bound: Option<&Bound>,
        table: &mut Table,
        entries: &[u32],
        start: usize,
    ) -> Result<(), KernelError> {
        let Some(bound) = bound else { return Ok(()) };
        let mut frame = call.frame(bound, start, start + entries.len());
        frame.entries = entries.as_ptr().wrapping_sub(start);
        frame.table = table.base();
        // SAFETY: `entries` has one entry of the table for each position from `start` on; nothing has moved them since.
        unsafe { call.run(&self.update, bound, &mut frame)? };
        Ok(())
    }

    /// Lists keys, finds their entries, and changes accumulators there, batch by batch.
    fn run_listed(
        &self,
        call: &Call<'_>,
        positions: Range<usize>,
        table: &mut Table,
        scratch: &mut Scratch,
        keys: &IntegerKeys<'_>,
        others: &[ArrayRef],
    ) -> Result<(), KernelError> {
        let (bound_keys, bound) = (keys.bind(call)?, self.bind_listed(call)?);
        for start in positions.clone().step_by(BATCH) {
            let end = (start + BATCH).min(positions.end);
            keys.find(call, bound_keys.as_deref(), table, scratch, start..end)?;
            let entries = &scratch.entries;
            self.update_others(call, table, Entries::Each(entries), others, start, end - start);
            self.update_listed(call, bound.as_deref(), table, entries, start)?;
        }
        Ok(())
    }

    /// Adds the rows at some positions, by keys that columns hold in `rows`, those of all positions.
    fn run_columns(
        &self,
        call: &Call<'_>,
        (positions, rows): (Range<usize>, KeyRows<'_>),
        table: &mut Table,
        scratch: &mut Scratch,
        Arguments { keys, others }: &Arguments,
    ) -> Result<(), KernelError> {
        let bound = self.bind_listed(call)?;
        let Scratch { entries, keys: packed, hashes, met, .. } = scratch;
        let (mut start, outside) = (positions.start, table.keys_outside());
        while start < positions.end {
            let end = positions.end.min(start.saturating_add(table.call_rows()));
            table.find_or_insert_columns(keys, rows.part(start..end), entries, packed, hashes);
            self.update_others(call, table, Entries::Each(entries), others, start, end - start);
            self.update_listed(call, bound.as_deref(), table, entries, start)?;
            start = end;
        }
        met.keys = table.keys_found().or(met.keys);
        met.guards_failed += table.keys_outside() - outside;
        Ok(())
    }
}

/// Whether a key column can be given to the table as it lies in the block.
pub(crate) fn is_block_column(projected: &Projected, block_columns: usize) -> Option<usize> {
    match projected {
        Projected::Plain(column) if *column < block_columns => Some(*column),
        _ => None,
    }
}

/// The rows of the block at all positions.
fn rows_of<'a>(call: &'a Call<'_>) -> KeyRows<'a> {
    match &call.selection {
        Some(selection) => KeyRows::Listed(selection),
        None => KeyRows::Range(call.first..call.first + call.count),
    }
}

/// The rows of the block at the positions `start..end`.
fn kept<'a>(call: &'a Call<'_>, start: usize, end: usize) -> CountedRows<'a> {
    match &call.selection {
        Some(rows) => CountedRows::Listed(&rows[start..end]),
        None => CountedRows::Range(call.first + start, call.first + end),
    }
}

/// Runs the fused loop as far as the table is dense, and says how far that was. Where rows change a byte of their entry
/// as well, the entries of a table that leaves the cache are found, and their lines fetched, before they are changed.
fn run_dense(
    call: &Call<'_>,
    Range { start, end }: Range<usize>,
    table: &mut Table,
    scratch: &mut Scratch,
    keys: &IntegerKeys<'_>,
    dense: &Loop,
) -> Result<usize, KernelError> {
    let bound = call.bind(dense)?;
    if !bound.variant.all_valid {
        return Ok(start);
    }
    let mut position = start;
    loop {
        if !dense.effect.shows_use() && table.call_rows() < end - position {
            return Ok(position);
        }
        let extent = table.prepared_integers();
        match (table.integer_mode(), extent) {
            (Some(IntegerMode::Hash), _) => return Ok(position),
            (Some(IntegerMode::Dense { base, .. }), Some((first, last))) => {
                let mut frame = call.frame(&bound, position, end);
                // The table has room for more keys than it was prepared for, and must be told before they are used.
                let from_first = dense_from(table, base, first);
                (frame.table, frame.dense_present) = (from_first.entries, from_first.present);
                (frame.dense_base, frame.dense_length) = (first, last.wrapping_sub(first) as u64 + 1);
                // SAFETY: the table is dense, with an entry and a flag for each key from `first` to `last`, and stays
                // so during the call.
                let status = unsafe {
                    match frame.dense_length as usize * table.layout().dense_stride() > FAR_BYTES_MIN {
                        true => call.run_asking(dense, &bound, &mut frame)?,
                        false => call.run(dense, &bound, &mut frame)?,
                    }
                };
                position = frame.position as usize;
                if status == Status::Done {
                    return Ok(end);
                }
                scratch.met.guards_failed += 1;
            }
            _ => {}
        }
        keys.prepare(call, table, scratch, position..end)?;
    }
}

/// Where a dense table has the entries of the keys from `first` on, where its own begin with that of `base`.
pub(super) fn dense_from(table: &mut Table, base: i64, first: i64) -> SliceTable {
    let skipped = first.wrapping_sub(base) as usize;
    let stride = table.layout().dense_stride();
    SliceTable {
        entries: table.base().wrapping_add(skipped * stride),
        present: table.dense_present().wrapping_add(skipped),
    }
}
