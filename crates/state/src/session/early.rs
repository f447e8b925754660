//! Sessions that are reported before they are over.

use pelton_data::time::WATERMARK_MAX;
use pelton_data::window::ResultKind;

use super::{Bucket, LateSessions, OpenSessions, Sessions};
use crate::slice::SliceId;
use crate::table::{KeyScratch, Table};
use crate::waiting::{Leaving, Waiting};
use crate::window::{CloseLimits, ClosedGroups, ClosedWindow, Contents};

impl OpenSessions {
    /// Reports what the sessions that have not been reported come to so far, with the slices that have not been sealed: those that there would be if no
    /// more rows came. A session that has been reported, and is another since, is among them. It is copies that are merged.
    ///
    /// # Errors
    /// What `hand_on` returns.
    pub fn report_early<E>(
        &mut self,
        unsealed: Vec<(SliceId, Table)>,
        groups_at_once: usize,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.sessions.put_over_away();
        let mut copy = self.copy();
        unsealed.into_iter().for_each(|(id, table)| copy.seal(id, table));
        let limits =
            CloseLimits { until: WATERMARK_MAX, groups_at_once, groups_max: usize::MAX, parts_min: usize::MAX };
        let mut early = |mut leaving: Leaving<'_>| {
            let Contents::Groups(groups) = leaving.contents() else { unreachable!("sessions have groups") };
            let early = |window: &ClosedWindow| ClosedWindow { kind: ResultKind::Early, ..*window };
            let windows: Vec<ClosedWindow> = groups.windows.iter().map(early).collect();
            hand_on(Leaving::Now(Contents::Groups(ClosedGroups { windows: &windows, ..groups })))
        };
        // The same code as that of sessions that close.
        let mut early: &mut dyn FnMut(Leaving<'_>) -> Result<(), E> = &mut early;
        copy.close(limits, &mut Vec::new(), &mut early).map(drop)
    }

    fn copy(&self) -> OpenSessions {
        let sealed = self.sealed.iter().map(|(id, table)| (*id, table.copy())).collect();
        let waiting = Waiting::new(&self.sessions.layout);
        OpenSessions { sealed, sessions: self.sessions.copy(), closed_until: self.closed_until, waiting }
    }
}

impl Sessions {
    /// Those that are not over, and those that have been reported and are not final.
    fn copy(&self) -> Sessions {
        Sessions {
            layout: self.layout.clone(),
            buckets: self.buckets.iter().map(Bucket::copy).collect(),
            reported: self.reported.iter().map(Bucket::copy).collect(),
            over: Vec::new(),
            late: LateSessions::new(&self.layout),
            spare: Vec::new(),
            scratch: KeyScratch::default(),
            ..*self
        }
    }
}

impl Bucket {
    fn copy(&self) -> Bucket {
        let corrections = self.corrections.as_ref().map(|table| Box::new(table.copy()));
        Bucket { start: self.start, table: self.table.copy(), by_end: None, corrections }
    }
}
