//! Queries as DataFusion needs them written.

use std::collections::HashMap;
use std::ops::ControlFlow;

use sqlparser::ast;
use sqlparser::ast::{
    BinaryOperator, GroupByExpr, Ident, Query, Select, SelectItem, TableFactor, VisitMut, VisitorMut,
};

use crate::bind::names::{column_name, unnamed};
use crate::lower::grouping_sets::written_sets;

/// Names the columns of a SELECT as Flink does.
#[derive(Default)]
pub(crate) struct Aliases {
    /// How often each name of a column came that stands there as it is.
    columns: HashMap<String, usize>,
}

impl Aliases {
    /// The name for what stands at `position` without one: `column` is its name where it is a column and nothing else.
    /// `None` where it keeps that name.
    pub fn of(&mut self, position: usize, column: Option<&str>) -> Option<String> {
        let Some(name) = column else { return Some(unnamed(position)) };
        let came = self.columns.entry(name.to_string()).or_default();
        *came += 1;
        if *came == 1 { None } else { Some(format!("{name}{}", *came - 2)) }
    }
}

/// Writes a query, or a part of it, as DataFusion needs it. Columns of a SELECT that have no name, or one that is taken, get one; `1e3`
/// is a DOUBLE; `!=` and `==` are `<>` and `=`; FETCH is LIMIT.
pub(crate) fn normalize_spelling(written: &mut impl VisitMut) {
    struct Speller;
    impl VisitorMut for Speller {
        type Break = ();

        fn pre_visit_expr(&mut self, expression: &mut ast::Expr) -> ControlFlow<()> {
            match expression {
                ast::Expr::Value(value) => {
                    if let ast::Value::Number(text, _) = &value.value
                        && text.contains(['e', 'E'])
                    {
                        let text = ast::Value::SingleQuotedString(text.clone()).with_span(value.span);
                        *expression = double(ast::Expr::Value(text));
                    }
                }
                ast::Expr::CompoundFieldAccess { root, access_chain } => name_fields(root, access_chain),
                // It matters to Flink alone.
                ast::Expr::Interval(interval) => interval.leading_precision = None,
                ast::Expr::BinaryOp { op, .. } => match op {
                    BinaryOperator::Custom(spelling) if spelling == "!=" => *op = BinaryOperator::NotEq,
                    BinaryOperator::Custom(spelling) if spelling == "==" => *op = BinaryOperator::Eq,
                    _ => {}
                },
                _ => {}
            }
            ControlFlow::Continue(())
        }

        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            // FETCH FIRST 3 ROWS ONLY is LIMIT 3.
            if let Some(fetch) = query.fetch.take() {
                let one = || ast::Expr::Value(ast::Value::Number("1".to_string(), false).with_empty_span());
                let limit = Some(fetch.quantity.unwrap_or_else(one));
                match &mut query.limit_clause {
                    Some(ast::LimitClause::LimitOffset { limit: none, .. }) => *none = limit,
                    clause => {
                        *clause = Some(ast::LimitClause::LimitOffset { limit, offset: None, limit_by: Vec::new() })
                    }
                }
            }
            ControlFlow::Continue(())
        }

        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
            if let GroupByExpr::Expressions(expressions, _) = &mut select.group_by
                && let Ok(Some(sets)) = written_sets(expressions)
            {
                *expressions = vec![ast::Expr::GroupingSets(sets)];
            }
            let mut aliases = Aliases::default();
            let tables: Vec<String> = select.from.iter().flat_map(table_names).collect();
            for (position, item) in select.projection.iter_mut().enumerate() {
                let SelectItem::UnnamedExpr(expression) = item else { continue };
                if let Some(name) = field_name(expression, &tables) {
                    let alias = aliases.of(position, Some(&name)).unwrap_or(name);
                    *item = SelectItem::ExprWithAlias { expr: expression.clone(), alias: Ident::new(alias) };
                    continue;
                }
                let Some(alias) = aliases.of(position, column_name(expression)) else { continue };
                *item = SelectItem::ExprWithAlias { expr: expression.clone(), alias: Ident::new(alias) };
            }
            ControlFlow::Continue(())
        }
    }
    let _ = written.visit(&mut Speller);
}

/// Makes texts of the names of fields behind an element, and keys of what is in brackets, as DataFusion reads them. Names that come first belong to that of the column.
fn name_fields(root: &ast::Expr, accesses: &mut [ast::AccessExpr]) {
    let is_name = |access: &ast::AccessExpr| matches!(access, ast::AccessExpr::Dot(ast::Expr::Identifier(_)));
    let first = match root {
        ast::Expr::Identifier(_) => accesses.iter().position(|access| !is_name(access)).unwrap_or(accesses.len()),
        _ => 0,
    };
    for access in &mut accesses[first..] {
        if let ast::AccessExpr::Dot(ast::Expr::Identifier(name)) = access {
            let text = ast::Value::SingleQuotedString(std::mem::take(&mut name.value)).with_span(name.span);
            *access = ast::AccessExpr::Dot(ast::Expr::Value(text));
        }
        // A text alone would be taken for the name of a field.
        if let ast::AccessExpr::Subscript(ast::Subscript::Index { index }) = access {
            let key = std::mem::replace(index, ast::Expr::Value(ast::Value::Null.with_empty_span()));
            *index = ast::Expr::Nested(Box::new(key));
        }
    }
}

/// By which names columns of a table, and of those joined with it, are qualified. Functions have none, or that of an alias.
fn table_names(tables: &ast::TableWithJoins) -> Vec<String> {
    let factors = [&tables.relation].into_iter().chain(tables.joins.iter().map(|join| &join.relation));
    let name = |factor: &TableFactor| match factor {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::TableFunction { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. } => Some(alias.name.value.clone()),
        TableFactor::Table { name, .. } => Some(name.0.last()?.as_ident()?.value.clone()),
        TableFactor::NestedJoin { .. } => None,
        _ => None,
    };
    let inner = factors.clone().filter_map(|factor| match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => Some(table_names(table_with_joins)),
        _ => None,
    });
    inner.flatten().chain(factors.clone().filter_map(name)).collect()
}

/// The last name of `column.field` and `table.column.field`, by which Flink calls the column of a result.
fn field_name(expression: &ast::Expr, tables: &[String]) -> Option<String> {
    let ast::Expr::CompoundIdentifier(parts) = expression else { return None };
    let is_qualified = tables.contains(&parts[0].value);
    let is_field = parts.len() > if is_qualified { 2 } else { 1 };
    is_field.then(|| parts[parts.len() - 1].value.clone())
}

pub(crate) fn double(expression: ast::Expr) -> ast::Expr {
    ast::Expr::Cast {
        kind: ast::CastKind::Cast,
        expr: Box::new(expression),
        data_type: ast::DataType::DoublePrecision,
        array: false,
        format: None,
    }
}
