//! How the code has adapted, for people.

use pelton::Tier;
use pelton::adapt::Specialisation;
use pelton::adapt::story::{Story, Variant};
use pelton::progress::{PipelineProgress, Progress};

/// Events of a pipeline's code in the summary: the last ones.
const EVENTS_MAX: usize = 5;

/// One sentence about the code that runs now.
pub fn adaptation(progress: &Progress) -> String {
    let Some(pipeline) = progress.pipelines.first() else { return String::new() };
    let story = &pipeline.story;
    let Some(current) = story.variants.iter().find(|variant| variant.is_current) else { return String::new() };
    let mut text = match current.tier {
        Tier::Interpreted => "Interpreted until its machine code pays".to_owned(),
        Tier::Compiled => format!("Compiled to machine code in {:.1} ms", current.preparation.as_secs_f64() * 1e3),
    };
    for words in [keys(story), specialisation(current)].into_iter().flatten() {
        text += "; ";
        text += words;
    }
    text + &cost(story, current)
}

fn keys(story: &Story) -> Option<&'static str> {
    story.keys.is_some().then_some("lots are found by number, without hashing")
}

fn specialisation(variant: &Variant) -> Option<&'static str> {
    match variant.specialisation? {
        Specialisation::PredicateOrder => Some("the filter that drops most runs first"),
        Specialisation::FetchAhead => Some("memory is prefetched"),
        Specialisation::NoNulls => Some("nothing is checked for NULL"),
        Specialisation::Tier | Specialisation::DenseKeys => None,
    }
}

/// What a bid takes now, and what it took when the query began.
fn cost(story: &Story, current: &Variant) -> String {
    let Some(now) = current.nanos_per_row() else { return String::new() };
    let first = story.variants.iter().find(|variant| variant.tier == Tier::Interpreted && !variant.is_current);
    let before = first.and_then(Variant::nanos_per_row);
    let before = before.map(|before| format!("; interpreted it took {before:.0} ns")).unwrap_or_default();
    format!(". A bid takes {now:.1} ns{before}")
}

/// What has become of a pipeline's code in all: the variant that runs with its figures, and what happened last.
pub fn details(pipeline: &PipelineProgress) -> Vec<String> {
    let story = &pipeline.story;
    let mut lines = vec![format!("{}: {}, {:.2} ns a record", pipeline.name, story.stage, pipeline.nanos_per_row())];
    lines.extend(
        story.variants.iter().filter(|variant| variant.is_current).map(|variant| format!("  {}", variant.figures())),
    );
    let shown = story.events.iter().skip(story.events.len().saturating_sub(EVENTS_MAX));
    lines.extend(shown.map(|event| format!("  at {:.1} s: {}", event.at.as_secs_f64(), event.summary())));
    lines.extend(story.keys_since().into_iter().chain(story.keys_figures()).map(|keys| format!("  {keys}")));
    lines
}
