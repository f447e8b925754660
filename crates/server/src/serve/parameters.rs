//! Parameters of statements, `$1` and so on. The planner has none: each becomes a literal of its type.

use std::ops::Range;

use pelton::Place;

use super::encode::{EPOCH_DAYS, EPOCH_MICROS, Form, read_numeric};
use super::failure::{End, position_in};
use super::types::{self, sql_type};
use crate::scan::{Kind, Token, scan};

/// Parameters of a statement, at most: the protocol counts them in 16 bits.
const PARAMETERS_MAX: usize = 65_535;

/// Digits of a DECIMAL, at most.
const PRECISION_MAX: usize = 38;

const MICROS_PER_MILLI: i64 = 1_000;

/// A statement with parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    pub text: String,
    places: Vec<Placeholder>,
    /// Types of Postgres, by the parameters' numbers.
    pub types: Vec<u32>,
}

/// Where a parameter stands.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Placeholder {
    range: Range<usize>,
    /// From 0.
    index: usize,
    /// Whether only a number can stand there, as behind `LIMIT`.
    is_plain: bool,
}

/// A value that a client has sent.
pub struct Value<'a> {
    pub form: Form,
    pub bytes: Option<&'a [u8]>,
}

/// A statement whose parameters are literals.
pub struct Filled {
    pub text: String,
    /// Where each literal stands, and where its parameter does.
    moved: Vec<(Range<usize>, Range<usize>)>,
}

impl Template {
    /// Finds the parameters of a statement. A type is what the client says, or what a CAST around the parameter says, or else text.
    pub fn new(text: &str, declared: &[u32]) -> Result<Template, End> {
        let tokens: Vec<Token> = scan(text).into_iter().filter(|token| token.kind != Kind::Comment).collect();
        let mut types: Vec<u32> = declared.to_vec();
        let mut places = Vec::new();
        for (index, token) in tokens.iter().enumerate() {
            let Some(number) = number(token) else { continue };
            if number == 0 || number > PARAMETERS_MAX {
                let character = text[..token.range.start].chars().count() + 1;
                return Err(
                    End::failed("42P02", format!("there is no parameter {}", token.text)).with_position(character)
                );
            }
            types.resize(types.len().max(number), 0);
            let place = &mut types[number - 1];
            if *place == 0 {
                *place = cast_type(&tokens, index).unwrap_or(0);
            }
            let is_plain =
                index > 0 && ["LIMIT", "OFFSET", "FIRST", "NEXT"].iter().any(|word| tokens[index - 1].is(word));
            places.push(Placeholder { range: token.range.clone(), index: number - 1, is_plain });
        }
        types.iter_mut().filter(|oid| **oid == 0).for_each(|oid| *oid = types::TEXT.oid);
        if let Some(oid) = types.iter().find(|oid| sql_type(**oid).is_none()) {
            return Err(End::unsupported(
                format!("parameters of the type with OID {oid} are not supported"),
                "send the value as text, and CAST it in the statement",
            ));
        }
        Ok(Template { text: text.to_owned(), places, types })
    }

    /// The statement with NULL for each parameter: its columns are those that it will have.
    pub fn without_values(&self) -> Filled {
        self.fill(|place| match sql_type(self.types[place.index]) {
            _ if place.is_plain => Ok("1".to_owned()),
            Some(name) => Ok(format!("CAST(NULL AS {name})")),
            None => Ok("NULL".to_owned()),
        })
        .expect("a NULL has all types")
    }

    /// The statement with these values.
    pub fn with_values(&self, values: &[Value<'_>]) -> Result<Filled, End> {
        if values.len() != self.types.len() {
            let (sent, wanted) = (values.len(), self.types.len());
            return Err(End::failed("08P01", format!("{sent} parameters were sent, and the statement has {wanted}")));
        }
        self.fill(|place| {
            let oid = self.types[place.index];
            let value = literal(oid, &values[place.index], place.is_plain);
            value.ok_or_else(|| {
                let name = sql_type(oid).unwrap_or_default();
                End::failed("22P02", format!("the value of parameter ${} is no {name}", place.index + 1))
            })
        })
    }

    fn fill(&self, mut literal: impl FnMut(&Placeholder) -> Result<String, End>) -> Result<Filled, End> {
        let (mut text, mut moved, mut end) = (String::new(), Vec::new(), 0);
        for place in &self.places {
            text.push_str(&self.text[end..place.range.start]);
            let start = text.len();
            text.push_str(&literal(place)?);
            moved.push((start..text.len(), place.range.clone()));
            end = place.range.end;
        }
        text.push_str(&self.text[end..]);
        Ok(Filled { text, moved })
    }
}

impl Filled {
    /// The character of the template's text at a place of this one, counted from 1.
    pub fn position(&self, template: &str, place: Place) -> usize {
        let character = position_in(&self.text, place) - 1;
        let at = self.text.char_indices().nth(character).map_or(self.text.len(), |(at, _)| at);
        let before = self.moved.iter().rfind(|(new, _)| new.start <= at);
        let at = match before {
            None => at,
            Some((new, old)) if at < new.end => old.start,
            Some((new, old)) => at - new.end + old.end,
        };
        template[..at.min(template.len())].chars().count() + 1
    }
}

/// The number of a parameter.
fn number(token: &Token) -> Option<usize> {
    let digits = token.text.strip_prefix('$').filter(|_| token.kind == Kind::Word)?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(usize::MAX))
}

/// The type that `CAST($1 AS type)` or `type $1` gives to a parameter.
fn cast_type(tokens: &[Token], index: usize) -> Option<u32> {
    let before = |back: usize| index.checked_sub(back).map(|at| &tokens[at]);
    let is_cast = before(1)?.is("(") && before(2).is_some_and(|token| token.is("CAST") || token.is("TRY_CAST"));
    let name = tokens.get(index + 2).filter(|_| is_cast && tokens[index + 1].is("AS"))?;
    types::named(name.text).map(|pg_type| pg_type.oid)
}

/// The literal of a value; `None` where it is none of its type.
fn literal(oid: u32, value: &Value<'_>, is_plain: bool) -> Option<String> {
    let name = sql_type(oid)?;
    let Some(bytes) = value.bytes else { return Some(format!("CAST(NULL AS {name})")) };
    let text = match value.form {
        Form::Text => String::from_utf8(bytes.to_vec()).ok()?,
        Form::Binary => text_of(oid, bytes)?,
    };
    let cast = |text: &str| format!("CAST({} AS {name})", quoted(text));
    Some(match oid {
        oid if [types::INT2.oid, types::INT4.oid, types::INT8.oid].contains(&oid) => {
            let number: i64 = text.trim().parse().ok()?;
            if is_plain { number.to_string() } else { cast(&number.to_string()) }
        }
        oid if oid == types::BOOL.oid => match text.trim().to_ascii_lowercase().as_str() {
            "t" | "true" | "on" | "1" | "yes" => "TRUE".to_owned(),
            "f" | "false" | "off" | "0" | "no" => "FALSE".to_owned(),
            _ => return None,
        },
        oid if oid == types::FLOAT4.oid || oid == types::FLOAT8.oid => {
            text.trim().parse::<f64>().ok()?;
            cast(text.trim())
        }
        oid if oid == types::NUMERIC.oid => decimal(text.trim())?,
        oid if oid == types::BYTEA.oid => {
            let digits = text.strip_prefix("\\x").filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
            format!("CAST(X'{digits}' AS BYTES)")
        }
        oid if oid == types::TIMESTAMPTZ.oid => instant(&text)?,
        _ if is_plain => text.trim().parse::<i64>().ok()?.to_string(),
        oid if sql_type(oid) == Some("STRING") => cast(&text),
        _ => cast(text.trim()),
    })
}

/// The text of a value in its binary form.
fn text_of(oid: u32, bytes: &[u8]) -> Option<String> {
    Some(match oid {
        oid if oid == types::BOOL.oid => (bytes.first()? != &0).to_string(),
        oid if oid == types::INT2.oid => i16::from_be_bytes(bytes.try_into().ok()?).to_string(),
        oid if oid == types::INT4.oid => i32::from_be_bytes(bytes.try_into().ok()?).to_string(),
        oid if oid == types::INT8.oid => i64::from_be_bytes(bytes.try_into().ok()?).to_string(),
        oid if oid == types::FLOAT4.oid => float(f32::from_be_bytes(bytes.try_into().ok()?).into()),
        oid if oid == types::FLOAT8.oid => float(f64::from_be_bytes(bytes.try_into().ok()?)),
        oid if oid == types::NUMERIC.oid => read_numeric(bytes)?,
        oid if oid == types::BYTEA.oid => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("\\x{digits}")
        }
        oid if oid == types::DATE.oid => {
            let days = i32::from_be_bytes(bytes.try_into().ok()?).checked_add(EPOCH_DAYS)?;
            pelton::arrow::temporal_conversions::date32_to_datetime(days)?.format("%Y-%m-%d").to_string()
        }
        oid if oid == types::TIME.oid => {
            let micros = i64::from_be_bytes(bytes.try_into().ok()?);
            pelton::arrow::temporal_conversions::time64us_to_time(micros)?.format("%H:%M:%S%.6f").to_string()
        }
        oid if oid == types::TIMESTAMP.oid => timestamp(bytes)?,
        oid if oid == types::TIMESTAMPTZ.oid => timestamp(bytes)? + "+00",
        _ => String::from_utf8(bytes.to_vec()).ok()?,
    })
}

fn float(number: f64) -> String {
    match number {
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        number => format!("{number:?}"),
    }
}

fn timestamp(bytes: &[u8]) -> Option<String> {
    let micros = i64::from_be_bytes(bytes.try_into().ok()?).checked_add(EPOCH_MICROS)?;
    let time = pelton::arrow::temporal_conversions::timestamp_us_to_datetime(micros)?;
    Some(time.format("%Y-%m-%d %H:%M:%S%.6f").to_string())
}

/// A DECIMAL of as many digits as the number has.
fn decimal(text: &str) -> Option<String> {
    let digits = text.trim_start_matches(['+', '-']);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !are_digits(whole) || !are_digits(fraction) || digits.is_empty() || digits == "." {
        return None;
    }
    let precision = (whole.len() + fraction.len()).max(1);
    (precision <= PRECISION_MAX).then(|| format!("CAST('{text}' AS DECIMAL({precision}, {}))", fraction.len()))
}

/// An instant, given with how far the clock is ahead of UTC. SQL has no literal for one.
fn instant(text: &str) -> Option<String> {
    let nanos = pelton::arrow::compute::kernels::cast_utils::string_to_timestamp_nanos(text.trim()).ok()?;
    let micros = nanos / 1_000;
    let is_whole = micros % MICROS_PER_MILLI == 0 && nanos % 1_000 == 0;
    is_whole.then(|| format!("TO_TIMESTAMP_LTZ(CAST({} AS BIGINT), 3)", micros / MICROS_PER_MILLI))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(text: &str) -> Template {
        Template::new(text, &[]).unwrap()
    }

    fn text(text: &str) -> Value<'_> {
        Value { form: Form::Text, bytes: Some(text.as_bytes()) }
    }

    #[test]
    fn types_are_declared_or_cast_or_text() {
        let found = template("SELECT CAST($2 AS BIGINT), $1, '$3', a$4 FROM t -- $5");
        assert_eq!(found.types, [types::TEXT.oid, types::INT8.oid]);
        let declared = Template::new("SELECT $1 LIMIT $2", &[types::BOOL.oid, types::INT8.oid]).unwrap();
        assert_eq!(declared.without_values().text, "SELECT CAST(NULL AS BOOLEAN) LIMIT 1");
        assert!(matches!(Template::new("SELECT $1", &[600]), Err(End::Failed(info)) if info.code == "0A000"));
        assert!(
            matches!(Template::new("SELECT $0", &[]), Err(End::Failed(info)) if info.position.as_deref() == Some("8"))
        );
    }

    #[test]
    fn values_become_literals_of_their_type() {
        let filled = template("SELECT $1, $1").with_values(&[text("it's")]).unwrap();
        assert_eq!(filled.text, "SELECT CAST('it''s' AS STRING), CAST('it''s' AS STRING)");
        let literal = |oid: u32, bytes: &[u8]| literal(oid, &Value { form: Form::Binary, bytes: Some(bytes) }, false);
        assert_eq!(literal(types::INT4.oid, &[255, 255, 255, 254]).as_deref(), Some("CAST('-2' AS INT)"));
        assert_eq!(literal(types::INT4.oid, &[1]), None);
        assert_eq!(literal(types::BYTEA.oid, &[0, 255]).as_deref(), Some("CAST(X'00ff' AS BYTES)"));
        assert_eq!(literal(types::DATE.oid, &[0; 4]).as_deref(), Some("CAST('2000-01-01' AS DATE)"));
        assert_eq!(
            literal(types::TIMESTAMP.oid, &[0; 8]).as_deref(),
            Some("CAST('2000-01-01 00:00:00.000000' AS TIMESTAMP(6))")
        );
        assert_eq!(
            literal(types::TIMESTAMPTZ.oid, &[0; 8]).as_deref(),
            Some("TO_TIMESTAMP_LTZ(CAST(946684800000 AS BIGINT), 3)")
        );
        assert_eq!(decimal("-12.50").as_deref(), Some("CAST('-12.50' AS DECIMAL(4, 2))"));
        assert_eq!((decimal("1e3"), decimal("'"), decimal("")), (None, None, None));
    }

    #[test]
    fn a_wrong_value_names_its_parameter() {
        let result = Template::new("SELECT $1", &[types::INT8.oid]).unwrap().with_values(&[text("1; DROP TABLE t")]);
        assert!(matches!(result, Err(End::Failed(info)) if info.message == "the value of parameter $1 is no BIGINT"));
    }

    #[test]
    fn positions_are_those_of_what_was_sent() {
        let template = template("SELECT $1, nope, $2");
        let filled = template.with_values(&[text("a longer text"), text("b")]).unwrap();
        let at = |needle: &str| {
            let column = filled.text.find(needle).unwrap() as u64 + 1;
            filled.position(&template.text, Place { line: 1, column })
        };
        assert_eq!((at("SELECT"), at("longer"), at("nope"), at("'b'")), (1, 8, 12, 18));
    }
}
