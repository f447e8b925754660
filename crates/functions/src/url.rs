//! Addresses, and how strings are written in them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringViewArray};
use arrow::datatypes::Int64Type;
use datafusion_common::Result;

/// Protocols of addresses that have parts.
const PROTOCOLS: [&str; 4] = ["http", "https", "ftp", "file"];

fn strings(array: &ArrayRef) -> &StringViewArray {
    array.as_string_view()
}

/// `PARSE_URL(url, part[, key])`: a part of an address, or of its QUERY the value of a key; NULL where it has none, or is no address.
pub(super) fn parse_url(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let (urls, parts, keys) = (strings(&arguments[0]), strings(&arguments[1]), arguments.get(2).map(strings));
    let value = |row: usize| -> Option<String> {
        if urls.is_null(row) || parts.is_null(row) {
            return None;
        }
        let found = part(urls.value(row), parts.value(row));
        let Some(keys) = keys else { return found };
        if keys.is_null(row) || parts.value(row) != "QUERY" {
            return None;
        }
        let query = found?;
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(name, _)| *name == keys.value(row)).map(|(_, value)| value.to_string())
    };
    Ok(Arc::new((0..urls.len()).map(value).collect::<StringViewArray>()))
}

fn part(url: &str, name: &str) -> Option<String> {
    let (protocol, rest) = url.trim().split_once(':')?;
    let protocol = protocol.to_ascii_lowercase();
    if !PROTOCOLS.contains(&protocol.as_str()) {
        return None;
    }
    let (rest, reference) = split_at(rest, '#');
    let (rest, query) = split_at(rest, '?');
    let (authority, path) = match rest.strip_prefix("//") {
        Some(rest) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            (Some(authority), path)
        }
        None => (None, rest),
    };
    let (user, host) = match authority.and_then(|authority| authority.split_once('@')) {
        Some((user, host)) => (Some(user), host),
        None => (None, authority.unwrap_or_default()),
    };
    // The colons inside of brackets are those of an IPv6 address.
    let after_brackets = host.rfind(']').map_or(0, |bracket| bracket + 1);
    let host = match host[after_brackets..].split_once(':') {
        Some((_, port)) if !port.bytes().all(|digit| digit.is_ascii_digit()) => return None,
        Some((before, _)) => &host[..after_brackets + before.len()],
        None => host,
    };
    let found = match name {
        "HOST" => Some(host),
        "PATH" => Some(path),
        "QUERY" => query,
        "REF" => reference,
        "PROTOCOL" => Some(protocol.as_str()),
        "AUTHORITY" => authority,
        "USERINFO" => user,
        "FILE" => return Some(query.map_or_else(|| path.to_string(), |query| format!("{path}?{query}"))),
        _ => None,
    };
    found.map(str::to_string)
}

/// What is before and behind a letter.
fn split_at(text: &str, letter: char) -> (&str, Option<&str>) {
    text.split_once(letter).map_or((text, None), |(before, behind)| (before, Some(behind)))
}

/// `INET_ATON(text)`: an IPv4 address as a number; the last of fewer than four parts stands for the rest.
pub(super) fn inet_aton(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let numbers = strings(&arguments[0]).iter().map(|text| address(text?));
    Ok(Arc::new(numbers.collect::<Int64Array>()))
}

fn address(text: &str) -> Option<i64> {
    let parts: Option<Vec<u32>> = text
        .split('.')
        .map(|part| {
            let is_number = !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit());
            if is_number { part.parse().ok() } else { None }
        })
        .collect();
    let parts = parts?;
    let (last, first) = parts.split_last()?;
    if first.len() > 3 || first.iter().any(|part| *part > 255) {
        return None;
    }
    let bits = 8 * (4 - first.len());
    let rest = i64::from(*last);
    if rest >> bits != 0 {
        return None;
    }
    Some(first.iter().fold(0, |number, part| number << 8 | i64::from(*part)) << bits | rest)
}

/// `INET_NTOA(number)`: the IPv4 address of a number; NULL where it has more than 32 bits.
pub(super) fn inet_ntoa(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let texts = arguments[0].as_primitive::<Int64Type>().iter().map(|number| {
        let number = u32::try_from(number?).ok()?;
        Some(std::net::Ipv4Addr::from(number).to_string())
    });
    Ok(Arc::new(texts.collect::<StringViewArray>()))
}

/// `URL_ENCODE(text)`: as forms are sent, in UTF-8.
pub(super) fn url_encode(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let encoded = strings(&arguments[0]).iter().map(|text| {
        let mut encoded = String::new();
        for byte in text?.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'*' | b'_' => encoded.push(byte.into()),
                b' ' => encoded.push('+'),
                _ => encoded.push_str(&format!("%{byte:02X}")),
            }
        }
        Some(encoded)
    });
    Ok(Arc::new(encoded.collect::<StringViewArray>()))
}

/// `URL_DECODE(text)`: NULL where a percent sign stands before something else than two digits.
pub(super) fn url_decode(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let decoded = strings(&arguments[0]).iter().map(|text| decoded(text?));
    Ok(Arc::new(decoded.collect::<StringViewArray>()))
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                (digit()? * 16 + digit()?) as u8
            }
            other => other,
        });
    }
    Some(String::from_utf8_lossy(&decoded).into_owned())
}
