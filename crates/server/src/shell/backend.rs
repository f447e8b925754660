//! Where the statements of the shell are executed: in this process, or by a server.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pelton::arrow::util::display::array_value_to_string;
use pelton::job::JobState;
use pelton::{Outcome, Session};

use crate::connect::{self, Client};
use crate::failure::Failure;
use crate::run::{self, Execution};
use crate::script::Script;

/// Where statements are executed.
#[derive(Clone)]
pub enum Backend {
    Session(Session),
    Server(Arc<Mutex<Client>>),
}

impl Backend {
    /// Executes a script's statements in order.
    pub fn execute(&self, script: &Script, execution: &Execution) -> Result<(), Failure> {
        match self {
            Backend::Session(session) => run::execute(session, script, execution),
            Backend::Server(client) => connect::execute(&mut locked(client), script, execution),
        }
    }

    /// The names of the jobs that run.
    pub fn running_jobs(&self) -> Vec<String> {
        match self {
            Backend::Session(session) => {
                let jobs = session.engine().jobs();
                let running = jobs.iter().filter(|job| job.state() == JobState::Running);
                running.map(|job| job.name().to_owned()).collect()
            }
            Backend::Server(client) => connect::running_jobs(&mut locked(client)),
        }
    }

    /// The first column of what a statement shows; nothing where it fails.
    pub fn listed(&self, statement: &str) -> Vec<String> {
        match self {
            Backend::Session(session) => listed(session, statement),
            Backend::Server(client) => connect::listed(&mut locked(client), statement),
        }
    }
}

fn listed(session: &Session, statement: &str) -> Vec<String> {
    let Ok(statements) = session.prepare(statement) else { return Vec::new() };
    let Some(Ok(Outcome::Rows(rows))) = statements.first().map(|statement| session.execute(statement)) else {
        return Vec::new();
    };
    (0..rows.num_rows()).filter_map(|row| array_value_to_string(rows.column(0), row).ok()).collect()
}

fn locked(client: &Mutex<Client>) -> MutexGuard<'_, Client> {
    client.lock().unwrap_or_else(PoisonError::into_inner)
}
