//! How much more memory a table may take.
//!
//! Tables that find keys by hash double, and what they would be then may be more than there is for them. Where it is, a table fills up instead, as far as it can,
//! and says what it lacks: whoever counts what state takes counts that too, before it is there, and ends what goes over its limit.

/// What a table may take, and what it lacks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowance {
    left: usize,
    lacking: usize,
}

impl Default for Allowance {
    fn default() -> Allowance {
        Allowance { left: usize::MAX, lacking: 0 }
    }
}

impl Allowance {
    /// Allows so many bytes more from now on, and what was lacking, which has been counted by now.
    pub fn allow(&mut self, bytes: usize) {
        self.left = bytes.saturating_add(std::mem::take(&mut self.lacking));
    }

    /// Takes so many bytes, or notes that they are lacking.
    pub fn take(&mut self, bytes: usize) -> bool {
        let left = self.left.checked_sub(bytes);
        (self.left, self.lacking) = left.map_or((self.left, bytes), |left| (left, 0));
        left.is_some()
    }

    /// Bytes that the table would have taken, had it been allowed to.
    pub fn lacking(&self) -> usize {
        self.lacking
    }

    /// Of so many slots as many as may be used while memory is lacking: a search must come to a free one.
    pub fn filled(capacity: usize) -> usize {
        capacity / 16 * 15
    }
}
