//! How a query is run: blocks, ranges, masks, tables.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use pelton_compiler::{entry_layout, read_out};
use pelton_data::window::ResultKind;
use pelton_data::{Block, TimeColumn};
use pelton_state::join::Lookups;
use pelton_state::kernel::{Kernel, KernelError, KernelInput, Scratch};
use pelton_state::profile::Profile;
use pelton_state::table::Table;
use pelton_state::window::{ClosedGroups, ClosedWindow};

use crate::choices::{Choices, Noise};
use crate::model::{Row, table_rows};
use crate::queries::Query;

/// First and last instant of the window that all rows are in.
pub const BOUNDS: (i64, i64) = (20_000_000, 30_000_000);

/// One call of a kernel.
pub struct Call {
    block: usize,
    first: usize,
    end: usize,
    mask: Option<Vec<u64>>,
    /// Which of two workers makes it.
    worker: usize,
    /// Which of the kernels makes it.
    kernel: usize,
}

/// Blocks, and the calls that visit their rows.
pub struct Run {
    blocks: Vec<Block>,
    calls: Vec<Call>,
    rows_max: usize,
}

impl Run {
    /// The rows cut into blocks, and calls for parts of each. `workers` is 1 where the order of the rows matters.
    pub fn new(choices: &mut Choices<'_>, batch: &RecordBatch, workers: usize) -> Run {
        let block_rows = *choices.pick(&[1000, 7, 64, 1, 130, 65]);
        let time = time_column(choices, &batch.schema());
        let shift = *choices.pick(&[0, 5_000_000]);
        let blocks = (0..batch.num_rows()).step_by(block_rows).map(|first| {
            let rows = batch.slice(first, block_rows.min(batch.num_rows() - first));
            let mut block = Block::new(rows, time).unwrap().shifted(shift);
            block.stamp.rows_before = first as u64;
            block
        });
        let blocks: Vec<Block> = blocks.collect();
        let mut calls = Vec::new();
        for (index, block) in blocks.iter().enumerate() {
            let cut = if choices.once_in(3) { choices.number(0..=block.rows()) } else { 0 };
            for (first, end) in [(0, cut), (cut, block.rows())] {
                let mask = choices.once_in(3).then(|| mask(choices, block.rows()));
                let worker = choices.number(0..=workers - 1);
                calls.push(Call { block: index, first, end, mask, worker, kernel: choices.number(0..=1) });
            }
        }
        Run { blocks, calls, rows_max: *choices.pick(&[1000, 1, 5]) }
    }

    /// The rows visited, in order.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for call in &self.calls {
            let block = table_rows(&self.blocks[call.block].to_record_batch());
            let visited = |row: usize| call.mask.as_ref().is_none_or(|mask| mask[row / 64] >> (row % 64) & 1 == 1);
            rows.extend((call.first..call.end).filter(|&row| visited(row)).map(|row| block[row].clone()));
        }
        rows
    }

    /// The rows that come of the query; the calls are shared out among two kernels, which may be the same.
    pub fn outcome(
        &self,
        query: &Query,
        lookups: &Lookups,
        kernels: [&Arc<dyn Kernel>; 2],
    ) -> Result<Vec<RecordBatch>, KernelError> {
        let mut scratch = Scratch::default();
        let Some(window) = query.window() else {
            let mut output = Vec::new();
            for calls in self.calls.chunk_by(|before, call| before.kernel == call.kernel) {
                let inputs: Vec<KernelInput<'_>> = calls.iter().map(|call| self.input(call)).collect();
                kernels[calls[0].kernel].emit(&inputs, lookups, &mut output, &mut scratch)?;
            }
            return Ok(output);
        };
        let layout = entry_layout(window);
        let mut tables = [Table::new(layout.clone()), Table::new(layout)];
        for call in &self.calls {
            kernels[call.kernel].aggregate(self.input(call), lookups, &mut tables[call.worker], &mut scratch)?;
        }
        let [mut merged, other] = tables;
        merged.merge(other);
        let window_of = |groups| ClosedWindow { start: BOUNDS.0, end: BOUNDS.1, groups, kind: ResultKind::Final };
        let read = |entries: &[u32]| {
            read_out(
                window,
                ClosedGroups { table: &merged, entries: entries.into(), windows: &[window_of(entries.len())] },
            )
        };
        let entries = merged.entry_offsets();
        let batches = entries.chunks(self.rows_max).chain(entries.is_empty().then_some(&entries[..])).map(read);
        let batches: Vec<RecordBatch> = batches.filter_map(Result::transpose).collect::<Result<_, _>>()?;
        assert!(batches.iter().all(|batch| (1..=self.rows_max).contains(&batch.num_rows())));
        Ok(batches)
    }

    /// Lets a kernel count which rows pass which of its predicates, in all calls.
    pub fn profile(&self, kernel: &dyn Kernel, lookups: &Lookups, profile: &mut Profile) {
        let mut scratch = Scratch::default();
        self.calls.iter().for_each(|call| kernel.profile(self.input(call), lookups, profile, &mut scratch));
    }

    fn input<'a>(&'a self, call: &'a Call) -> KernelInput<'a> {
        let Call { block, first, end, mask, .. } = call;
        KernelInput { block: &self.blocks[*block], first: *first, end: *end, mask: mask.as_deref() }
    }
}

/// Bits for each row; bits past the last row are set at random too.
fn mask(choices: &mut Choices<'_>, rows: usize) -> Vec<u64> {
    let mut noise = Noise::new(choices.seed());
    let kind = choices.number(0..=3);
    let words = (0..rows.div_ceil(64)).map(|_| match kind {
        0 => noise.next(),
        1 => u64::MAX,
        2 => 0,
        _ => noise.next() & noise.next() & noise.next(),
    });
    words.collect()
}

fn time_column(choices: &mut Choices<'_>, schema: &SchemaRef) -> Option<TimeColumn> {
    let mut times = schema
        .fields()
        .iter()
        .enumerate()
        .filter(|(_, field)| matches!(field.data_type(), DataType::Timestamp(..)) && !field.is_nullable());
    let (index, field) = times.next_back().filter(|_| choices.once_in(2))?;
    TimeColumn::new(index, field.data_type())
}
