//! How a worker hands events on, and takes them.

use std::sync::PoisonError;

use super::records::Records;
use super::{Item, Link};
use crate::error::RunError;
use crate::scheduler::task::Worker;
use crate::state::State;

impl Worker<'_> {
    /// Hands on the rows of one block or batch, as far as there is room.
    pub fn send(&self, link: usize) {
        let shared = self.shared;
        let Link { sending, count, to, .. } = &shared.links[link];
        let mut sending = sending.lock().unwrap_or_else(PoisonError::into_inner);
        let (records, first) = sending.unfinished.take().unwrap_or_else(|| {
            let item = shared.state().passing[link].begin();
            (Records::of(&item.batch()), 0)
        });
        let noted = |events| {
            if count.come(events) {
                shared.progressed(std::iter::once(*to));
            }
        };
        count.come(sending.send(records, first, noted));
        let mut state = shared.state();
        let node = &mut state.passing[link];
        node.is_unfinished = sending.unfinished.is_some();
        node.sending = false;
    }

    /// Takes events, and puts a block or a batch together if all of its rows have come.
    pub fn receive(&self, link: usize) {
        let shared = self.shared;
        let Link { receiving, count, from, .. } = &shared.links[link];
        let mut receiving = receiving.lock().unwrap_or_else(PoisonError::into_inner);
        let noted = |events| {
            if count.gone(events) {
                shared.progressed(std::iter::once(*from));
            }
        };
        let (events, is_complete) = receiving.receive(noted);
        count.gone(events);
        let item = is_complete.then(|| shared.state().passing[link].sent.pop_front()).flatten();
        let arrived = item.map(|item| item.arrived(&receiving.bytes, receiving.rows));
        if is_complete {
            receiving.rows = 0;
            receiving.bytes.clear();
        }
        let mut state = shared.state();
        state.passing[link].receiving = false;
        match arrived {
            None => {}
            Some(Ok(item)) => state.arrived(link, item),
            Some(Err(error)) => state.fail(RunError::Internal(format!("rows have not arrived as they left: {error}"))),
        }
    }
}

impl State {
    /// Keeps what has arrived in front of its pipeline or sink.
    fn arrived(&mut self, link: usize, item: Item) {
        match item {
            Item::Block(position, block) => self.pipelines[link].queue.push_back((position, block)),
            Item::Batch(rows, origin) => {
                let node = &mut self.sinks[link - self.pipelines.len()];
                node.passing -= 1;
                if !node.closed {
                    node.queue.push_back((rows, origin));
                }
            }
        }
    }
}
