//! What a loop reads from its frame, once, and from columns, for each row.

use std::collections::HashMap;
use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value, types};
use cranelift_frontend::FunctionBuilder;
use pelton_data::abi::{CallFrame, ColumnPointer, OutputPointer, SliceTable};
use pelton_data::column::Layout;

use super::accumulate::seldom;
use super::emit::{Columns, Emitter, column_flags, load};
use super::function::{
    ColumnSource, Effect, LookupNumber, Number, Place, Recipe, RowIndex, column_slot, columns_read, element, indexed,
};
use super::graph::{Graph, Machine, NodeId};

/// What a function reads from its frame once.
pub(super) struct Function {
    pub(super) frame: Value,
    pub(super) count: Value,
    first: Value,
    selection: Value,
    pub(super) table: Value,
    pub(super) entries: Value,
    pub(super) dense_base: Value,
    pub(super) dense_length: Value,
    dense_present: Value,
    slice_numbers: Value,
    slice_tables: Value,
    pub(super) lookup_entries: Value,
    survivors: Value,
    time_shift_ticks: Value,
    lookups: HashMap<usize, Value>,
    pub(super) outputs: Vec<(Value, Option<Value>)>,
    columns: HashMap<NodeId, ColumnAddress>,
}

/// The dense table that a row's entry is in.
#[derive(Clone, Copy)]
pub(super) enum DenseTable {
    /// That of the call.
    Only,
    /// The one at this address of the call's slices.
    OfSlice(Value),
}

impl DenseTable {
    /// The entry of the first key.
    pub(super) fn entries(self, builder: &mut FunctionBuilder<'_>, function: &Function) -> Value {
        self.pointer(builder, function.table, offset_of!(SliceTable, entries))
    }

    /// The byte that shows that the entry of the first key is in use.
    fn present(self, builder: &mut FunctionBuilder<'_>, function: &Function) -> Value {
        self.pointer(builder, function.dense_present, offset_of!(SliceTable, present))
    }

    fn pointer(self, builder: &mut FunctionBuilder<'_>, of_call: Value, offset: usize) -> Value {
        match self {
            DenseTable::Only => of_call,
            DenseTable::OfSlice(table) => builder.ins().load(types::I64, column_flags(), table, offset as i32),
        }
    }
}

#[derive(Clone, Copy)]
struct ColumnAddress {
    values: Value,
    validity: Option<Value>,
    source: ColumnSource,
}

impl Function {
    /// Reads everything that any loop may need: what this one does not is never computed.
    pub(super) fn start(recipe: &Recipe<'_>, builder: &mut FunctionBuilder<'_>) -> Function {
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
            slice_numbers: field(offset_of!(CallFrame, slice_numbers)),
            slice_tables: field(offset_of!(CallFrame, slice_tables)),
            lookup_entries: field(offset_of!(CallFrame, lookup_entries)),
            survivors: field(offset_of!(CallFrame, survivors)),
            time_shift_ticks: field(offset_of!(CallFrame, time_shift_ticks)),
            lookups: HashMap::new(),
            outputs: Vec::new(),
            columns: HashMap::new(),
        };
        let mut lookups = Vec::new();
        if let Effect::Accumulate { place: Place::ByLookup(LookupNumber::Row { lookup, .. }), .. } = recipe.effect {
            lookups.push(*lookup);
        }
        for id in columns_read(recipe.graph, recipe.effect) {
            let at = column_slot(recipe.graph, id, recipe.columns.len()) * size_of::<ColumnPointer>();
            let mut pointer = |field: usize| builder.ins().load(types::I64, flags, all_columns, (at + field) as i32);
            let values = pointer(offset_of!(ColumnPointer, values));
            let source = recipe.source(id);
            let needs_validity = source.nullable && !recipe.variant.all_valid;
            let validity = needs_validity.then(|| pointer(offset_of!(ColumnPointer, validity)));
            function.columns.insert(id, ColumnAddress { values, validity, source });
            if let RowIndex::Lookup { lookup, .. } = source.index {
                lookups.push(lookup);
            }
        }
        for lookup in lookups {
            let rows = || builder.ins().load(types::I64, flags, lookup_rows, (lookup * 8) as i32);
            function.lookups.entry(lookup).or_insert_with(rows);
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

    pub(super) fn frame_field(&self, builder: &mut FunctionBuilder<'_>, offset: usize, register: Type) -> Value {
        builder.ins().load(register, MemFlagsData::trusted(), self.frame, offset as i32)
    }

    /// Lists a row or position where it is kept, without a branch: what is not kept is overwritten by the next.
    pub(super) fn list_survivor(
        &self,
        builder: &mut FunctionBuilder<'_>,
        number: Value,
        kept: Value,
        count: Value,
    ) -> Value {
        let survivor = builder.ins().ireduce(types::I32, number);
        let address = indexed(builder, self.survivors, count, 4);
        builder.ins().store(MemFlagsData::trusted(), survivor, address, 0);
        let kept = builder.ins().uextend(types::I64, kept);
        builder.ins().iadd(count, kept)
    }

    /// The distance of a key, which is not NULL, from the first of a dense table.
    pub(super) fn distance<C: Columns>(&self, emitter: &mut Emitter<'_, '_, C>, key: NodeId) -> Value {
        let key = emitter.widened(key, Machine::Integer { bits: 64, signed: true }).value;
        emitter.builder.ins().isub(key, self.dense_base)
    }

    /// The distance of a key from the first of a dense index, and whether the index has a place for it. The key may be NULL.
    pub(super) fn place(&self, emitter: &mut Emitter<'_, '_, RowColumns<'_>>, key: NodeId) -> (Value, Value) {
        let key = emitter.widened(key, Machine::Integer { bits: 64, signed: true });
        let builder = &mut *emitter.builder;
        let place = builder.ins().isub(key.value, self.dense_base);
        let inside = builder.ins().icmp(IntCC::UnsignedLessThan, place, self.dense_length);
        (place, key.valid.map_or(inside, |valid| builder.ins().band(inside, valid)))
    }

    /// Which table the entry of a row is in, where that is dense.
    pub(super) fn dense_table(&self, builder: &mut FunctionBuilder<'_>, place: &Place, row: Number) -> DenseTable {
        if !matches!(place, Place::Dense { of_slices: true, .. }) {
            return DenseTable::Only;
        }
        let address = element(builder, self.slice_numbers, row, 1);
        let number = builder.ins().uload8(types::I64, column_flags(), address, 0);
        DenseTable::OfSlice(indexed(builder, self.slice_tables, number, size_of::<SliceTable>()))
    }

    /// Notes in its byte that the entry of a key is in use, where the word beside does not show it by being other than at first.
    pub(super) fn note_use<C: Columns>(
        &self,
        emitter: &mut Emitter<'_, '_, C>,
        (key, table): (NodeId, DenseTable),
        shown: Option<(Value, u64)>,
    ) {
        let place = self.distance(emitter, key);
        let note = |builder: &mut FunctionBuilder<'_>| {
            let present = table.present(builder, self);
            let address = builder.ins().iadd(present, place);
            let one = builder.ins().iconst(types::I8, 1);
            builder.ins().store(MemFlagsData::trusted(), one, address, 0);
        };
        match shown {
            None => note(emitter.builder),
            Some((word, initial)) => {
                let is_as_at_first = emitter.builder.ins().icmp_imm_s(IntCC::Equal, word, initial as i64);
                seldom(emitter.builder, is_as_at_first, note);
            }
        }
    }

    /// The row that has the key, `u32::MAX` where none has: the place of the key where rows are in order, else what the dense index in `table`, which is not empty, has there.
    pub(super) fn probe(&self, emitter: &mut Emitter<'_, '_, RowColumns<'_>>, key: NodeId, is_in_order: bool) -> Value {
        let (place, inside) = self.place(emitter, key);
        let builder = &mut *emitter.builder;
        let row = if is_in_order {
            builder.ins().ireduce(types::I32, place)
        } else {
            let first = builder.ins().iconst(types::I64, 0);
            let place = builder.ins().select(inside, place, first);
            let address = indexed(builder, self.table, place, 4);
            builder.ins().load(types::I32, column_flags(), address, 0)
        };
        let unmatched = builder.ins().iconst(types::I32, i64::from(u32::MAX));
        builder.ins().select(inside, row, unmatched)
    }

    /// The columns of the row at a position.
    pub(super) fn row_columns<'a>(
        &'a self,
        recipe: &'a Recipe<'_>,
        builder: &mut FunctionBuilder<'_>,
        position: Number,
    ) -> RowColumns<'a> {
        let row = if recipe.variant.selected {
            let address = element(builder, self.selection, position, 4);
            Number::from(builder.ins().uload32(column_flags(), address, 0))
        } else {
            Number { base: builder.ins().iadd(self.first, position.base), ..position }
        };
        let mut lookup_rows = HashMap::new();
        for (&lookup, &rows) in &self.lookups {
            let address = element(builder, rows, position, 4);
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

pub(super) struct RowColumns<'a> {
    function: &'a Function,
    graph: &'a Graph,
    pub(super) row: Number,
    position: Number,
    lookup_rows: HashMap<usize, LookupRow>,
}

impl RowColumns<'_> {
    /// The number of the row that a lookup found, that after the last where it found none.
    pub(super) fn lookup_number(&self, builder: &mut FunctionBuilder<'_>, lookup: usize, may_miss: bool) -> Value {
        let LookupRow { found, matched, .. } = self.lookup_rows[&lookup];
        if !may_miss {
            return found;
        }
        builder.ins().select(matched, found, self.function.dense_length)
    }
}

impl Columns for RowColumns<'_> {
    fn load(&self, builder: &mut FunctionBuilder<'_>, id: NodeId) -> (Value, Option<Value>) {
        let node = self.graph.node(id);
        let ColumnAddress { values, validity, source } = self.function.columns[&id];
        let (row, matched) = match source.index {
            RowIndex::Row => (self.row, None),
            RowIndex::Position => (self.position, None),
            RowIndex::Lookup { lookup, may_miss: false } => (Number::from(self.lookup_rows[&lookup].found), None),
            RowIndex::Lookup { lookup, may_miss: true } => {
                let LookupRow { safe, matched, .. } = self.lookup_rows[&lookup];
                (Number::from(safe), Some(matched))
            }
        };
        let layout = Layout::of(&node.data_type).expect("only columns that blocks hold are loaded");
        let mut value = match layout {
            Layout::Bits => load_bit(builder, values, row),
            layout => {
                let address = element(builder, values, row, layout.width());
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
fn load_bit(builder: &mut FunctionBuilder<'_>, bits: Value, index: Number) -> Value {
    let index = index.value(builder);
    let byte_index = builder.ins().ushr_imm_u(index, 3);
    let address = builder.ins().iadd(bits, byte_index);
    let byte = builder.ins().uload8(types::I32, column_flags(), address, 0);
    let within = builder.ins().band_imm_u(index, 7);
    let within = builder.ins().ireduce(types::I32, within);
    let shifted = builder.ins().ushr(byte, within);
    let bit = builder.ins().band_imm_u(shifted, 1);
    builder.ins().ireduce(types::I8, bit)
}
