//! What Flink has: its functions, its operators, and the options of its connectors. Whatever is not on a list here is named
//! as not portable, so that a list that is too short warns too often and never too seldom.

use pelton_data::spelling::is_file;
use sqlparser::ast::{BinaryOperator, CastKind, Expr, Interval, UnaryOperator, Value, ValueWithSpan};

use crate::explain::{Notes, reserved};
use crate::parse::TableDefinition;

/// Built-in functions of Flink 2.x that are called by name, and those of tables.
const FUNCTIONS: &str = "ABS ACOS APPROX_COUNT_DISTINCT ARRAY ARRAY_AGG ARRAY_APPEND ARRAY_CONCAT ARRAY_CONTAINS ARRAY_DISTINCT \
    ARRAY_EXCEPT ARRAY_INTERSECT ARRAY_JOIN ARRAY_MAX ARRAY_MIN ARRAY_POSITION ARRAY_PREPEND ARRAY_REMOVE ARRAY_REVERSE \
    ARRAY_SLICE ARRAY_SORT ARRAY_UNION ASCII ASIN ATAN ATAN2 AVG BIN BTRIM CARDINALITY CAST CEIL CEILING CHARACTER_LENGTH \
    CHAR_LENGTH CHR COALESCE COLLECT CONCAT CONCAT_WS CONVERT_TZ COS COSH COT COUNT CUME_DIST CUMULATE CURRENT_DATABASE \
    CURRENT_DATE CURRENT_ROW_TIMESTAMP CURRENT_TIME CURRENT_TIMESTAMP CURRENT_WATERMARK DATE_FORMAT DAYOFMONTH DAYOFWEEK \
    DAYOFYEAR DECODE DEGREES DENSE_RANK DESCRIPTOR E ELEMENT ELT ENCODE ENDSWITH EXP EXTRACT FIRST_VALUE FLOOR FROM_BASE64 \
    FROM_UNIXTIME GREATEST GROUPING GROUPING_ID GROUP_ID HEX HOP HOUR IF IFNULL INITCAP INSTR IS_ALPHA IS_DECIMAL IS_DIGIT \
    JSON JSON_ARRAY JSON_ARRAYAGG JSON_EXISTS JSON_OBJECT JSON_OBJECTAGG JSON_QUERY JSON_QUOTE JSON_STRING JSON_UNQUOTE \
    JSON_VALUE LAG LAST_VALUE LEAD LEAST LEFT LISTAGG LN LOCALTIME LOCALTIMESTAMP LOCATE LOG LOG10 LOG2 LOWER LPAD LTRIM \
    MAP_ENTRIES MAP_FROM_ARRAYS MAP_KEYS MAP_UNION MAP_VALUES MAX MD5 MIN MINUTE MOD MONTH NOW NTILE NULLIF OVERLAY \
    PARSE_JSON PARSE_URL PERCENTILE PERCENT_RANK PI POSITION POWER PRINTF PROCTIME QUARTER RADIANS RAND RAND_INTEGER RANK \
    REGEXP REGEXP_COUNT REGEXP_EXTRACT REGEXP_EXTRACT_ALL REGEXP_INSTR REGEXP_REPLACE REGEXP_SUBSTR REPEAT REPLACE REVERSE \
    RIGHT ROUND ROW ROW_NUMBER RPAD RTRIM SECOND SESSION SHA1 SHA2 SHA224 SHA256 SHA384 SHA512 SIGN SIN SINH SOURCE_WATERMARK \
    SPLIT SPLIT_INDEX SQRT STARTSWITH STDDEV_POP STDDEV_SAMP STR_TO_MAP SUBSTR SUBSTRING SUM TAN TANH TIMESTAMPADD \
    TIMESTAMPDIFF TO_BASE64 TO_DATE TO_TIMESTAMP TO_TIMESTAMP_LTZ TRANSLATE TRIM TRUNCATE TRY_CAST TRY_PARSE_JSON TUMBLE \
    TYPEOF UNHEX UNIX_TIMESTAMP UNNEST UPPER URL_DECODE URL_ENCODE UUID VARIANCE VAR_POP VAR_SAMP WEEK YEAR";

/// Names in a plan of functions that go by another in Flink.
const STANDING_IN: &str = "array_of btrim cast_as ceil_in_zone ceil_to character_decode character_encode date_part ends_with fit_nested floor_in_zone \
    floor_to from_unixtime_in_zone item length_between like_pattern map_of nvl random \
    regexp_like row_field signum similar_pattern starts_with stddev strict_cast_as strpos substr substring_from timestamp_to_string \
    timestampadd_time timestampdiff_micros to_timestamp_ltz_micros trunc try_cast_as unix_timestamp_in_zone var";

/// As [`function_note`], for a function that is known by its name in a plan only.
pub(crate) fn planned_function_note(name: &str) -> Option<String> {
    let stands_in = STANDING_IN.split_ascii_whitespace().any(|known| known == name);
    if stands_in { None } else { function_note(name) }
}

/// Whether Flink has a built-in function of this name, in upper case.
fn has_function(name: &str) -> bool {
    FUNCTIONS.split_ascii_whitespace().any(|known| known == name)
}

/// The note about a function that Flink does not have, by the name it was called by; windows that count rows have one of their own.
pub(crate) fn function_note(name: &str) -> Option<String> {
    let name = name.to_uppercase();
    if name == "APPROX_COUNT_DISTINCT" {
        let note = "Flink has no function APPROX_COUNT_DISTINCT in its streaming mode; COUNT(DISTINCT column) is exact";
        return Some(note.to_string());
    }
    if has_function(&name) || matches!(name.as_str(), "TUMBLE_ROWS" | "HOP_ROWS" | "ROLLUP" | "CUBE") {
        return None;
    }
    let instead = match name.as_str() {
        "APPROX_PERCENTILE" => "; PERCENTILE(column, 0.5) is exact",
        "MEDIAN" | "PERCENTILE_CONT" => "; PERCENTILE(column, 0.5) is the same",
        "DATE_TRUNC" | "DATETRUNC" => "; FLOOR(time TO DAY) is the same",
        "DATE_PART" | "DATEPART" => "; EXTRACT(HOUR FROM time) is the same",
        "ENDS_WITH" => "; ENDSWITH is the same",
        "LENGTH" => "; CHAR_LENGTH is the same",
        "NVL" => "; COALESCE is the same",
        "POW" => "; POWER is the same",
        "REGEXP_LIKE" => "; REGEXP is the same",
        "SIGNUM" => "; SIGN is the same",
        "STARTS_WITH" => "; STARTSWITH is the same",
        "STRPOS" => "; INSTR is the same",
        "TRUNC" => "; TRUNCATE is the same",
        _ => "",
    };
    Some(format!("Flink has no function {name}{instead}"))
}

/// The note about ORDER BY behind the arguments of an aggregate function, by the name it was called by.
pub(crate) fn order_note(name: &str) -> String {
    match name.to_uppercase().as_str() {
        "ARRAY_AGG" => "Flink ignores ORDER BY inside ARRAY_AGG".to_owned(),
        name => format!("Flink does not take ORDER BY inside {name}"),
    }
}

/// The note about an expression that is written in a way that Flink does not read.
pub(crate) fn syntax_note(expression: &Expr) -> Option<String> {
    let operator = |operator: &str, instead: &str| Some(format!("Flink has no operator {operator}{instead}"));
    let patterns = "; REGEXP(text, pattern) is the same";
    match expression {
        Expr::ILike { .. } => operator("ILIKE", "; LOWER(text) LIKE pattern is the same for patterns in lower case"),
        Expr::AtTimeZone { .. } => operator("AT TIME ZONE", ""),
        Expr::Interval(interval) => interval_note(interval),
        Expr::Function(call) if call.over.is_some() && call.filter.is_some() => Some(
            "Flink has no FILTER of functions OVER rows; CASE WHEN condition THEN value END is the same".to_string(),
        ),
        Expr::Cast { kind: CastKind::DoubleColon, .. } => operator("::", "; CAST(value AS type) is the same"),
        Expr::UnaryOp { op: UnaryOperator::BitwiseNot, .. } => operator("~", ""),
        Expr::BinaryOp { op, .. } => match op {
            BinaryOperator::Custom(spelling) if spelling == "!=" => operator("!=", "; <> is the same"),
            BinaryOperator::Custom(spelling) if spelling == "==" => operator("==", "; = is the same"),
            BinaryOperator::PGRegexMatch => operator("~", patterns),
            BinaryOperator::PGRegexNotMatch => operator("!~", "; NOT REGEXP(text, pattern) is the same"),
            BinaryOperator::BitwiseAnd
            | BinaryOperator::BitwiseOr
            | BinaryOperator::BitwiseXor
            | BinaryOperator::PGBitwiseXor
            | BinaryOperator::PGRegexIMatch
            | BinaryOperator::PGRegexNotIMatch
            | BinaryOperator::PGLikeMatch
            | BinaryOperator::PGNotLikeMatch
            | BinaryOperator::PGILikeMatch
            | BinaryOperator::PGNotILikeMatch
            | BinaryOperator::Spaceship => operator(&op.to_string(), ""),
            _ => None,
        },
        _ => None,
    }
}

/// The note about an interval whose first field has more digits than Flink takes where no precision says so.
fn interval_note(interval: &Interval) -> Option<String> {
    let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), span }) = interval.value.as_ref() else {
        return None;
    };
    // What was computed from another literal has as many digits as it needs.
    if span.start == span.end {
        return None;
    }
    let precision = interval.leading_precision.unwrap_or(INTERVAL_DIGITS);
    digits_note(text, precision, &interval.leading_field.as_ref()?.to_string())
}

/// The digits that the first field of an interval has.
const INTERVAL_DIGITS: u64 = 2;

fn digits_note(text: &str, precision: u64, unit: &str) -> Option<String> {
    let digits = text.trim_start_matches(['+', '-', ' ']);
    let digits = digits.bytes().take_while(u8::is_ascii_digit).count() as u64;
    (digits > precision).then(|| {
        format!("Flink takes {precision} digits in INTERVAL '{text}' {unit}; write {unit}({digits}), or a larger unit")
    })
}

/// The same of a watermark's delay, by its text.
fn delay_note(text: &str) -> Option<String> {
    let upper = text.to_ascii_uppercase();
    let (_, rest) = upper.split_once("INTERVAL")?;
    let (_, rest) = rest.split_once('\'')?;
    let (digits, rest) = rest.split_once('\'')?;
    let unit = rest.trim_start().split(|letter: char| !letter.is_ascii_alphabetic()).next()?;
    let is_precise = rest.trim_start()[unit.len()..].trim_start().starts_with('(');
    digits_note(digits, INTERVAL_DIGITS, unit).filter(|_| !is_precise)
}

/// Options that every connector of Flink takes. Those of Flink's that no connector takes here are on no list: a table with one is refused before.
const COMMON_OPTIONS: &str =
    "connector scan.watermark.alignment.group scan.watermark.alignment.max-drift scan.watermark.idle-timeout";

/// `parquet.compression` is a setting of the library that writes these files.
const FILESYSTEM_OPTIONS: &str = "format parquet.compression partition.default-name \
    partition.time-extractor.timestamp-pattern path sink.partition-commit.delay sink.partition-commit.policy.kind \
    sink.partition-commit.success-file.name sink.partition-commit.trigger sink.partition-commit.watermark-time-zone sink.rolling-policy.check-interval sink.rolling-policy.file-size \
    sink.rolling-policy.rollover-interval source.monitor-interval source.path.regex-pattern";

const CSV_OPTIONS: &str = "csv.allow-comments csv.disable-quote-character csv.escape-character csv.field-delimiter \
    csv.ignore-parse-errors csv.null-literal csv.quote-character";

const JSON_OPTIONS: &str =
    "json.encode.ignore-null-fields json.fail-on-missing-field json.ignore-parse-errors json.timestamp-format.standard";

/// Notes about the names, the watermark, the connector and the options of a table.
pub(crate) fn option_notes(table: &TableDefinition, notes: &mut Notes) {
    let of_table = |note: String| format!("{note}: table {}", table.name);
    for (name, place) in &table.bare_names {
        if let Some(note) = reserved::name_note(name) {
            notes.add(*place, of_table(note));
        }
    }
    let watermark = table.watermark.as_ref();
    if let Some(note) = watermark.and_then(|watermark| delay_note(&watermark.text)) {
        notes.add(watermark.and_then(|watermark| watermark.place), of_table(note));
    }
    let Some(connector) = table.options.get("connector") else { return };
    if is_file(&table.name) {
        let create = format!("SHOW CREATE TABLE {} prints the definition of a table for Flink", table.name);
        notes.add(table.place, format!("Flink reads no files in the place of tables; {create}"));
        return;
    }
    let lists: &[&str] = match connector.as_str() {
        "filesystem" => &[FILESYSTEM_OPTIONS, CSV_OPTIONS, JSON_OPTIONS],
        "datagen" => &["rows-per-second number-of-rows"],
        "print" => &["print-identifier standard-error"],
        "blackhole" => &[],
        "delta" => &["table-path"],
        "kafka" => &[],
        _ => {
            let place = table.option_places.get("connector").and_then(|place| place.value);
            notes.add(place, format!("Flink has no connector '{connector}': table {}", table.name));
            return;
        }
    };
    let is_known = |key: &str| match connector.as_str() {
        "datagen" if is_generated_field(key) => true,
        // Its options are Flink's, but for those that all tables have.
        "kafka" if !key.starts_with("on-error") && !key.starts_with("replay") => true,
        _ => lists.iter().chain([&COMMON_OPTIONS]).any(|list| list.split_ascii_whitespace().any(|known| known == key)),
    };
    let foreign: Vec<&String> = table.options.keys().filter(|key| !is_known(key)).collect();
    if !foreign.is_empty() {
        let place = foreign.iter().filter_map(|key| table.option_places.get(*key)?.key).min();
        let options: Vec<String> = foreign.iter().map(|key| format!("'{key}'")).collect();
        let (options, name) = (options.join(", "), &table.name);
        notes.add(place, format!("Flink's connector '{connector}' has no option {options}: table {name}"));
    }
    if connector == "filesystem" && !table.options.contains_key("format") {
        notes.add(
            table.place,
            format!("Flink's connector 'filesystem' must be told the 'format': table {}", table.name),
        );
    }
}

/// `fields.column.kind` and the like, of the connector `datagen`.
fn is_generated_field(key: &str) -> bool {
    let setting = key.strip_prefix("fields.").and_then(|field| field.rsplit_once('.'));
    let known = "kind min max max-past length var-len start end null-rate";
    setting.is_some_and(|(_, setting)| known.split(' ').any(|known| known == setting))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_noted_under_the_name_it_was_called_by() {
        assert_eq!(function_note("char_length"), None);
        assert_eq!(function_note("Length").as_deref(), Some("Flink has no function LENGTH; CHAR_LENGTH is the same"));
        assert_eq!(function_note("cbrt").as_deref(), Some("Flink has no function CBRT"));
    }

    #[test]
    fn options_of_generated_columns_are_known_by_their_end() {
        assert!(is_generated_field("fields.a.b.min"));
        assert!(!is_generated_field("fields.a.spread"));
        assert!(!is_generated_field("field.a.min"));
    }
}
