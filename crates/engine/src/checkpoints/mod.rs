//! Checkpoints of jobs: what a job was at a cut, kept so that it can go on from there after a failure.
//!
//! A checkpoint is a manifest (JSON with a hash) and pieces of operators' state. Pieces are named by a hash of their content and written once, before the
//! manifest; so a checkpoint that is there is whole.
//!
//! In reading order: [`job`] (a job that has checkpoints), [`coordinator`] (takes them while it runs), [`watched`] (what others see of that), [`history`] (the
//! checkpoints of a job), [`manifest`], [`store`], [`restore_from`], [`parts`] (which state belongs to which part of a program), [`error`].

pub(crate) mod job;

pub(crate) mod coordinator;

pub(crate) mod watched;

mod history;

mod manifest;

pub(crate) mod store;

pub(crate) mod restore_from;

pub(crate) mod parts;

pub(crate) mod error;

pub use error::CheckpointError;
pub use restore_from::RestoreFrom;
pub use watched::{CheckpointStatus, LastCheckpoint};
