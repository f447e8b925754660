//! The engine as scripts see it: a session in one configuration.

use pelton::progress::LeftOut;
use pelton::{Error, Outcome, Query, Session, Summary};
use pelton_runtime::clock::Clock;

use crate::{table_functions, udaf};

use super::run::{Configuration, Executed, Request, Rows};

/// A new session that runs as the configuration says.
///
/// # Panics
/// Where the engine refuses the settings of a configuration.
pub fn session(configuration: Configuration) -> Session {
    session_with_clock(configuration, Clock::system())
}

/// The same with a clock.
///
/// # Panics
/// Where the engine refuses the settings of a configuration.
pub fn session_with_clock(configuration: Configuration, clock: Clock) -> Session {
    let session = Session::with_clock(clock);
    for (key, value) in configuration.settings() {
        session.set(key, &value).expect("the settings of a configuration make sense");
    }
    udaf::register(&session);
    table_functions::register(&session);
    session
}

/// Runs the statements one after the other, each to its end; the first that fails ends it.
pub fn execute(session: &Session, sql: &str) -> Executed {
    answer(session, Request::Run(sql))
}

/// Does what a script asks for; of several statements the first that fails ends it.
pub fn answer(session: &Session, request: Request<'_>) -> Executed {
    let mut executed = Executed::default();
    let result = match request {
        Request::Run(sql) => execute_all(session, sql, &mut executed, finish),
        Request::Detach(sql) => execute_all(session, sql, &mut executed, |query, _| query.detach().map(drop)),
        Request::Wait(job) => wait(session, job, &mut executed),
    };
    if let Err(error) = result {
        executed.error = Some(error.to_string());
    }
    executed
}

/// Waits for the end of a job, and says what has become of it.
fn wait(session: &Session, job: &str, executed: &mut Executed) -> Result<(), Error> {
    let job = session.engine().job(job).ok_or_else(|| Error::Usage(format!("there is no job {job}")))?;
    let ended = job.wait();
    executed.results.push(Rows::of_text(job.state().to_string()));
    count(&ended?, executed);
    Ok(())
}

fn execute_all(
    session: &Session,
    sql: &str,
    executed: &mut Executed,
    mut run: impl FnMut(Query, &mut Executed) -> Result<(), Error>,
) -> Result<(), Error> {
    for statement in session.prepare(sql)? {
        match session.execute(&statement)? {
            Outcome::Done => {}
            Outcome::Noted(note) => executed.results.push(Rows::of_text(note)),
            Outcome::Rows(batch) => executed.results.push(Rows { schema: batch.schema(), batches: vec![batch] }),
            Outcome::Running(query) => run(query, executed)?,
        }
    }
    Ok(())
}

fn finish(mut query: Query, executed: &mut Executed) -> Result<(), Error> {
    let schema = query.schema().clone();
    if !schema.fields().is_empty() {
        let mut batches = Vec::new();
        while let Some(batch) = query.next_batch()? {
            batches.push(batch);
        }
        executed.results.push(Rows { schema, batches });
    }
    count(&query.wait()?, executed);
    Ok(())
}

/// Counts what was not computed.
fn count(summary: &Summary, executed: &mut Executed) {
    let left_out = |count: fn(&LeftOut) -> u64| summary.sources.iter().map(|source| count(&source.left_out)).sum();
    let counters = [
        ("late rows", summary.late_rows()),
        ("rejected rows", left_out(|left_out| left_out.skipped_rows)),
        ("values that became NULL", left_out(|left_out| left_out.null_values)),
    ];
    executed.counters.extend(counters.into_iter().filter(|(_, count)| *count > 0));
}
