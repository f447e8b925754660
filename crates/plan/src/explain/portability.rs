//! What of a statement means something else, or nothing, to Flink.

use std::collections::HashSet;

use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_expr::logical_plan::Window as Over;
use datafusion_expr::{Expr, LogicalPlan, WindowFrameUnits};
use pelton_data::aggregate::{Accumulate, Accumulator};
use pelton_data::over::{OverCall, OverFunction};

use crate::bind::aggregate_functions::RESULT_KIND;
use crate::catalog::LATE_ROWS;
use crate::errors::source_locations::SourceLocations;
use crate::explain::Notes;
use crate::pipeline::{Program, Window, WindowAggregate};
use crate::query::Planned;

/// One line for each thing that is not portable to Flink; none where the statement is.
pub fn portability(planned: &Planned) -> Vec<String> {
    let mut notes = planned.foreign.clone();
    let follows = planned.program.overs().any(|over| over.frame_end().is_some());
    for (_, plan) in &planned.logical {
        // The plan is well-formed: the walk visits its nodes and fails at none.
        let _ = plan.apply(|node| {
            // Its batch mode, which has such frames, takes several of them.
            if !follows {
                note_plan(node, &planned.locations, &mut notes);
            }
            Ok(TreeNodeRecursion::Continue)
        });
    }
    note_program(&planned.program, &planned.locations, &mut notes);
    notes.lines()
}

fn note_program(program: &Program, locations: &SourceLocations, notes: &mut Notes) {
    if program.sources.iter().any(|source| source.table == LATE_ROWS) {
        let note = format!("Flink has no table {LATE_ROWS}: it drops rows that are too late, and counts them");
        notes.add(locations.table(LATE_ROWS), note);
    }
    let windows = || program.windows().map(|(_, window)| window);
    if windows().any(|window| window.window == Window::Global) {
        notes.add(
            locations.grouping_without_window(),
            "grouping without a window gives one result when the bounded input has ended; \
             in Flink's streaming mode it gives a changing result, and the same in its batch mode",
        );
    }
    if windows().any(|window| window.window.counts_rows()) {
        let place = locations.only(&["tumble_rows", "hop_rows"]);
        notes.add(place, "Flink has no windows that count rows: no table functions TUMBLE_ROWS and HOP_ROWS");
    }
    if windows().any(|window| matches!(window.bounds, Window::Hopping { size, slide, .. } if size % slide != 0)) {
        notes.add(locations.only(&["hop"]), "Flink wants the size of HOP to be a multiple of its slide");
    }
    let is_merged = |window: &WindowAggregate| {
        let windows =
            matches!(window.window, Window::Hopping { .. } | Window::Cumulative { .. } | Window::Session { .. });
        let is_ordered = |kept: &Accumulator| matches!(kept.accumulate, Accumulate::First | Accumulate::Last);
        windows && window.accumulators.iter().any(is_ordered)
    };
    if windows().any(is_merged) {
        let place = locations.only(&["first_value", "last_value"]);
        notes.add(place, "Flink has FIRST_VALUE and LAST_VALUE in windows of TUMBLE only");
    }
    let has_time = |window: &WindowAggregate| window.bounds == window.window && is_by_time(&window.window);
    if windows().any(has_time) {
        notes.add(
            locations.window,
            "a window closes when the watermark reaches its end, and in Flink a millisecond before: \
             rows that come in between are in time here, and late there",
        );
    }
    // Numbers of rows may be the first rows of each key, which Flink keeps in another way.
    let numbers_rows = |call: &OverCall| matches!(call.function, OverFunction::RowNumber);
    if program.overs().any(|over| over.frame_end().is_some()) {
        let note = "Flink takes LEAD, and frames that end after the row, in its batch mode only";
        notes.add(locations.following_over(), note);
    } else if program.overs().any(|over| over.time.is_some() && !over.calls.iter().all(numbers_rows)) {
        let note = "a row at the watermark is in time for functions OVER rows, and in Flink it is late";
        notes.add(locations.first_over(), note);
    }
    for lookup in &program.lookups {
        let tables: Vec<&str> = lookup.program.sources.iter().map(|source| source.table.as_str()).collect();
        let place = tables.iter().find_map(|table| locations.table(table));
        let note = format!(
            "the join with {} loads it once, when the query starts; Flink keeps both sides of such a join in state",
            tables.join(", ")
        );
        notes.add(place, note);
    }
}

/// Whether windows end with time.
fn is_by_time(window: &Window) -> bool {
    !window.counts_rows() && *window != Window::Global
}

fn note_plan(node: &LogicalPlan, locations: &SourceLocations, notes: &mut Notes) {
    if let LogicalPlan::Window(over) = node
        && has_several_overs(over)
    {
        let note = "Flink wants all functions OVER rows of a query to have the same keys and the same frame";
        notes.add(locations.other_over(), note);
    }
}

/// Whether a SELECT calls functions OVER rows of several keys, of which each is a step of its plan, or frames.
fn has_several_overs(over: &Over) -> bool {
    let frames = over.window_expr.iter().filter_map(|expression| match expression.clone().unalias_nested().data {
        // Flink has none such, which is another note's.
        Expr::WindowFunction(call) if call.fun.name() == RESULT_KIND => None,
        // These look at all rows before, whatever frame is written.
        Expr::WindowFunction(call)
            if matches!(call.fun.name(), "row_number" | "rank" | "dense_rank" | "lag" | "lead") =>
        {
            Some(None)
        }
        Expr::WindowFunction(call) => {
            let frame = call.params.window_frame;
            let is_all_rows = frame.units == WindowFrameUnits::Rows && frame.start_bound.is_unbounded();
            Some((!is_all_rows).then_some(frame))
        }
        _ => None,
    });
    matches!(*over.input, LogicalPlan::Window(_)) || frames.collect::<HashSet<_>>().len() > 1
}
