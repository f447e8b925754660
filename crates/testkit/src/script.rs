//! SQL scripts with expected results: `tests/sql/**/*.slt`. `CONTRIBUTING.md` describes the format.
//!
//! In reading order: [`parse`] (a script as blocks, and back), [`run`] (what comes of each block, and how it differs),
//! [`engine`] (a session in one of the configurations).

pub mod parse;

pub mod run;

pub mod engine;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A directory that is gone when it is dropped.
#[derive(Debug)]
pub struct TemporaryDirectory(PathBuf);

impl TemporaryDirectory {
    /// A new empty directory.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub fn new() -> std::io::Result<TemporaryDirectory> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("pelton-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(TemporaryDirectory(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        // What is left behind in a temporary directory does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
