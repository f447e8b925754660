//! Java's regular expressions, which are Flink's: what they have and the ones here have not, by name, so that nobody looks for a slip in a pattern that is
//! right, and what they have with another meaning, translated.

/// Something in a pattern that only Java's library knows, and what to write instead.
///
/// The library here finds a match in time that grows with the text and not with what could be tried, and has nothing for which it
/// would have to go back. A possessive quantifier it takes for one of a quantified expression, which matches other texts.
pub fn java_only(pattern: &str) -> Option<(String, &'static str)> {
    // Where the quantifier begins that ends here.
    let mut quantifier = None;
    for piece in Pieces::of(pattern).filter(|piece| !piece.is_comment) {
        let (first, behind) = (piece.text.as_bytes()[0], quantifier.take());
        let found = match first {
            b'\\' => escape(piece.text).map(|construct| (piece.at, piece.text.len(), construct)),
            b'(' if !piece.is_in_class => {
                group(&pattern[piece.at..]).map(|(length, construct)| (piece.at, length, construct))
            }
            b'+' if !piece.is_in_class => behind.map(|start: usize| (start, piece.at + 1 - start, POSSESSIVE)),
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
        match first {
            // Behind a quantifier a question mark makes it reluctant.
            b'?' if behind.is_some() => {}
            b'*' | b'+' | b'?' | b'{' if !piece.is_in_class => quantifier = Some(piece.at),
            _ => {}
        }
    }
    None
}

/// A pattern of Java's in the spelling of the library here. In Java digits, words, blanks and classes such as `\p{Alpha}` are those of ASCII, unless
/// the flag `U` is set, which stands for something else here; so are the ends of words, since Java 19.
pub fn translated(pattern: &str) -> String {
    let mut spelling = String::with_capacity(pattern.len());
    // In a class: whether a letter stands before that may begin a range, and whether a range ends here, which only a letter does.
    let (mut is_after_letter, mut ends_range) = (false, false);
    for piece in Pieces::of(pattern) {
        let rest = &pattern[piece.at + piece.text.len()..];
        if piece.is_comment {
            spelling.push_str(piece.text);
            continue;
        }
        let class = ascii_class(piece.text).filter(|_| !piece.is_unicode && !ends_range);
        let begins_range = is_after_letter && piece.text == "-" && !rest.starts_with([']', '-']);
        is_after_letter =
            piece.is_in_class && class.is_none() && !ends_range && !begins_range && !piece.text.starts_with(['[', ']']);
        ends_range = begins_range;
        match class {
            Some(class) if piece.is_in_class => spelling.push_str(&class),
            Some(class) => spelling.extend(["[", &class, "]"]),
            None if piece.is_in_class => spelling.push_str(piece.text),
            // With braces it is a boundary of the library's own.
            None if matches!(piece.text, "\\b" | "\\B") && !piece.is_unicode && !rest.starts_with('{') => {
                spelling.extend(["(?-u:", piece.text, ")"])
            }
            None => match set_flags(piece.text) {
                Some(flags) => spelling.push_str(&known_flags(flags, &piece.text[2 + flags.len()..])),
                None => spelling.push_str(piece.text),
            },
        }
    }
    spelling
}

/// Java's classes that are those of ASCII; in the library here they go by the same names in lower case, between colons.
const ASCII_CLASSES: [&str; 13] = [
    "ASCII", "Alnum", "Alpha", "Blank", "Cntrl", "Digit", "Graph", "Lower", "Print", "Punct", "Space", "Upper",
    "XDigit",
];

/// Such a class as it stands inside of another, for an escape that means one.
fn ascii_class(escape: &str) -> Option<String> {
    let escaped = escape.strip_prefix('\\')?;
    let name = match escaped {
        "d" | "D" => "digit",
        "s" | "S" => "space",
        "w" | "W" => "word",
        _ => {
            let name = escaped.strip_prefix(['p', 'P'])?.strip_prefix('{')?.strip_suffix('}')?;
            ASCII_CLASSES.into_iter().find(|known| *known == name)?
        }
    };
    let negated = if escaped.starts_with(char::is_uppercase) { "^" } else { "" };
    Some(format!("[:{negated}{}:]", name.to_ascii_lowercase()))
}

/// The flags in the begin of a group, or in what stands for all that follows: `x` and `-i` in `(?x-i:` and `(?x-i)`.
fn set_flags(begin: &str) -> Option<&str> {
    begin.strip_prefix("(?")?.strip_suffix([':', ')'])
}

/// The same without flags that mean something else, or nothing, to the library here.
fn known_flags(flags: &str, end: &str) -> String {
    let known = flags.replace(['u', 'U'], "");
    match known.strip_suffix('-').unwrap_or(&known) {
        "" => format!("(?:{}", end.trim_start_matches(':')),
        known => format!("(?{known}{end}"),
    }
}

/// What a pattern consists of, one piece after the other.
struct Pieces<'a> {
    pattern: &'a str,
    at: usize,
    /// How many classes are open.
    classes: usize,
    flags: Flags,
    /// Those outside of each group that is open.
    outer: Vec<Flags>,
}

/// What holds for a part of a pattern.
#[derive(Clone, Copy, Default)]
struct Flags {
    /// `x`: blanks, and what stands from # to the end of the line, are no part of it.
    has_comments: bool,
    /// `U`
    is_unicode: bool,
}

/// A letter, an escape, or the begin of a class or a group.
struct Piece<'a> {
    /// Where it begins.
    at: usize,
    text: &'a str,
    /// Whether it stands in a class.
    is_in_class: bool,
    /// Whether it is no part of the pattern.
    is_comment: bool,
    /// Whether classes have all of Unicode.
    is_unicode: bool,
}

impl<'a> Pieces<'a> {
    fn of(pattern: &'a str) -> Pieces<'a> {
        Pieces { pattern, at: 0, classes: 0, flags: Flags::default(), outer: Vec::new() }
    }

    /// Goes into a group, or changes what holds for the rest of one.
    fn enter(&mut self, begin: &str) {
        if !begin.ends_with(')') {
            self.outer.push(self.flags);
        }
        let (set, unset) = set_flags(begin).map_or(("", ""), |flags| flags.split_once('-').unwrap_or((flags, "")));
        let now = |before: bool, flag: char| (before || set.contains(flag)) && !unset.contains(flag);
        self.flags =
            Flags { has_comments: now(self.flags.has_comments, 'x'), is_unicode: now(self.flags.is_unicode, 'U') };
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let (at, rest) = (self.at, &self.pattern[self.at..]);
        let first = rest.chars().next()?;
        let is_in_class = self.classes > 0;
        let is_comment = self.flags.has_comments && (first == '#' || first.is_whitespace());
        let length = match first {
            '#' if is_comment => rest.find('\n').unwrap_or(rest.len()),
            '\\' => escape_length(rest),
            '[' => class_begin_length(rest),
            '(' if !is_in_class => group_begin_length(rest),
            '{' if !is_in_class => rest.find('}').map_or(1, |end| end + 1),
            other => other.len_utf8(),
        };
        let text = &rest[..length];
        let piece = Piece { at, text, is_in_class, is_comment, is_unicode: self.flags.is_unicode };
        match first {
            '[' => self.classes += 1,
            ']' if is_in_class => self.classes -= 1,
            '(' if !is_in_class => self.enter(text),
            ')' if !is_in_class => self.flags = self.outer.pop().unwrap_or_default(),
            _ => {}
        }
        self.at += length;
        Some(piece)
    }
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

/// Bytes of the begin of a group with its flags. The question mark in it is no quantifier.
fn group_begin_length(rest: &str) -> usize {
    let Some(behind) = rest.strip_prefix("(?") else { return 1 };
    let flags = behind.find(|letter: char| !letter.is_ascii_alphabetic() && letter != '-').unwrap_or(behind.len());
    if behind[flags..].starts_with([':', ')']) { 2 + flags + 1 } else { 2 }
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
            ("(?x)a* + # is one", "* + at its character 6, a possessive quantifier,"),
            ("(?x)# a\n\\1", "\\1 at its character 9, a back-reference,"),
            ("((?x)a)#(?=b)", "(?= at its character 9, a look-ahead,"),
            ("(?x:a)#(?=b)", "(?= at its character 8, a look-ahead,"),
            ("(?x)a(?-x)#(?=b)", "(?= at its character 12, a look-ahead,"),
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
            "(?x)a # (?=b) and ++\n+",
            "(?xi: a # \\1\n)",
            "(?-i)(?i-sx:a)(?x)[#(?=b)\n]#",
            "(?x)a #",
        ] {
            assert_eq!(java_only(pattern), None, "{pattern}");
        }
    }
    #[test]
    fn a_pattern_has_the_classes_of_ascii_unless_it_asks_for_others() {
        for (pattern, here) in [
            ("", ""),
            ("ä+(b|[^c-d])", "ä+(b|[^c-d])"),
            (r"\d\\d", r"[[:digit:]]\\d"),
            (r"[^\w.\-]", r"[^[:word:].\-]"),
            (r"[\S-\D]", r"[[:^space:]-[:^digit:]]"),
            (r"[-\d][^-\d]", "[-[:digit:]][^-[:digit:]]"),
            (r"[a-z-\d]", "[a-z-[:digit:]]"),
            (r"\p{Lower}[\P{XDigit}]\p{L}", r"[[:lower:]][[:^xdigit:]]\p{L}"),
            (r"\bx\B", r"(?-u:\b)x(?-u:\B)"),
            (r"\b{start}x", r"\b{start}x"),
            (r"(?U)\d\b", r"(?:)\d\b"),
            (r"((?iU)\d)\d", r"((?i)\d)[[:digit:]]"),
            (r"(?U:\d(?-U:\d))\d", r"(?:\d(?:[[:digit:]]))[[:digit:]]"),
            (r"(?i-us:\d)", "(?i-s:[[:digit:]])"),
            ("(?x)\\d # \\d\n\\d", "(?x)[[:digit:]] # \\d\n[[:digit:]]"),
            // No range, neither in Java.
            (r"[a-\d]", r"[a-\d]"),
        ] {
            assert_eq!(translated(pattern), here, "{pattern}");
        }
    }

    #[test]
    fn what_java_matches_is_matched() {
        // In Arabic-Indic digits, letters and blanks beyond ASCII.
        for (pattern, text, is_match) in [
            (r"^\d$", "7", true),
            (r"^\d$", "٧", false),
            (r"(?U)^\d$", "٧", true),
            (r"^\D$", "٧", true),
            (r"^\w+$", "a_1", true),
            (r"^\w$", "ä", false),
            (r"^[^\W]$", "ä", false),
            (r"^\s$", "\u{b}", true),
            (r"^\s$", "\u{a0}", false),
            (r"^\S$", "\u{2003}", true),
            (r"a\b", "aä", true),
            (r"a\B", "aä", false),
            (r"^[\w-.]+$", "a-.1", true),
            (r"^\p{Punct}$", "+", true),
            (r"^\p{Alpha}$", "ä", false),
            (r"(?i)^\p{Upper}$", "a", true),
            ("(?x) ^ \\d # \\d\n $", "7", true),
        ] {
            let regex = regex::Regex::new(&translated(pattern)).unwrap();
            assert_eq!(regex.is_match(text), is_match, "{pattern} and {text}");
        }
    }
}
