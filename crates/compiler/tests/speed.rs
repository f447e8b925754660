//! Compiled kernels against the best loops written by hand, over the same blocks.
//!
//! Run with `cargo test --release -p pelton-compiler --test speed -- --ignored --nocapture`. Each pair runs in
//! alternation; the fastest pass of each counts. 128 Ki distinct rows, so that branch predictors do not learn them.

mod made;

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Int64Array, RecordBatch, UInt8Array};
use arrow::datatypes::{DataType, Decimal128Type, Field, Int64Type, Schema, UInt8Type};
use datafusion_common::ScalarValue;
use datafusion_expr::Operator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{binary, cast, col, lit};
use pelton_compiler::{compile, entry_layout};
use pelton_data::Block;
use pelton_data::aggregate::{Accumulate, Accumulator};
use pelton_plan::pipeline::{Pipeline, Program, Step, StreamRef, Target, Window, WindowAggregate};
use pelton_state::join::Lookups;
use pelton_state::kernel::{Kernel, KernelInput, Scratch};
use pelton_state::table::Table;

const BLOCKS: usize = 8;
const ROWS: usize = 16 * 1024;
const KEYS: u64 = 10_000;
const PASSES: usize = 60;

type Expression = Arc<dyn PhysicalExpr>;

/// Random numbers without a pattern that a branch predictor finds.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 ^ self.0 >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20
    }
}

fn schema() -> Arc<Schema> {
    Arc::new(Schema::new(vec![
        Field::new("kind", DataType::UInt8, false),
        Field::new("key", DataType::Int64, false),
        Field::new("price", DataType::Int64, false),
    ]))
}

fn blocks() -> Vec<Block> {
    let mut noise = Noise(1);
    let block = |_| {
        let kinds: UInt8Array = (0..ROWS).map(|_| (noise.next() % 3) as u8).collect::<Vec<_>>().into();
        let keys: Int64Array = (0..ROWS).map(|_| (noise.next() % KEYS) as i64).collect::<Vec<_>>().into();
        let prices: Int64Array = (0..ROWS).map(|_| (noise.next() % 10_000) as i64).collect::<Vec<_>>().into();
        let columns: Vec<ArrayRef> = vec![Arc::new(kinds), Arc::new(keys), Arc::new(prices)];
        Block::new(RecordBatch::try_new(schema(), columns).unwrap(), None).unwrap()
    };
    (0..BLOCKS).map(block).collect()
}

fn column(name: &str) -> Expression {
    col(name, &schema()).unwrap()
}

fn operator(left: Expression, operator: Operator, right: Expression) -> Expression {
    binary(left, operator, right, &schema()).unwrap()
}

fn program(steps: Vec<Expression>, target: Target, windows: Vec<WindowAggregate>) -> Program {
    let steps = steps.into_iter().map(Step::Filter).collect();
    let pipeline = Pipeline { input: StreamRef::Source(0), input_schema: schema(), steps, target };
    made::program(pipeline, windows)
}

/// Nanoseconds a row of the fastest pass of each.
fn compare(name: &str, mut kernel: impl FnMut(), mut hand: impl FnMut()) {
    let time = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    let mut best = [Duration::MAX; 2];
    for _ in 0..PASSES {
        best[0] = best[0].min(time(&mut kernel));
        best[1] = best[1].min(time(&mut hand));
    }
    let [kernel, hand] = best.map(|time| time.as_secs_f64() * 1e9 / (BLOCKS * ROWS) as f64);
    println!("{name}: kernel {kernel:.3} ns a row, by hand {hand:.3}, ratio {:.2}", hand / kernel);
}

fn ysb_program() -> Program {
    let accumulator = |accumulate, argument_type| Accumulator::new(accumulate, argument_type, false);
    let window = made::aggregate(
        Window::Tumbling { size: 10_000_000, offset: 0 },
        vec![Arc::new(Field::new("key", DataType::Int64, false))],
        vec![accumulator(Accumulate::Count, None), accumulator(Accumulate::SumInteger, Some(DataType::Int64))],
    );
    let target =
        Target::Groups { port: made::PORT, keys: vec![column("key")], arguments: vec![None, Some(column("price"))] };
    program(vec![operator(column("kind"), Operator::Eq, lit(1_u8))], target, vec![window])
}

/// Positions of the rows whose kind is 1.
fn select_by_hand(kinds: &[u8], rows: &mut Vec<u32>) {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx512bw") && std::is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has the instructions.
        return unsafe { select_avx512(kinds, rows) };
    }
    rows.clear();
    rows.extend(kinds.iter().enumerate().filter(|(_, kind)| **kind == 1).map(|(row, _)| row as u32));
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn select_avx512(kinds: &[u8], rows: &mut Vec<u32>) {
    use std::arch::x86_64::*;
    rows.clear();
    rows.reserve(kinds.len() + 16);
    let wanted = _mm512_set1_epi8(1);
    let mut count = 0;
    let mut numbers = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let sixteen = _mm512_set1_epi32(16);
    for chunk in kinds.as_chunks::<64>().0 {
        // SAFETY: the chunk has 64 bytes.
        let bytes = unsafe { _mm512_loadu_si512(chunk.as_ptr().cast()) };
        let mask = _mm512_cmpeq_epi8_mask(bytes, wanted);
        for part in 0..4 {
            let mask = (mask >> (16 * part)) as u16;
            let packed = _mm512_maskz_compress_epi32(mask, numbers);
            // SAFETY: there is room for 16 more numbers than rows.
            unsafe { _mm512_storeu_si512(rows.as_mut_ptr().add(count).cast(), packed) };
            count += mask.count_ones() as usize;
            numbers = _mm512_add_epi32(numbers, sixteen);
        }
    }
    // SAFETY: `count` numbers were written.
    unsafe { rows.set_len(count) };
}

#[test]
#[ignore = "measures"]
fn ysb() {
    let program = ysb_program();
    let start = Instant::now();
    let compiled = compile(&program, 0, &[]).unwrap();
    println!("compiled in {:?}\n{}", start.elapsed(), compiled.description.text);
    let blocks = blocks();
    let mut table = Table::new(entry_layout(program.groups(0)));
    let (lookups, mut scratch) = (Lookups::default(), Scratch::default());
    let mut entries = vec![[0_u64; 2]; KEYS as usize];
    let mut rows = Vec::new();
    let kernel = || {
        for block in &blocks {
            compiled.kernel.aggregate(KernelInput::all(block), &lookups, &mut table, &mut scratch).unwrap();
        }
    };
    let hand = || {
        for block in &blocks {
            let columns = block.raw_columns();
            let keys = columns[1].as_primitive::<Int64Type>().values();
            let prices = columns[2].as_primitive::<Int64Type>().values();
            select_by_hand(columns[0].as_primitive::<UInt8Type>().values(), &mut rows);
            for &row in &rows {
                let key = keys[row as usize] as usize;
                let entry = &mut entries[key];
                entry[0] += 1;
                entry[1] = entry[1].wrapping_add(prices[row as usize] as u64);
            }
        }
    };
    compare("ysb", kernel, hand);
    let counted: u64 =
        table.accumulator_array(0, &table.entry_offsets()).as_primitive::<Int64Type>().values().iter().sum::<i64>()
            as u64;
    assert_eq!(counted, entries.iter().map(|entry| entry[0]).sum::<u64>());
}

fn emit_all(kernel: &Arc<dyn Kernel>, blocks: &[Block], scratch: &mut Scratch) {
    let lookups = Lookups::default();
    for block in blocks {
        let mut output = Vec::new();
        kernel.emit(&[KernelInput::all(block)], &lookups, &mut output, scratch).unwrap();
        black_box(output);
    }
}

#[test]
#[ignore = "measures"]
fn q1() {
    let rate = lit(ScalarValue::Decimal128(Some(908), 3, 3));
    let price = cast(column("price"), &schema(), DataType::Decimal128(20, 0)).unwrap();
    let product = operator(price, Operator::Multiply, rate);
    let data_type = product.data_type(&schema()).unwrap();
    let fields = vec![Field::new("key", DataType::Int64, false), Field::new("price", data_type, false)];
    let target = Target::Stream { columns: vec![column("key"), product], schema: Arc::new(Schema::new(fields)) };
    let program = program(Vec::new(), target, Vec::new());
    let start = Instant::now();
    let compiled = compile(&program, 0, &[]).unwrap();
    println!("compiled in {:?}\n{}", start.elapsed(), compiled.description.text);
    let blocks = blocks();
    let mut scratch = Scratch::default();
    let kernel = || emit_all(&compiled.kernel, &blocks, &mut scratch);
    let hand = || {
        for block in &blocks {
            let columns = block.raw_columns();
            let prices = columns[2].as_primitive::<Int64Type>().values();
            let mut products: Vec<i128> = Vec::with_capacity(prices.len());
            products.extend(prices.iter().map(|&price| i128::from(price) * 908));
            let products: Decimal128Array = products.into();
            let output: Vec<ArrayRef> = vec![columns[1].clone(), Arc::new(products)];
            black_box(output);
        }
    };
    compare("q1", kernel, hand);
    let mut output = Vec::new();
    compiled
        .kernel
        .emit(&[KernelInput::all(&blocks[0])], &Lookups::default(), &mut output, &mut Scratch::default())
        .unwrap();
    let price = blocks[0].raw_columns()[2].as_primitive::<Int64Type>().value(5);
    assert_eq!(output[0].column(1).as_primitive::<Decimal128Type>().value(5), i128::from(price) * 908);
}

#[test]
#[ignore = "measures"]
fn q2() {
    let rest = operator(column("key"), Operator::Modulo, lit(123_i64));
    let predicate = operator(rest, Operator::Eq, lit(0_i64));
    let fields = vec![Field::new("key", DataType::Int64, false), Field::new("price", DataType::Int64, false)];
    let target =
        Target::Stream { columns: vec![column("key"), column("price")], schema: Arc::new(Schema::new(fields)) };
    let program = program(vec![predicate], target, Vec::new());
    let start = Instant::now();
    let compiled = compile(&program, 0, &[]).unwrap();
    println!("compiled in {:?}\n{}", start.elapsed(), compiled.description.text);
    let blocks = blocks();
    let mut scratch = Scratch::default();
    let kernel = || emit_all(&compiled.kernel, &blocks, &mut scratch);
    let mut rows: Vec<u32> = vec![0; ROWS];
    let hand = || {
        for block in &blocks {
            let columns = block.raw_columns();
            let keys = columns[1].as_primitive::<Int64Type>().values();
            let prices = columns[2].as_primitive::<Int64Type>().values();
            let mut count = 0;
            for (row, key) in keys.iter().enumerate() {
                rows[count] = row as u32;
                count += usize::from(key % 123 == 0);
            }
            let gather = |values: &[i64]| -> Int64Array {
                rows[..count].iter().map(|&row| values[row as usize]).collect::<Vec<_>>().into()
            };
            let output: Vec<ArrayRef> = vec![Arc::new(gather(keys)), Arc::new(gather(prices))];
            assert!(output[0].len() <= ROWS);
            black_box(output);
        }
    };
    compare("q2", kernel, hand);
}
