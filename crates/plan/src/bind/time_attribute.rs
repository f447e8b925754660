//! Which columns of a plan are time attributes: columns along which watermarks run, so that windows over them close.

use datafusion_common::DFSchema;
use datafusion_expr::utils::grouping_set_to_exprlist;
use datafusion_expr::{Expr, JoinType, LogicalPlan};

use crate::bind::flat_map::FlatMapNode;
use crate::bind::references::Reference;
use crate::bind::table_scan::TableScanSource;
use crate::bind::window::WindowNode;

/// Where a time attribute comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeAttribute {
    /// A column with a watermark.
    Event,
    /// A `PROCTIME()` column.
    Processing,
    /// The `window_time` of a window function.
    Window,
}

/// Whether, and how, column `index` of a plan is a time attribute. Projections may rename and move it, not compute it.
pub(crate) fn time_attribute(plan: &LogicalPlan, index: usize) -> Option<TimeAttribute> {
    if let Some((referred, _)) = Reference::of(plan) {
        return time_attribute(referred, index);
    }
    match plan {
        LogicalPlan::TableScan(scan) => {
            let source = scan.source.downcast_ref::<TableScanSource>()?;
            let definition = &source.table.definition;
            let name = source.schema.field(index).name();
            if definition.watermark.as_ref().is_some_and(|watermark| watermark.column == *name) {
                Some(TimeAttribute::Event)
            } else if definition.processing_time_columns().any(|column| column == name) {
                Some(TimeAttribute::Processing)
            } else {
                None
            }
        }
        LogicalPlan::Projection(projection) => {
            time_attribute(&projection.input, passed_through(&projection.expr[index], projection.input.schema())?)
        }
        LogicalPlan::Filter(filter) => time_attribute(&filter.input, index),
        LogicalPlan::Window(window) if index < window.input.schema().fields().len() => {
            time_attribute(&window.input, index)
        }
        LogicalPlan::SubqueryAlias(alias) => time_attribute(&alias.input, index),
        LogicalPlan::Union(union) => {
            let mut attributes = union.inputs.iter().map(|input| time_attribute(input, index));
            let first = attributes.next()??;
            attributes.all(|other| other == Some(first)).then_some(first)
        }
        LogicalPlan::Join(join) => {
            let left = join.left.schema().fields().len();
            match join.join_type {
                JoinType::Inner | JoinType::Left if index < left => time_attribute(&join.left, index),
                JoinType::Inner | JoinType::Right if index >= left => time_attribute(&join.right, index - left),
                JoinType::LeftSemi | JoinType::LeftAnti => time_attribute(&join.left, index),
                JoinType::RightSemi | JoinType::RightAnti => time_attribute(&join.right, index),
                _ => None,
            }
        }
        LogicalPlan::Aggregate(aggregate) => {
            let grouping = grouping_set_to_exprlist(&aggregate.group_expr).ok()?;
            let index = passed_through(grouping.get(index)?, aggregate.input.schema())?;
            time_attribute(&aggregate.input, index).filter(|attribute| *attribute == TimeAttribute::Window)
        }
        plan => {
            if let Some(node) = FlatMapNode::of(plan) {
                let is_of_input = index < node.input.schema().fields().len();
                return if is_of_input { time_attribute(&node.input, index) } else { None };
            }
            // The input's time attribute is an ordinary column behind a window: only window_time has a watermark then.
            let window_time = WindowNode::of(plan)?.input.schema().fields().len() + 2;
            (index == window_time).then_some(TimeAttribute::Window)
        }
    }
}

/// Whether the rows of a plan are cut into windows that nothing has grouped them by.
pub(crate) fn is_cut(plan: &LogicalPlan) -> bool {
    if let Some((referred, _)) = Reference::of(plan) {
        return is_cut(referred);
    }
    match plan {
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Union(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Join(_) => plan.inputs().into_iter().any(is_cut),
        other => match FlatMapNode::of(other) {
            Some(node) => is_cut(&node.input),
            None => WindowNode::of(other).is_some(),
        },
    }
}

/// The names of all time attributes of a plan.
pub(crate) fn time_attributes(plan: &LogicalPlan) -> Vec<String> {
    let fields = plan.schema().fields();
    let attributes = (0..fields.len()).filter(|index| time_attribute(plan, *index).is_some());
    attributes.map(|index| fields[index].name().clone()).collect()
}

/// The input's column that an expression is, whatever its name.
pub(crate) fn passed_through(expression: &Expr, input: &DFSchema) -> Option<usize> {
    match expression {
        Expr::Alias(alias) => passed_through(&alias.expr, input),
        Expr::Column(column) => input.maybe_index_of_column(column),
        _ => None,
    }
}
