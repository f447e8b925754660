//! Loops over the positions of one call.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, BlockArg, InstBuilder, MemFlagsData, Type, Value, types};
use cranelift_frontend::FunctionBuilder;
use pelton_data::abi::{CallFrame, Status};
use pelton_data::aggregate::Accumulate;
use pelton_data::column::Layout;
use pelton_state::layout::UseWord;

use super::accumulate::Update;
use super::ask;
use super::emit::{Emitter, column_flags};
use super::frame::{DenseTable, Function, RowColumns};
use super::graph::{Graph, Machine, NodeId, Operation};
use crate::code_memory::Code;
use crate::error::CompileError;

/// Rows that a short loop takes in one turn.
pub(super) const ROWS_PER_TURN: i64 = 4;
/// Loops over rows that compute at most so many nodes are short.
const SHORT_NODES_MAX: usize = 8;

/// Where a pipeline's column comes from, for machine code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ColumnSource {
    /// Whether its field may be NULL.
    pub(crate) nullable: bool,
    /// By which row it is read.
    pub(crate) index: RowIndex,
    /// Whether the call's time shift is added to its values.
    pub(crate) shifted: bool,
}

/// What numbers a column's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowIndex {
    /// The row of the block.
    Row,
    /// The position within the call.
    Position,
    /// The row that lookup number `lookup` of the pipeline found.
    Lookup {
        /// Which.
        lookup: usize,
        /// Whether some rows found none.
        may_miss: bool,
    },
}

/// What a function is compiled for.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Variant {
    /// No column that the function reads holds a NULL, except for rows of a lookup that found nothing.
    pub(crate) all_valid: bool,
    /// Rows are listed, instead of being a range.
    pub(crate) selected: bool,
    /// The lines of elements are asked for some rows ahead. The effect must be one of those that can ([`Effect::can_ask`]).
    pub(crate) asks: bool,
}

/// What a function does with each row.
#[derive(Debug, Clone)]
pub(crate) enum Effect {
    /// Lists the rows for which the predicate is true.
    Keep {
        /// The predicate.
        predicate: NodeId,
        /// Whether survivors are listed by position instead of by row.
        by_position: bool,
    },
    /// Finds the row of a looked-up table by its distance from the table's base, and lists those that have one, or all.
    Probe {
        /// The key.
        key: NodeId,
        /// Whether the distance is the row. Otherwise an index has it.
        is_in_order: bool,
        /// Whether rows without a match stay.
        keep_unmatched: bool,
        /// Whether rows that stay are listed by position instead of by row.
        by_position: bool,
    },
    /// Writes values.
    Write {
        /// What, in the order of the outputs.
        outputs: Vec<Written>,
    },
    /// Changes the accumulators of the row's entry.
    Accumulate {
        /// How the entry is found.
        place: Place,
        /// What is changed.
        updates: Vec<Update>,
    },
}

/// One output of [`Effect::Write`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written {
    /// The value.
    pub(crate) node: NodeId,
    /// Whether it is widened to 64 bits, as keys of tables are.
    pub(crate) as_key: bool,
}

/// What a loop does before it looks whether rows are left.
#[derive(Debug, Clone, Copy)]
struct Turn {
    /// So many rows,
    rows: i64,
    /// and whether entries of later rows are asked for.
    asks: bool,
}

/// How a row's entry is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// By the key's distance from the table's base. The key is never NULL.
    Dense {
        /// The key.
        key: NodeId,
        /// Bytes from entry to entry.
        stride: usize,
        /// What shows that an entry is in use, beside its byte.
        use_word: Option<UseWord>,
        /// Whether each row has the table of its slice.
        of_slices: bool,
    },
    /// At the address that is known for the number of the row that was looked up.
    ByLookup(LookupNumber),
    /// It is listed for each position.
    Listed,
    /// There is one. Its accumulators are in registers while the loop runs, but for those that may not be.
    Single,
}

/// What numbers looked-up rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LookupNumber {
    /// The row that lookup number `lookup` of the pipeline found.
    Row {
        /// Which.
        lookup: usize,
        /// Whether some rows found none.
        may_miss: bool,
    },
    /// The distance of this key from the smallest of the looked-up table.
    Place(NodeId),
}

/// Everything a function is made from.
#[derive(Debug)]
pub(crate) struct Recipe<'a> {
    /// The expressions.
    pub(crate) graph: &'a Graph,
    /// Sources of the pipeline's columns.
    pub(crate) columns: &'a [ColumnSource],
    /// What happens to each row.
    pub(crate) effect: &'a Effect,
    /// For which calls.
    pub(crate) variant: Variant,
}

/// The number of a position or row: what a register holds and so many more, which addresses hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Number {
    pub(crate) base: Value,
    pub(crate) ahead: i64,
}

impl From<Value> for Number {
    fn from(base: Value) -> Number {
        Number { base, ahead: 0 }
    }
}

impl Number {
    /// It in a register.
    pub(crate) fn value(self, builder: &mut FunctionBuilder<'_>) -> Value {
        plus(builder, self.base, self.ahead)
    }
}

impl Effect {
    /// Whether rows have no effect.
    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self, Effect::Accumulate { updates, .. } if updates.is_empty())
    }

    /// Whether rows change nothing but entries of a dense table, whose own words show that they are in use.
    pub(crate) fn shows_use(&self) -> bool {
        let Effect::Accumulate { place, updates } = self else { return false };
        place.use_word().is_some_and(|word| updates.iter().any(|update| update.offset == word.offset))
    }

    /// The expressions whose values it uses.
    pub(crate) fn roots(&self) -> impl Iterator<Item = NodeId> {
        let (first, outputs, updates) = match self {
            Effect::Keep { predicate: value, .. } | Effect::Probe { key: value, .. } => {
                (Some(*value), &[][..], &[][..])
            }
            Effect::Write { outputs } => (None, outputs.as_slice(), &[][..]),
            Effect::Accumulate { place, updates } => (place.key(), &[][..], updates.as_slice()),
        };
        let outputs = outputs.iter().map(|output| output.node);
        first.into_iter().chain(outputs).chain(updates.iter().filter_map(|update| update.argument))
    }

    /// The expression of a loop that is made for one.
    pub(crate) fn root(&self) -> NodeId {
        self.roots().next().expect("the loop computes an expression")
    }
}

impl Place {
    /// What shows that an entry is in use, beside a byte of its own.
    fn use_word(&self) -> Option<UseWord> {
        if let Place::Dense { use_word, .. } = self { *use_word } else { None }
    }

    /// Whether the word that shows that an entry is in use counts its rows, and is changed so.
    fn is_counted_by(&self, update: &Update) -> bool {
        let counts_rows = update.accumulate == Accumulate::Count && update.argument.is_none();
        counts_rows && self.use_word().is_some_and(|word| word.offset == update.offset)
    }

    /// The key that the entry is found by, where the loop computes one.
    fn key(&self) -> Option<NodeId> {
        match self {
            Place::Dense { key, .. } | Place::ByLookup(LookupNumber::Place(key)) => Some(*key),
            Place::ByLookup(LookupNumber::Row { .. }) | Place::Listed | Place::Single => None,
        }
    }
}

/// The columns and foreign columns that the effect reads.
pub(crate) fn columns_read(graph: &Graph, effect: &Effect) -> Vec<NodeId> {
    let is_column = |id: &NodeId| matches!(graph.node(*id).operation, Operation::Column(_) | Operation::Foreign(_));
    graph.reachable(effect.roots()).into_iter().filter(is_column).collect()
}

/// The place of a column in [`CallFrame::columns`].
pub(crate) fn column_slot(graph: &Graph, id: NodeId, columns: usize) -> usize {
    match graph.node(id).operation {
        Operation::Column(index) => index,
        Operation::Foreign(index) => columns + index,
        _ => unreachable!("not a column"),
    }
}

impl Recipe<'_> {
    /// Compiles the function.
    ///
    /// # Errors
    /// As [`Code::compile`].
    pub(crate) fn compile(&self) -> Result<Code, CompileError> {
        Code::compile(|builder| self.build(builder))
    }

    pub(super) fn source(&self, id: NodeId) -> ColumnSource {
        match self.graph.node(id).operation {
            Operation::Column(index) => self.columns[index],
            _ => ColumnSource { nullable: true, index: RowIndex::Position, shifted: false },
        }
    }

    /// Whether a column has no NULL in calls of this variant.
    pub(crate) fn column_never_null(&self, id: NodeId) -> bool {
        let source = self.source(id);
        let may_miss = matches!(source.index, RowIndex::Lookup { may_miss: true, .. });
        !may_miss && (self.variant.all_valid || !source.nullable)
    }

    /// Whether an expression has no NULL in calls of this variant.
    pub(crate) fn never_null(&self, id: NodeId) -> bool {
        self.graph.never_null(id, &|id| self.column_never_null(id))
    }

    fn build(&self, builder: &mut FunctionBuilder<'_>) {
        let mut function = Function::start(self, builder);
        let carried = self.initial_state(&mut function, builder);
        let (exit, exit_parameters) = block(builder, &[types::I64, types::I64], &carried);
        let start = function.frame_field(builder, offset_of!(CallFrame, position), types::I64);

        let mut at = (start, carried);
        if self.variant.asks {
            self.ask_first(&function, builder, start);
            at = self.turns(&function, builder, Turn { rows: ROWS_PER_TURN, asks: true }, at, exit);
        }
        if self.is_short() {
            at = self.turns(&function, builder, Turn { rows: ROWS_PER_TURN, asks: false }, at, exit);
        }
        let (end, state) = self.turns(&function, builder, Turn { rows: 1, asks: false }, at, exit);
        let done = builder.ins().iconst(types::I64, Status::Done as i64);
        builder.ins().jump(exit, &arguments(&[done, end], &state));

        builder.switch_to_block(exit);
        self.store_state(&function, builder, &exit_parameters[2..]);
        let flags = MemFlagsData::trusted();
        builder.ins().store(flags, exit_parameters[1], function.frame, offset_of!(CallFrame, position) as i32);
        builder.ins().return_(&[exit_parameters[0]]);
    }

    /// A loop that takes a turn while there are rows for one. From the position and the state before it to those behind it.
    fn turns(
        &self,
        function: &Function,
        builder: &mut FunctionBuilder<'_>,
        Turn { rows, asks }: Turn,
        (start, carried): (Value, Vec<Value>),
        exit: ir::Block,
    ) -> (Value, Vec<Value>) {
        let (body, at) = block(builder, &[types::I64], &carried);
        let (behind, result) = block(builder, &[types::I64], &carried);
        // Below zero where a call has fewer rows than a turn.
        let last_start = builder.ins().iadd_imm_s(function.count, -(rows + if asks { ask::ROWS_AHEAD } else { 0 }));
        let any = builder.ins().icmp(IntCC::SignedLessThanOrEqual, start, last_start);
        let arguments_before = arguments(&[start], &carried);
        builder.ins().brif(any, body, &arguments_before, behind, &arguments_before);

        builder.switch_to_block(body);
        let mut state = at[1..].to_vec();
        if asks {
            self.ask(function, builder, Number { base: at[0], ahead: ask::ROWS_AHEAD });
        }
        for ahead in 0..rows {
            state = self.row(function, builder, Number { base: at[0], ahead }, &state, exit);
        }
        let next = builder.ins().iadd_imm_u(at[0], rows);
        let more = builder.ins().icmp(IntCC::SignedLessThanOrEqual, next, last_start);
        let arguments_after = arguments(&[next], &state);
        builder.ins().brif(more, body, &arguments_after, behind, &arguments_after);

        builder.switch_to_block(behind);
        (result[0], result[1..].to_vec())
    }

    /// Whether a row takes so little that what the loop itself takes shows.
    fn is_short(&self) -> bool {
        let Effect::Accumulate { place: Place::Dense { .. } | Place::ByLookup(_) | Place::Listed, .. } = self.effect
        else {
            return false;
        };
        self.graph.reachable(self.effect.roots()).len() <= SHORT_NODES_MAX
    }

    /// What the loop carries from row to row in registers.
    fn initial_state(&self, function: &mut Function, builder: &mut FunctionBuilder<'_>) -> Vec<Value> {
        match self.effect {
            Effect::Keep { .. } | Effect::Probe { .. } => {
                vec![function.frame_field(builder, offset_of!(CallFrame, survivor_count), types::I64)]
            }
            Effect::Write { .. } => Vec::new(),
            Effect::Accumulate { place: Place::Single, updates } => {
                let table = function.table;
                in_registers(updates).map(|update| update.load(builder, table)).collect()
            }
            Effect::Accumulate { .. } => Vec::new(),
        }
    }

    fn store_state(&self, function: &Function, builder: &mut FunctionBuilder<'_>, state: &[Value]) {
        match self.effect {
            Effect::Keep { .. } | Effect::Probe { .. } => {
                let offset = offset_of!(CallFrame, survivor_count) as i32;
                builder.ins().store(MemFlagsData::trusted(), state[0], function.frame, offset);
            }
            Effect::Accumulate { place: Place::Single, updates } => {
                for (update, &value) in in_registers(updates).zip(state) {
                    update.store(builder, function.table, value);
                }
            }
            Effect::Write { .. } | Effect::Accumulate { .. } => {}
        }
    }

    /// One row: its expressions, then, if none failed, its effect. Returns the carried state after it.
    fn row(
        &self,
        function: &Function,
        builder: &mut FunctionBuilder<'_>,
        position: Number,
        state: &[Value],
        exit: ir::Block,
    ) -> Vec<Value> {
        let columns = function.row_columns(self, builder, position);
        let mut emitter = Emitter::new(builder, self.graph, &columns);
        let mut failed = None;
        for root in self.effect.roots() {
            let root = emitter.emit(root);
            failed = emitter.either(failed, root.failed);
        }
        if let Some(failed) = failed {
            leave_if(emitter.builder, failed, Status::RowFailed, position, state, exit);
        }
        match self.effect {
            Effect::Keep { predicate, by_position } => {
                let truth = emitter.emit(*predicate);
                let kept = emitter.both(Some(truth.value), truth.valid).expect("has a value");
                let number = if *by_position { position } else { columns.row }.value(emitter.builder);
                vec![function.list_survivor(emitter.builder, number, kept, state[0])]
            }
            Effect::Probe { key, is_in_order, keep_unmatched, by_position } => {
                let found = function.probe(&mut emitter, *key, *is_in_order);
                let builder = emitter.builder;
                let number = if *by_position { position } else { columns.row }.value(builder);
                let address = indexed(builder, function.outputs[0].0, state[0], 4);
                builder.ins().store(MemFlagsData::trusted(), found, address, 0);
                let kept = match keep_unmatched {
                    true => builder.ins().iconst(types::I8, 1),
                    false => builder.ins().icmp_imm_s(IntCC::NotEqual, found, -1),
                };
                vec![function.list_survivor(builder, number, kept, state[0])]
            }
            Effect::Write { outputs } => {
                for (index, output) in outputs.iter().enumerate() {
                    self.write(function, &mut emitter, position, index, output);
                }
                Vec::new()
            }
            Effect::Accumulate { place, updates } => {
                if *place == Place::Single {
                    return self.change_only_entry(&mut emitter, function.table, updates, state);
                }
                let table = function.dense_table(emitter.builder, place, columns.row);
                let entry = self.entry(function, &mut emitter, (&columns, table), place, (position, exit));
                let mut shown = None;
                for update in updates {
                    let word = update.change(&mut emitter, entry);
                    shown = shown.or(word.zip(place.use_word().filter(|word| word.offset == update.offset)));
                }
                // What counts rows is never again what it was at first.
                if let Place::Dense { key, .. } = *place
                    && !updates.iter().any(|update| place.is_counted_by(update))
                {
                    let shown = shown.map(|(word, UseWord { initial, .. })| (word, initial));
                    function.note_use(&mut emitter, (key, table), shown);
                }
                Vec::new()
            }
        }
    }

    /// Changes the only entry by a row: what stands in registers, of which the new state is returned, and what does not.
    fn change_only_entry(
        &self,
        emitter: &mut Emitter<'_, '_, RowColumns<'_>>,
        entry: Value,
        updates: &[Update],
        state: &[Value],
    ) -> Vec<Value> {
        for update in updates.iter().filter(|update| !update.may_stay_in_registers()) {
            update.change(emitter, entry);
        }
        in_registers(updates).zip(state).map(|(update, &old)| update.apply(emitter, old)).collect()
    }

    fn entry(
        &self,
        function: &Function,
        emitter: &mut Emitter<'_, '_, RowColumns<'_>>,
        (columns, table): (&RowColumns<'_>, DenseTable),
        place: &Place,
        (position, exit): (Number, ir::Block),
    ) -> Value {
        match *place {
            Place::Single => unreachable!("the only entry is not looked for"),
            Place::Listed => {
                let builder = &mut *emitter.builder;
                let address = element(builder, function.entries, position, 4);
                let number = builder.ins().uload32(column_flags(), address, 0);
                indexed(builder, function.table, number, 8)
            }
            Place::ByLookup(number) => {
                let number = match number {
                    LookupNumber::Row { lookup, may_miss } => columns.lookup_number(emitter.builder, lookup, may_miss),
                    LookupNumber::Place(key) => {
                        let (place, inside) = function.place(emitter, key);
                        emitter.builder.ins().select(inside, place, function.dense_length)
                    }
                };
                let builder = &mut *emitter.builder;
                let address = indexed(builder, function.lookup_entries, number, size_of::<usize>());
                let entry = builder.ins().load(types::I64, column_flags(), address, 0);
                let unknown = builder.ins().icmp_imm_s(IntCC::Equal, entry, 0);
                leave_if(builder, unknown, Status::EntryUnknown, position, &[], exit);
                entry
            }
            Place::Dense { key, stride, .. } => {
                let place = function.distance(emitter, key);
                let builder = &mut *emitter.builder;
                let outside = builder.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, place, function.dense_length);
                leave_if(builder, outside, Status::KeyOutOfRange, position, &[], exit);
                let entries = table.entries(builder, function);
                indexed(builder, entries, place, stride)
            }
        }
    }

    fn write(
        &self,
        function: &Function,
        emitter: &mut Emitter<'_, '_, RowColumns<'_>>,
        position: Number,
        index: usize,
        output: &Written,
    ) {
        let node = self.graph.node(output.node);
        let (values, validity) = function.outputs[index];
        let long = Machine::Integer { bits: 64, signed: true };
        let flags = MemFlagsData::trusted();
        let emitted = if output.as_key { emitter.widened(output.node, long) } else { emitter.emit(output.node) };
        let width = if output.as_key { 8 } else { output_width(self.graph, output.node) };
        let address = element(emitter.builder, values, position, width);
        if width == 16 {
            let wide = match node.machine {
                Machine::Integer { .. } => emitter.builder.ins().sextend(types::I128, emitted.value),
                _ => emitted.value,
            };
            let (low, high) = emitter.builder.ins().isplit(wide);
            emitter.builder.ins().store(flags, low, address, 0);
            emitter.builder.ins().store(flags, high, address, 8);
        } else {
            emitter.builder.ins().store(flags, emitted.value, address, 0);
        }
        if let (Some(validity), false) = (validity, self.never_null(output.node)) {
            let builder = &mut *emitter.builder;
            let valid = emitted.valid.unwrap_or_else(|| builder.ins().iconst(types::I8, 1));
            let address = element(builder, validity, position, 1);
            builder.ins().store(flags, valid, address, 0);
        }
    }
}

/// Bytes a row of an output column; booleans are a byte until they are packed.
pub(crate) fn output_width(graph: &Graph, id: NodeId) -> usize {
    Layout::of(&graph.node(id).data_type).map_or(8, Layout::width)
}

/// Those whose states the loop carries from row to row.
fn in_registers(updates: &[Update]) -> impl Iterator<Item = &Update> {
    updates.iter().filter(|update| update.may_stay_in_registers())
}

/// A block with parameters of these types, and others for what a loop carries.
pub(super) fn block(builder: &mut FunctionBuilder<'_>, first: &[Type], carried: &[Value]) -> (ir::Block, Vec<Value>) {
    let block = builder.create_block();
    let carried = carried.iter().map(|&value| builder.func.dfg.value_type(value));
    let registers: Vec<Type> = first.iter().copied().chain(carried).collect();
    let parameters = registers.into_iter().map(|register| builder.append_block_param(block, register)).collect();
    (block, parameters)
}

pub(super) fn arguments(first: &[Value], rest: &[Value]) -> Vec<BlockArg> {
    first.iter().chain(rest).map(|&value| BlockArg::Value(value)).collect()
}

fn leave_if(
    builder: &mut FunctionBuilder<'_>,
    condition: Value,
    status: Status,
    position: Number,
    state: &[Value],
    exit: ir::Block,
) {
    let next = builder.create_block();
    let side = builder.create_block();
    builder.set_cold_block(side);
    builder.ins().brif(condition, side, &[], next, &[]);
    builder.switch_to_block(side);
    let status = builder.ins().iconst(types::I64, status as i64);
    let position = position.value(builder);
    builder.ins().jump(exit, &arguments(&[status, position], state));
    builder.switch_to_block(next);
}

/// A word and so many more.
pub(super) fn plus(builder: &mut FunctionBuilder<'_>, word: Value, more: i64) -> Value {
    if more == 0 { word } else { builder.ins().iadd_imm_s(word, more) }
}

/// The address of element `number` of `width` bytes.
pub(crate) fn element(builder: &mut FunctionBuilder<'_>, base: Value, number: Number, width: usize) -> Value {
    let base = plus(builder, base, number.ahead * width as i64);
    indexed(builder, base, number.base, width)
}

/// The address of element `index` of `width` bytes.
pub(crate) fn indexed(builder: &mut FunctionBuilder<'_>, base: Value, index: Value, width: usize) -> Value {
    let offset = match width {
        1 => index,
        width if width.is_power_of_two() => builder.ins().ishl_imm_u(index, i64::from(width.trailing_zeros())),
        width => builder.ins().imul_imm_u(index, width as i64),
    };
    builder.ins().iadd(base, offset)
}
