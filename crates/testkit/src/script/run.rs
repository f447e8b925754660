//! What comes of each block of a script in one configuration, and how it differs from what is expected.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use pelton_runtime::policy::PolicyName;

use super::parse::{Action, Block, Script};
use crate::rows::{row_lines, schema_line};

/// How the engine runs a script. Results must not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Configuration {
    /// `interpret`, `compile`, or `auto`: now one and now the other, where code changes at random.
    pub tier: &'static str,
    /// Worker threads.
    pub workers: usize,
    /// Rows in a block; `None` for the engine's default.
    pub block_rows: Option<usize>,
    /// Who goes first of what can run.
    pub policy: &'static str,
    /// What operators pass to each other.
    pub data_passing: &'static str,
}

/// Values of `pelton.data-passing`.
const DATA_PASSING: [&str; 2] = ["blocks", "queues"];

impl Configuration {
    /// The settings of a session that runs so.
    pub fn settings(&self) -> BTreeMap<&'static str, String> {
        let mut settings = BTreeMap::from([
            ("pelton.tier", self.tier.to_string()),
            ("pelton.workers", self.workers.to_string()),
            ("pelton.policy", self.policy.to_string()),
            ("pelton.data-passing", self.data_passing.to_string()),
        ]);
        if let Some(rows) = self.block_rows {
            settings.insert("pelton.block-rows", rows.to_string());
            // Many tasks: code changes between any of them.
            settings.insert("pelton.adapt", "random".to_string());
        }
        settings
    }

    /// The same with another policy and another way to pass data: all of them, as turns go on.
    pub fn in_turn(self, turn: usize) -> Configuration {
        let policies: Vec<&str> = PolicyName::all().map(PolicyName::name).collect();
        let (policy, passing) = (turn % policies.len(), turn / policies.len() % DATA_PASSING.len());
        Configuration { policy: policies[policy], data_passing: DATA_PASSING[passing], ..self }
    }
}

impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} workers, ", self.tier, self.workers)?;
        match self.block_rows {
            Some(rows) => write!(f, "blocks of {rows}, ")?,
            None => f.write_str("blocks of the default size, ")?,
        }
        write!(f, "{}, {}", self.policy, self.data_passing)
    }
}

/// Every configuration a script runs in. Policies and data passing take turns, which go on with each script: all of them together run in every
/// policy, with blocks and queues, with one worker and two.
pub fn configurations(script: usize) -> Vec<Configuration> {
    let mut all = Vec::new();
    let mut turns = TURNS_PER_SCRIPT * script..;
    for (tier, sizes) in [("interpret", SIZES), ("compile", SIZES), ("auto", &[Some(7)])] {
        for workers in [1, 2] {
            for &block_rows in sizes {
                let (policy, data_passing) = ("adaptive", "blocks");
                let configuration = Configuration { tier, workers, block_rows, policy, data_passing };
                all.extend(turns.next().map(|turn| configuration.in_turn(turn)));
            }
        }
    }
    all
}

/// Those configurations that differ in what the script leaves open: what its first statements set is the same in all.
pub fn distinct(script: &Script, mut configurations: Vec<Configuration>) -> Vec<Configuration> {
    let set = set_at_first(script);
    let mut known = BTreeSet::new();
    configurations.retain(|configuration| {
        let mut settings = configuration.settings();
        settings.retain(|key, _| !set.iter().any(|set| set == key));
        known.insert(settings)
    });
    configurations
}

/// Keys of the settings that a script makes before anything runs.
fn set_at_first(script: &Script) -> Vec<String> {
    let mut keys = Vec::new();
    for block in script.blocks().filter(|block| !matches!(block.action, Action::File { .. })) {
        if !matches!(block.action, Action::Statement) {
            break;
        }
        for statement in block.body.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
            let set = statement.strip_prefix("SET '").and_then(|rest| rest.split_once('\''));
            match set {
                Some((key, _)) => keys.push(key.to_string()),
                None if statement.starts_with("CREATE ") => {}
                None => return keys,
            }
        }
    }
    keys
}

/// Rows in a block; none for the engine's default.
const SIZES: &[Option<usize>] = &[None, Some(1), Some(7)];

/// Configurations of a script.
pub const CONFIGURATIONS: usize = 14;

/// No fewer than there are configurations; and no factor is one of the number of policies and ways to pass data, so that each configuration meets all of them.
const TURNS_PER_SCRIPT: usize = 17;

/// What a script's engine says to one block's SQL.
#[derive(Debug, Default)]
pub struct Executed {
    /// Rows of each statement that returns rows.
    pub results: Vec<Rows>,
    /// Counters of what was not computed: their names, and numbers that are not zero.
    pub counters: Vec<(&'static str, u64)>,
    /// The message of the statement that failed; those after it did not run.
    pub error: Option<String>,
}

/// Rows that a statement returned.
#[derive(Debug)]
pub struct Rows {
    /// Names and types of their columns.
    pub schema: SchemaRef,
    /// The rows.
    pub batches: Vec<RecordBatch>,
}

impl Rows {
    /// A text in the place of rows.
    pub fn of_text(note: String) -> Rows {
        let schema = Arc::new(Schema::new(vec![Field::new("note", DataType::Utf8View, false)]));
        let texts = Arc::new(StringViewArray::from_iter_values([note]));
        let batch = RecordBatch::try_new(schema.clone(), vec![texts]).expect("one column of text");
        Rows { schema, batches: vec![batch] }
    }
}

/// What a script asks of an engine.
#[derive(Debug, Clone, Copy)]
pub enum Request<'a> {
    /// Runs statements, each to its end.
    Run(&'a str),
    /// Runs statements, and leaves inserts to the engine as jobs.
    Detach(&'a str),
    /// Waits for the end of a job.
    Wait(&'a str),
}

/// Does what one script asks for in one configuration, keeping tables and settings from block to block.
pub type Engine<'a> = dyn FnMut(Request<'_>) -> Executed + 'a;

/// What is different from what a script expects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Line of the script where the block begins.
    pub line: usize,
    /// Expected lines.
    pub expected: Vec<String>,
    /// Lines that came.
    pub found: Vec<String>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "line {}:", self.line)?;
        for line in self.expected.iter().filter(|line| !self.found.contains(line)) {
            writeln!(f, "  - {line}")?;
        }
        for line in self.found.iter().filter(|line| !self.expected.contains(line)) {
            writeln!(f, "  + {line}")?;
        }
        write!(f, "  {} lines expected, {} found", self.expected.len(), self.found.len())
    }
}

/// Runs all blocks in `directory`, which must be empty, and returns the lines that came of each.
///
/// # Errors
/// Where the directory cannot be written to or read.
pub fn outcomes(script: &Script, directory: &Path, engine: &mut Engine<'_>) -> std::io::Result<Vec<Vec<String>>> {
    script.blocks().map(|block| outcome(block, directory, engine)).collect()
}

/// Compares what came of a script with what it expects.
pub fn mismatches(script: &Script, outcomes: &[Vec<String>]) -> Vec<Mismatch> {
    let differs = |(block, found): (&Block, &Vec<String>)| {
        let mut expected = block.expected.clone();
        if is_sorted(&block.action) {
            // What was written by hand need not be in the order of the text.
            sort_rows(&mut expected, &block.action);
        }
        (expected != *found).then(|| Mismatch { line: block.line, expected, found: found.clone() })
    };
    script.blocks().zip(outcomes).filter_map(differs).collect()
}

fn outcome(block: &Block, directory: &Path, engine: &mut Engine<'_>) -> std::io::Result<Vec<String>> {
    let place = directory.to_string_lossy();
    let sql = block.body.replace("${dir}", &place);
    let lines = match &block.action {
        Action::File { name, escaped } => {
            let path = directory.join(name);
            std::fs::create_dir_all(path.parent().unwrap_or(directory))?;
            let content = if *escaped { unescaped(&block.body) } else { with_last_newline(&block.body) };
            std::fs::write(path, content)?;
            Vec::new()
        }
        Action::Statement | Action::Detached => {
            let is_detached = block.action == Action::Detached;
            let executed = engine(if is_detached { Request::Detach(&sql) } else { Request::Run(&sql) });
            let rows = executed.results.iter().map(|_| "rows came: use query".to_string());
            rows.chain(counter_lines(&executed))
                .chain(executed.error.as_deref().into_iter().flat_map(error_lines))
                .collect()
        }
        Action::Error => match engine(Request::Run(&sql)).error {
            Some(message) => error_lines(&message).collect(),
            None => vec!["no error".to_string()],
        },
        Action::Query { schema, .. } => query_lines(engine(Request::Run(&sql)), *schema),
        Action::Explain(section) => {
            section_lines(query_lines(engine(Request::Run(&format!("EXPLAIN {sql}"))), false), section)
        }
        Action::Job(name) => query_lines(engine(Request::Wait(name)), false),
        Action::Read { name, .. } => read_lines(&directory.join(name))?,
    };
    let mut lines: Vec<String> = lines.iter().map(|line| line.replace(place.as_ref(), "${dir}")).collect();
    if is_sorted(&block.action) {
        sort_rows(&mut lines, &block.action);
    }
    Ok(lines)
}

fn query_lines(executed: Executed, schema: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for rows in &executed.results {
        if schema {
            lines.push(schema_line(&rows.schema));
        }
        for batch in &rows.batches {
            match row_lines(batch) {
                Ok(rows) => lines.extend(rows),
                Err(error) => lines.push(format!("no text form: {error}")),
            }
        }
    }
    lines.extend(counter_lines(&executed));
    lines.extend(executed.error.as_deref().into_iter().flat_map(error_lines));
    lines
}

fn counter_lines(executed: &Executed) -> impl Iterator<Item = String> {
    executed.counters.iter().map(|(name, count)| format!("{name}: {count}"))
}

fn error_lines(message: &str) -> impl Iterator<Item = String> {
    let lines = message.lines().filter(|line| !line.trim().is_empty()).enumerate();
    lines.map(|(index, line)| if index == 0 { format!("error: {line}") } else { line.to_string() })
}

/// The lines under the heading `== … ==` that names `section`.
fn section_lines(lines: Vec<String>, section: &str) -> Vec<String> {
    let heading = |line: &str| line.starts_with("== ");
    let texts = lines.iter().flat_map(|line| line.lines()).map(str::to_string);
    let mut under =
        texts.skip_while(|line| !(heading(line) && line.to_lowercase().contains(section))).skip(1).peekable();
    if under.peek().is_none() {
        return lines;
    }
    under.take_while(|line| !heading(line)).filter(|line| !line.trim().is_empty()).collect()
}

fn read_lines(path: &Path) -> std::io::Result<Vec<String>> {
    if !path.exists() {
        return Ok(vec!["there is no such file".to_string()]);
    }
    let mut files: Vec<PathBuf> = vec![path.to_path_buf()];
    if path.is_dir() {
        files = std::fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
        files.sort();
    }
    let mut lines = Vec::new();
    for file in files {
        lines.extend(std::fs::read_to_string(file)?.lines().map(str::to_string));
    }
    Ok(lines)
}

fn is_sorted(action: &Action) -> bool {
    matches!(action, Action::Query { sorted: true, .. } | Action::Read { sorted: true, .. })
}

/// Sorts rows, and leaves a heading where it is.
fn sort_rows(lines: &mut [String], action: &Action) {
    let heading = usize::from(matches!(action, Action::Query { schema: true, .. })).min(lines.len());
    lines[heading..].sort();
}

fn with_last_newline(text: &str) -> Vec<u8> {
    let end = if text.is_empty() { "" } else { "\n" };
    format!("{text}{end}").into_bytes()
}

/// Bytes written as `\xNN`, `\n`, `\r`, `\t` and `\\`; line ends of the script itself do not count.
fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes().filter(|byte| *byte != b'\n');
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next() {
            Some(b'n') => bytes.push(b'\n'),
            Some(b'r') => bytes.push(b'\r'),
            Some(b't') => bytes.push(b'\t'),
            Some(b'x') => {
                let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16)).unwrap_or(0) as u8;
                bytes.push(digit() * 16 + digit());
            }
            Some(other) => bytes.push(other),
            None => bytes.push(b'\\'),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array};

    use super::*;

    /// Answers a number with its rows from 0, and anything else with an error.
    fn counting(request: Request<'_>) -> Executed {
        let (Request::Run(sql) | Request::Detach(sql) | Request::Wait(sql)) = request;
        let Ok(count) = sql.parse::<i64>() else {
            return Executed { error: Some(format!("no number: {sql}")), ..Executed::default() };
        };
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values((0..count).rev()));
        let batch = RecordBatch::try_from_iter(vec![("n", values)]).unwrap();
        let rows = Rows { schema: batch.schema(), batches: vec![batch] };
        Executed { results: vec![rows], counters: vec![("late rows", 3)], error: None }
    }

    fn check(text: &str) -> Vec<Mismatch> {
        let script = Script::parse(text).unwrap();
        let directory = crate::script::TemporaryDirectory::new().unwrap();
        let outcomes = outcomes(&script, directory.path(), &mut counting).unwrap();
        mismatches(&script, &outcomes)
    }

    #[test]
    fn what_is_expected_passes() {
        assert_eq!(check("query rowsort schema\n2\n----\nn BIGINT NOT NULL\n1\n0\nlate rows: 3\n"), []);
        assert_eq!(check("query\n2\n----\n1\n0\nlate rows: 3\n"), []);
        assert_eq!(check("statement error\nx ${dir}\n----\nerror: no number: x ${dir}\n"), []);
        assert_eq!(
            check("file a/b.txt escaped\nx\\n\\x41\n----\n\nread a/b.txt\n----\nx\nA\n\nread a\n----\nx\nA\n"),
            []
        );
    }

    #[test]
    fn what_differs_is_shown() {
        let found = check("statement ok\n1\n\nquery\n2\n----\n0\n1\nlate rows: 3\n\nstatement error\n1\n----\nno\n");
        assert_eq!(found.iter().map(|mismatch| mismatch.line).collect::<Vec<_>>(), [1, 4, 11]);
        assert_eq!(found[0].found, ["rows came: use query", "late rows: 3"]);
        assert_eq!(found[2].to_string(), "line 11:\n  - no\n  + no error\n  1 lines expected, 1 found");
    }

    #[test]
    fn what_a_script_sets_itself_is_not_tried_again() {
        let count = |text: &str| distinct(&Script::parse(text).unwrap(), configurations(3)).len();
        let sets = |keys: &[&str]| keys.iter().map(|key| format!("SET '{key}' = '1';\n")).collect::<String>();
        assert_eq!(count("query\nSELECT 1\n----\n1\n"), CONFIGURATIONS);
        let all = [
            "pelton.tier",
            "pelton.workers",
            "pelton.policy",
            "pelton.data-passing",
            "pelton.block-rows",
            "pelton.adapt",
        ];
        assert_eq!(count(&format!("file a\n1\n----\n\nstatement ok\n{}CREATE TABLE t (a INT);\n", sets(&all))), 1);
        // Policies take turns with the rest, so that runs that differ in nothing else differ in these.
        assert_eq!(count(&format!("statement ok\n{}", sets(&["pelton.tier", "pelton.workers"]))), CONFIGURATIONS);
        let later = format!("statement ok\nINSERT INTO t SELECT 1;\n{}", sets(&all));
        assert_eq!(count(&later), CONFIGURATIONS);
        assert_eq!(count(&format!("query\nSELECT 1\n----\n1\n\nstatement ok\n{}", sets(&all))), CONFIGURATIONS);
    }

    #[test]
    fn every_way_to_run_occurs_in_a_few_scripts() {
        let ran: Vec<Configuration> = (0..78).flat_map(configurations).collect();
        assert_eq!(ran.len(), 78 * CONFIGURATIONS);
        let way = |c: &Configuration| (c.policy, c.data_passing, c.workers);
        let ways: std::collections::BTreeSet<_> = ran.iter().map(way).collect();
        assert_eq!(ways.len(), PolicyName::all().count() * 2 * 2);
    }
}
