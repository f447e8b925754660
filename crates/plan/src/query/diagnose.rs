//! DataFusion's errors in our words, with their places.

use arrow::datatypes::DataType;
use datafusion_common::{DataFusionError, SchemaError, Span};

use super::landmarks::Landmarks;
use crate::error::{Place, PlanError, closest};
use crate::types::SqlType;

/// The SQL name of a type, or Arrow's where SQL has none.
pub(super) fn sql_name(data_type: &DataType) -> String {
    match (data_type, SqlType::from_arrow(data_type)) {
        (_, Some(sql_type)) => sql_type.to_string(),
        (DataType::Interval(_) | DataType::Duration(_), None) => "INTERVAL".to_string(),
        (DataType::Timestamp(_, None), None) => "TIMESTAMP(9)".to_string(),
        (DataType::Timestamp(_, Some(_)), None) => "TIMESTAMP_LTZ(9)".to_string(),
        (DataType::Null, None) => "NULL".to_string(),
        (other, None) => other.to_string(),
    }
}

/// What went wrong, where, and what would be right.
pub(super) fn diagnose(error: DataFusionError, landmarks: &Landmarks) -> PlanError {
    let mut place = None;
    let own = translate(error, &mut place, landmarks);
    PlanError { place: own.place.or(place).or(landmarks.query), ..own }
}

fn place_of(span: Option<Span>) -> Option<Place> {
    let start = span?.start;
    (start.line > 0).then_some(Place { line: start.line, column: start.column })
}

fn translate(error: DataFusionError, place: &mut Option<Place>, landmarks: &Landmarks) -> PlanError {
    match error {
        DataFusionError::External(inner) => match inner.downcast::<PlanError>() {
            Ok(own) => *own,
            Err(other) => PlanError::invalid(None, other.to_string()),
        },
        DataFusionError::Diagnostic(diagnostic, inner) => {
            *place = place.or_else(|| place_of(diagnostic.span));
            translate(*inner, place, landmarks)
        }
        DataFusionError::Context(_, inner) => translate(*inner, place, landmarks),
        DataFusionError::Shared(inner) => PlanError::invalid(None, in_sql_terms(&inner.message())),
        DataFusionError::Collection(errors) => match errors.into_iter().next() {
            Some(first) => translate(first, place, landmarks),
            None => PlanError::invalid(None, "the query cannot be planned"),
        },
        DataFusionError::SchemaError(error, _) => schema_error(*error, place),
        other => plan_error(&other.message(), place, landmarks),
    }
}

fn schema_error(error: SchemaError, place: &mut Option<Place>) -> PlanError {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            *place = place.or_else(|| place_of(field.spans.first()));
            let error = PlanError::invalid(None, format!("there is no column {}", field.flat_name()));
            let names = || valid_fields.iter().map(|valid| valid.name.as_str());
            let qualifiers = || valid_fields.iter().filter_map(|valid| valid.relation.as_ref().map(|r| r.table()));
            if let Some(name) = closest(&field.name, names()).filter(|name| *name != field.name) {
                return error.with_hint(format!("did you mean {name}? (names are case sensitive)"));
            }
            let tables = field.relation.as_ref().and_then(|relation| closest(relation.table(), qualifiers()));
            match tables {
                Some(table) if names().any(|name| name == field.name) => {
                    error.with_hint(format!("did you mean {table}.{}?", field.name))
                }
                _ if valid_fields.is_empty() => error,
                _ => {
                    let mut shown: Vec<&str> = Vec::new();
                    for name in names() {
                        if !shown.contains(&name) {
                            shown.push(name);
                        }
                    }
                    let more = if shown.len() > 20 { ", …" } else { "" };
                    shown.truncate(20);
                    error.with_hint(format!("there are {}{more}", shown.join(", ")))
                }
            }
        }
        SchemaError::AmbiguousReference { field } => {
            *place = place.or_else(|| place_of(field.spans.first()));
            let hint = format!("write table.{}, with the name or alias of its table", field.name);
            PlanError::invalid(None, format!("several columns are called {}", field.name)).with_hint(hint)
        }
        SchemaError::DuplicateQualifiedField { name, .. } | SchemaError::DuplicateUnqualifiedField { name } => {
            let hint = "give one of them another name with AS";
            PlanError::invalid(None, format!("two columns are called {name}")).with_hint(hint)
        }
    }
}

fn plan_error(message: &str, place: &mut Option<Place>, landmarks: &Landmarks) -> PlanError {
    let mut function = None;
    // "Failed to coerce arguments to satisfy a call to 'abs' function", "Function 'abs' expects …"
    for (name, at) in &landmarks.functions {
        if message.contains(&format!("'{name}'")) || message.contains(&format!("'{name}(")) {
            function = Some((name, at));
        }
    }
    if let Some((name, at)) = function {
        *place = place.or(Some(*at));
        let reason = in_sql_terms(message);
        let candidates = candidates(message);
        let error = PlanError::invalid(None, format!("the arguments of {} do not fit: {reason}", name.to_uppercase()));
        return if candidates.is_empty() {
            error
        } else {
            error.with_hint(format!("it can be called as {candidates}"))
        };
    }
    if message.contains("must appear in the GROUP BY")
        || message.contains("could not be resolved from available columns")
    {
        *place = place.or(landmarks.grouping);
        let column = message.split(['"', '\'']).nth(1).unwrap_or("a column");
        let error = PlanError::invalid(None, format!("{column} is neither grouped by nor aggregated"));
        return error.with_hint("add it to GROUP BY, or aggregate it with MIN or MAX");
    }
    PlanError::invalid(None, in_sql_terms(message))
}

fn candidates(message: &str) -> String {
    let listed = message.split_once("Candidate functions:").map_or("", |(_, listed)| listed);
    let lines = listed.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<String> = lines.map(in_sql_terms).collect();
    lines.join(" or ")
}

/// A message without DataFusion's own terms: types are named as SQL does, and internals are left out.
fn in_sql_terms(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    let first = first.split(" No function matches").next().unwrap_or_default();
    let first = first.split("This issue was likely caused by a bug").next().unwrap_or_default();
    let mut text = String::new();
    let mut word = String::new();
    for character in first.chars() {
        if character.is_alphanumeric() || character == '_' {
            word.push(character);
            continue;
        }
        text.push_str(sql_word(&word));
        word.clear();
        text.push(character);
    }
    text.push_str(sql_word(&word));
    let text = text.trim().trim_end_matches('.');
    let mut characters = text.chars();
    match characters.next() {
        Some(initial) => initial.to_lowercase().chain(characters).collect(),
        None => "the query cannot be planned".to_string(),
    }
}

fn sql_word(word: &str) -> &str {
    match word {
        "Utf8View" | "Utf8" | "LargeUtf8" => "STRING",
        "Int8" => "TINYINT",
        "Int16" => "SMALLINT",
        "Int32" => "INT",
        "Int64" => "BIGINT",
        "UInt8" | "UInt16" | "UInt32" | "UInt64" => "BIGINT",
        "Float32" => "FLOAT",
        "Float64" => "DOUBLE",
        "Boolean" => "BOOLEAN",
        "Date32" => "DATE",
        "Decimal128" => "DECIMAL",
        "Timestamp" => "TIMESTAMP",
        "BinaryView" | "Binary" => "BYTES",
        "Interval" | "Duration" => "INTERVAL",
        other => other,
    }
}
