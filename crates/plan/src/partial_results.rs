//! Aggregations of different queries that can be made of the same partial results.
//!
//! A query aggregates a table's rows by keys in windows of event time. Another one aggregates rows of the same table by the same keys, in other windows, with other
//! functions, and of other rows. Rows that both add up for a short stretch of time (a slice), for each key and each set of predicates that are true, are
//! partial results, of which either makes its own: counts are summed, sums are summed, and of extremes the extreme is taken.
//!
//! [`PartialResults::of`] finds what a query needs of them, [`PartialResults::merging`] is the same query over partial results in the place of rows, and [`sums`] is a
//! program that adds rows up for several.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion_common::ScalarValue;
use datafusion_expr::Operator as Comparison;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, CastExpr, Column, IsNullExpr, Literal, case, lit};
use pelton_data::Micros;
use pelton_data::aggregate::{Accumulate, Accumulator};
use pelton_data::column::logical_type;

use crate::pipeline::{
    Operator, Pipeline, Port, Program, SourceUse, Step, StreamRef, Target, TimeSource, Window, WindowAggregate,
    WindowColumn,
};
use crate::renumber::renumbered;

/// The digits of sums of decimals and of wide sums of integers.
const SUM_DIGITS: u8 = 38;

/// What a query needs of the partial results of a table's rows. Expressions are over the columns of the table, by their places in it.
#[derive(Debug, Clone)]
pub struct PartialResults {
    /// `Program::sources[i]`, which only the pipeline reads that feeds the windows.
    source: usize,
    pipeline: usize,
    operator: usize,
    /// The event time, which is the first column of partial results, and then the keys.
    pub keys: Vec<(Arc<dyn PhysicalExpr>, FieldRef)>,
    /// How far the watermark trails the largest event time.
    pub delay: Micros,
    /// Which rows count.
    pub predicate: Arc<dyn PhysicalExpr>,
    /// One for each accumulator.
    pub values: Vec<PartialValue>,
    /// The windows.
    pub window: Window,
}

/// A value of partial results.
#[derive(Debug, Clone)]
pub struct PartialValue {
    /// What one row adds to it; NULL where that is nothing.
    pub of_row: Arc<dyn PhysicalExpr>,
    /// How two of them become one.
    pub merge: Accumulate,
    /// Its type, and whether it may be NULL.
    pub field: FieldRef,
}

impl PartialEq for PartialValue {
    fn eq(&self, other: &PartialValue) -> bool {
        self.merge == other.merge && self.field == other.field && self.of_row.as_ref() == other.of_row.as_ref()
    }
}

impl PartialResults {
    /// What a program needs of partial results of the rows of a source; nothing where it cannot be made of any.
    pub fn of(program: &Program, source: usize) -> Option<PartialResults> {
        let used = &program.sources[source];
        let TimeSource::Event { column: time, delay } = used.time else { return None };
        if used.computed_time.is_some() || used.rows.is_some() || delay < 0 {
            return None;
        }
        let mut readers = program.pipelines.iter().enumerate();
        let mut readers = readers.by_ref().filter(|(_, pipeline)| pipeline.input == StreamRef::Source(source));
        let (Some((pipeline, read)), None) = (readers.next(), readers.next()) else { return None };
        let Target::Groups { port: Port { operator, .. }, keys, arguments } = &read.target else { return None };
        let is_output = program.outputs.iter().any(|output| output.inputs.contains(&StreamRef::Source(source)));
        let Operator::Window(window) = &program.operators[*operator] else { return None };
        if is_output || program.feeding(*operator).count() != 1 || !can_merge(window) {
            return None;
        }
        let of_table = |expression: &Arc<dyn PhysicalExpr>| renumbered(expression, |column| used.columns[column]);
        let mut predicate: Option<Arc<dyn PhysicalExpr>> = None;
        for step in &read.steps {
            let Step::Filter(one) = step else { return None };
            let one = of_table(one);
            predicate = Some(match predicate {
                Some(others) => Arc::new(BinaryExpr::new(others, Comparison::And, one)),
                None => one,
            });
        }
        let time_field = used.schema.fields()[time].clone();
        let time: Arc<dyn PhysicalExpr> = Arc::new(Column::new(time_field.name(), time));
        let key_fields = window.keys.iter().zip(keys).map(|(field, key)| {
            let data_type = logical_type(field.data_type()).clone();
            (of_table(key), Arc::new(field.as_ref().clone().with_data_type(data_type)))
        });
        let keys = std::iter::once((of_table(&time), time_field)).chain(key_fields).collect();
        let values = window.accumulators.iter().zip(arguments);
        let values =
            values.map(|(accumulator, argument)| PartialValue::of(accumulator, argument.as_ref().map(&of_table)));
        Some(PartialResults {
            source,
            pipeline,
            operator: *operator,
            keys,
            delay,
            predicate: predicate.unwrap_or_else(|| lit(true)),
            values: values.collect::<Option<_>>()?,
            window: window.window,
        })
    }

    /// Whether partial results of both are by the same keys, and at the same times.
    pub fn are_alike(&self, other: &PartialResults) -> bool {
        let same = |one: &(Arc<dyn PhysicalExpr>, FieldRef), other: &(Arc<dyn PhysicalExpr>, FieldRef)| {
            one.0.as_ref() == other.0.as_ref()
                && one.1.data_type() == other.1.data_type()
                && one.1.is_nullable() == other.1.is_nullable()
        };
        self.delay == other.delay
            && self.keys.len() == other.keys.len()
            && self.keys.iter().zip(&other.keys).all(|(one, other)| same(one, other))
    }

    /// All that is computed for each row, with the type that it has.
    pub fn expressions(&self) -> impl Iterator<Item = (&Arc<dyn PhysicalExpr>, &DataType)> {
        let keys = self.keys.iter().map(|(key, field)| (key, field.data_type()));
        let values = self.values.iter().map(|value| (&value.of_row, value.field.data_type()));
        keys.chain(values).chain([(&self.predicate, &DataType::Boolean)])
    }

    /// The same program over partial results. Their columns are the event time, the keys, whether they count for the query, and the values.
    pub fn merging(&self, mut program: Program) -> Program {
        let keys = self.keys.iter().map(|(_, field)| field.clone());
        let counts: FieldRef = Arc::new(Field::new("counts", DataType::Boolean, false));
        let values = self.values.iter().map(|value| value.field.clone());
        let fields: Vec<FieldRef> = keys.chain([counts]).chain(values).collect();
        let column = |index: usize| Arc::new(Column::new(fields[index].name(), index)) as Arc<dyn PhysicalExpr>;
        let counts = self.keys.len();
        let used = &mut program.sources[self.source];
        used.schema = Arc::new(Schema::new(fields.clone()));
        used.time = TimeSource::Event { column: 0, delay: self.delay };
        let pipeline = &mut program.pipelines[self.pipeline];
        pipeline.input_schema = used.schema.clone();
        pipeline.steps = vec![Step::Filter(column(counts))];
        let Target::Groups { keys, arguments, .. } = &mut pipeline.target else {
            unreachable!("the pipeline feeds windows")
        };
        *keys = (1..counts).map(column).collect();
        *arguments = (0..self.values.len()).map(|value| Some(column(counts + 1 + value))).collect();
        let Operator::Window(window) = &mut program.operators[self.operator] else {
            unreachable!("the pipeline feeds windows")
        };
        window.accumulators = self.values.iter().map(PartialValue::accumulator).collect();
        program
    }

    /// The source whose rows are added up.
    pub fn source(&self) -> usize {
        self.source
    }
}

impl PartialValue {
    /// What is kept of an accumulator; `None` where two of it cannot be merged from what they come to.
    fn of(accumulator: &Accumulator, argument: Option<Arc<dyn PhysicalExpr>>) -> Option<PartialValue> {
        let Accumulator { accumulate, argument_type, argument_nullable, .. } = accumulator;
        let nullable = *argument_nullable;
        let cast = |to: DataType| {
            let (argument, from) = (argument.clone()?, argument_type.as_ref()?);
            let same = *from == to;
            let cast = || Arc::new(CastExpr::new(argument.clone(), to.clone(), None)) as Arc<dyn PhysicalExpr>;
            Some((if same { argument.clone() } else { cast() }, to))
        };
        let (of_row, data_type, merge, nullable) = match accumulate {
            Accumulate::Count if accumulator.counts_rows() => {
                (lit(1_i64), DataType::Int64, Accumulate::SumInteger, false)
            }
            Accumulate::Count => {
                let is_null: Arc<dyn PhysicalExpr> = Arc::new(IsNullExpr::new(argument?));
                let counted = case(None, vec![(is_null, lit(0_i64))], Some(lit(1_i64))).ok()?;
                (counted, DataType::Int64, Accumulate::SumInteger, false)
            }
            Accumulate::SumInteger => {
                let (of_row, data_type) = cast(DataType::Int64)?;
                (of_row, data_type, Accumulate::SumInteger, nullable)
            }
            Accumulate::SumWide => {
                let scale = match argument_type {
                    Some(DataType::Decimal128(_, scale)) => *scale,
                    _ => 0,
                };
                let (of_row, data_type) = cast(DataType::Decimal128(SUM_DIGITS, scale))?;
                (of_row, data_type, Accumulate::SumWide, nullable)
            }
            Accumulate::SumFloat => {
                let (of_row, data_type) = cast(DataType::Float64)?;
                (of_row, data_type, Accumulate::SumFloat, nullable)
            }
            Accumulate::Minimum | Accumulate::Maximum if !accumulator.has_reference() => {
                (argument?, argument_type.clone()?, *accumulate, nullable)
            }
            _ => return None,
        };
        let field = Arc::new(Field::new(merge_name(merge), data_type, nullable));
        Some(PartialValue { of_row, merge, field })
    }

    /// What merges several of it.
    fn accumulator(&self) -> Accumulator {
        let nullable = self.field.is_nullable();
        Accumulator::new(self.merge, Some(self.field.data_type().clone()), nullable)
    }
}

fn merge_name(merge: Accumulate) -> &'static str {
    match merge {
        Accumulate::Minimum => "minimum",
        Accumulate::Maximum => "maximum",
        _ => "sum",
    }
}

/// Whether what windows come to can be made of what rows add up to.
fn can_merge(window: &WindowAggregate) -> bool {
    let keeps_rows = window.ranking.is_some() || !window.collected.is_empty() || window.session_slots.is_some();
    !keeps_rows && window.slices.is_none() && Window::grid(&[window.window]).is_some()
}

/// The columns of partial results of several queries: the event time and the keys, the number of the query set, and the values.
pub fn schema(keys: &[(Arc<dyn PhysicalExpr>, FieldRef)], values: &[PartialValue]) -> SchemaRef {
    let keys = keys.iter().map(|(_, field)| field.clone());
    let set: FieldRef = Arc::new(Field::new("query_set", DataType::Int64, false));
    Arc::new(Schema::new(keys.chain([set]).chain(values.iter().map(|value| value.field.clone())).collect::<Vec<_>>()))
}

/// A program of one pipeline, which adds partial results of these columns up by keys and query set, and of one operator, which reads out the sums. The set of no query,
/// number zero, is left out.
pub fn sums(table: &str, schema: &SchemaRef, keys: usize, values: &[PartialValue]) -> Program {
    let field = |index: usize| schema.fields()[index].clone();
    let column = |index: usize| Arc::new(Column::new(field(index).name(), index)) as Arc<dyn PhysicalExpr>;
    let first_value = keys + 1;
    let mut accumulators = vec![Accumulator::new(Accumulate::Maximum, Some(field(0).data_type().clone()), false)];
    let mut arguments = vec![Some(column(0))];
    let mut read = vec![WindowColumn::Value { accumulator: 0, count: None }];
    read.extend((0..keys).map(WindowColumn::Key));
    for (index, value) in values.iter().enumerate() {
        let accumulator = accumulators.len();
        accumulators.push(value.accumulator());
        arguments.push(Some(column(first_value + index)));
        // A sum of nothing is zero, which merges well; an extreme of nothing is none.
        let is_extreme = matches!(value.merge, Accumulate::Minimum | Accumulate::Maximum);
        let count = (is_extreme && value.field.is_nullable()).then(|| {
            accumulators.push(Accumulator::new(Accumulate::Count, Some(value.field.data_type().clone()), true));
            arguments.push(Some(column(first_value + index)));
            accumulator + 1
        });
        read.push(WindowColumn::Value { accumulator, count });
    }
    let is_some: Arc<dyn PhysicalExpr> =
        Arc::new(BinaryExpr::new(column(keys), Comparison::NotEq, Arc::new(Literal::new(ScalarValue::Int64(Some(0))))));
    let window = Window::Global;
    let aggregate = WindowAggregate {
        window,
        bounds: window,
        keys: (1..=keys).map(field).collect(),
        accumulators,
        session_slots: None,
        ranking: None,
        collected: Vec::new(),
        columns: read,
        schema: schema.clone(),
        time_column: None,
        slices: None,
    };
    let source = SourceUse {
        table: table.to_owned(),
        columns: Vec::new(),
        computed_time: None,
        schema: schema.clone(),
        time: TimeSource::None,
        rows: None,
        join: None,
    };
    let target =
        Target::Groups { port: Port { operator: 0, number: 0 }, keys: (1..=keys).map(column).collect(), arguments };
    let pipeline = Pipeline {
        input: StreamRef::Source(0),
        input_schema: schema.clone(),
        steps: vec![Step::Filter(is_some)],
        target,
    };
    Program {
        sources: vec![source],
        lookups: Vec::new(),
        pipelines: vec![pipeline],
        operators: vec![Operator::Window(aggregate)],
        outputs: Vec::new(),
    }
}
