//! What groups rows: noted for errors, which point at the first grouping that is not by a window.

use sqlparser::ast::{BinaryOperator, Expr, GroupByExpr, Select, SelectItem, Spanned};

use crate::bind::aggregate_functions::AGGREGATES;
use crate::bind::survey::Walk;
use crate::bind::window_columns::WINDOW_COLUMNS;
use crate::errors::Place;
use crate::lower::grouping_sets::grouped;

impl Walk<'_, '_> {
    pub(crate) fn note_grouping(&mut self, select: &Select) {
        let aggregate = select.projection.iter().find_map(aggregate_place);
        let (construct, place, is_windowed) = match &select.group_by {
            GroupByExpr::Expressions(expressions, _) if !expressions.is_empty() => {
                let grouped: Vec<&Expr> = expressions.iter().flat_map(grouped).collect();
                let is_windowed = grouped.iter().any(|expression| names_window(expression));
                let place = Place::of(expressions[0].span());
                let names = |bound: &str| grouped.iter().any(|expression| is_named(expression, bound));
                if is_windowed && !(names(WINDOW_COLUMNS[0]) && names(WINDOW_COLUMNS[1])) {
                    let note = "Flink groups by windows where window_start and window_end both stand in GROUP BY; \
                                otherwise it gives a changing result in its streaming mode";
                    self.context.foreign.borrow_mut().note(place, Some(note.to_string()));
                }
                ("GROUP BY", place, is_windowed)
            }
            _ if aggregate.is_some() => ("an aggregate", aggregate, false),
            _ if select.distinct.is_some() => ("SELECT DISTINCT", Place::of(select.span()), false),
            _ => return,
        };
        self.locations.note_grouping(construct, place, is_windowed);
    }
}

fn names_window(expression: &Expr) -> bool {
    WINDOW_COLUMNS.iter().any(|column| is_named(expression, column))
}

/// Whether an expression is a column of this name.
fn is_named(expression: &Expr, column: &str) -> bool {
    match expression {
        Expr::Identifier(name) => name.value == column,
        Expr::CompoundIdentifier(names) => names.last().is_some_and(|name| name.value == column),
        _ => false,
    }
}

/// Where an aggregate function stands at the top of a column of SELECT, or among the operands of arithmetic there.
fn aggregate_place(item: &SelectItem) -> Option<Place> {
    fn of(expression: &Expr) -> Option<Place> {
        match expression {
            Expr::Function(function) => {
                let name = function.name.to_string().to_lowercase();
                let is_aggregate = AGGREGATES.contains(&name.as_str());
                if is_aggregate { Place::of(function.name.span()) } else { None }
            }
            Expr::BinaryOp {
                left,
                right,
                op: BinaryOperator::Plus | BinaryOperator::Minus | BinaryOperator::Multiply | BinaryOperator::Divide,
            } => of(left).or_else(|| of(right)),
            Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => of(inner),
            _ => None,
        }
    }
    match item {
        SelectItem::UnnamedExpr(expression) | SelectItem::ExprWithAlias { expr: expression, .. } => of(expression),
        _ => None,
    }
}
