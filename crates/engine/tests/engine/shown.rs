//! What `SHOW …` shows.

use std::io::Write as _;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use pelton::arrow::array::AsArray;
use pelton::arrow::util::pretty::pretty_format_batches;
use pelton::{Outcome, Session};

/// These columns of all rows.
pub fn shown<const N: usize>(session: &Session, statement: &str, columns: [&str; N]) -> Vec<[String; N]> {
    let statement = session.prepare(statement).unwrap().remove(0);
    let Outcome::Rows(rows) = session.execute(&statement).unwrap() else { panic!("SHOW shows rows") };
    let text = |row: usize, name: &str| rows.column_by_name(name).unwrap().as_string_view().value(row).to_owned();
    (0..rows.num_rows()).map(|row| columns.map(|name| text(row, name))).collect()
}

/// All of it, as text.
fn listed(session: &Session, statement: &str) -> String {
    let statement = session.prepare(statement).unwrap().remove(0);
    let Outcome::Rows(rows) = session.execute(&statement).unwrap() else { panic!("SHOW shows rows") };
    pretty_format_batches(&[rows]).unwrap().to_string()
}

/// Ends the program, and says how the session's queries stand, when a test takes for ever: what it waits for would not be known otherwise.
pub struct Watchdog(Option<mpsc::Sender<()>>);

impl Watchdog {
    /// Over a test that takes seconds.
    pub fn of(session: &Session) -> Watchdog {
        let (sender, receiver) = mpsc::channel();
        let session = session.clone();
        std::thread::spawn(move || {
            if receiver.recv_timeout(Duration::from_secs(300)) == Err(RecvTimeoutError::Timeout) {
                let shows = ["SHOW QUERIES VERBOSE", "SHOW OPERATORS VERBOSE"].map(|sql| listed(&session, sql));
                // Not a macro, whose output is kept until the test has ended.
                let _ = writeln!(std::io::stderr(), "a test does not end:\n{}\n{}", shows[0], shows[1]);
                std::process::abort();
            }
        });
        Watchdog(Some(sender))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.take();
    }
}
