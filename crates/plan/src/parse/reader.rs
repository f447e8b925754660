//! One statement: its kind, and all kinds but CREATE TABLE.

use sqlparser::ast::{Expr, Ident, Query, SetExpr};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan};

use crate::errors::{Place, PlanError, closest};
use crate::parse::dialect::FlinkDialect;
use crate::parse::script::{Piece, Script, from_parser};
use crate::parse::statement::{
    Dropped, FileTable, Insert, Named, OptionPlace, Parsed, RelationKind, Statement, ViewDefinition,
};
use crate::parse::statement_set::{Prefix, read_statement_set, statement_set_start};
use crate::parse::vocabulary::{NESTING_MAX, is_blank};
use crate::parse::{asof, chains, column_type, files, group_window, refuse, session, table, unicode};

/// Reads the next statement of a script.
pub(super) fn read(script: &mut Script) -> Result<Option<Parsed>, PlanError> {
    let Some(mut piece) = script.next_piece() else { return Ok(None) };
    let start = piece.start();
    let altered = session::altered_job(script, &mut piece)?;
    let (inner_start, mut end) = (piece.start(), piece.end());
    let mut files = Vec::new();
    let statement = match statement_set_start(&piece) {
        Some(set) => {
            let (inserts, set_end) = read_statement_set(script, &piece, set.tokens, &mut files)?;
            end = set_end;
            let inserts = Statement::StatementSet(inserts);
            match set.prefix {
                Prefix::None => inserts,
                Prefix::Explain => Statement::Explain(Box::new(inserts)),
                Prefix::Analyze { is_verbose } => Statement::Analyze { statement: Box::new(inserts), is_verbose },
            }
        }
        None => Reader::new(script, piece, &FlinkDialect::default())?.statement(&mut files)?,
    };
    let statement = match altered {
        Some(job) => session::alter(job, statement, script.text(inner_start, end), Place::at(inner_start))?,
        None => statement,
    };
    let text = script.text(start, end).to_string();
    Ok(Some(Parsed { statement, text, line: start.line, column: start.column, files }))
}

/// Reads the tokens of one statement.
pub(super) struct Reader<'a> {
    pub parser: Parser<'a>,
    dialect: &'a FlinkDialect,
    script: &'a Script<'a>,
    end: Location,
    /// Unquoted words that sqlparser does not know, and where they stand: among them are the misspelt ones.
    unknown_words: Vec<(Location, String)>,
    /// Files that stand in the place of tables.
    files: Vec<FileTable>,
}

/// Words that are never names unless in backticks.
const RESERVED: [&str; 53] = [
    "AND",
    "AS",
    "BETWEEN",
    "CASE",
    "CAST",
    "CONSTRAINT",
    "CREATE",
    "CROSS",
    "DISTINCT",
    "ELSE",
    "END",
    "EXCEPT",
    "EXISTS",
    "FALSE",
    "FETCH",
    "FOR",
    "FROM",
    "FULL",
    "GROUP",
    "HAVING",
    "IN",
    "INNER",
    "INSERT",
    "INTERSECT",
    "INTERVAL",
    "INTO",
    "IS",
    "JOIN",
    "LATERAL",
    "LEFT",
    "LIKE",
    "LIMIT",
    "NATURAL",
    "NOT",
    "NULL",
    "OFFSET",
    "ON",
    "OR",
    "ORDER",
    "PRIMARY",
    "RIGHT",
    "SELECT",
    "SET",
    "TABLE",
    "THEN",
    "TRUE",
    "UNION",
    "UNIQUE",
    "USING",
    "VALUES",
    "WHEN",
    "WHERE",
    "WITH",
];

/// Words that people misspell, and that an unknown word is therefore compared with.
const WORDS: [&str; 30] = [
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP",
    "HAVING",
    "ORDER",
    "UNION",
    "JOIN",
    "INNER",
    "VALUES",
    "DISTINCT",
    "BETWEEN",
    "INSERT",
    "INTO",
    "CREATE",
    "TABLE",
    "TEMPORARY",
    "VIEW",
    "WATERMARK",
    "METADATA",
    "VIRTUAL",
    "WITH",
    "EXISTS",
    "PRIMARY",
    "ENFORCED",
    "INTERVAL",
    "SECOND",
    "MINUTE",
    "DESCRIPTOR",
    "COMMENT",
];

impl<'a> Reader<'a> {
    pub fn new(script: &'a Script<'a>, piece: Piece, dialect: &'a FlinkDialect) -> Result<Reader<'a>, PlanError> {
        let end = piece.end();
        let tokens = column_type::divide_brackets(unicode::decode(piece.tokens)?);
        refuse::check_tokens(&tokens)?;
        let unknown_words = tokens.iter().filter_map(|token| match &token.token {
            Token::Word(word) if word.quote_style.is_none() && word.keyword == Keyword::NoKeyword => {
                Some((token.span.start, word.value.clone()))
            }
            _ => None,
        });
        let unknown_words = unknown_words.collect();
        dialect.read_versions(&tokens);
        let tokens = asof::respell(tokens);
        let parser = Parser::new(dialect).with_recursion_limit(NESTING_MAX).with_tokens_with_locations(tokens);
        Ok(Reader { parser, dialect, script, end, unknown_words, files: Vec::new() })
    }

    /// The statement; the files in it are added to `files`.
    pub fn statement(mut self, files: &mut Vec<FileTable>) -> Result<Statement, PlanError> {
        let statement = self.any_statement()?;
        files.append(&mut self.files);
        match self.parser.peek_token() {
            TokenWithSpan { token: Token::EOF, .. } => Ok(statement),
            found => Err(self.expected("the end of the statement", &found)),
        }
    }

    fn any_statement(&mut self) -> Result<Statement, PlanError> {
        let first = self.parser.peek_token();
        let Token::Word(word) = &first.token else {
            return match first.token {
                Token::LParen => self.query().map(Statement::Query),
                _ => Err(self.expected("a statement", &first)),
            };
        };
        match word.value.to_ascii_uppercase().as_str() {
            "SELECT" | "WITH" | "VALUES" => self.query().map(Statement::Query),
            "CREATE" => self.create(),
            "DROP" => self.drop(),
            "INSERT" => self.insert().map(Statement::Insert),
            "SET" => self.set(),
            "RESET" => self.reset(),
            "EXPLAIN" => self.explain(),
            "SHOW" => session::show(self),
            "USE" => session::use_name(self),
            "DESCRIBE" | "DESC" => self.describe(),
            "STOP" => session::stop(self),
            _ => Err(refuse::statement(&word.value, Place::at(first.span.start))),
        }
    }

    /// A query, up to the first token that does not belong to it.
    fn query(&mut self) -> Result<Box<Query>, PlanError> {
        let place = self.place();
        let mut query = self.parser.parse_query().map_err(|error| self.error(error))?;
        chains::balance(&mut query);
        session::without_catalog(&mut query);
        let tokens = (0..self.parser.index()).map(|at| self.parser.token_at(at));
        files::take_from_query(&mut query, &mut self.files, tokens)?;
        let query = group_window::rewritten(query)?;
        match query.body.as_ref() {
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                Err(PlanError::syntax(place, "expected a query, found a statement that changes a table")
                    .with_hint("write INSERT INTO table WITH … SELECT …"))
            }
            _ => Ok(query),
        }
    }

    fn create(&mut self) -> Result<Statement, PlanError> {
        self.word("CREATE")?;
        if self.takes("OR") {
            return Err(PlanError::unsupported(self.place(), "CREATE OR REPLACE", "use DROP … IF EXISTS, then CREATE"));
        }
        let temporary = self.takes("TEMPORARY") || self.takes("TEMP");
        let place = self.place();
        if self.takes("TABLE") {
            return table::read(self, temporary).map(Statement::CreateTable);
        }
        if self.takes("VIEW") {
            return self.view(temporary).map(Statement::CreateView);
        }
        let found = self.parser.peek_token();
        match &found.token {
            Token::Word(word) => Err(refuse::created(&word.value, place)),
            _ => Err(self.expected("TABLE or VIEW after CREATE", &found)),
        }
    }

    fn view(&mut self, temporary: bool) -> Result<ViewDefinition, PlanError> {
        let if_not_exists = self.if_not_exists()?;
        let named = self.name("the name of the view")?;
        let columns = self.column_list()?;
        if self.takes("COMMENT") {
            self.string("the comment")?;
        }
        self.word("AS")?;
        let start = self.parser.peek_token().span.start;
        let query = self.query()?;
        let text = self.script.text(start, self.end).to_string();
        let Named { name, place } = named;
        Ok(ViewDefinition { name, place, columns, query, text, reads: Vec::new(), temporary, if_not_exists })
    }

    fn drop(&mut self) -> Result<Statement, PlanError> {
        self.word("DROP")?;
        let is_temporary = self.takes("TEMPORARY");
        let place = self.place();
        let kind = if self.takes("TABLE") {
            RelationKind::Table
        } else if self.takes("VIEW") {
            RelationKind::View
        } else {
            let found = self.parser.peek_token();
            return Err(match &found.token {
                Token::Word(word) => refuse::created(&word.value, place),
                _ => self.expected("TABLE or VIEW after DROP", &found),
            });
        };
        let if_exists = self.takes("IF");
        if if_exists {
            self.word("EXISTS")?;
        }
        let target = self.name("the name of a table or view")?;
        let cascades = self.takes("CASCADE");
        // What holds without it.
        if !cascades {
            let _ = self.takes("RESTRICT");
        }
        Ok(Statement::Drop(Dropped { target, kind, is_temporary, cascades, if_exists }))
    }

    fn insert(&mut self) -> Result<Insert, PlanError> {
        self.word("INSERT")?;
        let place = self.place();
        if self.takes("OVERWRITE") {
            return Err(PlanError::unsupported(place, "INSERT OVERWRITE", "use INSERT INTO"));
        }
        self.word("INTO")?;
        let _ = self.takes("TABLE");
        if let Token::SingleQuotedString(path) = &self.parser.peek_token_ref().token {
            let error = PlanError::syntax(self.place(), "INSERT INTO takes the name of a table, not a file");
            let path = path.replace('\'', "''");
            return Err(error.with_hint(format!(
                "write CREATE TABLE t (…) WITH ('connector' = 'filesystem', 'path' = '{path}') first, and INSERT INTO t"
            )));
        }
        let target = self.name("the name of a table")?;
        let place = self.place();
        if self.takes("PARTITION") {
            return Err(PlanError::unsupported(place, "PARTITION", "select the columns' values in the query"));
        }
        // `INSERT INTO t (SELECT …)`: a query in parentheses, no list of columns.
        let opens_query = matches!(
            self.parser.peek_tokens_ref::<2>(),
            [TokenWithSpan { token: Token::LParen, .. }, TokenWithSpan { token: Token::Word(word), .. }]
                if matches!(word.keyword, Keyword::SELECT | Keyword::WITH | Keyword::VALUES)
        );
        let columns = if opens_query { Vec::new() } else { self.column_list()? };
        let query = self.query()?;
        Ok(Insert { target, columns, query })
    }

    fn set(&mut self) -> Result<Statement, PlanError> {
        self.word("SET")?;
        if self.parser.peek_token_ref().token == Token::EOF {
            return Ok(Statement::ShowSettings);
        }
        let hint = "write SET 'key' = 'value'";
        let place = self.place();
        let key = self.string("the quoted key of a setting").map_err(|error| error.with_hint(hint))?;
        self.token(&Token::Eq).map_err(|error| error.with_hint(hint))?;
        let place = OptionPlace { key: place, value: self.place() };
        let value = self.string("the quoted value of the setting").map_err(|error| error.with_hint(hint))?;
        Ok(Statement::Set { key, value, place })
    }

    fn reset(&mut self) -> Result<Statement, PlanError> {
        self.word("RESET")?;
        if self.parser.peek_token_ref().token == Token::EOF {
            return Ok(Statement::Reset { key: None, place: None });
        }
        let place = self.place();
        let key = self.string("the quoted key of a setting, as in RESET 'key'")?;
        Ok(Statement::Reset { key: Some(key), place })
    }

    fn explain(&mut self) -> Result<Statement, PlanError> {
        self.word("EXPLAIN")?;
        let place = self.place();
        for detail in ["ESTIMATED_COST", "CHANGELOG_MODE", "JSON_EXECUTION_PLAN", "PLAN_ADVICE"] {
            if self.takes(detail) {
                return Err(PlanError::unsupported(place, format!("EXPLAIN {detail}"), "use EXPLAIN alone"));
            }
        }
        let is_analyzed = self.takes("ANALYZE");
        let is_verbose = is_analyzed && self.takes("VERBOSE");
        if is_analyzed && self.takes("QUERY") {
            return Ok(Statement::AnalyzeQuery { number: self.query_number()?, is_verbose });
        }
        if !is_analyzed && self.takes("PLAN") {
            self.word("FOR")?;
        }
        let place = self.place();
        if self.takes("EXECUTE") {
            let explain = if is_analyzed { "EXPLAIN ANALYZE" } else { "EXPLAIN" };
            let instead = format!("write {explain} STATEMENT SET BEGIN … END");
            return Err(PlanError::unsupported(place, format!("{explain} EXECUTE"), instead));
        }
        let found = self.parser.peek_token();
        match self.any_statement()? {
            statement @ (Statement::Query(_) | Statement::Insert(_)) => {
                let statement = Box::new(statement);
                let analyze = |statement| Statement::Analyze { statement, is_verbose };
                Ok(if is_analyzed { analyze(statement) } else { Statement::Explain(statement) })
            }
            _ => Err(self.expected("a query or INSERT INTO after EXPLAIN", &found)),
        }
    }

    /// The number that `SHOW PROGRESS` gives a query.
    fn query_number(&mut self) -> Result<usize, PlanError> {
        const A_QUERY: &str = "the number of a query, as in EXPLAIN ANALYZE QUERY 1";
        let found = self.parser.next_token();
        let Token::Number(text, _) = &found.token else { return Err(self.expected(A_QUERY, &found)) };
        text.parse().map_err(|_| self.expected(A_QUERY, &found))
    }

    fn describe(&mut self) -> Result<Statement, PlanError> {
        self.parser.next_token();
        // A table may be called JOB.
        if self.sees("JOB") && !matches!(self.parser.peek_nth_token_ref(1).token, Token::EOF | Token::Period) {
            self.word("JOB")?;
            return session::job_name(self).map(Statement::DescribeJob);
        }
        let _ = self.takes("EXTENDED");
        if ["SELECT", "WITH", "VALUES"].into_iter().any(|word| self.sees(word))
            || self.parser.peek_token_ref().token == Token::LParen
        {
            return self.query().map(Statement::DescribeQuery);
        }
        self.relation().map(Statement::Describe)
    }

    /// The name of a table or view, or a file in its place.
    pub fn relation(&mut self) -> Result<Named, PlanError> {
        let place = self.place();
        let Some(file) = files::take(self)? else { return self.name("the name of a table or view") };
        let named = Named { name: file.name.clone(), place };
        self.files.push(file);
        Ok(named)
    }

    /// `[IF NOT EXISTS]`
    pub fn if_not_exists(&mut self) -> Result<bool, PlanError> {
        let found = self.takes("IF");
        if found {
            self.word("NOT")?;
            self.word("EXISTS")?;
        }
        Ok(found)
    }

    /// `[(column, …)]`; empty where there is none.
    pub fn column_list(&mut self) -> Result<Vec<Ident>, PlanError> {
        let mut columns = Vec::new();
        if !self.parser.consume_token(&Token::LParen) {
            return Ok(columns);
        }
        loop {
            columns.push(self.identifier("the name of a column")?);
            if self.parser.consume_token(&Token::Comma) {
                continue;
            }
            self.token(&Token::RParen)?;
            return Ok(columns);
        }
    }

    /// A name of the catalogue.
    pub fn name(&mut self, what: &str) -> Result<Named, PlanError> {
        let first = self.identifier(what)?;
        let place = Place::of(first.span);
        let mut path = vec![first];
        while self.parser.consume_token(&Token::Period) {
            path.push(self.identifier(what)?);
        }
        session::named(path, place)
    }

    /// A name that is no reserved word, or is in backticks.
    pub fn identifier(&mut self, what: &str) -> Result<Ident, PlanError> {
        let found = self.parser.peek_token();
        let is_name = match &found.token {
            Token::Word(word) if word.quote_style.is_some() => true,
            Token::Word(word) => !RESERVED.iter().any(|reserved| word.value.eq_ignore_ascii_case(reserved)),
            _ => false,
        };
        if !is_name {
            let error = self.expected(what, &found);
            return Err(match &found.token {
                Token::Word(word) => {
                    error.with_hint(format!("{0} is a reserved word: as a name, write `{0}` in backticks", word.value))
                }
                Token::SingleQuotedString(text) => error.with_hint(format!("names stand in backticks: `{text}`")),
                _ => error,
            });
        }
        self.parser.parse_identifier().map_err(|error| self.error(error))
    }

    /// A string in single quotes.
    pub fn string(&mut self, what: &str) -> Result<String, PlanError> {
        let found = self.parser.next_token();
        match found.token {
            Token::SingleQuotedString(text) => Ok(text),
            _ => Err(self.expected(what, &found)),
        }
    }

    /// Whether the next token is this word, unquoted, which is then taken.
    pub fn takes(&mut self, word: &str) -> bool {
        let is_next = self.sees(word);
        if is_next {
            self.parser.advance_token();
        }
        is_next
    }

    /// Whether the next token is this word, unquoted.
    pub fn sees(&self, word: &str) -> bool {
        matches!(&self.parser.peek_token_ref().token, Token::Word(found) if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
    }

    /// Takes this word, or fails.
    pub fn word(&mut self, word: &str) -> Result<(), PlanError> {
        if self.takes(word) {
            return Ok(());
        }
        let found = self.parser.peek_token();
        Err(self.expected(word, &found))
    }

    /// Takes this token, or fails.
    pub fn token(&mut self, token: &Token) -> Result<(), PlanError> {
        if self.parser.consume_token(token) {
            return Ok(());
        }
        let found = self.parser.peek_token();
        Err(self.expected(&format!("`{token}`"), &found))
    }

    /// Where the next token stands.
    pub fn place(&self) -> Option<Place> {
        Place::at(self.parser.peek_token_ref().span.start).or(Place::at(self.end))
    }

    /// An expression, and how it is written.
    pub fn expression(&mut self) -> Result<(Expr, String), PlanError> {
        let start = self.parser.peek_token_ref().span.start;
        let mut expression = self.parser.parse_expr().map_err(|error| self.error(error))?;
        chains::balance(&mut expression);
        let mut taken = (0..self.parser.index()).rev().map(|at| self.parser.token_at(at));
        let end = taken.find(|token| !is_blank(token)).map_or(start, |last| last.span.end);
        Ok((expression, self.script.text(start, end).to_string()))
    }

    /// The error for `found` in place of `expected`.
    pub fn expected(&self, expected: &str, found: &TokenWithSpan) -> PlanError {
        let text = format!("Expected: {expected}, found: {}{}", found.token, found.span.start);
        self.error(ParserError::ParserError(text))
    }

    /// sqlparser's error in our form, with a guess at a misspelt word.
    pub fn error(&self, error: ParserError) -> PlanError {
        if let Some(own) = self.dialect.take_error() {
            return own;
        }
        let mut error = from_parser(error, Some(self.end));
        if error.hint.is_none() {
            error.hint = self.misspelt_word(error.place).map(|word| format!("did you mean {word}?"));
        }
        error
    }

    /// What the word at `place`, or the last unknown word before it, was probably meant to be.
    fn misspelt_word(&self, place: Option<Place>) -> Option<&'static str> {
        let place = place?;
        let before = self.unknown_words.iter().rev().filter(|(at, _)| Place::at(*at) <= Some(place)).take(2);
        before.filter(|(_, word)| word.len() > 3).find_map(|(_, word)| {
            // A word that is spelt right is not what is wrong.
            closest(word, WORDS).filter(|meant| !meant.eq_ignore_ascii_case(word))
        })
    }
}
