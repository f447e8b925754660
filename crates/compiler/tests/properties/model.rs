//! What a query means, one row at a time, without any of the engine's machinery.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, FieldRef, Schema, i256};
use datafusion_common::ScalarValue;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::Operator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{Column, Literal, NegativeExpr, binary, lit};
use pelton_data::aggregate::{Accumulate, Holistic};
use pelton_data::join::{JoinKind, Side};
use pelton_plan::pipeline::{Step, Target, Window, WindowAggregate, WindowColumn};

use crate::queries::Query;

/// One row of values.
pub type Row = Vec<ScalarValue>;

/// What came of a query.
#[derive(Debug)]
pub enum Outcome {
    /// Its rows; those of a window in no order.
    Rows(Vec<Row>),
    /// Some row had no value for some expression.
    Failed,
}

/// The result of the query over `rows`, in that order, for the window `start..end`.
pub fn outcome(query: &Query, rows: &[Row], bounds: (i64, i64)) -> Outcome {
    match evaluate(query, rows, bounds) {
        Some(rows) => Outcome::Rows(rows),
        None => Outcome::Failed,
    }
}

/// `None` where some expression failed.
fn evaluate(query: &Query, rows: &[Row], bounds: (i64, i64)) -> Option<Vec<Row>> {
    let pipeline = query.pipeline();
    let mut fields: Vec<FieldRef> = pipeline.input_schema.fields().to_vec();
    let mut rows = rows.to_vec();
    for step in &pipeline.steps {
        let schema = Schema::new(fields.clone());
        let mut survivors = Vec::new();
        match step {
            Step::Filter(predicate) => {
                for row in rows {
                    let is_kept = value(predicate, &schema, &row)? == ScalarValue::Boolean(Some(true));
                    survivors.extend(is_kept.then_some(row));
                }
            }
            Step::Lookup { table, keys, kind, conditions, columns, fields: added } => {
                let (table, key_columns) = &query.tables[*table];
                let table = table_rows(table);
                let of_pairs = Schema::new(fields.iter().chain(added).cloned().collect::<Vec<_>>());
                for row in rows {
                    let wanted: Row = keys.iter().map(|key| value(key, &schema, &row)).collect::<Option<_>>()?;
                    let matches = table.iter().filter(|candidate| {
                        let mut pairs = key_columns.iter().zip(&wanted);
                        pairs.all(|(&column, key)| !key.is_null() && &candidate[column] == key)
                    });
                    let pairs = matches.map(|found| {
                        row.iter().cloned().chain(columns.iter().map(|&column| found[column].clone())).collect::<Row>()
                    });
                    let mut pairs: Vec<Row> = pairs.collect();
                    for condition in conditions {
                        let truths: Option<Vec<_>> =
                            pairs.iter().map(|pair| value(condition, &of_pairs, pair)).collect();
                        let mut truths = truths?.into_iter();
                        pairs.retain(|_| truths.next() == Some(ScalarValue::Boolean(Some(true))));
                    }
                    if pairs.is_empty() && kind.keeps_unmatched(Side::Left) {
                        let nulls = added.iter().map(|field| ScalarValue::try_from(field.data_type()).unwrap());
                        survivors.push(row.into_iter().chain(nulls).collect());
                    } else {
                        let leaving = match kind {
                            JoinKind::Anti => 0,
                            JoinKind::Semi => 1,
                            _ => usize::MAX,
                        };
                        survivors.extend(pairs.into_iter().take(leaving));
                    }
                }
                fields.extend(added.iter().cloned());
            }
            Step::FlatMap { fields: added, .. } => {
                let made: Option<Vec<_>> = rows.into_iter().map(|row| flat_mapped(step, &schema, row)).collect();
                survivors = made?.concat();
                fields.extend(added.iter().cloned());
            }
        }
        rows = survivors;
    }
    let schema = Schema::new(fields);
    match &pipeline.target {
        Target::Stream { columns, schema: output } | Target::Rows { columns, schema: output, .. } => rows
            .iter()
            .map(|row| {
                let typed = columns.iter().zip(output.fields());
                typed.map(|(column, field)| cast(value(column, &schema, row)?, field.data_type())).collect()
            })
            .collect(),
        Target::Groups { keys, arguments, .. } => {
            aggregate(query.window().unwrap(), keys, arguments, &schema, &rows, bounds)
        }
    }
}

/// The rows that a flat map makes of one.
fn flat_mapped(step: &Step, schema: &Schema, row: Row) -> Option<Vec<Row>> {
    let Step::FlatMap { function, arguments, keep_unmatched, condition, columns, fields } = step else {
        unreachable!("the step is a flat map")
    };
    let joined = Schema::new(schema.fields().iter().chain(fields).cloned().collect::<Vec<_>>());
    let arguments = arguments.iter().map(|argument| Some(value(argument, schema, &row)?.to_array().unwrap()));
    let made = function.0.call(&arguments.collect::<Option<Vec<_>>>()?, 1, columns).unwrap();
    let mut pairs = Vec::new();
    for output in 0..made.input_rows.len() {
        let outputs = made.columns.iter().map(|column| ScalarValue::try_from_array(column, output).unwrap());
        let pair: Row = row.iter().cloned().chain(outputs).collect();
        let is_kept = match condition {
            Some(condition) => value(condition, &joined, &pair)? == ScalarValue::Boolean(Some(true)),
            None => true,
        };
        pairs.extend(is_kept.then_some(pair));
    }
    if pairs.is_empty() && *keep_unmatched {
        let nulls = fields.iter().map(|field| ScalarValue::try_from(field.data_type()).unwrap());
        pairs.push(row.into_iter().chain(nulls).collect());
    }
    Some(pairs)
}

/// The rows of a batch, dictionary-coded values as they are.
pub fn table_rows(batch: &RecordBatch) -> Vec<Row> {
    let row = |row| batch.columns().iter().map(|column| ScalarValue::try_from_array(column, row).unwrap()).collect();
    (0..batch.num_rows()).map(row).collect()
}

/// The expression's value for one row, by DataFusion on a batch of that row alone.
fn value(expression: &Arc<dyn PhysicalExpr>, schema: &Schema, row: &Row) -> Option<ScalarValue> {
    if let Some(column) = expression.downcast_ref::<Column>() {
        return Some(plain(row[column.index()].clone()));
    }
    if let Some(literal) = expression.downcast_ref::<Literal>() {
        return Some(plain(literal.value().clone()));
    }
    let columns: Vec<ArrayRef> = row.iter().map(|value| value.to_array().unwrap()).collect();
    let batch = RecordBatch::try_new(Arc::new(schema.clone()), columns).unwrap();
    let array = wrapping(expression, schema).evaluate(&batch).ok()?.into_array(1).ok()?;
    Some(plain(ScalarValue::try_from_array(&array, 0).unwrap()))
}

/// The expression with integers subtracted from zero where it has minus integers: they wrap, but DataFusion refuses minus the smallest
/// constant.
fn wrapping(expression: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Arc<dyn PhysicalExpr> {
    let subtracted = expression.clone().transform_up(|node| {
        let Some(negative) = node.downcast_ref::<NegativeExpr>() else { return Ok(Transformed::no(node)) };
        let data_type = negative.arg().data_type(schema)?;
        if !data_type.is_integer() {
            return Ok(Transformed::no(node));
        }
        let zero = lit(ScalarValue::new_zero(&data_type)?);
        binary(zero, Operator::Minus, negative.arg().clone(), schema).map(Transformed::yes)
    });
    subtracted.unwrap().data
}

/// Strings as views, whether coded or not.
fn plain(value: ScalarValue) -> ScalarValue {
    match value {
        ScalarValue::Dictionary(_, value) => plain(*value),
        ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) => ScalarValue::Utf8View(text),
        other => other,
    }
}

fn cast(value: ScalarValue, data_type: &DataType) -> Option<ScalarValue> {
    if &value.data_type() == data_type { Some(value) } else { value.cast_to(data_type).ok() }
}

fn aggregate(
    window: &WindowAggregate,
    keys: &[std::sync::Arc<dyn PhysicalExpr>],
    arguments: &[Option<std::sync::Arc<dyn PhysicalExpr>>],
    schema: &Schema,
    rows: &[Row],
    bounds: (i64, i64),
) -> Option<Vec<Row>> {
    let mut groups: HashMap<Row, Vec<Vec<ScalarValue>>> = HashMap::new();
    for row in rows {
        let key = keys.iter().map(|key| value(key, schema, row)).collect::<Option<Row>>()?;
        let group = groups.entry(key).or_insert_with(|| vec![Vec::new(); arguments.len()]);
        for (values, argument) in group.iter_mut().zip(arguments) {
            let value = match argument {
                Some(argument) => value(argument, schema, row)?,
                None => ScalarValue::Boolean(Some(true)),
            };
            if !value.is_null() {
                values.push(value);
            }
        }
    }
    if groups.is_empty() && window.window == Window::Global && keys.is_empty() {
        groups.insert(Vec::new(), vec![Vec::new(); arguments.len()]);
    }
    groups.iter().map(|(key, values)| output(window, key, values, bounds)).collect()
}

/// The output row of a group, from the values each accumulator was given.
fn output(window: &WindowAggregate, key: &Row, values: &[Vec<ScalarValue>], bounds: (i64, i64)) -> Option<Row> {
    let instant = |micros: i64| Some(ScalarValue::TimestampMillisecond(Some(micros.div_euclid(1000)), None));
    let columns = window.columns.iter().zip(window.schema.fields());
    let row = columns.map(|(column, field)| match column {
        WindowColumn::Rank | WindowColumn::Row(_) => unreachable!("these queries keep no rows"),
        WindowColumn::Start => instant(bounds.0),
        WindowColumn::End => instant(bounds.1),
        WindowColumn::Time => instant(bounds.1 - 1000),
        WindowColumn::Key(index) => Some(key[*index].clone()),
        WindowColumn::Value { accumulator, .. } => {
            let accumulate = window.accumulators[*accumulator].accumulate;
            Some(accumulated(accumulate, &values[*accumulator], field.data_type()))
        }
        WindowColumn::Holistic { function, values: kept, .. } => {
            Some(holistic(function, &values[*kept], field.data_type()))
        }
        WindowColumn::Mean { sum, .. } => mean(&values[*sum], field.data_type()),
        WindowColumn::Variance { .. } | WindowColumn::DecimalSum { .. } | WindowColumn::Kind => {
            panic!("the generator has neither variances nor kinds, nor sums that are checked")
        }
    });
    row.collect()
}

fn accumulated(accumulate: Accumulate, values: &[ScalarValue], data_type: &DataType) -> ScalarValue {
    if values.is_empty() && accumulate != Accumulate::Count {
        return ScalarValue::try_from(data_type).unwrap();
    }
    match accumulate {
        Accumulate::Count => ScalarValue::Int64(Some(values.len() as i64)),
        Accumulate::SumInteger => ScalarValue::Int64(Some(values.iter().map(integer).sum::<i128>() as i64)),
        Accumulate::SumWide => {
            let DataType::Decimal128(precision, scale) = *data_type else { panic!("wide sums are decimals") };
            let sum = values.iter().fold(0, |sum: i128, value| sum.wrapping_add(integer(value)));
            ScalarValue::Decimal128(Some(sum), precision, scale)
        }
        Accumulate::SumFloat => {
            ScalarValue::Float64(Some(values.iter().map(float).fold(0.0, |sum, value| sum + value)))
        }
        Accumulate::SumFloatWide | Accumulate::SumSquares | Accumulate::SumSquares128 | Accumulate::SumSquares192 => {
            panic!("the generator has no variances")
        }
        Accumulate::Minimum => values.iter().min_by(|left, right| order(left, right)).unwrap().clone(),
        Accumulate::Maximum => values.iter().max_by(|left, right| order(left, right)).unwrap().clone(),
        Accumulate::First => values[0].clone(),
        Accumulate::Last => values[values.len() - 1].clone(),
        stored => panic!("what {stored:?} keeps is no value"),
    }
}

/// From values in the order in which they came.
fn holistic(function: &Holistic, values: &[ScalarValue], data_type: &DataType) -> ScalarValue {
    let mut sorted = values.to_vec();
    sorted.sort_by(order);
    let runs = || sorted.chunk_by(|left, right| order(left, right).is_eq());
    let value = match function {
        Holistic::Count => return ScalarValue::Int64(Some(runs().count() as i64)),
        Holistic::Percentile { fraction, is_continuous: false, is_descending: false } => {
            sorted.get(((sorted.len() as f64 * fraction).ceil() as usize).max(1) - 1).cloned()
        }
        Holistic::Mode => {
            let longest = runs().map(<[ScalarValue]>::len).max();
            runs().find(|run| Some(run.len()) == longest).map(|run| run[0].clone())
        }
        Holistic::Joined { delimiter } => {
            let texts: Vec<&str> = values.iter().map(|value| value.try_as_str().flatten().unwrap()).collect();
            (!texts.is_empty()).then(|| ScalarValue::Utf8View(Some(texts.join(delimiter))))
        }
        other => panic!("the generator has no {other:?}"),
    };
    value.unwrap_or_else(|| ScalarValue::try_from(data_type).unwrap())
}

/// `None` where it does not fit its type.
fn mean(values: &[ScalarValue], data_type: &DataType) -> Option<ScalarValue> {
    if values.is_empty() {
        return ScalarValue::try_from(data_type).ok();
    }
    if let DataType::Decimal128(precision, scale) = *data_type {
        let ScalarValue::Decimal128(_, _, value_scale) = values[0] else { panic!("decimal means are of decimals") };
        // Sums are kept in 128 bits.
        let sum = values.iter().fold(0, |sum: i128, value| sum.wrapping_add(integer(value)));
        let scaled = i256::from_i128(sum) * i256::from_i128(10_i128.pow((scale - value_scale) as u32));
        // The half is rounded away from zero: half a unit is added to twice as much, and cut.
        let (twice, count) = (scaled.wrapping_abs() * i256::from_i128(2), i256::from_i128(values.len() as i128));
        let mean = ((twice + count) / (count * i256::from_i128(2))).to_i128()? * sum.signum();
        let digits = mean.unsigned_abs().checked_ilog10().map_or(1, |digits| digits + 1);
        return (digits <= precision.into()).then_some(ScalarValue::Decimal128(Some(mean), precision, scale));
    }
    let sum = match &values[0] {
        ScalarValue::Float64(_) | ScalarValue::Float32(_) => {
            values.iter().map(float).fold(0.0, |sum, value| sum + value)
        }
        _ => values.iter().map(integer).sum::<i128>() as i64 as f64,
    };
    Some(ScalarValue::Float64(Some(sum / values.len() as f64)))
}

fn integer(value: &ScalarValue) -> i128 {
    match value {
        ScalarValue::Int8(Some(value)) => (*value).into(),
        ScalarValue::Int16(Some(value)) => (*value).into(),
        ScalarValue::Int32(Some(value)) => (*value).into(),
        ScalarValue::Int64(Some(value)) => (*value).into(),
        ScalarValue::UInt8(Some(value)) => (*value).into(),
        ScalarValue::UInt16(Some(value)) => (*value).into(),
        ScalarValue::UInt32(Some(value)) => (*value).into(),
        ScalarValue::UInt64(Some(value)) => (*value).into(),
        ScalarValue::Decimal128(Some(value), ..) => *value,
        other => panic!("{other:?} is no number"),
    }
}

fn float(value: &ScalarValue) -> f64 {
    match value {
        ScalarValue::Float32(Some(value)) => (*value).into(),
        ScalarValue::Float64(Some(value)) => *value,
        other => panic!("{other:?} is no floating-point number"),
    }
}

/// Total order of two values of one type.
fn order(left: &ScalarValue, right: &ScalarValue) -> std::cmp::Ordering {
    match (left, right) {
        (ScalarValue::Float32(Some(left)), ScalarValue::Float32(Some(right))) => left.total_cmp(right),
        (ScalarValue::Float64(Some(left)), ScalarValue::Float64(Some(right))) => left.total_cmp(right),
        _ => left.partial_cmp(right).unwrap(),
    }
}
