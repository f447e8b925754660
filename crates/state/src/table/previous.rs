//! Previous layouts: groups that a table keeps apart where it would take long to find their entries in another way. With what comes then they are groups of one
//! slice in two tables, as those of several workers are, and are merged as these are, in parts.

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
        let may_have_previous = self.may_have_previous && self.previous.is_none();
        let groups = integer_groups(&mut self.groups);
        if let Some(previous) = groups.prepare(&self.layout, (minimum, maximum), rows, may_have_previous) {
            let mut previous = Table::of(self.layout.clone(), Groups::Integer(Box::new(previous)));
            std::mem::swap(&mut previous.strings, &mut self.strings);
            std::mem::swap(&mut previous.stores, &mut self.stores);
            self.lookups.clear();
            self.previous = Some(Box::new(previous));
        }
        self.integer_mode().expect("a mode was just decided")
    }

    /// The same, where all groups stay.
    pub(crate) fn prepare_all_integers(&mut self, (minimum, maximum): (i64, i64), rows: usize) {
        integer_groups(&mut self.groups).prepare(&self.layout, (minimum, maximum), rows, false);
    }

    /// Keeps groups apart from now on where it would take long to go over from one way of finding their entries to another, instead of moving them at once:
    /// with what comes then they are groups of one slice in two tables, as those of several workers are.
    pub(crate) fn may_keep_previous(&mut self) {
        self.may_have_previous = true;
    }

    /// Takes the groups of its previous layout, and keeps none apart any more.
    pub(crate) fn take_previous(&mut self) -> Option<Table> {
        self.may_have_previous = false;
        self.previous.take().map(|previous| *previous)
    }

    /// The groups of its previous layout.
    pub(crate) fn previous(&self) -> Option<&Table> {
        self.previous.as_deref()
    }
}
