//! DataFusion's errors in our words, with their places.

use arrow::datatypes::DataType;
use datafusion_common::{DataFusionError, SchemaError, Span};

use super::landmarks::Landmarks;
use super::window::{WINDOW_COLUMNS, renaming_hint};
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
        (DataType::List(field), None) => format!("ARRAY<{}>", sql_name(field.data_type())),
        (other, None) => other.to_string(),
    }
}

/// What went wrong, where, and what would be right.
pub(super) fn diagnose(error: DataFusionError, landmarks: &Landmarks) -> PlanError {
    let mut places = Places::default();
    let own = translate(error, &mut places, landmarks);
    PlanError { place: own.place.or(places.span).or(places.construct).or(landmarks.query), ..own }
}

/// Where an error may have happened, the first the nearest.
#[derive(Default)]
struct Places {
    /// Where DataFusion says, or where the function stands that it names.
    span: Option<Place>,
    /// Where the kind of construct stands that the error is about.
    construct: Option<Place>,
}

fn place_of(span: Option<Span>) -> Option<Place> {
    let start = span?.start;
    (start.line > 0).then_some(Place { line: start.line, column: start.column })
}

fn translate(error: DataFusionError, places: &mut Places, landmarks: &Landmarks) -> PlanError {
    match error {
        DataFusionError::External(inner) => match inner.downcast::<PlanError>() {
            Ok(own) => *own,
            Err(other) => PlanError::invalid(None, other.to_string()),
        },
        DataFusionError::Diagnostic(diagnostic, inner) => {
            // The innermost span is the nearest.
            let own = translate(*inner, places, landmarks);
            places.span = places.span.or_else(|| place_of(diagnostic.span));
            own
        }
        DataFusionError::Context(_, inner) => translate(*inner, places, landmarks),
        DataFusionError::Shared(inner) => PlanError::invalid(None, in_sql_terms(&inner.message())),
        DataFusionError::Collection(errors) => match errors.into_iter().next() {
            Some(first) => translate(first, places, landmarks),
            None => PlanError::invalid(None, "the query cannot be planned"),
        },
        DataFusionError::SchemaError(error, _) => schema_error(*error, places),
        other => plan_error(&other.message(), places, landmarks),
    }
}

fn schema_error(error: SchemaError, places: &mut Places) -> PlanError {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            places.span = places.span.or_else(|| place_of(field.spans.first()));
            let error = PlanError::invalid(None, format!("there is no column {}", field.flat_name()));
            let names = || valid_fields.iter().map(|valid| valid.name.as_str());
            if let Some(name) = closest(&field.name, names()).filter(|name| *name != field.name) {
                return error.with_hint(format!("did you mean {name}? (names are case sensitive)"));
            }
            let homonym = valid_fields.iter().find(|valid| valid.name == field.name);
            match homonym.and_then(|homonym| homonym.relation.as_ref()) {
                Some(table) => error.with_hint(format!("did you mean {}.{}?", table.table(), field.name)),
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
            places.span = places.span.or_else(|| place_of(field.spans.first()));
            let hint = match WINDOW_COLUMNS.contains(&field.name.as_str()) {
                true => renaming_hint(&field.name),
                false => format!("write table.{}, with the name or alias of its table", field.name),
            };
            PlanError::invalid(None, format!("several columns are called {}", field.name)).with_hint(hint)
        }
        SchemaError::DuplicateQualifiedField { name, .. } | SchemaError::DuplicateUnqualifiedField { name } => {
            let hint = "give one of them another name with AS";
            PlanError::invalid(None, format!("two columns are called {name}")).with_hint(hint)
        }
    }
}

fn plan_error(message: &str, places: &mut Places, landmarks: &Landmarks) -> PlanError {
    if let Some((name, at)) = landmarks.functions.iter().find(|(name, _)| message.contains(&format!("'{name}'"))) {
        places.span = places.span.or(*at);
        return function_error(name, message);
    }
    if message.contains("must appear in the GROUP BY")
        || message.contains("could not be resolved from available columns")
    {
        places.construct = landmarks.grouping;
        let column = message.split(['"', '\'']).nth(1).unwrap_or("a column");
        let error = PlanError::invalid(None, format!("{column} is neither grouped by nor aggregated"));
        return error.with_hint("add it to GROUP BY, or aggregate it with MIN or MAX");
    }
    if let Some((_, condition)) = message.split_once("non-boolean predicate ") {
        places.construct = landmarks.condition;
        let condition = in_sql_terms(&condition.replace(" returning ", " is a "));
        let error = PlanError::invalid(None, format!("WHERE and HAVING need a condition, and {condition}"));
        return error.with_hint("compare it with something");
    }
    if let Some((_, types)) = message.split_once("Unsupported CAST from ") {
        let (from, to) = types.split_once(" to ").unwrap_or((types, ""));
        let to = in_sql_terms(to);
        let cast = landmarks.casts.iter().find(|(written, _)| to.starts_with(&written.to_uppercase()));
        places.construct = cast.or(landmarks.casts.first()).map(|(_, place)| *place);
        return PlanError::invalid(None, format!("{} cannot be cast to {to}", in_sql_terms(from)));
    }
    let operation = message.split_once("Cannot coerce arithmetic expression ");
    let operation = operation.or_else(|| message.split_once("Cannot infer common argument type for "));
    if let Some((_, operation)) = operation {
        let operation = operation.split_once(" operation ").map_or(operation, |(_, operands)| operands);
        let operation = operation.split(" to valid types").next().unwrap_or_default();
        let error = PlanError::invalid(None, format!("there is no {}", in_sql_terms(operation)));
        return error.with_hint("CAST one of the two");
    }
    if message.contains("different number of columns") {
        return PlanError::invalid(None, "the parts of a UNION ALL have different numbers of columns");
    }
    if message.contains("rder by ") {
        places.construct = landmarks.order;
    } else if message.contains("LIMIT") || message.contains("OFFSET") {
        places.construct = landmarks.limit;
    }
    PlanError::invalid(None, in_sql_terms(message))
}

/// The arguments of a call do not fit.
fn function_error(name: &str, message: &str) -> PlanError {
    // Functions of our own say themselves which argument does not fit, and what would.
    if let Some((_, own)) = message.split_once("user-defined coercion failed with: Error during planning: ") {
        let own = own.lines().next().unwrap_or_default().split(". No function matches").next().unwrap_or_default();
        let (own, hint) = own.split_once("; ").unwrap_or((own, "SHOW FUNCTIONS lists what there is"));
        return PlanError::invalid(None, own).with_hint(hint);
    }
    let shown = name.to_uppercase();
    let received = message.rsplit_once("(DataType: ").and_then(|(_, rest)| rest.split_once(')'));
    if let Some((data_type, _)) = received {
        return PlanError::invalid(None, format!("{shown} takes no argument of type {}", in_sql_terms(data_type)));
    }
    let first = message.lines().next().unwrap_or_default();
    let reason = first.split(" No function matches").next().unwrap_or_default();
    let reason = reason.split("Error during planning: ").last().unwrap_or_default();
    let reason = in_sql_terms(reason).replace(&format!("unction '{name}'"), &format!("unction {shown}"));
    PlanError::invalid(None, format!("the arguments of {shown} do not fit: {reason}"))
}

/// A message without DataFusion's own terms: types are named as SQL does, and internals are left out.
fn in_sql_terms(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    let first = first.trim_start_matches("Cast error: ");
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
        // A name in capitals stays.
        Some(initial) if characters.as_str().starts_with(char::is_lowercase) => {
            initial.to_lowercase().chain(characters).collect()
        }
        Some(_) => text.to_string(),
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
