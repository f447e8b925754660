//! Which bytes of a Rust file are code, which are comments, and which stand inside literals.

/// A file taken apart. Both texts have the lines of the original; what does not belong to them is blank.
pub struct Scanned {
    /// Code, without comments and without what literals hold.
    pub code: String,
    /// Comments only.
    pub comments: String,
}

/// Takes a Rust file apart. Knows nested comments, raw strings, byte strings, characters and lifetimes.
pub fn scan(source: &str) -> Scanned {
    let mut scanner = Scanner { rest: source, code: String::new(), comments: String::new() };
    while let Some(next) = scanner.rest.chars().next() {
        if scanner.rest.starts_with("//") {
            let length = scanner.rest.find('\n').unwrap_or(scanner.rest.len());
            scanner.take(length, Class::Comment);
        } else if scanner.rest.starts_with("/*") {
            scanner.take(block_comment_length(scanner.rest), Class::Comment);
        } else if let Some(length) = raw_string_length(scanner.rest) {
            scanner.take(length, Class::Literal);
        } else if next == '"' {
            scanner.take(string_length(scanner.rest), Class::Literal);
        } else if next == '\'' {
            scanner.take(quote_length(scanner.rest), Class::Literal);
        } else if next.is_alphanumeric() || next == '_' {
            let word = scanner.rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(scanner.rest.len());
            // The prefix of a byte or C string is a word of its own; the literal follows.
            scanner.take(word, Class::Code);
        } else {
            scanner.take(next.len_utf8(), Class::Code);
        }
    }
    Scanned { code: scanner.code, comments: scanner.comments }
}

enum Class {
    Code,
    Comment,
    Literal,
}

struct Scanner<'a> {
    rest: &'a str,
    code: String,
    comments: String,
}

impl Scanner<'_> {
    fn take(&mut self, length: usize, class: Class) {
        let (taken, rest) = self.rest.split_at(length);
        let blank: String = taken.chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        self.code.push_str(if matches!(class, Class::Code) { taken } else { &blank });
        self.comments.push_str(if matches!(class, Class::Comment) { taken } else { &blank });
        self.rest = rest;
    }
}

fn block_comment_length(text: &str) -> usize {
    let mut depth = 0usize;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

fn raw_string_length(text: &str) -> Option<usize> {
    let prefix = ["r", "br", "cr"]
        .into_iter()
        .find(|prefix| text.strip_prefix(prefix).is_some_and(|rest| rest.trim_start_matches('#').starts_with('"')))?;
    let hashes = text[prefix.len()..].len() - text[prefix.len()..].trim_start_matches('#').len();
    let opening = prefix.len() + hashes + 1;
    let closing = format!("\"{}", "#".repeat(hashes));
    Some(text[opening..].find(&closing).map_or(text.len(), |at| opening + at + closing.len()))
}

fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of a character literal, or 1 where the quote begins a lifetime or label.
fn quote_length(text: &str) -> usize {
    let mut inside = text[1..].char_indices();
    match inside.next() {
        Some((_, '\\')) => {
            // The escaped character itself may be a quote.
            let after = inside.next().map_or(text.len(), |(at, c)| 1 + at + c.len_utf8());
            text[after..].find('\'').map_or(text.len(), |at| after + at + 1)
        }
        Some((_, c)) if text[1 + c.len_utf8()..].starts_with('\'') => 1 + c.len_utf8() + 1,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(source: &str) -> String {
        scan(source).code.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn literals_and_comments_are_not_code() {
        assert_eq!(code("a /* x /* { */ y */ b // {\nc"), "a b c");
        assert_eq!(code(r#"f("{ \" }", b"}", '{', '\'', '\u{7d}', 'a')"#), "f( , b , , , , )");
        assert_eq!(code("r\"}\" r#\"\"}\"# br##\"\"#}\"## x"), "x");
        assert_eq!(code("fn f<'a>(x: &'a str) -> &'static str { 'l: loop { break 'l } }").matches('{').count(), 2);
        assert_eq!(code("for_r\"{\""), "for_r");
    }

    #[test]
    fn lines_stay_where_they_are() {
        let source = "a\n\"x\ny\"\n/* p\nq */ b";
        let scanned = scan(source);
        assert_eq!(scanned.code.lines().count(), source.lines().count());
        assert_eq!(scanned.code.lines().last().map(str::trim), Some("b"));
        assert_eq!(scanned.comments.split_whitespace().collect::<Vec<_>>(), ["/*", "p", "q", "*/"]);
    }
}
