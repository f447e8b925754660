//! What has become of a pipeline's code: its variants, and what happened to them.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use pelton_state::kernel::Tier;
use pelton_state::profile::KeysFound;

use super::{Specialisation, assumed};
use crate::counters::Misses;
use crate::sync::{Mutex, MutexGuard};

/// Variants whose figures are kept; those that ran longest ago go first.
pub(super) const VARIANTS_MAX: usize = 16;

/// Events of a pipeline that are kept, the last ones.
pub const EVENTS_MAX: usize = 128;

/// What has become of a pipeline's code so far.
#[derive(Debug, Clone, Default)]
pub struct Story {
    /// How far adaptation is.
    pub stage: Stage,
    /// The variants of its code, oldest first.
    pub variants: Vec<Variant>,
    /// What happened, oldest first. Their numbers tell whether some are missing.
    pub events: VecDeque<Event>,
    /// What tables assume of keys by now; nothing where they find them by hash.
    pub keys: Option<String>,
    /// What rows took while keys were found by what is assumed of them, and by hash, whatever code ran.
    pub by_keys: [Spent; 2],
}

/// Rows, and what they took.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spent {
    /// How many.
    pub rows: u64,
    /// Time of workers by the clock, others' on the same cores included.
    pub busy: Duration,
}

impl Story {
    /// What rows took by how keys were found, where that has changed; tables decide by themselves, and nothing is compared before.
    pub fn keys_figures(&self) -> Option<String> {
        let [suited, by_hash] = self.by_keys.map(|spent| (nanos_per(spent.busy, spent.rows), spent.rows));
        let (suited_ns, by_hash_ns) = suited.0.zip(by_hash.0)?;
        Some(format!(
            "with {}: {suited_ns:.2} ns a row by the clock, of {} rows; by hash {by_hash_ns:.2}, of {}",
            Specialisation::DenseKeys.name(),
            suited.1,
            by_hash.1
        ))
    }

    /// What tables assume of keys by now, where that is not what the events say: the range of keys has become wider, or moved on.
    pub fn keys_since(&self) -> Option<String> {
        let told = self.events.iter().rev().find_map(|event| match &event.what {
            What::Assumed { specialisation: Specialisation::DenseKeys, assumption } => Some(Some(assumption)),
            What::Broken { specialisation: Specialisation::DenseKeys } => Some(None),
            _ => None,
        });
        let present = self.keys.as_ref();
        let words = || present.map_or("keys are found by hash".to_owned(), String::clone);
        (present != told.flatten()).then(|| format!("by now {}", words()))
    }
}

/// How far adaptation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stage {
    /// Code that assumes nothing.
    #[default]
    Generic,
    /// Rows are profiled, or two variants compared.
    Instrumented,
    /// Code that suits the data.
    Specialised,
}

/// One variant of a pipeline's code.
#[derive(Debug, Clone)]
pub struct Variant {
    /// Its number among all of the pipeline.
    pub id: u64,
    /// How it runs.
    pub tier: Tier,
    /// What it specialises; generic code nothing.
    pub specialisation: Option<Specialisation>,
    /// What it is made for: the generic code's is empty.
    pub assumption: String,
    /// When it was made, since the run began.
    pub made_at: Duration,
    /// How long it took to prepare or compile it.
    pub preparation: Duration,
    /// By which share rows cost less than with the code before, as last measured.
    pub gain: Option<f64>,
    /// How often a row did not fit its assumption.
    pub guards_failed: u64,
    /// Rows that it has computed.
    pub rows: u64,
    /// Blocks.
    pub blocks: u64,
    /// Time workers spent in it by the clock, others' on the same cores and profiling included.
    pub busy: Duration,
    /// Rows of which it was measured what they cost: while variants are compared, and now and then.
    pub measured_rows: u64,
    /// What these cost: time that workers computed. Gains are of such time.
    pub computed: Duration,
    /// Those of them of which the processor counted misses, where it has such counters,
    pub counted_rows: u64,
    /// and these.
    pub misses: Misses,
    /// Whether it runs now.
    pub is_current: bool,
}

impl Variant {
    /// A variant that has not run.
    pub(super) fn new(id: u64, tier: Tier, specialisation: Option<Specialisation>, assumption: String) -> Variant {
        Variant {
            id,
            tier,
            specialisation,
            assumption,
            made_at: Duration::ZERO,
            preparation: Duration::ZERO,
            gain: None,
            guards_failed: 0,
            rows: 0,
            blocks: 0,
            busy: Duration::ZERO,
            measured_rows: 0,
            computed: Duration::ZERO,
            counted_rows: 0,
            misses: Misses::default(),
            is_current: false,
        }
    }

    /// Nanoseconds a row of input by the clock; `None` before the first.
    pub fn nanos_per_row(&self) -> Option<f64> {
        nanos_per(self.busy, self.rows)
    }

    /// Nanoseconds that were computed for a row of input; `None` before the first was measured.
    pub fn computed_nanos_per_row(&self) -> Option<f64> {
        nanos_per(self.computed, self.measured_rows)
    }

    /// What it is, and all its figures.
    pub fn figures(&self) -> String {
        let what = self.specialisation.map_or("generic", Specialisation::name);
        let mut text = format!(
            "variant {} ({}, {what}{}): made in {:.1} ms at {:.3} s; {} rows in {:.3} s",
            self.id,
            self.tier,
            because(&self.assumption),
            self.preparation.as_secs_f64() * 1e3,
            self.made_at.as_secs_f64(),
            self.rows,
            self.busy.as_secs_f64(),
        );
        if let Some(nanos) = self.nanos_per_row() {
            text += &format!(", {nanos:.2} ns a row by the clock");
        }
        if let Some(nanos) = self.computed_nanos_per_row() {
            text += &format!("; {nanos:.2} ns of processor time a row, of {} measured", self.measured_rows);
        }
        if self.counted_rows > 0 {
            let [cache, branches] =
                [self.misses.cache, self.misses.branches].map(|misses| misses as f64 / self.counted_rows as f64);
            text += &format!(", {cache:.3} cache misses and {branches:.3} mispredicted branches a row");
        }
        if let Some(gain) = self.gain {
            text += &format!("; {} than before", time_a_row(gain));
        }
        text + &format!("; {} guards failed", self.guards_failed)
    }
}

fn nanos_per(time: Duration, rows: u64) -> Option<f64> {
    (rows > 0).then(|| time.as_nanos() as f64 / rows as f64)
}

/// Something that happened to a pipeline's code.
#[derive(Debug, Clone)]
pub struct Event {
    /// Counted from 0.
    pub number: u64,
    /// When, since the run began.
    pub at: Duration,
    /// Rows that the pipeline had computed.
    pub rows: u64,
    /// Which variant it is about.
    pub variant: u64,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// Generic code runs from now on.
    Generic {
        /// How.
        tier: Tier,
    },
    /// A variant runs beside the present code from now on, to be compared with it.
    Tried {
        /// What it specialises; nothing where generic code is tried again.
        specialisation: Option<Specialisation>,
        /// What it is made for.
        assumption: String,
    },
    /// A variant was better, and runs alone from now on.
    Kept {
        /// By which share rows cost less.
        gain: f64,
    },
    /// A variant was no better, and runs no more. No other is tried until so many rows more were profiled.
    Undone {
        /// By which share rows cost less.
        gain: f64,
        /// Profiles.
        profiles: u64,
    },
    /// A variant runs from now on without being compared, as the settings want it.
    Pinned {
        /// What it specialises; nothing for generic code.
        specialisation: Option<Specialisation>,
        /// What it is made for.
        assumption: String,
    },
    /// A variant runs from now on because chance wants it, as the settings say.
    Drawn {
        /// What it specialises; nothing for generic code.
        specialisation: Option<Specialisation>,
    },
    /// State suits what is assumed from now on, whatever code runs.
    Assumed {
        /// What is specialised.
        specialisation: Specialisation,
        /// What is assumed.
        assumption: String,
    },
    /// What was assumed does not hold; state has been made to suit anything, and nothing of it was lost.
    Broken {
        /// What was specialised.
        specialisation: Specialisation,
    },
    /// Rows cost much more than when the code was chosen: the data has changed.
    Regressed {
        /// Cost of a row now in that then.
        factor: f64,
    },
}

impl Event {
    /// What happened, without anything that differs from run to run: no times.
    pub fn summary(&self) -> String {
        let variant = self.variant;
        let of = |specialisation: &Option<Specialisation>| specialisation.map_or("generic", Specialisation::name);
        match &self.what {
            What::Generic { tier } => format!("variant {variant} runs: {tier}, generic"),
            What::Tried { specialisation, assumption } => {
                format!("variant {variant} is tried: {}{}", of(specialisation), because(assumption))
            }
            What::Kept { .. } => format!("variant {variant} is kept: it is faster"),
            What::Undone { .. } => format!("variant {variant} is undone: it is not faster by more than noise"),
            What::Pinned { specialisation, assumption } => {
                format!("variant {variant} runs, pinned: {}{}", of(specialisation), because(assumption))
            }
            What::Drawn { specialisation } => {
                format!("variant {variant} runs, drawn by chance: {}", of(specialisation))
            }
            What::Assumed { specialisation, assumption } => {
                format!("variant {variant} runs on: {}{}", specialisation.name(), because(assumption))
            }
            What::Broken { specialisation } => {
                format!("variant {variant} runs on without {}: that does not hold", specialisation.name())
            }
            What::Regressed { .. } => format!("variant {variant} has become slow: the data has changed"),
        }
    }

    /// The figures that go with it, if any.
    pub fn figures(&self) -> Option<String> {
        match self.what {
            What::Kept { gain } => Some(time_a_row(gain)),
            What::Undone { gain, profiles } => {
                Some(format!("{}; none is tried for {profiles} profiles", time_a_row(gain)))
            }
            What::Regressed { factor } => Some(format!("{factor:.1} times the processor time a row")),
            What::Generic { .. }
            | What::Tried { .. }
            | What::Pinned { .. }
            | What::Drawn { .. }
            | What::Assumed { .. }
            | What::Broken { .. } => None,
        }
    }
}

/// By how much less processor time rows take, or by how much more where nothing was gained.
pub fn time_a_row(gain: f64) -> String {
    let direction = if gain < 0.0 { "more" } else { "less" };
    format!("{:.1} % {direction} processor time a row", gain.abs() * 100.0)
}

fn because(assumption: &str) -> String {
    if assumption.is_empty() { String::new() } else { format!(", as {assumption}") }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Generic => "generic",
            Stage::Instrumented => "instrumented",
            Stage::Specialised => "specialised",
        })
    }
}

/// A pipeline's story while it is written, and for as long as anybody wants to read it.
#[derive(Debug, Clone, Default)]
pub struct Stories(Arc<Mutex<Written>>);

#[derive(Debug, Default)]
pub(super) struct Written {
    story: Story,
    next_event: u64,
    /// Rows that the pipeline has computed, and when it last did, since the run began.
    rows: u64,
    at_ns: u64,
    /// How tables find entries: words are made when somebody reads.
    keys: Option<KeysFound>,
}

impl Stories {
    /// The story so far.
    pub fn read(&self) -> Story {
        let written = self.write();
        Story { keys: written.keys.and_then(assumed::assumption), ..written.story.clone() }
    }

    /// The first event that is kept of those from this number on.
    pub fn first_since(&self, number: u64) -> Option<Event> {
        let written = self.write();
        let events = &written.story.events;
        let forgotten = events.front()?.number;
        events.get(number.saturating_sub(forgotten) as usize).cloned()
    }

    pub(super) fn write(&self) -> MutexGuard<'_, Written> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Written {
    /// Counts what a variant has done. The tables of all workers now find entries by these `keys`.
    pub(super) fn ran(&mut self, id: u64, ran: &super::Ran, keys: Option<KeysFound>) {
        self.rows += ran.rows;
        self.at_ns = ran.at_ns;
        // One that is forgotten meanwhile has no figures.
        if let Some(variant) = self.variant(id) {
            variant.rows += ran.rows;
            variant.blocks += ran.blocks;
            variant.guards_failed += ran.met.guards_failed;
            variant.busy += Duration::from_nanos(ran.busy_ns);
            if let Some(cost_ns) = ran.cost_ns {
                variant.measured_rows += ran.rows;
                variant.computed += Duration::from_nanos(cost_ns);
            }
            if let Some(misses) = ran.misses {
                variant.counted_rows += ran.rows;
                variant.misses += misses;
            }
        }
        self.keys = keys;
        if let Some(keys) = ran.met.keys {
            let spent = &mut self.story.by_keys[usize::from(keys == KeysFound::ByHash)];
            spent.rows += ran.rows;
            spent.busy += Duration::from_nanos(ran.busy_ns);
        }
    }

    /// Notes a new variant.
    pub(super) fn made(&mut self, variant: Variant) {
        let variants = &mut self.story.variants;
        if variants.len() == VARIANTS_MAX {
            let oldest = variants.iter().position(|variant| !variant.is_current && variant.specialisation.is_some());
            variants.remove(oldest.unwrap_or(0));
        }
        variants.push(Variant { made_at: Duration::from_nanos(self.at_ns), ..variant });
    }

    /// Notes what happened to a variant.
    pub(super) fn happened(&mut self, variant: u64, what: What) {
        if let What::Kept { gain } | What::Undone { gain, .. } = what
            && let Some(known) = self.variant(variant)
        {
            known.gain = Some(gain);
        }
        let number = self.next_event;
        self.next_event += 1;
        if self.story.events.len() == EVENTS_MAX {
            self.story.events.pop_front();
        }
        let at = Duration::from_nanos(self.at_ns);
        self.story.events.push_back(Event { number, at, rows: self.rows, variant, what });
    }

    /// Notes which variant runs, and how far adaptation is.
    pub(super) fn stands(&mut self, current: u64, stage: Stage) {
        self.story.stage = stage;
        self.story.variants.iter_mut().for_each(|variant| variant.is_current = variant.id == current);
    }

    fn variant(&mut self, id: u64) -> Option<&mut Variant> {
        self.story.variants.iter_mut().rev().find(|variant| variant.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_are_told_where_they_are_counted() {
        let mut variant = Variant::new(3, Tier::Compiled, None, String::new());
        (variant.measured_rows, variant.computed) = (1000, Duration::from_micros(2));
        let uncounted = "variant 3 (compiled, generic): made in 0.0 ms at 0.000 s; 0 rows in 0.000 s; 2.00 ns of processor time a row, of 1000 measured";
        assert_eq!(variant.figures(), format!("{uncounted}; 0 guards failed"));
        (variant.counted_rows, variant.misses) = (800, Misses { cache: 100, branches: 4 });
        let counted = ", 0.125 cache misses and 0.005 mispredicted branches a row";
        assert_eq!(variant.figures(), format!("{uncounted}{counted}; 0 guards failed"));
    }

    #[test]
    fn what_was_lost_is_not_told_as_a_gain_below_zero() {
        assert_eq!(time_a_row(0.25), "25.0 % less processor time a row");
        assert_eq!(time_a_row(-0.182), "18.2 % more processor time a row");
    }

    #[test]
    fn what_rows_took_by_how_keys_were_found_is_told_where_that_has_changed() {
        let spent = |rows, micros| Spent { rows, busy: Duration::from_micros(micros) };
        let figures = |by_keys| Story { by_keys, ..Story::default() }.keys_figures();
        assert_eq!(figures([spent(1000, 2), Spent::default()]), None);
        assert_eq!(
            figures([spent(1000, 2), spent(500, 4)]).as_deref(),
            Some("with dense-keys: 2.00 ns a row by the clock, of 1000 rows; by hash 8.00, of 500")
        );
    }
}
