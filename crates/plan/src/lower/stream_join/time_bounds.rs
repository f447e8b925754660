//! Conditions that bound the distance of the time attributes of both sides of a join.

use arrow::datatypes::DataType;
use datafusion_common::Result;
use datafusion_expr::logical_plan::Join;
use datafusion_expr::utils::{conjunction, split_conjunction, split_conjunction_owned};
use datafusion_expr::{Between, BinaryExpr, Cast, Expr, Filter, JoinType, LogicalPlan, Operator};
use pelton_data::Micros;
use pelton_data::join::Side;
use pelton_data::time::micros_per_tick;

use crate::bind::time_attribute::time_attribute;
use crate::bind::time_joins::nearest_of;
use crate::coerce::lengths::micros_of_length;
use crate::errors::external;

/// Bounds of the distance `left time - right time`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeBounds {
    /// The time attribute of the left side, as a column of its plan.
    pub left: usize,
    /// That of the right side.
    pub right: usize,
    /// At least so many microseconds.
    pub lower: Option<Micros>,
    /// At most so many.
    pub upper: Option<Micros>,
}

/// A time attribute of one side, and what is added to it.
#[derive(Debug, Clone, Copy)]
struct TimeTerm {
    side: Side,
    column: usize,
    added: Micros,
}

impl TimeBounds {
    /// The bounds that both have, where they are of the same time attributes.
    fn and(self, other: TimeBounds) -> Option<TimeBounds> {
        let both = |one: Option<Micros>, other: Option<Micros>, choose: fn(Micros, Micros) -> Micros| match (one, other)
        {
            (Some(one), Some(other)) => Some(choose(one, other)),
            (one, other) => one.or(other),
        };
        let lower = both(self.lower, other.lower, Micros::max);
        let upper = both(self.upper, other.upper, Micros::min);
        ((self.left, self.right) == (other.left, other.right)).then_some(TimeBounds { lower, upper, ..self })
    }

    /// Both bounds.
    pub fn interval(&self) -> Option<(Micros, Micros)> {
        self.lower.zip(self.upper)
    }
}

/// The bounds that the conditions of a join give: of the time attributes that have both, or else of the first that have one.
pub(crate) fn time_bounds(join: &Join) -> Result<Option<TimeBounds>> {
    let conditions = join.filter.iter().flat_map(split_conjunction);
    let mut found: Vec<TimeBounds> = Vec::new();
    let equal = join.on.iter().map(|(left, right)| compared(join, left, Operator::Eq, right));
    for bounds in conditions.map(|condition| bounds_of(join, condition)).chain(equal) {
        let Some(bounds) = bounds? else { continue };
        match found.iter_mut().find_map(|known| known.and(bounds).map(|both| (known, both))) {
            Some((known, both)) => *known = both,
            None => found.push(bounds),
        }
    }
    let whole = found.iter().find(|bounds| bounds.interval().is_some());
    Ok(whole.or(found.first()).copied())
}

/// The bounds that a condition is, if it is nothing else.
pub(crate) fn bounds_of(join: &Join, condition: &Expr) -> Result<Option<TimeBounds>> {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => compared(join, left, *op, right),
        Expr::Not(condition) => match &**condition {
            // Time attributes are never NULL.
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                op.negate().map_or(Ok(None), |negated| compared(join, left, negated, right))
            }
            _ => Ok(None),
        },
        Expr::Between(Between { expr, negated: false, low, high }) => {
            let (low, high) = (compared(join, expr, Operator::GtEq, low)?, compared(join, expr, Operator::LtEq, high)?);
            Ok(low.zip(high).and_then(|(low, high)| low.and(high)))
        }
        _ => Ok(None),
    }
}

fn compared(join: &Join, one: &Expr, operator: Operator, other: &Expr) -> Result<Option<TimeBounds>> {
    let (Some(one), Some(other)) = (time_term(join, one)?, time_term(join, other)?) else { return Ok(None) };
    let (left, right, operator) = match (one.side, other.side) {
        (Side::Left, Side::Right) => (one, other, Some(operator)),
        (Side::Right, Side::Left) => (other, one, operator.swap()),
        _ => return Ok(None),
    };
    // left + left.added <= right + right.added
    let distance = right.added.saturating_sub(left.added);
    let (lower, upper) = match operator {
        Some(Operator::LtEq) => (None, Some(distance)),
        Some(Operator::Lt) => (None, Some(distance.saturating_sub(1))),
        Some(Operator::GtEq) => (Some(distance), None),
        Some(Operator::Gt) => (Some(distance.saturating_add(1)), None),
        Some(Operator::Eq) => (Some(distance), Some(distance)),
        _ => return Ok(None),
    };
    Ok(Some(TimeBounds { left: left.column, right: right.column, lower, upper }))
}

/// A time attribute to which lengths are added, or from which they are subtracted.
fn time_term(join: &Join, expression: &Expr) -> Result<Option<TimeTerm>> {
    let added = |value: &Expr, length: &Expr, sign: Micros| {
        let (Some(term), Some(length)) = (time_term(join, value)?, length_of(length)?) else { return Ok(None) };
        let added = term.added.saturating_add(length.saturating_mul(sign));
        Ok(Some(TimeTerm { added, ..term }))
    };
    match expression {
        Expr::Column(column) => {
            let found = [(Side::Left, &join.left), (Side::Right, &join.right)].into_iter().find_map(|(side, plan)| {
                let column = plan.schema().maybe_index_of_column(column)?;
                time_attribute(plan, column).map(|_| TimeTerm { side, column, added: 0 })
            });
            Ok(found)
        }
        Expr::Alias(alias) => time_term(join, &alias.expr),
        Expr::Cast(Cast { expr, field }) => {
            let Some(term) = time_term(join, expr)? else { return Ok(None) };
            let plan = if term.side == Side::Left { &join.left } else { &join.right };
            let is_exact = is_finer(field.data_type(), plan.schema().field(term.column).data_type());
            Ok(Some(term).filter(|_| is_exact))
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Plus, right }) => match added(left, right, 1)? {
            Some(term) => Ok(Some(term)),
            None => added(right, left, 1),
        },
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Minus, right }) => added(left, right, -1),
        _ => Ok(None),
    }
}

/// The length that an expression is, if it is a constant one and none of months.
fn length_of(expression: &Expr) -> Result<Option<Micros>> {
    match expression {
        Expr::Literal(length, _) => micros_of_length(length, "a bound of the distance of two times").map_err(external),
        Expr::Negative(length) => Ok(length_of(length)?.map(Micros::saturating_neg)),
        Expr::Alias(alias) => length_of(&alias.expr),
        _ => Ok(None),
    }
}

/// Whether a type has all times of another.
pub(super) fn is_finer(data_type: &DataType, than: &DataType) -> bool {
    let has_same_zone = match (data_type, than) {
        (DataType::Timestamp(_, one), DataType::Timestamp(_, other)) => one.is_some() == other.is_some(),
        _ => false,
    };
    has_same_zone && micros_per_tick(data_type) <= micros_per_tick(than)
}

/// Whether a condition is one of these bounds.
pub(super) fn is_time_bound(join: &Join, bounds: &TimeBounds, condition: &Expr) -> Result<bool> {
    Ok(bounds_of(join, condition)?.is_some_and(|own| (own.left, own.right) == (bounds.left, bounds.right)))
}

/// The same with the conditions of an inner join that bound the distance of times in the join, where they stand behind it: `FROM a, b WHERE …`. `None` where there
/// are none.
pub(crate) fn with_time_bounds(filter: &Filter) -> Result<Option<LogicalPlan>> {
    let mut plan = LogicalPlan::clone(&filter.input);
    let (mut rest, mut has_moved) = (Vec::new(), false);
    for condition in split_conjunction_owned(filter.predicate.clone()) {
        match pushed(&plan, &condition)? {
            Some(with_bound) => (plan, has_moved) = (with_bound, true),
            None => rest.push(condition),
        }
    }
    if !has_moved {
        return Ok(None);
    }
    match conjunction(rest) {
        Some(predicate) => Filter::try_new(predicate, plan.into()).map(|filter| Some(LogicalPlan::Filter(filter))),
        None => Ok(Some(plan)),
    }
}

/// The plan with a condition in that of its inner joins whose sides it compares the times of.
fn pushed(plan: &LogicalPlan, condition: &Expr) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Join(join) = plan else { return Ok(None) };
    // Behind a join with the nearest row a condition drops pairs; inside of it, it would say which row is the nearest.
    if join.join_type != JoinType::Inner || is_nearest(join) {
        return Ok(None);
    }
    if bounds_of(join, condition)?.is_some() {
        let mut join = join.clone();
        join.filter = conjunction(join.filter.into_iter().chain([condition.clone()]));
        return Ok(Some(LogicalPlan::Join(join)));
    }
    for side in Side::BOTH {
        let input = if side == Side::Left { &join.left } else { &join.right };
        let is_of_side = condition.column_refs().iter().all(|column| input.schema().has_column(column));
        if let Some(input) = is_of_side.then(|| pushed(input, condition)).transpose()?.flatten() {
            let mut join = join.clone();
            *(if side == Side::Left { &mut join.left } else { &mut join.right }) = input.into();
            return Ok(Some(LogicalPlan::Join(join)));
        }
    }
    Ok(None)
}

/// Whether a join is one with the nearest row.
fn is_nearest(join: &Join) -> bool {
    join.filter.iter().flat_map(split_conjunction).any(|condition| nearest_of(condition).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_the_same_times_are_both_kept() {
        let bounds = |lower, upper| TimeBounds { left: 1, right: 2, lower, upper };
        assert_eq!(bounds(Some(1), None).and(bounds(Some(3), Some(9))), Some(bounds(Some(3), Some(9))));
        assert_eq!(bounds(None, Some(5)).and(bounds(Some(3), Some(9))), Some(bounds(Some(3), Some(5))));
        assert_eq!(bounds(None, Some(5)).and(TimeBounds { right: 3, ..bounds(None, None) }), None);
    }
}
