//! From results to a sink: order and limit, writing, and how long results take.

pub mod latency;

pub(crate) mod outlet;

pub mod sink;

pub(crate) mod write;
