//! A script as a list of blocks, which can be written back as it was.

use std::fmt;

/// A line that ends what is given and begins what is expected.
const DIVIDER: &str = "----";

/// A script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    items: Vec<Item>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Item {
    /// A comment or an empty line.
    Text(String),
    Block(Block),
}

/// One thing to do, and what must come of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Line of the script where it begins, from 1.
    pub line: usize,
    /// What to do.
    pub action: Action,
    /// The SQL text, the file's content, or the name of the output to read.
    pub body: String,
    /// Lines that must come of it; none where nothing must.
    pub expected: Vec<String>,
    header: String,
}

/// What a block does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// `file NAME`: writes an input file.
    File {
        /// Its name inside the script's directory.
        name: String,
        /// `escaped`: `\xNN`, `\n`, `\r`, `\t` and `\\` in the content stand for bytes.
        escaped: bool,
    },
    /// `statement ok`: runs statements that return no rows. Counters that are not zero are expected.
    Statement,
    /// `statement detached`: runs statements, and leaves inserts to the engine as jobs.
    Detached,
    /// `job NAME`: waits for the end of a job. What has become of it is expected, its error where it failed, and its counters.
    Job(String),
    /// `statement error`: runs statements, the last of which must fail with exactly the expected message.
    Error,
    /// `query`: runs statements; the rows of those that return some are expected.
    Query {
        /// `rowsort`: the rows' order does not matter.
        sorted: bool,
        /// `schema`: the first expected line has the columns' names and types.
        schema: bool,
    },
    /// `explain WHAT`: one section of what EXPLAIN says of the query.
    Explain(String),
    /// `read NAME`: the lines of a file, or of all files of a directory in order of their names.
    Read {
        /// Name inside the script's directory.
        name: String,
        /// `rowsort`: the lines' order does not matter.
        sorted: bool,
    },
}

/// A line of a script that means nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct ScriptError {
    /// From 1.
    pub line: usize,
    /// What is wrong, and what would be right.
    pub problem: String,
}

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// Where a block begins with a line that is no header, or has no end.
    pub fn parse(text: &str) -> Result<Script, ScriptError> {
        let mut items = Vec::new();
        let mut lines = text.lines().enumerate().peekable();
        while let Some((index, line)) = lines.next() {
            if line.trim().is_empty() || line.starts_with('#') {
                items.push(Item::Text(line.to_string()));
                continue;
            }
            let action = parse_header(line).map_err(|problem| ScriptError { line: index + 1, problem })?;
            let is_file = matches!(action, Action::File { .. });
            let mut body = Vec::new();
            let mut divided = false;
            for (_, line) in lines.by_ref() {
                divided = line == DIVIDER;
                if divided || (!is_file && line.trim().is_empty()) {
                    break;
                }
                body.push(line);
            }
            if is_file && !divided {
                let problem = format!("the file has no end: close it with a line '{DIVIDER}'");
                return Err(ScriptError { line: index + 1, problem });
            }
            let mut expected = Vec::new();
            if divided && !is_file {
                let found = std::iter::from_fn(|| lines.next_if(|(_, line)| !line.trim().is_empty()));
                expected.extend(found.map(|(_, line)| line.to_string()));
                // The empty line that ends the block belongs to it, as it does where there is no divider.
                lines.next();
            }
            let header = line.to_string();
            items.push(Item::Block(Block { line: index + 1, action, body: body.join("\n"), expected, header }));
        }
        Ok(Script { items })
    }

    /// The blocks, in order.
    pub fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.items.iter().filter_map(|item| match item {
            Item::Text(_) => None,
            Item::Block(block) => Some(block),
        })
    }

    /// Replaces what the blocks expect, in order.
    pub fn bless(&mut self, outcomes: Vec<Vec<String>>) {
        let blocks = self.items.iter_mut().filter_map(|item| match item {
            Item::Text(_) => None,
            Item::Block(block) => Some(block),
        });
        blocks.zip(outcomes).for_each(|(block, outcome)| block.expected = outcome);
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, item) in self.items.iter().enumerate() {
            let block = match item {
                Item::Text(text) => {
                    writeln!(f, "{text}")?;
                    continue;
                }
                Item::Block(block) => block,
            };
            writeln!(f, "{}", block.header)?;
            if !block.body.is_empty() {
                writeln!(f, "{}", block.body)?;
            }
            let is_file = matches!(block.action, Action::File { .. });
            if is_file || !matches!(block.action, Action::Statement | Action::Detached) || !block.expected.is_empty() {
                writeln!(f, "{DIVIDER}")?;
            }
            block.expected.iter().try_for_each(|line| writeln!(f, "{line}"))?;
            if !is_file && index + 1 < self.items.len() {
                writeln!(f)?;
            }
        }
        Ok(())
    }
}

fn parse_header(line: &str) -> Result<Action, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let options = words.get(1..).unwrap_or_default();
    let only = |known: &[&str], from: usize| match options.iter().skip(from).find(|option| !known.contains(option)) {
        Some(option) => Err(format!("'{option}' is not known here; known are: {}", known.join(", "))),
        None => Ok(()),
    };
    let name = || options.first().map(|name| name.to_string()).ok_or("a name is missing".to_string());
    match words[0] {
        "file" => {
            only(&["escaped"], 1)?;
            Ok(Action::File { name: name()?, escaped: options.contains(&"escaped") })
        }
        "statement" if options == ["ok"] => Ok(Action::Statement),
        "statement" if options == ["detached"] => Ok(Action::Detached),
        "job" if options.len() == 1 => Ok(Action::Job(name()?)),
        "statement" if options == ["error"] => Ok(Action::Error),
        "query" => {
            only(&["rowsort", "schema"], 0)?;
            Ok(Action::Query { sorted: options.contains(&"rowsort"), schema: options.contains(&"schema") })
        }
        "explain" if options.len() == 1 => Ok(Action::Explain(name()?)),
        "read" => {
            only(&["rowsort"], 1)?;
            Ok(Action::Read { name: name()?, sorted: options.contains(&"rowsort") })
        }
        _ => Err(format!(
            "'{line}' is no header; use file NAME, statement ok, statement detached, statement error, job NAME, query [rowsort] [schema], explain SECTION or read NAME"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "\
# what this is about
file a.csv
x

y
----

statement ok
CREATE TABLE t (
  a INT
);

query rowsort
SELECT 1
----
1
2

# an empty result
query
SELECT 2
----

statement error
SELECT 3
----
line 1: no
read out.csv
----
";

    #[test]
    fn a_script_is_written_back_as_it_was() {
        let text = SCRIPT.replace("no\nread", "no\n\nread");
        let script = Script::parse(&text).unwrap();
        assert_eq!(script.to_string(), text);
        let blocks: Vec<&Block> = script.blocks().collect();
        assert_eq!(blocks.len(), 6);
        assert_eq!(blocks[0].body, "x\n\ny");
        assert_eq!(blocks[1].body, "CREATE TABLE t (\n  a INT\n);");
        assert_eq!(blocks[2].action, Action::Query { sorted: true, schema: false });
        assert_eq!(blocks[2].expected, ["1", "2"]);
        assert!(blocks[3].expected.is_empty());
        assert_eq!(blocks[4].line, 24);
    }

    #[test]
    fn what_is_expected_can_be_replaced() {
        let mut script = Script::parse("query\nSELECT 1\n----\n1\n\nstatement ok\nSET 'a' = 'b'\n").unwrap();
        script.bless(vec![vec!["2".into(), "3".into()], vec![]]);
        assert_eq!(script.to_string(), "query\nSELECT 1\n----\n2\n3\n\nstatement ok\nSET 'a' = 'b'\n");
    }

    #[test]
    fn mistakes_are_named() {
        let problem = |text: &str| Script::parse(text).unwrap_err().to_string();
        assert!(problem("\nquery sorted\nSELECT 1").starts_with("line 2: 'sorted' is not known here"));
        assert!(problem("select 1").starts_with("line 1: 'select 1' is no header"));
        assert_eq!(problem("file a\nx"), "line 1: the file has no end: close it with a line '----'");
    }
}
