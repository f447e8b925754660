//! A server that is a process of its own.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// What a test waits for, at most.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How often something is looked at that is waited for.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

pub struct Server {
    child: Child,
    pub port: u16,
    /// What it says behind the line that it listens.
    said: Option<JoinHandle<String>>,
}

impl Server {
    pub fn start(arguments: &[&str]) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pelton"));
        command.args(["serve", "--postgres", "127.0.0.1:0", "--workers", "2"]).args(arguments);
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program starts");
        let mut errors = BufReader::new(child.stderr.take().expect("standard error is read"));
        let mut first = String::new();
        errors.read_line(&mut first).expect("the server says where it listens");
        let address = first.split_whitespace().nth(2).unwrap_or_else(|| panic!("{first}"));
        let port = address.trim_end_matches(';').rsplit(':').next().and_then(|port| port.parse().ok());
        let port = port.unwrap_or_else(|| panic!("{first}"));
        let said = thread::spawn(move || {
            let mut text = String::new();
            errors.read_to_string(&mut text).map(|_| text).unwrap_or_default()
        });
        Server { child, port, said: Some(said) }
    }

    /// Sends a signal, such as `-TERM`.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(status.expect("there is a kill command").success());
    }

    /// Waits for its end, and gives what it has said.
    pub fn ended(mut self) -> (ExitStatus, String) {
        let status = until("the server ends", || self.child.try_wait().expect("it can be waited for"));
        let said = self.said.take().expect("it is waited for once").join().expect("text is read");
        (status, said)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Looks again and again until there is something.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "it never happens that {what}");
        thread::sleep(LOOK_INTERVAL);
    }
}
