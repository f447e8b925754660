//! ORDER BY, LIMIT and OFFSET at the top of a query: what the program's output does with rows, not its pipelines.

use datafusion_common::Result;
use datafusion_expr::logical_plan::{FetchType, Limit, Projection, SkipType, Sort};
use datafusion_expr::{Expr, LogicalPlan, SortExpr};
use pelton_data::arrangement::{Arrangement, Order, OrderKey};

use crate::coerce::zeros::with_one_zero;
use crate::errors::{PlanError, external};
use crate::lower::Lowering;
use crate::lower::unbound::{Relation, UnboundOutput};
use crate::pipeline::OutputTarget;

/// Rows, and what their output does with them.
pub(crate) struct Arranged {
    pub relation: Relation,
    keys: Vec<Key>,
    offset: usize,
    rows_max: Option<usize>,
}

/// An expression that rows are put in order by.
struct Key {
    name: String,
    /// In terms of each branch's scope.
    values: Vec<Expr>,
    descending: bool,
    nulls_first: bool,
}

impl Lowering<'_> {
    /// The rows of a whole query, with what stands above them taken off.
    pub(crate) fn arranged(&mut self, plan: &LogicalPlan) -> Result<Arranged> {
        let (plan, offset, rows_max) = match plan {
            LogicalPlan::Limit(limit) => {
                let (offset, rows_max) = self.limits(limit)?;
                (limit.input.as_ref(), offset, rows_max)
            }
            other => (other, 0, None),
        };
        let (sort, chosen) = sort_of(plan);
        let Some(sort) = sort else {
            let relation = self.relation(plan)?.each_in_its_windows()?;
            return Ok(Arranged { relation, keys: Vec::new(), offset, rows_max });
        };
        let mut relation = self.relation(&sort.input)?.each_in_its_windows()?;
        if !self.unbound.is_bounded(&relation) {
            let hint = "leave it out: windows come out in the order of their time";
            let construct = "ORDER BY over an unbounded table";
            return Err(external(PlanError::unsupported(self.locations.order, construct, hint)));
        }
        let keys = sort.expr.iter().map(|key| sort_key(key, &relation, &sort.input)).collect::<Result<_>>()?;
        if let Some(projection) = chosen {
            relation = relation.project(&projection.expr, projection.input.schema())?;
        }
        Ok(Arranged { relation, keys, offset, rows_max })
    }

    /// OFFSET, and LIMIT where there is one.
    pub(crate) fn limits(&self, limit: &Limit) -> Result<(usize, Option<usize>)> {
        match (limit.get_skip_type()?, limit.get_fetch_type()?) {
            (SkipType::Literal(offset), FetchType::Literal(rows_max)) => Ok((offset, rows_max)),
            _ => {
                let error = PlanError::invalid(self.locations.limit, "LIMIT and OFFSET take numbers of rows");
                Err(external(error.with_hint("write them as digits, as in LIMIT 10")))
            }
        }
    }

    /// Ends rows in an output: `names` and, for each branch, `columns` are what it takes.
    pub(crate) fn end(
        &mut self,
        arranged: Arranged,
        mut names: Vec<String>,
        mut columns: Vec<Vec<Expr>>,
        target: OutputTarget,
    ) -> Result<()> {
        let Arranged { relation, keys, offset, rows_max } = arranged;
        let width = names.len();
        let mut order_keys = Vec::new();
        for key in keys {
            let is_value = |column: &usize| columns.iter().zip(&key.values).all(|(own, value)| own[*column] == *value);
            let column = (0..width).find(is_value).unwrap_or(names.len());
            if column == names.len() {
                names.push(key.name);
                columns.iter_mut().zip(key.values).for_each(|(own, value)| own.push(value));
            }
            order_keys.push(OrderKey { column, descending: key.descending, nulls_first: key.nulls_first });
        }
        let order = (!order_keys.is_empty()).then_some(Order { keys: order_keys, columns: width });
        let output =
            self.output(UnboundOutput { names, arrangement: Arrangement { order, offset, rows_max }, target })?;
        for (branch, columns) in relation.branches.into_iter().zip(columns) {
            self.unbound.end_in_output(branch, columns, output)?;
        }
        Ok(())
    }

    /// The output, which inserts into the same table share.
    fn output(&mut self, wanted: UnboundOutput) -> Result<usize> {
        let outputs = &mut self.unbound.outputs;
        let Some(known) = outputs.iter().position(|output| output.target == wanted.target) else {
            outputs.push(wanted);
            return Ok(outputs.len() - 1);
        };
        let in_turn = Arrangement::default();
        if wanted.arrangement != in_turn || outputs[known].arrangement != in_turn {
            let place = self.locations.order.or(self.locations.limit).or(self.locations.query);
            let construct = "ORDER BY or LIMIT beside another INSERT into the same table";
            let hint = "write it as a statement of its own, outside of the statement set";
            return Err(external(PlanError::unsupported(place, construct, hint)));
        }
        Ok(known)
    }
}

/// The ORDER BY of a plan, and the projection above it that drops columns which SELECT leaves out.
pub(crate) fn sort_of(plan: &LogicalPlan) -> (Option<&Sort>, Option<&Projection>) {
    match plan {
        LogicalPlan::Sort(sort) => (Some(sort), None),
        LogicalPlan::Projection(projection) => match projection.input.as_ref() {
            LogicalPlan::Sort(sort) => (Some(sort), Some(projection)),
            _ => (None, None),
        },
        _ => (None, None),
    }
}

fn sort_key(key: &SortExpr, relation: &Relation, plan: &LogicalPlan) -> Result<Key> {
    let values = relation
        .branches
        .iter()
        .map(|branch| with_one_zero(branch.substitute(&key.expr, plan.schema())?, &branch.scope));
    Ok(Key {
        name: key.expr.schema_name().to_string(),
        values: values.collect::<Result<_>>()?,
        descending: !key.asc,
        nulls_first: key.nulls_first,
    })
}
