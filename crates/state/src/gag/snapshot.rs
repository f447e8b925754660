//! The graph in snapshots: the keys of the groups that have numbers, in the order of these, and each node.

use std::sync::Arc;

use super::{Combined, Gag, Nodes, Slice};
use crate::layout::EntryLayout;
use crate::pieces::Pieces;
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

    /// Becomes what was written.
    pub(crate) fn read_from(&mut self, input: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let Gag::Combined(graph) = self else { return Ok(()) };
        let Combined { numbers, keys, nodes, window, values, .. } = &mut **graph;
        let known = nodes.known(keys, window);
        known.read_keys(0, input)?;
        let all = Chosen::first(known.groups());
        let (mut to, mut new) = (Vec::new(), Vec::new());
        numbers.assign(known, all, &mut to, &mut new);
        input.check(to.iter().copied().eq(0..all.len() as u32), "groups that have one number each")?;
        match nodes {
            Nodes::Slices(slices) => *slices = read_slices(values, all.len(), input)?,
            Nodes::Running(running) => {
                window.read_from(input)?;
                numbers.assign(window, Chosen::first(window.groups()), &mut to, &mut new);
                input.check(new.is_empty(), "groups of a window that have numbers")?;
                running.read_from(to, all.len(), values, input)?;
            }
            Nodes::TwoStacks(stacks) => stacks.read_from(values, all.len(), input)?,
            Nodes::Prefix(period) => {
                if input.flag("whether there is a period")? {
                    *period = Some(input.instant("the end of a period")?);
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
    pub(crate) fn keys_of(&self, pieces: &Pieces) -> &Table {
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

    /// Reads a slice of some of so many groups.
    fn read_from(values: &Arc<EntryLayout>, groups: usize, input: &mut Reader<'_>) -> Result<Slice, SnapshotError> {
        let last_end = input.instant("the end of the last window of a slice")?;
        let values = read_list(values, groups, input)?;
        let to = match input.flag("whether a slice has some of the groups")? {
            true => Some(input.column::<u32>(values.groups(), "numbers of groups")?.to_vec()),
            false => None,
        };
        let are_known = to.iter().flatten().all(|&number| (number as usize) < groups);
        input.check(are_known, "numbers of groups that are known")?;
        Ok(Slice { last_end, values, to })
    }
}

/// Reads what at most so many groups have accumulated.
pub(super) fn read_list(
    values: &Arc<EntryLayout>,
    groups_max: usize,
    input: &mut Reader<'_>,
) -> Result<Table, SnapshotError> {
    let mut list = Table::list(values.clone());
    list.read_from(input)?;
    input.check(list.groups() <= groups_max, "no more groups than are known")?;
    Ok(list)
}

pub(super) fn write_slices<'s>(
    slices: impl IntoIterator<Item = &'s Slice, IntoIter: ExactSizeIterator>,
    out: &mut Writer,
) -> Result<(), SnapshotError> {
    let mut slices = slices.into_iter();
    out.count(slices.len());
    slices.try_for_each(|slice| slice.write_to(out))
}

pub(super) fn read_slices(
    values: &Arc<EntryLayout>,
    groups: usize,
    input: &mut Reader<'_>,
) -> Result<Vec<Slice>, SnapshotError> {
    (0..input.count(1, "slices of windows")?).map(|_| Slice::read_from(values, groups, input)).collect()
}
