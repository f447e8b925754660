//! Aggregate functions that a program defines itself, with states of its own for groups.
//!
//! Tables number their groups, and let a function change, combine and read the states of many groups in one call: no state is looked at
//! through a virtual call for each record.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

/// What can be done with parts of a window: this decides how its value is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Merging {
    /// Nothing: rows are kept, and the value is computed from all of a window's.
    Rows,
    /// States of parts are combined.
    Combine,
    /// States of parts are combined, and taken away again when their rows leave the window.
    Invert,
}

/// What becomes of states by those of another part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The part comes to them.
    Add,
    /// The part, which had come to them, leaves.
    Subtract,
}

/// An aggregate function.
pub trait AggregateFunction: Debug + Send + Sync {
    /// What queries call it by.
    fn name(&self) -> &str;

    /// What can be done with its states.
    fn merging(&self) -> Merging;

    /// As what states are written down; `None` where they cannot be.
    fn saved_type(&self) -> Option<&DataType>;

    /// The states of no groups.
    fn states(&self) -> Box<dyn States>;
}

/// The states of one function for groups, by number from 0 on.
///
/// # Errors
/// What the function's own code returns as errors.
pub trait States: Any + Debug + Send + Sync {
    /// How many groups there are.
    fn groups(&self) -> usize;

    /// Makes sure that there are this many groups; new ones have seen no row.
    fn grow_to(&mut self, groups: usize);

    /// Forgets all groups.
    fn clear(&mut self);

    /// Bytes of memory held, as far as they are known.
    fn bytes(&self) -> usize;

    /// Lets rows, as one array for each argument, reach a group's state.
    fn accumulate(&mut self, group: u32, arguments: &[ArrayRef]) -> Result<(), String>;

    /// Changes states by those of another part: of each pair the second, which is of these, by the first.
    ///
    /// # Panics
    /// Where `other` is of another function, or its [`Merging`] does not allow the change.
    fn merge(&mut self, other: &dyn States, pairs: &[(u32, u32)], change: Change) -> Result<(), String>;

    /// The states of groups as an array of the function's [`AggregateFunction::saved_type`], one value for each.
    fn save(&self, groups: &[u32]) -> Result<ArrayRef, String>;

    /// Gives groups the states that [`States::save`] made such an array of.
    fn restore(&mut self, groups: &[u32], saved: &ArrayRef) -> Result<(), String>;

    /// The values of groups; of one that has seen no row where there is no number.
    fn finish(&self, groups: &[Option<u32>]) -> Result<ArrayRef, String>;
}

/// A function, and itself only.
#[derive(Debug, Clone)]
pub struct OwnFunction(pub Arc<dyn AggregateFunction>);

impl PartialEq for OwnFunction {
    fn eq(&self, other: &OwnFunction) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for OwnFunction {}
