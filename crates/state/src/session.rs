//! Sessions that are open, and how they merge and close.
//!
//! Rows come in pieces: what a slice has of one key. No two rows of a slice are further apart than the gap, so that a piece is part
//! of one session, and its smallest and largest time are all that must be known of it. A piece is merged with the sessions of its key
//! that it touches (distance at most the gap, as in Flink, whose windows merge also where one ends at the instant at which another begins).
//!
//! Time is a watermark that moves on. A session is over when the watermark has passed its end, `gap` after its last row. Rows at or ahead of
//! the watermark of their partition always find open what they are near enough to: what the sessions are does not depend on the order in which
//! these rows come. A row behind it counts if it joins a session that is not over, or would be one by itself that is not; otherwise it is
//! late. Such rows are kept by the watermark under which they came, and judged when time comes to that watermark: rows under one watermark
//! together, those of later slices first.
//!
//! Sessions are kept by the slice of their last row, a table each. Those of the older tables are in a heap by their end, as far as any can be
//! over, so that closing looks at no others. Without a lateness there are never more than two tables once all that is due has been closed: a session
//! whose last row is older is over.
//!
//! With an allowed lateness a session that has been reported stays, beside those that are not over, until time has passed its end by the
//! lateness: then it is final. A row behind the watermark counts if it joins a session that is not final, or would be one by itself. Where it joins
//! one that has been reported, or what it begins was over when it came, the session is reported as a correction once it is over: instead of all sessions
//! of its key that it covers. No two sessions of a key that are not final have their last rows in one slice, for they would touch.

mod bucket;

mod early;

mod snapshot;

use std::collections::BTreeMap;
use std::sync::Arc;

use pelton_data::Micros;
use pelton_data::time::{micros_per_tick, slice_start};
use pelton_data::window::{ResultKind, SessionSlots};

use self::bucket::{Bucket, Extent, extents};
use crate::layout::EntryLayout;
use crate::slice::SliceId;
use crate::table::{ABSENT, KeyScratch, Table};
use crate::waiting::{Leaving, Waiting};
use crate::window::{CloseLimits, ClosedGroups, ClosedWindow};

/// The open sessions of one aggregation, over the slices that the watermark has come to.
#[derive(Debug)]
pub struct OpenSessions {
    /// Slices, over all workers, that have not been merged with sessions.
    sealed: BTreeMap<SliceId, Table>,
    sessions: Sessions,
    /// Up to here sessions have been closed.
    closed_until: Micros,
    /// Sessions that wait for others to leave with them; empty between calls.
    waiting: Waiting,
}

/// Sessions, and how they merge and close.
#[derive(Debug)]
struct Sessions {
    gap: Micros,
    /// How long after its end a session is final.
    lateness: Micros,
    slots: SessionSlots,
    micros_per_tick: i64,
    layout: Arc<EntryLayout>,
    /// Of sessions that have not been reported, ascending.
    buckets: Vec<Bucket>,
    /// Of sessions that have been reported and are not final, ascending.
    reported: Vec<Bucket>,
    /// Entries of the first bucket that are over, in the order of their ends.
    over: Vec<u32>,
    late: LateSessions,
    /// Tables that are no longer needed.
    spare: Vec<Table>,
    scratch: KeyScratch,
}

/// Pieces, since they were taken last, that came when all sessions that they could be in were final.
#[derive(Debug)]
pub struct LateSessions {
    /// How many rows, over all pieces.
    pub rows: u64,
    /// The last of the pieces.
    pub pieces: Table,
    /// What session each of `pieces` would be by itself.
    pub windows: Vec<ClosedWindow>,
    /// How each of `pieces` came.
    pub arrivals: Vec<LateArrival>,
}

/// How a late piece came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LateArrival {
    /// How far its partition's time had come before it.
    pub watermark: Micros,
    /// How many rows it has.
    pub rows: u64,
}

/// Late pieces that are kept. Those that come when there are so many take the place of all before.
const LATE_PIECES_MAX: usize = 1000;

impl LateSessions {
    fn new(layout: &Arc<EntryLayout>) -> LateSessions {
        let (windows, arrivals) = (Vec::new(), Vec::new());
        LateSessions { rows: 0, pieces: Table::list(layout.clone()), windows, arrivals }
    }

    fn push(&mut self, pieces: &Table, piece: u32, window: ClosedWindow, arrival: LateArrival) {
        if self.windows.len() == LATE_PIECES_MAX {
            self.pieces.clear();
            self.windows.clear();
            self.arrivals.clear();
        }
        self.rows += arrival.rows;
        self.pieces.append(pieces, &[piece]);
        self.windows.push(window);
        self.arrivals.push(arrival);
    }
}

impl OpenSessions {
    /// No session is open. Tables will have this layout, in which `slots` tell the sessions. They are corrected by rows that come up to `lateness`
    /// after them.
    ///
    /// # Panics
    /// Where the slots are not those of times.
    pub fn new((gap, lateness): (Micros, Micros), slots: SessionSlots, layout: &Arc<EntryLayout>) -> OpenSessions {
        let sessions = Sessions::new((gap, lateness), slots, layout);
        let waiting = Waiting::new(layout);
        OpenSessions { sealed: BTreeMap::new(), sessions, closed_until: Micros::MIN, waiting }
    }

    /// Takes what one worker has of a slice, which may get more rows later.
    ///
    /// # Panics
    /// Where all sessions that rows of the slice can be in are over.
    pub fn seal(&mut self, id: SliceId, table: Table) {
        let end_min = id.start.saturating_add(self.sessions.gap);
        assert!(id.first_end.max(end_min) > self.closed_until, "a slice is sealed before its sessions close");
        match self.sealed.get_mut(&id) {
            Some(merged) => self.sessions.spare.push(merged.merge(table)),
            None => {
                self.sealed.insert(id, table);
            }
        }
    }

    /// Closes sessions that have ended, up to which all slices must have been sealed, in the order of their ends, and hands them to `hand_on`;
    /// those that late rows correct when time comes to their watermark.
    /// Tables that are no longer needed are cleared and added to `spare`. Returns up to which end sessions have been closed.
    ///
    /// # Errors
    /// What `hand_on` returns.
    pub fn close<E>(
        &mut self,
        limits: CloseLimits,
        spare: &mut Vec<Table>,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<Micros, E> {
        let mut groups = 0;
        while groups < limits.groups_max {
            let before = self.closed_until;
            let until = self.merge_until(limits.until);
            self.closed_until = until.unwrap_or(limits.until);
            if until.is_none() {
                break;
            }
            groups += self.sessions.over.len();
            self.sessions.read_out(limits.groups_at_once, &mut self.waiting, hand_on)?;
            // Those of the next table may be over as well, and end no sooner than this.
            if let Some(next) = self.sessions.buckets.get(1) {
                let end_min = next.start.saturating_add(self.sessions.gap);
                self.closed_until = self.closed_until.min(end_min.saturating_sub(1)).max(before);
            }
        }
        self.waiting.leave(hand_on)?;
        // There may be nothing more to close before other rows come.
        self.sessions.put_over_away();
        self.sessions.spare.iter_mut().for_each(Table::clear);
        spare.append(&mut self.sessions.spare);
        Ok(self.closed_until)
    }

    /// Merges slices until sessions are over, in the order in which both come. Returns up to where sessions are over; `None` where none more
    /// ends at or before `until`.
    fn merge_until(&mut self, until: Micros) -> Option<Micros> {
        loop {
            let next =
                self.sealed.first_key_value().map(|(id, _)| id.first_end).filter(|&first_end| first_end <= until);
            let limit = next.map_or(until, |first_end| first_end.saturating_sub(1));
            if self.sessions.close(limit) {
                return Some(limit);
            }
            let first_end = next?;
            let mut slices = Vec::new();
            while let Some(first) = self.sealed.first_entry().filter(|first| first.key().first_end == first_end) {
                slices.push(first.remove_entry());
            }
            slices.into_iter().rev().for_each(|(id, pieces)| self.sessions.merge(id, pieces));
        }
    }

    /// Pieces, since this was asked last, that came when all sessions that they could be in were over; `None` where there are none.
    pub fn take_late(&mut self) -> Option<LateSessions> {
        let Sessions { late, layout, .. } = &mut self.sessions;
        (late.rows > 0).then(|| std::mem::replace(late, LateSessions::new(layout)))
    }

    /// The earliest end that an open session can have.
    pub fn next_end(&self) -> Option<Micros> {
        let open = self.sessions.buckets.first().map(|bucket| bucket.start);
        let sealed = self.sealed.keys().map(|id| id.start).min();
        open.into_iter().chain(sealed).min().map(|start| start.saturating_add(self.sessions.gap))
    }

    /// Slices that have not been merged, and those with the last rows of open sessions.
    pub fn slices(&self) -> usize {
        self.sealed.len() + self.sessions.buckets.len()
    }

    /// Bytes of memory held by tables.
    pub fn bytes(&self) -> usize {
        let buckets = self.sessions.buckets.iter().chain(&self.sessions.reported).flat_map(Bucket::tables);
        self.sealed.values().chain(buckets).map(Table::bytes).sum::<usize>() + self.waiting.bytes()
    }
}

impl Sessions {
    fn new((gap, lateness): (Micros, Micros), slots: SessionSlots, layout: &Arc<EntryLayout>) -> Sessions {
        let time = layout.accumulators()[slots.first].accumulator.argument_type.as_ref();
        let micros_per_tick = time.and_then(micros_per_tick).expect("the times of a session are timestamps");
        Sessions {
            gap,
            lateness,
            slots,
            micros_per_tick,
            layout: layout.clone(),
            buckets: Vec::new(),
            reported: Vec::new(),
            over: Vec::new(),
            late: LateSessions::new(layout),
            spare: Vec::new(),
            scratch: KeyScratch::default(),
        }
    }

    /// Merges the pieces of a slice. The sessions that are over before `id.first_end` have been closed; slices come in the order of
    /// `first_end`, and for each in the opposite order of their starts.
    fn merge(&mut self, id: SliceId, pieces: Table) {
        let from = pieces.entry_offsets();
        if id.first_end != id.start {
            from.iter().for_each(|&piece| self.merge_behind(id.first_end, &pieces, piece));
        } else if self.buckets.last().is_none_or(|last| last.start < id.start) {
            // Nobody else has had rows of the slice: its pieces are its sessions.
            self.buckets.push(Bucket { start: id.start, table: pieces, by_end: None, corrections: None });
            return self.join_older(&from);
        } else {
            self.merge_in_time(id.start, &pieces, &from);
        }
        self.spare.push(pieces);
    }

    /// Finds the sessions of one table that end at or before `until`; those found before go. Returns whether there are any; where there are none, those that
    /// are final by then are forgotten.
    fn close(&mut self, until: Micros) -> bool {
        self.put_over_away();
        while let Some(bucket) =
            self.buckets.first_mut().filter(|bucket| bucket.start.saturating_add(self.gap) <= until)
        {
            self.over = bucket.take_over(until, self.gap, self.slots, self.micros_per_tick);
            if !self.over.is_empty() {
                return true;
            }
            if !bucket.has_ended() {
                break;
            }
            self.spare.extend(self.buckets.remove(0).into_tables());
        }
        self.forget_final(until);
        false
    }

    /// Forgets sessions that no row can join any more which comes when time has passed `until`.
    fn forget_final(&mut self, until: Micros) {
        let until = until.saturating_sub(self.lateness);
        while let Some(bucket) =
            self.reported.first_mut().filter(|bucket| bucket.start.saturating_add(self.gap) <= until)
        {
            let finals = bucket.take_over(until, self.gap, self.slots, self.micros_per_tick);
            bucket.table.reset_entries(&finals);
            if !bucket.has_ended() {
                return;
            }
            self.spare.extend(self.reported.remove(0).into_tables());
        }
    }

    /// Hands on the sessions that are over, at most so many at once, or lets them wait where they are few.
    fn read_out<E>(
        &self,
        groups_at_once: usize,
        waiting: &mut Waiting,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let bucket = self.buckets.first().expect("sessions that are over are in the first table");
        let table = &bucket.table;
        for entries in self.over.chunks(groups_at_once.max(1)) {
            let kinds = bucket.kinds(entries, self.slots, self.micros_per_tick);
            let extents = self.extents(table, entries).into_iter().zip(kinds);
            let window = |(extent, kind): (Extent, ResultKind)| {
                let Extent { first, last } = extent;
                ClosedWindow { start: first, end: last.saturating_add(self.gap), groups: 1, kind }
            };
            let windows: Vec<ClosedWindow> = extents.map(window).collect();
            let groups = ClosedGroups { table, entries: entries.into(), windows: &windows };
            waiting.take_all(groups, groups_at_once, hand_on)?;
        }
        Ok(())
    }

    /// Takes the sessions that are over from those that have not been reported.
    fn put_over_away(&mut self) {
        let over = std::mem::take(&mut self.over);
        let Some(start) = self.buckets.first().map(|bucket| bucket.start).filter(|_| !over.is_empty()) else { return };
        if self.lateness > 0 {
            let extents = self.extents(&self.buckets[0].table, &over);
            let into = bucket_of(start, &mut self.reported, &mut self.spare, &self.layout);
            let (bucket, table) = (&mut self.reported[into], &self.buckets[0].table);
            let mut to = Vec::new();
            bucket.table.entries_of(table, (&over).into(), &mut to, &mut self.scratch);
            bucket.table.add_at(table, &over, &to);
            to.into_iter().zip(extents).for_each(|(entry, extent)| {
                bucket.note(entry, extent.last.saturating_add(self.gap));
            });
        }
        self.buckets[0].forget(&over);
        if self.buckets[0].has_ended() {
            self.spare.extend(self.buckets.remove(0).into_tables());
        }
    }

    fn extents(&self, table: &Table, entries: &[u32]) -> Vec<Extent> {
        extents(table, entries, self.slots, self.micros_per_tick)
    }

    /// The bucket of the slice that begins at `start`, which is made where it is not yet.
    fn bucket(&mut self, start: Micros) -> usize {
        bucket_of(start, &mut self.buckets, &mut self.spare, &self.layout)
    }

    /// Merges pieces of rows that came at or ahead of the watermark. Only sessions whose last row is in the slice before, or in the same, can
    /// touch them, and those have not been closed.
    fn merge_in_time(&mut self, start: Micros, pieces: &Table, from: &[u32]) {
        let younger = self.bucket(start);
        debug_assert_eq!(younger + 1, self.buckets.len(), "time goes on");
        let into = &mut self.buckets[younger].table;
        let mut to = Vec::new();
        into.entries_of(pieces, from.into(), &mut to, &mut self.scratch);
        into.add_at(pieces, from, &to);
        self.join_older(&to);
    }

    /// Adds to some sessions of the last bucket those of the one before that they touch.
    fn join_older(&mut self, to: &[u32]) {
        let younger = self.buckets.len() - 1;
        let Some(older) = younger.checked_sub(1) else { return };
        let found = self.buckets[older].table.find_entries_of(&self.buckets[younger].table, to);
        let pairs = found.into_iter().zip(to.iter().copied()).filter(|(older, _)| *older != ABSENT);
        let (from, to): (Vec<u32>, Vec<u32>) = pairs.unzip();
        let olds = self.extents(&self.buckets[older].table, &from);
        let news = self.extents(&self.buckets[younger].table, &to);
        let touching = (0..from.len()).filter(|&at| olds[at].touches(news[at], self.gap));
        let (from, to): (Vec<u32>, Vec<u32>) = touching.map(|at| (from[at], to[at])).unzip();
        self.move_sessions(older, &from, younger, &to);
    }

    /// Merges a piece of rows that came behind the watermark, which was `watermark`. All sessions that were over then have been reported, and all that were
    /// final are forgotten.
    fn merge_behind(&mut self, watermark: Micros, pieces: &Table, piece: u32) {
        let own = self.extents(pieces, &[piece])[0];
        let joined = self.touching(&self.buckets, own, (pieces, piece));
        let reported = self.touching(&self.reported, own, (pieces, piece));
        let own_end = own.last.saturating_add(self.gap);
        if joined.is_empty() && reported.is_empty() && own_end.saturating_add(self.lateness) < watermark {
            let rows = pieces.integers(self.slots.rows, &[piece])[0] as u64;
            let window = ClosedWindow { start: own.first, end: own_end, groups: 1, kind: ResultKind::Final };
            return self.late.push(pieces, piece, window, LateArrival { watermark, rows });
        }
        let last = joined.iter().chain(&reported).map(|(_, _, extent)| extent.last).fold(own.last, Micros::max);
        let start = slice_start(last, self.gap, 0);
        let into = self.bucket(start);
        let mut to = Vec::new();
        let table = &mut self.buckets[into].table;
        table.entries_of(pieces, (&[piece]).into(), &mut to, &mut self.scratch);
        table.add_at(pieces, &[piece], &to);
        for (joined_start, entry, _) in joined.into_iter().filter(|(joined_start, ..)| *joined_start != start) {
            let older = self.buckets.iter().position(|bucket| bucket.start == joined_start);
            self.move_sessions(older.expect("a session is in a bucket"), &[entry], into, &to);
        }
        if !reported.is_empty() || last.saturating_add(self.gap) < watermark {
            self.buckets[into].correct((pieces, &[piece]), &self.layout, &mut self.scratch);
        }
        for (reported_start, entry, _) in reported {
            let at = self.reported.iter().position(|bucket| bucket.start == reported_start);
            let bucket = &mut self.reported[at.expect("a session is in a bucket")];
            self.buckets[into].table.add_at(&bucket.table, &[entry], &to);
            bucket.forget(&[entry]);
        }
        self.buckets[into].note(to[0], last.saturating_add(self.gap));
    }

    /// The sessions of a piece's key that it touches: the starts of their buckets, and their entries.
    fn touching(&self, buckets: &[Bucket], own: Extent, (pieces, piece): (&Table, u32)) -> Vec<(Micros, u32, Extent)> {
        // What ends before the piece by more than the gap does not touch it.
        let first = own.first.saturating_sub(self.gap.saturating_mul(2));
        let mut touching = Vec::new();
        for bucket in &buckets[buckets.partition_point(|bucket| bucket.start < first)..] {
            let entry = bucket.table.find_entries_of(pieces, &[piece])[0];
            if entry == ABSENT {
                continue;
            }
            let session = self.extents(&bucket.table, &[entry])[0];
            if session.touches(own, self.gap) {
                touching.push((bucket.start, entry, session));
            }
        }
        touching
    }

    /// Adds sessions of one bucket to those of another.
    fn move_sessions(&mut self, older: usize, from: &[u32], younger: usize, to: &[u32]) {
        let [older, younger] = self.buckets.get_disjoint_mut([older, younger]).expect("two buckets");
        younger.table.add_at(&older.table, from, to);
        if let Some(corrections) = &older.corrections {
            let found = corrections.find_entries_of(&older.table, from).into_iter().filter(|found| *found != ABSENT);
            let found: Vec<u32> = found.collect();
            let extents = extents(corrections, &found, self.slots, self.micros_per_tick).into_iter().zip(found);
            let correcting: Vec<u32> =
                extents.filter(|(extent, _)| !extent.is_empty()).map(|(_, entry)| entry).collect();
            younger.correct((corrections, &correcting), &self.layout, &mut self.scratch);
        }
        older.forget(from);
    }
}

/// The bucket of the slice that begins at `start`, which is made where it is not yet.
fn bucket_of(start: Micros, buckets: &mut Vec<Bucket>, spare: &mut Vec<Table>, layout: &Arc<EntryLayout>) -> usize {
    buckets.binary_search_by_key(&start, |bucket| bucket.start).unwrap_or_else(|index| {
        let mut table = spare.pop().unwrap_or_else(|| Table::new(layout.clone()));
        table.clear();
        buckets.insert(index, Bucket { start, table, by_end: None, corrections: None });
        index
    })
}
