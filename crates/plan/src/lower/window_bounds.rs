//! Bounds of windows, computed from the times of rows.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{Expr, ExprSchemable, cast};
use pelton_data::Micros;
use pelton_data::window::Window;

use super::scope::WINDOW;
use super::unbound::{Branch, Cut};
use crate::bind::window_columns::WINDOW_COLUMNS;
use crate::errors::{PlanError, external};

/// The bound of its window, by its position in [`WINDOW_COLUMNS`], that an expression is.
pub(crate) fn named_bound(expression: &Expr) -> Option<usize> {
    let Expr::Column(column) = expression else { return None };
    let is_bound = column.relation.as_ref().is_some_and(|relation| relation.table() == WINDOW);
    WINDOW_COLUMNS.iter().position(|name| is_bound && *name == column.name)
}

/// Replaces columns of a window function by what they are computed from, for expressions other than keys.
pub(crate) fn materialize(expression: Expr, branch: &Branch) -> Result<Expr> {
    let Some(cut) = &branch.cut else { return Ok(expression) };
    let replaced = expression.transform_up(|node| {
        let Some(bound) = named_bound(&node) else { return Ok(Transformed::no(node)) };
        let data_type = node.get_type(branch.scope.as_ref())?;
        let (Window::Tumbling { size, offset }, Some(time)) = (cut.window, &cut.time) else {
            return Err(external(untold_bound(cut, bound)));
        };
        let bounds = Bounds { stride: size, offset, start: 0, end: size, may_be_outside: false };
        Ok(Transformed::yes(window_bound(time, &bounds, bound, &data_type)?))
    })?;
    Ok(replaced.data)
}

/// The error for a bound that a row's time does not tell.
fn untold_bound(cut: &Cut, bound: usize) -> PlanError {
    let whose = match cut.window {
        Window::Session { .. } => "whose session is not over",
        window if window.counts_rows() => "that is counted",
        Window::Zoned(_) => "whose window is one by the clocks of a time zone",
        _ => "that is in several windows",
    };
    let construct = format!("{} of a row {whose}", WINDOW_COLUMNS[bound]);
    PlanError::unsupported(cut.place, construct, "GROUP BY window_start, window_end, or use TUMBLE")
}

/// Where one of a row's windows lies: by how much it begins and ends behind the last of the times, `stride` apart, that is not behind the row's.
pub(crate) struct Bounds {
    pub stride: Micros,
    pub offset: Micros,
    pub start: Micros,
    pub end: Micros,
    /// Whether a row may lie behind the window.
    pub may_be_outside: bool,
}

/// A time in microseconds.
pub(crate) fn ticks(time: &Expr) -> Expr {
    cast(cast(time.clone(), DataType::Timestamp(TimeUnit::Microsecond, None)), DataType::Int64)
}

/// Start, end or last millisecond of a row's window, as arithmetic on the ticks of its time.
pub(crate) fn window_bound(time: &Expr, bounds: &Bounds, bound: usize, data_type: &DataType) -> Result<Expr> {
    let number = |micros: Micros| Expr::Literal(ScalarValue::Int64(Some(micros)), None);
    let later = |instant: Expr, micros: Micros| if micros == 0 { instant } else { instant + number(micros) };
    let micros = ticks(time);
    let stride = || number(bounds.stride);
    // The remainder of a negative number is negative: add the stride and take it again.
    let since_offset = if bounds.offset == 0 { micros.clone() } else { micros.clone() - number(bounds.offset) };
    let before = micros - ((since_offset % stride()) + stride()) % stride();
    let instant = later(before, [bounds.start, bounds.end, bounds.end - 1_000][bound]);
    Ok(cast(cast(instant, DataType::Timestamp(TimeUnit::Microsecond, None)), data_type.clone()))
}
