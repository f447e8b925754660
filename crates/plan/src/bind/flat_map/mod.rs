//! Table functions in FROM: `CROSS JOIN UNNEST(array) AS t (element)`, `LEFT JOIN LATERAL TABLE(f(a, b)) AS t (x, y) ON TRUE`.
//!
//! In the logical plan a call is a node of its own, which adds the columns of the function's rows to those of its input. DataFusion would plan it as a join with a
//! subquery that refers to the other side, and knows neither nested columns nor functions there: [`nest_calls`] turns what a call is joined with into a
//! part of its own before DataFusion sees the query, and [`TableFunctionPlanner`] plans both together.

mod call;

mod from;

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion_common::{DFSchema, DFSchemaRef, Result, TableReference};
use datafusion_expr::logical_plan::{Extension, Filter, UserDefinedLogicalNodeCore};
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan};
use pelton_data::column::sql_name;
use pelton_data::table_function::{TableFunctionError, TableFunctionHandle};

use crate::coerce::held_types::carried_type;
use crate::errors::{Place, PlanError, external};

pub(crate) use call::{TableFunctionPlanner, built_in};
pub(crate) use from::nest_calls;

/// A call of a table function in a logical plan.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct FlatMapNode {
    /// The rows that the function is called for.
    pub input: LogicalPlan,
    /// The call.
    pub call: FlatMapCall,
    /// Its arguments, over the columns of the input.
    pub arguments: Vec<Expr>,
    schema: DFSchemaRef,
}

/// Which table function, and what becomes of its rows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct FlatMapCall {
    /// The function.
    pub function: TableFunctionHandle,
    /// Whether rows for which it makes none stay, with NULLs.
    pub keep_unmatched: bool,
    /// Whether the filter above the call is the condition of a LEFT JOIN: rows for which it is true for none of the function's rows stay as well.
    pub is_joined_by_filter: bool,
    /// The name of its rows, if they have one.
    pub alias: Option<TableReference>,
    /// The names of its columns, where they are not those of the function.
    pub names: Vec<String>,
}

impl FlatMapNode {
    /// A call for the rows of `input`, which stands at this place.
    ///
    /// # Errors
    /// Where the function does not take these arguments, or its columns cannot have these names.
    pub fn new(
        input: LogicalPlan,
        call: FlatMapCall,
        arguments: Vec<Expr>,
        place: Option<Place>,
    ) -> Result<FlatMapNode> {
        let name = call.function.0.name();
        let added = call.columns(&arguments, input.schema()).map_err(|error| external(placed(&error, place)))?;
        let mut fields: Vec<_> =
            input.schema().iter().map(|(qualifier, field)| (qualifier.cloned(), field.clone())).collect();
        for (index, field) in added.iter().enumerate() {
            let Some(carried) = carried_type(field.data_type()) else {
                let construct =
                    format!("the type {} of column {} of {name}", sql_name(field.data_type()), field.name());
                return Err(external(PlanError::unsupported(place, construct, "return columns of other types")));
            };
            let named = call.names.get(index).unwrap_or_else(|| field.name());
            let is_taken = |(qualifier, other): &(Option<TableReference>, FieldRef)| {
                *qualifier == call.alias && other.name() == named
            };
            if fields.iter().any(is_taken) {
                let message = format!("there would be two columns {named}, one of them of {name}");
                let error = PlanError::invalid(place, message);
                return Err(external(error.with_hint(format!("give them other names: {name}(…) AS t (column, …)"))));
            }
            let nullable = field.is_nullable() || call.keep_unmatched;
            let field = field.as_ref().clone().with_name(named).with_data_type(carried).with_nullable(nullable);
            fields.push((call.alias.clone(), Arc::new(field)));
        }
        let schema = DFSchema::new_with_metadata(fields, input.schema().metadata().clone())?;
        Ok(FlatMapNode { input, call, arguments, schema: Arc::new(schema) })
    }

    /// The plan that consists of this node.
    pub fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }

    /// The node that a plan consists of.
    pub fn of(plan: &LogicalPlan) -> Option<&FlatMapNode> {
        match plan {
            LogicalPlan::Extension(extension) => extension.node.as_any().downcast_ref(),
            _ => None,
        }
    }

    /// The call that a filter is the condition of: that of a LEFT JOIN.
    pub fn joined_by(filter: &Filter) -> Option<&FlatMapNode> {
        FlatMapNode::of(&filter.input).filter(|node| node.call.is_joined_by_filter)
    }

    /// The columns that it adds to those of its input.
    pub fn added(&self) -> impl Iterator<Item = &FieldRef> {
        self.schema.fields().iter().skip(self.input.schema().fields().len())
    }
}

impl FlatMapCall {
    /// The columns of the function's rows.
    fn columns(&self, arguments: &[Expr], input: &DFSchema) -> Result<Vec<FieldRef>, TableFunctionError> {
        let fields = arguments.iter().map(|argument| argument.to_field(input).map(|(_, field)| field));
        let failed = |error: datafusion_common::DataFusionError| TableFunctionError {
            message: error.strip_backtrace(),
            argument: None,
            hint: "use CAST".to_string(),
        };
        self.function.0.columns(&fields.collect::<Result<Vec<_>>>().map_err(failed)?)
    }
}

/// The error of a call.
pub(crate) fn placed(error: &TableFunctionError, place: Option<Place>) -> PlanError {
    PlanError::invalid(place, error.message.clone()).with_hint(error.hint.clone())
}

impl PartialOrd for FlatMapNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for FlatMapNode {
    fn name(&self) -> &str {
        "FlatMap"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        self.arguments.clone()
    }

    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        self.added().map(|field| field.name().clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let arguments: Vec<String> = self.arguments.iter().map(ToString::to_string).collect();
        write!(f, "FlatMap: {}({})", self.call.function.0.name(), arguments.join(", "))?;
        if self.call.keep_unmatched { f.write_str(", keeps unmatched rows") } else { Ok(()) }
    }

    fn with_exprs_and_inputs(&self, expressions: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        // Rules name expressions that they change; an argument has no name.
        let arguments = expressions.into_iter().map(|argument| argument.unalias_nested().data).collect();
        FlatMapNode::new(inputs.remove(0), self.call.clone(), arguments, None)
    }
}
