//! Calls of table functions, as queries write them.

use datafusion_common::{Result, TableReference};
use datafusion_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};
use pelton_data::table_function::TableFunctionHandle;
use pelton_functions::{UNNEST, table_functions, unnest};
use sqlparser::ast;
use sqlparser::ast::{
    FunctionArg, FunctionArgExpr, JoinConstraint, JoinOperator, Spanned, TableFactor, TableWithJoins,
};

use super::from::{as_factor, ends_in_call};
use super::{FlatMapCall, FlatMapNode, placed};
use crate::bind::table_scan::TABLE_FUNCTIONS;
use crate::bind::window::Call;
use crate::errors::{Place, PlanError, closest, external};

/// The built-in table function that goes by this name, which need not be in upper case.
pub(crate) fn built_in(name: &str) -> Option<TableFunctionHandle> {
    let is_it = |function: &TableFunctionHandle| function.0.name().eq_ignore_ascii_case(name);
    std::iter::once(unnest(false)).chain(table_functions()).find(is_it)
}

/// Plans calls of table functions in FROM, each with what it is joined with.
#[derive(Debug)]
pub(crate) struct TableFunctionPlanner {
    /// The functions of the program.
    pub own: Vec<TableFunctionHandle>,
}

impl RelationPlanner for TableFunctionPlanner {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let planned = match relation {
            TableFactor::NestedJoin { table_with_joins, alias } if ends_in_call(&table_with_joins) => {
                PlannedRelation::new(self.join(*table_with_joins, context)?, alias)
            }
            relation if Call::is_of_table_function(&relation) => {
                let call = Call::of(&relation).expect("it is a call");
                let one_row = LogicalPlanBuilder::empty(true).build()?;
                PlannedRelation::new(self.call(one_row, &call, (false, None), context)?, None)
            }
            other => return Ok(RelationPlanning::Original(Box::new(other))),
        };
        Ok(RelationPlanning::Planned(Box::new(planned)))
    }
}

impl TableFunctionPlanner {
    /// Tables of which the last is a call.
    fn join(&self, tables: TableWithJoins, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
        let TableWithJoins { relation, mut joins } = tables;
        let join = joins.pop().expect("the last table is a call");
        let call = Call::of(&join.relation).expect("the last table is a call");
        let joined = joined_on(&join.join_operator, call.place()).map_err(external)?;
        let input = context.plan(as_factor(TableWithJoins { relation, joins }))?;
        let plan = self.call(input, &call, joined, context)?;
        let (_, condition) = joined;
        let Some(condition) = condition else { return Ok(plan) };
        let condition = context.sql_to_expr(condition.clone(), plan.schema())?;
        LogicalPlanBuilder::from(plan).filter(condition)?.build()
    }

    /// A call for each row of `input`.
    fn call(
        &self,
        input: LogicalPlan,
        call: &Call<'_>,
        (keep_unmatched, condition): (bool, Option<&ast::Expr>),
        context: &mut dyn RelationPlannerContext,
    ) -> Result<LogicalPlan> {
        let function = self.function(call).map_err(external)?;
        let (mut arguments, mut places) = (Vec::new(), Vec::new());
        for argument in call.arguments {
            let written = positional(argument, function.0.name());
            let at_call = |error: PlanError| PlanError { place: error.place.or(call.place()), ..error };
            let written = written.map_err(|error| external(at_call(error)))?;
            places.push(Place::of(written.span()).or(call.place()));
            arguments.push(context.sql_to_expr(written.clone(), input.schema())?);
        }
        let types: Result<Vec<_>> = arguments.iter().map(|argument| argument.get_type(input.schema())).collect();
        function.0.argument_types(&types?).map_err(|error| {
            let place = error.argument.and_then(|argument| places[argument]);
            external(placed(&error, place.or(call.place())))
        })?;
        let names = call.alias.map_or_else(Vec::new, |alias| {
            alias.columns.iter().map(|column| context.normalize_ident(column.name.clone())).collect()
        });
        let alias = call.alias.map(|alias| TableReference::bare(alias.name.value.as_str()));
        let is_joined_by_filter = keep_unmatched && condition.is_some();
        let planned = FlatMapCall { function, keep_unmatched, is_joined_by_filter, alias, names };
        check_names(&planned, &arguments, &input, call).map_err(external)?;
        Ok(FlatMapNode::new(input, planned, arguments, call.place())?.into_plan())
    }

    /// The function that is called.
    fn function(&self, call: &Call<'_>) -> Result<TableFunctionHandle, PlanError> {
        let name = call.name.to_string();
        let own = self.own.iter().find(|function| function.0.name().eq_ignore_ascii_case(&name));
        let Some(function) = own.cloned().or_else(|| built_in(&name)) else {
            let error = |what: &str| PlanError::invalid(call.place(), format!("there is no {what} {name}"));
            let names = || self.own.iter().map(|own| own.0.name().to_string()).chain(known_names());
            let upper = name.to_uppercase();
            let all: Vec<String> = names().collect();
            return Err(match closest(&upper, all.iter().map(String::as_str)) {
                Some(meant) => error("function").with_hint(format!("did you mean {meant}?")),
                None => {
                    let (last, first) = all.split_last().expect("there are some");
                    error("table function").with_hint(format!("there are {} and {last}", first.join(", ")))
                }
            });
        };
        match call.with_ordinality {
            false => Ok(function),
            true if function.0.name() == UNNEST => Ok(unnest(true)),
            true => {
                let message = format!("WITH ORDINALITY numbers the elements of UNNEST, not the rows of {name}");
                Err(PlanError::invalid(call.place(), message).with_hint("leave it out"))
            }
        }
    }
}

/// The names of all built-in functions that are called in FROM.
fn known_names() -> impl Iterator<Item = String> {
    let made = std::iter::once(unnest(false)).chain(table_functions()).map(|function| function.0.name().to_string());
    TABLE_FUNCTIONS.iter().map(|name| name.to_uppercase()).chain(made)
}

/// Whether a join keeps rows without a match, and its condition, if it has one besides TRUE.
fn joined_on(operator: &JoinOperator, place: Option<Place>) -> Result<(bool, Option<&ast::Expr>), PlanError> {
    let (keep_unmatched, constraint) = match operator {
        JoinOperator::CrossJoin(constraint) | JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => {
            (false, constraint)
        }
        JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => (true, constraint),
        _ => return Err(PlanError::unsupported(place, "this kind of join with a table function", JOINS)),
    };
    let is_cross = matches!(operator, JoinOperator::CrossJoin(_));
    match constraint {
        JoinConstraint::None if is_cross => Ok((false, None)),
        JoinConstraint::On(ast::Expr::Value(value)) if value.value == ast::Value::Boolean(true) => {
            Ok((keep_unmatched, None))
        }
        JoinConstraint::On(condition) => Ok((keep_unmatched, Some(condition))),
        JoinConstraint::None => {
            let error = PlanError::invalid(place, "a join with a table function needs its condition");
            Err(error.with_hint("write ON TRUE behind it"))
        }
        _ => Err(PlanError::invalid(place, "a join with a table function has no columns to join by").with_hint(JOINS)),
    }
}

/// How table functions are joined.
const JOINS: &str = "write CROSS JOIN, or LEFT JOIN … ON TRUE";

/// An argument that has no name.
fn positional<'a>(argument: &'a FunctionArg, function: &str) -> Result<&'a ast::Expr, PlanError> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Ok(value),
        FunctionArg::Unnamed(_) => {
            let message = format!("'*' is no argument of {function}");
            Err(PlanError::invalid(None, message).with_hint("name the columns"))
        }
        FunctionArg::Named { .. } | FunctionArg::ExprNamed { .. } => {
            let construct = format!("an argument of {function} by its name");
            Err(PlanError::unsupported(Place::of(argument.span()), construct, "write the arguments in their order"))
        }
    }
}

/// There are names for all columns of a call, or for none.
fn check_names(
    planned: &FlatMapCall,
    arguments: &[Expr],
    input: &LogicalPlan,
    call: &Call<'_>,
) -> Result<(), PlanError> {
    let columns = planned.columns(arguments, input.schema()).map_err(|error| placed(&error, call.place()))?;
    if planned.names.is_empty() || planned.names.len() == columns.len() {
        return Ok(());
    }
    let first = call.alias.and_then(|alias| alias.columns.first());
    let place = first.and_then(|column| Place::of(column.name.span)).or(call.place());
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let (named, wanted) = (planned.names.len(), columns.len());
    let names: Vec<&str> = columns.iter().map(|column| column.name().as_str()).collect();
    let name = planned.function.0.name();
    let message = format!(
        "{name} has {wanted} column{}, and {named} name{} given",
        plural(wanted),
        if named == 1 { " is" } else { "s are" }
    );
    Err(PlanError::invalid(place, message).with_hint(format!("its columns are {}", names.join(", "))))
}
