//! DataFusion's errors in our words, with their places.

use arrow::datatypes::DataType;
use datafusion_common::{Column, DataFusionError, SchemaError};
use pelton_data::column::sql_name;

use crate::bind::window_columns::{WINDOW_COLUMNS, renaming_hint};
use crate::errors::rephrase::{Clue, homonym, in_sql_terms};
use crate::errors::source_locations::SourceLocations;
use crate::errors::{Place, PlanError, closest, place_of, rephrase};
use crate::terms::with_sql_nested_types;

/// The error of a column that no row can hold.
pub(crate) fn unheld_column(name: &str, data_type: &DataType) -> PlanError {
    let message = format!("the column {name} has type {}, which no row can hold", sql_name(data_type));
    let hint = match data_type {
        DataType::Interval(_) | DataType::Duration(_) => "write TIMESTAMPDIFF(SECOND, earlier, later) for a number",
        DataType::Time32(_) | DataType::Time64(_) => "CAST it to STRING",
        _ => "CAST it to another type",
    };
    PlanError::invalid(None, message).with_hint(hint)
}

/// What an error says, and what is known of its place.
pub(crate) struct Diagnosis {
    /// In our words; its place is where the text says it exactly.
    pub error: PlanError,
    /// What the error is about, where its place has to be found in the text.
    pub clue: Clue,
    /// Where a construct of that kind stands first.
    construct: Option<Place>,
}

impl Diagnosis {
    /// The error with the nearest place that is known: the exact one, the one that was `found`, that of such a construct, of a subquery in an
    /// expression, or the query's.
    pub fn at(self, found: impl FnOnce(&PlanError, &Clue) -> Option<Place>, locations: &SourceLocations) -> PlanError {
        let exact = self.error.place;
        let place = exact.or_else(|| found(&self.error, &self.clue)).or(self.construct);
        let place = place.or(locations.subquery).or(locations.query);
        PlanError { place, ..self.error }
    }
}

/// What went wrong, where, and what would be right, as far as can be told without the query's text.
pub(crate) fn diagnose(error: DataFusionError, locations: &SourceLocations) -> PlanError {
    examine(error, locations).at(|_, _| None, locations)
}

/// What went wrong, and what is known of its place.
pub(crate) fn examine(error: DataFusionError, locations: &SourceLocations) -> Diagnosis {
    let mut places = Places::default();
    let own = translate(error, &mut places, locations);
    let (exact, near) = if places.is_span_near { (None, places.span) } else { (places.span, None) };
    let error = PlanError { place: own.place.or(exact), ..own };
    Diagnosis { error, clue: places.clue, construct: near.or(places.construct) }
}

/// Where an error may have happened, the first the nearest.
#[derive(Default)]
struct Places {
    /// Where DataFusion says.
    span: Option<Place>,
    /// Whether that is only near: of an operator it is the first column, of a UNION the first part.
    is_span_near: bool,
    /// Where the kind of construct stands that the error is about.
    construct: Option<Place>,
    /// How to find the construct.
    clue: Clue,
}

fn translate(error: DataFusionError, places: &mut Places, locations: &SourceLocations) -> PlanError {
    match error {
        DataFusionError::External(inner) => match inner.downcast::<PlanError>() {
            Ok(own) => *own,
            Err(other) => PlanError::invalid(None, other.to_string()),
        },
        DataFusionError::Diagnostic(diagnostic, inner) => {
            // The innermost span is the nearest.
            let own = translate(*inner, places, locations);
            places.span = places.span.or_else(|| place_of(diagnostic.span));
            own
        }
        DataFusionError::Context(_, inner) => translate(*inner, places, locations),
        DataFusionError::Shared(inner) => PlanError::invalid(None, in_sql_terms(&inner.message())),
        DataFusionError::Collection(errors) => match errors.into_iter().next() {
            Some(first) => translate(first, places, locations),
            None => PlanError::invalid(None, "the query cannot be planned"),
        },
        DataFusionError::SchemaError(error, _) => schema_error(*error, places),
        other => {
            let is_unplanned = matches!(other, DataFusionError::NotImplemented(_));
            plan_error(&other.message(), is_unplanned, places, locations)
        }
    }
}

fn schema_error(error: SchemaError, places: &mut Places) -> PlanError {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            places.span = places.span.or_else(|| place_of(field.spans.first()));
            let error = PlanError::invalid(None, format!("there is no column {}", field.flat_name()));
            places.clue = Clue::Name(field.name.clone());
            let is_named = |valid: &&Column| field.relation.is_some() && valid.relation == field.relation;
            let named: Vec<&Column> = valid_fields.iter().filter(is_named).collect();
            let valid_fields: Vec<&Column> = if named.is_empty() { valid_fields.iter().collect() } else { named };
            let names = || valid_fields.iter().map(|valid| valid.name.as_str());
            if let Some(name) = closest(&field.name, names()).filter(|name| *name != field.name) {
                return error.with_hint(format!("did you mean {name}? (names are case sensitive)"));
            }
            let homonym = valid_fields.iter().find(|valid| valid.name == field.name);
            match homonym.and_then(|homonym| homonym.relation.as_ref()) {
                Some(table) => error.with_hint(format!("did you mean {}.{}?", table.table(), field.name)),
                _ if valid_fields.is_empty() => error.with_hint("no table's columns can be used here"),
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
            places.clue = Clue::Homonym(name.clone());
            homonym(&name)
        }
    }
}

fn plan_error(message: &str, is_unplanned: bool, places: &mut Places, locations: &SourceLocations) -> PlanError {
    let message = with_sql_nested_types(message);
    let message = message.as_str();
    if let Some((error, clue)) = rephrase::of_clause(message) {
        places.is_span_near = clue == Clue::Width;
        places.clue = clue;
        return error;
    }
    let called = locations.functions.iter().find(|(name, _)| message.contains(&format!("'{name}'")));
    if let Some((name, at)) = called {
        places.construct = *at;
        // A call has two names where it is not written by the one that the function has.
        let mut names = locations.functions.iter().filter(|(other, place)| place == at && other != name);
        return function_error(name, names.next().map(|(written, _)| written.as_str()), message);
    }
    if message.contains("must appear in the GROUP BY")
        || message.contains("could not be resolved from available columns")
    {
        places.construct = locations.grouping;
        let error = PlanError::invalid(None, format!("{} is neither grouped by nor aggregated", ungrouped(message)));
        return error.with_hint("add it to GROUP BY, or aggregate it with MIN or MAX");
    }
    if let Some(error) = rephrase::of_expression(message) {
        places.is_span_near = true;
        places.construct = locations.casts.iter().find(|(to, _)| error.message.ends_with(to)).map(|(_, place)| *place);
        return error;
    }
    if message.contains("rder by ") {
        places.construct = locations.order;
    } else if message.contains("LIMIT") || message.contains("OFFSET") {
        places.construct = locations.limit;
    }
    if is_unplanned || rephrase::has_structure(message) {
        return rephrase::not_implemented(message);
    }
    PlanError::invalid(None, in_sql_terms(message))
}

/// The column that a message says is not grouped by, as the message has it: a name may have quotes of its own.
fn ungrouped(message: &str) -> &str {
    let before = message.split_once("\" must appear in the GROUP BY").map(|(before, _)| before);
    before.and_then(|before| before.split_once("column \"")).map_or("a column", |(_, column)| column)
}

/// The arguments of a call do not fit of the function `name`, which may have been `written` by another one.
fn function_error(name: &str, written: Option<&str>, message: &str) -> PlanError {
    // Functions of our own say themselves which argument does not fit, and what would.
    if let Some((_, own)) = message.split_once("user-defined coercion failed with: Error during planning: ") {
        let own = own.lines().next().unwrap_or_default().split(". No function matches").next().unwrap_or_default();
        let (own, hint) = own.split_once("; ").unwrap_or((own, "SHOW FUNCTIONS lists what there is"));
        return PlanError::invalid(None, own).with_hint(hint);
    }
    let shown = match written.unwrap_or(name) {
        "btrim" => "TRIM".to_string(),
        "strpos" => "POSITION".to_string(),
        "date_part" => "EXTRACT".to_string(),
        other => other.to_uppercase(),
    };
    if let Some(types) = rephrase::types_that_differ(message) {
        let error = PlanError::invalid(None, format!("the arguments of {shown} have no type in common{types}"));
        return error.with_hint("CAST them to one type");
    }
    if let Some((_, rest)) = message.split_once("min/max was called with ") {
        let found = rest.split(' ').next().unwrap_or("several");
        let error = PlanError::invalid(None, format!("{shown} takes one argument, and there are {found}"));
        return error.with_hint("for the least and the greatest of several values of a row write LEAST and GREATEST");
    }
    // The name of a type may have parentheses of its own, as has Timestamp(ms).
    let received = message.rsplit_once("(DataType: ").map(|(_, rest)| match rest.split_once(").") {
        Some((data_type, _)) => data_type,
        None => rest.trim_end().trim_end_matches('.').strip_suffix(')').unwrap_or(rest),
    });
    if let Some(data_type) = received {
        return PlanError::invalid(None, format!("{shown} takes no argument of type {}", in_sql_terms(data_type)));
    }
    // The types of a call are named there, and those of DataFusion's own kinds before that.
    let called = message.split_once(&format!("argument types '{name}(")).and_then(|(_, call)| call.split_once(")'."));
    if let Some((types, _)) =
        called.filter(|_| message.contains(" expects Numeric ") || message.contains(" expects String "))
    {
        return PlanError::invalid(None, format!("{shown} takes no argument of type {}", in_sql_terms(types)));
    }
    let first = message.lines().next().unwrap_or_default();
    let reason = first.split(" No function matches").next().unwrap_or_default();
    let reason = reason.split("Error during planning: ").last().unwrap_or_default();
    let reason = in_sql_terms(reason).replace(&format!("unction '{name}'"), &format!("unction {shown}"));
    PlanError::invalid(None, format!("the arguments of {shown} do not fit: {reason}"))
}
