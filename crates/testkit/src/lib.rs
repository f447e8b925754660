//! How the engine is tested from outside.
//!
//! A record's life is checked here from end to end: [`script`] runs SQL scripts with expected results in every way the engine can
//! run them, and [`rows`] writes results down so that equal results are equal texts. Functions of [`own`] are a program's. [`windows`] says what windows mean, [`ranking`] what their first rows are. [`simulate`] has an engine do anything that can happen, in one thread. [`kafka_broker`] is a real broker for tests of Kafka tables.

pub mod rows;

pub mod udaf;

pub mod table_functions;

pub mod script;

pub mod windows;

pub mod over;

pub mod ranking;

pub mod simulate;

pub mod kafka_broker;
