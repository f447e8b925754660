//! JSON: objects, one a line or otherwise, whose members are a row's columns.

pub(crate) mod layout;

pub(crate) mod split;

pub(crate) mod write;

pub(crate) mod infer;

use std::cell::RefCell;
use std::collections::HashSet;

use self::layout::Layout;

/// The names of all members of the first `rows_max` objects of a text, in the order in which they first occur.
pub(crate) fn names(bytes: &[u8], layout: Layout, rows_max: usize) -> Vec<String> {
    let found = RefCell::new((Vec::new(), HashSet::new()));
    split::for_each_name(bytes, layout, rows_max, |name| {
        let (names, known) = &mut *found.borrow_mut();
        let name = String::from_utf8_lossy(name);
        if !known.contains(name.as_ref()) {
            names.push(name.to_string());
            known.insert(name.into_owned());
        }
    });
    found.into_inner().0
}
