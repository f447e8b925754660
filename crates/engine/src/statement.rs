//! The statements of a script, and what they lead to.

use arrow::array::RecordBatch;
use pelton_plan::Place;
use pelton_plan::parse::Parsed;

use crate::query::Query;

/// A parsed statement that has not been executed.
#[derive(Debug, Clone)]
pub struct Prepared(pub(crate) Parsed);

impl Prepared {
    /// Its text, without the semicolon.
    ///
    /// ```
    /// let session = pelton::Session::new();
    /// let statements = session.prepare("SHOW TABLES;\n  SHOW FUNCTIONS")?;
    /// assert_eq!(statements[0].text(), "SHOW TABLES");
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// The line of the script on which it begins, from 1.
    ///
    /// ```
    /// let session = pelton::Session::new();
    /// let statements = session.prepare("SHOW TABLES;\n  SHOW FUNCTIONS")?;
    /// assert_eq!(statements[1].line(), 2);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn line(&self) -> u64 {
        self.0.line
    }

    /// The place in the script at which it begins.
    ///
    /// ```
    /// let session = pelton::Session::new();
    /// let statements = session.prepare("SHOW TABLES;\n  SHOW FUNCTIONS")?;
    /// let place = statements[1].place();
    /// assert_eq!((place.line, place.column), (2, 3));
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn place(&self) -> Place {
        Place { line: self.0.line, column: self.0.column }
    }
}

/// The outcome of a statement.
pub enum Outcome {
    /// A definition or a setting was made.
    Done,
    /// As [`Outcome::Done`], with a note: an option of Flink that has no meaning here was set.
    Noted(String),
    /// The rows of `SHOW`, `DESCRIBE` or `EXPLAIN`.
    Rows(RecordBatch),
    /// A query or an insert that is running.
    Running(Query),
}
