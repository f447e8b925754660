//! Where checkpoints are kept: named values, each written once.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pelton_connectors::{Disk, ObjectDirectory};

/// Names that are being written begin with this.
const UNFINISHED: &str = ".unfinished-";

/// Where the checkpoints of a job are kept. Names are of letters, digits, `-` and `.`.
pub trait CheckpointStore: Send + Sync {
    /// Writes a value. When this returns it cannot be lost; before that it is not there.
    ///
    /// # Errors
    /// Where it cannot be written.
    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Reads a value.
    ///
    /// # Errors
    /// Where it is not there, or cannot be read.
    fn get(&self, name: &str) -> io::Result<Vec<u8>>;

    /// The names of all values.
    ///
    /// # Errors
    /// Where they cannot be read.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Removes values, which may not be there. When this returns they do not come back.
    ///
    /// # Errors
    /// Where one cannot be removed.
    fn remove(&self, names: &[String]) -> io::Result<()>;

    /// What people call it.
    fn place(&self) -> String;
}

/// A directory of the local file system.
#[derive(Debug)]
pub(crate) struct LocalStore {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
}

impl LocalStore {
    /// In a directory, which is made where it is not there.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub fn open(disk: Arc<dyn Disk>, directory: &Path) -> io::Result<LocalStore> {
        disk.make_directory(directory)?;
        // Those that a process was writing when it was killed.
        for name in disk.names(directory)?.iter().filter(|name| name.starts_with(UNFINISHED)) {
            disk.remove(&directory.join(name))?;
        }
        // Whoever goes on from what is there must find it again, also where the process that wrote or removed it did not come to this.
        disk.sync_names(directory)?;
        Ok(LocalStore { disk, directory: directory.to_owned() })
    }
}

impl CheckpointStore for LocalStore {
    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let unfinished = self.directory.join(format!("{UNFINISHED}{name}"));
        let written = (|| {
            let mut file = self.disk.create(&unfinished)?;
            file.write_all(bytes)?;
            file.sync()?;
            drop(file);
            self.disk.rename(&unfinished, &self.directory.join(name))?;
            self.disk.sync_names(&self.directory)
        })();
        if written.is_err() {
            // A disk that is full has room again.
            let _ = self.disk.remove(&unfinished);
        }
        written
    }

    fn get(&self, name: &str) -> io::Result<Vec<u8>> {
        let path = self.directory.join(name);
        let mut bytes = Vec::with_capacity(self.disk.size(&path)? as usize);
        self.disk.open(&path)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let names = self.disk.names(&self.directory)?;
        Ok(names.into_iter().filter(|name| !name.starts_with('.')).collect())
    }

    fn remove(&self, names: &[String]) -> io::Result<()> {
        for name in names {
            match self.disk.remove(&self.directory.join(name)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed?,
            }
        }
        if names.is_empty() { Ok(()) } else { self.disk.sync_names(&self.directory) }
    }

    fn place(&self) -> String {
        self.directory.display().to_string()
    }
}

impl CheckpointStore for ObjectDirectory {
    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.put(name, bytes)
    }

    fn get(&self, name: &str) -> io::Result<Vec<u8>> {
        self.get(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.list()
    }

    fn remove(&self, names: &[String]) -> io::Result<()> {
        names.iter().try_for_each(|name| self.remove(name))
    }

    fn place(&self) -> String {
        self.place()
    }
}
