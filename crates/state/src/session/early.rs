//! Sessions that are reported before they are over.

use pelton_data::time::WATERMARK_MAX;
use pelton_data::window::ResultKind;

use super::{Bucket, LateSessions, OpenSessions, Over, Sessions};
use crate::sealed::SealedSlices;
use crate::table::{KeyScratch, Merging, Table};
use crate::waiting::{Leaving, Waiting};
use crate::window::{CloseLimits, ClosedGroups, ClosedWindow, Contents, Work};

/// A report of the sessions that have not been reported, of which a part has been done.
#[derive(Debug)]
pub(super) struct EarlyReport {
    /// What they are, once it has been copied; and what of that has left.
    copy: OpenSessions,
    tables_copied: usize,
    /// How far the next table has been copied.
    copying: Option<Merging>,
}

impl OpenSessions {
    /// Whether a report has been done in part.
    pub fn is_reporting(&self) -> bool {
        self.early.is_some()
    }

    /// Reports what the sessions that have not been reported come to so far: those that there would be if no more rows came. A session that has been reported, and
    /// is another since, is among them. It is copies that are merged. Returns whether all have been reported: the next call goes on, and nothing may be closed before.
    ///
    /// # Errors
    /// What `hand_on` returns.
    pub fn report_early<E>(
        &mut self,
        limits: CloseLimits,
        spare: &mut Vec<Table>,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        let mut work = Work::new(limits.groups_max);
        while self.sealed.must_merge() {
            self.sessions.unneeded.extend(self.sealed.merge(&mut work));
            if work.is_done() {
                return Ok(false);
            }
        }
        let mut report = self.early.take().unwrap_or_else(|| Box::new(EarlyReport::new(self)));
        while !report.copy_part(self, &mut work) {
            if work.is_done() {
                self.early = Some(report);
                return Ok(false);
            }
        }
        let mut early = |mut leaving: Leaving<'_>| {
            let Contents::Groups(groups) = leaving.contents() else { unreachable!("sessions have groups") };
            let early = |window: &ClosedWindow| ClosedWindow { kind: ResultKind::Early, ..*window };
            let windows: Vec<ClosedWindow> = groups.windows.iter().map(early).collect();
            hand_on(Leaving::Now(Contents::Groups(ClosedGroups { windows: &windows, ..groups })))
        };
        // The same code as that of sessions that close.
        let mut early: &mut dyn FnMut(Leaving<'_>) -> Result<(), E> = &mut early;
        let limits = CloseLimits { until: WATERMARK_MAX, ..limits };
        let is_done = report.copy.close(limits, spare, &mut early)? == WATERMARK_MAX;
        self.early = (!is_done).then_some(report);
        Ok(is_done)
    }

    /// All tables, in an order that is the same as long as there are no others.
    fn tables(&self) -> impl Iterator<Item = &Table> {
        let Sessions { buckets, reported, .. } = &self.sessions;
        let sealed = self.sealed.tables().map(|(_, table)| table);
        sealed.chain(buckets.iter().chain(reported).flat_map(Bucket::tables))
    }

    /// The same, to be changed.
    fn tables_mut(&mut self) -> impl Iterator<Item = &mut Table> {
        let Sessions { buckets, reported, .. } = &mut self.sessions;
        let buckets = buckets.iter_mut().chain(reported);
        self.sealed.tables_mut().chain(
            buckets.flat_map(|bucket| std::iter::once(&mut bucket.table).chain(bucket.corrections.as_deref_mut())),
        )
    }
}

impl EarlyReport {
    /// Nothing has been copied yet.
    fn new(open: &OpenSessions) -> EarlyReport {
        let Sessions { layout, times, lateness, buckets, reported, .. } = &open.sessions;
        let mut sealed = SealedSlices::default();
        open.sealed.tables().for_each(|(id, _)| sealed.add(*id, Table::new(layout.clone())));
        let empty = |bucket: &Bucket| {
            let corrections = bucket.corrections.as_ref().map(|_| Box::new(Table::new(layout.clone())));
            Bucket { corrections, ..Bucket::new(bucket.start, Table::new(layout.clone())) }
        };
        let sessions = Sessions {
            layout: layout.clone(),
            times: *times,
            lateness: *lateness,
            buckets: buckets.iter().map(empty).collect(),
            reported: reported.iter().map(empty).collect(),
            over: Over::default(),
            late: LateSessions::new(layout),
            unneeded: Vec::new(),
            spare: None,
            scratch: KeyScratch::default(),
        };
        let copy = OpenSessions {
            sealed,
            arriving: None,
            sessions,
            closed_until: open.closed_until,
            waiting: Waiting::new(layout),
            early: None,
        };
        EarlyReport { copy, tables_copied: 0, copying: None }
    }

    /// Copies a part of the next table: whether all have been copied.
    fn copy_part(&mut self, open: &OpenSessions, work: &mut Work) -> bool {
        let from = open.tables().nth(self.tables_copied);
        let (Some(from), Some(to)) = (from, self.copy.tables_mut().nth(self.tables_copied)) else { return true };
        match self.copying.get_or_insert_with(|| Merging::new(to, from)).advance(to, from) {
            Some(merged) => merged.spend(work),
            None => {
                self.copying = None;
                self.tables_copied += 1;
            }
        }
        false
    }

    /// Bytes of memory held by tables.
    pub fn bytes(&self) -> usize {
        self.copy.bytes()
    }
}
