//! Windows of the same rows by the same keys are put together from the same slices: rows are added once for all of them.

use super::draft::{Draft, PipelineDraft, TargetDraft};
use crate::catalog::Catalog;
use crate::pipeline::{SharedSlices, StreamRef, Window, WindowAggregate};

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

/// Lets windows share slices, where they can: one pipeline is left for all that do.
pub(super) fn share(draft: &mut Draft) -> Vec<SharedSlices> {
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
    shared.retain(|slices| slices.windows.len() > 1);
    shared
}

/// The slices of one window, which others may share, that a pipeline alone feeds.
fn alone(draft: &Draft, number: usize) -> Option<SharedSlices> {
    let TargetDraft::Window { window, .. } = &draft.pipelines[number].target else { return None };
    let feeding = feeding(draft, *window);
    let WindowAggregate { window: kind, accumulators, .. } = &draft.windows[*window];
    // Lists and sets would be put together once for the slice, and once for each window.
    let are_small = !accumulators.iter().any(|kept| kept.accumulate.has_store());
    let grid = Window::grid(&[*kind]).filter(|_| feeding.count() == 1 && are_small)?;
    Some(SharedSlices { grid, windows: vec![*window] })
}

/// The grid of these slices' windows and the one that a pipeline feeds, where it can share them.
fn grid_with(draft: &Draft, number: usize, slices: &SharedSlices) -> Option<Window> {
    let [joining, others] = [number, feeding(draft, slices.windows[0]).next()?].map(|index| &draft.pipelines[index]);
    let (
        TargetDraft::Window { window, keys, time, .. },
        TargetDraft::Window { keys: others_keys, time: others_time, .. },
    ) = (&joining.target, &others.target)
    else {
        return None;
    };
    let are_alike =
        joining.input == others.input && joining.steps == others.steps && (keys, time) == (others_keys, others_time);
    let windows = slices.windows.iter().chain([window]).map(|window| draft.windows[*window].window);
    are_alike.then(|| Window::grid(&windows.collect::<Vec<_>>())).flatten()
}

/// The pipelines that feed a window.
fn feeding(draft: &Draft, window: usize) -> impl Iterator<Item = usize> {
    let pipelines = draft.pipelines.iter().enumerate();
    let feeding = pipelines.filter(move |(_, pipeline)| pipeline.target.stream() == Some(StreamRef::Window(window)));
    feeding.map(|(index, _)| index)
}

/// Adds a window to those that share slices. All have the accumulators of each.
fn join(draft: &mut Draft, slices: &mut SharedSlices, joining: PipelineDraft) {
    let TargetDraft::Window { window: joining, arguments: own, .. } = joining.target else {
        unreachable!("a window joins others")
    };
    let first = slices.windows[0];
    let mut accumulators = draft.windows[first].accumulators.clone();
    let fed = feeding(draft, first).next().expect("a pipeline feeds the first of the windows");
    let TargetDraft::Window { arguments, .. } = &mut draft.pipelines[fed].target else {
        unreachable!("it feeds a window")
    };
    let mut places = Vec::new();
    for (accumulator, argument) in draft.windows[joining].accumulators.iter().zip(own) {
        let known = accumulators.iter().zip(arguments.iter());
        let place = known.into_iter().position(|known| known == (accumulator, &argument));
        places.push(place.unwrap_or_else(|| {
            accumulators.push(accumulator.clone());
            arguments.push(argument);
            arguments.len() - 1
        }));
    }
    for column in &mut draft.windows[joining].columns {
        column.accumulators_mut().into_iter().for_each(|accumulator| *accumulator = places[*accumulator]);
    }
    slices.windows.push(joining);
    slices.windows.iter().for_each(|&window| draft.windows[window].accumulators = accumulators.clone());
}
