//! Rows that are put in order: sorted in runs as they come, and merged as they leave, so that no task is about all of them.
//!
//! Rows are kept as bytes that compare as they are ordered (`arrow::row`), which columns are made of again.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::{SortColumn, SortOptions, lexsort_to_indices, take};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::row::{Row, RowConverter, Rows, SortField};
use itertools::kmerge_by;
use itertools::structs::KMergeBy;
use pelton_data::BLOCK_ROWS_DEFAULT;
use pelton_data::arrangement::{Order, OrderKey};

use crate::sink::SinkError;

/// Rows that are kept to be put in order. More are an error: all of them are in memory.
const SORTED_ROWS_MAX: usize = 100_000_000;

/// Rows that are sorted at once, but for those of one batch.
const RUN_ROWS: usize = BLOCK_ROWS_DEFAULT;

/// Rows that may wait before those that are not wanted are dropped, beyond twice as many as are wanted.
const UNWANTED_ROWS_MAX: usize = 1 << 16;

/// Rows that wait for their order.
pub(super) struct Sorter {
    order: Order,
    /// Rows of the front of the order that are wanted.
    wanted: Option<usize>,
    /// None before there is any.
    runs: Option<Runs>,
}

/// Rows in order, but for those that came last.
struct Runs {
    form: Form,
    sorted: Vec<Rows>,
    /// Of all that are sorted.
    sorted_rows: usize,
    sorted_bytes: usize,
    unsorted: Rows,
}

/// How rows are written down.
struct Form {
    converter: RowConverter,
    /// Which column each field is, and its order: keys first, the most significant before others, then what else is written.
    keys: Vec<OrderKey>,
    /// Those that are written.
    schema: SchemaRef,
}

impl Sorter {
    pub fn new(order: Order, wanted: Option<usize>) -> Sorter {
        Sorter { order, wanted, runs: None }
    }

    /// Bytes of the rows.
    pub fn bytes(&self) -> usize {
        self.runs.as_ref().map_or(0, |runs| runs.sorted_bytes + runs.unsorted.size())
    }

    /// Takes rows.
    pub fn take(&mut self, rows: &RecordBatch) -> Result<(), SinkError> {
        let runs = match &mut self.runs {
            Some(runs) => runs,
            None => self.runs.insert(Runs::new(Form::new(&self.order, rows).map_err(failed)?)),
        };
        runs.push(rows, self.wanted).map_err(failed)?;
        if runs.unsorted.num_rows() >= RUN_ROWS {
            runs.sort(self.wanted);
        }
        if let Some(wanted) = self.wanted
            && runs.sorted_rows > wanted.saturating_mul(2).saturating_add(UNWANTED_ROWS_MAX)
        {
            runs.keep_front(wanted);
        }
        if runs.rows() > SORTED_ROWS_MAX {
            let problem = format!("more than {SORTED_ROWS_MAX} rows are to be put in order; add a LIMIT");
            return Err(SinkError { place: "ORDER BY".to_string(), problem });
        }
        Ok(())
    }

    /// All rows in order; `None` where there are none.
    pub fn finish(self) -> Option<Merged> {
        let mut runs = self.runs?;
        runs.sort(self.wanted);
        Some(Merged { form: runs.form, merge: merge(runs.sorted) })
    }
}

impl Form {
    fn new(order: &Order, rows: &RecordBatch) -> Result<Form, ArrowError> {
        let schema = rows.schema();
        let is_key = |column: &usize| order.keys.iter().any(|key| key.column == *column);
        // They tell rows apart that keys do not.
        let others = (0..order.columns).filter(|column| !is_key(column));
        let others = others.map(|column| OrderKey { column, descending: false, nulls_first: true });
        let keys: Vec<OrderKey> = order.keys.iter().copied().chain(others).collect();
        let field =
            |key: &OrderKey| SortField::new_with_options(schema.field(key.column).data_type().clone(), options(key));
        Ok(Form {
            converter: RowConverter::new(keys.iter().map(field).collect())?,
            keys,
            schema: Arc::new(schema.project(&(0..order.columns).collect::<Vec<_>>())?),
        })
    }
}

impl Runs {
    fn new(form: Form) -> Runs {
        let unsorted = form.converter.empty_rows(0, 0);
        Runs { form, sorted: Vec::new(), sorted_rows: 0, sorted_bytes: 0, unsorted }
    }

    fn rows(&self) -> usize {
        self.sorted_rows + self.unsorted.num_rows()
    }

    fn push(&mut self, rows: &RecordBatch, wanted: Option<usize>) -> Result<(), ArrowError> {
        let field =
            |key: &OrderKey| SortColumn { values: rows.column(key.column).clone(), options: Some(options(key)) };
        let fields: Vec<SortColumn> = self.form.keys.iter().map(field).collect();
        // To write rows down takes longer than to find the few that may be wanted.
        let front = match wanted.filter(|&wanted| wanted < rows.num_rows()) {
            Some(wanted) => Some(lexsort_to_indices(&fields, Some(wanted))?),
            None => None,
        };
        let columns = fields.into_iter().map(|field| match &front {
            Some(front) => take(&field.values, front, None),
            None => Ok(field.values),
        });
        self.form.converter.append(&mut self.unsorted, &columns.collect::<Result<Vec<_>, _>>()?)
    }

    /// Sorts those that came last, and keeps as many as are wanted at most.
    fn sort(&mut self, wanted: Option<usize>) {
        let mut rows: Vec<Row<'_>> = self.unsorted.iter().collect();
        rows.sort_unstable();
        rows.truncate(wanted.unwrap_or(usize::MAX));
        let sorted = copied(&self.form.converter, &rows);
        self.unsorted.clear();
        self.add(sorted);
    }

    /// Keeps so many rows of the front of the order at most.
    fn keep_front(&mut self, wanted: usize) {
        let front: Vec<Entry> = merge(std::mem::take(&mut self.sorted)).take(wanted).collect();
        let rows: Vec<Row<'_>> = front.iter().map(Entry::row).collect();
        let front = copied(&self.form.converter, &rows);
        (self.sorted_rows, self.sorted_bytes) = (0, 0);
        self.add(front);
    }

    fn add(&mut self, sorted: Rows) {
        self.sorted_rows += sorted.num_rows();
        self.sorted_bytes += sorted.size();
        self.sorted.push(sorted);
    }
}

fn options(key: &OrderKey) -> SortOptions {
    SortOptions { descending: key.descending, nulls_first: key.nulls_first }
}

/// Rows of their own.
fn copied(converter: &RowConverter, rows: &[Row<'_>]) -> Rows {
    let bytes = rows.iter().map(|row| row.data().len()).sum();
    let mut copies = converter.empty_rows(rows.len(), bytes);
    rows.iter().for_each(|row| copies.push(*row));
    copies
}

/// Rows that leave in order.
pub(super) struct Merged {
    form: Form,
    merge: Merge,
}

impl Merged {
    /// The next of them, as columns; `None` when there are no more.
    pub fn next(&mut self) -> Result<Option<RecordBatch>, SinkError> {
        let entries: Vec<Entry> = self.merge.by_ref().take(BLOCK_ROWS_DEFAULT).collect();
        if entries.is_empty() {
            return Ok(None);
        }
        let Form { converter, keys, schema } = &self.form;
        let fields = converter.convert_rows(entries.iter().map(Entry::row)).map_err(failed)?;
        let written = (0..schema.fields().len()).map(|column| {
            let field = keys.iter().position(|key| key.column == column);
            fields[field.expect("every column that is written is a field")].clone()
        });
        RecordBatch::try_new(schema.clone(), written.collect()).map(Some).map_err(failed)
    }
}

/// Runs, of which the least row comes next.
type Merge = KMergeBy<Run, fn(&Entry, &Entry) -> bool>;

fn merge(runs: Vec<Rows>) -> Merge {
    let runs = runs.into_iter().map(|rows| Run { next: 0, rows: Arc::new(rows) });
    kmerge_by(runs, |left: &Entry, right: &Entry| left.row().cmp(&right.row()) == Ordering::Less)
}

/// The rest of a run.
struct Run {
    rows: Arc<Rows>,
    next: usize,
}

impl Iterator for Run {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        let row = self.next;
        self.next += 1;
        (row < self.rows.num_rows()).then(|| Entry { rows: self.rows.clone(), row })
    }
}

/// A row of a run.
struct Entry {
    rows: Arc<Rows>,
    row: usize,
}

impl Entry {
    fn row(&self) -> Row<'_> {
        self.rows.row(self.row)
    }
}

fn failed(error: ArrowError) -> SinkError {
    SinkError { place: "ORDER BY".to_string(), problem: error.to_string() }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, AsArray, Int64Array, StringViewArray};
    use arrow::datatypes::Int64Type;

    use super::*;

    /// A key that may be NULL, largest first and NULLs last; a string, and a key that is not written, which tells more than the string.
    type Line = (Option<i64>, String, i64);

    fn order() -> Order {
        let key = |column, descending| OrderKey { column, descending, nulls_first: false };
        Order { keys: vec![key(0, true), key(2, false)], columns: 2 }
    }

    fn batch(lines: &[Line]) -> RecordBatch {
        let columns: [(&str, ArrayRef, bool); 3] = [
            ("a", Arc::new(lines.iter().map(|line| line.0).collect::<Int64Array>()), true),
            ("s", Arc::new(lines.iter().map(|line| Some(line.1.as_str())).collect::<StringViewArray>()), true),
            ("b", Arc::new(lines.iter().map(|line| line.2).collect::<Int64Array>()), true),
        ];
        RecordBatch::try_from_iter_with_nullable(columns).unwrap()
    }

    fn lines(count: usize) -> Vec<Line> {
        let mut state = 7_u64;
        let mut below = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        let mut line = || {
            let key = below(50) as i64 - 25;
            (
                (key != 0).then_some(key),
                format!("a string that is stored beside its view {}", below(3)),
                below(7) as i64,
            )
        };
        (0..count).map(|_| line()).collect()
    }

    /// The rows that leave, and in how many batches.
    fn sorted(lines: &[Line], batch_rows: usize, wanted: Option<usize>) -> (Vec<(Option<i64>, String)>, usize) {
        let mut sorter = Sorter::new(order(), wanted);
        for part in lines.chunks(batch_rows) {
            sorter.take(&batch(part)).unwrap();
        }
        assert!(sorter.bytes() >= wanted.unwrap_or(lines.len()).min(lines.len()) * 16, "{}", sorter.bytes());
        let mut merged = sorter.finish().unwrap();
        let (mut rows, mut batches) = (Vec::new(), 0);
        while let Some(batch) = merged.next().unwrap() {
            let (keys, strings) = (batch.column(0).as_primitive::<Int64Type>(), batch.column(1).as_string_view());
            rows.extend(keys.iter().zip(strings).map(|(key, string)| (key, string.unwrap().to_owned())));
            batches += 1;
        }
        (rows, batches)
    }

    fn expected(mut lines: Vec<Line>) -> Vec<(Option<i64>, String)> {
        lines.sort_by_key(|(key, string, hidden)| (key.is_none(), key.map(|key| -key), *hidden, string.clone()));
        lines.into_iter().map(|(key, string, _)| (key, string)).collect()
    }

    #[test]
    fn rows_leave_in_order_block_by_block() {
        let lines = lines(3 * RUN_ROWS + 100);
        let expected = expected(lines.clone());
        for batch_rows in [1_000, RUN_ROWS, 3 * RUN_ROWS] {
            assert_eq!(sorted(&lines, batch_rows, None), (expected.clone(), 4), "{batch_rows}");
        }
        assert!(Sorter::new(order(), None).finish().is_none());
    }

    #[test]
    fn of_rows_that_are_not_wanted_few_are_kept() {
        let lines = lines(130_000);
        let expected = expected(lines.clone());
        for wanted in [1, 20_000] {
            let (rows, _) = sorted(&lines, 5_000, Some(wanted));
            assert_eq!(rows[..wanted], expected[..wanted], "{wanted}");
            assert!(rows.len() <= 2 * wanted + UNWANTED_ROWS_MAX, "{} rows of {wanted}", rows.len());
        }
    }
}
