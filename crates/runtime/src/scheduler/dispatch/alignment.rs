//! Which source is read next: the one whose event time is furthest behind, so that windows close as early as they can, and those that are ahead wait where
//! they would only fill memory.

use pelton_data::Micros;

use crate::scheduler::fairness::Region;
use crate::state::State;

/// A source to read, and which of its partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NextRead {
    pub source: usize,
    pub partition: usize,
}

/// Whether a source can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Readable {
    /// This partition of it.
    Now(usize),
    /// When there is room behind it.
    WithRoom,
    /// It has nothing, or is being read.
    No,
}

/// The source of a region to read next, of those that are `readable`: by event time where they have one, by rows where they have none.
pub(super) fn next_read(state: &State, region: &Region, readable: impl Fn(usize) -> Readable) -> Option<NextRead> {
    if let [source] = region.sources[..] {
        let Readable::Now(partition) = readable(source) else { return None };
        return Some(NextRead { source, partition });
    }
    let lacks_state = lacks_state(state);
    let rows = |next: &NextRead| (state.sources[next.source].rows, next.source);
    let (mut by_time, mut by_rows): (Option<(Micros, NextRead)>, Option<NextRead>) = (None, None);
    // What is behind and has no room goes first all the same.
    let mut time_max = Micros::MAX;
    for &source in &region.sources {
        let time = state.sources[source].sequencer.event_time();
        match (readable(source), time) {
            (Readable::No, _) | (Readable::WithRoom, None) => {}
            (Readable::WithRoom, Some(time)) => time_max = time_max.min(time),
            (Readable::Now(_), Some(_)) if is_held_back(state, region, source, lacks_state) => {}
            (Readable::Now(partition), Some(time)) => {
                let next = (time, NextRead { source, partition });
                by_time = by_time.into_iter().chain([next]).min_by_key(|(time, next)| (*time, rows(next)));
            }
            (Readable::Now(partition), None) => {
                let next = NextRead { source, partition };
                by_rows = by_rows.into_iter().chain([next]).min_by_key(rows);
            }
        }
    }
    // Between a stream with event time and one without, the one that has delivered least.
    let by_time = by_time.filter(|(time, _)| *time <= time_max).map(|(_, next)| next);
    by_time.into_iter().chain(by_rows).min_by_key(rows)
}

/// The source that those which are held back wait for, if any are.
pub(super) fn awaited(state: &State, region: &Region) -> Option<usize> {
    let lacks_state = lacks_state(state);
    let mut sources = region.sources.iter().filter(|&&source| !state.sources[source].ended);
    let is_any_held_back = sources.any(|&source| is_held_back(state, region, source, lacks_state));
    let times = region.sources.iter().filter_map(|&source| Some((open_time(state, source)?, source)));
    times.min().filter(|_| is_any_held_back).map(|(_, source)| source)
}

/// Whether state is short of memory that is free when time has come further.
pub(super) fn lacks_state(state: &State) -> bool {
    state.operators.iter().any(|operator| operator.is_freed_by_time) && state.waiting.lacks_state()
}

/// Whether a source waits for others whose event time is behind its own: more than they are aligned, or at all where state is short of memory, which is free
/// again when their time has come as far.
fn is_held_back(state: &State, region: &Region, source: usize, lacks_state: bool) -> bool {
    let alignment = state.sources[source].alignment.as_ref();
    let Some(time) = open_time(state, source).filter(|_| lacks_state || alignment.is_some()) else { return false };
    let least = |is_meant: &dyn Fn(usize) -> bool| {
        let others = region.sources.iter().filter(|&&other| is_meant(other));
        others.filter_map(|&other| open_time(state, other)).min()
    };
    let is_ahead = lacks_state && least(&|_| true).is_some_and(|least| time > least);
    is_ahead
        || alignment.is_some_and(|alignment| {
            let is_aligned =
                |other: usize| state.sources[other].alignment.as_ref().is_some_and(|of| of.group == alignment.group);
            least(&is_aligned).is_some_and(|least| time > least.saturating_add(alignment.drift_max))
        })
}

/// How far the event time of a source has come that still holds others back.
fn open_time(state: &State, source: usize) -> Option<Micros> {
    let node = &state.sources[source];
    if node.ended || node.sequencer.is_idle() { None } else { node.sequencer.event_time() }
}
