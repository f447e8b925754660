//! From DataFusion's logical plan to branches.
//!
//! Projections vanish: a relation's columns are expressions over what its branches read, and a projection substitutes them.
//! Filters become steps, conjunction by conjunction, in the order written, so that one guards the next.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DFSchema, Result, ScalarValue, TableReference};
use datafusion_expr::logical_plan::{Distinct, Projection};
use datafusion_expr::simplify::SimplifyContext;
use datafusion_expr::utils::split_conjunction_owned;
use datafusion_expr::{Cast, Expr, ExprSchemable, LogicalPlan, TryCast, cast, lit};
use datafusion_optimizer::simplify_expressions::ExprSimplifier;
use pelton_data::Micros;
use pelton_data::decimal::divides_exactly;
use pelton_data::window::Window;
use pelton_functions::decimal::decimal_to_double;
use pelton_functions::{
    cast_as, cast_literal, is_flink_cast, is_own_cast, strict_cast_as, strict_cast_literal, timestamp_to_string,
    try_cast_as,
};

use super::context::{CONFIGURATION, TableScanSource, external};
use super::copies::named_bound;
use super::draft::{Branch, Cut, Draft, Relation, StepDraft};
use super::fractions::keep_fractions;
use super::join::lookup_qualifier;
use super::landmarks::Landmarks;
use super::memberships::set_apart;
use super::strictness::is_strict;
use super::window::{WINDOW_COLUMNS, WindowNode};
use crate::error::PlanError;

/// Lowers plans into one program.
pub(super) struct Lowering<'a> {
    pub draft: Draft,
    /// Where the constructs stand in the text, for errors.
    pub landmarks: &'a Landmarks,
}

impl Lowering<'_> {
    /// The branches of a plan, with columns aligned to its schema.
    pub fn relation(&mut self, plan: &LogicalPlan) -> Result<Relation> {
        match plan {
            LogicalPlan::TableScan(scan) => {
                let source = scan.source.downcast_ref::<TableScanSource>().expect("tables come from the catalogue");
                let input = self.draft.table_source(source);
                Ok(Relation { branches: vec![Branch::new(input, self.draft.fields(input))?] })
            }
            LogicalPlan::Projection(Projection { expr, input, .. }) => {
                self.relation(input)?.project(expr, input.schema())
            }
            LogicalPlan::SubqueryAlias(alias) => self.relation(&alias.input),
            LogicalPlan::Filter(filter) => {
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
            LogicalPlan::Extension(_) => {
                let node = WindowNode::of(plan).expect("windows are the only extension");
                self.cut(node)
            }
            LogicalPlan::Values(values) => self.values(values),
            LogicalPlan::EmptyRelation(empty) => self.one_row(empty.produce_one_row),
            // Only the order of the whole result can be seen.
            LogicalPlan::Sort(sort) => self.relation(&sort.input),
            LogicalPlan::Limit(limit) => self.limited(limit),
            other => {
                let construct = other.display().to_string();
                let construct = construct.split([':', '(']).next().unwrap_or_default();
                let hint = "use projections, filters, UNION ALL, windows and joins with bounded tables";
                Err(external(PlanError::unsupported(self.landmarks.query, format!("the operator {construct}"), hint)))
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
    pub(super) fn check_not_cut(&self, branch: &Branch) -> Result<()> {
        if branch.cut.is_none() {
            return Ok(());
        }
        let construct = "a window function over the rows of another, without an aggregation between them,";
        let hint = "aggregate the inner windows first: GROUP BY window_start, window_end";
        Err(external(PlanError::unsupported(self.landmarks.window, construct, hint)))
    }

    fn cut(&mut self, node: &WindowNode) -> Result<Relation> {
        let Some(time) = &node.time else { return self.cut_by_number(node) };
        let mut relation = self.relation(&node.input)?;
        let index = node.input.schema().index_of_column(time)?;
        for branch in &mut relation.branches {
            self.check_not_cut(branch)?;
            let time = branch.columns[index].clone();
            let keys =
                node.keys.iter().map(|key| Ok(branch.columns[node.input.schema().index_of_column(key)?].clone()));
            let keys = keys.collect::<Result<_>>()?;
            let window = self.in_zone(node.window, &time.get_type(&branch.scope)?)?;
            branch.cut(Cut { window, place: self.landmarks.window, time: Some(time), keys })?;
        }
        Ok(relation)
    }
}

/// Folds constants and brings comparisons into the form `column operator literal`.
pub(super) fn simplify(expression: Expr, scope: &Arc<DFSchema>) -> Result<Expr> {
    if matches!(expression, Expr::Column(_) | Expr::Literal(..)) {
        return Ok(expression);
    }
    let context = SimplifyContext::builder()
        .with_schema(scope.clone())
        .with_config_options(CONFIGURATION.clone())
        .with_current_time()
        .build();
    let expression = set_apart(flink_casts(expression, scope)?, scope)?;
    let simplified = ExprSimplifier::new(context).simplify(expression.data)?;
    Ok(if expression.transformed { simplified.unalias_nested().data } else { simplified })
}

/// Lets casts mean what they do in Flink. DataFusion's writes timestamps as RFC 3339 does, rounds twice what it makes of decimals, and does more that
/// `pelton_functions` has another way for.
fn flink_casts(expression: Expr, scope: &Arc<DFSchema>) -> Result<Expr> {
    let replaced = expression.transform_up(|node| {
        let (Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field })) = &node else {
            return Ok(match keep_fractions(&node, scope)? {
                Some(kept) => Transformed::yes(kept),
                None => Transformed::no(node),
            });
        };
        let (from, to) = (expr.get_type(scope)?, field.data_type());
        if let Some(literal) = widened(expr, to) {
            return Ok(Transformed::yes(literal));
        }
        match from {
            DataType::Decimal128(precision, digits) if to.is_floating() && !divides_exactly(precision, digits) => {
                let double = decimal_to_double(expr.as_ref().clone());
                Ok(Transformed::yes(if *to == DataType::Float64 { double } else { cast(double, to.clone()) }))
            }
            DataType::Timestamp(..) if to.is_string() => {
                let text = timestamp_to_string(expr.as_ref().clone());
                Ok(Transformed::yes(if *to == DataType::Utf8View { text } else { cast(text, to.clone()) }))
            }
            from if is_own_cast(&from, to) || !is_strict() && is_flink_cast(&from, to) => {
                let is_try = matches!(node, Expr::TryCast(_));
                own_cast(expr.as_ref().clone(), to, is_try, scope).map(Transformed::yes)
            }
            _ => Ok(Transformed::no(node)),
        }
    })?;
    Ok(replaced.data)
}

/// A whole number as a literal of a wider type: comparisons are brought into their form before the simplifier folds casts.
fn widened(operand: &Expr, to: &DataType) -> Option<Expr> {
    let Expr::Literal(literal @ (ScalarValue::Int32(Some(_)) | ScalarValue::Int64(Some(_))), _) = operand else {
        return None;
    };
    let is_wider = matches!(to, DataType::Int64 | DataType::Float64 | DataType::Decimal128(..));
    let widened = literal.cast_to(to).ok().filter(|widened| is_wider && !widened.is_null())?;
    Some(Expr::Literal(widened, None))
}

/// A cast that `pelton_functions` computes. One of a constant is computed now, so that a wrong one is refused where it stands.
fn own_cast(value: Expr, to: &DataType, is_try: bool, scope: &Arc<DFSchema>) -> Result<Expr> {
    let value = if value.any_column_refs() { value } else { simplify(value, scope)? };
    if let Expr::Literal(value, _) = &value {
        let literal = match is_strict() && !is_try {
            true => strict_cast_literal(value, to)?,
            false => cast_literal(value, to, is_try)?,
        };
        return Ok(Expr::Literal(literal, None));
    }
    let target = Expr::Literal(ScalarValue::try_from(to)?, None);
    Ok(match is_try {
        true => try_cast_as(value, target),
        false if is_strict() => strict_cast_as(value, target),
        false => cast_as(value, target),
    })
}

/// Replaces columns of a window function by what they are computed from, for expressions other than keys.
pub(super) fn materialize(expression: Expr, branch: &Branch) -> Result<Expr> {
    let Some(cut) = &branch.cut else { return Ok(expression) };
    let replaced = expression.transform_up(|node| {
        let Some(bound) = named_bound(&node) else { return Ok(Transformed::no(node)) };
        let data_type = node.get_type(branch.scope.as_ref())?;
        let (Window::Tumbling { size, offset }, Some(time)) = (cut.window, &cut.time) else {
            return Err(external(untold_bound(cut, bound)));
        };
        let bounds = Bounds { stride: size, offset, start: 0, end: size, may_be_outside: false };
        Ok(Transformed::yes(window_bound(time, &bounds, bound, &data_type)?))
    })?;
    Ok(replaced.data)
}

/// The error for a bound that a row's time does not tell.
fn untold_bound(cut: &Cut, bound: usize) -> PlanError {
    let whose = match cut.window {
        Window::Session { .. } => "whose session is not over",
        window if window.counts_rows() => "that is counted",
        Window::Clocked(_) => "whose window is one by the clocks of a time zone",
        _ => "that is in several windows",
    };
    let construct = format!("{} of a row {whose}", WINDOW_COLUMNS[bound]);
    PlanError::unsupported(cut.place, construct, "GROUP BY window_start, window_end, or use TUMBLE")
}

/// Where one of a row's windows lies: by how much it begins and ends behind the last of the times, `stride` apart, that is not behind the row's.
pub(super) struct Bounds {
    pub stride: Micros,
    pub offset: Micros,
    pub start: Micros,
    pub end: Micros,
    /// Whether a row may lie behind the window.
    pub may_be_outside: bool,
}

/// A time in microseconds.
pub(super) fn ticks(time: &Expr) -> Expr {
    cast(cast(time.clone(), DataType::Timestamp(TimeUnit::Microsecond, None)), DataType::Int64)
}

/// Start, end or last millisecond of a row's window, as arithmetic on the ticks of its time.
pub(super) fn window_bound(time: &Expr, bounds: &Bounds, bound: usize, data_type: &DataType) -> Result<Expr> {
    let number = |micros: Micros| Expr::Literal(ScalarValue::Int64(Some(micros)), None);
    let later = |instant: Expr, micros: Micros| if micros == 0 { instant } else { instant + number(micros) };
    let micros = ticks(time);
    let stride = || number(bounds.stride);
    // The remainder of a negative number is negative: add the stride and take it again.
    let since_offset = if bounds.offset == 0 { micros.clone() } else { micros.clone() - number(bounds.offset) };
    let before = micros - ((since_offset % stride()) + stride()) % stride();
    let instant = later(before, [bounds.start, bounds.end, bounds.end - 1_000][bound]);
    Ok(cast(cast(instant, DataType::Timestamp(TimeUnit::Microsecond, None)), data_type.clone()))
}

impl Lowering<'_> {
    fn push_filter(&mut self, branch: &mut Branch, conjunct: Expr) -> Result<()> {
        if let Some(table) = lookup_alone(branch, &conjunct) {
            return self.filter_lookup(table, conjunct);
        }
        let position = filter_position(branch, &conjunct);
        branch.steps.insert(position, StepDraft::Filter(conjunct));
        Ok(())
    }

    /// Filters the rows that a lookup loads, by a predicate over the columns that the lookup adds.
    fn filter_lookup(&mut self, table: usize, predicate: Expr) -> Result<()> {
        let mut lowering =
            Lowering { draft: Draft { zone: self.draft.zone, ..Draft::default() }, landmarks: self.landmarks };
        let lookup = &mut self.draft.lookups[table];
        std::mem::swap(&mut lowering.draft, &mut lookup.draft);
        let fields = lookup.fields.iter().map(|field| (Some(lookup_qualifier(table).into()), field.clone()));
        let schema = DFSchema::new_with_metadata(fields.collect(), Default::default())?;
        for branch in &mut lookup.relation.branches {
            let predicate = branch.substitute(&predicate, &schema)?;
            // The branches of a union that was joined filter the lookup they share once each.
            let simplified = simplify(predicate.clone(), &branch.scope)?;
            let is_known = |step: &StepDraft| matches!(step, StepDraft::Filter(known) if *known == simplified);
            if !branch.steps.iter().any(is_known) {
                lowering.filter(branch, predicate)?;
            }
        }
        std::mem::swap(&mut lowering.draft, &mut self.draft.lookups[table].draft);
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
        StepDraft::Lookup { table, keep_unmatched: false, .. } if lookup_qualifier(*table) == first => Some(*table),
        _ => None,
    })
}

/// Where a filter stands: before the lookups whose columns it does not use, which are the dearer steps.
fn filter_position(branch: &Branch, conjunct: &Expr) -> usize {
    let columns = conjunct.column_refs();
    let uses = |table: usize| {
        let name = lookup_qualifier(table);
        columns.iter().any(|column| column.relation.as_ref().is_some_and(|relation| relation.table() == name))
    };
    let needed = branch.steps.iter().rposition(|step| match step {
        StepDraft::Filter(_) => false,
        StepDraft::Lookup { table, .. } => uses(*table),
    });
    let after = needed.map_or(0, |index| index + 1);
    let is_lookup = |step: &StepDraft| matches!(step, StepDraft::Lookup { .. });
    branch.steps[after..].iter().position(is_lookup).map_or(branch.steps.len(), |index| index + after)
}
