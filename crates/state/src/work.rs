//! The unit in which work on state is measured, so that one call does no more than a caller has time for.

use std::ops::Range;

/// To close a window takes as long as to do something with so many groups, beside what is done with its groups.
pub(crate) const GROUPS_PER_WINDOW: usize = 16;

/// So many slices are looked at, for whether they count in a window, in the time that it takes to do something with one group.
pub(crate) const SLICES_PER_GROUP: usize = 4;

/// So many slots are looked at in the time that it takes to do something else with one group.
const LISTED_SLOTS_PER_GROUP: usize = 8;

/// So many groups are listed in that time.
const LISTED_GROUPS_PER_GROUP: usize = 2;

/// The work of listing so many groups that are in so many slots.
pub(crate) fn listing_work(slots: usize, groups: usize) -> usize {
    slots / LISTED_SLOTS_PER_GROUP + groups / LISTED_GROUPS_PER_GROUP
}

/// How much more may be done, in groups that something is done with.
#[derive(Debug)]
pub(crate) struct Work(usize);

impl Work {
    /// So much, and at least something.
    pub fn new(groups_max: usize) -> Work {
        Work(groups_max.max(1))
    }

    pub fn spend(&mut self, groups: usize) {
        self.0 = self.0.saturating_sub(groups);
    }

    pub fn is_done(&self) -> bool {
        self.0 == 0
    }

    /// So many slots may be gone through at a time, or fewer where less may be done.
    pub fn slots(&self, slots_max: usize) -> usize {
        slots_max.min(self.0.saturating_mul(LISTED_SLOTS_PER_GROUP)).max(1)
    }

    /// The same for groups.
    pub fn groups(&self, groups_max: usize) -> usize {
        groups_max.min(self.0).max(1)
    }

    /// Spends what it takes to do something with the first groups that are left: so many at most, or fewer where each is more work.
    pub fn part(&mut self, work_per_group: usize, left: Range<usize>, groups_max: usize) -> Range<usize> {
        let part = left.start..left.end.min(left.start + (groups_max / work_per_group).max(1));
        self.spend(part.len() * work_per_group);
        part
    }
}
