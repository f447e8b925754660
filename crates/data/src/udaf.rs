//! Aggregate functions with states of their own for groups: those that a program defines, and built-in ones that no accumulator of a fixed
//! size computes.
//!
//! Tables number their groups, and let a function change, combine and read the states of many groups in one call: no state is looked at
//! through a virtual call for each record.

use std::any::Any;
use std::fmt::{self, Debug};
use std::panic::resume_unwind;
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
pub struct UdafHandle(pub Arc<dyn AggregateFunction>);

impl PartialEq for UdafHandle {
    fn eq(&self, other: &UdafHandle) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for UdafHandle {}

/// An aggregate function by what becomes of the state of one group. [`function`] makes an [`AggregateFunction`] of it.
///
/// # Errors
/// All methods return what the function's own code returns as errors; it ends the query.
pub trait Definition: Debug + Send + Sync + 'static {
    /// What is kept of a group.
    type State: Send + Sync + 'static;

    /// What queries call it by.
    fn name(&self) -> &str;

    /// What can be done with its states.
    fn merging(&self) -> Merging;

    /// As what states are written down; `None` where they cannot be.
    fn saved_type(&self) -> Option<&DataType>;

    /// The state of a group that has seen no row.
    fn initial(&self) -> Result<Self::State, String>;

    /// Lets rows, as one array for each argument, reach a state.
    fn accumulate(&self, state: &mut Self::State, arguments: &[ArrayRef]) -> Result<(), String>;

    /// Changes states by those of another part, as [`Definition::merging`] allows: of each pair the second by the first.
    fn merge(
        &self,
        states: &mut [Self::State],
        others: &[Self::State],
        pairs: &[(u32, u32)],
        change: Change,
    ) -> Result<(), String>;

    /// States as an array of [`Definition::saved_type`], one value for each.
    fn save(&self, states: &[&Self::State]) -> Result<ArrayRef, String>;

    /// As many states as [`Definition::save`] made such an array of.
    fn restore(&self, saved: &ArrayRef) -> Result<Vec<Self::State>, String>;

    /// The values of states, one for each.
    fn finish(&self, states: &[&Self::State]) -> Result<ArrayRef, String>;

    /// Bytes that states hold elsewhere, as far as they are known.
    fn bytes(&self, _states: &[Self::State]) -> usize {
        0
    }
}

/// The function that a definition is of.
pub fn function(definition: impl Definition) -> Arc<dyn AggregateFunction> {
    Arc::new(Defined(Arc::new(definition)))
}

/// A definition that all tables of a query share.
#[derive(Debug)]
struct Defined<D>(Arc<D>);

impl<D: Definition> AggregateFunction for Defined<D> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn merging(&self) -> Merging {
        self.0.merging()
    }

    fn saved_type(&self) -> Option<&DataType> {
        self.0.saved_type()
    }

    fn states(&self) -> Box<dyn States> {
        Box::new(StatesOf { definition: self.0.clone(), states: Vec::new() })
    }
}

/// The states of groups, side by side.
struct StatesOf<D: Definition> {
    definition: Arc<D>,
    states: Vec<D::State>,
}

impl<D: Definition> Debug for StatesOf<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("States").field(&self.definition.name()).field(&self.states.len()).finish()
    }
}

impl<D: Definition> States for StatesOf<D> {
    fn groups(&self) -> usize {
        self.states.len()
    }

    fn grow_to(&mut self, groups: usize) {
        while self.states.len() < groups {
            match self.definition.initial() {
                Ok(state) => self.states.push(state),
                // Groups without states are nothing that a query could go on with.
                Err(error) => resume_unwind(Box::new(format!("{}: {error}", self.definition.name().to_uppercase()))),
            }
        }
    }

    fn clear(&mut self) {
        self.states.clear();
    }

    fn bytes(&self) -> usize {
        self.states.capacity() * size_of::<D::State>() + self.definition.bytes(&self.states)
    }

    fn accumulate(&mut self, group: u32, arguments: &[ArrayRef]) -> Result<(), String> {
        self.definition.accumulate(&mut self.states[group as usize], arguments)
    }

    fn merge(&mut self, other: &dyn States, pairs: &[(u32, u32)], change: Change) -> Result<(), String> {
        let other: &dyn Any = other;
        let other: &StatesOf<D> = other.downcast_ref().expect("states of one function merge");
        self.definition.merge(&mut self.states, &other.states, pairs, change)
    }

    fn save(&self, groups: &[u32]) -> Result<ArrayRef, String> {
        let states: Vec<&D::State> = groups.iter().map(|&group| &self.states[group as usize]).collect();
        self.definition.save(&states)
    }

    fn restore(&mut self, groups: &[u32], saved: &ArrayRef) -> Result<(), String> {
        let states = self.definition.restore(saved)?;
        if states.len() != groups.len() {
            return Err(format!("it must restore {} states, not {}", groups.len(), states.len()));
        }
        groups.iter().zip(states).for_each(|(&group, state)| self.states[group as usize] = state);
        Ok(())
    }

    fn finish(&self, groups: &[Option<u32>]) -> Result<ArrayRef, String> {
        let initial = self.definition.initial()?;
        let state = |group: &Option<u32>| group.map_or(&initial, |group| &self.states[group as usize]);
        let states: Vec<&D::State> = groups.iter().map(state).collect();
        self.definition.finish(&states)
    }
}
