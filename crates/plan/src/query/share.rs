//! Windows of the same rows by the same keys are put together from the same slices: rows are added once for all of them.

use super::draft::{Draft, PipelineDraft, TargetDraft};
use crate::catalog::Catalog;
use crate::pipeline::{Operator, SharedSlices, Window, WindowAggregate};

/// What windows are made of.
pub const WINDOWS: &str = "pelton.windows";

/// Which rows still count that come when their windows have ended.
pub const ALLOW_LATENESS: &str = "table.exec.emit.allow-lateness";

/// Whether windows are reported before their time has come.
pub const EARLY_FIRE: &str = "table.exec.emit.early-fire.enabled";

/// Settings that have windows reported more than once: these keep slices of their own, which corrections and early results are computed from.
const EMIT: [&str; 2] = [ALLOW_LATENESS, EARLY_FIRE];

/// Whether a session's settings let windows share slices.
pub(super) fn shares_slices(catalog: &Catalog) -> bool {
    catalog.setting(WINDOWS).is_none_or(|windows| windows == "slices")
        && EMIT.iter().all(|key| catalog.setting(key).is_none())
}

/// Lets windows share slices, where they can: one pipeline is left for all that do, and feeds an operator that holds these.
pub(super) fn share(draft: &mut Draft) {
    let mut shared: Vec<SharedSlices> = Vec::new();
    let mut number = 0;
    while number < draft.pipelines.len() {
        let Some(own) = alone(draft, number) else {
            number += 1;
            continue;
        };
        let found = shared.iter_mut().find_map(|slices| Some((grid_with(draft, number, slices)?, slices)));
        match found {
            Some((grid, slices)) => {
                slices.grid = grid;
                let joining = draft.pipelines.remove(number);
                join(draft, slices, joining);
            }
            None => {
                shared.push(own);
                number += 1;
            }
        }
    }
    for slices in shared.into_iter().filter(|slices| slices.windows.len() > 1) {
        let number = draft.operators.len();
        let fed = feeding(draft, slices.windows[0]).expect("a pipeline feeds the first of the windows");
        let TargetDraft::Groups { operator, .. } = &mut draft.pipelines[fed].target else {
            unreachable!("it feeds a window that groups rows")
        };
        *operator = number;
        slices.windows.iter().for_each(|&window| draft.window_mut(window).slices = Some(number));
        draft.operators.push(Operator::Slices(slices));
    }
}

/// The slices of one window, which others may share, that a pipeline alone feeds.
fn alone(draft: &Draft, number: usize) -> Option<SharedSlices> {
    let TargetDraft::Groups { operator, .. } = draft.pipelines[number].target else { return None };
    let WindowAggregate { window: kind, accumulators, .. } = draft.window(operator);
    // Lists and sets would be put together once for the slice, and once for each window.
    let are_small = !accumulators.iter().any(|kept| kept.accumulate.has_store());
    let grid = Window::grid(&[*kind]).filter(|_| draft.feeding(operator).count() == 1 && are_small)?;
    Some(SharedSlices { grid, windows: vec![operator] })
}

/// The grid of these slices' windows and the one that a pipeline feeds, where it can share them.
fn grid_with(draft: &Draft, number: usize, slices: &SharedSlices) -> Option<Window> {
    let [joining, others] = [number, feeding(draft, slices.windows[0])?].map(|index| &draft.pipelines[index]);
    let (
        TargetDraft::Groups { operator, keys, time, .. },
        TargetDraft::Groups { keys: others_keys, time: others_time, .. },
    ) = (&joining.target, &others.target)
    else {
        return None;
    };
    let are_alike =
        joining.input == others.input && joining.steps == others.steps && (keys, time) == (others_keys, others_time);
    let windows = slices.windows.iter().chain([operator]).map(|window| draft.window(*window).window);
    are_alike.then(|| Window::grid(&windows.collect::<Vec<_>>())).flatten()
}

/// The first pipeline that feeds a window.
fn feeding(draft: &Draft, window: usize) -> Option<usize> {
    draft.feeding(window).next().map(|(number, _)| number)
}

/// Adds a window to those that share slices. All have the accumulators of each.
fn join(draft: &mut Draft, slices: &mut SharedSlices, joining: PipelineDraft) {
    let TargetDraft::Groups { operator: joining, arguments: own, .. } = joining.target else {
        unreachable!("a window joins others")
    };
    let first = slices.windows[0];
    let joined = draft.window(joining).accumulators.clone();
    let mut accumulators = draft.window(first).accumulators.clone();
    let fed = feeding(draft, first).expect("a pipeline feeds the first of the windows");
    let TargetDraft::Groups { arguments, .. } = &mut draft.pipelines[fed].target else {
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
    for column in &mut draft.window_mut(joining).columns {
        column.accumulators_mut().into_iter().for_each(|accumulator| *accumulator = places[*accumulator]);
    }
    slices.windows.push(joining);
    slices.windows.iter().for_each(|&window| draft.window_mut(window).accumulators = accumulators.clone());
}
