//! Frames: `ROWS BETWEEN … AND CURRENT ROW` and `RANGE BETWEEN … AND CURRENT ROW`.

use datafusion_common::ScalarValue;
use datafusion_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use pelton_data::Micros;
use pelton_data::over::Frame;
use sqlparser::ast::{self, Spanned};

use crate::error::{Place, PlanError};
use crate::parse::interval_micros;

/// What OVER is written as.
const FORM: &str = "write OVER ([PARTITION BY key, …] ORDER BY time_column \
                    [ROWS BETWEEN 9 PRECEDING AND CURRENT ROW | RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW])";

/// Refuses what is written in OVER and cannot be planned, while its place is known. `place` is the function's or the window's.
pub(in crate::query) fn check(window: &ast::WindowSpec, place: Option<Place>) -> Result<(), PlanError> {
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
        (_, Some(ast::WindowFrameBound::Following(_))) => return refused("a frame that ends after the row"),
        (_, Some(ast::WindowFrameBound::Preceding(_))) => return refused("a frame that ends before the row"),
        (ast::WindowFrameBound::Following(_), _) => return refused("a frame that begins after the row"),
        _ => {}
    }
    let bound = match &frame.start_bound {
        ast::WindowFrameBound::Preceding(Some(bound)) => bound,
        _ if frame.units == ast::WindowFrameUnits::Groups => return refused("GROUPS"),
        _ => return Ok(()),
    };
    let bound_place = Place::of(bound.span()).or(place);
    match frame.units {
        ast::WindowFrameUnits::Groups => refused("GROUPS"),
        ast::WindowFrameUnits::Rows => match bound.as_ref() {
            ast::Expr::Value(ast::ValueWithSpan { value: ast::Value::Number(digits, _), .. })
                if digits.bytes().all(|digit| digit.is_ascii_digit()) =>
            {
                if digits.parse::<i64>().is_ok() {
                    return Ok(());
                }
                let message = format!("a frame of ROWS begins at most {} rows before the row", i64::MAX);
                Err(PlanError::invalid(bound_place, message).with_hint("write UNBOUNDED PRECEDING for all of them"))
            }
            _ => Err(PlanError::invalid(
                bound_place,
                "a frame of ROWS begins a number of rows before the row, in digits",
            )
            .with_hint("write ROWS BETWEEN 9 PRECEDING AND CURRENT ROW")),
        },
        ast::WindowFrameUnits::Range => match interval_micros(bound, "the length of a frame")? {
            0.. => Ok(()),
            _ => Err(PlanError::invalid(bound_place, "the length of a frame cannot be negative")),
        },
    }
}

/// A frame as DataFusion plans it, its bounds coerced to the type of the order. `place` is the function's.
pub(super) fn frame_of(frame: &WindowFrame, place: Option<Place>) -> Result<Frame, PlanError> {
    let refused = || PlanError::unsupported(place, format!("the frame {frame}"), FORM);
    if frame.end_bound != WindowFrameBound::CurrentRow {
        return Err(refused());
    }
    match (frame.units, &frame.start_bound) {
        (WindowFrameUnits::Rows, WindowFrameBound::CurrentRow) => Ok(Frame::Rows { preceding: Some(0) }),
        (WindowFrameUnits::Range, WindowFrameBound::CurrentRow) => Ok(Frame::Range { preceding: Some(0) }),
        (WindowFrameUnits::Rows, WindowFrameBound::Preceding(bound)) if bound.is_null() => {
            Ok(Frame::Rows { preceding: None })
        }
        (WindowFrameUnits::Range, WindowFrameBound::Preceding(bound)) if bound.is_null() => {
            Ok(Frame::Range { preceding: None })
        }
        (WindowFrameUnits::Rows, WindowFrameBound::Preceding(ScalarValue::UInt64(rows))) => {
            Ok(Frame::Rows { preceding: *rows })
        }
        (WindowFrameUnits::Range, WindowFrameBound::Preceding(bound)) => {
            Ok(Frame::Range { preceding: Some(micros_of(bound).ok_or_else(refused)?) })
        }
        _ => Err(refused()),
    }
}

fn micros_of(bound: &ScalarValue) -> Option<Micros> {
    match bound {
        ScalarValue::IntervalMonthDayNano(Some(interval)) if interval.months == 0 => {
            Some(i64::from(interval.days) * 86_400_000_000 + interval.nanoseconds / 1_000)
        }
        ScalarValue::IntervalDayTime(Some(interval)) => {
            Some(i64::from(interval.days) * 86_400_000_000 + i64::from(interval.milliseconds) * 1_000)
        }
        _ => None,
    }
}
