//! How keys are looked up, however a table finds its groups.

/// Keys hashed and fetched ahead at a time: their hashes stay in the first-level cache.
pub(super) const BATCH: usize = 512;

/// How many keys ahead of the one that is looked for the line of an entry is fetched: memory answers several requests at a time.
pub(super) const PREFETCH_KEYS: usize = 64;

/// Stands for the entry of a key that has none.
pub(crate) const ABSENT: u32 = u32::MAX;
