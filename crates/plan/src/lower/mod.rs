//! From DataFusion's logical plan to branches.
//!
//! Projections vanish: a relation's columns are expressions over what its branches read, and a projection substitutes them.
//! Filters become steps, conjunction by conjunction, in the order written, so that one guards the next.

pub(crate) mod accumulate;

pub(crate) mod aggregate;

pub(crate) mod aggregate_call;

pub(crate) mod arrange;

pub(crate) mod collected_rows;

pub(crate) mod copies;

pub(crate) mod count;

pub(crate) mod finish;

pub(crate) mod flat_map;

pub(crate) mod grouping_sets;

pub(crate) mod join;

pub(crate) mod limit;

pub(crate) mod over;

pub(crate) mod physical;

pub(crate) mod prune;

pub(crate) mod push_down;

pub(crate) mod ranking;

pub(crate) mod scope;

pub(crate) mod session;

pub(crate) mod sink;

pub(crate) mod source;

pub(crate) mod stream_join;

pub(crate) mod unbound;

pub(crate) mod unbound_source;

pub(crate) mod unmatched;

pub(crate) mod window_bounds;

use arrow::datatypes::DataType;
use datafusion_common::{DFSchema, Result, TableReference};
use datafusion_expr::logical_plan::{Distinct, Projection};
use datafusion_expr::utils::split_conjunction_owned;
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, lit};
use pelton_data::join::JoinKind;
use pelton_data::window::Window;
use pelton_data::zoned_window::ZonedWindow;

use crate::bind::flat_map::FlatMapNode;
use crate::bind::table_scan::TableScanSource;
use crate::bind::window::WindowNode;
use crate::coerce::simplify::simplify;
use crate::coerce::zone::is_instant;
use crate::errors::source_locations::SourceLocations;
use crate::errors::{PlanError, at, external};
use crate::lower::scope::lookup_qualifier;
use crate::lower::stream_join::time_bounds::with_time_bounds;
use crate::lower::unbound::{Branch, Cut, Relation, UnboundProgram, UnboundStep};
use crate::lower::window_bounds::materialize;

/// Lowers plans into one program.
pub(crate) struct Lowering<'a> {
    pub unbound: UnboundProgram,
    /// Where the constructs stand in the text, for errors.
    pub locations: &'a SourceLocations,
}

impl Lowering<'_> {
    /// The branches of a plan, with columns aligned to its schema.
    pub fn relation(&mut self, plan: &LogicalPlan) -> Result<Relation> {
        match plan {
            LogicalPlan::TableScan(scan) => {
                let source = scan.source.downcast_ref::<TableScanSource>().expect("tables come from the catalogue");
                let input = self.unbound.table_source(source);
                Ok(Relation { branches: vec![Branch::new(input, self.unbound.fields(input))?] })
            }
            LogicalPlan::Projection(Projection { expr, input, .. }) => {
                self.relation(input)?.project(expr, input.schema())
            }
            LogicalPlan::SubqueryAlias(alias) => self.relation(&alias.input),
            LogicalPlan::Filter(filter) => {
                if let Some(node) = FlatMapNode::joined_by(filter) {
                    return self.flat_map(node, Some(&filter.predicate));
                }
                if let Some(plan) = with_time_bounds(filter).map_err(|error| at(error, self.locations.join))? {
                    return self.relation(&plan);
                }
                let relation = self.relation(&filter.input)?;
                let schema = filter.input.schema();
                let named = |branch: &Branch| Ok(vec![branch.substitute(&filter.predicate, schema)?]);
                let mut relation = relation.apart_where_named(named)?;
                for branch in &mut relation.branches {
                    let predicate = branch.substitute(&filter.predicate, filter.input.schema())?;
                    self.filter(branch, predicate)?;
                }
                Ok(relation)
            }
            LogicalPlan::Union(union) => {
                let relations = union.inputs.iter().map(|input| self.relation(input));
                let relations: Vec<Relation> = relations.collect::<Result<_>>()?;
                Ok(Relation { branches: relations.into_iter().flat_map(|relation| relation.branches).collect() })
            }
            LogicalPlan::Aggregate(aggregate) => self.aggregate(plan, aggregate),
            LogicalPlan::Window(window) => self.over(plan, window),
            LogicalPlan::Distinct(Distinct::All(input)) => self.distinct(input),
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Extension(_) => match FlatMapNode::of(plan) {
                Some(node) => self.flat_map(node, None),
                None => self.cut(WindowNode::of(plan).expect("there are no other extensions")),
            },
            LogicalPlan::Values(values) => self.values(values),
            LogicalPlan::EmptyRelation(empty) => self.one_row(empty),
            // Only the order of the whole result can be seen.
            LogicalPlan::Sort(sort) => self.relation(&sort.input),
            LogicalPlan::Limit(limit) => self.limited(limit),
            other => {
                let construct = other.display().to_string();
                let construct = construct.split([':', '(']).next().unwrap_or_default();
                let hint = "use projections, filters, UNION ALL, windows and joins with bounded tables";
                Err(external(PlanError::unsupported(self.locations.query, format!("the operator {construct}"), hint)))
            }
        }
    }

    /// Drops rows of a branch for which `predicate`, an expression over its scope, is not true.
    pub fn filter(&mut self, branch: &mut Branch, predicate: Expr) -> Result<()> {
        let predicate = materialize(predicate, branch)?;
        // Before it is simplified, which may make another expression of a key.
        if let Some(cut) = branch.cut.as_ref().filter(|cut| cut.would_change_by(&predicate)) {
            let hint = "filter them in a view and read that, or write FILTER (WHERE …) behind each aggregate";
            let windows = cut.by_key().expect("only windows of each key change");
            let construct = format!("a filter of rows that are cut into {windows}");
            return Err(external(PlanError::unsupported(cut.place, construct, hint)));
        }
        let predicate = simplify(predicate, &branch.scope)?;
        for conjunct in split_conjunction_owned(predicate) {
            if conjunct == lit(true) || self.bound_ranks(branch, &conjunct) {
                continue;
            }
            self.push_filter(branch, conjunct)?;
        }
        Ok(())
    }

    /// Refuses rows that are cut into windows already.
    pub(crate) fn check_not_cut(&self, branch: &Branch) -> Result<()> {
        if branch.cut.is_none() {
            return Ok(());
        }
        let construct = "a window function over the rows of another, without an aggregation between them,";
        let hint = "aggregate the inner windows first: GROUP BY window_start, window_end";
        Err(external(PlanError::unsupported(self.locations.window, construct, hint)))
    }

    /// The windows by the clocks of the session's zone, where rows are cut by instants.
    pub(crate) fn in_zone(&self, window: Window, time_type: &DataType) -> Result<Window> {
        let Some(zone) = self.unbound.zone.filter(|_| is_instant(time_type)) else { return Ok(window) };
        if let Some(zoned) = ZonedWindow::new(window, zone) {
            return Ok(Window::Zoned(zoned));
        }
        let construct = match window {
            Window::Session { .. } => format!("SESSION by instants in the time zone {zone}"),
            _ => format!("windows of such lengths by the clocks of {zone}"),
        };
        let hint = "TUMBLE by a length that divides half an hour, or by hours or days, HOP by one that divides half an hour, or by days, \
                    and CUMULATE by days, of which a zone must have left out none; or SET 'table.local-time-zone' = 'UTC'";
        Err(external(PlanError::unsupported(self.locations.window, construct, hint)))
    }

    fn cut(&mut self, node: &WindowNode) -> Result<Relation> {
        let Some(time) = &node.time else { return self.cut_by_number(node) };
        let mut relation = self.relation(&node.input)?;
        let index = node.input.schema().index_of_column(time)?;
        for branch in &mut relation.branches {
            self.check_not_cut(branch)?;
            let time = branch.columns[index].clone();
            self.check_time_of_join(branch.input, &time, self.locations.window)?;
            let keys =
                node.keys.iter().map(|key| Ok(branch.columns[node.input.schema().index_of_column(key)?].clone()));
            let keys = keys.collect::<Result<_>>()?;
            let window = self.in_zone(node.window, &time.get_type(&branch.scope)?)?;
            branch.cut(Cut { window, place: self.locations.window, time: Some(time), keys })?;
        }
        Ok(relation)
    }
}

impl Lowering<'_> {
    fn push_filter(&mut self, branch: &mut Branch, conjunct: Expr) -> Result<()> {
        // Rows that another join may find stay.
        let alone = lookup_alone(branch, &conjunct).filter(|table| self.unbound.lookups[*table].joins == 1);
        if let Some(table) = alone {
            return self.filter_lookup(table, conjunct);
        }
        let position = filter_position(&branch.steps, &conjunct);
        match branch.steps[..position].last_mut() {
            // Pairs are tested before they become rows, as there are many.
            Some(UnboundStep::Lookup { keys, kind: JoinKind::Inner, conditions, .. }) if keys.is_empty() => {
                conditions.push(conjunct);
            }
            _ => branch.steps.insert(position, UnboundStep::Filter(conjunct)),
        }
        Ok(())
    }

    /// Filters the rows that a lookup loads, by a predicate over the columns that the lookup adds.
    fn filter_lookup(&mut self, table: usize, predicate: Expr) -> Result<()> {
        let mut lowering = Lowering {
            unbound: UnboundProgram { zone: self.unbound.zone, ..UnboundProgram::default() },
            locations: self.locations,
        };
        let lookup = &mut self.unbound.lookups[table];
        lookup.is_filtered = true;
        std::mem::swap(&mut lowering.unbound, &mut lookup.unbound);
        let fields = lookup.fields.iter().map(|field| (Some(lookup_qualifier(table).into()), field.clone()));
        let schema = DFSchema::new_with_metadata(fields.collect(), Default::default())?;
        for branch in &mut lookup.relation.branches {
            let predicate = branch.substitute(&predicate, &schema)?;
            // The branches of a union that was joined filter the lookup they share once each.
            let simplified = simplify(predicate.clone(), &branch.scope)?;
            let is_known = |step: &UnboundStep| matches!(step, UnboundStep::Filter(known) if *known == simplified);
            if !branch.steps.iter().any(is_known) {
                lowering.filter(branch, predicate)?;
            }
        }
        std::mem::swap(&mut lowering.unbound, &mut self.unbound.lookups[table].unbound);
        Ok(())
    }
}

/// The lookup whose columns alone a predicate tests, where rows without a match go.
fn lookup_alone(branch: &Branch, conjunct: &Expr) -> Option<usize> {
    let columns = conjunct.column_refs();
    let mut qualifiers = columns.iter().map(|column| column.relation.as_ref().map(TableReference::table));
    let first = qualifiers.next()??;
    if qualifiers.any(|other| other != Some(first)) {
        return None;
    }
    branch.steps.iter().find_map(|step| match step {
        UnboundStep::Lookup { table, kind: JoinKind::Inner, .. } if lookup_qualifier(*table) == first => Some(*table),
        _ => None,
    })
}

/// Where a filter stands: before the lookups and flat maps whose columns it does not use, which are the dearer steps.
fn filter_position(steps: &[UnboundStep], conjunct: &Expr) -> usize {
    let columns = conjunct.column_refs();
    let uses = |step: &UnboundStep| {
        let name = step.qualifier();
        name.is_some()
            && columns.iter().any(|column| column.relation.as_ref().map(TableReference::table) == name.as_deref())
    };
    let after = steps.iter().rposition(uses).map_or(0, |index| index + 1);
    let joins = |step: &UnboundStep| step.qualifier().is_some();
    steps[after..].iter().position(joins).map_or(steps.len(), |index| index + after)
}
