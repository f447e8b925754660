//! How the objects of a file lie in it: one a line, or anyhow.

use super::split::nested_end;

/// How the objects of a file lie in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Layout {
    /// Each line has one object, or several.
    #[default]
    Lines,
    /// Objects go over several lines, as they are printed for people.
    Values,
    /// The file is one array of objects. Its opening bracket has been taken away.
    Array,
}

impl Layout {
    /// The layout of a file that begins with `bytes`, and where its objects begin.
    pub(crate) fn of(bytes: &[u8]) -> (Layout, usize) {
        Layout::known(bytes).unwrap_or_default()
    }

    /// The layout of an input that begins with `bytes`, and where its objects begin; `None` where it depends on the bytes behind them.
    pub(crate) fn known(bytes: &[u8]) -> Option<(Layout, usize)> {
        let start = after(bytes, 0, |byte| byte.is_ascii_whitespace());
        Some(match bytes.get(start)? {
            b'[' => (Layout::Array, start + 1),
            b'{' if !begins_with_line(&bytes[start..])? => (Layout::Values, 0),
            _ => (Layout::Lines, 0),
        })
    }

    /// Where the last whole row of `bytes` ends, which begins with one; `None` where there is none.
    pub(crate) fn last_row_end(self, bytes: &[u8]) -> Option<usize> {
        if self == Layout::Lines {
            return memchr::memrchr(b'\n', bytes).map(|at| at + 1);
        }
        let mut end = None;
        let mut at = 0;
        while let Some((_, next)) = self.next_value(bytes, at) {
            end = Some(next);
            at = next;
        }
        end
    }

    /// Where the first value from `at` on begins and ends, in a file that has not one a line. `None` where it does not end.
    pub(crate) fn next_value(self, bytes: &[u8], at: usize) -> Option<(usize, usize)> {
        let start = self.next_start(bytes, at);
        let end = match bytes.get(start)? {
            b'{' | b'[' => nested_end(bytes, start).ok()?,
            // No value of a row: it goes up to one, or to the end of the line, without what separates it from the next.
            _ => {
                let end = start + 1 + memchr::memchr2(b'\n', b'{', &bytes[start + 1..])?;
                let is_between =
                    |byte: &&u8| byte.is_ascii_whitespace() || self == Layout::Array && matches!(byte, b',' | b']');
                end - bytes[start + 1..end].iter().rev().take_while(is_between).count()
            }
        };
        Some((start, end))
    }

    /// Where the next value begins.
    pub(crate) fn next_start(self, bytes: &[u8], at: usize) -> usize {
        let is_array = self == Layout::Array;
        after(bytes, at, |byte| byte.is_ascii_whitespace() || is_array && matches!(byte, b',' | b']'))
    }
}

/// What is wrong with the text before a value of an array: one comma belongs between two values, and nothing before the first.
pub(crate) fn wrong_separator(between: &[u8], follows_value: bool) -> Option<String> {
    let found = || between.iter().filter(|byte| !byte.is_ascii_whitespace());
    if found().eq(if follows_value { b",".as_slice() } else { b"" }) {
        return None;
    }
    let found: Vec<u8> = found().copied().collect();
    let found = match found.as_slice() {
        [] => "nothing".to_string(),
        found => format!("'{}'", String::from_utf8_lossy(found)),
    };
    let expected = if follows_value { "one ','" } else { "nothing" };
    Some(format!("has {found} before it in the array, and {expected} is expected"))
}

/// Where the text behind the last value of an array, as far as it is there, is something else than one bracket.
pub(crate) fn wrong_end(behind: &[u8]) -> Option<usize> {
    let mut found = behind.iter().enumerate().filter(|(_, byte)| !byte.is_ascii_whitespace());
    match found.next() {
        Some((_, b']')) | None => found.next().map(|(at, _)| at),
        Some((at, _)) => Some(at),
    }
}

/// Whether a text that begins with a brace has a whole object in its first line, or lines that each begin with one. `None` where the text is too short to tell.
fn begins_with_line(bytes: &[u8]) -> Option<bool> {
    let line = memchr::memchr(b'\n', bytes).unwrap_or(bytes.len());
    if nested_end(&bytes[..line], 0).is_ok() {
        return Some(true);
    }
    let next = after(bytes, line, |byte| byte.is_ascii_whitespace());
    bytes.get(next).map(|&byte| byte == b'{')
}

fn after(bytes: &[u8], at: usize, is_skipped: impl Fn(u8) -> bool) -> usize {
    at + bytes[at..].iter().take_while(|&&byte| is_skipped(byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_is_told_by_the_first_lines() {
        let of = |text: &str| Layout::of(text.as_bytes());
        assert_eq!(of(""), (Layout::Lines, 0));
        assert_eq!(of("{\"a\": 1}\n{\"a\": 2}\n"), (Layout::Lines, 0));
        assert_eq!(of("{\"a\": 1} {\"a\": 2}"), (Layout::Lines, 0));
        assert_eq!(of("{\"a\": 1\n{\"a\": 2}\n"), (Layout::Lines, 0), "the first line is damaged");
        assert_eq!(of("{\n  \"a\": 1\n}\n"), (Layout::Values, 0));
        assert_eq!(of("{\"a\": {\n\"b\": 1}}\n"), (Layout::Values, 0));
        assert_eq!(of(" [\n{\"a\": 1}]"), (Layout::Array, 2));
    }

    #[test]
    fn a_layout_is_unknown_until_its_first_object_or_second_line_has_come() {
        for text in ["", " \n", "{", "\n{\"a\"", "{\n", "{\"a\": 1\n \n"] {
            assert_eq!(Layout::known(text.as_bytes()), None, "{text:?}");
            assert_eq!(Layout::of(text.as_bytes()), (Layout::Lines, 0), "{text:?} and no more");
        }
        for (text, layout) in [
            ("x", (Layout::Lines, 0)),
            ("{}", (Layout::Lines, 0)),
            ("{\"a\": 1}\n", (Layout::Lines, 0)),
            ("{\n{", (Layout::Lines, 0)),
            ("{\n\"", (Layout::Values, 0)),
            ("\n[", (Layout::Array, 2)),
        ] {
            assert_eq!(Layout::known(text.as_bytes()), Some(layout), "{text:?}");
        }
    }

    #[test]
    fn separators_of_an_array_are_looked_at() {
        for (between, follows_value, problem) in [
            ("\n", false, None),
            (" ,\n", true, None),
            (",", false, Some("has ',' before it in the array, and nothing is expected")),
            (",\n,", true, Some("has ',,' before it in the array, and one ',' is expected")),
            ("\n", true, Some("has nothing before it in the array, and one ',' is expected")),
            ("],", true, Some("has '],' before it in the array, and one ',' is expected")),
        ] {
            assert_eq!(wrong_separator(between.as_bytes(), follows_value).as_deref(), problem, "{between:?}");
        }
        for (behind, wrong) in [("", None), ("\n]\n", None), (" ,]", Some(1)), ("]\n]", Some(2)), (",", Some(0))] {
            assert_eq!(wrong_end(behind.as_bytes()), wrong, "{behind:?}");
        }
    }

    #[test]
    fn whole_values_are_found() {
        let values = |layout: Layout, text: &str| layout.last_row_end(text.as_bytes());
        assert_eq!(values(Layout::Values, "{\n}\n{"), Some(3));
        assert_eq!(values(Layout::Values, "{\"}\": 1"), None);
        assert_eq!(values(Layout::Array, "{}, {}, {\"a\""), Some(6));
        assert_eq!(values(Layout::Array, "\n]"), None);
        assert_eq!(values(Layout::Array, "1, 2 , {"), Some(4));
        assert_eq!(values(Layout::Array, "1, 2 ]\n"), Some(4));
    }
}
