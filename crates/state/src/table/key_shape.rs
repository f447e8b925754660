//! What packed keys are made of: how they are hashed and compared.

use pelton_data::column::VIEW_INLINE_LENGTH_MAX;

use super::hash::{hash_bytes, hash_pair};
use crate::layout::{PackedColumn, is_string};

/// Set in every hash: the hash of an entry in use is not zero. Places come from the low bits.
const IN_USE: u64 = 1 << 63;

/// Where a packed key points to bytes elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KeyShape {
    width: usize,
    /// Offsets of strings.
    strings: Vec<usize>,
    /// Offsets of words that belong to no string.
    words: Vec<usize>,
}

/// Keys of a form that is common enough for loops of their own: so many words, or one string.
pub(super) const ONE_WORD: u8 = 1;
pub(super) const TWO_WORDS: u8 = 2;
pub(super) const THREE_WORDS: u8 = 3;
pub(super) const FOUR_WORDS: u8 = 4;
pub(super) const ONE_STRING: u8 = 5;

/// Any words and strings.
pub(crate) const ANY: u8 = 0;

/// Calls `$object.$function::<FORM>` with the form of keys as a constant.
macro_rules! with_form {
    ($form:expr, $object:ident.$function:ident($($argument:expr),*)) => {
        match $form {
            $crate::table::key_shape::ONE_WORD => $object.$function::<{ $crate::table::key_shape::ONE_WORD }>($($argument),*),
            $crate::table::key_shape::TWO_WORDS => $object.$function::<{ $crate::table::key_shape::TWO_WORDS }>($($argument),*),
            $crate::table::key_shape::THREE_WORDS => $object.$function::<{ $crate::table::key_shape::THREE_WORDS }>($($argument),*),
            $crate::table::key_shape::FOUR_WORDS => $object.$function::<{ $crate::table::key_shape::FOUR_WORDS }>($($argument),*),
            $crate::table::key_shape::ONE_STRING => $object.$function::<{ $crate::table::key_shape::ONE_STRING }>($($argument),*),
            _ => $object.$function::<{ $crate::table::key_shape::ANY }>($($argument),*),
        }
    };
}

pub(super) use with_form;

impl KeyShape {
    pub(crate) fn new(width: usize, columns: &[PackedColumn]) -> KeyShape {
        let strings = columns.iter().filter(|column| is_string(&column.data_type));
        let strings: Vec<usize> = strings.map(|column| column.offset).collect();
        let in_string = |word: usize| strings.iter().any(|&string| (string..string + 16).contains(&word));
        let words = (0..width).step_by(8).filter(|&word| !in_string(word)).collect();
        KeyShape { width, strings, words }
    }

    /// Bytes of a key.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Offsets of strings.
    pub(super) fn strings(&self) -> &[usize] {
        &self.strings
    }

    /// Which of the forms keys have.
    pub(super) fn form(&self) -> u8 {
        match (self.width, self.strings.as_slice()) {
            (8 | 16 | 24 | 32, []) => (self.width / 8) as u8,
            (16, [0]) => ONE_STRING,
            _ => ANY,
        }
    }

    /// Replaces `hashes` by those of `count` keys. They do not depend on `FORM`, which is the keys' or [`ANY`].
    ///
    /// # Safety
    /// `keys` must point to that many packed keys, and their strings must be there.
    pub(crate) unsafe fn hash_all<const FORM: u8>(&self, keys: *const u8, count: usize, hashes: &mut Vec<u64>) {
        hashes.clear();
        // SAFETY: the caller's promise; offsets of words and strings lie within a key.
        unsafe {
            match FORM {
                ONE_WORD => hash_words::<1>(keys, count, hashes),
                TWO_WORDS => hash_words::<2>(keys, count, hashes),
                THREE_WORDS => hash_words::<3>(keys, count, hashes),
                FOUR_WORDS => hash_words::<4>(keys, count, hashes),
                ONE_STRING => hashes.extend((0..count).map(|row| hash_string(0, keys.add(row * 16)) | IN_USE)),
                _ => hashes.extend((0..count).map(|row| self.hash(keys.add(row * self.width)) | IN_USE)),
            }
        }
    }

    /// # Safety
    /// As for [`KeyShape::hash_all`].
    unsafe fn hash(&self, key: *const u8) -> u64 {
        // SAFETY: the caller's promise; offsets of words and strings lie within a key.
        unsafe {
            let strings = self.strings.iter().fold(0, |hash, &at| hash_string(hash, key.add(at)));
            self.words.iter().fold(strings, |hash, &at| hash_pair(hash, word(key.add(at))))
        }
    }

    /// Whether an entry's key is `key`.
    ///
    /// # Safety
    /// Both must point to packed keys whose strings are there; `FORM` must be theirs or [`ANY`].
    #[inline(always)]
    pub(crate) unsafe fn equal<const FORM: u8>(&self, held: *const u8, key: *const u8) -> bool {
        // SAFETY: the caller's promise; all offsets lie within a key.
        unsafe {
            let same = |at: usize| word(held.add(at)) == word(key.add(at));
            let same_string = |at: usize| same(at) && (same(at + 8) || equal_long(held.add(at), key.add(at)));
            match FORM {
                ONE_WORD..=FOUR_WORDS => (0..FORM as usize).all(|word| same(8 * word)),
                ONE_STRING => same_string(0),
                _ => self.words.iter().all(|&at| same(at)) && self.strings.iter().all(|&at| same_string(at)),
            }
        }
    }
}

/// Replaces `hashes` by those of `count` keys of `WORDS` words.
///
/// # Safety
/// As for [`KeyShape::hash_all`].
unsafe fn hash_words<const WORDS: usize>(keys: *const u8, count: usize, hashes: &mut Vec<u64>) {
    // SAFETY: there are as many keys, by the caller's promise, each of these words.
    let hash = |key: *const u8| unsafe { (0..WORDS).fold(0, |hash, at| hash_pair(hash, word(key.add(8 * at)))) };
    // SAFETY: as above.
    hashes.extend((0..count).map(|row| unsafe { hash(keys.add(row * 8 * WORDS)) } | IN_USE));
}

/// # Safety
/// `at` must point to eight bytes.
#[inline(always)]
unsafe fn word(at: *const u8) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { at.cast::<u64>().read_unaligned() }
}

/// Hash of a packed string and of what was hashed before it.
///
/// # Safety
/// `string` must point to a packed string, whose bytes are there.
#[inline(always)]
unsafe fn hash_string(before: u64, string: *const u8) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        let second = match long_string(string) {
            None => word(string.add(8)),
            Some(bytes) => hash_bytes(bytes),
        };
        hash_pair(before ^ word(string), second)
    }
}

/// The bytes of a packed string that does not hold them itself. A NULL is no long string.
///
/// # Safety
/// `string` must point to a packed string, whose bytes are there for as long as the result is used.
#[inline(always)]
pub(super) unsafe fn long_string<'a>(string: *const u8) -> Option<&'a [u8]> {
    // SAFETY: the caller's promise.
    unsafe {
        let length = string.cast::<i32>().read_unaligned();
        if length <= VIEW_INLINE_LENGTH_MAX as i32 {
            return None;
        }
        let bytes = string.add(8).cast::<*const u8>().read_unaligned();
        Some(std::slice::from_raw_parts(bytes, length as usize))
    }
}

/// Whether two packed strings with the same length and prefix are long and equal.
///
/// # Safety
/// As for [`long_string`], for both.
#[inline(always)]
unsafe fn equal_long(left: *const u8, right: *const u8) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        match (long_string(left), long_string(right)) {
            (Some(left), Some(right)) => left == right,
            _ => false,
        }
    }
}
