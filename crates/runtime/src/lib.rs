//! Tasks, workers, watermarks and ordered output.
//!
//! The runtime receives a [`graph::Graph`] of sources, kernels, windows and sinks and runs it to its end on a number of workers. It
//! never sees SQL, plans or the compiler: a kernel is a value it calls for each block.
//!
//! In reading order: [`source`] and [`sink`] (what a connector implements), [`graph`].

pub mod source;

pub mod sink;

pub mod graph;
