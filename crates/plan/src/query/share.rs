//! Windows of the same rows by the same keys are put together from the same slices: rows are added once for all of them.

use pelton_data::aggregate::Accumulator;

use super::draft::{Draft, PipelineDraft, TargetDraft};
use crate::catalog::Catalog;
use crate::pipeline::{SharedSlices, Window, WindowAggregate};

/// What windows are made of.
const WINDOWS: &str = "pelton.windows";

/// Settings that have windows reported more than once: these keep slices of their own, which corrections and early results are computed from.
const EMIT: [&str; 2] = ["table.exec.emit.allow-lateness", "table.exec.emit.early-fire.enabled"];

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
        let into = shared.iter().position(|slices| joins(draft, number, slices));
        match (into, alone(draft, number)) {
            (Some(into), _) => {
                let joining = draft.pipelines.remove(number);
                join(draft, &mut shared[into], joining);
                continue;
            }
            (None, Some(slices)) => shared.push(slices),
            (None, None) => {}
        }
        number += 1;
    }
    shared.retain(|slices| slices.windows.len() > 1);
    shared
}

/// The slices of one window, which others may share, that a pipeline alone feeds.
fn alone(draft: &Draft, number: usize) -> Option<SharedSlices> {
    let TargetDraft::Window { window, .. } = &draft.pipelines[number].target else { return None };
    let feeding =
        draft.pipelines.iter().filter(|pipeline| pipeline.target.stream() == draft.pipelines[number].target.stream());
    let WindowAggregate { window: kind, accumulators, .. } = &draft.windows[*window];
    // What lies beside entries would be copied for each window.
    let are_small = !accumulators.iter().any(Accumulator::has_reference);
    let grid = Window::grid(&[*kind]).filter(|_| feeding.count() == 1 && are_small)?;
    Some(SharedSlices { grid, windows: vec![*window] })
}

/// Whether the window that a pipeline feeds can share these slices.
fn joins(draft: &Draft, number: usize, slices: &SharedSlices) -> bool {
    let pipeline = &draft.pipelines[number];
    let (Some(_), TargetDraft::Window { keys, time, .. }) = (alone(draft, number), &pipeline.target) else {
        return false;
    };
    let others = feeding(draft, slices);
    let TargetDraft::Window { keys: other_keys, time: other_time, .. } = &others.target else { return false };
    pipeline.input == others.input
        && pipeline.steps == others.steps
        && (keys, time) == (other_keys, other_time)
        && grid_with(draft, slices, pipeline).is_some()
}

/// The pipeline that adds rows to these slices.
fn feeding<'d>(draft: &'d Draft, slices: &SharedSlices) -> &'d PipelineDraft {
    let is_first = |pipeline: &&PipelineDraft| matches!(pipeline.target, TargetDraft::Window { window, .. } if window == slices.windows[0]);
    draft.pipelines.iter().find(is_first).expect("a pipeline feeds the first of the windows")
}

/// The grid of these windows and the one that a pipeline feeds.
fn grid_with(draft: &Draft, slices: &SharedSlices, joining: &PipelineDraft) -> Option<Window> {
    let TargetDraft::Window { window: joining, .. } = joining.target else { return None };
    let windows = slices.windows.iter().chain([&joining]).map(|window| draft.windows[*window].window);
    Window::grid(&windows.collect::<Vec<_>>())
}

/// Adds a window to those that share slices. All have the accumulators of each.
fn join(draft: &mut Draft, slices: &mut SharedSlices, joining: PipelineDraft) {
    slices.grid = grid_with(draft, slices, &joining).expect("the window joins");
    let TargetDraft::Window { window: joining, arguments: own, .. } = joining.target else {
        unreachable!("a window joins others")
    };
    let first = slices.windows[0];
    let mut accumulators = draft.windows[first].accumulators.clone();
    let is_fed = |pipeline: &&mut PipelineDraft| matches!(pipeline.target, TargetDraft::Window { window, .. } if window == first);
    let pipeline = draft.pipelines.iter_mut().find(is_fed).expect("a pipeline feeds the first of the windows");
    let TargetDraft::Window { arguments, .. } = &mut pipeline.target else { unreachable!("it feeds a window") };
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
