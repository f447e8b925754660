//! The first rows of windows, in snapshots: as columns, for the bytes that compare as the rows do are arrow's, and another version's may differ.

use std::collections::BTreeMap;

use pelton_data::window::Covered;

use super::{KeyedRow, RankedSlice, RankedWindows};
use crate::slice::{SliceId, covered};
use crate::snapshot::{Reader, Snapshot, SnapshotError, Writer};

impl Snapshot for RankedWindows {
    fn description(&self) -> String {
        let ranking = &self.ranker.ranking;
        let columns: Vec<String> = ranking.schema.fields().iter().map(|field| field.data_type().to_string()).collect();
        format!(
            "the first {} rows ({:?}, {}) by {:?} in the order of {:?}, in {:?} that are corrected for {}",
            ranking.last,
            ranking.numbering,
            columns.join(", "),
            ranking.keys,
            ranking.order,
            self.window,
            self.lateness
        )
    }

    fn write_to(&self, out: &mut Writer) -> Result<(), SnapshotError> {
        if self.closing.is_some() || self.correcting.is_some() || self.early.is_some() {
            return Err(SnapshotError::UnderWay("windows are being closed or reported"));
        }
        out.instant(self.closed_until);
        for slices in [&self.slices, &self.corrections] {
            out.count(slices.len());
            for (id, slice) in slices {
                id.write_to(out);
                out.instant(slice.next_end);
                let rows: Vec<KeyedRow<'_>> = slice.rows().collect();
                let batch = self.ranker.decoded(&rows).map_err(|error| SnapshotError::NoForm(error.to_string()))?;
                out.batch(&batch, &self.ranker.ranking.schema)?;
            }
        }
        Ok(())
    }

    fn read_from(&mut self, input: &mut Reader<'_>) -> Result<(), SnapshotError> {
        self.closed_until = input.instant("up to where windows have been reported")?;
        self.slices = self.read_slices(false, input)?;
        self.corrections = self.read_slices(true, input)?;
        Ok(())
    }
}

impl RankedWindows {
    /// Reads slices, of rows that correct windows or of all others.
    fn read_slices(
        &self,
        correct: bool,
        input: &mut Reader<'_>,
    ) -> Result<BTreeMap<SliceId, RankedSlice>, SnapshotError> {
        let mut slices = BTreeMap::new();
        for _ in 0..input.count(1, "slices")? {
            let id = SliceId::read_from(&self.window, input)?;
            let Covered { first_end, last_end } = covered(&self.window, id.start, input)?;
            let next_end = input.instant("the end of the next window of a slice")?;
            // Of a slice whose windows have all been reported it may be any.
            let is_end = next_end > last_end || self.window.next_end(next_end.saturating_sub(1)) == next_end;
            let is_open = next_end > last_end || next_end > self.closed_until;
            let is_end = is_end && is_open && next_end >= id.first_end.max(first_end);
            let is_due = id.corrects && id.first_end > self.closed_until;
            input.check(if correct { is_due } else { is_end }, "the end of a window of a slice")?;
            let batch = input.batch(&self.ranker.ranking.schema, "the first rows of a slice")?;
            let candidates = self.ranker.choose(&batch);
            input.check(candidates.is_ok(), "rows that can be put in order")?;
            let mut slice = RankedSlice::new(next_end, last_end);
            candidates.iter().for_each(|candidates| slice.add_all(candidates, &self.ranker));
            slices.insert(id, slice);
        }
        Ok(slices)
    }
}
