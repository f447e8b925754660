//! What windows report of streams with several partitions, each of which has a watermark of its own.
//!
//! Time is the least of these watermarks; a row counts where its own partition's lets it. So it makes no difference in which order rows of
//! different partitions come: a row that is not behind the watermark of its partition has come when time comes to the row, and one that is when
//! time comes to that watermark.

use std::collections::{BTreeMap, BTreeSet};

use super::sessions::{Session, add, add_behind};
use super::{Group, Kind, Reported, Row, Windows};

/// A row of one partition.
#[derive(Debug, Clone, Copy)]
struct Arrival<'r> {
    row: &'r Row,
    /// What its partition had come to before it.
    watermark: i64,
}

impl Windows {
    /// As [`Windows::reported`], of the rows of several partitions; rows of a group are in the order of the partitions.
    ///
    /// # Panics
    /// Where windows count rows.
    pub fn reported_of<'r>(&self, partitions: &[&'r [Row]], is_keyed: bool) -> (Vec<Reported<'r>>, u64) {
        let mut arrivals = Vec::new();
        for partition in partitions {
            let mut watermark = i64::MIN;
            for row in *partition {
                arrivals.push(Arrival { row, watermark });
                watermark = watermark.max(row.time - self.delay);
            }
        }
        match self.kind {
            Kind::Session { gap } => self.sessions_of(arrivals, gap, is_keyed),
            _ => self.windows_of(&arrivals, is_keyed),
        }
    }

    fn windows_of<'r>(&self, arrivals: &[Arrival<'r>], is_keyed: bool) -> (Vec<Reported<'r>>, u64) {
        let mut groups: BTreeMap<Group, Vec<Arrival<'_>>> = BTreeMap::new();
        let mut late = 0;
        for arrival in arrivals {
            let windows = self.holding(arrival.row.time);
            let counting: Vec<_> = windows.iter().filter(|(_, end)| end + self.lateness > arrival.watermark).collect();
            late += u64::from(!windows.is_empty() && counting.is_empty());
            for (start, end) in counting {
                let group = (*end, *start, arrival.row.key.filter(|_| is_keyed));
                groups.entry(group).or_default().push(*arrival);
            }
        }
        let mut reported = Vec::new();
        for (group, arrivals) in groups {
            let end = group.0;
            let with = |until: i64| {
                let rows = arrivals.iter().filter(|arrival| arrival.watermark < end || arrival.watermark <= until);
                rows.map(|arrival| arrival.row).collect::<Vec<_>>()
            };
            let in_time = with(i64::MIN);
            if !in_time.is_empty() {
                reported.push(((end, 1), Reported { group, is_correction: false, rows: in_time }));
            }
            // Time must have passed a watermark so that all rows are known which came under it.
            let watermarks: BTreeSet<i64> = arrivals.iter().map(|arrival| arrival.watermark).collect();
            for watermark in watermarks.into_iter().filter(|watermark| *watermark >= end) {
                reported.push(((watermark + 1, 0), Reported { group, is_correction: true, rows: with(watermark) }));
            }
        }
        reported.sort_by_key(|(place, one)| (*place, one.group));
        (reported.into_iter().map(|(_, one)| one).collect(), late)
    }

    fn sessions_of<'r>(&self, mut arrivals: Vec<Arrival<'r>>, gap: i64, is_keyed: bool) -> (Vec<Reported<'r>>, u64) {
        let places: BTreeMap<*const Row, usize> =
            arrivals.iter().enumerate().map(|(place, arrival)| (std::ptr::from_ref(arrival.row), place)).collect();
        let (mut sessions, mut reported): (Vec<Session<'_>>, Vec<Reported<'_>>) = (Vec::new(), Vec::new());
        let (mut late, mut before) = (0, i64::MIN);
        arrivals.sort_by_key(|arrival| arrival.row.time.max(arrival.watermark));
        let mut report = |sessions: &mut Vec<Session<'r>>, before: i64, now: i64| {
            let over = sessions.iter_mut().filter(|session| !session.is_reported && session.last + gap < now);
            let mut over: Vec<Reported<'_>> = over.map(|session| session.report(gap, before)).collect();
            over.iter_mut().for_each(|one| one.rows.sort_by_key(|row| places[&std::ptr::from_ref(*row)]));
            over.sort_by_key(|one| (one.group.0, one.is_correction, one.group));
            reported.append(&mut over);
        };
        for at_once in arrivals.chunk_by(|a, b| a.row.time.max(a.watermark) == b.row.time.max(b.watermark)) {
            let now = at_once[0].row.time.max(at_once[0].watermark);
            report(&mut sessions, before, now);
            let final_until = now.saturating_sub(self.lateness);
            let (in_time, behind): (Vec<Arrival<'_>>, Vec<Arrival<'_>>) =
                at_once.iter().partition(|arrival| arrival.row.time >= arrival.watermark);
            in_time.into_iter().for_each(|arrival| add(&mut sessions, arrival.row, gap, is_keyed, final_until));
            let behind = behind.into_iter().map(|arrival| arrival.row).collect();
            late += add_behind(&mut sessions, behind, gap, is_keyed, final_until);
            before = now;
        }
        report(&mut sessions, before, i64::MAX);
        (reported, late)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(time: i64) -> Row {
        Row { time, key: None, integer: None, float: None, text: None }
    }

    fn reported(windows: Windows, partitions: &[&[i64]]) -> (Vec<(i64, i64, usize, bool)>, u64) {
        let partitions: Vec<Vec<Row>> =
            partitions.iter().map(|times| times.iter().map(|&time| row(time)).collect()).collect();
        let partitions: Vec<&[Row]> = partitions.iter().map(Vec::as_slice).collect();
        let (reported, late) = windows.reported_of(&partitions, false);
        (reported.iter().map(|one| (one.group.1, one.group.0, one.rows.len(), one.is_correction)).collect(), late)
    }

    #[test]
    fn a_row_is_late_for_its_own_partition_only() {
        let tumbling = Windows { kind: Kind::Tumble { size: 10 }, offset: 0, delay: 0, lateness: 0 };
        assert_eq!(reported(tumbling, &[&[15, 3], &[25, 7, 12]]), (vec![(10, 20, 1, false), (20, 30, 1, false)], 3));
        let corrected = Windows { lateness: 6, ..tumbling };
        // 3 came at 15, and 12 at 25; 7 is too late at that.
        let expected = [(0, 10, 1, true), (10, 20, 1, false), (10, 20, 2, true), (20, 30, 1, false)];
        assert_eq!(reported(corrected, &[&[15, 3], &[25, 7, 12]]), (expected.to_vec(), 1));
        // Rows that came under one watermark correct together, those of another by themselves.
        let expected = [(0, 10, 1, false), (0, 10, 3, true), (0, 10, 4, true), (10, 20, 3, false)];
        assert_eq!(reported(corrected, &[&[1, 12, 2], &[12, 3], &[14, 4]]), (expected.to_vec(), 0));
    }

    #[test]
    fn sessions_wait_for_all_partitions() {
        let sessions = Windows { kind: Kind::Session { gap: 10 }, offset: 0, delay: 0, lateness: 0 };
        // 21 waits for what the other partition has before it.
        let joined = [(0, 10, 1, false), (12, 31, 2, false), (50, 60, 1, false)];
        assert_eq!(reported(sessions, &[&[0, 21], &[12, 50]]), (joined.to_vec(), 0));
        // 12 came at 40: what it joins is over.
        let late = [(0, 10, 1, false), (21, 31, 1, false), (40, 50, 1, false)];
        assert_eq!(reported(sessions, &[&[0, 21], &[40, 12]]), (late.to_vec(), 1));
        let corrected = [(0, 10, 1, false), (21, 31, 1, false), (12, 31, 2, true), (40, 50, 1, false)];
        assert_eq!(reported(Windows { lateness: 18, ..sessions }, &[&[0, 21], &[40, 12]]), (corrected.to_vec(), 0));
    }
}
