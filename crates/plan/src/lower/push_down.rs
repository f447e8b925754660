//! Filters behind a join of two streams that read the rows of one side: they move before the join, which then keeps and compares fewer rows.

use datafusion_common::Result;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::utils::split_conjunction_owned;
use datafusion_expr::{Expr, lit};
use pelton_data::join::{JoinColumn, JoinTime, Side};

use crate::coerce::simplify::simplify;
use crate::lower::filter_position;
use crate::lower::scope::{INPUT, column_of};
use crate::lower::unbound::{UnboundProgram, UnboundStep, UnboundTarget};
use crate::pipeline::{Operator, StreamJoin, StreamRef};

/// A filter of one side's rows, over the columns that these are kept with.
struct SideFilter {
    side: Side,
    condition: Expr,
    /// The columns, by what the condition names them.
    columns: Vec<(Expr, usize)>,
}

/// Moves them, from joins that others read to those that they read.
pub(crate) fn push_down_filters(unbound: &mut UnboundProgram) -> Result<()> {
    for number in (0..unbound.operators.len()).rev() {
        if let Operator::Join(_) = &unbound.operators[number] {
            for filter in take_filters(unbound, number)? {
                filter.add_to(unbound, number)?;
            }
        }
    }
    Ok(())
}

/// Takes the filters of one side's rows from the pipeline that reads a join, where there is one.
fn take_filters(unbound: &mut UnboundProgram, number: usize) -> Result<Vec<SideFilter>> {
    let UnboundProgram { pipelines, operators, .. } = unbound;
    let Operator::Join(join) = &operators[number] else { unreachable!("it is a join") };
    let reads = |reader: &usize| pipelines[*reader].input == StreamRef::Operator(number);
    let readers: Vec<usize> = (0..pipelines.len()).filter(reads).collect();
    let [reader] = readers[..] else { return Ok(Vec::new()) };
    let mut filters = Vec::new();
    for step in std::mem::take(&mut pipelines[reader].steps) {
        let filter = match &step {
            UnboundStep::Filter(condition) => SideFilter::of(join, condition),
            UnboundStep::Lookup { .. } | UnboundStep::FlatMap(_) => None,
        };
        match filter {
            Some(filter) => {
                filters.extend(filter.of_other_side(join));
                filters.push(filter);
            }
            None => pipelines[reader].steps.push(step),
        }
    }
    Ok(filters)
}

impl SideFilter {
    /// A condition over the results of a join, where it reads one side's rows, and no row without a match lacks these.
    fn of(join: &StreamJoin, condition: &Expr) -> Option<SideFilter> {
        let spec = &join.spec;
        let mut columns = Vec::new();
        let mut found = None;
        for name in condition.column_refs() {
            let named = Expr::Column(name.clone());
            let column = spec.schema.index_of(&column_of(&named, INPUT)?.name).ok()?;
            let JoinColumn::Of(side, column) = spec.columns[column] else { return None };
            if found.is_some_and(|found| found != side) {
                return None;
            }
            found = Some(side);
            columns.push((named, column));
        }
        // What is drawn by chance is drawn for each pair.
        let side = found.filter(|_| !condition.is_volatile())?;
        // Of rows of the right side, which is the nearest depends on which there are.
        let can_move = match spec.time {
            JoinTime::Windows { .. } | JoinTime::Interval { .. } => !spec.kind.keeps_unmatched(side.other()),
            JoinTime::Nearest { .. } => side == Side::Left,
        };
        can_move.then(|| SideFilter { side, condition: condition.clone(), columns })
    }

    /// The same of the other side's rows, where it reads nothing but keys: those that it leaves out match no row that is left.
    fn of_other_side(&self, join: &StreamJoin) -> Option<SideFilter> {
        let [keys, other_keys] = [self.side, self.side.other()].map(|side| &join.spec.sides[side.port()].keys);
        let of_other = |(name, column): &(Expr, usize)| {
            let key = keys.iter().position(|key| key == column)?;
            Some((name.clone(), other_keys[key]))
        };
        let columns = self.columns.iter().map(of_other).collect::<Option<_>>()?;
        Some(SideFilter { side: self.side.other(), condition: self.condition.clone(), columns })
    }

    /// Adds it to the pipelines of its side.
    fn add_to(&self, unbound: &mut UnboundProgram, number: usize) -> Result<()> {
        let UnboundProgram { pipelines, operators, .. } = unbound;
        let Operator::Join(join) = &operators[number] else { unreachable!("it is a join") };
        let feeding = pipelines.iter_mut();
        let feeding = feeding.filter(|pipeline| pipeline.target.stream() == Some(StreamRef::Operator(number)));
        for (port, pipeline) in feeding.enumerate() {
            if join.side_of(port) != self.side {
                continue;
            }
            let UnboundTarget::Rows { columns, .. } = &pipeline.target else { unreachable!("joins take rows") };
            let condition = self.condition.clone().transform_up(|part| {
                let known = self.columns.iter().find(|(name, _)| *name == part);
                Ok(known
                    .map(|(_, column)| columns[*column].clone())
                    .map_or_else(|| Transformed::no(part), Transformed::yes))
            })?;
            for conjunct in split_conjunction_owned(simplify(condition.data, &pipeline.scope)?) {
                let position = filter_position(&pipeline.steps, &conjunct);
                let is_true = conjunct == lit(true);
                let step = UnboundStep::Filter(conjunct);
                if !is_true && !pipeline.steps.contains(&step) {
                    pipeline.steps.insert(position, step);
                }
            }
        }
        Ok(())
    }
}
