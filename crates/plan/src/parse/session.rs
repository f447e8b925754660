//! Statements about the session: SHOW and USE. A session has one catalog and one database, by the names of Flink's defaults.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Ident, ObjectName, TableFactor, VisitMut, VisitorMut};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::errors::{Place, PlanError};
use crate::parse::dialect::FlinkDialect;
use crate::parse::reader::Reader;
use crate::parse::script::{Piece, Script};
use crate::parse::statement::{NameFilter, Named, Statement};

/// The catalog of a session.
pub(crate) const CATALOG: &str = "default_catalog";

/// Its database.
pub(crate) const DATABASE: &str = "default_database";

/// What `SHOW` shows, as an error names it.
const SHOWN: &str = "TABLES, VIEWS, FUNCTIONS, COLUMNS, CATALOGS, DATABASES, CURRENT CATALOG, CURRENT DATABASE, JOBS, PROGRESS, QUERIES, OPERATORS, SHARING, CREATE TABLE or CREATE VIEW after SHOW";

/// `SHOW …`
pub(super) fn show(reader: &mut Reader<'_>) -> Result<Statement, PlanError> {
    reader.word("SHOW")?;
    let found = reader.parser.next_token();
    let word = match &found.token {
        Token::Word(word) => word.value.to_ascii_uppercase(),
        _ => String::new(),
    };
    match word.as_str() {
        "TABLES" => {
            from_database(reader)?;
            name_filter(reader).map(Statement::ShowTables)
        }
        "VIEWS" => {
            from_database(reader)?;
            name_filter(reader).map(Statement::ShowViews)
        }
        "USER" if reader.takes("FUNCTIONS") => shown_functions(reader, true),
        "FUNCTIONS" => shown_functions(reader, false),
        "COLUMNS" => {
            if !reader.takes("IN") {
                reader.word("FROM")?;
            }
            let named = reader.relation()?;
            Ok(Statement::ShowColumns(named, name_filter(reader)?))
        }
        "CATALOGS" => shown_name(reader, "catalog name", CATALOG),
        "DATABASES" => {
            if reader.takes("FROM") || reader.takes("IN") {
                let place = reader.place();
                let name = reader.identifier("the name of a catalog")?;
                check_catalog(&name, place)?;
            }
            shown_name(reader, "database name", DATABASE)
        }
        "CURRENT" if reader.takes("CATALOG") => shown_name(reader, "current catalog name", CATALOG),
        "CURRENT" if reader.takes("DATABASE") => shown_name(reader, "current database name", DATABASE),
        "JOBS" => Ok(Statement::ShowJobs { is_verbose: reader.takes("VERBOSE") }),
        "PROGRESS" => Ok(Statement::ShowProgress { is_verbose: reader.takes("VERBOSE") }),
        "QUERIES" => Ok(Statement::ShowQueries { is_verbose: reader.takes("VERBOSE") }),
        "OPERATORS" => Ok(Statement::ShowOperators { is_verbose: reader.takes("VERBOSE") }),
        "SHARING" => Ok(Statement::ShowSharing),
        "CREATE" if reader.takes("TABLE") || reader.takes("VIEW") => reader.relation().map(Statement::ShowCreate),
        _ => Err(instead_of(&word, &found).unwrap_or_else(|| reader.expected(SHOWN, &found))),
    }
}

/// `STOP JOB name [WITH SAVEPOINT] [WITH DRAIN]`
pub(super) fn stop(reader: &mut Reader<'_>) -> Result<Statement, PlanError> {
    reader.word("STOP")?;
    reader.word("JOB")?;
    let job = job_name(reader)?;
    let (mut with_savepoint, mut with_drain) = (false, false);
    while reader.takes("WITH") {
        let found = reader.parser.peek_token();
        if !with_savepoint && !with_drain && reader.takes("SAVEPOINT") {
            with_savepoint = true;
        } else if !with_drain && reader.takes("DRAIN") {
            with_drain = true;
        } else {
            let expected = match (with_savepoint, with_drain) {
                (_, true) => "the end of the statement",
                (true, false) => "DRAIN",
                (false, false) => "SAVEPOINT or DRAIN",
            };
            return Err(reader.expected(expected, &found));
        }
    }
    Ok(Statement::StopJob { job, with_savepoint, with_drain })
}

/// Takes `ALTER JOB name AS` off a statement that begins with it.
pub(super) fn altered_job(script: &Script<'_>, piece: &mut Piece) -> Result<Option<Named>, PlanError> {
    if !piece.begins_with(&["ALTER", "JOB"]) {
        return Ok(None);
    }
    let dialect = FlinkDialect::default();
    let mut reader = Reader::new(script, piece.clone(), &dialect)?;
    reader.word("ALTER")?;
    reader.word("JOB")?;
    let job = job_name(&mut reader)?;
    reader.word("AS")?;
    let next = reader.parser.peek_token();
    if next.token == Token::EOF {
        return Err(reader.expected(ALTERED, &next));
    }
    piece.tokens.retain(|token| token.span.start >= next.span.start);
    Ok(Some(job))
}

/// `ALTER JOB name AS statement`
pub(super) fn alter(
    job: Named,
    statement: Statement,
    text: &str,
    place: Option<Place>,
) -> Result<Statement, PlanError> {
    match statement {
        Statement::Insert(_) | Statement::StatementSet(_) => {
            Ok(Statement::AlterJob { job, statement: Box::new(statement), text: text.to_owned() })
        }
        _ => Err(PlanError::syntax(place, format!("expected {ALTERED} after AS"))),
    }
}

/// What a job is altered to.
const ALTERED: &str = "INSERT INTO or EXECUTE STATEMENT SET";

/// The name of a job, in quotes or not, or its number.
pub(super) fn job_name(reader: &mut Reader<'_>) -> Result<Named, PlanError> {
    let place = reader.place();
    match &reader.parser.peek_token_ref().token {
        Token::SingleQuotedString(name) | Token::Number(name, false) => {
            let name = name.clone();
            reader.parser.advance_token();
            Ok(Named { name, place })
        }
        _ => {
            let name = reader.identifier("the name of a job, as in 'insert_into_t'")?;
            Ok(Named { name: name.value, place })
        }
    }
}

/// What Flink shows and a session does not have.
fn instead_of(word: &str, found: &TokenWithSpan) -> Option<PlanError> {
    let instead = match word {
        "JARS" | "MODULES" | "FULL" | "PROCEDURES" => "functions come from the program: SHOW FUNCTIONS lists them",
        "PARTITIONS" => "a table has no partitions",
        "MODELS" | "CONNECTIONS" | "MATERIALIZED" => "SHOW TABLES lists what there is",
        _ => return None,
    };
    Some(PlanError::unsupported(Place::at(found.span.start), format!("SHOW {word}"), instead))
}

fn shown_functions(reader: &mut Reader<'_>, are_own: bool) -> Result<Statement, PlanError> {
    from_database(reader)?;
    Ok(Statement::ShowFunctions { are_own, filter: name_filter(reader)? })
}

fn shown_name(reader: &mut Reader<'_>, column: &'static str, name: &'static str) -> Result<Statement, PlanError> {
    Ok(Statement::ShowName { column, name, filter: name_filter(reader)? })
}

/// `[FROM [catalog.]database]`
fn from_database(reader: &mut Reader<'_>) -> Result<(), PlanError> {
    if reader.takes("FROM") || reader.takes("IN") { database(reader) } else { Ok(()) }
}

/// `[[NOT] LIKE 'pattern']`
fn name_filter(reader: &mut Reader<'_>) -> Result<Option<NameFilter>, PlanError> {
    let is_negated = reader.takes("NOT");
    let ignores_case = reader.takes("ILIKE");
    if !ignores_case && !reader.takes("LIKE") {
        return if is_negated { reader.word("LIKE").map(|()| None) } else { Ok(None) };
    }
    let pattern = reader.string("a pattern in quotes, such as 'a%'")?;
    Ok(Some(NameFilter { pattern, is_negated, ignores_case }))
}

/// `USE CATALOG name` and `USE [catalog.]database`: there is one of each.
pub(super) fn use_name(reader: &mut Reader<'_>) -> Result<Statement, PlanError> {
    reader.word("USE")?;
    let place = reader.place();
    if reader.takes("MODULES") {
        return Err(PlanError::unsupported(place, "USE MODULES", "leave it out: functions come from the program"));
    }
    if reader.takes("CATALOG") {
        let place = reader.place();
        let name = reader.identifier("the name of a catalog")?;
        check_catalog(&name, place)?;
    } else {
        database(reader)?;
    }
    Ok(Statement::Use)
}

/// `[catalog.]database`
fn database(reader: &mut Reader<'_>) -> Result<(), PlanError> {
    let place = reader.place();
    let mut name = reader.identifier("the name of a database")?;
    if reader.parser.consume_token(&Token::Period) {
        check_catalog(&name, place)?;
        name = reader.identifier("the name of a database")?;
    }
    if name.value == DATABASE {
        return Ok(());
    }
    let error = PlanError::invalid(Place::of(name.span), format!("there is no database {}", name.value));
    Err(error.with_hint(format!("the only one is {DATABASE}")))
}

fn check_catalog(name: &Ident, place: Option<Place>) -> Result<(), PlanError> {
    if name.value == CATALOG {
        return Ok(());
    }
    let error = PlanError::invalid(place, format!("there is no catalog {}", name.value));
    Err(error.with_hint(format!("the only one is {CATALOG}")))
}

/// How many of the names that stand before the last are those of the session's catalog and database.
fn qualifiers(names: &[&str]) -> usize {
    match names {
        [CATALOG, DATABASE, _, ..] => 2,
        [DATABASE, _, ..] => 1,
        _ => 0,
    }
}

/// The last of several names that are the path to a table.
pub(super) fn named(path: Vec<Ident>, place: Option<Place>) -> Result<Named, PlanError> {
    let names: Vec<&str> = path.iter().map(|name| name.value.as_str()).collect();
    match &names[qualifiers(&names)..] {
        [name] => Ok(Named { name: (*name).to_string(), place }),
        [qualifier, .., name] => {
            let message = format!("there is no catalog or database {qualifier}");
            let hint = format!("write {name}, or {CATALOG}.{DATABASE}.{name}");
            Err(PlanError::invalid(place, message).with_hint(hint))
        }
        [] => unreachable!("a path has a last name"),
    }
}

/// Leaves the session's catalog and database out of the names of tables and columns.
pub(super) fn without_catalog(tree: &mut impl VisitMut) {
    struct Paths;
    impl VisitorMut for Paths {
        type Break = ();

        fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
            if let TableFactor::Table { name: ObjectName(path), args: None, .. } = table {
                let names: Option<Vec<&str>> =
                    path.iter().map(|part| part.as_ident().map(|name| name.value.as_str())).collect();
                let left_out = names.map_or(0, |names| qualifiers(&names));
                path.drain(..left_out);
            }
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
            if let Expr::CompoundIdentifier(path) = expression {
                let names: Vec<&str> = path.iter().map(|name| name.value.as_str()).collect();
                let left_out = qualifiers(&names);
                path.drain(..left_out);
                if path.len() == 1 {
                    *expression = Expr::Identifier(path.remove(0));
                }
            }
            ControlFlow::Continue(())
        }
    }
    let _ = tree.visit(&mut Paths);
}
