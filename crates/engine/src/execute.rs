//! From a program to a run: lookup tables are loaded, kernels made, other tables opened, and the graph handed to the runtime.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use pelton_connectors::{Conditions, Host, OnError};
use pelton_data::TimeColumn;
use pelton_data::join::JoinTime;
use pelton_data::over::OverSpec;
use pelton_data::ranking::Ranking;
use pelton_data::window::{Combination, Window};
use pelton_plan::pipeline::{
    LookupTable, Operator, Output, OutputTarget, Pipeline, Program, SharedSlices, SourceUse, StreamJoin,
    StreamRef as Planned, Target, TimeSource, WindowAggregate, WindowColumn,
};
use pelton_plan::{Catalog, Relation};
use pelton_runtime::adapt::KernelSlot;
use pelton_runtime::budget::{Budget, Held, Unread};
use pelton_runtime::checkpoint::Reserved;
use pelton_runtime::graph::{
    OperatorNode, OverNode, PipelineNode, PipelineTarget, ReadOut, SharedBy, SinkNode, SourceNode, SourceTime,
    StreamRef, TimedJoinNode, UnmatchedNode, WindowJoinNode, WindowNode, WindowStore,
};
use pelton_runtime::late::LateLog;
use pelton_runtime::pool::Pool;
use pelton_runtime::run::RunOptions;
use pelton_runtime::sink::Sink;
use pelton_runtime::source::Source;
use pelton_runtime::wake::Waker;
use pelton_state::join::Lookups;
use pelton_state::join::streams::Residual;
use pelton_state::ranking::Ranker;
use pelton_state::window::Contents;

use crate::checkpoints::job::{Checkpointed, Restored};
use crate::checkpoints::parts::{LazyParts, ProgramParts};
use crate::error::Error;
use crate::event_time::with_computed_time;
use crate::program_sharing::{ProgramSharing, SourceSharing};
use crate::program_tables::ProgramTables;
use crate::query::Query;
use crate::reader::Reader;
use crate::reload::Reloading;
use crate::results::{self, Results};
use crate::running_program::RunningProgram;
use crate::settings::{Settings, WindowChoice};
use crate::shared_joins::PairsReader;
use crate::shared_sources::{SharedSources, is_shared};
use crate::sharing::{self, Known};
use crate::table::{Destination, Opened, Origin, WatermarkOptions};
use crate::{dead_letters, emission, late, lookups, table, tier};

/// What a program is started against.
pub(crate) struct Surroundings<'a> {
    /// The name of the query, for people.
    pub name: &'a str,
    pub catalog: &'a Catalog,
    pub program_tables: &'a ProgramTables,
    pub settings: &'a Settings,
    pub pool: &'a Pool,
    pub late: &'a LateLog,
    pub shared_sources: &'a SharedSources,
    pub budget: &'a Budget,
    /// What keeps its tables from being read or written just now.
    pub conditions: &'a Conditions,
    /// Where it is a job that has checkpoints.
    pub checkpointed: Option<&'a Checkpointed>,
    /// What it goes on from.
    pub restored: Option<Restored<'a>>,
    /// The job that it takes the place of while that runs.
    pub predecessor: Option<&'a RunningProgram>,
    /// Whether who reads its result wants to know how far time has come.
    pub tells_time: bool,
}

impl Surroundings<'_> {
    /// Where it is looked up what queries share.
    fn known(&self) -> Known<'_> {
        let Surroundings { catalog, program_tables, settings, shared_sources, .. } = *self;
        Known { catalog, program_tables, settings, shared_sources }
    }

    /// The query as one that subscribes to a table.
    fn reader<'a>(&'a self, sharing: SourceSharing<'a>) -> Reader<'a> {
        Reader { name: self.name, settings: self.settings, pool: self.pool, sharing }
    }

    /// Whether it writes on where the job before does.
    fn takes_over(&self, output: &Output) -> bool {
        self.predecessor.is_some_and(|before| before.writes(output.name()))
    }

    /// What the tables of a query have of them.
    fn host(&self, waker: &Waker) -> Host {
        let committed_by = self.checkpointed.map(Checkpointed::committing);
        let conditions = self.conditions.clone();
        Host { waker: Some(waker.outside()), budget: self.budget.clone(), committed_by, conditions }
    }
}

/// A program whose joined tables are loaded and whose kernels are made. Nothing of it is visible to other queries yet.
pub(crate) struct Unstarted {
    pub program: Arc<Program>,
    pub parts: Arc<LazyParts>,
    pub sharing: ProgramSharing,
    pub lookups: Arc<Lookups>,
    pub kernels: Vec<Arc<KernelSlot>>,
    pub held: Vec<Held>,
    pub reloading: Option<Reloading>,
    pub budget: Budget,
    pub unread: Unread,
    pub options: RunOptions,
    /// The tables of connectors, in the order of the program, once they are open.
    pub sinks: VecDeque<Box<dyn Sink>>,
    pub sources: VecDeque<SourceNode>,
}

/// Loads the tables that a program joins with, which takes as long as their sources do, and makes its kernels.
pub(crate) fn prepare(program: Program, surroundings: &Surroundings<'_>) -> Result<Unstarted, Error> {
    let shared = match surroundings.checkpointed {
        // It reads its tables alone.
        Some(_) => (program, ProgramSharing::default()),
        None => shared(program, surroundings)?,
    };
    load(shared, surroundings)
}

/// The same of a program that shares with others what is known.
pub(crate) fn load(
    (program, sharing): (Program, ProgramSharing),
    surroundings: &Surroundings<'_>,
) -> Result<Unstarted, Error> {
    let budget = surroundings.budget.for_query(surroundings.settings.operator_memory_bytes_max);
    let surroundings = &Surroundings { budget: &budget, ..*surroundings };
    let options = surroundings.pool.run_options();
    let (options, unread) = match surroundings.predecessor {
        Some(before) => before.run_options(options),
        None => (options, Unread::new(budget.clone())),
    };
    let (lookups, mut held) = lookups::load_all(&program.lookups, &budget, surroundings.pool.workers(), |table| {
        read_table(table, surroundings)
    })?;
    let program = Arc::new(program);
    let parts = ProgramParts::lazy(&program);
    let kernels = tier::kernels(&program, &lookups, surroundings.settings, surroundings.pool)?;
    let reloading = Reloading::new((&program, &kernels), (&lookups, &mut held), surroundings)?;
    let (sinks, sources) = (VecDeque::new(), VecDeque::new());
    Ok(Unstarted {
        program,
        parts,
        sharing,
        lookups,
        kernels,
        held,
        reloading,
        budget,
        unread,
        options,
        sinks,
        sources,
    })
}

/// The program as it shares with queries that run, unless it keeps more of a job's state by itself.
fn shared(program: Program, surroundings: &Surroundings<'_>) -> Result<(Program, ProgramSharing), Error> {
    let Some(before) = surroundings.predecessor else { return sharing::share(program, &surroundings.known()) };
    let kept =
        |program: &Program| ProgramParts::of(program).mapping_from(&before.parts).operators.iter().flatten().count();
    let (merging, sharing) = sharing::share(program.clone(), &surroundings.known())?;
    match kept(&merging) > kept(&program) {
        true => Ok((merging, sharing)),
        false => Ok((program, sharing.not_yet())),
    }
}

/// Runs the program of a table that is joined with. Its rows are final.
pub(crate) fn read_table(
    table: &LookupTable,
    surroundings: &Surroundings<'_>,
) -> Result<impl Iterator<Item = Result<RecordBatch, Error>> + use<>, Error> {
    let settings = Settings { allowed_lateness: Duration::ZERO, early_fire: false, ..surroundings.settings.clone() };
    let surroundings =
        Surroundings { settings: &settings, checkpointed: None, restored: None, predecessor: None, ..*surroundings };
    let mut query = Some(prepare(Program::clone(&table.program), &surroundings)?.run(&surroundings)?);
    Ok(std::iter::from_fn(move || match query.as_mut()?.next_batch() {
        Ok(None) => query.take()?.wait().err().map(Err),
        next => next.transpose(),
    }))
}

pub(crate) fn pipeline_nodes(program: &Program, kernels: Vec<Arc<KernelSlot>>) -> Vec<PipelineNode> {
    let pipelines = program.pipelines.iter().zip(kernels).enumerate().map(|(index, (pipeline, kernel))| PipelineNode {
        name: program.pipeline_name(index),
        input: stream(pipeline.input),
        kernel,
        target: match &pipeline.target {
            Target::Stream { schema, .. } => PipelineTarget::Stream { schema: schema.clone(), time: None },
            Target::Rows { port, .. } | Target::Groups { port, .. } => {
                PipelineTarget::Operator { operator: port.operator, port: port.number }
            }
        },
    });
    pipelines.collect()
}

/// What a program has opened.
#[derive(Default)]
pub(crate) struct Tables {
    pub sinks: Vec<SinkNode>,
    pub sources: Vec<SourceNode>,
    /// The end at which its result is read, where it has one.
    pub results: Option<Results>,
}

impl Unstarted {
    /// Runs a program that nobody has asked for by itself, and that has no name.
    fn run(mut self, surroundings: &Surroundings<'_>) -> Result<Query, Error> {
        self.open(surroundings)?;
        self.assemble(surroundings)?.start(surroundings)
    }

    /// Opens the tables of connectors, which may create files, or wait for servers.
    pub fn open(&mut self, surroundings: &Surroundings<'_>) -> Result<(), Error> {
        let surroundings = &Surroundings { budget: &self.budget, ..*surroundings };
        let waker = &self.options.waker;
        let mut sharing = self.sharing.of_sources();
        for opened in table::opened(&self.program, surroundings.catalog, surroundings.program_tables) {
            match opened? {
                Opened::Output(output, Destination::Table(_) | Destination::Provided(..))
                    if surroundings.takes_over(output) =>
                {
                    self.sinks.push_back(Box::new(Reserved));
                }
                Opened::Output(_, Destination::Table(found)) => {
                    self.sinks.push_back(table::open_sink(found, surroundings.settings, surroundings.host(waker))?);
                }
                Opened::Output(_, Destination::Provided(found, provided)) => {
                    self.sinks.push_back(table::open_provided_sink((found, provided), surroundings.host(waker))?);
                }
                Opened::Source(_, Origin::Pushed(_)) => {
                    sharing.next();
                }
                Opened::Source(used, origin) => {
                    let sharing = sharing.next().unwrap_or_default();
                    let source = origin_source(used, &origin, surroundings, (sharing, waker))?;
                    self.sources.push_back(source_node(used, source, surroundings)?);
                }
                Opened::Output(..) | Opened::Lookup(_) => {}
            }
        }
        Ok(())
    }

    /// Checks that no other query has the tables that the user of the session has opened.
    pub fn check_program_tables(&self, surroundings: &Surroundings<'_>) -> Result<(), Error> {
        for opened in table::opened(&self.program, surroundings.catalog, surroundings.program_tables) {
            match opened? {
                Opened::Output(output, Destination::Pulled(table)) if !surroundings.takes_over(output) => {
                    table.check_unwritten(output.name())?;
                }
                Opened::Output(..) | Opened::Source(..) | Opened::Lookup(_) => {}
            }
        }
        Ok(())
    }
}

/// What a program reads and writes, where the tables of connectors are open. Those that the user of the session has opened are taken.
pub(crate) fn take_tables(
    program: &Program,
    surroundings: &Surroundings<'_>,
    (mut sinks, mut sources): (VecDeque<Box<dyn Sink>>, VecDeque<SourceNode>),
    sharing: &ProgramSharing,
    unread: &Unread,
    waker: &Waker,
) -> Result<Tables, Error> {
    let mut tables = Tables::default();
    let mut sharing = sharing.of_sources();
    for opened in table::opened(program, surroundings.catalog, surroundings.program_tables) {
        match opened? {
            Opened::Output(output, destination) => {
                let sink = match destination {
                    Destination::Result => {
                        let (unopened, results) = results::channel();
                        tables.results = Some(results);
                        match surroundings.tells_time {
                            true => unopened.open_with_time(unread, waker),
                            false => unopened.open(unread, waker, None),
                        }
                    }
                    Destination::Pulled(_) if surroundings.takes_over(output) => Box::new(Reserved),
                    Destination::Pulled(table) => table.open(output.name(), unread, waker)?,
                    Destination::Table(_) | Destination::Provided(..) => sinks.pop_front().expect("it has been opened"),
                };
                tables.sinks.push(sink_node(output, sink));
            }
            Opened::Source(used, Origin::Pushed(push)) => {
                let time = match surroundings.catalog.get(&used.table) {
                    Some(Relation::Table(found)) => table::event_time(found),
                    _ => None,
                };
                let sharing = sharing.next().unwrap_or_default();
                let source = push.subscribe(used, time, &surroundings.reader(sharing), waker)?;
                let source = with_computed_time(source, used, OnError::Fail);
                tables.sources.push(source_node(used, source, surroundings)?);
            }
            Opened::Source(..) => {
                sharing.next();
                tables.sources.push(sources.pop_front().expect("it has been opened"));
            }
            Opened::Lookup(_) => {}
        }
    }
    Ok(tables)
}

/// Where the rows of a source come from that no program pushes.
fn origin_source(
    used: &SourceUse,
    origin: &Origin<'_>,
    surroundings: &Surroundings<'_>,
    (sharing, waker): (SourceSharing<'_>, &Waker),
) -> Result<Box<dyn Source>, Error> {
    Ok(match *origin {
        Origin::Text(rows) => table::written_rows(rows.clone()),
        Origin::Join => {
            let producer = sharing.producer.expect("a program that reads pairs knows who makes them");
            let reader = PairsReader { name: surroundings.name, on_lag: surroundings.settings.on_lag, waker };
            let start = |name: &str, program| start_join(name, program, surroundings);
            let exchanges = |join: &_| surroundings.known().exchanges(join);
            producer.subscribe(used, &reader, surroundings.budget, start, exchanges)?
        }
        Origin::Pushed(_) => unreachable!("it is taken when the program starts"),
        Origin::Late => table::written_rows(
            late::rows(surroundings.late).project(&used.columns).expect("the columns are the table's"),
        ),
        Origin::Provided(found, provided) => {
            table::open_provided_source((found, provided), used, surroundings.host(waker))?
        }
        // A job that goes on from a checkpoint reads from where it was.
        Origin::Table(found)
            if surroundings.checkpointed.is_none() && is_shared(found, used, surroundings.settings) =>
        {
            let reader = (&surroundings.reader(sharing), surroundings.budget);
            surroundings.shared_sources.subscribe(found, used, reader, waker)?
        }
        Origin::Table(found) => {
            let source = table::open_source(found, used, surroundings.settings, surroundings.host(waker))?;
            match table::dead_letter_table(found) {
                Some(name) => set_aside(source, (found, name), surroundings, waker)?,
                None => source,
            }
        }
    })
}

/// Starts a join that runs for several queries, and is none of them.
fn start_join(name: &str, program: Program, surroundings: &Surroundings<'_>) -> Result<Query, Error> {
    let late = surroundings.late.of_query(name);
    let (restored, predecessor, tells_time) = (None, None, true);
    let surroundings = Surroundings { name, late: &late, restored, predecessor, tells_time, ..*surroundings };
    load((program, ProgramSharing::default()), &surroundings)?.run(&surroundings)
}

/// Has rows that do not fit a table go to another one.
fn set_aside(
    source: Box<dyn Source>,
    (found, name): (&pelton_plan::Table, &str),
    surroundings: &Surroundings<'_>,
    waker: &Waker,
) -> Result<Box<dyn Source>, Error> {
    let refused = |problem| table::dead_letters_refused(found, problem);
    let Some(Relation::Table(letters)) = surroundings.catalog.get(name) else {
        return Err(refused(format!("names '{name}', which is no table")));
    };
    let schema = table::written_schema(letters);
    dead_letters::check(&schema)
        .map_err(|problem| refused(format!("names '{name}', which does not fit: {problem}")))?;
    // Its rows are visible as they come, whatever the checkpoints are.
    let host = Host { committed_by: None, ..surroundings.host(waker) };
    let sink = table::open_sink(letters, surroundings.settings, host)?;
    Ok(dead_letters::with_dead_letters(source, &found.definition.name, (name, schema), sink))
}

fn source_node(
    used: &SourceUse,
    source: Box<dyn Source>,
    surroundings: &Surroundings<'_>,
) -> Result<SourceNode, Error> {
    let is_table = used.rows.is_none() && used.join.is_none();
    let watermarks = match surroundings.catalog.get(&used.table).filter(|_| is_table) {
        Some(Relation::Table(found)) => table::watermark_options(&found.definition)?,
        _ => WatermarkOptions::default(),
    };
    let timestamps = |column: usize| {
        let data_type = used.schema.field(column).data_type();
        TimeColumn::new(column, data_type).expect("planning lets only timestamps be event times")
    };
    let time = match used.time {
        TimeSource::None => SourceTime::None,
        TimeSource::Processing { .. } => SourceTime::Processing,
        TimeSource::Noted { column } => SourceTime::Noted { column: timestamps(column) },
        TimeSource::Event { column, delay } => {
            SourceTime::Event { column: timestamps(column), delay, ahead_max: watermarks.ahead_max }
        }
    };
    // Zero stands for never, as in Flink.
    let of_session = Some(surroundings.settings.idle_timeout).filter(|timeout| !timeout.is_zero());
    let idle_timeout = watermarks.idle_timeout.or(of_session).or(watermarks.idle_timeout_default);
    let idle_timeout = idle_timeout.filter(|timeout| !timeout.is_zero());
    let alignment = watermarks.alignment;
    Ok(SourceNode { name: used.table.clone(), source, schema: used.schema.clone(), time, idle_timeout, alignment })
}

/// Whether all rows of a stream come from sources of one partition, whose rows come in the same order in each run.
fn has_one_partition(program: &Program, sources: &[SourceNode], stream: Planned) -> bool {
    match stream {
        Planned::Source(source) => sources[source].source.partitions() == 1 && !sources[source].source.may_grow(),
        Planned::Pipeline(pipeline) => has_one_partition(program, sources, program.pipelines[pipeline].input),
        Planned::Operator(operator) => {
            // Of the parts of a UNION ALL it is not known which was read first.
            let mut feeding = program.feeding(operator);
            let (Some((_, pipeline)), None) = (feeding.next(), feeding.next()) else { return false };
            has_one_partition(program, sources, pipeline.input)
        }
    }
}

/// The stateful operators of a program, number by number.
pub(crate) fn operators(
    program: &Program,
    lookups: &Lookups,
    sources: &[SourceNode],
    settings: &Settings,
) -> Vec<OperatorNode> {
    let stores: Vec<WindowStore> = program.operators.iter().map(|_| WindowStore::default()).collect();
    let operators = program.operators.iter().enumerate().map(|(number, operator)| match operator {
        Operator::Window(window) => {
            let knows_arrival = has_one_partition(program, sources, Planned::Operator(number));
            WindowNode {
                store: stores[number].clone(),
                put_together_from: window.slices.map(|slices| stores[slices].clone()),
                ..window_node(program, number, settings, knows_arrival)
            }
            .into()
        }
        Operator::Slices(slices) => {
            let shared_by = slices.windows.iter().map(|&window| SharedBy {
                operator: window,
                window: program.groups(window).window,
                store: stores[window].clone(),
            });
            WindowNode {
                store: stores[number].clone(),
                shared_by: shared_by.collect(),
                ..slices_node(program, number, slices, settings)
            }
            .into()
        }
        Operator::Over(spec) => over_node(program, number, spec).into(),
        Operator::Join(join) => join_node(program, number, join, settings),
        Operator::Unmatched(unmatched) => UnmatchedNode {
            name: program.operator_name(number),
            bucket: lookups.bucket(unmatched.table).clone(),
            columns: unmatched.columns.clone(),
            schema: unmatched.schema.clone(),
        }
        .into(),
    });
    operators.collect()
}

fn window_node(program: &Program, number: usize, settings: &Settings, knows_arrival: bool) -> WindowNode {
    let mut window = program.groups(number).clone();
    window.ranking.iter_mut().for_each(|ranking| ranking.knows_arrival &= knows_arrival);
    let window = &window;
    let emission = emission::emission(program, number, settings);
    // Tables of the same slices are alike.
    let tables = window.slices.unwrap_or(number);
    let ranker = window.ranking.clone().map(|ranking| Arc::new(Ranker::new(ranking)));
    let read_out = {
        let (window, ranker) = (window.clone(), ranker.clone());
        move |contents: Contents<'_>| match (contents, &ranker) {
            (Contents::Groups(groups), None) => pelton_compiler::read_out(&window, groups),
            (Contents::Groups(groups), Some(ranker)) => pelton_compiler::read_collected(&window, ranker, groups),
            (Contents::Rows(rows), _) => Ok(Some(pelton_compiler::read_rows(&window, rows))),
        }
    };
    WindowNode {
        name: program.operator_name(number),
        window: window.window,
        emission,
        combination: match (settings.windows, window.combination()) {
            // Sessions are merged, and windows are reported more than once, from slices in any case.
            (_, combination) if !emission.is_once() => combination,
            (WindowChoice::Slices | WindowChoice::Apart, combination)
            | (WindowChoice::Buckets, combination @ Combination::Merge) => combination,
            (WindowChoice::Buckets, combination) if matches!(window.window, Window::RowsByKey { .. }) => combination,
            (WindowChoice::Buckets, _) => Combination::Buckets,
        },
        session_slots: window.session_slots,
        layout: pelton_compiler::entry_layout(window).with_dense_keys(settings.dense_keys(tables)),
        has_bounds: window.columns.iter().any(WindowColumn::is_bound),
        ranker: ranker.filter(|_| window.keeps_rows_alone()),
        read_out: Box::new(read_out),
        read_all: read_all(window),
        schema: window.schema.clone(),
        time_column: window.time_column.and_then(|index| time_column(&window.schema, index)),
        store: WindowStore::default(),
        put_together_from: None,
        shared_by: Vec::new(),
    }
}

/// What reads all rows out that a window keeps with its groups, where it does.
fn read_all(window: &WindowAggregate) -> Option<ReadOut> {
    let ranking = window.ranking.clone().filter(|_| !window.keeps_rows_alone())?;
    let all = Ranker::new(Ranking { first: 1, last: u64::MAX, ..ranking });
    let window = window.clone();
    Some(Box::new(move |contents| match contents {
        Contents::Groups(groups) => pelton_compiler::read_collected(&window, &all, groups),
        Contents::Rows(_) => unreachable!("rows are kept with groups"),
    }))
}

fn slices_node(program: &Program, number: usize, slices: &SharedSlices, settings: &Settings) -> WindowNode {
    WindowNode {
        name: program.operator_name(number),
        window: slices.grid,
        // Rows go into one table for each slice.
        combination: Combination::Single,
        time_column: None,
        schema: Arc::new(Schema::empty()),
        read_out: Box::new(|_| Ok(None)),
        ..window_node(program, slices.windows[0], settings, false)
    }
}

fn over_node(program: &Program, number: usize, spec: &OverSpec) -> OverNode {
    let passed_time = |pipeline: &Pipeline| spec.time.and_then(|time| pipeline.only_passed(time.index));
    let passed_times = program.feeding(number).map(|(_, pipeline)| passed_time(pipeline)).collect();
    OverNode { name: program.operator_name(number), passed_times, spec: spec.clone() }
}

fn join_node(program: &Program, number: usize, join: &StreamJoin, settings: &Settings) -> OperatorNode {
    let residual = join.residual.as_ref().map(|residual| Residual {
        columns: residual.columns.clone(),
        schema: residual.schema.clone(),
        test: pelton_compiler::test(&residual.predicate, &residual.schema)
            .expect("planning has given the condition a type"),
    });
    let (name, spec) = (program.operator_name(number), Arc::new(join.spec.clone()));
    let sides = program.feeding(number).enumerate().map(|(port, _)| join.side_of(port)).collect();
    match join.spec.time {
        JoinTime::Windows { .. } => {
            let emission = emission::join_emission(program, number, settings);
            WindowJoinNode { name, spec, residual, sides, emission }.into()
        }
        JoinTime::Interval { .. } | JoinTime::Nearest { .. } => TimedJoinNode { name, spec, residual, sides }.into(),
    }
}

fn time_column(schema: &SchemaRef, index: usize) -> Option<TimeColumn> {
    TimeColumn::new(index, schema.field(index).data_type())
}

fn sink_node(output: &Output, sink: Box<dyn Sink>) -> SinkNode {
    let inputs = output.inputs.iter().map(|&input| stream(input)).collect();
    SinkNode { name: output.name().to_owned(), inputs, arrangement: output.arrangement.clone(), sink }
}

/// The columns of the rows that are read from the query itself.
pub(crate) fn result_schema(program: &Program) -> SchemaRef {
    let result = program.outputs.iter().find(|output| output.target == OutputTarget::Result);
    result.map_or_else(|| Arc::new(Schema::empty()), |output| output.schema.clone())
}

fn stream(planned: Planned) -> StreamRef {
    match planned {
        Planned::Source(index) => StreamRef::Source(index),
        Planned::Pipeline(index) => StreamRef::Pipeline(index),
        Planned::Operator(index) => StreamRef::Operator(index),
    }
}
