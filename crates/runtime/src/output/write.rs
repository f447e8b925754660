//! How a worker writes what waits in front of a sink.

use std::sync::PoisonError;

use crate::error::RunError;
use crate::graph::NodeRef;
use crate::output::outlet::Outlet;
use crate::output::sink::SinkError;
use crate::scheduler::buffers::{BATCHES_AT_ONCE_MAX, TaskBuffers};
use crate::scheduler::statistics::TASK_NS_MAX;
use crate::scheduler::task::Worker;
use crate::scheduler::wake::Seen;
use crate::state::{State, Stop};
use crate::sync::MutexGuard;

impl Worker<'_> {
    /// Writes what waits, as much as a task has time for. A sink without room is left until there was another event.
    pub fn write(&mut self, sink: usize) {
        let shared = self.shared;
        let until_ns = self.started_ns + TASK_NS_MAX as u64;
        let mut output = shared.sinks[sink].lock().unwrap_or_else(PoisonError::into_inner);
        let output = output.as_mut().expect("a sink is there until the run has ended");
        let result = loop {
            let seen = shared.waker.seen();
            let ready = output.is_ready();
            let mut state = shared.state();
            if state.stop == Stop::Abort {
                break Ok(());
            }
            let wants_end = state.sinks[sink].wants_end(state.holds_ends);
            if state.sinks[sink].queue.is_empty() && !wants_end {
                match self.write_nothing(state, sink, output, (ready, seen)) {
                    Some(result) => break result,
                    None => continue,
                }
            }
            let node = &mut state.sinks[sink];
            if !ready {
                node.blocked_at = Some(seen.outside);
                break Ok(());
            }
            if node.queue.is_empty() {
                drop(state);
                break self.end(sink, output, seen);
            }
            let count = node.queue.len().min(BATCHES_AT_ONCE_MAX);
            self.buffers.written.extend(node.queue.take(count));
            node.unflushed |= self.buffers.written.iter().any(|(batch, _)| batch.num_rows() > 0);
            drop(state);
            let (written, result) = self.write_batches(output, until_ns);
            let result = result.and_then(|()| self.charge_sorted(sink, output));
            let node = &mut shared.state().sinks[sink];
            node.rows += written;
            let TaskBuffers { written: unwritten, written_at_ns, marked_at_ns, .. } = &mut *self.buffers;
            written_at_ns.drain(..).for_each(|(origin, at_ns)| node.results.record(origin, at_ns, &shared.clock));
            marked_at_ns.drain(..).for_each(|(origin, at_ns)| node.marks.record(origin, at_ns, &shared.clock));
            unwritten.drain(..).rev().for_each(|batch| node.queue.push_front(batch));
            if output.is_satisfied() {
                node.close();
            }
            if result.is_err() || shared.clock.nanos() >= until_ns {
                break result;
            }
        };
        let mut state = shared.state();
        state.sinks[sink].flush_ns =
            output.flush_again().map(|wait| shared.clock.nanos().saturating_add(wait.as_nanos() as u64));
        state.sinks[sink].writing = false;
        if let Err(error) = result {
            state.sinks[sink].close();
            state.sinks[sink].ended = true;
            state.fail(RunError::Sink { sink: shared.graph.sinks[sink].name.clone(), error });
        }
    }

    /// Tells a sink for which no rows wait how far time has come, or flushes it; `None` where there may be more to do.
    fn write_nothing(
        &self,
        mut state: MutexGuard<'_, State>,
        sink: usize,
        output: &mut Outlet,
        (is_ready, seen): (bool, Seen),
    ) -> Option<Result<(), SinkError>> {
        let node = &mut state.sinks[sink];
        if let Some(watermark) = node.untold.filter(|_| node.passing == 0) {
            if !is_ready {
                node.blocked_at = Some(seen.outside);
                return Some(Ok(()));
            }
            node.untold = None;
            drop(state);
            output.advance(watermark);
            return None;
        }
        if !node.must_flush(self.shared.clock.nanos()) {
            return Some(Ok(()));
        }
        // What the sink has taken and not written yet would be lost with a run that fails.
        let is_settled = output.is_settled();
        node.unflushed = !is_settled;
        node.blocked_at = (!is_settled).then_some(seen.outside);
        drop(state);
        Some(output.flush())
    }

    /// Passes a part of what was put in order on, or, where nothing is left of that, ends the output, as soon as nobody has to be waited for.
    fn end(&self, sink: usize, output: &mut Outlet, seen: Seen) -> Result<(), SinkError> {
        let passed = output.pass_sorted()?;
        let is_settled = passed.is_some() || output.is_settled();
        let mut state = self.shared.state();
        let node = &mut state.sinks[sink];
        node.rows += passed.unwrap_or_default() as u64;
        if !is_settled {
            node.blocked_at = Some(seen.outside);
        }
        let is_held = state.holds_ends && passed.is_none() && is_settled;
        state.sinks[sink].at_end |= is_held;
        drop(state);
        if passed.is_some() || !is_settled || is_held {
            return Ok(());
        }
        output.advance(self.shared.unchanged_state().watermark_of_sink(sink));
        let finished = output.finish();
        self.shared.state().sinks[sink].ended = true;
        finished
    }

    /// Charges rows that wait for the end of the input to be put in order.
    fn charge_sorted(&self, sink: usize, outlet: &Outlet) -> Result<(), SinkError> {
        let Some(bytes) = outlet.bytes_sorted() else { return Ok(()) };
        let operator = self.shared.accounted(NodeRef::Sink(sink));
        let charged = self.shared.account.charge_sorted(operator, &self.shared.clock, || bytes);
        charged.map_err(|error| SinkError { place: "ORDER BY".to_string(), problem: error.to_string() })
    }

    /// Writes the batches that were taken, from the front, as long as there is time and the outlet is ready and wants rows, and notes when each was
    /// written. Returns the rows that went on to its sink.
    fn write_batches(&mut self, outlet: &mut Outlet, until_ns: u64) -> (u64, Result<(), SinkError>) {
        let mut rows = 0;
        while outlet.is_ready() && !outlet.is_satisfied() {
            let Some((batch, origin)) = self.buffers.written.pop_front() else { break };
            if batch.num_rows() == 0 {
                self.buffers.marked_at_ns.push((origin, self.shared.clock.nanos()));
                continue;
            }
            match outlet.write(batch) {
                Ok(written) => rows += written as u64,
                Err(error) => return (rows, Err(error)),
            }
            let now_ns = self.shared.clock.nanos();
            self.buffers.written_at_ns.push((origin, now_ns));
            if now_ns >= until_ns {
                break;
            }
        }
        (rows, Ok(()))
    }
}
