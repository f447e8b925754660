//! Queries to pipelines: the entry points of planning.
//!
//! A query's syntax tree is bound to the catalogue and becomes DataFusion's logical plan (`bind`), whose types and values are made those of Flink (`coerce`). The plan is lowered to
//! branches, streams with steps and expressions, and operators between them; columns that nobody uses are left out, and names become indices (`lower`). Windows share slices (`share`).
//! Errors of DataFusion are put into our words, and parts of the text are planned by themselves to find the place (`errors`).

pub mod builder;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion_common::TableReference;
use datafusion_expr::logical_plan::SubqueryAlias;
use datafusion_expr::planner::ContextProvider;
use datafusion_expr::{LogicalPlan, LogicalPlanBuilder};
use pelton_data::TimeColumn;
use pelton_data::column::sql_name;

use crate::bind::context::{self, Context};
use crate::bind::names::with_names;
use crate::bind::syntax_parts::{select_item, union_parts};
pub use crate::bind::udaf::{accepts, aggregate_udf};
use crate::bind::{chance, foreign_types, references, survey};
use crate::catalog::{Catalog, LATE_ROWS, Relation, Table};
pub use crate::coerce::strictness::STRICT_VALUES;
use crate::coerce::strictness::with_casts_of;
use crate::coerce::{held_types, optimize, zone};
use crate::errors::PlanError;
use crate::errors::source_locations::SourceLocations;
use crate::errors::{diagnose, external, locate};
use crate::explain::{Notes, flink};
pub use crate::length::Length;
use crate::lower::sink::Destination;
use crate::lower::unbound::UnboundProgram;
use crate::lower::{Lowering, finish};
use crate::parse::{ColumnKind, Insert, Named, Statement, ViewDefinition};
use crate::pipeline::{OutputTarget, Program};
pub use crate::session_settings::{ALLOW_LATENESS, EARLY_FIRE, LOCAL_TIME_ZONE, WINDOWS};
use crate::stack::with_stack;

/// A program, and the plans it was made of.
#[derive(Debug, Clone)]
pub struct Planned {
    /// What runs.
    pub program: Program,
    /// For each statement where its rows go, and its logical plan with types made to agree.
    pub logical: Vec<(OutputTarget, LogicalPlan)>,
    /// What of the text Flink would not understand: functions, operators, types, and the options of the tables.
    pub foreign: Notes,
    /// Where the constructs of the text stand.
    pub(crate) locations: SourceLocations,
}

/// Plans a query, or one or several inserts that run as one program.
///
/// # Errors
/// [`PlanError`] names the construct, its place and what to write instead.
pub fn plan(catalog: &Catalog, statements: &[&Statement]) -> Result<Program, PlanError> {
    plan_statements(catalog, statements).map(|planned| planned.program)
}

/// As [`plan`], and keeps the logical plans for EXPLAIN.
///
/// # Errors
/// As [`plan`].
pub fn plan_statements(catalog: &Catalog, statements: &[&Statement]) -> Result<Planned, PlanError> {
    on_deep_stack(catalog, || plan_here(catalog, statements))
}

/// Stack of the thread that plans. Each view inside of others takes up to 120 KiB of it without optimisation, and each level of its own nesting less.
const STACK_BYTES: usize = context::VIEW_DEPTH_MAX << 20;

/// Does what plans views, which may be as deep inside of others as they are planned, with the casts of the session.
fn on_deep_stack<T: Send>(catalog: &Catalog, work: impl FnOnce() -> T + Send) -> T {
    with_stack("plan", STACK_BYTES, || with_casts_of(catalog, work))
}

fn plan_here(catalog: &Catalog, statements: &[&Statement]) -> Result<Planned, PlanError> {
    let mut unbound = UnboundProgram::of_session(catalog);
    let mut locations = SourceLocations::default();
    let mut logical = Vec::new();
    let mut foreign = Notes::default();
    let mut inserts = Vec::new();
    for statement in statements {
        match statement {
            Statement::Query(query) => {
                let plan = lower_query(catalog, query, None, &mut unbound, &mut locations, &mut foreign)?;
                logical.push((OutputTarget::Result, plan));
            }
            Statement::Insert(insert) => inserts.push(insert),
            Statement::StatementSet(set) => inserts.extend(set),
            _ => {
                let error = PlanError::invalid(None, "only queries and inserts can be planned");
                return Err(error.with_hint("write SELECT, INSERT INTO or EXECUTE STATEMENT SET"));
            }
        }
    }
    for insert in inserts {
        let plan = lower_query(catalog, &insert.query, Some(insert), &mut unbound, &mut locations, &mut foreign)?;
        logical.push((OutputTarget::Table(insert.target.name.clone()), plan));
    }
    let program = finish::finish(unbound).map_err(|error| diagnose::diagnose(error, &locations))?;
    note_options(catalog, &program, &mut foreign);
    Ok(Planned { program, logical, foreign, locations })
}

fn lower_query(
    catalog: &Catalog,
    query: &sqlparser::ast::Query,
    insert: Option<&Insert>,
    unbound: &mut UnboundProgram,
    all_locations: &mut SourceLocations,
    foreign: &mut Notes,
) -> Result<LogicalPlan, PlanError> {
    let context = Context::new(catalog);
    let locations = survey::survey(query, &context)?;
    let destination = match insert {
        Some(insert) => {
            let named = Destination::named(catalog, &insert.target)?;
            Some(Destination { columns: &insert.columns, query: Some(query), ..named })
        }
        None => None,
    };
    let resolved = |plan| references::resolved(plan, locations.query);
    let plan = context.plan_query(query).and_then(resolved).and_then(|plan| {
        let unheld = if insert.is_none() { check_columns(&plan, query).err() } else { None };
        foreign_types::note(&plan, &mut context.foreign.borrow_mut());
        lower_plan(plan, destination.as_ref(), unbound, &locations).map_err(|error| match unheld {
            Some(placed) if error.message().contains(&placed.message) => external(placed),
            _ => error,
        })
    });
    let plan = plan.map_err(|error| {
        let error = locate::in_query(error, query, &context, &locations);
        of_view(&error, &context, catalog, &locations).unwrap_or(error)
    })?;
    if let Some(destination) = &destination {
        let place = |column| union_parts(&query.body).first().and_then(|part| select_item(part, column).0);
        let given = destination.given(plan.schema().fields().len());
        foreign_types::note_insert(&plan, &given, place, &mut context.foreign.borrow_mut());
    }
    all_locations.add(locations);
    foreign.append(context.foreign.take().notes);
    Ok(plan)
}

/// The error of the innermost view that cannot be lowered by itself for the same reason: its place is in the text of the view. Messages name constructs
/// by the locations of the text, so those of the query tell whether the reason is the same.
fn of_view(
    error: &PlanError,
    context: &Context<'_>,
    catalog: &Catalog,
    of_query: &SourceLocations,
) -> Option<PlanError> {
    context.views_read().into_iter().find_map(|(view, plan)| {
        // LIMIT at the top of a part is not that of the whole query.
        let part = SubqueryAlias::try_new(Arc::new(references::resolved(plan, None).ok()?), view.name.as_str());
        let plan = LogicalPlan::SubqueryAlias(part.ok()?);
        let failed = |locations: &SourceLocations| {
            lower_plan(plan.clone(), None, &mut UnboundProgram::of_session(catalog), locations).err()
        };
        if diagnose::diagnose(failed(of_query)?, of_query).message != error.message {
            return None;
        }
        let locations = survey::survey_view(&view.query, context).ok()?;
        let own = locate::in_query(failed(&locations)?, &view.query, context, &locations);
        Some(PlanError { message: format!("view {}: {}", view.name, own.message), ..own })
    })
}

/// Finds a column that no row can hold while it is known where it was written.
fn check_columns(plan: &LogicalPlan, query: &sqlparser::ast::Query) -> Result<(), PlanError> {
    for (index, field) in plan.schema().fields().iter().enumerate() {
        let data_type = field.data_type();
        if held_types::carried_type(data_type).is_none() {
            let place = union_parts(&query.body).first().and_then(|part| select_item(part, index).0);
            return Err(PlanError { place, ..diagnose::unheld_column(field.name(), data_type) });
        }
    }
    Ok(())
}

/// Checks a view's query by itself: whoever reads the view plans it as a part of another. Returns the names of what it reads.
///
/// # Errors
/// [`PlanError`] names what is wrong, its place and what to write instead.
pub fn check_view(catalog: &Catalog, view: &ViewDefinition) -> Result<Vec<String>, PlanError> {
    on_deep_stack(catalog, || {
        let context = Context::new(catalog);
        let locations = survey::survey_view(&view.query, &context)?;
        let planned = context.view_plan(view).and_then(|plan| references::resolved(plan, None));
        let planned = planned.and_then(|plan| optimize::coerce(plan, locations.subquery));
        planned.map_err(|error| locate::in_query(error, &view.query, &context, &locations))?;
        Ok(context.reads())
    })
}

/// The columns of a table or view as a query that reads them has them.
///
/// # Errors
/// [`PlanError`] where the view, or a computed column, can no longer be planned.
pub(crate) fn columns_of(catalog: &Catalog, named: &Named) -> Result<SchemaRef, PlanError> {
    on_deep_stack(catalog, || {
        let name = TableReference::bare(named.name.as_str());
        let source = Context::new(catalog).get_table_source(name.clone());
        let plan = source.and_then(|source| LogicalPlanBuilder::scan(name, source, None)?.build());
        match plan
            .and_then(|plan| references::resolved(plan, named.place))
            .and_then(|plan| optimize::coerce(plan, None))
        {
            Ok(plan) => Ok(plan.schema().inner().clone()),
            Err(error) => {
                Err(PlanError { place: named.place, ..diagnose::diagnose(error, &SourceLocations::default()) })
            }
        }
    })
}

/// The columns of a query's result.
///
/// # Errors
/// [`PlanError`] names what is wrong with the query, its place and what to write instead.
pub(crate) fn columns_of_query(catalog: &Catalog, query: &sqlparser::ast::Query) -> Result<SchemaRef, PlanError> {
    on_deep_stack(catalog, || {
        let context = Context::new(catalog);
        let locations = survey::survey(query, &context)?;
        let resolved = |plan| references::resolved(plan, locations.query);
        let planned = context.plan_query(query).and_then(resolved).and_then(with_names);
        let planned = planned.and_then(|plan| optimize::coerce(plan, locations.subquery));
        let plan = planned.map_err(|error| locate::in_query(error, query, &context, &locations))?;
        Ok(plan.schema().inner().clone())
    })
}

/// Checks the computed columns of a table by themselves, among them the event time: what is declared has been checked as it was read.
///
/// # Errors
/// [`PlanError`] where one cannot be planned, or the event time is no timestamp.
pub fn check_computed_columns(catalog: &Catalog, table: &Table) -> Result<(), PlanError> {
    let definition = &table.definition;
    for column in &definition.columns {
        let ColumnKind::Computed { expression, .. } = &column.kind else { continue };
        let data_type = Context::new(catalog).computed_type(table, expression);
        let data_type = data_type.map_err(|error| diagnose::diagnose(error, &SourceLocations::default()))?;
        let watermark = definition.watermark.as_ref().filter(|watermark| watermark.column == column.name);
        let Some(watermark) = watermark.filter(|_| TimeColumn::new(0, &data_type).is_none()) else { continue };
        let message = format!("the event-time column {} is {}", watermark.column, sql_name(&data_type));
        let hint = "it must be TIMESTAMP or TIMESTAMP_LTZ: compute it with TO_TIMESTAMP or TO_TIMESTAMP_LTZ";
        return Err(PlanError::invalid(watermark.place, message).with_hint(hint));
    }
    Ok(())
}

/// Notes what Flink would not understand of the tables that a program reads and writes.
fn note_options(catalog: &Catalog, program: &Program, foreign: &mut Notes) {
    let written = program.outputs.iter().filter_map(|output| match &output.target {
        OutputTarget::Table(table) => Some(table.as_str()),
        OutputTarget::Result => None,
    });
    for name in written.chain(program.sources.iter().map(|source| source.table.as_str())) {
        // A program's reading the rows that came too late has a note of its own.
        if let Some(Relation::Table(table)) = catalog.get(name).filter(|_| name != LATE_ROWS) {
            flink::option_notes(&table.definition, foreign);
        }
    }
    for lookup in &program.lookups {
        note_options(catalog, &lookup.program, foreign);
    }
}

/// Lowers a plan as DataFusion made it to pipelines that end in a table, or in the program's result. Returns the plan
/// with types made to agree.
fn lower_plan(
    plan: LogicalPlan,
    destination: Option<&Destination<'_>>,
    unbound: &mut UnboundProgram,
    locations: &SourceLocations,
) -> datafusion_common::Result<LogicalPlan> {
    let mut lowering = Lowering { unbound: std::mem::take(unbound), locations };
    let result = (|| {
        let zoned = zone::plan_in_zone(optimize::coerce(plan, locations.subquery)?, lowering.unbound.zone)?;
        let prepared = optimize::prepare(zoned)?;
        chance::check_chance(&prepared, locations)?;
        let arranged = lowering.arranged(&prepared)?;
        match destination {
            Some(destination) => lowering.insert(arranged, &prepared, destination)?,
            None => lowering.emit(arranged, &prepared)?,
        }
        lowering.check_rankings()?;
        Ok(prepared)
    })();
    *unbound = lowering.unbound;
    result
}
