//! `EXECUTE STATEMENT SET BEGIN … END`: inserts that run as one program, with semicolons between them.

use sqlparser::tokenizer::Location;

use crate::errors::{Place, PlanError};
use crate::parse::dialect::FlinkDialect;
use crate::parse::reader::Reader;
use crate::parse::script::{Piece, Script};
use crate::parse::statement::{FileTable, Insert, Statement};
use crate::parse::vocabulary::is_blank;

/// The opening words of a statement set.
pub(super) struct StatementSetStart {
    /// How many words it takes.
    pub tokens: usize,
    /// What stands before it.
    pub prefix: Prefix,
}

/// What stands before a statement set.
pub(super) enum Prefix {
    None,
    Explain,
    Analyze { is_verbose: bool },
}

/// `EXECUTE STATEMENT SET BEGIN`, `BEGIN STATEMENT SET`, `EXPLAIN [ANALYZE [VERBOSE]] STATEMENT SET BEGIN`: semicolons inside separate inserts.
pub(super) fn statement_set_start(piece: &Piece) -> Option<StatementSetStart> {
    let openings: [(&[&str], Prefix); 7] = [
        (&["EXECUTE", "STATEMENT", "SET", "BEGIN"], Prefix::None),
        (&["BEGIN", "STATEMENT", "SET"], Prefix::None),
        (&["STATEMENT", "SET", "BEGIN"], Prefix::None),
        (&["EXPLAIN", "PLAN", "FOR", "STATEMENT", "SET", "BEGIN"], Prefix::Explain),
        (&["EXPLAIN", "STATEMENT", "SET", "BEGIN"], Prefix::Explain),
        (&["EXPLAIN", "ANALYZE", "STATEMENT", "SET", "BEGIN"], Prefix::Analyze { is_verbose: false }),
        (&["EXPLAIN", "ANALYZE", "VERBOSE", "STATEMENT", "SET", "BEGIN"], Prefix::Analyze { is_verbose: true }),
    ];
    openings.into_iter().find_map(|(words, prefix)| {
        let tokens = piece.tokens_of_words(words)?;
        Some(StatementSetStart { tokens, prefix })
    })
}

pub(super) fn read_statement_set(
    script: &mut Script,
    opening: &Piece,
    skip: usize,
    files: &mut Vec<FileTable>,
) -> Result<(Vec<Insert>, Location), PlanError> {
    let opening_place = Place::at(opening.start());
    let mut inserts = Vec::new();
    let mut rest = Piece { tokens: opening.tokens[skip..].to_vec() };
    // `BEGIN STATEMENT SET;` ends its opening words with a semicolon of its own.
    let mut is_used_up = rest.tokens.iter().all(is_blank);
    loop {
        if is_used_up {
            rest = script.next_piece().ok_or_else(|| {
                PlanError::syntax(opening_place, "the statement set does not end").with_hint("close it with END;")
            })?;
        }
        is_used_up = true;
        if rest.tokens_of_words(&["END"]).is_some_and(|end| rest.tokens[end..].iter().all(is_blank)) {
            if inserts.is_empty() {
                return Err(PlanError::syntax(opening_place, "the statement set is empty")
                    .with_hint("put INSERT INTO statements between BEGIN and END"));
            }
            return Ok((inserts, rest.end()));
        }
        let first = rest.tokens[0].clone();
        let dialect = FlinkDialect::default();
        let reader = Reader::new(script, std::mem::replace(&mut rest, Piece { tokens: Vec::new() }), &dialect)?;
        match reader.statement(files)? {
            Statement::Insert(insert) => inserts.push(insert),
            _ => {
                let message = format!("expected INSERT INTO or END in the statement set, found {}", first.token);
                return Err(PlanError::syntax(Place::at(first.span.start), message));
            }
        }
    }
}
