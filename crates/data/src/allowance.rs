//! How many bytes the values that one function makes of a block's rows may take.
//!
//! Short arguments make long values: `REPEAT(s, 1000000000)`. A function that would make more than it may is refused before it does. A worker
//! has the allowance of the query that it works for; elsewhere, such as where a query is planned, the largest one holds.

use std::cell::Cell;

/// An allowance is at most this, where memory is not limited: a string has fewer than 4 GiB, and several functions of several workers have theirs at once.
const BYTES_MAX: usize = 1 << 30;

/// However little memory there is, a block of ordinary strings is allowed.
const BYTES_MIN: usize = 16 << 20;

thread_local! {
    /// The allowance of the thread, and the `pelton.memory` that it comes from.
    static ALLOWANCE: Cell<Allowance> = const { Cell::new(Allowance { bytes_max: BYTES_MAX, memory: None }) };
}

/// Bytes that the values of one function may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    bytes_max: usize,
    /// The limit that it comes from.
    memory: Option<usize>,
}

impl Allowance {
    /// The allowance where all queries may take so many bytes.
    pub fn of_memory(memory: usize) -> Allowance {
        let bytes_max = memory.clamp(BYTES_MIN, BYTES_MAX);
        Allowance { bytes_max, memory: (memory < BYTES_MAX).then_some(memory) }
    }

    /// Makes it the allowance of this thread.
    pub fn set(self) {
        ALLOWANCE.set(self);
    }

    /// The allowance of this thread.
    pub fn get() -> Allowance {
        ALLOWANCE.get()
    }

    /// Whether so many bytes are allowed.
    pub fn allows(self, bytes: usize) -> bool {
        bytes <= self.bytes_max
    }

    /// Why values of so many bytes are refused, if they are; goes behind the name of a function.
    pub fn refusal(self, bytes: usize) -> Option<String> {
        if self.allows(bytes) {
            return None;
        }
        let mebibytes = |bytes: usize| bytes.div_ceil(1 << 20);
        let (bytes, bytes_max) = (mebibytes(bytes), mebibytes(self.bytes_max));
        let of_memory = match self.memory {
            Some(memory) if memory.is_multiple_of(1 << 20) => {
                format!(" ('pelton.memory' = '{} MiB')", mebibytes(memory))
            }
            Some(memory) => format!(" ('pelton.memory' = '{memory} bytes')"),
            None => String::new(),
        };
        Some(format!("makes a result of {bytes} MiB, more than the limit of {bytes_max} MiB{of_memory}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allowed_comes_from_the_memory_there_is() {
        let refusal = |memory: usize, bytes: usize| Allowance::of_memory(memory).refusal(bytes);
        assert_eq!(refusal(usize::MAX, 1 << 30), None);
        let message = "makes a result of 1025 MiB, more than the limit of 1024 MiB";
        assert_eq!(refusal(usize::MAX, (1 << 30) + 1).as_deref(), Some(message));
        assert_eq!(refusal(32 << 20, 32 << 20), None);
        let message = "makes a result of 33 MiB, more than the limit of 32 MiB ('pelton.memory' = '32 MiB')";
        assert_eq!(refusal(32 << 20, 33 << 20).as_deref(), Some(message));
        assert_eq!(refusal(1, 16 << 20), None);
        assert!(refusal(1, (16 << 20) + 1).is_some());
    }
}
