//! A query that subscribes to a table which others may read as well.

use arrow::datatypes::Schema;
use pelton_plan::pipeline::SourceUse;
use pelton_runtime::exchange::{Exchange, Subscriber};
use pelton_runtime::pool::Pool;
use pelton_runtime::source::Source;
use pelton_runtime::wake::Waker;

use crate::error::Error;
use crate::event_time::read_schema;
use crate::program_sharing::SourceSharing;
use crate::settings::Settings;
use crate::shared_aggregations::{Making, SharedAggregations};

/// Who subscribes to a table.
pub(crate) struct Reader<'a> {
    /// The query, for people.
    pub name: &'a str,
    pub settings: &'a Settings,
    pub pool: &'a Pool,
    /// What it shares of the table.
    pub sharing: SourceSharing<'a>,
}

impl Reader<'_> {
    /// Subscribes to an exchange of a table with these columns.
    ///
    /// # Errors
    /// Where what it shares with others cannot be computed.
    pub fn subscribe(
        &self,
        exchange: &Exchange,
        used: &SourceUse,
        (schema, aggregations): (&Schema, &SharedAggregations),
        waker: &Waker,
    ) -> Result<Box<dyn Source>, Error> {
        let Reader { name, settings, pool, sharing } = *self;
        let (mut member, mut aggregates) = (None, None);
        if let Some(sharing) = sharing.aggregation {
            let making = Making { table: &used.table, schema, settings, pool };
            let (added, left) = aggregations.add(sharing, &making)?;
            (member, aggregates) = (added, Some(left));
        }
        Ok(exchange.subscribe(Subscriber {
            name: name.to_owned(),
            waker: waker.clone(),
            columns: used.columns.clone(),
            schema: if member.is_some() { used.schema.clone() } else { read_schema(used) },
            on_lag: settings.on_lag,
            member,
            lease: Some(Box::new((aggregates, sharing.runs_alone.cloned()))),
        }))
    }
}
