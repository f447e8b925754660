//! Flink's older windows, `GROUP BY TUMBLE(time, size)`, HOP and SESSION, with `TUMBLE_START(time, size)` and the like, as the table functions that took their
//! place: `FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(time), size)) GROUP BY window_start, window_end`.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, ObjectNamePart, OrderByKind,
    Query, Select, SelectItem, SetExpr, Spanned, TableAlias, TableFactor, VisitMut, VisitorMut,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Span;

use crate::errors::{Place, PlanError};
use crate::parse::flink_aliases::call;
use crate::parse::vocabulary::TABLE_ARGUMENT_PREFIX;

/// The windows, and how many arguments each has.
const WINDOWS: [(&str, usize); 3] = [("TUMBLE", 2), ("HOP", 3), ("SESSION", 2)];

/// What is asked of a window, behind its name, and the column that has it.
const BOUNDS: [(&str, &str); 4] =
    [("_START", "window_start"), ("_END", "window_end"), ("_ROWTIME", "window_time"), ("_PROCTIME", "window_time")];

/// A query with the table functions, in its subqueries too.
pub(super) fn rewritten(mut query: Box<Query>) -> Result<Box<Query>, PlanError> {
    broken(query.visit(&mut Rewriter)).map(|()| query)
}

/// The note that a table function stands in for an older window.
pub(crate) fn note(table: &TableFactor) -> Option<String> {
    let TableFactor::TableFunction { expr: Expr::Function(function), .. } = table else { return None };
    let span = function.name.span();
    if span == Span::empty() || span.start != span.end {
        return None;
    }
    let name = function.name.to_string().to_uppercase();
    Some(format!(
        "Flink has {name} in GROUP BY for older queries; FROM {table} and GROUP BY window_start, window_end is the same"
    ))
}

struct Rewriter;

impl VisitorMut for Rewriter {
    type Break = PlanError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<PlanError> {
        let Query { body, order_by, .. } = query;
        let SetExpr::Select(select) = body.as_mut() else { return ControlFlow::Continue(()) };
        let Some(window) = flow(GroupWindow::of(select))? else { return ControlFlow::Continue(()) };
        if let Some(OrderByKind::Expressions(expressions)) = order_by.as_mut().map(|order| &mut order.kind) {
            for order in expressions {
                order.expr.visit(&mut Bounds { window: &window, has_time: false })?;
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<PlanError> {
        match flow(GroupWindow::of(select))? {
            Some(window) => flow(window.rewrite(select)),
            None => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<PlanError> {
        let Expr::Function(function) = expression else { return ControlFlow::Continue(()) };
        let Some((window, _, column)) = bound_of(function) else { return ControlFlow::Continue(()) };
        let hint =
            format!("write GROUP BY {window}(…) in the same SELECT, or {column}, a column of TABLE({window}(…))");
        let construct = format!("{} without {window}", name_of(function));
        ControlFlow::Break(PlanError::invalid(place_of(function), construct).with_hint(hint))
    }
}

fn flow<T>(result: Result<T, PlanError>) -> ControlFlow<PlanError, T> {
    match result {
        Ok(value) => ControlFlow::Continue(value),
        Err(error) => ControlFlow::Break(error),
    }
}

/// A window in GROUP BY.
struct GroupWindow {
    name: &'static str,
    /// Where its name stands.
    span: Span,
    /// Its place among the expressions of GROUP BY.
    position: usize,
    /// The column of its time.
    time: Ident,
    /// All arguments, as they were written.
    arguments: Vec<Expr>,
}

impl GroupWindow {
    /// The window that a SELECT groups by.
    fn of(select: &Select) -> Result<Option<GroupWindow>, PlanError> {
        let GroupByExpr::Expressions(expressions, _) = &select.group_by else { return Ok(None) };
        let mut windows = expressions.iter().enumerate().filter_map(|(position, expression)| match expression {
            Expr::Function(function) => {
                let name = name_of(function);
                let known = WINDOWS.into_iter().find(|(window, _)| *window == name);
                known.map(|(name, count)| (position, name, count, function))
            }
            _ => None,
        });
        let Some((position, name, count, function)) = windows.next() else { return Ok(None) };
        if let Some((.., other)) = windows.next() {
            let error = PlanError::invalid(place_of(other), "GROUP BY has two windows");
            return Err(error.with_hint("group by one of them, in a subquery where both are needed"));
        }
        let arguments = arguments(function);
        if arguments.len() != count {
            let message = format!("{name} in GROUP BY takes {count} arguments, not {}", arguments.len());
            let hint = match name {
                "TUMBLE" => "write TUMBLE(time_column, INTERVAL '10' SECOND)",
                "HOP" => "write HOP(time_column, slide, size), with slide and size as INTERVAL '10' SECOND",
                _ => "write SESSION(time_column, gap), with gap as INTERVAL '10' SECOND",
            };
            return Err(PlanError::invalid(place_of(function), message).with_hint(hint));
        }
        let Some(time) = column_name(&arguments[0]) else {
            let message = format!("the first argument of {name} must be a column");
            return Err(PlanError::invalid(Place::of(arguments[0].span()), message)
                .with_hint("name the column that WATERMARK FOR names in CREATE TABLE"));
        };
        Ok(Some(GroupWindow { name, span: function.name.span(), position, time: time.clone(), arguments }))
    }

    /// Writes the SELECT with the table function.
    fn rewrite(&self, select: &mut Select) -> Result<(), PlanError> {
        let mut bounds = Bounds { window: self, has_time: false };
        for (position, item) in select.projection.iter_mut().enumerate() {
            let (SelectItem::UnnamedExpr(expression) | SelectItem::ExprWithAlias { expr: expression, .. }) = item
            else {
                continue;
            };
            let was_call = matches!(expression, Expr::Function(_));
            broken(expression.visit(&mut bounds))?;
            // What was computed keeps the name that it has without one.
            let named = if let SelectItem::UnnamedExpr(named) = &*item { Some(named.clone()) } else { None };
            if let Some(expr) = named.filter(|named| was_call && matches!(named, Expr::Identifier(_))) {
                let alias = Ident::new(format!("EXPR${position}"));
                *item = SelectItem::ExprWithAlias { expr, alias };
            }
        }
        broken(select.having.visit(&mut bounds))?;
        let GroupByExpr::Expressions(expressions, _) = &mut select.group_by else { return Ok(()) };
        let column = |name: &str| Expr::Identifier(Ident::with_span(self.span, name));
        let mut columns = vec![column("window_start"), column("window_end")];
        if bounds.has_time {
            columns.push(column("window_time"));
        }
        expressions.splice(self.position..=self.position, columns);
        let keys: Vec<Expr> = expressions
            .iter()
            .filter(|expression| !matches!(expression, Expr::Identifier(name) if name.span == self.span))
            .cloned()
            .collect();
        self.cut(select, &keys)
    }

    /// Cuts what a SELECT reads into the windows.
    fn cut(&self, select: &mut Select, keys: &[Expr]) -> Result<(), PlanError> {
        let [table] = select.from.as_mut_slice() else { return Err(self.several_tables()) };
        if !table.joins.is_empty() {
            return Err(self.several_tables());
        }
        let (data, mut alias) = match &table.relation {
            TableFactor::Table { name, alias, args: None, .. } => {
                let names: Option<Vec<Ident>> = name.0.iter().map(|part| part.as_ident().cloned()).collect();
                let Some(names) = names else { return Err(self.several_tables()) };
                let own = names.last().map(|name| TableAlias {
                    explicit: true,
                    name: name.clone(),
                    columns: Vec::new(),
                    at: None,
                });
                let named = match names.as_slice() {
                    [name] => Expr::Identifier(name.clone()),
                    _ => Expr::CompoundIdentifier(names),
                };
                (named, alias.clone().or(own))
            }
            TableFactor::Derived { subquery, alias, .. } => (Expr::Subquery(subquery.clone()), alias.clone()),
            _ => return Err(self.several_tables()),
        };
        // Rows that are left out do not prolong a session.
        let condition = select.selection.take_if(|_| self.name == "SESSION");
        // Names of columns behind AS are those of the table, not of the rows with the bounds of their windows.
        let renamed = alias.iter_mut().any(|alias| !std::mem::take(&mut alias.columns).is_empty());
        let data = match condition.is_some() || renamed {
            true => Expr::Subquery(filtered(table.relation.clone(), condition)),
            false => data,
        };
        let keys = if self.name == "SESSION" { self.partition(keys, alias.as_ref())? } else { Vec::new() };
        let is_query = matches!(data, Expr::Subquery(_));
        let value = match keys.is_empty() {
            true => data,
            false => Expr::Tuple([data].into_iter().chain(keys).collect()),
        };
        let data = match &value {
            Expr::Subquery(_) => value,
            _ => {
                let span = if is_query { value.span() } else { self.span };
                Expr::Prefixed { prefix: Ident::with_span(span, TABLE_ARGUMENT_PREFIX), value: Box::new(value) }
            }
        };
        let descriptor = call("DESCRIPTOR", vec![Expr::Identifier(self.time.clone())], self.time.span);
        let lengths = self.arguments[1..].iter().cloned();
        let expr = call(self.name, [data, descriptor].into_iter().chain(lengths).collect(), self.span);
        table.relation = TableFactor::TableFunction { expr, alias };
        Ok(())
    }

    /// What sessions are partitioned by: the other columns of GROUP BY, which may have the name of their table in front.
    fn partition(&self, keys: &[Expr], table: Option<&TableAlias>) -> Result<Vec<Expr>, PlanError> {
        let is_column = |key: &Expr| match key {
            Expr::CompoundIdentifier(names) => {
                let before = names.len().checked_sub(2).map(|index| &names[index].value);
                before == table.map(|table| &table.name.value)
            }
            _ => true,
        };
        let column = |key: &Expr| match column_name(key).filter(|_| is_column(key)) {
            Some(name) => Ok(Expr::Identifier(name.clone())),
            None => {
                let error = PlanError::unsupported(
                    Place::of(key.span()).or(Place::of(self.span)),
                    "SESSION in GROUP BY with a key that is no column",
                    "compute it in a subquery, and group by its column",
                );
                Err(error)
            }
        };
        keys.iter().map(column).collect()
    }

    fn several_tables(&self) -> PlanError {
        let construct = format!("{} in GROUP BY of anything but a table, a view or a subquery", self.name);
        let hint = format!("write FROM (SELECT …) AS t GROUP BY {}(…)", self.name);
        PlanError::unsupported(Place::of(self.span), construct, hint)
    }
}

fn broken(walk: ControlFlow<PlanError>) -> Result<(), PlanError> {
    match walk {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Puts columns of the table function in the place of what is asked of the window.
struct Bounds<'w> {
    window: &'w GroupWindow,
    /// Whether its time was asked for.
    has_time: bool,
}

impl VisitorMut for Bounds<'_> {
    type Break = PlanError;

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<PlanError> {
        let Expr::Function(function) = &*expression else { return ControlFlow::Continue(()) };
        let Some((window, _, column)) = bound_of(function) else { return ControlFlow::Continue(()) };
        let texts = |arguments: &[Expr]| arguments.iter().map(Expr::to_string).collect::<Vec<_>>();
        // A column may have its table in front.
        let plain = |arguments: &[Expr]| {
            let mut texts = texts(arguments);
            let column = arguments.first().and_then(column_name);
            texts.iter_mut().take(1).for_each(|first| column.iter().for_each(|name| *first = name.value.clone()));
            texts
        };
        let is_same = window == self.window.name && plain(&arguments(function)) == plain(&self.window.arguments);
        if !is_same {
            let written = texts(&self.window.arguments).join(", ");
            let message = format!("{} is of another window than GROUP BY", name_of(function));
            let error = PlanError::invalid(place_of(function), message);
            let bound = name_of(function).replacen(window, self.window.name, 1);
            return ControlFlow::Break(error.with_hint(format!("write {bound}({written})")));
        }
        self.has_time |= column == "window_time";
        *expression = Expr::Identifier(Ident::with_span(function.name.span(), column));
        ControlFlow::Continue(())
    }
}

/// The window that a function asks something of, what, and the column that has it.
fn bound_of(function: &Function) -> Option<(&'static str, &'static str, &'static str)> {
    let name = name_of(function);
    let windows = WINDOWS.into_iter().map(|(window, _)| window);
    windows.into_iter().find_map(|window| {
        let asked = name.strip_prefix(window)?;
        BOUNDS.into_iter().find(|(bound, _)| *bound == asked).map(|(bound, column)| (window, bound, column))
    })
}

fn name_of(function: &Function) -> String {
    match function.name.0.as_slice() {
        [ObjectNamePart::Identifier(name)] if name.quote_style.is_none() => name.value.to_ascii_uppercase(),
        _ => String::new(),
    }
}

fn place_of(function: &Function) -> Option<Place> {
    Place::of(function.name.span())
}

fn arguments(function: &Function) -> Vec<Expr> {
    let FunctionArguments::List(list) = &function.args else { return Vec::new() };
    let argument = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expression)) => Some(expression.clone()),
        _ => None,
    };
    list.args.iter().filter_map(argument).collect()
}

fn column_name(expression: &Expr) -> Option<&Ident> {
    match expression {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(names) => names.last(),
        _ => None,
    }
}

/// `SELECT * FROM table [WHERE condition]`
fn filtered(table: TableFactor, condition: Option<Expr>) -> Box<Query> {
    let template = Parser::new(&GenericDialect {}).try_with_sql("SELECT * FROM t");
    let mut query = template.and_then(|mut parser| parser.parse_query()).expect("it is a query");
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.from[0].relation = table;
        select.selection = condition;
    }
    query
}
