//! What `CREATE TABLE` does, and which tables a program opens, and how.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use pelton_connectors::options::Options;
use pelton_connectors::{ConnectorError, Host, OnError, TableRequest, TextLength};
use pelton_data::spelling::identifier;
use pelton_data::{Micros, TimeColumn};
use pelton_plan::catalog::LATE_ROWS;
use pelton_plan::parse::{ColumnKind, FileTable, OptionPlace, TableDefinition, WatermarkDefinition};
use pelton_plan::pipeline::{LookupTable, Output, OutputTarget, Program, SourceUse, TimeSource};
use pelton_plan::types::SqlType;
use pelton_plan::{Catalog, Relation, Table};
use pelton_runtime::graph::Alignment;
use pelton_runtime::sink::Sink;
use pelton_runtime::source::{Decoded, Read, Source, SourceError};

use crate::error::Error;
use crate::event_time::with_computed_time;
use crate::program_tables::ProgramTables;
use crate::pull::PullTable;
use crate::push::PushTable;
use crate::registered_rows::registered_rows;
use crate::settings::Settings;
use crate::simulation::ProvidedTable;

/// The option, of any table that has a watermark, that says when its partitions are idle.
const IDLE_TIMEOUT: &str = "scan.watermark.idle-timeout";

/// The option that says how far ahead of the clock a row's event time may be for it to move the watermark.
const MAX_AHEAD: &str = pelton_runtime::late::MAX_AHEAD;

/// The options that say how far its watermark may be ahead of those of other tables of a query: of which, and how far.
const ALIGNMENT_GROUP: &str = "scan.watermark.alignment.group";
const ALIGNMENT_DRIFT: &str = "scan.watermark.alignment.max-drift";

/// The options of the watermark, which are no connector's.
const WATERMARK_OPTIONS: [&str; 4] = [IDLE_TIMEOUT, MAX_AHEAD, ALIGNMENT_GROUP, ALIGNMENT_DRIFT];

/// The options of a table that is joined with, which are no connector's: it is loaded as a whole, and how often.
const LOOKUP_CACHE: &str = "lookup.cache";
const RELOAD_STRATEGY: &str = "lookup.full-cache.reload-strategy";
const RELOAD_INTERVAL: &str = "lookup.full-cache.periodic-reload.interval";
const LOOKUP_OPTIONS: [&str; 3] = [LOOKUP_CACHE, RELOAD_STRATEGY, RELOAD_INTERVAL];

/// What the options of a table that has a watermark say about it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct WatermarkOptions {
    /// After how long a partition does not hold time back.
    pub idle_timeout: Option<Duration>,
    /// The same where neither the table nor the session says so.
    pub idle_timeout_default: Option<Duration>,
    /// How far ahead of the clock a row may be that moves it, in microseconds.
    pub ahead_max: Option<Micros>,
    /// How far it may be ahead of other tables.
    pub alignment: Option<Alignment>,
}

/// The error of a table's connector, with the place of what it is about.
fn refused(definition: &TableDefinition, error: ConnectorError) -> Error {
    let option = |name: &str| definition.option_places.get(name);
    let place = match &error {
        ConnectorError::UnknownOption { option: name, .. } => option(name).and_then(|places| places.key),
        ConnectorError::Option { option: name, .. } => option(name).and_then(|places| places.value),
        ConnectorError::Column { column: name, .. } => {
            definition.columns.iter().find(|column| column.name == *name).and_then(|column| column.place)
        }
        ConnectorError::Place { .. } => option("path").and_then(|places| places.value),
    };
    Error::Table { table: definition.name.clone(), place: place.or(definition.place), error }
}

/// What the table's options say about its watermark.
pub(crate) fn watermark_options(definition: &TableDefinition) -> Result<WatermarkOptions, Error> {
    let failed = |error| refused(definition, error);
    let options = Options::new(&definition.options);
    let idle_timeout = options.duration(IDLE_TIMEOUT).map_err(failed)?;
    let ahead_max = options.duration(MAX_AHEAD).map_err(failed)?;
    let drift_max = options.duration(ALIGNMENT_DRIFT).map_err(failed)?;
    let group = options.text(ALIGNMENT_GROUP);
    if group.is_some() != drift_max.is_some() {
        let [given, missing] = match group {
            Some(_) => [ALIGNMENT_GROUP, ALIGNMENT_DRIFT],
            None => [ALIGNMENT_DRIFT, ALIGNMENT_GROUP],
        };
        return Err(failed(ConnectorError::option(given, format!("needs '{missing}' beside it"))));
    }
    let problems = [
        (ALIGNMENT_DRIFT, drift_max, "needs a watermark: without WATERMARK FOR, there is none to align"),
        (IDLE_TIMEOUT, idle_timeout, "needs a watermark: without WATERMARK FOR, no partition holds time back"),
        (MAX_AHEAD, ahead_max, "needs a watermark: without WATERMARK FOR, no row moves one"),
    ];
    let without = problems.into_iter().find(|(_, value, _)| value.is_some() && definition.watermark.is_none());
    if let Some((option, _, problem)) = without {
        return Err(failed(ConnectorError::option(option, problem)));
    }
    let micros = |duration: Duration| Micros::try_from(duration.as_micros()).unwrap_or(Micros::MAX);
    let alignment =
        group.zip(drift_max).map(|(group, drift)| Alignment { group: group.into(), drift_max: micros(drift) });
    let idle_timeout_default = pelton_connectors::idle_timeout(&definition.options);
    Ok(WatermarkOptions { idle_timeout, idle_timeout_default, ahead_max: ahead_max.map(micros), alignment })
}

/// How often a table is loaded again that is joined with; `None` where it is loaded once.
pub(crate) fn reload_interval(catalog: &Catalog, name: &str) -> Result<Option<Duration>, Error> {
    match catalog.get(name) {
        Some(Relation::Table(table)) => lookup_options(&table.definition),
        _ => Ok(None),
    }
}

/// What the table's options say about how often it is loaded.
fn lookup_options(definition: &TableDefinition) -> Result<Option<Duration>, Error> {
    let failed = |error| refused(definition, error);
    let options = Options::new(&definition.options);
    let (cache, strategy) = (options.text(LOOKUP_CACHE), options.text(RELOAD_STRATEGY));
    let interval = options.duration(RELOAD_INTERVAL).map_err(failed)?;
    let missing = match (cache, strategy, interval) {
        (None, Some(_), _) => Some((RELOAD_STRATEGY, LOOKUP_CACHE, "FULL")),
        (None, None, Some(_)) => Some((RELOAD_INTERVAL, LOOKUP_CACHE, "FULL")),
        (Some(_), None, Some(_)) => Some((RELOAD_INTERVAL, RELOAD_STRATEGY, "PERIODIC")),
        (Some(_), Some(_), None) => Some((RELOAD_STRATEGY, RELOAD_INTERVAL, "10 min")),
        _ => None,
    };
    if let Some((given, missing, example)) = missing {
        return Err(failed(ConnectorError::option(given, format!("needs '{missing}' = '{example}' beside it"))));
    }
    if interval.is_some_and(|interval| interval.is_zero()) {
        return Err(failed(ConnectorError::option(RELOAD_INTERVAL, "must be longer than 0".to_owned())));
    }
    Ok(interval)
}

/// The options that are the connector's.
fn connector_options(definition: &TableDefinition) -> BTreeMap<String, String> {
    let options = definition
        .options
        .iter()
        .filter(|(name, _)| !WATERMARK_OPTIONS.contains(&name.as_str()) && !LOOKUP_OPTIONS.contains(&name.as_str()));
    options.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The catalogue's entry for a definition: its connector is asked what it delivers and whether that ends.
pub(crate) fn define(mut definition: TableDefinition) -> Result<Table, Error> {
    if let Some(file) = definition.file.take() {
        return define_file(definition, &file);
    }
    check_options(&definition).map_err(|error| refused(&definition, error))?;
    watermark_options(&definition)?;
    lookup_options(&definition)?;
    if definition.has_inferred_columns() {
        infer(&mut definition)?;
    }
    let failed = |error| refused(&definition, error);
    let declared = definition.physical_schema();
    let options = &connector_options(&definition);
    let all = (0..declared.fields().len()).collect();
    let request = request(&definition, declared, all, None, &Settings::default());
    let delivered = pelton_connectors::physical_schema(&request).map_err(failed)?;
    // Of a table that can only be written, or whose options are wrong, that is said when it is read, and not that it has no end.
    let bounded = pelton_connectors::is_bounded(options).unwrap_or(true);
    Ok(Table::new(definition.clone(), Schema::clone(&delivered), bounded)?)
}

/// The table that stands for a file in a query.
pub(crate) fn of_file(file: &FileTable) -> Result<Table, Error> {
    let definition =
        TableDefinition { name: file.name.clone(), place: file.place, temporary: true, ..TableDefinition::default() };
    define_file(definition, file)
}

/// Completes a definition by what a file tells: its options, its columns, and its event time, if only one column is a timestamp.
fn define_file(mut definition: TableDefinition, file: &FileTable) -> Result<Table, Error> {
    definition.options = pelton_connectors::file::options(&file.path, file.format);
    let path_place = OptionPlace { key: file.path_place, value: file.path_place };
    definition.option_places.insert("path".to_string(), path_place);
    for argument in &file.arguments {
        let format = file.format.unwrap_or("csv");
        let option = pelton_connectors::file::argument(format, &argument.name, &argument.value);
        let (option, value) = option.map_err(|error| Error::Table {
            table: definition.name.clone(),
            place: argument.places.key.or(definition.place),
            error,
        })?;
        definition.option_places.insert(option.clone(), argument.places);
        definition.options.insert(option, value);
    }
    check_options(&definition).map_err(|error| refused(&definition, error))?;
    infer(&mut definition)?;
    // It kept the first row from being taken for names, and says what holds without it.
    if definition.options.get("csv.header").is_some_and(|value| value.eq_ignore_ascii_case("false")) {
        definition.options.remove("csv.header");
    }
    if definition.watermark.is_none() {
        definition.watermark = only_time(&definition);
    }
    define(definition)
}

/// Microseconds in a second.
const MICROS_PER_SECOND: i64 = 1_000_000;

/// How far the watermark trails the event time of a file that declares none, in seconds.
const FILE_DELAY_SECONDS: i64 = 5;

/// The watermark of the only column that is a time.
pub(crate) fn only_time(definition: &TableDefinition) -> Option<WatermarkDefinition> {
    let mut times = definition
        .columns
        .iter()
        .filter(|column| matches!(&column.kind, ColumnKind::Physical { sql_type, .. } if sql_type.is_timestamp()));
    let (Some(column), None) = (times.next(), times.next()) else { return None };
    Some(WatermarkDefinition {
        column: column.name.clone(),
        delay: FILE_DELAY_SECONDS * MICROS_PER_SECOND,
        text: format!("{} - INTERVAL '{FILE_DELAY_SECONDS}' SECOND", identifier(&column.name)),
        is_inferred: true,
        place: column.place,
    })
}

/// Adds the columns that a connector, or the data behind it, tells, and the options that tell how the data is read.
fn infer(definition: &mut TableDefinition) -> Result<(), Error> {
    let declared = pelton_connectors::declared(&connector_options(definition));
    let missing = || match definition.options.get("path") {
        Some(path) => ConnectorError::place(path, "has no rows to tell its columns by: list them in CREATE TABLE"),
        None => ConnectorError::option("connector", "needs a table with columns: list them in CREATE TABLE"),
    };
    let declared = declared.and_then(|declared| declared.ok_or_else(missing));
    let declared = declared.map_err(|error| refused(definition, error))?;
    for (name, value) in declared.options {
        definition.options.entry(name).or_insert(value);
    }
    Ok(definition.complete(&declared.schema)?)
}

fn check_options(definition: &TableDefinition) -> Result<(), ConnectorError> {
    let columns: Vec<&str> = definition.columns.iter().map(|column| column.name.as_str()).collect();
    pelton_connectors::check_options(&definition.options, &columns)
}

fn request(
    definition: &TableDefinition,
    schema: SchemaRef,
    columns: Vec<usize>,
    event_time: Option<TimeColumn>,
    settings: &Settings,
) -> TableRequest {
    let delivered = definition.columns.iter().filter(|column| column.physical_field().is_some());
    let metadata = delivered.enumerate().filter_map(|(index, column)| match &column.kind {
        ColumnKind::Metadata { key, .. } => Some((index, key.clone())),
        _ => None,
    });
    let delivered = definition.columns.iter().filter(|column| column.physical_field().is_some());
    let lengths = delivered.enumerate().filter_map(|(index, column)| match &column.kind {
        ColumnKind::Physical { sql_type: SqlType::Char(length), .. } => Some((index, TextLength::Exactly(*length))),
        ColumnKind::Physical { sql_type: SqlType::Varchar(length), .. } => Some((index, TextLength::AtMost(*length))),
        _ => None,
    });
    let keys = definition.partition_keys.iter();
    let partition_keys = keys.filter_map(|key| schema.index_of(&key.name).ok()).collect();
    TableRequest {
        name: definition.name.clone(),
        partition_keys,
        schema,
        columns,
        metadata: metadata.collect::<BTreeMap<_, _>>(),
        lengths: lengths.collect(),
        options: connector_options(definition),
        event_time,
        block_rows: settings.block_rows,
        seed: settings.seed,
        // Nobody asked for a type that was guessed from the first rows.
        strict_values: settings.strict_values || definition.has_guessed_types,
        host: Host::default(),
    }
}

/// Something that a program opens before it runs.
pub(crate) enum Opened<'a> {
    /// Rows that are joined with, which a program of their own makes.
    Lookup(&'a LookupTable),
    /// What takes rows.
    Output(&'a Output, Destination<'a>),
    /// What rows come from.
    Source(&'a SourceUse, Origin<'a>),
}

/// Where the rows of an output go.
pub(crate) enum Destination<'a> {
    /// To whoever reads the query's result.
    Result,
    /// To whoever uses the session.
    Pulled(&'a PullTable),
    /// Where the program puts them.
    Provided(&'a Table, &'a dyn ProvidedTable),
    /// Where a connector puts them.
    Table(&'a Table),
}

/// Where the rows of a source are.
pub(crate) enum Origin<'a> {
    /// In the query's text.
    Text(&'a RecordBatch),
    /// With a join that runs for several queries.
    Join,
    /// With whoever uses the session.
    Pushed(&'a Arc<PushTable>),
    /// With the session: rows that were late.
    Late,
    /// Where the program finds them.
    Provided(&'a Table, &'a dyn ProvidedTable),
    /// Where a connector finds them.
    Table(&'a Table),
}

/// What a program opens, in the order in which it does.
pub(crate) fn opened<'a>(
    program: &'a Program,
    catalog: &'a Catalog,
    program_tables: &'a ProgramTables,
) -> impl Iterator<Item = Result<Opened<'a>, Error>> {
    let table = |name: &str| match catalog.get(name) {
        Some(Relation::Table(found)) => Ok(found),
        _ => Err(Error::Usage(format!("table '{name}' is gone"))),
    };
    let output = move |output: &'a Output| match &output.target {
        OutputTarget::Result => Ok(Opened::Output(output, Destination::Result)),
        OutputTarget::Table(name) if program_tables.pushed(name).is_some() => {
            Err(Error::Usage(format!("table '{name}' is filled by the program itself, and no query inserts into it")))
        }
        OutputTarget::Table(name) => {
            let found = table(name)?;
            if found.rows.is_some() {
                return Err(Error::Usage(format!("table '{name}' has registered rows, and no query inserts into it")));
            }
            let destination = match (program_tables.pulled(name), program_tables.provided(name)) {
                (Some(pulled), _) => Destination::Pulled(pulled),
                (None, Some(provided)) => Destination::Provided(found, provided),
                (None, None) => Destination::Table(found),
            };
            Ok(Opened::Output(output, destination))
        }
    };
    let source = move |used: &'a SourceUse| {
        let origin = match (&used.rows, program_tables.pushed(&used.table)) {
            _ if used.join.is_some() => Origin::Join,
            (Some(rows), _) => Origin::Text(rows),
            (None, Some(push)) => Origin::Pushed(push),
            (None, None) if program_tables.pulled(&used.table).is_some() => {
                let table = &used.table;
                return Err(Error::Usage(format!("table '{table}' is read by the program itself, and by no query")));
            }
            (None, None) if used.table == LATE_ROWS => Origin::Late,
            (None, None) => {
                let found = table(&used.table)?;
                let provided = program_tables.provided(&used.table);
                provided.map_or(Origin::Table(found), |provided| Origin::Provided(found, provided))
            }
        };
        Ok(Opened::Source(used, origin))
    };
    let lookups = program.lookups.iter().map(|lookup| Ok(Opened::Lookup(lookup)));
    lookups.chain(program.outputs.iter().map(output)).chain(program.sources.iter().map(source))
}

/// Opens a table for reading the columns a program touches.
pub(crate) fn open_source(
    table: &Table,
    used: &SourceUse,
    settings: &Settings,
    host: Host,
) -> Result<Box<dyn Source>, Error> {
    if let Some(rows) = &table.rows {
        return Ok(with_computed_time(registered_rows(rows, &used.columns), used, OnError::Fail));
    }
    let complete = |source, on_error| with_computed_time(source, used, on_error);
    let request = TableRequest { host, ..source_request(table, used, settings) };
    pelton_connectors::open_completed_source(&request, complete).map_err(|error| refused(&table.definition, error))
}

/// Opens a table that the program provides.
pub(crate) fn open_provided_source(
    (table, provided): (&Table, &dyn ProvidedTable),
    used: &SourceUse,
    host: Host,
) -> Result<Box<dyn Source>, Error> {
    let source = provided.source(&used.columns, host).map_err(|error| refused(&table.definition, error))?;
    Ok(with_computed_time(source, used, OnError::Fail))
}

/// The same for writing.
pub(crate) fn open_provided_sink(
    (table, provided): (&Table, &dyn ProvidedTable),
    host: Host,
) -> Result<Box<dyn Sink>, Error> {
    provided.sink(host).map_err(|error| refused(&table.definition, error))
}

/// Opens a table for reading these columns, for any number of queries.
pub(crate) fn open_columns(
    table: &Table,
    columns: &[usize],
    settings: &Settings,
    host: Host,
) -> Result<Box<dyn Source>, Error> {
    let definition = &table.definition;
    let schema = definition.physical_schema();
    let event_time = event_time(table).and_then(|time| {
        let index = columns.iter().position(|&column| column == time.index)?;
        Some(TimeColumn { index, ..time })
    });
    let request = TableRequest { host, ..request(definition, schema, columns.to_vec(), event_time, settings) };
    pelton_connectors::open_source(&request).map_err(|error| refused(definition, error))
}

/// The event time of a table where it is one of its columns, by its place among these.
pub(crate) fn event_time(table: &Table) -> Option<TimeColumn> {
    let watermark = table.definition.watermark.as_ref()?;
    let fields = table.physical.fields();
    let index = fields.iter().position(|field| *field.name() == watermark.column)?;
    TimeColumn::new(index, fields[index].data_type())
}

/// Whether a source of the table can go on where another one is.
pub(crate) fn has_positions(table: &Table) -> bool {
    pelton_connectors::has_positions(&connector_options(&table.definition))
}

/// Whether queries that begin to read a table at different times may share its source.
pub(crate) fn may_share(table: &Table) -> bool {
    pelton_connectors::may_share(&connector_options(&table.definition))
}

/// The table that takes the rows of a table that do not fit it.
pub(crate) fn dead_letter_table(table: &Table) -> Option<&str> {
    pelton_connectors::dead_letter_table(&table.definition.options)
}

/// The error of the option that names it.
pub(crate) fn dead_letters_refused(table: &Table, problem: String) -> Error {
    refused(&table.definition, ConnectorError::option("on-error.dead-letter-table", problem))
}

/// The columns of a table that are written.
pub(crate) fn written_schema(table: &Table) -> SchemaRef {
    written_definition(table).physical_schema()
}

/// What happens to rows that do not fit a table.
pub(crate) fn on_error(table: &Table) -> Result<OnError, Error> {
    let on_error = pelton_connectors::on_error(&connector_options(&table.definition));
    on_error.map_err(|error| refused(&table.definition, error))
}

/// Checks the options of a table as [`open_source`] does, and opens nothing.
pub(crate) fn check_source(table: &Table, used: &SourceUse, settings: &Settings) -> Result<(), Error> {
    if table.rows.is_some() {
        return Ok(());
    }
    let checked = pelton_connectors::check_source(&source_request(table, used, settings));
    checked.map_err(|error| refused(&table.definition, error))
}

fn source_request(table: &Table, used: &SourceUse, settings: &Settings) -> TableRequest {
    let definition = &table.definition;
    // A replay shifts the event time wherever it is wanted, not only where windows are cut by it.
    let time_column = match used.time {
        TimeSource::Event { column, .. } => Some(column),
        _ => definition.watermark.as_ref().filter(|watermark| !watermark.is_inferred).and_then(|watermark| {
            (0..used.columns.len()).find(|&column| *used.schema.field(column).name() == watermark.column)
        }),
    };
    let event_time = time_column.and_then(|column| TimeColumn::new(column, used.schema.field(column).data_type()));
    request(definition, definition.physical_schema(), used.columns.clone(), event_time, settings)
}

/// Reads the rows that a query's text has itself.
pub(crate) fn written_rows(rows: RecordBatch) -> Box<dyn Source> {
    Box::new(WrittenRows { rows: Some(rows) })
}

/// Rows of `VALUES`, until they are read.
struct WrittenRows {
    rows: Option<RecordBatch>,
}

impl Source for WrittenRows {
    fn partitions(&self) -> usize {
        1
    }

    fn read(&mut self, _partition: usize) -> Result<Read, SourceError> {
        Ok(match self.rows.take() {
            Some(rows) => Read::Chunk(Box::new(move || Ok(Decoded::batch(rows)))),
            None => Read::End,
        })
    }
}

/// Opens a table for writing.
pub(crate) fn open_sink(table: &Table, settings: &Settings, host: Host) -> Result<Box<dyn Sink>, Error> {
    let request = TableRequest { host, ..sink_request(table, settings) };
    pelton_connectors::open_sink(&request).map_err(|error| refused(&table.definition, error))
}

/// Checks the options of a table as [`open_sink`] does, and makes nothing.
pub(crate) fn check_sink(table: &Table, settings: &Settings) -> Result<(), Error> {
    pelton_connectors::check_sink(&sink_request(table, settings)).map_err(|error| refused(&table.definition, error))
}

fn written_definition(table: &Table) -> TableDefinition {
    let mut written = table.definition.clone();
    written.columns.retain(|column| !matches!(column.kind, ColumnKind::Metadata { is_virtual: true, .. }));
    written
}

fn sink_request(table: &Table, settings: &Settings) -> TableRequest {
    let written = written_definition(table);
    let schema = written.physical_schema();
    let all = (0..schema.fields().len()).collect();
    request(&written, schema, all, None, settings)
}
