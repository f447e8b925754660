//! Rows that are cut into sessions: the bounds of a row's session are known when it is over.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion_common::Result;
use datafusion_expr::expr::WindowFunction;
use datafusion_expr::{Expr, LogicalPlan, WindowFunctionDefinition};
use pelton_data::window::Window;

use crate::bind::over_functions::window_function;
use crate::bind::window_columns::WINDOW_COLUMNS;
use crate::errors::{PlanError, external};
use crate::lower::Lowering;
use crate::lower::ranking::ROW_NUMBER;
use crate::lower::scope::{INPUT, column_of};
use crate::lower::unbound::{Branch, Relation};

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
        let partition: Vec<usize> = (0..columns.len()).filter(is_of_partition).collect();
        relation.branches.iter().try_for_each(|branch| self.check_partition_of_sessions(branch, &partition))?;
        let row_number = window_function(ROW_NUMBER).expect("rows are numbered");
        let mut function = WindowFunction::new(WindowFunctionDefinition::WindowUDF(row_number), Vec::new());
        function.params.partition_by =
            partition.into_iter().map(|index| Expr::Column(columns[index].clone())).collect();
        let field = Arc::new(Field::new(ROW_NUMBER, DataType::Int64, false));
        let mut numbered = self.number_rows(&[&function], &[field], relation, plan)?;
        for branch in &mut numbered.branches {
            // The number of the row.
            branch.columns.pop();
        }
        Ok(numbered)
    }

    /// Refuses rows of sessions without a column that tells which session a row is in: its bounds, and what the sessions are partitioned by.
    fn check_partition_of_sessions(&self, branch: &Branch, partition: &[usize]) -> Result<()> {
        let Some(cut) = branch.cut.as_ref().filter(|cut| matches!(cut.window, Window::Session { .. })) else {
            let message = "the parts of a UNION ALL that is joined by windows have windows that are not the same";
            return Err(external(PlanError::invalid(self.locations.join, message)));
        };
        let columns = || partition.iter().map(|&index| &branch.columns[index]);
        let bounds: Vec<_> = columns().filter_map(|column| self.bound(branch, column)).collect();
        let has_bound = |wanted: &usize| bounds.iter().any(|(_, bound)| bound == wanted);
        let lacking_bound = (0..2).find(|bound| !has_bound(bound)).map(|bound| WINDOW_COLUMNS[bound].to_string());
        let lacking_key = cut.keys.iter().find(|key| !columns().any(|column| column == *key));
        let key_name = |key: &Expr| column_of(key, INPUT).map_or_else(|| key.to_string(), |column| column.name.clone());
        let Some(lacking) = lacking_bound.or_else(|| lacking_key.map(key_name)) else { return Ok(()) };
        let message = format!("a join of the rows of sessions lacks {lacking}, which tells the sessions apart");
        let hint = "select window_start, window_end and the PARTITION BY columns of the sessions on both sides";
        Err(external(PlanError::invalid(self.locations.join, message).with_hint(hint)))
    }
}
