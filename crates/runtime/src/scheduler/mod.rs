//! Who does what next.
//!
//! A [`worker`] of a [`pool`] asks [`dispatch`] what can run in each run, by the [`statistics`] of its nodes and its [`load`]. A [`policy`] ranks that,
//! [`fairness`] shares workers among runs, and a [`task`] is performed. Idle workers sleep ([`wake`]).

pub mod attendants;

pub(crate) mod background;

pub(crate) mod buffers;

pub(crate) mod crew;

pub(crate) mod dispatch;

pub(crate) mod fairness;

pub(crate) mod load;

#[cfg(target_os = "linux")]
pub(crate) mod pinning;

pub mod policy;

pub mod pool;

pub(crate) mod statistics;

pub(crate) mod task;

pub(crate) mod threads;

pub mod wake;

pub(crate) mod worker;
