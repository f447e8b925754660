//! Creates and drops tables and views. Permanent ones are the engine's, and temporary ones the session's.

use pelton_plan::PlanError;
use pelton_plan::parse::{Dropped, TableDefinition, ViewDefinition};
use pelton_plan::query::{check_computed_columns, check_view};

use super::Session;
use crate::error::Error;
use crate::table;

impl Session {
    pub(super) fn create_table(&self, definition: &TableDefinition) -> Result<(), Error> {
        let table = table::define(definition.clone())?;
        check_computed_columns(&self.snapshot().catalog, &table)?;
        match definition.temporary {
            true => self.own().catalog.add_table(table)?,
            false => self.engine().known().catalog_mut().add_table(table)?,
        }
        Ok(())
    }

    /// Creates a view. The tables of files that a permanent one reads are the engine's as well.
    pub(super) fn create_view(&self, definition: &ViewDefinition) -> Result<(), Error> {
        let catalog = self.snapshot().catalog;
        let view = ViewDefinition { reads: check_view(&catalog, definition)?, ..definition.clone() };
        if view.temporary {
            self.own().catalog.add_view(view)?;
            return Ok(());
        }
        if let Some(name) = view.reads.iter().find(|name| catalog.is_temporary(name)) {
            let message = format!("the view {} cannot read {name}, which is temporary", view.name);
            return Err(PlanError::invalid(view.place, message).with_hint("use CREATE TEMPORARY VIEW").into());
        }
        let files: Vec<_> = view.reads.iter().filter_map(|name| catalog.file(name).cloned()).collect();
        let mut known = self.engine().known();
        let known = known.catalog_mut();
        known.add_view(view)?;
        files.into_iter().for_each(|file| known.add_file(file));
        Ok(())
    }

    pub(super) fn drop_relation(&self, dropped: &Dropped) -> Result<(), Error> {
        let (mut own, mut known) = (self.own(), self.engine().known());
        if own.catalog.over(known.catalog.clone()).check_dropped(dropped)? {
            match dropped.is_temporary {
                true => own.catalog.remove(&dropped.target.name),
                false => known.remove(&dropped.target.name),
            }
        }
        Ok(())
    }
}
