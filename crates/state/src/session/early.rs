//! Sessions that are reported before they are over.

use pelton_data::time::WATERMARK_MAX;
use pelton_data::window::ResultKind;

use super::{Bucket, OpenSessions, Sessions};
use crate::closed_slices::ClosedSlices;
use crate::coalesce::{Coalescer, Leaving};
use crate::table::{Merging, Table};
use crate::window::{CloseLimits, ClosedGroups, ClosedWindow, Contents};
use crate::work::Work;

/// A report of the sessions that have not been reported, of which a part has been done.
#[derive(Debug, Default)]
pub(super) struct EarlyReport {
    /// What they are, or as much of it as has been copied, without what has been reported; none before anything has been copied.
    copy: Option<OpenSessions>,
    tables_copied: usize,
    /// How far the next table has been copied.
    copying: Option<Merging>,
    /// Tables are left to be cleared.
    is_done: bool,
}

impl OpenSessions {
    /// Whether a report has been done in part.
    pub fn is_reporting(&self) -> bool {
        self.early.is_some()
    }

    /// Reports what the sessions that have not been reported come to so far: those that there would be if no more rows came. A session that has been reported, and
    /// is another since, is among them. It is copies that are merged. Tables that are no longer needed are cleared and added to `spare`. Returns whether all have been
    /// reported: the next call goes on, and nothing may be closed before.
    ///
    /// # Errors
    /// What `hand_on` returns.
    pub fn report_early<E>(
        &mut self,
        limits: CloseLimits,
        spare: &mut Vec<Table>,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        let mut early = |mut leaving: Leaving<'_>| {
            let Contents::Groups(groups) = leaving.contents() else { unreachable!("sessions have groups") };
            let early = |window: &ClosedWindow| ClosedWindow { kind: ResultKind::Early, ..*window };
            let windows: Vec<ClosedWindow> = groups.windows.iter().map(early).collect();
            hand_on(Leaving::Now(Contents::Groups(ClosedGroups { windows: &windows, ..groups })))
        };
        // The same code as that of sessions that close.
        let mut early: &mut dyn FnMut(Leaving<'_>) -> Result<(), E> = &mut early;
        let mut work = Work::new(limits.groups_max);
        let mut report = self.early.take().unwrap_or_default();
        while !work.is_done() {
            if self.tidy(&mut work, spare) {
                continue;
            }
            if report.is_done {
                return Ok(true);
            }
            if report.copy_part(self, &mut work) {
                let limits = CloseLimits { until: WATERMARK_MAX, ..limits };
                let copy = report.copy.as_mut().expect("it has been copied");
                report.is_done = copy.close_within(limits, &mut work, spare, &mut early)? == WATERMARK_MAX;
            }
            if report.is_done {
                self.sessions.unneeded.extend(report.copy.take().into_iter().flat_map(OpenSessions::into_tables));
            }
        }
        self.early = Some(report);
        Ok(false)
    }

    /// All tables of sessions, which are no longer needed.
    fn into_tables(self) -> impl Iterator<Item = Table> {
        let Sessions { buckets, reported, unneeded, spare, .. } = self.sessions;
        buckets.into_iter().chain(reported).flat_map(Bucket::into_tables).chain(unneeded).chain(spare)
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

/// The same slices and tables of sessions, in which nothing is.
fn empty_copy(open: &OpenSessions) -> OpenSessions {
    let Sessions { layout, times, lateness, buckets, reported, .. } = &open.sessions;
    let mut sealed = ClosedSlices::default();
    open.sealed.tables().for_each(|(id, _)| sealed.add(*id, Table::new(layout.clone())));
    let empty = |bucket: &Bucket| {
        let corrections = bucket.corrections.as_ref().map(|_| Box::new(Table::new(layout.clone())));
        Bucket { corrections, ..Bucket::new(bucket.start, Table::new(layout.clone())) }
    };
    let (buckets, reported) = (buckets.iter().map(empty).collect(), reported.iter().map(empty).collect());
    let sessions = Sessions { buckets, reported, ..Sessions::new(*times, *lateness, layout) };
    let (closed_until, coalescer) = (open.closed_until, Coalescer::new(layout));
    OpenSessions { sealed, arriving: None, sessions, closed_until, coalescer, early: None }
}

impl EarlyReport {
    /// Copies a part of the next table: whether all have been copied.
    fn copy_part(&mut self, open: &OpenSessions, work: &mut Work) -> bool {
        let copy = self.copy.get_or_insert_with(|| empty_copy(open));
        let from = open.tables().nth(self.tables_copied);
        let (Some(from), Some(to)) = (from, copy.tables_mut().nth(self.tables_copied)) else { return true };
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
        self.copy.as_ref().map_or(0, OpenSessions::bytes)
    }
}
