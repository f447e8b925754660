//! Rows of a bounded table, found by key.
