//! Tables in DataFusion's logical plan.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion_common::Result;
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_expr::{Expr, LogicalPlan, TableSource};

use crate::catalog::Table;

/// Functions that are called in FROM.
pub(crate) const TABLE_FUNCTIONS: [&str; 6] = ["tumble", "hop", "cumulate", "session", "tumble_rows", "hop_rows"];

/// A table as DataFusion's planner sees it: its physical columns, a computed event time where it has one, and one column
/// for each `PROCTIME()`. Other computed columns are a projection above it.
#[derive(Debug, Clone)]
pub(crate) struct TableScanSource {
    /// The table.
    pub table: Arc<Table>,
    /// Columns with their SQL-level types.
    pub schema: SchemaRef,
    /// The expression over the physical columns of an event time that is a computed column, named as the watermark is.
    pub computed_time: Option<Expr>,
}

impl TableScanSource {
    /// Whether these are the table's columns as declared: no projection computes others above it.
    pub fn has_all_columns(&self) -> bool {
        let (declared, fields) = (&self.table.definition.columns, self.schema.fields());
        declared.len() == fields.len()
            && declared.iter().zip(fields).all(|(column, field)| column.name == *field.name())
    }
}

impl TableSource for TableScanSource {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// Whether a plan's rows end. That decides before either side is lowered which one becomes a program of its own.
pub(crate) fn is_bounded(plan: &LogicalPlan) -> Result<bool> {
    let mut is_bounded = true;
    plan.apply(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            let source = scan.source.downcast_ref::<TableScanSource>();
            is_bounded &= source.is_some_and(|source| source.table.bounded);
        }
        Ok(if is_bounded { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(is_bounded)
}
