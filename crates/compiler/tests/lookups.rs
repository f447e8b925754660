//! Lookup tables are inputs of a kernel's call: one kernel takes other tables, of the shape that it was compiled for and of others.

mod made;

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use datafusion_expr::Operator;
use datafusion_physical_expr::expressions::{binary, col};
use pelton_compiler::{compile, entry_layout, interpret};
use pelton_data::Block;
use pelton_data::aggregate::Accumulator;
use pelton_data::join::JoinKind;
use pelton_plan::pipeline::{Pipeline, Program, Step, StreamRef, Target, Window};
use pelton_state::join::{Bucket, Lookups, Shape};
use pelton_state::kernel::{Kernel, KernelInput, Scratch};
use pelton_state::table::Table;

const DENSE: Shape = Shape { is_dense: true, is_unique: true, is_in_order: false };
const IN_ORDER: Shape = Shape { is_in_order: true, ..DENSE };

fn schema(names: &[&str]) -> SchemaRef {
    Arc::new(Schema::new(names.iter().map(|name| Field::new(*name, DataType::Int64, false)).collect::<Vec<_>>()))
}

fn batch(names: &[&str], columns: [Vec<i64>; 2]) -> RecordBatch {
    let columns = columns[..names.len()].iter().map(|values| Arc::new(Int64Array::from(values.clone())) as ArrayRef);
    RecordBatch::try_new(schema(names), columns.collect()).unwrap()
}

/// A table of ids and groups.
fn table(ids: &[i64], groups: &[i64]) -> Lookups {
    let rows = batch(&["id", "g"], [ids.to_vec(), groups.to_vec()]);
    Lookups::new(vec![Arc::new(Bucket::new(rows, &[0]))])
}

/// A table, its shape, and what rows with the keys 1 to 4 find there.
type Case = (Lookups, Shape, &'static [(i64, i64)]);

fn tables() -> [Case; 6] {
    let far = 1 << 40;
    let hashed = Shape { is_unique: true, ..Shape::default() };
    [
        (table(&[1, 2, 3], &[10, 20, 10]), IN_ORDER, &[(1, 10), (2, 20), (3, 10)]),
        (table(&[0, 1, 2, 3, 4], &[0, 10, 20, 30, 40]), IN_ORDER, &[(1, 10), (2, 20), (3, 30), (4, 40)]),
        (table(&[5, 4, 2], &[50, 40, 25]), DENSE, &[(2, 25), (4, 40)]),
        (table(&[3, 1, 3], &[30, 10, 31]), Shape { is_unique: false, ..DENSE }, &[(1, 10), (3, 30), (3, 31)]),
        (table(&[far, 4, -far, 1], &[0, 40, 0, 11]), hashed, &[(1, 11), (4, 40)]),
        (table(&[], &[]), hashed, &[]),
    ]
}

/// Looks groups up: each row's key and group, or the number of rows of each group.
fn program(counts: bool) -> Program {
    let (input, found) = (schema(&["k"]), schema(&["k", "g"]));
    let lookup = Step::Lookup {
        table: 0,
        keys: vec![col("k", &input).unwrap()],
        kind: JoinKind::Inner,
        conditions: Vec::new(),
        columns: vec![1],
        fields: vec![found.fields()[1].clone()],
    };
    let group = col("g", &found).unwrap();
    let pipeline =
        |target| Pipeline { input: StreamRef::Source(0), input_schema: input.clone(), steps: vec![lookup], target };
    if counts {
        let counted = vec![Accumulator::counting_rows()];
        let window = made::aggregate(Window::Global, vec![found.fields()[1].clone()], counted);
        let target = Target::Groups { port: made::PORT, keys: vec![group], arguments: vec![None] };
        return made::program(pipeline(target), vec![window]);
    }
    let target = Target::Stream { columns: vec![col("k", &found).unwrap(), group], schema: found.clone() };
    made::program(pipeline(target), Vec::new())
}

fn block() -> Block {
    Block::new(batch(&["k"], [vec![1, 2, 3, 4], Vec::new()]), None).unwrap()
}

fn pairs(columns: &[ArrayRef]) -> Vec<(i64, i64)> {
    let values = |column: usize| columns[column].as_primitive::<Int64Type>().values().to_vec();
    values(0).into_iter().zip(values(1)).collect()
}

fn emitted(kernel: &dyn Kernel, lookups: &Lookups) -> Vec<(i64, i64)> {
    let mut output = Vec::new();
    kernel.emit(&[KernelInput::all(&block())], lookups, &mut output, &mut Scratch::default()).unwrap();
    output.iter().flat_map(|batch| pairs(batch.columns())).collect()
}

#[test]
fn a_compiled_lookup_finds_rows_of_the_tables_that_it_is_given() {
    let program = program(false);
    let interpreted = interpret(&program, 0).unwrap();
    for (_, compiled_for, _) in tables() {
        let compiled = compile(&program, 0, &[compiled_for]).unwrap().kernel;
        for (lookups, shape, expected) in tables() {
            assert_eq!(lookups.shapes(), [shape]);
            assert_eq!(emitted(compiled.as_ref(), &lookups), expected, "compiled for {compiled_for:?}");
            assert_eq!(emitted(interpreted.as_ref(), &lookups), expected);
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "many rows")]
fn rows_of_tables_larger_than_the_cache_are_found() {
    let (input, found) = (schema(&["k"]), schema(&["k", "g"]));
    let mut program = program(false);
    let sum = binary(col("k", &found).unwrap(), Operator::Plus, col("g", &found).unwrap(), &found).unwrap();
    program.pipelines[0].target =
        Target::Stream { columns: vec![col("k", &found).unwrap(), sum], schema: schema(&["k", "sum"]) };
    let count = 600_000;
    let keys: Vec<i64> = (0..5_000).map(|row| row * 7_919 % (count + 9)).collect();
    let block = Block::new(RecordBatch::try_new(input, vec![Arc::new(Int64Array::from(keys.clone()))]).unwrap(), None);
    let block = block.unwrap();
    // In order, in the opposite order, and of keys that are far apart.
    let tables = [(1, IN_ORDER), (-1, DENSE), (1 << 40, Shape { is_unique: true, ..Shape::default() })];
    for (step, shape) in tables {
        let ids: Vec<i64> = (0..count).map(|row| if step < 0 { count - 1 - row } else { row * step }).collect();
        let lookups = table(&ids, &ids.iter().map(|id| id + 1).collect::<Vec<_>>());
        assert_eq!(lookups.shapes(), [shape]);
        let expected = keys.iter().filter(|&&key| key < count && (step < 2 || key == 0)).map(|key| (*key, 2 * key + 1));
        let expected: Vec<(i64, i64)> = expected.collect();
        for kernel in [compile(&program, 0, &[shape]).unwrap().kernel, interpret(&program, 0).unwrap()] {
            let mut output = Vec::new();
            kernel.emit(&[KernelInput::all(&block)], &lookups, &mut output, &mut Scratch::default()).unwrap();
            assert_eq!(output.iter().flat_map(|batch| pairs(batch.columns())).collect::<Vec<_>>(), expected);
        }
    }
}

#[test]
fn rows_are_grouped_by_the_table_that_a_call_is_given() {
    let program = program(true);
    for (_, compiled_for, _) in tables() {
        let compiled = compile(&program, 0, &[compiled_for]).unwrap().kernel;
        // All calls share one table of groups, which knows entries of looked-up rows from calls with other tables.
        let (mut groups, mut scratch) = (Table::new(entry_layout(program.groups(0))), Scratch::default());
        let mut expected = std::collections::BTreeMap::new();
        for (lookups, _, found) in tables().into_iter().chain(tables()) {
            compiled.aggregate(KernelInput::all(&block()), &lookups, &mut groups, &mut scratch).unwrap();
            found.iter().for_each(|&(_, group)| *expected.entry(group).or_default() += 1);
            let entries = groups.entry_offsets();
            let mut counted = pairs(&[groups.key_array(0, &entries), groups.accumulator_array(0, &entries)]);
            counted.sort_unstable();
            assert_eq!(
                counted,
                expected.clone().into_iter().collect::<Vec<(i64, i64)>>(),
                "compiled for {compiled_for:?}"
            );
        }
    }
}
