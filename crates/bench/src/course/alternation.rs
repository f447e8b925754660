//! The cases of a course side by side: each is given the same rows, some milliseconds' worth at a time, so that a moment at which others use the
//! machine meets all alike.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use pelton::{Outcome, PushSource, Query, Session};
use pelton_data::Block;
use pelton_data::block::shifted;
use pelton_runtime::adapt::Specialisation;
use pelton_runtime::adapt::story::What;

use crate::BenchError;
use crate::file::{Benchmark, Case, STEP_VALUES};
use crate::loops::Input;
use crate::stream::tier_of;

/// Rows of a turn, about.
const TURN_ROWS: usize = 4 << 20;

/// How often a case is asked whether it is done, or has room for more.
const LOOK_INTERVAL: Duration = Duration::from_micros(100);

/// Between two turns workers come to rest: windows that the last rows have closed leave.
const REST: Duration = Duration::from_micros(500);

/// Of the event time, for which a turn's rows are due at a million a second.
const ROWS_PER_TICK: usize = 1_000;

/// Windows of courses are as long, or divide it,
const WINDOW_TICKS: i64 = 10_000;

/// and the times of a turn, those of a block, lie within so many.
const TURN_TICKS_MAX: i64 = 100;

/// What all cases took, turn by turn.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Turns {
    /// Rows at the end of each turn.
    pub ends: Vec<f64>,
    /// Turns with which the data changes.
    pub changes: Vec<usize>,
    /// At the beginning and behind each change, the step whose rows are given.
    pub steps: Vec<usize>,
    /// Of each case the seconds of each turn.
    pub seconds: Vec<Vec<f64>>,
    /// Of each case the rows behind which other code ran.
    pub new_code: Vec<Vec<f64>>,
}

impl Turns {
    /// Rows before a turn.
    pub fn start(&self, turn: usize) -> f64 {
        if turn == 0 { 0.0 } else { self.ends[turn - 1] }
    }
}

/// Gives all rows of a course to all cases.
pub(super) fn run(benchmark: &Benchmark, input: &Input, workers: usize) -> Result<Turns, BenchError> {
    let start = |case| Lane::start(benchmark, case, workers);
    let mut lanes = benchmark.cases.iter().map(start).collect::<Result<Vec<Lane>, _>>()?;
    let mut turns = Turns { seconds: vec![Vec::new(); lanes.len()], ..Turns::default() };
    let always: Vec<Option<usize>> = benchmark.cases.iter().map(Case::always).collect();
    let mut rows = CourseRows::new(benchmark, input, always.iter().flatten().copied())?;
    while let Some(given) = rows.next_turn()? {
        let (turn, count) = (turns.ends.len(), lanes.len());
        turns.changes.extend(given.is_change.then_some(turn));
        turns.steps.extend((turn == 0 || given.is_change).then_some(given.step));
        for place in 0..count {
            // Nobody always comes first, nor behind the same one.
            let index = (place + turn) % count;
            let index = if turn % 2 == 1 { count - 1 - index } else { index };
            let batches = rows.of_turn(&given, always[index].unwrap_or(given.step))?;
            turns.seconds[index].push(lanes[index].pass(&batches)?);
        }
        turns.ends.push(rows.done as f64);
    }
    turns.new_code = lanes.iter().map(|lane| lane.new_code.clone()).collect();
    lanes.into_iter().try_for_each(Lane::end)?;
    Ok(turns)
}

/// The rows of a course, turn by turn.
struct CourseRows<'a> {
    benchmark: &'a Benchmark,
    input: &'a Input,
    /// The input with the columns of each step that is given now or that some case is always given.
    batches: BTreeMap<usize, Vec<RecordBatch>>,
    /// The steps that some case is always given.
    always: Vec<usize>,
    step: Option<usize>,
    /// The batch to be given next.
    next: usize,
    done: usize,
}

/// Which rows are given in a turn.
struct Given {
    /// Of which step.
    step: usize,
    /// Whether the data has changed with this turn.
    is_change: bool,
    /// Places of batches.
    batches: Vec<usize>,
    /// Times of all of them, so that these are made once.
    times: Option<(usize, ArrayRef)>,
}

impl CourseRows<'_> {
    fn new<'a>(
        benchmark: &'a Benchmark,
        input: &'a Input,
        always: impl Iterator<Item = usize>,
    ) -> Result<CourseRows<'a>, BenchError> {
        let batches = BTreeMap::new();
        let mut rows = CourseRows { benchmark, input, batches, always: always.collect(), step: None, next: 0, done: 0 };
        for step in rows.always.clone() {
            rows.make(step)?;
        }
        Ok(rows)
    }

    /// Nothing when all have been given.
    fn next_turn(&mut self) -> Result<Option<Given>, BenchError> {
        let course = &self.benchmark.course;
        if self.done >= course.rows || self.input.blocks.is_empty() {
            return Ok(None);
        }
        let step = self.done / (course.rows / course.count().max(1)).max(1);
        let before = self.step.replace(step);
        let is_change = before != Some(step) && course.changes_at(step);
        if before != Some(step) {
            self.batches.retain(|step, _| self.always.contains(step));
            self.make(step)?;
        }
        let first = &self.input.blocks[0];
        let time = first.time_column().map(|time| time.index);
        let times = time.map(|time| (time, shifted(&first.column(time), turn_ticks(self.done))));
        let (mut batches, mut rows) = (Vec::new(), 0);
        while rows < TURN_ROWS {
            batches.push(self.next);
            rows += self.input.blocks[self.next].rows();
            self.next = (self.next + 1) % self.input.blocks.len();
        }
        self.done += rows;
        Ok(Some(Given { step, is_change, batches, times }))
    }

    /// The rows of a turn as a step has them.
    fn of_turn(&self, given: &Given, step: usize) -> Result<Vec<RecordBatch>, BenchError> {
        let batches = given.batches.iter().map(|&batch| &self.batches[&step][batch]);
        let timed = batches.map(|batch| match &given.times {
            Some((time, times)) => with_column(batch, *time, times.slice(0, batch.num_rows())),
            None => Ok(batch.clone()),
        });
        timed.collect()
    }

    fn make(&mut self, step: usize) -> Result<(), BenchError> {
        let batches = self.input.blocks.iter().map(|block| self.of_step(block, step)).collect::<Result<_, _>>()?;
        self.batches.insert(step, batches);
        Ok(())
    }

    fn of_step(&self, block: &Block, step: usize) -> Result<RecordBatch, BenchError> {
        let mut batch = block.to_record_batch();
        for (name, passing) in &self.benchmark.course.steps {
            let column = self.input.column(name);
            let Some(values) = batch.column(column).as_primitive_opt::<Int64Type>() else {
                return Err(BenchError::Input(format!("column '{name}' of a course's steps must be a BIGINT")));
            };
            let less = STEP_VALUES - passing[step.min(passing.len() - 1)];
            let moved = values.unary::<_, Int64Type>(|value| value - less);
            batch = with_column(&batch, column, Arc::new(moved))?;
        }
        Ok(batch)
    }
}

/// How far the times of a turn lie behind those of the input, which begins at a multiple of [`WINDOW_TICKS`], where so many rows were given before. No turn has
/// times of two windows: of all its batches but the first the rows of the earlier one would be late.
fn turn_ticks(rows_before: usize) -> i64 {
    let ticks = (rows_before / ROWS_PER_TICK) as i64;
    let left = WINDOW_TICKS - ticks % WINDOW_TICKS;
    if left < TURN_TICKS_MAX { ticks + left } else { ticks }
}

fn with_column(batch: &RecordBatch, index: usize, column: ArrayRef) -> Result<RecordBatch, BenchError> {
    let mut columns = batch.columns().to_vec();
    columns[index] = column;
    RecordBatch::try_new(batch.schema(), columns).map_err(|error| BenchError::Input(error.to_string()))
}

/// One case that runs.
struct Lane {
    /// The query lasts as long.
    _session: Session,
    source: PushSource,
    query: Query,
    pushed: u64,
    new_code: Vec<f64>,
    /// Events of its code that were seen.
    events: u64,
    /// What was tried last.
    tried: Option<Specialisation>,
}

impl Lane {
    fn start(benchmark: &Benchmark, case: &Case, workers: usize) -> Result<Lane, BenchError> {
        let session = Session::new();
        session.set("pelton.workers", &workers.to_string())?;
        session.set("pelton.tier", tier_of(case).unwrap_or("compile"))?;
        let statements = benchmark.statements(case, 0.0, "");
        let mut source = None;
        for statement in session.prepare(&statements.setup)? {
            match columns(statement.text(), &benchmark.table) {
                Some(columns) => source = Some(session.push_table(&benchmark.table, columns)?),
                None => drop(session.execute(&statement)?),
            }
        }
        let missing = || BenchError::Input(format!("the benchmark defines no table '{}'", benchmark.table));
        let source = source.ok_or_else(missing)?;
        let Outcome::Running(query) = session.execute(&session.prepare(&statements.query)?[0])? else {
            return Err(BenchError::Input("the benchmark's query is none".to_string()));
        };
        Ok(Lane { _session: session, source, query, pushed: 0, new_code: Vec::new(), events: 0, tried: None })
    }

    /// Computes some rows, and says how many seconds that took.
    fn pass(&mut self, batches: &[RecordBatch]) -> Result<f64, BenchError> {
        std::thread::sleep(REST);
        let start = Instant::now();
        for batch in batches {
            while !self.source.try_push(batch.clone())? {
                std::thread::sleep(LOOK_INTERVAL);
            }
            self.pushed += batch.num_rows() as u64;
        }
        let control = self.query.control();
        while control.run().rows_computed() < self.pushed {
            if control.has_ended() {
                return Err(BenchError::Input("the query has ended before its input".to_string()));
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
        let seconds = start.elapsed().as_secs_f64();
        self.look_at_code();
        Ok(seconds)
    }

    /// Notes behind which rows other code ran.
    fn look_at_code(&mut self) {
        let progress = self.query.progress();
        for event in progress.run().pipelines.first().iter().flat_map(|pipeline| &pipeline.story.events) {
            if event.number < self.events {
                continue;
            }
            let is_new_code = match event.what {
                What::Tried { specialisation, .. } => {
                    self.tried = specialisation;
                    false
                }
                // Where a block lies is nothing that the steps of a course change.
                What::Kept { .. } => self.tried != Some(Specialisation::FetchAhead),
                What::Pinned { .. } | What::Assumed { .. } => true,
                _ => false,
            };
            if is_new_code {
                self.new_code.push(event.rows as f64);
            }
            self.events = event.number + 1;
        }
    }

    fn end(self) -> Result<(), BenchError> {
        drop(self.source);
        let late = self.query.progress().late_rows();
        if late > 0 {
            return Err(BenchError::Input(format!("{late} rows of the course came too late for their windows")));
        }
        self.query.wait()?;
        Ok(())
    }
}

/// The columns of a statement that makes the table.
fn columns<'a>(statement: &'a str, table: &str) -> Option<&'a str> {
    let definition = statement.trim().strip_prefix("CREATE TABLE ")?.strip_prefix(table)?.trim_start();
    let (columns, _) = definition.strip_prefix('(')?.rsplit_once("WITH (")?;
    columns.trim_end().strip_suffix(')')
}

#[cfg(test)]
mod tests {
    use super::*;

    const BENCH: &str = "\
name n
reads t x
kind course
rows 20000000
steps x 2500 10000
case off tier=compile adapt=off
case on tier=compile adapt=on

setup
SET 'pelton.adapt' = '${adapt}';
CREATE TABLE t (x BIGINT NOT NULL, ts TIMESTAMP(3) NOT NULL, WATERMARK FOR ts AS ts) WITH (
    'connector' = 'datagen', 'number-of-rows' = '3000000', 'rows-per-second' = '1000000', 'pace' = 'flat-out',
    'base-time' = '2020-01-01 00:00:00', 'fields.x.min' = '0', 'fields.x.max' = '9999'
);
CREATE TABLE nowhere (rows_count BIGINT) WITH ('connector' = 'blackhole');

query
INSERT INTO nowhere SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)) WHERE x >= 0
GROUP BY window_start, window_end
";

    #[test]
    fn all_cases_are_given_all_rows_and_steps() {
        let benchmark = Benchmark::parse(BENCH).expect("it is a benchmark");
        let setup = benchmark.statements(&benchmark.cases[0], 0.0, "").setup;
        let input = Input::load(&setup, "t").expect("rows are made");
        let mut rows = CourseRows::new(&benchmark, &input, [0].into_iter()).expect("columns fit");
        let [mut shares, mut always] = [const { Vec::new() }; 2];
        while let Some(given) = rows.next_turn().expect("columns fit") {
            let of = |batch: &RecordBatch| batch.column(0).as_primitive::<Int64Type>().values().to_vec();
            let share = |step: usize| {
                let values: Vec<i64> = rows.of_turn(&given, step).expect("columns fit").iter().flat_map(of).collect();
                values.iter().filter(|value| **value >= 0).count() as f64 / values.len() as f64
            };
            shares.push(share(given.step));
            always.push(share(0));
        }
        assert_eq!(shares.len(), 5);
        assert!(shares[..3].iter().all(|share| (share - 0.25).abs() < 0.01), "{shares:?}");
        assert!(shares[3..].iter().all(|share| *share == 1.0), "{shares:?}");
        assert!(always.iter().all(|share| (share - 0.25).abs() < 0.01), "{always:?}");
        let turns = run(&benchmark, &input, 1).expect("both cases run");
        assert_eq!(turns.ends.last().copied(), Some(rows.done as f64));
        assert_eq!(turns.seconds.iter().map(Vec::len).collect::<Vec<_>>(), [5, 5]);
        assert_eq!((turns.changes, turns.steps), (vec![3], vec![0, 1]));
    }

    #[test]
    fn columns_stand_between_parentheses() {
        let text = "CREATE TABLE t (\n a INT, b DECIMAL(3, 1)\n) WITH ('connector' = 'x')";
        assert_eq!(columns(text, "t"), Some("\n a INT, b DECIMAL(3, 1)\n"));
        assert_eq!(columns(text, "other"), None);
        assert_eq!(columns("SET 'a' = 'b'", "t"), None);
    }
}
