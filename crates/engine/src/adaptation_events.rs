//! What happens to the code of a query's pipelines, as it happens.

use pelton_runtime::adapt::story::Event;

use crate::query::NamedStories;

/// A change of the code of a pipeline.
#[derive(Debug, Clone)]
pub struct AdaptationEvent {
    /// The pipeline's name: number, input and target.
    pub pipeline: String,
    /// The change.
    pub event: Event,
}

/// Iterator over the adaptation events of a query, in the order in which they occur: [`Query::adaptation_events`](crate::Query::adaptation_events).
///
/// An iterator that has nothing more has nothing more *yet*: asked again it goes on with what has happened since. It needs neither the query nor its rows, so that
/// another thread may have it, and what happened last is there when the query has ended.
///
/// Of each pipeline [`EVENTS_MAX`](pelton_runtime::adapt::story::EVENTS_MAX) events wait for whoever asks; older ones make room, and are counted.
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
    pub(crate) fn of(stories: &[NamedStories]) -> AdaptationEvents {
        let pipelines = stories.iter().map(|stories| Pipeline { stories: stories.clone(), next: 0 });
        AdaptationEvents { pipelines: pipelines.collect(), missed: 0 }
    }

    /// How many events had made room for others before they were asked for.
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
        Some(AdaptationEvent { pipeline: pipeline.stories.0.clone(), event })
    }
}
