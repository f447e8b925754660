//! Messages of DataFusion's planner in the words of SQL.

use crate::errors::PlanError;
use crate::parse::{CONSTRUCTORS, unknown_type};
use crate::terms::{no_decimal, no_value, with_sql_types};

/// What kind of construct an error is about.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Clue {
    /// An expression that cannot be planned by itself either.
    #[default]
    Expression,
    /// An expression that has to be a condition.
    Condition,
    /// An aggregate where there can be none.
    Aggregate,
    /// The second column of this name.
    Homonym(String),
    /// A number that stands for a column.
    Position(String),
    /// A part of UNION ALL that has not as many columns as the first.
    Width,
    /// A name that stands for nothing: of a window, of a table before `.*`, of a column in USING.
    Name(String),
    /// A row of VALUES, counted from 0.
    Row(usize),
    /// The names of a table's columns behind AS.
    Columns,
}

/// An error about a clause of the query, and how to find its place.
pub(crate) fn of_clause(message: &str) -> Option<(PlanError, Clue)> {
    let invalid = |message: String| PlanError::invalid(None, message);
    let condition = message.split_once("non-boolean predicate ").map(|(_, found)| {
        let (what, data_type) = found.split_once(" returning ").unwrap_or((found, "another value"));
        format!("WHERE and HAVING need a condition, and {what} is {}", with_article(&in_sql_terms(data_type)))
    });
    let joined = || message.split_once("Join condition must be boolean type, but got ");
    let joined = || joined().or_else(|| message.split_once("oin condition must be boolean type, but got "));
    let condition = condition
        .or_else(|| joined().map(|(_, found)| format!("ON needs a condition, and this is {}", in_sql_terms(found))));
    if let Some(condition) = condition {
        return Some((invalid(condition).with_hint("compare it with something"), Clue::Condition));
    }
    if message.contains("not allowed in the WHERE clause") {
        let error = invalid("WHERE takes rows one by one, and has no aggregates".to_string());
        return Some((error.with_hint("write it as HAVING behind GROUP BY"), Clue::Aggregate));
    }
    if message.contains("Aggregate function calls cannot be nested") {
        let error = invalid("an aggregate takes rows, not another aggregate".to_string());
        return Some((error.with_hint("compute the inner one in a view or subquery"), Clue::Aggregate));
    }
    if let Some((_, rest)) = message.split_once("Cannot find column with position ") {
        let (position, last) = rest.split_once(" in SELECT clause. Valid columns: 1 to ")?;
        let error = invalid(format!("there is no column {position} in SELECT"));
        return Some((error.with_hint(format!("there are 1 to {last}")), Clue::Position(position.to_string())));
    }
    if let Some((_, rest)) = message.split_once("rder by column out of bounds, specified: ") {
        let (position, last) = rest.split_once(", max: ")?;
        let error = invalid(format!("there is no column {position} to order by"));
        return Some((error.with_hint(format!("there are 1 to {last}")), Clue::Position(position.to_string())));
    }
    if message.contains("different number of columns") {
        let operation = ["INTERSECT", "EXCEPT"].into_iter().find(|operation| message.contains(operation));
        let operation = operation.map_or_else(|| "a UNION ALL".to_string(), |operation| format!("an {operation}"));
        let error = invalid(format!("the parts of {operation} have different numbers of columns"));
        return Some((error.with_hint("select as many columns as the first part does"), Clue::Width));
    }
    if let Some((_, rest)) = message.split_once("ncompatible inputs for Union: Previous inputs were of type ") {
        let (first, rest) = rest.split_once(", but got incompatible type ")?;
        let (other, column) = rest.split_once(" on column '")?;
        let (first, other) = (in_sql_terms(first), in_sql_terms(other));
        let column = column.split('\'').next()?;
        let error = invalid(format!("the column {column} of a UNION ALL is {other}, and {first} in a part before"));
        return Some((error.with_hint("CAST them to one type"), Clue::Width));
    }
    if message.contains("require unique expression names") {
        let (_, second) = message.split_once(" and \"")?;
        let name = second.split('"').next()?.rsplit(" AS ").next()?;
        return Some((homonym(name), Clue::Homonym(name.to_string())));
    }
    if let Some((_, qualifier)) = message.split_once("Invalid qualifier ") {
        let error = invalid(format!("there is no table {qualifier} in FROM"));
        let hint = "write the name that a table has in FROM, or its alias, before .*; the fields of a ROW are written one by one";
        return Some((error.with_hint(hint), Clue::Name(qualifier.to_string())));
    }
    if let Some((_, window)) = message.split_once("The window ") {
        let name = window.split(" is not defined").next()?;
        let hint = format!("write WINDOW {name} AS (PARTITION BY … ORDER BY …) behind FROM");
        return Some((invalid(format!("there is no window {name}")).with_hint(hint), Clue::Name(name.to_string())));
    }
    of_values(message)
}

fn of_values(message: &str) -> Option<(PlanError, Clue)> {
    if let Some((_, rest)) = message.split_once("Inconsistent data length across values list: got ") {
        let (found, rest) = rest.split_once(" values in row ")?;
        let (row, expected) = rest.split_once(" but expected ")?;
        let expected = expected.split(|letter: char| !letter.is_ascii_digit()).next()?;
        let error =
            PlanError::invalid(None, format!("this row of VALUES has {found} values, and the first {expected}"));
        return Some((error.with_hint("give all rows as many values"), Clue::Row(row.parse().ok()?)));
    }
    if let Some((_, rest)) = message.split_once("Inconsistent data type across values list at row ") {
        let (row, rest) = rest.split_once(" column ")?;
        let (column, types) = rest.split_once(". Was ")?;
        let (before, found) = types.split_once(" but found ")?;
        let (before, found) = (in_sql_terms(before), in_sql_terms(found));
        let column = column.parse::<usize>().ok()? + 1;
        let error = PlanError::invalid(None, format!("column {column} of VALUES is {before}, and {found} in this row"));
        return Some((error.with_hint("CAST them to one type"), Clue::Row(row.parse().ok()?)));
    }
    let (_, rest) = message.split_once("Source table contains ")?;
    let (width, rest) = rest.split_once(" columns but only ")?;
    let named = rest.split(" names given").next()?;
    let error = PlanError::invalid(None, format!("the table has {width} columns, and {named} are named behind AS"));
    Some((error.with_hint("name all of them, or none"), Clue::Columns))
}

/// A type's name behind its article.
fn with_article(name: &str) -> String {
    let article = if name.starts_with(['A', 'I']) { "an" } else { "a" };
    format!("{article} {name}")
}

/// Two columns have one name.
pub(crate) fn homonym(name: &str) -> PlanError {
    PlanError::invalid(None, format!("two columns are called {name}"))
        .with_hint("give one of them another name with AS")
}

/// What stands before the operands that an operator does not take.
const OPERATIONS: [&str; 10] = [
    "Cannot coerce arithmetic expression ",
    "Cannot get result type for arithmetic operation ",
    "Cannot get result type for temporal operation ",
    "Cannot get result type for decimal operation ",
    "Cannot infer common argument type for comparison operation ",
    "Cannot infer common argument type for logical boolean operation ",
    "Cannot infer common argument type for regex operation ",
    "Cannot infer common argument type for operation ",
    "Cannot infer common type for bitwise operation ",
    "Cannot infer common string type for string concat operation ",
];

/// An error about an expression.
pub(crate) fn of_expression(message: &str) -> Option<PlanError> {
    let no_such = |operation: &str, hint: &str| {
        Some(PlanError::invalid(None, format!("there is no {}", in_sql_terms(operation))).with_hint(hint))
    };
    if let Some((_, types)) = message.split_once("Unsupported CAST from ") {
        let (from, to) = types.split_once(" to ").unwrap_or((types, ""));
        let message = format!("{} cannot be cast to {}", in_sql_terms(from), in_sql_terms(to));
        return Some(PlanError::invalid(None, message));
    }
    if let Some((_, operation)) = OPERATIONS.iter().find_map(|operation| message.split_once(operation)) {
        let operation = operation.split(" to valid types").next()?.split(": ").next()?;
        let is_of_interval = operation.contains("Interval") && operation.contains(['*', '/']);
        let hint = match is_of_interval {
            true => "write TIMESTAMPADD(DAY, number, time), or a literal such as INTERVAL '3' DAY",
            false => "CAST one of the two",
        };
        return no_such(operation, hint);
    }
    if let Some((_, data_type)) = message.split_once("annot run range queries on datatype: ") {
        let data_type = in_sql_terms(data_type);
        let error = PlanError::invalid(None, format!("OVER cannot be ordered by a value of type {data_type}"));
        return Some(error.with_hint("order by a time, a number or a text"));
    }
    if let Some((_, rest)) = message.split_once("There isn't a common type to coerce ") {
        let (left, rest) = rest.split_once(" and ")?;
        let (right, operator) = rest.split_once(" in ")?;
        let operator = operator.split(" expression").next()?;
        return no_such(&format!("{left} {operator} {right}"), "CAST one of the two");
    }
    if let Some((_, rest)) = message.split_once("Can not find compatible types to compare ") {
        let (left, list) = rest.split_once(" with ")?;
        let list = list.trim_matches(['[', ']']);
        return no_such(&format!("{left} IN ({list})"), "CAST them to one type");
    }
    if let Some((_, rest)) = message.split_once("Failed to coerce types ") {
        let (value, rest) = rest.split_once(" and ")?;
        let bound = rest.split(" in BETWEEN").next()?;
        return no_such(&format!("{value} BETWEEN {bound}"), "CAST one of the two");
    }
    if let Some(types) = message.split_once("Failed to coerce then (").or(message.split_once("Failed to coerce case ("))
    {
        let is_operand = message.contains("coerce case (");
        let types = types.1.split(" to common types").next()?;
        let types = types.strip_suffix(')').unwrap_or(types);
        let (first, second) = types.split_once(") and ")?;
        let second = second.split_once('(')?.1;
        let what = if is_operand { "the values that CASE compares" } else { "the results of CASE" };
        let (first, second) = (in_sql_terms(first), in_sql_terms(second));
        let error = PlanError::invalid(None, format!("{what} have no type in common: {first} and {second}"));
        return Some(error.with_hint("CAST them to one type"));
    }
    of_operand(message).or_else(|| of_literal(message))
}

/// An operator with one operand that it does not take, or a type that there is not.
fn of_operand(message: &str) -> Option<PlanError> {
    if let Some((_, data_type)) = message.split_once("'NOT' requires a boolean expression, got ") {
        let found = with_article(&in_sql_terms(data_type));
        let error = PlanError::invalid(None, format!("NOT takes a condition, not {found}"));
        return Some(error.with_hint("compare it with something"));
    }
    if message.contains("nary operator '-' only supports") {
        let error = PlanError::invalid(None, "the sign - stands before numbers and intervals only");
        return Some(error.with_hint("CAST the value to a number"));
    }
    let (_, name) = message.split_once("Unsupported SQL type ")?;
    let name = name.split([' ', '(', '<']).next()?.to_uppercase();
    if matches!(name.as_str(), "ROW" | "ARRAY" | "MAP") {
        return Some(PlanError::unsupported(None, format!("CAST to {name}"), CONSTRUCTORS));
    }
    Some(unknown_type(&name, None))
}

/// A number that a type does not hold, and that type.
fn no_number(message: &str) -> Option<(String, String)> {
    let (_, rest) = message.split_once("an't cast value ")?;
    let (number, data_type) = rest.split_once(" to type ")?;
    Some((number.to_string(), in_sql_terms(data_type)))
}

/// Whether a message has a structure of the planner's own in it, as Rust prints it.
pub(crate) fn has_structure(message: &str) -> bool {
    message.contains(" { ") || message.contains("([") || message.contains("(\"")
}

/// What the planner does not do. A structure of its own in the message is left out.
pub(crate) fn not_implemented(message: &str) -> PlanError {
    let hint = "write it in another way: SHOW FUNCTIONS lists what there is";
    if has_structure(message) {
        return PlanError::unsupported(None, "this expression", hint);
    }
    let terms = in_sql_terms(message);
    if terms.contains("supported") {
        return PlanError::invalid(None, terms).with_hint(hint);
    }
    PlanError::unsupported(None, terms, hint)
}

/// A string or number that is no value of the type that it must have.
fn of_literal(message: &str) -> Option<PlanError> {
    if let Some(problem) = no_decimal(message) {
        return Some(
            PlanError::invalid(None, problem).with_hint("CAST to a DECIMAL of more digits, or TRY_CAST for NULL"),
        );
    }
    let (text, data_type) = match no_number(message) {
        Some(number) => number,
        None => no_value(message).map(|(text, data_type)| (format!("'{text}'"), data_type))?,
    };
    let hint = match data_type.split('(').next().unwrap_or_default() {
        "DATE" => "write it as '2024-12-31'",
        "TIMESTAMP" | "TIMESTAMP_LTZ" => "write it as '2024-12-31 23:59:59.999'",
        "TIME" => "write it as '23:59:59'",
        "BOOLEAN" => "write TRUE or FALSE",
        "TINYINT" | "SMALLINT" | "INT" | "BIGINT" => "write a whole number within the range of the type",
        _ => "write a number such as 12.5",
    };
    Some(PlanError::invalid(None, format!("{text} is not a valid {data_type}")).with_hint(hint))
}

/// Whether a function cannot bring its arguments to one type; as the end of a sentence, which these are where the message has them.
pub(crate) fn types_that_differ(message: &str) -> Option<String> {
    if message.contains("Fail to find the coerced type") {
        let received = message.split_once("argument types '").and_then(|(_, call)| call.split_once(")'."));
        let types = received.and_then(|(call, _)| call.split_once('('));
        return Some(types.map_or(String::new(), |(_, types)| format!(": {}", in_sql_terms(types))));
    }
    let (types, _) = message.split_once(" is not comparable")?;
    let (_, types) = types.rsplit_once("' ").or_else(|| types.rsplit_once(" function "))?;
    Some(format!(": {}", in_sql_terms(types)))
}

/// A message without DataFusion's own terms: types are named as SQL does, and internals are left out.
pub(crate) fn in_sql_terms(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    let first = first.trim_start_matches("Cast error: ");
    let first = first.split("This issue was likely caused by a bug").next().unwrap_or_default();
    let text = with_sql_types(first);
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
