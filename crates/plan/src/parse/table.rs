//! CREATE TABLE.

use std::collections::{BTreeMap, BTreeSet};

use sqlparser::ast::{BinaryOperator, Expr, Ident, Spanned};
use sqlparser::tokenizer::Token;

use crate::errors::{Place, PlanError, closest};
use crate::parse::column_type;
use crate::parse::interval::interval_micros;
use crate::parse::reader::Reader;
use crate::parse::statement::{
    ColumnDefinition, ColumnKind, FileTable, Named, OptionPlace, TableDefinition, WatermarkDefinition,
};
use crate::types::SqlType;

/// What stands between the parentheses after the name.
#[derive(Default)]
struct Elements {
    columns: Vec<ColumnDefinition>,
    watermark: Option<WatermarkDefinition>,
    primary_key: Vec<Named>,
    bare_names: Vec<(String, Option<Place>)>,
}

/// Reads the rest of `CREATE [TEMPORARY] TABLE`.
pub(super) fn read(reader: &mut Reader, temporary: bool) -> Result<TableDefinition, PlanError> {
    let if_not_exists = reader.if_not_exists()?;
    let Named { name, place } = reader.name("the name of the table")?;
    let file = if reader.takes("FROM") { Some(read_file(reader)?) } else { None };
    let elements = read_elements(reader)?;
    let comment = if reader.takes("COMMENT") { Some(reader.string("the comment")?) } else { None };
    let partition_keys = read_partition_keys(reader)?;
    refuse_clauses(reader)?;
    let (options, option_places) = if reader.takes("WITH") { read_options(reader)? } else { Default::default() };
    refuse_clauses(reader)?;
    let definition = TableDefinition {
        name,
        place,
        watermark: elements.watermark,
        primary_key: elements.primary_key.iter().map(|column| column.name.clone()).collect(),
        partition_keys,
        columns: elements.columns,
        has_guessed_types: false,
        file,
        comment,
        options,
        option_places,
        bare_names: elements.bare_names,
        temporary,
        if_not_exists,
    };
    if let Some(file) = &definition.file {
        check_of_file(&definition, file)?;
    }
    check(&definition, &elements.primary_key)?;
    Ok(definition)
}

/// `[PARTITIONED BY (column, …)]`
fn read_partition_keys(reader: &mut Reader) -> Result<Vec<Named>, PlanError> {
    if !reader.takes("PARTITIONED") {
        return Ok(Vec::new());
    }
    reader.word("BY")?;
    let columns = reader.column_list()?;
    Ok(columns.into_iter().map(|column| Named { place: Place::of(column.span), name: column.value }).collect())
}

/// The file behind `FROM`.
fn read_file(reader: &mut Reader) -> Result<Box<FileTable>, PlanError> {
    let found = reader.parser.peek_token();
    match super::files::take(reader)? {
        Some(file) => Ok(Box::new(file)),
        None => {
            let hint = "write CREATE TABLE t FROM 'trades.csv', or FROM read_csv('trades.csv', delim => ';')";
            Err(reader.expected("the path of a file in single quotes after FROM", &found).with_hint(hint))
        }
    }
}

/// What is declared beside a file must leave columns and options to it.
fn check_of_file(definition: &TableDefinition, file: &FileTable) -> Result<(), PlanError> {
    let stored = definition.columns.iter().find(|column| matches!(column.kind, ColumnKind::Physical { .. }));
    if let Some(column) = stored {
        let message =
            format!("the column {} is declared for a table FROM a file, which has its own columns", column.name);
        let hint = "leave it out, or write CREATE TABLE … WITH ('connector' = 'filesystem', 'path' = '…') to declare all columns";
        return Err(PlanError::invalid(column.place, message).with_hint(hint));
    }
    if let Some(places) = definition.option_places.values().next() {
        let message = "a table FROM a file takes no WITH";
        let hint = format!("write FROM read_csv({}, name => value)", format_args!("'{}'", file.path));
        return Err(PlanError::invalid(places.key, message).with_hint(hint));
    }
    Ok(())
}

/// Checks a definition once its connector has told the columns.
pub(crate) fn check_columns(definition: &TableDefinition) -> Result<(), PlanError> {
    let primary_key = definition.primary_key.iter().map(|name| Named { name: name.clone(), place: definition.place });
    check(definition, &primary_key.collect::<Vec<_>>())
}

fn refuse_clauses(reader: &Reader) -> Result<(), PlanError> {
    let clauses = [
        ("DISTRIBUTED", "DISTRIBUTED BY", "leave it out"),
        ("LIKE", "CREATE TABLE … LIKE", "list the columns and options"),
        ("AS", "CREATE TABLE … AS SELECT", "use CREATE TABLE, then INSERT INTO … SELECT"),
        ("USING", "USING", "name the connector in WITH ('connector' = '…')"),
    ];
    match clauses.into_iter().find(|(word, _, _)| reader.sees(word)) {
        Some((_, construct, instead)) => Err(PlanError::unsupported(reader.place(), construct, instead)),
        None => Ok(()),
    }
}

fn read_elements(reader: &mut Reader) -> Result<Elements, PlanError> {
    let mut elements = Elements::default();
    if !reader.parser.consume_token(&Token::LParen) {
        return Ok(elements);
    }
    loop {
        read_element(reader, &mut elements)?;
        if reader.parser.consume_token(&Token::Comma) {
            continue;
        }
        let found = reader.parser.peek_token();
        if !reader.parser.consume_token(&Token::RParen) {
            return Err(reader.expected("`,` or `)` after a column", &found));
        }
        return Ok(elements);
    }
}

fn read_element(reader: &mut Reader, elements: &mut Elements) -> Result<(), PlanError> {
    let place = reader.place();
    let [first, second, third] = reader.parser.peek_tokens::<3>();
    let word = |token: &Token| match token {
        Token::Word(word) if word.quote_style.is_none() => word.value.to_ascii_uppercase(),
        _ => String::new(),
    };
    match (word(&first).as_str(), word(&second).as_str()) {
        ("WATERMARK", "FOR") => {
            if elements.watermark.is_some() {
                return Err(PlanError::invalid(place, "a table has at most one watermark").with_hint("remove this one"));
            }
            elements.watermark = Some(read_watermark(reader)?);
        }
        ("WATERMARK", name) if name != "AS" && word(&third) == "AS" => {
            let hint = format!("write WATERMARK FOR {second} AS {second} - INTERVAL '5' SECOND, or AS {second}");
            return Err(PlanError::invalid(place, "expected FOR after WATERMARK").with_hint(hint));
        }
        ("PRIMARY", "KEY") | ("CONSTRAINT", _) => {
            if reader.takes("CONSTRAINT") {
                reader.identifier("the name of the constraint")?;
            }
            reader.word("PRIMARY")?;
            reader.word("KEY")?;
            let columns = reader.column_list()?;
            not_enforced(reader)?;
            add_primary_key(
                elements,
                columns.into_iter().map(|c| Named { place: Place::of(c.span), name: c.value }).collect(),
                place,
            )?;
        }
        ("UNIQUE", _) => return Err(PlanError::unsupported(place, "UNIQUE", "leave it out: it would not be enforced")),
        ("PERIOD", "FOR") => return Err(PlanError::unsupported(place, "PERIOD FOR", "leave it out")),
        _ => read_column(reader, elements)?,
    }
    Ok(())
}

fn add_primary_key(elements: &mut Elements, key: Vec<Named>, place: Option<Place>) -> Result<(), PlanError> {
    if !elements.primary_key.is_empty() {
        return Err(PlanError::invalid(place, "a table has at most one primary key")
            .with_hint("name all of its columns in one PRIMARY KEY (…)"));
    }
    elements.primary_key = key;
    Ok(())
}

fn not_enforced(reader: &mut Reader) -> Result<(), PlanError> {
    let place = reader.place();
    if reader.takes("NOT") {
        return reader.word("ENFORCED");
    }
    Err(PlanError::invalid(place, "a primary key cannot be enforced on a stream")
        .with_hint("write PRIMARY KEY (…) NOT ENFORCED"))
}

/// `WATERMARK FOR column AS column [- INTERVAL …]`
fn read_watermark(reader: &mut Reader) -> Result<WatermarkDefinition, PlanError> {
    let place = reader.place();
    reader.word("WATERMARK")?;
    reader.word("FOR")?;
    let column = reader.identifier("the name of the event-time column")?;
    if reader.parser.peek_token_ref().token == Token::Period {
        return Err(PlanError::unsupported(
            reader.place(),
            "a watermark for a field of a row",
            "make it a column: c AS row.field",
        ));
    }
    reader.word("AS")?;
    let (expression, text) = reader.expression()?;
    let delay = watermark_delay(&expression, &column.value)?;
    Ok(WatermarkDefinition { column: column.value, delay, text, is_inferred: false, place })
}

fn watermark_delay(expression: &Expr, column: &str) -> Result<i64, PlanError> {
    let is_column = |expression: &Expr| matches!(expression, Expr::Identifier(name) if name.value == column);
    let place = Place::of(expression.span());
    match expression {
        Expr::Nested(inner) => watermark_delay(inner, column),
        expression if is_column(expression) => Ok(0),
        Expr::BinaryOp { left, op: BinaryOperator::Minus, right } if is_column(left) => {
            let delay = interval_micros(right, "the delay of a watermark")?;
            if delay < 0 {
                return Err(PlanError::invalid(place, "a watermark cannot run ahead of its column")
                    .with_hint("subtract a positive INTERVAL"));
            }
            Ok(delay)
        }
        Expr::Identifier(other) => Err(of_two_columns(column, other)),
        Expr::BinaryOp { left, op: BinaryOperator::Minus, .. } if matches!(**left, Expr::Identifier(_)) => {
            watermark_delay(left, column)
        }
        _ => Err(PlanError::unsupported(
            place,
            format!("the watermark {expression}"),
            format!(
                "write WATERMARK FOR {column} AS {column} - INTERVAL '5' SECOND, or AS {column}; compute the column itself with a computed column"
            ),
        )),
    }
}

/// A watermark for one column that is computed from another, one of which may be misspelt.
fn of_two_columns(column: &str, other: &Ident) -> PlanError {
    let construct = format!("a watermark of {} for the column {column}", other.value);
    let hint = "name the event time both times, as in WATERMARK FOR ts AS ts - INTERVAL '5' SECOND";
    PlanError::unsupported(Place::of(other.span), construct, hint)
}

fn read_column(reader: &mut Reader, elements: &mut Elements) -> Result<(), PlanError> {
    let name = reader.identifier("the name of a column")?;
    let place = Place::of(name.span);
    if name.quote_style.is_none() {
        elements.bare_names.push((name.value.clone(), place));
    }
    let kind = if reader.takes("AS") {
        if takes_processing_time(reader) {
            ColumnKind::ProcessingTime
        } else {
            let (expression, text) = reader.expression()?;
            ColumnKind::Computed { expression: Box::new(expression), text }
        }
    } else {
        read_stored(reader, elements, &name.value, place)?
    };
    let comment = if reader.takes("COMMENT") { Some(reader.string("the comment")?) } else { None };
    elements.columns.push(ColumnDefinition { name: name.value, place, kind, comment });
    Ok(())
}

/// Takes `PROCTIME()` where it comes next.
fn takes_processing_time(reader: &mut Reader) -> bool {
    let is_next = reader.sees("PROCTIME")
        && matches!(
            reader.parser.peek_tokens(),
            [_, Token::LParen, Token::RParen, Token::Comma | Token::RParen | Token::Word(_)]
        );
    if is_next {
        (0..3).for_each(|_| reader.parser.advance_token());
    }
    is_next
}

/// A physical or metadata column, from its type on.
fn read_stored(
    reader: &mut Reader,
    elements: &mut Elements,
    name: &str,
    place: Option<Place>,
) -> Result<ColumnKind, PlanError> {
    let sql_type = column_type::read(reader)?;
    let mut nullable = true;
    loop {
        let here = reader.place();
        if reader.takes("NOT") {
            reader.word("NULL")?;
            nullable = false;
        } else if reader.takes("NULL") {
            nullable = true;
        } else if reader.takes("PRIMARY") {
            reader.word("KEY")?;
            not_enforced(reader)?;
            nullable = false;
            add_primary_key(elements, vec![Named { name: name.to_string(), place }], here)?;
        } else if reader.takes("METADATA") {
            let key =
                if reader.takes("FROM") { reader.string("the quoted name of the metadata")? } else { name.to_string() };
            let is_virtual = reader.takes("VIRTUAL");
            return Ok(ColumnKind::Metadata { key, sql_type, nullable, is_virtual });
        } else if reader.sees("DEFAULT") {
            return Err(PlanError::unsupported(
                here,
                "DEFAULT",
                "compute the value in the query, as in COALESCE(c, 0)",
            ));
        } else {
            return Ok(ColumnKind::Physical { sql_type, nullable });
        }
    }
}

/// Options by key, and where they stand.
type Options = (BTreeMap<String, String>, BTreeMap<String, OptionPlace>);

/// `('key' = 'value', …)`
fn read_options(reader: &mut Reader) -> Result<Options, PlanError> {
    let hint = "write options as 'key' = 'value', both in single quotes";
    let mut options = BTreeMap::new();
    let mut places = BTreeMap::new();
    reader.token(&Token::LParen)?;
    loop {
        let place = reader.place();
        let key = reader.string("the quoted key of an option").map_err(|error| error.with_hint(hint))?;
        reader.token(&Token::Eq).map_err(|error| error.with_hint(hint))?;
        let value_place = reader.place();
        let value = reader.string("the quoted value of the option").map_err(|error| error.with_hint(hint))?;
        if options.contains_key(&key) {
            return Err(
                PlanError::invalid(place, format!("the option '{key}' is given twice")).with_hint("keep one of them")
            );
        }
        places.insert(key.clone(), OptionPlace { key: place, value: value_place });
        options.insert(key, value);
        if reader.parser.consume_token(&Token::Comma) {
            continue;
        }
        let found = reader.parser.peek_token();
        if !reader.parser.consume_token(&Token::RParen) {
            return Err(reader.expected("`,` or `)` after an option", &found));
        }
        return Ok((options, places));
    }
}

/// What the definition says about its own columns must hold.
fn check(definition: &TableDefinition, primary_key: &[Named]) -> Result<(), PlanError> {
    let mut names = BTreeSet::new();
    for column in &definition.columns {
        if !names.insert(column.name.as_str()) {
            let message = format!("the column {} is declared twice", column.name);
            return Err(PlanError::invalid(column.place, message).with_hint("rename one of them"));
        }
    }
    let is_inferred = definition.has_inferred_columns();
    let exists = |name: &str, place: Option<Place>, of: &str| {
        if is_inferred || names.contains(name) {
            return Ok(());
        }
        let error = PlanError::invalid(place, format!("{of} names {name}, which is no column of the table"));
        Err(match closest(name, names.iter().copied()) {
            Some(meant) => error.with_hint(format!("did you mean {meant}? (names are case sensitive)")),
            None => {
                error.with_hint(format!("the columns are {}", names.iter().copied().collect::<Vec<_>>().join(", ")))
            }
        })
    };
    for column in primary_key {
        exists(&column.name, column.place, "the primary key")?;
    }
    check_partition_keys(definition, exists)?;
    let Some(watermark) = &definition.watermark else { return Ok(()) };
    exists(&watermark.column, watermark.place, "the watermark")?;
    let column = definition.columns.iter().find(|column| column.name == watermark.column);
    match column.map(|column| &column.kind) {
        Some(ColumnKind::Physical { sql_type, .. } | ColumnKind::Metadata { sql_type, .. })
            if !sql_type.is_timestamp() =>
        {
            Err(PlanError::invalid(
                watermark.place,
                format!("the event-time column {} is {sql_type}", watermark.column),
            )
            .with_hint(format!(
                "it must be TIMESTAMP or TIMESTAMP_LTZ: add a computed column such as {}",
                instant_of(&watermark.column, sql_type)
            )))
        }
        Some(ColumnKind::ProcessingTime) => Err(PlanError::invalid(
            watermark.place,
            format!("{} is a processing-time column, which needs no watermark", watermark.column),
        )
        .with_hint("remove the watermark")),
        _ => Ok(()),
    }
}

/// Columns by which a table is partitioned are stored, each once.
fn check_partition_keys(
    definition: &TableDefinition,
    exists: impl Fn(&str, Option<Place>, &str) -> Result<(), PlanError>,
) -> Result<(), PlanError> {
    for (index, Named { name, place }) in definition.partition_keys.iter().enumerate() {
        exists(name, *place, "PARTITIONED BY")?;
        if definition.partition_keys[..index].iter().any(|other| other.name == *name) {
            let error = PlanError::invalid(*place, format!("PARTITIONED BY names {name} twice"));
            return Err(error.with_hint("leave one out"));
        }
        let column = definition.columns.iter().find(|column| column.name == *name);
        if column.is_some_and(|column| !matches!(column.kind, ColumnKind::Physical { .. })) {
            let error = PlanError::invalid(*place, format!("PARTITIONED BY names {name}, which is not stored"));
            return Err(error.with_hint("partition by columns that have a type and no AS or METADATA"));
        }
    }
    Ok(())
}

/// A computed column of the time that a column says which is none.
fn instant_of(column: &str, sql_type: &SqlType) -> String {
    let name = if column == "ts" { "event_time" } else { "ts" };
    match sql_type {
        SqlType::Char(_) | SqlType::Varchar(_) | SqlType::String => format!("{name} AS TO_TIMESTAMP({column})"),
        SqlType::Date => format!("{name} AS CAST({column} AS TIMESTAMP(3))"),
        _ => format!("{name} AS TO_TIMESTAMP_LTZ({column}, 3)"),
    }
}
