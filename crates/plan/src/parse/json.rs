//! Functions of JSON whose arguments have words of SQL between them, and `IS JSON`.

use sqlparser::ast::{DataType, Expr, Spanned, Value, ValueWithSpan};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Span, Token};

use crate::errors::{Place, PlanError};
use crate::parse::dialect::FlinkDialect;
use crate::parse::flink_aliases::{call, cast, expand_alias, not, text_literal, written_call};

/// Functions whose arguments are read here.
const CALLS: [&str; 5] = ["JSON_VALUE", "JSON_QUERY", "JSON_EXISTS", "JSON_OBJECT", "JSON_ARRAY"];

/// The function whose call comes next.
pub(super) fn next_call(parser: &Parser) -> Option<&'static str> {
    match parser.peek_tokens_ref::<2>().map(|token| &token.token) {
        [Token::Word(word), Token::LParen] if word.quote_style.is_none() => {
            CALLS.into_iter().find(|name| word.value.eq_ignore_ascii_case(name))
        }
        _ => None,
    }
}

/// What is there where a value is missing, or is none: a word, and the value behind DEFAULT.
struct Behaviour {
    word: &'static str,
    default: Expr,
}

impl Behaviour {
    fn null() -> Behaviour {
        Behaviour { word: "NULL", default: Expr::Value(Value::Null.with_empty_span()) }
    }
}

impl FlinkDialect {
    /// A call of the function that [`next_call`] has found.
    pub(super) fn parse_json_call(&self, parser: &mut Parser, name: &'static str) -> Result<Expr, ParserError> {
        let span = parser.next_token().span;
        parser.expect_token(&Token::LParen)?;
        match name {
            "JSON_OBJECT" => self.parse_json_object(parser, span),
            "JSON_ARRAY" => self.parse_json_array(parser, span),
            _ => self.parse_json_search(parser, name, span),
        }
    }

    /// `JSON_VALUE(text, path …)` and the like, behind the bracket.
    fn parse_json_search(&self, parser: &mut Parser, name: &str, span: Span) -> Result<Expr, ParserError> {
        let mut arguments = if parser.consume_token(&Token::RParen) {
            return Ok(written_call(name, Vec::new(), span));
        } else {
            vec![parser.parse_expr()?]
        };
        while parser.consume_token(&Token::Comma) {
            arguments.push(parser.parse_expr()?);
        }
        let is_plain = arguments.len() != 2 || parser.peek_token_ref().token == Token::RParen;
        if is_plain {
            parser.expect_token(&Token::RParen)?;
            return Ok(written_call(name, arguments, span));
        }
        if name == "JSON_EXISTS" {
            let word = one_of(parser, &["TRUE", "FALSE", "UNKNOWN", "ERROR"]);
            let Some(word) = word else { return self.fail_json(parser, "TRUE, FALSE, UNKNOWN or ERROR ON ERROR") };
            expect_words(parser, &["ON", "ERROR"])?;
            parser.expect_token(&Token::RParen)?;
            arguments.push(text_literal(word, span));
            return Ok(written_call(name, arguments, span));
        }
        let returning = if word(parser, "RETURNING") { Some(parser.parse_data_type()?) } else { None };
        if name == "JSON_QUERY" {
            return self.parse_json_query(parser, arguments, returning, span);
        }
        let type_name = match &returning {
            None | Some(DataType::String(_) | DataType::Varchar(_) | DataType::Char(_)) => "STRING",
            Some(DataType::Int(_) | DataType::Integer(_)) => "INT",
            Some(DataType::Double(_)) => "DOUBLE",
            Some(DataType::Boolean) => "BOOLEAN",
            Some(other) => {
                let construct = format!("JSON_VALUE RETURNING {other}");
                let instead = format!("return STRING, INT, DOUBLE or BOOLEAN, and CAST that to {other}");
                return Err(self.fail(PlanError::unsupported(Place::of(span), construct, instead)));
            }
        };
        let [on_empty, on_error] = self.parse_behaviours(parser, &["NULL", "ERROR", "DEFAULT"])?;
        parser.expect_token(&Token::RParen)?;
        arguments.push(text_literal(type_name, span));
        for Behaviour { word, default } in [on_empty, on_error] {
            arguments.extend([text_literal(word, span), cast(default, DataType::String(None))]);
        }
        let value = written_call(name, arguments, span);
        let Some(data_type) = returning else { return Ok(value) };
        let mut value = cast(value, data_type);
        let expanded = expand_alias(&mut value).map_err(|error| self.fail(error))?;
        Ok(expanded.unwrap_or(value))
    }

    /// What follows the arguments of JSON_QUERY.
    fn parse_json_query(
        &self,
        parser: &mut Parser,
        mut arguments: Vec<Expr>,
        returning: Option<DataType>,
        span: Span,
    ) -> Result<Expr, ParserError> {
        if let Some(other) =
            returning.filter(|returning| !matches!(returning, DataType::String(_) | DataType::Varchar(None)))
        {
            let construct = format!("JSON_QUERY RETURNING {other}");
            return Err(self.fail(PlanError::unsupported(Place::of(span), construct, "return STRING")));
        }
        let wrapper = match one_of(parser, &["WITHOUT", "WITH"]) {
            Some("WITH") => one_of(parser, &["CONDITIONAL", "UNCONDITIONAL"]).unwrap_or("UNCONDITIONAL"),
            Some(without) => without,
            None => "",
        };
        if !wrapper.is_empty() {
            word(parser, "ARRAY");
            expect_words(parser, &["WRAPPER"])?;
        }
        let [on_empty, on_error] = self.parse_behaviours(parser, &["NULL", "ERROR", "EMPTY"])?;
        parser.expect_token(&Token::RParen)?;
        let wrapper = if wrapper.is_empty() { "WITHOUT" } else { wrapper };
        arguments.extend([wrapper, on_empty.word, on_error.word].map(|word| text_literal(word, span)));
        Ok(written_call("JSON_QUERY", arguments, span))
    }

    /// `… ON EMPTY` and `… ON ERROR`, in that order.
    fn parse_behaviours(&self, parser: &mut Parser, words: &[&'static str]) -> Result<[Behaviour; 2], ParserError> {
        let mut behaviours = [Behaviour::null(), Behaviour::null()];
        let mut first = 0;
        while let Some(found) = one_of(parser, words) {
            let mut behaviour = Behaviour { word: found, ..Behaviour::null() };
            match found {
                "DEFAULT" => behaviour.default = parser.parse_expr()?,
                "EMPTY" if word(parser, "OBJECT") => behaviour.word = "EMPTY OBJECT",
                "EMPTY" => {
                    word(parser, "ARRAY");
                    behaviour.word = "EMPTY ARRAY";
                }
                _ => {}
            }
            expect_words(parser, &["ON"])?;
            let at = match one_of(parser, &["EMPTY", "ERROR"]) {
                Some("EMPTY") => 0,
                Some(_) => 1,
                None => return self.fail_json(parser, "EMPTY or ERROR behind ON"),
            };
            if at < first {
                return self.fail_json(parser, "one ON EMPTY, and one ON ERROR behind it");
            }
            first = at + 1;
            behaviours[at] = behaviour;
        }
        Ok(behaviours)
    }

    /// `JSON_OBJECT([KEY] key VALUE value, key: value, … [NULL | ABSENT ON NULL])`, behind the bracket.
    fn parse_json_object(&self, parser: &mut Parser, span: Span) -> Result<Expr, ParserError> {
        let mut arguments = vec![text_literal("NULL", span)];
        let mut is_first = true;
        while !parser.consume_token(&Token::RParen) {
            if let Some(mode) = mode_of_nulls(parser)? {
                arguments[0] = text_literal(mode, span);
                parser.expect_token(&Token::RParen)?;
                break;
            }
            if !is_first {
                parser.expect_token(&Token::Comma)?;
            }
            is_first = false;
            let is_marked = matches!(parser.peek_nth_token_ref(1).token, Token::SingleQuotedString(_) | Token::Word(_));
            if is_marked {
                word(parser, "KEY");
            }
            let key = parser.parse_expr()?;
            if !(word(parser, "VALUE") || parser.consume_token(&Token::Colon) || parser.consume_token(&Token::Comma)) {
                return self.fail_json(parser, "VALUE, and the value of this key");
            }
            let (kind, value) = kind_of(parser.parse_expr()?);
            let key = if is_text(&key) { key } else { cast(key, DataType::String(None)) };
            arguments.extend([key, text_literal(kind, span), value]);
        }
        Ok(written_call("JSON_OBJECT", arguments, span))
    }

    /// `JSON_ARRAY(value, … [NULL | ABSENT ON NULL])`, behind the bracket.
    fn parse_json_array(&self, parser: &mut Parser, span: Span) -> Result<Expr, ParserError> {
        let mut arguments = vec![text_literal("ABSENT", span)];
        let mut is_first = true;
        while !parser.consume_token(&Token::RParen) {
            if let Some(mode) = mode_of_nulls(parser)? {
                arguments[0] = text_literal(mode, span);
                parser.expect_token(&Token::RParen)?;
                break;
            }
            if !is_first {
                parser.expect_token(&Token::Comma)?;
            }
            is_first = false;
            let (kind, value) = kind_of(parser.parse_expr()?);
            arguments.extend([text_literal(kind, span), value]);
        }
        Ok(written_call("JSON_ARRAY", arguments, span))
    }

    /// `text IS [NOT] JSON [kind]`, which comes next.
    pub(super) fn parse_is_json(&self, parser: &mut Parser, text: &Expr) -> Result<Expr, ParserError> {
        parser.expect_keyword(Keyword::IS)?;
        let is_negated = parser.parse_keyword(Keyword::NOT);
        parser.next_token();
        let kind = one_of(parser, &["VALUE", "OBJECT", "ARRAY", "SCALAR"]).unwrap_or("VALUE");
        let span = text.span();
        let test = call("is_json_value", vec![text.clone(), text_literal(kind, span)], span);
        Ok(if is_negated { not(test) } else { test })
    }

    fn fail_json<T>(&self, parser: &Parser, expected: &str) -> Result<T, ParserError> {
        let token = parser.peek_token_ref();
        let error =
            PlanError::syntax(Place::at(token.span.start), format!("expected {expected}, found {}", token.token));
        Err(self.fail(error))
    }
}

/// Whether `IS [NOT] JSON` comes next.
pub(super) fn is_json(parser: &Parser) -> bool {
    let is = |index: usize, text: &str| match &parser.peek_nth_token_ref(index).token {
        Token::Word(word) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case(text),
        _ => false,
    };
    is(0, "IS") && (is(1, "JSON") || is(1, "NOT") && is(2, "JSON"))
}

/// Whether this word comes next, which is read then.
fn word(parser: &mut Parser, text: &str) -> bool {
    let is_next = matches!(&parser.peek_token_ref().token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(text));
    if is_next {
        parser.advance_token();
    }
    is_next
}

fn one_of(parser: &mut Parser, words: &[&'static str]) -> Option<&'static str> {
    words.iter().copied().find(|text| word(parser, text))
}

fn expect_words(parser: &mut Parser, words: &[&str]) -> Result<(), ParserError> {
    for text in words {
        if !word(parser, text) {
            return parser.expected_ref(text, parser.peek_token_ref());
        }
    }
    Ok(())
}

/// `NULL ON NULL` or `ABSENT ON NULL`, where it comes next.
fn mode_of_nulls(parser: &mut Parser) -> Result<Option<&'static str>, ParserError> {
    let is_on = matches!(&parser.peek_nth_token_ref(1).token, Token::Word(word) if word.keyword == Keyword::ON);
    let mode = if is_on { one_of(parser, &["NULL", "ABSENT"]) } else { None };
    if mode.is_some() {
        expect_words(parser, &["ON", "NULL"])?;
    }
    Ok(mode)
}

/// Whether a value is JSON itself, and is written as it is.
fn kind_of(value: Expr) -> (&'static str, Expr) {
    let Expr::Function(function) = &value else { return ("VALUE", value) };
    let name = function.name.to_string().to_uppercase();
    match name.as_str() {
        "JSON_OBJECT" | "JSON_ARRAY" => ("JSON", value),
        "JSON" => match super::flink_aliases::plain_arguments(function).as_deref() {
            Some([text]) => ("JSON", text.clone()),
            _ => ("VALUE", value),
        },
        _ => ("VALUE", value),
    }
}

fn is_text(expression: &Expr) -> bool {
    matches!(expression, Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(_), .. }))
}
