//! Joins with the nearest row in time: `ASOF JOIN`, and `JOIN … FOR SYSTEM_TIME AS OF`.

use datafusion_common::{DataFusionError, Result, ScalarValue};
use datafusion_expr::logical_plan::Join;
use datafusion_expr::utils::{conjunction, split_conjunction_owned};
use datafusion_expr::{Expr, JoinType};
use pelton_data::join::{JoinKind, JoinTime};

use super::JoinParts;
use super::time_bounds::{TimeBounds, bounds_of};
use crate::bind::table_scan::is_bounded;
use crate::bind::time_attribute::{TimeAttribute, time_attribute};
use crate::bind::time_joins::{Nearest, nearest_of};
use crate::errors::{PlanError, external};
use crate::lower::Lowering;
use crate::lower::unbound::Relation;

/// A join with the nearest row.
pub(super) struct NearestJoin {
    nearest: Nearest,
    kind: JoinKind,
    /// Its conditions beside equalities and that which says so.
    others: Vec<Expr>,
}

/// The time attributes that are compared, and how.
#[derive(Debug, Clone, Copy)]
struct Compared {
    left: usize,
    right: usize,
    is_backward: bool,
    is_strict: bool,
}

impl Compared {
    /// The comparison that bounds are, if it is one of two times as they are.
    fn of(bounds: &TimeBounds) -> Option<Compared> {
        let (is_backward, is_strict) = match (bounds.lower, bounds.upper) {
            (Some(0), None) => (true, false),
            (Some(1), None) => (true, true),
            (None, Some(0)) => (false, false),
            (None, Some(-1)) => (false, true),
            _ => return None,
        };
        Some(Compared { left: bounds.left, right: bounds.right, is_backward, is_strict })
    }
}

impl NearestJoin {
    /// The join with the nearest row that a join stands for, if it is one.
    pub fn of(join: &Join) -> Option<NearestJoin> {
        let conditions = join.filter.clone().map_or_else(Vec::new, split_conjunction_owned);
        let (nearest, is_inner) = conditions.iter().find_map(nearest_of)?;
        let others = conditions.into_iter().filter(|condition| nearest_of(condition).is_none()).collect();
        let kind = if is_inner || join.join_type == JoinType::Inner { JoinKind::Inner } else { JoinKind::Left };
        Some(NearestJoin { nearest, kind, others })
    }
}

impl Lowering<'_> {
    /// A join of each row of the left side with the nearest of the right side.
    pub(super) fn nearest_join(&mut self, join: &Join, nearest: NearestJoin) -> Result<Relation> {
        let NearestJoin { nearest, kind, mut others } = nearest;
        let mut on = join.on.clone();
        let compared = match &nearest {
            Nearest::Match(condition) => self.matched(join, condition, &mut others)?,
            Nearest::Version(time) => {
                let left = self.time_of_version(join, time)?;
                if time_attribute(&join.left, left) == Some(TimeAttribute::Processing) {
                    return self.present_version(join, kind, others);
                }
                let versions = self.versions(&join.right)?;
                let (keys, conditions) = self.keys_of_versions(&versions, join)?;
                others.extend(conditions.into_iter().map(|(left, right)| left.eq(right)));
                on = keys;
                Compared { left, right: versions.time, is_backward: true, is_strict: false }
            }
        };
        let join = Join { on, filter: conjunction(others), ..join.clone() };
        let sides = [self.side_rows(&join.left)?, self.side_rows(&join.right)?];
        let mut parts = JoinParts { join: &join, kind, sides, is_swapped: false };
        self.set_time(&mut parts.sides[0], compared.left)?;
        self.set_time(&mut parts.sides[1], compared.right)?;
        for (left, right) in parts.on() {
            self.add_key(&mut parts.sides, &left, &right)?;
        }
        let output = parts.rows_that_leave(|_, _| None)?;
        let Compared { is_backward, is_strict, .. } = compared;
        self.add_join(parts, JoinTime::Nearest { is_backward, is_strict }, output)
    }

    /// The comparison of times of an ASOF JOIN: its match condition, or that of its other conditions which is one.
    fn matched(&self, join: &Join, condition: &Expr, others: &mut Vec<Expr>) -> Result<Compared> {
        let compared =
            |condition: &Expr| Ok::<_, DataFusionError>(bounds_of(join, condition)?.as_ref().and_then(Compared::of));
        let refused =
            |message: &str, hint: &str| external(PlanError::invalid(self.locations.join, message).with_hint(hint));
        if !matches!(condition, Expr::Literal(ScalarValue::Boolean(Some(true)), _)) {
            let message =
                "MATCH_CONDITION of an ASOF JOIN compares the time attributes of both sides with >=, >, <= or <";
            return compared(condition)?.ok_or_else(|| refused(message, "write MATCH_CONDITION (a.time >= b.time)"));
        }
        let mut found = Vec::new();
        for (index, condition) in others.iter().enumerate() {
            found.extend(compared(condition)?.map(|compared| (index, compared)));
        }
        match found.as_slice() {
            &[(index, compared)] => {
                others.remove(index);
                Ok(compared)
            }
            [] => {
                let message = "an ASOF JOIN compares the time attributes of both sides with >=, >, <= or <";
                Err(refused(message, "write ON a.key = b.key AND a.time >= b.time"))
            }
            _ => {
                let message = "an ASOF JOIN compares the time attributes of both sides once";
                Err(refused(message, "write one of the comparisons, or join rows near each other with JOIN"))
            }
        }
    }

    /// The time attribute of the left side that FOR SYSTEM_TIME AS OF names.
    fn time_of_version(&self, join: &Join, time: &Expr) -> Result<usize> {
        let named = match time {
            Expr::Column(column) => join.left.schema().maybe_index_of_column(column),
            _ => None,
        };
        named.filter(|&index| time_attribute(&join.left, index).is_some()).ok_or_else(|| {
            let message = "FOR SYSTEM_TIME AS OF takes a time attribute of the left side of the join";
            let hint =
                "write FOR SYSTEM_TIME AS OF a.time, where WATERMARK FOR time is declared, or time AS PROCTIME()";
            external(PlanError::invalid(self.locations.join, message).with_hint(hint))
        })
    }

    /// The version of now: that of a bounded table is the table.
    fn present_version(&mut self, join: &Join, kind: JoinKind, others: Vec<Expr>) -> Result<Relation> {
        if !is_bounded(&join.right)? {
            let construct = "FOR SYSTEM_TIME AS OF a processing time, of an unbounded table,";
            let hint = "use the event time of the left side, or join with a bounded table, which is loaded when the query starts";
            return Err(self.refused_join(construct, hint));
        }
        let join_type = if kind == JoinKind::Inner { JoinType::Inner } else { JoinType::Left };
        self.join(&Join { filter: conjunction(others), join_type, ..join.clone() })
    }
}
