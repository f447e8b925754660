//! Joins of two tables that several queries have in common.
//!
//! Queries that join two tables by the same keys in the same windows compute the same pairs, whatever columns they read, which rows they select and whatever becomes of the pairs. For
//! all of them the join runs once (HDES, section 3.3.3), with the conditions on rows that all of them have, and each tests its others on the pairs: [`SharedJoin::producer`] is the program that makes the pairs, and [`SharedJoin::reader`] is a query
//! that takes them in the place of its own join.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Column;
use datafusion_physical_expr::utils::collect_columns;
use pelton_data::arrangement::Arrangement;
use pelton_data::join::{JoinColumn, JoinKind, JoinSide, JoinSpec, JoinTime, Side, WindowBound};
use pelton_data::{Micros, TimeColumn};

use crate::coerce::held_types::held_or_same;
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
    /// Whether operators of the query go by the time of the window's results.
    has_time: bool,
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
    /// Conditions that rows meet before they are joined.
    filters: Vec<Arc<dyn PhysicalExpr>>,
    /// Those that may as well be tested behind the join.
    movable_filters: Vec<Arc<dyn PhysicalExpr>>,
    /// The columns that rows are kept with.
    columns: Vec<(Arc<dyn PhysicalExpr>, FieldRef)>,
    /// Those that are equal to those of the other side.
    keys: Vec<usize>,
}

impl SharedJoin {
    /// The join that a program begins with; nothing where it reads anything else, or the join is not shared.
    pub fn of(program: &Program) -> Option<SharedJoin> {
        let Some((Operator::Join(join), behind)) = program.operators.split_first() else { return None };
        let StreamJoin { spec, residual, .. } = &**join;
        if !matches!(spec.time, JoinTime::Windows { .. }) || residual.is_some() || !program.lookups.is_empty() {
            return None;
        }
        let is_of_table = |pipeline: &Pipeline| is_of_source(pipeline.input);
        let is_side = |pipeline: &Pipeline| pipeline.target.port().is_some_and(|port| port.operator == 0);
        let mut inputs = program.outputs.iter().flat_map(|output| &output.inputs);
        if program.pipelines.iter().any(|pipeline| is_of_table(pipeline) != is_side(pipeline))
            || inputs.any(|input| matches!(input, StreamRef::Source(_)))
        {
            return None;
        }
        let mut feeding = program.feeding(0);
        let (Some((_, left)), Some((_, right)), None) = (feeding.next(), feeding.next(), feeding.next()) else {
            return None;
        };
        let side = |side: Side, pipeline| {
            // A row without a match that leaves has no values of the other side.
            let has_movable_filters = !spec.kind.keeps_unmatched(side.other());
            JoinedTable::of(program, pipeline, &spec.sides[side.port()], has_movable_filters)
        };
        let sides = [side(Side::Left, left)?, side(Side::Right, right)?];
        let fields = spec.schema.fields().iter().cloned();
        let mut columns: Vec<_> = spec.columns.iter().copied().zip(fields).collect();
        let own_columns = columns.len();
        if !columns.iter().any(|(column, _)| *column == RESULT_TIME) {
            let millisecond = DataType::Timestamp(TimeUnit::Millisecond, None);
            columns.push((RESULT_TIME, Arc::new(Field::new("window_time", millisecond, false))));
        }
        let time = spec.output_time.map(|time| spec.columns[time.index]);
        if !behind.is_empty() && time != Some(RESULT_TIME) {
            return None;
        }
        let has_time = !behind.is_empty();
        Some(SharedJoin { sides, kind: spec.kind, time: spec.time, columns, own_columns, has_time })
    }

    /// Whether both make the same pairs, but for those that conditions behind the join leave out.
    pub fn is_alike(&self, other: &SharedJoin) -> bool {
        let sides = self.sides.iter().zip(&other.sides);
        self.kind == other.kind && self.time == other.time && { sides }.all(|(one, other)| one.is_alike(other))
    }

    /// Whether it has all pairs and columns of another one that is alike.
    pub fn covers(&self, other: &SharedJoin) -> bool {
        (0..other.columns.len()).all(|column| self.place(other, column).is_some())
            && Side::BOTH.iter().all(|side| self.tests_less(other, *side))
            && self.filters_behind(other).all(|(side, filter)| {
                columns_of(filter).iter().all(|column| self.place_of_table(side, *column).is_some())
            })
    }

    /// Whether all movable filters of a side are those of another one as well.
    fn tests_less(&self, other: &SharedJoin, side: Side) -> bool {
        let [mine, theirs] = [self, other].map(|join| &join.sides[side.port()].movable_filters);
        mine.iter().all(|filter| contains(theirs, filter))
    }

    /// The filters of another one that are tested behind this one.
    fn filters_behind<'f>(&'f self, other: &'f SharedJoin) -> impl Iterator<Item = (Side, &'f Arc<dyn PhysicalExpr>)> {
        Side::BOTH.into_iter().flat_map(move |side| {
            let known = &self.sides[side.port()].movable_filters;
            let filters = &other.sides[side.port()].movable_filters;
            filters.iter().filter(|filter| !contains(known, filter)).map(move |filter| (side, filter))
        })
    }

    /// Where it has a column of a side's table.
    fn place_of_table(&self, side: Side, column: usize) -> Option<usize> {
        let rows = &self.sides[side.port()];
        let is_column = |kept: usize| {
            let (expression, field) = &rows.columns[kept];
            let known = expression.downcast_ref::<Column>();
            known.is_some_and(|known| known.index() == column) && field.data_type() == rows.fields[&column].data_type()
        };
        self.columns
            .iter()
            .position(|(known, _)| matches!(*known, JoinColumn::Of(of, kept) if of == side && is_column(kept)))
    }

    /// The pairs of both, where another one is alike, with the columns of both and those by which each query finds its own pairs.
    pub fn with(&self, other: &SharedJoin) -> SharedJoin {
        let mut both = self.clone();
        for (mine, theirs) in both.sides.iter_mut().zip(&other.sides) {
            mine.fields.extend(theirs.fields.iter().map(|(column, field)| (*column, field.clone())));
            mine.movable_filters.retain(|filter| contains(&theirs.movable_filters, filter));
        }
        for join in [self, other] {
            let filters = both.filters_behind(join).map(|(side, filter)| (side, columns_of(filter)));
            for (side, columns) in filters.collect::<Vec<_>>() {
                columns.into_iter().for_each(|column| both.add_column_of_table(side, column));
            }
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

    fn add_column_of_table(&mut self, side: Side, column: usize) {
        if self.place_of_table(side, column).is_none() {
            let rows = &mut self.sides[side.port()];
            let field = rows.fields[&column].clone();
            let kept = rows.place_or_add((Arc::new(Column::new(field.name(), column)), field.clone()));
            self.columns.push((JoinColumn::Of(side, kept), field));
        }
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
        let filters = producer.filters_behind(self).map(|(side, filter)| {
            let place = |column| producer.place_of_table(side, column).expect("the producer covers the query");
            Step::Filter(renumbered(filter, place))
        });
        let filters: Vec<Step> = filters.collect();
        let (mut pipelines, mut numbers) = (Vec::new(), BTreeMap::new());
        let behind = program.pipelines.iter().enumerate().filter(|(_, pipeline)| !is_of_source(pipeline.input));
        for (number, pipeline) in behind {
            numbers.insert(number, pipelines.len());
            let mut read = match pipeline.input {
                StreamRef::Operator(0) => {
                    let mut over_pairs = pipeline.over(StreamRef::Source(0), &schema, expression);
                    over_pairs.steps.splice(0..0, filters.clone());
                    over_pairs
                }
                input => Pipeline { input: without_join(input, &numbers), ..pipeline.clone() },
            };
            read.target.port_mut().into_iter().for_each(|port| port.operator -= 1);
            pipelines.push(read);
        }
        let mut outputs = program.outputs.clone();
        for input in outputs.iter_mut().flat_map(|output| &mut output.inputs) {
            *input = match *input {
                StreamRef::Operator(0) => {
                    pipelines.push(passing(&schema, filters.clone(), &places, program.schema(*input)));
                    StreamRef::Pipeline(pipelines.len() - 1)
                }
                input => without_join(input, &numbers),
            };
        }
        let time = match self.has_time {
            // Rows come with how far time has come, and do not move it themselves.
            true => TimeSource::Event { column: producer.result_time().index, delay: Micros::MAX },
            false => TimeSource::None,
        };
        let source = SourceUse {
            table: producer.name(),
            columns: (0..width).collect(),
            computed_time: None,
            schema,
            time,
            rows: None,
            join: Some(producer.clone()),
        };
        let operators = program.operators[1..].iter().map(Operator::without_first).collect();
        Program { sources: vec![source], lookups: Vec::new(), pipelines, operators, outputs }
    }
}

fn is_of_source(stream: StreamRef) -> bool {
    matches!(stream, StreamRef::Source(_))
}

/// A stream of a program, which is not that of its first operator, where this is left out, and pipelines have these numbers.
fn without_join(stream: StreamRef, pipelines: &BTreeMap<usize, usize>) -> StreamRef {
    match stream {
        StreamRef::Pipeline(number) => StreamRef::Pipeline(pipelines[&number]),
        StreamRef::Operator(number) => StreamRef::Operator(number - 1),
        StreamRef::Source(_) => unreachable!("only a side of the join reads a table"),
    }
}

impl JoinedTable {
    /// The side that a pipeline feeds, of a join that keeps rows like this; nothing where these are not rows of a table with an event time of its own.
    fn of(program: &Program, pipeline: &Pipeline, side: &JoinSide, has_movable_filters: bool) -> Option<JoinedTable> {
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
        let filters: Vec<_> = filters.collect::<Option<_>>()?;
        let fields: BTreeMap<_, _> = used.columns.iter().copied().zip(used.schema.fields().iter().cloned()).collect();
        let is_kept = |column: usize| held_or_same(fields[&column].data_type()) == *fields[&column].data_type();
        let is_movable =
            |filter: &Arc<dyn PhysicalExpr>| has_movable_filters && columns_of(filter).into_iter().all(is_kept);
        let (movable_filters, filters) = filters.into_iter().partition(is_movable);
        let columns = columns.iter().zip(side.schema.fields());
        Some(JoinedTable {
            table: used.table.clone(),
            time: (used.columns[column], delay),
            fields,
            filters,
            movable_filters,
            columns: columns.map(|(column, field)| (of_table(column), field.clone())).collect(),
            keys: side.keys.clone(),
        })
    }

    fn is_alike(&self, other: &JoinedTable) -> bool {
        let key = |side: &JoinedTable, number: usize| side.columns[side.keys[number]].clone();
        self.table == other.table
            && self.time == other.time
            && self.keys.len() == other.keys.len()
            && (0..self.keys.len()).all(|number| same_column(&key(self, number), &key(other, number)))
            && self.filters.iter().all(|filter| contains(&other.filters, filter))
            && other.filters.iter().all(|filter| contains(&self.filters, filter))
    }

    /// All that is computed for each row, with the type that it has.
    pub fn expressions(&self) -> impl Iterator<Item = (&Arc<dyn PhysicalExpr>, &DataType)> {
        let columns = self.columns.iter().map(|(column, field)| (column, field.data_type()));
        columns.chain(self.all_filters().map(|filter| (filter, &DataType::Boolean)))
    }

    fn all_filters(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        self.filters.iter().chain(&self.movable_filters)
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
            steps: self.all_filters().map(|filter| Step::Filter(of_source(filter))).collect(),
            target: Target::Rows {
                port: Port { operator: 0, number: port },
                columns: self.columns.iter().map(|(column, _)| of_source(column)).collect(),
                schema: self.schema(),
            },
        }
    }
}

/// A pipeline that lets the columns at these places pass as those of `to`, of rows that meet the filters.
fn passing(from: &SchemaRef, filters: Vec<Step>, places: &[usize], to: &SchemaRef) -> Pipeline {
    let column = |&place: &usize| Arc::new(Column::new(from.field(place).name(), place)) as Arc<dyn PhysicalExpr>;
    Pipeline {
        input: StreamRef::Source(0),
        input_schema: from.clone(),
        steps: filters,
        target: Target::Stream { columns: places.iter().map(column).collect(), schema: to.clone() },
    }
}

fn contains(filters: &[Arc<dyn PhysicalExpr>], filter: &Arc<dyn PhysicalExpr>) -> bool {
    filters.iter().any(|known| known.as_ref() == filter.as_ref())
}

/// The columns that an expression reads, in ascending order.
fn columns_of(expression: &Arc<dyn PhysicalExpr>) -> BTreeSet<usize> {
    collect_columns(expression).iter().map(Column::index).collect()
}

fn same_column(one: &(Arc<dyn PhysicalExpr>, FieldRef), other: &(Arc<dyn PhysicalExpr>, FieldRef)) -> bool {
    one.0.as_ref() == other.0.as_ref() && same_type(&one.1, &other.1)
}

fn same_type(one: &Field, other: &Field) -> bool {
    one.data_type() == other.data_type() && one.is_nullable() == other.is_nullable()
}
