//! Joins of rows that are near each other in time: the distance of the time attributes of both sides has two bounds.

use datafusion_common::Result;
use datafusion_expr::logical_plan::Join;
use datafusion_expr::utils::{conjunction, split_conjunction_owned};
use datafusion_expr::{Expr, LogicalPlan};
use pelton_data::TimeColumn;
use pelton_data::join::JoinTime;

use super::JoinParts;
use super::side::SideRows;
use super::time_bounds::{TimeBounds, is_time_bound, time_bounds};
use crate::bind::table_scan::is_bounded;
use crate::bind::time_attribute::{TimeAttribute, time_attribute};
use crate::errors::{PlanError, at, external};
use crate::lower::Lowering;
use crate::lower::scope::{INPUT, column_of};
use crate::lower::unbound::Relation;

impl Lowering<'_> {
    /// The bounds of the distance in time of the rows that a join pairs; `None` where it is no join of rows that are near each other.
    pub(super) fn bounds_of_times(&self, join: &Join) -> Result<Option<TimeBounds>> {
        let bounds = time_bounds(join).map_err(|error| at(error, self.locations.join))?;
        let Some(bounds) = bounds else { return Ok(None) };
        let has_bounded = is_bounded(&join.left)? || is_bounded(&join.right)?;
        let is_equality = bounds.interval().is_some_and(|(lower, upper)| lower == upper) && join.filter.is_none();
        if has_bounded && (bounds.interval().is_none() || is_equality) {
            // Rows are looked up in the bounded side.
            return Ok(None);
        }
        let times = [(&join.left, bounds.left), (&join.right, bounds.right)];
        let kinds = times.map(|(plan, column)| time_attribute(plan, column) == Some(TimeAttribute::Processing));
        if kinds[0] != kinds[1] {
            let message = "a join compares processing time with event time";
            let hint = "compare time attributes of one kind";
            return Err(external(PlanError::invalid(self.locations.join, message).with_hint(hint)));
        }
        if bounds.interval().is_none() {
            return Err(self.lacking_bound(times, &bounds));
        }
        Ok(Some(bounds))
    }

    fn lacking_bound(
        &self,
        [(left, left_time), (right, right_time)]: [(&std::sync::Arc<LogicalPlan>, usize); 2],
        bounds: &TimeBounds,
    ) -> datafusion_common::DataFusionError {
        let name = |plan: &LogicalPlan, column: usize| Expr::from(plan.schema().qualified_field(column)).to_string();
        let (left, right) = (name(left, left_time), name(right, right_time));
        let (lacking, condition) = match bounds.lower {
            None => ("lower", format!("{left} >= {right} - INTERVAL '1' HOUR")),
            Some(_) => ("upper", format!("{left} <= {right} + INTERVAL '1' HOUR")),
        };
        let message =
            format!("{left} has no {lacking} bound in this join, so that rows of {right} could never be forgotten");
        let hint = format!("add a condition, as in AND {condition}");
        external(PlanError::invalid(self.locations.join, message).with_hint(hint))
    }

    /// A join of rows whose times differ by no less and no more than so much.
    pub(super) fn interval_join(&mut self, mut parts: JoinParts<'_>, bounds: TimeBounds) -> Result<Relation> {
        let (mut lower, mut upper) = bounds.interval().expect("both bounds have been asked for");
        let mut times = [bounds.left, bounds.right];
        if parts.is_swapped {
            (lower, upper) = (upper.saturating_neg(), lower.saturating_neg());
            times.reverse();
        }
        for (side, time) in parts.sides.iter_mut().zip(times) {
            self.set_time(side, time)?;
        }
        for (left, right) in parts.on() {
            let equality = [(&left, &right), (&right, &left)].map(|(one, other)| one.clone().eq(other.clone()));
            let are_times = equality.iter().map(|equality| is_time_bound(parts.join, &bounds, equality));
            if !are_times.collect::<Result<Vec<_>>>()?.contains(&true) {
                self.add_key(&mut parts.sides, &left, &right)?;
            }
        }
        let conditions = parts.join.filter.clone().map_or_else(Vec::new, split_conjunction_owned);
        let mut others = Vec::new();
        for condition in conditions {
            if !is_time_bound(parts.join, &bounds, &condition)? {
                others.push(condition);
            }
        }
        let join = Join { filter: conjunction(others), ..parts.join.clone() };
        let output = parts.rows_that_leave(|_, _| None)?;
        let parts = JoinParts { join: &join, kind: parts.kind, sides: parts.sides, is_swapped: parts.is_swapped };
        self.add_join(parts, JoinTime::Interval { lower, upper }, output)
    }

    /// Lets a side's rows be put in the order of a time attribute, which is a column of its plan.
    pub(super) fn set_time(&self, side: &mut SideRows, time: usize) -> Result<()> {
        let times: Vec<Expr> = side.branches().iter().map(|branch| branch.columns[time].clone()).collect();
        if !times.iter().all(|time| column_of(time, INPUT).is_some()) {
            let construct =
                format!("a join by {} of rows that a window function has cut", side.planned.field(time).name());
            let hint = "aggregate the windows first: GROUP BY window_start, window_end, window_time";
            return Err(self.refused_join(&construct, hint));
        }
        side.times = times.into_iter().map(Some).collect();
        let column = side.planned_column(time)?;
        side.time = TimeColumn::new(column, side.field(column).data_type());
        debug_assert!(side.time.is_some(), "a time attribute is a timestamp");
        Ok(())
    }
}
