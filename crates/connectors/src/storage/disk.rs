//! The file system of this machine, as far as checkpoints and files of rows depend on what outlives a crash.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// A file system. A simulation has one that loses what was not made durable.
pub trait Disk: fmt::Debug + Send + Sync {
    /// Makes a directory and those above it where they are not there. When this returns they cannot be lost.
    ///
    /// # Errors
    /// Where they cannot be made.
    fn make_directory(&self, path: &Path) -> io::Result<()>;

    /// The names of what is in a directory.
    ///
    /// # Errors
    /// Where it is not there, or cannot be read.
    fn names(&self, directory: &Path) -> io::Result<Vec<String>>;

    /// All bytes of a file.
    ///
    /// # Errors
    /// Where it is not there, or cannot be read.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Makes an empty file, in the place of one that is there. Its name may be lost before [`Disk::sync_names`], as those that [`Disk::rename`] and [`Disk::remove`] change.
    ///
    /// # Errors
    /// Where it cannot be made.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Gives a file another name in the same directory, in the place of one that has it.
    ///
    /// # Errors
    /// Where it cannot.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// Where it is not there, or cannot be removed.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// Where that fails.
    fn sync_names(&self, directory: &Path) -> io::Result<()>;
}

/// A file that is written.
pub trait DiskFile: Write + Send {
    /// Makes its bytes durable, but not its name.
    ///
    /// # Errors
    /// Where that fails.
    fn sync(&self) -> io::Result<()>;
}

/// That of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct LocalDisk;

impl Disk for LocalDisk {
    fn make_directory(&self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        let parent = path.parent().map(|parent| if parent.as_os_str().is_empty() { Path::new(".") } else { parent });
        if let Some(parent) = parent {
            self.make_directory(parent)?;
        }
        match fs::create_dir(path) {
            // Somebody else may have made it, and not synchronized it yet.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists || !path.is_dir() => return Err(error),
            _ => {}
        }
        parent.map_or(Ok(()), |parent| self.sync_names(parent))
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<String>> {
        fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(File::create(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_names(&self, directory: &Path) -> io::Result<()> {
        // Elsewhere than on Unix a directory cannot be opened as a file, and its names are durable with the files.
        if cfg!(unix) { File::open(directory)?.sync_all() } else { Ok(()) }
    }
}

impl DiskFile for File {
    fn sync(&self) -> io::Result<()> {
        self.sync_all()
    }
}
