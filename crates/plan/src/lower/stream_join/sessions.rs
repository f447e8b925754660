//! Rows that are cut into sessions: the bounds of a row's session are known when it is over.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion_common::Result;
use datafusion_expr::expr::WindowFunction;
use datafusion_expr::{Expr, LogicalPlan, WindowFunctionDefinition};
use pelton_data::window::Window;

use crate::bind::over_functions::window_function;
use crate::lower::Lowering;
use crate::lower::ranking::ROW_NUMBER;
use crate::lower::unbound::Relation;

impl Lowering<'_> {
    /// The same rows with the bounds of their sessions, where they are cut into these: all rows of each session are kept and numbered, as those of a top-N are.
    pub(super) fn with_bounds_of_sessions(&mut self, relation: Relation, plan: &LogicalPlan) -> Result<Relation> {
        let Some(cut) = relation.branches[0].cut.clone() else { return Ok(relation) };
        if !matches!(cut.window, Window::Session { .. }) {
            return Ok(relation);
        }
        let branch = &relation.branches[0];
        let columns = plan.schema().columns();
        let is_of_partition = |index: &usize| {
            let column = &branch.columns[*index];
            self.bound(branch, column).is_some_and(|(_, bound)| bound < 2) || cut.keys.contains(column)
        };
        let partition = (0..columns.len()).filter(is_of_partition);
        let row_number = window_function(ROW_NUMBER).expect("rows are numbered");
        let mut function = WindowFunction::new(WindowFunctionDefinition::WindowUDF(row_number), Vec::new());
        function.params.partition_by = partition.map(|index| Expr::Column(columns[index].clone())).collect();
        let field = Arc::new(Field::new(ROW_NUMBER, DataType::Int64, false));
        let mut numbered = self.number_rows(&[&function], &[field], relation, plan)?;
        for branch in &mut numbered.branches {
            // The number of the row.
            branch.columns.pop();
        }
        Ok(numbered)
    }
}
