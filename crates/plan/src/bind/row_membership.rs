//! `(x, y) IN (SELECT a, b …)`: which is EXISTS of a row of the subquery whose values are equal to these, one by one.

use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, Expr, Ident, Query, SelectItem, SetExpr, TableAlias, TableAliasColumnDef, TableFactor, VisitMut,
    VisitorMut,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;

use super::syntax_parts::union_parts;
use crate::errors::{Place, PlanError};

/// The name of the subquery's rows, which no query can write.
pub(crate) const ROWS: &str = "$rows";

/// Writes IN of several values as EXISTS.
pub(crate) fn respell(query: &mut Query) {
    struct Respeller;
    impl VisitorMut for Respeller {
        type Break = ();

        fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
            if let Expr::InSubquery { expr, subquery, negated } = expression
                && let Expr::Tuple(values) = expr.as_mut()
            {
                let subquery = Box::new(rows_that_match(std::mem::take(values), (**subquery).clone(), *negated));
                *expression = Expr::Exists { subquery, negated: *negated };
            }
            ControlFlow::Continue(())
        }
    }
    let _ = query.visit(&mut Respeller);
}

/// Refuses to compare several values with a subquery that has not as many columns, or does not name them.
pub(crate) fn check(values: &[Expr], subquery: &Query, place: Option<Place>) -> Result<(), PlanError> {
    let Some(SetExpr::Select(select)) = union_parts(&subquery.body).first().copied() else { return Ok(()) };
    let is_one = |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
    if !select.projection.iter().all(is_one) {
        return Err(PlanError::unsupported(place, "IN of several values and SELECT *", "name the columns"));
    }
    let columns = select.projection.len();
    if columns == values.len() {
        return Ok(());
    }
    let message = format!("IN compares {} values with the {columns} columns of a subquery", values.len());
    Err(PlanError::invalid(place, message).with_hint("select as many columns as there are values"))
}

/// `SELECT 1 FROM (subquery) AS $rows ($0, $1, …) WHERE $rows.$0 = x AND $rows.$1 = y …`. Where that is negated, the values may as well be unknown: a row of which
/// none is known to differ is a match, as `NOT IN` is not true for NULL.
fn rows_that_match(values: Vec<Expr>, subquery: Query, is_negated: bool) -> Query {
    let column_name = |number: usize| Ident::with_quote('`', format!("${number}"));
    let columns = (0..values.len()).map(|number| TableAliasColumnDef { name: column_name(number), data_type: None });
    let columns = columns.collect();
    let equalities = values.into_iter().enumerate().map(|(number, value)| {
        let column = Expr::CompoundIdentifier(vec![Ident::with_quote('`', ROWS), column_name(number)]);
        let equality = binary(column, BinaryOperator::Eq, Expr::Nested(Box::new(value)));
        if is_negated { Expr::IsNotFalse(Box::new(Expr::Nested(Box::new(equality)))) } else { equality }
    });
    let template = Parser::new(&GenericDialect {}).try_with_sql("SELECT 1 FROM t");
    let mut query = template.and_then(|mut parser| parser.parse_query()).expect("it is a query");
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.selection = equalities.reduce(|all, equality| binary(all, BinaryOperator::And, equality));
        select.from[0].relation = TableFactor::Derived {
            lateral: false,
            subquery: Box::new(subquery),
            alias: Some(TableAlias { explicit: true, name: Ident::with_quote('`', ROWS), columns, at: None }),
            sample: None,
        };
    }
    *query
}

/// `left op right`
pub(super) fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}
