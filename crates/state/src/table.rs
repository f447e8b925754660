//! Groups of one slice: an open-addressing or dense table of entries.

/// The groups of one slice, as one worker has seen them.
#[derive(Debug)]
pub struct Table {}
