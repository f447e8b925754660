//! Formats that have columns already: what a file has is brought to the types that the table declares.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options, filter_record_batch};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use arrow::util::display::array_value_to_string;
use pelton_data::column::{MAP_ENTRIES, MAP_KEY, MAP_VALUE, is_nested, sql_name};
use pelton_runtime::source::{LeftOut, RejectedRow, SourceError};

use super::on_error::OnError;
use super::rows::{VALUE_CHARACTERS_MAX, repeat};
use super::shape::{self, Origin, RowShape};
use super::value::Wrong;
use crate::ConnectorError;
use nested::Lost;

mod nested;

pub(super) mod raw;

/// How the rows of a file become those of the table.
pub(super) struct Conversion {
    place: String,
    on_error: OnError,
    /// What is delivered.
    schema: SchemaRef,
    columns: Vec<Column>,
}

enum Column {
    /// The column of this index in the file.
    File(usize),
    /// The same value in every row: an array of one.
    Constant(ArrayRef),
}

/// The columns of a file, with the types that tables have for them.
///
/// # Errors
/// Where tables have none for one.
pub(super) fn declared(file: &Schema, place: &str) -> Result<Schema, ConnectorError> {
    let field = |field: &Arc<Field>| match table_type(field.data_type()) {
        Some(data_type) => Ok(Field::new(field.name(), data_type, field.is_nullable())),
        None => {
            let problem = format!(
                "has the type {} in {place}, which tables do not hold; declare the other columns by name",
                sql_name(field.data_type())
            );
            Err(ConnectorError::column(field.name(), problem))
        }
    };
    Ok(Schema::new(file.fields().iter().map(field).collect::<Result<Vec<_>, _>>()?))
}

impl Conversion {
    /// Finds the wanted columns among those of a file. `constants` are the values of the columns that are not in the data, in order.
    ///
    /// # Errors
    /// Where one is not there, or is of a type that is not read as the table's.
    pub(super) fn new(
        file: &Schema,
        place: &str,
        shape: &RowShape,
        constants: Vec<ArrayRef>,
        on_error: OnError,
    ) -> Result<Conversion, ConnectorError> {
        let mut columns = Vec::new();
        let mut constants = constants.into_iter();
        for (origin, field) in shape.origins.iter().zip(shape.schema.fields()) {
            let Origin::Data(_) = origin else {
                columns.push(Column::Constant(constants.next().expect("one constant each")));
                continue;
            };
            let Ok(index) = file.index_of(field.name()) else {
                let names: Vec<&str> = file.fields().iter().map(|field| field.name().as_str()).collect();
                let problem = format!("is not in {place}, which has {}", names.join(", "));
                return Err(ConnectorError::column(field.name(), problem));
            };
            let found = file.field(index);
            if !is_readable(found.data_type(), field.data_type()) {
                let (is, wanted) = (sql_name(found.data_type()), sql_name(field.data_type()));
                let problem = format!("is of type {is} in {place}, which cannot be read as {wanted}");
                return Err(ConnectorError::column(field.name(), problem));
            }
            columns.push(Column::File(index));
        }
        Ok(Conversion { place: place.to_owned(), on_error, schema: shape.schema.clone(), columns })
    }

    /// The columns of the file that are wanted.
    pub(super) fn file_columns(&self) -> impl Iterator<Item = usize> + '_ {
        self.columns.iter().filter_map(|column| match column {
            Column::File(index) => Some(*index),
            Column::Constant(_) => None,
        })
    }

    /// The rows of a batch, the first of which has that number, as the table has them; `left_out` gets those that are rejected.
    ///
    /// # Errors
    /// For the first row with a value that the table does not hold.
    pub(super) fn convert(
        &self,
        batch: &RecordBatch,
        first_row: u64,
        left_out: &mut LeftOut,
    ) -> Result<RecordBatch, SourceError> {
        let mut wrong = Vec::new();
        let mut columns = Vec::new();
        for (index, column) in self.columns.iter().enumerate() {
            let field = self.schema.field(index);
            columns.push(match column {
                Column::Constant(value) => repeat(value, batch.num_rows()),
                Column::File(_) => {
                    let column = batch.column_by_name(field.name()).expect("the reader delivers what it was asked for");
                    self.coerce(index, column, field, &mut wrong)?
                }
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let rows = RecordBatch::try_new_with_options(Arc::new(shape::all_nullable(&self.schema)), columns, &options);
        let rows = rows.map_err(|error| self.input(error))?;
        self.without(rows, batch, wrong, first_row, left_out)
    }

    /// The column with the type of `field`; `wrong` gets the values that it cannot hold.
    fn coerce(
        &self,
        index: usize,
        column: &ArrayRef,
        field: &Field,
        wrong: &mut Vec<(usize, Lost)>,
    ) -> Result<ArrayRef, SourceError> {
        let (values, lost) = nested::converted(column, field).map_err(|error| self.input(error))?;
        wrong.extend(lost.into_iter().map(|lost| (index, lost)));
        Ok(values)
    }

    /// The rows without those that are `wrong`, which `decoded` gets. `read` has them as they are in the file.
    fn without(
        &self,
        mut rows: RecordBatch,
        read: &RecordBatch,
        mut wrong: Vec<(usize, Lost)>,
        first_row: u64,
        left_out: &mut LeftOut,
    ) -> Result<RecordBatch, SourceError> {
        wrong.sort_by_key(|(column, lost)| (lost.row, *column));
        wrong.dedup_by_key(|(_, lost)| lost.row);
        let mut kept = vec![true; if wrong.is_empty() { 0 } else { rows.num_rows() }];
        for (index, Lost { row, path, value, problem }) in &wrong {
            kept[*row] = false;
            let name = self.schema.field(*index).name();
            let column = format!("{name}{path}");
            let value = value.chars().take(VALUE_CHARACTERS_MAX).collect();
            let (place, problem) = (self.place.clone(), problem.clone());
            let error = SourceError::Row { place, row: first_row + *row as u64, column, value, problem };
            if self.on_error == OnError::Fail {
                return Err(error);
            }
            left_out.rejected.push(|| {
                let values: Vec<String> = read.columns().iter().map(|column| shown(column, *row)).collect();
                RejectedRow { error, row: values.join(", ") }
            });
        }
        if !wrong.is_empty() {
            rows = filter_record_batch(&rows, &BooleanArray::from(kept)).map_err(|error| self.input(error))?;
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let rows = RecordBatch::try_new_with_options(self.schema.clone(), rows.columns().to_vec(), &options);
        rows.map_err(|error| self.input(error))
    }

    fn input(&self, error: impl ToString) -> SourceError {
        SourceError::Input { place: self.place.clone(), problem: error.to_string() }
    }
}

/// The table's type for values that a file has as `data_type`.
fn table_type(data_type: &DataType) -> Option<DataType> {
    use DataType::*;
    Some(match data_type {
        Boolean | Int8 | Int16 | Int32 | Int64 | Float32 | Float64 | Date32 | Decimal128(..) => data_type.clone(),
        UInt8 => Int16,
        UInt16 => Int32,
        UInt32 => Int64,
        UInt64 => Decimal128(20, 0),
        Float16 => Float32,
        Decimal32(precision, scale) | Decimal64(precision, scale) => Decimal128(*precision, *scale),
        Date64 => Date32,
        Utf8 | LargeUtf8 | Utf8View => Utf8View,
        Binary | LargeBinary | BinaryView => BinaryView,
        Timestamp(unit, zone) => {
            let unit = if *unit == TimeUnit::Nanosecond { TimeUnit::Microsecond } else { *unit };
            Timestamp(unit, zone.as_ref().map(|_| "+00:00".into()))
        }
        Dictionary(_, value) => return table_type(value),
        Struct(fields) => {
            let field = |field: &Arc<Field>| Some(Field::clone(field).with_data_type(table_type(field.data_type())?));
            Struct(fields.iter().map(|one| Some(Arc::new(field(one)?))).collect::<Option<Vec<_>>>()?.into())
        }
        List(item) | LargeList(item) => {
            List(Arc::new(Field::new_list_field(table_type(item.data_type())?, item.is_nullable())))
        }
        Map(entries, _) => {
            let pair = nested_pair(entries)?;
            let fields = [
                Field::new(MAP_KEY, table_type(pair[0].data_type())?, false),
                Field::new(MAP_VALUE, table_type(pair[1].data_type())?, pair[1].is_nullable()),
            ];
            Map(Arc::new(Field::new(MAP_ENTRIES, Struct(fields.into_iter().collect()), false)), false)
        }
        _ => return None,
    })
}

/// The fields of the keys and values of a map whose keys are not nested.
fn nested_pair(entries: &Field) -> Option<&Fields> {
    match entries.data_type() {
        DataType::Struct(pair) if pair.len() == 2 && !pair[0].data_type().is_nested() => Some(pair),
        _ => None,
    }
}

/// Whether every value of type `from` is one of type `to`, or can be told not to be.
fn is_readable(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    match (from, to) {
        _ if is_nested(to) => nested::is_nested_readable(from, to),
        _ if from == to => !from.is_nested(),
        (from, to) if from.is_integer() => to.is_integer() || to.is_floating() || matches!(to, Decimal128(..)),
        (Float16, Float32 | Float64) | (Float32, Float64) | (Date64, Date32) => true,
        (Decimal32(_, a) | Decimal64(_, a) | Decimal128(_, a), Decimal128(_, b)) => a <= b,
        (Timestamp(..), Timestamp(..)) => true,
        (Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView, Utf8View) => true,
        (Binary | LargeBinary | BinaryView, BinaryView) => true,
        (Dictionary(_, value), to) => is_readable(value, to),
        _ => false,
    }
}

/// The values of a column as those of another type, NULL where they do not fit it. Of times what is finer than the type is left out.
fn cast(column: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    let options = CastOptions { safe: true, ..Default::default() };
    let coarser = match data_type {
        DataType::Timestamp(unit, _) => pelton_data::time::coarser(column, *unit),
        _ => None,
    };
    cast_with_options(coarser.as_ref().unwrap_or(column), data_type, &options)
}

/// The values of a column as those of a flat type, and the rows, in order, whose values do not fit, with NULL in their place.
fn flat(column: &ArrayRef, data_type: &DataType) -> Result<(ArrayRef, Vec<usize>, Wrong), ArrowError> {
    if let Some(decoded) = raw::decoded(column, data_type) {
        return Ok(decoded);
    }
    let values = cast(column, data_type)?;
    let lost = match values.null_count() > column.null_count() {
        true => (0..values.len()).filter(|&row| values.is_null(row) && !column.is_null(row)).collect(),
        false => Vec::new(),
    };
    Ok((values, lost, Wrong::Range))
}

/// A value as messages show it. Bytes are shown as text, which they mostly are.
fn shown(column: &ArrayRef, row: usize) -> String {
    match column.data_type() {
        DataType::BinaryView if column.is_valid(row) => {
            String::from_utf8_lossy(column.as_binary_view().value(row)).into_owned()
        }
        DataType::FixedSizeBinary(_) if column.is_valid(row) => {
            raw::int96_text(column.as_fixed_size_binary().value(row)).unwrap_or_default()
        }
        data_type if is_nested(data_type) => {
            let texts = cast(&column.slice(row, 1), &with_text(data_type));
            texts.and_then(|texts| array_value_to_string(&texts, 0)).unwrap_or_default()
        }
        _ => array_value_to_string(column, row).unwrap_or_default(),
    }
}

/// The type with text in the place of bytes.
fn with_text(data_type: &DataType) -> DataType {
    let part = |part: &Arc<Field>| Arc::new(Field::clone(part).with_data_type(with_text(part.data_type())));
    match data_type {
        DataType::BinaryView => DataType::Utf8View,
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(part).collect()),
        DataType::List(item) => DataType::List(part(item)),
        DataType::Map(entries, is_ordered) => DataType::Map(part(entries), *is_ordered),
        other => other.clone(),
    }
}
