//! Queries put together call by call instead of written as text.
//!
//! Each call adds to DataFusion's logical plan what the SQL front end adds for the clause it is named after; from there on
//! both go the same way. Expressions are DataFusion's, so what a query's text cannot hold is refused here.

mod flat_map;

mod over;

mod top;

mod window;

use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, Result, TableReference};
use datafusion_expr::expr_rewriter::{normalize_col_with_schemas_and_ambiguity_check, normalize_cols};
use datafusion_expr::planner::ContextProvider;
use datafusion_expr::utils::{columnize_expr, find_aggregate_exprs};
use datafusion_expr::{Expr, JoinType, LogicalPlan, LogicalPlanBuilder, SortExpr};

use crate::bind::aggregate_functions::{instead_of, is_planned};
use crate::bind::context::Context;
use crate::bind::flat_map::{FlatMapNode, built_in};
use crate::bind::foreign::Foreign;
use crate::bind::spelling::Aliases;
use crate::bind::table_scan::TableScanSource;
use crate::bind::udaf::udaf_of;
use crate::bind::{foreign_types, references};
use crate::catalog::{Catalog, Relation};
use crate::coerce::named_casts::with_named_casts;
use crate::coerce::optimize;
use crate::errors::PlanError;
use crate::errors::diagnose::diagnose;
use crate::errors::source_locations::SourceLocations;
use crate::explain::{Notes, flink};
use crate::lower::finish;
use crate::lower::scope::substitute;
use crate::lower::sink::Destination;
use crate::lower::unbound::UnboundProgram;
use crate::parse::Named;
use crate::pipeline::OutputTarget;
use crate::query::{Planned, lower_plan, note_options, on_deep_stack};

pub use crate::query::builder::flat_map::TableCall;
pub use crate::query::builder::over::OverWindow;
pub use crate::query::builder::window::{CountWindow, RowWindow, TimeWindow};
pub use datafusion_functions_aggregate::expr_fn::{avg, count, max, min, sum};

/// What functions of a plan Flink does not have; those of the program's own are its affair.
fn foreign_functions(plan: &LogicalPlan, catalog: &Catalog) -> Notes {
    let mut foreign = Notes::default();
    // The plan is well-formed: the walk visits its nodes and fails at none.
    let _ = plan.apply(|node| {
        let called = FlatMapNode::of(node).map(|node| node.call.function.0.name());
        if let Some(name) = called.filter(|name| catalog.table_function(name).is_none() && built_in(name).is_some())
            && let Some(note) = flink::function_note(name)
        {
            foreign.add(None, note);
        }
        for expression in node.expressions() {
            let _ = expression.apply(|part| {
                let name = match part {
                    Expr::ScalarFunction(call) => call.func.name(),
                    Expr::AggregateFunction(call) => call.func.name(),
                    Expr::WindowFunction(call) => call.fun.name(),
                    _ => return Ok(TreeNodeRecursion::Continue),
                };
                if catalog.function(name).is_none()
                    && catalog.aggregate(name).is_none()
                    && let Some(note) = flink::planned_function_note(name)
                {
                    foreign.add(None, note);
                }
                Ok(TreeNodeRecursion::Continue)
            });
        }
        Ok(TreeNodeRecursion::Continue)
    });
    foreign
}

/// Rows of a query that is being put together.
#[derive(Debug, Clone)]
pub struct RelationBuilder {
    plan: LogicalPlan,
    /// What an aggregation gives, as columns over `plan`, until something else than a filter needs it.
    aggregated: Option<Vec<Expr>>,
    /// Start and end of the windows that the rows were cut into and not yet grouped by.
    bounds: Option<[Column; 2]>,
}

/// Which rows a join keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinKind {
    /// Rows that have a match.
    Inner,
    /// All rows of the left side, with NULLs where they have no match.
    Left,
    /// All rows of the right side, with NULLs where they have no match.
    Right,
    /// All rows of both sides, with NULLs where they have no match.
    Full,
}

impl RelationBuilder {
    /// All rows of a table or view.
    ///
    /// # Errors
    /// [`PlanError`] where there is none of that name, or the view cannot be planned.
    pub fn table(catalog: &Catalog, name: &str) -> Result<RelationBuilder, PlanError> {
        let reference = TableReference::bare(name);
        let plan = step(&[], || {
            let source = Context::new(catalog).get_table_source(reference.clone())?;
            references::resolved(LogicalPlanBuilder::scan(reference, source, None)?.build()?, None)
        })?;
        Ok(RelationBuilder { plan, aggregated: None, bounds: None })
    }

    /// `WHERE`, and behind an aggregation `HAVING`: keeps rows for which `condition` is true.
    ///
    /// # Errors
    /// [`PlanError`] where the condition names no column of the rows, or is no condition.
    pub fn filter(self, condition: Expr) -> Result<RelationBuilder, PlanError> {
        check(&condition, Allowed::Values)?;
        let plan = step(std::slice::from_ref(&condition), || {
            let condition = match &self.aggregated {
                None => condition.clone(),
                Some(columns) => {
                    let selected = self.selected()?;
                    substitute(of_columns(condition.clone(), &selected)?, selected.schema(), &bare(columns))?
                }
            };
            LogicalPlanBuilder::from(self.plan.clone()).filter(condition)?.build()
        })?;
        Ok(RelationBuilder { plan, ..self })
    }

    /// `SELECT`: the rows' columns become these expressions, functions OVER rows ([`OverWindow`]) among them. One that has no name is called `EXPR$` and its position.
    ///
    /// # Errors
    /// [`PlanError`] where an expression names no column of the rows, or its types do not fit.
    pub fn select(self, expressions: impl IntoIterator<Item = Expr>) -> Result<RelationBuilder, PlanError> {
        let expressions: Vec<Expr> = expressions.into_iter().collect();
        for expression in &expressions {
            check(expression, Allowed::OverRows)?;
        }
        let plan = step(&expressions, || {
            let columns = named(expressions.clone());
            if over::has_over(&columns) {
                return over::select(self.selected()?, columns);
            }
            let columns = match &self.aggregated {
                None => columns,
                Some(aggregated) => {
                    let selected = self.selected()?;
                    let columns = columns.into_iter().map(|column| chosen(column, &selected, aggregated));
                    columns.collect::<Result<_>>()?
                }
            };
            LogicalPlanBuilder::from(self.plan.clone()).project(columns)?.build()
        })?;
        let bounds = self.bounds.filter(|bounds| bounds.iter().all(|bound| plan.schema().has_column(bound)));
        Ok(RelationBuilder { plan, aggregated: None, bounds })
    }

    /// `SELECT DISTINCT`: each row once.
    ///
    /// # Errors
    /// [`PlanError`] where rows cannot be told apart by the type of a column.
    pub fn distinct(self) -> Result<RelationBuilder, PlanError> {
        let plan = step(&[], || LogicalPlanBuilder::from(self.selected()?).distinct()?.build())?;
        Ok(RelationBuilder { plan, aggregated: None, bounds: None })
    }

    /// `GROUP BY`: one row for each group, with `keys` and `aggregates` as its columns. Rows that were cut into windows are
    /// grouped by these as well, and `window_start` and `window_end` become columns, the first where `keys` has them not.
    ///
    /// # Errors
    /// [`PlanError`] where an expression names no column of the rows, aggregates nothing, or does what windows cannot.
    pub fn aggregate(
        self,
        keys: impl IntoIterator<Item = Expr>,
        aggregates: impl IntoIterator<Item = Expr>,
    ) -> Result<RelationBuilder, PlanError> {
        let keys: Vec<Expr> = keys.into_iter().collect();
        let aggregates = aggregates.into_iter().map(with_named_casts).collect::<Result<Vec<Expr>>>();
        let aggregates = aggregates.expect("naming casts does not fail");
        for key in &keys {
            check(key, Allowed::Values)?;
        }
        for aggregate in &aggregates {
            check(aggregate, Allowed::Aggregates)?;
            if find_aggregate_exprs([aggregate]).is_empty() {
                let message = format!("{aggregate} aggregates nothing");
                let hint = "group by it, or aggregate it with count, sum, avg, min or max";
                return Err(PlanError::invalid(None, message).with_hint(hint));
            }
        }
        let is_key = |bound: &Column| keys.iter().any(|key| matches!(key, Expr::Column(key) if key.name == bound.name));
        let bounds = self.bounds.iter().flatten().filter(|bound| !is_key(bound)).cloned().map(Expr::Column);
        let keys: Vec<Expr> = bounds.chain(keys.iter().cloned()).collect();
        let mut columns = Vec::new();
        let all: Vec<Expr> = keys.iter().chain(&aggregates).cloned().collect();
        let plan = step(&all, || {
            let input = self.selected()?;
            let groups = normalize_cols(bare(&keys), &input)?;
            let expressions = normalize_cols(named(all.clone()), &input)?;
            let calls = find_aggregate_exprs(&expressions[keys.len()..]);
            let plan = LogicalPlanBuilder::from(input).aggregate(groups, calls)?.build()?;
            let over_plan = expressions.into_iter().map(|expression| columnize_expr(expression, &plan));
            columns = over_plan.collect::<Result<_>>()?;
            // Columns that are neither grouped by nor aggregated are missed here.
            LogicalPlanBuilder::from(plan.clone()).project(columns.clone())?;
            Ok(plan)
        })?;
        Ok(RelationBuilder { plan, aggregated: Some(columns), bounds: None })
    }

    /// `JOIN … ON`: rows of both sides that match. Rows that are both cut into windows match in the same window only.
    ///
    /// # Errors
    /// [`PlanError`] where `on` names no column of either side, or one that both have.
    pub fn join(self, other: RelationBuilder, kind: JoinKind, on: Expr) -> Result<RelationBuilder, PlanError> {
        check(&on, Allowed::Values)?;
        let kind = match kind {
            JoinKind::Inner => JoinType::Inner,
            JoinKind::Left => JoinType::Left,
            JoinKind::Right => JoinType::Right,
            JoinKind::Full => JoinType::Full,
        };
        // Rows of windows are joined by window as well.
        let same_window = match (&self.bounds, &other.bounds) {
            (Some(left), Some(right)) => {
                if left[0].relation.is_none() || right[0].relation.is_none() || left[0] == right[0] {
                    let message = "both sides are cut into windows, and their windows need names that tell them apart";
                    let hint = "name both sides behind window(…), as in alias(\"a\") and alias(\"b\")";
                    return Err(PlanError::invalid(None, message).with_hint(hint));
                }
                let pairs = left.iter().cloned().zip(right.iter().cloned());
                pairs.map(|(left, right)| Expr::Column(left).eq(Expr::Column(right))).collect()
            }
            _ => Vec::new(),
        };
        let on: Vec<Expr> = same_window.into_iter().chain([on]).collect();
        let plan = step(&on, || {
            LogicalPlanBuilder::from(self.selected()?).join_on(other.selected()?, kind, on.clone())?.build()
        })?;
        Ok(RelationBuilder { plan, aggregated: None, bounds: self.bounds.or(other.bounds) })
    }

    /// `UNION ALL`: the rows of both. Columns go together by position, and are named as here.
    ///
    /// # Errors
    /// [`PlanError`] where the numbers or types of the columns differ.
    pub fn union_all(self, other: RelationBuilder) -> Result<RelationBuilder, PlanError> {
        let plan = step(&[], || LogicalPlanBuilder::from(self.selected()?).union(other.selected()?)?.build())?;
        let unqualified = |bounds: [Column; 2]| bounds.map(|bound| Column::from_name(bound.name));
        let bounds = self.bounds.map(unqualified);
        let bounds = bounds.filter(|bounds| bounds.iter().all(|bound| plan.schema().has_column(bound)));
        Ok(RelationBuilder { plan, aggregated: None, bounds })
    }

    /// `ORDER BY`: puts the rows of a whole query in order. They end, and nothing but a limit follows.
    ///
    /// # Errors
    /// [`PlanError`] where a key names no column of the rows.
    pub fn order_by(self, keys: impl IntoIterator<Item = SortExpr>) -> Result<RelationBuilder, PlanError> {
        let keys: Vec<SortExpr> = keys.into_iter().collect();
        let expressions: Vec<Expr> = keys.iter().map(|key| key.expr.clone()).collect();
        for expression in &expressions {
            check(expression, Allowed::Values)?;
        }
        let plan = step(&expressions, || LogicalPlanBuilder::from(self.selected()?).sort(keys)?.build())?;
        Ok(RelationBuilder { plan, aggregated: None, bounds: None })
    }

    /// `LIMIT rows_max OFFSET offset`: the first rows of a whole query. Nothing follows.
    ///
    /// # Errors
    /// [`PlanError`] where the query so far cannot be planned.
    pub fn limit(self, offset: usize, rows_max: Option<usize>) -> Result<RelationBuilder, PlanError> {
        let plan = step(&[], || LogicalPlanBuilder::from(self.selected()?).limit(offset, rows_max)?.build())?;
        Ok(RelationBuilder { plan, aggregated: None, bounds: None })
    }

    /// `AS name`: lets expressions call the columns `name.column`, where two sides of a join have the same names.
    ///
    /// # Errors
    /// [`PlanError`] where two columns have the same name.
    pub fn alias(self, name: &str) -> Result<RelationBuilder, PlanError> {
        let plan = step(&[], || LogicalPlanBuilder::from(self.selected()?).alias(TableReference::bare(name))?.build())?;
        let of_alias = |bound: Column| Column::new(Some(TableReference::bare(name)), bound.name);
        Ok(RelationBuilder { plan, aggregated: None, bounds: self.bounds.map(|bounds| bounds.map(of_alias)) })
    }

    /// Plans the query: its rows are its result, or go into the table `into`.
    ///
    /// # Errors
    /// [`PlanError`] where the query does what streams cannot, the table does not take its rows, or a table has been
    /// defined anew since [`RelationBuilder::table`].
    pub fn plan(&self, catalog: &Catalog, into: Option<&str>) -> Result<Planned, PlanError> {
        on_deep_stack(catalog, || self.plan_here(catalog, into))
    }

    fn plan_here(&self, catalog: &Catalog, into: Option<&str>) -> Result<Planned, PlanError> {
        let plan = step(&[], || self.selected())?;
        check_tables(&plan, catalog)?;
        let locations = locations_of_plan(&plan);
        let target = into.map(|name| Named { name: name.to_string(), place: None });
        let destination = target.as_ref().map(|target| Destination::named(catalog, target)).transpose()?;
        let mut unbound = UnboundProgram::of_session(catalog);
        let mut foreign = Foreign::default();
        foreign.notes.append(foreign_functions(&plan, catalog));
        foreign_types::note(&plan, &mut foreign);
        let mut foreign = foreign.notes;
        let logical = lower_plan(plan, destination.as_ref(), &mut unbound, &locations);
        let logical = logical.map_err(|error| diagnose(error, &locations))?;
        let program = finish::finish(unbound).map_err(|error| diagnose(error, &locations))?;
        let target = into.map_or(OutputTarget::Result, |name| OutputTarget::Table(name.to_string()));
        note_options(catalog, &program, &mut foreign);
        Ok(Planned { program, logical: vec![(target, logical)], foreign, locations })
    }

    /// The plan with the columns of an aggregation chosen.
    fn selected(&self) -> Result<LogicalPlan> {
        match &self.aggregated {
            None => Ok(self.plan.clone()),
            Some(columns) => LogicalPlanBuilder::from(self.plan.clone()).project(columns.clone())?.build(),
        }
    }
}

/// `COUNT(*)`: how many rows.
pub fn count_all() -> Expr {
    #[expect(deprecated, reason = "COUNT(*) is planned with a wildcard as its argument")]
    let all = Expr::Wildcard { qualifier: None, options: Box::default() };
    count(all)
}

/// The scalar or aggregate function of a name, called. Names are not case sensitive.
///
/// # Errors
/// [`PlanError`] suggests the name that was probably meant.
pub fn call(catalog: &Catalog, name: &str, arguments: Vec<Expr>) -> Result<Expr, PlanError> {
    let context = Context::new(catalog);
    match (context.get_function_meta(name), context.get_aggregate_meta(name)) {
        (Some(function), _) => Ok(function.call(arguments)),
        (None, Some(aggregate)) => Ok(aggregate.call(arguments)),
        (None, None) => Err(context.unknown_function(name, None)),
    }
}

/// Does one step, and says what is wrong with it: with the types of its expressions as well.
fn step(expressions: &[Expr], plan: impl FnOnce() -> Result<LogicalPlan> + Send) -> Result<LogicalPlan, PlanError> {
    let mut locations = SourceLocations::default();
    expressions.iter().for_each(|expression| note_functions(expression, &mut locations));
    // Which values a cast has does not matter before the whole query is planned.
    let checked = || plan().and_then(|plan| optimize::coerce(plan.clone(), None).map(|_| plan));
    let plan = on_deep_stack(&Catalog::default(), checked);
    plan.map_err(|error| diagnose(error, &locations))
}

fn locations_of_plan(plan: &LogicalPlan) -> SourceLocations {
    let mut locations = SourceLocations::of_calls();
    for_each_node(plan, |node| {
        node.expressions().iter().for_each(|expression| note_functions(expression, &mut locations));
    });
    locations
}

fn note_functions(expression: &Expr, locations: &mut SourceLocations) {
    for_each_part(expression, |part| match part {
        Expr::ScalarFunction(call) => locations.functions.push((call.name().to_string(), None)),
        Expr::AggregateFunction(call) => locations.functions.push((call.func.name().to_string(), None)),
        _ => {}
    });
}

/// Refuses a plan over tables that are not the catalogue's any more.
fn check_tables(plan: &LogicalPlan, catalog: &Catalog) -> Result<(), PlanError> {
    let mut changed = None;
    for_each_node(plan, |node| {
        let LogicalPlan::TableScan(scan) = node else { return };
        let source = scan.source.downcast_ref::<TableScanSource>().expect("tables come from the catalogue");
        let definition = &source.table.definition;
        let is_same =
            matches!(catalog.get(&definition.name), Some(Relation::Table(now)) if now.definition == *definition);
        if !is_same {
            changed.get_or_insert(definition.name.clone());
        }
    });
    match changed {
        None => Ok(()),
        Some(name) => {
            let message = format!("the table {name} is not the one that the query was built over");
            Err(PlanError::invalid(None, message).with_hint("build the query again after CREATE TABLE"))
        }
    }
}

fn for_each_node(plan: &LogicalPlan, mut visit: impl FnMut(&LogicalPlan)) {
    let visited = plan.apply(|node| {
        visit(node);
        Ok(TreeNodeRecursion::Continue)
    });
    visited.expect("the visit fails at no node");
}

fn for_each_part(expression: &Expr, mut visit: impl FnMut(&Expr)) {
    let visited = expression.apply(|part| {
        visit(part);
        Ok(TreeNodeRecursion::Continue)
    });
    visited.expect("the visit fails at no part");
}

/// Expressions without the names given to them.
fn bare(expressions: &[Expr]) -> Vec<Expr> {
    expressions.iter().map(|expression| expression.clone().unalias()).collect()
}

/// Names expressions as a SELECT does.
fn named(expressions: Vec<Expr>) -> Vec<Expr> {
    let mut aliases = Aliases::default();
    let name = |(position, expression): (usize, Expr)| {
        let column = match &expression {
            Expr::Alias(alias) if matches!(alias.expr.as_ref(), Expr::Column(column) if column.name == alias.name) => {
                return expression.unalias();
            }
            Expr::Alias(_) => return expression,
            Expr::Column(column) => Some(column.name.as_str()),
            _ => None,
        };
        match aliases.of(position, column) {
            Some(alias) => expression.alias(alias),
            None => expression,
        }
    };
    expressions.into_iter().enumerate().map(name).collect()
}

/// An expression over what `plan` gives, and not over what is below it.
fn of_columns(expression: Expr, plan: &LogicalPlan) -> Result<Expr> {
    normalize_col_with_schemas_and_ambiguity_check(expression, &[&[plan.schema().as_ref()]], &[])
}

/// A named expression over what `selected` gives, in terms of what its columns are computed from.
fn chosen(expression: Expr, selected: &LogicalPlan, columns: &[Expr]) -> Result<Expr> {
    let over = |expression: Expr| {
        let normalized = of_columns(expression, selected)?;
        match &normalized {
            Expr::Column(column) => Ok(columns[selected.schema().index_of_column(column)?].clone()),
            _ => substitute(normalized, selected.schema(), &bare(columns)),
        }
    };
    match expression {
        Expr::Alias(alias) => Ok(over(*alias.expr)?.unalias().alias(alias.name)),
        other => over(other),
    }
}

/// What an expression may have beside values of the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Allowed {
    Values,
    Aggregates,
    /// Functions of the rows before the row.
    OverRows,
}

/// Refuses what the expression of a query cannot hold.
fn check(expression: &Expr, allowed: Allowed) -> Result<(), PlanError> {
    let mut refused = None;
    let visited = expression.apply(|part| {
        let checked = check_part(part, allowed);
        Ok(match checked {
            Ok(()) if is_count_of_rows(part) => TreeNodeRecursion::Jump,
            Ok(()) => TreeNodeRecursion::Continue,
            Err(error) => {
                refused = Some(error);
                TreeNodeRecursion::Stop
            }
        })
    });
    visited.expect("the visit fails at no part");
    refused.map_or(Ok(()), Err)
}

#[expect(deprecated, reason = "COUNT(*) is planned with a wildcard as its argument")]
fn is_count_of_rows(expression: &Expr) -> bool {
    let (args, name) = match expression {
        Expr::AggregateFunction(call) => (&call.params.args, call.func.name()),
        Expr::WindowFunction(call) => (&call.params.args, call.fun.name()),
        _ => return false,
    };
    matches!(args.as_slice(), [Expr::Wildcard { qualifier: None, .. }]) && name == "count"
}

#[expect(deprecated, reason = "a wildcard is an expression still")]
fn check_part(part: &Expr, allowed: Allowed) -> Result<(), PlanError> {
    let refuse = |construct: &str, instead: &str| Err(PlanError::unsupported(None, construct, instead));
    match part {
        Expr::Exists(_)
        | Expr::InSubquery(_)
        | Expr::SetComparison(_)
        | Expr::ScalarSubquery(_)
        | Expr::OuterReferenceColumn(..) => refuse("a subquery in an expression", "join with a bounded table instead"),
        Expr::AggregateFunction(call) => {
            let name = call.func.name();
            let shown = name.to_uppercase();
            if !is_planned(name) && udaf_of(&call.func).is_none() {
                let instead = "find it by its SQL name with Session::call";
                return refuse(&format!("DataFusion's aggregate {shown}"), instead_of(name).unwrap_or(instead));
            }
            if allowed != Allowed::Aggregates {
                let message = format!("{part} is an aggregate");
                let hint = "compute it with aggregate, and name the column that it gives here";
                return Err(PlanError::invalid(None, message).with_hint(hint));
            }
            let parameters = &call.params;
            if !parameters.order_by.is_empty() || parameters.null_treatment.is_some() {
                return refuse(&format!("an order inside {shown}"), "values come in the order of their arrival");
            }
            Ok(())
        }
        Expr::WindowFunction(call) if allowed != Allowed::OverRows => {
            refuse(&format!("{} … OVER outside of select", call.fun.name().to_uppercase()), "compute it with select")
        }
        Expr::GroupingSet(_) => refuse("GROUPING SETS", "insert once for each set of keys"),
        Expr::Unnest(_) => refuse("UNNEST in an expression", "call flat_map(TableCall::unnest(column))"),
        Expr::Placeholder(_) | Expr::ScalarVariable(..) => {
            refuse("a parameter in an expression", "write its value with lit")
        }
        Expr::HigherOrderFunction(_) | Expr::Lambda(_) | Expr::LambdaVariable(_) => {
            refuse("a function of functions", "register a function of your own")
        }
        Expr::Wildcard { .. } => {
            let message = "'*' stands for columns, which an expression cannot";
            Err(PlanError::invalid(None, message).with_hint("name the columns, and count rows with count_all"))
        }
        _ => Ok(()),
    }
}
