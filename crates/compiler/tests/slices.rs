//! Blocks whose rows are of several slices and come in no order: compiled code adds each row where the interpreter does, whatever keys do to the tables.

mod made;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, TimeUnit};
use datafusion_common::ScalarValue;
use datafusion_expr::Operator;
use datafusion_physical_expr::expressions::{binary, col, lit};
use pelton_compiler::{compile, entry_layout, interpret};
use pelton_data::aggregate::{Accumulate, Accumulator};
use pelton_data::{Block, TimeColumn};
use pelton_plan::pipeline::{Pipeline, Program, Step, StreamRef, Target, Window};
use pelton_state::join::Lookups;
use pelton_state::kernel::{Kernel, Scratch};
use pelton_state::slice::{Belong, SliceId, SliceRows, SliceStore};
use proptest::prelude::*;

/// Milliseconds of a slice.
const SLICE_MS: i64 = 1_000;

fn schema(nulls: bool) -> Arc<Schema> {
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, nulls),
        Field::new("v", DataType::Int64, false),
        Field::new("ts", DataType::Timestamp(TimeUnit::Millisecond, None), false),
    ]))
}

/// Some accumulators by key, of the rows whose value is larger than `above`.
fn program(used: &[Accumulate], above: Option<i64>, nulls: bool) -> Program {
    let schema = schema(nulls);
    let value = col("v", &schema).unwrap();
    let argument = |accumulate| (accumulate != Accumulate::Count).then(|| value.clone());
    let accumulator = |&accumulate| Accumulator::new(accumulate, argument(accumulate).map(|_| DataType::Int64), false);
    let window = made::aggregate(
        Window::Tumbling { size: SLICE_MS * 1_000, offset: 0 },
        vec![Arc::new(schema.field(0).clone())],
        used.iter().map(accumulator).collect(),
    );
    let arguments = used.iter().map(|&accumulate| argument(accumulate)).collect();
    let filter = |above| binary(value.clone(), Operator::Gt, lit(ScalarValue::Int64(Some(above))), &schema).unwrap();
    let steps = above.map(|above| Step::Filter(filter(above))).into_iter().collect();
    let target = Target::Groups { port: made::PORT, keys: vec![col("k", &schema).unwrap()], arguments };
    made::program(Pipeline { input: StreamRef::Source(0), input_schema: schema, steps, target }, vec![window])
}

/// Key, value, milliseconds.
type Row = (Option<i64>, i64, i64);

fn block(rows: &[Row], nulls: bool, shift_ms: i64) -> Block {
    let times = TimestampMillisecondArray::from_iter_values(rows.iter().map(|row| row.2 - shift_ms));
    let time = TimeColumn::new(2, times.data_type());
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>()),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1))),
        Arc::new(times),
    ];
    let batch = RecordBatch::try_new(schema(nulls), columns).unwrap();
    Block::new(batch, time).unwrap().shifted(shift_ms * 1_000)
}

/// The slices of a block's rows from one on, as times tell them apart: also those between them that have none.
fn slices(block: &Block, first: usize, shift_ms: i64) -> Vec<SliceRows> {
    let ticks = &block.raw_ticks().unwrap()[first..];
    let of = |tick: i64| (tick + shift_ms).div_euclid(SLICE_MS);
    let (least, largest) = (ticks.iter().copied().min().unwrap(), ticks.iter().copied().max().unwrap());
    let slice = |number: i64| {
        let (start, end) = (number * SLICE_MS, (number + 1) * SLICE_MS);
        let belong = Belong::Ticks(start - shift_ms..=end - shift_ms - 1);
        SliceRows { slice: SliceId::new(end * 1_000, start * 1_000), rows: first..block.rows(), belong }
    };
    (of(least)..=of(largest)).map(slice).collect()
}

type Groups = BTreeMap<(i64, Option<i64>), Vec<i64>>;

/// What a kernel makes of blocks: the accumulators by slice and key.
fn groups(kernel: &dyn Kernel, program: &Program, blocks: &[Block], (first, shift_ms): (usize, i64)) -> Groups {
    let layout = entry_layout(program.groups(0));
    let (mut store, mut scratch) = (SliceStore::new(layout), Scratch::default());
    for block in blocks {
        let slices = slices(block, first.min(block.rows() - 1), shift_ms);
        kernel.aggregate_slices(block, &slices, &Lookups::default(), &mut store, &mut scratch).unwrap();
    }
    let mut groups = Groups::new();
    for (id, table) in store.take_until(i64::MAX) {
        let entries = table.entry_offsets();
        let keys = table.key_array(0, &entries);
        let keys = keys.as_primitive::<Int64Type>();
        let slots = 0..table.layout().accumulators().len();
        let slots: Vec<ArrayRef> = slots.map(|slot| table.accumulator_array(slot, &entries)).collect();
        for at in 0..entries.len() {
            let key = keys.is_valid(at).then(|| keys.value(at));
            let values = slots.iter().map(|slot| slot.as_primitive::<Int64Type>().value(at)).collect();
            assert!(groups.insert((id.start / 1_000 / SLICE_MS, key), values).is_none());
        }
    }
    groups
}

/// The same, row by row.
fn expected(used: &[Accumulate], above: Option<i64>, blocks: &[Vec<Row>], first: usize) -> Groups {
    let mut groups = Groups::new();
    let rows = blocks.iter().flat_map(|rows| &rows[first.min(rows.len() - 1)..]);
    for &(key, value, time) in rows.filter(|row| above.is_none_or(|above| row.1 > above)) {
        let group = groups.entry((time.div_euclid(SLICE_MS), key));
        let of = |accumulate: &Accumulate| match accumulate {
            Accumulate::Count | Accumulate::SumInteger => 0,
            _ => i64::MAX,
        };
        let group = group.or_insert_with(|| used.iter().map(of).collect());
        for (accumulate, held) in used.iter().zip(group) {
            *held = match accumulate {
                Accumulate::Count => *held + 1,
                Accumulate::SumInteger => *held + value,
                _ => value.min(*held),
            };
        }
    }
    groups
}

/// What keys are: within bounds that move on from block to block, and now and then far away.
fn any_key() -> impl Strategy<Value = (i64, i64, u32)> {
    (prop::sample::select(vec![1_i64, 7, 100, 5_000]), prop::sample::select(vec![0_i64, 3, 400]), 0..3_u32)
}

fn any_blocks() -> impl Strategy<Value = Vec<Vec<Row>>> {
    let row = (0..1_000_i64, -3..4_i64, 0..3_500_i64, 0..2_000_u32);
    let blocks = prop::collection::vec(prop::collection::vec(row, 1..300), 1..6);
    (any_key(), blocks, any::<bool>()).prop_map(|((keys, moves, far), blocks, nulls)| {
        let of_block = |(number, rows): (i64, Vec<(i64, i64, i64, u32)>)| {
            let of_row = |(key, value, time, chance)| {
                let key = match chance {
                    0 if nulls => None,
                    1..4 if chance <= far => Some(key << 40),
                    4..8 if chance - 4 < far => Some(-5_000 - key),
                    _ => Some(key % keys + number * moves),
                };
                (key, value, time + number * 700 - 1_500)
            };
            rows.into_iter().map(of_row).collect()
        };
        (0..).zip(blocks).map(of_block).collect()
    })
}

proptest! {
    #[test]
    fn rows_of_several_slices_are_added_where_they_belong(
        blocks in any_blocks(),
        used in prop::sample::select(vec![
            vec![Accumulate::Count], vec![Accumulate::SumInteger], vec![Accumulate::Minimum],
            vec![Accumulate::SumInteger, Accumulate::Minimum, Accumulate::Count],
        ]),
        above in prop::option::of(-4..4_i64), shift_ms in prop::sample::select(vec![0_i64, 250, -4_000]), first in 0..3_usize,
    ) {
        let nulls = blocks.iter().flatten().any(|row| row.0.is_none());
        let program = program(&used, above, nulls);
        let rows: Vec<Block> = blocks.iter().map(|rows| block(rows, nulls, shift_ms)).collect();
        let expected = expected(&used, above, &blocks, first);
        let compiled = compile(&program, 0, &[]).unwrap().kernel;
        prop_assert_eq!(&groups(compiled.as_ref(), &program, &rows, (first, shift_ms)), &expected);
        let interpreted = interpret(&program, 0).unwrap();
        prop_assert_eq!(&groups(interpreted.as_ref(), &program, &rows, (first, shift_ms)), &expected);
    }
}
