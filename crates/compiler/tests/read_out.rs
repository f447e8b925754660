//! Closed windows as rows: instants, sums and averages in the types that SQL gives them.

mod made;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, RecordBatch, UInt64Array};
use arrow::datatypes::{
    DataType, Decimal128Type, Field, Float64Type, Int64Type, Schema, TimeUnit, TimestampMillisecondType, UInt64Type,
};
use datafusion_physical_expr::expressions::col;
use pelton_compiler::{entry_layout, interpret, read_out};
use pelton_data::Block;
use pelton_data::aggregate::{Accumulate, Accumulator};
use pelton_data::window::ResultKind;
use pelton_plan::pipeline::{Pipeline, StreamRef, Target, Window, WindowAggregate, WindowColumn};
use pelton_state::join::Lookups;
use pelton_state::kernel::{KernelError, KernelInput, Scratch};
use pelton_state::table::Table;
use pelton_state::window::{ClosedGroups, ClosedWindow};

/// The sum, the count and what `columns` make of them for `values`, in a window that ends at second 20.
fn summed(
    values: ArrayRef,
    sum: Accumulate,
    window: Window,
    columns: Vec<(WindowColumn, DataType)>,
) -> Result<Option<RecordBatch>, KernelError> {
    let field = Field::new("v", values.data_type().clone(), true);
    let schema = Arc::new(Schema::new(vec![field]));
    let argument = col("v", &schema).unwrap();
    let accumulator = |accumulate| Accumulator::new(accumulate, Some(values.data_type().clone()), true);
    let fields = columns
        .iter()
        .enumerate()
        .map(|(index, (_, data_type))| Field::new(format!("o{index}"), data_type.clone(), true));
    let accumulators = vec![accumulator(sum), accumulator(Accumulate::Count)];
    let window = WindowAggregate {
        schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
        columns: columns.into_iter().map(|(column, _)| column).collect(),
        ..made::aggregate(window, Vec::new(), accumulators)
    };
    let target =
        Target::Groups { port: made::PORT, keys: Vec::new(), arguments: vec![Some(argument.clone()), Some(argument)] };
    let pipeline = Pipeline { input: StreamRef::Source(0), input_schema: schema.clone(), steps: Vec::new(), target };
    let mut table = Table::new(entry_layout(&window));
    let program = made::program(pipeline, vec![window]);
    let block = Block::new(RecordBatch::try_new(schema, vec![values]).unwrap(), None).unwrap();
    let kernel = interpret(&program, 0).unwrap();
    kernel.aggregate(KernelInput::all(&block), &Lookups::default(), &mut table, &mut Scratch::default()).unwrap();
    let entries = table.entry_offsets();
    let window = ClosedWindow { start: 10_000_000, end: 20_000_000, groups: entries.len(), kind: ResultKind::Final };
    read_out(program.groups(0), ClosedGroups { table: &table, entries: (&entries).into(), windows: &[window] })
}

const TUMBLING: Window = Window::Tumbling { size: 10_000_000, offset: 0 };
const MEAN: WindowColumn = WindowColumn::Mean { sum: 0, upper_sum: None, count: 1 };
const SUM: WindowColumn = WindowColumn::Value { accumulator: 0, count: Some(1) };
const COUNT: WindowColumn = WindowColumn::Value { accumulator: 1, count: None };

fn decimals(unscaled: &[i128], precision: u8, scale: i8) -> ArrayRef {
    let values = Decimal128Array::from(unscaled.to_vec());
    Arc::new(values.with_precision_and_scale(precision, scale).unwrap())
}

#[test]
fn an_average_of_decimals_has_four_more_places_and_is_rounded_there() {
    let mean = |values: &[i128]| {
        let columns = vec![(MEAN, DataType::Decimal128(9, 6)), (SUM, DataType::Decimal128(15, 2))];
        let rows = summed(decimals(values, 5, 2), Accumulate::SumWide, TUMBLING, columns).unwrap().unwrap();
        assert_eq!(rows.column(1).as_primitive::<Decimal128Type>().value(0), values.iter().sum::<i128>());
        rows.column(0).as_primitive::<Decimal128Type>().value_as_string(0)
    };
    assert_eq!(mean(&[100, 1, 1]), "0.340000");
    assert_eq!(mean(&[100, 0, 0]), "0.333333");
    assert_eq!(mean(&[200, 0, 0]), "0.666667");
    assert_eq!(mean(&[-200, 0, 0]), "-0.666667");
}

#[test]
fn an_average_that_does_not_fit_its_type_is_an_error() {
    let largest = 10_i128.pow(38) - 1;
    let columns = vec![(MEAN, DataType::Decimal128(38, 4))];
    let error = summed(decimals(&[largest], 38, 0), Accumulate::SumWide, TUMBLING, columns).unwrap_err();
    assert_eq!(error.to_string(), "AVG does not fit DECIMAL(38, 4)");
}

#[test]
fn unsigned_sums_keep_all_their_bits() {
    let values: ArrayRef = Arc::new(UInt64Array::from(vec![Some(u64::MAX - 1), None, Some(1)]));
    let rows = summed(values, Accumulate::SumInteger, TUMBLING, vec![(SUM, DataType::UInt64)]).unwrap().unwrap();
    assert_eq!(rows.column(0).as_primitive::<UInt64Type>().values(), &[u64::MAX]);
}

#[test]
fn a_window_is_told_by_its_bounds_and_its_last_millisecond() {
    let bound = DataType::Timestamp(TimeUnit::Millisecond, None);
    let zoned = DataType::Timestamp(TimeUnit::Millisecond, Some("+00:00".into()));
    let columns = vec![(WindowColumn::Start, bound.clone()), (WindowColumn::End, bound), (WindowColumn::Time, zoned)];
    let rows = summed(decimals(&[1], 5, 2), Accumulate::SumWide, TUMBLING, columns).unwrap().unwrap();
    let instants = rows.columns().iter().map(|column| column.as_primitive::<TimestampMillisecondType>().value(0));
    assert_eq!(instants.collect::<Vec<_>>(), [10_000, 20_000, 19_999]);
}

#[test]
fn without_rows_only_the_window_of_a_whole_input_has_a_result() {
    let none = || decimals(&[], 5, 2);
    let columns =
        || vec![(SUM, DataType::Decimal128(15, 2)), (MEAN, DataType::Decimal128(9, 6)), (COUNT, DataType::Int64)];
    assert!(summed(none(), Accumulate::SumWide, TUMBLING, columns()).unwrap().is_none());
    let rows = summed(none(), Accumulate::SumWide, Window::Global, columns()).unwrap().unwrap();
    assert_eq!(rows.num_rows(), 1);
    assert!(rows.column(0).is_null(0) && rows.column(1).is_null(0));
    assert_eq!(rows.column(2).as_primitive::<Int64Type>().values(), &[0]);
}

#[test]
fn an_average_of_nothing_but_nulls_is_null() {
    let nulls: ArrayRef = arrow::array::new_null_array(&DataType::Int64, 3);
    let columns = vec![(MEAN, DataType::Float64), (SUM, DataType::Int64), (COUNT, DataType::Int64)];
    let rows = summed(nulls, Accumulate::SumInteger, TUMBLING, columns).unwrap().unwrap();
    assert!(rows.column(0).as_primitive::<Float64Type>().is_null(0) && rows.column(1).is_null(0));
    assert_eq!(rows.column(2).as_primitive::<Int64Type>().values(), &[0]);
}
