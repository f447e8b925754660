//! Registers rows that a program has in memory.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use pelton_plan::parse::TableDefinition;

use super::Session;
use super::create_tables::declared;
use crate::error::Error;
use crate::registered_rows::{self, EventTime};
use crate::table;

impl Session {
    /// Registers rows as a temporary table of the session, which ends behind the last of them. Queries read it any number of times, without a copy. It replaces a
    /// temporary table of the same name; queries that read that one go on.
    ///
    /// Without an event time it is the only column that is a time, if there is just one, as in a file.
    ///
    /// # Errors
    /// [`Error::Plan`] where a column has no SQL type, or the event time is no column or no time; [`Error::Usage`] where rows do not have the schema.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use pelton::arrow::array::{ArrayRef, Int64Array, RecordBatch};
    /// let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    /// let rows = RecordBatch::try_from_iter([("i", numbers)]).unwrap();
    /// let session = pelton::Session::new();
    /// session.register_rows("numbers", rows.schema(), vec![rows], None)?;
    /// for _ in 0..2 {
    ///     let large = session.sql("SELECT i FROM numbers WHERE i > 1")?.collect()?;
    ///     assert_eq!(large.iter().map(|rows| rows.num_rows()).sum::<usize>(), 2);
    /// }
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn register_rows(
        &self,
        name: &str,
        schema: SchemaRef,
        rows: Vec<RecordBatch>,
        event_time: Option<EventTime>,
    ) -> Result<(), Error> {
        let mut definition = registered_rows::definition(name, event_time);
        definition.complete(&schema)?;
        self.register_defined(definition, &schema, &rows)
    }

    /// As [`Session::register_rows`], with the columns and the event time of a list as in `CREATE TABLE`.
    ///
    /// # Errors
    /// [`Error::Plan`] where it is no such list; otherwise as [`Session::register_rows`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use pelton::arrow::array::{Int64Array, RecordBatch};
    /// let session = pelton::Session::new();
    /// let columns = "i BIGINT NOT NULL";
    /// let numbers = Arc::new(Int64Array::from(vec![1, 2, 3]));
    /// let rows = RecordBatch::try_new(pelton::Session::columns(columns)?, vec![numbers]).unwrap();
    /// session.register_declared_rows("numbers", columns, vec![rows])?;
    /// assert_eq!(session.sql("SELECT SUM(i) FROM numbers")?.collect()?[0].num_rows(), 1);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn register_declared_rows(&self, name: &str, columns: &str, rows: Vec<RecordBatch>) -> Result<(), Error> {
        let definition = TableDefinition { temporary: true, ..declared(registered_rows::CONNECTOR, name, columns)? };
        let schema = definition.physical_schema();
        self.register_defined(definition, &schema, &rows)
    }

    fn register_defined(
        &self,
        mut definition: TableDefinition,
        schema: &SchemaRef,
        rows: &[RecordBatch],
    ) -> Result<(), Error> {
        if definition.watermark.is_none() {
            definition.watermark = table::only_time(&definition);
        }
        let name = definition.name.clone();
        let table = registered_rows::table(definition, schema, rows)?;
        let catalog = &mut self.own().catalog;
        catalog.remove(&name);
        Ok(catalog.add_table(table)?)
    }

    /// Forgets a table of [`Session::register_rows`], if there is one of this name. Queries that read it go on.
    ///
    /// ```
    /// use pelton::arrow::{array::RecordBatch, datatypes::{DataType, Field, Schema}};
    /// let session = pelton::Session::new();
    /// let schema = Schema::new(vec![Field::new("i", DataType::Int64, true)]);
    /// session.register_rows("numbers", schema.into(), Vec::new(), None)?;
    /// session.unregister_rows("numbers");
    /// assert!(session.table("numbers").is_err());
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn unregister_rows(&self, name: &str) {
        let catalog = &mut self.own().catalog;
        if catalog.declared(name).is_some_and(|table| table.definition.temporary && table.rows.is_some()) {
            catalog.remove(name);
        }
    }
}
