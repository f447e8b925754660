//! Who has a query run, reads what comes of it, and knows what must.

use std::collections::BTreeSet;

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use pelton::{PullSink, Query};

use super::feed::{Feed, Row};
use super::kinds::Kind;
use super::model::Expected;

/// A query, what it has read, and what it has shown.
pub(super) struct Client {
    pub kind: Kind,
    pub query: Option<Query>,
    pub feeds: Vec<Feed>,
    pub outputs: Vec<Output>,
    /// What has come out, of all outputs as it was read.
    shown: Vec<Vec<i64>>,
    /// Why it may fail, or not show all, beside what its rows say.
    pub mishaps: Mishaps,
    failure: Option<String>,
    /// Rows that came too late for it, as it says.
    late: u64,
    /// What became of its code.
    story: Vec<String>,
}

/// Where some of its rows are read.
pub(super) struct Output {
    /// How seldom.
    pub laziness: usize,
    pub from: From,
}

pub(super) enum From {
    /// From the query.
    Result,
    /// From a table that it inserts into.
    Table(PullSink),
    /// Nobody reads any more.
    Nowhere,
}

/// What was done to a query.
#[derive(Default)]
pub(super) struct Mishaps {
    /// Its memory, or that of all, was limited.
    pub has_limit: bool,
    pub was_stopped: bool,
    /// Somebody reads an output no more.
    pub was_left: bool,
}

impl Client {
    pub fn new(kind: Kind, query: Query, feeds: Vec<Feed>, outputs: Vec<Output>, has_limit: bool) -> Client {
        let mishaps = Mishaps { has_limit, ..Mishaps::default() };
        let (shown, failure, late, story) = Default::default();
        Client { kind, query: Some(query), feeds, outputs, shown, mishaps, failure, late, story }
    }

    /// Reads a batch of an output, or that the query has ended. Returns whether there was any news.
    pub fn read(&mut self, output: usize) -> Result<bool, String> {
        let Some(query) = &mut self.query else { return Ok(false) };
        let batch = match &mut self.outputs[output].from {
            From::Result => query.try_next_batch().unwrap_or(None),
            From::Table(sink) => sink.try_next_batch(),
            From::Nowhere => None,
        };
        if let Some(batch) = batch {
            self.show(&batch)?;
            return Ok(true);
        }
        let has_more = |output: &Output| matches!(&output.from, From::Table(sink) if !sink.has_ended());
        if !query.control().has_ended() || self.outputs.iter().any(has_more) {
            return Ok(false);
        }
        self.failure = query.try_next_batch().err().map(|error| error.to_string());
        let progress = query.progress();
        self.late = progress.late_rows();
        for pipeline in &progress.run().pipelines {
            self.story.push(format!("{}, {}", pipeline.name, pipeline.tier));
            self.story
                .extend(pipeline.story.events.iter().map(|event| format!("row {}: {}", event.rows, event.summary())));
        }
        self.query = None;
        Ok(true)
    }

    /// Reads an output no more, where that is a table.
    pub fn leave(&mut self, output: usize) {
        if let From::Table(_) = self.outputs[output].from {
            self.outputs[output].from = From::Nowhere;
            self.mishaps.was_left = true;
        }
    }

    fn show(&mut self, batch: &RecordBatch) -> Result<(), String> {
        self.shown.extend(values_of(batch)?);
        Ok(())
    }

    /// What it has shown, why it failed, and what became of its code.
    pub fn told(&self) -> Vec<String> {
        let rows = self.shown.iter().map(|row| format!("{row:?}"));
        self.failure.iter().cloned().chain(rows).chain(self.story.iter().cloned()).collect()
    }

    /// Whether what it has shown is what must have come.
    pub fn check(&self) -> Result<(), String> {
        let Mishaps { has_limit, was_stopped, was_left } = self.mishaps;
        let is_whole = match &self.failure {
            None => !was_stopped && !was_left,
            Some(failure) if has_limit && failure.contains("its state takes") => false,
            Some(failure) if was_left && failure.contains("the program reads it no more") => false,
            Some(failure) if self.has_bad_row() && failure.contains(self.kind.failure()) => false,
            Some(failure) => return Err(format!("fails: {failure}")),
        };
        if is_whole && self.has_bad_row() {
            return Err("has a row that it must fail for and does not fail".to_owned());
        }
        let tables: Vec<&[Row]> = self.feeds.iter().map(|feed| feed.rows.as_slice()).collect();
        if was_stopped && self.kind == Kind::Sorted {
            return self.check_sorted(tables[0]);
        }
        let late = self.kind.late(&tables) as u64;
        if is_whole && self.late != late {
            return Err(format!("says that {} rows come too late, and {late} do", self.late));
        }
        let expected = self.kind.expected(&tables);
        let Some(lane) = self.kind.lane() else { return compare(&self.shown, &expected, is_whole) };
        let rows = self.shown.iter().chain(expected.iter().flatten());
        let lanes: BTreeSet<i64> = rows.map(|row| row[lane]).collect();
        lanes.into_iter().try_for_each(|value| {
            let shown: Vec<Vec<i64>> = self.shown.iter().filter(|row| row[lane] == value).cloned().collect();
            let expected: Expected = expected.iter().filter(|alike| alike[0][lane] == value).cloned().collect();
            compare(&shown, &expected, is_whole)
        })
    }

    /// Whoever has rows put in order and reads no more gets those that were read in their order.
    fn check_sorted(&self, rows: &[Row]) -> Result<(), String> {
        let are_of = |read: usize| compare(&self.shown, &self.kind.expected(&[&rows[..read]]), false).is_ok();
        match (0..=rows.len()).any(are_of) {
            true => Ok(()),
            false => Err(format!("{:?} come, whichever rows were read", self.shown)),
        }
    }

    fn has_bad_row(&self) -> bool {
        self.feeds.iter().flat_map(|feed| &feed.rows).any(|row| self.kind.fails_for(row))
    }
}

/// The values of rows, times in milliseconds.
pub(super) fn values_of(batch: &RecordBatch) -> Result<Vec<Vec<i64>>, String> {
    let columns = batch.columns().iter().map(|column| cast(column, &DataType::Int64));
    let columns: Vec<_> = columns.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    let value = |row: usize| columns.iter().map(|column| column.as_primitive::<Int64Type>().value(row)).collect();
    Ok((0..batch.num_rows()).map(value).collect())
}

/// Whether all has come that must, or the first of it.
pub(super) fn compare(shown: &[Vec<i64>], expected: &Expected, is_whole: bool) -> Result<(), String> {
    let mut left = shown;
    for alike in expected {
        let (now, later) = left.split_at(alike.len().min(left.len()));
        let mut missing = alike.clone();
        for row in now {
            let Some(index) = missing.iter().position(|other| other == row) else {
                return Err(format!("{row:?} comes where one of {missing:?} must"));
            };
            missing.swap_remove(index);
        }
        if !missing.is_empty() && is_whole {
            return Err(format!("{missing:?} does not come"));
        }
        left = later;
    }
    left.first().map_or(Ok(()), |row| Err(format!("{row:?} comes when all has come")))
}
