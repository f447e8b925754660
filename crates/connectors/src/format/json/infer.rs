//! The types of the members of a JSON file's objects, nested ones among them.
//!
//! What is an object in all rows is a ROW of all its members, and an array an ARRAY of the type that its elements have in common. Objects of very many members, or of none, are MAPs. What is an
//! object in one row and something else in another is a STRING, as is what lies too deep.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields};
use pelton_data::column::{MAP_ENTRIES, MAP_KEY, MAP_VALUE};
use pelton_data::json::unescape;

use super::split::{elements, members};
use crate::format::column::FieldRules;
use crate::format::infer::Candidates;
use crate::format::split::Span;

/// Different members from which on an object is taken for a MAP.
const MAP_MEMBERS_MIN: usize = 200;

/// How deep ROW, ARRAY and MAP are inferred in each other.
const DEPTH_MAX: usize = 20;

/// What the values of a member could be, all that were seen.
#[derive(Default)]
pub(crate) struct Shape {
    /// Of those that are neither objects nor arrays.
    flat: Option<Candidates>,
    object: Option<Members>,
    array: Option<Box<Shape>>,
    /// Whether something was seen that is not valid JSON, or lies too deep.
    is_text: bool,
}

/// The members of objects, in the order in which they first came.
#[derive(Default)]
struct Members {
    names: Vec<String>,
    shapes: Vec<Shape>,
    places: HashMap<Vec<u8>, usize>,
}

impl Shape {
    /// Takes another value into account, which lies so deep in others.
    pub(crate) fn add(&mut self, bytes: &[u8], span: Span, rules: &FieldRules, depth: usize) {
        if span.is_null() {
            return;
        }
        let range = span.range();
        let opening = if span.is_quoted() { None } else { bytes.get(range.start) };
        let text = &bytes[..range.end];
        let end = match opening {
            Some(b'{' | b'[') if depth == DEPTH_MAX => None,
            Some(b'{') => {
                let object = self.object.get_or_insert_default();
                members(text, range.start, |key, value| object.add(bytes, (key, value), rules, depth + 1)).ok()
            }
            Some(b'[') => {
                let array = self.array.get_or_insert_default();
                elements(text, range.start, |element| array.add(bytes, element, rules, depth + 1)).ok()
            }
            _ => {
                let flat = self.flat.get_or_insert(Candidates::ALL);
                flat.narrow(bytes[range.clone()].trim_ascii(), span.is_quoted(), rules);
                Some(range.end)
            }
        };
        self.is_text |= end != Some(range.end);
    }

    /// The type of the column.
    pub(crate) fn data_type(&self) -> DataType {
        match (&self.flat, &self.object, &self.array) {
            _ if self.is_text => DataType::Utf8View,
            (Some(flat), None, None) => flat.data_type(),
            (None, Some(object), None) => object.data_type(),
            (None, None, Some(array)) => DataType::List(Arc::new(Field::new_list_field(array.data_type(), true))),
            _ => DataType::Utf8View,
        }
    }

    /// Whether there are times with a `T` between date and time.
    pub(crate) fn has_iso(&self) -> bool {
        let is_time = matches!(self.data_type(), DataType::Timestamp(..));
        is_time && self.flat.is_some_and(|flat| flat.iso)
            || self.array.as_ref().is_some_and(|array| array.has_iso())
            || self.object.as_ref().is_some_and(|object| object.shapes.iter().any(Shape::has_iso))
    }

    /// What the values of both could be.
    fn merge(&mut self, other: &Shape) {
        self.is_text |= other.is_text;
        if let Some(flat) = other.flat {
            self.flat = Some(self.flat.map_or(flat, |own| own.and(flat)));
        }
        if let Some(array) = &other.array {
            self.array.get_or_insert_default().merge(array);
        }
        if let Some(object) = &other.object {
            let own = self.object.get_or_insert_default();
            for (key, place) in &object.places {
                own.of(key).merge(&object.shapes[*place]);
            }
        }
    }
}

impl Members {
    fn add(&mut self, bytes: &[u8], (key, value): (Span, Span), rules: &FieldRules, depth: usize) {
        let text = &bytes[key.range()];
        // A name that means nothing is that of no column.
        let name = if key.is_escaped() { unescape(text).map(Cow::Owned) } else { Some(Cow::Borrowed(text)) };
        if let Some(name) = name {
            self.of(&name).add(bytes, value, rules, depth);
        }
    }

    /// The member of a name.
    fn of(&mut self, key: &[u8]) -> &mut Shape {
        let place = match self.places.get(key) {
            Some(&place) => place,
            None => {
                self.places.insert(key.to_vec(), self.shapes.len());
                self.names.push(String::from_utf8_lossy(key).into_owned());
                self.shapes.push(Shape::default());
                self.shapes.len() - 1
            }
        };
        &mut self.shapes[place]
    }

    fn data_type(&self) -> DataType {
        if (1..MAP_MEMBERS_MIN).contains(&self.shapes.len()) {
            let field = |(name, shape): (&String, &Shape)| Field::new(name, shape.data_type(), true);
            return DataType::Struct(self.names.iter().zip(&self.shapes).map(field).collect());
        }
        let mut common = Shape::default();
        self.shapes.iter().for_each(|shape| common.merge(shape));
        let entries: Fields =
            [Field::new(MAP_KEY, DataType::Utf8View, false), Field::new(MAP_VALUE, common.data_type(), true)]
                .into_iter()
                .collect();
        DataType::Map(Arc::new(Field::new(MAP_ENTRIES, DataType::Struct(entries), false)), false)
    }
}

#[cfg(test)]
mod tests {
    use pelton_data::column::sql_name;

    use super::*;
    use crate::format::column::Escapes;
    use crate::format::time::TimestampFormat;

    fn inferred(values: &[&str]) -> String {
        let rules = FieldRules {
            null_literal: None,
            empty_is_null: false,
            timestamps: TimestampFormat::default(),
            escapes: Escapes::Json,
            missing_is_wrong: false,
            is_strict: false,
        };
        let mut shape = Shape::default();
        for value in values {
            let span = match *value {
                "null" => Span::NULL,
                text if text.starts_with('"') => Span::quoted(1, text.len() - 1),
                text => Span::plain(0, text.len()),
            };
            shape.add(value.as_bytes(), span, &rules, 0);
        }
        sql_name(&shape.data_type())
    }

    #[test]
    fn nested_types_are_those_of_all_values() {
        for (values, data_type) in [
            (&["null"][..], "STRING"),
            (&[r#"{"a": 1}"#, r#"{"b": "x", "a": 1.5}"#, "null"], "ROW<`a` DOUBLE, `b` STRING>"),
            (&["[1, 2]", "[]", "[null]"], "ARRAY<BIGINT>"),
            (&["[]"], "ARRAY<STRING>"),
            (&["{}"], "MAP<STRING, STRING>"),
            (&[r#"[{"a": [true]}, {"a": null}]"#], "ARRAY<ROW<`a` ARRAY<BOOLEAN>>>"),
            (&[r#"{"a": 1}"#, "[1]"], "STRING"),
            (&[r#"{"a": 1}"#, "1"], "STRING"),
            (&[r#"{"a": {"b": 1}}"#, r#"{"a": "x"}"#], "ROW<`a` STRING>"),
            (&[r#"{"\u0061": 1, "a": 2}"#], "ROW<`a` BIGINT>"),
            (&[r#"{"a": 1"#], "STRING"),
            (&[r#"{"at": "2021-07-21T10:00:00Z"}"#], "ROW<`at` TIMESTAMP_LTZ(3)>"),
        ] {
            assert_eq!(inferred(values), data_type, "{values:?}");
        }
        let members = |count: usize| (0..count).map(|at| format!("\"k{at}\": {at}")).collect::<Vec<_>>().join(", ");
        assert_eq!(inferred(&[&format!("{{{}}}", members(MAP_MEMBERS_MIN))]), "MAP<STRING, BIGINT>");
        let nested = |depth: usize| "[".repeat(depth) + "1" + &"]".repeat(depth);
        assert!(inferred(&[&nested(DEPTH_MAX)]).contains("BIGINT"));
        assert!(inferred(&[&nested(100_000)]).contains("STRING"));
    }
}
