//! The event time of what leaves a join.

use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema};
use datafusion_common::Result;
use datafusion_expr::Expr;
use pelton_data::join::{JoinColumn, Side, WindowBound};

use crate::bind::names::Names;
use crate::errors::{Place, PlanError, external};
use crate::lower::Lowering;
use crate::lower::scope::INPUT;
use crate::pipeline::{Operator, StreamJoin, StreamRef};

impl Lowering<'_> {
    /// Refuses to go by a column of a join's results that no watermark runs along; `place` is that of what goes by it.
    pub(crate) fn check_time_of_join(&self, input: StreamRef, time: &Expr, place: Option<Place>) -> Result<()> {
        let StreamRef::Operator(number) = input else { return Ok(()) };
        let Operator::Join(join) = &self.unbound.operators[number] else { return Ok(()) };
        if join.window_column(time) == Some((WindowBound::Time, None)) {
            return Ok(());
        }
        let name = match time {
            Expr::Column(column) => column.name.as_str(),
            _ => "this column",
        };
        let construct = format!("{name} as the time of rows that a join of windows has put together");
        let hint = "use window_time of a side whose rows are always there, or GROUP BY window_start, window_end";
        Err(external(PlanError::unsupported(place, construct, hint)))
    }
}

impl StreamJoin {
    /// The bound of the windows of pairs that an expression over what leaves is: a column, or `COALESCE` of that of both sides.
    pub(crate) fn bound(&self, expression: &Expr) -> Option<WindowBound> {
        if let Some((one, other)) = coalesced(expression) {
            let sides = [one, other].map(|side| self.window_column(side));
            return match sides {
                [Some((bound, Some(one))), Some((same, Some(other)))] if bound == same && one != other => Some(bound),
                _ => None,
            };
        }
        self.window_column(expression).filter(|(_, side)| side.is_none()).map(|(bound, _)| bound)
    }

    /// The bound of a window that a column of what leaves is, and the side without which it is NULL.
    fn window_column(&self, expression: &Expr) -> Option<(WindowBound, Option<Side>)> {
        let Expr::Column(column) = expression else { return None };
        if column.relation.as_ref().is_none_or(|relation| relation.table() != INPUT) {
            return None;
        }
        match self.spec.columns[self.spec.schema.index_of(&column.name).ok()?] {
            JoinColumn::Window(bound, side) => Some((bound, side)),
            JoinColumn::Of(..) => None,
        }
    }

    /// Lets the time of the window leave, as a column of its own where there is none.
    pub(crate) fn add_time(&mut self, time: &FieldRef) {
        let spec = &mut self.spec;
        let column = JoinColumn::Window(WindowBound::Time, None);
        if spec.columns.contains(&column) {
            return;
        }
        let mut names = Names::default();
        let mut fields: Vec<FieldRef> = spec.schema.fields().to_vec();
        fields.iter().for_each(|field| drop(names.unique(field.name())));
        fields.push(Arc::new(time.as_ref().clone().with_name(names.unique(time.name()))));
        spec.columns.push(column);
        spec.schema = Arc::new(Schema::new(fields));
    }
}

/// The two values of `COALESCE(a, b)`, also where it has become `CASE WHEN a IS NOT NULL THEN a ELSE b END`.
fn coalesced(expression: &Expr) -> Option<(&Expr, &Expr)> {
    match expression {
        Expr::ScalarFunction(call) if call.name() == "coalesce" => match call.args.as_slice() {
            [one, other] => Some((one, other)),
            _ => None,
        },
        Expr::Case(case) if case.expr.is_none() => match (case.when_then_expr.as_slice(), &case.else_expr) {
            ([(when, then)], Some(other)) if matches!(&**when, Expr::IsNotNull(tested) if tested == then) => {
                Some((then, other))
            }
            _ => None,
        },
        _ => None,
    }
}
