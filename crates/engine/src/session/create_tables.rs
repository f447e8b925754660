//! Creates tables that the program itself fills, reads or provides.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use pelton_data::spelling::identifier;
use pelton_plan::Table;
use pelton_plan::parse::{Statement, TableDefinition};
use pelton_plan::query::check_computed_columns;

use super::Session;
use crate::engine::Known;
use crate::error::Error;
use crate::pull::PullSink;
use crate::push::PushSource;
use crate::simulation::ProvidedTable;

impl Session {
    /// Creates a table that the program writes to. `columns` is the text between the parentheses of `CREATE TABLE`. It replaces a table of the name that the program
    /// wrote to or read and does so no more; queries that read that one go on.
    ///
    /// # Errors
    /// [`Error::Plan`] where the columns are invalid, or the table exists.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use pelton::arrow::array::{Int64Array, RecordBatch};
    /// let session = pelton::Session::new();
    /// let numbers = session.push_table("numbers", "i BIGINT NOT NULL")?;
    /// let query = session.sql("SELECT i + 1 AS next FROM numbers")?;
    /// let rows = RecordBatch::try_new(numbers.schema().clone(), vec![Arc::new(Int64Array::from(vec![1, 2]))]).unwrap();
    /// numbers.push_blocking(rows)?;
    /// drop(numbers); // ends the stream
    /// assert_eq!(query.collect()?[0].num_rows(), 2);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn push_table(&self, name: &str, columns: &str) -> Result<PushSource, Error> {
        let (table, schema) = self.own_table("push", name, columns)?;
        let mut known = self.engine().known();
        add(&mut known, name, table)?;
        let (source, table) = PushSource::new(schema, known.budget.clone());
        known.program_tables_mut().add_pushed(name, table);
        Ok(source)
    }

    /// Creates a table that the program reads when a query inserts into it. `columns` is the text between the parentheses of `CREATE TABLE`. For queries
    /// with several outputs; the rows of one `SELECT` are read from its [`crate::Query`]. As [`Session::push_table`] it replaces a table whose use has ended.
    ///
    /// # Errors
    /// [`Error::Plan`] where the columns are invalid, or the table exists.
    ///
    /// ```
    /// let session = pelton::Session::new();
    /// let [mut small, mut large] = [session.pull_table("small", "a INT")?, session.pull_table("large", "a INT")?];
    /// let inserts = session.sql(
    ///     "CREATE VIEW n AS SELECT a FROM (VALUES (1), (2), (30)) AS t (a);
    ///      EXECUTE STATEMENT SET BEGIN
    ///      INSERT INTO small SELECT a FROM n WHERE a < 10;
    ///      INSERT INTO large SELECT a FROM n WHERE a >= 10;
    ///      END",
    /// )?;
    /// assert_eq!(small.next_batch().map(|rows| rows.num_rows()), Some(2));
    /// assert_eq!(large.next_batch().map(|rows| rows.num_rows()), Some(1));
    /// inserts.wait()?;
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn pull_table(&self, name: &str, columns: &str) -> Result<PullSink, Error> {
        let (table, schema) = self.own_table("pull", name, columns)?;
        let mut known = self.engine().known();
        add(&mut known, name, table)?;
        let (sink, table) = PullSink::new(schema);
        known.program_tables_mut().add_pulled(name, table);
        Ok(sink)
    }

    /// Creates a table that the program itself provides, for the project's own tests. `columns` are as those of [`Session::push_table`].
    ///
    /// # Errors
    /// [`Error::Plan`] where the columns are invalid, or the table exists.
    #[doc(hidden)]
    pub fn provide_table(&self, name: &str, columns: &str, provided: Arc<dyn ProvidedTable>) -> Result<(), Error> {
        let (table, _) = self.own_table("provided", name, columns)?;
        let mut known = self.engine().known();
        add(&mut known, name, table)?;
        known.program_tables_mut().add_provided(name, provided);
        Ok(())
    }

    /// The columns that a list as in `CREATE TABLE` declares: names, types, and whether they may be NULL.
    ///
    /// # Errors
    /// [`Error::Plan`] where it is no such list.
    ///
    /// ```
    /// use pelton::arrow::datatypes::DataType;
    /// let columns = pelton::Session::columns("i BIGINT NOT NULL, parts ARRAY<DOUBLE>")?;
    /// assert_eq!(columns.field(0).data_type(), &DataType::Int64);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn columns(columns: &str) -> Result<SchemaRef, Error> {
        Ok(declared("push", "columns", columns)?.physical_schema())
    }

    /// The catalogue's entry of such a table, and the columns that it has by itself.
    fn own_table(&self, connector: &str, name: &str, columns: &str) -> Result<(Table, SchemaRef), Error> {
        let definition = declared(connector, name, columns)?;
        let schema = definition.physical_schema();
        let table = Table::new(definition, Schema::clone(&schema), false)?;
        check_computed_columns(&self.snapshot().catalog, &table)?;
        Ok((table, schema))
    }
}

/// Adds a table of the program to the catalogue, in the place of one that it uses no more.
fn add(known: &mut Known, name: &str, table: Table) -> Result<(), Error> {
    if known.program_tables.has_ended(name) {
        known.remove(name);
    }
    Ok(known.catalog_mut().add_table(table)?)
}

/// The definition of a table that the program has.
pub(super) fn declared(connector: &str, name: &str, columns: &str) -> Result<TableDefinition, Error> {
    let sql = format!("CREATE TABLE {} ({columns}) WITH ('connector' = '{connector}')", identifier(name));
    let mut parsed = pelton_plan::parse(&sql)?;
    match parsed.pop().map(|parsed| parsed.statement) {
        Some(Statement::CreateTable(definition)) if parsed.is_empty() => Ok(definition),
        _ => Err(Error::Usage(format!("'{columns}' is not a valid list of columns"))),
    }
}
