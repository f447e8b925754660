//! What Java's regular expressions have and the ones here have not, by name, so that nobody looks for a slip in a pattern that is right.

/// Something in a pattern that only Java's library knows, and what to write instead.
///
/// The library here finds a match in time that grows with the text and not with what could be tried, and has nothing for which it
/// would have to go back. A possessive quantifier it takes for one of a quantified expression, which matches other texts.
pub fn java_only(pattern: &str) -> Option<(String, &'static str)> {
    let mut in_classes = 0;
    // Where the quantifier begins that ends here.
    let mut quantifier = None;
    let mut at = 0;
    while let Some(letter) = pattern[at..].chars().next() {
        let rest = &pattern[at..];
        let behind = quantifier.take();
        let found = match letter {
            '\\' => escape(rest).map(|construct| (at, escape_length(rest), construct)),
            '(' if in_classes == 0 => group(rest).map(|(length, construct)| (at, length, construct)),
            '+' if in_classes == 0 => behind.map(|start: usize| (start, at + 1 - start, POSSESSIVE)),
            _ => None,
        };
        if let Some((start, length, (name, instead))) = found {
            let text = &pattern[start..start + length];
            let character = pattern[..start].chars().count() + 1;
            let message = format!(
                "'{pattern}' is a pattern of Java's: {text} at its character {character}, {name}, is not supported here"
            );
            return Some((message, instead));
        }
        let length = match letter {
            '\\' => escape_length(rest),
            '[' => class_begin_length(rest),
            // The question mark is no quantifier.
            '(' if in_classes == 0 && rest.starts_with("(?") => 2,
            '{' if in_classes == 0 => rest.find('}').map_or(1, |end| end + 1),
            other => other.len_utf8(),
        };
        match letter {
            '[' => in_classes += 1,
            ']' if in_classes > 0 => in_classes -= 1,
            // Behind a quantifier a question mark makes it reluctant.
            '?' if behind.is_some() => {}
            '*' | '+' | '?' | '{' if in_classes == 0 => quantifier = Some(at),
            _ => {}
        }
        at += length;
    }
    None
}

/// What a construct is, and what to write instead.
type Construct = (&'static str, &'static str);

const POSSESSIVE: Construct = ("a possessive quantifier", "leave out the last +, and more may match");

/// What begins with a backslash.
fn escape(rest: &str) -> Option<Construct> {
    Some(match rest.as_bytes().get(1)? {
        b'1'..=b'9' | b'k' => ("a back-reference", "compare groups that REGEXP_EXTRACT gives"),
        b'Q' => ("the begin of a quotation", "write a backslash before each letter that stands for itself"),
        b'Z' => ("the end before a last line end", "write \\z, or \\n?\\z"),
        b'R' => ("any line end", "write (?:\\r\\n|[\\n\\r])"),
        b'h' => ("a blank", "write [ \\t]"),
        b'H' => ("no blank", "write [^ \\t]"),
        _ => return None,
    })
}

/// Bytes of what begins with a backslash, which may have a name in brackets behind it.
fn escape_length(rest: &str) -> usize {
    let mut letters = rest[1..].chars();
    let Some(letter) = letters.next() else { return 1 };
    let close = match (letter, letters.next()) {
        ('p' | 'P' | 'x' | 'u' | 'U', Some('{')) => '}',
        ('k', Some('<')) => '>',
        _ => return 1 + letter.len_utf8(),
    };
    rest.find(close).map_or(2, |end| end + 1)
}

/// Bytes of the begin of a class, in which a bracket that comes first does not close it.
fn class_begin_length(rest: &str) -> usize {
    let negated = if rest[1..].starts_with('^') { 2 } else { 1 };
    negated + usize::from(rest[negated..].starts_with(']'))
}

/// What looks like a group, and how many bytes say that it is none.
fn group(rest: &str) -> Option<(usize, Construct)> {
    let take_group = "match it as well, and take the rest by a group of REGEXP_EXTRACT";
    let test_apart = "test for it by a call of REGEXP of its own";
    let constructs = [
        ("(?=", ("a look-ahead", take_group)),
        ("(?!", ("a look-ahead", test_apart)),
        ("(?<=", ("a look-behind", take_group)),
        ("(?<!", ("a look-behind", test_apart)),
        ("(?>", ("an atomic group", "write (?: instead, and more may match")),
    ];
    let (text, construct) = constructs.into_iter().find(|(text, _)| rest.starts_with(text))?;
    Some((text.len(), construct))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_java_knows_is_named_with_its_place() {
        for (pattern, found) in [
            ("a(?=b)", "(?= at its character 2, a look-ahead,"),
            ("ä(?!b)", "(?! at its character 2, a look-ahead,"),
            ("(?<=€)x", "(?<= at its character 1, a look-behind,"),
            ("(?<!€)x", "(?<! at its character 1, a look-behind,"),
            ("(?>a|b)", "(?> at its character 1, an atomic group,"),
            (r"(a)\1", r"\1 at its character 4, a back-reference,"),
            (r"(?<n>a)\k<n>", r"\k<n> at its character 8, a back-reference,"),
            (r"\Qa+b\E", r"\Q at its character 1, the begin of a quotation,"),
            (r"[a\h]", r"\h at its character 3, a blank,"),
            ("ab*+c", "*+ at its character 3, a possessive quantifier,"),
            ("a++", "++ at its character 2, a possessive quantifier,"),
            ("a?+", "?+ at its character 2, a possessive quantifier,"),
            ("(ä){2,3}+", "{2,3}+ at its character 4, a possessive quantifier,"),
            (r"\p{L}{2}+", "{2}+ at its character 6, a possessive quantifier,"),
        ] {
            let (message, _) = java_only(pattern).expect(pattern);
            assert_eq!(message, format!("'{pattern}' is a pattern of Java's: {found} is not supported here"));
        }
    }

    #[test]
    fn what_both_know_is_let_through() {
        for pattern in [
            "",
            "a+",
            "a+?b+",
            r"\++",
            r"\p{L}+",
            r"\x{41}+",
            "[*+]+",
            "[[a+]+]+",
            "(?:a)+",
            "(?<name>a)+",
            "(?i)+a",
            "a{2}",
            "{",
            r"a\",
            "[\\]*]+",
            r"\\1",
            "[(?=]",
            "[]*+]",
            "[^](?=]",
            r"\U{41}+",
        ] {
            assert_eq!(java_only(pattern), None, "{pattern}");
        }
    }
}
