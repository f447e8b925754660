//! A disk in memory that loses what was not made durable.
//!
//! Bytes are durable when their file was synchronized, and names when their directory was. When power is lost, of all that was not any part may be there: bytes up to some
//! place, zeros in the place of others, and any of the changes of names.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Cursor, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pelton::simulation::{Disk, DiskFile};

use super::power::{Power, failure};
use super::{Dice, Flaw};

/// A disk. Clones are the same one.
#[derive(Clone)]
pub(super) struct SimulatedDisk {
    power: Power,
    flaw: Flaw,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    directories: BTreeMap<PathBuf, Directory>,
    /// By their numbers.
    files: BTreeMap<u64, FileState>,
    files_made: u64,
    /// Those that are locked, by whoever has them open.
    locked: BTreeSet<u64>,
}

#[derive(Default)]
struct Directory {
    /// Names and the numbers of files, as they are now,
    names: BTreeMap<String, u64>,
    /// and as they were when the directory was synchronized last.
    durable: BTreeMap<String, u64>,
    /// What has changed since, in this order.
    changes: Vec<Change>,
}

#[derive(Debug, Clone)]
enum Change {
    Made(String, u64),
    Renamed(String, String, u64),
    Removed(String),
}

#[derive(Default)]
struct FileState {
    bytes: Vec<u8>,
    durable: Vec<u8>,
}

impl Change {
    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            Change::Made(name, file) => drop(names.insert(name.clone(), *file)),
            Change::Renamed(from, to, file) => {
                names.remove(from);
                names.insert(to.clone(), *file);
            }
            Change::Removed(name) => drop(names.remove(name)),
        }
    }
}

impl Directory {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.names);
        self.changes.push(change);
    }
}

impl FileState {
    /// What is left of it.
    fn lose(&mut self, dice: &mut Dice) {
        let is_longer = self.bytes.starts_with(&self.durable);
        let left = match is_longer {
            // What was there before may be cut off, or not.
            false => dice.pick(&[&self.bytes, &self.durable]).clone(),
            true => {
                let more = self.bytes.len() - self.durable.len();
                let mut left = self.bytes[..self.durable.len() + dice.below(more + 1)].to_vec();
                if dice.one_in(3) {
                    left.resize(self.bytes.len(), 0);
                }
                left
            }
        };
        self.bytes.clone_from(&left);
        self.durable = left;
    }
}

impl fmt::Debug for SimulatedDisk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SimulatedDisk")
    }
}

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}

fn split(path: &Path) -> (&Path, String) {
    let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
    (path.parent().expect("a file is in a directory"), name)
}

impl SimulatedDisk {
    pub fn new(power: &Power, flaw: Flaw) -> SimulatedDisk {
        SimulatedDisk { power: power.clone(), flaw, state: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The names and bytes of files in a directory, which may not be there.
    pub fn files(&self, directory: &str) -> Vec<(String, Vec<u8>)> {
        let state = self.state();
        let Some(directory) = state.directories.get(Path::new(directory)) else { return Vec::new() };
        directory.names.iter().map(|(name, file)| (name.clone(), state.files[file].bytes.clone())).collect()
    }

    /// The machine has lost power.
    pub fn lose_power(&self, dice: &mut Dice) {
        let state = &mut *self.state();
        for directory in state.directories.values_mut() {
            let mut names = std::mem::take(&mut directory.durable);
            directory.changes.drain(..).filter(|_| dice.one_in(2)).for_each(|change| change.apply(&mut names));
            directory.names.clone_from(&names);
            directory.durable = names;
        }
        state.files.values_mut().for_each(|file| file.lose(dice));
    }
}

impl SimulatedDisk {
    fn opened(&self, number: u64) -> Box<dyn DiskFile> {
        self.state().locked.insert(number);
        Box::new(SimulatedFile { disk: self.clone(), number })
    }
}

impl State {
    fn directory(&mut self, path: &Path) -> io::Result<&mut Directory> {
        self.directories.get_mut(path).ok_or_else(missing)
    }

    fn file(&self, path: &Path) -> io::Result<u64> {
        let (directory, name) = split(path);
        let directory = self.directories.get(directory).ok_or_else(missing)?;
        directory.names.get(&name).copied().ok_or_else(missing)
    }
}

impl Disk for SimulatedDisk {
    fn make_directory(&self, path: &Path) -> io::Result<()> {
        let outcome = self.power.outcome();
        if outcome.has_effect() {
            self.state().directories.entry(path.to_owned()).or_default();
        }
        outcome.told(())
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<String>> {
        self.power.reads()?;
        Ok(self.state().directory(directory)?.names.keys().cloned().collect())
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        self.power.reads()?;
        let state = self.state();
        Ok(Box::new(Cursor::new(state.files[&state.file(path)?].bytes.clone())))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let outcome = self.power.outcome();
        let mut state = self.state();
        let number = state.files_made;
        if outcome.has_effect() {
            let (directory, name) = split(path);
            state.directory(directory)?.change(Change::Made(name, number));
            state.files.insert(number, FileState::default());
            state.files_made += 1;
        }
        drop(state);
        outcome.told(number)?;
        Ok(self.opened(number))
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let found = self.state().file(path);
        match found {
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(_) => self.create(path),
        }
    }

    fn reopen(&self, path: &Path, bytes: u64) -> io::Result<Box<dyn DiskFile>> {
        let outcome = self.power.outcome();
        let mut state = self.state();
        let number = state.file(path)?;
        let file = state.files.get_mut(&number).expect("it was made");
        if (file.bytes.len() as u64) < bytes {
            return Err(io::Error::other("bytes are gone that a checkpoint counts on"));
        }
        if outcome.has_effect() {
            file.bytes.truncate(bytes as usize);
        }
        drop(state);
        outcome.told(number)?;
        Ok(self.opened(number))
    }

    fn is_left_behind(&self, path: &Path) -> bool {
        let state = self.state();
        state.file(path).is_ok_and(|file| !state.locked.contains(&file))
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        self.power.reads()?;
        let state = self.state();
        Ok(state.files[&state.file(path)?].bytes.len() as u64)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let outcome = self.power.outcome();
        let mut state = self.state();
        let file = state.file(from)?;
        if outcome.has_effect() {
            let ((directory, from), (same, to)) = (split(from), split(to));
            assert_eq!(directory, same, "a file stays in its directory");
            state.directory(directory)?.change(Change::Renamed(from, to, file));
        }
        outcome.told(())
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let outcome = self.power.outcome();
        let mut state = self.state();
        let file = state.file(from)?;
        if state.file(to).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if outcome.has_effect() {
            let (directory, name) = split(to);
            state.directory(directory)?.change(Change::Made(name, file));
        }
        outcome.told(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let outcome = self.power.outcome();
        let mut state = self.state();
        state.file(path)?;
        if outcome.has_effect() {
            let (directory, name) = split(path);
            state.directory(directory)?.change(Change::Removed(name));
        }
        outcome.told(())
    }

    fn sync_names(&self, directory: &Path) -> io::Result<()> {
        let outcome = self.power.outcome();
        let mut state = self.state();
        let directory = state.directory(directory)?;
        if outcome.has_effect() && self.flaw != Flaw::NamesAreNotSynchronized {
            directory.durable.clone_from(&directory.names);
            directory.changes.clear();
        }
        outcome.told(())
    }
}

/// A file that is written.
struct SimulatedFile {
    disk: SimulatedDisk,
    number: u64,
}

impl Write for SimulatedFile {
    /// What fails may have written a part.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.disk.power.is_off() {
            return Err(failure());
        }
        let outcome = self.disk.power.outcome();
        let count = if outcome.has_effect() { bytes.len() } else { self.disk.power.below(bytes.len() + 1) };
        let mut state = self.disk.state();
        let file = state.files.get_mut(&self.number).expect("it was made");
        file.bytes.extend(&bytes[..count]);
        outcome.told(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl DiskFile for SimulatedFile {
    fn sync(&self) -> io::Result<()> {
        let outcome = self.disk.power.outcome();
        if outcome.has_effect() && self.disk.flaw != Flaw::BytesAreNotSynchronized {
            let mut state = self.disk.state();
            let file = state.files.get_mut(&self.number).expect("it was made");
            file.durable.clone_from(&file.bytes);
        }
        outcome.told(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.disk.state().files[&self.number].bytes.len() as u64)
    }
}

impl Drop for SimulatedFile {
    fn drop(&mut self) {
        self.disk.state().locked.remove(&self.number);
    }
}
