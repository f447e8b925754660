//! Every setting: its key, whether it is of a session or of the engine, what it takes, what holds without it, and what it does.
//!
//! Checks of `SET`, the rows of `SET` without a key and `docs/settings.md` are made from this list. Those for tests can be set, and are listed nowhere. The list needs
//! nothing else, so that the program that writes the document can include it.

/// One setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettingEntry {
    /// Its key.
    pub key: &'static str,
    /// What its values are, as an error says it.
    pub takes: &'static str,
    /// What holds unless it is set.
    pub default: &'static str,
    /// What it does, in a sentence.
    pub text: &'static str,
    /// Who sets it.
    pub audience: Audience,
    /// What it is a setting of.
    pub scope: Scope,
}

/// What a setting is a setting of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The session that sets it: it concerns the statements of that session.
    Session,
    /// The engine: it concerns all sessions and queries, those that run too.
    Engine,
}

/// Who sets a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// Users.
    Users,
    /// The project's own tests and benchmarks.
    Tests,
    /// The same, in programs that are built with the feature `queues`.
    TestsWithQueues,
}

const fn setting(key: &'static str, takes: &'static str, default: &'static str, text: &'static str) -> SettingEntry {
    SettingEntry { key, takes, default, text, audience: Audience::Users, scope: Scope::Session }
}

const fn of_engine(key: &'static str, takes: &'static str, default: &'static str, text: &'static str) -> SettingEntry {
    SettingEntry { scope: Scope::Engine, ..setting(key, takes, default, text) }
}

const fn for_tests(key: &'static str, takes: &'static str, default: &'static str, text: &'static str) -> SettingEntry {
    SettingEntry { audience: Audience::Tests, ..setting(key, takes, default, text) }
}

const A_PERMISSION: &str = "'auto', 'pin' or 'forbid'";
const A_DURATION: &str = "a duration such as '500 ms', '10 s', '1 min', '2 h' or '1 d'";
const A_MEMORY_SIZE: &str = "a memory size such as '512 kb', '64 mb' or '1 gb'";

/// All settings, in the order in which they are shown.
pub const SETTINGS: &[SettingEntry] = &[
    setting(
        "pelton.tier",
        "'auto', 'interpret' or 'compile'",
        "auto",
        "The code that runs a query: interpreted at once and compiled a moment later, interpreted only, or compiled from the first row on.",
    ),
    setting("pelton.adapt", "'on' or 'off'", "on", "Code changes to suit the data when that pays, or never."),
    for_tests(
        "pelton.adapt.predicate-order",
        A_PERMISSION,
        "auto",
        "Predicates are tested in another order than they were written in.",
    ),
    for_tests(
        "pelton.adapt.tier",
        A_PERMISSION,
        "auto",
        "Interpreted code takes the place of compiled code where it takes less time.",
    ),
    for_tests(
        "pelton.adapt.dense-keys",
        A_PERMISSION,
        "auto",
        "Integer keys that lie close together have entries side by side.",
    ),
    for_tests(
        "pelton.adapt.fetch-ahead",
        A_PERMISSION,
        "auto",
        "Compiled code prefetches columns some rows before it reads them.",
    ),
    for_tests(
        "pelton.adapt.no-nulls",
        A_PERMISSION,
        "auto",
        "Compiled code does not check for NULL in blocks that have none.",
    ),
    for_tests(
        "pelton.adapt.costs",
        "nanoseconds a row such as 'compiled 3, interpreted 2, reordered 1, fetch-ahead 1; from 400000: interpreted 9'",
        "measured",
        "What code costs, made up: for tests.",
    ),
    of_engine(
        "pelton.workers",
        "a number of threads from 1 to 1024",
        "as many as the process may use",
        "Threads that do the work of all queries.",
    ),
    of_engine(
        "pelton.spin",
        "a duration of at most '1 s', such as '50 us', or '0'",
        "20 us",
        "How long an idle worker looks for work before it sleeps.",
    ),
    of_engine("pelton.pin", "'on' or 'off'", "off", "Each worker stays on one core. Linux only."),
    of_engine(
        "pelton.policy",
        "'adaptive', 'downstream', 'fcfs', 'highest-rate', 'min-cost', 'min-latency', 'random', 'round-robin' or 'threads'",
        "adaptive",
        "The scheduling policy: which operator runs next.",
    ),
    of_engine(
        "pelton.epoch",
        "a duration from '10 us' to '1 s', such as '1 ms'",
        "5 ms",
        "How long the order of a policy holds, and a worker stays with a query.",
    ),
    SettingEntry {
        audience: Audience::TestsWithQueues,
        ..setting("pelton.data-passing", "'blocks' or 'queues'", "blocks", "What operators pass to each other.")
    },
    for_tests(
        "pelton.windows",
        "'slices', 'apart' or 'buckets'",
        "slices",
        "What windows are made of: slices that windows share, slices of each aggregation by itself, or each window by itself.",
    ),
    setting("pelton.block-rows", "a number of rows from 1 to 1048576", "16384", "Rows in a block."),
    of_engine(
        "pelton.memory",
        A_MEMORY_SIZE,
        "no limit",
        "Memory that the state of all queries, and rows that wait, may take.",
    ),
    setting(
        "pelton.memory.operator",
        A_MEMORY_SIZE,
        "no limit",
        "Memory that the state of each operator, and what waits for it, may take.",
    ),
    setting("pelton.seed", "a whole number", "0", "The number that generated data depends on."),
    setting(
        "pelton.strict-values",
        "'true' or 'false'",
        "false",
        "A value that does not fit its type, in a cast or in a file, stops the query.",
    ),
    setting(
        "pelton.sharing",
        "'on' or 'off'",
        "on",
        "Queries read a table without an end together: each sees the rows from when it is added. When off, each reads the table from its first row.",
    ),
    setting(
        "pelton.sharing.on-lag",
        "'wait' or 'fail'",
        "wait",
        "What happens when a query reads a table with others and does not keep up: the others wait for it, or it fails.",
    ),
    setting(
        "table.exec.source.idle-timeout",
        A_DURATION,
        "0: none is idle",
        "A partition that delivers nothing for so long does not hold back the watermark.",
    ),
    setting(
        "table.exec.emit.allow-lateness",
        A_DURATION,
        "0",
        "Rows that come up to so long after their windows have ended correct them.",
    ),
    setting(
        "table.exec.emit.early-fire.enabled",
        "'true' or 'false'",
        "false",
        "Windows are reported before they end.",
    ),
    setting(
        "table.exec.emit.early-fire.delay",
        A_DURATION,
        "0",
        "How long after rows have come for a window it is reported early.",
    ),
    setting(
        "table.dml-sync",
        "'true' or 'false'",
        "false",
        "Clients such as the SQL shell wait for the end of each INSERT, and do not go on while it runs as a job.",
    ),
    setting(
        "execution.checkpointing.interval",
        A_DURATION,
        "none is taken while a job runs",
        "Time between two checkpoints of a job. Needs 'execution.checkpointing.dir'.",
    ),
    setting(
        "execution.checkpointing.dir",
        "a directory, or 's3://bucket/path'",
        "none: jobs have no checkpoints",
        "Where the checkpoints of jobs are kept, each job in a directory of its own.",
    ),
    setting("execution.checkpointing.num-retained", "a number from 1", "3", "Checkpoints of a job that are kept."),
    setting(
        "execution.state-recovery.path",
        "'latest' or the number of a checkpoint",
        "none: jobs start with their first row",
        "The checkpoint that a job goes on from when it starts.",
    ),
    setting(
        "pipeline.name",
        "a name",
        "made of the tables that are inserted into",
        "The name of jobs that are started: INSERT INTO and statement sets.",
    ),
    setting(
        "table.local-time-zone",
        "the name of a time zone, such as 'UTC' or 'Europe/Berlin'",
        "UTC",
        "The time zone of the session.",
    ),
];
