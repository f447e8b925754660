//! The statements of a script, and what they lead to.

use arrow::array::RecordBatch;
use pelton_plan::Place;
use pelton_plan::parse::Parsed;

use crate::query::Query;

/// A statement of a script, parsed and not yet executed.
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

    /// Line of the script it begins on, from 1.
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

    /// Where in the script it begins.
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

/// What a statement has led to.
pub enum Outcome {
    /// It is done: a definition or a setting.
    Done,
    /// It is done, and this is said about it: an option of Flink that is set has no meaning here.
    Noted(String),
    /// What `SHOW`, `DESCRIBE` or `EXPLAIN` shows.
    Rows(RecordBatch),
    /// A query or an insert that now runs.
    Running(Query),
}
