//! What a query has left out of its rows: nothing is lost silently.

use pelton::progress::{OperatorState, SourceProgress};
use pelton::{Summary, progress::OperatorProgress};

use crate::lateness::{self, reasons_of_many};
use crate::print::count;

/// The warnings at the end of a query, each of one or several lines. A query that reads nothing says so too.
pub fn left_out(summary: &Summary) -> Vec<String> {
    let empty = summary.sources.iter().filter(|source| source.rows == 0 && source.left_out.is_empty());
    let mut warnings: Vec<String> = empty.map(|source| format!("{}: no row was read", source.name)).collect();
    warnings.extend(summary.sources.iter().flat_map(of_source));
    let of_all = |late: u64| format!("{} of {} rows", count(late), count(lateness::rows_read(summary).max(late)));
    for operator in summary.operators.iter().filter(|operator| operator.late_rows > 0) {
        let (name, late) = (&operator.name, of_all(operator.late_rows));
        let after = match operator.state {
            OperatorState::Windows { .. } => "their window had closed",
            _ => "the watermark had passed them",
        };
        warnings.push(format!("{name}: {late} came after {after} and were left out"));
    }
    let reasons = reasons_of_many(summary);
    if let (Some(last), false) = (warnings.last_mut(), reasons.is_empty()) {
        last.push('\n');
        last.push_str(&reasons);
    }
    warnings.extend(summary.operators.iter().filter(|operator| operator.unreported > 0).map(unreported));
    warnings
}

fn of_source(source: &SourceProgress) -> Vec<String> {
    let (name, left_out) = (&source.name, &source.left_out);
    let mut warnings = Vec::new();
    let with_errors =
        |warning: String, errors: &[String]| errors.iter().fold(warning, |lines, error| format!("{lines}\n  {error}"));
    if left_out.skipped_rows > 0 {
        let warning = format!("{name}: {} rows could not be read and were skipped", count(left_out.skipped_rows));
        warnings.push(with_errors(warning, &left_out.skipped_errors));
    }
    if left_out.null_values > 0 {
        let warning = format!("{name}: {} values could not be read and are NULL", count(left_out.null_values));
        warnings.push(with_errors(warning, &left_out.null_errors));
    }
    if left_out.dropped_rows > 0 {
        warnings.push(format!("{name}: {} rows were not read in time and were dropped", count(left_out.dropped_rows)));
    }
    warnings
}

fn unreported(operator: &OperatorProgress) -> String {
    let (name, unreported) = (&operator.name, count(operator.unreported));
    match (operator.state, operator.unreported) {
        (OperatorState::Windows { .. }, 1) => format!("{name}: stopped with 1 window open, which is not reported"),
        (OperatorState::Windows { .. }, _) => {
            format!("{name}: stopped with {unreported} windows open, which are not reported")
        }
        _ => format!(
            "{name}: stopped while {unreported} rows waited for the watermark or for later rows, which are not reported"
        ),
    }
}
