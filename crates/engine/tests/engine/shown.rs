//! What `SHOW …` shows.

use pelton::arrow::array::AsArray;
use pelton::{Outcome, Session};

/// These columns of all rows.
pub fn shown<const N: usize>(session: &Session, statement: &str, columns: [&str; N]) -> Vec<[String; N]> {
    let statement = session.prepare(statement).unwrap().remove(0);
    let Outcome::Rows(rows) = session.execute(&statement).unwrap() else { panic!("SHOW shows rows") };
    let text = |row: usize, name: &str| rows.column_by_name(name).unwrap().as_string_view().value(row).to_owned();
    (0..rows.num_rows()).map(|row| columns.map(|name| text(row, name))).collect()
}
