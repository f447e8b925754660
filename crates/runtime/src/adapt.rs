//! Code that learns what the data looks like (Grizzly, section 6).
//!
//! A pipeline begins with generic code. A sample of its rows is profiled, on one worker at a time; where the profile says that other code would do
//! less, that code runs beside the present one, task by task in alternation, and takes its place if rows then cost less than before by more
//! than noise. Otherwise it is undone, and the next attempt waits twice as long. All variants of a pipeline's code fill the same tables and
//! give the same rows, so that any task may run any of them.
//!
//! In reading order: [`story`] (what happened, for people and programs), `permission` (what the user allows), `predicate_order` (which order would do less), `orders` (what is
//! known of the data and of orders), `sampling` (when rows are profiled), `samples` (what rows cost), `assumed` (how tables find entries, and what is known of NULLs), `trial` (whether that is less), `costs` (what tests make up in its place), `driver` (what runs when), and here what a pipeline's tasks see of it.
//!
//! A new specialisation is an arm of [`Specialisation`], whose name makes it a setting: its signal is counted in a `Profile` or told by what a task has
//! met, its estimate stands in a module of its own (`predicate_order`, `assumed`), its undoing is the code before it, or the generic one, and a guard that
//! it needs is a side exit of its kernel, which goes on by itself.

mod driver;

mod predicate_order;

mod orders;

mod samples;

mod sampling;

mod costs;

mod permission;

mod assumed;

pub mod story;

mod trial;

#[cfg(test)]
mod tests;

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use pelton_data::Block;
use pelton_state::join::Lookups;
use pelton_state::kernel::{Kernel, KernelInput, Scratch, Tier};
use pelton_state::profile::{Met, Profile};

use crate::counters::Misses;
use crate::sync::{Mutex, MutexGuard};

pub use self::costs::Costs;
pub use self::permission::{Permission, Permissions};
use driver::Driver;
use sampling::SAMPLE_ROWS;
use story::{Stories, Story};

/// What can be specialised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Specialisation {
    /// In which order predicates are tested, and which of them over whole blocks.
    PredicateOrder,
    /// Interpreted code in the place of compiled code.
    Tier,
    /// Entries side by side for integer keys that lie close together. Tables decide that themselves, each for its slice and by what the last one
    /// had, guard it, and go over from one to the other with all that they hold; here it is told.
    DenseKeys,
    /// Columns asked for some rows before they are read: where they come from memory, and not from the cache.
    FetchAhead,
    /// Loops without checks for NULL. Each block says whether it has any, so that this costs nothing, and is no guess; here it is told.
    NoNulls,
}

impl Specialisation {
    /// All, in the order in which they are thought of.
    pub const ALL: [Specialisation; 5] = [
        Specialisation::PredicateOrder,
        Specialisation::Tier,
        Specialisation::DenseKeys,
        Specialisation::FetchAhead,
        Specialisation::NoNulls,
    ];

    /// The one of this name.
    pub fn named(name: &str) -> Option<Specialisation> {
        Specialisation::ALL.into_iter().find(|one| one.name() == name)
    }

    /// As settings and people call it.
    pub fn name(self) -> &'static str {
        match self {
            Specialisation::PredicateOrder => "predicate-order",
            Specialisation::Tier => "tier",
            Specialisation::DenseKeys => "dense-keys",
            Specialisation::FetchAhead => "fetch-ahead",
            Specialisation::NoNulls => "no-nulls",
        }
    }
}

/// When code changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Adapt {
    /// When that pays.
    #[default]
    On,
    /// Only from interpreted to compiled.
    Off,
    /// Only from interpreted to compiled; rows are profiled all the time as when the data has changed, to measure what that costs.
    Profile,
    /// At random moments, to random variants: for tests.
    Random {
        /// What chance depends on.
        seed: u64,
    },
}

/// How a pipeline's code may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AdaptOptions {
    /// When.
    pub adapt: Adapt,
    /// To what.
    pub permissions: Permissions,
    /// What code costs in the place of what is measured: for tests.
    pub costs: Option<Costs>,
}

/// Holds the code of a pipeline, which may change between any two tasks, and the tables that it looks rows up in.
pub struct KernelSlot {
    lookups: Mutex<Arc<Lookups>>,
    driver: Mutex<Driver>,
    stories: Stories,
}

/// What one task runs.
pub(crate) struct Pick {
    /// The code.
    pub kernel: Arc<dyn Kernel>,
    /// Which variant it is.
    id: u64,
    /// What is profiled meanwhile.
    sample: Option<Sample>,
    /// Whether what it takes says if rows cost as much as before.
    is_cost_due: bool,
    /// Whether it must be known what the code costs, without what others took of the core.
    pub is_measured: bool,
    /// Whether loops check for NULL even where a block has none.
    pub checks_nulls: bool,
}

/// Rows that are to be profiled.
struct Sample {
    /// The code that knows how: variants of other tiers need not.
    kernel: Arc<dyn Kernel>,
    profile: Profile,
    /// From which row of a block on.
    first: usize,
}

/// What a task has done.
#[derive(Default)]
pub(crate) struct Ran {
    /// Which worker did it.
    pub worker: usize,
    pub rows: u64,
    pub blocks: u64,
    pub busy_ns: u64,
    /// What the code alone has cost, without what was profiled and what others did on the core, where that is measured.
    pub cost_ns: Option<u64>,
    /// What it missed then, where the processor counts that.
    pub misses: Option<Misses>,
    /// When it ended, since the run began.
    pub at_ns: u64,
    pub met: Met,
}

impl Pick {
    /// Profiles some rows of one of the blocks, where that is due.
    pub fn sample(&mut self, blocks: &[(u64, Block)], lookups: &Lookups, scratch: &mut Scratch) {
        let Some(Sample { kernel, profile, first: start }) = &mut self.sample else { return };
        let Some((_, block)) =
            blocks.iter().max_by_key(|(_, block)| block.rows()).filter(|(_, block)| block.rows() > 0)
        else {
            return;
        };
        let first = if block.rows() > SAMPLE_ROWS { *start % (block.rows() - SAMPLE_ROWS) / 64 * 64 } else { 0 };
        let end = block.rows().min(first + SAMPLE_ROWS);
        kernel.profile(KernelInput { block, first, end, mask: None }, lookups, profile, scratch);
    }
}

impl KernelSlot {
    /// A slot with its first code, which took so long to prepare or compile.
    pub fn new(
        kernel: Arc<dyn Kernel>,
        lookups: Arc<Lookups>,
        preparation: Duration,
        options: AdaptOptions,
    ) -> KernelSlot {
        let stories = Stories::default();
        let driver = Mutex::new(Driver::new(kernel, preparation, options, stories.clone()));
        KernelSlot { lookups: Mutex::new(lookups), driver, stories }
    }

    /// The tables that the next task looks rows up in.
    pub(crate) fn lookups(&self) -> Arc<Lookups> {
        self.lookups.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the tables that its code looks rows up in, from the next task on, by others of the same columns and keys.
    pub fn replace_lookups(&self, lookups: Arc<Lookups>) {
        *self.lookups.lock().unwrap_or_else(PoisonError::into_inner) = lookups;
    }

    /// Replaces the generic code from the next task on.
    pub fn store(&self, kernel: Arc<dyn Kernel>, preparation: Duration) {
        self.driver().replace(kernel, preparation);
    }

    /// How the code runs now, and how long it took to prepare or compile it.
    pub fn tier(&self) -> (Tier, Duration) {
        self.driver().tier()
    }

    /// What has become of the code so far.
    pub fn story(&self) -> Story {
        self.stories.read()
    }

    /// The same for later, without keeping the code.
    pub fn stories(&self) -> Stories {
        self.stories.clone()
    }

    /// What the next task runs.
    pub(crate) fn pick(&self) -> Pick {
        self.driver().pick()
    }

    /// Takes in what came of it.
    pub(crate) fn ran(&self, pick: Pick, ran: &Ran) {
        self.driver().ran(pick, ran);
    }

    fn driver(&self) -> MutexGuard<'_, Driver> {
        self.driver.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
