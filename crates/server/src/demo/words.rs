//! How the code has adapted, for people.

use pelton::progress::{Code, PipelineProgress, Progress};

/// Events of a pipeline's code in the summary: the last ones.
const EVENTS_MAX: usize = 5;

/// One sentence about the code that runs now.
pub fn adaptation(progress: &Progress) -> String {
    let Some(pipeline) = progress.pipelines.first() else { return String::new() };
    let code = &pipeline.code;
    let mut text = match code.is_compiled {
        false => "Interpreted until its machine code pays".to_owned(),
        true => format!("Compiled to machine code in {:.1} ms", code.preparation.as_secs_f64() * 1e3),
    };
    let keys = code.has_dense_keys.then_some("lots are found by number, without hashing");
    for words in [keys, code.specialisation.and_then(specialisation)].into_iter().flatten() {
        text += "; ";
        text += words;
    }
    text + &cost(code)
}

fn specialisation(name: &str) -> Option<&'static str> {
    match name {
        "predicate-order" => Some("the filter that drops most runs first"),
        "fetch-ahead" => Some("memory is prefetched"),
        "no-nulls" => Some("nothing is checked for NULL"),
        _ => None,
    }
}

/// What a bid takes now, and what it took when the query began.
fn cost(code: &Code) -> String {
    let Some(now) = code.nanos_per_row else { return String::new() };
    let before = code.interpreted_nanos_per_row;
    let before = before.map(|before| format!("; interpreted it took {before:.0} ns")).unwrap_or_default();
    format!(". A bid takes {now:.1} ns{before}")
}

/// The code of a pipeline: its figures, and what happened last.
pub fn details(pipeline: &PipelineProgress) -> Vec<String> {
    let code = &pipeline.code;
    let title = format!("{}: {}, {:.2} ns a record", pipeline.name, code.stage(), pipeline.nanos_per_row());
    let history = code.history(EVENTS_MAX).into_iter().map(|line| format!("  {line}"));
    std::iter::once(title).chain(history).collect()
}
