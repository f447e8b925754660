//! Buffers for keys that go from one table to another.

/// Keys on their way from one table to another: buffers that are reused.
#[derive(Debug, Default)]
pub(crate) struct KeyScratch {
    pub(super) integers: Vec<i64>,
    pub(super) packed: Vec<u8>,
    pub(super) hashes: Vec<u64>,
}
