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
//! Sessions are kept by the slice of their last row, a table each. Of the older tables it is known in which order they end, as far as any can be
//! over, so that closing looks at no others. Without a lateness there are never more than two tables once all that is due has been closed: a session
//! whose last row is older is over.
//!
//! With an allowed lateness a session that has been reported stays, beside those that are not over, until time has passed its end by the
//! lateness: then it is final. A row behind the watermark counts if it joins a session that is not final, or would be one by itself. Where it joins
//! one that has been reported, or what it begins was over when it came, the session is reported as a correction once it is over: instead of all sessions
//! of its key that it covers. No two sessions of a key that are not final have their last rows in one slice, for they would touch.

mod bucket;

mod early;

mod merge;

mod snapshot;

use std::sync::Arc;

use pelton_data::Micros;
use pelton_data::time::micros_per_tick;
use pelton_data::window::{ResultKind, SessionSlots};

use self::bucket::{Bucket, Extent, Times, WORK_PER_SESSION};
use self::early::EarlyReport;
use self::merge::Arriving;
use crate::closed_slices::{ClosedSlices, clear_next};
use crate::coalesce::{Coalescer, Leaving};
use crate::layout::EntryLayout;
use crate::slice::SliceId;
use crate::table::{KeyScratch, Table};
use crate::window::{CloseLimits, ClosedGroups, ClosedWindow};
use crate::work::Work;

/// The open sessions of one aggregation, over the slices that the watermark has come to.
#[derive(Debug)]
pub struct OpenSessions {
    /// Slices, over all workers, that have not been merged with sessions.
    sealed: ClosedSlices,
    /// The slice that is being merged with them.
    arriving: Option<Arriving>,
    sessions: Sessions,
    /// Up to here sessions have been closed.
    closed_until: Micros,
    /// Sessions that wait for others to leave with them; empty between calls.
    coalescer: Coalescer,
    /// Where some of those that are not over have been reported.
    early: Option<Box<EarlyReport>>,
}

/// Sessions, and how they merge and close.
#[derive(Debug)]
struct Sessions {
    times: Times,
    /// How long after its end a session is final.
    lateness: Micros,
    layout: Arc<EntryLayout>,
    /// Of sessions that have not been reported, ascending.
    buckets: Vec<Bucket>,
    /// Of sessions that have been reported and are not final, ascending.
    reported: Vec<Bucket>,
    over: Over,
    late: LateSessions,
    /// Tables that are no longer needed, and have not been cleared.
    unneeded: Vec<Table>,
    /// A cleared one for the next bucket.
    spare: Option<Table>,
    scratch: KeyScratch,
}

/// Sessions of the first bucket that are over.
#[derive(Debug, Default)]
struct Over {
    /// Their entries, in the order of their ends.
    entries: Vec<u32>,
    /// How many of them have been handed on.
    handed_on: usize,
    /// All that end at or before this are among them.
    until: Micros,
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
        let time = layout.accumulators()[slots.first].accumulator.argument_type.as_ref();
        let micros_per_tick = time.and_then(micros_per_tick).expect("the times of a session are timestamps");
        let sessions = Sessions::new(Times { gap, slots, micros_per_tick }, lateness, layout);
        let coalescer = Coalescer::new(layout);
        OpenSessions {
            sealed: ClosedSlices::default(),
            arriving: None,
            sessions,
            closed_until: Micros::MIN,
            coalescer,
            early: None,
        }
    }

    /// Sessions that end at or before this have closed.
    pub(crate) fn closed_until(&self) -> Micros {
        self.closed_until
    }

    /// Takes what one worker has of a slice, which may get more rows later.
    ///
    /// # Panics
    /// Where all sessions that rows of the slice can be in are over.
    pub fn seal(&mut self, id: SliceId, table: Table) {
        let end_min = id.start.saturating_add(self.sessions.times.gap);
        assert!(id.first_end.max(end_min) > self.closed_until, "a slice is sealed before its sessions close");
        self.sealed.add(id, table);
    }

    /// Closes sessions that have ended, up to which all slices must have been sealed, in the order of their ends, and hands them to `hand_on`;
    /// those that late rows correct when time comes to their watermark.
    /// Tables that are no longer needed are cleared and added to `spare`. Returns up to which end sessions have been closed: with what is left of those that have
    /// ended the next call goes on.
    ///
    /// # Errors
    /// What `hand_on` returns.
    pub fn close<E>(
        &mut self,
        limits: CloseLimits,
        spare: &mut Vec<Table>,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<Micros, E> {
        self.close_within(limits, &mut Work::new(limits.groups_max), spare, hand_on)
    }

    /// As [`OpenSessions::close`], with what is left of some work.
    fn close_within<E>(
        &mut self,
        limits: CloseLimits,
        work: &mut Work,
        spare: &mut Vec<Table>,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<Micros, E> {
        while !work.is_done() && self.advance(limits, work, spare, hand_on)? {}
        self.coalescer.leave(hand_on)?;
        Ok(self.closed_until)
    }

    /// Does a part of what is to be done next: whether there was anything.
    fn advance<E>(
        &mut self,
        limits: CloseLimits,
        work: &mut Work,
        spare: &mut Vec<Table>,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        if self.tidy(work, spare) {
            return Ok(true);
        }
        if let Some(arriving) = &mut self.arriving {
            if self.sessions.merge(arriving, work) {
                let first_end = arriving.id.first_end;
                self.sessions.unneeded.extend(self.arriving.take().and_then(|arriving| arriving.pieces));
                // What came under one watermark is merged before sessions are closed by it.
                if self.sealed.first_end() == Some(first_end) {
                    self.begin_next();
                }
            }
            return Ok(true);
        }
        if !self.sessions.over.entries.is_empty() {
            self.read_out(limits.groups_at_once, work, hand_on)?;
            return Ok(true);
        }
        // Slices are merged until sessions are over, in the order in which both come.
        let next = self.sealed.first_end().filter(|&first_end| first_end <= limits.until);
        let until = next.map_or(limits.until, |first_end| first_end.saturating_sub(1));
        if self.sessions.close(until, work) {
            return Ok(true);
        }
        if next.is_none() {
            self.closed_until = limits.until;
            return Ok(!self.sessions.unneeded.is_empty());
        }
        self.begin_next();
        Ok(true)
    }

    /// Does a part of what comes before all else: clears what is no longer needed, and merges what there is several times of a slice. Whether there was any.
    fn tidy(&mut self, work: &mut Work, spare: &mut Vec<Table>) -> bool {
        let Sessions { unneeded, spare: for_buckets, .. } = &mut self.sessions;
        let has_cleared = clear_next(unneeded, spare, work);
        if for_buckets.is_none() {
            *for_buckets = spare.pop();
        }
        has_cleared || self.sealed.merge_next(unneeded, work)
    }

    /// Begins to merge the next slice.
    fn begin_next(&mut self) {
        self.arriving = self.sealed.pop_last_of_first().map(|(id, pieces)| self.sessions.begin(id, pieces));
    }

    /// Hands on some of the sessions that are over; with the last of them, all have gone.
    fn read_out<E>(
        &mut self,
        groups_at_once: usize,
        work: &mut Work,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.sessions.read_out(groups_at_once, work, &mut self.coalescer, hand_on)? {
            return Ok(());
        }
        // Those of the next table may be over as well, and end no sooner than this.
        let next = self.sessions.buckets.get(1);
        let next_end_min = next.map_or(Micros::MAX, |next| next.start.saturating_add(self.sessions.times.gap));
        self.closed_until = self.closed_until.max(self.sessions.over.until.min(next_end_min.saturating_sub(1)));
        self.sessions.put_over_away(work);
        Ok(())
    }

    /// Pieces, since this was asked last, that came when all sessions that they could be in were over; `None` where there are none.
    pub fn take_late(&mut self) -> Option<LateSessions> {
        let Sessions { late, layout, .. } = &mut self.sessions;
        (late.rows > 0).then(|| std::mem::replace(late, LateSessions::new(layout)))
    }

    /// The earliest end that an open session can have.
    pub fn next_end(&self) -> Option<Micros> {
        let open = self.sessions.buckets.first().map(|bucket| bucket.start);
        let unmerged =
            self.sealed.tables().map(|(id, _)| id.start).chain(self.arriving.iter().map(|slice| slice.id.start));
        open.into_iter().chain(unmerged).min().map(|start| start.saturating_add(self.sessions.times.gap))
    }

    /// Slices that have not been merged, and those with the last rows of open sessions.
    pub fn slices(&self) -> usize {
        self.sealed.len() + usize::from(self.arriving.is_some()) + self.sessions.buckets.len()
    }

    /// Bytes of memory held by tables.
    pub fn bytes(&self) -> usize {
        let Sessions { buckets, reported, unneeded, spare, .. } = &self.sessions;
        let arriving = self.arriving.iter().filter_map(|arriving| arriving.pieces.as_ref());
        let buckets = buckets.iter().chain(reported).map(Bucket::bytes).sum::<usize>();
        let tables = arriving.chain(unneeded).chain(spare).map(Table::bytes).sum::<usize>();
        let early = self.early.as_ref().map_or(0, |early| early.bytes());
        self.sealed.bytes() + buckets + tables + self.coalescer.bytes() + early
    }
}

impl Sessions {
    fn new(times: Times, lateness: Micros, layout: &Arc<EntryLayout>) -> Sessions {
        Sessions {
            times,
            lateness,
            layout: layout.clone(),
            buckets: Vec::new(),
            reported: Vec::new(),
            over: Over::default(),
            late: LateSessions::new(layout),
            unneeded: Vec::new(),
            spare: None,
            scratch: KeyScratch::default(),
        }
    }

    /// Finds sessions of one table that end at or before `until`, or does a part of that; where there are none, forgets those that are final by then. Returns whether there
    /// is more to do: sessions are over, or it is not known yet.
    fn close(&mut self, until: Micros, work: &mut Work) -> bool {
        let gap = self.times.gap;
        while let Some(bucket) = self.buckets.first_mut().filter(|bucket| bucket.start.saturating_add(gap) <= until) {
            let Some((entries, over_until)) = bucket.take_over(until, self.times, work) else { return true };
            if !entries.is_empty() {
                self.over = Over { entries, handed_on: 0, until: over_until };
                return true;
            }
            if over_until < until {
                return true;
            }
            if !bucket.has_ended() {
                break;
            }
            self.unneeded.extend(self.buckets.remove(0).into_tables());
        }
        self.forget_final(until, work)
    }

    /// Forgets sessions that no row can join any more which comes when time has passed `until`, or some of them: whether there are more.
    fn forget_final(&mut self, until: Micros, work: &mut Work) -> bool {
        let (gap, until) = (self.times.gap, until.saturating_sub(self.lateness));
        while let Some(bucket) = self.reported.first_mut().filter(|bucket| bucket.start.saturating_add(gap) <= until) {
            let Some((finals, final_until)) = bucket.take_over(until, self.times, work) else { return true };
            bucket.table.reset_entries(&finals);
            if final_until < until {
                return true;
            }
            if !bucket.has_ended() {
                break;
            }
            self.unneeded.extend(self.reported.remove(0).into_tables());
        }
        false
    }

    /// Hands on some of the sessions that are over, or lets them wait where they are few: whether that was the last of them.
    fn read_out<E>(
        &mut self,
        groups_at_once: usize,
        work: &mut Work,
        coalescer: &mut Coalescer,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        let bucket = self.buckets.first().expect("sessions that are over are in the first table");
        let (table, times) = (&bucket.table, self.times);
        let left = self.over.handed_on..self.over.entries.len();
        let part = work.part(table.work_per_group(), left, groups_at_once.max(1));
        let entries = &self.over.entries[part.clone()];
        let kinds = bucket.kinds(entries, times);
        let extents = times.extents(table, entries).into_iter().zip(kinds);
        let window = |(extent, kind): (Extent, ResultKind)| ClosedWindow {
            start: extent.first,
            end: times.end(extent),
            groups: 1,
            kind,
        };
        let windows: Vec<ClosedWindow> = extents.map(window).collect();
        let groups = ClosedGroups { table, entries: entries.into(), windows: &windows };
        coalescer.take_all(groups, groups_at_once, hand_on)?;
        self.over.handed_on = part.end;
        work.spend(part.len() * WORK_PER_SESSION);
        Ok(part.end == self.over.entries.len())
    }

    /// Takes the sessions that are over from those that have not been reported.
    fn put_over_away(&mut self, work: &mut Work) {
        let over = std::mem::take(&mut self.over).entries;
        let Some(start) = self.buckets.first().map(|bucket| bucket.start).filter(|_| !over.is_empty()) else { return };
        if self.lateness > 0 {
            work.spend(over.len() * self.buckets[0].table.work_per_group());
            let extents = self.times.extents(&self.buckets[0].table, &over);
            let into = bucket_of(start, &mut self.reported, &mut self.spare, &self.layout);
            let (bucket, table) = (&mut self.reported[into], &self.buckets[0].table);
            let mut to = Vec::new();
            bucket.table.entries_of(table, (&over).into(), &mut to, &mut self.scratch);
            bucket.table.add_at(table, &over, &to);
            to.into_iter().zip(extents).for_each(|(entry, extent)| {
                bucket.note(entry, self.times.end(extent));
            });
        }
        self.buckets[0].forget(&over);
        if self.buckets[0].has_ended() {
            self.unneeded.extend(self.buckets.remove(0).into_tables());
        }
    }
}

/// The bucket of the slice that begins at `start`, which is made where it is not yet.
fn bucket_of(start: Micros, buckets: &mut Vec<Bucket>, spare: &mut Option<Table>, layout: &Arc<EntryLayout>) -> usize {
    buckets.binary_search_by_key(&start, |bucket| bucket.start).unwrap_or_else(|index| {
        let table = spare.take().unwrap_or_else(|| Table::new(layout.clone()));
        buckets.insert(index, Bucket::new(start, table));
        index
    })
}
