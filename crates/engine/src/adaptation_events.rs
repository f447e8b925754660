//! What happens to the code of a query's pipelines, as it happens.

use std::fmt;
use std::time::Duration;

use pelton_runtime::adapt::story::{EVENTS_MAX, Event, What};

use crate::query::NamedStories;

/// A change of the code of a pipeline.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct AdaptationEvent {
    /// The pipeline's name: number, input and target.
    pub pipeline: String,
    /// Number among the events of the pipeline, from 0.
    pub number: u64,
    /// When, since the query began.
    pub at: Duration,
    /// Rows that the pipeline had processed.
    pub rows: u64,
    /// Number of the variant of the code.
    pub variant: u64,
    /// What happened to it.
    pub kind: AdaptationKind,
    /// What the variant is specialised for, as in the names of the settings `pelton.adapt.*`; `None` for generic code.
    pub specialisation: Option<&'static str>,
    /// The event in a sentence, without times.
    pub summary: String,
    /// Figures that go with it.
    pub figures: Option<String>,
}

/// What happened to a variant of the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum AdaptationKind {
    /// Generic code runs from now on.
    Started,
    /// It runs beside the present code, to be compared with it.
    Tried,
    /// It was faster, and runs alone from now on.
    Kept,
    /// It was not faster, and runs no more.
    Undone,
    /// It runs because a setting pins it.
    Pinned,
    /// It was chosen at random, as a setting for tests asks.
    Drawn,
    /// State is specialised from now on, whatever code runs.
    Assumed,
    /// An assumption did not hold; state is generic again, and nothing was lost.
    Broken,
    /// Rows cost much more than when the code was chosen: the data has changed.
    Regressed,
}

impl fmt::Display for AdaptationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AdaptationKind::Started => "started",
            AdaptationKind::Tried => "tried",
            AdaptationKind::Kept => "kept",
            AdaptationKind::Undone => "undone",
            AdaptationKind::Pinned => "pinned",
            AdaptationKind::Drawn => "drawn",
            AdaptationKind::Assumed => "assumed",
            AdaptationKind::Broken => "broken",
            AdaptationKind::Regressed => "regressed",
        })
    }
}

impl AdaptationEvent {
    fn of(pipeline: &str, event: &Event) -> AdaptationEvent {
        let (kind, specialisation) = match &event.what {
            What::Generic { .. } => (AdaptationKind::Started, None),
            What::Tried { specialisation, .. } => (AdaptationKind::Tried, *specialisation),
            What::Kept { .. } => (AdaptationKind::Kept, None),
            What::Undone { .. } => (AdaptationKind::Undone, None),
            What::Pinned { specialisation, .. } => (AdaptationKind::Pinned, *specialisation),
            What::Drawn { specialisation } => (AdaptationKind::Drawn, *specialisation),
            What::Assumed { specialisation, .. } => (AdaptationKind::Assumed, Some(*specialisation)),
            What::Broken { specialisation } => (AdaptationKind::Broken, Some(*specialisation)),
            What::Regressed { .. } => (AdaptationKind::Regressed, None),
        };
        AdaptationEvent {
            pipeline: pipeline.to_owned(),
            number: event.number,
            at: event.at,
            rows: event.rows,
            variant: event.variant,
            kind,
            specialisation: specialisation.map(|specialisation| specialisation.name()),
            summary: event.summary(),
            figures: event.figures(),
        }
    }
}

/// Iterator over the adaptation events of a query, in the order in which they occur: [`Query::adaptation_events`](crate::Query::adaptation_events).
///
/// An iterator that has nothing more has nothing more *yet*: asked again it goes on with what has happened since. It needs neither the query nor its rows, so that
/// another thread may have it, and the last events are there when the query has ended.
///
/// The last [`AdaptationEvents::RETAINED_MAX`] events of each pipeline are retained; [`AdaptationEvents::missed`] counts older ones.
#[derive(Debug, Clone)]
pub struct AdaptationEvents {
    pipelines: Vec<Pipeline>,
    missed: u64,
}

#[derive(Debug, Clone)]
struct Pipeline {
    stories: NamedStories,
    /// The number of its next event.
    next: u64,
}

impl AdaptationEvents {
    /// Events of a pipeline that are retained.
    pub const RETAINED_MAX: usize = EVENTS_MAX;

    pub(crate) fn of(stories: &[NamedStories]) -> AdaptationEvents {
        let pipelines = stories.iter().map(|stories| Pipeline { stories: stories.clone(), next: 0 });
        AdaptationEvents { pipelines: pipelines.collect(), missed: 0 }
    }

    /// Events that were no longer retained when they were asked for.
    pub fn missed(&self) -> u64 {
        self.missed
    }
}

impl Iterator for AdaptationEvents {
    type Item = AdaptationEvent;

    fn next(&mut self) -> Option<AdaptationEvent> {
        let first =
            |(index, pipeline): (usize, &Pipeline)| Some((pipeline.stories.1.first_since(pipeline.next)?, index));
        let waiting = self.pipelines.iter().enumerate().filter_map(first);
        let (event, index) = waiting.min_by_key(|(event, _)| event.at)?;
        let pipeline = &mut self.pipelines[index];
        self.missed += event.number - pipeline.next;
        pipeline.next = event.number + 1;
        Some(AdaptationEvent::of(&pipeline.stories.0, &event))
    }
}
