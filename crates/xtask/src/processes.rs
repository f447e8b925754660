//! Programs that commands start, and where what they build lies.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The cargo that runs us, in the workspace's directory.
pub fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// Runs a command with its output on our terminal.
pub fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}")) }
}

/// Cargo's target directory: this program runs from it.
///
/// # Errors
/// Where the program lies elsewhere.
pub fn target_directory() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| format!("the path of this program: {error}"))?;
    let target =
        program.ancestors().nth(2).ok_or_else(|| format!("{}: not in a target directory", program.display()))?;
    Ok(target.to_path_buf())
}
