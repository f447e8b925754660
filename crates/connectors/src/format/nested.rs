//! JSON objects and arrays as ROW, ARRAY and MAP.
//!
//! A nested column is decoded as a table is: the members or elements of all its values are found first, then each part is a column of its own.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ListArray, MapArray, NullBufferBuilder, StructArray, make_array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, FieldRef, Fields as ArrowFields};
use pelton_data::json::last_of_each;
use pelton_runtime::source::AbsentColumn;

use super::absent::{NAMES_SHOWN_MAX, hint};
use super::column::{ColumnDecoder, Fields, Misfit, NestedPart, is_text_type, problem};
use super::json::split::{Order, elements, members, object};
use super::split::{Span, Split};
use super::value::Wrong;

/// Whether JSON holds values of this nested type: keys of objects are strings.
pub(crate) fn is_json_type(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(fields) => fields.iter().all(|field| is_json_type(field.data_type())),
        DataType::List(item) => is_json_type(item.data_type()),
        DataType::Map(entries, _) => {
            let pair = pair_of(entries);
            *pair[0].data_type() == DataType::Utf8View && is_json_type(pair[1].data_type())
        }
        flat => is_text_type(flat),
    }
}

/// The fields of the keys and values of a map.
pub(super) fn pair_of(entries: &Field) -> &ArrowFields {
    match entries.data_type() {
        DataType::Struct(pair) => pair,
        other => panic!("the entries of a map are pairs, not {other}"),
    }
}

/// Decodes the parts of the values of one column.
pub(super) enum Parts {
    Row { fields: ArrowFields, order: Order, decoders: Vec<ColumnDecoder>, members: Members },
    Array { item: FieldRef, offsets: Vec<i32>, decoder: Box<ColumnDecoder> },
    Map { entries: FieldRef, offsets: Vec<i32>, decoders: Box<[ColumnDecoder; 2]> },
}

/// Which members the objects had that values of a ROW were read from.
pub(super) struct Members {
    /// How many objects there were.
    objects: usize,
    /// For each field whether no object has it.
    absent: Vec<bool>,
    /// Names of the first members that no field wants.
    others: Vec<String>,
}

/// Where the values of a nested column go, apart from their parts.
pub(super) struct Values<'a> {
    pub(super) nulls: &'a mut NullBufferBuilder,
    pub(super) nullable: bool,
    /// Hears the row, and what does not fit.
    pub(super) wrong: &'a mut dyn FnMut(usize, Wrong),
}

impl Values<'_> {
    /// Where the text of an object or array begins behind its bracket; `None` for what is NULL, or wrong.
    fn begin(&mut self, bytes: &[u8], row: usize, span: Span, opening: u8) -> Option<usize> {
        if span.is_null() {
            self.nulls.append_null();
            if span == Span::MISSING {
                (self.wrong)(row, Wrong::Member);
            } else if !self.nullable && span != Span::OUTER {
                (self.wrong)(row, Wrong::Null);
            }
            return None;
        }
        let start = span.range().start;
        if span.is_quoted() || bytes[start] != opening {
            self.nulls.append_null();
            (self.wrong)(row, Wrong::Form);
            return None;
        }
        Some(start)
    }

    /// Ends a value, whose parts were read up to an `end` if they are JSON. Returns whether they count.
    fn end(&mut self, row: usize, span: Span, end: Option<usize>) -> bool {
        let is_whole = end == Some(span.range().end);
        self.nulls.append(is_whole);
        if !is_whole {
            (self.wrong)(row, Wrong::Json);
        }
        is_whole
    }
}

/// The parts of the values of an ARRAY or MAP, one behind the other.
struct Found {
    split: Split,
    /// For each part the row that it belongs to.
    rows: Vec<usize>,
}

impl Found {
    fn len(&self) -> usize {
        self.split.spans.len() / self.split.width
    }

    /// Position of a part among those of its row, from 1.
    fn position(&self, part: usize) -> usize {
        part - self.rows.partition_point(|&row| row < self.rows[part]) + 1
    }

    /// The parts of all values, which `read` adds those of one to; `offsets` says where those of each begin.
    fn of(
        width: usize,
        opening: u8,
        fields: &Fields,
        values: &mut Values<'_>,
        offsets: &mut Vec<i32>,
        read: impl Fn(&[u8], usize, &mut Vec<Span>) -> Option<usize>,
    ) -> Found {
        let bytes = fields.bytes.as_slice();
        let mut found = Found { split: Split::new(width), rows: Vec::new() };
        let before = offsets.last().copied().unwrap_or(0);
        for (row, span) in fields.spans().enumerate() {
            if let Some(start) = values.begin(bytes, row, span, opening) {
                let first = found.split.spans.len();
                let end = read(&bytes[..span.range().end], start, &mut found.split.spans);
                if !values.end(row, span, end) {
                    found.split.spans.truncate(first);
                }
                found.rows.resize(found.len(), row);
            }
            offsets.push(before + found.len() as i32);
        }
        found
    }
}

impl Parts {
    /// Decoders for the parts of values of a nested type, with room for `rows`.
    pub(super) fn new(data_type: &DataType, rows: usize) -> Parts {
        match data_type {
            DataType::Struct(fields) => Parts::Row {
                fields: fields.clone(),
                order: Order::new(),
                decoders: fields.iter().map(|field| ColumnDecoder::new(field, rows)).collect(),
                members: Members { objects: 0, absent: vec![true; fields.len()], others: Vec::new() },
            },
            DataType::List(item) => {
                let decoder = Box::new(ColumnDecoder::new(item, rows));
                Parts::Array { item: item.clone(), offsets: vec![0], decoder }
            }
            DataType::Map(entries, _) => {
                let decoders = Box::new([0, 1].map(|side| ColumnDecoder::new(&pair_of(entries)[side], rows)));
                Parts::Map { entries: entries.clone(), offsets: vec![0], decoders }
            }
            other => panic!("tables with columns of type {other} are refused when they are opened"),
        }
    }

    /// Decodes more values; `wrong` hears of those that do not fit, and of parts. See [`ColumnDecoder::extend`].
    pub(super) fn extend(
        &mut self,
        fields: &Fields,
        nulls: &mut NullBufferBuilder,
        field: &Field,
        wrong: &mut dyn FnMut(usize, Misfit),
    ) {
        let nullable = field.is_nullable();
        let mut whole = Vec::new();
        let mut values = Values { nulls, nullable, wrong: &mut |row, why| whole.push((row, why)) };
        match self {
            Parts::Row { fields: named, order, decoders, members } => {
                let split = members_of(fields, named, order, members, &mut values);
                for (place, (decoder, field)) in decoders.iter_mut().zip(named.iter()).enumerate() {
                    let part = |row: usize| (row, format!(".{}", field.name()));
                    extend_part(decoder, &Fields { split: &split, place, ..*fields }, field, &part, wrong);
                }
            }
            Parts::Array { item, offsets, decoder } => {
                let found = Found::of(1, b'[', fields, &mut values, offsets, |text, start, spans| {
                    elements(text, start, |span| spans.push(span)).ok()
                });
                let part = |at: usize| (found.rows[at], format!("[{}]", found.position(at)));
                extend_part(decoder, &Fields { split: &found.split, place: 0, ..*fields }, item, &part, wrong);
            }
            Parts::Map { entries, offsets, decoders } => {
                let rules = fields.rules;
                let found = Found::of(2, b'{', fields, &mut values, offsets, |text, start, spans| {
                    let first = spans.len();
                    let end = members(text, start, |key, value| spans.extend([key, value])).ok()?;
                    keep_last(text, first, spans, |field, span| rules.unescape(field, span).ok());
                    Some(end)
                });
                for (place, (decoder, field)) in decoders.iter_mut().zip(pair_of(entries)).enumerate() {
                    let part = |at: usize| {
                        let key = &fields.bytes.as_slice()[found.split.spans[2 * at].range()];
                        (found.rows[at], format!("['{}']", String::from_utf8_lossy(key)))
                    };
                    extend_part(decoder, &Fields { split: &found.split, place, ..*fields }, field, &part, wrong);
                }
            }
        }
        for (row, why) in whole {
            wrong(row, Misfit { why, problem: problem(why, field.data_type()), part: None });
        }
    }

    /// Adds the fields of ROWs that no object had, also where there was no object. `path` is how the values are reached.
    pub(super) fn add_absent(&self, path: &str, absent: &mut Vec<AbsentColumn>) {
        match self {
            Parts::Row { fields, decoders, members, .. } => {
                for ((field, decoder), is_absent) in fields.iter().zip(decoders).zip(&members.absent) {
                    let name = format!("{path}.{}", field.name());
                    decoder.add_absent(&name, absent);
                    if *is_absent {
                        let hint = hint(field.name(), &members.others);
                        absent.push(AbsentColumn { name, is_field: true, rows: members.objects as u64, hint });
                    }
                }
            }
            Parts::Array { decoder, .. } => decoder.add_absent(&format!("{path}[…]"), absent),
            Parts::Map { decoders, .. } => decoders[1].add_absent(&format!("{path}[…]"), absent),
        }
    }

    /// The values.
    pub(super) fn finish(self, rows: usize, nulls: Option<NullBuffer>) -> ArrayRef {
        match self {
            Parts::Row { fields, decoders, .. } => {
                let columns = decoders.into_iter().map(ColumnDecoder::finish_part).collect();
                let rows = StructArray::try_new_with_length(fields, columns, nulls, rows);
                Arc::new(rows.expect("each field was decoded for each row"))
            }
            Parts::Array { item, offsets, decoder } => {
                let offsets = OffsetBuffer::new(offsets.into());
                let lists = ListArray::try_new(item, offsets, decoder.finish_part(), nulls);
                Arc::new(lists.expect("each element was decoded"))
            }
            Parts::Map { entries, offsets, decoders } => {
                let offsets = OffsetBuffer::new(offsets.into());
                let columns = decoders.map(ColumnDecoder::finish_part).to_vec();
                let pairs = StructArray::try_new(pair_of(&entries).clone(), columns, None);
                let maps =
                    MapArray::try_new(entries, offsets, pairs.expect("keys and values are as many"), nulls, false);
                Arc::new(maps.expect("each entry was decoded"))
            }
        }
    }
}

/// The members of objects that fields want, a span for each field of each row.
fn members_of(
    fields: &Fields,
    named: &ArrowFields,
    order: &mut Order,
    seen: &mut Members,
    values: &mut Values<'_>,
) -> Split {
    let bytes = fields.bytes.as_slice();
    let others = RefCell::new(std::mem::take(&mut seen.others));
    let find = |key: &[u8]| {
        let place = named.iter().position(|field| field.name().as_bytes() == key);
        if place.is_none() {
            note_other(key, &mut others.borrow_mut());
        }
        place
    };
    let mut split = Split::new(named.len());
    for (row, span) in fields.spans().enumerate() {
        let first = split.spans.len();
        split.spans.resize(first + named.len(), Span::OUTER);
        let Some(start) = values.begin(bytes, row, span, b'{') else { continue };
        let spans = &mut split.spans[first..];
        spans.fill(if fields.rules.missing_is_wrong { Span::MISSING } else { Span::ABSENT });
        let end = object(&bytes[..span.range().end], start, order, find, |place, span| spans[place] = span);
        if values.end(row, span, end.ok()) {
            seen.objects += 1;
        } else {
            split.spans[first..].fill(Span::OUTER);
        }
    }
    for (place, is_absent) in seen.absent.iter_mut().enumerate().filter(|(_, is_absent)| **is_absent) {
        let mut spans = split.spans.iter().skip(place).step_by(split.width);
        *is_absent = spans.all(|&span| span == Span::ABSENT || span == Span::OUTER);
    }
    seen.others = others.into_inner();
    split
}

/// Notes the name of a member that no field wants, if there are not many yet.
fn note_other(key: &[u8], others: &mut Vec<String>) {
    if others.len() <= NAMES_SHOWN_MAX && !others.iter().any(|other| other.as_bytes() == key) {
        others.push(String::from_utf8_lossy(key).into_owned());
    }
}

/// Of entries from `first` on, which are keys and values by turns, keeps the last value of each key.
fn keep_last(text: &[u8], first: usize, spans: &mut Vec<Span>, unescape: impl Fn(&[u8], Span) -> Option<Vec<u8>>) {
    let entries = &spans[first..];
    let key = |entry: usize| {
        let span = entries[2 * entry];
        match span.is_escaped() {
            true => unescape(&text[span.range()], span).map_or(Cow::Borrowed(&text[span.range()]), Cow::Owned),
            false => Cow::Borrowed(&text[span.range()]),
        }
    };
    let Some(kept) = last_of_each(entries.len() / 2, key) else { return };
    let kept: Vec<Span> = kept.into_iter().flat_map(|(key, last)| [entries[2 * key], entries[2 * last + 1]]).collect();
    spans.truncate(first);
    spans.extend(kept);
}

/// Decodes parts. `part` says which row one belongs to, and how it is reached from there.
fn extend_part(
    decoder: &mut ColumnDecoder,
    fields: &Fields,
    field: &Field,
    part: &dyn Fn(usize) -> (usize, String),
    wrong: &mut dyn FnMut(usize, Misfit),
) {
    let (split, place) = (fields.split, fields.place);
    decoder.extend(fields, &mut |at, misfit| {
        let (row, step) = part(at);
        let span = split.spans[at * split.width + place];
        let part = match misfit.part {
            Some(inner) => NestedPart { path: step + &inner.path, ..inner },
            None => NestedPart {
                path: step,
                value: if span.is_null() { 0..0 } else { span.range() },
                is_required: !field.is_nullable(),
            },
        };
        let (why, problem) = match misfit.why {
            Wrong::Null => (Wrong::NullPart, problem(Wrong::NullPart, field.data_type())),
            why => (why, misfit.problem),
        };
        wrong(row, Misfit { why, problem, part: Some(part) });
    });
}

/// The same values without NULL among them: rows that had one are left out.
pub(super) fn without_nulls(array: &ArrayRef) -> ArrayRef {
    let data = array.to_data().into_builder().nulls(None).build();
    make_array(data.expect("what lies under a NULL is a value of the type"))
}
