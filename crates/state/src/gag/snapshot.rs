//! The graph in snapshots: the keys of the groups that have numbers, in the order of these, and each node.

use std::ops::RangeInclusive;
use std::sync::Arc;

use pelton_data::Micros;

use super::{Combined, Gag, Nodes, Slice};
use crate::layout::EntryLayout;
use crate::small_slices::SmallSlices;
use crate::snapshot::{Reader, Snapshot, SnapshotError, Writer};
use crate::table::{Chosen, Table};

impl Gag {
    /// What nodes it has, in a word.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Gag::Single(_) => "single slices",
            Gag::Combined(graph) => match graph.nodes {
                Nodes::Slices(_) => "recomputation",
                Nodes::Running(_) => "subtraction",
                Nodes::TwoStacks(_) => "two stacks",
                Nodes::Prefix(_) => "prefixes",
            },
        }
    }

    /// Whether slices that leave are subtracted.
    pub(crate) fn subtracts(&self) -> bool {
        matches!(self, Gag::Combined(graph) if matches!(graph.nodes, Nodes::Running(_)))
    }

    /// Writes what windows need that are open. No window is being closed.
    pub(crate) fn write_to(&self, out: &mut Writer) -> Result<(), SnapshotError> {
        let Gag::Combined(graph) = self else { return Ok(()) };
        let Combined { keys, nodes, window, .. } = &**graph;
        let known = if let Nodes::Running(_) = nodes { keys } else { window };
        let all = Chosen::first(known.groups());
        known.write_keys(all, out)?;
        match nodes {
            Nodes::Slices(slices) => write_slices(slices, out),
            Nodes::Running(running) => {
                window.write_to(out)?;
                running.write_to(out)
            }
            Nodes::TwoStacks(stacks) => stacks.write_to(out),
            Nodes::Prefix(period) => {
                out.flag(period.is_some());
                period.iter().for_each(|period| out.instant(*period));
                window.write_values(all, out)
            }
        }
    }

    /// Becomes what was written. The last windows of slices end within these bounds.
    pub(crate) fn read_from(
        &mut self,
        last_ends: &RangeInclusive<Micros>,
        input: &mut Reader<'_>,
    ) -> Result<(), SnapshotError> {
        let Gag::Combined(graph) = self else { return Ok(()) };
        // Their groups are no source's that comes later.
        graph.origins.note(None, *last_ends.end());
        let Combined { numbers, keys, nodes, window, values, presence, .. } = &mut **graph;
        let known = nodes.known(keys, window);
        known.read_keys(0, input)?;
        let all = Chosen::first(known.groups());
        let (mut to, mut new) = (Vec::new(), Vec::new());
        numbers.assign(known, all, &mut to, &mut new);
        input.check(to.iter().copied().eq(0..all.len() as u32), "groups that have one number each")?;
        let known = Known { values, groups: all.len(), presence: *presence, last_ends };
        match nodes {
            Nodes::Slices(slices) => *slices = known.read_slices(input)?,
            Nodes::Running(running) => {
                window.read_from(input)?;
                numbers.assign(window, Chosen::first(window.groups()), &mut to, &mut new);
                input.check(new.is_empty(), "groups of a window that have numbers")?;
                running.read_from(to, window.counts(known.presence), &known, input)?;
            }
            Nodes::TwoStacks(stacks) => stacks.read_from(&known, input)?,
            Nodes::Prefix(period) => {
                if input.flag("whether there is a period")? {
                    let end = input.instant("the end of a period")?;
                    input.check(last_ends.contains(&end) && end == *last_ends.end(), "the end of the open period")?;
                    *period = Some(end);
                }
                window.read_values(all, input)?;
            }
        }
        Ok(())
    }
}

impl Combined {
    /// The keys of the groups of pieces, by their numbers.
    ///
    /// # Panics
    /// Where the source of the pieces is not known.
    pub(crate) fn keys_of(&self, pieces: &SmallSlices) -> &Table {
        let source = self.sources.iter().find(|source| source.is_of(pieces));
        source.expect("pieces come from a source that is known").keys()
    }
}

impl Slice {
    fn write_to(&self, out: &mut Writer) -> Result<(), SnapshotError> {
        out.instant(self.last_end);
        self.values.write_to(out)?;
        out.flag(self.to.is_some());
        self.to.iter().for_each(|to| out.column(to));
        Ok(())
    }
}

/// What slices that are read belong to.
pub(super) struct Known<'a> {
    /// The layout of what they have accumulated.
    pub values: &'a Arc<EntryLayout>,
    /// How many groups have numbers.
    pub groups: usize,
    /// The accumulator that is zero where a slice does not have a group.
    pub presence: usize,
    /// When their last windows may end.
    pub last_ends: &'a RangeInclusive<Micros>,
}

impl Known<'_> {
    /// Reads slices of some of the groups.
    pub fn read_slices(&self, input: &mut Reader<'_>) -> Result<Vec<Slice>, SnapshotError> {
        (0..input.count(1, "slices of windows")?).map(|_| self.read_slice(input)).collect()
    }

    fn read_slice(&self, input: &mut Reader<'_>) -> Result<Slice, SnapshotError> {
        let last_end = self.read_last_end(input)?;
        let values = self.read_list(input)?;
        let to = match input.flag("whether a slice has some of the groups")? {
            true => Some(input.column::<u32>(values.groups(), "numbers of groups")?.to_vec()),
            false => None,
        };
        let mut known = vec![false; if to.is_some() { self.groups } else { 0 }];
        let is_new =
            |number: &u32| known.get_mut(*number as usize).is_some_and(|known| !std::mem::replace(known, true));
        input.check(to.iter().flatten().all(is_new), "numbers of groups that are known, each once")?;
        Ok(Slice { last_end, values, to })
    }

    /// Reads the end of the last window of a slice.
    pub fn read_last_end(&self, input: &mut Reader<'_>) -> Result<Micros, SnapshotError> {
        let last_end = input.instant("the end of the last window of a slice")?;
        input.check(self.last_ends.contains(&last_end), "the end of a window that is open")?;
        Ok(last_end)
    }

    /// Reads what at most all groups have accumulated.
    pub fn read_list(&self, input: &mut Reader<'_>) -> Result<Table, SnapshotError> {
        let mut list = Table::list(self.values.clone());
        list.read_from(input)?;
        input.check(list.groups() <= self.groups, "no more groups than are known")?;
        Ok(list)
    }
}

pub(super) fn write_slices<'s>(
    slices: impl IntoIterator<Item = &'s Slice, IntoIter: ExactSizeIterator>,
    out: &mut Writer,
) -> Result<(), SnapshotError> {
    let mut slices = slices.into_iter();
    out.count(slices.len());
    slices.try_for_each(|slice| slice.write_to(out))
}
