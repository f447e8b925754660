//! A stream: the engine in all its ways to run it, in alternation with the loops or cases that it is compared with.

use pelton_data::column::row_bytes;

use crate::arguments::Arguments;
use crate::bare;
use crate::duckdb::DuckDb;
use crate::error::BenchError;
use crate::file::{Benchmark, Case, Statements};
use crate::loops::{self, Input, Loop};
use crate::report::{Figure, Line, Samples};
use crate::{files, measure, partials};

/// What a stream is measured against.
enum Reference {
    Loop(Loop),
    /// Another case of the benchmark, compiled where it does not say how it runs.
    Case(Box<Prepared>),
    DuckDb(DuckDb),
}

/// How a stream is run, what that is called, and what was measured.
struct Way {
    engine: &'static str,
    tier: &'static str,
    windows: &'static str,
    /// The way that it is compared with, and what that is called then; the references where there is none.
    against: Option<(usize, &'static str)>,
    samples: Samples,
}

/// The ways to run a case: as its parameter `tier` says, or compiled and interpreted.
fn ways(benchmark: &Benchmark, case: &Case) -> Vec<Way> {
    let way = |engine, tier| Way { engine, tier, windows: "slices", against: None, samples: Samples::default() };
    let mut ways = match tier_of(case) {
        Some("interpret") => vec![way("interpreted", "interpret")],
        Some("auto") => vec![way("auto", "auto")],
        Some(_) => vec![way("compiled", "compile")],
        None => vec![way("compiled", "compile"), way("interpreted", "interpret")],
    };
    if benchmark.with_auto {
        ways.push(Way { against: Some((1, "interpreted")), ..way("auto", "auto") });
    }
    if let Some(windows) = benchmark.with_windows {
        ways.push(Way { windows, against: Some((0, "slices")), ..way(windows, "compile") });
    }
    ways
}

pub(crate) fn tier_of(case: &Case) -> Option<&str> {
    case.parameters.get("tier").map(String::as_str)
}

/// A case whose files are there.
pub(crate) struct Prepared {
    pub statements: Statements,
    tier: &'static str,
    /// The files last as long.
    _folder: files::Folder,
}

impl Prepared {
    pub fn new(benchmark: &Benchmark, case: &Case, seconds: f64) -> Result<Prepared, BenchError> {
        let folder = files::Folder::new(&format!("{}-{}", benchmark.name, case.name))?;
        let statements = benchmark.statements(case, seconds, &folder.text());
        files::prepare(&statements.setup, &statements.prepare)?;
        Ok(Prepared { statements, tier: ways(benchmark, case)[0].tier, _folder: folder })
    }

    pub fn run(&self, tables: &[&str], tier: &str, windows: &str, workers: usize) -> Result<f64, BenchError> {
        let settings = [("pelton.tier", tier), ("pelton.windows", windows)];
        measure::engine(&self.statements.setup, &self.statements.query, tables, &settings, workers)
    }
}

/// How many rows a loop goes over in one call.
fn call_rows(case: &Case) -> usize {
    case.number("call_rows").unwrap_or(loops::CALL_ROWS)
}

/// What a case is measured against, by name and without samples so far.
fn references(
    benchmark: &Benchmark,
    case: &Case,
    seconds: f64,
    prepared: &Prepared,
    input: &Input,
) -> Result<Vec<(String, Reference, Samples)>, BenchError> {
    if let Some(other) = benchmark.against(case) {
        let other_prepared = Box::new(Prepared::new(benchmark, other, seconds)?);
        return Ok(vec![(other.name.clone(), Reference::Case(other_prepared), Samples::default())]);
    }
    let named = |name: &String| {
        if name == "duckdb" {
            let duckdb = Reference::DuckDb(DuckDb::new(&prepared.statements.duckdb)?);
            return Ok((name.clone(), duckdb, Samples::default()));
        }
        let run = match name.as_str() {
            "bare-kernel" => Loop::Together(bare::bare_kernel(&prepared.statements, call_rows(case))?),
            _ => {
                match loops::joins::named(name, benchmark, case, &prepared.statements.setup, input, call_rows(case))? {
                    Some(of_join) => of_join,
                    None => loops::named(name, case, &prepared.statements.setup, input)?,
                }
            }
        };
        Ok((name.clone(), Reference::Loop(run), Samples::default()))
    };
    benchmark.references.iter().map(named).collect()
}

/// All ways to run a case and the references take turns, so that a noisy moment does not hit one of them only. Each time another way begins: the
/// first one after the references touches pages that the system has taken back meanwhile, which may cost more than what is measured.
pub(crate) fn measure(benchmark: &Benchmark, case: &Case, arguments: &Arguments) -> Result<Vec<Figure>, BenchError> {
    let Arguments { workers, seconds, repeat, .. } = *arguments;
    let prepared = Prepared::new(benchmark, case, seconds)?;
    let setup = &prepared.statements.setup;
    let input = Input::load(setup, &benchmark.table)?;
    let passes = input.passes(call_rows(case));
    let columns: Vec<usize> = benchmark.columns.iter().map(|name| input.column(name)).collect();
    let mut references = references(benchmark, case, seconds, &prepared, &input)?;
    let (mut ways, mut scan) = (ways(benchmark, case), Samples::default());
    let tables: Vec<&str> = benchmark.counted().collect();
    let rows = counted_rows(benchmark, setup, &input)?;
    // The loops are told the rows of the first table.
    let rows_factor = rows as f64 / input.rows().max(1) as f64;
    for turn in 0..repeat.max(1) {
        let mut all: Vec<_> = (0..ways.len() + references.len()).collect();
        all[..ways.len()].rotate_left(turn % ways.len());
        for index in all {
            if let Some(Way { tier, windows, samples, .. }) = ways.get_mut(index) {
                samples.0.push(prepared.run(&tables, tier, windows, workers)?);
                continue;
            }
            let (_, reference, samples) = &mut references[index - ways.len()];
            samples.0.push(match reference {
                Reference::Loop(run) => measure::reference(&passes, run, workers, seconds) * rows_factor,
                Reference::DuckDb(duckdb) => duckdb.rows_per_s(rows, workers, seconds)?,
                Reference::Case(other) => other.run(&tables, other.tier, "slices", workers)?,
            });
        }
        scan.0.push(measure::bandwidth(&passes, &columns, workers, seconds.min(1.0)));
    }
    let line = |engine: &str, samples, reference| {
        Figure::Rate(Line {
            bench: benchmark.name.clone(),
            case: case.name.clone(),
            engine: engine.to_string(),
            workers,
            samples,
            bytes_per_record: bytes_per_record(&input, &columns),
            reference,
        })
    };
    let mut by_hand: Vec<(String, Samples)> =
        references.into_iter().map(|(name, _, samples)| (name, samples)).collect();
    by_hand.sort_by(|a, b| b.1.median().total_cmp(&a.1.median()));
    let fastest = by_hand.first().cloned();
    let reference = |way: &Way| match way.against {
        Some((other, name)) => Some((name.to_string(), ways[other].samples.clone())),
        None => fastest.clone(),
    };
    let mut lines: Vec<_> = ways.iter().map(|way| line(way.engine, way.samples.clone(), reference(way))).collect();
    lines.push(line("scan", scan, None));
    if by_hand.len() > 1 {
        lines.extend(by_hand.into_iter().map(|(name, samples)| line(&format!("loop {name}"), samples, None)));
    }
    lines.extend(partials::measure(benchmark, case, &input)?);
    Ok(lines)
}

/// The rows of a pass over all tables whose rows are counted.
fn counted_rows(benchmark: &Benchmark, setup: &str, input: &Input) -> Result<usize, BenchError> {
    let others = benchmark.counted().skip(1).map(|table| Ok(Input::load(setup, table)?.rows()));
    Ok(input.rows() + others.sum::<Result<usize, BenchError>>()?)
}

fn bytes_per_record(input: &Input, columns: &[usize]) -> usize {
    let Some(block) = input.blocks.first() else { return 0 };
    row_bytes(columns.iter().map(|column| &block.raw_columns()[*column]))
}
