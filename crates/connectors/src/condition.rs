//! What keeps tables from being read or written just now, while it is tried again.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The conditions of a query's tables. Clones are the same ones.
#[derive(Debug, Clone, Default)]
pub struct Conditions(Arc<Mutex<BTreeMap<String, String>>>);

impl Conditions {
    /// What is wrong, table by table, for people; `None` where nothing is.
    pub fn shown(&self) -> Option<String> {
        let problems = self.problems();
        let shown: Vec<String> =
            problems.iter().map(|(table, problem)| format!("table '{table}': {problem}; it is tried again")).collect();
        (!shown.is_empty()).then(|| shown.join("\n"))
    }

    /// That of a table.
    pub(crate) fn of(&self, table: &str) -> Condition {
        Condition { all: self.clone(), table: table.into(), is_bad: Arc::default() }
    }

    fn problems(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The condition of one table.
#[derive(Debug, Clone)]
pub(crate) struct Condition {
    all: Conditions,
    table: Arc<str>,
    /// Whether there is a problem: looked at where nothing mostly is.
    is_bad: Arc<AtomicBool>,
}

impl Condition {
    /// Something has gone wrong, and is tried again.
    pub(crate) fn set(&self, problem: &str) {
        self.all.problems().insert(self.table.to_string(), problem.to_owned());
        self.is_bad.store(true, Ordering::SeqCst);
    }

    /// All is well, or given up.
    pub(crate) fn clear(&self) {
        if self.is_bad.load(Ordering::Relaxed) && self.is_bad.swap(false, Ordering::SeqCst) {
            self.all.problems().remove(&*self.table);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_shown_until_it_is_not() {
        let conditions = Conditions::default();
        let (a, b) = (conditions.of("a"), conditions.of("b"));
        assert_eq!(conditions.shown(), None);
        b.set("gone");
        a.set("away");
        let both = "table 'a': away; it is tried again\ntable 'b': gone; it is tried again";
        assert_eq!(conditions.shown().as_deref(), Some(both));
        b.clear();
        a.clear();
        assert_eq!(conditions.shown(), None);
    }
}
