//! Entries by looked-up row: known from when they are kept to when they move.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::DataType;
use pelton_data::aggregate::{Accumulator, KeyColumn};
use pelton_state::join::Bucket;
use pelton_state::layout::EntryLayout;
use pelton_state::table::{IntegerMode, LookupKeys, Numbering, Table};

/// Rows by `id`, of which 3 is missing; their `group` lies far apart.
fn bucket() -> Arc<Bucket> {
    let columns: [(&str, ArrayRef); 2] =
        [("id", Arc::new(Int64Array::from(vec![1, 2, 4]))), ("group", Arc::new(Int64Array::from(vec![7, 1 << 40, 7])))];
    Arc::new(Bucket::new(RecordBatch::try_from_iter(columns).unwrap(), &[0]))
}

fn lookup_keys(bucket: &Arc<Bucket>, numbering: Numbering, keep_unmatched: bool) -> LookupKeys<'_> {
    LookupKeys { bucket, columns: &[1], numbering, keep_unmatched }
}

fn table() -> Table {
    let key = KeyColumn { data_type: DataType::Int64, nullable: false };
    let rows = Accumulator::counting_rows();
    Table::new(EntryLayout::new(&[key], &[rows]))
}

fn find(table: &mut Table, keys: &[i64]) -> Vec<u32> {
    let mut entries = Vec::new();
    table.prepare_integers(*keys.iter().min().unwrap(), *keys.iter().max().unwrap(), keys.len());
    table.find_or_insert_integers(keys, &mut entries, &mut Vec::new());
    entries
}

fn discard(table: &mut Table, keys: &LookupKeys<'_>, number: u32) {
    let mut numbers = vec![number];
    table.discard_unknown(keys, &mut numbers);
    assert_eq!(numbers, [number]);
}

fn known(table: &mut Table, keys: &LookupKeys<'_>) -> Vec<bool> {
    table.lookup_entries(keys).iter().map(|&address| address != 0).collect()
}

#[test]
fn there_is_an_address_for_each_number_and_one_for_rows_that_found_none() {
    let (bucket, mut table) = (bucket(), table());
    let by_row = lookup_keys(&bucket, Numbering::Row, false);
    let by_place = lookup_keys(&bucket, Numbering::Place, false);
    assert_eq!((by_row.length(), by_place.length()), (3, 4));
    let entries = find(&mut table, &[7, 1 << 40]);
    table.keep_lookup_entries(&by_row, &[0, 2, 1], &[entries[0], entries[0], entries[1]]);
    table.keep_lookup_entries(&by_place, &[1], &[entries[1]]);
    discard(&mut table, &by_place, 4);
    assert_eq!(known(&mut table, &by_row), [true, true, true, false]);
    assert_eq!(known(&mut table, &by_place), [false, true, false, false, true]);
    let addresses = table.lookup_entries(&by_row).to_vec();
    assert_eq!((addresses[0], addresses[0] != addresses[1]), (addresses[2], true));
    assert_eq!(table.lookup_entries(&by_place)[1], addresses[1]);
    let base = table.base() as usize;
    assert_eq!(addresses[0], base + entries[0] as usize * 8);
    // What is discarded is no group.
    assert_eq!(table.groups(), 2);
}

#[test]
fn each_number_that_is_not_known_is_to_be_found_once() {
    let (bucket, mut table) = (bucket(), table());
    let keys = lookup_keys(&bucket, Numbering::Row, false);
    let entries = find(&mut table, &[7]);
    table.keep_lookup_entries(&keys, &[1], &entries);
    let mut numbers = vec![2, 1, 0, 2, 1, 0, 2];
    table.discard_unknown(&keys, &mut numbers);
    assert_eq!(numbers, [2, 0]);
    assert_eq!(known(&mut table, &keys), [true, true, true, false]);
    // Until entries are kept for them, they are none of the table's.
    let addresses = table.lookup_entries(&keys).to_vec();
    assert_eq!((addresses[0], addresses[0] != addresses[1]), (addresses[2], true));
    table.keep_lookup_entries(&keys, &[2, 0], &[entries[0], entries[0]]);
    assert_eq!(table.lookup_entries(&keys)[..3], [addresses[1]; 3]);
}

#[test]
fn inner_and_left_joins_with_one_table_are_kept_apart() {
    let (bucket, mut table) = (bucket(), table());
    let (inner, left) = (lookup_keys(&bucket, Numbering::Row, false), lookup_keys(&bucket, Numbering::Row, true));
    discard(&mut table, &inner, 3);
    assert_eq!(known(&mut table, &left), [false; 4]);
    let null = table.null_entry();
    table.keep_lookup_entries(&left, &[3], &[null]);
    let discarded = table.lookup_entries(&inner)[3];
    assert_ne!(discarded, table.lookup_entries(&left)[3]);
}

#[test]
fn nothing_is_known_of_entries_that_have_moved() {
    let (bucket, mut table) = (bucket(), table());
    let keys = lookup_keys(&bucket, Numbering::Row, false);
    let keep = |table: &mut Table| {
        let entries = find(table, &[7]);
        table.keep_lookup_entries(&keys, &[0, 2], &[entries[0], entries[0]]);
        assert_eq!(known(table, &keys), [true, false, true, false]);
    };
    keep(&mut table);
    // More keys in the same place change nothing; a wider dense table, hashing and a larger table of hashes do.
    for more in [vec![5_000], vec![1 << 50], (0..1000).map(|key| key << 30).collect()] {
        find(&mut table, &more);
        assert_eq!(known(&mut table, &keys), [false; 4], "after {} more keys", more.len());
        keep(&mut table);
    }
    assert_eq!(table.integer_mode(), Some(IntegerMode::Hash));
    find(&mut table, &[1 << 50]);
    assert_eq!(known(&mut table, &keys), [true, false, true, false]);
    table.clear();
    assert_eq!(known(&mut table, &keys), [false; 4]);
}

#[test]
fn a_short_slice_does_not_pay_for_a_long_table() {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
    let bucket = Arc::new(Bucket::new(RecordBatch::try_from_iter([("id", ids)]).unwrap(), &[0]));
    let keys = LookupKeys { bucket: &bucket, columns: &[0], numbering: Numbering::Place, keep_unmatched: false };
    let mut table = table();
    assert_eq!([100, 100, 100, 1].map(|rows| table.keeps_lookup_entries(&keys, rows)), [false, false, true, true]);
    table.clear();
    assert!(!table.keeps_lookup_entries(&keys, 100));
}

#[test]
fn the_rows_of_a_table_that_is_loaded_again_are_freed() {
    let (first, mut table) = (bucket(), table());
    let loaded = Arc::downgrade(&first);
    let entries = find(&mut table, &[7]);
    table.keep_lookup_entries(&lookup_keys(&first, Numbering::Row, false), &[0], &entries);
    let bytes = table.bytes();
    drop(first);
    assert_eq!(loaded.strong_count(), 0, "the group table does not keep them");
    // Nor does it keep addresses for each load.
    for _ in 0..3 {
        let next = bucket();
        let keys = lookup_keys(&next, Numbering::Row, false);
        assert_eq!(known(&mut table, &keys), [false; 4], "nothing is known of another load");
        table.keep_lookup_entries(&keys, &[0], &entries);
        assert_eq!(table.bytes(), bytes);
    }
}
