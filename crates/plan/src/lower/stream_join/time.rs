//! The event time of what leaves a join.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema};
use datafusion_common::Result;
use datafusion_expr::Expr;
use pelton_data::TimeColumn;
use pelton_data::join::{JoinColumn, JoinTime, Side, WindowBound};

use crate::bind::names::Names;
use crate::errors::{Place, PlanError, external};
use crate::lower::Lowering;
use crate::lower::scope::{INPUT, column_of};
use crate::lower::unbound::UnboundProgram;
use crate::pipeline::{Operator, StreamJoin, StreamRef};

impl Lowering<'_> {
    /// Refuses to go by a column of a join's results that no watermark runs along; `place` is that of what goes by it.
    pub(crate) fn check_time_of_join(&self, input: StreamRef, time: &Expr, place: Option<Place>) -> Result<()> {
        let StreamRef::Operator(number) = input else { return Ok(()) };
        let Operator::Join(join) = &self.unbound.operators[number] else { return Ok(()) };
        if join.is_time(time) {
            return Ok(());
        }
        let name = match time {
            Expr::Column(column) => column.name.as_str(),
            _ => "this column",
        };
        let (construct, hint) = match join.spec.time {
            JoinTime::Windows { .. } => (
                format!("{name} as the time of rows that a join of windows has put together"),
                "use window_time of a side whose rows are always there, or GROUP BY window_start, window_end",
            ),
            JoinTime::Interval { .. } | JoinTime::Nearest { .. } => (
                format!("{name} as the time of rows that a join has put together"),
                "use the time attribute that the join compares, of a side whose rows are always there",
            ),
        };
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

    /// Whether the watermark of what leaves runs along a column.
    fn is_time(&self, expression: &Expr) -> bool {
        match self.spec.time {
            JoinTime::Windows { .. } => self.window_column(expression) == Some((WindowBound::Time, None)),
            JoinTime::Interval { .. } | JoinTime::Nearest { .. } => {
                self.column(expression).is_some_and(|column| self.is_time_of_rows(column))
            }
        }
    }

    /// Whether a column is the time of a side's rows that leave in the order of their times, and is never NULL.
    fn is_time_of_rows(&self, column: JoinColumn) -> bool {
        let spec = &self.spec;
        let is_nearest = matches!(spec.time, JoinTime::Nearest { .. });
        Side::BOTH.into_iter().any(|side| {
            let is_ordered = !(spec.kind.keeps_unmatched(side.other()) || is_nearest && side == Side::Right);
            is_ordered && spec.sides[side.port()].time.is_some_and(|time| column == JoinColumn::Of(side, time.index))
        })
    }

    /// The first column of what leaves that is the time of a side's rows.
    fn time_that_leaves(&self) -> Option<usize> {
        self.spec.columns.iter().position(|column| self.is_time_of_rows(*column))
    }

    /// What an expression over what leaves is, if it is a column.
    fn column(&self, expression: &Expr) -> Option<JoinColumn> {
        let index = self.spec.schema.index_of(&column_of(expression, INPUT)?.name).ok()?;
        Some(self.spec.columns[index])
    }

    /// The bound of a window that a column of what leaves is, and the side without which it is NULL.
    fn window_column(&self, expression: &Expr) -> Option<(WindowBound, Option<Side>)> {
        match self.column(expression)? {
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

/// Gives the results of joins by the distance of times their event time: that time attribute which those who read them go by.
pub(crate) fn choose_times(unbound: &mut UnboundProgram) -> Result<()> {
    for number in 0..unbound.operators.len() {
        let stream = StreamRef::Operator(number);
        let Operator::Join(join) = &unbound.operators[number] else { continue };
        if matches!(join.spec.time, JoinTime::Windows { .. }) {
            continue;
        }
        let readers = unbound.pipelines.iter().filter(|pipeline| pipeline.input == stream);
        let times = readers.filter_map(|pipeline| match pipeline.target.time() {
            Some(Expr::Column(time)) => join.spec.schema.index_of(&time.name).ok(),
            _ => None,
        });
        let times: BTreeSet<usize> = times.collect();
        if times.len() > 1 {
            let names: Vec<&str> = times.iter().map(|&time| join.spec.schema.field(time).name().as_str()).collect();
            let construct = format!("going by several time attributes of one join, {},", names.join(" and "));
            let hint = "go by the same one everywhere, or write the join once for each";
            return Err(external(PlanError::unsupported(None, construct, hint)));
        }
        let time = times.first().copied().or_else(|| join.time_that_leaves());
        let Operator::Join(join) = &mut unbound.operators[number] else { unreachable!("it is a join") };
        let spec = &mut join.spec;
        spec.output_time = time.and_then(|time| TimeColumn::new(time, spec.schema.field(time).data_type()));
    }
    Ok(())
}
