//! Snapshots of a run's operators.
//!
//! Checkpoints will take them at a barrier behind a block of every source, when all blocks before it have been computed, and recovery will give them to a
//! run of the same graph before its first block. Neither is there yet: tests ask for them, and let runs go on with state that is made anew, or that another run had.

use pelton_data::Micros;
use pelton_state::over::OverRows;
use pelton_state::slice::SliceStore;
pub use pelton_state::snapshot::SnapshotError;
use pelton_state::snapshot::{restore, take};
use pelton_state::window::{Open, WindowState};

use crate::over::no_over_rows;
use crate::run::{RunHandle, Shared, open_windows};
use crate::slices::{WorkerSlices, slice_store};
use crate::sync::MutexGuard;

/// An operator that has state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatefulOperator {
    /// `Graph::windows[i]`: slices and windows, sessions, counted rows or first rows.
    Window(usize),
    /// `Graph::overs[i]`.
    Over(usize),
}

/// What is there of a window, while nobody else has access to it.
struct HeldWindow<'a> {
    open: MutexGuard<'a, Open>,
    workers: &'a [WorkerSlices],
    stores: Vec<MutexGuard<'a, SliceStore>>,
}

impl RunHandle {
    /// The operators that have state.
    pub fn stateful_operators(&self) -> impl Iterator<Item = StatefulOperator> {
        let windows = (0..self.0.graph.windows.len()).map(StatefulOperator::Window);
        windows.chain((0..self.0.graph.overs.len()).map(StatefulOperator::Over))
    }

    /// The state of an operator as bytes.
    ///
    /// # Errors
    /// Where the operator is at something that must be done first, or a function of the program's own has states without a form.
    pub fn snapshot(&self, operator: StatefulOperator) -> Result<Vec<u8>, SnapshotError> {
        match operator {
            StatefulOperator::Window(window) => HeldWindow::of(&self.0, window).snapshot(),
            StatefulOperator::Over(over) => take(&*self.0.over(over)),
        }
    }

    /// Gives an operator the state that another run of the same graph had, on any number of workers. What it has is forgotten.
    ///
    /// # Errors
    /// Where the bytes are not such a state: then it keeps what it has.
    pub fn restore(&self, operator: StatefulOperator, bytes: &[u8]) -> Result<(), SnapshotError> {
        match operator {
            StatefulOperator::Window(window) => {
                let mut held = HeldWindow::of(&self.0, window);
                let dues = held.restore(&self.0, window, bytes)?;
                let reached = held.open.reached();
                drop(held);
                self.0.state().windows[window].restored(reached, dues);
                Ok(())
            }
            StatefulOperator::Over(over) => restore_over(&self.0, over, &mut self.0.over(over), bytes),
        }
    }

    /// Makes the state of an operator anew, from its snapshot, while the run goes on.
    ///
    /// # Errors
    /// As [`RunHandle::snapshot`].
    pub fn renew(&self, operator: StatefulOperator) -> Result<(), SnapshotError> {
        match operator {
            StatefulOperator::Window(window) => {
                let mut held = HeldWindow::of(&self.0, window);
                let bytes = held.snapshot()?;
                // When windows are corrected is known here.
                held.restore(&self.0, window, &bytes).map(|_| ())
            }
            StatefulOperator::Over(over) => {
                let mut rows = self.0.over(over);
                let bytes = take(&*rows)?;
                restore_over(&self.0, over, &mut rows, &bytes)
            }
        }
    }
}

fn restore_over(shared: &Shared, over: usize, rows: &mut OverRows, bytes: &[u8]) -> Result<(), SnapshotError> {
    let mut made = no_over_rows(&shared.graph.overs[over], over, &shared.targets);
    restore(&mut made, bytes)?;
    *rows = made;
    Ok(())
}

impl<'a> HeldWindow<'a> {
    fn of(shared: &'a Shared, window: usize) -> HeldWindow<'a> {
        let open = shared.open_windows(window);
        let workers = shared.slices[window].as_slice();
        HeldWindow { open, workers, stores: workers.iter().map(WorkerSlices::store).collect() }
    }

    fn snapshot(&mut self) -> Result<Vec<u8>, SnapshotError> {
        if self.open.is_reporting() {
            return Err(SnapshotError::UnderWay("windows are being reported"));
        }
        self.workers.iter().for_each(|slices| slices.hand_over(&mut self.open));
        let stores = self.stores.iter_mut().map(|store| &mut **store).collect();
        take(&WindowState { open: &mut self.open, stores })
    }

    /// Returns when windows are corrected.
    fn restore(&mut self, shared: &Shared, window: usize, bytes: &[u8]) -> Result<Vec<Micros>, SnapshotError> {
        let node = &shared.graph.windows[window];
        let mut open = open_windows(node);
        let store = |_| slice_store(node, self.workers.len() > 1);
        let mut stores: Vec<SliceStore> = self.workers.iter().map(store).collect();
        let mut made = WindowState { open: &mut open, stores: stores.iter_mut().collect() };
        restore(&mut made, bytes)?;
        let dues = made.dues();
        *self.open = open;
        for ((held, slices), store) in self.stores.iter_mut().zip(self.workers).zip(stores) {
            slices.take_over(held, store);
        }
        Ok(dues)
    }
}
