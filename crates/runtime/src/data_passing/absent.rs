//! What stands in the place of queues of events where the feature `queues` is off: there are none, and rows pass as blocks.

use std::convert::Infallible;

use arrow::array::RecordBatch;
use pelton_data::{Block, Origin};

use crate::graph::{Graph, NodeRef};
use crate::scheduler::task::Worker;

/// What a stream passes to the operators that read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DataPassing {
    /// Blocks of columns.
    #[default]
    Blocks,
}

/// What would pass.
pub(crate) enum Item {
    Block(
        #[expect(dead_code, reason = "no queue takes it")] u64,
        #[expect(dead_code, reason = "no queue takes it")] Block,
    ),
    Batch(
        #[expect(dead_code, reason = "no queue takes it")] RecordBatch,
        #[expect(dead_code, reason = "no queue takes it")] Origin,
    ),
}

/// A queue. No value of this type exists.
pub(crate) struct Passing {
    pub from: NodeRef,
    pub to: NodeRef,
    pub sending: bool,
    pub receiving: bool,
    never: Infallible,
}

/// Its ends.
pub(crate) struct Link(Infallible);

impl DataPassing {
    /// The queues of a graph.
    pub(crate) fn queues(self, _graph: &Graph) -> Vec<Passing> {
        Vec::new()
    }
}

impl Passing {
    pub fn push(&mut self, _item: Item) {
        match self.never {}
    }

    pub fn can_send(&self) -> bool {
        match self.never {}
    }

    pub fn can_receive(&self) -> bool {
        match self.never {}
    }

    pub fn waiting(&self) -> (u64, u64) {
        match self.never {}
    }

    pub fn bytes(&self) -> usize {
        match self.never {}
    }
}

impl Link {
    pub fn new(passing: &Passing) -> Link {
        match passing.never {}
    }
}

impl Worker<'_> {
    pub fn send(&self, link: usize) {
        match self.shared.links[link].0 {}
    }

    pub fn receive(&self, link: usize) {
        match self.shared.links[link].0 {}
    }
}
