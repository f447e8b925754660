//! What a query becomes: pipelines between sources, stateful operators and outputs.
//!
//! A pipeline is a straight run of row-at-a-time steps over the blocks of one input. It ends where rows must wait for
//! other rows (an operator) or leave (a stream). Expressions are DataFusion's physical expressions over the pipeline's
//! current columns: typed, coerced, and evaluated by DataFusion where the compiler does not know them.

mod unmatched;

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{FieldRef, SchemaRef};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Column;
use datafusion_physical_expr::utils::collect_columns;
use pelton_data::Micros;
use pelton_data::TimeColumn;
use pelton_data::aggregate::{Accumulator, Holistic};
use pelton_data::arrangement::Arrangement;
use pelton_data::join::{JoinColumn, JoinKind, JoinSpec, JoinTime, Side, WindowBound};
use pelton_data::over::OverSpec;
use pelton_data::ranking::Ranking;
use pelton_data::table_function::TableFunctionHandle;
pub use pelton_data::window::{Combination, SessionSlots, Window};

pub use self::unmatched::UnmatchedRows;
use crate::shared_join::SharedJoin;

/// All that runs for one statement: one or more `INSERT`s, or one `SELECT`. Its nodes become those of the runtime's graph, number by number.
#[derive(Debug, Clone)]
pub struct Program {
    /// Tables read as streams.
    pub sources: Vec<SourceUse>,
    /// Bounded tables loaded before the streams start.
    pub lookups: Vec<LookupTable>,
    /// Runs of steps, upstream before downstream.
    pub pipelines: Vec<Pipeline>,
    /// Where rows wait for other rows: upstream before downstream, but for slices that windows share.
    pub operators: Vec<Operator>,
    /// Where rows leave.
    pub outputs: Vec<Output>,
}

impl Program {
    /// Its window aggregations, with their numbers.
    pub fn windows(&self) -> impl Iterator<Item = (usize, &WindowAggregate)> {
        let operators = self.operators.iter().enumerate();
        operators.filter_map(|(number, operator)| Some((number, operator.as_window()?)))
    }

    /// Its functions OVER rows.
    pub fn overs(&self) -> impl Iterator<Item = &OverSpec> {
        self.operators.iter().filter_map(Operator::as_over)
    }

    /// The keys and accumulators of the groups that an operator holds. Windows that share slices have those of each other.
    ///
    /// # Panics
    /// Where it holds no groups.
    pub fn groups(&self, operator: usize) -> &WindowAggregate {
        match &self.operators[operator] {
            Operator::Window(window) => window,
            Operator::Slices(slices) => self.groups(slices.windows[0]),
            Operator::Over(_) | Operator::Join(_) | Operator::Unmatched(_) => {
                panic!("operator {operator} holds no groups")
            }
        }
    }

    /// The pipelines that an operator's rows come from, with their numbers, in the order of its ports.
    pub fn feeding(&self, operator: usize) -> impl Iterator<Item = (usize, &Pipeline)> {
        let slices = self.operators[operator].as_window().and_then(|window| window.slices);
        let fed = slices.unwrap_or(operator);
        let pipelines = self.pipelines.iter().enumerate();
        pipelines.filter(move |(_, pipeline)| pipeline.target.port().is_some_and(|port| port.operator == fed))
    }

    /// What a stream is called where people see it.
    pub fn stream_name(&self, stream: StreamRef) -> String {
        match stream {
            StreamRef::Source(number) => format!("source {number}"),
            StreamRef::Pipeline(number) => format!("pipeline {number}"),
            StreamRef::Operator(number) => self.operator_name(number),
        }
    }

    /// What an operator is called where people see it.
    pub fn operator_name(&self, number: usize) -> String {
        format!("{} {number}", self.operators[number].kind())
    }

    /// What a pipeline is called where people see it: its number, input and target.
    pub fn pipeline_name(&self, number: usize) -> String {
        let Pipeline { input, target, .. } = &self.pipelines[number];
        let input = match *input {
            StreamRef::Source(source) => self.sources[source].table.clone(),
            other => self.stream_name(other),
        };
        format!("pipeline {number}: {input} → {}", self.target_name(target))
    }

    /// What a pipeline feeds, as people see it.
    pub fn target_name(&self, target: &Target) -> String {
        target.port().map_or_else(|| "rows".to_string(), |port| self.operator_name(port.operator))
    }

    /// The schema of a stream's blocks.
    ///
    /// # Panics
    /// Where the pipeline or operator has no stream.
    pub fn schema(&self, stream: StreamRef) -> &SchemaRef {
        match stream {
            StreamRef::Source(number) => &self.sources[number].schema,
            StreamRef::Operator(number) => self.operators[number].schema().expect("slices have no stream"),
            StreamRef::Pipeline(number) => match &self.pipelines[number].target {
                Target::Stream { schema, .. } => schema,
                Target::Rows { .. } | Target::Groups { .. } => panic!("pipeline {number} has no stream"),
            },
        }
    }
}

/// A stream of blocks inside a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamRef {
    /// `Program::sources[i]`.
    Source(usize),
    /// `Program::pipelines[i]`, which ends in [`Target::Stream`].
    Pipeline(usize),
    /// The results of `Program::operators[i]`.
    Operator(usize),
}

/// Where a pipeline feeds an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Port {
    /// `Program::operators[i]`.
    pub operator: usize,
    /// Which of its ports. One pipeline feeds each.
    pub number: usize,
}

/// Holds rows, or what they add up to, until rows are due.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "a program has few operators, which are read where they are")]
pub enum Operator {
    /// A window aggregation, or the first rows of each window.
    Window(WindowAggregate),
    /// Slices that several windows share.
    Slices(SharedSlices),
    /// Functions of the rows around each row, by key, in the order of their times.
    Over(OverSpec),
    /// Pairs of rows of two streams.
    Join(Box<StreamJoin>),
    /// Rows of a stream and of a bounded table, and those of the table without a match.
    Unmatched(UnmatchedRows),
}

impl Operator {
    /// What operators like it are called where people see it.
    pub fn kind(&self) -> &'static str {
        match self {
            Operator::Window(_) => "window",
            Operator::Slices(_) => "slices",
            Operator::Over(_) => "over",
            Operator::Join(_) => "join",
            Operator::Unmatched(_) => "unmatched",
        }
    }

    /// The schema of its results, if it has a stream of these.
    pub fn schema(&self) -> Option<&SchemaRef> {
        match self {
            Operator::Window(window) => Some(&window.schema),
            Operator::Slices(_) => None,
            Operator::Over(over) => Some(&over.schema),
            Operator::Join(join) => Some(&join.spec.schema),
            Operator::Unmatched(unmatched) => Some(&unmatched.schema),
        }
    }

    /// The schema of the rows that the pipeline of a port hands to it, if it takes rows.
    pub fn rows_schema(&self, port: usize) -> Option<&SchemaRef> {
        match self {
            Operator::Window(window) => window.ranking.as_ref().map(|ranking| &ranking.schema),
            Operator::Slices(_) => None,
            Operator::Over(over) => Some(&over.input_schema),
            Operator::Join(join) => Some(&join.spec.sides[join.side_of(port).port()].schema),
            Operator::Unmatched(unmatched) => Some(&unmatched.rows_schema),
        }
    }

    /// The window aggregation that it is.
    pub fn as_window(&self) -> Option<&WindowAggregate> {
        match self {
            Operator::Window(window) => Some(window),
            Operator::Slices(_) | Operator::Over(_) | Operator::Join(_) | Operator::Unmatched(_) => None,
        }
    }

    /// The functions OVER rows that it is.
    pub fn as_over(&self) -> Option<&OverSpec> {
        match self {
            Operator::Over(over) => Some(over),
            Operator::Window(_) | Operator::Slices(_) | Operator::Join(_) | Operator::Unmatched(_) => None,
        }
    }
}

/// One table, read once for all pipelines of a program that use it.
#[derive(Debug, Clone)]
pub struct SourceUse {
    /// Name in the catalogue.
    pub table: String,
    /// Indices into the table's physical columns that some pipeline touches, ascending, at least one. The event-time column
    /// is among them where windows are cut by it.
    pub columns: Vec<usize>,
    /// An event time that is a computed column (`ts AS TO_TIMESTAMP(text)`): an expression over the physical columns of
    /// `columns`, whose value is appended to them when rows are decoded. Other computed columns are expressions in pipelines.
    pub computed_time: Option<Arc<dyn PhysicalExpr>>,
    /// The blocks' schema: physical columns of `columns`, then the computed event time, then the processing time.
    pub schema: SchemaRef,
    /// How rows are placed in time.
    pub time: TimeSource,
    /// The rows themselves, in `schema`, where the query's text has them (`VALUES`, or SELECT without FROM); then there is no table.
    pub rows: Option<RecordBatch>,
    /// The join whose pairs these are, which runs once for several queries; then there is no table.
    pub join: Option<Arc<SharedJoin>>,
}

/// Where a stream's event time and watermark come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeSource {
    /// No time attribute: no windows over this source.
    None,
    /// As without one, but this column of the schema is what windows would be cut by: rows say by it when they were made.
    Noted {
        /// The column.
        column: usize,
    },
    /// `WATERMARK FOR column AS column - delay`.
    Event {
        /// Index of the column in [`SourceUse::schema`].
        column: usize,
        /// How far the watermark trails the largest event time.
        delay: Micros,
    },
    /// `PROCTIME()`: the clock when a block is taken in. The sequencer appends it as the last column of the block,
    /// `TIMESTAMP_LTZ(3) NOT NULL`, at this index of [`SourceUse::schema`].
    Processing {
        /// Index of the appended column.
        column: usize,
    },
}

/// A bounded table that is loaded at start and looked rows up in.
#[derive(Debug, Clone)]
pub struct LookupTable {
    /// The program that computes the rows to load; its single output is [`OutputTarget::Result`].
    pub program: Box<Program>,
    /// Columns by which rows are found, indices into the loaded schema.
    pub keys: Vec<usize>,
    /// Schema of the loaded rows.
    pub schema: SchemaRef,
    /// Whether a last column, which the program does not compute, numbers the rows.
    pub has_row_numbers: bool,
}

/// A straight run of steps.
#[derive(Debug, Clone)]
pub struct Pipeline {
    /// Where its blocks come from.
    pub input: StreamRef,
    /// Schema of the input's blocks.
    pub input_schema: SchemaRef,
    /// In order. Column indices refer to the input's columns, followed by the columns each `Lookup` and `FlatMap` adds.
    pub steps: Vec<Step>,
    /// Where its rows go, and what they are made of.
    pub target: Target,
}

impl Pipeline {
    /// The input's column that becomes the output's column `output` as it is, and is read for nothing else. `None` too where rows are
    /// not just some of the input's.
    pub fn only_passed(&self, output: usize) -> Option<usize> {
        let Target::Rows { columns, .. } = &self.target else { return None };
        let passed = columns[output].downcast_ref::<Column>()?.index();
        let reads = |expression: &Arc<dyn PhysicalExpr>| {
            collect_columns(expression).iter().any(|column| column.index() == passed)
        };
        let is_left_alone = self.steps.iter().all(|step| match step {
            Step::Filter(predicate) => !reads(predicate),
            Step::Lookup { .. } | Step::FlatMap { .. } => false,
        });
        let mut others = columns.iter().enumerate().filter(|(index, _)| *index != output);
        (is_left_alone && !others.any(|(_, column)| reads(column))).then_some(passed)
    }
}

/// One step of a pipeline.
#[derive(Debug, Clone)]
pub enum Step {
    /// Rows for which the predicate is not true are dropped. Conjunctions are split: one step for each.
    /// A later predicate sees only the survivors of earlier ones.
    Filter(Arc<dyn PhysicalExpr>),
    /// Each row finds its matches in a loaded table, whose columns join the row's.
    Lookup {
        /// `Program::lookups[i]`.
        table: usize,
        /// One expression for each key column of the table, of the same type. Where there is none, all rows of the table are candidates.
        keys: Vec<Arc<dyn PhysicalExpr>>,
        /// Which rows leave. The pipeline's are the left side.
        kind: JoinKind,
        /// Conditions that candidates meet to be matches, over the columns of pairs. A later condition sees only pairs that meet the earlier ones.
        conditions: Vec<Arc<dyn PhysicalExpr>>,
        /// Columns of the loaded table that join the row's, as indices into its schema.
        columns: Vec<usize>,
        /// The fields they become: nullable where unmatched rows stay. Steps behind a semi or anti join do not read them.
        fields: Vec<FieldRef>,
    },
    /// Each row becomes any number of rows, which have the columns of a table function beside the row's.
    FlatMap {
        /// The function.
        function: TableFunctionHandle,
        /// Its arguments, of the types that it takes.
        arguments: Vec<Arc<dyn PhysicalExpr>>,
        /// Whether rows for which it makes none stay, with NULLs (LEFT JOIN), or go.
        keep_unmatched: bool,
        /// Leaves out rows of the function for which it is not true, before it is seen which rows stay.
        condition: Option<Arc<dyn PhysicalExpr>>,
        /// Columns of the function that join the row's, by their numbers.
        columns: Vec<usize>,
        /// The fields they become: nullable where unmatched rows stay.
        fields: Vec<FieldRef>,
    },
}

/// What becomes of a pipeline's surviving rows.
#[derive(Debug, Clone)]
pub enum Target {
    /// A stream of its own, of one row for each: the values of these expressions.
    Stream {
        /// One expression for each column.
        columns: Vec<Arc<dyn PhysicalExpr>>,
        /// Names and types of the columns.
        schema: SchemaRef,
    },
    /// Rows for an operator: the values of these expressions.
    Rows {
        /// Where to.
        port: Port,
        /// One expression for each column.
        columns: Vec<Arc<dyn PhysicalExpr>>,
        /// Names and types of the columns.
        schema: SchemaRef,
    },
    /// Rows are added to the groups of an operator, which are those of [`Program::groups`].
    Groups {
        /// Where to.
        port: Port,
        /// One expression for each of its keys.
        keys: Vec<Arc<dyn PhysicalExpr>>,
        /// One expression for each of its accumulators; `None` counts rows.
        arguments: Vec<Option<Arc<dyn PhysicalExpr>>>,
    },
}

impl Target {
    /// Where it feeds an operator, if it does.
    pub fn port(&self) -> Option<Port> {
        match self {
            Target::Stream { .. } => None,
            Target::Rows { port, .. } | Target::Groups { port, .. } => Some(*port),
        }
    }
}

/// A window aggregation: rows of one or more pipelines, grouped by window and keys. Or the first rows of each window and key.
#[derive(Debug, Clone)]
pub struct WindowAggregate {
    /// Which windows rows fall into.
    pub window: Window,
    /// The windows whose bounds the output has: the same; but where rows are results of windows that overlap, and are grouped by these
    /// (`GROUP BY window_start, window_end` once more), those windows.
    pub bounds: Window,
    /// Grouping columns besides the window.
    pub keys: Vec<FieldRef>,
    /// What is kept for each group, without duplicates.
    pub accumulators: Vec<Accumulator>,
    /// Where the windows are sessions, the accumulators that tell a group's.
    pub session_slots: Option<SessionSlots>,
    /// Which rows are reported, where it is rows: then there are neither keys nor accumulators, or rows are kept with their groups.
    pub ranking: Option<Ranking>,
    /// Where rows are kept with their groups, for windows that are those of each key: what each column of `Ranking::schema` is read from, a key or
    /// an array with a value for each row. At least one is an array, and all arrays have their values in the same order.
    pub collected: Vec<WindowColumn>,
    /// The output's columns.
    pub columns: Vec<WindowColumn>,
    /// The output's schema, one field for each of `columns`.
    pub schema: SchemaRef,
    /// Index in `schema` of the output's event time: `WindowColumn::Time` where there is one.
    pub time_column: Option<usize>,
    /// The operator that holds the slices that it shares with other windows, if it does: the pipeline feeds that one.
    pub slices: Option<usize>,
}

impl WindowAggregate {
    /// Whether windows keep their first rows alone, and no groups.
    pub fn keeps_rows_alone(&self) -> bool {
        self.ranking.is_some() && self.collected.is_empty()
    }

    /// How its windows are put together from slices.
    pub fn combination(&self) -> Combination {
        Combination::choose(&self.window, &self.accumulators, !self.keys.is_empty())
    }
}

/// Slices that several windows are put together from: of the same rows, by the same keys, and with the same accumulators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedSlices {
    /// Windows that are cut into these slices, and cover each as long as it may be needed.
    pub grid: Window,
    /// Those that are put together from them, `Program::operators[i]`, at least two.
    pub windows: Vec<usize>,
}

/// A join of two streams.
#[derive(Debug, Clone)]
pub struct StreamJoin {
    /// What is joined.
    pub spec: JoinSpec,
    /// A condition beside keys and times.
    pub residual: Option<Residual>,
    /// The first ports feed the left side, so many; all others feed the right one.
    pub left_ports: usize,
}

/// A condition of a join beside keys and times.
#[derive(Debug, Clone)]
pub struct Residual {
    /// Over the columns of `schema`.
    pub predicate: Arc<dyn PhysicalExpr>,
    /// The columns of both sides' rows that it reads.
    pub columns: Vec<(Side, usize)>,
    /// Their names and types.
    pub schema: SchemaRef,
}

impl StreamJoin {
    /// The side that a port feeds.
    pub fn side_of(&self, port: usize) -> Side {
        if port < self.left_ports { Side::Left } else { Side::Right }
    }

    /// Lets these columns leave, in this order, as those of `schema`.
    pub(crate) fn choose(&mut self, indices: &[usize], schema: SchemaRef) {
        let spec = &mut self.spec;
        let time = match spec.time {
            JoinTime::Windows { .. } => Some(JoinColumn::Window(WindowBound::Time, None)),
            JoinTime::Interval { .. } | JoinTime::Nearest { .. } => {
                spec.output_time.map(|time| spec.columns[time.index])
            }
        };
        spec.columns = indices.iter().map(|&index| spec.columns[index]).collect();
        let time = time.and_then(|time| spec.columns.iter().position(|column| *column == time));
        spec.output_time = time.and_then(|time| TimeColumn::new(time, schema.field(time).data_type()));
        spec.schema = schema;
    }
}

/// One output column of a window aggregation.
#[derive(Debug, Clone, PartialEq)]
pub enum WindowColumn {
    /// First instant of the window.
    Start,
    /// First instant after the window.
    End,
    /// Last millisecond of the window: the result's event time.
    Time,
    /// What the row is: the name of a [`pelton_data::window::ResultKind`].
    Kind,
    /// `WindowAggregate::keys[i]`.
    Key(usize),
    /// The value of an accumulator, NULL where `count` (an accumulator that counts its values) is zero.
    Value {
        /// Index of the accumulator.
        accumulator: usize,
        /// Index of the accumulator that counts the argument's values, where it may be NULL.
        count: Option<usize>,
    },
    /// A variance or standard deviation, NULL where there are too few values.
    Variance {
        /// Index of the accumulator that sums the values.
        sum: usize,
        /// Index of the accumulator that sums their squares.
        squares: usize,
        /// Index of the accumulator that counts them.
        count: usize,
        /// Whether the values are a sample, and not the whole population.
        is_sample: bool,
        /// Whether it is the standard deviation.
        is_root: bool,
    },
    /// Something of all values that an accumulator keeps, NULL where there are none.
    Holistic {
        /// What.
        function: Holistic,
        /// Index of the accumulator that keeps the values.
        values: usize,
        /// Index of the accumulator that keeps their positions, where it is not the same and their order matters.
        arrivals: Option<usize>,
        /// Index of the accumulator that keeps the positions of NULLs, where these count.
        nulls: Option<usize>,
    },
    /// Of rows that are kept, the rank, from 1.
    Rank,
    /// Of rows that are kept, column `i` of `Ranking::schema`.
    Row(usize),
    /// A sum of decimals that may have too many digits, NULL where `count` is zero.
    DecimalSum {
        /// Index of the accumulator that sums, and may wrap around.
        sum: usize,
        /// Index of the accumulator that sums the upper halves.
        upper_sum: usize,
        /// Index of the accumulator that counts the argument's values, where it may be NULL.
        count: Option<usize>,
    },
    /// A sum divided by a count, NULL where the count is zero.
    Mean {
        /// Index of the accumulator that sums.
        sum: usize,
        /// Index of the accumulator that sums the upper halves of decimals whose sum may wrap around.
        upper_sum: Option<usize>,
        /// Index of the accumulator that counts.
        count: usize,
    },
}

impl WindowColumn {
    /// The bounds of a window, in the order in which window functions add them.
    pub(crate) const BOUNDS: [WindowColumn; 3] = [WindowColumn::Start, WindowColumn::End, WindowColumn::Time];

    /// The accumulators that it is computed from.
    pub(crate) fn accumulators_mut(&mut self) -> Vec<&mut usize> {
        match self {
            WindowColumn::Value { accumulator, count } => [accumulator].into_iter().chain(count).collect(),
            WindowColumn::DecimalSum { sum, upper_sum, count } => [sum, upper_sum].into_iter().chain(count).collect(),
            WindowColumn::Mean { sum, upper_sum, count } => [sum, count].into_iter().chain(upper_sum).collect(),
            WindowColumn::Variance { sum, squares, count, .. } => vec![sum, squares, count],
            WindowColumn::Holistic { values, arrivals, nulls, .. } => {
                [values].into_iter().chain(arrivals).chain(nulls).collect()
            }
            WindowColumn::Start | WindowColumn::End | WindowColumn::Time | WindowColumn::Key(_) => Vec::new(),
            WindowColumn::Rank | WindowColumn::Row(_) | WindowColumn::Kind => Vec::new(),
        }
    }

    /// Whether it says when the window begins or ends.
    pub fn is_bound(&self) -> bool {
        WindowColumn::BOUNDS.contains(self)
    }
}

/// Where rows leave a program.
#[derive(Debug, Clone)]
pub struct Output {
    /// Streams whose rows leave here, all of one schema.
    pub inputs: Vec<StreamRef>,
    /// Names and types. Where rows are put in order, the inputs' rows may have more columns behind these.
    pub schema: SchemaRef,
    /// Which of the rows leave, and in which order.
    pub arrangement: Arrangement,
    /// Where to.
    pub target: OutputTarget,
}

impl Output {
    /// What it is called where people see it.
    pub fn name(&self) -> &str {
        match &self.target {
            OutputTarget::Result => "result",
            OutputTarget::Table(name) => name,
        }
    }
}

/// Where an output's rows go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputTarget {
    /// To whoever started the query.
    Result,
    /// Into a table of the catalogue.
    Table(String),
}
