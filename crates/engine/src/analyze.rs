//! What `EXPLAIN ANALYZE` says: what the operators of a query did and cost, or, `VERBOSE`, what became of the code of its pipelines while it ran.

use std::fmt::Write;

use pelton_runtime::adapt::story::{Event, Story};
use pelton_runtime::progress::Progress;

use crate::display::cut;
use crate::error::Error;
use crate::query::{NamedStories, Query};

/// Waits for a query's end, drops its rows, and says what it cost, or what became of its code.
pub(crate) fn to_its_end(query: Query, is_verbose: bool) -> Result<String, Error> {
    let stories = query.stories().to_vec();
    match query.wait() {
        Ok(_) if is_verbose => Ok(text(&stories)),
        Ok(summary) => Ok(operators(summary.run())),
        Err(Error::Run(error)) => {
            let story = if is_verbose { text(&stories) } else { pipelines(&stories) };
            Err(Error::Analyzed { error, story })
        }
        Err(other) => Err(other),
    }
}

/// Characters of an operator's name that are shown at most.
const NAME_MAX: usize = 44;

/// What each operator of a query did and cost, and what was left out.
fn operators(summary: &Progress) -> String {
    let mut text = format!("== operators, in {:.3} s ==\n", summary.elapsed.as_secs_f64());
    let mut row = |[name, rows_in, rows_out, busy, state]: [&str; 5]| {
        line(&mut text, 0, &format!("{name:<NAME_MAX$}{rows_in:>13}{rows_out:>13}{busy:>12}{state:>14}"));
    };
    row(["operator", "rows in", "rows out", "busy ms", "state bytes"]);
    for operator in &summary.operators {
        let busy = format!("{:.1}", operator.busy.as_secs_f64() * 1e3);
        let [rows_in, rows_out, state] =
            [operator.rows_in, operator.rows_out, operator.state_bytes].map(|number| number.to_string());
        row([&cut(&operator.name, NAME_MAX - 1), &rows_in, &rows_out, &busy, &state]);
    }
    let late = summary.late_rows();
    if late > 0 {
        line(&mut text, 0, &format!("{late} rows came late and were left out"));
    }
    text
}

/// How many rows the pipelines of a query computed, and how.
pub(crate) fn pipelines(stories: &[NamedStories]) -> String {
    let mut text = "== pipelines ==\n".to_owned();
    for (name, stories) in stories {
        let story = stories.read();
        let (rows, blocks) = rows_and_blocks(&story);
        line(&mut text, 0, &format!("{}: {}", cut(name, NAME_MAX), story.stage));
        line(&mut text, 1, &format!("{rows} rows in {blocks} blocks"));
    }
    text
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
    let (rows, blocks) = rows_and_blocks(story);
    line(text, 0, &format!("{name}: {rows} rows in {blocks} blocks"));
    story.variants.iter().for_each(|variant| line(text, 1, &variant.figures()));
    story.keys_figures().iter().for_each(|figures| line(text, 1, figures));
    story.events.iter().for_each(|event| line(text, 1, &event_figures(event)));
}

/// What the pipeline has computed.
fn rows_and_blocks(story: &Story) -> (u64, u64) {
    story.variants.iter().fold((0, 0), |(rows, blocks), variant| (rows + variant.rows, blocks + variant.blocks))
}

fn event_figures(event: &Event) -> String {
    let figures = event.figures().map(|figures| format!(" ({figures})")).unwrap_or_default();
    format!("at {:.3} s, row {}: {}{figures}", event.at.as_secs_f64(), event.rows, event.summary())
}

fn line(text: &mut String, indent: usize, line: &str) {
    writeln!(text, "{}{line}", "  ".repeat(indent)).expect("strings take all text");
}
