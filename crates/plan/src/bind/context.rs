//! What DataFusion's planner asks about names: tables, views, functions.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use datafusion_common::config::ConfigOptions;
use datafusion_common::{DFSchema, Result, TableReference};
use datafusion_expr::planner::{ContextProvider, ExprPlanner, RelationPlanner};
use datafusion_expr::simplify::SimplifyContext;
use datafusion_expr::utils::{find_aggregate_exprs, find_window_exprs};
use datafusion_expr::{
    AggregateUDF, Expr, ExprSchemable, HigherOrderUDF, LogicalPlan, LogicalPlanBuilder, ScalarUDF, TableSource,
    WindowUDF, ident,
};
use datafusion_optimizer::simplify_expressions::ExprSimplifier;
use datafusion_sql::planner::{NullOrdering, ParserOptions, PlannerContext, SqlToRel};
use pelton_data::column::logical_type;
use pelton_functions::scalar_functions;
use sqlparser::ast;
use sqlparser::ast::{Query, Spanned, Statement, VisitMut, VisitorMut};

use crate::bind::aggregate_functions::{AGGREGATES, aggregate_function};
use crate::bind::flat_map::{TableFunctionPlanner, built_in, nest_calls};
use crate::bind::foreign::Foreign;
use crate::bind::names::{plan_named, with_names};
use crate::bind::references::Reference;
use crate::bind::spelling::{double, normalize_spelling};
use crate::bind::survey::{survey_expression, survey_view};
use crate::bind::table_scan::{TABLE_FUNCTIONS, TableScanSource};
use crate::bind::window::WindowFunctionPlanner;
use crate::bind::with_queries::plan_with;
use crate::bind::{foreign_types, over_functions, references, row_membership, time_joins, using};
use crate::catalog::{Catalog, Relation, Table};
use crate::coerce::common_types::is_mixed;
use crate::coerce::decimals::LongProducts;
use crate::coerce::flink_types::flink_expression;
use crate::coerce::literals;
use crate::coerce::named_casts::NamedCasts;
use crate::coerce::nested::NestedParts;
use crate::coerce::simplify::CONFIGURATION;
use crate::coerce::zone::expression_in_zone;
use crate::errors::{Place, PlanError, closest, external, locate};
use crate::parse::{ColumnKind, Named, ViewDefinition, instead_of};
use crate::session_settings::zone_of_session;

/// Views inside views: deeper nesting is taken for a view that reads itself.
pub(crate) const VIEW_DEPTH_MAX: usize = 64;

/// The type of a `PROCTIME()` column.
pub(crate) fn processing_time_type() -> DataType {
    DataType::Timestamp(TimeUnit::Millisecond, Some("+00:00".into()))
}

/// One planner's view of the catalogue.
pub(crate) struct Context<'a> {
    catalog: &'a Catalog,
    relation_planners: [Arc<dyn RelationPlanner>; 2],
    view_depth: Cell<usize>,
    /// Views that have been planned.
    views: RefCell<HashMap<String, Arc<dyn TableSource>>>,
    /// The same with their plans, the innermost first.
    views_read: RefCell<Vec<(String, LogicalPlan)>>,
    /// Names that the outermost view reads.
    reads: RefCell<BTreeSet<String>>,
    /// Common table expressions that have been planned.
    references: RefCell<Vec<Arc<dyn TableSource>>>,
    /// What Flink would not understand of the queries, views and computed columns that were walked.
    pub(crate) foreign: RefCell<Foreign>,
}

/// A plan that stands behind a name.
struct Inlined {
    plan: LogicalPlan,
    schema: SchemaRef,
}

impl TableSource for Inlined {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn get_logical_plan(&'_ self) -> Option<Cow<'_, LogicalPlan>> {
        Some(Cow::Borrowed(&self.plan))
    }
}

impl<'a> Context<'a> {
    pub fn new(catalog: &'a Catalog) -> Context<'a> {
        let own = catalog.table_functions().cloned().collect();
        Context {
            catalog,
            relation_planners: [Arc::new(TableFunctionPlanner { own }), Arc::new(WindowFunctionPlanner)],
            view_depth: Cell::new(0),
            views: RefCell::default(),
            views_read: RefCell::default(),
            reads: RefCell::default(),
            references: RefCell::default(),
            foreign: RefCell::default(),
        }
    }

    /// The planner of statements. Names are taken as written, `0.5` is a DECIMAL, and NULL is the least value, as in Flink.
    pub fn planner(&self) -> SqlToRel<'_, Context<'a>> {
        let options = ParserOptions::new()
            .with_enable_ident_normalization(false)
            .with_collect_spans(true)
            .with_parse_float_as_decimal(true)
            .with_default_null_ordering(NullOrdering::NullsMin);
        SqlToRel::new_with_options(self, options)
    }

    /// The plan of a query, which refers to views and common table expressions (see [`references`]).
    pub fn plan_query(&self, query: &Query) -> Result<LogicalPlan> {
        let mut query = query.clone();
        plan_with(&mut query, self)?;
        plan_named(&query, |query| self.plan_text(query))
    }

    /// The plan of a query without WITH.
    pub(crate) fn plan_text(&self, mut query: Query) -> Result<LogicalPlan> {
        normalize_spelling(&mut query);
        nest_calls(&mut query);
        row_membership::respell(&mut query);
        using::respell(&mut query);
        time_joins::respell(&mut query);
        self.align_values(&mut query);
        literals::with_int_literals(self.planner().sql_statement_to_plan(Statement::Query(Box::new(query)))?)
    }

    /// The views that were planned, the innermost first, with their plans.
    pub(crate) fn views_read(&self) -> Vec<(&'a ViewDefinition, LogicalPlan)> {
        let read = self.views_read.borrow();
        let views = read.iter().filter_map(|(name, plan)| match self.catalog.get(name)? {
            Relation::View(view) => Some((view, plan.clone())),
            Relation::Table(_) => None,
        });
        views.collect()
    }

    /// The tables, views and files that a view which was planned by itself names.
    pub(crate) fn reads(&self) -> Vec<String> {
        self.reads.borrow().iter().cloned().collect()
    }

    /// Keeps what a name of a common table expression stands for, and returns its number.
    pub(crate) fn add_reference(&self, reference: Arc<dyn TableSource>) -> usize {
        let mut references = self.references.borrow_mut();
        references.push(reference);
        references.len() - 1
    }

    /// Gives values in VALUES their types, which DataFusion chooses as it plans them: whole numbers are INT, and DECIMAL beside FLOAT or DOUBLE is DOUBLE.
    fn align_values(&self, query: &mut Query) {
        struct Values<'a, 'c>(&'a Context<'c>);
        impl VisitorMut for Values<'_, '_> {
            type Break = ();

            fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
                self.0.align_set(&mut query.body);
                ControlFlow::Continue(())
            }
        }
        let _ = query.visit(&mut Values(self));
    }

    fn align_set(&self, body: &mut ast::SetExpr) {
        let rows = match body {
            ast::SetExpr::SetOperation { left, right, .. } => {
                self.align_set(left);
                return self.align_set(right);
            }
            ast::SetExpr::Values(values) => &mut values.rows,
            _ => return,
        };
        let empty = DFSchema::empty();
        let type_of = |value: &ast::Expr| {
            let planned = self.planner().sql_to_expr(value.clone(), &empty, &mut PlannerContext::new()).ok()?;
            planned.get_type(&empty).ok()
        };
        for column in 0..rows.first().map_or(0, |row| row.content.len()) {
            let mut values: Vec<&mut ast::Expr> =
                rows.iter_mut().filter_map(|row| row.content.get_mut(column)).collect();
            let are_literals = values.iter().all(|value| matches!(value, ast::Expr::Value(_)));
            values.iter_mut().for_each(|value| literals::cast_to_int(value));
            // Literals alone are never DOUBLE.
            if are_literals {
                continue;
            }
            let types: Vec<Option<DataType>> = values.iter().map(|value| type_of(value)).collect();
            if !is_mixed(types.iter().flatten()) {
                continue;
            }
            for (value, data_type) in values.iter_mut().zip(types) {
                if matches!(data_type, Some(DataType::Decimal128(..))) {
                    let decimal = std::mem::replace(*value, ast::Expr::Value(ast::Value::Null.with_empty_span()));
                    **value = double(decimal);
                }
            }
        }
    }

    fn table_source(&self, table: &Table) -> Result<Arc<dyn TableSource>> {
        let mut fields: Vec<FieldRef> = table.physical.fields().iter().map(sql_level).collect();
        let physical = DFSchema::try_from(Schema::new(fields.clone()))?;
        let mut computed = HashMap::new();
        for column in &table.definition.columns {
            if let ColumnKind::Computed { expression, .. } = &column.kind {
                self.foreign.borrow_mut().enter(format!("table {}", table.definition.name));
                let planned = self.computed_column(expression, &physical);
                self.foreign.borrow_mut().leave_noted();
                computed.insert(column.name.as_str(), planned?);
            }
        }
        let watermark = table.definition.watermark.as_ref();
        let computed_time =
            watermark.and_then(|watermark| Some((watermark, computed.remove(watermark.column.as_str())?)));
        // What a source computes is typed here, and the rest as a part of the query.
        let computed_time =
            computed_time.map(|(watermark, written)| self.typed(written, &physical).map(|typed| (watermark, typed)));
        let computed_time = computed_time.transpose()?;
        if let Some((watermark, expression)) = &computed_time {
            let (_, field) = expression.to_field(&physical)?;
            fields.push(Arc::new(Field::new(&watermark.column, field.data_type().clone(), field.is_nullable())));
        }
        for name in table.definition.processing_time_columns() {
            fields.push(Arc::new(Field::new(name, processing_time_type(), false)));
        }
        let schema = Arc::new(Schema::new(fields));
        let source = Arc::new(TableScanSource {
            table: Arc::new(table.clone()),
            schema,
            computed_time: computed_time.map(|(_, expression)| expression),
        });
        if source.has_all_columns() {
            return Ok(source);
        }
        let columns = table.definition.columns.iter().map(|column| match computed.remove(column.name.as_str()) {
            Some(expression) => expression.alias(&column.name),
            None => ident(&column.name),
        });
        let columns: Vec<Expr> = columns.collect();
        let name = TableReference::bare(table.definition.name.as_str());
        let plan = LogicalPlanBuilder::scan(name, source, None)?.project(columns)?.build()?;
        Ok(Arc::new(Inlined { schema: plan.schema().inner().clone(), plan }))
    }

    /// The type of a computed column of a table, which has been planned as where a query reads it.
    pub(crate) fn computed_type(&self, table: &Table, expression: &ast::Expr) -> Result<DataType> {
        let physical = physical_columns(table)?;
        let locations = survey_expression(expression, self).map_err(external)?;
        let located = |error| external(locate::in_expression(error, expression, &physical, self, &locations));
        let written = [self.written(expression, &physical).map_err(located)?];
        if !find_aggregate_exprs(&written).is_empty() || !find_window_exprs(&written).is_empty() {
            let message = "a computed column is made of its own row, not of several";
            let error = PlanError::invalid(Place::of(expression.span()), message);
            return Err(external(error.with_hint("compute it in a view, or in the queries that read the table")));
        }
        let planned = self.plan_expression(expression, &physical).and_then(|planned| planned.get_type(&physical));
        planned.map_err(located)
    }

    /// A computed column as it was written: types are made to agree where the query that reads it is typed, and only there.
    fn computed_column(&self, expression: &ast::Expr, physical: &DFSchema) -> Result<Expr> {
        let locations = survey_expression(expression, self).map_err(external)?;
        let planned = self.written(expression, physical).and_then(|planned| {
            // A projection has types, also before they are made to agree.
            planned.to_field(physical)?;
            Ok(planned)
        });
        let planned = planned.map_err(|error| locate::in_expression(error, expression, physical, self, &locations));
        let planned = planned.map_err(external)?;
        foreign_types::note_casts(&planned, physical, &mut self.foreign.borrow_mut());
        Ok(planned)
    }

    /// An expression over columns as it was written, its names known and its types not made to agree.
    fn written(&self, expression: &ast::Expr, columns: &DFSchema) -> Result<Expr> {
        let mut expression = expression.clone();
        normalize_spelling(&mut expression);
        literals::int_literals(self.planner().sql_to_expr(expression, columns, &mut PlannerContext::new())?)
    }

    /// The same with types made to agree.
    pub(crate) fn coerced(&self, expression: &ast::Expr, columns: &DFSchema) -> Result<Expr> {
        self.typed(self.written(expression, columns)?, columns)
    }

    /// An expression over columns with Flink's types, which agree, by the clocks of the session's zone.
    fn typed(&self, written: Expr, columns: &DFSchema) -> Result<Expr> {
        let context = SimplifyContext::builder().with_config_options(CONFIGURATION.clone()).build();
        let typed = ExprSimplifier::new(context).coerce(flink_expression(written, columns)?, columns)?;
        expression_in_zone(typed, columns, zone_of_session(self.catalog))
    }

    /// Whether a function is one that the user's program has added.
    pub(crate) fn is_own(&self, name: &str) -> bool {
        self.catalog.function(name).is_some()
            || self.catalog.aggregate(name).is_some()
            || self.catalog.table_function(name).is_some()
    }

    /// Whether there is a table function of this name, the program's own or a built-in one.
    pub(crate) fn has_table_function(&self, name: &str) -> bool {
        self.catalog.table_function(name).is_some() || built_in(name).is_some()
    }

    /// Notes what Flink would not understand of an expression as it was written.
    pub(crate) fn note_foreign(&self, expression: &ast::Expr) {
        self.foreign.borrow_mut().expression(expression, |name| self.is_own(name));
    }

    /// What a name stands for.
    pub(crate) fn relation(&self, name: &str) -> Option<Relation<'_>> {
        self.catalog.get(name)
    }

    fn view_source(&self, view: &ViewDefinition) -> Result<Arc<dyn TableSource>> {
        if let Some(known) = self.views.borrow().get(&view.name) {
            return Ok(known.clone());
        }
        let plan = self.view_plan(view)?;
        self.views_read.borrow_mut().push((view.name.clone(), plan.clone()));
        let reference = Reference::to(plan);
        self.views.borrow_mut().insert(view.name.clone(), reference.clone());
        Ok(reference)
    }

    /// The plan of a view's query, with the view's own names of its columns.
    pub(crate) fn view_plan(&self, view: &ViewDefinition) -> Result<LogicalPlan> {
        let depth = self.view_depth.get();
        if depth == VIEW_DEPTH_MAX {
            let message = format!("the view {} reads itself, or lies more than {VIEW_DEPTH_MAX} views deep", view.name);
            return Err(external(PlanError::invalid(view.place, message)));
        }
        self.view_depth.set(depth + 1);
        self.foreign.borrow_mut().enter(format!("view {}", view.name));
        let plan = survey_view(&view.query, self).map_err(external).and_then(|locations| {
            let planned = self.plan_query(&view.query);
            planned.map_err(|error| external(locate::in_query(error, &view.query, self, &locations)))
        });
        self.view_depth.set(depth);
        self.foreign.borrow_mut().leave();
        let plan = plan?;
        let width = plan.schema().fields().len();
        if view.columns.is_empty() {
            return with_names(plan);
        }
        if view.columns.len() != width {
            let named = view.columns.len();
            let message = format!("the view {} names {named} columns, and its query has {width}", view.name);
            return Err(external(PlanError::invalid(view.place, message)));
        }
        let columns = plan.schema().columns().into_iter().zip(&view.columns);
        let columns: Vec<Expr> = columns.map(|(column, name)| Expr::Column(column).alias(&name.value)).collect();
        LogicalPlanBuilder::from(plan).project(columns)?.build()
    }

    /// The function that goes by this name: its own name, which errors call it by.
    pub fn function_name(&self, name: &str) -> Option<String> {
        let scalar = self.get_function_meta(name).map(|function| function.name().to_string());
        scalar.or_else(|| self.get_aggregate_meta(name).map(|function| function.name().to_string()))
    }

    /// The error for a function that there is not.
    pub fn unknown_function(&self, name: &str, place: Option<Place>) -> PlanError {
        if let Some(instead) = instead_of(&name.to_uppercase()) {
            return PlanError::unsupported(place, name.to_uppercase(), instead);
        }
        let error = PlanError::invalid(place, format!("there is no function {name}"));
        let windows = TABLE_FUNCTIONS.map(str::to_string);
        let names: Vec<String> = self.udf_names().into_iter().chain(self.udaf_names()).chain(windows).collect();
        match closest(&name.to_lowercase(), names.iter().map(String::as_str)) {
            Some(closest) => error.with_hint(format!("did you mean {}?", closest.to_uppercase())),
            None => error.with_hint("SHOW FUNCTIONS lists what there is"),
        }
    }
}

/// The columns that a table's connector delivers, as computed columns see them.
pub(crate) fn physical_columns(table: &Table) -> Result<DFSchema> {
    let fields: Vec<FieldRef> = table.physical.fields().iter().map(sql_level).collect();
    DFSchema::try_from(Schema::new(fields))
}

/// A field with its type as SQL sees it: a dictionary of strings is a string.
fn sql_level(field: &FieldRef) -> FieldRef {
    match logical_type(field.data_type()) {
        same if same == field.data_type() => field.clone(),
        other => Arc::new(Field::new(field.name(), other.clone(), field.is_nullable())),
    }
}

/// DataFusion's functions that are of no use here: over values of types that no row holds, or about its own types and files.
const USELESS: [&str; 12] = [
    "arrow_field",
    "arrow_metadata",
    "cast_to_type",
    "file_row_index",
    "get_field",
    "input_file_name",
    "named_struct",
    "struct",
    "try_cast_to_type",
    "union_extract",
    "union_tag",
    "with_metadata",
];

static FUNCTIONS: LazyLock<HashMap<String, Arc<ScalarUDF>>> = LazyLock::new(|| {
    let mut functions = HashMap::new();
    let useful = |function: &Arc<ScalarUDF>| !USELESS.contains(&function.name());
    let known = datafusion_functions::all_default_functions().into_iter().filter(useful);
    for function in known.chain(scalar_functions()) {
        for name in function.aliases() {
            functions.insert(name.clone(), function.clone());
        }
        functions.insert(function.name().to_string(), function);
    }
    functions
});

static EXPRESSION_PLANNERS: LazyLock<Vec<Arc<dyn ExprPlanner>>> = LazyLock::new(|| {
    vec![
        Arc::new(NestedParts),
        Arc::new(datafusion_functions::core::planner::CoreFunctionPlanner::default()),
        Arc::new(datafusion_functions::datetime::planner::DatetimeFunctionPlanner),
        Arc::new(datafusion_functions::unicode::planner::UnicodeFunctionPlanner),
        Arc::new(NamedCasts),
        Arc::new(literals::IntOperands),
        Arc::new(LongProducts),
    ]
});

impl ContextProvider for Context<'_> {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        if let Some(number) = references::number(name.table()) {
            return Ok(self.references.borrow()[number].clone());
        }
        let named = Named { name: name.to_string(), place: None };
        if self.view_depth.get() == 1 {
            self.reads.borrow_mut().insert(named.name.clone());
        }
        match self.catalog.resolve(&named).map_err(external)? {
            Relation::Table(table) => self.table_source(table),
            Relation::View(view) => self.view_source(view),
        }
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        &EXPRESSION_PLANNERS
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        &self.relation_planners
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        let known = self.catalog.function(name).or_else(|| FUNCTIONS.get(&name.to_lowercase())).cloned();
        known.or_else(|| time_joins::marker(name))
    }

    fn get_higher_order_meta(&self, _name: &str) -> Option<Arc<HigherOrderUDF>> {
        None
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.catalog.aggregate(name).cloned().or_else(|| aggregate_function(name))
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        over_functions::window_function(name)
    }

    fn get_variable_type(&self, _names: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        &CONFIGURATION
    }

    fn udf_names(&self) -> Vec<String> {
        let own = self.catalog.functions().map(|function| function.name().to_string());
        own.chain(FUNCTIONS.keys().cloned()).collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn udaf_names(&self) -> Vec<String> {
        let own = self.catalog.aggregates().map(|function| function.name().to_string());
        own.chain(AGGREGATES.map(str::to_string)).collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        Vec::new()
    }
}
