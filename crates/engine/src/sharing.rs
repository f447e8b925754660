//! Finds out what a query shares with those that run.

use std::any::Any;
use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion_physical_expr::PhysicalExpr;
use pelton_plan::partial_results::PartialResults;
use pelton_plan::pipeline::{Program, SourceUse};
use pelton_plan::shared_join::{JoinedTable, SharedJoin};
use pelton_plan::{Catalog, Relation};
use pelton_runtime::exchange::Exchange;

use crate::error::Error;
use crate::program_sharing::ProgramSharing;
use crate::program_tables::ProgramTables;
use crate::settings::{Reading, Settings};
use crate::shared_aggregations::Sharing;
use crate::shared_joins::{InputTable, Inputs};
use crate::shared_sources::{SharedSources, is_shared};
use crate::table;

/// Where it is looked up what queries share.
pub(crate) struct Known<'a> {
    pub catalog: &'a Catalog,
    pub program_tables: &'a ProgramTables,
    pub settings: &'a Settings,
    pub shared_sources: &'a SharedSources,
}

/// The program as it shares aggregations and joins with queries that run.
///
/// # Errors
/// Where the options of a table make no sense.
pub(crate) fn share(mut program: Program, known: &Known<'_>) -> Result<(Program, ProgramSharing), Error> {
    let mut sharing = ProgramSharing::default();
    if let Some((join, inputs)) = known.join(&program) {
        let joins = &known.shared_sources.joins;
        sharing.producer = joins.producer(&join, &inputs);
        match &sharing.producer {
            Some(producer) => program = join.reader(&program, producer.join()),
            None => sharing.runs_alone = Some(joins.run_alone(&join, inputs)),
        }
        return Ok((program, sharing));
    }
    for source in 0..program.sources.len() {
        let found = known.sharing(&program, source)?;
        if let Some(found) = found.as_ref().filter(|found| found.is_member) {
            program = found.results.merging(program);
        }
        sharing.aggregations.push(found);
    }
    Ok((program, sharing))
}

impl Known<'_> {
    /// The join that a program is, where others may share it, and what it reads.
    pub fn join(&self, program: &Program) -> Option<(SharedJoin, Inputs)> {
        let Known { catalog, program_tables, settings, .. } = *self;
        if !settings.sharing || settings.early_fire || !settings.allowed_lateness.is_zero() {
            return None;
        }
        let join = SharedJoin::of(program)?;
        let is_read_together = |used: &SourceUse| match (program_tables.pushed(&used.table), catalog.get(&used.table)) {
            (Some(_), _) => true,
            (None, Some(Relation::Table(table))) => is_shared(table, used, settings),
            _ => false,
        };
        let is_total = |side: &JoinedTable| match catalog.get(&side.table) {
            Some(Relation::Table(table)) => are_total(side.expressions(), &table.physical),
            _ => false,
        };
        let is_shared = program.sources.iter().all(is_read_together) && join.sides().iter().all(is_total);
        let [left, right] = join.sides().each_ref().map(|side| {
            let Some(Relation::Table(table)) = catalog.get(&side.table) else { return None };
            let pushed = program_tables.pushed(&side.table).map(|push| {
                let push: Arc<dyn Any + Send + Sync> = push.clone();
                Arc::downgrade(&push)
            });
            Some(InputTable { definition: table.definition.clone(), pushed })
        });
        let inputs = Inputs { tables: [left?, right?], reading: Reading::of(settings) };
        is_shared.then_some((join, inputs))
    }

    /// What is read of the tables of a join by queries that run.
    pub fn exchanges(&self, join: &SharedJoin) -> Vec<Exchange> {
        let exchange =
            |side: &JoinedTable| match (self.program_tables.pushed(&side.table), self.catalog.get(&side.table)) {
                (Some(push), _) => push.exchange(),
                (None, Some(Relation::Table(table))) => self.shared_sources.exchange_of(table, self.settings),
                _ => None,
            };
        join.sides().iter().filter_map(exchange).collect()
    }

    /// What a program may share of the partial results of a source, and whether it does: where another query runs that may as well.
    ///
    /// # Errors
    /// Where the options of a table make no sense.
    pub fn sharing(&self, program: &Program, source: usize) -> Result<Option<Sharing>, Error> {
        let Known { catalog, program_tables, settings, shared_sources } = *self;
        // Corrections and early results are not shared.
        if !settings.sharing || settings.early_fire || !settings.allowed_lateness.is_zero() {
            return Ok(None);
        }
        let used = &program.sources[source];
        let Some(Relation::Table(table)) = catalog.get(&used.table) else { return Ok(None) };
        let aggregations = match program_tables.pushed(&used.table) {
            Some(push) => Some(push.aggregations().clone()),
            None if is_shared(table, used, settings) => shared_sources.aggregations_of(table, settings),
            None => None,
        };
        let Some(aggregations) = aggregations else { return Ok(None) };
        // Which rows are ahead of the clock is seen when each is read.
        if table::watermark_options(&table.definition)?.ahead_max.is_some() {
            return Ok(None);
        }
        let results =
            PartialResults::of(program, source).filter(|results| are_total(results.expressions(), &table.physical));
        Ok(results.map(|results| {
            let is_member = aggregations.has_alike(&results);
            Sharing { results: Arc::new(results), is_member }
        }))
    }
}

/// Whether expressions over a table with these columns have a value for each row, and always the same.
fn are_total<'e>(
    mut expressions: impl Iterator<Item = (&'e Arc<dyn PhysicalExpr>, &'e DataType)>,
    schema: &Schema,
) -> bool {
    expressions.all(|(expression, data_type)| {
        pelton_compiler::column(expression, schema, data_type).is_ok_and(|column| column.is_total())
    })
}
