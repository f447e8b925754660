//! Groups that leave the second-level cache: other loops find and change them than those of small tables, in both tiers.

mod made;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use datafusion_common::ScalarValue;
use datafusion_expr::Operator;
use datafusion_physical_expr::expressions::{binary, col, lit};
use pelton_compiler::{compile, entry_layout, interpret};
use pelton_data::Block;
use pelton_data::aggregate::{Accumulate, Accumulator};
use pelton_plan::pipeline::{Pipeline, Program, Step, StreamRef, Target, Window};
use pelton_state::join::Lookups;
use pelton_state::kernel::{Kernel, KernelInput, Scratch};
use pelton_state::table::{IntegerMode, Table};

const BLOCKS: i64 = 4;
const BLOCK_ROWS: i64 = 60_000;
/// So many that one sum each takes more than 2 MiB.
const KEYS: i64 = 300_000;

/// A key, spread over all of them, and a value of row `row`.
fn row(row: i64) -> (i64, i64) {
    (row * 7_919 % KEYS, row % 1_001 - 500)
}

/// Columns key and value; with `nulls` some of the keys are NULL.
fn blocks(nulls: bool) -> Vec<Block> {
    let schema = schema(nulls);
    let block = |block: i64| {
        let rows = || (block * BLOCK_ROWS..(block + 1) * BLOCK_ROWS).map(row);
        let keys: Int64Array = rows().map(|(key, _)| Some(key).filter(|key| !nulls || key % 10 > 0)).collect();
        let values = Int64Array::from_iter_values(rows().map(|(_, value)| value));
        let columns: Vec<ArrayRef> = vec![Arc::new(keys), Arc::new(values)];
        Block::new(RecordBatch::try_new(schema.clone(), columns).unwrap(), None).unwrap()
    };
    (0..BLOCKS).map(block).collect()
}

fn schema(nulls: bool) -> Arc<Schema> {
    Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, nulls), Field::new("v", DataType::Int64, false)]))
}

/// What there is by key.
const ALL: [Accumulate; 4] = [Accumulate::Count, Accumulate::SumInteger, Accumulate::Minimum, Accumulate::Maximum];

/// Some of these by key, of the rows whose value is larger than `above`.
fn program(used: &[Accumulate], nulls: bool, above: Option<i64>) -> Program {
    let schema = schema(nulls);
    let value = col("v", &schema).unwrap();
    let argument = |accumulate| (accumulate != Accumulate::Count).then(|| value.clone());
    let accumulator = |&accumulate| Accumulator::new(accumulate, argument(accumulate).map(|_| DataType::Int64), false);
    let window = made::aggregate(
        Window::Global,
        vec![Arc::new(schema.field(0).clone())],
        used.iter().map(accumulator).collect(),
    );
    let arguments = used.iter().map(|&accumulate| argument(accumulate)).collect();
    let target = Target::Groups { port: made::PORT, keys: vec![col("k", &schema).unwrap()], arguments };
    let filter = |above| binary(value.clone(), Operator::Gt, lit(ScalarValue::Int64(Some(above))), &schema).unwrap();
    let steps = above.map(|above| Step::Filter(filter(above))).into_iter().collect();
    let pipeline = Pipeline { input: StreamRef::Source(0), input_schema: schema, steps, target };
    made::program(pipeline, vec![window])
}

type Groups = BTreeMap<Option<i64>, Vec<i64>>;

/// The groups after all blocks, each cut in two calls: the accumulators by key.
fn groups(kernel: &Arc<dyn Kernel>, program: &Program, nulls: bool) -> Groups {
    let mut table = Table::new(entry_layout(program.groups(0)));
    add(kernel, &blocks(nulls), &mut table);
    assert!(matches!(table.integer_mode(), Some(IntegerMode::Dense { .. })) && table.call_rows() < usize::MAX);
    read(&table)
}

fn add(kernel: &Arc<dyn Kernel>, blocks: &[Block], table: &mut Table) {
    let mut scratch = Scratch::default();
    for block in blocks {
        for (first, end) in [(0, 1_000), (1_000, block.rows())] {
            let input = KernelInput { first, end, ..KernelInput::all(block) };
            kernel.aggregate(input, &Lookups::default(), table, &mut scratch).unwrap();
        }
    }
}

fn read(table: &Table) -> Groups {
    let entries = table.entry_offsets();
    assert_eq!(entries.len(), table.groups());
    let keys = table.key_array(0, &entries);
    let keys = keys.as_primitive::<Int64Type>();
    let slots: Vec<ArrayRef> =
        (0..table.layout().accumulators().len()).map(|slot| table.accumulator_array(slot, &entries)).collect();
    let values = |at: usize| slots.iter().map(|slot| slot.as_primitive::<Int64Type>().value(at)).collect();
    (0..entries.len()).map(|at| (keys.is_valid(at).then(|| keys.value(at)), values(at))).collect()
}

fn expected(used: &[Accumulate], nulls: bool, above: Option<i64>) -> Groups {
    let mut groups = Groups::new();
    let rows = (0..BLOCKS * BLOCK_ROWS).map(row);
    for (key, value) in rows.filter(|row| above.is_none_or(|above| row.1 > above)) {
        let group = groups.entry(Some(key).filter(|key| !nulls || key % 10 > 0));
        let group = group.or_insert_with(|| vec![0, 0, i64::MAX, i64::MIN]);
        *group = vec![group[0] + 1, group[1] + value, group[2].min(value), group[3].max(value)];
    }
    let place = |one: &Accumulate| ALL.iter().position(|all| all == one).unwrap();
    groups.values_mut().for_each(|group| *group = used.iter().map(|one| group[place(one)]).collect());
    groups
}

#[test]
fn groups_of_large_tables_are_those_of_the_rows() {
    use Accumulate::{Maximum, Minimum, SumInteger};
    let some: [&[Accumulate]; 6] = [&ALL[..1], &ALL[..2], &ALL, &[SumInteger], &[Minimum, SumInteger], &[Maximum]];
    let kinds = [(false, None), (true, None), (false, Some(-300))];
    for (used, (nulls, above)) in some.into_iter().flat_map(|used| kinds.map(|kind| (used, kind))) {
        let program = program(used, nulls, above);
        let expected = expected(used, nulls, above);
        let compiled = compile(&program, 0, &[]).unwrap().kernel;
        let of = format!("{used:?}, NULLs: {nulls}, above: {above:?}");
        assert!(groups(&compiled, &program, nulls) == expected, "compiled, {of}");
        let interpreted = interpret(&program, 0).unwrap();
        assert!(groups(&interpreted, &program, nulls) == expected, "interpreted, {of}");
    }
}

#[test]
fn groups_whose_accumulators_are_as_at_first_are_groups() {
    let block = |value: &dyn Fn(i64) -> i64| {
        let keys = Int64Array::from_iter_values((0..KEYS).map(|row| 2 * row));
        let values = Int64Array::from_iter_values((0..KEYS).map(value));
        Block::new(RecordBatch::try_new(schema(false), vec![Arc::new(keys), Arc::new(values)]).unwrap(), None).unwrap()
    };
    let all_keys =
        |value: &dyn Fn(i64) -> i64| -> Groups { (0..KEYS).map(|row| (Some(2 * row), vec![value(row)])).collect() };
    let sums = program(&[Accumulate::SumInteger], false, None);
    let kernel = compile(&sums, 0, &[]).unwrap().kernel;
    let mut tables = [(); 2].map(|()| Table::new(entry_layout(sums.groups(0))));
    // Of every seventh key the sum is zero at once.
    add(&kernel, &[block(&|row| row % 7)], &mut tables[0]);
    add(&kernel, &[block(&|row| -(row % 7))], &mut tables[1]);
    assert!(read(&tables[0]) == all_keys(&|row| row % 7));
    // And of all keys, whether rows bring that about or another table.
    let [mut table, other] = tables;
    let mut cleared = table.merge(other);
    assert!(read(&table) == all_keys(&|_| 0));
    add(&kernel, &[block(&|_| 5), block(&|_| -5)], &mut table);
    assert!(read(&table) == all_keys(&|_| 0));
    cleared.clear();
    assert!(read(&cleared).is_empty());
    add(&kernel, &[block(&|_| 9)], &mut cleared);
    assert!(read(&cleared) == all_keys(&|_| 9));

    let least = program(&[Accumulate::Minimum], false, None);
    let kernel = compile(&least, 0, &[]).unwrap().kernel;
    let mut table = Table::new(entry_layout(least.groups(0)));
    add(&kernel, &[block(&|_| i64::MAX)], &mut table);
    assert!(read(&table) == all_keys(&|_| i64::MAX));
}
