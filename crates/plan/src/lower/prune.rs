//! Leaves out what nobody reads of a window, or of rows with functions OVER them: columns, and then what only they needed.

mod joins;

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use pelton_data::over::{OverCall, OverColumn, OverSpec};

use crate::lower::scope::{INPUT, add_columns_of};
use crate::lower::unbound::{UnboundProgram, UnboundTarget};
use crate::pipeline::{Operator, StreamRef, WindowColumn};

/// Prunes the results of all operators, downstream before upstream: what one no longer needs, those above it need not give.
pub(crate) fn prune(unbound: &mut UnboundProgram) {
    for number in (0..unbound.operators.len()).rev() {
        match &unbound.operators[number] {
            Operator::Window(window) => {
                let (is_ranked, has_groups) = (window.ranking.is_some(), !window.keeps_rows_alone());
                prune_columns(unbound, number);
                if is_ranked {
                    prune_rows(unbound, number);
                }
                if has_groups {
                    prune_accumulators(unbound, number);
                }
            }
            Operator::Over(_) => prune_over(unbound, number),
            Operator::Join(_) => joins::prune_join(unbound, number),
            Operator::Unmatched(unmatched) => {
                let schema = unmatched.schema.clone();
                let kept = kept_columns(unbound, StreamRef::Operator(number), &schema, |_| false);
                let Operator::Unmatched(unmatched) = &mut unbound.operators[number] else { unreachable!("it is one") };
                let of_input = unmatched.choose(&kept);
                prune_rows_of(unbound, number, &of_input);
            }
            Operator::Slices(_) => unreachable!("windows share slices when they are pruned"),
        }
    }
}

/// The columns of a stream that pipelines read, at least one: rows are counted by the length of a column.
fn kept_columns(
    unbound: &UnboundProgram,
    stream: StreamRef,
    schema: &SchemaRef,
    is_needed: impl Fn(usize) -> bool,
) -> Vec<usize> {
    let mut used = BTreeSet::new();
    for pipeline in unbound.pipelines.iter().filter(|pipeline| pipeline.input == stream) {
        add_columns_of(INPUT, pipeline.expressions(), &mut used);
    }
    let is_kept = |index: &usize| used.contains(schema.field(*index).name()) || is_needed(*index);
    let mut kept: Vec<usize> = (0..schema.fields().len()).filter(is_kept).collect();
    if kept.is_empty() {
        kept.push(0);
    }
    kept
}

/// Whether a stream's rows, which are results of windows, are put into windows once more.
fn is_cut_again(unbound: &UnboundProgram, stream: StreamRef) -> bool {
    let mut readers = unbound.pipelines.iter().filter(|pipeline| pipeline.input == stream);
    readers.any(|pipeline| match pipeline.target.stream() {
        Some(StreamRef::Operator(operator)) => {
            matches!(unbound.operators[operator], Operator::Window(_) | Operator::Join(_))
        }
        _ => false,
    })
}

fn projected(schema: &SchemaRef, kept: &[usize]) -> SchemaRef {
    Arc::new(schema.project(kept).expect("kept columns are columns"))
}

fn prune_columns(unbound: &mut UnboundProgram, window: usize) {
    let stream = StreamRef::Operator(window);
    let is_cut_again = is_cut_again(unbound, stream);
    let (schema, time_column) = (unbound.window(window).schema.clone(), unbound.window(window).time_column);
    let kept = kept_columns(unbound, stream, &schema, |index| is_cut_again && time_column == Some(index));
    let window = unbound.window_mut(window);
    window.columns = kept.iter().map(|index| window.columns[*index].clone()).collect();
    window.schema = projected(&schema, &kept);
    window.time_column = window.columns.iter().position(|column| *column == WindowColumn::Time);
}

/// Leaves out columns of rows with functions OVER them, then the functions, and then columns of their input.
fn prune_over(unbound: &mut UnboundProgram, number: usize) {
    let schema = unbound.operators[number].schema().expect("it has results").clone();
    let kept = kept_columns(unbound, StreamRef::Operator(number), &schema, |_| false);
    let Operator::Over(over) = &mut unbound.operators[number] else { unreachable!("it is functions OVER rows") };
    prune_values(over, &schema, &kept);
    let kept = prune_input(over);
    prune_rows_of(unbound, number, &kept);
}

fn prune_values(over: &mut OverSpec, schema: &SchemaRef, kept: &[usize]) {
    over.columns = kept.iter().map(|index| over.columns[*index]).collect();
    over.schema = projected(schema, kept);
    let is_used = |call: &usize| over.columns.contains(&OverColumn::Value(*call));
    let calls: Vec<usize> = (0..over.calls.len()).filter(is_used).collect();
    for column in &mut over.columns {
        if let OverColumn::Value(call) = column {
            *call = calls.binary_search(call).expect("used calls are kept");
        }
    }
    over.calls = calls.iter().map(|call| over.calls[*call].clone()).collect();
}

/// Leaves out columns of its input. Returns those that are kept.
fn prune_input(over: &mut OverSpec) -> Vec<usize> {
    let time = over.time.map(|time| time.index);
    let mut kept: BTreeSet<usize> = over.keys.iter().copied().chain(time).collect();
    kept.extend(over.calls.iter().flat_map(OverCall::columns));
    kept.extend(over.columns.iter().filter_map(|column| match column {
        OverColumn::Input(column) => Some(*column),
        OverColumn::Value(_) => None,
    }));
    let kept: Vec<usize> = kept.into_iter().collect();
    let place = |column: usize| kept.binary_search(&column).expect("used columns are kept");
    over.input_schema = projected(&over.input_schema, &kept);
    over.time.iter_mut().for_each(|time| time.index = place(time.index));
    over.keys.iter_mut().for_each(|key| *key = place(*key));
    over.calls.iter_mut().flat_map(OverCall::columns_mut).for_each(|column| *column = place(*column));
    for column in &mut over.columns {
        if let OverColumn::Input(column) = column {
            *column = place(*column);
        }
    }
    kept
}

/// Leaves out columns of the rows that an operator takes.
fn prune_rows_of(unbound: &mut UnboundProgram, number: usize, kept: &[usize]) {
    for pipeline in &mut unbound.pipelines {
        if let UnboundTarget::Rows { operator, columns, .. } = &mut pipeline.target
            && *operator == number
        {
            *columns = kept.iter().map(|column| columns[*column].clone()).collect();
        }
    }
}

/// Leaves out columns of rows that are kept.
fn prune_rows(unbound: &mut UnboundProgram, number: usize) {
    let window = unbound.window_mut(number);
    let ranking = window.ranking.as_mut().expect("rows are kept");
    let mut kept: BTreeSet<usize> = ranking.keys.iter().copied().collect();
    kept.extend(ranking.order.iter().map(|key| key.column));
    kept.extend(window.columns.iter().filter_map(|column| match column {
        WindowColumn::Row(column) => Some(*column),
        _ => None,
    }));
    // Rows are counted by the length of a column, and by that of an array.
    let collected = &mut window.collected;
    let is_counted = |column: &usize| match collected.get(*column) {
        Some(of_group) => {
            !ranking.keys.contains(column) && !matches!(of_group, WindowColumn::Key(_) | WindowColumn::Rank)
        }
        None => !ranking.keys.contains(column),
    };
    let has_others = kept.iter().any(is_counted);
    let first = (0..ranking.schema.fields().len()).find(is_counted);
    kept.extend(first.filter(|_| !has_others));
    let kept: Vec<usize> = kept.into_iter().collect();
    let place = |column: usize| kept.binary_search(&column).expect("used columns are kept");
    ranking.schema = projected(&ranking.schema, &kept);
    if !collected.is_empty() {
        *collected = kept.iter().map(|column| collected[*column].clone()).collect();
    }
    ranking.keys.iter_mut().for_each(|key| *key = place(*key));
    ranking.order.iter_mut().for_each(|key| key.column = place(key.column));
    ranking.arrival = ranking.arrival.map(place);
    for column in &mut window.columns {
        if let WindowColumn::Row(column) = column {
            *column = place(*column);
        }
    }
    prune_rows_of(unbound, number, &kept);
}

fn prune_accumulators(unbound: &mut UnboundProgram, number: usize) {
    let window = unbound.window_mut(number);
    let used = window.columns.iter_mut().chain(&mut window.collected).flat_map(WindowColumn::accumulators_mut);
    let mut kept: BTreeSet<usize> = used.map(|accumulator| *accumulator).collect();
    if let Some(slots) = &window.session_slots {
        kept.extend([slots.first, slots.last, slots.rows]);
    }
    let kept: Vec<usize> = kept.into_iter().collect();
    let place = |accumulator: usize| kept.binary_search(&accumulator).expect("used accumulators are kept");
    let used = window.columns.iter_mut().chain(&mut window.collected).flat_map(WindowColumn::accumulators_mut);
    used.for_each(|accumulator| *accumulator = place(*accumulator));
    if let Some(slots) = &mut window.session_slots {
        (slots.first, slots.last, slots.rows) = (place(slots.first), place(slots.last), place(slots.rows));
    }
    window.accumulators = kept.iter().map(|index| window.accumulators[*index].clone()).collect();
    for pipeline in &mut unbound.pipelines {
        if let UnboundTarget::Groups { operator, arguments, .. } = &mut pipeline.target
            && *operator == number
        {
            *arguments = kept.iter().map(|index| arguments[*index].clone()).collect();
        }
    }
}
