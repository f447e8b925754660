//! What of a query's syntax tree is read and cannot be planned: each construct with what to write instead.

use std::collections::HashSet;
use std::ops::ControlFlow;

use sqlparser::ast::{
    AccessExpr, DataType, Distinct, Expr, GroupByExpr, JoinConstraint, JoinOperator, LimitClause, OrderByKind, Query,
    Select, SelectItem, SetExpr, SetOperator, SetQuantifier, Spanned, Subscript, TableFactor, TableWithJoins, Value,
    Visit, Visitor,
};

use crate::bind::syntax_parts::aggregate_in;
use crate::bind::using::can_respell;
use crate::errors::{Place, PlanError};
use crate::lower::grouping_sets::{SETS_MAX, grouped, written_sets};
use crate::parse::CONSTRUCTORS;

/// What is read, and cannot be planned.
pub(crate) fn check_syntax(expression: &Expr, place: Option<Place>) -> Result<(), PlanError> {
    let (construct, instead) = match expression {
        Expr::Collate { .. } => ("COLLATE", "leave it out: strings are compared byte by byte"),
        Expr::CompoundFieldAccess { access_chain, .. } if access_chain.iter().any(is_slice) => {
            ("a slice of an array", "take elements one by one, as in array[1]")
        }
        Expr::Cast { expr, data_type, .. } if !is_null(expr) => match nested_name(data_type) {
            Some(name) => return refuse(place, &format!("CAST to {name}"), CONSTRUCTORS),
            None => return Ok(()),
        },
        Expr::Convert { .. } => ("CONVERT", "write CAST(value AS type)"),
        Expr::IsNormalized { .. } => ("IS NORMALIZED", "leave it out"),
        Expr::Like { any: true, .. } | Expr::ILike { any: true, .. } => {
            ("LIKE ANY", "write text LIKE 'a%' OR text LIKE 'b%'")
        }
        _ => return Ok(()),
    };
    refuse(place, construct, instead)
}

/// The kind of a type with parts: DataFusion's casts of the parts are not Flink's.
fn nested_name(data_type: &DataType) -> Option<&'static str> {
    match data_type {
        DataType::Array(_) => Some("ARRAY"),
        DataType::Map(..) => Some("MAP"),
        DataType::Struct(..) | DataType::Tuple(_) | DataType::Nested(_) => Some("ROW"),
        _ => None,
    }
}

/// NULL may be of every type.
fn is_null(expression: &Expr) -> bool {
    match expression {
        Expr::Nested(inner) => is_null(inner),
        Expr::Value(value) => value.value == Value::Null,
        _ => false,
    }
}

fn is_slice(access: &AccessExpr) -> bool {
    matches!(access, AccessExpr::Subscript(Subscript::Slice { .. }))
}

pub(crate) fn refuse(place: Option<Place>, construct: &str, instead: &str) -> Result<(), PlanError> {
    Err(PlanError::unsupported(place, construct, instead))
}

pub(crate) fn order_place(query: &Query) -> Result<Option<Place>, PlanError> {
    let Some(order) = &query.order_by else { return Ok(None) };
    match &order.kind {
        OrderByKind::Expressions(expressions) => {
            let first = expressions.first().and_then(|first| Place::of(first.span()));
            Ok(first.or_else(|| Place::of(query.span())))
        }
        OrderByKind::All(_) => refuse(Place::of(query.span()), "ORDER BY ALL", "name the columns").map(|()| None),
    }
}

pub(crate) fn limit_place(query: &Query) -> Result<Option<Place>, PlanError> {
    if let Some(fetch) = &query.fetch {
        let quantity = fetch.quantity.as_ref().map(Spanned::span);
        let place = Place::of(quantity.unwrap_or_else(|| query.span()));
        let has_limit = matches!(&query.limit_clause, Some(LimitClause::LimitOffset { limit: Some(_), .. }));
        if fetch.with_ties || fetch.percent || has_limit {
            refuse(place, "FETCH with TIES, PERCENT or LIMIT", "write FETCH FIRST 10 ROWS ONLY")?;
        }
        return Ok(place);
    }
    let place = match &query.limit_clause {
        None => return Ok(None),
        Some(
            LimitClause::LimitOffset { limit: Some(first), .. } | LimitClause::OffsetCommaLimit { offset: first, .. },
        ) => Place::of(first.span()),
        Some(LimitClause::LimitOffset { offset: Some(offset), .. }) => Place::of(offset.value.span()),
        Some(LimitClause::LimitOffset { .. }) => None,
    };
    Ok(place.or_else(|| Place::of(query.span())))
}

/// Refuses what of UNION, INTERSECT and EXCEPT is read and cannot be planned. Returns the first of them that looks for equal rows, and its place.
pub(crate) fn check_set(body: &SetExpr) -> Result<Option<(&'static str, Option<Place>)>, PlanError> {
    let SetExpr::SetOperation { op, set_quantifier, left, right } = body else { return Ok(None) };
    let place = Place::of(right.span());
    let of_left = check_set(left)?;
    let of_right = check_set(right)?;
    let is_all = match set_quantifier {
        SetQuantifier::All => true,
        SetQuantifier::None | SetQuantifier::Distinct => false,
        _ => return refuse(place, &format!("{op} BY NAME"), "name the columns in the same order").map(|()| None),
    };
    let own = match op {
        SetOperator::Union if is_all => None,
        SetOperator::Union => Some(("UNION", place)),
        SetOperator::Intersect => Some(("INTERSECT", place)),
        SetOperator::Except => Some(("EXCEPT", place)),
        SetOperator::Minus => return refuse(place, "MINUS", "write EXCEPT").map(|()| None),
    };
    Ok(of_left.or(own).or(of_right))
}

/// The names of common table expressions of one WITH differ.
pub(crate) fn check_with(query: &Query) -> Result<(), PlanError> {
    let mut names = HashSet::new();
    let mut tables = query.with.iter().flat_map(|with| &with.cte_tables);
    match tables.find(|table| !names.insert(table.alias.name.value.as_str())) {
        None => Ok(()),
        Some(table) => {
            let name = &table.alias.name;
            let error = PlanError::invalid(Place::of(name.span), format!("WITH defines {} twice", name.value));
            Err(error.with_hint("give one of them another name"))
        }
    }
}

pub(crate) fn check_select(select: &Select) -> Result<(), PlanError> {
    let place = Place::of(select.span());
    if let Some(Distinct::On(columns)) = &select.distinct {
        let place = columns.first().and_then(|column| Place::of(column.span())).or(place);
        return refuse(place, "DISTINCT ON", "use MIN or MAX, grouped by window_start, window_end");
    }
    if let Some(into) = &select.into {
        let instead = format!("write INSERT INTO {} SELECT …", into.name);
        return refuse(Place::of(into.name.span()).or(place), "SELECT … INTO", &instead);
    }
    for item in &select.projection {
        if let SelectItem::UnnamedExpr(row @ Expr::Tuple(_))
        | SelectItem::ExprWithAlias { expr: row @ Expr::Tuple(_), .. } = item
        {
            return refuse(
                Place::of(row.span()).or(place),
                "a row of values",
                "keep each value in a column of its own",
            );
        }
    }
    if let GroupByExpr::Expressions(expressions, modifiers) = &select.group_by {
        if written_sets(expressions).is_err() {
            let place = expressions.first().and_then(|first| Place::of(first.span())).or(place);
            let message = format!("GROUP BY stands for more than {SETS_MAX} sets of keys");
            return Err(PlanError::invalid(place, message).with_hint("list those that are needed in GROUPING SETS"));
        }
        expressions.iter().flat_map(grouped).try_for_each(check_key)?;
        if !modifiers.is_empty() {
            return refuse(place, "GROUP BY … WITH", "write ROLLUP (a, b), CUBE (a, b) or GROUPING SETS");
        }
    }
    for (clause, condition) in [("WHERE", &select.selection), ("HAVING", &select.having)] {
        if let Some(place) = condition.as_ref().and_then(over_in) {
            let message = format!("{clause} comes before OVER, and has none of its results");
            let hint = "compute them in a subquery, and write WHERE behind it";
            return Err(PlanError::invalid(place, message).with_hint(hint));
        }
    }
    if let Some(expression) = select.sort_by.first() {
        return refuse(Place::of(expression.expr.span()), "SORT BY", "leave it out");
    }
    Ok(())
}

/// Where a function OVER rows stands in an expression, outside of its subqueries.
fn over_in(expression: &Expr) -> Option<Option<Place>> {
    expression.visit(&mut OverVisitor::default()).break_value()
}

#[derive(Default)]
struct OverVisitor {
    subqueries: usize,
}

impl Visitor for OverVisitor {
    type Break = Option<Place>;

    fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<Self::Break> {
        self.subqueries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<Self::Break> {
        self.subqueries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<Self::Break> {
        match expression {
            Expr::Function(function) if function.over.is_some() && self.subqueries == 0 => {
                ControlFlow::Break(Place::of(expression.span()))
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Rows are grouped before anything is aggregated.
fn check_key(key: &Expr) -> Result<(), PlanError> {
    match aggregate_in(key) {
        None => Ok(()),
        place => Err(PlanError::invalid(place, "GROUP BY takes rows one by one, and has no aggregates")
            .with_hint("compute them in a view or subquery, and group its rows")),
    }
}

pub(crate) fn check_join(operator: &JoinOperator, place: Option<Place>) -> Result<(), PlanError> {
    let use_join = "use JOIN or LEFT JOIN with a bounded table";
    match operator {
        JoinOperator::Join(_)
        | JoinOperator::Inner(_)
        | JoinOperator::Left(_)
        | JoinOperator::LeftOuter(_)
        | JoinOperator::Right(_)
        | JoinOperator::RightOuter(_)
        | JoinOperator::FullOuter(_)
        | JoinOperator::CrossJoin(_)
        | JoinOperator::AsOf { .. } => Ok(()),
        JoinOperator::Semi(_) | JoinOperator::LeftSemi(_) | JoinOperator::RightSemi(_) => {
            refuse(place, "SEMI JOIN", use_join)
        }
        JoinOperator::Anti(_) | JoinOperator::LeftAnti(_) | JoinOperator::RightAnti(_) => {
            refuse(place, "ANTI JOIN", "LEFT JOIN a bounded table and keep the rows WHERE its key IS NULL")
        }
        _ => refuse(place, "this kind of join", use_join),
    }
}

/// The joined tables of a FROM clause: each item, followed by those in its parentheses.
pub(crate) fn joined_tables(from: &[TableWithJoins]) -> Vec<&TableWithJoins> {
    let mut found = Vec::new();
    for table in from {
        found.push(table);
        for factor in std::iter::once(&table.relation).chain(table.joins.iter().map(|join| &join.relation)) {
            if let TableFactor::NestedJoin { table_with_joins, .. } = factor {
                found.extend(joined_tables(std::slice::from_ref(table_with_joins)));
            }
        }
    }
    found
}

/// Refuses outer joins by columns of the same name where the text does not tell whose they are.
pub(crate) fn check_using(select: &Select) -> Result<(), PlanError> {
    let has_wildcard = select.projection.iter().any(|item| matches!(item, SelectItem::Wildcard(_)));
    for from in joined_tables(&select.from) {
        let is_item = select.from.iter().any(|item| std::ptr::eq(item, from));
        let is_told = is_item && can_respell(from) && (!has_wildcard || select.from.len() == 1);
        for join in &from.joins {
            let (constraint, is_left) = match &join.join_operator {
                JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => (constraint, true),
                JoinOperator::Right(constraint)
                | JoinOperator::RightOuter(constraint)
                | JoinOperator::FullOuter(constraint) => (constraint, false),
                _ => continue,
            };
            let place = Place::of(join.relation.span());
            match constraint {
                JoinConstraint::Natural if !is_left => {
                    refuse(place, "NATURAL in a right or full join", "write USING (x), or ON a.x = b.x")?;
                }
                JoinConstraint::Using(_) if !is_left && !is_told => {
                    refuse(place, "USING in this right or full join", "write ON a.x = b.x")?;
                }
                JoinConstraint::Using(_) if has_wildcard && !is_told => {
                    refuse(place, "SELECT * of this left join with USING", "name the columns")?;
                }
                JoinConstraint::Natural if has_wildcard => {
                    refuse(place, "SELECT * of a left join with NATURAL", "name the columns")?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}
