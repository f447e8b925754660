//! What a query becomes: pipelines between sources, windows and sinks.
//!
//! A pipeline is a straight run of row-at-a-time steps over the blocks of one input. It ends where rows must wait for
//! other rows (a window) or leave (a stream). Expressions are DataFusion's physical expressions over the pipeline's
//! current columns: typed, coerced, and evaluated by DataFusion where the compiler does not know them.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{FieldRef, SchemaRef};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Column;
use datafusion_physical_expr::utils::collect_columns;
use pelton_data::Micros;
use pelton_data::aggregate::{Accumulator, Holistic};
use pelton_data::arrangement::Arrangement;
use pelton_data::over::OverSpec;
use pelton_data::ranking::Ranking;
pub use pelton_data::window::{Combination, SessionSlots, Window};

/// All that runs for one statement: one or more `INSERT`s, or one `SELECT`.
#[derive(Debug, Clone)]
pub struct Program {
    /// Tables read as streams.
    pub sources: Vec<SourceUse>,
    /// Bounded tables loaded before the streams start.
    pub lookups: Vec<LookupTable>,
    /// Runs of steps, upstream before downstream.
    pub pipelines: Vec<Pipeline>,
    /// Window aggregations, upstream before downstream.
    pub windows: Vec<WindowAggregate>,
    /// Slices that several of them share.
    pub shared: Vec<SharedSlices>,
    /// Functions of the rows before each row, upstream before downstream.
    pub overs: Vec<Over>,
    /// Where rows leave.
    pub outputs: Vec<Output>,
}

impl Program {
    /// Which of `shared` a window is put together from, if it is from any.
    pub fn slices_of(&self, window: usize) -> Option<usize> {
        self.shared.iter().position(|slices| slices.windows.contains(&window))
    }

    /// Which of `overs` takes the rows of a pipeline, if any does.
    pub fn over_of(&self, pipeline: usize) -> Option<usize> {
        self.overs.iter().position(|over| over.inputs.contains(&StreamRef::Pipeline(pipeline)))
    }

    /// Which of its window's inputs a pipeline is, in the order of the pipelines.
    pub fn window_input(&self, pipeline: usize) -> usize {
        let window = |pipeline: &Pipeline| match pipeline.target {
            Target::Window { window, .. } => Some(window),
            Target::Stream { .. } | Target::Rows { .. } => None,
        };
        let own = window(&self.pipelines[pipeline]);
        self.pipelines[..pipeline].iter().filter(|earlier| window(earlier) == own).count()
    }
}

/// A stream of blocks inside a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamRef {
    /// `Program::sources[i]`.
    Source(usize),
    /// `Program::pipelines[i]`, which ends in [`Target::Stream`].
    Pipeline(usize),
    /// The closed windows of `Program::windows[i]`.
    Window(usize),
    /// The rows of `Program::overs[i]`, in the order of their times.
    Over(usize),
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
}

/// A straight run of steps.
#[derive(Debug, Clone)]
pub struct Pipeline {
    /// Where its blocks come from.
    pub input: StreamRef,
    /// Schema of the input's blocks.
    pub input_schema: SchemaRef,
    /// In order. Column indices refer to the input's columns, followed by the columns each `Lookup` adds.
    pub steps: Vec<Step>,
    /// Where its rows go, and what they are made of.
    pub target: Target,
}

impl Pipeline {
    /// The input's column that becomes the output's column `output` as it is, and is read for nothing else. `None` too where rows are
    /// not just some of the input's.
    pub fn only_passed(&self, output: usize) -> Option<usize> {
        let Target::Stream { columns, .. } = &self.target else { return None };
        let passed = columns[output].downcast_ref::<Column>()?.index();
        let reads = |expression: &Arc<dyn PhysicalExpr>| {
            collect_columns(expression).iter().any(|column| column.index() == passed)
        };
        let is_left_alone = self.steps.iter().all(|step| match step {
            Step::Filter(predicate) => !reads(predicate),
            Step::Lookup { .. } => false,
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
        /// One expression for each key column of the table, of the same type.
        keys: Vec<Arc<dyn PhysicalExpr>>,
        /// Whether rows without a match stay, with NULLs (LEFT JOIN), or go (INNER JOIN).
        keep_unmatched: bool,
        /// Columns of the loaded table that join the row's, as indices into its schema.
        columns: Vec<usize>,
        /// The fields they become: nullable where unmatched rows stay.
        fields: Vec<FieldRef>,
    },
}

/// What becomes of a pipeline's surviving rows.
#[derive(Debug, Clone)]
pub enum Target {
    /// One output row for each: the values of these expressions.
    Stream {
        /// One expression for each column.
        columns: Vec<Arc<dyn PhysicalExpr>>,
        /// Names and types of the columns.
        schema: SchemaRef,
    },
    /// Rows from which `Program::windows[window]` keeps the first of each window and key.
    Rows {
        /// Which.
        window: usize,
        /// One expression for each column that is kept.
        columns: Vec<Arc<dyn PhysicalExpr>>,
        /// Names and types of the columns.
        schema: SchemaRef,
    },
    /// Rows are added to the window aggregation `Program::windows[window]`, or to the slices that it shares with others.
    Window {
        /// Which; of several that share slices, the first.
        window: usize,
        /// One expression for each of its keys.
        keys: Vec<Arc<dyn PhysicalExpr>>,
        /// One expression for each of its accumulators; `None` counts rows.
        arguments: Vec<Option<Arc<dyn PhysicalExpr>>>,
    },
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
    pub gathered: Vec<WindowColumn>,
    /// The output's columns.
    pub columns: Vec<WindowColumn>,
    /// The output's schema, one field for each of `columns`.
    pub schema: SchemaRef,
    /// Index in `schema` of the output's event time: `WindowColumn::Time` where there is one.
    pub time_column: Option<usize>,
}

impl WindowAggregate {
    /// Whether windows keep their first rows alone, and no groups.
    pub fn keeps_rows_alone(&self) -> bool {
        self.ranking.is_some() && self.gathered.is_empty()
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
    /// Those that are put together from them, `Program::windows[i]`, at least two.
    pub windows: Vec<usize>,
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

/// Functions of the rows before each row, by key, in the order of their times.
#[derive(Debug, Clone)]
pub struct Over {
    /// Pipelines whose rows it takes, of the spec's input schema: they end in [`Target::Stream`].
    pub inputs: Vec<StreamRef>,
    /// What is computed.
    pub spec: OverSpec,
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

/// Where an output's rows go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputTarget {
    /// To whoever started the query.
    Result,
    /// Into a table of the catalogue.
    Table(String),
}
