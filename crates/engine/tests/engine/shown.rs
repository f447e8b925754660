//! What `SHOW …` shows, and rows as text.

use pelton::arrow::array::{AsArray, RecordBatch};
use pelton::arrow::util::display::{ArrayFormatter, FormatOptions};
use pelton::{Outcome, Session};

/// These columns of all rows.
pub fn shown<const N: usize>(session: &Session, statement: &str, columns: [&str; N]) -> Vec<[String; N]> {
    let statement = session.prepare(statement).unwrap().remove(0);
    let Outcome::Rows(rows) = session.execute(&statement).unwrap() else { panic!("SHOW shows rows") };
    let text = |row: usize, name: &str| rows.column_by_name(name).unwrap().as_string_view().value(row).to_owned();
    (0..rows.num_rows()).map(|row| columns.map(|name| text(row, name))).collect()
}

/// Rows as text, in the order of this text.
pub fn rows(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::new().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap());
        let columns: Vec<_> = columns.collect();
        rows.extend(
            (0..batch.num_rows())
                .map(|row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join(" | ")),
        );
    }
    rows.sort();
    rows
}
