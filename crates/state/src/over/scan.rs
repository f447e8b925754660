//! Running totals of values that lie side by side.
//!
//! Each value added to the sum of all before is a chain in which every addition waits for the last. So values are added up within
//! groups, whose chains the processor follows at the same time, and only the groups' totals after each other.

use super::totals::RUN_ROWS;
use crate::aggregates::Aggregate;
use crate::vector::{PREFETCH_BYTES, prefetch_behind, vectorised};

/// Rows of a group. Groups begin at positions that are multiples of it, so that what is rounded does not depend on how rows were
/// cut into runs.
const GROUP_ROWS: usize = 8;

/// The total of values so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Running<V> {
    /// Of whole groups.
    groups: V,
    /// Of the rows after these.
    rest: V,
}

impl<V: Copy> Running<V> {
    /// Of no values.
    pub fn new<O: Aggregate<State = V>>() -> Running<V> {
        Running { groups: O::EMPTY, rest: O::EMPTY }
    }

    /// The totals of whole groups and of the rows after these.
    pub fn parts(&self) -> [V; 2] {
        [self.groups, self.rest]
    }

    /// What has these parts.
    pub fn of_parts([groups, rest]: [V; 2]) -> Running<V> {
        Running { groups, rest }
    }

    /// The total.
    #[inline]
    pub fn total<O: Aggregate<State = V>>(&self) -> V {
        O::combine(self.groups, self.rest)
    }

    /// Takes the value at a position, behind all others.
    #[inline]
    pub fn push<O: Aggregate<State = V>>(&mut self, position: u64, value: V) {
        if position.is_multiple_of(GROUP_ROWS as u64) {
            self.groups = self.total::<O>();
            self.rest = O::EMPTY;
        }
        self.rest = O::combine(self.rest, value);
    }

    /// Takes values, the first of which is at `position`, and appends to `totals` for each of them what is before: its `front`, the
    /// `middle`, and all values up to it.
    #[inline]
    pub fn scan<O: Aggregate<State = V>>(
        &mut self,
        position: u64,
        values: &[V],
        front: Front<'_, V>,
        middle: V,
        totals: &mut Vec<V>,
    ) {
        let head = (position.next_multiple_of(GROUP_ROWS as u64) - position) as usize;
        let (head, whole) = values.split_at(head.min(values.len()));
        let (groups, tail) = whole.as_chunks::<GROUP_ROWS>();
        // Behind whole groups a multiple of their rows follows.
        let tail_position = position + (values.len() - tail.len()) as u64;
        match front {
            Front::Same(front) => {
                let older = O::combine(front, middle);
                self.scan_each::<O>(position, head, std::iter::repeat(older), totals);
                self.scan_groups::<O>(groups, std::iter::repeat([older; GROUP_ROWS]), totals);
                self.scan_each::<O>(tail_position, tail, std::iter::repeat(older), totals);
            }
            Front::Each(front) => {
                let older = |front: V| O::combine(front, middle);
                let (front_head, front) = front.split_at(head.len());
                let (front_groups, front_tail) = front.as_chunks::<GROUP_ROWS>();
                self.scan_each::<O>(position, head, front_head.iter().map(|&front| older(front)), totals);
                self.scan_groups::<O>(groups, front_groups.iter().map(|&front| front.map(older)), totals);
                self.scan_each::<O>(tail_position, tail, front_tail.iter().map(|&front| older(front)), totals);
            }
        }
    }

    #[inline]
    fn scan_groups<O: Aggregate<State = V>>(
        &mut self,
        groups: &[[V; GROUP_ROWS]],
        older: impl Iterator<Item = [V; GROUP_ROWS]>,
        totals: &mut Vec<V>,
    ) {
        vectorised(
            #[inline(always)]
            || {
                let mut running = *self;
                for (group, older) in groups.iter().zip(older) {
                    prefetch_behind(group, PREFETCH_BYTES);
                    let so_far = so_far::<O>(*group);
                    running = Running { groups: running.total::<O>(), rest: so_far[GROUP_ROWS - 1] };
                    let mut group_totals = older;
                    for (rest, total) in so_far.into_iter().zip(&mut group_totals) {
                        *total = O::combine(*total, Running { rest, ..running }.total::<O>());
                    }
                    totals.extend_from_slice(&group_totals);
                }
                *self = running;
            },
        );
    }

    #[inline]
    fn scan_each<O: Aggregate<State = V>>(
        &mut self,
        position: u64,
        values: &[V],
        older: impl Iterator<Item = V>,
        totals: &mut Vec<V>,
    ) {
        for ((position, &value), older) in (position..).zip(values).zip(older) {
            self.push::<O>(position, value);
            totals.push(O::combine(older, self.total::<O>()));
        }
    }
}

/// The total of each value of a group with all before it: where any grouping gives the very same in three steps of vector instructions (Hillis and Steele, Data parallel
/// algorithms, 1986), else value by value, in the order in which [`Running::push`] takes them.
#[inline(always)]
fn so_far<O: Aggregate>(mut values: [O::State; GROUP_ROWS]) -> [O::State; GROUP_ROWS] {
    if !O::IS_EXACT {
        let mut total = O::EMPTY;
        return values.map(|value| {
            total = O::combine(total, value);
            total
        });
    }
    for distance in [1, 2, 4] {
        let mut before = [O::EMPTY; GROUP_ROWS];
        before[distance..].copy_from_slice(&values[..GROUP_ROWS - distance]);
        values.iter_mut().zip(before).for_each(|(value, before)| *value = O::combine(before, *value));
    }
    values
}

/// The total of each value of a group with all behind it.
#[inline(always)]
fn from_here_on<O: Aggregate>(mut values: [O::State; GROUP_ROWS]) -> [O::State; GROUP_ROWS] {
    if !O::IS_EXACT {
        let mut total = O::EMPTY;
        for value in values.iter_mut().rev() {
            total = O::combine(*value, total);
            *value = total;
        }
        return values;
    }
    for distance in [1, 2, 4] {
        let mut behind = [O::EMPTY; GROUP_ROWS];
        behind[..GROUP_ROWS - distance].copy_from_slice(&values[distance..]);
        values.iter_mut().zip(behind).for_each(|(value, behind)| *value = O::combine(*value, behind));
    }
    values
}

/// What is before the middle, of each frame.
#[derive(Debug, Clone, Copy)]
pub(super) enum Front<'a, V> {
    /// One after the other.
    Each(&'a [V]),
    /// The same of all.
    Same(V),
}

/// Writes the total of each of `values` with all after it, and `after` those, to `totals`. Returns the first of these.
pub(super) fn scan_backwards<O: Aggregate>(values: &[O::State], after: O::State, totals: &mut [O::State]) -> O::State {
    let (head, groups) = values.as_rchunks::<GROUP_ROWS>();
    let (head_totals, group_totals) = totals.as_rchunks_mut::<GROUP_ROWS>();
    let mut after = vectorised(
        #[inline(always)]
        || {
            let mut after = after;
            for (group, totals) in groups.iter().zip(group_totals).rev() {
                // The next run leaves when the frame has moved on by one.
                prefetch_behind(group, RUN_ROWS as usize * size_of::<O::State>());
                let on = from_here_on::<O>(*group);
                *totals = on.map(|rest| O::combine(rest, after));
                after = O::combine(on[0], after);
            }
            after
        },
    );
    for (&value, total) in head.iter().zip(head_totals).rev() {
        after = O::combine(value, after);
        *total = after;
    }
    after
}

/// The same of slices one behind the other.
pub(super) fn scan_slices_backwards<'a, O: Aggregate<State: 'a>>(
    slices: impl DoubleEndedIterator<Item = &'a [O::State]>,
    totals: &mut [O::State],
) {
    let (mut after, mut unfilled) = (O::EMPTY, totals);
    for slice in slices.rev() {
        let (earlier, totals) = unfilled.split_at_mut(unfilled.len() - slice.len());
        after = scan_backwards::<O>(slice, after, totals);
        unfilled = earlier;
    }
}

/// As [`Running::scan`], where the total of each row with those before it in its run is known: appends these with what is before the run.
pub(super) fn add_known<O: Aggregate>(
    so_far: &[O::State],
    front: Front<'_, O::State>,
    middle: O::State,
    totals: &mut Vec<O::State>,
) {
    vectorised(
        #[inline(always)]
        || match front {
            Front::Same(front) => {
                let older = O::combine(front, middle);
                totals.extend(so_far.iter().map(|&so_far| O::combine(older, so_far)));
            }
            Front::Each(front) => totals.extend(
                front.iter().zip(so_far).map(|(&front, &so_far)| O::combine(O::combine(front, middle), so_far)),
            ),
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregates::SumFloat;

    #[test]
    fn totals_do_not_depend_on_how_values_are_cut() {
        let values: Vec<f64> = (0..100).map(|row| f64::from(row * 31 % 17) / 7.0).collect();
        let mut whole = Vec::new();
        Running::new::<SumFloat>().scan::<SumFloat>(5, &values, Front::Same(0.0), 0.0, &mut whole);
        for cut in [1, 3, 8, 11, 64] {
            let (mut running, mut totals, mut position) = (Running::new::<SumFloat>(), Vec::new(), 5);
            for values in values.chunks(cut) {
                running.scan::<SumFloat>(position, values, Front::Each(&vec![0.0; values.len()]), 0.0, &mut totals);
                position += values.len() as u64;
            }
            assert_eq!(totals, whole);
            assert_eq!(running.total::<SumFloat>(), whole[99]);
        }
        for (row, total) in whole.iter().enumerate() {
            assert!((total - values[..=row].iter().sum::<f64>()).abs() < 1e-12);
        }
    }

    #[test]
    fn totals_backwards_are_those_of_what_follows() {
        let values: Vec<f64> = (0..37).map(f64::from).collect();
        let mut totals = vec![0.0; 37];
        assert_eq!(scan_backwards::<SumFloat>(&values, 100.0, &mut totals), 766.0);
        let expected: Vec<f64> = (0..37).map(|row| 100.0 + values[row..].iter().sum::<f64>()).collect();
        assert_eq!(totals, expected);
    }
}
