//! The table `late_rows`: the newest of the rows that came too late for the session's queries, and what each came too late for.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewBuilder, TimestampMicrosecondArray};
use arrow::error::ArrowError;
use arrow_json::writer::{LineDelimited, WriterBuilder};
use pelton_data::Micros;
use pelton_plan::Table;
use pelton_plan::catalog::LATE_ROWS;
use pelton_plan::parse::Statement;
use pelton_runtime::late::{LateLog, LateRow, LateRows};

/// Its columns. `window_end` is NULL where rows came too late for functions OVER rows.
const COLUMNS: &str =
    "query STRING NOT NULL, operator STRING NOT NULL, source STRING NOT NULL, event_time TIMESTAMP(6) NOT NULL,
    window_end TIMESTAMP(6), `watermark` TIMESTAMP(6) NOT NULL, row_count BIGINT NOT NULL, row_json STRING";

/// The catalogue's entry, which is the same in all sessions.
pub(crate) static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let sql = format!("CREATE TABLE {LATE_ROWS} ({COLUMNS}) WITH ('connector' = 'late-rows')");
    let parsed = pelton_plan::parse(&sql).expect("the definition is SQL");
    let Some(Statement::CreateTable(definition)) = parsed.into_iter().map(|parsed| parsed.statement).next() else {
        unreachable!("the definition defines a table")
    };
    let schema = definition.physical_schema();
    Table::new(definition, schema.as_ref().clone(), true).expect("the definition names its columns")
});

/// All of its rows, newest first.
pub(crate) fn rows(log: &LateLog) -> RecordBatch {
    let kept = log.newest_first();
    let each: Vec<(&LateRows, &LateRow)> =
        kept.iter().flat_map(|rows| rows.each.iter().rev().map(move |row| (rows, row))).collect();
    let texts: Vec<String> = kept.iter().flat_map(newest_first).collect();
    let text = |of: &dyn Fn(&LateRows) -> &str| {
        let mut builder = StringViewBuilder::new();
        each.iter().for_each(|(rows, _)| builder.append_value(of(rows)));
        Arc::new(builder.finish()) as ArrayRef
    };
    let instant = |of: &dyn Fn(&LateRow) -> Option<Micros>| {
        let instants: TimestampMicrosecondArray = each.iter().map(|(_, row)| of(row)).collect();
        Arc::new(instants) as ArrayRef
    };
    let mut rows_json = StringViewBuilder::new();
    texts.iter().for_each(|text| rows_json.append_option(Some(text).filter(|text| !text.is_empty())));
    let counts: Int64Array = each.iter().map(|(_, row)| Some(row.count as i64)).collect();
    let columns = vec![
        text(&|rows| &rows.query),
        text(&|rows| &rows.operator),
        text(&|rows| &rows.source),
        instant(&|row| Some(row.time)),
        instant(&|row| row.window_end),
        instant(&|row| Some(row.watermark)),
        Arc::new(counts),
        Arc::new(rows_json.finish()),
    ];
    RecordBatch::try_new(TABLE.physical.clone(), columns).expect("the columns are those of the table")
}

/// Each row as a JSON object, newest first; empty where it has no text form.
fn newest_first(late: &LateRows) -> Vec<String> {
    let lines = late.rows.as_ref().and_then(|rows| json(rows).ok()).unwrap_or_default();
    let mut lines: Vec<String> = lines.lines().map(str::to_owned).collect();
    lines.resize(late.each.len(), String::new());
    lines.reverse();
    lines
}

fn json(rows: &RecordBatch) -> Result<String, ArrowError> {
    let mut writer = WriterBuilder::new().with_explicit_nulls(true).build::<_, LineDelimited>(Vec::new());
    writer.write(rows)?;
    writer.finish()?;
    Ok(String::from_utf8(writer.into_inner()).expect("JSON is text"))
}
