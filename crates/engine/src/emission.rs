//! When windows are reported besides when their time has come: what `SET 'table.exec.emit.…'` asks for, and which queries it can be asked of.

use pelton_data::arrangement::Arrangement;
use pelton_data::join::JoinTime;
use pelton_data::window::Emission;
use pelton_plan::PlanError;
use pelton_plan::pipeline::{Operator, Output, Pipeline, Program, StreamJoin, StreamRef, Window};
use pelton_plan::query::{ALLOW_LATENESS, EARLY_FIRE, Length};

use crate::error::Error;
use crate::settings::{EARLY_DELAY, Settings};

/// What the settings ask for.
fn wanted(settings: &Settings) -> Emission {
    let early_after = settings.early_fire.then_some(settings.early_delay.as_micros() as i64);
    Emission { lateness: settings.allowed_lateness.as_micros() as i64, early_after, delay: 0 }
}

/// When a window of a program is reported. A result that is aggregated once more would count beside what it replaces: such results are delayed until they
/// are final, and come once. Nothing is late for windows that read only those of one, so that they wait for nothing more.
pub(crate) fn emission(program: &Program, window: usize, settings: &Settings) -> Emission {
    if program.groups(window).window == Window::Global {
        return Emission::default();
    }
    let Emission { lateness, early_after, .. } = wanted(settings);
    let lateness = if has_late_rows(program, window) { lateness } else { 0 };
    match is_read_again(program, window) {
        true => Emission { delay: lateness, ..Emission::default() },
        false => Emission { lateness, early_after, delay: 0 },
    }
}

/// When windows are joined: pairs cannot be taken back, so they come once, when no row can change them. Those of an early report are left out of later ones.
pub(crate) fn join_emission(program: &Program, join: usize, settings: &Settings) -> Emission {
    let Emission { lateness, early_after, .. } = wanted(settings);
    Emission { delay: if has_late_rows(program, join) { lateness } else { 0 }, early_after, lateness: 0 }
}

/// The joins of rows in the same window.
fn window_joins(program: &Program) -> impl Iterator<Item = (usize, &StreamJoin)> {
    program.operators.iter().enumerate().filter_map(|(number, operator)| match operator {
        Operator::Join(join) if matches!(join.spec.time, JoinTime::Windows { .. }) => Some((number, &**join)),
        _ => None,
    })
}

/// The windows that are shorter than their input.
fn cut(program: &Program) -> impl Iterator<Item = usize> {
    program.windows().filter(|(_, window)| window.window != Window::Global).map(|(index, _)| index)
}

/// Whether the results of a window are aggregated, put in order for functions OVER rows, or ranked: the first of them in an order are not the first any more
/// beside what replaces them.
fn is_read_again(program: &Program, window: usize) -> bool {
    let ranks = |output: &Output| {
        let Arrangement { order, offset, rows_max } = &output.arrangement;
        order.is_some() && (*offset > 0 || rows_max.is_some())
    };
    let mut ranked = program.outputs.iter().filter(|output| ranks(output)).flat_map(|output| &output.inputs);
    ranked.any(|input| hands_on(program, *input, window)) || is_computed_with(program, window)
}

/// Whether a stream is the results of a window as they are, or row by row.
fn hands_on(program: &Program, stream: StreamRef, window: usize) -> bool {
    match stream {
        StreamRef::Operator(index) => index == window,
        StreamRef::Pipeline(index) => hands_on(program, program.pipelines[index].input, window),
        StreamRef::Source(_) => false,
    }
}

/// Whether the results of a window are aggregated, or put in order for functions OVER rows.
fn is_computed_with(program: &Program, window: usize) -> bool {
    let feeds_operator = |pipeline: &&Pipeline| pipeline.target.port().is_some();
    program.pipelines.iter().filter(feeds_operator).any(|pipeline| hands_on(program, pipeline.input, window))
}

/// Whether rows may come behind the watermark of a window's input. Results of a window do not, and rows of functions OVER time leave these in its order. Of
/// several inputs one that was idle may be behind the others, whatever it is.
fn has_late_rows(program: &Program, window: usize) -> bool {
    let has_late = |input: StreamRef| match input {
        StreamRef::Operator(operator) => match &program.operators[operator] {
            Operator::Window(_) | Operator::Slices(_) | Operator::Join(_) | Operator::Unmatched(_) => false,
            Operator::Over(over) => over.time.is_none(),
        },
        StreamRef::Source(_) | StreamRef::Pipeline(_) => true,
    };
    let mut feeding = program.feeding(window).map(|(_, pipeline)| pipeline.input);
    feeding.next().is_some_and(has_late) || feeding.next().is_some()
}

/// Whether functions OVER time have rows that may come late. They leave these out.
fn has_overs(program: &Program) -> bool {
    let is_of_window =
        |stream| matches!(stream, StreamRef::Operator(number) if program.operators[number].as_window().is_some());
    program.pipelines.iter().filter(|pipeline| !is_of_window(pipeline.input)).any(|pipeline| {
        let over = pipeline.target.port().and_then(|port| program.operators[port.operator].as_over());
        over.is_some_and(|over| over.time.is_some())
    })
}

/// The settings that ask for more than the results of windows whose time has come.
fn asked(settings: &Settings) -> Vec<&'static str> {
    let Emission { lateness, early_after, .. } = wanted(settings);
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
        let message = format!(
            "{EARLY_FIRE} needs to know how long after their rows windows are reported: for each row by itself they are not"
        );
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
    if program.windows().any(|(_, window)| window.window.counts_rows()) {
        return refused("windows that count rows", "", "");
    }
    if is_early && window_joins(program).any(|(_, join)| !join.spec.kind.has_pairs()) {
        let why = "whether a row stays is known when its window ends: ";
        return refused("IN or EXISTS of rows in the same window", why, "");
    }
    let mut cut = cut(program).peekable();
    if cut.peek().is_none() && has_overs(program) {
        let why = "each row has one result, when the watermark has passed it, and late rows have none: ";
        return refused("functions OVER rows", why, "");
    }
    if is_early && cut.peek().is_some() && cut.all(|window| is_read_again(program, window)) {
        let why = "a result would count beside what it replaces: ";
        return refused("results of windows that are aggregated or ranked once more", why, "");
    }
    Ok(())
}

/// What `EXPLAIN` says of it: how windows are reported, and what is not portable to Flink.
pub(crate) fn explained(program: &Program, settings: &Settings) -> Option<(String, String)> {
    let Emission { lateness, early_after, .. } = wanted(settings);
    let asked = asked(settings);
    let has_joins = window_joins(program).next().is_some();
    if asked.is_empty() || cut(program).next().is_none() && !has_joins {
        return None;
    }
    let note = format!(
        "{} {} experimental in Flink, not for its window table functions; there results are taken back before others replace them",
        asked.join(" and "),
        if asked.len() == 1 { "is" } else { "are" },
    );
    let early = early_after.filter(|_| cut(program).next().is_some()).map(|after| {
        format!("windows that have not ended are reported {} after rows have come for them", Length(after))
    });
    let early_pairs = early_after.filter(|_| has_joins).map(|after| {
        format!(
            "pairs of joined windows that have not ended leave {} after rows have come for them, each once",
            Length(after)
        )
    });
    let early = early.into_iter().chain(early_pairs);
    let over = has_overs(program).then(|| {
        "functions OVER rows give each row one result, when the watermark has passed it, and leave late rows out"
            .to_string()
    });
    if lateness == 0 {
        return Some((early.chain(over).collect::<Vec<_>>().join("\n"), note));
    }
    let is_any = |is_so: fn(&Emission) -> bool| cut(program).any(|window| is_so(&emission(program, window, settings)));
    let lateness = Length(lateness);
    let late = is_any(|emission| emission.lateness > 0)
        .then(|| format!("windows are final {lateness} after they have ended; until then late rows correct them"));
    let delayed = is_any(|emission| emission.delay > 0).then(|| {
        format!("windows whose results are aggregated or ranked once more are reported when they are final, {lateness} after they have ended")
    });
    let joined = window_joins(program)
        .any(|(number, _)| join_emission(program, number, settings).delay > 0)
        .then(|| format!("windows are joined {lateness} after they have ended"));
    let in_order = is_any(|emission| emission.lateness == 0 && emission.delay == 0).then(|| {
        "windows whose rows come in the order of their times, as results of a window do, are final when they have ended".to_string()
    });
    Some((
        early.chain(late).chain(delayed).chain(joined).chain(in_order).chain(over).collect::<Vec<_>>().join("\n"),
        note,
    ))
}
