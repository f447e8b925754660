//! Where in a query's text an error is, when the planner does not say: parts of the text are planned by themselves until
//! the smallest is found that is wrong in the same way. Only what is refused is planned more than once.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion_common::{DFSchema, DataFusionError, Result};
use datafusion_expr::{Expr as Planned, ExprSchemable};
use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{
    Cte, Expr, FunctionArg, FunctionArgExpr, GroupByExpr, JoinConstraint, JoinOperator, NamedWindowExpr, ObjectName,
    OrderByKind, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Spanned, TableFactor,
    TableWithJoins, Value, Values, Visit, Visitor, WildcardAdditionalOptions, WindowType, With,
};

use crate::bind::context::{Context, VIEW_DEPTH_MAX, physical_columns};
use crate::bind::syntax_parts::{Aggregates, aggregate_in, parts};
use crate::bind::window::Call;
use crate::catalog::{Relation, Table};
use crate::errors::diagnose::examine;
use crate::errors::rephrase::Clue;
use crate::errors::source_locations::SourceLocations;
use crate::errors::{Place, PlanError};
use crate::parse::{ColumnKind, TABLE_ARGUMENT_PREFIX};

/// What went wrong in a query, with the nearest place that can be found in its text.
pub(crate) fn in_query(
    error: DataFusionError,
    query: &Query,
    context: &Context<'_>,
    locations: &SourceLocations,
) -> PlanError {
    let find = |error: &PlanError, clue: &Clue| {
        let mut search = Search { context, locations, error, clue, tables: Vec::new(), views: 0 };
        search.query(query)
    };
    examine(error, locations).at(find, locations)
}

/// What went wrong in an expression over columns, with the nearest place that can be found in its text.
pub(crate) fn in_expression(
    error: DataFusionError,
    expression: &Expr,
    columns: &DFSchema,
    context: &Context<'_>,
    locations: &SourceLocations,
) -> PlanError {
    let find = |error: &PlanError, clue: &Clue| {
        let search = Search { context, locations, error, clue, tables: Vec::new(), views: 0 };
        search.expression(expression, columns)
    };
    examine(error, locations).at(find, locations)
}

struct Search<'s, 'c> {
    context: &'s Context<'c>,
    locations: &'s SourceLocations,
    /// What is wrong.
    error: &'s PlanError,
    clue: &'s Clue,
    /// The common table expressions that are known where the search is.
    tables: Vec<Cte>,
    /// How many views the search is in.
    views: usize,
}

impl Search<'_, '_> {
    fn query(&mut self, query: &Query) -> Option<Place> {
        let outer = self.tables.len();
        let found = self.query_inside(query);
        self.tables.truncate(outer);
        found
    }

    fn query_inside(&mut self, query: &Query) -> Option<Place> {
        for table in query.with.iter().flat_map(|with| &with.cte_tables) {
            if let Some(found) = self.query(&table.query).or_else(|| self.names(table)) {
                return Some(found);
            }
            self.tables.push(table.clone());
        }
        if let Some(found) = self.body(&query.body) {
            return Some(found);
        }
        let Some(OrderByKind::Expressions(order)) = query.order_by.as_ref().map(|order| &order.kind) else {
            return None;
        };
        let columns = match query.body.as_ref() {
            SetExpr::Select(select) => self.output_and_input(select),
            body => self.planned(body.clone()),
        };
        let columns = columns.unwrap_or_else(DFSchema::empty);
        order.iter().find_map(|order| match self.clue {
            Clue::Position(position) if order.expr.to_string() == *position => Place::of(order.expr.span()),
            _ => self.expression(&order.expr, &columns),
        })
    }

    /// The names of a common table expression's columns, where these are not as many as they.
    fn names(&self, table: &Cte) -> Option<Place> {
        let names = &table.alias.columns;
        let first = names.first().filter(|_| *self.clue == Clue::Columns)?;
        let columns = self.planned(table.query.body.as_ref().clone())?;
        if columns.fields().len() == names.len() { None } else { Place::of(first.name.span) }
    }

    fn body(&mut self, body: &SetExpr) -> Option<Place> {
        match body {
            SetExpr::Select(select) => self.select(select),
            SetExpr::Query(query) => self.query(query),
            SetExpr::SetOperation { left, right, .. } => {
                self.body(left).or_else(|| self.body(right)).or_else(|| self.width(left, right))
            }
            SetExpr::Values(values) => self.values(values),
            _ => None,
        }
    }

    /// The right part of a UNION ALL, where that is wrong: it has another number of columns.
    fn width(&self, left: &SetExpr, right: &SetExpr) -> Option<Place> {
        if *self.clue != Clue::Width {
            return None;
        }
        let width = |part: &SetExpr| self.planned(part.clone()).map(|columns| columns.fields().len());
        if width(left)? == width(right)? { None } else { Place::of(right.span()) }
    }

    fn values(&self, values: &Values) -> Option<Place> {
        if let Clue::Row(row) = self.clue {
            let row = &values.rows.get(*row)?.content;
            return row.first().and_then(|value| Place::of(value.span()));
        }
        let mut all = values.rows.iter().flat_map(|row| &row.content);
        let wrong = all.clone().find_map(|value| self.expression(value, &DFSchema::empty()));
        // What all rows have is one type, which a literal may not fit.
        wrong.or_else(|| all.find_map(|value| self.literal(value)))
    }

    fn select(&mut self, select: &Select) -> Option<Place> {
        if let Some(found) = select.from.iter().find_map(|table| self.table_with_joins(table)) {
            return Some(found);
        }
        if let Some(found) = self.clause(select) {
            return Some(found);
        }
        let columns = match select.from.as_slice() {
            [] => DFSchema::empty(),
            _ => self.planned(SetExpr::Select(Box::new(input_of(select))))?,
        };
        let projection = select.projection.iter().find_map(|item| match item {
            SelectItem::UnnamedExpr(expression) | SelectItem::ExprWithAlias { expr: expression, .. } => {
                self.expression(expression, &columns)
            }
            _ => None,
        });
        let conditions = || constraints(&select.from).chain(select.selection.iter());
        let grouping = || match &select.group_by {
            GroupByExpr::Expressions(expressions, _) => expressions.as_slice(),
            GroupByExpr::All(_) => &[],
        };
        projection
            .or_else(|| conditions().find_map(|condition| self.condition(condition, &columns)))
            .or_else(|| grouping().iter().find_map(|key| self.expression(key, &columns)))
            .or_else(|| {
                let columns = self.output_and_input(select).unwrap_or(columns.clone());
                self.condition(select.having.as_ref()?, &columns)
            })
            .or_else(|| self.windows(select, &columns))
            .or_else(|| {
                // What a table's column takes is no part of the query.
                select.projection.iter().find_map(|item| match item {
                    SelectItem::UnnamedExpr(literal) | SelectItem::ExprWithAlias { expr: literal, .. } => {
                        self.literal(literal)
                    }
                    _ => None,
                })
            })
    }

    fn windows(&self, select: &Select, columns: &DFSchema) -> Option<Place> {
        select.named_window.iter().find_map(|window| {
            let NamedWindowExpr::WindowSpec(window) = &window.1 else { return None };
            let order = window.order_by.iter().map(|order| &order.expr);
            window.partition_by.iter().chain(order).find_map(|part| self.expression(part, columns))
        })
    }

    fn table_with_joins(&mut self, table: &TableWithJoins) -> Option<Place> {
        let found = self.table(&table.relation);
        found.or_else(|| table.joins.iter().find_map(|join| self.table(&join.relation)))
    }

    fn table(&mut self, table: &TableFactor) -> Option<Place> {
        if *self.clue == Clue::Columns
            && let TableFactor::Derived { alias: Some(alias), .. } | TableFactor::Table { alias: Some(alias), .. } =
                table
            && let Some(first) = alias.columns.first()
        {
            return Place::of(first.name.span);
        }
        if let Some(call) = Call::of(table) {
            return call.arguments.iter().find_map(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(data))
                | FunctionArg::Named { arg: FunctionArgExpr::Expr(data), .. } => self.table_argument(data),
                _ => None,
            });
        }
        match table {
            TableFactor::Derived { subquery, .. } => self.query(subquery),
            TableFactor::NestedJoin { table_with_joins, .. } => self.table_with_joins(table_with_joins),
            TableFactor::Table { name, args: None, .. } => self.view(&name_of(name)?),
            _ => None,
        }
    }

    fn table_argument(&mut self, data: &Expr) -> Option<Place> {
        match data {
            Expr::Subquery(query) => self.query(query),
            Expr::Identifier(name) => self.view(&name.value),
            Expr::Prefixed { prefix, value } if prefix.value == TABLE_ARGUMENT_PREFIX => match value.as_ref() {
                Expr::Tuple(parts) => self.table_argument(parts.first()?),
                table => self.table_argument(table),
            },
            _ => None,
        }
    }

    /// Looks into the query behind a name.
    fn view(&mut self, name: &str) -> Option<Place> {
        let is_hidden = self.tables.iter().any(|table| table.alias.name.value == name);
        if is_hidden || self.views == VIEW_DEPTH_MAX {
            return None;
        }
        let view = match self.context.relation(name)? {
            Relation::View(view) => view,
            Relation::Table(table) => return self.computed_columns(table),
        };
        let known = std::mem::take(&mut self.tables);
        self.views += 1;
        let found = self.query(&view.query);
        self.views -= 1;
        self.tables = known;
        found
    }

    fn computed_columns(&self, table: &Table) -> Option<Place> {
        let physical = physical_columns(table).ok()?;
        table.definition.columns.iter().find_map(|column| match &column.kind {
            ColumnKind::Computed { expression, .. } => self.expression(expression, &physical),
            _ => None,
        })
    }

    /// What is not an expression: names, numbers of columns, aggregates where there can be none.
    fn clause(&self, select: &Select) -> Option<Place> {
        let grouping = match &select.group_by {
            GroupByExpr::Expressions(expressions, _) => expressions.as_slice(),
            GroupByExpr::All(_) => &[],
        };
        match self.clue {
            Clue::Homonym(name) => {
                let mut named = select.projection.iter().filter(|item| name_of_item(item) == Some(name));
                named.nth(1).and_then(|item| Place::of(item.span()))
            }
            Clue::Position(position) => {
                let is_it = |key: &&Expr| matches!(key, Expr::Value(value) if value.value.to_string() == *position);
                grouping.iter().find(is_it).and_then(|key| Place::of(key.span()))
            }
            Clue::Name(name) => names_of(select).find(|(known, _)| known == name).and_then(|(_, place)| place),
            Clue::Aggregate => {
                let mut of_rows = select.selection.iter().chain(constraints(&select.from));
                let nested = || match select.projection.visit(&mut Aggregates::default()) {
                    ControlFlow::Break(found) => found,
                    ControlFlow::Continue(()) => None,
                };
                of_rows.find_map(aggregate_in).or_else(nested)
            }
            _ => None,
        }
    }

    /// The columns of what is selected, and behind them those that it is selected from.
    fn output_and_input(&self, select: &Select) -> Option<DFSchema> {
        let mut columns = self.planned(SetExpr::Select(Box::new(select.clone())));
        if let (Some(columns), Some(input)) = (&mut columns, self.planned(SetExpr::Select(Box::new(input_of(select)))))
        {
            columns.merge(&input);
        }
        columns
    }

    /// The columns of a part of the query, which can be planned.
    fn planned(&self, body: SetExpr) -> Option<DFSchema> {
        let with = With { with_token: AttachedToken::empty(), recursive: false, cte_tables: self.tables.clone() };
        let query = Query {
            with: if self.tables.is_empty() { None } else { Some(with) },
            body: Box::new(body),
            order_by: None,
            limit_clause: None,
            fetch: None,
            locks: Vec::new(),
            for_clause: None,
            settings: None,
            format_clause: None,
            pipe_operators: Vec::new(),
        };
        let plan = self.context.plan_query(&query).ok()?;
        Some(plan.schema().as_ref().clone())
    }

    fn condition(&self, condition: &Expr, columns: &DFSchema) -> Option<Place> {
        let found = self.expression(condition, columns);
        if found.is_some() || *self.clue != Clue::Condition {
            return found;
        }
        let planned = self.context.plan_expression(condition, columns).ok()?;
        let is_condition = planned.get_type(columns).ok()? == arrow::datatypes::DataType::Boolean;
        if is_condition { None } else { Place::of(condition.span()) }
    }

    /// The smallest part of an expression that is wrong in the way that is looked for.
    fn expression(&self, expression: &Expr, columns: &DFSchema) -> Option<Place> {
        if *self.clue != Clue::Expression {
            return None;
        }
        let wrong = self.smallest(expression, columns)?;
        self.literal(&wrong).or_else(|| match &wrong {
            Expr::Function(function) => Place::of(function.name.span()),
            other => Place::of(other.span()),
        })
    }

    fn smallest(&self, expression: &Expr, columns: &DFSchema) -> Option<Expr> {
        let error = self.context.plan_expression(expression, columns).err()?;
        let inside = parts(expression).into_iter().find_map(|part| self.smallest(&part, columns));
        inside.or_else(|| {
            let is_same = examine(error, self.locations).error.message == self.error.message;
            is_same.then(|| expression.clone())
        })
    }

    /// The string or number that the error is about, in an expression.
    fn literal(&self, expression: &Expr) -> Option<Place> {
        let (text, _) = self.error.message.rsplit_once(" is not a valid ")?;
        if let Expr::Value(value) | Expr::TypedString(sqlparser::ast::TypedString { value, .. }) = expression {
            let quoted = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
            let is_it = match &value.value {
                Value::SingleQuotedString(found) => quoted == Some(found),
                Value::Number(digits, _) => text.trim_start_matches('-') == digits,
                _ => false,
            };
            if is_it {
                return Place::of(value.span);
            }
        }
        parts(expression).iter().find_map(|part| self.literal(part))
    }
}

/// `SELECT *` of what a SELECT reads.
fn input_of(select: &Select) -> Select {
    let mut input = Select {
        projection: vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())],
        distinct: None,
        selection: None,
        group_by: GroupByExpr::Expressions(Vec::new(), Vec::new()),
        having: None,
        named_window: Vec::new(),
        ..select.clone()
    };
    for join in input.from.iter_mut().flat_map(|table| &mut table.joins) {
        if let Some(condition) = constraint_mut(&mut join.join_operator) {
            *condition = Expr::Value(Value::Boolean(true).with_empty_span());
        }
    }
    input
}

fn constraint_of(operator: &JoinOperator) -> Option<&JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint) => Some(constraint),
        _ => None,
    }
}

fn constraint_mut(operator: &mut JoinOperator) -> Option<&mut Expr> {
    match operator {
        JoinOperator::Join(JoinConstraint::On(condition))
        | JoinOperator::Inner(JoinConstraint::On(condition))
        | JoinOperator::Left(JoinConstraint::On(condition))
        | JoinOperator::LeftOuter(JoinConstraint::On(condition))
        | JoinOperator::Right(JoinConstraint::On(condition))
        | JoinOperator::RightOuter(JoinConstraint::On(condition)) => Some(condition),
        _ => None,
    }
}

/// The conditions behind ON.
fn constraints(from: &[TableWithJoins]) -> impl Iterator<Item = &Expr> {
    let joins = from.iter().flat_map(|table| &table.joins);
    joins.filter_map(|join| match constraint_of(&join.join_operator)? {
        JoinConstraint::On(condition) => Some(condition),
        _ => None,
    })
}

/// Names that stand for something else than a column in an expression: in USING, before `.*`, behind OVER.
fn names_of(select: &Select) -> impl Iterator<Item = (String, Option<Place>)> {
    let mut names: Vec<(String, Option<Place>)> = Vec::new();
    for join in select.from.iter().flat_map(|table| &table.joins) {
        if let Some(JoinConstraint::Using(columns)) = constraint_of(&join.join_operator) {
            names.extend(columns.iter().map(|column| (name_of(column).unwrap_or_default(), Place::of(column.span()))));
        }
    }
    struct Windows<'n>(&'n mut Vec<(String, Option<Place>)>);
    impl Visitor for Windows<'_> {
        type Break = ();

        fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
            if let Expr::Function(function) = expression
                && let Some(WindowType::NamedWindow(name)) = &function.over
            {
                self.0.push((name.to_string(), Place::of(name.span)));
            }
            ControlFlow::Continue(())
        }
    }
    for item in &select.projection {
        if let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item {
            names.push((name_of(name).unwrap_or_default(), Place::of(name.span())));
        }
        let _ = item.visit(&mut Windows(&mut names));
    }
    names.into_iter()
}

fn name_of(name: &ObjectName) -> Option<String> {
    name.0.last()?.as_ident().map(|name| name.value.clone())
}

fn name_of_item(item: &SelectItem) -> Option<&String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(&alias.value),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(&name.value),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names)) => names.last().map(|name| &name.value),
        _ => None,
    }
}

impl Context<'_> {
    /// An expression over columns, with types made to agree and constants folded. It has a type.
    pub(crate) fn plan_expression(&self, expression: &Expr, columns: &DFSchema) -> Result<Planned> {
        let planned = self.coerced(expression, columns)?;
        let planned = crate::coerce::simplify::simplify(planned, &Arc::new(columns.clone()))?;
        planned.get_type(columns)?;
        Ok(planned)
    }
}
