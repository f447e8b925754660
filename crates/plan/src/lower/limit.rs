//! LIMIT and OFFSET below the top of a query: of rows that end the first are chosen, as those of a window over all of them.
//!
//! Without ORDER BY these are the rows that came first, or the least by all of their columns where that is not known, so that they do not depend on
//! workers.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion_common::Result;
use datafusion_expr::lit;
use datafusion_expr::logical_plan::Limit;
use pelton_data::arrangement::OrderKey;
use pelton_data::ranking::{Numbering, Ranking};

use crate::coerce::zeros::with_one_zero;
use crate::errors::{PlanError, external};
use crate::lower::Lowering;
use crate::lower::arrange::sort_of;
use crate::lower::over::{Added, Collector};
use crate::lower::ranking::{UNBOUNDED, add_arrival};
use crate::lower::unbound::{Branch, Relation};
use crate::pipeline::{Operator, Window, WindowAggregate, WindowColumn};

impl Lowering<'_> {
    /// The first rows of what has an end.
    pub(crate) fn limited(&mut self, limit: &Limit) -> Result<Relation> {
        let (offset, rows_max) = self.limits(limit)?;
        let (sort, chosen) = sort_of(&limit.input);
        let input = sort.map_or(&limit.input, |sort| &sort.input);
        let mut relation = self.relation(input)?.each_in_its_windows()?;
        relation.branches.iter().try_for_each(Branch::check_each_row_once)?;
        self.check_bounded(&relation)?;
        let mut order = Vec::new();
        for key in sort.iter().flat_map(|sort| &sort.expr) {
            let values = relation
                .branches
                .iter()
                .map(|branch| with_one_zero(branch.substitute(&key.expr, input.schema())?, &branch.scope));
            order.push((key, values.collect::<Result<Vec<_>>>()?));
        }
        if let Some(projection) = chosen {
            relation = relation.project(&projection.expr, projection.input.schema())?;
        }
        let mut collector = Collector::new(relation);
        let mut numbered = self.numbered_columns(&mut collector, limit.input.schema(), false)?;
        let mut keys: Vec<OrderKey> = Vec::new();
        for (key, values) in order {
            if let Added::Column(column) = collector.add(values, "order")?
                && !keys.iter().any(|known| known.column == column)
            {
                keys.push(OrderKey { column, descending: !key.asc, nulls_first: key.nulls_first });
            }
        }
        if numbered.columns.is_empty() {
            // Rows are counted by the length of a column.
            let row = collector.add_column(vec![lit(true); collector.branches.len()], "row")?;
            numbered.columns.push(WindowColumn::Row(row));
            numbered.fields.push(collector.fields[row].as_ref().clone());
        }
        let is_arrival_known = self.is_arrival_known(&collector.branches);
        let arrival = is_arrival_known.then(|| add_arrival(&mut collector)).transpose()?;
        keys.extend(arrival.map(|column| OrderKey { column, descending: false, nulls_first: true }));
        let first = offset as u64 + 1;
        let last = rows_max.map_or(UNBOUNDED, |rows_max| (offset as u64).saturating_add(rows_max as u64));
        let schema = Arc::new(Schema::new(collector.fields.clone()));
        let operator = self.unbound.operators.len();
        self.unbound.numbered_whole.push(operator);
        self.feed_ranking(operator, collector);
        let mut branch = self.unbound.add_operator(Operator::Window(WindowAggregate {
            window: Window::Global,
            bounds: Window::Global,
            keys: Vec::new(),
            accumulators: Vec::new(),
            session_slots: None,
            ranking: Some(Ranking {
                schema,
                keys: Vec::new(),
                order: keys,
                arrival,
                knows_arrival: is_arrival_known,
                numbering: Numbering::Rows,
                first,
                last,
            }),
            collected: Vec::new(),
            columns: numbered.columns,
            schema: Arc::new(Schema::new(numbered.fields)),
            time_column: None,
            slices: None,
        }))?;
        branch.columns = numbered.results;
        Ok(Relation { branches: vec![branch] })
    }

    /// First rows are known when all have come.
    fn check_bounded(&self, relation: &Relation) -> Result<()> {
        if self.unbound.is_bounded(relation) {
            return Ok(());
        }
        let (construct, hint) = match self.locations.is_built {
            true => ("a call of limit over an unbounded table that others follow", "call it last"),
            false => (
                "LIMIT in a subquery or view over an unbounded table",
                "write it at the end of the whole query, or number the rows of windows with ROW_NUMBER",
            ),
        };
        Err(external(PlanError::unsupported(self.locations.inner_limit, construct, hint)))
    }
}
