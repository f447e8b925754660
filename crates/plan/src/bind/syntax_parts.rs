//! Parts of syntax trees.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, Function, FunctionArgumentClause, FunctionArguments, SelectItem, SetExpr, Spanned, Visit, Visitor,
};

use super::aggregate_functions::AGGREGATES;
use crate::errors::Place;

/// The expressions that stand directly inside another.
pub(crate) fn parts(expression: &Expr) -> Vec<Expr> {
    struct Parts {
        depth: usize,
        found: Vec<Expr>,
    }
    impl Visitor for Parts {
        type Break = ();

        fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
            if self.depth == 1 {
                self.found.push(expression.clone());
            }
            self.depth += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_expr(&mut self, _expression: &Expr) -> ControlFlow<()> {
            self.depth -= 1;
            ControlFlow::Continue(())
        }
    }
    let mut parts = Parts { depth: 0, found: Vec::new() };
    let _ = expression.visit(&mut parts);
    parts.found
}

/// Where an aggregate stands in an expression that can have none.
pub(crate) fn aggregate_in(expression: &Expr) -> Option<Place> {
    match expression.visit(&mut Aggregates { inside: 1 }) {
        ControlFlow::Break(found) => found,
        ControlFlow::Continue(()) => None,
    }
}

/// Breaks at an aggregate that stands inside another.
#[derive(Default)]
pub(crate) struct Aggregates {
    /// Aggregates that the walk is in.
    inside: usize,
}

pub(crate) fn is_aggregate(expression: &Expr) -> bool {
    let Expr::Function(function) = expression else { return false };
    let name = function.name.to_string().to_lowercase();
    function.over.is_none() && AGGREGATES.contains(&name.as_str())
}

impl Visitor for Aggregates {
    type Break = Option<Place>;

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<Option<Place>> {
        if is_aggregate(expression) {
            if self.inside > 0 {
                return ControlFlow::Break(Place::of(expression.span()));
            }
            self.inside += 1;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &Expr) -> ControlFlow<Option<Place>> {
        if is_aggregate(expression) {
            self.inside -= 1;
        }
        ControlFlow::Continue(())
    }
}

/// Whether ORDER BY stands behind the arguments of a call.
pub(crate) fn has_order_inside(function: &Function) -> bool {
    let FunctionArguments::List(arguments) = &function.args else { return false };
    arguments.clauses.iter().any(|clause| matches!(clause, FunctionArgumentClause::OrderBy(_)))
}

/// The parts of a query that `UNION ALL` puts together, in their order.
pub(crate) fn union_parts(body: &SetExpr) -> Vec<&SetExpr> {
    match body {
        SetExpr::SetOperation { left, right, .. } => [union_parts(left), union_parts(right)].concat(),
        SetExpr::Query(query) => union_parts(&query.body),
        _ => vec![body],
    }
}

/// The place of a column of a SELECT or VALUES, as near as the text tells, and what it is called there.
pub(crate) fn select_item(part: &SetExpr, index: usize) -> (Option<Place>, Option<String>) {
    let whole = || Place::of(part.span());
    match part {
        SetExpr::Values(values) => {
            let value = values.rows.first().and_then(|row| row.content.get(index));
            (value.and_then(|value| Place::of(value.span())).or_else(whole), None)
        }
        SetExpr::Select(select) => {
            let is_wildcard =
                |item: &&SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
            let before = select.projection.iter().take(index + 1);
            let item = before.clone().find(is_wildcard).or_else(|| select.projection.get(index));
            let name = match item {
                Some(SelectItem::UnnamedExpr(expression)) => Some(expression.to_string()),
                Some(SelectItem::ExprWithAlias { alias, .. }) => Some(alias.value.clone()),
                _ => None,
            };
            (item.and_then(|item| Place::of(item.span())).or_else(whole), name)
        }
        _ => (whole(), None),
    }
}
