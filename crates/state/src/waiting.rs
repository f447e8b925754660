//! Windows that have closed, on their way out: small ones leave together.

use std::sync::Arc;

use crate::layout::EntryLayout;
use crate::table::{Chosen, LentKeys, Table};
use crate::window::{ClosedGroups, ClosedWindow, Contents};

/// Windows of no more groups than this part of those read out at a time leave together, as many as have so many: their copies stay in the cache. One
/// that has more is read out by itself.
const SMALL_PARTS: usize = 4;

/// What windows that have ended hold, as it is handed on in the order of their ends.
#[derive(Debug)]
pub enum Leaving<'a> {
    /// It is read out at once, for it lies where other windows will.
    Now(Contents<'a>),
    /// Copies: whoever gets them may take them, and read them out while the next windows close.
    Later(&'a mut CopiedGroups),
}

/// Copies of groups of windows, in their order.
#[derive(Debug)]
pub struct CopiedGroups {
    pub(crate) groups: Table,
    pub(crate) windows: Vec<ClosedWindow>,
}

/// What waits to leave with others.
#[derive(Debug)]
pub(crate) struct Waiting {
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

/// Whether a window is read out by itself. A copy costs less than a batch of its own, unless the batch is large.
pub(crate) fn is_large(entries: Chosen<'_>, groups_at_once: usize) -> bool {
    entries.len() > groups_at_once / SMALL_PARTS
}

impl Leaving<'_> {
    /// What the windows hold.
    pub fn contents(&self) -> Contents<'_> {
        match self {
            Leaving::Now(contents) => *contents,
            Leaving::Later(copied) => copied.contents(),
        }
    }
}

impl CopiedGroups {
    pub(crate) fn new(layout: &Arc<EntryLayout>) -> CopiedGroups {
        CopiedGroups { groups: Table::list(layout.clone()), windows: Vec::new() }
    }

    /// The groups.
    pub fn contents(&self) -> Contents<'_> {
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
        self.groups.bytes() + self.windows.capacity() * size_of::<ClosedWindow>()
    }

    /// Forgets them, and keeps the memory.
    pub fn clear(&mut self) {
        self.groups.clear();
        self.windows.clear();
    }
}

impl Waiting {
    /// None yet. Groups will be copied from tables of this layout.
    pub fn new(layout: &Arc<EntryLayout>) -> Waiting {
        Waiting { copied: CopiedGroups::new(layout), last: None, have_stayed: true, left: None }
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
        if !is_large(entries, groups_at_once) {
            return self.take(window, (table, entries, None), groups_at_once, hand_on);
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
        if self.copied.groups.groups() + entries.len() > groups_at_once / SMALL_PARTS {
            self.leave(hand_on)?;
        }
        if is_large(entries, groups_at_once) {
            return hand_on(Leaving::Now(Contents::Groups(groups)));
        }
        self.copied.groups.append(table, entries);
        self.copied.windows.extend_from_slice(windows);
        self.last = None;
        self.have_stayed = false;
        Ok(())
    }

    /// Takes the groups of a small window, and what tells their keys where that is known.
    pub fn take<E>(
        &mut self,
        window: ClosedWindow,
        (table, entries, version): (&Table, Chosen<'_>, Option<u64>),
        groups_at_once: usize,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.copied.groups.groups() + entries.len() > groups_at_once / SMALL_PARTS {
            self.leave(hand_on)?;
        }
        let groups = &mut self.copied.groups;
        match &self.left {
            Some(left) if version == Some(left.version) && groups.groups() + entries.len() <= left.keys.groups => {
                if groups.groups() == 0 {
                    groups.borrow_keys(&left.keys);
                }
            }
            _ => {
                groups.own_keys();
                self.left = None;
            }
        }
        match groups.borrows_keys() {
            true => groups.append_values(table, entries),
            false => groups.append(table, entries),
        }
        let before = std::mem::replace(&mut self.last, version);
        self.have_stayed &= version.is_some() && version == before;
        self.copied.windows.push(ClosedWindow { groups: entries.len(), ..window });
        Ok(())
    }

    /// Hands on what waits.
    pub fn leave<E>(&mut self, hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>) -> Result<(), E> {
        if self.copied.windows.is_empty() {
            return Ok(());
        }
        self.copied.groups.share();
        self.lend_keys();
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
