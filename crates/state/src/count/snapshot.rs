//! Windows that count the rows of each key, in snapshots: of each key how many rows it has had, and what its slices have that windows need which are not
//! complete.

use pelton_data::window::ResultKind;

use super::{CompleteWindows, HeldSlices, OpenCounts, RowCounter, Shape};
use crate::coalesce::CopiedGroups;
use crate::snapshot::{Reader, Snapshot, SnapshotError, Writer};
use crate::table::{Remainder, Table};
use crate::window::ClosedWindow;

/// Stands for a slice of a key: what it has accumulated may take no bytes.
const PLACED: u8 = 1;

impl RowCounter {
    /// Writes the keys, and the slices in the order of these: the open one, those that are complete, and what these have in all.
    pub(crate) fn write_to(&self, out: &mut Writer) -> Result<(), SnapshotError> {
        if !self.leaving.windows.is_empty() || !self.complete.is_empty() || self.slots_done > 0 {
            return Err(SnapshotError::UnderWay("windows of rows are being closed"));
        }
        let Shape { slice_rows, slices, slide } = self.shape;
        out.column(&[slice_rows, slices, slide]);
        let keys = self.keys.remainders(0..self.keys.known().slots());
        let entries: Vec<u32> = keys.iter().map(|key| key.key).collect();
        self.keys.known().write_keys((&entries).into(), out)?;
        let none = HeldSlices::default();
        let held = |key: &Remainder| key.mark.checked_sub(1).map_or(&none, |mark| &self.held[mark as usize]);
        let column = |of: &dyn Fn(&Remainder) -> i64| keys.iter().map(of).collect::<Vec<i64>>();
        out.column(&column(&|key| key.complete));
        out.column(&column(&|key| key.lacking));
        out.column(&column(&|key| held(key).places.len() as i64));
        out.column(&column(&|key| held(key).totals as i64));
        out.column(&column(&|key| i64::from(held(key).running.is_some())));
        let places = keys.iter().flat_map(|key| key.open.into_iter().chain(held(key).all_places()));
        let units = self.values.unkeyed_units();
        let entries: Vec<u32> = places.map(|place| place * units).collect();
        // Whoever reads asks for no more room than there are bytes.
        out.column(&vec![PLACED; entries.len()]);
        self.values.write_values((&entries).into(), out)
    }

    /// Becomes what was written.
    pub(crate) fn read_from(&mut self, input: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let Shape { slice_rows, slices, slide } = self.shape;
        let shape = input.column::<i64>(3, "rows of windows")?;
        input.check(*shape == [slice_rows, slices, slide], "the same windows")?;
        let read = self.keys.table().read_keys(1, input)?;
        let keys = read.chosen();
        let mut column = || input.column::<i64>(keys.len(), "slices of keys");
        let (complete, lacking, held, totals, running) = (column()?, column()?, column()?, column()?, column()?);
        let has_totals = !self.are_recomputed;
        let is_right = |at: usize| {
            (held[at]..=i64::MAX / slice_rows - slices).contains(&complete[at])
                && (0..slice_rows).contains(&lacking[at])
                && (0..slices).contains(&held[at])
                && (0..=held[at]).contains(&totals[at])
                && (0..=1).contains(&running[at])
                && (has_totals || (totals[at], running[at]) == (0, 0))
        };
        input.check((0..keys.len()).all(is_right), "slices of windows that are not complete")?;
        let open = |at: usize| i64::from(lacking[at] > 0);
        let places =
            (0..keys.len()).try_fold(0_i64, |places, at| places.checked_add(open(at) + held[at] + running[at]));
        let places = places.and_then(|places| u32::try_from(places).ok()).unwrap_or(u32::MAX) as usize;
        let placed = input.column::<u8>(places, "slices of keys")?;
        input.check(placed.iter().all(|byte| *byte == PLACED), "slices of keys")?;
        self.reserve(places);
        let taken: Vec<u32> = (0..places).map(|_| self.keys.take_place()).collect();
        let mut next = taken.iter().copied();
        for (at, key) in keys.iter().enumerate() {
            let open = next.by_ref().take(open(at) as usize).next().map(|place| (lacking[at], place));
            self.keys.resume(key, complete[at], open);
            let places = next.by_ref().take(held[at] as usize).collect();
            let running = next.by_ref().take(running[at] as usize).next();
            if held[at] > 0 || running.is_some() {
                let mark = self.mark(key);
                self.held[mark] = HeldSlices { places, totals: totals[at] as usize, running };
            }
        }
        let units = self.values.unkeyed_units();
        let entries: Vec<u32> = taken.into_iter().map(|place| place * units).collect();
        self.values.read_values((&entries).into(), input)
    }
}

impl HeldSlices {
    fn all_places(&self) -> impl Iterator<Item = u32> {
        self.places.iter().copied().chain(self.running)
    }
}

impl Snapshot for OpenCounts {
    fn description(&self) -> String {
        format!("windows of rows of each key, {}", self.layout.description())
    }

    fn write_to(&self, out: &mut Writer) -> Result<(), SnapshotError> {
        if self.rest.is_some() {
            return Err(SnapshotError::UnderWay("the last windows are being closed"));
        }
        out.count(self.complete.len());
        for CompleteWindows { until, groups: CopiedGroups { groups, windows, .. } } in &self.complete {
            out.instant(*until);
            groups.write_to(out)?;
            let bounds = |of: fn(&ClosedWindow) -> i64| windows.iter().map(of).collect::<Vec<i64>>();
            out.column(&bounds(|window| window.start));
            out.column(&bounds(|window| window.end));
        }
        Ok(())
    }

    fn read_from(&mut self, input: &mut Reader<'_>) -> Result<(), SnapshotError> {
        for _ in 0..input.count(1, "windows that are complete")? {
            let until = input.instant("how many rows have come")?;
            let mut groups = Table::list(self.layout.clone());
            groups.read_from(input)?;
            let mut bounds = || input.column::<i64>(groups.groups(), "bounds of windows");
            let (starts, ends) = (bounds()?, bounds()?);
            let window = |(&start, &end)| ClosedWindow { start, end, groups: 1, kind: ResultKind::Final };
            let windows = starts.iter().zip(&*ends).map(window).collect();
            groups.share();
            self.complete.push_back(CompleteWindows { until, groups: CopiedGroups::of(groups, windows) });
        }
        Ok(())
    }
}
