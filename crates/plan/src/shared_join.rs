//! Joins of two tables that several queries have in common.
//!
//! Queries that join the same rows of two tables by the same keys in the same windows compute the same pairs, whatever columns they read and whatever becomes of the pairs. For
//! all of them the join runs once (HDES, section 3.3.3): [`SharedJoin::producer`] is the program that makes the pairs, and [`SharedJoin::reader`] is a query
//! that takes them in the place of its own join.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Column;
use pelton_data::arrangement::Arrangement;
use pelton_data::join::{JoinColumn, JoinKind, JoinSide, JoinSpec, JoinTime, WindowBound};
use pelton_data::{Micros, TimeColumn};

use crate::pipeline::{
    Operator, Output, OutputTarget, Pipeline, Port, Program, SourceUse, Step, StreamJoin, StreamRef, Target, TimeSource,
};
use crate::renumber::renumbered;

/// What all shared joins have as a column: it tells which window a pair is of.
const RESULT_TIME: JoinColumn = JoinColumn::Window(WindowBound::Time, None);

/// A join of two tables by windows, with the columns that are read of its pairs. Expressions are over the columns of the tables, by their places in them.
#[derive(Debug, Clone)]
pub struct SharedJoin {
    sides: [JoinedTable; 2],
    kind: JoinKind,
    time: JoinTime,
    /// The columns of pairs: those of the query, and the time of the window's results where that is not one of them.
    columns: Vec<(JoinColumn, FieldRef)>,
    /// How many of these are the query's.
    own_columns: usize,
}

/// A side of a join.
#[derive(Debug, Clone)]
pub struct JoinedTable {
    /// Its name in the catalogue.
    pub table: String,
    /// Its event time, and how far the watermark trails that.
    time: (usize, Micros),
    /// The columns of the table that are read, by their places.
    fields: BTreeMap<usize, FieldRef>,
    /// Conditions that rows meet.
    filters: Vec<Arc<dyn PhysicalExpr>>,
    /// The columns that rows are kept with.
    columns: Vec<(Arc<dyn PhysicalExpr>, FieldRef)>,
    /// Those that are equal to those of the other side.
    keys: Vec<usize>,
}

impl SharedJoin {
    /// The join that a program is; nothing where it is more, or a join that is not shared.
    pub fn of(program: &Program) -> Option<SharedJoin> {
        let [Operator::Join(join)] = &program.operators[..] else { return None };
        let StreamJoin { spec, residual, .. } = &**join;
        if !matches!(spec.time, JoinTime::Windows { .. }) || residual.is_some() || !program.lookups.is_empty() {
            return None;
        }
        let is_behind = |pipeline: &Pipeline| pipeline.input == StreamRef::Operator(0);
        let is_side = |pipeline: &Pipeline| pipeline.target.port().is_some();
        let mut inputs = program.outputs.iter().flat_map(|output| &output.inputs);
        if program.pipelines.iter().any(|pipeline| is_behind(pipeline) == is_side(pipeline))
            || inputs.any(|input| matches!(input, StreamRef::Source(_)))
        {
            return None;
        }
        let mut feeding = program.feeding(0);
        let (Some((_, left)), Some((_, right)), None) = (feeding.next(), feeding.next(), feeding.next()) else {
            return None;
        };
        let sides = [JoinedTable::of(program, left, &spec.sides[0])?, JoinedTable::of(program, right, &spec.sides[1])?];
        let fields = spec.schema.fields().iter().cloned();
        let mut columns: Vec<_> = spec.columns.iter().copied().zip(fields).collect();
        let own_columns = columns.len();
        if !columns.iter().any(|(column, _)| *column == RESULT_TIME) {
            let millisecond = DataType::Timestamp(TimeUnit::Millisecond, None);
            columns.push((RESULT_TIME, Arc::new(Field::new("window_time", millisecond, false))));
        }
        Some(SharedJoin { sides, kind: spec.kind, time: spec.time, columns, own_columns })
    }

    /// Whether both make the same pairs.
    pub fn is_alike(&self, other: &SharedJoin) -> bool {
        let sides = self.sides.iter().zip(&other.sides);
        self.kind == other.kind && self.time == other.time && { sides }.all(|(one, other)| one.is_alike(other))
    }

    /// Whether it has all columns of another one that is alike.
    pub fn covers(&self, other: &SharedJoin) -> bool {
        (0..other.columns.len()).all(|column| self.place(other, column).is_some())
    }

    /// The same, with the columns of another one that is alike as well.
    pub fn with(&self, other: &SharedJoin) -> SharedJoin {
        let mut both = self.clone();
        for (mine, theirs) in both.sides.iter_mut().zip(&other.sides) {
            mine.fields.extend(theirs.fields.iter().map(|(column, field)| (*column, field.clone())));
        }
        for (index, (column, field)) in other.columns.iter().enumerate() {
            if both.place(other, index).is_some() {
                continue;
            }
            let column = match *column {
                JoinColumn::Of(side, index) => {
                    let kept = other.sides[side.port()].columns[index].clone();
                    JoinColumn::Of(side, both.sides[side.port()].place_or_add(kept))
                }
                bound @ JoinColumn::Window(..) => bound,
            };
            both.columns.push((column, field.clone()));
        }
        both
    }

    /// Where it has a column of another one that is alike.
    fn place(&self, other: &SharedJoin, column: usize) -> Option<usize> {
        let (wanted, wanted_field) = &other.columns[column];
        let is_same = |(known, field): &(JoinColumn, FieldRef)| {
            let is_same = match (*known, *wanted) {
                (JoinColumn::Of(side, mine), JoinColumn::Of(other_side, theirs)) if side == other_side => {
                    let of = |join: &SharedJoin, column: usize| join.sides[side.port()].columns[column].clone();
                    same_column(&of(self, mine), &of(other, theirs))
                }
                (known, wanted) => known == wanted,
            };
            is_same && same_type(field, wanted_field)
        };
        self.columns.iter().position(is_same)
    }

    /// The tables, left and right.
    pub fn sides(&self) -> &[JoinedTable; 2] {
        &self.sides
    }

    /// For people.
    pub fn name(&self) -> String {
        let [left, right] = &self.sides;
        format!("join of {} and {}", left.table, right.table)
    }

    /// The columns of its pairs.
    pub fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(self.columns.iter().map(|(_, field)| field.clone()).collect::<Vec<_>>()))
    }

    /// Which of them is the time of the window's results.
    ///
    /// # Panics
    /// Never: each has one.
    pub fn result_time(&self) -> TimeColumn {
        let place = self.columns.iter().position(|(column, _)| *column == RESULT_TIME);
        let place = place.expect("each shared join has the time of its results");
        TimeColumn::new(place, self.columns[place].1.data_type()).expect("a time of results is a time")
    }

    /// When the window began whose results have this time.
    pub fn began(&self, result_time: Micros) -> Micros {
        let JoinTime::Windows { bounds, .. } = &self.time else { unreachable!("only joins by windows are shared") };
        bounds.start_of_result(result_time)
    }

    /// A program whose result is the pairs.
    pub fn producer(&self) -> Program {
        let mut sources: Vec<SourceUse> = Vec::new();
        let mut pipelines = Vec::new();
        for (number, side) in self.sides.iter().enumerate() {
            let mut all = side.clone();
            let same = self.sides.iter().filter(|other| (&other.table, other.time) == (&side.table, side.time));
            same.for_each(|other| all.fields.extend(other.fields.clone()));
            let used = all.source();
            let source = sources.iter().position(|source| source.table == used.table).unwrap_or_else(|| {
                sources.push(used.clone());
                sources.len() - 1
            });
            pipelines.push(side.pipeline(source, number, &used));
        }
        let sides =
            self.sides.each_ref().map(|side| JoinSide { schema: side.schema(), keys: side.keys.clone(), time: None });
        let columns = self.columns.iter().map(|(column, _)| *column).collect();
        let schema = self.schema();
        let spec =
            JoinSpec { kind: self.kind, time: self.time, sides, columns, schema: schema.clone(), output_time: None };
        let output = Output {
            inputs: vec![StreamRef::Operator(0)],
            schema,
            arrangement: Arrangement::default(),
            target: OutputTarget::Result,
        };
        Program {
            sources,
            lookups: Vec::new(),
            pipelines,
            operators: vec![Operator::Join(Box::new(StreamJoin { spec, residual: None, left_ports: 1 }))],
            outputs: vec![output],
        }
    }

    /// The program that this is the join of, over the pairs that another one makes, which covers it.
    ///
    /// # Panics
    /// Where the other one lacks columns.
    pub fn reader(&self, program: &Program, producer: &Arc<SharedJoin>) -> Program {
        let (schema, own) = (producer.schema(), self.own_columns);
        let places = (0..own).map(|column| producer.place(self, column).expect("the producer covers the query"));
        let places: Vec<usize> = places.collect();
        let width = schema.fields().len();
        // Columns that steps add stand behind those of the input.
        let place = |column: usize| places.get(column).copied().unwrap_or(width + column.saturating_sub(own));
        let expression = |expression: &Arc<dyn PhysicalExpr>| renumbered(expression, place);
        let (mut pipelines, mut numbers) = (Vec::new(), BTreeMap::new());
        for (number, pipeline) in program.pipelines.iter().enumerate() {
            if pipeline.input == StreamRef::Operator(0) {
                numbers.insert(number, pipelines.len());
                pipelines.push(pipeline.over(StreamRef::Source(0), &schema, expression));
            }
        }
        let mut outputs = program.outputs.clone();
        for output in &mut outputs {
            for input in &mut output.inputs {
                let pipeline = match *input {
                    StreamRef::Pipeline(number) => numbers[&number],
                    StreamRef::Source(_) | StreamRef::Operator(_) => {
                        pipelines.push(passing(&schema, &places, program.schema(*input)));
                        pipelines.len() - 1
                    }
                };
                *input = StreamRef::Pipeline(pipeline);
            }
        }
        let source = SourceUse {
            table: producer.name(),
            columns: (0..width).collect(),
            computed_time: None,
            schema,
            time: TimeSource::None,
            rows: None,
            join: Some(producer.clone()),
        };
        Program { sources: vec![source], lookups: Vec::new(), pipelines, operators: Vec::new(), outputs }
    }
}

impl JoinedTable {
    /// The side that a pipeline feeds, of a join that keeps rows like this; nothing where these are not rows of a table with an event time of its own.
    fn of(program: &Program, pipeline: &Pipeline, side: &JoinSide) -> Option<JoinedTable> {
        let StreamRef::Source(source) = pipeline.input else { return None };
        let used = &program.sources[source];
        let TimeSource::Event { column, delay } = used.time else { return None };
        let Target::Rows { columns, .. } = &pipeline.target else { return None };
        if used.computed_time.is_some() || used.rows.is_some() || side.time.is_some() {
            return None;
        }
        let of_table = |expression: &Arc<dyn PhysicalExpr>| renumbered(expression, |column| used.columns[column]);
        let filters = pipeline.steps.iter().map(|step| match step {
            Step::Filter(condition) => Some(of_table(condition)),
            Step::Lookup { .. } | Step::FlatMap { .. } => None,
        });
        let columns = columns.iter().zip(side.schema.fields());
        Some(JoinedTable {
            table: used.table.clone(),
            time: (used.columns[column], delay),
            fields: used.columns.iter().copied().zip(used.schema.fields().iter().cloned()).collect(),
            filters: filters.collect::<Option<_>>()?,
            columns: columns.map(|(column, field)| (of_table(column), field.clone())).collect(),
            keys: side.keys.clone(),
        })
    }

    fn is_alike(&self, other: &JoinedTable) -> bool {
        let key = |side: &JoinedTable, number: usize| side.columns[side.keys[number]].clone();
        let has_filter = |side: &JoinedTable, filter: &Arc<dyn PhysicalExpr>| {
            side.filters.iter().any(|known| known.as_ref() == filter.as_ref())
        };
        self.table == other.table
            && self.time == other.time
            && self.keys.len() == other.keys.len()
            && (0..self.keys.len()).all(|number| same_column(&key(self, number), &key(other, number)))
            && self.filters.iter().all(|filter| has_filter(other, filter))
            && other.filters.iter().all(|filter| has_filter(self, filter))
    }

    /// All that is computed for each row, with the type that it has.
    pub fn expressions(&self) -> impl Iterator<Item = (&Arc<dyn PhysicalExpr>, &DataType)> {
        let columns = self.columns.iter().map(|(column, field)| (column, field.data_type()));
        columns.chain(self.filters.iter().map(|filter| (filter, &DataType::Boolean)))
    }

    fn place_or_add(&mut self, column: (Arc<dyn PhysicalExpr>, FieldRef)) -> usize {
        self.columns.iter().position(|known| same_column(known, &column)).unwrap_or_else(|| {
            self.columns.push(column);
            self.columns.len() - 1
        })
    }

    fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(self.columns.iter().map(|(_, field)| field.clone()).collect::<Vec<_>>()))
    }

    /// The table, with these columns.
    fn source(&self) -> SourceUse {
        let columns: Vec<usize> = self.fields.keys().copied().collect();
        let (time, delay) = self.time;
        let column = columns.iter().position(|column| *column == time).expect("the event time is read");
        SourceUse {
            table: self.table.clone(),
            columns,
            computed_time: None,
            schema: Arc::new(Schema::new(self.fields.values().cloned().collect::<Vec<_>>())),
            time: TimeSource::Event { column, delay },
            rows: None,
            join: None,
        }
    }

    fn pipeline(&self, source: usize, port: usize, used: &SourceUse) -> Pipeline {
        let place = |column| used.columns.iter().position(|known| *known == column).expect("the column is read");
        let of_source = |expression: &Arc<dyn PhysicalExpr>| renumbered(expression, place);
        Pipeline {
            input: StreamRef::Source(source),
            input_schema: used.schema.clone(),
            steps: self.filters.iter().map(|filter| Step::Filter(of_source(filter))).collect(),
            target: Target::Rows {
                port: Port { operator: 0, number: port },
                columns: self.columns.iter().map(|(column, _)| of_source(column)).collect(),
                schema: self.schema(),
            },
        }
    }
}

/// A pipeline that lets the columns at these places pass as those of `to`.
fn passing(from: &SchemaRef, places: &[usize], to: &SchemaRef) -> Pipeline {
    let column = |&place: &usize| Arc::new(Column::new(from.field(place).name(), place)) as Arc<dyn PhysicalExpr>;
    Pipeline {
        input: StreamRef::Source(0),
        input_schema: from.clone(),
        steps: Vec::new(),
        target: Target::Stream { columns: places.iter().map(column).collect(), schema: to.clone() },
    }
}

fn same_column(one: &(Arc<dyn PhysicalExpr>, FieldRef), other: &(Arc<dyn PhysicalExpr>, FieldRef)) -> bool {
    one.0.as_ref() == other.0.as_ref() && same_type(&one.1, &other.1)
}

fn same_type(one: &Field, other: &Field) -> bool {
    one.data_type() == other.data_type() && one.is_nullable() == other.is_nullable()
}
