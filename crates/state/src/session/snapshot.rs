//! Sessions that are open, in snapshots.

use pelton_data::window::Window;

use super::{Bucket, OpenSessions, Sessions, extents};
use crate::slice::SliceId;
use crate::snapshot::{Reader, Snapshot, SnapshotError, Writer};
use crate::table::Table;

impl OpenSessions {
    /// Reads the id of a slice that can be sealed.
    pub(crate) fn read_id(&self, input: &mut Reader<'_>) -> Result<SliceId, SnapshotError> {
        let gap = self.sessions.gap;
        let id = SliceId::read_from(&Window::Session { gap }, input)?;
        let is_open = id.first_end.max(id.start.saturating_add(gap)) > self.closed_until;
        input.check(is_open && !id.corrects, "a slice of sessions that have not closed")?;
        Ok(id)
    }
}

impl Snapshot for OpenSessions {
    fn description(&self) -> String {
        let Sessions { gap, lateness, slots, layout, .. } = &self.sessions;
        format!("sessions with gaps of {gap}, corrected for {lateness}, {slots:?}, {}", layout.description())
    }

    fn write_to(&self, out: &mut Writer) -> Result<(), SnapshotError> {
        if !self.sessions.over.is_empty() || self.sessions.late.rows > 0 {
            return Err(SnapshotError::UnderWay("sessions are being closed"));
        }
        out.instant(self.closed_until);
        out.count(self.sealed.len());
        for (id, table) in &self.sealed {
            id.write_to(out);
            table.write_to(out)?;
        }
        self.sessions.write_buckets(&self.sessions.buckets, out)?;
        self.sessions.write_buckets(&self.sessions.reported, out)
    }

    fn read_from(&mut self, input: &mut Reader<'_>) -> Result<(), SnapshotError> {
        self.closed_until = input.instant("up to where sessions have closed")?;
        for _ in 0..input.count(1, "slices")? {
            let id = self.read_id(input)?;
            let table = self.sessions.read_table(input)?;
            self.seal(id, table);
        }
        self.sessions.buckets = self.sessions.read_buckets(input)?;
        self.sessions.reported = self.sessions.read_buckets(input)?;
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
        let extents = extents(table, &entries, self.slots, self.micros_per_tick).into_iter().zip(entries);
        let sessions: Vec<u32> = extents.filter(|(extent, _)| !extent.is_empty()).map(|(_, entry)| entry).collect();
        table.write_groups((&sessions).into(), out)
    }

    fn read_buckets(&self, input: &mut Reader<'_>) -> Result<Vec<Bucket>, SnapshotError> {
        let mut buckets: Vec<Bucket> = Vec::new();
        for _ in 0..input.count(1, "slices of sessions")? {
            let start = input.instant("the start of a slice")?;
            input.check(buckets.last().is_none_or(|last| last.start < start), "slices in their order")?;
            let table = self.read_table(input)?;
            let corrections = match input.flag("whether sessions are corrected")? {
                true => Some(Box::new(self.read_table(input)?)),
                false => None,
            };
            buckets.push(Bucket { start, table, by_end: None, corrections });
        }
        Ok(buckets)
    }

    fn read_table(&self, input: &mut Reader<'_>) -> Result<Table, SnapshotError> {
        let mut table = Table::new(self.layout.clone());
        table.read_from(input)?;
        Ok(table)
    }
}
