//! A row group in parts: several workers decode them side by side, each with a reader of its own.
//!
//! A reader goes through a row group once, from its part to the end, and skips what is for others: to begin anew it would have to decode
//! dictionaries again. How many parts it skips each time is guessed from how many are being decoded when it is made, so that one worker
//! has one reader that skips nothing. Where the guess is wrong, a part finds no reader that stands before it, and makes one.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

use arrow::array::RecordBatch;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowSelection, RowSelectionPolicy,
    RowSelector,
};
use parquet::errors::ParquetError;

use pelton_runtime::pool::panic_text;

use crate::format::opened::OpenedFile;

/// Rows of a row group that are decoded at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupRows {
    group: usize,
    /// The first row's place in the row group, from 0.
    start: usize,
    rows: usize,
    /// The first row's number in the file, from 1.
    pub(super) first_row: u64,
}

/// How row groups are divided.
#[derive(Debug, Clone, Copy)]
pub(super) struct Division {
    /// Rows of a batch.
    pub(super) batch_rows: usize,
    /// Batches of a part.
    pub(super) part_batches: usize,
    /// Batches of a part that nobody decodes another one beside: one reader reads on, and what it has decoded is still in the cache.
    pub(super) part_batches_alone: usize,
}

impl GroupRows {
    /// Rows of the file up to its end.
    pub(crate) fn rows_until(self) -> u64 {
        self.first_row - 1 + self.rows as u64
    }
}

impl Division {
    fn part_rows(self) -> usize {
        self.batch_rows * self.part_batches
    }

    /// The part of a file behind another one, or the first; `is_alone`: nobody decodes another one beside it.
    pub(super) fn part_after(
        self,
        metadata: &ArrowReaderMetadata,
        before: Option<GroupRows>,
        is_alone: bool,
    ) -> Option<GroupRows> {
        let behind = |part: GroupRows| (part.group, part.start + part.rows, part.first_row + part.rows as u64);
        let (mut group, mut start, first_row) = before.map_or((0, 0, 1), behind);
        loop {
            let group_rows = usize::try_from(metadata.metadata().row_groups().get(group)?.num_rows()).unwrap_or(0);
            if start < group_rows {
                let rows_max = if is_alone { self.part_batches_alone * self.batch_rows } else { usize::MAX };
                // A reader that skips the parts of others stops at the end of its own.
                let rows = rows_max.min(self.rest_of_part(start)).min(group_rows - start);
                return Some(GroupRows { group, start, rows, first_row });
            }
            (group, start) = (group + 1, 0);
        }
    }

    /// Nothing, behind so many rows of a file: what [`Division::part_after`] goes on from.
    pub(super) fn nothing_behind(metadata: &ArrowReaderMetadata, rows: u64) -> GroupRows {
        let (mut group, mut start) = (0, rows);
        while let Some(known) = metadata.metadata().row_groups().get(group) {
            let group_rows = u64::try_from(known.num_rows()).unwrap_or(0);
            if start < group_rows {
                break;
            }
            (group, start) = (group + 1, start - group_rows);
        }
        GroupRows { group, start: start as usize, rows: 0, first_row: rows + 1 }
    }

    /// Rows from a row of a row group to the end of the part that has it.
    fn rest_of_part(self, row: usize) -> usize {
        self.part_rows() - row % self.part_rows()
    }

    /// The rows of each `stride`-th part of a row group, from `part` on.
    fn selection(self, part: GroupRows, group_rows: usize, stride: usize) -> RowSelection {
        let mut selectors = vec![RowSelector::skip(part.start)];
        let mut start = part.start;
        while start < group_rows {
            let rest = group_rows - start;
            let selected = if stride == 1 { rest } else { self.rest_of_part(start).min(rest) };
            let skipped = ((stride - 1) * self.part_rows()).min(rest - selected);
            selectors.extend([RowSelector::select(selected), RowSelector::skip(skipped)]);
            start += selected + skipped;
        }
        selectors.into()
    }
}

/// Readers that wait for their next part, beyond twice as many as there are workers: each holds dictionaries and a page of each column. Of
/// more the one that has waited longest is dropped, and a part that would have found it makes another.
const IDLE_READERS_MAX: usize = 16;

/// Parts that a reader reads at most: as many selections are made when it is.
const PARTS_PER_READER_MAX: usize = 1024;

/// The readers of a table's files.
#[derive(Default)]
pub(crate) struct Readers(Mutex<State>);

#[derive(Default)]
struct State {
    /// Readers that nobody reads from; the one that has waited longest first.
    idle: VecDeque<Reader>,
    /// How many parts are being decoded.
    busy: usize,
    /// How many there were at most.
    busy_max: usize,
}

/// Which of the table's files.
pub(crate) type FileNumber = usize;

/// Reads some parts of a row group.
struct Reader {
    file: FileNumber,
    group: usize,
    /// Rows of the row group that it reads or skips.
    group_rows: usize,
    /// The row in the row group that comes next.
    next: usize,
    stride: usize,
    batches: ParquetRecordBatchReader,
}

impl Readers {
    /// The rows of a part, in order.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub(super) fn read(
        &self,
        file: FileNumber,
        part: GroupRows,
        division: Division,
        open: impl FnOnce() -> ParquetRecordBatchReaderBuilder<OpenedFile>,
    ) -> Result<Vec<RecordBatch>, ParquetError> {
        let (found, stride) = self.begin(file, part);
        let read = unless_damaged(|| {
            let mut reader = found.map_or_else(|| Reader::open(file, part, division, stride, open), Ok)?;
            Ok((reader.read(part, division)?, reader))
        });
        let mut state = self.state();
        state.busy -= 1;
        let (batches, reader) = read?;
        if reader.next < reader.group_rows {
            state.idle.push_back(reader);
        }
        if state.idle.len() > IDLE_READERS_MAX + 2 * state.busy_max {
            state.idle.pop_front();
        }
        Ok(batches)
    }

    /// Whether nobody decodes a part, nor was seen to decode one beside another.
    pub(crate) fn are_alone(&self) -> bool {
        let state = self.state();
        state.busy == 0 && state.busy_max <= 1
    }

    /// The reader that stands before a part, if there is one, and how many parts are decoded side by side.
    fn begin(&self, file: FileNumber, part: GroupRows) -> (Option<Reader>, usize) {
        let mut state = self.state();
        state.busy += 1;
        state.busy_max = state.busy_max.max(state.busy);
        let wanted = (part.group, part.start);
        // Those that others have overtaken are of no use any more.
        state.idle.retain(|reader| reader.file != file || (reader.group, reader.next) >= wanted);
        let found = state
            .idle
            .iter()
            .position(|reader| (reader.file, reader.group, reader.next) == (file, part.group, part.start));
        (found.and_then(|index| state.idle.remove(index)), state.busy)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the library reads. It panics at some files that are damaged, which is an error as well.
pub(super) fn unless_damaged<T>(read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|panic| {
        let message = panic_text(panic.as_ref()).unwrap_or("it cannot be read");
        Err(ParquetError::General(message.to_owned()))
    })
}

impl Reader {
    fn open(
        file: FileNumber,
        part: GroupRows,
        division: Division,
        stride: usize,
        open: impl FnOnce() -> ParquetRecordBatchReaderBuilder<OpenedFile>,
    ) -> Result<Reader, ParquetError> {
        let builder = open().with_row_groups(vec![part.group]).with_batch_size(division.batch_rows);
        let group_rows = builder.metadata().row_group(part.group).num_rows() as usize;
        // A damaged file has any number of rows.
        let reach = part.start.saturating_add(PARTS_PER_READER_MAX * stride * division.part_rows());
        let group_rows = group_rows.min(reach);
        let batches = match (part.start, stride) {
            (0, 1) => builder.build()?,
            _ => builder
                .with_row_selection(division.selection(part, group_rows, stride))
                .with_row_selection_policy(RowSelectionPolicy::Selectors)
                .build()?,
        };
        Ok(Reader { file, group: part.group, group_rows, next: part.start, stride, batches })
    }

    fn read(&mut self, part: GroupRows, division: Division) -> Result<Vec<RecordBatch>, ParquetError> {
        let mut batches = Vec::with_capacity(division.part_batches);
        let mut rows = 0;
        while rows < part.rows {
            let batch = self.batches.next().transpose()?;
            // No batch has rows of two parts, since a part is so many whole batches.
            let batch = batch.ok_or_else(|| ParquetError::EOF("a row group ends early".to_string()))?;
            rows += batch.num_rows();
            batches.push(batch);
        }
        self.next = part.start + part.rows;
        if self.next.is_multiple_of(division.part_rows()) {
            self.next += (self.stride - 1) * division.part_rows();
        }
        Ok(batches)
    }
}

/// What reads some columns of a file.
pub(super) fn builder(
    file: &OpenedFile,
    metadata: &ArrowReaderMetadata,
    columns: impl Iterator<Item = usize>,
) -> ParquetRecordBatchReaderBuilder<OpenedFile> {
    let columns = ProjectionMask::roots(metadata.metadata().file_metadata().schema_descr(), columns);
    ParquetRecordBatchReaderBuilder::new_with_metadata(file.clone(), metadata.clone()).with_projection(columns)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use arrow::array::{ArrayRef, Int64Array, StringArray};
    use arrow::compute::concat_batches;
    use parquet::arrow::ArrowWriter;
    use parquet::arrow::arrow_reader::ArrowReaderOptions;
    use parquet::file::metadata::PageIndexPolicy;
    use parquet::file::properties::WriterProperties;

    use super::*;
    use crate::random::Stream;

    /// Draws numbers below a bound.
    fn numbers(seed: u64) -> impl FnMut(u32) -> usize {
        let (stream, mut position) = (Stream::new(seed, "parts"), 0);
        move |below| {
            position += 1;
            stream.at(position).below(below) as usize
        }
    }

    /// Rows with NULLs and strings, of which few fit a dictionary.
    fn rows(number: &mut impl FnMut(u32) -> usize, count: usize) -> RecordBatch {
        let numbers: Int64Array = (0..count).map(|_| (number(5) > 0).then(|| number(300) as i64)).collect();
        let texts: StringArray = (0..count).map(|_| (number(9) > 0).then(|| "x".repeat(number(40)))).collect();
        let columns: [(&str, ArrayRef); 2] = [("number", Arc::new(numbers)), ("text", Arc::new(texts))];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    fn write(path: &Path, rows: &RecordBatch, group_rows: usize, has_index: bool) {
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(group_rows))
            .set_data_page_row_count_limit(50)
            .set_write_batch_size(10)
            .set_dictionary_page_size_limit(400)
            .set_offset_index_disabled(!has_index)
            .build();
        let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), rows.schema(), Some(properties)).unwrap();
        writer.write(rows).unwrap();
        writer.close().unwrap();
    }

    #[test]
    fn parts_that_workers_decode_side_by_side_are_the_rows_of_the_file() {
        let path = std::env::temp_dir().join(format!("pelton-parts-{}.parquet", std::process::id()));
        for seed in 0..40 {
            let mut number = numbers(seed);
            let count = number(3_000);
            let written = rows(&mut number, count);
            write(&path, &written, 1 + number(1_500), seed % 2 == 0);
            let options = ArrowReaderOptions::new().with_offset_index_policy(PageIndexPolicy::Optional);
            let file = OpenedFile::open(&crate::storage::Location::local(&path)).unwrap();
            let metadata = ArrowReaderMetadata::load(&file, options).unwrap();
            let (batch_rows, part_batches_alone) = (1 + number(70), 1 + number(3));
            let division = Division { batch_rows, part_batches: 1 + seed as usize % 3, part_batches_alone };
            let mut alone = number(20);
            let mut is_alone = || {
                alone = alone.saturating_sub(1);
                alone > 0
            };
            let first = division.part_after(&metadata, None, is_alone());
            let following = |part: &GroupRows| division.part_after(&metadata, Some(*part), is_alone());
            let parts: Vec<GroupRows> = std::iter::successors(first, following).collect();
            let (readers, next, workers) = (Readers::default(), AtomicUsize::new(0), 1 + seed as usize % 4);
            let work = || {
                let mut decoded = Vec::new();
                while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let open = || builder(&file, &metadata, [0, 1].into_iter());
                    decoded.push((part.first_row, readers.read(7, *part, division, open).unwrap()));
                }
                decoded
            };
            let mut decoded: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
                threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
            });
            decoded.sort_by_key(|(first_row, _)| *first_row);
            let mut row = 1;
            for (first_row, batches) in &decoded {
                assert_eq!(*first_row, row, "seed {seed}");
                row += batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
            }
            let batches: Vec<&RecordBatch> = decoded.iter().flat_map(|(_, batches)| batches).collect();
            assert_eq!(concat_batches(&written.schema(), batches).unwrap(), written, "seed {seed}");
            assert!(readers.state().idle.len() <= IDLE_READERS_MAX + 2 * workers);
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn one_worker_has_one_reader() {
        let path = std::env::temp_dir().join(format!("pelton-reader-{}.parquet", std::process::id()));
        write(&path, &rows(&mut numbers(1), 1_000), 1_000, true);
        let options = ArrowReaderOptions::new().with_offset_index_policy(PageIndexPolicy::Optional);
        let file = OpenedFile::open(&crate::storage::Location::local(&path)).unwrap();
        let metadata = ArrowReaderMetadata::load(&file, options).unwrap();
        let division = Division { batch_rows: 10, part_batches: 4, part_batches_alone: 2 };
        let (readers, mut opened, mut before) = (Readers::default(), 0, None);
        while let Some(part) = division.part_after(&metadata, before, readers.are_alone()) {
            assert_eq!(part.rows, 20);
            before = Some(part);
            let open = || {
                opened += 1;
                builder(&file, &metadata, [0, 1].into_iter())
            };
            readers.read(0, part, division, open).unwrap();
        }
        assert_eq!((opened, readers.state().idle.len()), (1, 0));
        std::fs::remove_file(&path).unwrap();
    }
}
