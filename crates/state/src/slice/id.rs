//! Which slice rows belong to.

use pelton_data::Micros;
use pelton_data::window::{Covered, Window};

use crate::snapshot::{Reader, SnapshotError, Writer};

/// Which slice, and from which window on its rows count: rows of one slice that came when some of its windows had closed are
/// kept apart. Ordered by when they are needed.
///
/// Where a session ends is not known beforehand. Of sessions, `first_end` is the slice's start for rows that came when the watermark had not
/// passed them, and for all others the watermark under which they came.
///
/// Where windows are corrected after they have been reported, rows that came when a window had closed which they count in are kept apart as well. Their
/// `first_end` is one microsecond after the watermark under which they came: the windows are corrected when that has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SliceId {
    /// End of the first window that the rows count in.
    pub first_end: Micros,
    /// First instant of the slice.
    pub start: Micros,
    /// Whether the rows correct a window.
    pub corrects: bool,
}

impl SliceId {
    /// A slice of rows that correct no window.
    pub fn new(first_end: Micros, start: Micros) -> SliceId {
        SliceId { first_end, start, corrects: false }
    }

    /// Whether the rows may correct windows that have been reported, once time has passed `first_end`.
    pub fn may_correct(&self, window: &Window) -> bool {
        match window {
            // They came behind the watermark: a session that they join or merge may have ended.
            Window::Session { .. } => self.first_end > self.start,
            _ => self.corrects,
        }
    }

    /// What one of `window`'s own slices is called that holds this one, a slice of a grid with the edges of several windows ([`Window::grid`]); `None` where its rows
    /// came when all of their windows had closed.
    pub fn share_of(self, window: &Window) -> Option<SliceId> {
        let slice = window.slice(self.start);
        let covered = slice.covered?;
        let first_end = window.next_end(self.first_end.saturating_sub(1)).max(covered.first_end);
        (first_end <= covered.last_end).then(|| SliceId::new(first_end, slice.start))
    }

    /// The earliest end that a window of `window` can have which its rows count in; none where they correct windows.
    pub fn end_min(&self, window: &Window) -> Option<Micros> {
        let end = match window {
            Window::Session { gap } => self.start.saturating_add(*gap),
            _ => self.first_end,
        };
        Some(end).filter(|_| !self.corrects)
    }

    pub(crate) fn write_to(self, out: &mut Writer) {
        out.instant(self.first_end);
        out.instant(self.start);
        out.flag(self.corrects);
    }

    /// Reads an id of a slice that counts in windows which are open.
    pub(crate) fn read_from(window: &Window, input: &mut Reader<'_>) -> Result<SliceId, SnapshotError> {
        let first_end = input.instant("the end of the first window of a slice")?;
        let start = input.instant("the start of a slice")?;
        let id = SliceId { first_end, start, corrects: input.flag("whether a slice corrects windows")? };
        let covered = covered(window, start, input)?;
        let is_end = match window {
            Window::Session { .. } => true,
            _ => first_end <= covered.last_end && window.next_end(first_end.saturating_sub(1)) == first_end,
        };
        let has_begun = matches!(window, Window::Session { .. }) || covered.first_end <= first_end;
        input.check((id.corrects || is_end) && has_begun, "the end of a window of the slice")?;
        Ok(id)
    }
}

/// The ends of the windows that cover a slice which was read.
pub(crate) fn covered(window: &Window, start: i64, input: &Reader<'_>) -> Result<Covered, SnapshotError> {
    let covered = window.slice(start).covered;
    covered.ok_or(()).or_else(|()| {
        input.check(false, "a slice that a window covers")?;
        unreachable!("just refused")
    })
}
