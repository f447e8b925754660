//! Tables without an end, which are read once for all queries that read them.
//!
//! A query sees the rows that are read after it was added. Tables with an end are read by each query from their first row.

use std::sync::{Arc, Mutex, PoisonError};

use pelton_connectors::Host;
use pelton_plan::Table;
use pelton_plan::parse::TableDefinition;
use pelton_plan::pipeline::SourceUse;
use pelton_runtime::budget::Budget;
use pelton_runtime::exchange::{Bell, Exchange, SubscriberState, WeakExchange};
use pelton_runtime::source::Source;
use pelton_runtime::wake::Waker;

use crate::error::Error;
use crate::event_time::with_computed_time;
use crate::reader::Reader;
use crate::settings::{Reading, Settings};
use crate::shared_aggregations::SharedAggregations;
use crate::shared_joins::SharedJoins;
use crate::table;

/// The exchanges of an engine's tables. Clones are the same ones.
#[derive(Clone, Default)]
pub(crate) struct SharedSources {
    entries: Arc<Mutex<Vec<Entry>>>,
    /// Joins of these tables.
    pub joins: SharedJoins,
}

/// An exchange of a table that is read in a certain way.
struct Entry {
    definition: TableDefinition,
    reading: Reading,
    exchange: SharedExchange,
    aggregations: SharedAggregations,
}

/// Locked while the table is opened: others that read it wait for that.
type SharedExchange = Arc<Mutex<WeakExchange>>;

/// Whether a query reads a table together with others.
pub(crate) fn is_shared(table: &Table, used: &SourceUse, settings: &Settings) -> bool {
    // Of rows whose event time each query computes, it is not known which windows had begun before a query was added; and a replay shifts an event time that nobody
    // declared only where a query goes by it.
    let has_own_time = used.computed_time.is_some()
        || table.definition.watermark.as_ref().is_some_and(|watermark| watermark.is_inferred);
    settings.sharing && !table.bounded && !has_own_time && table::may_share(table)
}

impl SharedSources {
    /// The rows of a table that are read from now on.
    pub fn subscribe(
        &self,
        table: &Table,
        used: &SourceUse,
        (reader, budget): (&Reader<'_>, &Budget),
        waker: &Waker,
    ) -> Result<Box<dyn Source>, Error> {
        let settings = reader.settings;
        let (shared, aggregations) = self.entry(table, settings);
        let mut exchange = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let open = |bell: &Bell, columns: &[usize]| {
            let host = Host {
                waker: Some(bell.waker()),
                budget: budget.for_query(usize::MAX),
                committed_by: None,
                ..Host::default()
            };
            table::open_columns(table, columns, settings, host)
        };
        let found = match exchange.upgrade() {
            Some(found) => found,
            None => {
                let all: Vec<usize> = (0..table.physical.fields().len()).collect();
                let time = table::event_time(table);
                let mut columns = if table::has_positions(table) { used.columns.clone() } else { all };
                let bell = Bell::default();
                let mut source = open(&bell, &columns)?;
                let unread = time.map(|time| time.index).filter(|column| !columns.contains(column));
                if let (Some(unread), None) = (unread, source.times_before(0)) {
                    // Only its rows tell which windows have begun. A source with positions is a generator, and opened at no cost.
                    columns.push(unread);
                    columns.sort_unstable();
                    source = open(&bell, &columns)?;
                }
                Exchange::new(&used.table, source, (&columns, time), bell, budget.clone())
            }
        };
        found.widen(&used.columns, |columns| open(found.bell(), columns))?;
        *exchange = found.downgrade();
        let source = reader.subscribe(&found, used, (&table.physical, &aggregations), waker)?;
        Ok(with_computed_time(source, used, table::on_error(table)?))
    }

    /// The queries that read each table.
    pub fn subscribers(&self) -> Vec<(String, Vec<SubscriberState>)> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let subscribers = |entry: &Entry| {
            // One that is being opened has none yet.
            let exchange = entry.exchange.try_lock().ok()?.upgrade()?;
            Some((entry.definition.name.clone(), exchange.subscribers()))
        };
        entries.iter().filter_map(subscribers).collect()
    }

    /// The queries with which a query of these settings would read a table.
    pub fn subscribers_of(&self, table: &Table, settings: &Settings) -> Vec<SubscriberState> {
        let (shared, _) = self.entry(table, settings);
        let exchange = shared.try_lock().ok().and_then(|exchange| exchange.upgrade());
        exchange.map_or(Vec::new(), |exchange| exchange.subscribers())
    }

    /// What queries of these settings read of a table, where there is one.
    pub fn exchange_of(&self, table: &Table, settings: &Settings) -> Option<Exchange> {
        let (shared, _) = self.entry(table, settings);
        let exchange = shared.lock().unwrap_or_else(PoisonError::into_inner);
        exchange.upgrade()
    }

    /// The aggregations of a table that queries of these settings share, where it is read in one part: rows of several may be late by each other.
    pub fn aggregations_of(&self, table: &Table, settings: &Settings) -> Option<SharedAggregations> {
        let (shared, aggregations) = self.entry(table, settings);
        let exchange = shared.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        exchange.is_none_or(|exchange| exchange.partitions() == 1).then_some(aggregations)
    }

    /// The place of a table's exchange, and its aggregations.
    fn entry(&self, table: &Table, settings: &Settings) -> (SharedExchange, SharedAggregations) {
        let reading = Reading::of(settings);
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        // Somebody is about to open one that is held elsewhere.
        let is_open = |exchange: &SharedExchange| exchange.lock().is_ok_and(|exchange| exchange.upgrade().is_some());
        entries.retain(|entry| Arc::strong_count(&entry.exchange) > 1 || is_open(&entry.exchange));
        let found = entries.iter().find(|entry| entry.reading == reading && entry.definition == table.definition);
        if let Some(found) = found {
            return (found.exchange.clone(), found.aggregations.clone());
        }
        let (exchange, aggregations) = (SharedExchange::default(), SharedAggregations::default());
        let definition = table.definition.clone();
        entries.push(Entry { definition, reading, exchange: exchange.clone(), aggregations: aggregations.clone() });
        (exchange, aggregations)
    }
}
