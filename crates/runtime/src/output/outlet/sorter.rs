//! Rows that are put in order: sorted in runs as they come, and merged as they leave, so that no task is about all of them.
//!
//! Rows are kept as bytes that compare as they are ordered (`arrow::row`), which columns are made of again.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::{SortColumn, SortOptions, lexsort_to_indices, take};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::row::{Row, RowConverter, Rows, SortField};
use pelton_data::BLOCK_ROWS_DEFAULT;
use pelton_data::arrangement::{Order, OrderKey};

use crate::output::sink::SinkError;

/// Rows that are kept to be put in order. More are an error: all of them are in memory.
const SORTED_ROWS_MAX: usize = 100_000_000;

/// Rows that are sorted at once, but for those of one batch.
const RUN_ROWS: usize = BLOCK_ROWS_DEFAULT;

/// Rows that may wait before it is begun to drop those that are not wanted, beyond twice as many as are wanted.
const UNWANTED_ROWS_MAX: usize = 1 << 16;

/// For each row that comes so many are looked at meanwhile for whether they are wanted: that has been done before as many have come again.
const LOOKED_AT_PER_ROW: usize = 4;

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
    sorted: Vec<Run>,
    /// Of all that are sorted.
    sorted_rows: usize,
    sorted_bytes: usize,
    /// Where there were too many.
    front: Option<Front>,
    unsorted: Rows,
}

/// The front of rows that are sorted, of which a part is known.
struct Front {
    rows: Rows,
    /// What is left of the rows that this is the front of.
    rest: Merge,
    /// How many these were, and their bytes.
    all: (usize, usize),
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
        self.runs.as_ref().map_or(0, Runs::bytes)
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
        if let Some(wanted) = self.wanted {
            let rows_max = wanted.saturating_mul(2).saturating_add(UNWANTED_ROWS_MAX);
            runs.keep_front(wanted, rows_max, rows.num_rows().saturating_mul(LOOKED_AT_PER_ROW));
        }
        if let Some(wanted) = self.wanted.filter(|_| runs.rows() > SORTED_ROWS_MAX) {
            runs.keep_front(wanted, wanted, usize::MAX);
        }
        if runs.rows() > SORTED_ROWS_MAX {
            let problem =
                format!("more than {SORTED_ROWS_MAX} rows are to be put in order; add a LIMIT, or a smaller one");
            return Err(SinkError { place: "ORDER BY".to_string(), problem });
        }
        Ok(())
    }

    /// All rows in order; `None` where there are none.
    pub fn finish(self) -> Option<Merged> {
        let mut runs = self.runs?;
        runs.sort(self.wanted);
        runs.leave_front();
        Some(Merged { form: runs.form, merge: Merge::new(runs.sorted) })
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
        Runs { form, sorted: Vec::new(), sorted_rows: 0, sorted_bytes: 0, front: None, unsorted }
    }

    fn rows(&self) -> usize {
        self.sorted_rows + self.unsorted.num_rows()
    }

    fn bytes(&self) -> usize {
        self.sorted_bytes + self.front.as_ref().map_or(0, |front| front.rows.size()) + self.unsorted.size()
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

    /// Keeps so many rows of the front of the order, where there are more than `rows_max`: a part of that, about as long as to look at `count` rows.
    fn keep_front(&mut self, wanted: usize, rows_max: usize, count: usize) {
        if self.front.is_none() && self.sorted_rows > rows_max {
            let rest = Merge::new(std::mem::take(&mut self.sorted));
            let bytes_about = (self.sorted_bytes as u128 * wanted as u128 / self.sorted_rows as u128) as usize;
            let rows = self.form.converter.empty_rows(wanted, bytes_about);
            self.front = Some(Front { rows, rest, all: (self.sorted_rows, self.sorted_bytes) });
        }
        let Some(Front { rows, rest, .. }) = &mut self.front else { return };
        let left = wanted - rows.num_rows();
        rest.take(count.min(left)).for_each(|entry| rows.push(entry.row()));
        if left <= count
            && let Some(front) = self.front.take()
        {
            self.sorted_rows -= front.all.0;
            self.sorted_bytes -= front.all.1;
            self.add(front.rows);
        }
    }

    /// Leaves the keeping of the front as it is.
    fn leave_front(&mut self) {
        if let Some(Front { rows, rest, .. }) = self.front.take() {
            self.sorted.extend(rest.into_runs());
            self.sorted.push(Run::new(rows));
        }
    }

    fn add(&mut self, sorted: Rows) {
        self.sorted_rows += sorted.num_rows();
        self.sorted_bytes += sorted.size();
        self.sorted.push(Run::new(sorted));
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
struct Merge(BinaryHeap<Run>);

impl Merge {
    fn new(runs: Vec<Run>) -> Merge {
        Merge(runs.into_iter().filter(|run| run.left() > 0).collect())
    }

    /// What is left of the runs.
    fn into_runs(self) -> Vec<Run> {
        self.0.into_vec()
    }
}

impl Iterator for Merge {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        let mut first = self.0.peek_mut()?;
        let entry = Entry { rows: first.rows.clone(), row: first.next };
        first.next += 1;
        if first.left() == 0 {
            PeekMut::pop(first);
        }
        Some(entry)
    }
}

/// The rest of a run. The one with the least row is the greatest.
struct Run {
    rows: Arc<Rows>,
    next: usize,
}

impl Run {
    fn new(rows: Rows) -> Run {
        Run { rows: Arc::new(rows), next: 0 }
    }

    fn left(&self) -> usize {
        self.rows.num_rows() - self.next
    }

    fn first(&self) -> Row<'_> {
        self.rows.row(self.next)
    }
}

impl Ord for Run {
    fn cmp(&self, other: &Run) -> Ordering {
        other.first().cmp(&self.first())
    }
}

impl PartialOrd for Run {
    fn partial_cmp(&self, other: &Run) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Run {
    fn eq(&self, other: &Run) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Run {}

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

    #[test]
    fn the_front_of_many_rows_is_found_while_others_come() {
        let (wanted, batch_rows) = (60_000, 2_000);
        let begun = 2 * wanted + UNWANTED_ROWS_MAX;
        // It has not been begun, is under way, has ended, and has been begun again.
        for count in [begun, begun + RUN_ROWS, begun + wanted, 3 * begun] {
            let lines = lines(count);
            let (rows, _) = sorted(&lines, batch_rows, Some(wanted));
            assert_eq!(rows[..wanted], expected(lines)[..wanted], "{count}");
            assert!(rows.len() <= begun + wanted / LOOKED_AT_PER_ROW + RUN_ROWS, "{} rows of {count}", rows.len());
        }
    }
}
