//! Why a checkpoint cannot be written or read.

/// Why a checkpoint cannot be written or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct CheckpointError {
    /// The directory, with the checkpoint where there is one.
    pub place: String,
    /// What happened.
    pub problem: String,
}
