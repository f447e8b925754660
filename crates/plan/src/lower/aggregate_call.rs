//! Calls of aggregate functions, from DataFusion's plan.

use arrow::compute::SortOptions;
use arrow::datatypes::DataType;
use datafusion_common::Result;
use datafusion_expr::expr::{AggregateFunction, AggregateFunctionParams, NullTreatment};
use datafusion_expr::{Expr, ExprSchemable, SortExpr, lit, when};
use datafusion_functions::core;
use pelton_data::column::sql_name;
use pelton_data::udaf::{UdafHandle, function};
use pelton_functions::aggregates::{Listing, Ordered, aggregate_function};

use crate::bind::udaf::udaf_of;
use crate::coerce::held_types::held_type;
use crate::coerce::zeros::with_one_zero;
use crate::errors::{PlanError, external};
use crate::lower::Lowering;
use crate::lower::accumulate::{Collector, delimiter_of, filtered};
use crate::lower::scope::cast_to;
use crate::lower::unbound::Branch;
use crate::lower::window_bounds::materialize;

/// A call of an aggregate function, by all branches.
#[derive(Default)]
pub(crate) struct Call {
    pub function: String,
    /// For each branch what is aggregated: nothing where rows are counted.
    pub arguments: Vec<Option<Expr>>,
    /// For each branch what is not NULL where a NULL is to be kept; nothing where none is.
    pub nulls: Vec<Option<Expr>>,
    /// The other arguments.
    pub constants: Vec<Expr>,
    pub is_distinct: bool,
    /// Whether `WITHIN GROUP` counts from the largest value.
    pub is_descending: bool,
    /// What computes it, where that is a function with states of its own.
    pub own: Option<UdafHandle>,
}

impl Lowering<'_> {
    /// The aggregate that all branches call.
    pub(crate) fn aggregate_call(&self, collector: &Collector, expressions: Vec<Expr>) -> Result<Call> {
        let mut call = Call::default();
        for (branch, expression) in collector.branches.iter().zip(expressions) {
            let Expr::AggregateFunction(AggregateFunction { func, params }) = expression else {
                unreachable!("an aggregate is a function")
            };
            call.function = func.name().to_string();
            call.is_distinct = params.distinct && !is_same_if_distinct(func.name());
            call.is_descending = params.order_by.first().is_some_and(|sort| !sort.asc);
            let keeps_nulls = call.function == "array_agg" && params.null_treatment != Some(NullTreatment::IgnoreNulls);
            if params.null_treatment == Some(NullTreatment::RespectNulls) && !keeps_nulls {
                let construct = format!("RESPECT NULLS behind {}", call.function.to_uppercase());
                let hint = "leave it out: NULLs are passed over";
                return Err(external(PlanError::unsupported(self.locations.place_of(&call.function), construct, hint)));
            }
            let filter = params.filter.clone();
            let is_ordered = !params.order_by.is_empty() && is_ordered_by_clause(func.name());
            let own = match udaf_of(&func) {
                None if is_ordered => None,
                None => aggregate_function(func.name(), &types_of(&params.args, branch)),
                own => own,
            };
            let argument = if is_ordered {
                Some(self.ordered_rows(&mut call, branch, params, keeps_nulls)?)
            } else if own.is_some() {
                call.own = own;
                Some(core::r#struct().call(params.args))
            } else {
                let mut given = params.args.into_iter();
                let argument = given.next();
                call.constants = given.collect();
                argument
            };
            if let Some(argument) = argument.as_ref().filter(|_| keeps_nulls && !is_ordered) {
                let is_null = argument.clone().is_null();
                let is_null = filter.iter().fold(is_null, |is_null, filter| is_null.and(*filter.clone()));
                call.nulls.push(Some(when(is_null, lit(1_i64)).end()?));
            }
            call.arguments.push(match filter {
                Some(filter) => {
                    // Counting values that are never NULL is counting rows.
                    let is_counted = |argument: &Expr| argument.nullable(branch.scope.as_ref()).unwrap_or(true);
                    let counts_rows = call.function == "count" && !call.is_distinct;
                    let argument = argument.filter(|argument| !counts_rows || is_counted(argument));
                    Some(filtered(argument, *filter)?)
                }
                None => argument,
            });
        }
        if call.function == "count" && !call.constants.is_empty() {
            let hint = "count one column";
            let place = self.locations.place_of("count");
            return Err(external(PlanError::unsupported(place, "COUNT of several columns", hint)));
        }
        Ok(call)
    }

    /// The rows that a function is computed from in the order of its ORDER BY: the value, and what they are put in order by. All branches have the same
    /// function.
    fn ordered_rows(
        &self,
        call: &mut Call,
        branch: &Branch,
        params: AggregateFunctionParams,
        keeps_nulls: bool,
    ) -> Result<Expr> {
        let place = self.locations.place_of(&call.function);
        let is_distinct = std::mem::take(&mut call.is_distinct);
        let value = params.args.first().expect("functions that are ordered have a value");
        if is_distinct && params.order_by.iter().any(|key| key.expr != *value) {
            let message = "ORDER BY beside DISTINCT can only be by the value itself";
            let hint = "each value stands there once, and may have come with several others";
            return Err(external(PlanError::invalid(place, message).with_hint(hint)));
        }
        let mut columns = Vec::new();
        let mut types = Vec::new();
        for expression in [value].into_iter().chain(params.order_by.iter().map(|key| &key.expr)) {
            let expression = materialize(expression.clone(), branch)?;
            let data_type = expression.get_type(branch.scope.as_ref())?;
            let Some(held) = held_type(&data_type) else {
                let construct = format!("ORDER BY of {} inside {}", sql_name(&data_type), call.function.to_uppercase());
                return Err(external(PlanError::unsupported(place, construct, "cast it to a number or a string")));
            };
            let expression = cast_to(expression, &held, &branch.scope)?;
            let is_compared = is_distinct || !columns.is_empty();
            columns.push(if is_compared { with_one_zero(expression, &branch.scope)? } else { expression });
            types.push(held);
        }
        if call.own.is_none() {
            let listing = match call.function.as_str() {
                "first_value" => Listing::First,
                "last_value" => Listing::Last,
                "array_agg" => Listing::Array { is_distinct, ignores_nulls: !keeps_nulls },
                _ => {
                    let delimiter = delimiter_of(params.args.get(1), place).map_err(external)?;
                    Listing::Joined { delimiter, is_distinct }
                }
            };
            let options = |key: &SortExpr| SortOptions { descending: !key.asc, nulls_first: key.nulls_first };
            let order = params.order_by.iter().map(options).collect();
            call.own = Some(UdafHandle(function(Ordered::new(listing, types, order))));
        }
        Ok(core::r#struct().call(columns))
    }
}

/// Whether a function, by its name in a plan, takes ORDER BY behind its arguments.
pub(crate) fn is_ordered_by_clause(function: &str) -> bool {
    matches!(function, "array_agg" | "listagg" | "first_value" | "last_value")
}

/// Whether a function has the same value if each value counts once.
pub(crate) fn is_same_if_distinct(function: &str) -> bool {
    matches!(function, "bit_and" | "bit_or" | "bool_and" | "bool_or" | "every")
}

/// What to do where a function with states of its own cannot be told that values are distinct.
pub(crate) fn distinct_hint(function: &str) -> &'static str {
    match function {
        "bit_xor" => "group by the column in a subquery first",
        _ if crate::bind::aggregate_functions::is_planned(function) => "group by both columns in a subquery first",
        _ => "let the function pass over values that it has seen",
    }
}

/// The types of a call's arguments; what `COUNT(*)` counts has none.
fn types_of(arguments: &[Expr], branch: &Branch) -> Vec<DataType> {
    arguments.iter().filter_map(|argument| argument.get_type(branch.scope.as_ref()).ok()).collect()
}
