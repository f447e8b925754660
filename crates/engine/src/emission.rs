//! When windows are reported besides when their time has come: what `SET 'table.exec.emit.…'` asks for, and which queries it can be asked of.

use pelton_data::window::Emission;
use pelton_plan::PlanError;
use pelton_plan::pipeline::{Program, StreamRef, Target, Window};
use pelton_plan::query::Length;

use crate::error::Error;
use crate::settings::{ALLOW_LATENESS, EARLY_DELAY, EARLY_FIRE, Settings};

/// What the settings ask for.
pub(crate) fn emission(settings: &Settings) -> Emission {
    let early_after = settings.early_fire.then_some(settings.early_delay.as_micros() as i64);
    Emission { lateness: settings.allowed_lateness.as_micros() as i64, early_after }
}

/// The settings that ask for more than the results of windows whose time has come.
fn asked(settings: &Settings) -> Vec<&'static str> {
    let Emission { lateness, early_after } = emission(settings);
    [(ALLOW_LATENESS, lateness > 0), (EARLY_FIRE, early_after.is_some())]
        .into_iter()
        .filter(|asked| asked.1)
        .map(|asked| asked.0)
        .collect()
}

/// Whether the windows of a program can be reported as the settings ask.
///
/// # Errors
/// [`Error::Plan`] where they cannot.
pub(crate) fn check(program: &Program, settings: &Settings) -> Result<(), Error> {
    if settings.early_fire && settings.early_delay.is_zero() {
        let message = format!("{EARLY_FIRE} needs to know how long after their rows windows are reported");
        let hint = format!("SET '{EARLY_DELAY}' = '1 s'");
        return Err(PlanError::invalid(None, message).with_hint(hint).into());
    }
    asked(settings).into_iter().try_for_each(|setting| check_setting(program, setting))
}

/// Whether the windows of a program can be reported as one setting asks.
fn check_setting(program: &Program, setting: &str) -> Result<(), Error> {
    let refused = |what: &str, why: &str, instead: &str| {
        let construct = format!("{setting} for {what}");
        let hint = format!("{why}RESET '{setting}' before this query{instead}");
        Err(PlanError::unsupported(None, construct, hint).into())
    };
    let is_early = setting == EARLY_FIRE;
    if program.windows.iter().any(|window| window.window.counts_rows()) {
        return refused("windows that count rows", "", "");
    }
    let reads_windows = |index: usize| {
        let pipeline = &program.pipelines[index];
        let is_kept =
            matches!(pipeline.target, Target::Window { .. } | Target::Rows { .. }) || program.over_of(index).is_some();
        is_kept && matches!(pipeline.input, StreamRef::Window(_))
    };
    if (0..program.pipelines.len()).any(reads_windows) {
        let why = "a result would count beside what it replaces: ";
        let instead = if is_early { "" } else { ", and let the WATERMARK of its tables wait longer for late rows" };
        return refused("results of windows that are aggregated once more", why, instead);
    }
    Ok(())
}

/// What `EXPLAIN` says of it: how windows are reported, and what is not portable to Flink.
pub(crate) fn explained(program: &Program, settings: &Settings) -> Option<(String, String)> {
    let Emission { lateness, early_after } = emission(settings);
    let asked = asked(settings);
    let is_cut = program.windows.iter().any(|window| window.window != Window::Global);
    (is_cut && !asked.is_empty()).then(|| {
        let early = early_after.map(|after| format!("windows that have not ended are reported {} after rows have come for them", Length(after)));
        let late = Some(lateness).filter(|lateness| *lateness > 0).map(|lateness| {
            format!("windows are final {} after they have ended; until then late rows correct them", Length(lateness))
        });
        let note = format!(
            "{} {} experimental in Flink, not for its window table functions; there results are taken back before others replace them",
            asked.join(" and "),
            if asked.len() == 1 { "is" } else { "are" },
        );
        (early.into_iter().chain(late).collect::<Vec<_>>().join("\n"), note)
    })
}
