//! Tables that the program itself fills, reads or provides.

use std::collections::BTreeMap;
use std::sync::Arc;

use pelton_runtime::exchange::SubscriberState;

use crate::pull::PullTable;
use crate::push::PushTable;
use crate::simulation::ProvidedTable;

/// The engine's ends of these tables, by their names.
#[derive(Clone, Default)]
pub(crate) struct ProgramTables {
    pushed: BTreeMap<String, Arc<PushTable>>,
    pulled: BTreeMap<String, Arc<PullTable>>,
    provided: BTreeMap<String, Arc<dyn ProvidedTable>>,
}

impl ProgramTables {
    /// A table that the program fills.
    pub fn pushed(&self, name: &str) -> Option<&Arc<PushTable>> {
        self.pushed.get(name)
    }

    /// A table that it reads.
    pub fn pulled(&self, name: &str) -> Option<&PullTable> {
        self.pulled.get(name).map(Arc::as_ref)
    }

    /// A table that it provides.
    pub fn provided(&self, name: &str) -> Option<&dyn ProvidedTable> {
        self.provided.get(name).map(Arc::as_ref)
    }

    /// The queries that read each of the tables that the program fills.
    pub fn subscribers(&self) -> impl Iterator<Item = (&str, Vec<SubscriberState>)> {
        self.pushed.iter().map(|(name, table)| (name.as_str(), table.subscribers()))
    }

    /// Adds a table that the program fills.
    pub fn add_pushed(&mut self, name: &str, table: Arc<PushTable>) {
        self.pushed.insert(name.to_owned(), table);
    }

    /// Adds a table that it reads.
    pub fn add_pulled(&mut self, name: &str, table: Arc<PullTable>) {
        self.pulled.insert(name.to_owned(), table);
    }

    /// Adds a table that it provides.
    pub fn add_provided(&mut self, name: &str, table: Arc<dyn ProvidedTable>) {
        self.provided.insert(name.to_owned(), table);
    }

    /// Lets go of a table.
    pub fn remove(&mut self, name: &str) {
        if let Some(table) = self.pushed.remove(name) {
            table.close();
        }
        self.pulled.remove(name);
        self.provided.remove(name);
    }

    /// The same without the tables of these names, which stay as they are.
    pub fn without<'a>(self: &Arc<Self>, mut hidden: impl Iterator<Item = &'a str>) -> Arc<ProgramTables> {
        let Some(first) = hidden.find(|name| self.has(name)) else { return self.clone() };
        let mut rest = ProgramTables::clone(self);
        for name in std::iter::once(first).chain(hidden) {
            rest.pushed.remove(name);
            rest.pulled.remove(name);
            rest.provided.remove(name);
        }
        Arc::new(rest)
    }

    /// Whether the program fills, reads or provides a table.
    pub fn has(&self, name: &str) -> bool {
        self.pushed.contains_key(name) || self.pulled.contains_key(name) || self.provided.contains_key(name)
    }

    /// Whether the program no longer fills or reads the table that it filled or read.
    pub fn has_ended(&self, name: &str) -> bool {
        self.pushed.get(name).is_some_and(|table| table.has_ended())
            || self.pulled.get(name).is_some_and(|table| table.has_ended())
    }

    /// Has those look again who wait for room for what they push.
    pub fn look_again(&self) {
        self.pushed.values().for_each(|table| table.look_again());
    }

    /// Tells whoever fills a table that it is gone.
    pub fn close(&self) {
        self.pushed.values().for_each(|table| table.close());
    }
}
