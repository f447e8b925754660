//! Room for what calls itself as deep as a text is nested.

use std::panic::resume_unwind;
use std::thread::{Builder, scope};

/// Does `work` in a thread whose stack has so many bytes: a caller's may have as little as 2 MiB.
pub(crate) fn with_stack<T: Send>(name: &str, bytes: usize, work: impl FnOnce() -> T + Send) -> T {
    scope(|scope| {
        let thread = Builder::new().name(name.to_string()).stack_size(bytes);
        let thread = thread.spawn_scoped(scope, work).expect("a thread can be started");
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}
