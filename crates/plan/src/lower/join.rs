//! Joins of a stream with a bounded table, which becomes a lookup.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::{DFSchema, DFSchemaRef, DataFusionError, NullEquality, Result};
use datafusion_expr::logical_plan::Join;
use datafusion_expr::utils::{conjunction, split_conjunction_owned};
use datafusion_expr::{Expr, ExprSchemable, JoinType, LogicalPlan, lit, when};
use pelton_data::column::{is_nested, sql_name};
use pelton_data::join::{JoinKind, Side};

use crate::bind::names::Names;
use crate::bind::table_scan::is_bounded;
use crate::coerce::held_types::held_or_same;
use crate::coerce::simplify::simplify;
use crate::errors::{PlanError, external};
use crate::lower::Lowering;
use crate::lower::aggregate::as_planned;
use crate::lower::scope::{ROW, cast_to, column, lookup_qualifier};
use crate::lower::unbound::{Branch, Cut, Loaded, Relation, UnboundLookup, UnboundProgram, UnboundStep};
use crate::lower::unmatched::JoinedTable;
use crate::lower::window_bounds::materialize;
use crate::pipeline::Window;

/// A join as seen from its stream.
struct Sides<'a> {
    stream: Relation,
    stream_schema: &'a DFSchemaRef,
    table: &'a LogicalPlan,
    /// Pairs of equal expressions: the stream's, the table's.
    on: Vec<(Expr, Expr)>,
    /// With the stream as the left side.
    kind: JoinKind,
    /// Whether the stream is the right side.
    is_swapped: bool,
}

/// The conditions of a join besides its equalities.
#[derive(Default)]
struct Conditions {
    /// Those that the table is filtered by before it is loaded.
    of_table: Vec<Expr>,
    /// Those of the stream's rows without which they have no match, where rows without a match leave.
    of_stream: Vec<Expr>,
    /// Those that candidates meet to be matches.
    of_pairs: Vec<Expr>,
    /// Those that rows are filtered by behind the join.
    of_rows: Vec<Expr>,
}

impl Sides<'_> {
    /// Gives rows of the stream for which a condition is not true a NULL as key, which finds nothing. The condition is evaluated once for each row, not for each
    /// of its candidates.
    fn find_only_where(&mut self, condition: Expr) -> Result<()> {
        match self.on.first_mut() {
            Some((key, _)) => *key = when(condition, std::mem::take(key)).end()?,
            None => self.on.push((when(condition, lit(true)).end()?, lit(true))),
        }
        Ok(())
    }
}

impl Lowering<'_> {
    /// A key of the stream, in terms of the branch's scope.
    fn join_key(&self, key: &Expr, branch: &Branch, schema: &DFSchema) -> Result<Expr> {
        let key = simplify(materialize(branch.substitute(key, schema)?, branch)?, &branch.scope)?;
        self.check_key(&key.get_type(branch.scope.as_ref())?)?;
        Ok(key)
    }

    /// The rows of a join, with the left side's columns before the right side's.
    pub(crate) fn join(&mut self, join: &Join) -> Result<Relation> {
        if let Some(relation) = self.stream_join(join)? {
            return Ok(relation);
        }
        let mut sides = self.sides(join)?;
        let conditions = self.conditions(join, &sides)?;
        if let Some(condition) = conjunction(conditions.of_stream) {
            sides.find_only_where(condition)?;
        }
        let table = self.lookup(&sides, conditions.of_table)?;
        let schema = join.left.schema().join(join.right.schema())?;
        let mut stream = std::mem::replace(&mut sides.stream, Relation { branches: Vec::new() });
        for branch in &mut stream.branches {
            self.join_branch(branch, &sides, table, (&conditions.of_pairs, &schema))?;
        }
        if sides.kind.keeps_unmatched(Side::Right) {
            let before = if sides.is_swapped { 0 } else { sides.stream_schema.fields().len() };
            let width = sides.table.schema().fields().len();
            return self.with_unmatched(stream, &JoinedTable { table, kind: sides.kind, before, width }, &join.schema);
        }
        for condition in conditions.of_rows {
            for branch in &mut stream.branches {
                let predicate = branch.substitute(&condition, &schema)?;
                self.filter(branch, predicate)?;
            }
        }
        Ok(stream)
    }

    /// Adds the step to a branch that looks rows of a table up. The conditions of pairs are over the columns that `schema` describes.
    fn join_branch(
        &self,
        branch: &mut Branch,
        sides: &Sides<'_>,
        table: usize,
        (of_pairs, schema): (&[Expr], &DFSchema),
    ) -> Result<()> {
        self.check_cut(branch, sides.kind)?;
        let keys = sides.on.iter().map(|(key, _)| self.join_key(key, branch, sides.stream_schema));
        let keys = keys.collect::<Result<_>>()?;
        let (qualifier, fields) = (lookup_qualifier(table), &self.unbound.lookups[table].fields);
        let keeps_unmatched = sides.kind.keeps_unmatched(Side::Left);
        branch.extend_scope(&qualifier, fields.iter().map(|field| joined(field, keeps_unmatched)))?;
        let planned = sides.table.schema().fields();
        let looked_up = fields[..planned.len()]
            .iter()
            .zip(planned)
            .map(|(field, planned)| as_planned(column(&qualifier, field.name()), field.data_type(), planned));
        let of_stream = branch.columns.clone();
        let start = if sides.is_swapped { 0 } else { branch.columns.len() };
        branch.columns.splice(start..start, looked_up);
        let mut conditions = Vec::new();
        for condition in of_pairs {
            let condition = materialize(branch.substitute(condition, schema)?, branch)?;
            let conjuncts = split_conjunction_owned(simplify(condition, &branch.scope)?);
            conditions.extend(conjuncts.into_iter().filter(|conjunct| *conjunct != lit(true)));
        }
        if !sides.kind.has_pairs() {
            branch.columns = of_stream;
        }
        branch.steps.push(UnboundStep::Lookup { table, keys, kind: sides.kind, conditions });
        Ok(())
    }

    /// Refuses to join rows whose windows depend on what the join leaves of them.
    fn check_cut(&self, branch: &Branch, kind: JoinKind) -> Result<()> {
        if let Some(cut) = branch.cut.as_ref().filter(|_| kind.keeps_unmatched(Side::Right)) {
            let construct = "a join of rows that are cut into windows which keeps those of a bounded table";
            return Err(external(PlanError::unsupported(cut.place, construct, "aggregate the windows first")));
        }
        let is_refused = |cut: &&Cut| match cut.window {
            Window::Session { .. } => kind != JoinKind::Left,
            // Rows with several matches would be counted more than once.
            _ => cut.by_key().is_some(),
        };
        let Some(cut) = branch.cut.as_ref().filter(is_refused) else { return Ok(()) };
        let (construct, hint) = match (cut.window, kind) {
            (Window::Session { .. }, JoinKind::Semi | JoinKind::Anti) => {
                ("IN or EXISTS of rows that are cut into sessions", "test them in a view and read that")
            }
            (Window::Session { .. }, _) => (
                "an inner join of rows that are cut into sessions",
                "use LEFT JOIN, or join them in a view and read that",
            ),
            _ => (
                "a join of rows that are cut into windows that count the rows of each key",
                "join them in a view and read that",
            ),
        };
        Err(external(PlanError::unsupported(cut.place, construct, hint)))
    }

    fn conditions(&self, join: &Join, sides: &Sides<'_>) -> Result<Conditions> {
        if join.null_equality == NullEquality::NullEqualsNull {
            return Err(self.refused_join("IS NOT DISTINCT FROM between these columns", "compare them with ="));
        }
        let (table, kind) = (sides.table.schema(), sides.kind);
        let is_tables = |condition: &Expr| condition.column_refs().iter().all(|column| table.has_column(column));
        let is_streams = |condition: &Expr| !condition.column_refs().iter().any(|column| table.has_column(column));
        let mut conditions = Conditions::default();
        for condition in join.filter.clone().map_or_else(Vec::new, split_conjunction_owned) {
            if is_tables(&condition) && !kind.keeps_unmatched(Side::Right) {
                conditions.of_table.push(condition);
                continue;
            }
            let kind_of = match kind {
                JoinKind::Inner if !join.on.is_empty() || is_streams(&condition) => &mut conditions.of_rows,
                JoinKind::Semi if is_streams(&condition) => &mut conditions.of_rows,
                JoinKind::Anti if is_streams(&condition) => &mut conditions.of_stream,
                _ => &mut conditions.of_pairs,
            };
            kind_of.push(condition);
        }
        Ok(conditions)
    }

    pub(crate) fn refused_join(&self, construct: &str, hint: &str) -> DataFusionError {
        external(PlanError::unsupported(self.locations.join, construct, hint))
    }

    /// Refuses to join by values of a type that is no key.
    pub(crate) fn check_key(&self, data_type: &DataType) -> Result<()> {
        if !is_nested(data_type) {
            return Ok(());
        }
        let construct = format!("a join by values of type {}", sql_name(data_type));
        Err(self.refused_join(&construct, "compare parts of them, as in a.row.field = b.row.field"))
    }

    /// Tells the stream from the table.
    fn sides<'j>(&mut self, join: &'j Join) -> Result<Sides<'j>> {
        let (left, right) = (is_bounded(&join.left)?, is_bounded(&join.right)?);
        let (kind, is_swapped) = match join.join_type {
            JoinType::Inner => (JoinKind::Inner, left && !right),
            JoinType::Left if left && !right => (JoinKind::Right, true),
            JoinType::Left => (JoinKind::Left, false),
            JoinType::Right if right && !left => (JoinKind::Right, false),
            JoinType::Right => (JoinKind::Left, true),
            JoinType::Full => (JoinKind::Full, left && !right),
            JoinType::LeftSemi => (JoinKind::Semi, false),
            JoinType::LeftAnti => (JoinKind::Anti, false),
            other => {
                let construct = format!("{} JOIN", other.to_string().to_uppercase());
                return Err(self.refused_join(&construct, "use JOIN or LEFT JOIN with a bounded table"));
            }
        };
        let (table_bounded, stream_plan, table) = match is_swapped {
            true => (left, &join.right, &join.left),
            false => (right, &join.left, &join.right),
        };
        if !table_bounded {
            let (construct, hint) = if !kind.has_pairs() {
                ("IN or EXISTS of an unbounded subquery", "read bounded tables in the subquery")
            } else {
                let hint = "join rows of the same window, or rows near each other in time, as in \
                            AND a.ts BETWEEN b.ts - INTERVAL '1' HOUR AND b.ts + INTERVAL '1' HOUR; \
                            or join a stream with a bounded table, which is loaded when the query starts";
                ("a join of two unbounded tables", hint)
            };
            return Err(self.refused_join(construct, hint));
        }
        let on = join.on.iter().cloned().map(|(left, right)| if is_swapped { (right, left) } else { (left, right) });
        Ok(Sides {
            stream: self.relation(stream_plan)?,
            stream_schema: stream_plan.schema(),
            table,
            on: on.collect(),
            kind,
            is_swapped,
        })
    }

    /// The table that is looked up in: one that is loaded already for another join, where it can be that.
    fn lookup(&mut self, sides: &Sides<'_>, conditions: Vec<Expr>) -> Result<usize> {
        let keys = sides.on.iter().map(|(_, key)| key.clone()).collect();
        let keeps_unmatched = sides.kind.keeps_unmatched(Side::Right);
        let loaded = Loaded { table: sides.table.clone(), conditions, keys, keeps_unmatched };
        // Rows that have found matches in it have its columns under its name.
        let is_used = |number: usize| {
            let mut steps = sides.stream.branches.iter().flat_map(|branch| &branch.steps);
            steps.any(|step| matches!(step, UnboundStep::Lookup { table, .. } if *table == number))
        };
        let is_same = |lookup: &UnboundLookup| lookup.loaded == loaded && !lookup.is_filtered;
        let mut known = self.unbound.lookups.iter_mut().enumerate();
        if let Some((number, lookup)) = known.find(|(number, lookup)| is_same(lookup) && !is_used(*number)) {
            lookup.joins += 1;
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
        if loaded.keeps_unmatched {
            fields.push(Arc::new(Field::new(ROW, DataType::Int64, false)));
        }
        // Conditions that are pushed down to the table name its columns as they are held.
        for branch in &mut relation.branches {
            for (column, field) in branch.columns.iter_mut().zip(&fields) {
                *column = cast_to(std::mem::take(column), field.data_type(), &branch.scope)?;
            }
        }
        Ok(UnboundLookup { loaded, unbound: lowering.unbound, relation, fields, keys, joins: 1, is_filtered: false })
    }
}

/// A field of what the table is loaded as.
fn held(field: &FieldRef, name: String) -> FieldRef {
    Arc::new(field.as_ref().clone().with_name(name).with_data_type(held_or_same(field.data_type())))
}

fn joined(field: &FieldRef, keeps_unmatched: bool) -> FieldRef {
    if keeps_unmatched { Arc::new(field.as_ref().clone().with_nullable(true)) } else { field.clone() }
}
