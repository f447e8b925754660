//! Messages that are decoded together: where one of them is wrong, they are halved until it stands alone.

use arrow::array::{Array, ArrayRef, new_null_array};
use arrow::compute::concat;
use arrow::datatypes::{FieldRef, SchemaRef};
use pelton_runtime::source::{LeftOut, RejectedRow, SourceError};

use crate::format::on_error::OnError;
use crate::format::rows::{DecodedColumns, VALUE_CHARACTERS_MAX};

/// Why a message is no row.
pub(super) struct Rejection {
    /// Index of the column at which it fails.
    column: usize,
    problem: String,
}

impl Rejection {
    /// Of a message as a whole.
    pub(super) fn of(problem: String) -> Rejection {
        Rejection { column: 0, problem }
    }

    /// Of the value of a column.
    pub(super) fn of_column(column: usize, problem: String) -> Rejection {
        Rejection { column, problem }
    }
}

/// Decodes so many messages, all of which must be right.
pub(super) type Attempt<'a> = dyn Fn(&mut dyn Iterator<Item = &[u8]>, usize) -> Result<Vec<ArrayRef>, Rejection> + 'a;

/// Columns of so many messages, or none of one that is wrong.
type Part = (Option<Vec<ArrayRef>>, usize);

/// Messages, and how they are decoded.
pub(super) struct Halves<'a> {
    pub(super) place: &'a str,
    /// The delivered columns.
    pub(super) schema: &'a SchemaRef,
    pub(super) on_error: OnError,
    pub(super) bytes: &'a [u8],
    /// Where each message ends.
    pub(super) ends: &'a [u32],
    pub(super) attempt: &'a Attempt<'a>,
}

impl Halves<'_> {
    /// A row for each message.
    ///
    /// # Errors
    /// The first message that is wrong, unless such are left out. [`SourceError::Row`] has its index in the place of a line.
    pub(super) fn decode(&self) -> Result<DecodedColumns, SourceError> {
        let mut parts = Vec::new();
        let mut left_out = LeftOut::of_rows(self.on_error.keeps_all());
        self.add(0, self.ends.len(), &mut parts, &mut left_out)?;
        let rows = self.ends.len();
        let are_wrong = parts.iter().any(|(part, _)| part.is_none());
        let kept = are_wrong.then(|| parts.iter().flat_map(|(part, rows)| vec![part.is_some(); *rows]).collect());
        let column = |(index, field): (usize, &FieldRef)| {
            let null = new_null_array(field.data_type(), 1);
            let parts: Vec<&dyn Array> = parts
                .iter()
                .map(|(part, _)| part.as_ref().map_or(null.as_ref(), |part| part[index].as_ref()))
                .collect();
            match parts.as_slice() {
                [] => Ok(null.slice(0, 0)),
                [only] => Ok(only.slice(0, only.len())),
                parts => concat(parts),
            }
        };
        let columns: Result<Vec<ArrayRef>, _> = self.schema.fields().iter().enumerate().map(column).collect();
        let columns =
            columns.map_err(|error| SourceError::Input { place: self.place.to_owned(), problem: error.to_string() })?;
        let mut decoded = DecodedColumns { columns, rows, kept, left_out };
        self.refuse_nulls(&mut decoded)?;
        Ok(decoded)
    }

    /// Adds the columns of messages, or none for one that is wrong.
    fn add(
        &self,
        first: usize,
        behind: usize,
        parts: &mut Vec<Part>,
        left_out: &mut LeftOut,
    ) -> Result<(), SourceError> {
        if first == behind {
            return Ok(());
        }
        let mut messages = (first..behind).map(|index| self.message(index));
        match (self.attempt)(&mut messages, behind - first) {
            Ok(columns) => parts.push((Some(columns), behind - first)),
            Err(rejection) if behind - first == 1 => {
                self.reject(first, rejection, left_out)?;
                parts.push((None, 1));
            }
            Err(_) => {
                let half = first + (behind - first) / 2;
                self.add(first, half, parts, left_out)?;
                self.add(half, behind, parts, left_out)?;
            }
        }
        Ok(())
    }

    fn message(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start as usize..self.ends[index] as usize]
    }

    fn reject(&self, index: usize, rejection: Rejection, left_out: &mut LeftOut) -> Result<(), SourceError> {
        let text = String::from_utf8_lossy(self.message(index)).into_owned();
        let fields = self.schema.fields();
        let error = SourceError::Row {
            place: self.place.to_owned(),
            row: index as u64,
            column: fields.get(rejection.column).map_or("", |field| field.name()).to_owned(),
            value: text.chars().take(VALUE_CHARACTERS_MAX).collect(),
            problem: rejection.problem,
        };
        if self.on_error == OnError::Fail {
            return Err(error);
        }
        left_out.rejected.push(|| RejectedRow { error, row: text });
        Ok(())
    }

    /// Leaves out rows that have NULL where there is none.
    fn refuse_nulls(&self, decoded: &mut DecodedColumns) -> Result<(), SourceError> {
        let fields = self.schema.fields().iter().enumerate();
        for (index, _) in fields.filter(|(_, field)| !field.is_nullable()) {
            let column = decoded.columns[index].clone();
            if column.null_count() == 0 {
                continue;
            }
            for row in (0..decoded.rows).filter(|&row| column.is_null(row)) {
                let kept = decoded.kept.get_or_insert_with(|| vec![true; decoded.rows]);
                if std::mem::replace(&mut kept[row], false) {
                    let rejection =
                        Rejection::of_column(index, "has NULL there, and the column is NOT NULL".to_owned());
                    self.reject(row, rejection, &mut decoded.left_out)?;
                }
            }
        }
        Ok(())
    }
}
