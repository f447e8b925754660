//! Joins of a stream with a bounded table, which becomes a lookup.

use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion_common::{DFSchema, DFSchemaRef, DataFusionError, NullEquality, Result};
use datafusion_expr::logical_plan::Join;
use datafusion_expr::utils::split_conjunction_owned;
use datafusion_expr::{Expr, ExprSchemable, JoinType, LogicalPlan};
use pelton_data::column::{is_nested, sql_name};

use crate::bind::names::Names;
use crate::coerce::held_types::held_or_same;
use crate::coerce::simplify::simplify;
use crate::errors::{PlanError, external};
use crate::lower::Lowering;
use crate::lower::aggregate::as_planned;
use crate::lower::scope::{cast_to, column, lookup_qualifier};
use crate::lower::unbound::{Branch, Cut, Loaded, Relation, UnboundLookup, UnboundProgram, UnboundStep};
use crate::lower::window_bounds::materialize;
use crate::pipeline::Window;

/// A join as seen from its stream.
struct Sides<'a> {
    stream: Relation,
    stream_schema: &'a DFSchemaRef,
    table: &'a LogicalPlan,
    /// Pairs of equal expressions: the stream's, the table's.
    on: Vec<(Expr, Expr)>,
    keep_unmatched: bool,
    /// Whether the stream is the right side.
    is_swapped: bool,
}

impl Lowering<'_> {
    /// A key of the stream, in terms of the branch's scope.
    fn join_key(&self, key: &Expr, branch: &Branch, schema: &DFSchema) -> Result<Expr> {
        let key = simplify(materialize(branch.substitute(key, schema)?, branch)?, &branch.scope)?;
        let data_type = key.get_type(branch.scope.as_ref())?;
        if is_nested(&data_type) {
            let construct = format!("a join by values of type {}", sql_name(&data_type));
            let hint = "compare parts of them, as in a.row.field = b.row.field";
            return Err(external(PlanError::unsupported(self.locations.join, construct, hint)));
        }
        Ok(key)
    }

    /// The rows of a join, with the left side's columns before the right side's.
    pub(crate) fn join(&mut self, join: &Join) -> Result<Relation> {
        if let Some(relation) = self.stream_join(join)? {
            return Ok(relation);
        }
        let mut sides = self.sides(join)?;
        let (of_table, residual) = self.conditions(join, &sides)?;
        let table = self.lookup(&sides, of_table)?;
        let qualifier = lookup_qualifier(table);
        let fields = self.unbound.lookups[table].fields.clone();
        for branch in &mut sides.stream.branches {
            let keys = sides.on.iter().map(|(key, _)| self.join_key(key, branch, sides.stream_schema));
            let keys = keys.collect::<Result<_>>()?;
            let is_refused = |cut: &&Cut| match cut.window {
                Window::Session { .. } => !sides.keep_unmatched,
                // Rows with several matches would be counted more than once.
                _ => cut.by_key().is_some(),
            };
            if let Some(cut) = branch.cut.as_ref().filter(is_refused) {
                let (construct, hint) = match cut.window {
                    Window::Session { .. } => (
                        "an inner join of rows that are cut into sessions",
                        "use LEFT JOIN, or join them in a view and read that",
                    ),
                    _ => (
                        "a join of rows that are cut into windows that count the rows of each key",
                        "join them in a view and read that",
                    ),
                };
                return Err(external(PlanError::unsupported(cut.place, construct, hint)));
            }
            branch.steps.push(UnboundStep::Lookup { table, keys, keep_unmatched: sides.keep_unmatched });
            branch.extend_scope(&qualifier, fields.iter().map(|field| joined(field, sides.keep_unmatched)))?;
            let width = sides.table.schema().fields().len();
            let looked_up = fields[..width]
                .iter()
                .zip(sides.table.schema().fields())
                .map(|(field, planned)| as_planned(column(&qualifier, field.name()), field.data_type(), planned));
            if sides.is_swapped {
                branch.columns.splice(0..0, looked_up);
            } else {
                branch.columns.extend(looked_up);
            }
        }
        let mut relation = sides.stream;
        for condition in residual {
            for branch in &mut relation.branches {
                let predicate = branch.substitute(&condition, &join.schema)?;
                self.filter(branch, predicate)?;
            }
        }
        Ok(relation)
    }

    /// The conditions of a join besides its equalities: those over the table's columns alone, which the table is filtered
    /// by before it is loaded, and the rest.
    fn conditions(&self, join: &Join, sides: &Sides<'_>) -> Result<(Vec<Expr>, Vec<Expr>)> {
        let conjuncts = join.filter.clone().map_or_else(Vec::new, split_conjunction_owned);
        let table = sides.table.schema();
        let is_tables = |condition: &Expr| condition.column_refs().iter().all(|column| table.has_column(column));
        let (of_table, residual): (Vec<Expr>, Vec<Expr>) = conjuncts.into_iter().partition(is_tables);
        if join.on.is_empty() {
            let hint = "join ON left.key = right.key; other conditions can follow with AND";
            return Err(self.refused("a join without an equality between its sides", hint));
        }
        if sides.keep_unmatched && !residual.is_empty() {
            let hint = "in ON, compare a column of each side with =, or test the bounded table's columns alone; \
                        test other things in WHERE";
            return Err(self.refused("this condition of an outer join", hint));
        }
        if join.null_equality == NullEquality::NullEqualsNull {
            return Err(self.refused("IS NOT DISTINCT FROM between these columns", "compare them with ="));
        }
        Ok((of_table, residual))
    }

    fn refused(&self, construct: &str, hint: &str) -> DataFusionError {
        external(PlanError::unsupported(self.locations.join, construct, hint))
    }

    /// Tells the stream from the table.
    fn sides<'j>(&mut self, join: &'j Join) -> Result<Sides<'j>> {
        if !matches!(join.join_type, JoinType::Inner | JoinType::Left | JoinType::Right) {
            let construct = format!("{} JOIN", join.join_type.to_string().to_uppercase());
            return Err(self.refused(&construct, "use JOIN or LEFT JOIN"));
        }
        let (left, right) = (self.is_plan_bounded(&join.left)?, self.is_plan_bounded(&join.right)?);
        let is_swapped = match join.join_type {
            JoinType::Right => true,
            JoinType::Left => false,
            _ => left && !right,
        };
        let (table_bounded, stream_plan, table) = match is_swapped {
            true => (left, &join.right, &join.left),
            false => (right, &join.left, &join.right),
        };
        if !table_bounded {
            let construct = if left || right {
                "an outer join that keeps the rows of a bounded table"
            } else {
                "a join of two unbounded tables"
            };
            let hint = "join a stream with a bounded table, which is loaded when the query starts; \
                        an outer join keeps the stream's rows";
            return Err(self.refused(construct, hint));
        }
        let on = join.on.iter().cloned().map(|(left, right)| if is_swapped { (right, left) } else { (left, right) });
        Ok(Sides {
            stream: self.relation(stream_plan)?,
            stream_schema: stream_plan.schema(),
            table,
            on: on.collect(),
            keep_unmatched: join.join_type != JoinType::Inner,
            is_swapped,
        })
    }

    /// Whether a plan's rows end: that decides before either side is lowered which one becomes a program of its own.
    fn is_plan_bounded(&self, plan: &LogicalPlan) -> Result<bool> {
        use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
        let mut is_bounded = true;
        plan.apply(|node| {
            if let LogicalPlan::TableScan(scan) = node {
                let source = scan.source.downcast_ref::<crate::bind::table_scan::TableScanSource>();
                is_bounded &= source.is_some_and(|source| source.table.bounded);
            }
            Ok(if is_bounded { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
        })?;
        Ok(is_bounded)
    }

    /// The table that is looked up in: one that is loaded already for another join, where it can be that.
    fn lookup(&mut self, sides: &Sides<'_>, conditions: Vec<Expr>) -> Result<usize> {
        let keys = sides.on.iter().map(|(_, key)| key.clone()).collect();
        let loaded = Loaded { table: sides.table.clone(), conditions, keys };
        // Rows that have found matches in it have its columns under its name.
        let is_used = |number: usize| {
            let mut steps = sides.stream.branches.iter().flat_map(|branch| &branch.steps);
            steps.any(|step| matches!(step, UnboundStep::Lookup { table, .. } if *table == number))
        };
        let mut known = self.unbound.lookups.iter().enumerate();
        if let Some((number, _)) = known.find(|(number, lookup)| lookup.loaded == loaded && !is_used(*number)) {
            return Ok(number);
        }
        let lookup = self.load(sides, loaded)?;
        self.unbound.lookups.push(lookup);
        Ok(self.unbound.lookups.len() - 1)
    }

    fn load(&mut self, sides: &Sides<'_>, loaded: Loaded) -> Result<UnboundLookup> {
        let mut lowering = Lowering {
            unbound: UnboundProgram { zone: self.unbound.zone, ..UnboundProgram::default() },
            locations: self.locations,
        };
        let mut relation = lowering.relation(sides.table)?;
        let schema: &DFSchema = sides.table.schema();
        for condition in &loaded.conditions {
            for branch in &mut relation.branches {
                let predicate = branch.substitute(condition, schema)?;
                lowering.filter(branch, predicate)?;
            }
        }
        let mut names = Names::default();
        let mut fields: Vec<FieldRef> = Vec::new();
        for field in schema.fields() {
            fields.push(held(field, names.unique(field.name())));
        }
        let mut keys = Vec::new();
        for key in &loaded.keys {
            let key = key.clone().unalias_nested().data;
            if let Expr::Column(column) = &key {
                keys.push(schema.index_of_column(column)?);
                continue;
            }
            for branch in &mut relation.branches {
                let computed = branch.substitute(&key, schema)?;
                branch.columns.push(computed);
            }
            let (_, field) = key.to_field(schema)?;
            keys.push(fields.len());
            fields.push(held(&field, names.unique("key")));
        }
        // Conditions that are pushed down to the table name its columns as they are held.
        for branch in &mut relation.branches {
            for (column, field) in branch.columns.iter_mut().zip(&fields) {
                *column = cast_to(std::mem::take(column), field.data_type(), &branch.scope)?;
            }
        }
        Ok(UnboundLookup { loaded, unbound: lowering.unbound, relation, fields, keys })
    }
}

/// A field of what the table is loaded as.
fn held(field: &FieldRef, name: String) -> FieldRef {
    Arc::new(field.as_ref().clone().with_name(name).with_data_type(held_or_same(field.data_type())))
}

fn joined(field: &FieldRef, keep_unmatched: bool) -> FieldRef {
    if keep_unmatched { Arc::new(field.as_ref().clone().with_nullable(true)) } else { field.clone() }
}
