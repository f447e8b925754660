//! The same kernel with its predicates in another order, and what says which order is best.

use std::sync::Arc;

use arrow::datatypes::DataType;
use pelton_state::join::Lookups;
use pelton_state::kernel::{KernelInput, Scratch};
use pelton_state::profile::{PREDICATES_MAX, Predicate, PredicateOrder, Profile};

use super::call::Call;
use super::loops::{Loop, Shared};
use super::primitive::Select;
use super::spare::Spare;
use super::{CompiledKernel, CompiledStep, CompiledTarget};
use crate::interpret::expression::Expression;
use crate::interpret::pieces::Crossed;
use crate::lower::graph::Operation;
use crate::select::{Level, set_range, words};

/// What a row takes in a loop besides what is computed for it, for each node of its expression, and for each expression that DataFusion
/// evaluates, in nanoseconds, about.
const LOOP_ROW_NS: f64 = 1.0;
const NODE_ROW_NS: f64 = 0.1;
const FOREIGN_ROW_NS: f64 = 25.0;

impl CompiledKernel {
    /// A kernel that tests its predicates as they were planned.
    pub(crate) fn planned(
        shared: Shared,
        selects: Vec<Select>,
        steps: Vec<CompiledStep>,
        target: CompiledTarget,
        crossed: Crossed,
    ) -> CompiledKernel {
        let primitives = selects.iter().map(|select| {
            let (word_ns, row_ns) = select.selector.cost_ns(&select.data_type);
            let row_bytes = row_bytes(&select.data_type);
            Predicate { text: select.planned.to_string(), is_primitive: true, word_ns, row_ns, row_bytes }
        });
        let loops = steps.iter().map_while(movable).map(|code| predicate_of(&shared, code));
        let predicates: Arc<[Predicate]> = primitives.chain(loops).collect();
        let order = PredicateOrder::planned(&predicates);
        CompiledKernel {
            shared: Arc::new(shared),
            selects: selects.into_iter().map(Arc::new).collect(),
            steps: steps.into_iter().map(Arc::new).collect(),
            target: Arc::new(target),
            predicates,
            order,
            fetches_ahead: false,
            crossed: Arc::new(crossed),
        }
    }

    /// The same kernel with its predicates in this order.
    ///
    /// # Panics
    /// Where it is no order of them.
    pub(super) fn with_order(&self, order: &PredicateOrder) -> CompiledKernel {
        assert!(order.is_of(&self.predicates), "{order:?} is no order of {:?}", self.predicates);
        let place = |number: &usize| {
            self.order.tested.iter().position(|own| own == number).expect("both are orders of the same predicates")
        };
        let (primitives, loops) = order.tested.split_at(self.selects.len());
        let kept = loops.iter().map(|number| self.steps[place(number) - self.selects.len()].clone());
        CompiledKernel {
            shared: self.shared.clone(),
            selects: primitives.iter().map(|number| self.selects[place(number)].clone()).collect(),
            steps: kept.chain(self.steps[loops.len()..].iter().cloned()).collect(),
            target: self.target.clone(),
            predicates: self.predicates.clone(),
            order: order.clone(),
            crossed: self.crossed.clone(),
            fetches_ahead: self.fetches_ahead,
        }
    }

    /// Counts which of the rows pass the first predicates, each tested for all rows; loops, for those that all primitives leave.
    pub(super) fn count_passing(
        &self,
        input: KernelInput<'_>,
        lookups: &Lookups,
        profile: &mut Profile,
        scratch: &mut Scratch,
    ) {
        let KernelInput { block, first, end, .. } = input;
        profile.rows += (end - first) as u64;
        let mut within = Vec::new();
        set_range(&mut within, block.rows(), first, end);
        let (primitives, loops) = self.order.tested.split_at(self.selects.len());
        let (mut masks, mut left) = (vec![Vec::new(); primitives.len().min(PREDICATES_MAX)], within.clone());
        for (number, select) in primitives.iter().zip(&self.selects) {
            let mut mask = within.clone();
            select.selector.refine(Level::best(), &**block.column(select.column), first, end, &mut mask);
            left.iter_mut().zip(&mask).for_each(|(left, bits)| *left &= bits);
            if let Some(counted) = masks.get_mut(*number) {
                *counted = mask;
            }
        }
        // Words before the range have no rows: they count for nothing.
        profile.primitives.add(&within, &masks);
        if loops.is_empty() {
            return;
        }
        let mut masks = vec![Vec::new(); loops.len().min(PREDICATES_MAX)];
        for (number, step) in loops.iter().zip(&self.steps) {
            let Some(counted) = masks.get_mut(number - self.selects.len()) else { continue };
            let CompiledStep::Keep { code, .. } = step.as_ref() else { unreachable!("predicates keep rows") };
            *counted = self.passing(code, (input, &left), lookups, scratch);
        }
        profile.loops.add(&left, &masks);
    }

    /// The bits of those rows of `left` that a loop keeps, which fails for none.
    fn passing(
        &self,
        code: &Loop,
        (input, left): (KernelInput<'_>, &[u64]),
        lookups: &Lookups,
        scratch: &mut Scratch,
    ) -> Vec<u64> {
        let mut mask = vec![0; words(input.block.rows())];
        let rows = std::mem::take(&mut scratch.selection);
        let mut call = Call::new(&self.shared, lookups, (input, Some(left)), rows, Spare::take(scratch));
        call.checks_nulls = scratch.checks_nulls;
        if call.count > 0 {
            let spare = std::mem::take(&mut scratch.lookup_rows);
            scratch.lookup_rows = call.keep(code, &[], spare).expect("the predicate fails for no row");
            // Rows that all stay need not be listed.
            let rows = (0..call.count).map(|position| call.row(position));
            rows.for_each(|row| mask[row / 64] |= 1 << (row % 64));
        }
        call.end(scratch);
        mask
    }
}

/// The loop of a step that may be done before or behind others of its kind: it fails for no row, and computes nothing that later ones use.
fn movable(step: &CompiledStep) -> Option<&Loop> {
    match step {
        CompiledStep::Keep { code, carried } => {
            let moves = carried.is_empty() && !code.planned.iter().any(Expression::can_fail);
            moves.then_some(code)
        }
        CompiledStep::Lookup { .. } | CompiledStep::FlatMap(_) => None,
    }
}

fn predicate_of(shared: &Shared, code: &Loop) -> Predicate {
    let needed = shared.graph.reachable(code.effect.roots());
    let costs = needed.iter().map(|&id| match shared.graph.node(id).operation {
        Operation::Foreign(_) => FOREIGN_ROW_NS,
        _ => NODE_ROW_NS,
    });
    let row_ns = LOOP_ROW_NS + costs.sum::<f64>();
    let text = code.planned.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
    Predicate { text, is_primitive: false, word_ns: 0.0, row_ns, row_bytes: 0.0 }
}

/// Bytes of a row's value, or its code.
fn row_bytes(data_type: &DataType) -> f64 {
    match data_type {
        DataType::Boolean => 0.125,
        DataType::Dictionary(code, _) => row_bytes(code),
        // Views of strings.
        other => other.primitive_width().unwrap_or(16) as f64,
    }
}
