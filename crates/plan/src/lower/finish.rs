//! From branches to a program: which columns sources and lookups deliver, and physical expressions over them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion_common::{DFSchema, Result};
use datafusion_expr::{Expr, ExprSchemable};
use datafusion_physical_expr::PhysicalExpr;
use pelton_data::arrangement::Arrangement;
use pelton_data::join::{JoinKind, Side};

use crate::lower::physical::{physical_expression, scope_of};
use crate::lower::prune::prune;
use crate::lower::push_down::push_down_filters;
use crate::lower::scope::{ARRIVAL, INPUT, add_columns_of, cast_to, flat_map_qualifier};
use crate::lower::stream_join::time::choose_times;
use crate::lower::unbound::{
    Loaded, UnboundFlatMap, UnboundLookup, UnboundOutput, UnboundPipeline, UnboundProgram, UnboundStep, UnboundTarget,
};
use crate::pipeline::{
    LookupTable, Operator, Output, OutputTarget, Pipeline, Port, Program, SourceUse, Step, StreamRef, Target,
    WindowColumn,
};
use crate::share::share;

/// Column names that expressions use, by where they come from.
#[derive(Default)]
struct Usage {
    sources: Vec<BTreeSet<String>>,
    lookups: Vec<BTreeSet<String>>,
    /// Names of the time attributes that windows are cut by, for each source.
    times: Vec<BTreeSet<String>>,
}

/// Binds all names.
pub(crate) fn finish(mut unbound: UnboundProgram) -> Result<Program> {
    push_down_filters(&mut unbound)?;
    choose_times(&mut unbound)?;
    prune(&mut unbound);
    if unbound.shares_slices {
        share(&mut unbound);
    }
    let usage = Usage::of(&unbound);
    let sources: Vec<SourceUse> = unbound
        .sources
        .iter()
        .enumerate()
        .map(|(index, source)| source.bind(&usage.sources[index], &usage.times[index]))
        .collect::<Result<_>>()?;
    let UnboundProgram { lookups, pipelines, mut operators, outputs, .. } = unbound;
    let mut bound_lookups = Vec::new();
    for (lookup, used) in lookups.into_iter().zip(&usage.lookups) {
        bound_lookups.push(bind_lookup(lookup, used)?);
    }
    for operator in &mut operators {
        if let Operator::Unmatched(unmatched) = operator {
            let lookup = &bound_lookups[unmatched.table];
            let of_table = unmatched.columns.iter_mut().flatten();
            of_table.for_each(|column| *column = lookup.place(*column));
        }
    }
    let schemas: Vec<SchemaRef> = output_schemas(&pipelines, &outputs)?;
    let folded = fold_projections(&pipelines, &mut operators, &schemas);
    let mut inputs = vec![Vec::new(); outputs.len()];
    let mut ports = vec![0; operators.len()];
    let mut bound = Vec::new();
    for (number, pipeline) in pipelines.into_iter().enumerate() {
        if let UnboundTarget::Stream { output, .. } = pipeline.target {
            if folded.contains(&number) {
                inputs[output].push(pipeline.input);
                continue;
            }
            inputs[output].push(StreamRef::Pipeline(bound.len()));
        }
        let input_schema = match pipeline.input {
            StreamRef::Source(source) => sources[source].schema.clone(),
            StreamRef::Operator(operator) => operators[operator].schema().expect("no branch reads slices").clone(),
            StreamRef::Pipeline(_) => unreachable!("no branch reads a pipeline"),
        };
        let input_schema = with_arrival(input_schema, &pipeline.target, &operators);
        bound.push(bind_pipeline(pipeline, input_schema, &bound_lookups, &schemas, (&operators, &mut ports))?);
    }
    let outputs = outputs.into_iter().zip(inputs).zip(schemas);
    let outputs = outputs.map(|((output, inputs), schema)| bind_output(output, inputs, schema));
    let outputs = outputs.collect::<Result<_>>()?;
    let lookups = bound_lookups.into_iter().map(|lookup| lookup.table).collect();
    Ok(Program { sources, lookups, pipelines: bound, operators, outputs })
}

impl Usage {
    fn of(unbound: &UnboundProgram) -> Usage {
        let mut usage = Usage {
            sources: vec![BTreeSet::new(); unbound.sources.len()],
            lookups: vec![BTreeSet::new(); unbound.lookups.len()],
            times: vec![BTreeSet::new(); unbound.sources.len()],
        };
        for pipeline in &unbound.pipelines {
            for expression in pipeline.expressions() {
                usage.note(pipeline.input, expression);
            }
            if let (Some(Expr::Column(time)), StreamRef::Source(source)) = (pipeline.target.time(), pipeline.input) {
                usage.times[source].insert(time.name.clone());
            }
        }
        usage
    }

    fn note(&mut self, input: StreamRef, expression: &Expr) {
        for column in expression.column_refs() {
            let qualifier = column.relation.as_ref().map_or(INPUT, |relation| relation.table());
            match (input, qualifier.strip_prefix("lookup")) {
                (_, Some(table)) => {
                    let table: usize = table.parse().expect("lookups are qualified by their number");
                    self.lookups[table].insert(column.name.clone());
                }
                (StreamRef::Source(source), None) if qualifier == INPUT && column.name != ARRIVAL => {
                    self.sources[source].insert(column.name.clone());
                }
                _ => {}
            }
        }
    }
}

impl UnboundPipeline {
    pub(crate) fn expressions(&self) -> Vec<&Expr> {
        let mut expressions = Vec::new();
        for step in &self.steps {
            match step {
                UnboundStep::Filter(predicate) => expressions.push(predicate),
                UnboundStep::Lookup { keys, conditions, .. } => expressions.extend(keys.iter().chain(conditions)),
                UnboundStep::FlatMap(flat_map) => {
                    expressions.extend(&flat_map.arguments);
                    expressions.extend(&flat_map.condition);
                }
            }
        }
        match &self.target {
            UnboundTarget::Stream { columns, .. } => expressions.extend(columns),
            UnboundTarget::Rows { columns, time, .. } => {
                expressions.extend(columns);
                expressions.extend(time);
            }
            UnboundTarget::Groups { keys, arguments, time, .. } => {
                expressions.extend(keys);
                expressions.extend(arguments.iter().flatten());
                expressions.extend(time);
            }
        }
        expressions
    }
}

/// A lookup whose columns have indices.
struct BoundLookup {
    table: LookupTable,
    /// For each column of the loaded schema, its index among the lookup's fields before unused ones were left out.
    loaded: Vec<usize>,
    fields: Vec<FieldRef>,
    used: Vec<usize>,
}

fn bind_lookup(lookup: UnboundLookup, used: &BTreeSet<String>) -> Result<BoundLookup> {
    let UnboundLookup { mut unbound, relation, fields, keys, loaded: Loaded { keeps_unmatched, .. }, .. } = lookup;
    let used: Vec<usize> = (0..fields.len()).filter(|index| used.contains(fields[*index].name())).collect();
    let mut loaded: BTreeSet<usize> = keys.iter().chain(&used).copied().collect();
    if loaded.is_empty() {
        // Rows are counted by the length of a column.
        loaded.insert(0);
    }
    let loaded: Vec<usize> = loaded.into_iter().collect();
    // The number of a row is no column of the program.
    let has_row_numbers = keeps_unmatched && loaded.last() == Some(&(fields.len() - 1));
    let computed = &loaded[..loaded.len() - usize::from(has_row_numbers)];
    let names = computed.iter().map(|index| fields[*index].name().clone()).collect();
    unbound.outputs.push(UnboundOutput { names, arrangement: Arrangement::default(), target: OutputTarget::Result });
    for branch in relation.branches {
        let columns = computed.iter().map(|index| branch.columns[*index].clone()).collect();
        unbound.end_in_output(branch, columns, unbound.outputs.len() - 1)?;
    }
    let program = finish(unbound)?;
    let mut schema = program.outputs[0].schema.clone();
    if has_row_numbers {
        let numbered = schema.fields().iter().chain(fields.last()).cloned();
        schema = Arc::new(Schema::new(numbered.collect::<Vec<_>>()));
    }
    let place = |index: &usize| loaded.binary_search(index).expect("keys are loaded");
    let keys = keys.iter().map(place).collect();
    let table = LookupTable { program: Box::new(program), keys, schema, has_row_numbers };
    Ok(BoundLookup { table, loaded, fields, used })
}

fn bind_output(output: UnboundOutput, inputs: Vec<StreamRef>, schema: SchemaRef) -> Result<Output> {
    let UnboundOutput { arrangement, target, .. } = output;
    let schema = match &arrangement.order {
        Some(order) => Arc::new(schema.project(&(0..order.columns).collect::<Vec<_>>())?),
        None => schema,
    };
    Ok(Output { inputs, schema, arrangement, target })
}

/// The schema of each output's inputs: types are those of any of its pipelines, and a column may be NULL where it may be in one.
fn output_schemas(pipelines: &[UnboundPipeline], outputs: &[UnboundOutput]) -> Result<Vec<SchemaRef>> {
    let mut schemas = Vec::new();
    for (number, output) in outputs.iter().enumerate() {
        let mut fields: Option<Vec<arrow::datatypes::Field>> = None;
        for pipeline in pipelines {
            let UnboundTarget::Stream { output, columns } = &pipeline.target else { continue };
            if *output != number {
                continue;
            }
            let scope = pipeline.scope.as_ref();
            let own = columns.iter().map(|column| column.to_field(scope).map(|(_, field)| field));
            let own: Vec<FieldRef> = own.collect::<Result<_>>()?;
            match &mut fields {
                None => fields = Some(own.iter().map(|field| field.as_ref().clone()).collect()),
                Some(fields) => {
                    for (field, own) in fields.iter_mut().zip(&own) {
                        field.set_nullable(field.is_nullable() || own.is_nullable());
                    }
                }
            }
        }
        let fields = fields.unwrap_or_default().into_iter().zip(&output.names);
        let fields = fields
            .map(|(field, name)| arrow::datatypes::Field::new(name, field.data_type().clone(), field.is_nullable()));
        schemas.push(Arc::new(Schema::new(fields.collect::<Vec<_>>())));
    }
    Ok(schemas)
}

/// Lets windows and functions OVER rows give their rows in the form of the output, where a pipeline would only choose, order and name
/// columns. Returns the numbers of the pipelines that became superfluous.
fn fold_projections(pipelines: &[UnboundPipeline], operators: &mut [Operator], schemas: &[SchemaRef]) -> Vec<usize> {
    let mut folded = Vec::new();
    for (number, pipeline) in pipelines.iter().enumerate() {
        let UnboundTarget::Stream { output, columns } = &pipeline.target else { continue };
        let readers = pipelines.iter().filter(|other| other.input == pipeline.input).count();
        if readers > 1 || !pipeline.steps.is_empty() {
            continue;
        }
        let StreamRef::Operator(read) = pipeline.input else { continue };
        match &mut operators[read] {
            Operator::Window(window) => {
                let Some(indices) = chosen(columns, &window.schema) else { continue };
                window.columns = indices.iter().map(|index| window.columns[*index].clone()).collect();
                window.schema = schemas[*output].clone();
                window.time_column = window.columns.iter().position(|column| *column == WindowColumn::Time);
            }
            Operator::Over(over) => {
                let Some(indices) = chosen(columns, &over.schema) else { continue };
                over.columns = indices.iter().map(|index| over.columns[*index]).collect();
                over.schema = schemas[*output].clone();
            }
            Operator::Join(join) => {
                let Some(indices) = chosen(columns, &join.spec.schema) else { continue };
                join.choose(&indices, schemas[*output].clone());
            }
            Operator::Unmatched(_) => continue,
            Operator::Slices(_) => unreachable!("no branch reads slices"),
        }
        folded.push(number);
    }
    folded
}

/// The indices of columns that are chosen as they are; `None` where any is computed.
fn chosen(columns: &[Expr], schema: &Schema) -> Option<Vec<usize>> {
    let indices: HashMap<&str, usize> =
        schema.fields().iter().enumerate().map(|(index, field)| (field.name().as_str(), index)).collect();
    let index = |column: &Expr| match column {
        Expr::Column(column) => indices.get(column.name.as_str()).copied(),
        _ => None,
    };
    columns.iter().map(index).collect()
}

/// The columns of the blocks that a pipeline gets: with what says how rows came behind them, where its window keeps that.
fn with_arrival(schema: SchemaRef, target: &UnboundTarget, operators: &[Operator]) -> SchemaRef {
    let UnboundTarget::Rows { operator, .. } = target else { return schema };
    let ranking = operators[*operator].as_window().and_then(|window| window.ranking.as_ref());
    let arrival = ranking.and_then(|ranking| ranking.arrival.map(|column| ranking.schema.fields()[column].clone()));
    match arrival {
        Some(arrival) => Arc::new(Schema::new(schema.fields().iter().cloned().chain([arrival]).collect::<Vec<_>>())),
        None => schema,
    }
}

fn bind_pipeline(
    pipeline: UnboundPipeline,
    input_schema: SchemaRef,
    lookups: &[BoundLookup],
    outputs: &[SchemaRef],
    (operators, ports): (&[Operator], &mut [usize]),
) -> Result<Pipeline> {
    let (steps, scope) = bind_steps(&pipeline, &input_schema, lookups)?;
    let mut port = |operator: usize| {
        ports[operator] += 1;
        Port { operator, number: ports[operator] - 1 }
    };
    let target = match &pipeline.target {
        UnboundTarget::Stream { output, columns } => {
            Target::Stream { columns: bind_all(columns, &scope)?, schema: outputs[*output].clone() }
        }
        UnboundTarget::Rows { operator, columns, .. } => {
            let port = port(*operator);
            let schema = operators[*operator].rows_schema(port.number).expect("the operator takes rows").clone();
            Target::Rows { port, columns: bind_all(columns, &scope)?, schema }
        }
        UnboundTarget::Groups { operator, keys, arguments, .. } => {
            let bind = |argument: &Option<Expr>| argument.as_ref().map(|a| physical_expression(a, &scope)).transpose();
            Target::Groups {
                port: port(*operator),
                keys: bind_all(keys, &scope)?,
                arguments: arguments.iter().map(bind).collect::<Result<_>>()?,
            }
        }
    };
    Ok(Pipeline { input: pipeline.input, input_schema, steps, target })
}

/// The steps of a pipeline, and the columns behind them.
fn bind_steps(
    pipeline: &UnboundPipeline,
    input_schema: &SchemaRef,
    lookups: &[BoundLookup],
) -> Result<(Vec<Step>, DFSchema)> {
    let mut added: Vec<(String, Vec<FieldRef>)> = Vec::new();
    let mut scope = scope_of(input_schema.fields(), &added)?;
    let mut steps = Vec::new();
    for step in &pipeline.steps {
        let mut bound = match step {
            UnboundStep::Filter(predicate) => Step::Filter(physical_expression(predicate, &scope)?),
            UnboundStep::Lookup { table, keys, kind, .. } => lookups[*table].step(*table, keys, *kind, &scope)?,
            UnboundStep::FlatMap(flat_map) => flat_map.bind(pipeline, &scope)?,
        };
        if let (Step::Lookup { fields, .. } | Step::FlatMap { fields, .. }, Some(name)) = (&bound, step.qualifier()) {
            added.push((name, fields.clone()));
            scope = scope_of(input_schema.fields(), &added)?;
        }
        // Conditions read the columns that are added as well.
        match (&mut bound, step) {
            (Step::Lookup { conditions, .. }, UnboundStep::Lookup { conditions: unbound, .. }) => {
                *conditions = bind_all(unbound, &scope)?;
            }
            (
                Step::FlatMap { condition, .. },
                UnboundStep::FlatMap(UnboundFlatMap { condition: Some(unbound), .. }),
            ) => {
                *condition = Some(physical_expression(unbound, &scope)?);
            }
            _ => {}
        }
        steps.push(bound);
    }
    Ok((steps, scope))
}

impl UnboundFlatMap {
    /// The step of this call without its condition. It adds only those columns that the pipeline uses.
    fn bind(&self, pipeline: &UnboundPipeline, scope: &DFSchema) -> Result<Step> {
        let name = flat_map_qualifier(self.number);
        let mut used = BTreeSet::new();
        add_columns_of(&name, pipeline.expressions(), &mut used);
        let columns = (0..self.fields.len()).filter(|index| used.contains(self.fields[*index].name()));
        let columns: Vec<usize> = columns.collect();
        Ok(Step::FlatMap {
            function: self.function.clone(),
            arguments: bind_all(&self.arguments, scope)?,
            keep_unmatched: self.keep_unmatched,
            condition: None,
            fields: columns.iter().map(|index| self.fields[*index].clone()).collect(),
            columns,
        })
    }
}

fn bind_all(expressions: &[Expr], scope: &DFSchema) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
    expressions.iter().map(|expression| physical_expression(expression, scope)).collect()
}

impl BoundLookup {
    /// The column of the loaded table that a column is which is used.
    fn place(&self, index: usize) -> usize {
        self.loaded.binary_search(&index).expect("used columns are loaded")
    }

    /// The step that looks rows up in this table, which has this number, without its conditions.
    fn step(&self, table: usize, keys: &[Expr], kind: JoinKind, scope: &DFSchema) -> Result<Step> {
        let keys = keys.iter().zip(&self.table.keys).map(|(key, index)| {
            let key = cast_to(key.clone(), self.table.schema.field(*index).data_type(), scope)?;
            physical_expression(&key, scope)
        });
        Ok(Step::Lookup {
            table,
            keys: keys.collect::<Result<_>>()?,
            kind,
            conditions: Vec::new(),
            columns: self.used.iter().map(|index| self.place(*index)).collect(),
            fields: self.used.iter().map(|index| self.field(*index, kind.keeps_unmatched(Side::Left))).collect(),
        })
    }

    fn field(&self, index: usize, keep_unmatched: bool) -> FieldRef {
        let field = self.table.schema.field(self.place(index));
        let nullable = field.is_nullable() || keep_unmatched;
        Arc::new(field.clone().with_name(self.fields[index].name()).with_nullable(nullable))
    }
}
