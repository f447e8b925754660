//! Sessions that are open, in snapshots.

use pelton_data::Micros;
use pelton_data::time::slice_start;
use pelton_data::window::Window;

use super::{Bucket, Extent, OpenSessions, Sessions, Times};
use crate::slice::SliceId;
use crate::snapshot::{Reader, Snapshot, SnapshotError, Writer};
use crate::table::Table;

impl OpenSessions {
    /// Reads the id of a slice that can be sealed.
    pub(crate) fn read_id(&self, input: &mut Reader<'_>) -> Result<SliceId, SnapshotError> {
        let gap = self.sessions.times.gap;
        let id = SliceId::read_from(&Window::Session { gap }, input)?;
        let is_open = id.first_end.max(id.start.saturating_add(gap)) > self.closed_until;
        let is_open = is_open && slice_start(id.start, gap, 0) == id.start && id.start <= id.first_end;
        input.check(is_open && !id.corrects, "a slice of sessions that have not closed")?;
        Ok(id)
    }

    /// Makes sure that the times of a table that was read are those of its slice, and behind the watermark under which they came if any was.
    pub(crate) fn check_slice(&self, id: SliceId, table: &Table, input: &Reader<'_>) -> Result<(), SnapshotError> {
        let is_right =
            |extent: &Extent| extent.first >= id.start && (id.first_end == id.start || extent.last < id.first_end);
        input.check(self.sessions.are_within(id.start, table, is_right), "times of a slice")
    }
}

impl Snapshot for OpenSessions {
    fn description(&self) -> String {
        let Sessions { times: Times { gap, slots, .. }, lateness, layout, .. } = &self.sessions;
        format!("sessions with gaps of {gap}, corrected for {lateness}, {slots:?}, {}", layout.description())
    }

    fn write_to(&self, out: &mut Writer) -> Result<(), SnapshotError> {
        let is_behind = self.sessions.buckets.last().is_some_and(|last| last.start > self.closed_until);
        let is_merging = self.arriving.is_some() || self.sealed.is_merging();
        if is_merging || !self.sessions.over.entries.is_empty() || self.sessions.late.rows > 0 || is_behind {
            return Err(SnapshotError::UnderWay("sessions are being closed"));
        }
        out.instant(self.closed_until);
        out.count(self.sealed.tables_written());
        self.sealed.write_to(out)?;
        self.sessions.write_buckets(&self.sessions.buckets, out)?;
        self.sessions.write_buckets(&self.sessions.reported, out)
    }

    fn read_from(&mut self, input: &mut Reader<'_>) -> Result<(), SnapshotError> {
        self.closed_until = input.instant("up to where sessions have closed")?;
        for _ in 0..input.count(1, "slices")? {
            let id = self.read_id(input)?;
            let table = self.sessions.read_table(input)?;
            self.check_slice(id, &table, input)?;
            self.seal(id, table);
        }
        self.sessions.buckets = self.sessions.read_buckets(self.closed_until, input)?;
        self.sessions.reported = self.sessions.read_buckets(self.closed_until, input)?;
        Ok(())
    }
}

impl Sessions {
    fn write_buckets(&self, buckets: &[Bucket], out: &mut Writer) -> Result<(), SnapshotError> {
        out.count(buckets.len());
        for bucket in buckets {
            out.instant(bucket.start);
            self.write_sessions(&bucket.table, out)?;
            out.flag(bucket.corrections.is_some());
            bucket.corrections.iter().try_for_each(|corrections| self.write_sessions(corrections, out))?;
        }
        Ok(())
    }

    /// Writes the groups of a table that have rows.
    fn write_sessions(&self, table: &Table, out: &mut Writer) -> Result<(), SnapshotError> {
        let entries = table.entry_offsets();
        let extents = self.times.extents(table, &entries).into_iter().zip(entries);
        let sessions: Vec<u32> = extents.filter(|(extent, _)| !extent.is_empty()).map(|(_, entry)| entry).collect();
        table.write_groups((&sessions).into(), out)
    }

    /// Whether all sessions of a table have their last rows in the slice that begins at `start`, and are as asked for.
    fn are_within(&self, start: Micros, table: &Table, is_right: impl Fn(&Extent) -> bool) -> bool {
        let extents = self.times.extents(table, &table.entry_offsets());
        let is_within = |extent: &Extent| !extent.is_empty() && slice_start(extent.last, self.times.gap, 0) == start;
        extents.iter().all(|extent| is_within(extent) && is_right(extent))
    }

    /// Reads sessions whose last rows the watermark has come to.
    fn read_buckets(&self, closed_until: Micros, input: &mut Reader<'_>) -> Result<Vec<Bucket>, SnapshotError> {
        let mut buckets: Vec<Bucket> = Vec::new();
        for _ in 0..input.count(1, "slices of sessions")? {
            let start = input.instant("the start of a slice")?;
            let is_next = buckets.last().is_none_or(|last| last.start < start) && start <= closed_until;
            input.check(is_next && slice_start(start, self.times.gap, 0) == start, "slices in their order")?;
            let table = self.read_table(input)?;
            input.check(self.are_within(start, &table, |_| true), "sessions that end in their slice")?;
            let corrections = match input.flag("whether sessions are corrected")? {
                true => Some(Box::new(self.read_table(input)?)),
                false => None,
            };
            buckets.push(Bucket { corrections, ..Bucket::new(start, table) });
        }
        Ok(buckets)
    }

    fn read_table(&self, input: &mut Reader<'_>) -> Result<Table, SnapshotError> {
        let mut table = Table::new(self.layout.clone());
        table.read_from(input)?;
        Ok(table)
    }
}
