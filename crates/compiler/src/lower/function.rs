//! Loops over the positions of one call.

use std::collections::HashMap;
use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, BlockArg, InstBuilder, MemFlagsData, Type, Value, types};
use cranelift_frontend::FunctionBuilder;
use pelton_data::abi::{CallFrame, ColumnPointer, OutputPointer, Status};
use pelton_data::column::Layout;

use super::accumulate::Update;
use super::emit::{Columns, Emitter, column_flags, load};
use super::graph::{Graph, Machine, NodeId, Operation};
use crate::code_memory::Code;
use crate::error::CompileError;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Variant {
    /// No column that the function reads holds a NULL, except for rows of a lookup that found nothing.
    pub(crate) all_valid: bool,
    /// Rows are listed, instead of being a range.
    pub(crate) selected: bool,
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

/// How a row's entry is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// By the key's distance from the table's base. The key is never NULL.
    Dense {
        /// The key.
        key: NodeId,
        /// Bytes from entry to entry.
        stride: usize,
    },
    /// It is listed for each position.
    Listed,
    /// There is one. Its accumulators are in registers while the loop runs.
    Single,
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

impl Effect {
    /// The expressions whose values it uses.
    pub(crate) fn roots(&self) -> Vec<NodeId> {
        match self {
            Effect::Keep { predicate, .. } => vec![*predicate],
            Effect::Probe { key, .. } => vec![*key],
            Effect::Write { outputs } => outputs.iter().map(|output| output.node).collect(),
            Effect::Accumulate { place, updates } => {
                let key = if let Place::Dense { key, .. } = place { Some(*key) } else { None };
                key.into_iter().chain(updates.iter().filter_map(|update| update.argument)).collect()
            }
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

    fn source(&self, id: NodeId) -> ColumnSource {
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
        let body = builder.create_block();
        let exit = builder.create_block();
        let position = builder.append_block_param(body, types::I64);
        let state: Vec<Value> = carried
            .iter()
            .map(|&value| builder.func.dfg.value_type(value))
            .collect::<Vec<Type>>()
            .into_iter()
            .map(|register| builder.append_block_param(body, register))
            .collect();
        let exit_status = builder.append_block_param(exit, types::I64);
        let exit_position = builder.append_block_param(exit, types::I64);
        let exit_state: Vec<Value> = state
            .iter()
            .map(|&value| builder.func.dfg.value_type(value))
            .collect::<Vec<Type>>()
            .into_iter()
            .map(|register| builder.append_block_param(exit, register))
            .collect();

        let done = builder.ins().iconst(types::I64, Status::Done as i64);
        let start = function.frame_field(builder, offset_of!(CallFrame, position), types::I64);
        let any = builder.ins().icmp(IntCC::UnsignedLessThan, start, function.count);
        let enter = arguments(&[start], &carried);
        let leave = arguments(&[done, start], &carried);
        builder.ins().brif(any, body, &enter, exit, &leave);

        builder.switch_to_block(body);
        let next_state = self.row(&function, builder, position, &state, exit);
        let next = builder.ins().iadd_imm_u(position, 1);
        let more = builder.ins().icmp(IntCC::UnsignedLessThan, next, function.count);
        let again = arguments(&[next], &next_state);
        let leave = arguments(&[done, next], &next_state);
        builder.ins().brif(more, body, &again, exit, &leave);

        builder.switch_to_block(exit);
        self.store_state(&function, builder, &exit_state);
        let flags = MemFlagsData::trusted();
        builder.ins().store(flags, exit_position, function.frame, offset_of!(CallFrame, position) as i32);
        builder.ins().return_(&[exit_status]);
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
                updates.iter().map(|update| update.load(builder, table)).collect()
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
                for (update, &value) in updates.iter().zip(state) {
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
        position: Value,
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
                let number = if *by_position { position } else { columns.row };
                vec![function.list_survivor(emitter.builder, number, kept, state[0])]
            }
            Effect::Probe { key, keep_unmatched, by_position } => {
                let number = if *by_position { position } else { columns.row };
                let found = function.probe(&mut emitter, *key);
                let builder = emitter.builder;
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
                    let update = |(update, &old): (&Update, &Value)| update.apply(&mut emitter, old);
                    return updates.iter().zip(state).map(update).collect();
                }
                let entry = self.entry(function, &mut emitter, place, position, exit);
                for update in updates {
                    let old = update.load(emitter.builder, entry);
                    let new = update.apply(&mut emitter, old);
                    update.store(emitter.builder, entry, new);
                }
                Vec::new()
            }
        }
    }

    fn entry(
        &self,
        function: &Function,
        emitter: &mut Emitter<'_, '_, RowColumns<'_>>,
        place: &Place,
        position: Value,
        exit: ir::Block,
    ) -> Value {
        let Place::Dense { key, stride } = *place else {
            let builder = &mut *emitter.builder;
            let address = indexed(builder, function.entries, position, 4);
            let number = builder.ins().uload32(column_flags(), address, 0);
            return indexed(builder, function.table, number, 8);
        };
        let long = Machine::Integer { bits: 64, signed: true };
        let key = emitter.widened(key, long).value;
        let builder = &mut *emitter.builder;
        let place = builder.ins().isub(key, function.dense_base);
        let outside = builder.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, place, function.dense_length);
        leave_if(builder, outside, Status::KeyOutOfRange, position, &[], exit);
        let one = builder.ins().iconst(types::I8, 1);
        let present = builder.ins().iadd(function.dense_present, place);
        builder.ins().store(MemFlagsData::trusted(), one, present, 0);
        indexed(builder, function.table, place, stride)
    }

    fn write(
        &self,
        function: &Function,
        emitter: &mut Emitter<'_, '_, RowColumns<'_>>,
        position: Value,
        index: usize,
        output: &Written,
    ) {
        let node = self.graph.node(output.node);
        let (values, validity) = function.outputs[index];
        let long = Machine::Integer { bits: 64, signed: true };
        let flags = MemFlagsData::trusted();
        let emitted = if output.as_key { emitter.widened(output.node, long) } else { emitter.emit(output.node) };
        let width = if output.as_key { 8 } else { output_width(self.graph, output.node) };
        let address = indexed(emitter.builder, values, position, width);
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
            let address = builder.ins().iadd(validity, position);
            builder.ins().store(flags, valid, address, 0);
        }
    }
}

/// Bytes a row of an output column; booleans are a byte until they are packed.
pub(crate) fn output_width(graph: &Graph, id: NodeId) -> usize {
    Layout::of(&graph.node(id).data_type).map_or(8, Layout::width)
}

fn arguments(first: &[Value], rest: &[Value]) -> Vec<BlockArg> {
    first.iter().chain(rest).map(|&value| BlockArg::Value(value)).collect()
}

fn leave_if(
    builder: &mut FunctionBuilder<'_>,
    condition: Value,
    status: Status,
    position: Value,
    state: &[Value],
    exit: ir::Block,
) {
    let next = builder.create_block();
    let side = builder.create_block();
    builder.set_cold_block(side);
    builder.ins().brif(condition, side, &[], next, &[]);
    builder.switch_to_block(side);
    let status = builder.ins().iconst(types::I64, status as i64);
    builder.ins().jump(exit, &arguments(&[status, position], state));
    builder.switch_to_block(next);
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

/// What a function reads from its frame once.
struct Function {
    frame: Value,
    count: Value,
    first: Value,
    selection: Value,
    table: Value,
    entries: Value,
    dense_base: Value,
    dense_length: Value,
    dense_present: Value,
    survivors: Value,
    time_shift_ticks: Value,
    lookups: HashMap<usize, Value>,
    outputs: Vec<(Value, Option<Value>)>,
    columns: HashMap<NodeId, ColumnAddress>,
}

#[derive(Clone, Copy)]
struct ColumnAddress {
    values: Value,
    validity: Option<Value>,
    source: ColumnSource,
}

impl Function {
    /// Reads everything that any loop may need: what this one does not is never computed.
    fn start(recipe: &Recipe<'_>, builder: &mut FunctionBuilder<'_>) -> Function {
        let entry = builder.current_block().expect("the entry block");
        let frame = builder.block_params(entry)[0];
        let flags = MemFlagsData::trusted().with_can_move();
        let mut field = |offset: usize| builder.ins().load(types::I64, flags, frame, offset as i32);
        let all_columns = field(offset_of!(CallFrame, columns));
        let all_outputs = field(offset_of!(CallFrame, outputs));
        let lookup_rows = field(offset_of!(CallFrame, lookup_rows));
        let mut function = Function {
            frame,
            count: field(offset_of!(CallFrame, count)),
            first: field(offset_of!(CallFrame, first)),
            selection: field(offset_of!(CallFrame, selection)),
            table: field(offset_of!(CallFrame, table)),
            entries: field(offset_of!(CallFrame, entries)),
            dense_base: field(offset_of!(CallFrame, dense_base)),
            dense_length: field(offset_of!(CallFrame, dense_length)),
            dense_present: field(offset_of!(CallFrame, dense_present)),
            survivors: field(offset_of!(CallFrame, survivors)),
            time_shift_ticks: field(offset_of!(CallFrame, time_shift_ticks)),
            lookups: HashMap::new(),
            outputs: Vec::new(),
            columns: HashMap::new(),
        };
        for id in columns_read(recipe.graph, recipe.effect) {
            let at = column_slot(recipe.graph, id, recipe.columns.len()) * size_of::<ColumnPointer>();
            let mut pointer = |field: usize| builder.ins().load(types::I64, flags, all_columns, (at + field) as i32);
            let values = pointer(offset_of!(ColumnPointer, values));
            let source = recipe.source(id);
            let needs_validity = source.nullable && !recipe.variant.all_valid;
            let validity = needs_validity.then(|| pointer(offset_of!(ColumnPointer, validity)));
            function.columns.insert(id, ColumnAddress { values, validity, source });
            if let RowIndex::Lookup { lookup, .. } = source.index {
                let rows = builder.ins().load(types::I64, flags, lookup_rows, (lookup * 8) as i32);
                function.lookups.insert(lookup, rows);
            }
        }
        if let Effect::Probe { .. } = recipe.effect {
            let values = builder.ins().load(types::I64, flags, all_outputs, offset_of!(OutputPointer, values) as i32);
            function.outputs.push((values, None));
        }
        if let Effect::Write { outputs } = recipe.effect {
            for (index, output) in outputs.iter().enumerate() {
                let at = index * size_of::<OutputPointer>();
                let mut pointer =
                    |field: usize| builder.ins().load(types::I64, flags, all_outputs, (at + field) as i32);
                let values = pointer(offset_of!(OutputPointer, values));
                let nullable = !recipe.never_null(output.node);
                let validity = nullable.then(|| pointer(offset_of!(OutputPointer, validity)));
                function.outputs.push((values, validity));
            }
        }
        function
    }

    fn frame_field(&self, builder: &mut FunctionBuilder<'_>, offset: usize, register: Type) -> Value {
        builder.ins().load(register, MemFlagsData::trusted(), self.frame, offset as i32)
    }

    /// Lists a row or position where it is kept, without a branch: what is not kept is overwritten by the next.
    fn list_survivor(&self, builder: &mut FunctionBuilder<'_>, number: Value, kept: Value, count: Value) -> Value {
        let survivor = builder.ins().ireduce(types::I32, number);
        let address = indexed(builder, self.survivors, count, 4);
        builder.ins().store(MemFlagsData::trusted(), survivor, address, 0);
        let kept = builder.ins().uextend(types::I64, kept);
        builder.ins().iadd(count, kept)
    }

    /// The row of the dense index in `table` that has the key, `u32::MAX` where none has. The index is not empty.
    fn probe(&self, emitter: &mut Emitter<'_, '_, RowColumns<'_>>, key: NodeId) -> Value {
        let key = emitter.widened(key, Machine::Integer { bits: 64, signed: true });
        let builder = &mut *emitter.builder;
        let place = builder.ins().isub(key.value, self.dense_base);
        let inside = builder.ins().icmp(IntCC::UnsignedLessThan, place, self.dense_length);
        let inside = key.valid.map_or(inside, |valid| builder.ins().band(inside, valid));
        let first = builder.ins().iconst(types::I64, 0);
        let place = builder.ins().select(inside, place, first);
        let address = indexed(builder, self.table, place, 4);
        let row = builder.ins().load(types::I32, column_flags(), address, 0);
        let unmatched = builder.ins().iconst(types::I32, i64::from(u32::MAX));
        builder.ins().select(inside, row, unmatched)
    }

    /// The columns of the row at a position.
    fn row_columns<'a>(
        &'a self,
        recipe: &'a Recipe<'_>,
        builder: &mut FunctionBuilder<'_>,
        position: Value,
    ) -> RowColumns<'a> {
        let row = if recipe.variant.selected {
            let address = indexed(builder, self.selection, position, 4);
            builder.ins().uload32(column_flags(), address, 0)
        } else {
            builder.ins().iadd(self.first, position)
        };
        let mut lookup_rows = HashMap::new();
        for (&lookup, &rows) in &self.lookups {
            let address = indexed(builder, rows, position, 4);
            let found = builder.ins().load(types::I32, column_flags(), address, 0);
            let missing = builder.ins().icmp_imm_s(IntCC::Equal, found, -1);
            let matched = builder.ins().bxor_imm_u(missing, 1);
            let first = builder.ins().iconst(types::I32, 0);
            let safe = builder.ins().select(missing, first, found);
            let safe = builder.ins().uextend(types::I64, safe);
            let found = builder.ins().uextend(types::I64, found);
            lookup_rows.insert(lookup, LookupRow { found, safe, matched });
        }
        RowColumns { function: self, graph: recipe.graph, row, position, lookup_rows }
    }
}

/// The row of a looked-up table.
#[derive(Clone, Copy)]
struct LookupRow {
    found: Value,
    /// Row 0 where none was found.
    safe: Value,
    matched: Value,
}

struct RowColumns<'a> {
    function: &'a Function,
    graph: &'a Graph,
    row: Value,
    position: Value,
    lookup_rows: HashMap<usize, LookupRow>,
}

impl Columns for RowColumns<'_> {
    fn load(&self, builder: &mut FunctionBuilder<'_>, id: NodeId) -> (Value, Option<Value>) {
        let node = self.graph.node(id);
        let ColumnAddress { values, validity, source } = self.function.columns[&id];
        let (row, matched) = match source.index {
            RowIndex::Row => (self.row, None),
            RowIndex::Position => (self.position, None),
            RowIndex::Lookup { lookup, may_miss: false } => (self.lookup_rows[&lookup].found, None),
            RowIndex::Lookup { lookup, may_miss: true } => {
                let LookupRow { safe, matched, .. } = self.lookup_rows[&lookup];
                (safe, Some(matched))
            }
        };
        let layout = Layout::of(&node.data_type).expect("only columns that blocks hold are loaded");
        let mut value = match layout {
            Layout::Bits => load_bit(builder, values, row),
            layout => {
                let address = indexed(builder, values, row, layout.width());
                load(builder, node.machine, column_flags(), address)
            }
        };
        if source.shifted {
            value = builder.ins().iadd(value, self.function.time_shift_ticks);
        }
        let valid = validity.map(|validity| load_bit(builder, validity, row));
        let valid = match (valid, matched) {
            (Some(valid), Some(matched)) => Some(builder.ins().band(valid, matched)),
            (valid, matched) => valid.or(matched),
        };
        (value, valid)
    }
}

/// Bit `index` of a bitmap, as 0 or 1.
fn load_bit(builder: &mut FunctionBuilder<'_>, bits: Value, index: Value) -> Value {
    let byte_index = builder.ins().ushr_imm_u(index, 3);
    let address = builder.ins().iadd(bits, byte_index);
    let byte = builder.ins().uload8(types::I32, column_flags(), address, 0);
    let within = builder.ins().band_imm_u(index, 7);
    let within = builder.ins().ireduce(types::I32, within);
    let shifted = builder.ins().ushr(byte, within);
    let bit = builder.ins().band_imm_u(shifted, 1);
    builder.ins().ireduce(types::I8, bit)
}
