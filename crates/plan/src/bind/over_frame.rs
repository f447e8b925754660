//! Frames: `ROWS BETWEEN … AND …` and `RANGE BETWEEN … AND …`, from before the row or with it to the row or behind it.

use datafusion_common::ScalarValue;
use datafusion_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use pelton_data::over::Frame;
use sqlparser::ast;
use sqlparser::ast::Spanned;

use crate::coerce::lengths::micros_of_length;
use crate::errors::{Place, PlanError};
use crate::parse::interval_micros;

/// What OVER is written as.
const FORM: &str = "write OVER ([PARTITION BY key, …] ORDER BY time_column \
                    [ROWS BETWEEN 9 PRECEDING AND CURRENT ROW | RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW])";

/// Refuses what is written in OVER and cannot be planned, while its place is known. `place` is the function's or the window's.
pub(crate) fn check(window: &ast::WindowSpec, place: Option<Place>) -> Result<(), PlanError> {
    if let Some(name) = &window.window_name {
        let hint = "write OVER and the name alone, or the whole window";
        return Err(PlanError::unsupported(Place::of(name.span), "a named window inside OVER (…)", hint));
    }
    let Some(first) = window.order_by.first() else {
        return Err(PlanError::invalid(place, "OVER lacks the ORDER BY of a time attribute").with_hint(FORM));
    };
    let order = Place::of(first.expr.span()).or(place);
    window.window_frame.as_ref().map_or(Ok(()), |frame| check_frame(frame, order))
}

fn check_frame(frame: &ast::WindowFrame, place: Option<Place>) -> Result<(), PlanError> {
    let refused = |construct: &str| Err(PlanError::unsupported(place, construct, FORM));
    match (&frame.start_bound, &frame.end_bound) {
        (_, Some(ast::WindowFrameBound::Preceding(_))) => return refused("a frame that ends before the row"),
        (ast::WindowFrameBound::Following(_), _) => return refused("a frame that begins after the row"),
        _ if frame.units == ast::WindowFrameUnits::Groups => return refused("GROUPS"),
        _ => {}
    }
    if let ast::WindowFrameBound::Preceding(Some(bound)) = &frame.start_bound {
        check_bound(frame.units, bound, place, ("begins", "before", "PRECEDING AND CURRENT ROW"))?;
    }
    if let Some(ast::WindowFrameBound::Following(Some(bound))) = &frame.end_bound {
        check_bound(frame.units, bound, place, ("ends", "after", "PRECEDING AND 9 FOLLOWING"))?;
    }
    Ok(())
}

/// Checks how far a frame reaches. `what` says what it does there, on which side of the row, and what is written behind an example.
fn check_bound(
    units: ast::WindowFrameUnits,
    bound: &ast::Expr,
    place: Option<Place>,
    (does, side, example): (&str, &str, &str),
) -> Result<(), PlanError> {
    let place = Place::of(bound.span()).or(place);
    if units == ast::WindowFrameUnits::Range {
        return match interval_micros(bound, "the length of a frame")? {
            0.. => Ok(()),
            _ => Err(PlanError::invalid(place, "the length of a frame cannot be negative")),
        };
    }
    match bound {
        ast::Expr::Value(ast::ValueWithSpan { value: ast::Value::Number(digits, _), .. })
            if digits.bytes().all(|digit| digit.is_ascii_digit()) =>
        {
            if digits.parse::<i64>().is_ok() {
                return Ok(());
            }
            let message = format!("a frame of ROWS {does} at most {} rows {side} the row", i64::MAX);
            let all = if side == "before" { "PRECEDING" } else { "FOLLOWING" };
            Err(PlanError::invalid(place, message).with_hint(format!("write UNBOUNDED {all} for all of them")))
        }
        _ => {
            let message = format!("a frame of ROWS {does} a number of rows {side} the row, in digits");
            Err(PlanError::invalid(place, message).with_hint(format!("write ROWS BETWEEN 9 {example}")))
        }
    }
}

/// A frame as DataFusion plans it, its bounds coerced to the type of the order. `place` is the function's.
pub(crate) fn frame_of(frame: &WindowFrame, place: Option<Place>) -> Result<Frame, PlanError> {
    let refused = || PlanError::unsupported(place, format!("the frame {frame}"), FORM);
    let (preceding, following) = match (&frame.start_bound, &frame.end_bound) {
        (WindowFrameBound::Following(_), _) | (_, WindowFrameBound::Preceding(_)) => return Err(refused()),
        (WindowFrameBound::CurrentRow, end) => (None, end),
        (WindowFrameBound::Preceding(bound), end) => (Some(bound), end),
    };
    let following = match following {
        WindowFrameBound::Following(bound) => Some(bound),
        _ => None,
    };
    match frame.units {
        WindowFrameUnits::Rows => {
            let rows = |bound: Option<&ScalarValue>| match bound {
                None => Ok(Some(0)),
                Some(bound) if bound.is_null() => Ok(None),
                Some(ScalarValue::UInt64(rows)) => Ok(*rows),
                Some(_) => Err(refused()),
            };
            Ok(match (rows(preceding)?, rows(following)?) {
                (preceding, Some(0)) => Frame::Rows { preceding },
                (preceding, following) => Frame::RowsAround { preceding, following },
            })
        }
        WindowFrameUnits::Range => {
            let length = |bound: Option<&ScalarValue>| match bound {
                None => Ok(Some(0)),
                Some(bound) if bound.is_null() => Ok(None),
                Some(bound) => micros_of_length(bound, "the length of a frame")?.map(Some).ok_or_else(refused),
            };
            Ok(match (length(preceding)?, length(following)?) {
                (preceding, Some(0)) => Frame::Range { preceding },
                (preceding, following) => Frame::RangeAround { preceding, following },
            })
        }
        WindowFrameUnits::Groups => Err(refused()),
    }
}
