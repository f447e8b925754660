//! What a sink connector implements.

use std::time::Duration;

use arrow::array::RecordBatch;
use pelton_data::Micros;

/// One output of a query. Called by one worker at a time, in the order of the output.
pub trait Sink: Send {
    /// Whether [`Sink::write`] can be called now. While it says no, the pipelines that feed it wait; whoever makes room
    /// must wake the engine.
    fn is_ready(&self) -> bool {
        true
    }

    /// Whether [`Sink::finish`] can be called now without waiting for anyone. As [`Sink::is_ready`], it is asked again when the engine is woken.
    fn is_settled(&self) -> bool {
        true
    }

    /// What people should know about where rows go, such as files that an earlier run has left there. Asked once, before the first row.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }

    /// Takes rows.
    ///
    /// # Errors
    /// [`SinkError`]; the query stops.
    fn write(&mut self, rows: &RecordBatch) -> Result<(), SinkError>;

    /// As [`Sink::write`], of rows that nobody else needs.
    ///
    /// # Errors
    /// As [`Sink::write`].
    fn take(&mut self, rows: RecordBatch) -> Result<(), SinkError> {
        self.write(&rows)
    }

    /// Makes all rows taken so far visible to others. Called when the input is idle, and before the end.
    ///
    /// # Errors
    /// [`SinkError`]; the query stops.
    fn flush(&mut self) -> Result<(), SinkError>;

    /// How long from now [`Sink::flush`] is called once more, also where no rows come; `None` where it need not be.
    fn flush_again(&self) -> Option<Duration> {
        None
    }

    /// Says how far the event time of its rows has come, in front of [`Sink::prepare`] and [`Sink::finish`]: the largest time where all of them have come.
    fn advance(&mut self, _watermark: Micros) {}

    /// Whether it is told so whenever time has come further with results of an operator, behind the rows before, and where none have come as well.
    fn follows_time(&self) -> bool {
        false
    }

    /// Why there is no checkpoint before the last row, where there is none.
    fn unprepared(&self) -> Option<String> {
        None
    }

    /// Ends what was taken since the last cut: these rows are durable afterwards, and the value, kept in the checkpoint, is what [`Sink::commit`] makes them
    /// visible by. `None` where they are visible already, or there are none: such rows may be written again after a failure (at least once).
    ///
    /// # Errors
    /// [`SinkError`]; the query stops.
    fn prepare(&mut self) -> Result<Option<String>, SinkError> {
        self.flush().map(|()| None)
    }

    /// As [`Sink::prepare`], behind the last row of all.
    ///
    /// # Errors
    /// As [`Sink::prepare`].
    fn prepare_end(&mut self) -> Result<Option<String>, SinkError> {
        self.prepare()
    }

    /// Makes rows visible that were prepared, once the checkpoint is durable. Rows may have been taken meanwhile, which stay as they are. A job that goes on from a
    /// checkpoint commits that once more: what is visible already stays so.
    ///
    /// # Errors
    /// [`SinkError`]; the query stops.
    fn commit(&mut self, _prepared: &str) -> Result<(), SinkError> {
        Ok(())
    }

    /// Removes what an earlier run of the job has written behind the checkpoint that this one goes on from, before the first row and behind
    /// [`Sink::commit`] of all sinks.
    ///
    /// # Errors
    /// [`SinkError`]; the query does not start.
    fn recover(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    /// Ends the output after its last row. Not called where the query failed.
    ///
    /// # Errors
    /// [`SinkError`]; the query reports it.
    fn finish(&mut self) -> Result<(), SinkError>;
}

/// Why a sink stopped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct SinkError {
    /// File or other destination.
    pub place: String,
    /// What happened.
    pub problem: String,
}
