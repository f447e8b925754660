//! A pipeline's steps and target as loops.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{CastExpr, Column};
use pelton_data::aggregate::{Accumulate, Accumulator};
use pelton_data::column::logical_type;
use pelton_data::join::Side;
use pelton_plan::pipeline::{Pipeline, Program, Step, StreamRef, Target, TimeSource, WindowAggregate};
use pelton_state::join::Shape;
use pelton_state::layout::{EntryLayout, KeyLayout};
use pelton_state::table::Numbering;

use super::accumulate::Update;
use super::function::{ColumnSource, Effect, LookupNumber, Place, RowIndex, Variant, Written};
use super::graph::{Graph, Machine, NodeId, Operation};
use super::linear::Linear;
use super::selection::selector;
use super::translate::Translator;
use crate::error::CompileError;
use crate::interpret::expression::{Expression, can_fail};
use crate::interpret::flat_map::FlatMap;
use crate::interpret::key_expression;
use crate::interpret::pieces::Crossed;
use crate::interpret::rows::Origin;
use crate::kernel::aggregate::{Aggregation, Dense, Fold, Grouping, is_block_column};
use crate::kernel::by_lookup::ByLookup;
use crate::kernel::loops::{Loop, Shared};
use crate::kernel::primitive::Select;
use crate::kernel::project::{Projected, Projection};
use crate::kernel::{CompiledKernel, CompiledStep, CompiledTarget};
use crate::read_out::entry_layout;

type Planned = Arc<dyn PhysicalExpr>;

/// Plans the loops of a pipeline, none of them compiled yet.
pub(crate) fn plan_kernel(
    program: &Program,
    pipeline: usize,
    shapes: &[Shape],
) -> Result<CompiledKernel, CompileError> {
    let pipeline = &program.pipelines[pipeline];
    let mut planner = Planner::new(program, pipeline);
    let (mut selects, mut steps) = (Vec::new(), Vec::new());
    // A predicate over one column cannot fail, and may go before others unless it would keep these from failing.
    let mut may_go_first = true;
    for step in &pipeline.steps {
        match step {
            Step::Filter(predicate) if may_go_first => match planner.select(predicate)? {
                Some(select) => selects.push(select),
                None => {
                    may_go_first = !can_fail(predicate, &planner.translator.schema).unwrap_or(true);
                    steps.push(planner.step(step, shapes)?);
                }
            },
            step => {
                may_go_first = false;
                steps.push(planner.step(step, shapes)?);
            }
        }
    }
    let target = planner.target(program, pipeline, &steps)?;
    carry(&planner.translator.graph, &mut steps, &target);
    Ok(CompiledKernel::planned(planner.finish()?, selects, steps, target, Crossed::of(pipeline)))
}

/// Lets filters hand on the foreign columns that were computed for them and are needed again, so that each is computed once.
fn carry(graph: &Graph, steps: &mut [CompiledStep], target: &CompiledTarget) {
    let mut needed = match target {
        CompiledTarget::Stream { projection, .. } => projection.foreign(graph),
        CompiledTarget::Window(aggregation) => aggregation.update.foreign(graph),
    };
    for index in (0..steps.len()).rev() {
        let (earlier, step) = steps.split_at_mut(index);
        let CompiledStep::Keep { code, carried } = &mut step[0] else {
            // Rows that were joined are other rows.
            needed.clear();
            continue;
        };
        let own = code.foreign(graph);
        let since_lookup = earlier.iter().rev().map_while(|step| match step {
            CompiledStep::Keep { code, .. } => Some(code.foreign(graph)),
            CompiledStep::Lookup { .. } | CompiledStep::FlatMap(_) => None,
        });
        let computed: BTreeSet<usize> = since_lookup.flatten().chain(own.iter().copied()).collect();
        *carried = needed.intersection(&computed).copied().collect();
        if !carried.is_empty() {
            code.keep_positions();
        }
        needed.extend(own);
    }
}

/// Compiles each loop for the calls that are likely: no NULLs, and rows listed where something drops rows.
pub(crate) fn compile_likely(kernel: &CompiledKernel) -> Result<(), CompileError> {
    let mut variant = Variant { all_valid: true, selected: !kernel.selects.is_empty(), asks: false };
    for step in &kernel.steps {
        match step.as_ref() {
            CompiledStep::Keep { code, .. } => code.compile_for(&kernel.shared, variant)?,
            CompiledStep::Lookup { keys, probe, conditions, .. } => {
                // Tables of other shapes need the keys.
                compile_projection(kernel, keys, variant)?;
                probe.as_ref().map_or(Ok(()), |probe| probe.compile_for(&kernel.shared, variant))?;
                let of_pairs = Variant { selected: true, ..variant };
                conditions.iter().try_for_each(|code| code.compile_for(&kernel.shared, of_pairs))?;
            }
            CompiledStep::FlatMap(_) => {}
        }
        variant.selected = true;
    }
    match kernel.target.as_ref() {
        CompiledTarget::Stream { projection, .. } => compile_projection(kernel, projection, variant),
        CompiledTarget::Window(aggregation) => {
            match &aggregation.grouping {
                Grouping::Single | Grouping::Columns(_) => {}
                // Whether there are blocks with rows of several slices in no order is not known.
                Grouping::Integer { keys, dense, .. } => {
                    keys.compile_for(&kernel.shared, variant)?;
                    if let Some(dense) = dense {
                        dense.of_slice.compile_for(&kernel.shared, variant)?;
                    }
                }
                Grouping::Computed(projection) => compile_projection(kernel, projection, variant)?,
            }
            if let Some(by_lookup) = &aggregation.by_lookup {
                let steps = kernel.steps.len() - usize::from(by_lookup.probe_keys.is_some());
                let selected = !kernel.selects.is_empty() || steps > 0;
                by_lookup.update.compile_for(&kernel.shared, Variant { selected, ..variant })?;
            }
            match aggregation.has_loop() {
                true => aggregation.update.compile_for(&kernel.shared, variant),
                false => Ok(()),
            }
        }
    }
}

fn compile_projection(kernel: &CompiledKernel, projection: &Projection, variant: Variant) -> Result<(), CompileError> {
    projection.code.as_ref().map_or(Ok(()), |code| code.compile_for(&kernel.shared, variant))
}

struct Planner {
    translator: Translator,
    columns: Vec<ColumnSource>,
    origins: Vec<Origin>,
    /// See [`Shared::tables`].
    tables: Vec<Option<usize>>,
    block_columns: usize,
}

impl Planner {
    fn new(program: &Program, pipeline: &Pipeline) -> Planner {
        let time_column = match pipeline.input {
            StreamRef::Source(source) => match program.sources.get(source).map(|source| source.time) {
                Some(TimeSource::Event { column, .. } | TimeSource::Processing { column }) => Some(column),
                Some(TimeSource::None | TimeSource::Noted { .. }) | None => None,
            },
            StreamRef::Pipeline(_) | StreamRef::Operator(_) => None,
        };
        let fields = pipeline.input_schema.fields();
        let columns = fields.iter().enumerate().map(|(index, field)| ColumnSource {
            nullable: field.is_nullable(),
            index: RowIndex::Row,
            shifted: time_column == Some(index),
        });
        Planner {
            translator: Translator::new(Schema::new(fields.clone())),
            columns: columns.collect(),
            origins: (0..fields.len()).map(Origin::Block).collect(),
            tables: Vec::new(),
            block_columns: fields.len(),
        }
    }

    fn finish(self) -> Result<Shared, CompileError> {
        let Planner { translator, columns, origins, tables, .. } = self;
        let Translator { graph, foreign, schema } = translator;
        let foreign =
            foreign.iter().map(|planned| Expression::new(planned, &schema, None)).collect::<Result<_, _>>()?;
        let names = schema.fields().iter().map(|field| field.name().clone()).collect();
        Ok(Shared { graph, columns, names, origins, foreign, tables })
    }

    /// The predicate as a primitive, where there is one. Event times that replay shifts are for machine code.
    fn select(&self, predicate: &Planned) -> Result<Option<Select>, CompileError> {
        let schema = &self.translator.schema;
        let selected = selector(predicate, schema).filter(|&(column, _)| !self.columns[column].shifted);
        let Some((column, selector)) = selected else { return Ok(None) };
        let planned = Expression::new(predicate, schema, Some(&DataType::Boolean))?;
        let data_type = schema.field(column).data_type().clone();
        Ok(Some(Select { column, data_type, selector, planned }))
    }

    fn step(&mut self, step: &Step, shapes: &[Shape]) -> Result<CompiledStep, CompileError> {
        match step {
            Step::Filter(predicate) => {
                let code = self.keep(predicate, !self.tables.is_empty())?;
                Ok(CompiledStep::Keep { code, carried: Vec::new() })
            }
            Step::Lookup { table, keys, kind, conditions, columns, fields } => {
                let mut projection = Projector::default();
                for key in keys {
                    let wanted = key_expression(key, &self.translator.schema)?.data_type().clone();
                    projection.add(self, key, &wanted, false)?;
                }
                let keep_unmatched = kind.keeps_unmatched(Side::Left);
                let probe = match conditions.is_empty() && kind.has_pairs() {
                    true => self.probe(shapes[*table], keys, keep_unmatched)?,
                    false => None,
                };
                let keys = projection.finish(self);
                self.add_columns(Some(*table), columns, fields, keep_unmatched);
                let conditions = conditions.iter().map(|condition| self.keep(condition, true));
                let conditions = conditions.collect::<Result<_, _>>()?;
                Ok(CompiledStep::Lookup { keys, probe, kind: *kind, conditions })
            }
            Step::FlatMap { .. } => {
                let flat_map = FlatMap::new(step, &self.translator.schema)?.expect("the step is one");
                let columns: Vec<usize> = (0..flat_map.fields().len()).collect();
                self.add_columns(None, &columns, flat_map.fields(), flat_map.keep_unmatched());
                Ok(CompiledStep::FlatMap(flat_map))
            }
        }
    }

    /// A loop that keeps the rows for which a predicate is true.
    fn keep(&mut self, predicate: &Planned, by_position: bool) -> Result<Loop, CompileError> {
        let planned = Expression::new(predicate, &self.translator.schema, Some(&DataType::Boolean))?;
        let typed = self.typed(predicate, &DataType::Boolean)?;
        let predicate = self.node(&typed)?;
        Ok(Loop::new(&self.translator.graph, Effect::Keep { predicate, by_position }, vec![planned]))
    }

    /// Adds the columns of rows that are joined with those of the pipeline.
    fn add_columns(&mut self, table: Option<usize>, columns: &[usize], fields: &[FieldRef], may_miss: bool) {
        let lookup = self.tables.len();
        self.tables.push(table);
        let index = RowIndex::Lookup { lookup, may_miss };
        self.origins.extend(columns.iter().map(|&column| Origin::Lookup { lookup, column }));
        let source = |field: &FieldRef| ColumnSource { nullable: field.is_nullable(), index, shifted: false };
        self.columns.extend(fields.iter().map(source));
        let all_fields: Vec<_> = self.translator.schema.fields().iter().chain(fields).cloned().collect();
        self.translator.schema = Schema::new(all_fields);
    }

    /// A loop that finds rows in a dense index of unique keys, where tables of this shape have one.
    fn probe(&mut self, shape: Shape, keys: &[Planned], keep_unmatched: bool) -> Result<Option<Loop>, CompileError> {
        let [key] = keys else { return Ok(None) };
        if !shape.is_dense || !shape.is_unique {
            return Ok(None);
        }
        let planned = key_expression(key, &self.translator.schema)?;
        let typed = self.typed(key, planned.data_type())?;
        let Some(key) = self.translator.expression(&typed) else { return Ok(None) };
        let (is_in_order, by_position) = (shape.is_in_order, !self.tables.is_empty());
        let effect = Effect::Probe { key, is_in_order, keep_unmatched, by_position };
        Ok(Some(Loop::new(&self.translator.graph, effect, vec![planned])))
    }

    fn target(
        &mut self,
        program: &Program,
        pipeline: &Pipeline,
        steps: &[CompiledStep],
    ) -> Result<CompiledTarget, CompileError> {
        match &pipeline.target {
            Target::Stream { columns, schema } | Target::Rows { columns, schema, .. } => {
                let mut projection = Projector::default();
                for (column, field) in columns.iter().zip(schema.fields()) {
                    projection.add(self, column, field.data_type(), false)?;
                }
                Ok(CompiledTarget::Stream { projection: projection.finish(self), schema: schema.clone() })
            }
            Target::Groups { port, keys, arguments } => {
                let groups = program.groups(port.operator);
                let mut aggregation = self.aggregation(groups, port.number, keys, arguments)?;
                if aggregation.others.is_empty() {
                    aggregation.by_lookup = self.by_lookup(groups, keys, &aggregation.update, steps);
                }
                Ok(CompiledTarget::Window(aggregation))
            }
        }
    }

    fn aggregation(
        &mut self,
        window: &WindowAggregate,
        input: usize,
        keys: &[Planned],
        arguments: &[Option<Planned>],
    ) -> Result<Aggregation, CompileError> {
        let layout = entry_layout(window);
        let (mut updates, mut others, mut planned) = (Vec::new(), Vec::new(), Vec::new());
        let mut folds = Vec::new();
        for (index, (slot, argument)) in layout.accumulators().iter().zip(arguments).enumerate() {
            let folded = self.folded_column(&slot.accumulator, argument.as_ref()).filter(|_| keys.is_empty());
            if let Some(column) = folded {
                folds.push(Fold { slot: index, accumulate: slot.accumulator.accumulate, column });
                continue;
            }
            match self.update(&slot.accumulator, argument.as_ref(), slot.offset, &mut planned)? {
                Some(update) => updates.push(update),
                None => {
                    let mut projection = Projector::default();
                    let argument = argument.as_ref().expect("rows are counted by machine code");
                    let wanted = argument_type(&slot.accumulator);
                    let wanted = Expression::new(argument, &self.translator.schema, wanted)?.data_type().clone();
                    projection.add(self, argument, &wanted, false)?;
                    others.push((index, projection.finish(self)));
                }
            }
        }
        let place = if keys.is_empty() { Place::Single } else { Place::Listed };
        let grouping = match layout.keys() {
            KeyLayout::None => Grouping::Single,
            KeyLayout::Integer { data_type, .. } => {
                self.integer_grouping(&keys[0], data_type, &layout, &updates, &planned)?
            }
            KeyLayout::Packed { .. } => self.packed_grouping(window, keys)?,
        };
        let update = Loop::new(&self.translator.graph, Effect::Accumulate { place, updates }, planned);
        Ok(Aggregation { input, grouping, update, folds, others, by_lookup: None })
    }

    /// The column of the block whose values the accumulator takes as they lie there, none where it counts rows; `None` where it takes
    /// other values. Event times that replay shifts are for machine code.
    fn folded_column(&self, accumulator: &Accumulator, argument: Option<&Planned>) -> Option<Option<usize>> {
        let Some(argument) = argument else { return Some(None) };
        let column = argument.downcast_ref::<Column>()?.index();
        let own = self.translator.schema.field(column).data_type();
        let is_typed = argument_type(accumulator).is_none_or(|wanted| wanted == own);
        (is_typed && column < self.block_columns && !self.columns[column].shifted).then_some(Some(column))
    }

    /// How rows are added by what a lookup found, where all keys are columns of one looked-up table.
    fn by_lookup(
        &self,
        window: &WindowAggregate,
        keys: &[Planned],
        update: &Loop,
        steps: &[CompiledStep],
    ) -> Option<ByLookup> {
        let origins = keys.iter().zip(&window.keys).map(|(key, field)| {
            let column = key.downcast_ref::<Column>()?.index();
            let is_typed = self.translator.schema.field(column).data_type() == field.data_type();
            match self.origins[column] {
                Origin::Lookup { lookup, column } if is_typed => Some((lookup, column)),
                _ => None,
            }
        });
        let (lookups, columns): (Vec<usize>, Vec<usize>) = origins.collect::<Option<Vec<_>>>()?.into_iter().unzip();
        let lookup = *lookups.first().filter(|first| lookups.iter().all(|lookup| lookup == *first))?;
        // Rows of a table function have other numbers in each call.
        self.tables[lookup]?;
        let mut done = steps.iter().filter_map(|step| match step {
            CompiledStep::Lookup { kind, .. } => Some(kind.keeps_unmatched(Side::Left)),
            CompiledStep::FlatMap(flat_map) => Some(flat_map.keep_unmatched()),
            CompiledStep::Keep { .. } => None,
        });
        let keep_unmatched = done.nth(lookup)?;
        let Effect::Accumulate { updates, .. } = &update.effect else { unreachable!("the loop changes accumulators") };
        let probe = match steps.last() {
            Some(CompiledStep::Lookup { probe: Some(probe), .. }) if self.can_go_before(update, lookup) => Some(probe),
            _ => None,
        };
        let numbering = if probe.is_some() { Numbering::Place } else { Numbering::Row };
        let graph = &self.translator.graph;
        let (number, probe_keys, planned) = match probe {
            Some(probe) => {
                let key = probe.effect.root();
                let outputs = vec![Written { node: key, as_key: true }];
                let probe_keys = Loop::new(graph, Effect::Write { outputs }, probe.planned.clone());
                let planned = probe.planned.iter().chain(&update.planned).cloned().collect();
                (LookupNumber::Place(key), Some(probe_keys), planned)
            }
            None => (LookupNumber::Row { lookup, may_miss: keep_unmatched }, None, update.planned.clone()),
        };
        let effect = Effect::Accumulate { place: Place::ByLookup(number), updates: updates.clone() };
        let update = Loop::new(graph, effect, planned);
        Some(ByLookup { columns, numbering, keep_unmatched, lookup, probe_keys, update })
    }

    /// Whether a loop computes the same for all rows before the pipeline's last lookup, number `lookup`, as after it: it reads nothing
    /// of what was found, and fails for no row, not even one that the lookup drops.
    fn can_go_before(&self, code: &Loop, lookup: usize) -> bool {
        let reads_found = |id| match self.translator.graph.node(id).operation {
            Operation::Column(column) => {
                matches!(self.origins[column], Origin::Lookup { lookup: read, .. } if read == lookup)
            }
            Operation::Foreign(_) => true,
            _ => false,
        };
        let is_last = lookup + 1 == self.tables.len();
        is_last
            && !code.planned.iter().any(Expression::can_fail)
            && !self.translator.graph.reachable(code.effect.roots()).into_iter().any(reads_found)
    }

    /// How machine code changes an accumulator; `None` where it does not know it.
    fn update(
        &mut self,
        accumulator: &Accumulator,
        argument: Option<&Planned>,
        offset: usize,
        planned: &mut Vec<Expression>,
    ) -> Result<Option<Update>, CompileError> {
        let accumulate = accumulator.accumulate;
        let long = Machine::Integer { bits: 64, signed: true };
        let Some(argument) = argument else {
            return Ok(Some(Update { accumulate, argument: None, state: long, offset }));
        };
        let schema = &self.translator.schema;
        let expression = Expression::new(argument, schema, argument_type(accumulator))?;
        let state = match accumulate {
            Accumulate::Count | Accumulate::SumInteger => Some(long),
            Accumulate::SumWide | Accumulate::SumSquares128 | Accumulate::SumSquares192 => Some(Machine::Wide),
            Accumulate::SumFloat => Some(Machine::Float64),
            Accumulate::SumFloatWide
            | Accumulate::SumSquares
            | Accumulate::First
            | Accumulate::Last
            | Accumulate::Values
            | Accumulate::Arrivals
            | Accumulate::Distinct { .. }
            | Accumulate::Frequencies
            | Accumulate::DistinctSketch
            | Accumulate::Udaf(_) => None,
            Accumulate::Minimum | Accumulate::Maximum => match expression.data_type() {
                DataType::Decimal128(..) => Some(Machine::Wide),
                data_type => Machine::of(data_type).filter(|machine| *machine != Machine::View),
            },
        };
        let data_type = expression.data_type().clone();
        let typed = self.typed(argument, &data_type)?;
        let node = self.translator.expression(&typed);
        let update = state.zip(node).map(|(state, node)| Update { accumulate, argument: Some(node), state, offset });
        if update.is_some() {
            planned.push(expression);
        }
        Ok(update)
    }

    fn integer_grouping(
        &mut self,
        key: &Planned,
        data_type: &DataType,
        layout: &EntryLayout,
        updates: &[Update],
        planned: &[Expression],
    ) -> Result<Grouping, CompileError> {
        let expression = Expression::new(key, &self.translator.schema, Some(data_type))?;
        let typed = self.typed(key, data_type)?;
        let Some(node) = self.translator.expression(&typed) else {
            let mut projection = Projector::default();
            projection.add(self, key, data_type, false)?;
            return Ok(Grouping::Computed(projection.finish(self)));
        };
        let graph = &self.translator.graph;
        let outputs = vec![Written { node, as_key: true }];
        let keys = Loop::new(graph, Effect::Write { outputs }, vec![expression.clone()]);
        let may_miss = |id| match graph.node(id).operation {
            Operation::Column(index) => {
                matches!(self.columns[index].index, RowIndex::Lookup { may_miss: true, .. })
            }
            _ => false,
        };
        let dense = graph.never_null(node, &|id| !may_miss(id)).then(|| {
            let (stride, use_word) = (layout.dense_stride(), layout.use_word());
            let planned: Vec<_> = std::iter::once(expression).chain(planned.iter().cloned()).collect();
            let [of_slice, of_slices] = [false, true].map(|of_slices| {
                let place = Place::Dense { key: node, stride, use_word, of_slices };
                Loop::new(graph, Effect::Accumulate { place, updates: updates.to_vec() }, planned.clone())
            });
            Dense { of_slice, of_slices }
        });
        let column = match graph.node(node).operation {
            Operation::Column(column) if column < self.block_columns && !self.columns[column].shifted => Some(column),
            _ => None,
        };
        let column = column.filter(|&column| *self.translator.schema.field(column).data_type() == DataType::Int64);
        Ok(Grouping::Integer { keys, column, dense })
    }

    fn packed_grouping(&mut self, window: &WindowAggregate, keys: &[Planned]) -> Result<Grouping, CompileError> {
        let mut projection = Projector::default();
        for (key, field) in keys.iter().zip(&window.keys) {
            projection.add(self, key, logical_type(field.data_type()), true)?;
        }
        let block_columns: Option<Vec<usize>> =
            projection.columns.iter().map(|projected| is_block_column(projected, self.block_columns)).collect();
        Ok(match block_columns {
            Some(columns) => Grouping::Columns(columns),
            None => Grouping::Computed(projection.finish(self)),
        })
    }

    /// The expression, cast to a type where it has another.
    fn typed(&self, planned: &Planned, wanted: &DataType) -> Result<Planned, CompileError> {
        let own = Expression::new(planned, &self.translator.schema, None)?;
        if own.data_type() == wanted {
            return Ok(planned.clone());
        }
        Ok(Arc::new(CastExpr::new(planned.clone(), wanted.clone(), None)))
    }

    /// The column of 64-bit integers and what it is multiplied with, where that is what makes a decimal of the block's rows.
    fn product(&self, planned: &Planned, wanted: &DataType) -> Option<(usize, i64)> {
        let schema = &self.translator.schema;
        let Linear { column, factor, addend: 0 } = Linear::of(planned, schema)? else { return None };
        let is_known = matches!(wanted, DataType::Decimal128(..))
            && *schema.field(column).data_type() == DataType::Int64
            && column < self.block_columns;
        is_known.then_some((column, i64::try_from(factor).ok()?))
    }

    /// The foreign column that an expression of exactly this type is.
    fn computed(&mut self, planned: &Planned, wanted: &DataType) -> Option<usize> {
        if self.translator.type_of(planned)? != *wanted {
            return None;
        }
        let id = self.translator.foreign(planned)?;
        match self.translator.graph.node(id).operation {
            Operation::Foreign(index) => Some(index),
            _ => None,
        }
    }

    fn node(&mut self, planned: &Planned) -> Result<NodeId, CompileError> {
        self.translator.expression(planned).ok_or_else(|| CompileError::Expression {
            expression: planned.to_string(),
            problem: "its values have no form in machine code".to_owned(),
        })
    }
}

/// The type that an accumulator's argument must have; `None` where any will do.
fn argument_type(accumulator: &Accumulator) -> Option<&DataType> {
    match accumulator.accumulate {
        Accumulate::Count | Accumulate::Arrivals => None,
        _ => accumulator.argument_type.as_ref().map(logical_type),
    }
}

/// Plans the columns of one projection.
#[derive(Default)]
struct Projector {
    columns: Vec<Projected>,
    outputs: Vec<Written>,
    planned: Vec<Expression>,
}

impl Projector {
    /// Adds a column of the wanted type. `coded`: a dictionary-coded string column is taken as it is.
    fn add(
        &mut self,
        planner: &mut Planner,
        planned: &Planned,
        wanted: &DataType,
        coded: bool,
    ) -> Result<(), CompileError> {
        let schema = &planner.translator.schema;
        if let Some(column) = planned.downcast_ref::<Column>() {
            let own = schema.field(column.index()).data_type();
            if own == wanted || coded && logical_type(own) == wanted {
                self.columns.push(Projected::Plain(column.index()));
                return Ok(());
            }
        }
        let expression = Expression::new(planned, schema, Some(wanted))?;
        let typed = planner.typed(planned, wanted)?;
        let node =
            planner.translator.compiled(&typed).filter(|&id| planner.translator.graph.node(id).data_type == *wanted);
        self.columns.push(match node {
            Some(node) => match planner.product(&typed, wanted) {
                Some((column, factor)) => Projected::Product { node, column, factor },
                None => {
                    self.planned.push(expression);
                    self.outputs.push(Written { node, as_key: false });
                    Projected::Written(self.outputs.len() - 1)
                }
            },
            None => match planner.computed(planned, wanted) {
                Some(index) => Projected::Computed(index),
                None => Projected::Interpreted(expression),
            },
        });
        Ok(())
    }

    fn finish(self, planner: &Planner) -> Projection {
        let code = (!self.outputs.is_empty())
            .then(|| Loop::new(&planner.translator.graph, Effect::Write { outputs: self.outputs }, self.planned));
        Projection { columns: self.columns, code }
    }
}
