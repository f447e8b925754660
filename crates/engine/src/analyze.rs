//! What `EXPLAIN ANALYZE` says: what became of the code of a query's pipelines while it ran.

use std::fmt::Write;

use pelton_runtime::adapt::story::{Event, Story};

use crate::error::Error;
use crate::query::{NamedStories, Query};

/// Waits for a query's end, drops its rows, and says what became of its code.
pub(crate) fn to_its_end(query: Query) -> Result<String, Error> {
    let stories = query.stories().to_vec();
    match query.wait() {
        Ok(_) => Ok(text(&stories)),
        Err(Error::Run(error)) => Err(Error::Analyzed { error, story: text(&stories) }),
        Err(other) => Err(other),
    }
}

/// What happened, which is the same whenever the same happens, and then the figures, which are not.
pub(crate) fn text(stories: &[NamedStories]) -> String {
    let stories: Vec<(&str, Story)> = stories.iter().map(|(name, stories)| (name.as_str(), stories.read())).collect();
    let (mut happened, mut figures) = (String::new(), String::new());
    for (name, story) in &stories {
        write_events(&mut happened, name, story);
        write_figures(&mut figures, name, story);
    }
    format!("== adaptation ==\n{happened}\n== figures ==\n{figures}")
}

fn write_events(text: &mut String, name: &str, story: &Story) {
    line(text, 0, &format!("{name}: {}", story.stage));
    if let Some(first) = story.events.front().filter(|first| first.number > 0) {
        line(text, 1, &format!("{} earlier events are forgotten", first.number));
    }
    story.events.iter().for_each(|event| line(text, 1, &event.summary()));
    story.keys_since().iter().for_each(|keys| line(text, 1, keys));
}

fn write_figures(text: &mut String, name: &str, story: &Story) {
    let (rows, blocks) =
        story.variants.iter().fold((0, 0), |(rows, blocks), variant| (rows + variant.rows, blocks + variant.blocks));
    line(text, 0, &format!("{name}: {rows} rows in {blocks} blocks"));
    story.variants.iter().for_each(|variant| line(text, 1, &variant.figures()));
    story.keys_figures().iter().for_each(|figures| line(text, 1, figures));
    story.events.iter().for_each(|event| line(text, 1, &event_figures(event)));
}

fn event_figures(event: &Event) -> String {
    let figures = event.figures().map(|figures| format!(" ({figures})")).unwrap_or_default();
    format!("at {:.3} s, row {}: {}{figures}", event.at.as_secs_f64(), event.rows, event.summary())
}

fn line(text: &mut String, indent: usize, line: &str) {
    writeln!(text, "{}{line}", "  ".repeat(indent)).expect("strings take all text");
}
