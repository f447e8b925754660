//! Groups that a table leaves behind where it would take long to find their entries in another way: with what comes then they are groups of one slice in two
//! tables, as those of several workers are, and are merged as these are, in parts.

use super::integer::IntegerMode;
use super::{Groups, Table, integer_groups};

impl Table {
    /// Makes room for integer keys from `minimum` to `maximum` in `rows` further rows, widening a dense table or changing how
    /// entries are found where that suits all rows so far. A dense table must be prepared for every key before it is
    /// touched, here or by compiled code.
    ///
    /// # Panics
    /// Where the layout's keys are not integer.
    pub fn prepare_integers(&mut self, minimum: i64, maximum: i64, rows: usize) -> IntegerMode {
        let may_leave = self.may_leave && self.left.is_none();
        let groups = integer_groups(&mut self.groups);
        if let Some(left) = groups.prepare(&self.layout, (minimum, maximum), rows, may_leave) {
            let mut left = Table::of(self.layout.clone(), Groups::Integer(Box::new(left)));
            std::mem::swap(&mut left.strings, &mut self.strings);
            std::mem::swap(&mut left.stores, &mut self.stores);
            self.lookups.clear();
            self.left = Some(Box::new(left));
        }
        self.integer_mode().expect("a mode was just decided")
    }

    /// The same, where all groups stay.
    pub(crate) fn prepare_all_integers(&mut self, (minimum, maximum): (i64, i64), rows: usize) {
        integer_groups(&mut self.groups).prepare(&self.layout, (minimum, maximum), rows, false);
    }

    /// Has groups left behind from now on, where it would take long to go over from one way of finding their entries to another, instead of moving them at once:
    /// with what comes then they are groups of one slice in two tables, as those of several workers are.
    pub(crate) fn may_leave_groups(&mut self) {
        self.may_leave = true;
    }

    /// Takes what it has left behind, and leaves nothing behind any more.
    pub(crate) fn take_left(&mut self) -> Option<Table> {
        self.may_leave = false;
        self.left.take().map(|left| *left)
    }

    /// What it has left behind.
    pub(crate) fn left(&self) -> Option<&Table> {
        self.left.as_deref()
    }
}
