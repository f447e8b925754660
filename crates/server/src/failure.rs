//! Failures, and the exit codes that tell them.

/// Ended by Ctrl-C, as shells count it: 128 and the number of the signal.
pub const EXIT_INTERRUPTED: u8 = 130;

/// Ended because nobody reads the output any more, as shells count it.
pub const EXIT_READER_GONE: u8 = 141;

/// The command line is incomplete, as clap counts it.
pub const EXIT_USAGE: u8 = 2;

/// What went wrong, for people.
pub type Failure = Box<dyn std::error::Error>;
