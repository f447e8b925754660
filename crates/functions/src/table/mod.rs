//! Built-in table functions: `UNNEST` and `GENERATE_SERIES`.

mod series;

mod unnest;

use std::sync::{Arc, LazyLock};

use pelton_data::table_function::{TableFunction, TableFunctionHandle};

/// The name of `UNNEST`.
pub const UNNEST: &str = "UNNEST";

static UNNEST_PLAIN: LazyLock<Arc<dyn TableFunction>> = LazyLock::new(|| Arc::new(unnest::Unnest::new(false)));
static UNNEST_NUMBERED: LazyLock<Arc<dyn TableFunction>> = LazyLock::new(|| Arc::new(unnest::Unnest::new(true)));
static GENERATE_SERIES: LazyLock<Arc<dyn TableFunction>> = LazyLock::new(|| Arc::new(series::GenerateSeries));

/// The table functions that are called by name alone.
pub fn table_functions() -> impl Iterator<Item = TableFunctionHandle> {
    [&GENERATE_SERIES].into_iter().map(|function| TableFunctionHandle(Arc::clone(function)))
}

/// `UNNEST(collection)`, or `UNNEST(collection) WITH ORDINALITY`, which numbers the elements.
pub fn unnest(with_ordinality: bool) -> TableFunctionHandle {
    TableFunctionHandle(Arc::clone(if with_ordinality { &UNNEST_NUMBERED } else { &UNNEST_PLAIN }))
}
