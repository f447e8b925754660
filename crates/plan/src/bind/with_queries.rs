//! Common table expressions are planned once, each by itself.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion_common::{DataFusionError, Result, plan_err};
use datafusion_expr::{Expr as DataFusionExpr, LogicalPlan, LogicalPlanBuilder};
use sqlparser::ast::{
    Cte, Expr, ObjectNamePart, Query, TableAlias, TableAliasColumnDef, TableFactor, VisitMut, VisitorMut,
};

use super::context::Context;
use super::references::{Extents, PLANNED, Reference};
use crate::errors::Place;
use crate::parse::TABLE_ARGUMENT_PREFIX;

/// Plans the common table expressions of a query, in which references to them take the place of every WITH. Inner ones hide outer ones of the same name.
pub(crate) fn plan_with(query: &mut Query, context: &Context<'_>) -> Result<()> {
    let extents = Extents::default();
    match query.visit(&mut Tables { context, visible: Vec::new(), outside: Vec::new(), extents }) {
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
    /// How large those are that have been planned.
    extents: Extents,
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
        // A chain that is too long is not planned to its end.
        let checked = planned.and_then(with_distinct_names).and_then(|plan| {
            self.extents.check(&plan, Place::of(alias.name.span))?;
            Ok(plan)
        });
        match checked {
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
