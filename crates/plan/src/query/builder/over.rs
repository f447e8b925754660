//! Functions of the rows around each row.

use std::time::Duration;

use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, Result, ScalarValue};
use datafusion_expr::expr::{AggregateFunction, WindowFunction, WindowFunctionParams};
use datafusion_expr::expr_rewriter::normalize_cols;
use datafusion_expr::utils::find_window_exprs;
use datafusion_expr::{
    Expr, LogicalPlan, LogicalPlanBuilder, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition,
};

use crate::bind::over_functions::window_function;
use crate::coerce::literals::literal;
use crate::coerce::named_casts::with_named_casts;
use crate::errors::PlanError;

/// The rows before each row that a function is computed from: `OVER (PARTITION BY … ORDER BY time …)`.
#[derive(Debug, Clone, PartialEq)]
pub struct OverWindow {
    time: Expr,
    keys: Vec<Expr>,
    units: WindowFrameUnits,
    preceding: ScalarValue,
}

impl OverWindow {
    /// `ROWS`: the row itself and `preceding` rows before it in the order of `time`, or all where there is no number.
    pub fn rows(time: Expr, preceding: Option<u64>) -> OverWindow {
        OverWindow { time, keys: Vec::new(), units: WindowFrameUnits::Rows, preceding: ScalarValue::UInt64(preceding) }
    }

    /// `RANGE`: all rows whose time is the row's own or at most `preceding` before it, or before it at all where there is no length.
    pub fn range(time: Expr, preceding: Option<Duration>) -> OverWindow {
        // As a query's text has it: the planner makes an interval of it.
        let preceding = preceding
            .map_or(ScalarValue::Null, |length| ScalarValue::Utf8(Some(format!("{} SECOND", length.as_secs_f64()))));
        OverWindow { time, keys: Vec::new(), units: WindowFrameUnits::Range, preceding }
    }

    /// Looks only at rows with the same keys.
    pub fn partition_by(self, keys: impl IntoIterator<Item = Expr>) -> OverWindow {
        OverWindow { keys: keys.into_iter().collect(), ..self }
    }

    /// An aggregate of these rows, a column for `select`.
    ///
    /// # Errors
    /// [`PlanError`] where the expression is not the call of an aggregate function.
    pub fn of(&self, aggregate: Expr) -> Result<Expr, PlanError> {
        let Expr::AggregateFunction(AggregateFunction { func, params }) = aggregate else {
            let error = PlanError::invalid(None, format!("{aggregate} is no aggregate of rows"));
            return Err(error.with_hint("call sum, count, avg, min, max or another aggregate function"));
        };
        let function = match window_function(func.name()) {
            Some(function) => WindowFunctionDefinition::WindowUDF(function),
            None => WindowFunctionDefinition::AggregateUDF(func),
        };
        Ok(self.call(
            function,
            WindowFunctionParams {
                filter: params.filter,
                null_treatment: params.null_treatment,
                distinct: params.distinct,
                ..self.params(params.args)
            },
        ))
    }

    /// `ROW_NUMBER()`: how many rows there were, the row with them, whatever the frame.
    pub fn row_number(&self) -> Expr {
        self.of_rows("row_number", Vec::new())
    }

    /// `LAG(value, rows)`: the value so many rows before, whatever the frame; NULL where there are fewer.
    pub fn lag(&self, value: Expr, rows: u32) -> Expr {
        self.of_rows("lag", vec![value, literal(i64::from(rows))])
    }

    /// `LEAD(value, rows)`: the value so many rows after, whatever the frame; NULL where there are fewer. A row leaves when those have come.
    pub fn lead(&self, value: Expr, rows: u32) -> Expr {
        self.of_rows("lead", vec![value, literal(i64::from(rows))])
    }

    fn of_rows(&self, name: &str, arguments: Vec<Expr>) -> Expr {
        let function = window_function(name).expect("it is a function of rows");
        self.call(WindowFunctionDefinition::WindowUDF(function), self.params(arguments))
    }

    fn params(&self, args: Vec<Expr>) -> WindowFunctionParams {
        let start = WindowFrameBound::Preceding(self.preceding.clone());
        WindowFunctionParams {
            args,
            partition_by: self.keys.clone(),
            order_by: vec![self.time.clone().sort(true, true)],
            window_frame: WindowFrame::new_bounds(self.units, start, WindowFrameBound::CurrentRow),
            filter: None,
            null_treatment: None,
            distinct: false,
        }
    }

    fn call(&self, fun: WindowFunctionDefinition, params: WindowFunctionParams) -> Expr {
        Expr::from(WindowFunction { fun, params })
    }
}

/// Whether any of the expressions has a function OVER rows.
pub(crate) fn has_over(expressions: &[Expr]) -> bool {
    !find_window_exprs(expressions).is_empty()
}

/// Columns over `input`, with functions OVER rows among them.
pub(crate) fn select(input: LogicalPlan, columns: Vec<Expr>) -> Result<LogicalPlan> {
    let columns = normalize_cols(columns, &input)?.into_iter().map(with_named_casts).collect::<Result<Vec<Expr>>>()?;
    let functions = find_window_exprs(&columns);
    let computed = LogicalPlanBuilder::window_plan(input, functions)?;
    let columns = columns.into_iter().map(|column| {
        let named = column.transform_down(|part| match part {
            Expr::WindowFunction(_) => {
                let name = part.schema_name().to_string();
                Ok(Transformed::new(Expr::Column(Column::from_name(name)), true, TreeNodeRecursion::Jump))
            }
            other => Ok(Transformed::no(other)),
        });
        named.map(|named| named.data)
    });
    let columns = columns.collect::<Result<Vec<Expr>>>()?;
    LogicalPlanBuilder::from(computed).project(columns)?.build()
}
