//! Where Flink's tokens and expressions differ from sqlparser's.

use std::cell::{Cell, RefCell};

use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{CaseWhen, Expr, Function, Ident, Spanned, Value, WindowType};
use sqlparser::dialect::{Dialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use crate::errors::{Place, PlanError};
use crate::parse::flink_aliases::{call, expand_alias};
use crate::parse::patterns::{like_pattern, similar_to};
use crate::parse::vocabulary::{TABLE_ARGUMENT_PREFIX, reader_function};
use crate::parse::{interval, json};

/// Flink's dialect: identifiers in backticks, `TABLE name` as an argument, its own INTERVAL literals, and its functions, which
/// are expanded as they are parsed. (To walk the finished tree instead would take kilobytes of stack for each of its levels.)
#[derive(Debug, Default)]
pub struct FlinkDialect {
    /// Whether sqlparser is to parse the next prefix by itself.
    is_left_to_parser: Cell<bool>,
    /// Whether tables may have versions: AT, BEFORE and other words behind a table are no names of it then.
    has_versions: Cell<bool>,
    /// Our own error, which sqlparser's error type cannot carry.
    error: RefCell<Option<PlanError>>,
}

impl FlinkDialect {
    /// The error that made parsing fail, where it was one of ours.
    pub(super) fn take_error(&self) -> Option<PlanError> {
        self.error.take()
    }

    pub(super) fn fail(&self, error: PlanError) -> ParserError {
        let text = error.to_string();
        self.error.replace(Some(error));
        ParserError::ParserError(text)
    }

    /// Lets tables have versions where any of a statement's has one.
    pub(super) fn read_versions(&self, tokens: &[TokenWithSpan]) {
        let is_system_time =
            |token: &TokenWithSpan| matches!(&token.token, Token::Word(word) if word.keyword == Keyword::SYSTEM_TIME);
        self.has_versions.set(tokens.iter().any(is_system_time));
    }

    fn parse_respelt(&self, parser: &mut Parser) -> Result<Expr, ParserError> {
        self.is_left_to_parser.set(true);
        let mut expression = parser.parse_prefix()?;
        if let Expr::Function(function @ Function { filter: None, null_treatment: Some(_), over: None, .. }) =
            &mut expression
        {
            function.filter = parse_filter(parser)?;
            function.over = parse_over(parser)?;
        }
        let expanded = expand_alias(&mut expression).map_err(|error| self.fail(error))?;
        Ok(expanded.unwrap_or(expression))
    }

    /// `(expression)`, and `(later - earlier) DAY`.
    fn parse_parenthesised(&self, parser: &mut Parser) -> Result<Expr, ParserError> {
        self.is_left_to_parser.set(true);
        let expression = parser.parse_prefix()?;
        match interval::parse_qualifier(parser)? {
            Some((unit, span)) => interval::difference(&expression, unit, span).map_err(|error| self.fail(error)),
            None => Ok(expression),
        }
    }

    /// `CASE [value] WHEN … THEN … END`, and `WHEN 1, 2 THEN …` behind a value: its result is that of each.
    fn parse_case(&self, parser: &mut Parser) -> Result<Expr, ParserError> {
        let case_token = AttachedToken(parser.expect_keyword(Keyword::CASE)?);
        let operand = if parser.peek_keyword(Keyword::WHEN) { None } else { Some(Box::new(parser.parse_expr()?)) };
        let mut conditions = Vec::new();
        while conditions.is_empty() || parser.peek_keyword(Keyword::WHEN) {
            parser.expect_keyword(Keyword::WHEN)?;
            let mut values = vec![parser.parse_expr()?];
            while operand.is_some() && parser.consume_token(&Token::Comma) {
                values.push(parser.parse_expr()?);
            }
            parser.expect_keyword(Keyword::THEN)?;
            let result = parser.parse_expr()?;
            if values.len() > 1 && values.len().saturating_mul(result.to_string().len()) > COPIED_LENGTH_MAX {
                let error =
                    PlanError::syntax(Place::of(result.span()), "the result for several values of CASE is too long");
                return Err(self.fail(error.with_hint("compute it in a subquery, or write WHEN for each value")));
            }
            let one = |condition| CaseWhen { condition, result: result.clone() };
            conditions.extend(values.into_iter().map(one));
        }
        let otherwise = if parser.parse_keyword(Keyword::ELSE) { Some(Box::new(parser.parse_expr()?)) } else { None };
        let end_token = AttachedToken(parser.expect_keyword(Keyword::END)?);
        Ok(Expr::Case { case_token, end_token, operand, conditions, else_result: otherwise })
    }

    /// `text [NOT] LIKE pattern [ESCAPE escape]`, and with ILIKE or SIMILAR TO.
    fn parse_match(&self, parser: &mut Parser, text: &Expr) -> Result<Expr, ParserError> {
        let negated = parser.parse_keyword(Keyword::NOT);
        let kind = parser.expect_one_of_keywords(&MATCHES)?;
        if kind == Keyword::SIMILAR {
            parser.expect_keyword(Keyword::TO)?;
        }
        let any = kind != Keyword::SIMILAR && parser.parse_keyword(Keyword::ANY);
        let pattern = parser.parse_subexpr(self.prec_value(Precedence::Like))?;
        let escape = match parser.parse_keyword(Keyword::ESCAPE) {
            true => Some(parser.parse_subexpr(self.prec_value(Precedence::Like))?),
            false => None,
        };
        if kind == Keyword::SIMILAR {
            return similar_to(text.clone(), negated, &pattern, escape.as_ref()).map_err(|error| self.fail(error));
        }
        let pattern = match &escape {
            Some(escape) => like_pattern(&pattern, escape).map_err(|error| self.fail(error))?,
            None => pattern,
        };
        // Without ESCAPE nothing is escaped, which is said where types are known.
        let escape_char = escape.map(|escape| Value::SingleQuotedString("\\".to_string()).with_span(escape.span()));
        let (expr, pattern) = (Box::new(text.clone()), Box::new(pattern));
        Ok(match kind {
            Keyword::LIKE => Expr::Like { negated, any, expr, pattern, escape_char },
            _ => Expr::ILike { negated, any, expr, pattern, escape_char },
        })
    }

    /// `TABLE name [PARTITION BY key, …]`.
    fn parse_table_argument(&self, parser: &mut Parser) -> Result<Expr, ParserError> {
        let table = parser.expect_keyword(Keyword::TABLE)?;
        if parser.peek_token_ref().token == Token::LParen {
            let error = PlanError::syntax(Place::of(table.span), "TABLE takes the name of a table, not a query");
            return Err(
                self.fail(error.with_hint("leave TABLE out: TUMBLE((SELECT …), DESCRIPTOR(time_column), size)"))
            );
        }
        let first = parser.parse_identifier()?;
        if reader_function(&first.value).is_some() && parser.peek_token_ref().token == Token::LParen {
            let mut call = parser.parse_function(first.into())?;
            if parser.parse_keywords(&[Keyword::PARTITION, Keyword::BY]) {
                call = self.partitioned(parser, call)?;
            }
            let prefix = Ident::with_span(table.span, TABLE_ARGUMENT_PREFIX);
            return Ok(Expr::Prefixed { prefix, value: Box::new(call) });
        }
        let mut name = vec![first];
        while parser.consume_token(&Token::Period) {
            name.push(parser.parse_identifier()?);
        }
        let mut value = if name.len() == 1 { Expr::Identifier(name.remove(0)) } else { Expr::CompoundIdentifier(name) };
        if parser.parse_keywords(&[Keyword::PARTITION, Keyword::BY]) {
            value = self.partitioned(parser, value)?;
        }
        let prefix = Ident::with_span(table.span, TABLE_ARGUMENT_PREFIX);
        Ok(Expr::Prefixed { prefix, value: Box::new(value) })
    }

    /// A table and its keys, which follow.
    fn partitioned(&self, parser: &mut Parser, table: Expr) -> Result<Expr, ParserError> {
        let keys = parse_partition_keys(parser)?;
        let is_part = |token: &Token| matches!(token, Token::Period | Token::LBracket);
        let wrong = match parser.peek_tokens_ref::<3>() {
            [next, ..] if next.token == Token::LParen || is_part(&next.token) => keys.last().map(|key| key.span),
            [comma, key, next] if comma.token == Token::Comma && is_part(&next.token) => Some(key.span),
            _ => None,
        };
        if let Some(span) = wrong {
            let place = Place::of(span);
            let error = PlanError::syntax(place, "PARTITION BY takes columns");
            return Err(self.fail(error.with_hint("compute it in a view or subquery, and partition by that column")));
        }
        Ok(Expr::Tuple([table].into_iter().chain(keys.into_iter().map(Expr::Identifier)).collect()))
    }

    /// `(SELECT …) PARTITION BY key, …`.
    fn parse_partitioned_query(&self, parser: &mut Parser, query: &Expr) -> Result<Expr, ParserError> {
        let partition = parser.expect_keyword(Keyword::PARTITION)?;
        if !matches!(query, Expr::Subquery(_)) {
            let error =
                PlanError::syntax(Place::of(partition.span), "PARTITION BY stands behind a table or a subquery");
            return Err(self.fail(error.with_hint(format!("write TABLE {query} PARTITION BY …"))));
        }
        parser.expect_keyword(Keyword::BY)?;
        let value = Box::new(self.partitioned(parser, query.clone())?);
        Ok(Expr::Prefixed { prefix: Ident::with_span(query.span(), TABLE_ARGUMENT_PREFIX), value })
    }
}

/// The longest text of which CASE makes copies: they would double with each level of nesting.
const COPIED_LENGTH_MAX: usize = 10_000;

/// Words that a pattern follows.
const MATCHES: [Keyword; 3] = [Keyword::LIKE, Keyword::ILIKE, Keyword::SIMILAR];

impl Dialect for FlinkDialect {
    fn is_identifier_start(&self, character: char) -> bool {
        character.is_alphabetic() || character == '_'
    }

    fn is_identifier_part(&self, character: char) -> bool {
        character.is_alphanumeric() || character == '_' || character == '$'
    }

    fn is_delimited_identifier_start(&self, character: char) -> bool {
        character == '`'
    }

    fn identifier_quote_style(&self, _identifier: &str) -> Option<char> {
        Some('`')
    }

    fn supports_filter_during_aggregation(&self) -> bool {
        true
    }

    fn supports_window_function_null_treatment_arg(&self) -> bool {
        true
    }

    fn supports_group_by_expr(&self) -> bool {
        true
    }

    fn supports_table_versioning(&self) -> bool {
        self.has_versions.get()
    }

    /// Words that begin an expression of their own are never columns unless quoted. Besides being Flink's rule, it keeps
    /// the parser from trying nested calls twice at each level.
    fn is_reserved_for_identifier(&self, keyword: Keyword) -> bool {
        matches!(
            keyword,
            Keyword::CASE
                | Keyword::CAST
                | Keyword::CEIL
                | Keyword::CONVERT
                | Keyword::EXISTS
                | Keyword::EXTRACT
                | Keyword::FLOOR
                | Keyword::INTERVAL
                | Keyword::NOT
                | Keyword::OVERLAY
                | Keyword::POSITION
                | Keyword::SAFE_CAST
                | Keyword::SUBSTR
                | Keyword::SUBSTRING
                | Keyword::TABLE
                | Keyword::TRIM
                | Keyword::TRY_CAST
        )
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        if comparison_of_nulls(parser).is_some() {
            // Before other comparisons, as in Flink: a = b IS DISTINCT FROM c is a = (b IS DISTINCT FROM c).
            return Some(Ok(self.prec_value(Precedence::Pipe)));
        }
        if is_partition_by(parser) {
            return Some(Ok(self.prec_value(Precedence::Or)));
        }
        // It stands between the keys and values of JSON_OBJECT, and is no operator.
        if parser.peek_token_ref().token == Token::Colon {
            return Some(Ok(self.prec_unknown()));
        }
        let is_comparison = matches!(parser.peek_token_ref().token, Token::CustomBinaryOperator(_));
        is_comparison.then(|| Ok(self.prec_value(Precedence::Eq)))
    }

    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        if self.is_left_to_parser.take() {
            return None;
        }
        if let Some(name) = json::next_call(parser) {
            return Some(self.parse_json_call(parser, name));
        }
        match parser.peek_tokens_ref::<2>().map(|token| &token.token) {
            [Token::Word(word), _] if word.keyword == Keyword::INTERVAL => Some(interval::parse_literal(parser)),
            [Token::Word(word), _] if word.keyword == Keyword::TABLE => Some(self.parse_table_argument(parser)),
            [Token::Word(word), _] if word.keyword == Keyword::CASE => Some(self.parse_case(parser)),
            [Token::Word(word), _] if word.keyword == Keyword::TRIM && trims_blanks(parser) => Some(parse_trim(parser)),
            [Token::Word(word), Token::LBracket] if matches!(word.keyword, Keyword::ARRAY | Keyword::MAP) => {
                Some(parse_constructor(parser))
            }
            [Token::LBrace, Token::Word(word)] if word.keyword == Keyword::FN => Some(parse_braced_call(parser)),
            [Token::Word(_) | Token::LBrace, _] => Some(self.parse_respelt(parser)),
            [Token::LParen, _] => Some(self.parse_parenthesised(parser)),
            _ => None,
        }
    }

    fn parse_infix(&self, parser: &mut Parser, left: &Expr, precedence: u8) -> Option<Result<Expr, ParserError>> {
        if let Some(words) = comparison_of_nulls(parser) {
            (0..words).for_each(|_| parser.advance_token());
            let right = parser.parse_subexpr(precedence);
            let compared = |right| match words {
                IS_DISTINCT_FROM => Expr::IsDistinctFrom(Box::new(left.clone()), Box::new(right)),
                _ => Expr::IsNotDistinctFrom(Box::new(left.clone()), Box::new(right)),
            };
            return Some(right.map(compared));
        }
        if json::is_json(parser) {
            return Some(self.parse_is_json(parser, left));
        }
        if is_partition_by(parser) {
            return Some(self.parse_partitioned_query(parser, left));
        }
        if let Some(product) = interval::parse_product(parser, left, precedence) {
            return Some(product);
        }
        let is_match = |token: &Token| matches!(token, Token::Word(word) if MATCHES.contains(&word.keyword));
        let matches = match parser.peek_tokens_ref::<2>().map(|token| &token.token) {
            [Token::Word(not), next] if not.keyword == Keyword::NOT => is_match(next),
            [first, _] => is_match(first),
        };
        matches.then(|| self.parse_match(parser, left))
    }
}

/// Whether `PARTITION BY` follows.
fn is_partition_by(parser: &Parser) -> bool {
    let are_words = |words: [&Token; 2]| {
        matches!(words, [Token::Word(partition), Token::Word(by)]
            if partition.keyword == Keyword::PARTITION && by.keyword == Keyword::BY)
    };
    are_words(parser.peek_tokens_ref::<2>().map(|token| &token.token))
}

/// Words of `IS DISTINCT FROM`.
const IS_DISTINCT_FROM: usize = 3;

/// How many words `IS [NOT] DISTINCT FROM` has, where it comes next. sqlparser takes all that follows for its right side, AND and OR among it.
fn comparison_of_nulls(parser: &Parser) -> Option<usize> {
    let keyword = |index: usize| match &parser.peek_nth_token_ref(index).token {
        Token::Word(word) => word.keyword,
        _ => Keyword::NoKeyword,
    };
    if keyword(0) != Keyword::IS {
        return None;
    }
    let negation = usize::from(keyword(1) == Keyword::NOT);
    let is_next = [keyword(1 + negation), keyword(2 + negation)] == [Keyword::DISTINCT, Keyword::FROM];
    is_next.then_some(IS_DISTINCT_FROM + negation)
}

/// `ARRAY[value, …]` and `MAP[key, value, …]`, as calls of the functions that make them.
fn parse_constructor(parser: &mut Parser) -> Result<Expr, ParserError> {
    let TokenWithSpan { token, span } = parser.next_token();
    let is_map = matches!(token, Token::Word(word) if word.keyword == Keyword::MAP);
    parser.expect_token(&Token::LBracket)?;
    if *parser.peek_token_ref() == Token::RBracket {
        return parser.expected_ref("a value, which says the type", parser.peek_token_ref());
    }
    let values = parser.parse_comma_separated(Parser::parse_expr)?;
    parser.expect_token(&Token::RBracket)?;
    Ok(call(if is_map { "map_of" } else { "array_of" }, values, span))
}

/// `{fn name(…)}`, which is the call alone.
fn parse_braced_call(parser: &mut Parser) -> Result<Expr, ParserError> {
    parser.expect_token(&Token::LBrace)?;
    parser.expect_keyword(Keyword::FN)?;
    match parser.peek_tokens_ref::<2>() {
        [TokenWithSpan { token: Token::Word(_), .. }, TokenWithSpan { token: Token::LParen, .. }] => {}
        [other, _] => return parser.expected_ref("a call of a function", other),
    }
    let call = parser.parse_prefix()?;
    parser.expect_token(&Token::RBrace)?;
    Ok(call)
}

/// `FILTER (WHERE …)` behind `IGNORE NULLS`, where Flink has it and sqlparser does not.
fn parse_filter(parser: &mut Parser) -> Result<Option<Box<Expr>>, ParserError> {
    if !parser.parse_keyword(Keyword::FILTER) {
        return Ok(None);
    }
    parser.expect_token(&Token::LParen)?;
    parser.expect_keyword(Keyword::WHERE)?;
    let filter = parser.parse_expr()?;
    parser.expect_token(&Token::RParen)?;
    Ok(Some(Box::new(filter)))
}

/// `OVER (…)` or `OVER name` behind that.
fn parse_over(parser: &mut Parser) -> Result<Option<WindowType>, ParserError> {
    if !parser.parse_keyword(Keyword::OVER) {
        return Ok(None);
    }
    Ok(Some(match parser.consume_token(&Token::LParen) {
        true => WindowType::WindowSpec(parser.parse_window_spec()?),
        false => WindowType::NamedWindow(parser.parse_identifier()?),
    }))
}

/// Whether `TRIM(TRAILING FROM …)` comes next, which sqlparser knows with letters to be trimmed only.
fn trims_blanks(parser: &Parser) -> bool {
    let [_, opening, side, from] = parser.peek_tokens_ref::<4>().map(|token| &token.token);
    let is_side = |word: &Word| matches!(word.keyword, Keyword::BOTH | Keyword::LEADING | Keyword::TRAILING);
    *opening == Token::LParen
        && matches!(side, Token::Word(word) if is_side(word))
        && matches!(from, Token::Word(word) if word.keyword == Keyword::FROM)
}

fn parse_trim(parser: &mut Parser) -> Result<Expr, ParserError> {
    parser.expect_keyword(Keyword::TRIM)?;
    parser.expect_token(&Token::LParen)?;
    let trim_where = Some(parser.parse_trim_where()?);
    parser.expect_keyword(Keyword::FROM)?;
    let expr = Box::new(parser.parse_expr()?);
    parser.expect_token(&Token::RParen)?;
    Ok(Expr::Trim { expr, trim_where, trim_what: None, trim_characters: None })
}

/// `key`, `(key, …)` or `key, …`: a name that another argument or the end of all follows is a key.
fn parse_partition_keys(parser: &mut Parser) -> Result<Vec<Ident>, ParserError> {
    if parser.consume_token(&Token::LParen) {
        let keys = parser.parse_comma_separated(Parser::parse_identifier)?;
        parser.expect_token(&Token::RParen)?;
        return Ok(keys);
    }
    let mut keys = vec![parser.parse_identifier()?];
    while matches!(
        parser.peek_tokens_ref::<3>().map(|token| &token.token),
        [Token::Comma, Token::Word(_), Token::Comma | Token::RParen]
    ) {
        parser.expect_token(&Token::Comma)?;
        keys.push(parser.parse_identifier()?);
    }
    Ok(keys)
}
