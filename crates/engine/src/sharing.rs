//! Finds out what a query shares with those that run.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion_physical_expr::PhysicalExpr;
use pelton_plan::partial_results::PartialResults;
use pelton_plan::pipeline::Program;
use pelton_plan::{Catalog, Relation};

use crate::error::Error;
use crate::program_tables::ProgramTables;
use crate::settings::Settings;
use crate::shared_aggregations::Sharing;
use crate::shared_sources::{SharedSources, is_shared};
use crate::table;

/// Where it is looked up what queries share.
pub(crate) struct Known<'a> {
    pub catalog: &'a Catalog,
    pub program_tables: &'a ProgramTables,
    pub settings: &'a Settings,
    pub shared_sources: &'a SharedSources,
}

/// The program as it shares aggregations with queries that run, and of each source what it shares, or may share with queries that are added later.
///
/// # Errors
/// Where the options of a table make no sense.
pub(crate) fn share(mut program: Program, known: &Known<'_>) -> Result<(Program, Vec<Option<Sharing>>), Error> {
    let mut sharing = vec![None; program.sources.len()];
    for (source, sharing) in sharing.iter_mut().enumerate() {
        let Some(found) = known.sharing(&program, source)? else { continue };
        if found.is_member {
            program = found.results.merging(program);
        }
        *sharing = Some(found);
    }
    Ok((program, sharing))
}

impl Known<'_> {
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
        let results = PartialResults::of(program, source).filter(|results| are_total(results, &table.physical));
        Ok(results.map(|results| {
            let is_member = aggregations.has_alike(&results);
            Sharing { results: Arc::new(results), is_member }
        }))
    }
}

/// Whether partial results have all that they need for each row of a table with these columns, and always the same.
fn are_total(results: &PartialResults, schema: &Schema) -> bool {
    let is_total = |(expression, data_type): (&Arc<dyn PhysicalExpr>, &DataType)| {
        pelton_compiler::column(expression, schema, data_type).is_ok_and(|column| column.is_total())
    };
    results.expressions().all(is_total)
}
