//! Windows of the same rows by the same keys are put together from the same slices: rows are added once for all of them.

use crate::lower::unbound::{UnboundPipeline, UnboundProgram, UnboundTarget};
use crate::pipeline::{Operator, SharedSlices, Window, WindowAggregate};

/// Lets windows share slices, where they can: one pipeline is left for all that do, and feeds an operator that holds these.
pub(crate) fn share(unbound: &mut UnboundProgram) {
    let mut shared: Vec<SharedSlices> = Vec::new();
    let mut number = 0;
    while number < unbound.pipelines.len() {
        let Some(own) = alone(unbound, number) else {
            number += 1;
            continue;
        };
        let found = shared.iter_mut().find_map(|slices| Some((grid_with(unbound, number, slices)?, slices)));
        match found {
            Some((grid, slices)) => {
                slices.grid = grid;
                let joining = unbound.pipelines.remove(number);
                join(unbound, slices, joining);
            }
            None => {
                shared.push(own);
                number += 1;
            }
        }
    }
    for slices in shared.into_iter().filter(|slices| slices.windows.len() > 1) {
        let number = unbound.operators.len();
        let fed = feeding(unbound, slices.windows[0]).expect("a pipeline feeds the first of the windows");
        let UnboundTarget::Groups { operator, .. } = &mut unbound.pipelines[fed].target else {
            unreachable!("it feeds a window that groups rows")
        };
        *operator = number;
        slices.windows.iter().for_each(|&window| unbound.window_mut(window).slices = Some(number));
        unbound.operators.push(Operator::Slices(slices));
    }
}

/// The slices of one window, which others may share, that a pipeline alone feeds.
fn alone(unbound: &UnboundProgram, number: usize) -> Option<SharedSlices> {
    let UnboundTarget::Groups { operator, .. } = unbound.pipelines[number].target else { return None };
    let WindowAggregate { window: kind, accumulators, .. } = unbound.window(operator);
    // Lists and sets would be put together once for the slice, and once for each window.
    let are_small = !accumulators.iter().any(|kept| kept.accumulate.has_store());
    let grid = Window::grid(&[*kind]).filter(|_| unbound.feeding(operator).count() == 1 && are_small)?;
    Some(SharedSlices { grid, windows: vec![operator] })
}

/// The grid of these slices' windows and the one that a pipeline feeds, where it can share them.
fn grid_with(unbound: &UnboundProgram, number: usize, slices: &SharedSlices) -> Option<Window> {
    let [joining, others] = [number, feeding(unbound, slices.windows[0])?].map(|index| &unbound.pipelines[index]);
    let (
        UnboundTarget::Groups { operator, keys, time, .. },
        UnboundTarget::Groups { keys: others_keys, time: others_time, .. },
    ) = (&joining.target, &others.target)
    else {
        return None;
    };
    let are_alike =
        joining.input == others.input && joining.steps == others.steps && (keys, time) == (others_keys, others_time);
    let windows = slices.windows.iter().chain([operator]).map(|window| unbound.window(*window).window);
    are_alike.then(|| Window::grid(&windows.collect::<Vec<_>>())).flatten()
}

/// The first pipeline that feeds a window.
fn feeding(unbound: &UnboundProgram, window: usize) -> Option<usize> {
    unbound.feeding(window).next().map(|(number, _)| number)
}

/// Adds a window to those that share slices. All have the accumulators of each.
fn join(unbound: &mut UnboundProgram, slices: &mut SharedSlices, joining: UnboundPipeline) {
    let UnboundTarget::Groups { operator: joining, arguments: own, .. } = joining.target else {
        unreachable!("a window joins others")
    };
    let first = slices.windows[0];
    let joined = unbound.window(joining).accumulators.clone();
    let mut accumulators = unbound.window(first).accumulators.clone();
    let fed = feeding(unbound, first).expect("a pipeline feeds the first of the windows");
    let UnboundTarget::Groups { arguments, .. } = &mut unbound.pipelines[fed].target else {
        unreachable!("it feeds a window")
    };
    let mut places = Vec::new();
    for (accumulator, argument) in joined.iter().zip(own) {
        let known = accumulators.iter().zip(arguments.iter());
        let place = known.into_iter().position(|known| known == (accumulator, &argument));
        places.push(place.unwrap_or_else(|| {
            accumulators.push(accumulator.clone());
            arguments.push(argument);
            arguments.len() - 1
        }));
    }
    for column in &mut unbound.window_mut(joining).columns {
        column.accumulators_mut().into_iter().for_each(|accumulator| *accumulator = places[*accumulator]);
    }
    slices.windows.push(joining);
    slices.windows.iter().for_each(|&window| unbound.window_mut(window).accumulators = accumulators.clone());
}
