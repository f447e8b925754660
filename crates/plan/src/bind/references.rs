//! Views and common table expressions are planned once, each by itself. In the plans that read them they are scans until those are complete: DataFusion's planner
//! walks all that lies below for each expression, and what is read twice would be planned twice.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion_common::Result;
use datafusion_common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion_expr::logical_plan::SubqueryAlias;
use datafusion_expr::{LogicalPlan, TableSource};
use sqlparser::ast::{Ident, ObjectName, ObjectNamePart, TableAlias};

use crate::errors::{Place, PlanError, external};

/// Nodes of a plan with everything that it reads in its place.
const NODES_MAX: u64 = 10_000;

/// Nodes above each other.
pub(crate) const LEVELS_MAX: usize = 2_000;

/// A plan that stands behind a name.
pub(crate) struct Reference {
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
pub(crate) fn resolved(plan: LogicalPlan, place: Option<Place>) -> Result<LogicalPlan> {
    Extents::default().check(&plan, place)?;
    resolve(plan, &mut HashMap::new())
}

fn resolve(plan: LogicalPlan, known: &mut HashMap<*const (), Arc<LogicalPlan>>) -> Result<LogicalPlan> {
    let resolved = plan.transform_up_with_subqueries(|node| {
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

/// How large the plans are that stand behind names.
#[derive(Default)]
pub(crate) struct Extents(HashMap<*const (), Extent>);

impl Extents {
    /// Refuses a plan that is too large with everything that it reads in its place.
    pub fn check(&mut self, plan: &LogicalPlan, place: Option<Place>) -> Result<()> {
        let what = match extent(plan, &mut self.0) {
            Extent { nodes, .. } if nodes > NODES_MAX => {
                format!("reads more than {NODES_MAX} tables and parts of queries")
            }
            Extent { levels, .. } if levels > LEVELS_MAX => format!("is more than {LEVELS_MAX} levels deep"),
            _ => return Ok(()),
        };
        let construct = format!("a query that {what} once views and common table expressions stand in it");
        Err(external(PlanError::unsupported(place, construct, "INSERT parts of it into tables, and read these")))
    }
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
        None => {
            let mut all = Extent::default();
            let mut add = |input: &LogicalPlan| {
                let input = extent(input, known);
                all = Extent { nodes: all.nodes.saturating_add(input.nodes), levels: all.levels.max(input.levels) };
            };
            plan.inputs().into_iter().for_each(&mut add);
            let visited = plan.apply_subqueries(|subquery| {
                add(subquery);
                Ok(TreeNodeRecursion::Jump)
            });
            visited.expect("the visit fails at no subquery");
            all
        }
    };
    Extent { nodes: inside.nodes.saturating_add(1), levels: inside.levels.saturating_add(1) }
}

/// Begins names of common table expressions that no text can have. Behind it stand their number, once more this letter, and their name as written.
pub(crate) const PLANNED: char = '\u{1}';

/// The number in a name that `with_queries::plan_with` gave.
pub(crate) fn number(name: &str) -> Option<usize> {
    name.strip_prefix(PLANNED)?.split_once(PLANNED)?.0.parse().ok()
}

/// A name that `with_queries::plan_with` gave as it was written.
fn written(name: &str) -> Option<&str> {
    name.strip_prefix(PLANNED)?.split_once(PLANNED).map(|(_, written)| written)
}

/// A table of a query, by the name that it was written by: `TABLE name` in the argument of a window function.
pub(crate) fn alias_of(name: &ObjectName) -> Option<TableAlias> {
    let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return None };
    let name = Ident { value: written(&name.value)?.to_string(), ..name.clone() };
    Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None })
}
