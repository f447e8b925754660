//! Sessions, by their definition: rows of a key, each near enough to another.

use super::{Reported, Row, Windows};

/// Rows near each other.
pub(super) struct Session<'r> {
    pub key: Option<i64>,
    pub first: i64,
    pub last: i64,
    pub rows: Vec<&'r Row>,
    pub is_reported: bool,
    /// Whether rows of it have been reported as another session.
    pub is_corrected: bool,
}

impl Windows {
    /// Sessions: a row joins those that it is near to and that are not final, or begins one. A row behind the watermark joins when the watermark
    /// moves on, and begins a session only if that would not be final. Sessions are reported when they are over; once more when they have become others.
    pub(super) fn sessions<'r>(
        &self,
        rows: impl Iterator<Item = Option<&'r Row>>,
        gap: i64,
        is_keyed: bool,
    ) -> (Vec<Reported<'r>>, u64) {
        let (mut sessions, mut reported): (Vec<Session<'_>>, Vec<Reported<'_>>) = (Vec::new(), Vec::new());
        let (mut late, mut watermark) = (0, i64::MIN);
        let mut behind: Vec<&Row> = Vec::new();
        for row in rows {
            let final_until = watermark.saturating_sub(self.lateness);
            match row {
                Some(row) if row.time >= watermark => add(&mut sessions, row, gap, is_keyed, final_until),
                Some(row) => behind.push(row),
                None => {}
            }
            let now = row.map_or(i64::MAX, |row| watermark.max(row.time - self.delay));
            if now > watermark {
                late += add_behind(&mut sessions, std::mem::take(&mut behind), gap, is_keyed, final_until);
                let over = sessions.iter_mut().filter(|session| !session.is_reported && session.last + gap < now);
                let mut over: Vec<Reported<'_>> = over.map(|session| session.report(gap, watermark)).collect();
                over.sort_by_key(|one| (one.group.0, one.is_correction, one.group));
                reported.append(&mut over);
            }
            watermark = now;
        }
        (reported, late)
    }
}

impl<'r> Session<'r> {
    /// Whether a row of that key belongs to this session, where all that ended before an instant are final.
    pub fn takes(&self, row: &Row, key: Option<i64>, gap: i64, final_until: i64) -> bool {
        let is_near = self.first - gap <= row.time && row.time <= self.last + gap;
        self.key == key && is_near && self.last + gap >= final_until
    }

    /// What is reported of it when time moves on from `watermark`.
    pub fn report(&mut self, gap: i64, watermark: i64) -> Reported<'r> {
        self.is_reported = true;
        let end = self.last + gap;
        let mut rows = self.rows.clone();
        // In the order of their arrival.
        rows.sort_by_key(|&row| std::ptr::from_ref(row));
        Reported { group: (end, self.first, self.key), is_correction: self.is_corrected || end < watermark, rows }
    }
}

/// Adds a row to the sessions that take it, which become one.
pub(super) fn add<'r>(sessions: &mut Vec<Session<'r>>, row: &'r Row, gap: i64, is_keyed: bool, final_until: i64) {
    let (key, time) = (row.key.filter(|_| is_keyed), row.time);
    let mut merged =
        Session { key, first: time, last: time, rows: Vec::new(), is_reported: false, is_corrected: false };
    for session in sessions.extract_if(.., |session| session.takes(row, key, gap, final_until)) {
        merged.first = merged.first.min(session.first);
        merged.last = merged.last.max(session.last);
        merged.is_corrected |= session.is_reported || session.is_corrected;
        merged.rows.extend(session.rows);
    }
    merged.rows.push(row);
    sessions.push(merged);
}

/// Adds rows that came behind the watermark to sessions, where they join one or begin one that is not final. Returns how many do neither.
pub(super) fn add_behind<'r>(
    sessions: &mut Vec<Session<'r>>,
    mut behind: Vec<&'r Row>,
    gap: i64,
    is_keyed: bool,
    final_until: i64,
) -> u64 {
    // What one row extends another may join.
    for _ in 0..behind.len() {
        let (joining, others): (Vec<&Row>, Vec<&Row>) = behind.into_iter().partition(|row| {
            let key = row.key.filter(|_| is_keyed);
            row.time + gap >= final_until || sessions.iter().any(|session| session.takes(row, key, gap, final_until))
        });
        joining.into_iter().for_each(|row| add(sessions, row, gap, is_keyed, final_until));
        behind = others;
    }
    behind.len() as u64
}
