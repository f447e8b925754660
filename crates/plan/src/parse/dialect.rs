//! Where Flink's tokens and expressions differ from sqlparser's.

use sqlparser::ast::{Expr, Ident};
use sqlparser::dialect::Dialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use super::interval;

/// The prefix of the expression that stands for `TABLE name` as an argument of a table function:
/// `Expr::Prefixed { prefix: TABLE, value: name }`.
pub const TABLE_ARGUMENT_PREFIX: &str = "TABLE";

/// Flink's dialect: identifiers in backticks, `TABLE name` as an argument, and its own INTERVAL literals.
#[derive(Debug, Clone, Copy)]
pub struct FlinkDialect;

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

    fn supports_group_by_expr(&self) -> bool {
        true
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

    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        match &parser.peek_token_ref().token {
            Token::Word(word) if word.keyword == Keyword::INTERVAL => Some(interval::parse_literal(parser)),
            Token::Word(word) if word.keyword == Keyword::TABLE => Some(parse_table_argument(parser)),
            _ => None,
        }
    }
}

fn parse_table_argument(parser: &mut Parser) -> Result<Expr, ParserError> {
    let table = parser.expect_keyword(Keyword::TABLE)?;
    let mut name = vec![parser.parse_identifier()?];
    while parser.consume_token(&Token::Period) {
        name.push(parser.parse_identifier()?);
    }
    let value = if name.len() == 1 { Expr::Identifier(name.remove(0)) } else { Expr::CompoundIdentifier(name) };
    let prefix = Ident::with_span(table.span, TABLE_ARGUMENT_PREFIX);
    Ok(Expr::Prefixed { prefix, value: Box::new(value) })
}
