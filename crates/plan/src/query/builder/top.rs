//! Top-N: the first rows of windows.

use datafusion_common::{Column, Result};
use datafusion_expr::utils::columnize_expr;
use datafusion_expr::{Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder, SortExpr, WindowFrame};

use crate::bind::over_functions::window_function;
use crate::bind::window_columns::WINDOW_COLUMNS;
use crate::coerce::literals::literal;
use crate::errors::PlanError;
use crate::query::builder::{Allowed, RelationBuilder, check, of_columns, step};

/// The name of the number that [`RelationBuilder::top`] gives rows.
const ROW_NUMBER: &str = "row_number";

/// The columns that are called as the bounds of windows.
fn bounds_of(plan: &LogicalPlan) -> Option<[Column; 2]> {
    let [start, end, _] = WINDOW_COLUMNS;
    let schema = plan.schema();
    let column = |name: &str| {
        let index = (0..schema.fields().len()).find(|index| schema.field(*index).name() == name)?;
        Some(Column::from(schema.qualified_field(index)))
    };
    Some([column(start)?, column(end)?])
}

impl RelationBuilder {
    /// Top-N: numbers the rows of each window, and of each of `keys` within it, in the order of `order`, and keeps the first `rows_max`. Adds
    /// their number as the column `row_number`.
    ///
    /// # Errors
    /// [`PlanError`] where the rows are in no windows, or an expression names none of their columns.
    pub fn top(
        self,
        rows_max: usize,
        order: impl IntoIterator<Item = SortExpr>,
        keys: impl IntoIterator<Item = Expr>,
    ) -> Result<RelationBuilder, PlanError> {
        let (order, keys): (Vec<SortExpr>, Vec<Expr>) = (order.into_iter().collect(), keys.into_iter().collect());
        let expressions: Vec<Expr> = order.iter().map(|key| key.expr.clone()).chain(keys.iter().cloned()).collect();
        for expression in &expressions {
            check(expression, Allowed::Values)?;
        }
        let input = step(&[], || self.selected())?;
        let Some(bounds) = self.bounds.or_else(|| bounds_of(&input)) else {
            let hint = "cut them into windows first, or keep window_start and window_end of those that were aggregated";
            return Err(PlanError::invalid(None, "the rows are in no windows").with_hint(hint));
        };
        let plan = step(&expressions, || {
            let partition = bounds.iter().cloned().map(Expr::Column).chain(keys.iter().cloned());
            let partition = partition.map(|key| of_columns(key, &input)).collect::<Result<_>>()?;
            let order =
                order.iter().map(|key| Ok(SortExpr { expr: of_columns(key.expr.clone(), &input)?, ..key.clone() }));
            let row_number = window_function("row_number").expect("there is ROW_NUMBER");
            let number = row_number.call(Vec::new()).partition_by(partition).order_by(order.collect::<Result<_>>()?);
            // As SQL has it where no frame is written; a row's number has none.
            let number = number.window_frame(WindowFrame::new(Some(false))).build()?;
            let columns =
                (0..input.schema().fields().len()).map(|index| Column::from(input.schema().qualified_field(index)));
            let columns: Vec<Expr> = columns.map(Expr::Column).collect();
            let numbered = LogicalPlanBuilder::from(input.clone()).window([number.clone()])?.build()?;
            let number = columnize_expr(number, &numbered)?.alias(ROW_NUMBER);
            let rows_max = literal(i64::try_from(rows_max).unwrap_or(i64::MAX - 1));
            let named = LogicalPlanBuilder::from(numbered).project(columns.into_iter().chain([number]))?;
            named.filter(Expr::Column(Column::from_name(ROW_NUMBER)).lt_eq(rows_max))?.build()
        })?;
        Ok(RelationBuilder { plan, aggregated: None, bounds: Some(bounds) })
    }
}
