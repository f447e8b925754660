//! What windows and joins remember.
//!
//! A row that a pipeline has selected ends here: its key finds an entry of the slice's [`table`], whose accumulators it
//! changes. When the watermark passes the slice, the workers' tables are merged; when it passes a [`window`], its slices are
//! combined by a [`gag`] and read out; those of sessions merge as they touch ([`session`]), those of so many rows of a key as they come ([`count`]). A [`join`] finds rows in buckets. State knows no threads and no wall clock.
//!
//! In reading order: `work` (how much one call does), `two_stacks` (totals from which nothing is subtracted), [`kernel`] (what the runtime calls for each block), [`profile`] (what it says of the rows it saw), [`aggregates`] (what is kept of values, and how it is combined), [`layout`] (what an entry holds), [`table`],
//! [`slice`] (the tables of the slices that are open), [`small_slices`] (of many small slices together), [`gag`] (windows from slices), `correction` (windows that have been reported), [`session`] (sessions from pieces), [`count`] (windows of so many rows of a key), [`ranking`] (the first rows of windows), [`window`], [`coalesce`] (windows on their way out), `pending` (rows that wait until time has passed theirs), `key_numbers` (keys of rows as numbers), [`over`] (functions of the rows before a row), [`join`] (rows found by key), [`snapshot`] (all of this as bytes), [`vector`] (what loops over columns have in common).

mod work;

mod two_stacks;

pub mod kernel;

pub mod profile;

pub mod aggregates;

pub mod layout;

pub mod table;

pub mod slice;

mod closed_slices;

pub mod small_slices;

pub mod gag;

mod correction;

pub mod session;

pub mod count;

pub mod ranking;

pub mod window;

pub mod coalesce;

mod pending;

mod key_numbers;

pub mod over;

pub mod join;

pub mod snapshot;

pub mod vector;
