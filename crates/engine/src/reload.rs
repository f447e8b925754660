//! Bounded tables that are loaded again from time to time while a query looks rows up in them.
//!
//! A thread of the query reads them, as they were read before its first row, and gives the code of its pipelines the new rows. Rows in flight find those of
//! one load or the other. The rows before are freed when nobody looks at them any more.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pelton_connectors::Conditions;
use pelton_plan::Catalog;
use pelton_plan::pipeline::{LookupTable, Operator, Program};
use pelton_runtime::adapt::KernelSlot;
use pelton_runtime::budget::{Budget, Held};
use pelton_runtime::late::LateLog;
use pelton_runtime::pool::Pool;
use pelton_runtime::run::{RunError, WeakRunHandle};
use pelton_state::join::Lookups;
use pelton_state::kernel::KernelError;

use crate::error::Error;
use crate::execute::{Surroundings, read_table};
use crate::function::guarded;
use crate::program_tables::ProgramTables;
use crate::settings::Settings;
use crate::shared_sources::SharedSources;
use crate::{lookups, table};

/// At most so long after the end of its query the thread ends as well.
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// What reloads tables of a query.
pub(crate) struct Reloading {
    program: Arc<Program>,
    kernels: Vec<Arc<KernelSlot>>,
    /// The tables as they are now.
    lookups: Arc<Lookups>,
    tables: Vec<ReloadedTable>,
    catalog: Catalog,
    settings: Settings,
    pool: Pool,
    late: LateLog,
    name: String,
    shared_sources: SharedSources,
    budget: Budget,
}

struct ReloadedTable {
    /// `Program::lookups[i]`.
    table: usize,
    interval: Duration,
    due: Instant,
    /// What is charged for its rows.
    held: Held,
}

impl Reloading {
    /// What reloads the tables of a program; `None` where none has an interval. What is charged for those that have one is taken out of `held`.
    ///
    /// # Errors
    /// Where options of a table make no sense, or a join keeps the rows of one that is reloaded.
    pub fn new(
        (program, kernels): (&Arc<Program>, &[Arc<KernelSlot>]),
        (lookups, held): (&Arc<Lookups>, &mut Vec<Held>),
        surroundings: &Surroundings<'_>,
    ) -> Result<Option<Reloading>, Error> {
        let intervals = program.lookups.iter().map(|table| interval(table, surroundings.catalog));
        let intervals: Vec<Option<Duration>> = intervals.collect::<Result<_, _>>()?;
        if intervals.iter().all(Option::is_none) {
            return Ok(None);
        }
        let keeps_rows =
            |operator: &Operator| matches!(operator, Operator::Unmatched(kept) if intervals[kept.table].is_some());
        if program.operators.iter().any(keeps_rows) {
            let message = "an outer join that keeps the rows of a bounded table cannot have this table reloaded: \
                           leave out 'lookup.full-cache.reload-strategy' of the table, or keep the rows of the stream alone";
            return Err(Error::Usage(message.to_owned()));
        }
        let (mut kept, mut tables) = (Vec::new(), Vec::new());
        for (table, (held, interval)) in held.drain(..).zip(intervals).enumerate() {
            match interval {
                Some(interval) => tables.push(ReloadedTable { table, interval, due: Instant::now() + interval, held }),
                None => kept.push(held),
            }
        }
        *held = kept;
        Ok(Some(Reloading {
            program: program.clone(),
            kernels: kernels.to_vec(),
            lookups: lookups.clone(),
            tables,
            catalog: surroundings.catalog.clone(),
            settings: surroundings.settings.clone(),
            pool: surroundings.pool.clone(),
            late: surroundings.late.clone(),
            name: surroundings.name.to_owned(),
            shared_sources: surroundings.shared_sources.clone(),
            budget: surroundings.budget.clone(),
        }))
    }

    /// Reloads tables in a thread of its own until the run has ended. Where a table cannot be read, the run fails.
    pub fn start(mut self, run: WeakRunHandle) {
        std::thread::spawn(move || {
            loop {
                let until_due =
                    self.tables.iter().map(|table| table.due.saturating_duration_since(Instant::now())).min();
                std::thread::sleep(until_due.unwrap_or(PAUSE_MAX).min(PAUSE_MAX));
                let Some(run) = run.upgrade().filter(|run| !run.has_ended()) else { return };
                if let Err(message) = self.reload_due() {
                    return run
                        .fail(RunError::Kernel { pipeline: "join".to_owned(), error: KernelError::State(message) });
                }
            }
        });
    }

    /// Reloads the tables that are due. The error says which could not be, and why.
    fn reload_due(&mut self) -> Result<(), String> {
        let now = Instant::now();
        for index in (0..self.tables.len()).filter(|&index| self.tables[index].due <= now).collect::<Vec<_>>() {
            let names = lookups::names(&self.program.lookups[self.tables[index].table]);
            attempt(&names, || self.reload(index))?;
        }
        Ok(())
    }

    fn reload(&mut self, index: usize) -> Result<(), Error> {
        let number = self.tables[index].table;
        let (bucket, held) = self.load(&self.program.lookups[number])?;
        let mut buckets: Vec<_> =
            (0..self.program.lookups.len()).map(|table| self.lookups.bucket(table).clone()).collect();
        buckets[number] = bucket;
        self.lookups = Arc::new(Lookups::new(buckets));
        self.kernels.iter().for_each(|kernel| kernel.replace_lookups(self.lookups.clone()));
        let table = &mut self.tables[index];
        (table.held, table.due) = (held, Instant::now() + table.interval);
        Ok(())
    }

    fn load(&self, table: &LookupTable) -> Result<lookups::Loaded, Error> {
        let surroundings = Surroundings {
            conditions: &Conditions::default(),
            checkpointed: None,
            restored: None,
            predecessor: None,
            tells_time: false,
            catalog: &self.catalog,
            program_tables: &ProgramTables::default(),
            settings: &self.settings,
            pool: &self.pool,
            late: &self.late,
            name: &self.name,
            shared_sources: &self.shared_sources,
            budget: &self.budget,
        };
        lookups::load(table, &self.budget, self.pool.workers(), read_table(table, &surroundings)?)
    }
}

/// Reloads the table `names`. A panic is an error as well: without it the query would run on with old rows.
fn attempt(names: &str, reload: impl FnOnce() -> Result<(), Error>) -> Result<(), String> {
    let reloaded = guarded(|| reload().map_err(|error| error.to_string()));
    reloaded.map_err(|error| format!("{names} cannot be loaded again: {error}"))
}

/// How often the rows of a joined table are read: as often as the table that is reloaded most often.
fn interval(lookup: &LookupTable, catalog: &Catalog) -> Result<Option<Duration>, Error> {
    let of_sources = lookup.program.sources.iter().filter(|source| source.rows.is_none());
    let of_sources = of_sources.map(|source| table::reload_interval(catalog, &source.table));
    let of_lookups = lookup.program.lookups.iter().map(|inner| interval(inner, catalog));
    let all = of_sources.chain(of_lookups).collect::<Result<Vec<_>, _>>()?;
    Ok(all.into_iter().flatten().min())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_fails_the_query_with_its_message() {
        let failed = attempt("name", || panic!("no more threads")).unwrap_err();
        assert_eq!(failed, "name cannot be loaded again: it panicked: no more threads");
        let failed = attempt("name", || Err(Error::Usage("it is gone".to_owned()))).unwrap_err();
        assert_eq!(failed, "name cannot be loaded again: it is gone");
        assert_eq!(attempt("name", || Ok(())), Ok(()));
    }
}
