//! Table functions, and groups of two sides' rows, in queries that are put together by calls.

use datafusion_common::{Column, Result, ScalarValue, TableReference};
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, lit};
use pelton_data::table_function::TableFunctionHandle;
use pelton_functions::unnest;

use crate::bind::flat_map::{FlatMapCall, FlatMapNode, built_in, placed};
use crate::catalog::Catalog;
use crate::errors::{PlanError, external};
use crate::query::builder::{Allowed, RelationBuilder, bare, check, of_columns, step};

/// A call of a table function, which makes any number of rows of each.
#[derive(Debug, Clone)]
pub struct TableCall {
    function: TableFunctionHandle,
    arguments: Vec<Expr>,
    alias: Option<String>,
    names: Vec<String>,
    keep_unmatched: bool,
}

impl TableCall {
    /// A call of this function.
    pub fn of(function: TableFunctionHandle, arguments: impl IntoIterator<Item = Expr>) -> TableCall {
        TableCall {
            function,
            arguments: arguments.into_iter().collect(),
            alias: None,
            names: Vec::new(),
            keep_unmatched: false,
        }
    }

    /// A call of the function of this name, a built-in one or the program's own. Names are not case sensitive.
    ///
    /// # Errors
    /// [`PlanError`] where there is none.
    pub fn by_name(
        catalog: &Catalog,
        name: &str,
        arguments: impl IntoIterator<Item = Expr>,
    ) -> Result<TableCall, PlanError> {
        let function = catalog.table_function(name).cloned().or_else(|| built_in(name));
        let function =
            function.ok_or_else(|| PlanError::invalid(None, format!("there is no table function {name}")))?;
        Ok(TableCall::of(function, arguments))
    }

    /// `UNNEST`: a row for each element of an ARRAY, or each entry of a MAP.
    pub fn unnest(collection: Expr) -> TableCall {
        TableCall::of(unnest(false), [collection])
    }

    /// `UNNEST … WITH ORDINALITY`: the same with the position of the element, from 1, as the last column.
    pub fn unnest_with_ordinality(collection: Expr) -> TableCall {
        TableCall::of(unnest(true), [collection])
    }

    /// `AS alias (column, …)`: names the function's rows, and their columns.
    pub fn named<N: Into<String>>(self, alias: &str, columns: impl IntoIterator<Item = N>) -> TableCall {
        let names = columns.into_iter().map(Into::into).collect();
        TableCall { alias: Some(alias.to_string()), names, ..self }
    }

    /// `LEFT JOIN … ON TRUE`: keeps rows for which the function makes none, with NULLs.
    pub fn keep_unmatched(self) -> TableCall {
        TableCall { keep_unmatched: true, ..self }
    }

    fn plan(&self, input: LogicalPlan) -> Result<LogicalPlan> {
        let arguments = self.arguments.iter().map(|argument| of_columns(argument.clone(), &input));
        let arguments: Vec<Expr> = arguments.collect::<Result<_>>()?;
        let types = arguments.iter().map(|argument| argument.get_type(input.schema()));
        let types = types.collect::<Result<Vec<_>>>()?;
        let function = &self.function.0;
        function.argument_types(&types).map_err(|error| external(placed(&error, None)))?;
        let width = input.schema().fields().len();
        let call = FlatMapCall {
            function: self.function.clone(),
            keep_unmatched: self.keep_unmatched,
            is_joined_by_filter: false,
            alias: self.alias.as_deref().map(TableReference::bare),
            names: self.names.clone(),
        };
        let plan = FlatMapNode::new(input, call, arguments, None)?.into_plan();
        let added = plan.schema().fields().len() - width;
        if !self.names.is_empty() && self.names.len() != added {
            let message = format!("{} has {added} columns, and {} names are given", function.name(), self.names.len());
            return Err(external(PlanError::invalid(None, message).with_hint("name all of them, or none")));
        }
        Ok(plan)
    }
}

/// The column that tells the side of a row of [`RelationBuilder::co_group`].
const SIDE: &str = "side";

impl RelationBuilder {
    /// `CROSS JOIN LATERAL TABLE(f(…))`: each row becomes those that a table function makes of it, with its columns behind the row's.
    ///
    /// # Errors
    /// [`PlanError`] where the function does not take the arguments, or its columns cannot have these names.
    pub fn flat_map(self, call: &TableCall) -> Result<RelationBuilder, PlanError> {
        for argument in &call.arguments {
            check(argument, Allowed::Values)?;
        }
        let plan = step(&call.arguments, || call.plan(self.selected()?))?;
        Ok(RelationBuilder { plan, aggregated: None, bounds: self.bounds })
    }

    /// The rows of both sides, those of the left with NULLs as the right side's columns and the other way round, to be grouped by keys of both: pairs of an
    /// expression of each side, of which the left one names the column. The column `side` is 'left' or 'right'.
    ///
    /// # Errors
    /// [`PlanError`] where one side is cut into windows and the other is not, or an expression names no column of its side.
    pub fn co_group(
        self,
        other: RelationBuilder,
        keys: impl IntoIterator<Item = (Expr, Expr)>,
    ) -> Result<RelationBuilder, PlanError> {
        let keys: Vec<(Expr, Expr)> = keys.into_iter().collect();
        let all: Vec<Expr> = keys.iter().flat_map(|(left, right)| [left.clone(), right.clone()]).collect();
        for key in &all {
            check(key, Allowed::Values)?;
        }
        if self.bounds.is_some() != other.bounds.is_some() {
            let error = PlanError::invalid(None, "one side is cut into windows, and the other is not");
            return Err(error.with_hint("call window(…) on both"));
        }
        let bounds = self.bounds.is_some().then(|| ["window_start", "window_end"].map(Column::from_name));
        let plan = step(&all, || co_grouped([&self, &other], &keys))?;
        Ok(RelationBuilder { plan, aggregated: None, bounds })
    }
}

/// One side of a co-group: its rows, its keys, and the columns that it has besides keys and windows.
struct CoGroupSide {
    plan: LogicalPlan,
    keys: Vec<Expr>,
    bounds: Vec<Expr>,
    columns: Vec<Column>,
}

impl CoGroupSide {
    fn new(relation: &RelationBuilder, keys: Vec<Expr>) -> Result<CoGroupSide> {
        let plan = relation.selected()?;
        let keys: Vec<Expr> = bare(&keys).into_iter().map(|key| of_columns(key, &plan)).collect::<Result<_>>()?;
        let is_key = |column: &Column| keys.contains(&Expr::Column(column.clone()));
        let bounds: Vec<Column> = relation.bounds.iter().flatten().cloned().collect();
        let qualifier = bounds.first().map(|bound| bound.relation.clone());
        let is_of_window = |column: &Column| {
            let is_time = column.name == "window_time" && Some(&column.relation) == qualifier.as_ref();
            is_time || bounds.contains(column)
        };
        let columns = plan.schema().columns().into_iter();
        let columns = columns.filter(|column| !is_key(column) && !is_of_window(column)).collect();
        Ok(CoGroupSide { plan, keys, bounds: bounds.into_iter().map(Expr::Column).collect(), columns })
    }

    /// Its rows, with NULLs where `other` has columns.
    fn padded(&self, others: &[Expr], is_left: bool) -> Result<LogicalPlan> {
        let own: Vec<Expr> = self.columns.iter().cloned().map(Expr::Column).collect();
        let sides = if is_left { [own, others.to_vec()] } else { [others.to_vec(), own] };
        let side = lit(if is_left { "left" } else { "right" });
        let shared = self.bounds.iter().chain(&self.keys).cloned();
        let all = shared.chain(sides.into_iter().flatten()).chain([side]);
        let all = all.enumerate().map(|(index, column)| column.alias(format!("c{index}")));
        LogicalPlanBuilder::from(self.plan.clone()).project(all.collect::<Vec<_>>())?.build()
    }

    /// NULLs of the types of its columns.
    fn nulls(&self) -> Result<Vec<Expr>> {
        let schema = self.plan.schema();
        let null = |column: &Column| {
            let (_, field) = schema.qualified_field_from_column(column)?;
            Ok(lit(ScalarValue::try_from(field.data_type())?))
        };
        self.columns.iter().map(null).collect()
    }
}

fn co_grouped(sides: [&RelationBuilder; 2], keys: &[(Expr, Expr)]) -> Result<LogicalPlan> {
    let left = CoGroupSide::new(sides[0], keys.iter().map(|(left, _)| left.clone()).collect())?;
    let right = CoGroupSide::new(sides[1], keys.iter().map(|(_, right)| right.clone()).collect())?;
    let (of_left, of_right) = (left.padded(&right.nulls()?, true)?, right.padded(&left.nulls()?, false)?);
    let both = LogicalPlanBuilder::from(of_left).union(of_right)?.build()?;
    let key_names = keys.iter().map(|(left, _)| match left {
        Expr::Alias(alias) => alias.name.clone(),
        Expr::Column(column) => column.name.clone(),
        other => other.schema_name().to_string(),
    });
    let windows = ["window_start", "window_end"].into_iter().take(left.bounds.len()).map(str::to_string);
    let unqualified = windows.chain(key_names).map(|name| (None, name));
    let columns = left.columns.iter().chain(&right.columns);
    let columns = columns.map(|column| (column.relation.clone(), column.name.clone()));
    let names: Vec<(Option<TableReference>, String)> =
        unqualified.chain(columns).chain([(None, SIDE.to_string())]).collect();
    let named = both.schema().columns().into_iter().zip(names);
    let named = named.map(|(column, (qualifier, name))| Expr::Column(column).alias_qualified(qualifier, name));
    LogicalPlanBuilder::from(both.clone()).project(named.collect::<Vec<_>>())?.build()
}
