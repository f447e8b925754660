//! Views and common table expressions are planned once, each by itself. In the plans that read them they are scans until those are complete: DataFusion's planner
//! walks all that lies below for each expression, and what is read twice would be planned twice.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DataFusionError, Result, plan_err};
use datafusion_expr::logical_plan::SubqueryAlias;
use datafusion_expr::{Expr as DataFusionExpr, LogicalPlan, LogicalPlanBuilder, TableSource};
use sqlparser::ast::{
    Cte, Expr, Ident, ObjectName, ObjectNamePart, Query, TableAlias, TableAliasColumnDef, TableFactor, VisitMut,
    VisitorMut,
};

use super::context::{Context, external};
use crate::error::{Place, PlanError};
use crate::parse::TABLE_ARGUMENT_PREFIX;

/// Nodes of a plan with everything that it reads in its place.
const NODES_MAX: u64 = 10_000;

/// Nodes above each other.
pub(super) const LEVELS_MAX: usize = 2_000;

/// A plan that stands behind a name.
pub(super) struct Reference {
    plan: LogicalPlan,
    schema: SchemaRef,
}

impl TableSource for Reference {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

impl Reference {
    pub fn to(plan: LogicalPlan) -> Arc<dyn TableSource> {
        Arc::new(Reference { schema: plan.schema().inner().clone(), plan })
    }

    /// The plan that a scan stands for, and what tells it from others.
    pub fn of(plan: &LogicalPlan) -> Option<(&LogicalPlan, *const ())> {
        let LogicalPlan::TableScan(scan) = plan else { return None };
        let reference = scan.source.downcast_ref::<Reference>()?;
        Some((&reference.plan, Arc::as_ptr(&scan.source).cast()))
    }
}

/// The plan with what it refers to in its place. A plan that is too large is refused at the place of its query: to look for a nearer one would plan its parts one by one.
pub(super) fn resolved(plan: LogicalPlan, place: Option<Place>) -> Result<LogicalPlan> {
    let extent = extent(&plan, &mut HashMap::new());
    let refused = |what: String| {
        let construct = format!("a query that {what} once views and common table expressions stand in it");
        Err(external(PlanError::unsupported(place, construct, "INSERT parts of it into tables, and read these")))
    };
    if extent.nodes > NODES_MAX {
        return refused(format!("reads more than {NODES_MAX} tables and parts of queries"));
    }
    if extent.levels > LEVELS_MAX {
        return refused(format!("is more than {LEVELS_MAX} levels deep"));
    }
    resolve(plan, &mut HashMap::new())
}

fn resolve(plan: LogicalPlan, known: &mut HashMap<*const (), Arc<LogicalPlan>>) -> Result<LogicalPlan> {
    let resolved = plan.transform_up(|node| {
        let Some((referred, id)) = Reference::of(&node) else { return Ok(Transformed::no(node)) };
        let input = match known.get(&id) {
            Some(input) => input.clone(),
            None => {
                let input = Arc::new(resolve(referred.clone(), known)?);
                known.insert(id, input.clone());
                input
            }
        };
        let LogicalPlan::TableScan(scan) = node else { unreachable!("a reference is a scan") };
        Ok(Transformed::yes(LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(input, scan.table_name)?)))
    });
    resolved.map(|resolved| resolved.data)
}

/// How large a plan is with everything that it reads in its place.
#[derive(Clone, Copy, Default)]
struct Extent {
    nodes: u64,
    levels: usize,
}

fn extent(plan: &LogicalPlan, known: &mut HashMap<*const (), Extent>) -> Extent {
    let inside = match Reference::of(plan) {
        Some((referred, id)) => match known.get(&id) {
            Some(extent) => *extent,
            None => {
                let found = extent(referred, known);
                known.insert(id, found);
                found
            }
        },
        None => plan.inputs().into_iter().fold(Extent::default(), |all, input| {
            let input = extent(input, known);
            Extent { nodes: all.nodes.saturating_add(input.nodes), levels: all.levels.max(input.levels) }
        }),
    };
    Extent { nodes: inside.nodes.saturating_add(1), levels: inside.levels.saturating_add(1) }
}

/// Begins names of common table expressions that no text can have. Behind it stand their number, once more this letter, and their name as written.
const PLANNED: char = '\u{1}';

/// The number in a name that [`plan_with`] gave.
pub(super) fn number(name: &str) -> Option<usize> {
    name.strip_prefix(PLANNED)?.split_once(PLANNED)?.0.parse().ok()
}

/// A name that [`plan_with`] gave as it was written.
fn written(name: &str) -> Option<&str> {
    name.strip_prefix(PLANNED)?.split_once(PLANNED).map(|(_, written)| written)
}

/// Plans the common table expressions of a query, in which references to them take the place of every WITH. Inner ones hide outer ones of the same name.
pub(super) fn plan_with(query: &mut Query, context: &Context<'_>) -> Result<()> {
    match query.visit(&mut Tables { context, visible: Vec::new(), outside: Vec::new() }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Tables<'t, 'c> {
    context: &'t Context<'c>,
    /// Names that are visible, the innermost last: as they are written, and as they are planned.
    visible: Vec<(String, String)>,
    /// How many are visible outside of each query that is walked.
    outside: Vec<usize>,
}

impl Tables<'_, '_> {
    fn planned(&self, name: &str) -> Option<&String> {
        self.visible.iter().rfind(|(written, _)| written == name).map(|(_, planned)| planned)
    }

    fn define(&mut self, table: Cte) -> ControlFlow<DataFusionError> {
        let Cte { alias, mut query, .. } = table;
        // Its own name is not visible in it, those before it are.
        query.visit(self)?;
        let written = alias.name.value.clone();
        let planned = self.context.plan_text(*query).and_then(|plan| with_columns(plan, &alias.columns));
        match planned.and_then(with_distinct_names) {
            Ok(plan) => {
                let number = self.context.add_reference(Reference::to(plan));
                self.visible.push((written.clone(), format!("{PLANNED}{number}{PLANNED}{written}")));
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }

    /// `TABLE name` as the argument of a window function.
    fn refer_in_argument(&self, table: &mut Expr) {
        match table {
            Expr::Tuple(parts) => parts.first_mut().into_iter().for_each(|table| self.refer_in_argument(table)),
            Expr::Identifier(name) => {
                if let Some(planned) = self.planned(&name.value) {
                    name.value = planned.clone();
                }
            }
            _ => {}
        }
    }
}

impl VisitorMut for Tables<'_, '_> {
    type Break = DataFusionError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        self.outside.push(self.visible.len());
        for table in query.with.take().into_iter().flat_map(|with| with.cte_tables) {
            self.define(table)?;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Self::Break> {
        let outside = self.outside.pop().unwrap_or_default();
        self.visible.truncate(outside);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<Self::Break> {
        if let TableFactor::Table { name, alias, args: None, .. } = table
            && let [ObjectNamePart::Identifier(name)] = name.0.as_mut_slice()
            && let Some(planned) = self.planned(&name.value)
        {
            let written = name.clone();
            name.value = planned.clone();
            alias.get_or_insert(TableAlias { explicit: true, name: written, columns: Vec::new(), at: None });
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<Self::Break> {
        if let Expr::Prefixed { prefix, value } = expression
            && prefix.value == TABLE_ARGUMENT_PREFIX
        {
            self.refer_in_argument(value);
        }
        ControlFlow::Continue(())
    }
}

/// The plan with these names of its columns, if any.
fn with_columns(plan: LogicalPlan, names: &[TableAliasColumnDef]) -> Result<LogicalPlan> {
    let columns = plan.schema().columns();
    if names.is_empty() {
        return Ok(plan);
    }
    if names.len() != columns.len() {
        let (there, given) = (columns.len(), names.len());
        return plan_err!("Source table contains {there} columns but only {given} names given as column alias");
    }
    let columns = columns.into_iter().zip(names);
    let columns = columns.map(|(column, name)| DataFusionExpr::Column(column).alias(name.name.value.as_str()));
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

/// The plan with names that differ, as DataFusion makes them where it gives a query a name.
fn with_distinct_names(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut names = HashSet::new();
    if plan.schema().fields().iter().all(|field| names.insert(field.name())) {
        return Ok(plan);
    }
    LogicalPlanBuilder::from(plan).alias("named")?.build()
}

/// A table of a query, by the name that it was written by: `TABLE name` in the argument of a window function.
pub(super) fn alias_of(name: &ObjectName) -> Option<TableAlias> {
    let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return None };
    let name = Ident { value: written(&name.value)?.to_string(), ..name.clone() };
    Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None })
}
