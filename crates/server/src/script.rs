//! Where statements come from, and where in it a mistake is.

use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::path::Path;
use std::{fmt, fs};

use pelton::Prepared;
use pelton::{Error, Place, Session};

use crate::arguments::ScriptArguments;
use crate::failure::Failure;
use crate::output::say;

/// The text of statements, and what it is called in messages.
pub struct Script {
    name: String,
    text: String,
}

/// What standard input is called in messages.
const INPUT: &str = "<stdin>";

/// What went wrong in a script, with the line that it is about.
#[derive(Debug)]
struct Located {
    message: String,
    /// Name of the script.
    script: String,
    place: Place,
    /// The line there.
    line: String,
    /// What had become of its code where that was asked for, or nothing.
    story: String,
}

impl std::error::Error for Located {}

impl Script {
    /// The script that the command line names.
    pub fn read(arguments: &ScriptArguments) -> Result<Script, Failure> {
        if let Some(statements) = &arguments.statements {
            return Ok(Script::of_arguments(statements.clone()));
        }
        // A dash stands for standard input, as it does elsewhere.
        match arguments.script.as_ref().filter(|path| path.as_os_str() != "-") {
            Some(path) => Script::of_file(path),
            None => {
                if io::stdin().is_terminal() {
                    say!("type SQL statements and end them with Ctrl-D, or name a script: pelton run script.sql");
                }
                Script::of_input()
            }
        }
    }

    /// Statements of the command line.
    pub fn of_arguments(text: String) -> Script {
        Script { name: "-e".to_string(), text }
    }

    /// Statements that were typed.
    pub fn typed(text: String) -> Script {
        Script { name: INPUT.to_string(), text }
    }

    /// The statements of a file.
    pub fn of_file(path: &Path) -> Result<Script, Failure> {
        Script::decode(path.display().to_string(), std::fs::read(path).map_err(|error| unreadable(path, &error))?)
    }

    /// The statements of standard input.
    pub fn of_input() -> Result<Script, Failure> {
        let mut bytes = Vec::new();
        let read = io::stdin().read_to_end(&mut bytes);
        read.map_err(|error| format!("standard input cannot be read: {error}"))?;
        Script::decode(INPUT.to_string(), bytes)
    }

    fn decode(name: String, bytes: Vec<u8>) -> Result<Script, Failure> {
        match String::from_utf8(bytes) {
            // Some editors begin a text with the mark of its encoding.
            Ok(text) => Ok(Script { name, text: text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text) }),
            Err(error) => {
                let valid = error.utf8_error().valid_up_to();
                let before = String::from_utf8_lossy(&error.as_bytes()[..valid]).into_owned();
                let line = before.rsplit('\n').next().unwrap_or_default();
                let (row, column) = (before.matches('\n').count() + 1, line.chars().count() + 1);
                Err(format!("{name}:{row}:{column}: the script is no text in UTF-8; save it in that encoding").into())
            }
        }
    }

    /// Its statements.
    pub fn statements(&self, session: &Session) -> Result<Vec<Prepared>, Failure> {
        session.prepare(&self.text).map_err(|error| self.at(&error, Place { line: 1, column: 1 }))
    }

    /// The failure of a statement: where it says, or else where the statement begins.
    pub fn failure(&self, error: &Error, statement: &Prepared) -> Failure {
        self.at(error, statement.place())
    }

    /// As [`Script::failure`], of an error that may not be the statement's at all.
    pub fn located(&self, failure: Failure, statement: &Prepared) -> Failure {
        match failure.downcast::<Error>() {
            Ok(error) => self.failure(&error, statement),
            Err(other) => other,
        }
    }

    /// The statements themselves.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// A failure at a character of the text, counted from 1.
    pub fn failure_at(&self, message: String, character: usize) -> Failure {
        let before: String = self.text.chars().take(character.saturating_sub(1)).collect();
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() as u64 + 1;
        let place = Place { line: before.matches('\n').count() as u64 + 1, column };
        self.located_at(message, place, String::new())
    }

    fn located_at(&self, message: String, place: Place, story: String) -> Failure {
        let line = self.text.lines().nth(place.line.saturating_sub(1) as usize).unwrap_or_default().to_string();
        Box::new(Located { message, script: self.name.clone(), place, line, story })
    }

    fn at(&self, error: &Error, start: Place) -> Failure {
        let message = error.to_string();
        let (message, place) = match error.place() {
            Some(place) => {
                let prefix = format!("line {}, column {}: ", place.line, place.column);
                (message.strip_prefix(&prefix).unwrap_or(&message).to_string(), place)
            }
            None => (message, start),
        };
        if let Some((file, row, column, value)) = error.input_row() {
            // What is wrong is in the input, and not in the statement that reads it.
            return Box::new(InputRow::new(message, (file, row), (column, value), (&self.name, place)));
        }
        let story = match error {
            Error::Analyzed { story, .. } => story.clone(),
            _ => String::new(),
        };
        self.located_at(message, place, story)
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let path = path.display().to_string();
    let is_statement = path.contains(char::is_whitespace) && error.kind() == io::ErrorKind::NotFound;
    let hint = if is_statement { "; statements themselves are given with -e" } else { "" };
    format!("the script {path} cannot be read: {error}{hint}").into()
}

/// A row of an input that cannot be read, with its line where that can be found.
#[derive(Debug)]
struct InputRow {
    message: String,
    file: String,
    row: u64,
    /// The line, and at which of its characters the value begins.
    line: Option<(String, usize)>,
    script: String,
    statement: Place,
}

/// Bytes of a file that are read to show a line, at most: the message alone says where it is.
const BYTES_READ_MAX: u64 = 256 << 20;

/// Bytes of a line that is shown a part of, at most.
const LINE_BYTES_MAX: u64 = 64 << 10;

impl InputRow {
    fn new(
        message: String,
        (file, row): (&str, u64),
        (column, value): (&str, &str),
        (script, statement): (&str, Place),
    ) -> InputRow {
        let line = || {
            let line = line_of(Path::new(file), row).filter(|_| !value.is_empty())?;
            let at = value_position(&line, column, value)?;
            let at = line[..at].chars().count();
            Some((line, at))
        };
        InputRow { message, file: file.to_owned(), row, line: line(), script: script.to_owned(), statement }
    }
}

/// A line of a file, by its number from 1. `None` where the file cannot be read again, and where the line is too far behind or too long.
fn line_of(file: &Path, number: u64) -> Option<String> {
    // What a pipe has told is gone, and opening it again would wait for another writer.
    fs::metadata(file).ok().filter(fs::Metadata::is_file)?;
    let mut text = BufReader::new(fs::File::open(file).ok()?.take(BYTES_READ_MAX));
    for _ in 1..number {
        (text.skip_until(b'\n').ok()? > 0).then_some(())?;
    }
    let mut line = Vec::new();
    text.take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut line).ok()?;
    if line.len() as u64 > LINE_BYTES_MAX {
        return None;
    }
    String::from_utf8(line).ok().map(|line| line.trim_end_matches(['\r', '\n']).to_owned())
}

/// Where a value begins in a line, in bytes. The column may be a path, such as `r.a[1]`: in JSON the value is behind the keys of the path.
fn value_position(line: &str, column: &str, value: &str) -> Option<usize> {
    let behind = |from: usize, key: &str| {
        let quoted = format!("\"{key}\"");
        line[from..].find(&quoted).map(|at| from + at + quoted.len())
    };
    let from = behind(0, column).unwrap_or_else(|| {
        let keys = column.split(['.', '[', ']']).map(|step| step.trim_matches('\'')).filter(|step| !step.is_empty());
        keys.fold(0, |from, key| behind(from, key).unwrap_or(from))
    });
    line[from..].find(value).map(|at| from + at)
}

impl std::error::Error for InputRow {}

impl fmt::Display for InputRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { line, column } = self.statement;
        match &self.line {
            None => write!(f, "{}", self.message)?,
            Some((text, at)) => {
                let place = Place { line: self.row, column: *at as u64 + 1 };
                let (message, script) = (self.message.clone(), self.file.clone());
                Located { message, script, place, line: text.clone(), story: String::new() }.fmt(f)?;
            }
        }
        write!(f, "\n(read by the statement at {}:{line}:{column})", self.script)
    }
}

/// Characters of a line that are shown before the mistake, and behind it.
const SHOWN_BEFORE_MAX: usize = 100;
const SHOWN_BEHIND_MAX: usize = 60;

impl fmt::Display for Located {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { line, column } = self.place;
        let number = line.to_string();
        let margin = " ".repeat(number.len());
        let characters: Vec<char> = self.line.chars().collect();
        let at = (column as usize - 1).min(characters.len());
        let from = at.saturating_sub(SHOWN_BEFORE_MAX);
        let to = (at + SHOWN_BEHIND_MAX).min(characters.len());
        let cut = |is_cut: bool| if is_cut { "…" } else { "" };
        let (before, behind) = (cut(from > 0), cut(to < characters.len()));
        let shown: String = characters[from..to].iter().collect();
        // A tab is as wide below as above.
        let indent = characters[from..at].iter().map(|character| if *character == '\t' { '\t' } else { ' ' });
        let indent: String = before.chars().map(|_| ' ').chain(indent).collect();
        let marks = "^".repeat(marked(&characters[at..to]));
        writeln!(f, "{}", self.message)?;
        writeln!(f, "{margin}--> {}:{line}:{column}", self.script)?;
        writeln!(f, "{margin} |")?;
        writeln!(f, "{number} | {before}{}{behind}", shown.trim_end())?;
        write!(f, "{margin} | {indent}{marks}")?;
        if self.story.is_empty() { Ok(()) } else { write!(f, "\n\n{}", self.story.trim_end()) }
    }
}

/// How many characters belong to what begins here: a quoted string, a name or number, or one sign.
fn marked(text: &[char]) -> usize {
    let is_name = |character: &char| character.is_alphanumeric() || ['_', '.', '$'].contains(character);
    let length = match text.first() {
        Some(&quote @ ('\'' | '`' | '"')) => {
            text[1..].iter().position(|character| *character == quote).map_or(text.len(), |end| end + 2)
        }
        Some(character) if is_name(character) => text.iter().take_while(|character| is_name(character)).count(),
        _ => 1,
    };
    length.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_behind_the_keys_that_lead_to_it() {
        let line = r#"{"a":"x","r":{"b":"x","a":[1,"x"]},"m":{"k":"x"}}"#;
        for (column, expected) in [("a", 6), ("r.b", 19), ("r.a[2]", 30), ("m['k']", 45), ("none", 6)] {
            assert_eq!(value_position(line, column, "x"), Some(expected), "{column}");
        }
        assert_eq!(value_position("x,y", "b", "y"), Some(2));
        assert_eq!(value_position(line, "m['k']", "1"), None);
    }

    fn located(line: &str, column: u64) -> String {
        let place = Place { line: 12, column };
        let error =
            Located { message: "wrong".into(), script: "a.sql".into(), place, line: line.into(), story: String::new() };
        error.to_string()
    }

    #[test]
    fn the_line_is_shown_with_marks_below_what_is_wrong() {
        assert_eq!(
            located("\tSELECT nope FROM s", 9),
            "wrong\n  --> a.sql:12:9\n   |\n12 | \tSELECT nope FROM s\n   | \t       ^^^^"
        );
        assert_eq!(located("SELECT 'é' + 1", 8), "wrong\n  --> a.sql:12:8\n   |\n12 | SELECT 'é' + 1\n   |        ^^^");
        // The end of a script lies behind its last character.
        assert_eq!(located("SELECT", 7), "wrong\n  --> a.sql:12:7\n   |\n12 | SELECT\n   |       ^");
    }

    #[test]
    fn of_a_long_line_the_part_around_the_mistake_is_shown() {
        let line = format!("{}nope{}", "x ".repeat(100), " y".repeat(100));
        let shown = located(&line, 201);
        let expected = format!("12 | …{}nope{}…", "x ".repeat(50), " y".repeat(28));
        assert!(shown.contains(&expected), "{shown}");
        assert!(shown.ends_with(&format!("   | {}^^^^", " ".repeat(101))), "{shown}");
    }
}
