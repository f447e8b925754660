//! Blocks and batches on their way to those who read a stream.

use std::sync::Arc;

use arrow::array::RecordBatch;
use pelton_data::{Block, Origin, Stamp, TimeColumn};

use crate::data_passing::Item;
use crate::error::RunError;
use crate::graph::StreamRef;
use crate::state::consumers::Consumers;
use crate::state::{State, TargetState};

impl State {
    /// Says to those that read results that time has come so far.
    pub fn deliver_punctuation(&mut self, stream: StreamRef, stamp: Stamp) {
        let schema = Arc::new(arrow::datatypes::Schema::empty());
        self.deliver_one(stream, Block::punctuation(schema, stamp));
    }

    pub fn deliver_batch(&mut self, stream: StreamRef, batch: RecordBatch, time: Option<TimeColumn>, stamp: Stamp) {
        let consumers = self.consumers(stream).clone();
        if consumers.pipelines.is_empty() {
            return self.deliver_to_sinks(&consumers, batch, stamp.origin());
        }
        match Block::new(batch, time) {
            Ok(mut block) => {
                block.stamp = stamp;
                self.deliver_one(stream, block);
            }
            Err(error) => self.fail(RunError::Internal(format!("a result does not fit a block: {error}"))),
        }
    }

    pub fn deliver_one(&mut self, stream: StreamRef, block: Block) {
        let mut one = std::mem::take(&mut self.emptied.one);
        one.push(block);
        self.deliver(stream, &mut one);
        self.emptied.one = one;
    }

    /// Hands blocks to all who read them, which leaves the list empty.
    pub fn deliver(&mut self, stream: StreamRef, blocks: &mut Vec<Block>) {
        let consumers = self.consumers(stream).clone();
        if !consumers.sinks.is_empty() {
            for block in blocks.iter().filter(|block| block.rows() > 0) {
                self.deliver_to_sinks(&consumers, block.to_record_batch(), block.stamp.origin());
            }
        }
        if blocks.iter().any(|block| !block.stamp.is_idle) {
            consumers.pipelines.iter().for_each(|&pipeline| self.wake(pipeline));
        }
        for block in blocks.drain(..) {
            hand_to_each(&consumers.pipelines, block, |pipeline, block| {
                let node = &mut self.pipelines[pipeline];
                let position = node.order.hand_out();
                match self.passing.get_mut(pipeline) {
                    Some(passing) => passing.push(Item::Block(position, block)),
                    None => node.queue.push_back((position, block)),
                }
            });
        }
    }

    /// Lets what a pipeline feeds, directly or through others, wait for it, now that there is a block: it may be behind what others have come to.
    fn wake(&mut self, pipeline: usize) {
        match self.pipelines[pipeline].target {
            TargetState::Stream { .. } => self.wake_consumers(StreamRef::Pipeline(pipeline)),
            TargetState::Operator { operator, port } => self.wake_operator(operator, port),
        }
    }

    /// Lets an operator wait for what comes to a port, and all behind it for the operator.
    pub fn wake_operator(&mut self, operator: usize, port: usize) {
        if self.operators[operator].inputs.wake(port) {
            self.wake_consumers(StreamRef::Operator(operator));
        }
    }

    fn wake_consumers(&mut self, stream: StreamRef) {
        let consumers = self.consumers(stream).clone();
        consumers.pipelines.iter().for_each(|&pipeline| self.wake(pipeline));
        consumers.operators.iter().for_each(|&operator| self.wake_subscriber(operator));
    }

    /// Has the sinks of a stream note how long it takes until what comes from there has come to them, behind all that waits in front of them.
    pub fn mark_sinks(&mut self, stream: StreamRef, origin: Origin) {
        let consumers = self.consumers(stream).clone();
        for &sink in &consumers.sinks {
            let node = &self.sinks[sink];
            // Behind another one it would say nothing more, and a sink that is not ready would gather them.
            let waits = node.passing > 0 || node.queue.back().is_some_and(|(batch, _)| batch.num_rows() == 0);
            if !waits {
                self.hand_to_sink(sink, self.no_rows.clone(), origin);
            }
        }
    }

    fn deliver_to_sinks(&mut self, consumers: &Consumers, batch: RecordBatch, origin: Origin) {
        if batch.num_rows() > 0 {
            hand_to_each(&consumers.sinks, batch, |sink, batch| self.hand_to_sink(sink, batch, origin));
        }
    }

    fn hand_to_sink(&mut self, sink: usize, batch: RecordBatch, origin: Origin) {
        let node = &mut self.sinks[sink];
        match self.passing.get_mut(self.pipelines.len() + sink) {
            _ if node.closed => {}
            Some(passing) => {
                node.passing += 1;
                passing.push(Item::Batch(batch, origin));
            }
            None => node.queue.push_back((batch, origin)),
        }
    }
}

/// Hands a value to each consumer; only where there are several is it cloned.
fn hand_to_each<T: Clone>(consumers: &[usize], value: T, mut hand: impl FnMut(usize, T)) {
    let Some((&last, others)) = consumers.split_last() else { return };
    others.iter().for_each(|&consumer| hand(consumer, value.clone()));
    hand(last, value);
}
