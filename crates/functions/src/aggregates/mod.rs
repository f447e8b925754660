//! Aggregate functions that keep a state of their own for each group, where accumulators of the compiled kernels do not compute them.
//!
//! Each is a [`pelton_data::udaf::Definition`]: windows, sessions and frames OVER rows add, combine, subtract and finish its states alike.

mod bits;

mod ordered;

mod pairs;

pub use ordered::{Listing, Ordered};

use std::sync::LazyLock;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray};
use arrow::datatypes::DataType;
use pelton_data::udaf::{UdafHandle, function};

use bits::{BitOperation, Bits};
use pairs::{PAIR_FUNCTIONS, PairFunction};

/// The function of this name, in lower case, for arguments of these types. It is the same for each call, so that equal calls are computed once.
pub fn aggregate_function(name: &str, arguments: &[DataType]) -> Option<UdafHandle> {
    static PAIRS: LazyLock<Vec<UdafHandle>> =
        LazyLock::new(|| PAIR_FUNCTIONS.iter().map(|&pair| UdafHandle(function(pair))).collect());
    static BITS: LazyLock<Vec<(DataType, UdafHandle)>> = LazyLock::new(|| {
        let types = [DataType::Int8, DataType::Int16, DataType::Int32, DataType::Int64];
        let of_type = |data_type: DataType| {
            let definitions = BitOperation::ALL.map(|operation| Bits { operation, data_type: data_type.clone() });
            definitions.map(|definition| (data_type.clone(), UdafHandle(function(definition))))
        };
        types.into_iter().flat_map(of_type).collect()
    });
    let is_named = |function: &&UdafHandle| function.0.name() == name;
    match arguments {
        [one] => BITS.iter().filter(|(data_type, _)| data_type == one).map(|(_, function)| function).find(is_named),
        [DataType::Float64, DataType::Float64] => PAIRS.iter().find(is_named),
        _ => None,
    }
    .cloned()
}

/// What [`PairFunction`] is called, which of all aggregate functions take two numbers.
pub fn pair_function_names() -> impl Iterator<Item = &'static str> {
    PAIR_FUNCTIONS.iter().map(PairFunction::name)
}

/// States of so many 64-bit words, one binary value for each.
fn saved_words<const WORDS: usize>(states: impl Iterator<Item = [u64; WORDS]>) -> ArrayRef {
    let states = states.map(|words| words.map(u64::to_le_bytes).concat());
    std::sync::Arc::new(BinaryArray::from_iter_values(states))
}

/// The words that [`saved_words`] wrote.
fn restored_words<const WORDS: usize>(saved: &ArrayRef) -> Result<Vec<[u64; WORDS]>, String> {
    let saved = saved.as_binary_opt::<i32>().filter(|saved| saved.null_count() == 0).ok_or("no states")?;
    let words = |state: Option<&[u8]>| {
        let (words, rest) = state.unwrap_or_default().as_chunks::<8>();
        let words: Vec<u64> = words.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        let words = <[u64; WORDS]>::try_from(words).ok().filter(|_| rest.is_empty());
        words.ok_or_else(|| format!("a state is not of {WORDS} words"))
    };
    saved.iter().map(words).collect()
}
