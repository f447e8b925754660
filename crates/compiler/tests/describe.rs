//! Kernels in words: what EXPLAIN prints, line by line.

mod made;

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_common::ScalarValue;
use datafusion_expr::Operator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{binary, case, cast, col, is_null, like, lit};
use pelton_compiler::{KernelDescription, describe};
use pelton_data::aggregate::{Accumulate, Accumulator};
use pelton_plan::pipeline::{Pipeline, Step, StreamRef, Target, Window, WindowAggregate};

type Expression = Arc<dyn PhysicalExpr>;

fn schema() -> SchemaRef {
    let coded = DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8View));
    Arc::new(Schema::new(vec![
        Field::new("kind", coded, false),
        Field::new("key", DataType::Int64, false),
        Field::new("price", DataType::Int64, true),
        Field::new("name", DataType::Utf8View, true),
    ]))
}

fn column(name: &str) -> Expression {
    col(name, &schema()).unwrap()
}

fn operator(left: Expression, operator: Operator, right: Expression) -> Expression {
    binary(left, operator, right, &schema()).unwrap()
}

fn described(filters: Vec<Expression>, target: Target, windows: Vec<WindowAggregate>) -> KernelDescription {
    let steps = filters.into_iter().map(Step::Filter).collect();
    let pipeline = Pipeline { input: StreamRef::Source(0), input_schema: schema(), steps, target };
    let program = made::program(pipeline, windows);
    describe(&program, 0).unwrap()
}

fn stream(columns: Vec<(&str, Expression)>) -> Target {
    let field = |(name, column): &(&str, Expression)| {
        Field::new(*name, column.data_type(&schema()).unwrap(), column.nullable(&schema()).unwrap())
    };
    let output = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    Target::Stream { columns: columns.into_iter().map(|(_, column)| column).collect(), schema: Arc::new(output) }
}

fn window(keys: &[&str], accumulators: Vec<(Accumulate, Option<&str>)>) -> (WindowAggregate, Target) {
    let schema = schema();
    let field = |name: &str| Arc::new(schema.field_with_name(name).unwrap().clone());
    let accumulator = |(accumulate, argument): &(Accumulate, Option<&str>)| {
        let argument = argument.map(field);
        let is_nullable = argument.as_ref().is_some_and(|field| field.is_nullable());
        Accumulator::new(*accumulate, argument.map(|field| field.data_type().clone()), is_nullable)
    };
    let window = made::aggregate(
        Window::Tumbling { size: 10_000_000, offset: 0 },
        keys.iter().map(|name| field(name)).collect(),
        accumulators.iter().map(accumulator).collect(),
    );
    let arguments = accumulators.iter().map(|(_, argument)| argument.map(column)).collect();
    let keys = keys.iter().map(|name| column(name)).collect();
    (window, Target::Groups { port: made::PORT, keys, arguments })
}

#[test]
fn a_filtered_count_by_an_integer_is_a_selection_and_one_fused_loop() {
    let view = ScalarValue::Dictionary(Box::new(DataType::UInt8), Box::new(ScalarValue::Utf8View(Some("view".into()))));
    let filter = operator(column("kind"), Operator::Eq, lit(view));
    let (window, target) = window(&["key"], vec![(Accumulate::Count, None), (Accumulate::SumInteger, Some("price"))]);
    let description = described(vec![filter], target, vec![window]);
    assert_eq!(
        description.text,
        "\
select with SIMD where kind = view
for each row
  entry = table[key - base], or by hash where keys are far apart
  count += 1
  sum += price
"
    );
    assert_eq!(description.compiled, ["kind = view"]);
    assert!(description.interpreted.is_empty());
}

#[test]
fn sums_of_columns_without_a_key_need_no_loop_of_their_own() {
    let columns =
        vec![(Accumulate::Count, None), (Accumulate::SumInteger, Some("price")), (Accumulate::Maximum, Some("key"))];
    let (window, target) = window(&[], columns);
    let positive = operator(column("key"), Operator::Gt, lit(0_i64));
    let description = described(vec![positive], target, vec![window]);
    assert_eq!(
        description.text,
        "\
select with SIMD where key > 0
column at a time: count += 1
column at a time: sum += price
column at a time: maximum = max(maximum, key)
"
    );
}

#[test]
fn what_machine_code_cannot_compute_is_said_to_be_interpreted() {
    let starts = like(false, false, column("name"), lit(ScalarValue::Utf8View(Some("%x%".into()))), &schema()).unwrap();
    let sum = operator(column("price"), Operator::Plus, column("key"));
    let large = operator(sum, Operator::Gt, lit(100_i64));
    let either = operator(starts, Operator::Or, large);
    let (window, target) = window(&["name"], vec![(Accumulate::Maximum, Some("name"))]);
    let description = described(vec![either], target, vec![window]);
    assert_eq!(
        description.text,
        "\
for each row keep where (interpreted name LIKE %x%) or ((price + key) > 100)
for each row
  entry = by hash of (name)
  column at a time: name
"
    );
    assert_eq!(description.interpreted, ["name LIKE %x%"]);
}

#[test]
fn a_map_writes_columns() {
    let price = cast(column("price"), &schema(), DataType::Decimal128(20, 0)).unwrap();
    let euros = operator(price, Operator::Multiply, lit(ScalarValue::Decimal128(Some(908), 3, 3)));
    let dear = operator(column("price"), Operator::GtEq, lit(1000_i64));
    let class = case(None, vec![(dear, lit("dear"))], Some(lit("cheap"))).unwrap();
    let class = cast(class, &schema(), DataType::Utf8View).unwrap();
    let rest = operator(column("key"), Operator::Modulo, lit(123_i64));
    let filter = operator(rest, Operator::Eq, lit(0_i64));
    let unknown = is_null(column("price")).unwrap();
    let columns = vec![("key", column("key")), ("euros", euros), ("class", class), ("unknown", unknown)];
    let description = described(vec![filter], stream(columns), Vec::new());
    assert_eq!(
        description.text,
        "\
select with SIMD where key % 123 = 0
for each row write
  key = key
  euros = price * 908
  class = case when price >= 1000 then 'dear' else 'cheap' end
  unknown = price is null
"
    );
    assert!(description.interpreted.is_empty());
}
