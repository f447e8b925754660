//! How many values of a frame are not NULL.

use super::call::Run;
use super::value::Value;

/// Values of a frame that are not NULL.
#[derive(Debug, Default)]
pub(super) struct ValidCount {
    pub count: u64,
    /// Rows of the frame so far.
    pub start: u64,
    pub end: u64,
    /// One past the last row that is not NULL; of a call that looks for the first value of a frame, where that is or the next may be.
    pub last: u64,
}

impl ValidCount {
    /// Replaces `counts` by how many values of each frame are not NULL.
    pub fn slide<T: Value>(&mut self, run: &Run<'_, T>, counts: &mut Vec<u64>) {
        counts.clear();
        counts.extend(run.bounds.frames().map(|(start, end)| {
            while self.end < end {
                self.count += u64::from(run.is_valid(self.end));
                self.end += 1;
            }
            if self.start < start {
                self.count -= run.kept.expect("a bounded frame looks back").count_valid(self.start, start);
                self.start = start;
            }
            self.count
        }));
    }

    /// Whether any value of a frame is not NULL. Nothing needs to be kept for it.
    pub fn has_any<T: Value>(&mut self, run: &Run<'_, T>, start: u64, end: u64) -> bool {
        while self.end < end {
            if run.is_valid(self.end) {
                self.last = self.end + 1;
            }
            self.end += 1;
        }
        self.last > start
    }
}
