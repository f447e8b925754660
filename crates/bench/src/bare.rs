//! A query's compiled kernel without the engine around it: what scheduling, memory and the closing of windows cost is seen beside it.

use std::sync::Arc;

use pelton_data::window::{Combination, Window};
use pelton_data::{Block, Micros};
use pelton_plan::pipeline::{Operator, Program, StreamRef, Target};
use pelton_plan::{Catalog, Statement, Table as Definition};
use pelton_state::join::Lookups;
use pelton_state::kernel::{Kernel, KernelInput, Scratch};
use pelton_state::layout::EntryLayout;
use pelton_state::table::Table;

use super::BenchError;
use super::file::Statements;
use super::loops::{Input, TogetherLoop, definition};

/// The kernel of a query whose only pipeline adds the rows of a table to tumbling windows, with blocks of just the columns that it reads.
struct Bare {
    kernel: Arc<dyn Kernel>,
    /// No tables: there is no lookup.
    lookups: Lookups,
    layout: Arc<EntryLayout>,
    window: Window,
    blocks: Vec<Block>,
}

/// A loop that calls the kernel of a benchmark's query for blocks of so many rows in all, whichever blocks it is given: these have columns that the kernel does not read.
///
/// # Errors
/// Where the query is refused, or is another one than its pipeline.
pub(super) fn bare_kernel(statements: &Statements, call_rows: usize) -> Result<TogetherLoop, BenchError> {
    let bare = Bare::new(statements, call_rows)?;
    Ok(Box::new(move |_, workers| bare.run(workers)))
}

impl Bare {
    fn new(statements: &Statements, call_rows: usize) -> Result<Bare, BenchError> {
        let failed = |error: &dyn std::fmt::Display| BenchError::Input(error.to_string());
        let program = program(statements)?;
        let not_one =
            || failed(&"a bare kernel is that of a query with one pipeline, from a table to tumbling windows");
        let ([source], [pipeline], [Operator::Window(window)], []) = (
            program.sources.as_slice(),
            program.pipelines.as_slice(),
            program.operators.as_slice(),
            program.lookups.as_slice(),
        ) else {
            return Err(not_one());
        };
        let is_to_window = matches!(pipeline.target, Target::Groups { .. }) && pipeline.input == StreamRef::Source(0);
        if !is_to_window || window.combination() != Combination::Single {
            return Err(not_one());
        }
        let definition = definition(&statements.setup, &source.table)?;
        let input = Input::load_columns(&definition, source.columns.clone())?;
        let compiled = pelton_compiler::compile(&program, 0, &[]).map_err(|error| failed(&error))?;
        Ok(Bare {
            kernel: compiled.kernel,
            lookups: Lookups::default(),
            layout: pelton_compiler::entry_layout(window),
            window: window.window,
            blocks: input.passes(call_rows),
        })
    }

    /// Each of so many threads adds the blocks of a share of its own.
    fn run(&self, workers: usize) {
        let share = self.blocks.len().div_ceil(workers).max(1);
        std::thread::scope(|scope| {
            self.blocks.chunks(share).for_each(|blocks| drop(scope.spawn(|| self.add(blocks))));
        });
    }

    /// Adds all rows, which are in the order of their times, to the table of one window after the other.
    fn add(&self, blocks: &[Block]) {
        let (mut table, mut scratch, mut end) = (Table::new(self.layout.clone()), Scratch::default(), Micros::MIN);
        for block in blocks {
            let (ticks, shift) = (block.raw_ticks().expect("windows are cut by time"), block.time_shift_ticks());
            let micros_per_tick = block.time_column().expect("windows are cut by time").micros_per_tick;
            let micros = |row: usize| (ticks[row] + shift) * micros_per_tick;
            let mut first = 0;
            while first < block.rows() {
                if micros(first) >= end {
                    std::hint::black_box(&mut table).clear();
                    end = self.window.slice(micros(first)).end;
                }
                let is_whole = micros(block.rows() - 1) < end;
                let rest = &ticks[first..];
                let rows = if is_whole {
                    rest.len()
                } else {
                    rest.partition_point(|tick| (tick + shift) * micros_per_tick < end)
                };
                let input = KernelInput { block, first, end: first + rows, mask: None };
                self.kernel
                    .aggregate(input, &self.lookups, &mut table, &mut scratch)
                    .expect("the engine computes the same rows");
                first += rows;
            }
        }
        std::hint::black_box(&table);
    }
}

/// What the benchmark's query becomes.
fn program(statements: &Statements) -> Result<Program, BenchError> {
    let failed = |error: pelton_plan::PlanError| BenchError::Input(error.to_string());
    let mut catalog = Catalog::default();
    for parsed in pelton_plan::parse(&statements.setup).map_err(failed)? {
        match parsed.statement {
            Statement::CreateTable(definition) => {
                let delivered = definition.physical_schema().as_ref().clone();
                catalog.add_table(Definition::new(definition, delivered, true).map_err(failed)?).map_err(failed)?;
            }
            Statement::CreateView(view) => catalog.add_view(view).map_err(failed)?,
            _ => {}
        }
    }
    let query: Vec<Statement> =
        pelton_plan::parse(&statements.query).map_err(failed)?.into_iter().map(|parsed| parsed.statement).collect();
    pelton_plan::plan(&catalog, &query.iter().collect::<Vec<_>>()).map_err(failed)
}
