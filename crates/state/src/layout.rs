//! What one entry of a table holds: a key, then accumulators.
//!
//! Compiled code, interpreted primitives, merging and reading out all follow this one layout, so that a pipeline can
//! change its tier between two blocks without touching its state.
