//! What of a query Flink would not understand as it is written: noted while the text is walked, which knows the places.

use std::cmp::Reverse;
use std::ops::ControlFlow;

use datafusion_common::Column;
use sqlparser::ast;
use sqlparser::ast::{
    Expr, GroupByExpr, Ident, ObjectNamePart, Select, SelectItem, Spanned, TableAlias, TableFactor, TimezoneInfo,
    Value, ValueWithSpan, Visit, Visitor,
};
use sqlparser::tokenizer::Span;

use crate::bind::syntax_parts::{has_order_inside, is_aggregate};
use crate::errors::Place;
use crate::explain::{Notes, flink, reserved};

/// Notes, and what is known of the text once it is planned.
#[derive(Debug, Default)]
pub(crate) struct Foreign {
    /// What has been noted.
    pub notes: Notes,
    /// The views and tables whose text is looked at, if it is not the query's, and how many casts of `instants` stand before it: places are those of its own text.
    within: Vec<(String, usize)>,
    /// Casts to TIMESTAMP_LTZ: where their operands stand, and whether they were written, or stand in for a function.
    instants: Vec<(Span, bool)>,
    /// Names in GROUP BY and HAVING that SELECT gives to what it computes, unless a column is meant.
    aliases: Vec<(&'static str, String, Option<Place>)>,
}

impl Foreign {
    /// Begins to look at the text of a view or a table, until [`Foreign::leave`].
    pub fn enter(&mut self, what: String) {
        self.within.push((what, self.instants.len()));
    }

    /// Ends that.
    pub fn leave(&mut self) {
        self.within.pop();
    }

    /// Ends that where all casts have been noted, of which others have the same places in their own text.
    pub fn leave_noted(&mut self) {
        if let Some((_, before)) = self.within.pop() {
            self.instants.truncate(before);
        }
    }

    /// Looks at an expression as it was written; `is_own` tells functions that the user's program has added.
    pub fn expression(&mut self, expression: &Expr, is_own: impl FnOnce(&str) -> bool) {
        match expression {
            Expr::Function(call) => {
                let (name, span) = (call.name.to_string(), call.name.span());
                let stands_in = span.start == span.end;
                if has_order_inside(call) {
                    self.note(Place::of(span), Some(flink::order_note(&name)));
                }
                if !stands_in && !is_own(&name) {
                    self.note(Place::of(span), flink::function_note(&name));
                }
            }
            Expr::Cast { data_type: ast::DataType::Timestamp(_, zone), expr, .. } if *zone != TimezoneInfo::None => {
                self.instants.push((expr.span(), *zone != TimezoneInfo::Tz));
            }
            _ => {}
        }
        match expression {
            Expr::Identifier(name) => self.name(name),
            Expr::CompoundIdentifier(names) => names.iter().for_each(|name| self.name(name)),
            _ => {}
        }
        self.note(Place::of(expression.span()), flink::syntax_note(expression));
    }

    /// Looks at a name: what is reserved stands in backticks.
    pub fn name(&mut self, name: &Ident) {
        if name.quote_style.is_none() && name.span.start != name.span.end {
            self.note(Place::of(name.span), reserved::name_note(&name.value));
        }
    }

    /// Looks at the names of a table in FROM.
    pub fn table(&mut self, table: &TableFactor) {
        let alias = match table {
            TableFactor::Table { name, alias, args, .. } => {
                let parts = name.0.iter().filter(|_| args.is_none()).filter_map(ObjectNamePart::as_ident);
                parts.for_each(|name| self.name(name));
                alias
            }
            TableFactor::Derived { alias, .. }
            | TableFactor::TableFunction { alias, .. }
            | TableFactor::Function { alias, .. } => alias,
            _ => return,
        };
        self.alias(alias.iter());
    }

    /// Looks at names of tables and of their columns.
    pub fn alias<'a>(&mut self, aliases: impl Iterator<Item = &'a TableAlias>) {
        for alias in aliases {
            self.name(&alias.name);
            alias.columns.iter().for_each(|column| self.name(&column.name));
        }
    }

    /// Looks at the names that SELECT gives, and at what groups rows.
    pub fn select(&mut self, select: &Select) {
        for item in &select.projection {
            if let SelectItem::ExprWithAlias { alias, .. } = item {
                self.name(alias);
            }
        }
        let GroupByExpr::Expressions(keys, _) = &select.group_by else { return };
        let named = |name: &str| {
            select.projection.iter().any(|item| match item {
                SelectItem::ExprWithAlias { expr, alias } => alias.value == name && !is_column(expr, name),
                _ => false,
            })
        };
        for key in keys {
            match key {
                Expr::Value(ValueWithSpan { value: Value::Number(position, _), span }) => {
                    let note =
                        format!("Flink does not take {position} in GROUP BY for a column; write what SELECT computes");
                    self.note(Place::of(*span), Some(note));
                }
                Expr::Identifier(name) if named(&name.value) => {
                    self.aliases.push(("GROUP BY", name.value.clone(), Place::of(name.span)));
                }
                _ => {}
            }
        }
        let mut names = Names::default();
        let _ = select.having.visit(&mut names);
        let of_select = names.found.into_iter().filter(|(name, _)| named(name));
        self.aliases.extend(of_select.map(|(name, place)| ("HAVING", name, place)));
    }

    /// Notes the names behind GROUP BY and HAVING that are none of the columns that rows are grouped by.
    pub fn grouped_by(&mut self, columns: &[Column]) {
        for (clause, name, place) in std::mem::take(&mut self.aliases) {
            if columns.iter().all(|column| column.name != name) {
                let note = format!("Flink does not know the name {name} in {clause}; write what it stands for");
                self.note(place, Some(note));
            }
        }
    }

    /// Whether a cast to TIMESTAMP_LTZ was written, by where the first column stands that is cast.
    pub fn is_written(&self, column: Option<Place>) -> bool {
        let instants = &self.instants[self.within.last().map_or(0, |(_, before)| *before)..];
        let Some(place) = column else {
            return instants.is_empty() || instants.iter().any(|(_, is_written)| *is_written);
        };
        let is_inside = |span: &Span| Place::at(span.start) <= Some(place) && Some(place) <= Place::at(span.end);
        let around = instants.iter().filter(|(span, _)| is_inside(span));
        let innermost = around.max_by_key(|(span, _)| (span.start, Reverse(span.end)));
        innermost.is_none_or(|(_, is_written)| *is_written)
    }

    /// Notes what stands at a place of the text that is looked at.
    pub fn note(&mut self, place: Option<Place>, note: Option<String>) {
        if let Some(note) = note {
            let within = self.within.last().map_or(String::new(), |(within, _)| format!(": {within}"));
            self.notes.add(place, note + &within);
        }
    }
}

/// Whether an expression is the column of this name.
fn is_column(expression: &Expr, name: &str) -> bool {
    match expression {
        Expr::Identifier(column) => column.value == name,
        Expr::CompoundIdentifier(names) => names.last().is_some_and(|column| column.value == name),
        _ => false,
    }
}

/// Names outside of aggregates.
#[derive(Default)]
struct Names {
    /// Aggregates that the walk is in.
    inside: usize,
    found: Vec<(String, Option<Place>)>,
}

impl Visitor for Names {
    type Break = ();

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        self.inside += usize::from(is_aggregate(expression));
        if let Expr::Identifier(name) = expression
            && self.inside == 0
        {
            self.found.push((name.value.clone(), Place::of(name.span)));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
        self.inside -= usize::from(is_aggregate(expression));
        ControlFlow::Continue(())
    }
}
