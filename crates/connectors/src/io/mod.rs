//! How network clients meet the workers: one asynchronous runtime, a bounded [`inbox`] for what comes, and a bounded [`outbox`] for what goes.
//!
//! No worker waits for a network: it takes what is in the inbox, and puts what has room in the outbox. Whoever is full holds the other side back.
//! Files in S3 are the exception: whoever reads or writes one waits as for a disk, where reading ahead and sending in the background do not do.

pub(crate) mod inbox;

pub(crate) mod outbox;

use std::sync::OnceLock;

use tokio::runtime::{Builder, Runtime};

/// Threads of the runtime: they move bytes, which takes little.
const THREADS: usize = 1;

/// The runtime of all network clients of the process. It is started when it is needed first, and lives as long as the process.
///
/// # Panics
/// Where the system gives it no thread.
pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(THREADS).thread_name("pelton-io").enable_all();
        builder.build().expect("the system gives the runtime a thread")
    })
}
