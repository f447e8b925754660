//! What becomes of values that do not fit the type that a query casts them to, as the session has it.

use std::cell::Cell;

use crate::catalog::Catalog;

/// `SET 'pelton.strict-values' = 'true'`: a value that does not fit ends the query, where Flink would wrap, shorten or leave it out.
pub const STRICT_VALUES: &str = "pelton.strict-values";

thread_local! {
    /// Of what is planned on this thread: casts are simplified in many places that know nothing of the session.
    static IS_STRICT: Cell<bool> = const { Cell::new(false) };
}

/// Plans with the casts that the session has.
pub(crate) fn with_casts_of<T>(catalog: &Catalog, work: impl FnOnce() -> T) -> T {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            IS_STRICT.set(self.0);
        }
    }
    let is_strict = catalog.settings().any(|(key, value)| key == STRICT_VALUES && value == "true");
    let _before = Before(IS_STRICT.replace(is_strict));
    work()
}

/// Whether casts fail where a value does not fit.
pub(crate) fn is_strict() -> bool {
    IS_STRICT.get()
}
