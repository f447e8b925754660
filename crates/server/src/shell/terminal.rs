//! The terminal of the shell, and its mode.

use std::io::{self, IsTerminal};
use std::sync::{Mutex, PoisonError};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// The terminal's mode at the start. The line editor has another one while it reads.
static TERMINAL: Mutex<Option<Termios>> = Mutex::new(None);

/// Whether somebody can type and read.
pub fn is_there() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Notes the mode that the terminal has now.
pub fn remember() {
    *TERMINAL.lock().unwrap_or_else(PoisonError::into_inner) = tcgetattr(io::stdin()).ok();
}

/// Gives the terminal the mode it had at the start.
pub fn restore() {
    if let Some(mode) = TERMINAL.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
        // A terminal that is gone has no mode.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, mode);
    }
}

/// Whether the line editor reads: then the terminal makes keys of what are signals otherwise.
pub fn is_at_prompt() -> bool {
    tcgetattr(io::stdin()).is_ok_and(|mode| !mode.local_modes.contains(LocalModes::ISIG))
}
