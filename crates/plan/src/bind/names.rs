//! Names of a query's columns: one that comes twice gets a number behind it, as in Flink.
//!
//! Inside of a query names are told apart by their tables, or refused where they are ambiguous; what leaves it, for a reader or a view, goes by its name alone.

use std::collections::HashSet;

use datafusion_common::Result;
use datafusion_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use sqlparser::ast::{Expr as Written, Ident, Query, Select, SelectItem, SetExpr};

/// Names with a number behind each that came before.
#[derive(Default)]
pub(crate) struct Names(HashSet<String>);

impl Names {
    /// This name, or the first of those with a number behind it that has not come yet.
    pub fn unique(&mut self, name: &str) -> String {
        if self.0.insert(name.to_string()) {
            return name.to_string();
        }
        let numbered = (0..).map(|number| format!("{name}{number}")).find(|numbered| self.0.insert(numbered.clone()));
        numbered.expect("some number is free")
    }

    /// The names of a plan's columns.
    pub fn of(plan: &LogicalPlan) -> Vec<String> {
        let mut names = Names::default();
        plan.schema().fields().iter().map(|field| names.unique(field.name())).collect()
    }
}

/// The plan with columns that go by their names alone.
pub(crate) fn with_names(plan: LogicalPlan) -> Result<LogicalPlan> {
    let names = Names::of(&plan);
    if plan.schema().fields().iter().zip(&names).all(|(field, name)| field.name() == name) {
        return Ok(plan);
    }
    let columns = plan.schema().columns().into_iter().zip(names);
    let columns: Vec<Expr> = columns.map(|(column, name)| Expr::Column(column).alias(name)).collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

/// Plans a query whose columns may have one name twice.
pub(crate) fn plan_named(query: &Query, plan: impl Fn(Query) -> Result<LogicalPlan>) -> Result<LogicalPlan> {
    let mut named = query.clone();
    for_each_select(&mut named.body, &mut |select| name_items(&mut select.projection));
    plan(named).or_else(|error| {
        // Which names `*` stands for is known to the planner alone.
        let mut named = query.clone();
        let (mut is_other, mut is_known) = (false, true);
        for_each_select(&mut named.body, &mut |select| {
            if select.projection.iter().any(is_wildcard) && select.projection.len() > 1 {
                is_other = true;
                match spread(query, select, &plan) {
                    Ok(items) => select.projection = items,
                    Err(_) => is_known = false,
                }
            }
            name_items(&mut select.projection);
        });
        if is_other && is_known { plan(named).map_err(|_| error) } else { Err(error) }
    })
}

/// The parts of a query whose columns leave it.
fn for_each_select(body: &mut SetExpr, visit: &mut impl FnMut(&mut Select)) {
    match body {
        SetExpr::Select(select) => visit(select),
        SetExpr::Query(query) => for_each_select(&mut query.body, visit),
        SetExpr::SetOperation { left, right, .. } => {
            for_each_select(left, visit);
            for_each_select(right, visit);
        }
        _ => {}
    }
}

fn is_wildcard(item: &SelectItem) -> bool {
    matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
}

fn name_items(items: &mut [SelectItem]) {
    let mut names = Names::default();
    for item in items {
        if let SelectItem::ExprWithAlias { alias, .. } = item {
            alias.value = names.unique(&alias.value);
        } else if let SelectItem::UnnamedExpr(expression) = item
            && let Some(name) = column_name(expression)
        {
            let unique = names.unique(name);
            if unique != name {
                *item = SelectItem::ExprWithAlias { expr: expression.clone(), alias: Ident::new(unique) };
            }
        }
    }
}

/// The name of a column that stands there as it is.
pub(crate) fn column_name(expression: &Written) -> Option<&str> {
    let name = match expression {
        Written::Identifier(name) => Some(name),
        Written::CompoundIdentifier(parts) => parts.last(),
        _ => None,
    };
    name.map(|name| name.value.as_str())
}

/// The items of a SELECT with the columns that each `*` stands for in its place. What has no name is called by where it was written.
fn spread(frame: &Query, select: &Select, plan: &impl Fn(Query) -> Result<LogicalPlan>) -> Result<Vec<SelectItem>> {
    let mut items = Vec::new();
    for (position, item) in select.projection.iter().enumerate() {
        match item {
            SelectItem::UnnamedExpr(expression) if column_name(expression).is_none() => {
                let alias = Ident::new(unnamed(position));
                items.push(SelectItem::ExprWithAlias { expr: expression.clone(), alias });
                continue;
            }
            item if !is_wildcard(item) => {
                items.push(item.clone());
                continue;
            }
            _ => {}
        }
        let alone = Select { projection: vec![item.clone()], selection: None, ..select.clone() };
        let alone = SetExpr::Select(Box::new(alone));
        let alone = Query { body: Box::new(alone), order_by: None, limit_clause: None, fetch: None, ..frame.clone() };
        items.extend(plan(alone)?.schema().columns().into_iter().map(|column| {
            let table = column.relation.as_ref().map(|relation| Ident::with_quote('`', relation.table()));
            let name = Ident::with_quote('`', column.name.as_str());
            SelectItem::UnnamedExpr(match table {
                Some(table) => Written::CompoundIdentifier(vec![table, name]),
                None => Written::Identifier(name),
            })
        }));
    }
    Ok(items)
}

/// What Flink calls a column without a name that stands at this position.
pub(crate) fn unnamed(position: usize) -> String {
    format!("EXPR${position}")
}

#[cfg(test)]
mod tests {
    use super::Names;

    #[test]
    fn a_number_is_not_given_to_a_name_that_has_come() {
        let mut names = Names::default();
        let given = ["k0", "k", "k", "k", "k0", "K"].map(|name| names.unique(name));
        assert_eq!(given, ["k0", "k", "k1", "k2", "k00", "K"]);
    }
}
