//! Inserts go on as jobs of the engine when the statements that began them have been answered: what becomes of them is said on standard error.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pelton::Engine;
use pelton::job::{Job, JobState};
use tokio::sync::watch;
use tokio::time::sleep;

use super::wire::Stopping;
use crate::left_out::left_out;
use crate::output::say;
use crate::print::count;

/// How often it is looked at which jobs have ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// The jobs of an engine, and which of those that have ended it was said of.
pub struct Jobs {
    engine: Engine,
    reported: Mutex<HashSet<usize>>,
}

impl Jobs {
    pub fn new(engine: Engine) -> Jobs {
        Jobs { engine, reported: Mutex::default() }
    }

    /// Says of each job that has ended what became of it, for ever.
    pub async fn report(&self) {
        loop {
            self.report_ended();
            sleep(LOOK_INTERVAL).await;
        }
    }

    /// Stops the jobs, or ends them at once, and waits for them.
    pub async fn end(&self, mut stopping: watch::Receiver<Stopping>) {
        self.engine.jobs().iter().for_each(Job::suspend);
        let all = async {
            while self.engine.jobs().iter().any(|job| job.state() == JobState::Running) {
                sleep(LOOK_INTERVAL).await;
            }
        };
        tokio::select! {
            () = all => {}
            _ = stopping.wait_for(|stopping| *stopping == Stopping::AtOnce) => {
                self.engine.jobs().iter().for_each(Job::suspend_at_once);
            }
        }
        self.report_ended();
    }

    fn report_ended(&self) {
        let jobs = self.engine.jobs();
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that are no longer listed are never seen again.
        reported.retain(|id| jobs.iter().any(|job| job.id() == *id));
        for job in jobs.iter().filter(|job| job.state() != JobState::Running) {
            if reported.insert(job.id()) {
                report(job);
            }
        }
    }
}

fn report(job: &Job) {
    let (name, summary) = (job.name(), job.progress());
    if let Some(error) = job.error() {
        return say!("error: job {name}: {error}");
    }
    let rows: u64 = summary.sinks.iter().map(|sink| sink.rows).sum();
    let state = job.state().name().to_ascii_lowercase();
    say!("job {name}: {state} after {:.3} s, {} rows written", summary.elapsed.as_secs_f64(), count(rows));
    left_out(&summary).iter().for_each(|warning| say!("warning: {warning}"));
}
