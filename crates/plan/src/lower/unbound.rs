//! A program while it is being put together.
//!
//! Expressions are still logical here, and name columns of a branch's scope: `input.c` is column `c` of the stream that the
//! branch reads, `lookup0.c` a column that a lookup added, `window.window_start` the window that a row falls into.
//! Which columns a source must deliver is known only when all pipelines stand; then `finish` binds names to indices.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion_common::{DFSchema, Result, TableReference};
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan};
use pelton_data::arrangement::Arrangement;
use pelton_data::join::{JoinColumn, JoinKind, JoinTime};
use pelton_data::table_function::TableFunctionHandle;
use pelton_data::zone::Zone;

use crate::bind::window_columns::{WINDOW_COLUMNS, result_time_field, window_fields};
use crate::catalog::Catalog;
use crate::errors::{Place, PlanError, external};
use crate::lower::scope::{
    INPUT, WINDOW, column, column_of, flat_map_qualifier, lookup_qualifier, sql_level, substitute,
};
use crate::lower::unbound_source::UnboundSource;
use crate::pipeline::{Operator, OutputTarget, StreamJoin, StreamRef, Window, WindowAggregate, WindowColumn};
use crate::session_settings::{shares_slices, zone_of_session};

/// All that has been lowered so far.
#[derive(Default)]
pub(crate) struct UnboundProgram {
    pub sources: Vec<UnboundSource>,
    pub lookups: Vec<UnboundLookup>,
    /// How many flat maps there are.
    pub flat_maps: usize,
    pub pipelines: Vec<UnboundPipeline>,
    pub operators: Vec<Operator>,
    /// Which columns of windows say where these begin, where their ends do not: those of windows whose rows are results of sessions.
    pub starts: Vec<(usize, WindowColumn)>,
    /// Windows whose rows are numbered in the descending order of a time attribute: where the first alone is kept, it is the last that came of those of
    /// one time.
    pub descending: Vec<usize>,
    /// Windows that keep all of their rows, as the plan wants it, or as many as a LIMIT says.
    pub numbered_whole: Vec<usize>,
    pub outputs: Vec<UnboundOutput>,
    /// The session's time zone, where it is not UTC.
    pub zone: Option<Zone>,
    /// Whether windows may share slices.
    pub shares_slices: bool,
    /// Aggregations and functions OVER rows that were lowered, so that equal ones are computed once.
    pub aggregates: Vec<(LogicalPlan, Relation)>,
}

/// What is loaded for a join.
#[derive(PartialEq)]
pub(crate) struct Loaded {
    pub table: LogicalPlan,
    /// Conditions that its rows meet.
    pub conditions: Vec<Expr>,
    /// Expressions of its columns by which rows are found.
    pub keys: Vec<Expr>,
    /// Whether rows that are not found leave the join.
    pub keeps_unmatched: bool,
}

/// A bounded relation that rows are looked up in.
pub(crate) struct UnboundLookup {
    /// By which other joins find it.
    pub loaded: Loaded,
    /// What has been lowered of its own program.
    pub unbound: UnboundProgram,
    /// Its rows.
    pub relation: Relation,
    /// Its fields, uniquely named.
    pub fields: Vec<FieldRef>,
    /// Its columns by which rows are found.
    pub keys: Vec<usize>,
    /// Joins that look rows up in it.
    pub joins: usize,
    /// Whether a condition behind its only join has left out some of its rows.
    pub is_filtered: bool,
}

/// Rows on their way: the union of the branches, whose columns are aligned.
#[derive(Clone)]
pub(crate) struct Relation {
    pub branches: Vec<Branch>,
}

/// Rows of one stream on their way: a pipeline that has no end yet.
#[derive(Clone)]
pub(crate) struct Branch {
    pub input: StreamRef,
    /// All columns that expressions may name.
    pub scope: Arc<DFSchema>,
    pub steps: Vec<UnboundStep>,
    /// The relation's columns, in terms of the scope.
    pub columns: Vec<Expr>,
    pub cut: Option<Cut>,
    /// The window function whose rows a condition on their windows has made rows of these, if one has.
    pub apart: Option<Place>,
}

/// The windows that a branch's rows fall into.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cut {
    pub window: Window,
    /// Where the window function stands.
    pub place: Option<Place>,
    /// The time attribute, a column of the branch's input; none where rows are counted.
    pub time: Option<Expr>,
    /// What sessions, and rows that are counted, are partitioned by.
    pub keys: Vec<Expr>,
}

/// See [`crate::pipeline::Step`].
#[derive(Clone, PartialEq)]
pub(crate) enum UnboundStep {
    Filter(Expr),
    Lookup { table: usize, keys: Vec<Expr>, kind: JoinKind, conditions: Vec<Expr> },
    FlatMap(UnboundFlatMap),
}

/// A call of a table function for each row.
#[derive(Clone, PartialEq)]
pub(crate) struct UnboundFlatMap {
    /// Tells the columns that it adds from those of others.
    pub number: usize,
    pub function: TableFunctionHandle,
    pub arguments: Vec<Expr>,
    pub keep_unmatched: bool,
    /// What must hold for a row and a row of the function, where rows for which it makes none stay.
    pub condition: Option<Expr>,
    /// The columns of the function, with names that differ.
    pub fields: Vec<FieldRef>,
}

/// A branch that has its end.
pub(crate) struct UnboundPipeline {
    pub input: StreamRef,
    pub scope: Arc<DFSchema>,
    pub steps: Vec<UnboundStep>,
    pub target: UnboundTarget,
}

/// See [`crate::pipeline::Target`].
pub(crate) enum UnboundTarget {
    /// Names of the columns are the output's.
    Stream { output: usize, columns: Vec<Expr> },
    Groups {
        operator: usize,
        keys: Vec<Expr>,
        arguments: Vec<Option<Expr>>,
        /// The time attribute of the input that the windows are cut by; none where the input is itself a window's rows, or
        /// the window is global.
        time: Option<Expr>,
    },
    /// The time attribute of the input is that which windows are cut by, or rows are put in order by; none where they stay in the order of their
    /// arrival.
    Rows { operator: usize, columns: Vec<Expr>, time: Option<Expr> },
}

impl UnboundStep {
    /// What qualifies the columns that it adds, if it adds any.
    pub fn qualifier(&self) -> Option<String> {
        match self {
            UnboundStep::Filter(_) => None,
            UnboundStep::Lookup { table, .. } => Some(lookup_qualifier(*table)),
            UnboundStep::FlatMap(flat_map) => Some(flat_map_qualifier(flat_map.number)),
        }
    }
}

impl UnboundTarget {
    /// The stream that rows come out of again; none where they leave.
    pub fn stream(&self) -> Option<StreamRef> {
        match self {
            UnboundTarget::Stream { .. } => None,
            UnboundTarget::Groups { operator, .. } | UnboundTarget::Rows { operator, .. } => {
                Some(StreamRef::Operator(*operator))
            }
        }
    }

    /// The time attribute of the input that what is behind the pipeline goes by.
    pub fn time(&self) -> Option<&Expr> {
        match self {
            UnboundTarget::Stream { .. } => None,
            UnboundTarget::Groups { time, .. } | UnboundTarget::Rows { time, .. } => time.as_ref(),
        }
    }
}

/// See [`crate::pipeline::Output`].
pub(crate) struct UnboundOutput {
    /// Of all columns of its inputs.
    pub names: Vec<String>,
    pub arrangement: Arrangement,
    pub target: OutputTarget,
}

impl UnboundProgram {
    /// Nothing yet, of a session with these settings.
    pub fn of_session(catalog: &Catalog) -> UnboundProgram {
        UnboundProgram {
            zone: zone_of_session(catalog),
            shares_slices: shares_slices(catalog),
            ..UnboundProgram::default()
        }
    }

    /// Adds an operator. Returns its results.
    pub fn add_operator(&mut self, operator: Operator) -> Result<Branch> {
        self.operators.push(operator);
        let stream = StreamRef::Operator(self.operators.len() - 1);
        Branch::new(stream, self.fields(stream))
    }

    /// Ends a branch.
    pub fn end(&mut self, branch: Branch, target: UnboundTarget) {
        let Branch { input, scope, steps, .. } = branch;
        self.pipelines.push(UnboundPipeline { input, scope, steps, target });
    }

    /// A window aggregation, by its number among the operators.
    ///
    /// # Panics
    /// Where the operator is none.
    pub fn window(&self, number: usize) -> &WindowAggregate {
        self.operators[number].as_window().expect("the operator is a window")
    }

    /// As [`UnboundProgram::window`].
    pub fn window_mut(&mut self, number: usize) -> &mut WindowAggregate {
        match &mut self.operators[number] {
            Operator::Window(window) => window,
            other => panic!("operator {number} is no window but {}", other.kind()),
        }
    }

    /// The window aggregation whose results a stream is, if it is any's, with its number.
    pub fn window_behind(&self, stream: StreamRef) -> Option<(usize, &WindowAggregate)> {
        match stream {
            StreamRef::Operator(number) => Some((number, self.operators[number].as_window()?)),
            StreamRef::Source(_) | StreamRef::Pipeline(_) => None,
        }
    }

    /// The pipelines that feed an operator, with their numbers.
    pub fn feeding(&self, operator: usize) -> impl Iterator<Item = (usize, &UnboundPipeline)> {
        let fed = Some(StreamRef::Operator(operator));
        self.pipelines.iter().enumerate().filter(move |(_, pipeline)| pipeline.target.stream() == fed)
    }

    /// Fields of a stream's columns. Streams of pipelines end in outputs, so none is read again.
    pub fn fields(&self, stream: StreamRef) -> Vec<FieldRef> {
        match stream {
            StreamRef::Source(index) => self.sources[index].fields.clone(),
            StreamRef::Operator(index) => {
                self.operators[index].schema().expect("no branch reads slices").fields().to_vec()
            }
            StreamRef::Pipeline(_) => unreachable!("no branch reads a pipeline"),
        }
    }

    /// Whether a relation's rows end.
    pub fn is_bounded(&self, relation: &Relation) -> bool {
        relation.branches.iter().all(|branch| self.is_stream_bounded(branch.input))
    }

    fn is_stream_bounded(&self, stream: StreamRef) -> bool {
        match stream {
            StreamRef::Source(index) => self.sources[index].is_bounded(),
            StreamRef::Pipeline(index) => self.is_stream_bounded(self.pipelines[index].input),
            StreamRef::Operator(index) => {
                self.feeding(index).all(|(_, pipeline)| self.is_stream_bounded(pipeline.input))
            }
        }
    }

    /// The windows of which the stream `input` has the rows, and which of their bounds an expression is, by its position in [`WINDOW_COLUMNS`].
    pub fn window_bound(&self, input: StreamRef, expression: &Expr) -> Option<(Window, usize)> {
        if let Some(found) = self.join_bound(input, expression) {
            return Some(found);
        }
        let (number, _) = self.window_behind(input)?;
        let (window, column) = self.window_column(input, expression)?;
        if window == Window::Global {
            return None;
        }
        let says_start = || self.starts.iter().any(|(of, start)| (of, start) == (&number, column));
        let bound = WindowColumn::BOUNDS.iter().position(|bound| bound == column);
        Some((window, bound.or_else(|| says_start().then_some(0))?))
    }

    /// The join of rows in the same window whose results a stream is, with the windows.
    fn window_join_behind(&self, stream: StreamRef) -> Option<(&StreamJoin, Window)> {
        let StreamRef::Operator(number) = stream else { return None };
        let Operator::Join(join) = &self.operators[number] else { return None };
        match join.spec.time {
            JoinTime::Windows { bounds, .. } => Some((join, bounds)),
            JoinTime::Interval { .. } | JoinTime::Nearest { .. } => None,
        }
    }

    /// As [`UnboundProgram::window_bound`], of a join of rows in the same window.
    fn join_bound(&self, input: StreamRef, expression: &Expr) -> Option<(Window, usize)> {
        let (join, window) = self.window_join_behind(input)?;
        join.bound(expression).map(|bound| (window, bound as usize))
    }

    /// The column of a join of rows in the same window that is a bound of the windows.
    pub fn join_bound_column(&self, stream: StreamRef, bound: usize) -> Option<String> {
        let (join, _) = self.window_join_behind(stream)?;
        let is_bound = |column: &JoinColumn| matches!(column, JoinColumn::Window(of, None) if *of as usize == bound);
        let index = join.spec.columns.iter().position(is_bound)?;
        Some(join.spec.schema.field(index).name().clone())
    }

    /// Lets the results of a join of rows in the same window have the time of the window; whether the stream is of such a join.
    pub fn ensure_time_of_join(&mut self, stream: StreamRef) -> bool {
        let Some((_, window)) = self.window_join_behind(stream) else { return false };
        let StreamRef::Operator(number) = stream else { return false };
        if let Operator::Join(join) = &mut self.operators[number] {
            join.add_time(&result_time_field(&window));
        }
        true
    }

    /// The windows of which the stream `input` has the rows, and which of its columns an expression is.
    pub fn window_column(&self, input: StreamRef, expression: &Expr) -> Option<(Window, &WindowColumn)> {
        let (_, window) = self.window_behind(input)?;
        let column = column_of(expression, INPUT)?;
        let index = window.schema.index_of(&column.name).ok()?;
        Some((window.bounds, &window.columns[index]))
    }
}

impl Relation {
    /// Replaces the columns of every branch.
    pub fn project(mut self, expressions: &[Expr], schema: &DFSchema) -> Result<Relation> {
        for branch in &mut self.branches {
            let columns = expressions.iter().map(|expression| branch.substitute(expression, schema));
            branch.columns = columns.collect::<Result<_>>()?;
        }
        Ok(self)
    }
}

impl Branch {
    /// All rows of a stream, with the SQL-level types of its columns.
    pub fn new(input: StreamRef, fields: Vec<FieldRef>) -> Result<Branch> {
        let columns = fields.iter().map(|field| sql_level(column(INPUT, field.name()), field)).collect();
        let qualified = fields.into_iter().map(|field| (Some(TableReference::bare(INPUT)), field));
        let scope = DFSchema::new_with_metadata(qualified.collect(), Default::default())?;
        Ok(Branch { input, scope: Arc::new(scope), steps: Vec::new(), columns, cut: None, apart: None })
    }

    /// An expression over the relation, whose columns `schema` describes, in terms of this branch's scope.
    pub fn substitute(&self, expression: &Expr, schema: &DFSchema) -> Result<Expr> {
        substitute(expression.clone(), schema, &self.columns)
    }

    /// Lets expressions name more columns.
    pub fn extend_scope(&mut self, qualifier: &str, fields: impl IntoIterator<Item = FieldRef>) -> Result<()> {
        let more = fields.into_iter().map(|field| (Some(TableReference::bare(qualifier)), field));
        let known = self.scope.iter().map(|(qualifier, field)| (qualifier.cloned(), field.clone()));
        self.scope = Arc::new(DFSchema::new_with_metadata(known.chain(more).collect(), Default::default())?);
        Ok(())
    }

    /// Whether the rows, of such windows, say where these begin, and their ends do not: results of sessions.
    pub fn say_starts(&self, window: Window) -> bool {
        self.cut.is_none() && matches!(window, Window::Session { .. })
    }

    /// Refuses to read rows one by one that are cut into windows which have them several times, or leave some out.
    pub fn check_each_row_once(&self) -> Result<()> {
        let Some(cut) = self.cut.as_ref().filter(|cut| !cut.window.has_each_row_once()) else { return Ok(()) };
        let construct = "reading rows of windows that may have a row several times, or not at all,";
        let hint = "GROUP BY window_start, window_end, or use TUMBLE";
        Err(external(PlanError::unsupported(cut.place, construct, hint)))
    }

    /// Cuts the rows into windows, which adds columns to the relation.
    pub fn cut(&mut self, cut: Cut) -> Result<()> {
        let time_type = cut.time.as_ref().map_or(Ok(DataType::Null), |time| time.get_type(&self.scope))?;
        let fields = window_fields(&cut.window, &time_type);
        self.columns.extend(WINDOW_COLUMNS[..fields.len()].iter().map(|name| column(WINDOW, name)));
        self.extend_scope(WINDOW, fields)?;
        self.cut = Some(cut);
        Ok(())
    }
}
