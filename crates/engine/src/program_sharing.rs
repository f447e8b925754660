//! What a program shares with others.

use std::sync::Arc;

use crate::shared_aggregations::Sharing;
use crate::shared_joins::{JoinProducer, RunsAlone};

/// What a program shares with queries that run, or may share with those that are added later.
#[derive(Default)]
pub(crate) struct ProgramSharing {
    /// Of each source.
    pub aggregations: Vec<Option<Sharing>>,
    /// Where it is a join that it runs itself.
    pub runs_alone: Option<Arc<RunsAlone>>,
    /// Where it reads the pairs of a join.
    pub producer: Option<Arc<JoinProducer>>,
}

/// The same of one source.
#[derive(Clone, Copy, Default)]
pub(crate) struct SourceSharing<'a> {
    pub aggregation: Option<&'a Sharing>,
    pub runs_alone: Option<&'a Arc<RunsAlone>>,
    pub producer: Option<&'a Arc<JoinProducer>>,
}

impl ProgramSharing {
    /// Source by source, without an end.
    pub fn of_sources(&self) -> impl Iterator<Item = SourceSharing<'_>> {
        let aggregations = self.aggregations.iter().map(Option::as_ref).chain(std::iter::repeat(None));
        aggregations.map(|aggregation| SourceSharing {
            aggregation,
            runs_alone: self.runs_alone.as_ref(),
            producer: self.producer.as_ref(),
        })
    }

    /// The same of a program that shares nothing yet, and others may share with.
    pub fn not_yet(self) -> ProgramSharing {
        let not_yet = |sharing: Option<Sharing>| sharing.map(|sharing| Sharing { is_member: false, ..sharing });
        let aggregations = self.aggregations.into_iter().map(not_yet).collect();
        ProgramSharing { aggregations, producer: None, ..self }
    }
}
