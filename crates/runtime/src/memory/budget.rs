//! How much memory queries may take: all queries of an engine together, and each operator by itself.
//!
//! Each operator's bytes are measured after it has changed, and charged to the engine's budget. The query that goes over a limit fails alone,
//! and gives back what it has; the others go on (Enjima, section 3.1: limits per operator and per engine that are held). Rows that wait have
//! a part of the same budget, and where that is spent inputs are not read until they have gone: neither has state less room because rows wait, nor do they
//! have none beside it.

mod size;

use std::sync::Arc;

use arrow::array::RecordBatch;
use pelton_data::allowance::Allowance;
use pelton_data::column::bytes_of;
use pelton_state::kernel::KernelError;

use crate::clock::Clock;
use crate::scheduler::wake::Awaited;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use size::Beyond;
pub(crate) use size::Bytes;

/// The largest part of the time that measuring may take is one of so many.
const MEASURING_PART: u64 = 100;

/// Less than this it takes at no time.
const MEASURING_NS_MIN: u64 = 250;

/// State takes a good part of its memory where it takes one of so many: a table that grows takes twice as much meanwhile.
const SHORT_PART: usize = 2;

/// One of so many parts of the memory is for rows that wait, the others are for state.
const WAITING_PART: usize = 4;

/// One of so many parts of that is for rows which no query has read yet: the others are left for those that pass through it.
const UNREAD_PART: usize = 2;

/// What a batch takes beside its rows, about, and each of its columns: of few rows it is the most.
const BATCH_BYTES: usize = 128;
const COLUMN_BYTES: usize = 192;

/// What makes the state of windows smaller,
const FEWER_GROUPS: &str = "have fewer groups or rows in open windows";

/// of functions OVER rows,
const SHORTER_FRAMES: &str = "have fewer keys, or fewer rows in frames";

/// and what is put in order.
const FEWER_ROWS: &str = "have fewer rows to put in order: add a LIMIT, or a smaller one";

/// What all runs of an engine take, and a query of it, and may take. Clones are the same budget.
#[derive(Debug, Clone, Default)]
pub struct Budget {
    all: Arc<Taken>,
    query: Arc<OfQuery>,
}

#[derive(Debug)]
struct Taken {
    /// Bytes that all may take.
    bytes_max: AtomicUsize,
    /// Bytes of what operators remember,
    state: AtomicUsize,
    /// of rows that wait in queries,
    waiting: AtomicUsize,
    /// and of those in front of their inputs.
    before_inputs: AtomicUsize,
}

#[derive(Debug)]
struct OfQuery {
    /// Bytes of its state.
    state: AtomicUsize,
    /// Bytes that the state of each of its operators may take, and what waits in front of it.
    operator_bytes_max: usize,
}

impl Default for Taken {
    fn default() -> Taken {
        let (state, waiting, before_inputs) = Default::default();
        Taken { bytes_max: AtomicUsize::new(usize::MAX), state, waiting, before_inputs }
    }
}

impl Default for OfQuery {
    fn default() -> OfQuery {
        OfQuery { state: AtomicUsize::default(), operator_bytes_max: usize::MAX }
    }
}

impl Budget {
    /// The same budget, for another query, whose operators may take so much each.
    pub fn for_query(&self, operator_bytes_max: usize) -> Budget {
        Budget { all: self.all.clone(), query: Arc::new(OfQuery { operator_bytes_max, ..OfQuery::default() }) }
    }

    /// Has all queries take so much at most from now on, those that run as well: what they have they keep.
    pub fn limit(&self, bytes_max: usize) {
        self.all.bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    /// What a function may make of the rows of a block.
    pub fn allowance(&self) -> Allowance {
        Allowance::of_memory(self.bytes_max())
    }

    /// Bytes that the state of all queries takes.
    pub fn bytes(&self) -> usize {
        self.all.state.load(Ordering::Relaxed)
    }

    /// Bytes that the state of the query takes, with what it has read into memory to join with or to replay.
    pub fn query_bytes(&self) -> usize {
        self.query.state.load(Ordering::Relaxed)
    }

    /// Bytes of rows that wait in all queries, and in front of their inputs.
    pub fn waiting_bytes(&self) -> usize {
        self.all.waiting.load(Ordering::Relaxed) + self.all.before_inputs.load(Ordering::Relaxed)
    }

    fn bytes_max(&self) -> usize {
        self.all.bytes_max.load(Ordering::Relaxed)
    }

    /// Bytes that the state of all may take together.
    fn state_bytes_max(&self) -> usize {
        let bytes_max = self.bytes_max();
        bytes_max - bytes_max / WAITING_PART
    }

    /// Bytes that rows which wait may take together.
    fn room(&self) -> usize {
        self.bytes_max() / WAITING_PART
    }

    /// Whether more rows may wait in queries. Those in front of inputs take a part of the room at most, or they would be in their own way.
    pub fn has_room(&self) -> bool {
        let room = self.room();
        let before_inputs = self.all.before_inputs.load(Ordering::Relaxed).min(room / UNREAD_PART);
        self.all.waiting.load(Ordering::Relaxed) + before_inputs < room
    }

    /// Whether more rows may wait in front of a query's inputs; nothing where memory is not limited, so that something else must limit these.
    pub fn has_room_before_inputs(&self) -> Option<bool> {
        let bytes_max = Some(self.bytes_max()).filter(|&bytes_max| bytes_max != usize::MAX);
        bytes_max.map(|_| self.waiting_bytes() < self.room() / UNREAD_PART)
    }

    /// Charges rows that wait in front of a query's input.
    pub fn charge_waiting(&self, rows: &RecordBatch) -> ChargedRows {
        let bytes = bytes_of(rows) + BATCH_BYTES + rows.num_columns() * COLUMN_BYTES;
        self.all.before_inputs.fetch_add(bytes, Ordering::Relaxed);
        ChargedRows { all: self.all.clone(), bytes }
    }

    /// Whether the state of the query, or of all, it among them, takes a good part of what it may: more of it should not come without need.
    pub(crate) fn lacks_state(&self) -> bool {
        let Budget { all, query } = self;
        let (of_all, of_query) = (all.state.load(Ordering::Relaxed), query.state.load(Ordering::Relaxed));
        of_query > 0
            && (of_all >= self.state_bytes_max() / SHORT_PART || of_query >= query.operator_bytes_max / SHORT_PART)
    }

    /// Takes more, where the state of all is at most as much as may be then. What a run does not get no other goes without.
    ///
    /// # Errors
    /// What all would be, and may be.
    fn take(&self, more: usize) -> Result<(), Beyond> {
        let bytes_max = self.state_bytes_max();
        let sum = |taken: usize| Some(taken + more).filter(|&all| all <= bytes_max);
        let taken = self.all.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
        taken.map_err(|taken| Beyond { bytes: taken + more, bytes_max })?;
        self.query.state.fetch_add(more, Ordering::Relaxed);
        Ok(())
    }

    fn give_back(&self, less: usize) {
        self.all.state.fetch_sub(less, Ordering::Relaxed);
        self.query.state.fetch_sub(less, Ordering::Relaxed);
    }

    /// Takes more for an operator, which has so many bytes then.
    ///
    /// # Errors
    /// Where it, or all together, would have more than allowed: what, and what to do about it.
    fn take_for(&self, of_operator: usize, more: usize, advice: &str) -> Result<(), KernelError> {
        let bytes_max = self.query.operator_bytes_max;
        let exceeded = if of_operator > bytes_max {
            let of_operator = Beyond { bytes: of_operator, bytes_max };
            format!("{of_operator}, more than 'pelton.memory.operator' = '{}' allows", Bytes(bytes_max))
        } else if let Err(all) = self.take(more) {
            let [of_operator, for_state, allowed] = [of_operator, all.bytes_max, self.bytes_max()].map(Bytes);
            format!(
                "{of_operator}, and that of all queries {all}, more than the {for_state} for it of 'pelton.memory' = '{allowed}'"
            )
        } else {
            return Ok(());
        };
        Err(KernelError::State(format!("its state takes {exceeded}: SET a larger size, or {advice}")))
    }

    /// Something that nothing is charged for yet.
    pub fn held(&self) -> Held {
        Held { budget: self.clone(), bytes: 0 }
    }
}

/// Bytes that are charged to a budget until this is gone.
#[derive(Debug)]
pub struct Held {
    budget: Budget,
    bytes: usize,
}

impl Held {
    /// Charges so many in place of those before.
    ///
    /// # Errors
    /// Where they are more than before, and than allowed: what, and what to do about it. Then those before are charged.
    pub fn set(&mut self, bytes: usize, advice: &str) -> Result<(), KernelError> {
        match bytes.checked_sub(self.bytes) {
            Some(0) => {}
            Some(more) => self.budget.take_for(bytes, more, advice)?,
            None => self.budget.give_back(self.bytes - bytes),
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}

/// Rows in front of an input that are charged to a budget until this is gone.
#[derive(Debug)]
pub struct ChargedRows {
    all: Arc<Taken>,
    bytes: usize,
}

impl Drop for ChargedRows {
    fn drop(&mut self) {
        self.all.before_inputs.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What the operators of one run take of the budget. It is given back with the run.
#[derive(Debug)]
pub(crate) struct Account {
    budget: Budget,
    /// For each operator, the parts of its state that are measured apart.
    operators: Vec<Vec<AccountEntry>>,
}

/// A part of an operator's state: a worker's, or what workers share. No two workers write one line of memory.
#[derive(Debug, Default)]
#[repr(align(128))]
struct AccountEntry {
    bytes: AtomicUsize,
    /// How long measuring it takes, about.
    measuring_ns: AtomicU64,
    /// It is not measured again before this instant.
    next_ns: AtomicU64,
}

impl Account {
    /// For operators with so many parts each.
    pub fn new(budget: Budget, parts: impl Iterator<Item = usize>) -> Account {
        let operators =
            parts.map(|count| std::iter::repeat_with(AccountEntry::default).take(count).collect()).collect();
        Account { budget, operators }
    }

    /// Charges what `measure` says that a part of an operator's state takes now, unless measuring it that often would cost too much. Workers may charge one part at the same
    /// time; the last one counts.
    ///
    /// # Errors
    /// Where the operator takes more than before, and it or all together more than allowed.
    pub fn charge(
        &self,
        operator: usize,
        part: usize,
        clock: &Clock,
        measure: impl FnOnce() -> usize,
    ) -> Result<(), KernelError> {
        self.charge_with(operator, part, clock, FEWER_GROUPS, measure)
    }

    /// The same, of a part that has been measured.
    ///
    /// # Errors
    /// As [`Account::charge`].
    pub fn charge_now(&self, operator: usize, part: usize, bytes: usize) -> Result<(), KernelError> {
        self.set(operator, part, bytes, FEWER_GROUPS)
    }

    /// Charges rows that functions OVER rows look back at, or that wait for them.
    ///
    /// # Errors
    /// As [`Account::charge`].
    pub fn charge_frames(
        &self,
        operator: usize,
        clock: &Clock,
        measure: impl FnOnce() -> usize,
    ) -> Result<(), KernelError> {
        self.charge_with(operator, 0, clock, SHORTER_FRAMES, measure)
    }

    /// Charges rows that an output keeps to put them in order.
    ///
    /// # Errors
    /// As [`Account::charge`].
    pub fn charge_sorted(
        &self,
        operator: usize,
        clock: &Clock,
        measure: impl FnOnce() -> usize,
    ) -> Result<(), KernelError> {
        self.charge_with(operator, 0, clock, FEWER_ROWS, measure)
    }

    /// Whether it is time to measure a part of an operator's state again.
    pub fn is_due(&self, operator: usize, part: usize, now_ns: u64) -> bool {
        now_ns >= self.operators[operator][part].next_ns.load(Ordering::Relaxed)
    }

    fn charge_with(
        &self,
        operator: usize,
        part: usize,
        clock: &Clock,
        advice: &str,
        measure: impl FnOnce() -> usize,
    ) -> Result<(), KernelError> {
        let (node, began_ns) = (&self.operators[operator][part], clock.nanos());
        if !self.is_due(operator, part, began_ns) {
            return Ok(());
        }
        let bytes = measure();
        let ended_ns = clock.nanos();
        // Who measures may have lost its core meanwhile: once is no reason to look away for long.
        let usual_ns = node.measuring_ns.load(Ordering::Relaxed).max(MEASURING_NS_MIN);
        let measuring_ns = (ended_ns - began_ns).min(2 * usual_ns);
        node.measuring_ns.store(measuring_ns, Ordering::Relaxed);
        node.next_ns.store(ended_ns + measuring_ns * MEASURING_PART, Ordering::Relaxed);
        self.set(operator, part, bytes, advice)
    }

    fn set(&self, operator: usize, part: usize, bytes: usize, advice: &str) -> Result<(), KernelError> {
        let counted = &self.operators[operator][part].bytes;
        loop {
            let before = counted.load(Ordering::Relaxed);
            if bytes == before {
                // As nearly always: what all workers count is not touched.
                return Ok(());
            }
            if bytes > before {
                let of_operator = (self.operator_bytes(operator) + bytes).saturating_sub(before);
                self.budget.take_for(of_operator, bytes - before, advice)?;
            }
            // Another worker may have charged the same part meanwhile: what is given back must have been taken.
            let has_set = counted.compare_exchange(before, bytes, Ordering::Relaxed, Ordering::Relaxed).is_ok();
            match has_set {
                true if bytes < before => self.budget.give_back(before - bytes),
                false if bytes > before => self.budget.give_back(bytes - before),
                _ => {}
            }
            if has_set {
                return Ok(());
            }
        }
    }

    /// Bytes that an operator may take beyond what it has, as things stand.
    pub fn allowed(&self, operator: usize) -> usize {
        let Budget { all, query } = &self.budget;
        let (of_all, of_operator) = (all.bytes_max.load(Ordering::Relaxed), query.operator_bytes_max);
        if of_all.min(of_operator) == usize::MAX {
            return usize::MAX;
        }
        let left_of_all = self.budget.state_bytes_max().saturating_sub(self.budget.bytes());
        left_of_all.min(of_operator.saturating_sub(self.operator_bytes(operator)))
    }

    /// Bytes that an operator takes, when its parts were measured last.
    pub fn operator_bytes(&self, operator: usize) -> usize {
        self.operators[operator].iter().map(|part| part.bytes.load(Ordering::Relaxed)).sum()
    }

    /// Gives back all, when no state is left.
    pub fn give_back(&self) {
        for part in self.operators.iter().flatten() {
            self.budget.give_back(part.bytes.swap(0, Ordering::Relaxed));
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Rows of one run that were read and wait. What they take is given back with the run.
///
/// They never make a query fail: where there is no room for more, its inputs are not read. A run of which nothing waits may read in any case, and a region of one in front
/// of whose operators nothing does, whatever results wait for their readers: so each gets on, however much others have waiting; and what is read at once, and being computed, is beyond the limit.
#[derive(Debug)]
pub(crate) struct InputCharge {
    budget: Budget,
    bytes: usize,
    unread: Unread,
}

impl InputCharge {
    pub fn new(budget: Budget, unread: Unread) -> InputCharge {
        InputCharge { budget, bytes: 0, unread }
    }

    /// What waits for whoever reads results.
    pub fn unread(&self) -> &Unread {
        &self.unread
    }

    /// Whether it matters how much waits.
    pub fn is_limited(&self) -> bool {
        self.budget.bytes_max() != usize::MAX
    }

    /// Whether state is short of memory, where it is limited.
    pub fn lacks_state(&self) -> bool {
        self.budget.lacks_state()
    }

    /// Charges what waits now.
    pub fn set(&mut self, bytes: usize) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        if bytes == before {
            return;
        }
        let all = &self.budget.all.waiting;
        // It wraps around where less waits than before.
        all.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Whether more may be read.
    pub fn has_room(&self) -> bool {
        self.bytes + self.unread.bytes() == 0 || self.budget.has_room()
    }

    /// Bytes that were charged last.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes that each of so many regions of the run may have waiting while others have some.
    pub fn share(&self, regions: usize) -> usize {
        self.budget.room() / regions.max(1)
    }

    /// Whether as much waits in front of an operator as may: there is always room for one block.
    pub fn is_full_of(&self, bytes: usize) -> bool {
        bytes > 0 && bytes >= self.budget.query.operator_bytes_max
    }

    /// The same as [`InputCharge::has_room`], where the run is looked at again when results have been read that there is no room beside.
    pub fn has_room_or_awaits(&self) -> bool {
        self.has_room() || {
            self.unread.await_reader();
            self.has_room()
        }
    }
}

impl Drop for InputCharge {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Results of a run that wait for whoever reads them, charged to the budget as long. Clones are of the same run.
#[derive(Debug, Clone, Default)]
pub struct Unread(Arc<Results>);

#[derive(Debug, Default)]
struct Results {
    budget: Budget,
    bytes: AtomicUsize,
    rows: AtomicU64,
    /// The run looks whether there is room again.
    awaited: Awaited,
}

impl Unread {
    /// Nothing yet.
    pub fn new(budget: Budget) -> Unread {
        let (bytes, rows, awaited) = Default::default();
        Unread(Arc::new(Results { budget, bytes, rows, awaited }))
    }

    /// Counts results, before whoever reads has them.
    pub fn add(&self, results: &RecordBatch) {
        let bytes = bytes_of(results);
        self.0.rows.fetch_add(results.num_rows() as u64, Ordering::Relaxed);
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.0.budget.all.waiting.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts them no more. Returns whether the run waits for that, and is to be woken.
    pub fn read(&self, results: &RecordBatch) -> bool {
        let bytes = bytes_of(results);
        self.0.rows.fetch_sub(results.num_rows() as u64, Ordering::Relaxed);
        self.0.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.0.budget.all.waiting.fetch_sub(bytes, Ordering::Relaxed);
        self.has_made_room()
    }

    /// For whoever has read something that takes no memory. Returns whether the run waits for that, and is to be woken.
    pub fn has_made_room(&self) -> bool {
        self.0.awaited.must_tell()
    }

    /// Has whoever reads next say so. Look whether there is room again behind this.
    pub fn await_reader(&self) {
        self.0.awaited.ask();
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn rows(&self) -> u64 {
        self.0.rows.load(Ordering::Relaxed)
    }
}

impl Drop for Results {
    fn drop(&mut self) {
        self.budget.all.waiting.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
