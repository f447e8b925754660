//! Objects and arrays as the text of a STRING: compact, as Flink writes them.
//!
//! There are no blanks between values; of several members of one name the last counts, at the place of the first; strings have escape sequences only where
//! they must.

use std::ops::Range;

use super::repeated::last_of_each;
use crate::float_text::write_double;

/// How deep objects and arrays may lie in each other.
const DEPTH_MAX: usize = 1_000;

/// Digits of the escape sequences of control characters.
const DIGITS: &[u8; 16] = b"0123456789ABCDEF";

/// The value that `text` is, compact; `None` where it is no JSON. `number` appends a number that is written as this text.
pub fn compact(text: &[u8], number: impl Fn(&str, &mut Vec<u8>)) -> Option<Vec<u8>> {
    let mut writer = Writer { text, at: 0, out: Vec::with_capacity(text.len()), number };
    writer.value(0)?;
    writer.skip_blanks();
    (writer.at == text.len()).then_some(writer.out)
}

/// Appends a number with a point or an exponent as a DOUBLE, and any other one as it is.
pub fn write_double_number(number: &str, out: &mut Vec<u8>) {
    if !number.contains(['.', 'e', 'E']) {
        return out.extend_from_slice(if number == "-0" { b"0" } else { number.as_bytes() });
    }
    let value: f64 = number.parse().expect("numbers of JSON are numbers");
    let mut text = String::new();
    write_double(value, &mut text);
    let quote: &[u8] = if value.is_finite() { b"" } else { b"\"" };
    out.extend([quote, text.as_bytes(), quote].concat());
}

/// Appends a string in quotes, with escape sequences only where they must be.
pub fn write_string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    if text.iter().all(|&byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        out.extend_from_slice(text);
    } else {
        text.iter().for_each(|&byte| escape(byte, out));
    }
    out.push(b'"');
}

fn escape(byte: u8, out: &mut Vec<u8>) {
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x0c => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0..b' ' => {
            let digits = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
            return out.extend([b"\\u00".as_slice(), &digits].concat());
        }
        _ => return out.push(byte),
    };
    out.extend([b'\\', short]);
}

struct Writer<'a, N> {
    text: &'a [u8],
    /// What comes next in it.
    at: usize,
    out: Vec<u8>,
    number: N,
}

/// Where the name of a member, in quotes, and its value lie in what is written.
struct Member {
    name: Range<usize>,
    value: Range<usize>,
}

impl<N: Fn(&str, &mut Vec<u8>)> Writer<'_, N> {
    fn skip_blanks(&mut self) {
        while self.text.get(self.at).is_some_and(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// Goes over a byte, if it is the next one behind blanks.
    fn take(&mut self, byte: u8) -> bool {
        self.skip_blanks();
        let is_next = self.text.get(self.at) == Some(&byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn value(&mut self, depth: usize) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        self.skip_blanks();
        match self.text.get(self.at)? {
            b'{' => self.object(depth),
            b'[' => self.array(depth),
            b'"' => self.string(),
            b'-' | b'0'..=b'9' => self.number(),
            _ => {
                let words: [&[u8]; 3] = [b"null", b"true", b"false"];
                let word = words.into_iter().find(|word| self.text[self.at..].starts_with(word))?;
                self.at += word.len();
                self.out.extend_from_slice(word);
                Some(())
            }
        }
    }

    fn array(&mut self, depth: usize) -> Option<()> {
        self.at += 1;
        self.out.push(b'[');
        if !self.take(b']') {
            loop {
                self.value(depth + 1)?;
                if self.take(b']') {
                    break;
                }
                self.take(b',').then(|| self.out.push(b','))?;
            }
        }
        self.out.push(b']');
        Some(())
    }

    fn object(&mut self, depth: usize) -> Option<()> {
        let start = self.out.len();
        let mut members = Vec::new();
        self.at += 1;
        self.out.push(b'{');
        if !self.take(b'}') {
            loop {
                self.skip_blanks();
                let name = self.out.len();
                self.text.get(self.at).filter(|&&byte| byte == b'"')?;
                self.string()?;
                let name = name..self.out.len();
                self.take(b':').then(|| self.out.push(b':'))?;
                let value = self.out.len();
                self.value(depth + 1)?;
                members.push(Member { name, value: value..self.out.len() });
                if self.take(b'}') {
                    break;
                }
                self.take(b',').then(|| self.out.push(b','))?;
            }
        }
        self.out.push(b'}');
        let kept = last_of_each(members.len(), |member| &self.out[members[member].name.clone()]);
        if let Some(kept) = kept {
            self.rewrite(start, &members, &kept);
        }
        Some(())
    }

    /// Writes an object anew, whose members are `kept`: the name of one, and the value of another.
    fn rewrite(&mut self, start: usize, members: &[Member], kept: &[(usize, usize)]) {
        let written = self.out[start..].to_vec();
        let part = |range: &Range<usize>| &written[range.start - start..range.end - start];
        self.out.truncate(start);
        self.out.push(b'{');
        for (at, &(name, value)) in kept.iter().enumerate() {
            if at > 0 {
                self.out.push(b',');
            }
            self.out.extend_from_slice(part(&members[name].name));
            self.out.push(b':');
            self.out.extend_from_slice(part(&members[value].value));
        }
        self.out.push(b'}');
    }

    /// The string at a quote, escaped only where it must be.
    fn string(&mut self) -> Option<()> {
        let start = self.at + 1;
        let mut end = start;
        loop {
            end += memchr::memchr2(b'"', b'\\', self.text.get(end..)?)?;
            if self.text[end] == b'"' {
                break;
            }
            end += 2;
        }
        self.at = end + 1;
        let text = &self.text[start..end];
        match memchr::memchr(b'\\', text) {
            None => write_string(text, &mut self.out),
            Some(_) => write_string(&super::unescape(text)?, &mut self.out),
        }
        Some(())
    }

    fn number(&mut self) -> Option<()> {
        let rest = &self.text[self.at..];
        let is_part = |byte: &u8| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9');
        let number = &rest[..rest.iter().take_while(|byte| is_part(byte)).count()];
        self.at += number.len();
        let digits = number.strip_prefix(b"-").unwrap_or(number);
        let count = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let whole = count(digits);
        if whole == 0 || (whole > 1 && digits[0] == b'0') {
            return None;
        }
        let fraction = digits[whole..].strip_prefix(b".");
        let fraction_digits = fraction.map(count);
        let behind = fraction.map_or(&digits[whole..], |fraction| &fraction[fraction_digits.unwrap_or(0)..]);
        let exponent = behind.strip_prefix(b"e").or(behind.strip_prefix(b"E"));
        let exponent = exponent.map(|text| text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text));
        let is_right = fraction_digits != Some(0)
            && exponent.map_or(behind.is_empty(), |digits| !digits.is_empty() && count(digits) == digits.len());
        let text = std::str::from_utf8(number).ok().filter(|_| is_right)?;
        (self.number)(text, &mut self.out);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_and_arrays_are_written_as_flink_writes_them() {
        for (text, written) in [
            (r#"{ "x" : 1.50, "y" : [1, 2 ,3] ,"z" : null , "b":true}"#, r#"{"x":1.5,"y":[1,2,3],"z":null,"b":true}"#),
            (
                r#"[123456789012345678901234567890, 1E400, -1e400, -0, -0.0, 1e2]"#,
                r#"[123456789012345678901234567890,"Infinity","-Infinity",0,-0.0,100.0]"#,
            ),
            (r#"[0.1234567890123456789, 1E-7, 12345678.9]"#, "[0.12345678901234568,1.0E-7,1.23456789E7]"),
            (
                r#"[ "\u00e9\/\n\t\u0001\u001f\"\\ \ud83d\ude00" , {} , [ ] , "" ]"#,
                r#"["é/\n\t\u0001\u001F\"\\ 😀",{},[],""]"#,
            ),
            (r#"{"k" : 1, "l": 2, "k" : { "k" : 3 }}"#, r#"{"k":{"k":3},"l":2}"#),
            (r#"{"\u006b": 1, "k": 2}"#, r#"{"k":2}"#),
        ] {
            let found = compact(text.as_bytes(), write_double_number).map(|found| String::from_utf8(found).unwrap());
            assert_eq!(found.as_deref(), Some(written), "{text}");
        }
        let many = |last: &str| {
            let members: Vec<String> = (0..40).map(|number| format!("\"{number}\":{number}")).collect();
            format!("{{{}{last}}}", members.join(","))
        };
        let found = String::from_utf8(compact(many(",\"7\":[ ]").as_bytes(), write_double_number).unwrap()).unwrap();
        assert_eq!(found, many("").replace("\"7\":7", "\"7\":[]"));
    }

    #[test]
    fn what_is_no_json_is_none() {
        for text in [
            "{",
            "[",
            "[1,]",
            "{\"a\"}",
            "{\"a\":}",
            "{a:1}",
            "[1 2]",
            "{\"a\":1]",
            "[01]",
            "[1.]",
            "[.5]",
            "[1e]",
            "[-]",
            "[1-2]",
            "[+1]",
            "[nul]",
            "[\"]",
            "[\"\\x\"]",
            "[\"\\",
            "[1]]",
            "{\"a\":1,}",
            "[tru e]",
        ] {
            assert_eq!(compact(text.as_bytes(), write_double_number), None, "{text}");
        }
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(compact(nested(DEPTH_MAX).as_bytes(), write_double_number).is_some());
        assert!(compact(nested(100_000).as_bytes(), write_double_number).is_none());
    }
}
