//! Options of Flink that have no meaning here: scripts set them, and are told so.

use crate::setting_list::SETTINGS;

/// What options of one kind are about, and their keys. A key that ends with a dot stands for all that begin so.
const OPTIONS: &[(&str, &[&str])] = &[
    (
        "the setting 'pelton.workers' says how many threads run queries",
        &[
            "parallelism.default",
            "pipeline.max-parallelism",
            "table.exec.resource.default-parallelism",
            "taskmanager.numberOfTaskSlots",
        ],
    ),
    (
        "a query over bounded tables ends, and one over unbounded tables goes on",
        &["execution.runtime-mode", "execution.batch-shuffle-mode"],
    ),
    (
        "checkpoints are set by 'execution.checkpointing.interval', '….dir' and '….num-retained', and 'execution.state-recovery.path'",
        &["execution.checkpointing.", "execution.savepoint.", "execution.state-recovery."],
    ),
    ("a job that fails is started again by who runs it, from its last checkpoint", &["restart-strategy."]),
    (
        "state is kept in memory as long as windows need it; the setting 'pelton.memory' bounds it",
        &["state.", "table.exec.state.ttl", "table.exec.rank.topn-cache-size"],
    ),
    (
        "results are emitted as soon as they are complete",
        &["execution.buffer-timeout.", "table.exec.mini-batch.", "pipeline.auto-watermark-interval"],
    ),
    ("it is an option of Flink's client", &["sql-client."]),
    (
        "there is no cluster",
        &["execution.attached", "execution.target", "jobmanager.", "kubernetes.", "rest.", "taskmanager.", "yarn."],
    ),
    (
        "plans are optimised in one way",
        &[
            "pipeline.object-reuse",
            "pipeline.operator-chaining.",
            "table.exec.async-lookup.",
            "table.exec.disabled-operators",
            "table.exec.operator-fusion-codegen.",
            "table.exec.simplify-operator-name-enabled",
            "table.exec.sink.keyed-shuffle",
            "table.exec.sort.",
            "table.exec.spill-compression.",
            "table.exec.window-agg.buffer-size-limit",
            "table.generated-code.max-length",
            "table.optimizer.",
        ],
    ),
    (
        "it changes nothing",
        &[
            "execution.checkpointing",
            "pipeline.classpaths",
            "pipeline.generic-types",
            "pipeline.jars",
            "pipeline.watermark-alignment.",
            "restart-strategy",
            "table.column-expansion-strategy",
            "table.dynamic-table-options.enabled",
            "table.exec.deduplicate.",
            "table.exec.legacy-cast-behaviour",
            "table.exec.sink.not-null-enforcer",
            "table.exec.sink.rowtime-inserter",
            "table.exec.sink.type-length-enforcer",
            "table.exec.sink.upsert-materialize",
            "table.exec.source.cdc-events-duplicate",
            "table.exec.uid.",
            "table.plan.",
            "table.planner",
            "table.sql-dialect",
        ],
    ),
];

/// Options that belong to one that ends with a dot above, and that people misspell.
const MEMBERS: &[&str] = &[
    "execution.buffer-timeout.enabled",
    "execution.buffer-timeout.interval",
    "execution.checkpointing.dir",
    "execution.checkpointing.externalized-checkpoint-retention",
    "execution.checkpointing.incremental",
    "execution.checkpointing.interval",
    "execution.checkpointing.max-concurrent-checkpoints",
    "execution.checkpointing.min-pause",
    "execution.checkpointing.mode",
    "execution.checkpointing.num-retained",
    "execution.checkpointing.savepoint-dir",
    "execution.checkpointing.storage",
    "execution.checkpointing.timeout",
    "execution.checkpointing.tolerable-failed-checkpoints",
    "execution.checkpointing.unaligned.enabled",
    "execution.savepoint.path",
    "execution.state-recovery.path",
    "restart-strategy.fixed-delay.attempts",
    "restart-strategy.fixed-delay.delay",
    "restart-strategy.type",
    "sql-client.display.max-column-width",
    "sql-client.execution.max-table-result.rows",
    "sql-client.execution.result-mode",
    "sql-client.verbose",
    "state.backend",
    "state.backend.incremental",
    "state.backend.type",
    "state.checkpoints.dir",
    "state.savepoints.dir",
    "table.exec.mini-batch.allow-latency",
    "table.exec.mini-batch.enabled",
    "table.exec.mini-batch.size",
    "table.optimizer.agg-phase-strategy",
    "table.optimizer.distinct-agg.split.enabled",
    "table.optimizer.join-reorder-enabled",
    "table.optimizer.reuse-source-enabled",
    "table.optimizer.reuse-sub-plan-enabled",
];

/// What is said of an option of Flink that has no meaning here; `None` where there is no such option.
pub(crate) fn note(key: &str) -> Option<String> {
    if is_setting(key) {
        return None;
    }
    let is_member = |group: &&str| match group.strip_suffix('.') {
        // What is nearly one of the members is one misspelt.
        Some(prefix) => key == prefix || key.starts_with(*group) && (MEMBERS.contains(&key) || misspelt(key).is_none()),
        None => key == *group,
    };
    let reason = OPTIONS.iter().find(|(_, groups)| groups.iter().any(is_member));
    reason.map(|(reason, _)| format!("'{key}' has no effect: {reason}"))
}

/// Whether it has a meaning here.
fn is_setting(key: &str) -> bool {
    SETTINGS.iter().any(|setting| setting.key == key)
}

/// The option that is nearly written so.
fn misspelt(key: &str) -> Option<&'static str> {
    pelton_plan::closest(key, MEMBERS.iter().copied())
}

/// All keys that are known one by one.
pub(crate) fn keys() -> impl Iterator<Item = &'static str> {
    let single = OPTIONS.iter().flat_map(|(_, groups)| groups.iter().copied()).filter(|group| !group.ends_with('.'));
    single.chain(MEMBERS.iter().copied()).filter(|key| !is_setting(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_known_and_misspelt_ones_are_not() {
        for key in keys() {
            assert!(note(key).is_some(), "{key}");
        }
        for key in ["state.backend", "execution.buffer-timeout", "state.backend.rocksdb.memory.managed", "rest.port"] {
            assert!(note(key).is_some(), "{key}");
        }
        for key in ["parallelism.defualt", "execution.checkpointing.intervall", "table.exec.state.tll", "stat.backend"]
        {
            assert_eq!(note(key), None, "{key}");
        }
    }
}
