//! How what slices have of each key becomes part of sessions.

use pelton_data::Micros;
use pelton_data::time::slice_start;
use pelton_data::window::ResultKind;

use super::bucket::{Bucket, Extent, WORK_PER_SESSION};
use super::{LateArrival, Sessions, bucket_of};
use crate::slice::SliceId;
use crate::table::{ABSENT, Table};
use crate::window::ClosedWindow;
use crate::work::{Work, listing_work};

/// Slots of a slice whose pieces are merged at a time.
const MERGED_SLOTS: usize = 1 << 12;

/// A slice that is being merged with sessions.
#[derive(Debug)]
pub(super) struct Arriving {
    pub id: SliceId,
    /// What it has of each key; none where these have become sessions as they are.
    pub pieces: Option<Table>,
    /// Slots whose pieces have been merged.
    slots_done: usize,
    /// What it is to merge a piece, in multiples of one that has nothing beside its entry.
    work_per_piece: usize,
}

impl Sessions {
    /// Begins to merge the pieces of a slice. The sessions that are over before `id.first_end` have been closed; slices come in the order of
    /// `first_end`, and for each in the opposite order of their starts.
    pub(super) fn begin(&mut self, id: SliceId, pieces: Table) -> Arriving {
        let work_per_piece = pieces.work_per_group();
        let mut pieces = Some(pieces);
        let is_in_time = id.first_end == id.start;
        if is_in_time && self.buckets.last().is_none_or(|last| last.start < id.start) {
            // Nobody else has had rows of the slice: its pieces are its sessions.
            self.buckets.extend(pieces.take().map(|table| Bucket::new(id.start, table)));
        }
        Arriving { id, pieces, slots_done: 0, work_per_piece }
    }

    /// Merges some pieces of a slice: whether that was all of them.
    pub(super) fn merge(&mut self, arriving: &mut Arriving, work: &mut Work) -> bool {
        let Arriving { id, pieces, slots_done, work_per_piece } = arriving;
        let sessions = self.buckets.last().map(|last| &last.table);
        let table = pieces.as_ref().or(sessions).expect("pieces are in a table, or are sessions of the last one");
        let slots_max = work.slots((MERGED_SLOTS / *work_per_piece).max(1));
        let slots = *slots_done..table.slots().min(*slots_done + slots_max);
        let mut from = Vec::new();
        table.push_entries(slots.clone(), &mut from);
        let is_last = slots.end == table.slots();
        match pieces {
            None => self.join_older(&from),
            Some(pieces) if id.first_end == id.start => self.merge_in_time(id.start, pieces, &from),
            Some(pieces) => from.iter().for_each(|&piece| self.merge_behind(id.first_end, pieces, piece)),
        }
        work.spend(listing_work(slots.len(), 0) + from.len() * WORK_PER_SESSION * *work_per_piece);
        *slots_done = slots.end;
        is_last
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
        let olds = self.times.extents(&self.buckets[older].table, &from);
        let news = self.times.extents(&self.buckets[younger].table, &to);
        let touching = (0..from.len()).filter(|&at| olds[at].touches(news[at], self.times.gap));
        let (from, to): (Vec<u32>, Vec<u32>) = touching.map(|at| (from[at], to[at])).unzip();
        self.move_sessions(older, &from, younger, &to);
    }

    /// Merges a piece of rows that came behind the watermark, which was `watermark`. All sessions that were over then have been reported, and all that were
    /// final are forgotten.
    fn merge_behind(&mut self, watermark: Micros, pieces: &Table, piece: u32) {
        let own = self.times.extents(pieces, &[piece])[0];
        let joined = self.touching(&self.buckets, own, (pieces, piece));
        let reported = self.touching(&self.reported, own, (pieces, piece));
        let own_end = self.times.end(own);
        if joined.is_empty() && reported.is_empty() && own_end.saturating_add(self.lateness) < watermark {
            let rows = pieces.integers(self.times.slots.rows, &[piece])[0] as u64;
            let window = ClosedWindow { start: own.first, end: own_end, groups: 1, kind: ResultKind::Final };
            return self.late.push(pieces, piece, window, LateArrival { watermark, rows });
        }
        let last = joined.iter().chain(&reported).map(|(_, _, extent)| extent.last).fold(own.last, Micros::max);
        let start = slice_start(last, self.times.gap, 0);
        let into = self.bucket(start);
        let mut to = Vec::new();
        let table = &mut self.buckets[into].table;
        table.entries_of(pieces, (&[piece]).into(), &mut to, &mut self.scratch);
        table.add_at(pieces, &[piece], &to);
        for (joined_start, entry, _) in joined.into_iter().filter(|(joined_start, ..)| *joined_start != start) {
            let older = self.buckets.iter().position(|bucket| bucket.start == joined_start);
            self.move_sessions(older.expect("a session is in a bucket"), &[entry], into, &to);
        }
        if !reported.is_empty() || last.saturating_add(self.times.gap) < watermark {
            self.buckets[into].correct((pieces, &[piece]), &self.layout, &mut self.scratch);
        }
        for (reported_start, entry, _) in reported {
            let at = self.reported.iter().position(|bucket| bucket.start == reported_start);
            let bucket = &mut self.reported[at.expect("a session is in a bucket")];
            self.buckets[into].table.add_at(&bucket.table, &[entry], &to);
            bucket.forget(&[entry]);
        }
        self.buckets[into].note(to[0], last.saturating_add(self.times.gap));
    }

    /// The sessions of a piece's key that it touches: the starts of their buckets, and their entries.
    fn touching(&self, buckets: &[Bucket], own: Extent, (pieces, piece): (&Table, u32)) -> Vec<(Micros, u32, Extent)> {
        // What ends before the piece by more than the gap does not touch it.
        let first = own.first.saturating_sub(self.times.gap.saturating_mul(2));
        let mut touching = Vec::new();
        for bucket in &buckets[buckets.partition_point(|bucket| bucket.start < first)..] {
            let entry = bucket.table.find_entries_of(pieces, &[piece])[0];
            if entry == ABSENT {
                continue;
            }
            let session = self.times.extents(&bucket.table, &[entry])[0];
            if session.touches(own, self.times.gap) {
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
            let extents = self.times.extents(corrections, &found).into_iter().zip(found);
            let correcting: Vec<u32> =
                extents.filter(|(extent, _)| !extent.is_empty()).map(|(_, entry)| entry).collect();
            younger.correct((corrections, &correcting), &self.layout, &mut self.scratch);
        }
        older.forget(from);
    }
}
