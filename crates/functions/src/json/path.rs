//! Paths into JSON texts, such as `$.a.b[0]` or `$['a']`.
//!
//! A text is known to be JSON when a path is followed, so that values are found by their brackets and quotes.

/// A path that names at most one value.
#[derive(Debug)]
pub(super) struct Path {
    steps: Vec<JsonStep>,
    /// Whether a value that is missing is an empty result, and not an error.
    pub is_lax: bool,
}

impl Path {
    /// `None` where the text is no path.
    pub fn of(text: &str) -> Option<Path> {
        let text = text.trim();
        let (mode, path) = text.split_at(text.find(|letter: char| letter.is_ascii_whitespace()).unwrap_or(0));
        let (is_lax, path) = match mode {
            mode if mode.eq_ignore_ascii_case("lax") => (true, path),
            mode if mode.eq_ignore_ascii_case("strict") => (false, path),
            _ => (false, text),
        };
        Some(Path { steps: steps(path)?, is_lax })
    }

    /// What a JSON text has there.
    pub fn find<'a>(&self, document: &'a str) -> Option<&'a str> {
        self.steps.iter().try_fold(document, |value, step| step.of(value))
    }
}

#[derive(Debug)]
enum JsonStep {
    Member(String),
    Element(usize),
}

impl JsonStep {
    /// What a value has there, which is JSON.
    fn of<'a>(&self, value: &'a str) -> Option<&'a str> {
        match self {
            JsonStep::Member(name) => {
                // The last of several of one name, as in Flink.
                let members = Parts::of(value, '{')?.filter(|(member, _)| is_named(member, name));
                members.last().map(|(_, value)| value)
            }
            JsonStep::Element(index) => Parts::of(value, '[')?.nth(*index).map(|(_, value)| value),
        }
    }
}

/// Whether the name of a member, in quotes, is this one.
fn is_named(member: &str, name: &str) -> bool {
    match member.contains('\\') {
        true => serde_json::from_str::<String>(member).is_ok_and(|member| member == name),
        false => member.get(1..member.len() - 1) == Some(name),
    }
}

/// The names, in quotes, and values of an object, or the values of an array, which is JSON.
struct Parts<'a> {
    /// What is behind the last of them.
    rest: &'a str,
    is_object: bool,
}

impl<'a> Parts<'a> {
    /// `None` where the value does not begin with this bracket.
    fn of(value: &'a str, bracket: char) -> Option<Parts<'a>> {
        value.strip_prefix(bracket).map(|rest| Parts { rest, is_object: bracket == '{' })
    }

    /// What comes next, and what is behind it.
    fn take(&mut self) -> &'a str {
        let begin = self.rest.trim_start_matches([' ', '\t', '\r', '\n', ',', ':']);
        let (value, rest) = begin.split_at(value_length(begin));
        self.rest = rest;
        value
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<(&'a str, &'a str)> {
        let first = self.take();
        if first.is_empty() {
            return None;
        }
        Some(if self.is_object { (first, self.take()) } else { ("", first) })
    }
}

/// Bytes of the value that a text begins with; none where a bracket closes there.
fn value_length(text: &str) -> usize {
    let (mut depth, mut is_quoted, mut is_escaped) = (0, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => {
                is_quoted = !is_quoted;
                if !is_quoted && depth == 0 {
                    return at + 1;
                }
            }
            _ if is_quoted => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth > 1 => depth -= 1,
            b'}' | b']' if depth == 1 => return at + 1,
            b'}' | b']' | b',' | b' ' | b'\t' | b'\r' | b'\n' if depth == 0 => return at,
            _ => {}
        }
    }
    text.len()
}

fn steps(path: &str) -> Option<Vec<JsonStep>> {
    let mut rest = path.trim_start().strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        // A point may stand before brackets as well.
        let behind_point = rest.strip_prefix('.');
        match behind_point.filter(|member| !member.starts_with('[')) {
            Some(member) => {
                let end = member.find(['.', '[']).unwrap_or(member.len());
                let name = &member[..end];
                // Those with an asterisk or a bracket ask for several members, or call a function.
                if name.is_empty() || name.contains(['*', '(']) {
                    return None;
                }
                steps.push(JsonStep::Member(name.to_string()));
                rest = &member[end..];
            }
            None => {
                let (step, behind) = in_brackets(behind_point.unwrap_or(rest).strip_prefix('[')?)?;
                steps.push(step);
                rest = behind;
            }
        }
    }
    Some(steps)
}

/// The step that stands in brackets, a name in quotes of either kind or a number, and what is behind them.
fn in_brackets(inside: &str) -> Option<(JsonStep, &str)> {
    let inside = inside.trim_start();
    let Some(quote) = inside.chars().next().filter(|first| matches!(first, '\'' | '"')) else {
        let (number, behind) = inside.split_once(']')?;
        return Some((JsonStep::Element(number.trim().parse().ok()?), behind));
    };
    let (name, behind) = inside[1..].split_once(quote)?;
    Some((JsonStep::Member(name.to_string()), behind.trim_start().strip_prefix(']')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at<'a>(text: &'a str, path: &str) -> Option<&'a str> {
        Path::of(path).unwrap().find(text)
    }

    #[test]
    fn values_are_found_as_they_are_written() {
        let text = r#"{ "a" : [ 1 , {"b,c": "}\"]" } ,[ ], {}, -1.50e3, [[2],3] ], "\u0061b":null,"a.b":"\\","d":1,"d" : {"e":true}}"#;
        for (path, value) in [
            ("$.a[0]", Some("1")),
            ("$.a[1]['b,c']", Some(r#""}\"]""#)),
            ("$.a[2]", Some("[ ]")),
            ("$.a[2][0]", None),
            ("$.a[3]", Some("{}")),
            ("$.a[3].x", None),
            ("$.a[4]", Some("-1.50e3")),
            ("$.a[5][0][0]", Some("2")),
            ("$.a[5][1]", Some("3")),
            ("$.a[6]", None),
            ("$.ab", Some("null")),
            ("$['a.b']", Some(r#""\\""#)),
            ("$.d", Some(r#"{"e":true}"#)),
            ("$.d.e", Some("true")),
            ("$.d[0]", None),
            ("$.x", None),
        ] {
            assert_eq!(at(text, path), value, "{path}");
        }
        assert_eq!(at("7", "$"), Some("7"));
        assert_eq!(at("[]", "$[0]"), None);
    }

    #[test]
    fn paths_name_one_value() {
        for path in [
            "$",
            "lax $.a",
            "LAX $.a",
            " Lax \t\n $.a",
            "strict $.a.b[0]",
            "STRICT  $.a.b[0]",
            "$['a b']",
            "$.['a b']",
            "$[\"a\"]",
            "$.[\"a.b\"][0]",
            "$[ 1 ]",
            "$.a.[0]",
        ] {
            assert!(Path::of(path).is_some(), "{path}");
        }
        for path in [
            "",
            "a",
            "$a",
            "$.",
            "$..a",
            "$.*",
            "$[*]",
            "$.a.*",
            "$.a.length()",
            "$['a','b']",
            "$['a'",
            "$[a]",
            "$[-1]",
            "$[?(@.a)]",
            "lax",
            "lax$.a",
            "strict",
            "loose $.a",
        ] {
            assert!(Path::of(path).is_none(), "{path}");
        }
        assert!(Path::of("Lax  $").is_some_and(|path| path.is_lax));
        assert!(Path::of("Strict  $").is_some_and(|path| !path.is_lax));
    }
}
