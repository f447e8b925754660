//! The columns of a statement's rows, before it is executed.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use pelton_plan::parse::Statement;
use pelton_plan::query::plan_statements;

use super::{Session, alter};
use crate::display::{PLAN_COLUMN, text_rows};
use crate::error::Error;
use crate::execute::result_schema;
use crate::statement::{Outcome, Prepared};

impl Session {
    /// The columns of the rows that a statement returns, without executing it. `None` for a statement that returns no rows.
    ///
    /// # Errors
    /// As [`Session::execute`], where the statement cannot be planned.
    ///
    /// ```
    /// let session = pelton::Session::new();
    /// let statements = session.prepare("SELECT a + 1 AS b FROM (VALUES (1)) AS t (a); CREATE VIEW v AS SELECT 1 AS c")?;
    /// let schema = session.describe(&statements[0])?.expect("a query returns rows");
    /// assert_eq!(schema.field(0).name(), "b");
    /// assert!(session.describe(&statements[1])?.is_none());
    /// assert!(session.table("v").is_err(), "nothing was created");
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn describe(&self, statement: &Prepared) -> Result<Option<SchemaRef>, Error> {
        use Statement::*;
        match &statement.0.statement {
            query @ Query(_) => {
                self.define_files(statement)?;
                let planned = plan_statements(&self.snapshot().catalog, &[query])?;
                Ok(Some(result_schema(&planned.program)))
            }
            CreateTable(_) | CreateView(_) | Drop(_) | Insert(_) | StatementSet(_) => Ok(None),
            Set { .. } | Reset { .. } | Use | StopJob { .. } => Ok(None),
            AlterJob { .. } => Ok(Some(text_rows(&alter::COLUMNS, std::iter::empty()).schema())),
            Explain(_) | Analyze { .. } | AnalyzeQuery { .. } => {
                let plan = Field::new(PLAN_COLUMN, DataType::Utf8View, false);
                Ok(Some(Arc::new(Schema::new(vec![plan]))))
            }
            // They change nothing, and take no time.
            ShowSettings
            | ShowTables(_)
            | ShowViews(_)
            | ShowFunctions { .. }
            | ShowColumns(..)
            | ShowName { .. }
            | ShowProgress { .. }
            | ShowQueries { .. }
            | ShowOperators { .. }
            | ShowSharing
            | ShowJobs { .. }
            | DescribeJob(_)
            | ShowCreate(_)
            | Describe(_)
            | DescribeQuery(_) => match self.execute(statement)? {
                Outcome::Rows(rows) => Ok(Some(rows.schema())),
                Outcome::Done | Outcome::Noted(_) | Outcome::Running(_) => Ok(None),
            },
        }
    }
}
