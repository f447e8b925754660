//! DuckDB, as something that a stream is measured against: it has the same rows in tables in memory, and as many threads.

use std::process::Command;

use super::BenchError;

const SCRIPT: &str = include_str!("duckdb.py");

/// Names a Python that has DuckDB; `python3` where it is not set.
const PYTHON: &str = "PELTON_BENCH_PYTHON";

/// A question to DuckDB.
pub(super) struct DuckDb {
    load: String,
    question: String,
}

impl DuckDb {
    /// The statements of a benchmark's section `duckdb`: the last one asks, those before it load.
    ///
    /// # Errors
    /// Where there are not two statements.
    pub(super) fn new(statements: &str) -> Result<DuckDb, BenchError> {
        let statements = statements.trim().trim_end_matches(';');
        let (load, question) = statements.rsplit_once(';').ok_or_else(|| {
            BenchError::Input("the reference 'duckdb' needs a section 'duckdb' that loads tables and asks".into())
        })?;
        Ok(DuckDb { load: load.to_string(), question: question.to_string() })
    }

    /// Rows a second, where a question goes over so many.
    ///
    /// # Errors
    /// Where there is no DuckDB, or it refuses the statements.
    pub(super) fn rows_per_s(&self, rows: usize, workers: usize, seconds: f64) -> Result<f64, BenchError> {
        let python = std::env::var(PYTHON).unwrap_or_else(|_| "python3".into());
        let mut command = Command::new(&python);
        command.args(["-c", SCRIPT, &workers.to_string(), &seconds.to_string(), &self.load, &self.question]);
        let output = command.output().map_err(|error| BenchError::Process(format!("{python}: {error}")))?;
        let answer = String::from_utf8_lossy(&output.stdout);
        match answer.trim().parse::<f64>() {
            Ok(per_s) => Ok(per_s * rows as f64),
            Err(_) => {
                let said = String::from_utf8_lossy(&output.stderr);
                Err(BenchError::Process(format!("{python}, which {PYTHON} may name and which needs duckdb: {said}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_statement_asks() {
        let duckdb =
            DuckDb::new("CREATE TABLE a AS SELECT 1;\nCREATE TABLE b AS SELECT 2;\nSELECT * FROM a, b;\n").unwrap();
        assert_eq!(duckdb.load, "CREATE TABLE a AS SELECT 1;\nCREATE TABLE b AS SELECT 2");
        assert_eq!(duckdb.question.trim(), "SELECT * FROM a, b");
        assert!(DuckDb::new("SELECT 1").is_err());
    }
}
