//! One call of a compiled kernel: which rows are still alive, and what machine code is told about them.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::take;
use pelton_data::Block;
use pelton_data::abi::{CallFrame, ColumnPointer, OutputPointer, Status};
use pelton_data::aggregate::position;
use pelton_data::column::{Layout, align_bits, validity_ptr, values_ptr};
use pelton_state::join::{Bucket, Lookups};
use pelton_state::kernel::{KernelError, KernelInput, Scratch};
use pelton_state::table::Positions;

use super::ahead::{self, FarColumn};
use super::loops::{Loop, Shared};
use super::primitive::Select;
use super::spare::Spare;
use crate::interpret::rows::{Found, Origin, Rows};
use crate::lower::ask::FAR_BYTES_MIN;
use crate::lower::function::{Effect, Variant, column_slot};
use crate::lower::graph::{NodeId, Operation};
use crate::select::{Level, append_rows};

/// Rows of one call that are still alive.
pub(crate) struct Call<'a> {
    /// What the kernel's functions share.
    pub(crate) shared: &'a Shared,
    /// The tables of the program.
    pub(super) lookups: &'a Lookups,
    /// The block.
    pub(crate) block: &'a Block,
    /// First row, where rows are a range.
    pub(crate) first: usize,
    /// How many rows are alive.
    pub(crate) count: usize,
    /// Which, where they are not a range.
    pub(crate) selection: Option<Vec<u32>>,
    /// For each lookup and flat map done, the row that each row found.
    pub(crate) matches: Vec<Vec<u32>>,
    /// The rows of flat maps done, by the position of their matches.
    pub(super) made: Vec<(usize, Arc<[ArrayRef]>)>,
    /// Foreign columns of these rows, as far as they are computed.
    computed: RefCell<Vec<Option<ArrayRef>>>,
    /// Whether loops have their columns fetched ahead.
    pub(crate) fetches_ahead: bool,
    /// Whether loops check for NULL even where there is none.
    pub(crate) checks_nulls: bool,
    /// Whether none had to, of those that read columns which may hold a NULL.
    without_nulls: Cell<Option<bool>>,
    /// What is bound for these rows, by the address of the loop, which stays where it is.
    bound: RefCell<Vec<(*const Loop, Rc<Bound>)>>,
    /// What it leaves to the next call.
    pub(super) spare: RefCell<Box<Spare>>,
}

/// Columns that machine code reads in a call: points into the call's block and lookup tables, and into what it holds itself.
#[derive(Default)]
pub(crate) struct Bound {
    pointers: Vec<ColumnPointer>,
    matches: Vec<*const u32>,
    /// For which calls the function must be compiled.
    pub(crate) variant: Variant,
    /// Columns that were made for the call.
    held: Vec<(NodeId, ArrayRef)>,
    /// Bits that are set, for those that have more rows than blocks and tables.
    valid: Vec<Box<[u8]>>,
    /// Those that are fetched ahead.
    far: Vec<FarColumn>,
}

impl Bound {
    /// Lets go of all columns.
    pub(super) fn clear(&mut self) {
        self.pointers.clear();
        self.matches.clear();
        self.held.clear();
        self.valid.clear();
        self.far.clear();
    }
}

/// Whether what is known of something holds for all of it; nothing where nothing is.
fn all_of(known: [Option<bool>; 2]) -> Option<bool> {
    known.into_iter().flatten().min()
}

/// Stands for row 0 of a table without rows, which unmatched rows read and do not use.
static NO_ROW: [u64; 2] = [0; 2];

impl<'a> Call<'a> {
    /// The rows of a call whose bit in `mask` is set, all where there is none. `selection` is an empty buffer to list rows in, where they are not a range.
    pub(crate) fn new(
        shared: &'a Shared,
        lookups: &'a Lookups,
        (input, mask): (KernelInput<'a>, Option<&[u64]>),
        mut selection: Vec<u32>,
        mut spare: Box<Spare>,
    ) -> Call<'a> {
        let KernelInput { block, first, end, .. } = input;
        selection.clear();
        if let Some(mask) = mask {
            append_rows(Level::best(), mask, first, end, &mut selection);
        }
        // Where all rows pass, they need not be listed.
        if mask.is_none() || selection.len() == end - first {
            spare.rows = selection;
            return Call::of(shared, lookups, block, (first, end - first, None), spare);
        }
        Call::of(shared, lookups, block, (first, selection.len(), Some(selection)), spare)
    }

    /// Rows of a block in a given order.
    pub(crate) fn of_rows(
        shared: &'a Shared,
        lookups: &'a Lookups,
        block: &'a Block,
        rows: Vec<u32>,
        spare: Box<Spare>,
    ) -> Call<'a> {
        Call::of(shared, lookups, block, (0, rows.len(), Some(rows)), spare)
    }

    fn of(
        shared: &'a Shared,
        lookups: &'a Lookups,
        block: &'a Block,
        (first, count, selection): (usize, usize, Option<Vec<u32>>),
        mut spare: Box<Spare>,
    ) -> Call<'a> {
        let mut computed = std::mem::take(&mut spare.computed);
        computed.resize(shared.foreign.len(), None);
        let (computed, bound) = (RefCell::new(computed), RefCell::new(std::mem::take(&mut spare.bindings)));
        let matches = std::mem::take(&mut spare.matches);
        let spare = RefCell::new(spare);
        Call {
            shared,
            lookups,
            block,
            first,
            count,
            selection,
            matches,
            made: Vec::new(),
            computed,
            fetches_ahead: false,
            checks_nulls: false,
            without_nulls: Cell::new(None),
            bound,
            spare,
        }
    }

    /// Leaves what the next call can use.
    pub(crate) fn end(mut self, scratch: &mut Scratch) {
        self.unbind();
        let Call { selection, mut matches, computed, bound, spare, without_nulls, .. } = self;
        scratch.met.without_nulls = all_of([scratch.met.without_nulls, without_nulls.get()]);
        let mut spare = spare.into_inner();
        scratch.selection = selection.unwrap_or_else(|| std::mem::take(&mut spare.rows));
        spare.found.append(&mut matches);
        spare.matches = matches;
        spare.computed = computed.into_inner();
        spare.computed.clear();
        spare.bindings = bound.into_inner();
        scratch.of_kernels = Some(spare);
    }

    /// Forgets what is bound for other rows.
    fn unbind(&mut self) {
        self.spare.get_mut().take_back(self.bound.get_mut());
    }

    /// For each of `row_ends`, which ascend, one past the position of the last of these rows, which do as well, before that row.
    pub(crate) fn ends(&self, row_ends: impl Iterator<Item = usize>) -> Vec<usize> {
        let (mut position, mut row) = (0, self.first);
        let mut all = std::mem::take(&mut self.spare.borrow_mut().ends);
        all.clear();
        all.extend(row_ends.map(|row_end| {
            position = match &self.selection {
                None => row_end.clamp(self.first, self.first + self.count) - self.first,
                Some(selection) => {
                    let rest = &selection[position..];
                    // A row that was joined to several has as many positions.
                    let mut room = row_end.saturating_sub(row).min(rest.len());
                    while rest.get(room).is_some_and(|&row| (row as usize) < row_end) {
                        room = (2 * room).clamp(1, rest.len());
                    }
                    position + rest[..room].partition_point(|&row| (row as usize) < row_end)
                }
            };
            row = row_end;
            position
        }));
        all
    }

    /// The rows as the interpreter sees them.
    pub(crate) fn rows(&self) -> Rows<'a> {
        let matches = self.matches.iter().enumerate().map(|(lookup, rows)| (self.found(lookup), rows.clone()));
        let (origins, matches) = (&self.shared.origins, matches.collect());
        match &self.selection {
            None => Rows::of_range(self.block, origins, self.first..self.first + self.count, matches),
            Some(selection) => Rows::of_list(self.block, origins, selection.clone(), matches),
        }
    }

    /// What a lookup of the pipeline finds rows in.
    ///
    /// # Panics
    /// Where it is a flat map.
    pub(crate) fn bucket(&self, lookup: usize) -> &'a Bucket {
        self.lookups.bucket(self.shared.tables[lookup].expect("rows are looked up in a table"))
    }

    /// The rows that a lookup finds, or a flat map has made.
    fn found(&self, lookup: usize) -> Found<'a> {
        match self.made.iter().find(|(made, _)| *made == lookup) {
            Some((_, columns)) => Found::Made(columns.clone()),
            None => Found::Table(self.bucket(lookup)),
        }
    }

    /// Where the rows stand in input `input` of an aggregation.
    pub(crate) fn arrivals(&self, input: usize) -> Positions<'_> {
        let first = position(input, self.block.stamp.rows_before);
        match &self.selection {
            None => Positions::From(first + self.first as u64),
            Some(selection) => Positions::Listed(first, selection),
        }
    }

    /// The columns that a loop reads, bound when it first runs over these rows: foreign ones are evaluated for all of them.
    ///
    /// # Errors
    /// Where a foreign expression fails.
    pub(crate) fn bind(&self, code: &Loop) -> Result<Rc<Bound>, KernelError> {
        if let Some((_, bound)) = self.bound.borrow().iter().find(|(known, _)| std::ptr::eq(*known, code)) {
            return Ok(bound.clone());
        }
        let mut bound = self.spare.borrow_mut().binding();
        self.bind_columns(code, Rc::get_mut(&mut bound).expect("nobody else has a spare one"))?;
        self.bound.borrow_mut().push((std::ptr::from_ref(code), bound.clone()));
        Ok(bound)
    }

    fn bind_columns(&self, code: &Loop, bound: &mut Bound) -> Result<(), KernelError> {
        let shared = self.shared;
        let slots = shared.columns.len() + shared.foreign.len();
        let missing = ColumnPointer { values: std::ptr::null(), validity: std::ptr::null() };
        let Bound { pointers, matches, variant, held, valid, far } = bound;
        pointers.resize(slots, missing);
        let (mut all_valid, mut may_be_null) = (true, false);
        let mut rows = None;
        for &id in &code.reads {
            let (array, origin) = match shared.graph.node(id).operation {
                Operation::Foreign(index) => (Cow::Owned(self.computed(index, &mut rows)?), None),
                Operation::Column(index) => {
                    let origin = shared.origins[index];
                    may_be_null |= matches!(origin, Origin::Block(_)) && shared.columns[index].nullable;
                    (self.column(index), Some(origin))
                }
                _ => unreachable!("only columns are read"),
            };
            all_valid &= array.null_count() == 0;
            far.extend(origin.and_then(|origin| self.far_column(&**array, origin)));
            pointers[column_slot(&shared.graph, id, shared.columns.len())] = self.pointer(&**array, valid);
            if let Cow::Owned(array) = array {
                held.push((id, array));
            }
        }
        matches.extend(self.matches.iter().map(|rows| rows.as_ptr()));
        if may_be_null {
            all_valid &= !self.checks_nulls;
            self.without_nulls.set(all_of([self.without_nulls.get(), Some(all_valid)]));
        }
        *variant = Variant { all_valid, selected: self.selection.is_some(), asks: false };
        Ok(())
    }

    /// How a column is fetched ahead, where it is.
    fn far_column(&self, array: &dyn Array, origin: Origin) -> Option<FarColumn> {
        let width = Layout::of(array.data_type()).filter(|&layout| layout != Layout::Bits)?.width();
        let (is_far, lookup) = match origin {
            Origin::Block(_) => (self.fetches_ahead, None),
            Origin::Lookup { lookup, .. } => {
                let is_of_table = self.shared.tables[lookup].is_some();
                (is_of_table && array.len() * width > FAR_BYTES_MIN, Some(lookup))
            }
        };
        is_far.then(|| FarColumn { start: values_ptr(array), width, lookup })
    }

    /// A column of the block, which is shifted where machine code does not do that, or of a looked-up table.
    pub(super) fn column(&self, index: usize) -> Cow<'a, ArrayRef> {
        match self.shared.origins[index] {
            Origin::Block(column) if self.shared.columns[index].shifted => {
                Cow::Borrowed(&self.block.raw_columns()[column])
            }
            Origin::Block(column) => self.block.column(column),
            Origin::Lookup { lookup, column } => match self.found(lookup) {
                Found::Table(bucket) => Cow::Borrowed(bucket.columns().column(column)),
                Found::Made(columns) => Cow::Owned(align_bits(columns[column].clone())),
            },
        }
    }

    /// A column that a loop reads, which is bound.
    pub(crate) fn read<'b>(&'b self, bound: &'b Bound, id: NodeId) -> Cow<'b, ArrayRef> {
        if let Some((_, array)) = bound.held.iter().find(|(held, _)| *held == id) {
            return Cow::Borrowed(array);
        }
        let Operation::Column(index) = self.shared.graph.node(id).operation else {
            unreachable!("what a loop reads is a column, or held")
        };
        self.column(index)
    }

    /// The values of a foreign column for these rows, which are `rows` once somebody has asked for them.
    ///
    /// # Errors
    /// Where it has no value for a row.
    pub(crate) fn computed(&self, index: usize, rows: &mut Option<Rows<'a>>) -> Result<ArrayRef, KernelError> {
        if let Some(known) = &self.computed.borrow()[index] {
            return Ok(known.clone());
        }
        let rows = rows.get_or_insert_with(|| self.rows());
        let array = align_bits(self.shared.foreign[index].evaluate_array(rows)?);
        self.computed.borrow_mut()[index] = Some(array.clone());
        Ok(array)
    }

    /// Where machine code reads an array, which is or will be held. Bits that say that all of its values are valid go into `held`, where there are not
    /// enough of them.
    fn pointer(&self, array: &dyn Array, held: &mut Vec<Box<[u8]>>) -> ColumnPointer {
        let valid = self.lookups.valid();
        if array.is_empty() {
            return ColumnPointer { values: NO_ROW.as_ptr().cast(), validity: valid.as_ptr() };
        }
        let validity = match validity_ptr(array) {
            validity if !validity.is_null() => validity,
            _ if array.len() <= valid.len() * 8 => valid.as_ptr(),
            _ => {
                held.push(vec![u8::MAX; array.len().div_ceil(8)].into());
                held[held.len() - 1].as_ptr()
            }
        };
        ColumnPointer { values: values_ptr(array), validity }
    }

    /// A frame for the positions `start..end` of this call, in which nothing but the rows is set.
    pub(crate) fn frame(&self, bound: &Bound, start: usize, end: usize) -> CallFrame {
        debug_assert!(end <= self.count);
        CallFrame {
            columns: bound.pointers.as_ptr(),
            selection: self.selection.as_ref().map_or(std::ptr::null(), |selection| selection.as_ptr()),
            lookup_rows: bound.matches.as_ptr(),
            first: self.first as u64,
            count: end as u64,
            position: start as u64,
            time_shift_ticks: if self.shifts() { self.block.time_shift_ticks() } else { 0 },
            entries: std::ptr::null(),
            table: std::ptr::null_mut(),
            dense_base: 0,
            dense_length: 0,
            dense_present: std::ptr::null_mut(),
            slice_numbers: std::ptr::null(),
            slice_tables: std::ptr::null(),
            lookup_entries: std::ptr::null(),
            outputs: std::ptr::null(),
            survivors: std::ptr::null_mut(),
            survivor_count: 0,
        }
    }

    /// Whether the column that loops add the time shift to is the block's event time.
    fn shifts(&self) -> bool {
        let shifted = self.block.time_column().and_then(|time| self.shared.columns.get(time.index));
        shifted.is_some_and(|column| column.shifted)
    }

    /// Runs a loop over the frame's positions.
    ///
    /// # Errors
    /// Where a row has no value.
    ///
    /// # Safety
    /// Beyond what [`Call::frame`] sets, the frame must hold what the loop's effect uses: room for survivors or outputs up
    /// to position `count`, or a table and its entries.
    pub(crate) unsafe fn run(&self, code: &Loop, bound: &Bound, frame: &mut CallFrame) -> Result<Status, KernelError> {
        let compiled = code.code(self.shared, bound.variant);
        // SAFETY: the frame's columns, selection and lookup rows were set by `frame` and hold for the rows of this call;
        // the caller answers for the rest.
        let status = unsafe {
            if bound.far.is_empty() { compiled.run(frame) } else { ahead::run(compiled, self, &bound.far, frame) }
        };
        self.status(code, status, frame)
    }

    /// As [`Call::run`], by code that asks for the elements of later rows of their table or index, where it can.
    ///
    /// # Errors
    /// As [`Call::run`].
    ///
    /// # Safety
    /// As [`Call::run`].
    pub(crate) unsafe fn run_asking(
        &self,
        code: &Loop,
        bound: &Bound,
        frame: &mut CallFrame,
    ) -> Result<Status, KernelError> {
        if !code.effect.can_ask(&self.shared.graph) {
            // SAFETY: the caller's promise.
            return unsafe { self.run(code, bound, frame) };
        }
        let compiled = code.code(self.shared, Variant { asks: true, ..bound.variant });
        // SAFETY: as for `run`. What is read of later rows ends with the frame's.
        let status = unsafe { compiled.run(frame) };
        self.status(code, status, frame)
    }

    fn status(&self, code: &Loop, status: Status, frame: &CallFrame) -> Result<Status, KernelError> {
        match status {
            Status::RowFailed => Err(self.failure(code, frame.position as usize)),
            status => Ok(status),
        }
    }

    /// The row of the block at a position.
    pub(super) fn row(&self, position: usize) -> usize {
        self.selection.as_ref().map_or(self.first + position, |selection| selection[position] as usize)
    }

    /// Why the row at a position has no value.
    fn failure(&self, code: &Loop, position: usize) -> KernelError {
        let row = self.row(position) as u32;
        let matches = self.matches.iter().enumerate();
        let matches = matches.map(|(lookup, rows)| (self.found(lookup), vec![rows[position]])).collect();
        let mut rows = Rows::of_list(self.block, &self.shared.origins, vec![row], matches);
        let error = code.planned.iter().find_map(|planned| planned.evaluate_array(&mut rows).err());
        error.unwrap_or_else(|| panic!("compiled code failed row {row}, which evaluates"))
    }

    /// Keeps the rows that a primitive selects.
    pub(crate) fn keep_selected(&mut self, select: &Select) {
        let first = self.first as u32;
        let mut rows = self.selection.take().unwrap_or_else(|| {
            let mut rows = std::mem::take(&mut self.spare.get_mut().rows);
            rows.clear();
            rows.extend(first..first + self.count as u32);
            rows
        });
        select.selector.keep(&**self.block.column(select.column), &mut rows);
        self.count = rows.len();
        self.selection = Some(rows);
    }

    /// Keeps the rows that a loop with [`Effect::Keep`] keeps, and of what is computed already the foreign columns `carried`.
    ///
    /// # Errors
    /// Where a row has no value.
    pub(crate) fn keep(
        &mut self,
        code: &Loop,
        carried: &[usize],
        mut survivors: Vec<u32>,
    ) -> Result<Vec<u32>, KernelError> {
        self.list_kept(code, &mut survivors)?;
        let Effect::Keep { by_position, .. } = code.effect else { unreachable!("the loop keeps rows") };
        let computed = self.carry(carried, &survivors);
        let spare = self.replace_rows(survivors, by_position);
        self.computed = RefCell::new(computed);
        Ok(spare)
    }

    /// Lists the rows that a loop with [`Effect::Keep`] keeps, by number or position.
    pub(super) fn list_kept(&self, code: &Loop, kept: &mut Vec<u32>) -> Result<(), KernelError> {
        let bound = self.bind(code)?;
        kept.clear();
        kept.reserve(self.count);
        let mut frame = self.frame(&bound, 0, self.count);
        frame.survivors = kept.as_mut_ptr();
        // SAFETY: there is room for as many survivors as there are positions.
        unsafe { self.run(code, &bound, &mut frame)? };
        // SAFETY: the loop wrote this many, at most `count`.
        unsafe { kept.set_len(frame.survivor_count as usize) };
        Ok(())
    }

    /// The foreign columns `carried`, as far as they are computed, at some positions.
    fn carry(&self, carried: &[usize], positions: &[u32]) -> Vec<Option<ArrayRef>> {
        let mut kept = vec![None; self.shared.foreign.len()];
        if carried.is_empty() {
            return kept;
        }
        let computed = self.computed.borrow();
        if positions.len() == self.count {
            carried.iter().for_each(|&index| kept[index] = computed[index].clone());
            return kept;
        }
        let positions = UInt32Array::from(positions.to_vec());
        for &index in carried {
            let at_positions =
                |array: &ArrayRef| take(array, &positions, None).expect("positions are those of the rows");
            kept[index] = computed[index].as_ref().map(at_positions);
        }
        kept
    }

    /// Keeps the rows listed by number, or by position. Returns a buffer that is no longer needed.
    pub(super) fn replace_rows(&mut self, survivors: Vec<u32>, by_position: bool) -> Vec<u32> {
        if by_position {
            return self.keep_positions(survivors);
        }
        self.computed.get_mut().fill(None);
        self.unbind();
        if survivors.len() == self.count {
            // All stay.
            return survivors;
        }
        self.count = survivors.len();
        self.replace_selection(survivors)
    }

    /// Keeps the rows at these positions, each as often as it is listed. Returns a buffer that is no longer needed.
    pub(crate) fn keep_positions(&mut self, mut positions: Vec<u32>) -> Vec<u32> {
        self.computed.get_mut().fill(None);
        self.unbind();
        if positions.len() == self.count && positions.iter().zip(0..).all(|(&position, at)| position == at) {
            return positions;
        }
        for matches in &mut self.matches {
            *matches = positions.iter().map(|&position| matches[position as usize]).collect();
        }
        for position in &mut positions {
            *position = match &self.selection {
                Some(selection) => selection[*position as usize],
                None => self.first as u32 + *position,
            };
        }
        self.count = positions.len();
        self.replace_selection(positions)
    }

    pub(super) fn replace_selection(&mut self, rows: Vec<u32>) -> Vec<u32> {
        self.selection.replace(rows).unwrap_or_else(|| std::mem::take(&mut self.spare.get_mut().rows))
    }
}

/// Pointers to outputs, for [`CallFrame::outputs`].
pub(crate) fn outputs<const N: usize>(pointers: [(*mut u8, *mut u8); N]) -> [OutputPointer; N] {
    pointers.map(|(values, validity)| OutputPointer { values, validity })
}

/// The positions up to the end `index` of `ends`, which [`Call::ends`] has found, from the one before it on.
pub(crate) fn positions_between(ends: &[usize], index: usize) -> Range<usize> {
    let start = if index == 0 { 0 } else { ends[index - 1] };
    start..ends[index]
}
