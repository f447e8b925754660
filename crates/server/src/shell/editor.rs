//! The line editor: history, completion, colours, and statements of several lines.

use std::borrow::Cow;
use std::fs::OpenOptions;
use std::io;
use std::path::PathBuf;

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use super::Command;
use super::backend::Backend;
use super::complete::complete;
use super::keywords::KEYWORDS;
use crate::failure::Failure;
use crate::scan::{Kind, is_complete, scan};

const PROMPT: &str = "pelton> ";
/// More of a statement is expected.
const CONTINUATION: &str = "   ...> ";

/// Statements that the history keeps.
const HISTORY_MAX: usize = 10_000;

/// What was typed.
pub enum Input {
    /// One or more whole statements, or a command of the shell.
    Text(String),
    /// Ctrl-C: what was typed is dropped.
    Interrupted,
    /// Ctrl-D: the end.
    End,
}

pub struct LineEditor {
    editor: Editor<SqlHelper, FileHistory>,
    history_file: Option<PathBuf>,
}

impl LineEditor {
    pub fn new(backend: &Backend) -> Result<LineEditor, Failure> {
        let config = Config::builder().completion_type(CompletionType::List).max_history_size(HISTORY_MAX)?.build();
        let mut editor = Editor::with_config(config)?;
        editor.set_helper(Some(SqlHelper { backend: backend.clone(), lines_before: String::new() }));
        let history_file = history_file();
        if let Some(file) = &history_file {
            // A first session has none.
            drop(editor.load_history(file));
        }
        Ok(LineEditor { editor, history_file })
    }

    /// Reads until statements are complete.
    pub fn read(&mut self) -> Result<Input, Failure> {
        let mut text = String::new();
        loop {
            if let Some(helper) = self.editor.helper_mut() {
                helper.lines_before.clone_from(&text);
            }
            let prompt = if text.is_empty() { PROMPT } else { CONTINUATION };
            match self.editor.readline(prompt) {
                Ok(line) => text.push_str(&line),
                Err(ReadlineError::Interrupted) => return Ok(Input::Interrupted),
                Err(ReadlineError::Eof) => return Ok(Input::End),
                Err(error) => return Err(error.into()),
            }
            if Command::of(&text).is_some() || is_complete(&text) {
                self.remember(&text);
                return Ok(Input::Text(text));
            }
            text.push('\n');
        }
    }

    /// Adds to the history. A file that cannot be written is no reason to stop.
    fn remember(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        let is_new = self.editor.add_history_entry(text.trim_end()).unwrap_or(false);
        if let Some(file) = self.history_file.as_ref().filter(|_| is_new) {
            drop(self.editor.append_history(file));
        }
    }
}

/// `pelton/history` in the folder for what programs remember. Statements can hold passwords: others may not read it.
fn history_file() -> Option<PathBuf> {
    let folder = |variable: &str| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = folder("XDG_STATE_HOME").or_else(|| folder("HOME").map(|home| home.join(".local/state")))?;
    let file = state.join("pelton/history");
    create_private(&file).ok()?;
    Some(file)
}

fn create_private(file: &std::path::Path) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file).map(drop)
}

/// What the editor asks about a line.
struct SqlHelper {
    backend: Backend,
    /// The lines of the statement that were typed before this one.
    lines_before: String,
}

impl Completer for SqlHelper {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let before = self.lines_before.len();
        let completion = complete(&self.backend, &format!("{}{line}", self.lines_before), before + at);
        // A string that began on another line stays as it is.
        let is_here = completion.start >= before;
        Ok(if is_here { (completion.start - before, completion.texts) } else { (at, Vec::new()) })
    }
}

impl Highlighter for SqlHelper {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        let before = self.lines_before.len();
        let text = format!("{}{line}", self.lines_before);
        let (mut coloured, mut at) = (String::with_capacity(2 * line.len()), before);
        for token in scan(&text).iter().filter(|token| token.range.end > before) {
            let colour = match token.kind {
                Kind::Word if KEYWORDS.iter().any(|keyword| token.is(keyword)) => "\x1b[1;34m",
                Kind::Text => "\x1b[32m",
                Kind::Comment => "\x1b[90m",
                _ => continue,
            };
            let start = token.range.start.max(before);
            coloured.push_str(&text[at..start]);
            coloured.push_str(colour);
            coloured.push_str(&text[start..token.range.end]);
            coloured.push_str("\x1b[0m");
            at = token.range.end;
        }
        coloured.push_str(&text[at..]);
        Cow::Owned(coloured)
    }

    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, is_default: bool) -> Cow<'b, str> {
        if is_default { Cow::Owned(format!("\x1b[1m{prompt}\x1b[0m")) } else { Cow::Borrowed(prompt) }
    }

    fn highlight_char(&self, _: &str, _: usize, kind: CmdKind) -> bool {
        kind != CmdKind::MoveCursor
    }
}

impl Hinter for SqlHelper {
    type Hint = String;
}

impl Validator for SqlHelper {}

impl Helper for SqlHelper {}
