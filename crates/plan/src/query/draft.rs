//! A program while it is being put together.
//!
//! Expressions are still logical here, and name columns of a branch's scope: `input.c` is column `c` of the stream that the
//! branch reads, `lookup0.c` a column that a lookup added, `window.window_start` the window that a row falls into.
//! Which columns a source must deliver is known only when all pipelines stand; then `finish` binds names to indices.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, DFSchema, Result, ScalarValue, TableReference};
use datafusion_expr::{Cast, Expr, ExprSchemable, LogicalPlan};
use pelton_data::arrangement::Arrangement;
use pelton_data::column::{is_nested, logical_type};
use pelton_data::zone::Zone;
use pelton_functions::{fit_nested, is_flink_cast, is_own_cast, strict_cast_as, strict_cast_literal};

use super::context::external;
use super::source::SourceDraft;
use super::window::{WINDOW_COLUMNS, window_fields};
use super::{share, zone};
use crate::catalog::Catalog;
use crate::error::{Place, PlanError};
use crate::pipeline::{Operator, OutputTarget, StreamRef, Window, WindowAggregate, WindowColumn};
use crate::types::SqlType;

/// Qualifies columns of the stream that a branch reads.
pub(super) const INPUT: &str = "input";

/// Qualifies the columns of a window function before its windows are grouped by.
pub(super) const WINDOW: &str = "window";

/// The column of a branch's input that says how its rows came, where rows that an order does not tell apart stand so.
pub(super) const ARRIVAL: &str = "$arrival";

/// All that has been lowered so far.
#[derive(Default)]
pub(super) struct Draft {
    pub sources: Vec<SourceDraft>,
    pub lookups: Vec<LookupDraft>,
    pub pipelines: Vec<PipelineDraft>,
    pub operators: Vec<Operator>,
    /// Which columns of windows say where these begin, where their ends do not: those of windows whose rows are results of sessions.
    pub starts: Vec<(usize, WindowColumn)>,
    /// Windows whose rows are numbered in the descending order of a time attribute: where the first alone is kept, it is the last that came of those of
    /// one time.
    pub descending: Vec<usize>,
    /// Windows that keep all of their rows, as the plan wants it, or as many as a LIMIT says.
    pub numbered_whole: Vec<usize>,
    pub outputs: Vec<OutputDraft>,
    /// The session's time zone, where it is not UTC.
    pub zone: Option<Zone>,
    /// Whether windows may share slices.
    pub shares_slices: bool,
    /// Aggregations and functions OVER rows that were lowered, so that equal ones are computed once.
    pub aggregates: Vec<(LogicalPlan, Relation)>,
}

/// What is loaded for a join.
#[derive(PartialEq)]
pub(super) struct Loaded {
    pub table: LogicalPlan,
    /// Conditions that its rows meet.
    pub conditions: Vec<Expr>,
    /// Expressions of its columns by which rows are found.
    pub keys: Vec<Expr>,
}

/// A bounded relation that rows are looked up in.
pub(super) struct LookupDraft {
    /// By which other joins find it.
    pub loaded: Loaded,
    /// What has been lowered of its own program.
    pub draft: Draft,
    /// Its rows.
    pub relation: Relation,
    /// Its fields, uniquely named.
    pub fields: Vec<FieldRef>,
    /// Its columns by which rows are found.
    pub keys: Vec<usize>,
}

/// Rows on their way: the union of the branches, whose columns are aligned.
#[derive(Clone)]
pub(super) struct Relation {
    pub branches: Vec<Branch>,
}

/// Rows of one stream on their way: a pipeline that has no end yet.
#[derive(Clone)]
pub(super) struct Branch {
    pub input: StreamRef,
    /// All columns that expressions may name.
    pub scope: Arc<DFSchema>,
    pub steps: Vec<StepDraft>,
    /// The relation's columns, in terms of the scope.
    pub columns: Vec<Expr>,
    pub cut: Option<Cut>,
    /// The window function whose rows a condition on their windows has made rows of these, if one has.
    pub apart: Option<Place>,
}

/// The windows that a branch's rows fall into.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cut {
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
pub(super) enum StepDraft {
    Filter(Expr),
    Lookup { table: usize, keys: Vec<Expr>, keep_unmatched: bool },
}

/// A branch that has its end.
pub(super) struct PipelineDraft {
    pub input: StreamRef,
    pub scope: Arc<DFSchema>,
    pub steps: Vec<StepDraft>,
    pub target: TargetDraft,
}

/// See [`crate::pipeline::Target`].
pub(super) enum TargetDraft {
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

impl TargetDraft {
    /// The stream that rows come out of again; none where they leave.
    pub fn stream(&self) -> Option<StreamRef> {
        match self {
            TargetDraft::Stream { .. } => None,
            TargetDraft::Groups { operator, .. } | TargetDraft::Rows { operator, .. } => {
                Some(StreamRef::Operator(*operator))
            }
        }
    }

    /// The time attribute of the input that what is behind the pipeline goes by.
    pub fn time(&self) -> Option<&Expr> {
        match self {
            TargetDraft::Stream { .. } => None,
            TargetDraft::Groups { time, .. } | TargetDraft::Rows { time, .. } => time.as_ref(),
        }
    }
}

/// See [`crate::pipeline::Output`].
pub(super) struct OutputDraft {
    /// Of all columns of its inputs.
    pub names: Vec<String>,
    pub arrangement: Arrangement,
    pub target: OutputTarget,
}

impl Draft {
    /// Nothing yet, of a session with these settings.
    pub fn of_session(catalog: &Catalog) -> Draft {
        Draft { zone: zone::of_session(catalog), shares_slices: share::shares_slices(catalog), ..Draft::default() }
    }

    /// Adds an operator. Returns its results.
    pub fn add_operator(&mut self, operator: Operator) -> Result<Branch> {
        self.operators.push(operator);
        let stream = StreamRef::Operator(self.operators.len() - 1);
        Branch::new(stream, self.fields(stream))
    }

    /// A window aggregation, by its number among the operators.
    ///
    /// # Panics
    /// Where the operator is none.
    pub fn window(&self, number: usize) -> &WindowAggregate {
        self.operators[number].as_window().expect("the operator is a window")
    }

    /// As [`Draft::window`].
    pub fn window_mut(&mut self, number: usize) -> &mut WindowAggregate {
        match &mut self.operators[number] {
            Operator::Window(window) => window,
            Operator::Slices(_) | Operator::Over(_) => panic!("operator {number} is no window"),
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
    pub fn feeding(&self, operator: usize) -> impl Iterator<Item = (usize, &PipelineDraft)> {
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
        let (number, _) = self.window_behind(input)?;
        let (window, column) = self.window_column(input, expression)?;
        if window == Window::Global {
            return None;
        }
        let says_start = || self.starts.iter().any(|(of, start)| (of, start) == (&number, column));
        let bound = WindowColumn::BOUNDS.iter().position(|bound| bound == column);
        Some((window, bound.or_else(|| says_start().then_some(0))?))
    }

    /// The windows of which the stream `input` has the rows, and which of its columns an expression is.
    pub fn window_column(&self, input: StreamRef, expression: &Expr) -> Option<(Window, &WindowColumn)> {
        let (_, window) = self.window_behind(input)?;
        let Expr::Column(column) = expression else { return None };
        if column.relation.as_ref().is_none_or(|relation| relation.table() != INPUT) {
            return None;
        }
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

/// Parts of an expression over a stream. One that reads a computed column twice has that twice, and views over views double it each time.
const PARTS_MAX: usize = 100_000;

/// An expression over the columns that `schema` describes, in terms of what these are computed from. Names go.
pub(super) fn substitute(expression: Expr, schema: &DFSchema, columns: &[Expr]) -> Result<Expr> {
    let mut parts = 0;
    let replaced = expression.transform_up(|node| {
        Ok(match node {
            Expr::Column(column) => {
                let value = &columns[schema.index_of_column(&column)?];
                value.apply(|_| {
                    parts += 1;
                    Ok(TreeNodeRecursion::Continue)
                })?;
                if parts > PARTS_MAX {
                    let construct = format!(
                        "{}, which is computed from computed columns more than {PARTS_MAX} times over,",
                        column.name
                    );
                    let hint = "INSERT what an inner view computes into a table, and read that";
                    return Err(external(PlanError::unsupported(None, construct, hint)));
                }
                Transformed::yes(value.clone())
            }
            Expr::Alias(alias) => Transformed::yes(*alias.expr),
            other => Transformed::no(other),
        })
    })?;
    Ok(replaced.data)
}

/// A column of a scope.
pub(super) fn column(qualifier: &str, name: &str) -> Expr {
    Expr::Column(Column::new(Some(TableReference::bare(qualifier)), name))
}

/// A column as SQL sees it: a dictionary of strings is cast to strings, which later vanishes wherever codes serve as well.
pub(super) fn sql_level(column: Expr, field: &Field) -> Expr {
    match logical_type(field.data_type()) {
        same if same == field.data_type() => column,
        other => Expr::Cast(Cast::new(Box::new(column), other.clone())),
    }
}

/// The type that blocks and tables hold values of `data_type` in, or `None` where there is none.
pub(super) fn held_type(data_type: &DataType) -> Option<DataType> {
    Some(match data_type {
        DataType::Null => DataType::Utf8View,
        DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 | DataType::UInt64 => DataType::Int64,
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        DataType::Date64 => DataType::Date32,
        DataType::Float16 => DataType::Float32,
        other if is_nested(other) => return None,
        other => SqlType::from_arrow(other)?.to_arrow(),
    })
}

/// As [`held_type`], and nested types: rows on their way carry values of these, and no table of state holds them.
pub(super) fn carried_type(data_type: &DataType) -> Option<DataType> {
    held_type(data_type).or_else(|| is_nested(data_type).then(|| data_type.clone()))
}

/// How a part of a value of a nested type is written; `None` of other types.
pub(super) fn part_of(data_type: &DataType) -> Option<&'static str> {
    match data_type {
        DataType::Struct(_) => Some("row.field"),
        DataType::List(_) => Some("array[1]"),
        DataType::Map(..) => Some("map['key']"),
        _ => None,
    }
}

/// As [`held_type`], and `data_type` itself where there is none: an array is held as it is, and the rest is refused where it is read.
pub(super) fn held_or_same(data_type: &DataType) -> DataType {
    held_type(data_type).unwrap_or_else(|| data_type.clone())
}

/// `expression` as a value of `data_type`. A cast that only changed how a string is laid out is taken back; one to coarser times leaves out what is finer, as
/// casts that a query asks for do.
pub(super) fn cast_to(expression: Expr, data_type: &DataType, scope: &DFSchema) -> Result<Expr> {
    let own_type = expression.get_type(scope)?;
    if own_type == *data_type {
        return Ok(expression);
    }
    if is_nested(data_type) {
        let target = Expr::Literal(ScalarValue::try_from(data_type)?, None);
        return Ok(if own_type.is_null() { target } else { fit_nested(expression, target) });
    }
    // Nobody asked for this cast: what does not fit is an error, also where a query's own cast would make something else of it.
    if is_own_cast(&own_type, data_type) || is_flink_cast(&own_type, data_type) {
        return Ok(match expression {
            Expr::Literal(value, _) => Expr::Literal(strict_cast_literal(&value, data_type)?, None),
            computed => strict_cast_as(computed, Expr::Literal(ScalarValue::try_from(data_type)?, None)),
        });
    }
    if let Expr::Cast(cast) = &expression
        && *data_type == DataType::Utf8View
        && matches!(cast.field.data_type(), DataType::Utf8 | DataType::LargeUtf8)
        && cast.expr.get_type(scope)? == *data_type
    {
        return Ok(cast.expr.as_ref().clone());
    }
    Ok(Expr::Cast(Cast::new(Box::new(expression), data_type.clone())))
}

/// The column under the cast that [`sql_level`] put over a dictionary of strings.
pub(super) fn without_dictionary_cast(expression: Expr, scope: &DFSchema) -> Result<Expr> {
    if let Expr::Cast(cast) = &expression
        && matches!(cast.expr.as_ref(), Expr::Column(_))
        && matches!(cast.expr.get_type(scope)?, DataType::Dictionary(..))
    {
        return Ok(cast.expr.as_ref().clone());
    }
    Ok(expression)
}
