//! The Yahoo benchmark by windows that count the events of each campaign (Grizzly, section 4.2 and figure 10).

use std::ops::Range;

use pelton_data::Block;

use super::select::{self, CHUNK_ROWS, Selection};
use super::ysb::SumColumns;
use super::{event_types, integers};

/// The window of a campaign that is open.
#[derive(Debug, Clone, Copy, Default)]
struct Open {
    rows: u64,
    sum: i64,
}

/// The campaign and the sum of each `window_rows` of its events that pass, as they are complete, and in the end of those that are not. Campaigns
/// lie in `campaigns`.
///
/// # Panics
/// Where a campaign of a passing event lies outside.
pub fn sums(
    blocks: &[Block],
    columns: SumColumns,
    campaigns: Range<i64>,
    window_rows: u64,
    mut take: impl FnMut(i64, i64),
) {
    let groups = usize::try_from(campaigns.end - campaigns.start).expect("a range of keys");
    let mut open = vec![Open::default(); groups];
    let mut selection: Selection = [0; CHUNK_ROWS + 16];
    for block in blocks {
        let (types, view) = event_types(block, columns.event_type);
        let (keys, values) = (integers(block, columns.campaign), integers(block, columns.value));
        let chunks = types.chunks(CHUNK_ROWS).zip(keys.chunks(CHUNK_ROWS)).zip(values.chunks(CHUNK_ROWS));
        for ((types, keys), values) in chunks {
            let count = select::equal(types, view, &mut selection);
            for &row in &selection[..count] {
                let (key, value) = (keys[row as usize], values[row as usize]);
                let group = &mut open[(key - campaigns.start) as usize];
                group.sum = group.sum.wrapping_add(value);
                group.rows += 1;
                if group.rows == window_rows {
                    take(key, group.sum);
                    *group = Open::default();
                }
            }
        }
    }
    let rest = campaigns.zip(open).filter(|(_, group)| group.rows > 0);
    rest.for_each(|(key, group)| take(key, group.sum));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int8Array, Int64Array, RecordBatch};

    use super::*;

    #[test]
    fn each_campaign_counts_its_own_events() {
        // The number of `view` is 0.
        let types: Int8Array = vec![0, 1, 0, 0, 0, 0].into();
        let integers = |values: &[i64]| -> ArrayRef { Arc::new(Int64Array::from(values.to_vec())) };
        let columns = [
            ("event_type", Arc::new(types) as ArrayRef),
            ("campaign_id", integers(&[3, 3, 4, 3, 3, 4])),
            ("value", integers(&[1, 2, 4, 8, 16, 32])),
        ];
        let block = Block::new(RecordBatch::try_from_iter(columns).unwrap(), None).unwrap();
        let mut found = Vec::new();
        let columns = SumColumns { event_type: 0, campaign: 1, value: 2 };
        sums(&[block], columns, 3..5, 2, |key, sum| found.push((key, sum)));
        assert_eq!(found, [(3, 9), (4, 36), (3, 16)]);
    }
}
