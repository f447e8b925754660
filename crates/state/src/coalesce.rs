//! Coalesces small windows that have closed: they leave together, for to read out each by itself would cost more than to copy it.

use std::sync::Arc;

use crate::gag::{Combined, Halves, Parts};
use crate::layout::EntryLayout;
use crate::table::{Chosen, LentKeys, SummedRows, Table};
use crate::window::{ClosedGroups, ClosedWindow, Contents};

/// Windows of no more groups than this part of those read out at a time leave together, as many as have so many: their copies stay in the cache. One
/// that has more is read out by itself.
const SMALL_PARTS: usize = 4;

/// What windows that have ended hold, as it is handed on in the order of their ends.
#[derive(Debug)]
pub enum Leaving<'a> {
    /// It is read out at once, for it lies where other windows will.
    Now(Contents<'a>),
    /// Copies, or what windows are put together from: whoever gets them may take them, and read them out while the next windows close.
    Later(&'a mut CopiedGroups),
}

/// Copies of groups of windows, in their order, or what these windows are put together from.
#[derive(Debug)]
pub struct CopiedGroups {
    pub(crate) groups: Table,
    pub(crate) windows: Vec<ClosedWindow>,
    /// There are either these or the others.
    parts: Option<Box<Parts>>,
}

/// The groups of a small window.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SmallWindow<'a> {
    /// Some of a table, with what tells their keys where that is known.
    Entries(&'a Table, Chosen<'a>, Option<u64>),
    /// All of two lists.
    Halves(Halves<'a>),
}

/// Windows that are held until they leave together.
#[derive(Debug)]
pub(crate) struct Coalescer {
    copied: CopiedGroups,
    /// What tells the keys of the window that came last, where that is known.
    last: Option<u64>,
    /// Whether the keys of all windows that wait are those of the window before them.
    have_stayed: bool,
    /// Keys that have left: windows mostly have the same groups as those before.
    left: Option<LeftKeys>,
}

/// Keys of windows that have left.
#[derive(Debug)]
struct LeftKeys {
    keys: LentKeys,
    /// What tells the keys of each of the windows: all have the same.
    version: u64,
}

/// Windows of more groups are read out by themselves. A copy costs less than a batch of its own, unless the batch is large.
pub(crate) fn small_groups_max(groups_at_once: usize) -> usize {
    groups_at_once / SMALL_PARTS
}

/// Whether groups are copied, to be read out with those of other windows.
pub(crate) fn is_small(table: &Table, entries: Chosen<'_>, groups_at_once: usize) -> bool {
    entries.len() <= small_groups_max(groups_at_once) && !table.layout().keeps_sets()
}

impl Leaving<'_> {
    /// What the windows hold.
    pub fn contents(&mut self) -> Contents<'_> {
        match self {
            Leaving::Now(contents) => *contents,
            Leaving::Later(copied) => copied.contents(),
        }
    }
}

impl CopiedGroups {
    pub(crate) fn new(layout: &Arc<EntryLayout>) -> CopiedGroups {
        CopiedGroups::of(Table::list(layout.clone()), Vec::new())
    }

    /// The groups of these windows.
    pub(crate) fn of(groups: Table, windows: Vec<ClosedWindow>) -> CopiedGroups {
        CopiedGroups { groups, windows, parts: None }
    }

    /// The groups, put together where they were not.
    pub fn contents(&mut self) -> Contents<'_> {
        if let Some(parts) = self.parts.as_mut().filter(|parts| !parts.is_empty()) {
            parts.put_together(&mut self.groups, &mut self.windows);
            self.groups.share();
        }
        let entries = Chosen::first(self.groups.groups());
        Contents::Groups(ClosedGroups { table: &self.groups, entries, windows: &self.windows })
    }

    /// Takes them, and leaves a spare in their place, or a new one.
    pub fn take(&mut self, spare: Option<CopiedGroups>) -> CopiedGroups {
        let next = spare.unwrap_or_else(|| CopiedGroups::new(self.groups.layout()));
        std::mem::replace(self, next)
    }

    /// Bytes of memory held.
    pub(crate) fn bytes(&self) -> usize {
        let parts = self.parts.as_ref().map_or(0, |parts| parts.bytes());
        self.groups.bytes() + self.windows.capacity() * size_of::<ClosedWindow>() + parts
    }

    /// Forgets them, and keeps the memory.
    pub fn clear(&mut self) {
        self.groups.clear();
        self.windows.clear();
        self.parts.iter_mut().for_each(|parts| parts.clear());
    }

    /// How many groups windows have at most that have not been put together.
    fn groups_in_parts(&self) -> usize {
        self.parts.as_ref().map_or(0, |parts| parts.groups)
    }
}

impl Coalescer {
    /// None yet. Groups will be copied from tables of this layout.
    pub fn new(layout: &Arc<EntryLayout>) -> Coalescer {
        Coalescer { copied: CopiedGroups::new(layout), last: None, have_stayed: true, left: None }
    }

    /// A window without groups, which is reported all the same.
    pub fn take_empty(&mut self, window: ClosedWindow) {
        self.copied.windows.push(window);
    }

    pub fn bytes(&self) -> usize {
        self.copied.bytes() + self.left.as_ref().map_or(0, |left| left.keys.bytes())
    }

    /// Takes a window's groups, or hands all of them on where they are many.
    pub fn take_or_hand_on<E>(
        &mut self,
        window: ClosedWindow,
        (table, entries): (&Table, Chosen<'_>),
        groups_at_once: usize,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if is_small(table, entries, groups_at_once) {
            return self.take(window, SmallWindow::Entries(table, entries, None), groups_at_once, hand_on);
        }
        self.leave(hand_on)?;
        entries.chunks(groups_at_once).try_for_each(|entries| {
            let window = ClosedWindow { groups: entries.len(), ..window };
            hand_on(Leaving::Now(Contents::Groups(ClosedGroups { table, entries, windows: &[window] })))
        })
    }

    /// Takes groups with a window each, or hands them on where they are many.
    pub fn take_all<E>(
        &mut self,
        groups: ClosedGroups<'_>,
        groups_at_once: usize,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let ClosedGroups { table, entries, windows } = groups;
        let small_max = small_groups_max(groups_at_once);
        if self.copied.groups.groups() + entries.len() > small_max || self.copied.groups_in_parts() > 0 {
            self.leave(hand_on)?;
        }
        if entries.len() > small_max {
            return hand_on(Leaving::Now(Contents::Groups(groups)));
        }
        self.copied.groups.own_keys();
        self.left = None;
        self.copied.groups.append(table, entries);
        self.copied.windows.extend_from_slice(windows);
        self.note_keys(None);
        Ok(())
    }

    /// Takes the groups of a small window.
    pub fn take<E>(
        &mut self,
        window: ClosedWindow,
        small: SmallWindow<'_>,
        groups_at_once: usize,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (count, version) = match small {
            SmallWindow::Entries(_, entries, version) => (entries.len(), version),
            SmallWindow::Halves(halves) => (halves.keys.groups(), Some(halves.version)),
        };
        if self.room(groups_at_once) < count {
            self.leave(hand_on)?;
        }
        let groups = self.keyed(count, version);
        match (small, groups.borrows_keys()) {
            (SmallWindow::Entries(table, entries, _), true) => groups.append_values(table, entries),
            (SmallWindow::Entries(table, entries, _), false) => groups.append(table, entries),
            (SmallWindow::Halves(halves), true) => groups.append_sums(None, count, halves.lists),
            (SmallWindow::Halves(halves), false) => groups.append_sums(Some(halves.keys), count, halves.lists),
        }
        self.note_keys(version);
        self.copied.windows.push(ClosedWindow { groups: count, ..window });
        Ok(())
    }

    /// How many groups of small windows have room beside those that wait, until these leave.
    pub fn room(&self, groups_at_once: usize) -> usize {
        let is_free = self.copied.groups_in_parts() == 0;
        let room = small_groups_max(groups_at_once).saturating_sub(self.copied.groups.groups());
        if is_free { room } else { 0 }
    }

    /// The list of groups that wait, which borrows keys if those of so many more are known to be the ones that have left.
    fn keyed(&mut self, count: usize, version: Option<u64>) -> &mut Table {
        let groups = &mut self.copied.groups;
        match &self.left {
            Some(left) if version == Some(left.version) && groups.groups() + count <= left.keys.groups => {
                if groups.groups() == 0 {
                    groups.borrow_keys(&left.keys);
                }
            }
            _ => {
                groups.own_keys();
                self.left = None;
            }
        }
        groups
    }

    /// Takes small windows that follow each other, all of the same groups, for which there is room. `keys` and `version` are those of a row's.
    pub fn take_rows(
        &mut self,
        windows: impl Iterator<Item = ClosedWindow>,
        (rows, keys, version): (SummedRows<'_>, &Table, u64),
    ) {
        let groups = self.keyed(rows.rows * rows.groups, Some(version));
        groups.append_rows((!groups.borrows_keys()).then_some(keys), rows);
        self.note_keys(Some(version));
        self.copied.windows.extend(windows.map(|window| ClosedWindow { groups: rows.groups, ..window }));
    }

    /// Takes what a small window is put together from.
    pub fn take_parts<E>(
        &mut self,
        window: ClosedWindow,
        graph: &mut Combined,
        groups_at_once: usize,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let groups_max = small_groups_max(groups_at_once);
        let has_room = self.copied.groups_in_parts() + graph.groups() <= groups_max;
        if !has_room || !self.copied.windows.is_empty() {
            self.leave(hand_on)?;
        }
        graph.give(window, groups_max, &mut self.copied.parts);
        self.note_keys(Some(graph.version()));
        Ok(())
    }

    /// Notes what tells the keys of the window that comes, where that is known.
    fn note_keys(&mut self, version: Option<u64>) {
        let before = std::mem::replace(&mut self.last, version);
        self.have_stayed &= version.is_some() && version == before;
    }

    /// Hands on the windows that have not been put together.
    pub fn leave_in_parts<E>(&mut self, hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>) -> Result<(), E> {
        if self.copied.groups_in_parts() > 0 { self.leave(hand_on) } else { Ok(()) }
    }

    /// Hands on what waits.
    pub fn leave<E>(&mut self, hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>) -> Result<(), E> {
        if let Some(parts) = self.copied.parts.as_mut().filter(|parts| !parts.is_empty()) {
            parts.keys_have_stayed = std::mem::replace(&mut self.have_stayed, true);
        } else if !self.copied.windows.is_empty() {
            self.copied.groups.share();
            self.lend_keys();
        } else {
            return Ok(());
        }
        let result = hand_on(Leaving::Later(&mut self.copied));
        self.copied.clear();
        result
    }

    /// Keeps the keys of what leaves for what comes, where these are likely to be the same: they have not changed since what left before.
    fn lend_keys(&mut self) {
        let have_stayed = std::mem::replace(&mut self.have_stayed, true);
        let version = self.last.filter(|_| have_stayed && !self.copied.groups.borrows_keys());
        if let Some(version) = version {
            self.left = self.copied.groups.lend_keys().map(|keys| LeftKeys { keys, version });
        }
    }
}
