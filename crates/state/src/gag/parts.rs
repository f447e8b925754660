//! Windows that leave as what they are put together from: whoever reads them out does that while the next ones close.

use std::sync::{Arc, OnceLock};

use super::two_stacks::{Completeness, SliceStacks, add_to_all};
use super::{Combined, Gag, Nodes, RENUMBERED_GROUPS_MIN, Slice};
use crate::layout::EntryLayout;
use crate::table::{Chosen, LentKeys, Table};
use crate::window::ClosedWindow;

/// What a window is the sum of, all of whose groups are there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Halves<'a> {
    /// The keys of its groups, by their numbers,
    pub keys: &'a Table,
    /// and what tells them.
    pub version: u64,
    /// What the older slices have together, and the younger ones: of the first groups.
    pub lists: (Option<&'a Table>, &'a Table),
}

/// Windows in the order of their ends, none of which has been put together. What all younger slices have together is found from window to window, as
/// the graph does it, so that sums are rounded alike.
#[derive(Debug)]
pub(crate) struct Parts {
    windows: Vec<WindowParts>,
    /// Younger slices that have come since the first of the windows.
    slices: Vec<Arc<Slice>>,
    /// What those before have together.
    younger: Table,
    /// How many groups all windows have at most,
    pub groups: usize,
    /// and may have.
    groups_max: usize,
    /// The keys of all windows are those of the window before them.
    pub keys_have_stayed: bool,
    presence: usize,
    /// Lists that have been read.
    unneeded: Vec<Table>,
    /// A window not all of whose groups are there, and those that are: buffers that are reused.
    sum: Table,
    present: Vec<u32>,
}

/// What one window is put together from.
#[derive(Debug)]
struct WindowParts {
    window: ClosedWindow,
    /// How many groups have numbers,
    groups: usize,
    /// and their keys.
    keys: Arc<SharedKeys>,
    /// What the older slices have together.
    older: Option<Table>,
    /// The slices that were younger ones have become older ones since the window before.
    is_anew: bool,
    /// So many younger slices have come since.
    slices: usize,
}

/// The keys of groups, by their numbers.
#[derive(Debug)]
pub(super) struct SharedKeys {
    keys: Table,
    /// What tells them.
    version: u64,
    /// The same for several windows, one behind the other.
    repeated: OnceLock<Option<LentKeys>>,
}

impl SharedKeys {
    pub fn bytes(&self) -> usize {
        self.keys.bytes() + self.repeated.get().and_then(Option::as_ref).map_or(0, LentKeys::bytes)
    }

    /// The same once for each window of so many groups of all; `None` where they cannot be lent.
    fn repeated(&self, groups: usize) -> Option<&LentKeys> {
        let all = Chosen::first(self.keys.groups());
        let repeat = || {
            let mut repeated = Table::list(self.keys.layout().clone());
            repeated.reserve(groups);
            for _ in 0..groups / all.len() {
                repeated.append_keys(&self.keys, all);
            }
            repeated.share();
            repeated.lend_keys()
        };
        self.repeated.get_or_init(repeat).as_ref()
    }
}

impl Parts {
    fn new(layout: &Arc<EntryLayout>, presence: usize) -> Parts {
        let (younger, sum) = (Table::list(layout.clone()), Table::list(layout.clone()));
        let (windows, slices, unneeded, present) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Parts {
            windows,
            slices,
            younger,
            groups: 0,
            groups_max: 0,
            keys_have_stayed: false,
            presence,
            unneeded,
            sum,
            present,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.windows.is_empty()
    }

    pub fn bytes(&self) -> usize {
        let older = self.windows.iter().filter_map(|part| part.older.as_ref());
        let lists: usize = older.chain(&self.unneeded).map(Table::bytes).sum();
        lists + self.younger.bytes() + self.sum.bytes()
    }

    /// Forgets all windows.
    pub fn clear(&mut self) {
        self.unneeded.extend(self.windows.drain(..).filter_map(|part| part.older));
        self.slices.clear();
        self.groups = 0;
    }

    /// Puts the windows together, whose groups are appended to an empty list.
    pub fn put_together(&mut self, groups: &mut Table, windows: &mut Vec<ClosedWindow>) {
        let Parts { slices, younger, presence, unneeded, sum, present, .. } = self;
        let (presence, mut slices, mut complete) = (*presence, slices.drain(..), Completeness::default());
        for part in self.windows.drain(..) {
            let WindowParts { window, groups: all, keys, older, is_anew, slices: new } = part;
            if is_anew {
                younger.clear();
                complete = Completeness::default();
            }
            slices.by_ref().take(new).for_each(|slice| add_to_all(younger, all, &slice));
            if self.keys_have_stayed && groups.groups() == 0 {
                let lent = keys.repeated(self.groups_max).filter(|lent| self.groups <= lent.groups);
                lent.into_iter().for_each(|lent| groups.borrow_keys(lent));
            }
            let lists = (older.as_ref(), &*younger);
            let count = if complete.is_known(presence, all, lists) {
                groups.append_sums((!groups.borrows_keys()).then_some(&keys.keys), all, lists);
                all
            } else {
                groups.own_keys();
                sum.clear();
                sum.append_sums(None, all, lists);
                let Chosen::Listed(present) = sum.present(presence, present) else { unreachable!("not all are there") };
                groups.append_parts((&keys.keys, present), (sum, present));
                present.len()
            };
            if count > 0 {
                windows.push(ClosedWindow { groups: count, ..window });
            }
            unneeded.extend(older);
        }
        self.groups = 0;
    }
}

impl Gag {
    /// The graph, where the window that is due is the sum of two lists of no more groups than so many.
    pub(crate) fn halved(&mut self, groups_max: usize) -> Option<&mut Combined> {
        let Gag::Combined(graph) = self else { return None };
        let Nodes::TwoStacks(SliceStacks::Lists(lists)) = &graph.nodes else { return None };
        let groups = graph.window.groups();
        // Now and then it is counted which groups are there.
        let must_count = groups >= RENUMBERED_GROUPS_MIN && lists.is_uncounted();
        let is_halved = (1..=groups_max).contains(&groups) && !must_count && !graph.values.has_references();
        is_halved.then_some(graph)
    }
}

impl Combined {
    /// How many groups have numbers.
    pub(crate) fn groups(&self) -> usize {
        self.window.groups()
    }

    /// What tells the keys of the groups that have numbers.
    pub(crate) fn version(&self) -> u64 {
        self.window.key_changes()
    }

    /// What the window that is due is the sum of, where all of its groups are there and it is [`Gag::halved`].
    pub(crate) fn halves(&mut self) -> Option<Halves<'_>> {
        let Nodes::TwoStacks(SliceStacks::Lists(lists)) = &mut self.nodes else { return None };
        let (keys, version) = (&self.window, self.window.key_changes());
        lists.are_all_there(keys.groups()).then(|| Halves { keys, version, lists: lists.halves() })
    }

    /// Adds the window that is due, which is [`Gag::halved`], to those that leave in parts, at most so many groups together.
    pub(crate) fn give(&mut self, window: ClosedWindow, groups_max: usize, parts: &mut Option<Box<Parts>>) {
        let Combined { nodes, window: numbered, values, presence, shared_keys, spare, .. } = self;
        let Nodes::TwoStacks(SliceStacks::Lists(lists)) = nodes else {
            unreachable!("the window is the sum of two lists")
        };
        let parts = parts.get_or_insert_with(|| Box::new(Parts::new(values, *presence)));
        let is_ours = |list: &Table| Arc::ptr_eq(list.layout(), values);
        parts.unneeded.drain(..).filter(is_ours).for_each(|list| spare.keep_list(list));
        let (groups, version) = (numbered.groups(), numbered.key_changes());
        if shared_keys.as_ref().is_none_or(|keys| keys.version != version) {
            let mut keys = Table::list(self.keys.layout().clone());
            keys.append_keys(numbered, Chosen::first(groups));
            *shared_keys = Some(Arc::new(SharedKeys { keys, version, repeated: OnceLock::new() }));
        }
        let keys = shared_keys.clone().expect("they were just shared");
        if parts.windows.is_empty() {
            lists.give_younger(&mut parts.younger);
        }
        let before = parts.slices.len();
        let is_anew = lists.give_slices(&mut parts.slices);
        let slices = parts.slices.len() - before;
        let older = lists.give_older(window.end, spare);
        parts.windows.push(WindowParts { window, groups, keys, older, is_anew, slices });
        parts.groups += groups;
        parts.groups_max = groups_max;
    }
}
