//! Leaves out what nobody reads of a window: its columns, and then the accumulators that only they needed.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::Schema;

use super::draft::{Draft, INPUT, TargetDraft};
use crate::pipeline::{StreamRef, WindowColumn};

/// Prunes all windows, downstream before upstream: what a window no longer needs, those above it need not give.
pub(super) fn prune_windows(draft: &mut Draft) {
    for window in (0..draft.windows.len()).rev() {
        prune_columns(draft, window);
        prune_accumulators(draft, window);
    }
}

fn prune_columns(draft: &mut Draft, window: usize) {
    let stream = StreamRef::Window(window);
    let mut used = BTreeSet::new();
    let mut is_cut_again = false;
    for pipeline in draft.pipelines.iter().filter(|pipeline| pipeline.input == stream) {
        is_cut_again |= matches!(pipeline.target, TargetDraft::Window { .. });
        for expression in pipeline.expressions() {
            let columns = expression.column_refs().into_iter();
            let own =
                columns.filter(|column| column.relation.as_ref().is_some_and(|relation| relation.table() == INPUT));
            used.extend(own.map(|column| column.name.clone()));
        }
    }
    let window = &mut draft.windows[window];
    let is_kept = |(index, field): &(usize, &Arc<arrow::datatypes::Field>)| {
        used.contains(field.name()) || (is_cut_again && window.time_column == Some(*index))
    };
    let mut kept: Vec<usize> =
        window.schema.fields().iter().enumerate().filter(is_kept).map(|(index, _)| index).collect();
    if kept.is_empty() {
        // Rows are counted by the length of a column.
        kept.push(0);
    }
    let fields = kept.iter().map(|index| window.schema.fields()[*index].clone());
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    window.columns = kept.iter().map(|index| window.columns[*index].clone()).collect();
    window.schema = schema;
    window.time_column = window.columns.iter().position(|column| *column == WindowColumn::Time);
}

fn prune_accumulators(draft: &mut Draft, number: usize) {
    let window = &mut draft.windows[number];
    let mut kept = BTreeSet::new();
    for column in &window.columns {
        match column {
            WindowColumn::Value { accumulator, count } => kept.extend([*accumulator].into_iter().chain(*count)),
            WindowColumn::Mean { sum, count } => kept.extend([*sum, *count]),
            WindowColumn::Variance { sum, squares, count, .. } => kept.extend([*sum, *squares, *count]),
            WindowColumn::Start | WindowColumn::End | WindowColumn::Time | WindowColumn::Key(_) => {}
        }
    }
    let kept: Vec<usize> = kept.into_iter().collect();
    let place = |accumulator: usize| kept.binary_search(&accumulator).expect("used accumulators are kept");
    for column in &mut window.columns {
        match column {
            WindowColumn::Value { accumulator, count } => {
                *accumulator = place(*accumulator);
                *count = count.map(place);
            }
            WindowColumn::Mean { sum, count } => (*sum, *count) = (place(*sum), place(*count)),
            WindowColumn::Variance { sum, squares, count, .. } => {
                (*sum, *squares, *count) = (place(*sum), place(*squares), place(*count));
            }
            WindowColumn::Start | WindowColumn::End | WindowColumn::Time | WindowColumn::Key(_) => {}
        }
    }
    window.accumulators = kept.iter().map(|index| window.accumulators[*index].clone()).collect();
    for pipeline in &mut draft.pipelines {
        if let TargetDraft::Window { window, arguments, .. } = &mut pipeline.target
            && *window == number
        {
            *arguments = kept.iter().map(|index| arguments[*index].clone()).collect();
        }
    }
}
