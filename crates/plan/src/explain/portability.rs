//! What of a statement means something else, or nothing, to Flink.

use std::collections::{BTreeSet, HashSet};

use arrow::datatypes::DataType;
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan};

use crate::catalog::LATE_ROWS;
use crate::pipeline::{Program, Window};
use crate::query::Planned;
use crate::types::SqlType;

/// One line for each thing that is not portable to Flink; none where the statement is.
pub fn portability(planned: &Planned) -> Vec<String> {
    let mut notes = planned.foreign.clone();
    for (_, plan) in &planned.logical {
        // The plan is well-formed: the walk visits its nodes and fails at none.
        let _ = plan.apply(|node| {
            note_plan(node, &mut notes);
            Ok(TreeNodeRecursion::Continue)
        });
    }
    note_program(&planned.program, &mut notes);
    notes.into_iter().collect()
}

fn note_program(program: &Program, notes: &mut BTreeSet<String>) {
    if program.sources.iter().any(|source| source.table == LATE_ROWS) {
        notes.insert(format!("Flink has no table {LATE_ROWS}: it drops rows that are too late, and counts them"));
    }
    if program.windows.iter().any(|window| window.window == Window::Global) {
        notes.insert(
            "grouping without a window gives one result when the bounded input has ended; \
             in Flink's streaming mode it gives a changing result, and the same in its batch mode"
                .to_string(),
        );
    }
    if program.windows.iter().any(|window| window.window.counts_rows()) {
        notes.insert("Flink has no windows that count rows: no table functions TUMBLE_ROWS and HOP_ROWS".to_string());
    }
    if program
        .windows
        .iter()
        .any(|window| matches!(window.bounds, Window::Hopping { size, slide, .. } if size % slide != 0))
    {
        notes.insert("Flink wants the size of HOP to be a multiple of its slide".to_string());
    }
    let frames = program.overs.iter().flat_map(|over| &over.spec.calls).map(|call| call.frame);
    if program.overs.len() > 1 || frames.collect::<HashSet<_>>().len() > 1 {
        notes.insert(
            "Flink wants all functions OVER rows of a query to have the same keys and the same frame".to_string(),
        );
    }
    for lookup in &program.lookups {
        let tables: Vec<&str> = lookup.program.sources.iter().map(|source| source.table.as_str()).collect();
        notes.insert(format!(
            "the join with {} loads it once, when the query starts; Flink keeps both sides of such a join in state",
            tables.join(", ")
        ));
    }
}

fn note_plan(node: &LogicalPlan, notes: &mut BTreeSet<String>) {
    if let LogicalPlan::Aggregate(aggregate) = node {
        for expression in &aggregate.aggr_expr {
            note_aggregate(expression, &aggregate.input, notes);
        }
    }
}

fn note_aggregate(expression: &Expr, input: &LogicalPlan, notes: &mut BTreeSet<String>) {
    let Expr::AggregateFunction(call) = expression.clone().unalias_nested().data else { return };
    let Some(mut argument) = call.params.args.first() else { return };
    if let Expr::Cast(cast) = argument {
        argument = &cast.expr;
    }
    // A cast that the query writes has a name.
    while let Expr::Alias(alias) = argument {
        argument = &alias.expr;
    }
    let Ok(data_type) = argument.get_type(input.schema()) else { return };
    let Some(sql_type) = SqlType::from_arrow(&data_type) else { return };
    let (here, in_flink) = match (call.func.name(), &data_type) {
        ("avg", DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64) => {
            ("DOUBLE".to_string(), sql_type.to_string())
        }
        ("sum", DataType::Int8 | DataType::Int16 | DataType::Int32) => ("BIGINT".to_string(), sql_type.to_string()),
        (
            "var" | "var_pop" | "stddev" | "stddev_pop",
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Float32,
        ) => ("DOUBLE".to_string(), sql_type.to_string()),
        ("sum" | "avg", DataType::Float32) => ("DOUBLE".to_string(), sql_type.to_string()),
        _ => return,
    };
    let function = call.func.name().to_uppercase();
    notes.insert(format!("{function} of {sql_type} is {here}; in Flink it is {in_flink}"));
}
