//! The file system of this machine, as far as checkpoints and files of rows depend on what outlives a crash.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek as _, SeekFrom, Write};
use std::path::Path;
use std::thread;
use std::time::Duration;

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

    /// Opens a file to read it.
    ///
    /// # Errors
    /// Where it is not there, or cannot be read.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>>;

    /// Makes an empty file, in the place of one that is there. Its name may be lost before [`Disk::sync_names`], as those that [`Disk::rename`] and [`Disk::remove`] change.
    ///
    /// # Errors
    /// Where it cannot be made.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Makes an empty file that is not there, and locks it as long as it is open.
    ///
    /// # Errors
    /// Where it is there ([`io::ErrorKind::AlreadyExists`]), or cannot be made.
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Opens a file of which so many bytes count, to write behind these, and locks it as long as it is open.
    ///
    /// # Errors
    /// Where it is not there, has fewer bytes, or cannot be opened.
    fn reopen(&self, path: &Path, bytes: u64) -> io::Result<Box<dyn DiskFile>>;

    /// Whether a file is there that nobody has open to write it.
    fn is_left_behind(&self, path: &Path) -> bool;

    /// The bytes of a file.
    ///
    /// # Errors
    /// Where it is not there, or is no ordinary file.
    fn size(&self, path: &Path) -> io::Result<u64>;

    /// Gives a file another name in the same directory, in the place of one that has it.
    ///
    /// # Errors
    /// Where it cannot.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file a second name in the same directory.
    ///
    /// # Errors
    /// Where that is taken ([`io::ErrorKind::AlreadyExists`]), or cannot be given.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

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

    /// Its bytes.
    ///
    /// # Errors
    /// Where these are not known.
    fn size(&self) -> io::Result<u64>;
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

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(File::open(path)?))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(File::create(path)?))
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        lock(&file);
        Ok(Box::new(file))
    }

    fn reopen(&self, path: &Path, bytes: u64) -> io::Result<Box<dyn DiskFile>> {
        let mut file = OpenOptions::new().write(true).open(path)?;
        lock(&file);
        if file.metadata()?.len() < bytes {
            return Err(io::Error::other(format!("has fewer than the {bytes} bytes that a checkpoint counts on")));
        }
        file.set_len(bytes)?;
        file.seek(SeekFrom::End(0))?;
        Ok(Box::new(file))
    }

    fn is_left_behind(&self, path: &Path) -> bool {
        File::open(path).is_ok_and(|file| file.try_lock().is_ok())
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        let metadata = fs::metadata(path)?;
        if metadata.is_file() { Ok(metadata.len()) } else { Err(io::Error::other("is no ordinary file")) }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
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

    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

/// Locks a file as long as it is open, also where its process is killed. A file system without locks has no file that is known to be left behind.
fn lock(file: &File) {
    for _ in 0..LOCK_ATTEMPTS_MAX {
        match file.try_lock() {
            // Another writer holds the lock for the moment in which it looks whether the file was left behind.
            Err(TryLockError::WouldBlock) => thread::sleep(LOCK_PAUSE),
            Ok(()) | Err(TryLockError::Error(_)) => return,
        }
    }
}

/// How often a lock is tried that another writer holds for a moment, and how long is waited between.
const LOCK_ATTEMPTS_MAX: usize = 1_000;
const LOCK_PAUSE: Duration = Duration::from_millis(1);
