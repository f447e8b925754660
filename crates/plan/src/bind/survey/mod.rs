//! A walk over a query's syntax tree before it is planned: refuses what cannot be planned while its place is still known,
//! and keeps the places that later errors point at.

mod grouping;

use std::ops::ControlFlow;

use datafusion_expr::planner::ContextProvider;
use pelton_functions::UNNEST;
use sqlparser::ast::{
    BinaryOperator, CastKind, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    Ident, JoinOperator, NamedWindowDefinition, NamedWindowExpr, Query, Select, Spanned, TableFactor, Value,
    ValueWithSpan, Visit, Visitor, WindowSpec, WindowType,
};
use sqlparser::tokenizer::Span;

use crate::bind::aggregate_functions::instead_of;
use crate::bind::constructs::{
    check_join, check_select, check_set, check_syntax, check_using, check_with, joined_tables, limit_place,
    order_place, refuse,
};
use crate::bind::context::Context;
use crate::bind::syntax_parts::has_order_inside;
use crate::bind::table_scan::TABLE_FUNCTIONS;
use crate::bind::window::Call;
use crate::bind::{constants, over_frame, over_functions, row_membership, time_joins};
use crate::errors::source_locations::{OverCall, SourceLocations};
use crate::errors::{Place, PlanError};
use crate::explain::flink;
use crate::lower::aggregate_call::is_ordered_by_clause;
use crate::parse::written_name;

/// Walks a query. The first construct that cannot be planned is an error.
pub(crate) fn survey(query: &Query, context: &Context<'_>) -> Result<SourceLocations, PlanError> {
    survey_node(query, Place::of(query.span()), context, Vec::new())
}

/// Walks the query of a view, which is a part of others.
pub(crate) fn survey_view(query: &Query, context: &Context<'_>) -> Result<SourceLocations, PlanError> {
    survey_node(query, Place::of(query.span()), context, vec![Part::Query])
}

/// Walks an expression of a table's definition.
pub(crate) fn survey_expression(expression: &Expr, context: &Context<'_>) -> Result<SourceLocations, PlanError> {
    survey_node(expression, Place::of(expression.span()), context, Vec::new())
}

fn survey_node(
    node: &impl Visit,
    place: Option<Place>,
    context: &Context<'_>,
    around: Vec<Part>,
) -> Result<SourceLocations, PlanError> {
    let locations = SourceLocations { query: place, ..SourceLocations::default() };
    let mut walk = Walk { context, locations, around, selects: Vec::new() };
    match node.visit(&mut walk) {
        ControlFlow::Continue(()) => Ok(walk.locations),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Walk<'w, 'c> {
    context: &'w Context<'c>,
    locations: SourceLocations,
    /// What is being walked, each inside the one before.
    around: Vec<Part>,
    /// Where the SELECTs stand that are being walked, each inside the one before.
    selects: Vec<Option<Place>>,
}

/// A part of a query that others are inside of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Query,
    Table,
    /// A call of a window function, whose arguments may be queries.
    Window,
    /// A call of another table function, with the place of its name.
    TableFunction(Span),
    Expression {
        /// Parts of it may never be computed.
        is_choice: bool,
        /// It may make something else of a number.
        is_operation: bool,
        /// It is the whole of what is computed from constants alone, for each row.
        is_constant: bool,
    },
}

impl Visitor for Walk<'_, '_> {
    type Break = PlanError;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<PlanError> {
        flow(self.check_query(query))?;
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        self.context.foreign.borrow_mut().alias(tables.map(|table| &table.alias));
        self.around.push(Part::Query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<PlanError> {
        self.around.pop();
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _select: &Select) -> ControlFlow<PlanError> {
        self.selects.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<PlanError> {
        self.selects.push(Place::of(select.span()));
        flow(check_select(select))?;
        self.context.foreign.borrow_mut().select(select);
        for NamedWindowDefinition(name, window) in &select.named_window {
            flow(self.check_named_window(name, window))?;
        }
        self.note_grouping(select);
        flow(check_using(select))?;
        for table in joined_tables(&select.from) {
            flow(time_joins::check(table))?;
            for join in table.joins.iter().filter(|join| !Call::is_of_table_function(&join.relation)) {
                let place = Place::of(join.relation.span());
                flow(check_join(&join.join_operator, place))?;
                self.locations.join = self.locations.join.or(place);
                if matches!(join.join_operator, JoinOperator::AsOf { .. }) {
                    let note = "Flink has no ASOF JOIN: it joins with a version, by FOR SYSTEM_TIME AS OF, of a table with a PRIMARY KEY";
                    self.context.foreign.borrow_mut().note(place, Some(note.to_string()));
                }
            }
        }
        let others = select.from.iter().skip(1).filter(|table| !Call::is_of_table_function(&table.relation));
        for table in others.take(1) {
            self.locations.join = self.locations.join.or(Place::of(table.span()));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<PlanError> {
        self.context.foreign.borrow_mut().table(table);
        let window = Call::of(table);
        if let (None, TableFactor::Table { name, .. }) = (&window, table) {
            let plain = name.0.last().and_then(|part| part.as_ident()).map(|ident| ident.value.clone());
            self.locations.tables.extend(plain.map(|plain| (plain, Place::of(name.span()))));
        }
        let is_table_function = Call::is_of_table_function(table);
        self.around.push(match &window {
            None => Part::Table,
            Some(call) if is_table_function => Part::TableFunction(call.name.span()),
            Some(_) => Part::Window,
        });
        if let Some(call) = window {
            let place = call.place();
            if is_table_function {
                self.note_table_function(&call);
                return ControlFlow::Continue(());
            }
            let note = crate::parse::group_window_note(table);
            self.context.foreign.borrow_mut().note(place, note);
            self.locations.window = self.locations.window.or(place);
            self.locations.functions.push((call.name.to_string().to_lowercase(), place));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, _table: &TableFactor) -> ControlFlow<PlanError> {
        self.around.pop();
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &Expr) -> ControlFlow<PlanError> {
        match self.around.pop() {
            Some(Part::Expression { is_constant: true, .. }) => flow(constants::check_value(expression, self.context)),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<PlanError> {
        let is_argument_of_window = self.around.last() == Some(&Part::Window);
        // `TABLE(f(x))`
        if let (Some(Part::TableFunction(name)), Expr::Function(call)) = (self.around.last(), expression)
            && *name == call.name.span()
        {
            self.around.push(Part::Table);
            return ControlFlow::Continue(());
        }
        self.around.push(match expression {
            // `TABLE(TUMBLE(…))`
            Expr::Function(call) if is_argument_of_window && is_window_function(call) => Part::Window,
            // `(SELECT …) PARTITION BY key`
            Expr::Prefixed { .. } | Expr::Tuple(_) if is_argument_of_window => Part::Window,
            _ => self.part(expression),
        });
        let place = Place::of(expression.span());
        self.context.note_foreign(expression);
        match expression {
            Expr::Subquery(_) if is_argument_of_window => ControlFlow::Continue(()),
            Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => {
                self.locations.subquery = self.locations.subquery.or(place);
                self.locations.join = self.locations.join.or(place);
                match expression {
                    _ if self.selects.is_empty() => {
                        let hint = "join with a bounded table instead";
                        flow(Err(PlanError::unsupported(place, "a subquery in an expression", hint)))
                    }
                    Expr::InSubquery { expr, subquery, .. } => match expr.as_ref() {
                        Expr::Tuple(values) => flow(row_membership::check(values, subquery, place)),
                        _ => ControlFlow::Continue(()),
                    },
                    _ => ControlFlow::Continue(()),
                }
            }
            Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } => {
                if matches!(**right, Expr::Subquery(_)) {
                    return ControlFlow::Continue(());
                }
                let hint = "write a query behind it, or IN (…) or ARRAY_CONTAINS(array, value)";
                flow(Err(PlanError::unsupported(place, "ANY or ALL of something else than a query", hint)))
            }
            Expr::Function(function) => {
                let function_place = Place::of(function.name.span()).or(place);
                flow(self.check_function(function, function_place))
            }
            Expr::Value(value) => flow(self.check_number(value)),
            Expr::Cast { data_type, .. } => {
                self.locations.casts.extend(place.map(|place| (data_type.to_string().to_uppercase(), place)));
                flow(check_syntax(expression, place))
            }
            _ => {
                flow(check_syntax(expression, place))?;
                let function = written_as_syntax(expression);
                self.locations.functions.extend(function.map(|name| (name.to_string(), place)));
                ControlFlow::Continue(())
            }
        }
    }
}

/// Whether an expression may make something else of a number: another type by a cast, a DECIMAL beside one, the least BIGINT by its sign.
fn is_operation(expression: &Expr) -> bool {
    matches!(
        expression,
        Expr::Cast { .. } | Expr::BinaryOp { .. } | Expr::UnaryOp { .. } | Expr::Between { .. } | Expr::InList { .. }
    )
}

/// Whether parts of an expression may never be computed.
fn is_choice(expression: &Expr) -> bool {
    match expression {
        Expr::Case { .. } | Expr::BinaryOp { op: BinaryOperator::And | BinaryOperator::Or, .. } => true,
        Expr::Cast { kind, .. } => *kind != CastKind::Cast,
        Expr::Function(call) => {
            let name = call.name.to_string().to_lowercase();
            matches!(name.as_str(), "coalesce" | "ifnull" | "nvl" | "nvl2")
        }
        _ => false,
    }
}

fn flow(result: Result<(), PlanError>) -> ControlFlow<PlanError> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

/// Whether distinct values of everything are asked for.
fn counts_distinct_rows(function: &Function) -> bool {
    let FunctionArguments::List(arguments) = &function.args else { return false };
    let is_all = |argument: &FunctionArg| *argument == FunctionArg::Unnamed(FunctionArgExpr::Wildcard);
    arguments.duplicate_treatment == Some(DuplicateTreatment::Distinct) && arguments.args.iter().any(is_all)
}

fn is_window_function(function: &Function) -> bool {
    let name = function.name.to_string();
    TABLE_FUNCTIONS.iter().any(|window| name.eq_ignore_ascii_case(window))
}

/// Functions that have a value only OVER rows.
const WINDOW_FUNCTIONS: [&str; 8] =
    ["row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead"];

impl Walk<'_, '_> {
    fn part(&self, expression: &Expr) -> Part {
        let (is_choice, is_operation) = (is_choice(expression), is_operation(expression));
        let is_inside_constant =
            || self.around.iter().any(|part| matches!(part, Part::Expression { is_constant: true, .. }));
        let is_computed = !is_choice && !self.is_in_choice() && !is_inside_constant();
        let is_constant = is_computed && constants::is_constant(expression, self.context);
        Part::Expression { is_choice, is_operation, is_constant }
    }

    /// Whether what is walked may never be computed.
    fn is_in_choice(&self) -> bool {
        self.around.iter().any(|part| matches!(part, Part::Expression { is_choice: true, .. }))
    }

    fn is_in_operation(&self) -> bool {
        self.around.iter().any(|part| matches!(part, Part::Expression { is_operation: true, .. }))
    }

    fn note_table_function(&mut self, call: &Call<'_>) {
        let (name, place) = (call.name.to_string(), call.place());
        if !self.context.is_own(&name) && self.context.has_table_function(&name) {
            self.context.foreign.borrow_mut().note(place, flink::function_note(&name));
        }
        self.locations.functions.push((name.to_lowercase(), place));
    }

    fn check_query(&mut self, query: &Query) -> Result<(), PlanError> {
        let (order, limit) = (order_place(query)?, limit_place(query)?);
        if self.around.contains(&Part::Query) {
            self.locations.inner_limit = self.locations.inner_limit.or(limit);
        } else {
            (self.locations.order, self.locations.limit) = (order, limit);
        }
        check_with(query)?;
        if let Some((construct, place)) = check_set(&query.body)? {
            // A grouping that is by no window says more.
            self.locations.note_grouping(construct, place, true);
        }
        Ok(())
    }

    /// Numbers have a type that holds them.
    fn check_number(&self, value: &ValueWithSpan) -> Result<(), PlanError> {
        let Value::Number(digits, _) = &value.value else { return Ok(()) };
        let place = Place::of(value.span);
        if digits.contains(['e', 'E']) && digits.parse::<f64>().is_ok_and(f64::is_infinite) {
            let error = PlanError::invalid(place, format!("{digits} is not a valid DOUBLE"));
            return Err(error.with_hint("the greatest is 1.7976931348623157e308"));
        }
        if !self.is_in_operation() && digits.parse::<u64>().is_ok_and(|number| i64::try_from(number).is_err()) {
            let error = PlanError::invalid(place, format!("{digits} is not a valid BIGINT"));
            return Err(error.with_hint(format!("write CAST('{digits}' AS DECIMAL({}, 0))", digits.len())));
        }
        Ok(())
    }

    fn check_function(&mut self, function: &Function, place: Option<Place>) -> Result<(), PlanError> {
        let name = function.name.to_string().to_lowercase();
        let shown = name.to_uppercase();
        if name == "count" && counts_distinct_rows(function) {
            let error = PlanError::invalid(place, "COUNT(DISTINCT *) does not say which values are distinct");
            return Err(error.with_hint("write COUNT(DISTINCT column), or COUNT(*) of a subquery SELECT DISTINCT"));
        }
        self.check_order_inside(&name, function, place)?;
        if let Some(window) = &function.over {
            return self.check_over(function, window, place);
        }
        let aggregate = self.context.get_aggregate_meta(&name);
        if !function.within_group.is_empty() && aggregate.is_some_and(|known| !known.supports_within_group_clause()) {
            let hint = match name.as_str() {
                "approx_percentile" => "write APPROX_PERCENTILE(value, fraction)",
                _ => "leave it out: values come in the order of their arrival",
            };
            return refuse(place, &format!("WITHIN GROUP of {shown}"), hint);
        }
        if function.within_group.len() > 1 {
            let error = PlanError::invalid(place, format!("WITHIN GROUP (ORDER BY …) of {shown} takes one value"));
            return Err(error.with_hint("leave the others out"));
        }
        if let Some(canonical) = self.context.function_name(&name) {
            if !self.context.is_own(&name) {
                self.check_known(&canonical, function, place)?;
            }
            let names = [canonical, written_name(function)].into_iter();
            self.locations.functions.extend(names.map(|name| (name, place)));
            return Ok(());
        }
        if let Some(instead) = instead_of(&name) {
            return refuse(place, &format!("the aggregate {shown}"), instead);
        }
        if WINDOW_FUNCTIONS.contains(&name.as_str()) {
            let instead = format!("write {shown}(…) OVER (ORDER BY time_column)");
            return refuse(place, &format!("{shown} without OVER"), &instead);
        }
        match name.as_str() {
            // Arguments of table functions are expressions as well.
            "descriptor" => Ok(()),
            // Inside of GROUPING SETS they are read as calls.
            "rollup" | "cube" => Ok(()),
            _ if is_window_function(function) => Ok(()),
            "proctime" => refuse(place, "PROCTIME() in a query", "declare a column AS PROCTIME() in CREATE TABLE"),
            _ if self.context.has_table_function(&name) => {
                let call = if shown == UNNEST { "UNNEST(…)" } else { &format!("LATERAL TABLE({shown}(…))") };
                let hint = format!("write it in FROM: CROSS JOIN {call} AS t (column)");
                refuse(place, &format!("the table function {shown} in an expression"), &hint)
            }
            _ => Err(self.context.unknown_function(&function.name.to_string(), place)),
        }
    }

    /// Checks that a function which has ORDER BY behind its arguments takes it.
    fn check_order_inside(&self, name: &str, function: &Function, place: Option<Place>) -> Result<(), PlanError> {
        if !has_order_inside(function) {
            return Ok(());
        }
        let shown = name.to_uppercase();
        if function.over.is_some() {
            let hint = "leave it out: rows come in the order of OVER";
            return refuse(place, &format!("ORDER BY inside {shown} … OVER"), hint);
        }
        if is_ordered_by_clause(name) && !self.context.is_own(name) {
            return Ok(());
        }
        refuse(place, &format!("ORDER BY inside {shown}"), "values come in the order of their arrival")
    }

    /// Checks a call of a function that is no program's own. What may never be computed is let be.
    fn check_known(&self, canonical: &str, function: &Function, place: Option<Place>) -> Result<(), PlanError> {
        let shown = function.name.to_string().to_uppercase();
        if let Some(instead) = crate::parse::instead_of(&shown) {
            return refuse(place, &shown, instead);
        }
        if self.is_in_choice() {
            return Ok(());
        }
        constants::check_pattern(canonical, function)
    }

    fn check_over(&mut self, function: &Function, window: &WindowType, place: Option<Place>) -> Result<(), PlanError> {
        let name = function.name.to_string().to_lowercase();
        let known = self.context.get_aggregate_meta(&name).map(|known| known.name().to_string());
        let known = known.or_else(|| self.context.get_window_meta(&name).map(|known| known.name().to_string()));
        let Some(known) = known else {
            return refuse(place, &format!("{} … OVER", name.to_uppercase()), over_functions::HINT);
        };
        if function.filter.is_some() && self.context.get_window_meta(&name).is_some() {
            let construct = format!("FILTER of {} … OVER", name.to_uppercase());
            return refuse(
                place,
                &construct,
                "leave out the other rows in a subquery: SELECT … FROM … WHERE condition",
            );
        }
        self.locations.functions.extend([known.clone(), name].map(|name| (name, place)));
        let select = self.selects.last().copied().flatten();
        self.locations.overs.push(OverCall { name: known, place, window: window.to_string(), select });
        match window {
            WindowType::WindowSpec(window) => self.check_window(window, place),
            WindowType::NamedWindow(_) => Ok(()),
        }
    }

    fn check_named_window(&mut self, name: &Ident, window: &NamedWindowExpr) -> Result<(), PlanError> {
        let place = Place::of(name.span);
        match window {
            NamedWindowExpr::WindowSpec(window) => self.check_window(window, place),
            NamedWindowExpr::NamedWindow(_) => refuse(place, "a second name of a window", "use the first"),
        }
    }

    fn check_window(&mut self, window: &WindowSpec, place: Option<Place>) -> Result<(), PlanError> {
        over_frame::check(window, place)?;
        let column = &window.order_by[0].expr;
        let name = match column {
            Expr::CompoundIdentifier(names) => names.last().map(|name| name.value.clone()),
            Expr::Identifier(name) => Some(name.value.clone()),
            _ => None,
        };
        self.locations.over_orders.push((name.unwrap_or_default(), Place::of(column.span()).or(place)));
        Ok(())
    }
}

/// The function that DataFusion plans an expression with syntax of its own as.
fn written_as_syntax(expression: &Expr) -> Option<&'static str> {
    Some(match expression {
        Expr::Substring { .. } => "substr",
        Expr::Position { .. } => "strpos",
        Expr::Extract { .. } => "date_part",
        Expr::Overlay { .. } => "overlay",
        Expr::Trim { .. } => "btrim",
        Expr::Floor { .. } => "floor",
        Expr::Ceil { .. } => "ceil",
        _ => return None,
    })
}
