//! Settings of a session that planning looks at.

use pelton_data::zone::Zone;

use crate::catalog::Catalog;

/// What windows are made of.
pub const WINDOWS: &str = "pelton.windows";

/// Which rows still count that come when their windows have ended.
pub const ALLOW_LATENESS: &str = "table.exec.emit.allow-lateness";

/// Whether windows are reported before their time has come.
pub const EARLY_FIRE: &str = "table.exec.emit.early-fire.enabled";

/// Settings that have windows reported more than once: these keep slices of their own, which corrections and early results are computed from.
const EMIT: [&str; 2] = [ALLOW_LATENESS, EARLY_FIRE];

/// Whether a session's settings let windows share slices.
pub(crate) fn shares_slices(catalog: &Catalog) -> bool {
    catalog.setting(WINDOWS).is_none_or(|windows| windows == "slices")
        && EMIT.iter().all(|key| catalog.setting(key).is_none())
}

/// The setting of the time zone.
pub const LOCAL_TIME_ZONE: &str = "table.local-time-zone";

/// The time zone of a session, where it is not UTC.
pub(crate) fn zone_of_session(catalog: &Catalog) -> Option<Zone> {
    let (_, name) = catalog.settings().find(|(key, _)| *key == LOCAL_TIME_ZONE)?;
    Some(name).filter(|name| *name != "UTC").and_then(Zone::named)
}
