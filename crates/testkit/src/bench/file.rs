//! A benchmark as text: what runs, over which input, against what.
//!
//! ```text
//! # Anything about it.
//! name ysb-grizzly
//! what A third of the events pass; their values are summed by campaign over ten seconds.
//! reads event event_type campaign_id value
//! reference ysb-sums
//! case cache rows=131072
//! case memory rows=126322567
//!
//! setup
//! CREATE TABLE event (…) WITH ('connector' = 'ysb', 'rows' = '${rows}', 'replay' = 'memory', 'replay.duration' = '${seconds} s');
//!
//! query
//! INSERT INTO nowhere SELECT …
//! ```
//!
//! `reads` names the table whose rows are counted and the columns that the query must look at for every row: their bytes are what is
//! compared with the machine's bandwidth. A section lasts to the next, or to the end.

use std::collections::BTreeMap;

/// One benchmark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Benchmark {
    /// What it is called on the command line.
    pub name: String,
    /// One sentence about it.
    pub what: String,
    /// The table whose rows are counted.
    pub table: String,
    /// Columns of that table which the query must look at for every row.
    pub columns: Vec<String>,
    /// Name of the hand-written loop it is measured against.
    pub reference: Option<String>,
    /// Sizes and parameters, at least one.
    pub cases: Vec<Case>,
    setup: String,
    query: String,
}

/// One size of a benchmark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// What it is called.
    pub name: String,
    /// Values of `${NAME}` in setup and query.
    pub parameters: BTreeMap<String, String>,
}

/// A line that means nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct BenchmarkError {
    /// From 1.
    pub line: usize,
    /// What is wrong, and what would be right.
    pub problem: String,
}

impl Benchmark {
    /// Reads a benchmark.
    ///
    /// # Errors
    /// Where a line means nothing, or something is missing.
    pub fn parse(text: &str) -> Result<Benchmark, BenchmarkError> {
        let lines: Vec<&str> = text.lines().collect();
        let section = |name: &str| lines.iter().position(|line| *line == name);
        let at_end = |problem: &str| BenchmarkError { line: lines.len(), problem: problem.to_string() };
        let setup = section("setup").ok_or_else(|| at_end("there is no line 'setup'"))?;
        let query = section("query").filter(|query| *query > setup);
        let query = query.ok_or_else(|| at_end("there is no line 'query' behind 'setup'"))?;
        let mut benchmark = Benchmark {
            name: String::new(),
            what: String::new(),
            table: String::new(),
            columns: Vec::new(),
            reference: None,
            cases: Vec::new(),
            setup: lines[setup + 1..query].join("\n"),
            query: lines[query + 1..].join("\n"),
        };
        for (index, line) in lines[..setup].iter().enumerate() {
            benchmark.read(line).map_err(|problem| BenchmarkError { line: index + 1, problem })?;
        }
        let missing = [("name", benchmark.name.is_empty()), ("reads", benchmark.table.is_empty())];
        let missing = missing.into_iter().chain([("case", benchmark.cases.is_empty())]).find(|(_, missing)| *missing);
        match missing {
            Some((word, _)) => {
                Err(BenchmarkError { line: setup + 1, problem: format!("there is no line '{word} …'") })
            }
            None => Ok(benchmark),
        }
    }

    fn read(&mut self, line: &str) -> Result<(), String> {
        if line.trim().is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut words = rest.split_whitespace().map(str::to_string);
        match word {
            "name" => self.name = rest.to_string(),
            "what" => self.what = rest.to_string(),
            "reference" => self.reference = Some(rest.to_string()),
            "reads" => {
                self.table = words.next().ok_or("reads needs a table and its columns")?;
                self.columns = words.collect();
            }
            "case" => {
                let name = words.next().ok_or("a case needs a name")?;
                let parameter = |word: String| match word.split_once('=') {
                    Some((name, value)) => Ok((name.to_string(), value.to_string())),
                    None => Err(format!("'{word}' is no NAME=VALUE")),
                };
                self.cases.push(Case { name, parameters: words.map(parameter).collect::<Result<_, _>>()? });
            }
            _ => {
                return Err(format!(
                    "'{word}' is not known; known are name, what, reads, reference, case, setup, query"
                ));
            }
        }
        Ok(())
    }

    /// The statements that make the tables of a case.
    pub fn setup(&self, case: &Case, seconds: f64) -> String {
        case.fill(&self.setup, seconds)
    }

    /// The measured statement of a case.
    pub fn query(&self, case: &Case, seconds: f64) -> String {
        case.fill(&self.query, seconds)
    }
}

impl Case {
    /// The value of a parameter that is a number.
    pub fn number(&self, name: &str) -> Option<usize> {
        self.parameters.get(name)?.parse().ok()
    }

    fn fill(&self, text: &str, seconds: f64) -> String {
        let millis = format!("{:.0} ms", seconds * 1000.0);
        let filled = text.replace("${duration}", &millis);
        self.parameters.iter().fold(filled, |text, (name, value)| text.replace(&format!("${{{name}}}"), value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# comment
name n
what It does.
reads t a b
reference loop
case small rows=10 keys=3
case large rows=1000

setup
CREATE TABLE t (a INT) WITH ('rows' = '${rows}', 'replay.duration' = '${duration}');

query
SELECT ${keys} FROM t
";

    #[test]
    fn a_benchmark_and_its_cases() {
        let benchmark = Benchmark::parse(TEXT).unwrap();
        assert_eq!((benchmark.name.as_str(), benchmark.what.as_str()), ("n", "It does."));
        assert_eq!((benchmark.table.as_str(), benchmark.columns.as_slice()), ("t", &["a".to_string(), "b".into()][..]));
        assert_eq!(benchmark.cases.len(), 2);
        let small = &benchmark.cases[0];
        assert_eq!(small.number("keys"), Some(3));
        assert!(benchmark.setup(small, 0.5).contains("'rows' = '10', 'replay.duration' = '500 ms'"));
        assert_eq!(benchmark.query(small, 0.5).trim(), "SELECT 3 FROM t");
    }

    #[test]
    fn mistakes_are_named() {
        let problem = |from: &str, to: &str| Benchmark::parse(&TEXT.replace(from, to)).unwrap_err().to_string();
        assert!(problem("what", "waht").starts_with("line 3: 'waht' is not known"));
        assert_eq!(problem("name n\n", ""), "line 8: there is no line 'name …'");
        assert_eq!(problem("rows=10", "rows"), "line 6: 'rows' is no NAME=VALUE");
        assert_eq!(problem("query\n", ""), "line 12: there is no line 'query' behind 'setup'");
    }
}
