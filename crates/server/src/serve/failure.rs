//! Errors as clients get them: SQLSTATE, message, hint, and the character of the statement.

use std::fmt::Display;

use pelton::{Error, Place, PlanErrorKind};
use pgwire::error::{ErrorInfo, SEVERITY_ERROR, SEVERITY_FATAL, SEVERITY_NOTICE, SEVERITY_WARNING};
use pgwire::messages::PgWireBackendMessage;

use super::wire::MESSAGE_BYTES_MAX;

const SYNTAX_ERROR: &str = "42601";
const FEATURE_NOT_SUPPORTED: &str = "0A000";
const INVALID_STATEMENT: &str = "42000";
const DATA_EXCEPTION: &str = "22000";
const SYSTEM_ERROR: &str = "58000";
const INVALID_PARAMETER_VALUE: &str = "22023";
const NOT_IN_PREREQUISITE_STATE: &str = "55000";
const INTERNAL_ERROR: &str = "XX000";
const QUERY_CANCELED: &str = "57014";
const ADMIN_SHUTDOWN: &str = "57P01";
const PROTOCOL_VIOLATION: &str = "08P01";
const PROGRAM_LIMIT_EXCEEDED: &str = "54000";

/// Why a statement or a connection ends.
#[derive(Debug)]
pub enum End {
    /// The statement fails; the connection goes on, unless the error is fatal.
    Failed(Box<ErrorInfo>),
    /// The client has gone.
    Gone,
}

impl End {
    pub fn failed(code: &str, message: impl Into<String>) -> End {
        End::Failed(Box::new(ErrorInfo::new(SEVERITY_ERROR.to_owned(), code.to_owned(), message.into())))
    }

    /// Ends the connection as well.
    pub fn fatal(code: &str, message: impl Into<String>) -> End {
        End::Failed(Box::new(ErrorInfo::new(SEVERITY_FATAL.to_owned(), code.to_owned(), message.into())))
    }

    /// The statement is sound, and nothing for this server.
    pub fn unsupported(message: impl Into<String>, hint: impl Into<String>) -> End {
        End::failed(FEATURE_NOT_SUPPORTED, message).with_hint(hint)
    }

    pub fn cancelled() -> End {
        End::failed(QUERY_CANCELED, "the statement was cancelled")
    }

    pub fn stopping() -> End {
        End::fatal(ADMIN_SHUTDOWN, "the server is being stopped")
    }

    pub fn protocol(problem: impl Display) -> End {
        End::fatal(PROTOCOL_VIOLATION, format!("the client does not keep to the protocol: {problem}"))
    }

    pub fn message_too_large(bytes: usize) -> End {
        let message = format!("a message of {bytes} bytes was sent; one may have {MESSAGE_BYTES_MAX} bytes");
        End::fatal(PROGRAM_LIMIT_EXCEEDED, message)
    }

    pub fn internal(problem: impl Display) -> End {
        End::failed(INTERNAL_ERROR, problem.to_string())
    }

    pub fn with_hint(mut self, hint: impl Into<String>) -> End {
        if let End::Failed(info) = &mut self {
            info.hint = Some(hint.into());
        }
        self
    }

    pub fn with_position(mut self, character: usize) -> End {
        if let End::Failed(info) = &mut self {
            info.position = Some(character.to_string());
        }
        self
    }

    /// An error of the engine. `position` says which character of what the client has sent is at a place of the statement, counted from 1.
    pub fn of(error: &Error, position: impl FnOnce(Place) -> usize) -> End {
        let (message, hint) = match error {
            Error::Plan(error) => (error.message.clone(), error.hint.clone()),
            other => (without_place(other), None),
        };
        let end = End::failed(code(error), message);
        let end = match hint {
            Some(hint) => end.with_hint(hint),
            None => end,
        };
        match error.place() {
            Some(place) => end.with_position(position(place)),
            None => end,
        }
    }
}

/// The text of an error without the place that it begins with: clients are told that as a number.
fn without_place(error: &Error) -> String {
    let text = error.to_string();
    let place = error.place().map(|Place { line, column }| format!("line {line}, column {column}: "));
    place.and_then(|place| text.strip_prefix(&place).map(str::to_owned)).unwrap_or(text)
}

fn code(error: &Error) -> &'static str {
    match error {
        Error::Plan(error) => match error.kind {
            PlanErrorKind::Syntax => SYNTAX_ERROR,
            PlanErrorKind::Unsupported => FEATURE_NOT_SUPPORTED,
            PlanErrorKind::Invalid => INVALID_STATEMENT,
        },
        Error::Table { .. } => INVALID_STATEMENT,
        Error::Setting { .. } => INVALID_PARAMETER_VALUE,
        Error::Run(_) | Error::Analyzed { .. } if error.input_row().is_some() => DATA_EXCEPTION,
        Error::Run(_) | Error::Analyzed { .. } | Error::Checkpoint(_) => SYSTEM_ERROR,
        Error::Usage(_) => NOT_IN_PREREQUISITE_STATE,
        Error::Compile(_) => INTERNAL_ERROR,
    }
}

/// What a client is told beside the result.
pub fn notice(message: impl Into<String>) -> PgWireBackendMessage {
    told(SEVERITY_NOTICE, "00000", message)
}

/// What a client should know of the result.
pub fn warning(message: impl Into<String>) -> PgWireBackendMessage {
    told(SEVERITY_WARNING, "01000", message)
}

fn told(severity: &str, code: &str, message: impl Into<String>) -> PgWireBackendMessage {
    let info = ErrorInfo::new(severity.to_owned(), code.to_owned(), message.into());
    PgWireBackendMessage::NoticeResponse(info.into())
}

/// The character of a text at a place, counted from 1.
pub fn position_in(text: &str, place: Place) -> usize {
    let line = usize::try_from(place.line).unwrap_or(1).saturating_sub(1);
    let before: usize = text.split_inclusive('\n').take(line).map(|line| line.chars().count()).sum();
    before + usize::try_from(place.column).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_characters_of_the_text() {
        let text = "SELECT 'ä',\n  b";
        assert_eq!(position_in(text, Place { line: 1, column: 8 }), 8);
        assert_eq!(position_in(text, Place { line: 2, column: 3 }), 15);
        assert_eq!(text.chars().nth(14), Some('b'));
    }
}
