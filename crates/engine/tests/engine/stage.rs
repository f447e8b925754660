//! A session whose time passes only where rows are looked at by the function `slowly`, and where a test turns the hands.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pelton::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use pelton::arrow::datatypes::DataType;
use pelton::{PushSource, Session};
use pelton_runtime::clock::{Clock, Hands};
use pelton_runtime::pool::{ManualWorkers, Pool};

pub struct Stage {
    pub session: Session,
    /// One worker.
    pub workers: ManualWorkers,
    pub hands: Arc<Hands>,
}

impl Stage {
    /// `cost_ns` says how long so many rows take.
    pub fn new(cost_ns: fn(u64) -> u64) -> Stage {
        let hands = Arc::new(Hands::default());
        let (pool, workers) = Pool::manual(1, Clock::Manual(hands.clone()));
        let session = Session::with_pool(pool);
        let turned = hands.clone();
        let slowly = move |values: &[ArrayRef]| {
            turned.advance(Duration::from_nanos(cost_ns(values[0].len() as u64)));
            Ok(values[0].clone())
        };
        session.register_function("slowly", vec![DataType::Int64], DataType::Int64, slowly);
        Stage { session, workers, hands }
    }
}

/// Rows of a table with one column of numbers.
pub fn rows(source: &PushSource, values: Range<i64>) -> RecordBatch {
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
    RecordBatch::try_new(source.schema().clone(), vec![values]).unwrap()
}
