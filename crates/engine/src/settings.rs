//! What `SET` can set.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use pelton_connectors::options::{is_too_much_memory, parse_duration, parse_memory_size};
use pelton_data::zone::Zone;
use pelton_data::{BLOCK_ROWS_DEFAULT, BLOCK_ROWS_MAX};
use pelton_plan::parse::OptionPlace;
use pelton_plan::query::{ALLOW_LATENESS, EARLY_FIRE, LOCAL_TIME_ZONE, STRICT_VALUES, WINDOWS};
use pelton_plan::{Catalog, Place, closest};
use pelton_runtime::adapt::{Adapt, AdaptOptions, Costs, Permission, Permissions, Specialisation};
use pelton_runtime::data_passing::DataPassing;
use pelton_runtime::exchange::OnLag;
use pelton_runtime::policy::{EPOCH_DEFAULT, PolicyName};
use pelton_runtime::wake::SPIN_DEFAULT;
use pelton_state::layout::DenseKeys;

use crate::checkpoints::restore_from::RestoreFrom;
use crate::error::Error;
use crate::flink_options;
use crate::setting_list::{Audience, SETTINGS, Scope, SettingEntry};

/// Which code runs a query's pipelines: `SET 'pelton.tier' = …`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TierChoice {
    /// Interpreted first, compiled as soon as the code is ready, and interpreted again where that is faster.
    #[default]
    Auto,
    /// Interpreted only.
    Interpret,
    /// Compiled from the first row on.
    Compile,
}

/// How windows are aggregated: `SET 'pelton.windows' = …`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WindowChoice {
    /// Slices of time that windows share, also across the queries of a statement set that aggregate the same rows by the same keys.
    #[default]
    Slices,
    /// Slices of time, separate for each window aggregation.
    Apart,
    /// Each window separately, as a baseline for slices.
    Buckets,
}

/// When code is specialised to the data: `SET 'pelton.adapt' = …`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AdaptChoice {
    /// When it is faster.
    #[default]
    On,
    /// Never: compiled code takes the place of interpreted code, as `pelton.tier` says, and nothing else changes. Keys have entries side by side, and loops do
    /// without checks for NULL, only where `pelton.adapt.dense-keys` and `pelton.adapt.no-nulls` pin that; what else is pinned needs a profile, and is refused.
    Off,
    /// As [`AdaptChoice::Off`], with profiling all the time, to measure its cost.
    Profile,
    /// At random times that depend on the seed, for tests.
    Random,
}

/// The settings of a session and its engine, with their defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `pelton.tier`
    pub tier: TierChoice,
    /// `pelton.adapt`
    pub adapt: AdaptChoice,
    /// `pelton.adapt.` and the name of a [`Specialisation`]: whether it may be chosen. `predicate-order`: predicates are tested in another order than they were written in,
    /// over blocks or over the rows left. `tier`: with [`TierChoice::Auto`], interpreted code takes the place of compiled code. `dense-keys`: integer keys that lie close together
    /// have entries side by side; pinned, wherever a table may be so long, whatever `pelton.adapt` says. `fetch-ahead`: compiled code asks for columns some rows before
    /// it reads them. `no-nulls`: compiled code does not check for NULLs in blocks that have none; pinned, whatever `pelton.adapt` says.
    pub permissions: Permissions,
    /// `pelton.adapt.costs`: what code costs, made up, and compiled before the first row; for tests.
    pub costs: Option<Costs>,
    /// `pelton.workers`: threads that run all queries; by default the cores available to the process.
    pub workers: usize,
    /// `pelton.spin`: how long an idle worker spins before it sleeps; some spin ten times as long. Threads of operators (`pelton.policy`) do not spin.
    pub spin: Duration,
    /// `pelton.pin`: each worker stays on one of the cores that the process may use, and what threads it starts, the first on the first: it is for one
    /// pool in a process. Threads of operators stay nowhere.
    pub pin: bool,
    /// `pelton.policy`: the scheduling policy of all queries.
    pub policy: PolicyName,
    /// `pelton.epoch`: how long priorities hold, and a worker stays with a query.
    pub epoch: Duration,
    /// `pelton.data-passing`: what operators pass to each other, for new queries.
    pub data_passing: DataPassing,
    /// `pelton.windows`
    pub windows: WindowChoice,
    /// `pelton.block-rows`
    pub block_rows: usize,
    /// `pelton.memory`: limit in bytes of the state and buffered rows of all queries; unlimited by default.
    pub memory_bytes_max: usize,
    /// `pelton.memory.operator`: limit in bytes of the state and the buffered input of each operator, for new queries; unlimited by default.
    pub operator_memory_bytes_max: usize,
    /// `pelton.seed`: seed of generated data.
    pub seed: u64,
    /// `pelton.strict-values`: a value that does not fit the type that a query casts it to, or the column that a source reads it into, is an error, where Flink wraps, shortens or
    /// leaves it out.
    pub strict_values: bool,
    /// `pelton.sharing`: whether queries read a table without an end together.
    pub sharing: bool,
    /// `pelton.sharing.on-lag`: what happens to a query that reads a table with others and does not keep up.
    pub on_lag: OnLag,
    /// `table.exec.source.idle-timeout`: how long a partition may deliver nothing before it no longer holds back the watermark; zero: for ever.
    pub idle_timeout: Duration,
    /// `table.exec.emit.allow-lateness`: how long after its end a window is corrected by late rows.
    pub allowed_lateness: Duration,
    /// `table.exec.emit.early-fire.enabled`: whether windows report early results.
    pub early_fire: bool,
    /// `pipeline.name`: the name of jobs that are started.
    pub job_name: Option<String>,
    /// `execution.checkpointing.interval`: the time between two checkpoints.
    pub checkpoint_interval: Option<Duration>,
    /// `execution.checkpointing.dir`: where checkpoints are kept; without it there are none.
    pub checkpoint_directory: Option<PathBuf>,
    /// `execution.checkpointing.num-retained`: checkpoints that are kept.
    pub checkpoints_retained: usize,
    /// `execution.state-recovery.path`: the checkpoint that jobs go on from.
    pub restore_from: Option<RestoreFrom>,
    /// `table.exec.emit.early-fire.delay`: how long after new rows early results are reported.
    pub early_delay: Duration,
}

/// The time between two checkpoints.
pub(crate) const CHECKPOINT_INTERVAL: &str = "execution.checkpointing.interval";

/// Where checkpoints are kept.
const CHECKPOINT_DIRECTORY: &str = "execution.checkpointing.dir";

/// Checkpoints of a job that are kept unless another number is set.
const CHECKPOINTS_RETAINED_DEFAULT: usize = 3;

/// Which code runs.
const TIER: &str = "pelton.tier";

/// When code changes.
const ADAPT: &str = "pelton.adapt";

/// Of each specialisation whether it may be chosen: behind this stands its name.
const SPECIALISATIONS: &str = "pelton.adapt.";

/// What code costs, made up: for tests.
const COSTS: &str = "pelton.adapt.costs";

/// How long idle workers may look for work: longer would be all the time.
const SPIN_MAX: Duration = Duration::from_secs(1);
/// Shorter ones would cost more than tasks do, and longer ones let others wait for as long.
const EPOCHS: RangeInclusive<Duration> = Duration::from_micros(10)..=Duration::from_secs(1);
/// Whether workers stay on cores.
const A_PIN: &str = match cfg!(target_os = "linux") {
    true => "'on' or 'off'",
    false => "'off' on this system, which does not keep threads on cores",
};

/// The name of jobs.
const JOB_NAME: &str = "pipeline.name";

/// Whether clients wait for the end of inserts.
const SYNCHRONOUS_INSERTS: &str = "table.dml-sync";

/// How often.
pub(crate) const EARLY_DELAY: &str = "table.exec.emit.early-fire.delay";

/// The settings that this program has, those for tests included.
fn all_settings() -> impl Iterator<Item = &'static SettingEntry> {
    SETTINGS.iter().filter(|setting| setting.audience != Audience::TestsWithQueues || cfg!(feature = "queues"))
}

/// Whether a setting is one of the engine, and not of a session.
pub(crate) fn is_of_engine(key: &str) -> bool {
    SETTINGS.iter().any(|setting| setting.key == key && setting.scope == Scope::Engine)
}

/// The settings that users see.
pub(crate) fn user_settings() -> impl Iterator<Item = &'static SettingEntry> {
    SETTINGS.iter().filter(|setting| setting.audience == Audience::Users)
}

impl Default for Settings {
    fn default() -> Self {
        // Respects the process's CPU affinity and its container's quota.
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        Settings {
            tier: TierChoice::default(),
            adapt: AdaptChoice::default(),
            permissions: Permissions::default(),
            costs: None,
            workers,
            spin: SPIN_DEFAULT,
            pin: false,
            policy: PolicyName::default(),
            epoch: EPOCH_DEFAULT,
            data_passing: DataPassing::default(),
            windows: WindowChoice::default(),
            block_rows: BLOCK_ROWS_DEFAULT,
            memory_bytes_max: usize::MAX,
            operator_memory_bytes_max: usize::MAX,
            seed: 0,
            strict_values: false,
            sharing: true,
            on_lag: OnLag::default(),
            idle_timeout: Duration::ZERO,
            allowed_lateness: Duration::ZERO,
            early_fire: false,
            job_name: None,
            checkpoint_interval: None,
            checkpoint_directory: None,
            checkpoints_retained: CHECKPOINTS_RETAINED_DEFAULT,
            restore_from: None,
            early_delay: Duration::ZERO,
        }
    }
}

/// Settings that rows depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    seed: u64,
    strict_values: bool,
    block_rows: usize,
}

impl Reading {
    pub fn of(settings: &Settings) -> Reading {
        let Settings { seed, strict_values, block_rows, .. } = *settings;
        Reading { seed, strict_values, block_rows }
    }
}

impl Settings {
    /// The settings of a catalogue, which holds only what [`Settings::check`] let pass.
    pub fn of(catalog: &Catalog) -> Settings {
        let mut settings = Settings::default();
        for (key, value) in catalog.settings() {
            // Only checked values are stored.
            if let Err(error) = settings.apply(key, value) {
                debug_assert!(false, "{error}");
            }
        }
        settings
    }

    /// Whether `SET 'key' = 'value'`, written at `place`, makes sense beside what is set. Options of Flink that have no meaning here take any value.
    ///
    /// # Errors
    /// [`Error::Setting`] names the setting and its values, or the settings there are, or the one that it contradicts.
    pub fn check(catalog: &Catalog, key: &str, value: &str, place: Option<OptionPlace>) -> Result<(), Error> {
        if flink_options::note(key).is_some() {
            return Ok(());
        }
        let mut settings = Settings::of(catalog);
        let applied = settings.apply(key, value).and_then(|()| settings.agree(key, value));
        applied.map_err(|problem| {
            let is_known = all_settings().any(|known| known.key == key);
            let place = place.and_then(|place| if is_known { place.value } else { place.key });
            Error::Setting { key: key.into(), problem, place }
        })
    }

    /// Whether there is a setting of this name, written at `place`.
    ///
    /// # Errors
    /// [`Error::Setting`] names the setting that may be meant, or those there are.
    pub fn check_key(key: &str, place: Option<Place>) -> Result<(), Error> {
        match all_settings().any(|known| known.key == key) || flink_options::note(key).is_some() {
            true => Ok(()),
            false => Err(Error::Setting { key: key.into(), problem: unknown(key), place }),
        }
    }

    /// How code may change.
    pub(crate) fn adapt_options(&self) -> AdaptOptions {
        let adapt = match self.adapt {
            AdaptChoice::On => Adapt::On,
            AdaptChoice::Off => Adapt::Off,
            AdaptChoice::Profile => Adapt::Profile,
            AdaptChoice::Random => Adapt::Random { seed: self.seed },
        };
        AdaptOptions { adapt, permissions: self.permissions, costs: self.costs }
    }

    /// When keys have entries side by side in the tables of a window: where chance decides, in those of every second one.
    pub(crate) fn dense_keys(&self, window: usize) -> DenseKeys {
        match (self.permissions.of(Specialisation::DenseKeys), self.adapt) {
            (Permission::Auto, AdaptChoice::Random) if !self.seed.wrapping_add(window as u64).is_multiple_of(2) => {
                DenseKeys::Never
            }
            (Permission::Auto, AdaptChoice::Off | AdaptChoice::Profile) => DenseKeys::Never,
            (Permission::Auto, AdaptChoice::On | AdaptChoice::Random) => DenseKeys::WhereClose,
            (Permission::Pin, _) => DenseKeys::WherePossible,
            (Permission::Forbid, _) => DenseKeys::Never,
        }
    }

    /// Whether all settings may be as they are, of which one was just set; the error says what is wrong with that.
    fn agree(&self, key: &str, value: &str) -> Result<(), String> {
        // Nothing is interpreted where all is compiled, and nothing changes but by adaptation, apart from tables.
        let is_compiled = (self.tier == TierChoice::Compile).then_some((TIER, "auto", "compile"));
        // Interpreted code is made for nothing else.
        let pinned_tier = format!("{SPECIALISATIONS}{}", Specialisation::Tier.name());
        let is_interpreted = self.permissions.of(Specialisation::Tier) == Permission::Pin;
        let is_interpreted = is_interpreted.then_some((pinned_tier.as_str(), "auto", "pin"));
        let does_not_adapt = match self.adapt {
            AdaptChoice::On | AdaptChoice::Random => None,
            AdaptChoice::Off => Some((ADAPT, "on", "off")),
            AdaptChoice::Profile => Some((ADAPT, "on", "profile")),
        };
        let in_vain = [
            (Specialisation::Tier, is_compiled.or(does_not_adapt)),
            (Specialisation::PredicateOrder, is_interpreted.or(does_not_adapt)),
            (Specialisation::FetchAhead, is_interpreted.or(does_not_adapt)),
        ];
        let mut in_vain = in_vain.into_iter().filter(|(one, _)| self.permissions.of(*one) == Permission::Pin);
        let problem = in_vain.find_map(|(one, by)| {
            let (pinned, (by, needed, is)) = (format!("{SPECIALISATIONS}{}", one.name()), by?);
            match key {
                key if key == pinned => Some(format!("takes '{value}' where '{by}' is '{needed}', and it is '{is}'")),
                key if key == by => Some(format!("takes '{value}' where '{pinned}' is not 'pin', and it is")),
                _ => None,
            }
        });
        problem.map_or(Ok(()), Err)
    }

    /// Changes a setting; the error says what is wrong with it.
    fn apply(&mut self, key: &str, value: &str) -> Result<(), String> {
        let Some(SettingEntry { takes: values, .. }) = all_settings().find(|known| known.key == key) else {
            return Err(unknown(key));
        };
        let values = if key == "pelton.pin" { A_PIN } else { *values };
        let number = |least: u64, most: u64| value.parse().ok().filter(|number| (least..=most).contains(number));
        let applied = match key {
            TIER => tier(value).map(|tier| self.tier = tier),
            ADAPT => adapt(value).map(|adapt| self.adapt = adapt),
            COSTS => value.parse().ok().map(|costs| self.costs = Some(costs)),
            "pelton.workers" => number(1, 1024).map(|workers| self.workers = workers as usize),
            "pelton.spin" => parse_duration(value).filter(|spin| *spin <= SPIN_MAX).map(|spin| self.spin = spin),
            "pelton.pin" => pin(value).map(|pin| self.pin = pin),
            "pelton.policy" => PolicyName::named(value).map(|policy| self.policy = policy),
            "pelton.epoch" => {
                parse_duration(value).filter(|epoch| EPOCHS.contains(epoch)).map(|epoch| self.epoch = epoch)
            }
            #[cfg(feature = "queues")]
            "pelton.data-passing" => data_passing(value).map(|passing| self.data_passing = passing),
            WINDOWS => windows(value).map(|windows| self.windows = windows),
            "pelton.block-rows" => number(1, BLOCK_ROWS_MAX as u64).map(|rows| self.block_rows = rows as usize),
            "pelton.memory" => size(value).map(|bytes| self.memory_bytes_max = bytes),
            "pelton.memory.operator" => size(value).map(|bytes| self.operator_memory_bytes_max = bytes),
            "pelton.seed" => number(0, u64::MAX).map(|seed| self.seed = seed),
            "pelton.sharing" => switch(value).map(|sharing| self.sharing = sharing),
            "pelton.sharing.on-lag" => on_lag(value).map(|on_lag| self.on_lag = on_lag),
            STRICT_VALUES => value.parse().ok().map(|strict| self.strict_values = strict),
            "table.exec.source.idle-timeout" => parse_duration(value).map(|timeout| self.idle_timeout = timeout),
            EARLY_FIRE => value.parse().ok().map(|enabled| self.early_fire = enabled),
            EARLY_DELAY => parse_duration(value).map(|delay| self.early_delay = delay),
            ALLOW_LATENESS => parse_duration(value).map(|lateness| self.allowed_lateness = lateness),
            JOB_NAME => is_name(value).then(|| self.job_name = Some(value.to_owned())),
            CHECKPOINT_INTERVAL => parse_duration(value)
                .filter(|interval| !interval.is_zero())
                .map(|interval| self.checkpoint_interval = Some(interval)),
            CHECKPOINT_DIRECTORY => checkpoint_directory(value).map(|path| self.checkpoint_directory = Some(path)),
            "execution.checkpointing.num-retained" => {
                number(1, 1 << 20).map(|count| self.checkpoints_retained = count as usize)
            }
            "execution.state-recovery.path" => RestoreFrom::parse(value).map(|from| self.restore_from = Some(from)),
            // Clients ask the session for it.
            SYNCHRONOUS_INSERTS => value.parse::<bool>().ok().map(drop),
            // The planner reads it from the catalogue.
            LOCAL_TIME_ZONE => Zone::named(value).map(drop),
            key => {
                let specialisation = key.strip_prefix(SPECIALISATIONS).and_then(Specialisation::named);
                let specialisation = specialisation.expect("all other settings are of a specialisation");
                permission(value).map(|permission| self.permissions.set(specialisation, permission))
            }
        };
        applied.ok_or_else(|| match key {
            "pelton.memory" | "pelton.memory.operator" if is_too_much_memory(value) => {
                format!("is at most '{MEMORY_MAX}', which '{value}' exceeds")
            }
            _ => format!("takes {values}, not '{value}'"),
        })
    }
}

/// What is wrong with a setting that there is not.
fn unknown(key: &str) -> String {
    let keys = || all_settings().map(|setting| setting.key);
    if key == "emit.every" {
        return format!(
            "does not exist; with '{EARLY_FIRE}' = 'true', '{EARLY_DELAY}' says how often windows are reported before their end"
        );
    }
    // What is the beginning of one name, such as 'pelton.adapt.dense', is no misspelling of another.
    let with_more = || {
        let mut longer =
            keys().filter(|known| known.strip_prefix(key).is_some_and(|rest| rest.starts_with(['-', '.'])));
        longer.next().filter(|_| longer.next().is_none())
    };
    let without_prefix = || keys().find(|known| known.strip_suffix(key).is_some_and(|prefix| prefix.ends_with('.')));
    let nearest = || closest(key, keys().chain(flink_options::keys()));
    match with_more().or_else(nearest).or_else(without_prefix) {
        Some(meant) => format!("does not exist; did you mean '{meant}'?"),
        None => {
            let keys: Vec<&str> = user_settings().map(|setting| setting.key).collect();
            format!("does not exist; there are {}", keys.join(", "))
        }
    }
}

/// Whether something may be called so.
fn is_name(value: &str) -> bool {
    !value.trim().is_empty() && !value.contains(char::is_control)
}

/// The largest memory size that 64 bits count in whole units.
const MEMORY_MAX: &str = "16777215 tb";

fn size(value: &str) -> Option<usize> {
    parse_memory_size(value)?.try_into().ok()
}

fn tier(value: &str) -> Option<TierChoice> {
    match value {
        "auto" => Some(TierChoice::Auto),
        "interpret" => Some(TierChoice::Interpret),
        "compile" => Some(TierChoice::Compile),
        _ => None,
    }
}

fn adapt(value: &str) -> Option<AdaptChoice> {
    match value {
        "on" => Some(AdaptChoice::On),
        "off" => Some(AdaptChoice::Off),
        "profile" => Some(AdaptChoice::Profile),
        "random" => Some(AdaptChoice::Random),
        _ => None,
    }
}

fn permission(value: &str) -> Option<Permission> {
    match value {
        "auto" => Some(Permission::Auto),
        "pin" => Some(Permission::Pin),
        "forbid" => Some(Permission::Forbid),
        _ => None,
    }
}

fn switch(value: &str) -> Option<bool> {
    match value {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

/// A directory of this machine, which may be written with its scheme, or one of a bucket.
fn checkpoint_directory(value: &str) -> Option<PathBuf> {
    let path = value.strip_prefix("file://").unwrap_or(value);
    let is_known = !path.contains("://") || pelton_connectors::ObjectDirectory::is_named(path);
    (is_name(path) && is_known).then(|| PathBuf::from(path))
}

fn on_lag(value: &str) -> Option<OnLag> {
    match value {
        "wait" => Some(OnLag::Wait),
        "fail" => Some(OnLag::Fail),
        _ => None,
    }
}

fn pin(value: &str) -> Option<bool> {
    match value {
        "on" if cfg!(target_os = "linux") => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

#[cfg(feature = "queues")]
fn data_passing(value: &str) -> Option<DataPassing> {
    match value {
        "blocks" => Some(DataPassing::Blocks),
        "queues" => Some(DataPassing::Queues),
        _ => None,
    }
}

fn windows(value: &str) -> Option<WindowChoice> {
    match value {
        "slices" => Some(WindowChoice::Slices),
        "apart" => Some(WindowChoice::Apart),
        "buckets" => Some(WindowChoice::Buckets),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(key: &str, value: &str) -> Result<(), Error> {
        Settings::check(&Catalog::default(), key, value, None)
    }

    #[test]
    fn a_setting_that_makes_no_sense_says_what_would() {
        assert_eq!(
            check("pelton.tier", "fast").unwrap_err().to_string(),
            "setting 'pelton.tier' takes 'auto', 'interpret' or 'compile', not 'fast'"
        );
        assert!(check("pelton.workers", "0").is_err());
        assert!(check("pelton.worker", "1").unwrap_err().to_string().contains("pelton.workers"));
        assert!(check("pelton.block-rows", "7").is_ok());
    }

    #[test]
    fn every_setting_that_is_listed_is_known() {
        for SettingEntry { key, takes, .. } in all_settings() {
            let error = check(key, "\u{1}").unwrap_err().to_string();
            assert!(error.contains(takes), "{key}: {error}");
        }
        for one in Specialisation::ALL {
            assert!(check(&format!("{SPECIALISATIONS}{}", one.name()), "forbid").is_ok(), "{one:?}");
        }
    }

    #[test]
    fn defaults_are_those_that_are_listed() {
        for SettingEntry { key, default, .. } in all_settings() {
            let mut settings = Settings::default();
            // A description would be a name as well.
            if ![JOB_NAME, CHECKPOINT_DIRECTORY].contains(key) && settings.apply(key, default).is_ok() {
                assert_eq!(settings, Settings::default(), "{key} = {default}");
            }
        }
        let listed = |key: &str| all_settings().find(|setting| setting.key == key).unwrap().default;
        for key in ["pelton.tier", "pelton.spin", "pelton.epoch", "pelton.block-rows", "pelton.seed", EARLY_DELAY] {
            assert!(Settings::default().apply(key, listed(key)).is_ok(), "{key}");
        }
    }

    #[test]
    fn every_policy_is_named_where_one_is_chosen() {
        let takes = all_settings().find(|setting| setting.key == "pelton.policy").unwrap().takes;
        // Names are what stands between quotes.
        let names: Vec<&str> = takes.split('\'').skip(1).step_by(2).collect();
        assert_eq!(names, PolicyName::all().map(PolicyName::name).collect::<Vec<_>>());
    }
}
