//! A pipeline that runs at once, without machine code.
//!
//! DataFusion evaluates the expressions over Arrow arrays of the rows that are still alive; precompiled loops do the
//! rest, a column at a time: finding join partners and groups, and changing accumulators. The interpreter and compiled
//! code share the tables, so that one can take over from the other between two blocks.
//!
//! In reading order: [`rows`] (which rows are alive), [`pieces`] (how many rows are taken at a time), [`expression`], [`flat_map`] (rows of table functions), [`aggregate`] (rows to groups), [`update`]
//! (accumulators).

pub(crate) mod column;

pub(crate) mod condition;

pub(crate) mod rows;

pub(crate) mod pieces;

pub(crate) mod expression;

pub(crate) mod flat_map;

pub(crate) mod aggregate;

pub(crate) mod update;

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use datafusion_physical_expr::PhysicalExpr;
use pelton_data::aggregate::{Accumulate, Accumulator};
use pelton_data::column::logical_type;
use pelton_data::join::JoinKind;
use pelton_plan::pipeline::{Program, Step, Target};
use pelton_state::count::RowCounter;
use pelton_state::join::Lookups;
use pelton_state::join::matching::Retain;
use pelton_state::kernel::{Kernel, KernelError, KernelInput, Scratch, Tier};
use pelton_state::table::{Entries, Table};

use crate::error::CompileError;
use crate::fold::CountedRows;
use expression::Expression;
use flat_map::FlatMap;
use pieces::{Crossed, PieceError};
use rows::{Found, Origin, Rows};

/// The interpreted code of `program.pipelines[pipeline]`.
///
/// # Errors
/// Where an expression has no type, or an aggregate does not take its argument's type.
pub fn interpret(program: &Program, pipeline: usize) -> Result<Arc<dyn Kernel>, CompileError> {
    let planned = &program.pipelines[pipeline];
    let mut columns = PipelineColumns::of_input(&planned.input_schema);
    let steps = planned.steps.iter().map(|step| columns.add_step(step)).collect::<Result<Vec<_>, _>>()?;
    let target = InterpretedTarget::new(program, pipeline, &columns.schema())?;
    let crossed = Crossed::of(planned);
    Ok(Arc::new(Interpreter { origins: columns.origins, steps, target, crossed }))
}

/// The columns that a pipeline's expressions refer to, as far as its steps have come.
#[derive(Debug)]
struct PipelineColumns {
    fields: Vec<FieldRef>,
    origins: Vec<Origin>,
    lookups: usize,
}

impl PipelineColumns {
    fn of_input(schema: &SchemaRef) -> PipelineColumns {
        let fields = schema.fields().to_vec();
        let origins = (0..fields.len()).map(Origin::Block).collect();
        PipelineColumns { fields, origins, lookups: 0 }
    }

    fn schema(&self) -> Schema {
        Schema::new(self.fields.clone())
    }

    fn add_step(&mut self, step: &Step) -> Result<InterpretedStep, CompileError> {
        match step {
            Step::Filter(predicate) => {
                Ok(InterpretedStep::Filter(Expression::new(predicate, &self.schema(), Some(&DataType::Boolean))?))
            }
            Step::Lookup { table, keys, kind, conditions, columns, fields } => {
                let schema = self.schema();
                let keys = keys.iter().map(|key| key_expression(key, &schema)).collect::<Result<_, _>>()?;
                let lookup = self.lookups;
                self.lookups += 1;
                self.origins.extend(columns.iter().map(|&column| Origin::Lookup { lookup, column }));
                self.fields.extend(fields.iter().cloned());
                let schema = self.schema();
                let conditions = conditions.iter();
                let conditions = conditions.map(|one| Expression::new(one, &schema, Some(&DataType::Boolean)));
                let conditions = conditions.collect::<Result<_, _>>()?;
                Ok(InterpretedStep::Lookup { table: *table, keys, kind: *kind, conditions })
            }
            Step::FlatMap { .. } => {
                let flat_map = FlatMap::new(step, &self.schema())?.expect("the step is one");
                let lookup = self.lookups;
                self.lookups += 1;
                let columns = 0..flat_map.fields().len();
                self.origins.extend(columns.map(|column| Origin::Lookup { lookup, column }));
                self.fields.extend(flat_map.fields().iter().cloned());
                Ok(InterpretedStep::FlatMap(flat_map))
            }
        }
    }
}

/// A key: strings are views, or codes of views.
pub(crate) fn key_expression(planned: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Expression, CompileError> {
    let expression = Expression::new(planned, schema, None)?;
    let is_coded = matches!(expression.data_type(), DataType::Dictionary(_, value) if **value == DataType::Utf8View);
    match logical_type(expression.data_type()) {
        _ if is_coded => Ok(expression),
        DataType::Utf8 | DataType::LargeUtf8 => Expression::new(planned, schema, Some(&DataType::Utf8View)),
        wanted => Expression::new(planned, schema, Some(wanted)),
    }
}

#[derive(Debug)]
enum InterpretedStep {
    Filter(Expression),
    Lookup {
        /// Which of the program's tables.
        table: usize,
        keys: Vec<Expression>,
        kind: JoinKind,
        /// What candidates must meet, in this order.
        conditions: Vec<Expression>,
    },
    FlatMap(FlatMap),
}

#[derive(Debug)]
enum InterpretedTarget {
    Stream {
        columns: Vec<Expression>,
        schema: SchemaRef,
    },
    Window {
        keys: Vec<Expression>,
        /// Each argument once, however many accumulators it has.
        arguments: Vec<Expression>,
        /// For each accumulator its argument; `None` counts rows.
        accumulators: Vec<Option<usize>>,
        /// Which port of its operator the pipeline feeds.
        position_input: usize,
    },
}

impl InterpretedTarget {
    fn new(program: &Program, pipeline: usize, schema: &Schema) -> Result<InterpretedTarget, CompileError> {
        match &program.pipelines[pipeline].target {
            Target::Stream { columns, schema: output } | Target::Rows { columns, schema: output, .. } => {
                let typed = columns.iter().zip(output.fields());
                let columns = typed
                    .map(|(column, field)| Expression::new(column, schema, Some(field.data_type())))
                    .collect::<Result<_, _>>()?;
                Ok(InterpretedTarget::Stream { columns, schema: output.clone() })
            }
            Target::Groups { port, keys, arguments } => {
                let groups = program.groups(port.operator);
                let keys = keys.iter().map(|key| key_expression(key, schema)).collect::<Result<_, _>>()?;
                let mut unique = Vec::new();
                let accumulators = arguments
                    .iter()
                    .zip(&groups.accumulators)
                    .map(|(argument, accumulator)| add_argument(&mut unique, argument.as_ref(), accumulator, schema))
                    .collect::<Result<_, _>>()?;
                Ok(InterpretedTarget::Window { keys, arguments: unique, accumulators, position_input: port.number })
            }
        }
    }
}

/// Finds or adds the argument among `unique`, and checks that the accumulator takes its type.
fn add_argument(
    unique: &mut Vec<Expression>,
    argument: Option<&Arc<dyn PhysicalExpr>>,
    accumulator: &Accumulator,
    schema: &Schema,
) -> Result<Option<usize>, CompileError> {
    let Some(argument) = argument else { return Ok(None) };
    let wanted = match accumulator.accumulate {
        Accumulate::Count | Accumulate::Arrivals => None,
        _ => accumulator.argument_type.as_ref().map(logical_type),
    };
    let argument = Expression::new(argument, schema, wanted)?;
    let (aggregate, takes): (_, fn(&DataType) -> bool) = match accumulator.accumulate {
        Accumulate::Count => ("COUNT", |_| true),
        Accumulate::SumInteger => ("SUM", DataType::is_integer),
        Accumulate::SumWide => {
            ("SUM", |data_type| data_type.is_integer() || matches!(data_type, DataType::Decimal128(..)))
        }
        Accumulate::SumFloat => ("SUM", |data_type| matches!(data_type, DataType::Float32 | DataType::Float64)),
        Accumulate::SumFloatWide | Accumulate::SumSquares => {
            ("VAR", |data_type| matches!(data_type, DataType::Float64))
        }
        Accumulate::SumSquares128 => {
            ("VAR", |data_type| data_type.is_signed_integer() && *data_type != DataType::Int64)
        }
        Accumulate::SumSquares192 => ("VAR", DataType::is_signed_integer),
        Accumulate::Minimum => ("MIN", has_extremes),
        Accumulate::Maximum => ("MAX", has_extremes),
        Accumulate::First => ("FIRST_VALUE", has_extremes),
        Accumulate::Last => ("LAST_VALUE", has_extremes),
        Accumulate::Values => ("an aggregate of all values", has_extremes),
        Accumulate::Arrivals => ("an aggregate of all values", |_| true),
        Accumulate::Distinct { .. } => ("an aggregate of DISTINCT values", has_extremes),
        Accumulate::Frequencies => ("MODE or APPROX_PERCENTILE", has_extremes),
        Accumulate::DistinctSketch => ("APPROX_COUNT_DISTINCT", has_extremes),
        Accumulate::Udaf(_) => ("an aggregate of its own", |data_type| matches!(data_type, DataType::Struct(_))),
    };
    if !takes(argument.data_type()) {
        return Err(CompileError::Argument {
            aggregate,
            data_type: pelton_data::column::sql_name(argument.data_type()),
        });
    }
    let position = unique.iter().position(|other| other.same_as(&argument)).unwrap_or_else(|| {
        unique.push(argument);
        unique.len() - 1
    });
    Ok(Some(position))
}

fn has_extremes(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Boolean | DataType::Utf8View | DataType::BinaryView)
        || data_type.primitive_width().is_some()
}

/// See [`interpret`].
#[derive(Debug)]
struct Interpreter {
    origins: Vec<Origin>,
    steps: Vec<InterpretedStep>,
    target: InterpretedTarget,
    crossed: Crossed,
}

impl Interpreter {
    /// The rows that pass all steps; later steps see only the survivors of earlier ones.
    fn surviving_rows<'a>(&'a self, input: KernelInput<'a>, lookups: &'a Lookups) -> Result<Rows<'a>, KernelError> {
        let mut rows = Rows::new(input, &self.origins);
        for step in &self.steps {
            if rows.len() == 0 {
                break;
            }
            match step {
                InterpretedStep::Filter(predicate) => {
                    let truth = predicate.evaluate(&mut rows)?;
                    rows.keep(&truth);
                }
                InterpretedStep::Lookup { table, keys, kind, conditions } => {
                    let keys = evaluate_all(keys, &mut rows)?;
                    let (mut positions, mut matches) = (Vec::new(), Vec::new());
                    let bucket = lookups.bucket(*table);
                    let found = Found::Table(bucket);
                    let mut retain =
                        |positions: &mut _, matches: &mut _| rows.retain_pairs(&found, conditions, positions, matches);
                    let retain: Option<Retain<'_, _>> = (!conditions.is_empty()).then_some(&mut retain);
                    bucket.join((&keys, rows.len()), *kind, retain, &mut positions, &mut matches)?;
                    rows.join(found, positions, matches);
                }
                InterpretedStep::FlatMap(flat_map) => {
                    let made = flat_map.call(&mut rows)?;
                    rows.join(Found::Made(made.columns), made.positions, made.matches);
                }
            }
        }
        Ok(rows)
    }

    /// The rows for a window, where there are any.
    fn evaluate<'a>(
        &'a self,
        input: KernelInput<'a>,
        lookups: &'a Lookups,
    ) -> Result<Option<Evaluated<'a>>, KernelError> {
        let InterpretedTarget::Window { keys, arguments, accumulators, position_input } = &self.target else {
            panic!("this pipeline ends in a stream");
        };
        let mut rows = self.surviving_rows(input, lookups)?;
        if rows.len() == 0 {
            return Ok(None);
        }
        let (keys, arguments) = (evaluate_all(keys, &mut rows)?, evaluate_all(arguments, &mut rows)?);
        Ok(Some(Evaluated { keys, arguments, accumulators, rows, position_input: *position_input }))
    }
}

/// What a pipeline's rows are grouped by, and what is accumulated of them.
struct Evaluated<'a> {
    keys: Vec<ArrayRef>,
    /// Each argument once.
    arguments: Vec<ArrayRef>,
    /// For each accumulator its argument; `None` counts rows.
    accumulators: &'a [Option<usize>],
    rows: Rows<'a>,
    /// Which of the window's inputs the pipeline is.
    position_input: usize,
}

impl Evaluated<'_> {
    /// Changes accumulators of the entries of the rows.
    fn update(&self, table: &mut Table, entries: Entries<'_>) {
        let (kept, positions) = (CountedRows::Range(0, self.rows.len()), self.rows.positions(self.position_input));
        for (slot, argument) in self.accumulators.iter().enumerate() {
            let argument = argument.map(|argument| &self.arguments[argument]);
            update::update(table, slot, entries, argument, kept, positions);
        }
    }
}

fn evaluate_all(expressions: &[Expression], rows: &mut Rows<'_>) -> Result<Vec<ArrayRef>, KernelError> {
    expressions.iter().map(|expression| expression.evaluate_array(rows)).collect()
}

impl Kernel for Interpreter {
    fn tier(&self) -> Tier {
        Tier::Interpreted
    }

    fn aggregate(
        &self,
        input: KernelInput<'_>,
        lookups: &Lookups,
        table: &mut Table,
        scratch: &mut Scratch,
    ) -> Result<(), KernelError> {
        self.crossed.for_each(input, lookups, |piece| {
            if let Some(evaluated) = self.evaluate(piece, lookups).map_err(PieceError::NotTaken)? {
                let entries = aggregate::find_entries(table, &evaluated.keys, scratch);
                evaluated.update(table, entries);
            }
            Ok(())
        })
    }

    fn count(
        &self,
        input: KernelInput<'_>,
        lookups: &Lookups,
        counter: &mut RowCounter,
        scratch: &mut Scratch,
    ) -> Result<(), KernelError> {
        self.crossed.for_each(input, lookups, |piece| {
            if let Some(evaluated) = self.evaluate(piece, lookups).map_err(PieceError::NotTaken)? {
                aggregate::find_entries(counter.keys(), &evaluated.keys, scratch);
                counter.place(&mut scratch.entries);
                evaluated.update(counter.values(), Entries::Each(&scratch.entries));
                counter.rows_added();
            }
            Ok(())
        })
    }

    fn emit(
        &self,
        inputs: &[KernelInput<'_>],
        lookups: &Lookups,
        output: &mut Vec<RecordBatch>,
        _scratch: &mut Scratch,
    ) -> Result<(), KernelError> {
        let InterpretedTarget::Stream { columns, schema } = &self.target else {
            panic!("this pipeline ends in a window");
        };
        let mut rows_made = 0;
        let mut emit = |piece| {
            let mut rows = self.surviving_rows(piece, lookups).map_err(PieceError::NotTaken)?;
            if rows.len() == 0 {
                return Ok(());
            }
            rows_made += rows.len();
            self.crossed.check_made(rows_made, schema)?;
            let columns = evaluate_all(columns, &mut rows)?;
            let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
            let batch = RecordBatch::try_new_with_options(schema.clone(), columns, &options);
            output.push(batch.map_err(|error| KernelError::Expression(error.to_string()))?);
            Ok(())
        };
        inputs.iter().try_for_each(|&input| self.crossed.for_each(input, lookups, &mut emit))
    }
}
