//! The tables of the slices that are open.
