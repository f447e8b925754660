//! Snapshots: state as bytes, from which the same state is made again.
//!
//! A checkpoint asks each operator of a run for its snapshot at a cut, when nothing is under way, and recovery reads it into the operator of a run that has not begun. What is
//! written is what the state is, and not how it is kept: there are
//! no addresses in it, no places of entries and no numbers of workers, so that tables choose anew how they find their groups, and what several workers
//! had may be given to one. What groups hold is written column by column.
//!
//! Bytes begin with [`MAGIC`], the [`VERSION`] and what they are of, and end with a hash of all before. Numbers are little-endian. Whoever reads
//! checks each length against the bytes that are left before memory is asked for, and each number that is an index.

mod arrays;

use arrow::buffer::{Buffer, ScalarBuffer};
use arrow::datatypes::{ArrowNativeType, ToByteSlice};
use pelton_data::Micros;

use crate::table::hash::hash_bytes;

/// The first bytes of a snapshot.
pub const MAGIC: [u8; 4] = *b"PeSt";

/// Which form the state of this version has.
pub const VERSION: u8 = 10;

/// Bytes of the hash at the end.
const HASH_BYTES: usize = 8;

/// Something that has a snapshot.
pub trait Snapshot {
    /// What it is, with all that must be the same where its snapshot is read.
    fn description(&self) -> String;

    /// Writes it.
    ///
    /// # Errors
    /// Where something is under way, or what it holds has no form.
    fn write_to(&self, out: &mut Writer) -> Result<(), SnapshotError>;

    /// Becomes what was written: it must be new. After an error it must not be used.
    ///
    /// # Errors
    /// Where the bytes are not those of a snapshot.
    fn read_from(&mut self, input: &mut Reader<'_>) -> Result<(), SnapshotError>;
}

/// Why there is no snapshot, or no state is made of one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// The bytes are not those that were written.
    #[error("byte {at} of the snapshot: expected {expected}, found {found}")]
    Malformed {
        /// Where.
        at: usize,
        /// What should be there.
        expected: String,
        /// What is.
        found: String,
    },
    /// What is held cannot be written. The user's to change.
    #[error("{0}")]
    NoForm(String),
    /// Something has been begun that must be done first.
    #[error("{0}: its snapshot is taken before or after that")]
    UnderWay(&'static str),
}

/// The bytes of something.
///
/// # Errors
/// As [`Snapshot::write_to`].
pub fn take(state: &impl Snapshot) -> Result<Vec<u8>, SnapshotError> {
    take_into(state, Vec::new())
}

/// The same, in the place of what is in a list of bytes: fresh memory would take longer to get than to fill.
///
/// # Errors
/// As [`Snapshot::write_to`].
pub fn take_into(state: &impl Snapshot, mut bytes: Vec<u8>) -> Result<Vec<u8>, SnapshotError> {
    bytes.clear();
    let mut out = Writer { bytes };
    out.bytes.extend(MAGIC);
    out.bytes.push(VERSION);
    out.text(&state.description());
    state.write_to(&mut out)?;
    Ok(with_hash(out.bytes))
}

/// Bytes with their hash behind them, as a snapshot ends.
pub fn with_hash(mut bytes: Vec<u8>) -> Vec<u8> {
    let hash = hash_bytes(&bytes);
    bytes.extend(hash.to_le_bytes());
    bytes
}

/// Makes something that is new what it was when these bytes were taken.
///
/// # Errors
/// As [`Snapshot::read_from`].
pub fn restore(state: &mut impl Snapshot, bytes: &[u8]) -> Result<(), SnapshotError> {
    let end = bytes.len().saturating_sub(HASH_BYTES);
    let mut input = Reader { bytes: &bytes[..end], at: 0 };
    input.expect(input.bytes.starts_with(&MAGIC), "the first bytes of a snapshot", || "others".to_string())?;
    input.at = MAGIC.len();
    let version = input.take(1, "a version")?[0];
    input.expect(version == VERSION, &format!("version {VERSION}"), || format!("version {version}"))?;
    let hash = Reader { bytes: &bytes[end..], at: 0 }.number("a hash")?;
    input.expect(hash == hash_bytes(input.bytes), "the hash of all bytes", || "another".to_string())?;
    let (wanted, described) = (state.description(), input.text("what this is of")?);
    input.expect(described == wanted, &wanted, || described.to_string())?;
    state.read_from(&mut input)?;
    let rest = input.left();
    input.expect(rest == 0, "the end", || format!("{rest} bytes"))
}

/// Replaces state by what it was when these bytes were taken; `new` is the same state before anything came. After an error it is what it was.
///
/// # Errors
/// As [`restore`].
pub fn replace<S: Snapshot>(state: &mut S, mut new: S, bytes: &[u8]) -> Result<(), SnapshotError> {
    restore(&mut new, bytes)?;
    *state = new;
    Ok(())
}

/// Makes state anew from its own snapshot.
///
/// # Errors
/// As [`take`].
pub fn renew<S: Snapshot>(state: &mut S, new: S) -> Result<(), SnapshotError> {
    let bytes = take(state)?;
    replace(state, new, &bytes)
}

/// Where state is written.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn number(&mut self, number: u64) {
        self.bytes.extend(number.to_le_bytes());
    }

    pub(crate) fn count(&mut self, count: usize) {
        self.number(count as u64);
    }

    pub(crate) fn instant(&mut self, instant: Micros) {
        self.number(instant as u64);
    }

    pub(crate) fn flag(&mut self, flag: bool) {
        self.bytes.push(u8::from(flag));
    }

    /// As many values as whoever reads knows.
    pub(crate) fn column<T: ArrowNativeType>(&mut self, values: &[T]) {
        self.bytes.extend_from_slice(values.to_byte_slice());
    }

    /// Values, and how many.
    pub(crate) fn list<T: ArrowNativeType>(&mut self, values: &[T]) {
        self.count(values.len());
        self.column(values);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.list(text.as_bytes());
    }

    pub(crate) fn optional_text(&mut self, text: Option<&str>) {
        self.flag(text.is_some());
        text.into_iter().for_each(|text| self.text(text));
    }
}

/// Reads what a [`Writer`] has written.
#[derive(Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// The error where something is not as expected.
    pub(crate) fn expect(
        &self,
        is_so: bool,
        expected: &str,
        found: impl FnOnce() -> String,
    ) -> Result<(), SnapshotError> {
        if is_so {
            return Ok(());
        }
        Err(SnapshotError::Malformed { at: self.at, expected: expected.to_string(), found: found() })
    }

    /// The error where something is not as expected, and nobody would read what it is.
    pub(crate) fn check(&self, is_so: bool, expected: &str) -> Result<(), SnapshotError> {
        self.expect(is_so, expected, || "something else".to_string())
    }

    /// Bytes that have not been read.
    fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Makes sure that there are as many bytes.
    pub(crate) fn must_have(&self, count: usize, bytes_each: usize, what: &str) -> Result<(), SnapshotError> {
        let left = self.left();
        let is_there = count.checked_mul(bytes_each).is_some_and(|bytes| bytes <= left);
        self.expect(is_there, &format!("{count} times {bytes_each} bytes of {what}"), || {
            format!("{left} bytes to the end")
        })
    }

    fn take(&mut self, count: usize, what: &str) -> Result<&'a [u8], SnapshotError> {
        self.must_have(count, 1, what)?;
        let taken = &self.bytes[self.at..self.at + count];
        self.at += count;
        Ok(taken)
    }

    pub(crate) fn number(&mut self, what: &str) -> Result<u64, SnapshotError> {
        let bytes = self.take(size_of::<u64>(), what)?;
        Ok(u64::from_le_bytes(bytes.try_into().expect("as many were taken")))
    }

    /// How many there are of something that takes at least so many bytes each.
    pub(crate) fn count(&mut self, bytes_each_min: usize, what: &str) -> Result<usize, SnapshotError> {
        let number = self.number(what)?;
        let count = usize::try_from(number).unwrap_or(usize::MAX);
        self.must_have(count, bytes_each_min, what)?;
        Ok(count)
    }

    pub(crate) fn instant(&mut self, what: &str) -> Result<Micros, SnapshotError> {
        Ok(self.number(what)? as Micros)
    }

    pub(crate) fn flag(&mut self, what: &str) -> Result<bool, SnapshotError> {
        let byte = self.take(1, what)?[0];
        self.expect(byte <= 1, &format!("0 or 1: {what}"), || byte.to_string())?;
        Ok(byte == 1)
    }

    pub(crate) fn column<T: ArrowNativeType>(
        &mut self,
        count: usize,
        what: &str,
    ) -> Result<ScalarBuffer<T>, SnapshotError> {
        self.must_have(count, size_of::<T>(), what)?;
        let bytes = self.take(count * size_of::<T>(), what)?;
        Ok(ScalarBuffer::new(Buffer::from(bytes), 0, count))
    }

    pub(crate) fn list<T: ArrowNativeType>(&mut self, what: &str) -> Result<ScalarBuffer<T>, SnapshotError> {
        let count = self.count(size_of::<T>(), what)?;
        self.column(count, what)
    }

    /// So many bytes as they are.
    pub(crate) fn raw(&mut self, count: usize, what: &str) -> Result<&'a [u8], SnapshotError> {
        self.take(count, what)
    }

    pub(crate) fn text(&mut self, what: &str) -> Result<&'a str, SnapshotError> {
        let count = self.count(1, what)?;
        let bytes = self.take(count, what)?;
        let text = std::str::from_utf8(bytes);
        self.check(text.is_ok(), &format!("UTF-8: {what}"))?;
        Ok(text.expect("just checked"))
    }

    pub(crate) fn optional_text(&mut self, what: &str) -> Result<Option<&'a str>, SnapshotError> {
        if self.flag(what)? { self.text(what).map(Some) } else { Ok(None) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl Snapshot for Nothing {
        fn description(&self) -> String {
            "nothing".to_string()
        }

        fn write_to(&self, _out: &mut Writer) -> Result<(), SnapshotError> {
            Ok(())
        }

        fn read_from(&mut self, _input: &mut Reader<'_>) -> Result<(), SnapshotError> {
            Ok(())
        }
    }

    #[test]
    fn what_is_no_snapshot_is_refused_with_what_it_should_be() {
        let bytes = take(&Nothing).unwrap();
        assert_eq!(restore(&mut Nothing, &bytes), Ok(()));
        for bit in 0..8 * bytes.len() {
            let mut spoiled = bytes.clone();
            spoiled[bit / 8] ^= 1 << (bit % 8);
            assert!(restore(&mut Nothing, &spoiled).is_err());
            assert!(restore(&mut Nothing, &bytes[..bit / 8]).is_err());
        }
        let refused = |bytes: &[u8]| restore(&mut Nothing, bytes).unwrap_err().to_string();
        assert!(refused(&[]).contains("the first bytes of a snapshot"));
        let mut next = bytes.clone();
        next[4] = VERSION + 1;
        let expected = format!("expected version {VERSION}, found version {}", VERSION + 1);
        assert!(refused(&next).contains(&expected), "{}", refused(&next));
    }
}
