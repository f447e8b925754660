//! Which columns a source delivers.

use arrow::datatypes::{Field, Schema, SchemaRef};

/// What a source delivers, and from where.
#[derive(Debug, Clone)]
pub(crate) struct RowShape {
    /// The delivered columns.
    pub(crate) schema: SchemaRef,
    /// Names of the columns that are in the data, wanted or not, in the table's order.
    pub(crate) data_names: Vec<String>,
    /// For each delivered column where it comes from.
    pub(crate) origins: Vec<Origin>,
}

/// Where a delivered column comes from.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    /// From the data: an index into [`RowShape::data_names`].
    Data(usize),
    /// It is about the file: the key of `METADATA FROM`.
    Metadata(String),
    /// The name of a directory tells it, in which this stands for NULL.
    Partition {
        /// See there.
        default_name: String,
    },
}

/// The same columns, which may all be NULL.
pub(crate) fn all_nullable(schema: &Schema) -> Schema {
    let fields = schema.fields().iter().map(|field| Field::clone(field).with_nullable(true)).collect::<Vec<_>>();
    Schema::new(fields)
}
