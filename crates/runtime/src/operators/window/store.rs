//! The state of a window aggregation: slices of each worker, and the windows that all workers share.

use std::sync::{Arc, OnceLock, PoisonError};

use pelton_data::Micros;
use pelton_state::coalesce::CopiedGroups;
use pelton_state::slice::SliceStore;
use pelton_state::snapshot::{restore, take_into};
use pelton_state::window::{Open, WindowState};

use super::slices::WorkerSlices;
use super::{SnapshotError, WindowNode};
use crate::sync::{Mutex, MutexGuard};

/// The state of a window aggregation. Clones are the same state: slices that windows share hand it on to these.
#[derive(Clone, Default)]
pub struct WindowStore(Arc<OnceLock<Stores>>);

struct Stores {
    /// Those of each worker.
    slices: Vec<WorkerSlices>,
    /// What these were emptied into.
    open: Mutex<Open>,
    /// What copies of groups were in that have been read out.
    copied: Mutex<Vec<CopiedGroups>>,
}

/// A state, while nobody else has access to it.
pub(super) struct HeldStore<'a> {
    open: MutexGuard<'a, Open>,
    workers: &'a [WorkerSlices],
    stores: Vec<MutexGuard<'a, SliceStore>>,
}

impl WindowStore {
    /// Makes it: once.
    pub(super) fn start(&self, slices: Vec<WorkerSlices>, open: Open) {
        let stores = Stores { slices, open: Mutex::new(open), copied: Mutex::default() };
        assert!(self.0.set(stores).is_ok(), "a state is of one run");
    }

    fn stores(&self) -> &Stores {
        self.0.get().expect("the run has started")
    }

    pub(super) fn slices(&self) -> &[WorkerSlices] {
        &self.stores().slices
    }

    pub(super) fn open(&self) -> MutexGuard<'_, Open> {
        self.stores().open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn copied(&self) -> MutexGuard<'_, Vec<CopiedGroups>> {
        self.stores().copied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn hold(&self) -> HeldStore<'_> {
        let open = self.open();
        let workers = self.slices();
        HeldStore { open, workers, stores: workers.iter().map(WorkerSlices::store).collect() }
    }
}

impl HeldStore<'_> {
    pub fn reached(&self) -> Micros {
        self.open.reached()
    }

    pub fn snapshot(&mut self, into: Vec<u8>) -> Result<Vec<u8>, SnapshotError> {
        if self.open.is_reporting() {
            return Err(SnapshotError::UnderWay("windows are being reported"));
        }
        self.workers.iter().for_each(|slices| slices.hand_over(&mut self.open));
        let stores = self.stores.iter_mut().map(|store| &mut **store).collect();
        take_into(&WindowState { open: &mut self.open, stores }, into)
    }

    /// Returns when windows are corrected.
    pub fn restore(&mut self, node: &WindowNode, bytes: &[u8]) -> Result<Vec<Micros>, SnapshotError> {
        let mut open = node.no_windows();
        let store = |_| node.no_store(self.workers.len() > 1);
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
