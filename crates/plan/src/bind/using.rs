//! `a JOIN b USING (k)` as `a JOIN b ON a.k = b.k`, in a query where `k` is one column: that of a side which has a row, and where neither need have one, of the side that has.
//!
//! DataFusion takes the left side's column for it, which is NULL for rows of a right or full join that have no match there.

use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, ExceptSelectItem, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Join,
    JoinConstraint, JoinOperator, ObjectName, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, TableFactor,
    TableWithJoins, VisitMut, VisitorMut, WildcardAdditionalOptions,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;

use super::row_membership::binary;

/// A column that tables are joined by.
struct Merged {
    name: String,
    value: Expr,
}

/// A table of a chain of joins.
struct Joined {
    name: Ident,
    /// Its columns that are others as well.
    merged: Vec<Ident>,
}

/// The joins of one item of FROM.
#[derive(Default)]
struct Chain {
    tables: Vec<Joined>,
    merged: Vec<Merged>,
}

/// Writes USING as ON beside outer joins wherever the text tells which columns are meant: each table of the item of FROM has a name, and a column that is joined by is that of the first
/// table, or has been joined by before.
pub(crate) fn respell(query: &mut Query) {
    struct Respeller;
    impl VisitorMut for Respeller {
        type Break = ();

        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
            respell_select(select);
            ControlFlow::Continue(())
        }
    }
    let _ = query.visit(&mut Respeller);
}

/// Whether USING of an item of FROM can be written as ON.
pub(crate) fn can_respell(from: &TableWithJoins) -> bool {
    Chain::of(&mut from.clone()).is_some()
}

fn respell_select(select: &mut Select) {
    let is_only = select.from.len() == 1;
    let mut merged = Vec::new();
    for from in &mut select.from {
        let mut respelled = from.clone();
        let Some(chain) = Chain::of(&mut respelled).filter(|chain| !chain.merged.is_empty()) else { continue };
        *from = respelled;
        if is_only {
            let items = std::mem::take(&mut select.projection).into_iter();
            select.projection = items.flat_map(|item| chain.written(item)).collect();
        }
        merged.extend(chain.merged);
    }
    if merged.is_empty() {
        return;
    }
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(Expr::Identifier(name)) = item
            && let Some(column) = merged.iter().find(|column| column.name == name.value)
        {
            *item = SelectItem::ExprWithAlias { expr: column.value.clone(), alias: name.clone() };
        }
    }
    let mut replacer = Replacer { merged: &merged, queries: 0 };
    let _ = select.projection.visit(&mut replacer);
    let _ = select.selection.visit(&mut replacer);
    let _ = select.group_by.visit(&mut replacer);
    let _ = select.having.visit(&mut replacer);
    let _ = select.qualify.visit(&mut replacer);
}

impl Chain {
    /// Writes the joins of an item of FROM; `None` where its text does not tell what the columns are.
    fn of(from: &mut TableWithJoins) -> Option<Chain> {
        let mut chain = Chain::default();
        let has_using = |join: &mut Join| {
            let operator = &mut join.join_operator;
            is_outer(operator) && matches!(constraint_mut(operator), Some(JoinConstraint::Using(_)))
        };
        // DataFusion has the right column for those of inner joins.
        if !from.joins.iter_mut().any(has_using) {
            return Some(chain);
        }
        chain.tables.push(Joined { name: name(&from.relation)?, merged: Vec::new() });
        for join in &mut from.joins {
            let right = name(&join.relation)?;
            chain.tables.push(Joined { name: right, merged: Vec::new() });
            let columns = match constraint_mut(&mut join.join_operator) {
                Some(JoinConstraint::Using(columns)) => columns.clone(),
                Some(JoinConstraint::Natural) => return None,
                _ => Vec::new(),
            };
            let mut equalities = Vec::new();
            for column in columns {
                equalities.push(chain.merge(&column.0.last()?.as_ident()?.clone(), &join.join_operator)?);
            }
            let condition = equalities.into_iter().reduce(|all, equality| binary(all, BinaryOperator::And, equality));
            if let (Some(condition), Some(constraint)) = (condition, constraint_mut(&mut join.join_operator)) {
                *constraint = JoinConstraint::On(condition);
            }
        }
        Some(chain)
    }

    /// Joins the last table by a column. Returns what must be equal.
    fn merge(&mut self, column: &Ident, operator: &JoinOperator) -> Option<Expr> {
        let known = self.merged.iter().position(|merged| merged.name == column.value);
        let left = match known {
            Some(known) => self.merged[known].value.clone(),
            None if self.tables.len() == 2 => {
                let first = &mut self.tables[0];
                first.merged.push(column.clone());
                qualified(&first.name, column)
            }
            None => return None,
        };
        let last = self.tables.last_mut()?;
        last.merged.push(column.clone());
        let right = qualified(&last.name, column);
        let value = match operator {
            JoinOperator::Right(_) | JoinOperator::RightOuter(_) => right.clone(),
            JoinOperator::FullOuter(_) => coalesce(left.clone(), right.clone()),
            _ => left.clone(),
        };
        match known {
            Some(known) => self.merged[known].value = value,
            None => self.merged.push(Merged { name: column.value.clone(), value }),
        }
        Some(binary(left, BinaryOperator::Eq, right))
    }

    /// `*` as the columns that tables are joined by, and then all others.
    fn written(&self, item: SelectItem) -> Vec<SelectItem> {
        if !matches!(&item, SelectItem::Wildcard(options) if *options == WildcardAdditionalOptions::default()) {
            return vec![item];
        }
        let merged = self.merged.iter().map(|column| SelectItem::ExprWithAlias {
            expr: column.value.clone(),
            alias: Ident::with_quote('`', column.name.as_str()),
        });
        let others = self.tables.iter().map(|table| {
            let mut left_out = table.merged.iter().cloned();
            let opt_except = left_out
                .next()
                .map(|first_element| ExceptSelectItem { first_element, additional_elements: left_out.collect() });
            let name = SelectItemQualifiedWildcardKind::ObjectName(ObjectName::from(vec![table.name.clone()]));
            SelectItem::QualifiedWildcard(name, WildcardAdditionalOptions { opt_except, ..Default::default() })
        });
        merged.chain(others).collect()
    }
}

/// Replaces names of columns that tables are joined by, outside of subqueries.
struct Replacer<'m> {
    merged: &'m [Merged],
    /// How many subqueries an expression is in.
    queries: usize,
}

impl VisitorMut for Replacer<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        if let Expr::Identifier(name) = expression
            && self.queries == 0
            && let Some(column) = self.merged.iter().find(|column| column.name == name.value)
        {
            *expression = column.value.clone();
        }
        ControlFlow::Continue(())
    }
}

/// By which name the columns of a table are qualified.
fn name(table: &TableFactor) -> Option<Ident> {
    match table {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::TableFunction { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. } => Some(alias.name.clone()),
        TableFactor::Table { name, .. } => name.0.last()?.as_ident().cloned(),
        _ => None,
    }
}

fn is_outer(operator: &JoinOperator) -> bool {
    !matches!(operator, JoinOperator::Join(_) | JoinOperator::Inner(_))
}

fn constraint_mut(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint) => Some(constraint),
        _ => None,
    }
}

fn qualified(table: &Ident, column: &Ident) -> Expr {
    Expr::CompoundIdentifier(vec![table.clone(), column.clone()])
}

/// `COALESCE(left, right)`
fn coalesce(left: Expr, right: Expr) -> Expr {
    let template = Parser::new(&GenericDialect {}).try_with_sql("COALESCE(a, b)");
    let mut call = template.and_then(|mut parser| parser.parse_expr()).expect("it is an expression");
    if let Expr::Function(function) = &mut call
        && let FunctionArguments::List(list) = &mut function.args
    {
        let argument = |value| FunctionArg::Unnamed(FunctionArgExpr::Expr(value));
        list.args = vec![argument(left), argument(right)];
    }
    call
}
