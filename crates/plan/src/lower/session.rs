//! What is special about sessions, and about windows that count the rows of each key: where they begin and end depends on which rows there are, and
//! on what these are partitioned by.

use datafusion_common::Result;
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_expr::{Expr, ExprSchemable};
use pelton_data::aggregate::Accumulate;

use crate::coerce::held_types::held_type;
use crate::coerce::simplify::simplify;
use crate::errors::{PlanError, external};
use crate::lower::Lowering;
use crate::lower::accumulate::Collector;
use crate::lower::aggregate::Group;
use crate::lower::scope::cast_to;
use crate::lower::unbound::{Branch, Cut};
use crate::pipeline::{SessionSlots, Window};

impl Cut {
    /// Windows of each key by itself, in words.
    pub fn by_key(&self) -> Option<&'static str> {
        match self.window {
            Window::Session { .. } => Some("sessions"),
            Window::RowsByKey { .. } => Some("windows that count the rows of each key"),
            _ => None,
        }
    }

    /// Whether the windows would be others without the rows for which `predicate` is not true: those of each key, unless all rows of one go.
    pub fn would_change_by(&self, predicate: &Expr) -> bool {
        let mut has_others = false;
        let look = |part: &Expr| {
            let is_key = self.keys.contains(part);
            has_others |= !is_key && matches!(part, Expr::Column(_));
            Ok(if is_key { TreeNodeRecursion::Jump } else { TreeNodeRecursion::Continue })
        };
        predicate.apply(look).expect("a look at an expression does not fail");
        self.by_key().is_some() && has_others
    }
}

impl Lowering<'_> {
    /// Refuses groups that are not whole windows of a key, or whose windows are not known: keys must be those of PARTITION BY.
    pub(crate) fn check_partition_keys(&self, branch: &Branch, groups: &[Group]) -> Result<()> {
        let Some((cut, windows)) = branch.cut.as_ref().and_then(|cut| Some((cut, cut.by_key()?))) else {
            return Ok(());
        };
        let mut keys = cut.keys.iter().map(|key| simplify(key.clone(), &branch.scope)).collect::<Result<Vec<_>>>()?;
        keys.retain(|key| !matches!(key, Expr::Literal(..)));
        let held = |key: Expr| {
            let data_type = key.get_type(branch.scope.as_ref())?;
            let held = held_type(&data_type).ok_or_else(|| self.refused_key(&data_type))?;
            cast_to(key, &held, &branch.scope)
        };
        let partition: Vec<Expr> = keys.into_iter().map(held).collect::<Result<_>>()?;
        let mut keys = groups.iter().filter_map(Group::as_key);
        let are_grouped_by = |key: &Expr| groups.contains(&Group::Key(key.clone()));
        if keys.all(|key| partition.contains(key)) && partition.iter().all(are_grouped_by) {
            return Ok(());
        }
        let construct = format!("grouping {windows} by other columns than those they are partitioned by");
        let hint = match (self.locations.is_built, partition.is_empty()) {
            (true, _) => "group by the columns that partition_by names",
            (false, true) => "write SESSION(TABLE t PARTITION BY key, DESCRIPTOR(time_column), gap)",
            (false, false) => "GROUP BY window_start, window_end and the columns of PARTITION BY",
        };
        Err(external(PlanError::unsupported(self.locations.grouping, construct, hint)))
    }

    /// The accumulators that tell which session a group is, where windows are sessions.
    pub(crate) fn session_slots(&self, window: Window, collector: &mut Collector) -> Result<Option<SessionSlots>> {
        let Window::Session { .. } = window else { return Ok(None) };
        let cuts = collector.branches.iter().map(|branch| branch.cut.as_ref());
        let times = cuts.map(|cut| cut.and_then(|cut| cut.time.clone()).expect("sessions are cut by a time"));
        let times: Vec<Expr> = times.collect();
        let types = collector.branches.iter().zip(&times).map(|(branch, time)| time.get_type(branch.scope.as_ref()));
        let types = types.collect::<Result<Vec<_>>>()?;
        if types.iter().any(|data_type| *data_type != types[0]) {
            let message = "the parts of a UNION ALL that are cut into sessions have times of different types";
            let hint = "declare both with the same precision";
            return Err(external(PlanError::invalid(self.locations.window, message).with_hint(hint)));
        }
        let times: Vec<Option<Expr>> = times.into_iter().map(Some).collect();
        Ok(Some(SessionSlots {
            first: collector.add(Accumulate::Minimum, times.clone())?,
            rows: collector.add(Accumulate::Count, vec![None; times.len()])?,
            last: collector.add(Accumulate::Maximum, times)?,
        }))
    }
}
