//! Digests of strings: of their bytes in UTF-8, in lower-case hexadecimal digits.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray, StringViewBuilder};
use arrow::datatypes::Int64Type;
use datafusion_common::{Result, exec_err};
use md5::Md5;
use sha1::Sha1;
use sha2::digest::Digest;
use sha2::{Sha224, Sha256, Sha384, Sha512};

/// Two digits for each byte of the longest digest.
const DIGITS_MAX: usize = 128;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// `MD5(text)`
pub(super) fn md5(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    Ok(digests::<Md5>(arguments))
}

/// `SHA1(text)`
pub(super) fn sha1(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    Ok(digests::<Sha1>(arguments))
}

/// `SHA224(text)`
pub(super) fn sha224(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    Ok(digests::<Sha224>(arguments))
}

/// `SHA256(text)`
pub(super) fn sha256(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    Ok(digests::<Sha256>(arguments))
}

/// `SHA384(text)`
pub(super) fn sha384(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    Ok(digests::<Sha384>(arguments))
}

/// `SHA512(text)`
pub(super) fn sha512(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    Ok(digests::<Sha512>(arguments))
}

/// `SHA2(text, bits)`: 224, 256, 384 or 512 bits.
pub(super) fn sha2(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let (texts, bits): (&StringViewArray, _) =
        (arguments[0].as_string_view(), arguments[1].as_primitive::<Int64Type>());
    let mut written = StringViewBuilder::with_capacity(texts.len());
    for row in 0..texts.len() {
        if texts.is_null(row) || bits.is_null(row) {
            written.append_null();
            continue;
        }
        let text = texts.value(row);
        match bits.value(row) {
            224 => append::<Sha224>(&mut written, text),
            256 => append::<Sha256>(&mut written, text),
            384 => append::<Sha384>(&mut written, text),
            512 => append::<Sha512>(&mut written, text),
            other => return exec_err!("SHA2 of {other} bits: there are 224, 256, 384 and 512"),
        }
    }
    Ok(Arc::new(written.finish()))
}

fn digests<D: Digest>(arguments: &[ArrayRef]) -> ArrayRef {
    let texts: &StringViewArray = arguments[0].as_string_view();
    let mut written = StringViewBuilder::with_capacity(texts.len());
    for text in texts {
        match text {
            Some(text) => append::<D>(&mut written, text),
            None => written.append_null(),
        }
    }
    Arc::new(written.finish())
}

fn append<D: Digest>(written: &mut StringViewBuilder, text: &str) {
    let mut digits = [0; DIGITS_MAX];
    let digest = D::digest(text);
    for (pair, byte) in digits.chunks_exact_mut(2).zip(digest.iter()) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    let digits = std::str::from_utf8(&digits[..2 * digest.len()]).expect("digits are ASCII");
    written.append_value(digits);
}
