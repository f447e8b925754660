//! Random programs of one pipeline.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, Schema, SchemaRef, TimeUnit};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Column;
use pelton_data::aggregate::{Accumulate, Accumulator, Holistic};
use pelton_data::column::logical_type;
use pelton_data::join::{JoinKind, Side};
use pelton_data::table_function::{OutputRows, TableFunction, TableFunctionError, TableFunctionHandle};
use pelton_plan::pipeline::{Pipeline, Program, Step, StreamRef, Target, Window, WindowAggregate, WindowColumn};

use crate::choices::Choices;
use crate::columns;
use crate::expressions::{Expressions, KINDS};
use crate::made;

/// A program, and the rows of the tables it looks rows up in.
pub struct Query {
    pub program: Program,
    /// For each lookup step: the loaded rows and the columns that are its key.
    pub tables: Vec<(RecordBatch, Vec<usize>)>,
}

impl Query {
    /// The only pipeline.
    pub fn pipeline(&self) -> &Pipeline {
        &self.program.pipelines[0]
    }

    /// The window aggregation, where the pipeline ends in one.
    pub fn window(&self) -> Option<&WindowAggregate> {
        self.program.windows().next().map(|(_, window)| window)
    }
}

/// A random query over `schema`.
pub fn query(choices: &mut Choices<'_>, schema: &SchemaRef) -> Query {
    let may_fail = choices.once_in(5);
    let mut fields: Vec<FieldRef> = schema.fields().to_vec();
    let mut tables = Vec::new();
    let mut steps = Vec::new();
    for _ in 0..*choices.pick(&[0, 1, 0, 2, 1, 3]) {
        if tables.len() < 2 && choices.once_in(3) {
            steps.push(lookup(choices, &mut fields, may_fail, &mut tables));
            continue;
        }
        let number = choices.number(0..=11);
        if number >= 9 {
            steps.push(flat_map(choices, &mut fields, may_fail));
        } else {
            let current = Schema::new(fields.clone());
            let depth = 1 + number % 3;
            let predicate = Expressions::new(&current, may_fail).typed(choices, &DataType::Boolean, depth);
            steps.push(Step::Filter(predicate));
        }
    }
    let groups_by_lookup = choices.once_in(4);
    if groups_by_lookup && tables.len() < 2 {
        steps.push(lookup(choices, &mut fields, may_fail, &mut tables));
    }
    let current = Schema::new(fields);
    let expressions = Expressions::new(&current, may_fail);
    let (target, windows) = if groups_by_lookup {
        let last = format!("t{}_", tables.len() - 1);
        let looked_up = (0..current.fields().len()).filter(|&index| current.field(index).name().starts_with(&last));
        let looked_up: Vec<usize> = looked_up.collect();
        let keys = (0..choices.number(1..=2)).map(|_| *choices.pick(&looked_up));
        let keys = keys.map(|index| Arc::new(Column::new(current.field(index).name(), index)) as _).collect();
        let (target, window) = window(choices, &expressions, &current, keys);
        (target, vec![window])
    } else if choices.once_in(3) {
        (stream(choices, &expressions, &current), Vec::new())
    } else {
        let keys = (0..*choices.pick(&[1, 2, 0, 3])).map(|_| any(choices, &expressions)).collect();
        let (target, window) = window(choices, &expressions, &current, keys);
        (target, vec![window])
    };
    let pipeline = Pipeline { input: StreamRef::Source(0), input_schema: schema.clone(), steps, target };
    Query { program: made::program(pipeline, windows), tables }
}

/// A lookup in a new table, whose columns are added to `fields`.
fn lookup(
    choices: &mut Choices<'_>,
    fields: &mut Vec<FieldRef>,
    may_fail: bool,
    tables: &mut Vec<(RecordBatch, Vec<usize>)>,
) -> Step {
    let current = Schema::new(fields.clone());
    let number = tables.len();
    let schema = columns::schema(choices, &format!("t{number}_"), 3);
    let plain = schema
        .fields()
        .iter()
        .map(|field| Field::new(field.name(), logical_type(field.data_type()).clone(), field.is_nullable()));
    let schema: SchemaRef = Arc::new(Schema::new(plain.collect::<Vec<_>>()));
    let rows = *choices.pick(&[20, 0, 1, 200]);
    let mut rows = columns::rows(choices, &schema, rows);
    let mut keys = vec![choices.number(0..=schema.fields().len() - 1)];
    let is_integer = matches!(schema.field(keys[0]).data_type(), DataType::Int16 | DataType::Int32 | DataType::Int64);
    if is_integer && choices.once_in(2) {
        rows = columns::with_distinct(choices, &rows, keys[0]);
    } else if schema.fields().len() > 1 && choices.once_in(3) {
        keys.push((keys[0] + 1) % schema.fields().len());
    }
    if choices.once_in(4) {
        keys.clear();
    }
    let expressions = Expressions::new(&current, may_fail);
    let key_expressions =
        keys.iter().map(|&key| expressions.typed(choices, schema.field(key).data_type(), 1)).collect();
    let kind = *choices.pick(&[JoinKind::Left, JoinKind::Inner, JoinKind::Anti, JoinKind::Semi, JoinKind::Left]);
    let taken: Vec<usize> = (0..schema.fields().len()).collect();
    let added = schema.fields().iter().map(|field| {
        Arc::new(field.as_ref().clone().with_nullable(kind.keeps_unmatched(Side::Left) || field.is_nullable()))
    });
    let added: Vec<FieldRef> = added.collect();
    fields.extend(added.iter().cloned());
    tables.push((rows, keys));
    // A row that has a match already need not try the rest.
    let of_pairs = Schema::new(fields.clone());
    let expressions = Expressions::new(&of_pairs, may_fail && kind.has_pairs());
    let conditions = (0..*choices.pick(&[0, 1, 0, 2, 0])).map(|_| {
        let depth = choices.number(1..=3);
        expressions.typed(choices, &DataType::Boolean, depth)
    });
    let conditions = conditions.collect();
    Step::Lookup { table: number, keys: key_expressions, kind, conditions, columns: taken, fields: added }
}

/// A call of a table function, whose columns are added to `fields`.
fn flat_map(choices: &mut Choices<'_>, fields: &mut Vec<FieldRef>, may_fail: bool) -> Step {
    let current = Schema::new(fields.clone());
    let arguments = vec![Expressions::new(&current, may_fail).typed(choices, &DataType::Int64, 2)];
    let (keep_unmatched, has_condition) = (choices.once_in(2), choices.once_in(3));
    let made = Copies.columns(&[]).unwrap();
    let mut columns: Vec<usize> = (0..made.len()).collect();
    if choices.once_in(3) {
        columns.remove(choices.number(0..=made.len() - 1));
    }
    let added = columns.iter().map(|&column| {
        let field = made[column].as_ref().clone();
        let name = format!("f{}_{}", fields.len(), field.name());
        let nullable = field.is_nullable() || keep_unmatched;
        Arc::new(field.with_name(name).with_nullable(nullable))
    });
    let added: Vec<FieldRef> = added.collect();
    fields.extend(added.iter().cloned());
    let joined = Schema::new(fields.clone());
    let condition = has_condition.then(|| Expressions::new(&joined, may_fail).typed(choices, &DataType::Boolean, 2));
    let function = TableFunctionHandle(Arc::new(Copies));
    Step::FlatMap { function, arguments, keep_unmatched, condition, columns, fields: added }
}

/// Makes up to three rows, by the remainder of its argument, and two of NULL.
#[derive(Debug)]
struct Copies;

impl TableFunction for Copies {
    fn name(&self) -> &str {
        "COPIES"
    }

    fn argument_types(&self, given: &[DataType]) -> Result<Vec<DataType>, TableFunctionError> {
        Ok(given.to_vec())
    }

    fn columns(&self, _arguments: &[FieldRef]) -> Result<Vec<FieldRef>, TableFunctionError> {
        let column = |name: &str, data_type: DataType, nullable: bool| Arc::new(Field::new(name, data_type, nullable));
        Ok(vec![
            column("number", DataType::Int64, false),
            column("text", DataType::Utf8View, true),
            column("is_odd", DataType::Boolean, false),
        ])
    }

    fn call(&self, arguments: &[ArrayRef], rows: usize, wanted: &[usize]) -> Result<OutputRows, String> {
        let values = arguments[0].as_primitive::<Int64Type>();
        let copies =
            |row: usize| if values.is_valid(row) { values.value(row).wrapping_add(1).rem_euclid(4) } else { 2 };
        let made = (0..rows).flat_map(|row| (0..copies(row)).map(move |number| (row as u32, number)));
        let (input_rows, numbers): (Vec<u32>, Vec<i64>) = made.unzip();
        // What lies below a NULL is not a value.
        let value = |row: u32| if values.is_valid(row as usize) { values.value(row as usize) } else { 0 };
        let text = |(&row, &number): (&u32, &i64)| {
            (number != 1).then(|| format!("{} is a number, and a long text", value(row)))
        };
        let columns = wanted.iter().map(|column| match column {
            0 => Arc::new(Int64Array::from(numbers.clone())) as ArrayRef,
            1 => Arc::new(input_rows.iter().zip(&numbers).map(text).collect::<StringViewArray>()),
            _ => Arc::new(numbers.iter().map(|number| Some(number % 2 == 1)).collect::<BooleanArray>()),
        });
        let columns = columns.collect();
        Ok(OutputRows { input_rows, columns })
    }
}

fn any(choices: &mut Choices<'_>, expressions: &Expressions<'_>) -> Arc<dyn PhysicalExpr> {
    if choices.once_in(2) {
        let kind = *choices.pick(&KINDS);
        let depth = choices.number(1..=3);
        expressions.any(choices, kind, depth)
    } else {
        expressions.column(choices)
    }
}

/// The type under which an expression's values leave: strings as views.
fn output_type(data_type: &DataType) -> DataType {
    match logical_type(data_type) {
        DataType::Utf8 => DataType::Utf8View,
        other => other.clone(),
    }
}

fn field(name: String, expression: &Arc<dyn PhysicalExpr>, current: &Schema) -> Field {
    let data_type = output_type(&expression.data_type(current).unwrap());
    Field::new(name, data_type, expression.nullable(current).unwrap())
}

fn stream(choices: &mut Choices<'_>, expressions: &Expressions<'_>, current: &Schema) -> Target {
    let columns: Vec<_> = (0..choices.number(1..=4)).map(|_| any(choices, expressions)).collect();
    let fields = columns.iter().enumerate().map(|(index, column)| field(format!("o{index}"), column, current));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    Target::Stream { columns, schema }
}

/// A window under construction.
#[derive(Default)]
struct WindowParts {
    accumulators: Vec<Accumulator>,
    arguments: Vec<Option<Arc<dyn PhysicalExpr>>>,
    columns: Vec<WindowColumn>,
    fields: Vec<Field>,
}

impl WindowParts {
    /// The accumulator, found or added.
    fn add(&mut self, accumulator: Accumulator, argument: Option<Arc<dyn PhysicalExpr>>) -> usize {
        let same = (0..self.accumulators.len())
            .find(|&index| self.accumulators[index] == accumulator && self.arguments[index] == argument);
        same.unwrap_or_else(|| {
            self.accumulators.push(accumulator);
            self.arguments.push(argument);
            self.accumulators.len() - 1
        })
    }

    fn output(&mut self, column: WindowColumn, data_type: DataType, nullable: bool) {
        self.columns.push(column);
        self.fields.push(Field::new(format!("o{}", self.fields.len()), data_type, nullable));
    }
}

fn window(
    choices: &mut Choices<'_>,
    expressions: &Expressions<'_>,
    current: &Schema,
    keys: Vec<Arc<dyn PhysicalExpr>>,
) -> (Target, WindowAggregate) {
    let key_fields: Vec<FieldRef> =
        keys.iter().enumerate().map(|(index, key)| Arc::new(field(format!("k{index}"), key, current))).collect();
    let mut parts = WindowParts::default();
    let window = if choices.once_in(3) {
        Window::Global
    } else {
        let bound = DataType::Timestamp(TimeUnit::Millisecond, None);
        parts.output(WindowColumn::Start, bound.clone(), false);
        parts.output(WindowColumn::End, bound.clone(), false);
        parts.output(WindowColumn::Time, bound, false);
        Window::Tumbling { size: 10_000_000, offset: 0 }
    };
    for (index, key) in key_fields.iter().enumerate() {
        parts.output(WindowColumn::Key(index), key.data_type().clone(), key.is_nullable());
    }
    for _ in 0..choices.number(1..=4) {
        aggregate(choices, expressions, current, &mut parts);
    }
    let WindowParts { accumulators, arguments, columns, fields } = parts;
    let aggregate = WindowAggregate {
        columns,
        schema: Arc::new(Schema::new(fields)),
        ..made::aggregate(window, key_fields, accumulators)
    };
    (Target::Groups { port: made::PORT, keys, arguments }, aggregate)
}

/// Adds an aggregate's accumulators and its output column, as planning does.
fn aggregate(choices: &mut Choices<'_>, expressions: &Expressions<'_>, current: &Schema, parts: &mut WindowParts) {
    use Accumulate::*;
    let rows = Accumulator::counting_rows();
    if choices.once_in(4) {
        let count = parts.add(rows, None);
        return parts.output(WindowColumn::Value { accumulator: count, count: None }, DataType::Int64, false);
    }
    let argument = any(choices, expressions);
    let nullable = argument.nullable(current).unwrap();
    let data_type = output_type(&argument.data_type(current).unwrap());
    let accumulator = |accumulate| Accumulator::new(accumulate, Some(data_type.clone()), nullable);
    let count = match nullable {
        true => parts.add(accumulator(Count), Some(argument.clone())),
        false => parts.add(rows, None),
    };
    let sum = match &data_type {
        DataType::Float32 | DataType::Float64 => Some((SumFloat, DataType::Float64, DataType::Float64)),
        DataType::Decimal128(precision, scale) => Some((
            SumWide,
            DataType::Decimal128(38.min(precision + 10), *scale),
            DataType::Decimal128(38.min(precision + 4), 38.min(scale + 4)),
        )),
        integer if integer.is_integer() => Some((SumInteger, DataType::Int64, DataType::Float64)),
        _ => None,
    };
    let choice = choices.number(0..=10);
    match (choice, sum) {
        (0 | 1, Some((sum, sum_type, mean_type))) => {
            let sum = parts.add(accumulator(sum), Some(argument));
            match choice {
                0 => {
                    let column = WindowColumn::Value { accumulator: sum, count: Some(count) };
                    parts.output(column, sum_type, true);
                }
                _ => parts.output(WindowColumn::Mean { sum, upper_sum: None, count }, mean_type, true),
            }
        }
        (2 | 3, _) => {
            let extreme = parts.add(accumulator(if choice == 2 { Minimum } else { Maximum }), Some(argument));
            let column = WindowColumn::Value { accumulator: extreme, count: Some(count) };
            parts.output(column, data_type, true);
        }
        (4 | 5, _) => {
            let arrival = parts.add(accumulator(if choice == 4 { First } else { Last }), Some(argument));
            parts.output(WindowColumn::Value { accumulator: arrival, count: None }, data_type, true);
        }
        (7..=10, _) => holistic(choice, accumulator, argument, data_type.clone(), parts),
        _ => {
            let column = WindowColumn::Value { accumulator: count, count: None };
            parts.output(column, DataType::Int64, false);
        }
    }
}

/// Adds an aggregate of all values, or of all distinct ones.
fn holistic(
    choice: usize,
    accumulator: impl Fn(Accumulate) -> Accumulator,
    argument: Arc<dyn PhysicalExpr>,
    data_type: DataType,
    parts: &mut WindowParts,
) {
    use Accumulate::{Arrivals, Distinct, Frequencies, Values};
    let is_joined = choice == 9 && data_type == DataType::Utf8View;
    let arrivals = is_joined.then(|| parts.add(accumulator(Arrivals), Some(argument.clone())));
    let (kept, function) = match choice {
        7 => (Frequencies, Holistic::Mode),
        10 => (Values, Holistic::Mode),
        8 => (Values, Holistic::Percentile { fraction: 0.7, is_continuous: false, is_descending: false }),
        _ if is_joined => (Values, Holistic::Joined { delimiter: "; ".to_owned() }),
        _ => (Distinct { is_ordered: false }, Holistic::Count),
    };
    let values = parts.add(accumulator(kept), Some(argument));
    let is_count = function == Holistic::Count;
    let column = WindowColumn::Holistic { function, values, arrivals, nulls: None };
    parts.output(column, if is_count { DataType::Int64 } else { data_type }, !is_count);
}
