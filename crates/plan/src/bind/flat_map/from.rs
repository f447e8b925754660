//! FROM clauses with calls of table functions, as DataFusion is to read them.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Join, JoinConstraint, JoinOperator, Query, Select, TableFactor, TableWithJoins, VisitMut, VisitorMut,
};

use crate::bind::window::Call;

/// Encloses each call of a table function, and all that stands before it in FROM, in parentheses: `FROM (t CROSS JOIN UNNEST(t.a) AS u (x))`. A comma before
/// a call is a CROSS JOIN.
pub(crate) fn nest_calls(query: &mut Query) {
    struct Nesting;
    impl VisitorMut for Nesting {
        type Break = ();

        fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
            if select.from.iter().skip(1).any(|table| Call::is_of_table_function(&table.relation)) {
                select.from = without_commas(std::mem::take(&mut select.from));
            }
            select.from = std::mem::take(&mut select.from).into_iter().map(nested).collect();
            ControlFlow::Continue(())
        }

        fn post_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
            if let TableFactor::NestedJoin { table_with_joins, .. } = table {
                **table_with_joins = nested(table_with_joins.as_ref().clone());
            }
            ControlFlow::Continue(())
        }
    }
    let _ = query.visit(&mut Nesting);
}

/// Whether the last of the joined tables is a call of a table function.
pub(super) fn ends_in_call(table: &TableWithJoins) -> bool {
    table.joins.last().is_some_and(|join| Call::is_of_table_function(&join.relation))
}

/// Joined tables as one.
pub(super) fn as_factor(table: TableWithJoins) -> TableFactor {
    match table.joins.is_empty() {
        true => table.relation,
        false => TableFactor::NestedJoin { table_with_joins: Box::new(table), alias: None },
    }
}

/// The same tables without a comma before a call of a table function.
fn without_commas(from: Vec<TableWithJoins>) -> Vec<TableWithJoins> {
    let cross =
        |relation| Join { relation, global: false, join_operator: JoinOperator::CrossJoin(JoinConstraint::None) };
    let mut tables: Vec<TableWithJoins> = Vec::new();
    for table in from {
        if tables.is_empty() || !Call::is_of_table_function(&table.relation) {
            tables.push(table);
            continue;
        }
        let mut first = tables.remove(0);
        first.joins.extend(tables.drain(..).map(|table| cross(as_factor(table))));
        first.joins.push(cross(table.relation));
        first.joins.extend(table.joins);
        tables.push(first);
    }
    tables
}

/// Encloses each call with what stands before it.
fn nested(table: TableWithJoins) -> TableWithJoins {
    let TableWithJoins { mut relation, joins } = table;
    let mut others = Vec::new();
    for join in joins {
        let is_call = Call::is_of_table_function(&join.relation);
        others.push(join);
        if is_call {
            relation = as_factor(TableWithJoins { relation, joins: std::mem::take(&mut others) });
        }
    }
    TableWithJoins { relation, joins: others }
}
