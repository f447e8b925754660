//! What keeps the world outside from doing what it is told: the process or the machine dies between any two of its operations, and operations fail.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::Dice;

/// Whether an operation of the world outside succeeds. Clones are the same power.
#[derive(Clone)]
pub(super) struct Power(Arc<Mutex<State>>);

struct State {
    dice: Dice,
    /// Nothing happens any more.
    is_off: bool,
    /// Operations until that.
    operations_left: Option<usize>,
    /// Operations that may still fail.
    failures_left: usize,
    /// Operations that have failed since the power was switched on.
    failures: usize,
}

/// What becomes of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Succeeds,
    /// It fails, and has no effect.
    Fails,
    /// It has its effect, and who asked for it does not learn that.
    FailsBehindEffect,
}

impl Outcome {
    pub fn has_effect(self) -> bool {
        self != Outcome::Fails
    }

    /// What who asked is told.
    pub fn told<T>(self, value: T) -> io::Result<T> {
        match self {
            Outcome::Succeeds => Ok(value),
            Outcome::Fails | Outcome::FailsBehindEffect => Err(failure()),
        }
    }
}

pub(super) fn failure() -> io::Error {
    io::Error::other("the simulation has it fail")
}

/// One of so many operations fails while some may.
const FAILS_ONE_IN: usize = 60;

impl Power {
    /// So many operations fail at most.
    pub fn new(seed: u64, failures_max: usize) -> Power {
        let state =
            State { dice: Dice(seed), is_off: false, operations_left: None, failures_left: failures_max, failures: 0 };
        Power(Arc::new(Mutex::new(state)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on things happen, for so many operations or for good.
    pub fn switch_on(&self, operations: Option<usize>) {
        let mut state = self.state();
        (state.is_off, state.operations_left, state.failures) = (false, operations, 0);
    }

    /// From now on nothing happens.
    pub fn switch_off(&self) {
        self.state().is_off = true;
    }

    pub fn is_off(&self) -> bool {
        self.state().is_off
    }

    /// Whether an operation has failed since it was switched on.
    pub fn has_failed(&self) -> bool {
        self.state().failures > 0
    }

    /// A number by chance.
    pub fn below(&self, bound: usize) -> usize {
        self.state().dice.below(bound)
    }

    /// What becomes of an operation that changes something.
    pub fn outcome(&self) -> Outcome {
        let mut state = self.state();
        if state.is_off {
            return Outcome::Fails;
        }
        state.operations_left = state.operations_left.map(|left| left.saturating_sub(1));
        let dies = state.operations_left == Some(0);
        let fails = state.failures_left > 0 && state.dice.one_in(FAILS_ONE_IN);
        state.is_off = dies;
        if !dies && !fails {
            return Outcome::Succeeds;
        }
        state.failures_left -= usize::from(fails && !dies);
        state.failures += 1;
        if state.dice.one_in(2) { Outcome::Fails } else { Outcome::FailsBehindEffect }
    }

    /// Whether something can be read.
    pub fn reads(&self) -> io::Result<()> {
        if self.is_off() { Err(failure()) } else { Ok(()) }
    }
}
