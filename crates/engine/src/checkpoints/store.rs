//! Where checkpoints are kept: named values, each written once.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use pelton_connectors::ObjectDirectory;

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

    /// Removes a value, which may not be there.
    ///
    /// # Errors
    /// Where it cannot be removed.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// What people call it.
    fn place(&self) -> String;
}

/// A directory of the local file system.
#[derive(Debug)]
pub struct LocalStore {
    directory: PathBuf,
}

impl LocalStore {
    /// In a directory, which is made where it is not there.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub fn open(directory: &Path) -> io::Result<LocalStore> {
        fs::create_dir_all(directory)?;
        // Those that a process was writing when it was killed.
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(LocalStore { directory: directory.to_owned() })
    }

    /// Makes the names in the directory durable.
    fn sync_names(&self) -> io::Result<()> {
        // Elsewhere than on Unix a directory cannot be opened as a file, and its names are durable with the files.
        #[cfg(unix)]
        File::open(&self.directory)?.sync_all()?;
        Ok(())
    }
}

impl CheckpointStore for LocalStore {
    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let unfinished = self.directory.join(format!("{UNFINISHED}{name}"));
        let written = (|| {
            let mut file = File::create(&unfinished)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&unfinished, self.directory.join(name))?;
            self.sync_names()
        })();
        if written.is_err() {
            // A disk that is full has room again.
            let _ = fs::remove_file(&unfinished);
        }
        written
    }

    fn get(&self, name: &str) -> io::Result<Vec<u8>> {
        fs::read(self.directory.join(name))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if !name.starts_with('.') {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.directory.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
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

    fn remove(&self, name: &str) -> io::Result<()> {
        self.remove(name)
    }

    fn place(&self) -> String {
        self.place()
    }
}
