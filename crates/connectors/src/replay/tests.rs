use std::sync::Arc;

use arrow::array::{Array, AsArray, StringViewArray, TimestampMillisecondArray, UInt8Array};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit, TimestampMillisecondType, UInt8Type};

use super::*;
use crate::testing::{batches, refusal, rows, table, timed, wanting};
use crate::{is_bounded, open_source};

const BASE_MS: i64 = 1_436_918_400_000;

fn request(options: &[(&str, &str)], block_rows: usize) -> TableRequest {
    let options = [&[("connector", "nexmark"), ("rows", "1000"), ("replay", "memory")], options].concat();
    timed(wanting(table(&options, block_rows), &["auction", "dateTime", "extra"]), "dateTime")
}

fn blocks(source: &mut dyn Source) -> Vec<Block> {
    let mut blocks = Vec::new();
    while let Read::Chunk(chunk) = source.read(0).unwrap() {
        match chunk().unwrap().rows {
            Rows::Blocks(kept) => blocks.extend(kept),
            Rows::Batches(_) => panic!("a replay hands out blocks"),
        }
    }
    blocks
}

#[test]
fn passes_are_the_input_again_later_in_time_without_a_copy() {
    let request = request(&[("replay.passes", "3")], 64);
    let mut once = request.clone();
    once.options.retain(|name, _| !name.starts_with("replay"));
    let input = rows(&once);
    let mut source = open_source(&request).unwrap();
    let blocks = blocks(source.as_mut());
    // 1,000 rows are 15 blocks of 64 and one of 40.
    let sizes: Vec<usize> = blocks.iter().map(Block::rows).collect();
    assert_eq!(sizes, [[64; 15].as_slice(), &[40]].concat().repeat(3));
    // Bid 999 is event 21 * 50 + 4 + 33 and happens 108 ms after the first, so a pass spans 108 ms and begins a tick later.
    let delivered = input.schema();
    for (pass, blocks) in blocks.chunks(16).enumerate() {
        let batches: Vec<RecordBatch> = blocks.iter().map(Block::to_record_batch).collect();
        let batch = arrow::compute::concat_batches(&delivered, &batches).unwrap();
        assert_eq!((batch.column(0), batch.column(2)), (input.column(0), input.column(2)));
        let times = |batch: &RecordBatch| batch.column(1).as_primitive::<TimestampMillisecondType>().values().to_vec();
        let later: Vec<i64> = times(&input).iter().map(|time| time + pass as i64 * 109).collect();
        assert_eq!(times(&batch), later);
        let range = blocks[15].time_range().unwrap();
        assert_eq!(range.max, (BASE_MS + 108 + pass as i64 * 109) * 1_000);
    }
    assert!(Arc::ptr_eq(&blocks[0].raw_columns()[0], &blocks[32].raw_columns()[0]));
}

#[test]
fn the_shift_can_be_longer_but_not_shorter_than_a_pass() {
    let mut source = open_source(&request(&[("replay.passes", "2"), ("replay.shift", "10 s")], 1_000)).unwrap();
    let starts: Vec<i64> = blocks(source.as_mut()).iter().map(|block| block.time_range().unwrap().min).collect();
    assert_eq!(starts, [BASE_MS * 1_000, BASE_MS * 1_000 + 10_000_000]);
    assert_eq!(
        refusal(&request(&[("replay.shift", "108 ms")], 64)),
        "option 'replay.shift' must be at least what a pass spans, 109000 µs, and whole ticks of 1000 µs"
    );
}

#[test]
fn a_duration_ends_a_replay_and_a_rate_holds_it_back() {
    let options = [("replay.duration", "40 ms"), ("rows-per-second", "100000"), ("pace", "real-time")];
    let request = request(&options, 64);
    assert!(is_bounded(&request.options).unwrap());
    let started = Instant::now();
    let mut source = open_source(&request).unwrap();
    let (mut rows, mut waited) = (0, false);
    loop {
        match source.read(0).unwrap() {
            Read::Chunk(chunk) => match chunk().unwrap().rows {
                Rows::Blocks(blocks) => rows += blocks.iter().map(Block::rows).sum::<usize>(),
                Rows::Batches(_) => panic!("a replay hands out blocks"),
            },
            Read::Wait(wait) => {
                waited = true;
                std::thread::sleep(wait);
            }
            Read::End => break,
        }
    }
    assert!(waited && started.elapsed() >= Duration::from_millis(40));
    // One row at once, and a hundred a millisecond while the replay lasts.
    assert!(rows as u128 <= 1 + started.elapsed().as_millis() * 100, "{rows}");
}

#[test]
fn a_replay_says_with_its_rows_when_more_will_be_there() {
    let first = |options: &[(&str, &str)]| {
        let mut ready = Ready::default();
        let read = open_source(&request(options, 64)).unwrap().read_ready(0, &mut ready).unwrap();
        let in_chunk = match read {
            Some(Read::Chunk(chunk)) => chunk().unwrap().rows.into_batches().iter().map(RecordBatch::num_rows).sum(),
            Some(_) => panic!("the first row is there at once"),
            None => 0,
        };
        (in_chunk + ready.blocks.iter().map(Block::rows).sum::<usize>(), ready.wait)
    };
    let (rows, wait) = first(&[("rows-per-second", "1"), ("pace", "real-time")]);
    assert_eq!(rows, 1);
    assert!(wait.is_some_and(|wait| wait > Duration::ZERO), "{wait:?}");
    let (rows, wait) = first(&[("replay.passes", "1")]);
    assert!(rows > 1 && wait.is_none(), "nobody knows that nothing more is there: {rows} rows, {wait:?}");
}

#[test]
fn so_many_blocks_are_handed_out_at_once() {
    let chunks = |blocks: &str| {
        let options = [("replay.chunk-blocks", blocks), ("replay.passes", "1")];
        let mut source = open_source(&request(&options, 8)).unwrap();
        let mut next = || {
            let mut ready = Ready::default();
            let read = source.read_ready(0, &mut ready).unwrap();
            assert!(matches!(read, None | Some(Read::End)));
            ready.blocks.len()
        };
        std::iter::from_fn(|| Some(next()).filter(|&blocks| blocks > 0)).collect::<Vec<_>>()
    };
    let all = chunks("1000000");
    assert_eq!(all.len(), 1, "{all:?}");
    let threes = chunks("3");
    assert_eq!(threes.iter().sum::<usize>(), all[0]);
    assert!(threes.len() > 1 && threes[..threes.len() - 1].iter().all(|&blocks| blocks == 3), "{threes:?}");
    assert_eq!(
        refusal(&request(&[("replay.chunk-blocks", "0")], 64)),
        "option 'replay.chunk-blocks' must be a whole number of at least 1, not '0'"
    );
}

#[test]
fn a_replay_must_be_able_to_begin_and_to_go_on() {
    let mut endless = request(&[], 64);
    assert!(!is_bounded(&endless.options).unwrap());
    endless.options.remove("rows");
    assert_eq!(
        refusal(&endless),
        "option 'replay' needs an input that ends: set 'rows', or 'number-of-rows' of datagen"
    );
    assert!(refusal(&request(&[("replay.memory-max", "1 kb")], 64)).contains("'replay.memory-max'"));
    assert!(refusal(&request(&[("replay.pass", "1")], 64)).ends_with("; did you mean 'replay.passes'?"));
    let mut without = request(&[("replay.passes", "1")], 64);
    without.options.remove("replay");
    assert_eq!(refusal(&without), "option 'replay.passes' needs 'replay' = 'memory'");
}

#[test]
fn dictionaries_are_shared_by_all_blocks_and_rows_without_columns_are_counted() {
    let options = [("connector", "ysb"), ("rows", "300"), ("replay", "memory"), ("replay.passes", "2")];
    let events = batches(open_source(&wanting(table(&options, 64), &["event_type"])).unwrap());
    let words =
        |batch: &RecordBatch| batch.column(0).as_dictionary::<UInt8Type>().values().to_data().buffers()[0].as_ptr();
    assert_eq!(events.len(), 10);
    assert!(events.iter().all(|batch| words(batch) == words(&events[0])));
    let counted: usize =
        batches(open_source(&wanting(table(&options, 64), &[])).unwrap()).iter().map(|b| b.num_rows()).sum();
    assert_eq!(counted, 600);
}

fn batch(times: &[i64], codes: &[u8]) -> RecordBatch {
    let words = Arc::new(StringViewArray::from(vec!["a", "b"]));
    let coded = arrow::array::DictionaryArray::new(UInt8Array::from(codes.to_vec()), words);
    let schema = Schema::new(vec![
        Field::new("ts", DataType::Timestamp(TimeUnit::Millisecond, None), false),
        Field::new("word", coded.data_type().clone(), false),
    ]);
    let times = TimestampMillisecondArray::from(times.to_vec());
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(times), Arc::new(coded)]).unwrap()
}

#[test]
fn partitions_are_merged_by_time_and_keep_their_order() {
    let first = vec![batch(&[1, 5, 4], &[0, 0, 0]), batch(&[], &[]), batch(&[9], &[0])];
    let second = vec![batch(&[2, 3, 10], &[1, 1, 1])];
    let time = TimeColumn::new(0, first[0].column(0).data_type()).unwrap();
    let merged = merged(&[first.clone(), vec![], second], time, 3).unwrap();
    let times: Vec<Vec<i64>> =
        merged.iter().map(|b| b.column(0).as_primitive::<TimestampMillisecondType>().values().to_vec()).collect();
    assert_eq!(times, [vec![1, 2, 3], vec![5, 4, 9], vec![10]]);
    let cut = recut(first, 2).unwrap();
    assert_eq!(cut.iter().map(|b| b.num_rows()).collect::<Vec<_>>(), [2, 2]);
}

#[test]
fn rows_that_are_not_read_in_time_are_dropped_and_counted() {
    let options = [("connector", "nexmark"), ("rows", "1000")];
    let lossy = [("rows-per-second", "100000"), ("on-overload", "drop"), ("on-overload.delay", "1 ms")];
    let replayed = [("replay", "memory"), ("replay.passes", "100"), ("pace", "real-time")];
    let (generated, times) = ([("pace", "real-time"), ("rows", "100000")], [("connector", "nexmark")]);
    for options in [[&options[..], &lossy, &replayed].concat(), [&times[..], &lossy, &generated].concat()] {
        let mut source = open_source(&timed(table(&options, 64), "dateTime")).unwrap();
        let (mut rows, mut dropped, mut before) = (0, 0, 0);
        loop {
            match source.read(0).unwrap() {
                Read::Chunk(chunk) => {
                    let decoded = chunk().unwrap();
                    rows += match decoded.rows {
                        Rows::Blocks(blocks) => blocks.iter().map(Block::rows).sum::<usize>(),
                        Rows::Batches(batches) => batches.iter().map(RecordBatch::num_rows).sum(),
                    };
                    before = dropped;
                    dropped += decoded.left_out.dropped_count;
                }
                Read::Wait(_) => std::thread::sleep(Duration::from_millis(50)),
                Read::End => break,
            }
        }
        assert_eq!(rows as u64 + dropped, 100_000);
        // A hundred rows are due each millisecond, and none was read for fifty.
        assert!(before > 0 && dropped >= 1_000, "{dropped}");
    }
    let refused = [("replay", "memory"), ("rows-per-second", "100000"), ("pace", "flat-out"), ("on-overload", "drop")];
    assert_eq!(
        refusal(&table(&[&options[..], &refused].concat(), 64)),
        "option 'on-overload' is 'drop', which needs rows that come at a rate: 'pace' = 'real-time', or 'rows-per-second' of a replay"
    );
}
