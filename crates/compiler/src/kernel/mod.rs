//! The kernel that runs machine code.
//!
//! A call starts with the rows the runtime asks for and narrows them step by step: loops that keep rows, lookups. The
//! last loop changes the table or writes the output. Machine code never calls back: it leaves with a status, the driver
//! does what is rare (evaluates a failing expression for its message, widens a table) and enters again where it left.
//!
//! In reading order: [`primitive`], [`loops`], [`call`], [`look_up`] (joins), [`ahead`] (columns fetched before they are read), [`project`] (columns), [`multiply`] (columns of products), [`few`] (rows of several blocks), [`spare`] (what calls leave to the next ones), [`order`] (predicates in another order), [`aggregate`], [`integer_keys`], [`by_row`], [`by_lookup`] and [`count`] (tables).

pub(crate) mod primitive;

pub(crate) mod loops;

pub(crate) mod call;

mod look_up;

mod ahead;

mod multiply;

pub(crate) mod project;

mod by_row;

mod integer_keys;

mod few;

mod spare;

mod order;

pub(crate) mod aggregate;

pub(crate) mod by_lookup;

mod count;

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use pelton_data::Block;
use pelton_data::join::JoinKind;
use pelton_state::count::RowCounter;
use pelton_state::join::Lookups;
use pelton_state::kernel::{Kernel, KernelError, KernelInput, Scratch, Tier};
use pelton_state::profile::{Predicate, PredicateOrder, Profile};
use pelton_state::slice::{Belong, SliceRows, SliceStore};
use pelton_state::table::Table;

use crate::fold::CountedRows;
use crate::interpret::flat_map::FlatMap;
use crate::interpret::pieces::{Crossed, PieceError};
use crate::select::{Integers, Level, append_rows, refine_between, set_range};
use aggregate::Aggregation;
use by_row::ByRow;
use call::{Call, positions_between};
use few::FewRows;
use look_up::finds_in;
use loops::{Loop, Shared};
use primitive::Select;
use project::Projection;
use spare::Spare;

/// The compiled code of one pipeline.
///
/// Kernels that test the same predicates in another order, or fetch columns ahead, share all of it but that.
pub(crate) struct CompiledKernel {
    /// What its loops share.
    pub(crate) shared: Arc<Shared>,
    /// Predicates that primitives evaluate before anything else, in order.
    pub(crate) selects: Vec<Arc<Select>>,
    /// What narrows the rows further, in order.
    pub(crate) steps: Vec<Arc<CompiledStep>>,
    /// What becomes of those that are left.
    pub(crate) target: Arc<CompiledTarget>,
    /// `selects`, and those of the first of `steps` that may be tested in another order, as they were planned.
    pub(crate) predicates: Arc<[Predicate]>,
    /// The order that they are in.
    pub(crate) order: PredicateOrder,
    /// Whether loops have their columns fetched ahead.
    pub(crate) fetches_ahead: bool,
    /// The tables whose rows are all joined with each row.
    pub(crate) crossed: Arc<Crossed>,
}

/// One step of a compiled pipeline.
#[expect(clippy::large_enum_variant, reason = "made once a kernel, and not moved after")]
pub(crate) enum CompiledStep {
    /// Keeps the rows that a loop keeps.
    Keep {
        /// The loop.
        code: Loop,
        /// Foreign columns computed for it or before that are needed again.
        carried: Vec<usize>,
    },
    /// Joins each row to its matches in the table of that lookup.
    Lookup {
        /// One column for each key of the table.
        keys: Projection,
        /// Finds rows in a dense index of unique keys, where that is what the table is expected to have.
        probe: Option<Loop>,
        /// Which rows leave.
        kind: JoinKind,
        /// Loops over candidate pairs, which keep those that match.
        conditions: Vec<Loop>,
    },
    /// Joins each row to those that a table function makes of it.
    FlatMap(FlatMap),
}

/// Where a compiled pipeline ends.
#[expect(clippy::large_enum_variant, reason = "made once a kernel, and not moved after")]
pub(crate) enum CompiledTarget {
    /// In batches of rows.
    Stream {
        /// Their columns.
        projection: Projection,
        /// Their schema.
        schema: SchemaRef,
    },
    /// In a table.
    Window(Aggregation),
}

impl CompiledKernel {
    /// Sets in `mask` the bits of the rows that primitives select.
    fn select(&self, selects: &[Arc<Select>], input: KernelInput<'_>, mask: &mut Vec<u64>) {
        let KernelInput { block, first, end, mask: wanted } = input;
        set_range(mask, block.rows(), first, end);
        if let Some(wanted) = wanted {
            mask.iter_mut().zip(wanted).for_each(|(bits, wanted)| *bits &= wanted);
        }
        let level = Level::best();
        for select in selects {
            select.selector.refine(level, &**block.column(select.column), first, end, mask);
        }
    }

    /// Adds the rows that pass the selects, which are not listed.
    fn fold(&self, aggregation: &Aggregation, input: KernelInput<'_>, table: &mut Table, scratch_mask: &mut Vec<u64>) {
        let KernelInput { block, first, end, mask } = input;
        let mask = if self.selects.is_empty() {
            mask
        } else {
            self.select(&self.selects, input, scratch_mask);
            Some(scratch_mask.as_slice())
        };
        let kept = mask.map_or(CountedRows::Range(first, end), |mask| CountedRows::Masked(first, end, mask));
        match kept.count(None) {
            0 => {}
            rows if rows == end - first => aggregation.fold(block, table, CountedRows::Range(first, end)),
            _ => aggregation.fold(block, table, kept),
        }
    }

    /// Whether a loop reads columns of the block.
    fn has_loops(&self) -> bool {
        !self.steps.is_empty()
            || match self.target.as_ref() {
                CompiledTarget::Stream { projection, .. } => projection.code.is_some(),
                CompiledTarget::Window(aggregation) => !aggregation.only_folds(),
            }
    }

    /// The rows that pass the selects and `steps`.
    fn surviving<'a>(
        &'a self,
        steps: &'a [Arc<CompiledStep>],
        input: KernelInput<'a>,
        lookups: &'a Lookups,
        scratch: &mut Scratch,
    ) -> Result<Call<'a>, KernelError> {
        let (rows, spare) = (std::mem::take(&mut scratch.selection), Spare::take(scratch));
        let (over_blocks, listed) = self.selects.split_at(self.order.over_blocks);
        let mut call = if over_blocks.is_empty() {
            Call::new(&self.shared, lookups, (input, input.mask), rows, spare)
        } else {
            self.select(over_blocks, input, &mut scratch.mask);
            Call::new(&self.shared, lookups, (input, Some(&scratch.mask)), rows, spare)
        };
        listed.iter().for_each(|select| call.keep_selected(select));
        (call.fetches_ahead, call.checks_nulls) = (self.fetches_ahead, scratch.checks_nulls);
        self.narrow(&mut call, steps, scratch)?;
        Ok(call)
    }

    /// The rows of slices that pass the selects, those of one slice side by side, and where those of each end.
    fn selected_by_slice<'a>(
        &'a self,
        block: &'a Block,
        slices: &[SliceRows],
        lookups: &'a Lookups,
        scratch: &mut Scratch,
    ) -> (Call<'a>, Vec<usize>) {
        let first = slices.iter().map(|slice| slice.rows.start).min().unwrap_or(0);
        let end = slices.iter().map(|slice| slice.rows.end).max().unwrap_or(0);
        self.select(&self.selects, KernelInput { block, first, end, mask: None }, &mut scratch.mask);
        let mut rows = std::mem::take(&mut scratch.selection);
        rows.clear();
        let mut spare = Spare::take(scratch);
        let (mask, mut ends) = (&mut scratch.slice_mask, std::mem::take(&mut spare.ends));
        ends.clear();
        ends.extend(slices.iter().map(|slice| {
            belonging(slice, block, mask);
            mask.iter_mut().zip(&scratch.mask).for_each(|(bits, selected)| *bits &= selected);
            append_rows(Level::best(), mask, slice.rows.start, slice.rows.end, &mut rows);
            rows.len()
        }));
        let mut call = Call::of_rows(&self.shared, lookups, block, rows, spare);
        (call.fetches_ahead, call.checks_nulls) = (self.fetches_ahead, scratch.checks_nulls);
        (call, ends)
    }

    /// Adds the rows of a block slice by slice.
    fn aggregate_by_slice(
        &self,
        aggregation: &Aggregation,
        (block, slices): (&Block, &[SliceRows]),
        lookups: &Lookups,
        store: &mut SliceStore,
        scratch: &mut Scratch,
    ) -> Result<(), KernelError> {
        let is_listed = aggregation.by_lookup.is_none()
            && self.crossed.is_empty()
            && !(self.steps.is_empty() && aggregation.only_folds());
        let follows = |pair: &[SliceRows]| pair[0].rows.end == pair[1].rows.start;
        let are_runs = slices.iter().all(|slice| slice.belong == Belong::All) && slices.windows(2).all(follows);
        // Rows are selected and columns bound once for all slices: each has few rows where there are several.
        let (call, ends) = match slices {
            [first, .., last] if is_listed && are_runs => {
                let input = KernelInput { block, first: first.rows.start, end: last.rows.end, mask: None };
                let call = self.surviving(&self.steps, input, lookups, scratch)?;
                let ends = call.ends(slices.iter().map(|slice| slice.rows.end));
                (call, ends)
            }
            [_, _, ..] if is_listed && self.steps.is_empty() => self.selected_by_slice(block, slices, lookups, scratch),
            _ => return self.aggregate_each(block, slices, lookups, store, scratch),
        };
        if call.count > 0 {
            let arguments = aggregation.arguments(&call)?;
            let pieces = if are_runs { store.pieces(slices) } else { None };
            let in_pieces = if let Some((pieces, inner)) = pieces {
                aggregation.run_pieces(&call, &arguments, (slices, &ends, inner.clone()), pieces, scratch)?;
                inner
            } else {
                0..0
            };
            let first = if are_runs { 0 } else { largest_first(slices, |index| positions_between(&ends, index).len()) };
            let others = (0..slices.len()).filter(|&index| index != first);
            for index in std::iter::once(first).chain(others).filter(|index| !in_pieces.contains(index)) {
                let positions = positions_between(&ends, index);
                if !positions.is_empty() {
                    aggregation.run(&call, &arguments, positions, store.table(slices[index].slice), scratch)?;
                }
            }
            arguments.end(&call);
        }
        call.spare.borrow_mut().ends = ends;
        call.end(scratch);
        Ok(())
    }

    /// Adds the rows of slices, of one after the other.
    fn aggregate_each(
        &self,
        block: &Block,
        slices: &[SliceRows],
        lookups: &Lookups,
        store: &mut SliceStore,
        scratch: &mut Scratch,
    ) -> Result<(), KernelError> {
        let in_pieces = self.fold_pieces(block, slices, store);
        let others = slices.iter().enumerate().filter(|(index, _)| !in_pieces.contains(index));
        let mut mask = std::mem::take(&mut scratch.slice_mask);
        let added = others.map(|(_, slice)| slice).try_for_each(|slice| {
            let is_masked = slice.belong != Belong::All;
            if is_masked {
                belonging(slice, block, &mut mask);
            }
            let Range { start: first, end } = slice.rows;
            let input = KernelInput { block, first, end, mask: is_masked.then_some(mask.as_slice()) };
            self.aggregate(input, lookups, store.table(slice.slice), scratch)
        });
        scratch.slice_mask = mask;
        added
    }

    /// Adds the rows of small slices to pieces, where all rows count and are of one group: of which of the slices.
    fn fold_pieces(&self, block: &Block, slices: &[SliceRows], store: &mut SliceStore) -> Range<usize> {
        let CompiledTarget::Window(aggregation) = self.target.as_ref() else { return 0..0 };
        let are_all = self.steps.is_empty() && self.selects.is_empty() && aggregation.only_folds();
        if !are_all || slices.iter().any(|slice| slice.belong != Belong::All) {
            return 0..0;
        }
        let Some((pieces, inner)) = store.pieces(slices) else { return 0..0 };
        aggregation.fold_pieces(block, &slices[inner.clone()], pieces);
        inner
    }

    /// Adds the rows of a call to a table, where they do not only fold.
    fn aggregate_piece(
        &self,
        aggregation: &Aggregation,
        input: KernelInput<'_>,
        lookups: &Lookups,
        table: &mut Table,
        scratch: &mut Scratch,
    ) -> Result<(), PieceError> {
        let by_lookup = aggregation.by_lookup.as_ref();
        let by_lookup = by_lookup.and_then(|by| Some((by, by.keys(&self.shared.tables, lookups)?)));
        let by_lookup = by_lookup.filter(|(_, keys)| table.keeps_lookup_entries(keys, input.end - input.first));
        let is_left_out = by_lookup.as_ref().is_some_and(|(by, _)| by.probe_keys.is_some());
        let steps = &self.steps[..self.steps.len() - usize::from(is_left_out)];
        let call = self.surviving(steps, input, lookups, scratch).map_err(PieceError::NotTaken)?;
        match by_lookup {
            Some((by_lookup, keys)) => by_lookup.run(&call, &keys, table, scratch)?,
            None if call.count == 0 => {}
            None => {
                let arguments = aggregation.arguments(&call)?;
                aggregation.run(&call, &arguments, 0..call.count, table, scratch)?;
                arguments.end(&call);
            }
        }
        call.end(scratch);
        Ok(())
    }

    /// Keeps those of the rows of a call that pass `steps`.
    fn narrow<'a>(
        &'a self,
        call: &mut Call<'a>,
        steps: &'a [Arc<CompiledStep>],
        scratch: &mut Scratch,
    ) -> Result<(), KernelError> {
        let mut spare = std::mem::take(&mut scratch.lookup_rows);
        for step in steps {
            if call.count == 0 {
                break;
            }
            match step.as_ref() {
                CompiledStep::Keep { code, carried } => spare = call.keep(code, carried, spare)?,
                CompiledStep::FlatMap(flat_map) => spare = call.flat_map(flat_map)?,
                CompiledStep::Lookup { keys, kind, conditions, probe } => {
                    let bucket = call.bucket(call.matches.len());
                    let places = bucket.dense().zip(probe.as_ref());
                    spare = match places.filter(|(places, probe)| finds_in(probe, places)) {
                        Some((places, probe)) => call.probe(probe, places, spare)?,
                        _ => {
                            let mut columns = Vec::new();
                            keys.evaluate(call, &mut columns)?;
                            call.look_up((bucket, &columns), *kind, conditions, spare)?
                        }
                    };
                }
            }
        }
        scratch.lookup_rows = spare;
        Ok(())
    }
}

/// Sets in `mask` the bits of the rows that belong to a slice.
fn belonging(slice: &SliceRows, block: &Block, mask: &mut Vec<u64>) {
    let Range { start, end } = slice.rows;
    set_range(mask, block.rows(), start, end);
    match &slice.belong {
        Belong::All => {}
        Belong::Mask(belonging) => mask.iter_mut().zip(belonging).for_each(|(bits, belonging)| *bits &= belonging),
        Belong::Ticks(belonging) => {
            let between = (*belonging.start(), *belonging.end());
            refine_between(Level::best(), Integers::ticks(block), between, (start, end), mask);
        }
    }
}

/// Which of a block's slices is added before the others, which are added in their order: the one that has the most rows. They lie so close that memory is
/// read ahead, and the few of others are in the cache then. Rows of one slice stay in their order.
fn largest_first(slices: &[SliceRows], rows: impl Fn(usize) -> usize) -> usize {
    let largest = (0..slices.len()).max_by_key(|&index| rows(index)).unwrap_or(0);
    slices.iter().position(|slice| slice.slice == slices[largest].slice).unwrap_or(largest)
}

impl Kernel for CompiledKernel {
    fn tier(&self) -> Tier {
        Tier::Compiled
    }

    fn aggregate(
        &self,
        input: KernelInput<'_>,
        lookups: &Lookups,
        table: &mut Table,
        scratch: &mut Scratch,
    ) -> Result<(), KernelError> {
        let CompiledTarget::Window(aggregation) = self.target.as_ref() else {
            panic!("this pipeline ends in a stream")
        };
        if self.steps.is_empty() && aggregation.only_folds() && self.order.over_blocks == self.selects.len() {
            self.fold(aggregation, input, table, &mut scratch.mask);
            return Ok(());
        }
        self.crossed.for_each(input, lookups, |piece| self.aggregate_piece(aggregation, piece, lookups, table, scratch))
    }

    fn aggregate_slices(
        &self,
        block: &Block,
        slices: &[SliceRows],
        lookups: &Lookups,
        store: &mut SliceStore,
        scratch: &mut Scratch,
    ) -> Result<(), KernelError> {
        let CompiledTarget::Window(aggregation) = self.target.as_ref() else {
            panic!("this pipeline ends in a stream")
        };
        let is_plain = aggregation.by_lookup.is_none() && self.steps.is_empty();
        let Some(by_row) = is_plain.then(|| ByRow::new(aggregation, block, slices, store)).flatten() else {
            return self.aggregate_by_slice(aggregation, (block, slices), lookups, store, scratch);
        };
        let row = self.aggregate_by_row(&by_row, (block, lookups), store, scratch)?;
        let rest = slices.iter().filter(|slice| row < slice.rows.end);
        let rest = rest.map(|slice| SliceRows { rows: row..slice.rows.end, ..slice.clone() });
        let rest: Vec<SliceRows> = rest.collect();
        self.aggregate_by_slice(aggregation, (block, &rest), lookups, store, scratch)
    }

    fn count(
        &self,
        input: KernelInput<'_>,
        lookups: &Lookups,
        counter: &mut RowCounter,
        scratch: &mut Scratch,
    ) -> Result<(), KernelError> {
        let CompiledTarget::Window(aggregation) = self.target.as_ref() else {
            panic!("this pipeline ends in a stream")
        };
        self.crossed.for_each(input, lookups, |piece| {
            let call = self.surviving(&self.steps, piece, lookups, scratch).map_err(PieceError::NotTaken)?;
            if call.count > 0 {
                let arguments = aggregation.arguments(&call)?;
                aggregation.run_counted(&call, &arguments, counter, scratch)?;
                arguments.end(&call);
            }
            call.end(scratch);
            Ok(())
        })
    }

    fn emit(
        &self,
        inputs: &[KernelInput<'_>],
        lookups: &Lookups,
        output: &mut Vec<RecordBatch>,
        scratch: &mut Scratch,
    ) -> Result<(), KernelError> {
        let CompiledTarget::Stream { projection, schema } = self.target.as_ref() else {
            panic!("this pipeline ends in a window")
        };
        let columns = std::mem::take(&mut Spare::of(scratch).few);
        let mut few = FewRows::new(&self.shared.origins, projection, schema, inputs.len(), columns);
        let mut rows_made = 0;
        let mut emit = |piece: KernelInput<'_>| {
            let call = self.surviving(&self.steps, piece, lookups, scratch).map_err(PieceError::NotTaken)?;
            rows_made += call.count;
            self.crossed.check_made(rows_made, schema)?;
            if call.count > 0 && !few.take(&call) {
                few.finish(output)?;
                let mut columns = Vec::with_capacity(projection.columns.len());
                projection.evaluate(&call, &mut columns)?;
                let options = RecordBatchOptions::new().with_row_count(Some(call.count));
                let batch = RecordBatch::try_new_with_options(schema.clone(), columns, &options);
                output.push(batch.map_err(|error| KernelError::Expression(error.to_string()))?);
            }
            call.end(scratch);
            Ok(())
        };
        let emitted = inputs.iter().try_for_each(|&input| self.crossed.for_each(input, lookups, &mut emit));
        // Rows before one that fails leave all the same.
        few.finish(output)?;
        Spare::of(scratch).few = few.into_columns();
        emitted
    }

    fn predicates(&self) -> &[Predicate] {
        &self.predicates
    }

    fn order(&self) -> PredicateOrder {
        self.order.clone()
    }

    fn lists_rows(&self) -> bool {
        let is_folded = match self.target.as_ref() {
            CompiledTarget::Stream { .. } => false,
            CompiledTarget::Window(aggregation) => aggregation.only_folds(),
        };
        !self.steps.is_empty() || !is_folded
    }

    fn reordered(&self, order: &PredicateOrder) -> Option<Arc<dyn Kernel>> {
        Some(Arc::new(self.with_order(order)))
    }

    fn fetches_ahead(&self) -> bool {
        self.fetches_ahead
    }

    fn fetching(&self, ahead: bool) -> Option<Arc<dyn Kernel>> {
        let is_other = ahead != self.fetches_ahead && self.has_loops() && ahead::CAN_FETCH;
        is_other.then(|| Arc::new(CompiledKernel { fetches_ahead: ahead, ..self.with_order(&self.order) }) as _)
    }

    fn profile(&self, input: KernelInput<'_>, lookups: &Lookups, profile: &mut Profile, scratch: &mut Scratch) {
        self.count_passing(input, lookups, profile, scratch);
    }
}
