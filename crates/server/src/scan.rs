//! Typed text as tokens: enough of SQL's lexical rules to know where statements end and what the cursor stands in.

use std::ops::Range;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A keyword, an unquoted name or a number.
    Word,
    /// A name in backticks.
    Name,
    /// A string in single or double quotes.
    Text,
    Comment,
    /// One other character.
    Sign,
}

/// A token and where it stands, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token<'a> {
    pub kind: Kind,
    pub text: &'a str,
    pub range: Range<usize>,
    /// Whether it ends within the text: a quote or comment may be open. A comment of one line is open until the line ends.
    pub is_closed: bool,
}

impl Token<'_> {
    /// Whether it is this keyword or sign.
    pub fn is(&self, text: &str) -> bool {
        matches!(self.kind, Kind::Word | Kind::Sign) && self.text.eq_ignore_ascii_case(text)
    }

    /// The name that it is, without its quotes.
    pub fn name(&self) -> Option<String> {
        match self.kind {
            Kind::Word => Some(self.text.to_owned()),
            Kind::Name if self.is_closed => Some(self.text[1..self.text.len() - 1].replace("``", "`")),
            _ => None,
        }
    }
}

/// The tokens of a text, without the blanks between them.
pub fn scan(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        let rest = &text[at..];
        let (kind, length, is_closed) = match first {
            '\'' | '"' => quoted(rest, first, Kind::Text),
            '`' => quoted(rest, first, Kind::Name),
            '-' if rest.starts_with("--") => {
                let length = rest.find('\n');
                (Kind::Comment, length.unwrap_or(rest.len()), length.is_some())
            }
            '/' if rest.starts_with("/*") => {
                let end = rest[2..].find("*/");
                (Kind::Comment, end.map_or(rest.len(), |end| end + 4), end.is_some())
            }
            _ if is_in_word(first) => {
                (Kind::Word, rest.find(|character| !is_in_word(character)).unwrap_or(rest.len()), true)
            }
            _ => (Kind::Sign, first.len_utf8(), true),
        };
        let range = at..at + length;
        at = range.end;
        tokens.push(Token { kind, text: &text[range.clone()], range, is_closed });
    }
    tokens
}

pub fn is_in_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || character == '$'
}

/// A quoted token: two quotes stand for one inside it.
fn quoted(text: &str, quote: char, kind: Kind) -> (Kind, usize, bool) {
    let mut at = 1;
    while let Some(found) = text[at..].find(quote) {
        at += found + 1;
        if !text[at..].starts_with(quote) {
            return (kind, at, true);
        }
        at += 1;
    }
    (kind, text.len(), false)
}

/// Whether the text can be executed: it ends in a semicolon that ends a statement, or has no statement at all.
pub fn is_complete(text: &str) -> bool {
    let tokens = scan(text);
    let may_be_open = |token: &Token| token.kind == Kind::Comment && token.text.starts_with("--");
    let is_open = |token: &Token| !token.is_closed && !may_be_open(token);
    if tokens.iter().any(is_open) {
        return false;
    }
    let code: Vec<Token> = tokens.into_iter().filter(|token| token.kind != Kind::Comment).collect();
    let Some(last) = code.last() else { return true };
    if !last.is(";") {
        return false;
    }
    !code.split(|token| token.is(";")).fold(false, |is_in_set, piece| goes_on(piece, is_in_set))
}

/// Where the statements of a text stand, without their semicolons, blanks and the comments before and behind them.
pub fn statements(text: &str) -> Vec<Range<usize>> {
    let code: Vec<Token> = scan(text).into_iter().filter(|token| token.kind != Kind::Comment).collect();
    let mut statements: Vec<Range<usize>> = Vec::new();
    let mut is_in_set = false;
    for piece in code.split(|token| token.is(";")) {
        let (Some(first), Some(last)) = (piece.first(), piece.last()) else { continue };
        let end = last.range.end;
        match statements.last_mut() {
            Some(set) if is_in_set => set.end = end,
            _ => statements.push(first.range.start..end),
        }
        is_in_set = goes_on(piece, is_in_set);
    }
    statements
}

/// Whether a statement set goes on behind the semicolon of this piece, which may be in one: its inserts end in semicolons of their own.
fn goes_on(piece: &[Token], is_in_set: bool) -> bool {
    match is_in_set {
        true => !piece.first().is_some_and(|token| token.is("END")),
        false => opens_statement_set(piece) && !piece.last().is_some_and(|token| token.is("END")),
    }
}

/// Whether a statement begins with `EXECUTE STATEMENT SET`, `BEGIN STATEMENT SET`, or an EXPLAIN of one.
fn opens_statement_set(piece: &[Token]) -> bool {
    const BEFORE: [&str; 6] = ["EXECUTE", "BEGIN", "EXPLAIN", "PLAN", "FOR", "ANALYZE"];
    let before = piece.iter().take_while(|token| BEFORE.iter().any(|word| token.is(word))).count();
    matches!(&piece[before..], [statement, set, ..] if statement.is("STATEMENT") && set.is("SET"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_at_semicolons_outside_of_quotes_and_comments() {
        let complete = [
            "",
            "  \n",
            "-- only a comment",
            "/* a comment */",
            "SELECT 1;",
            "SELECT 1; SELECT 2; \n",
            "SELECT 1; -- done",
            "SELECT 1; /* done */",
            "SELECT ';' AS a, `;` FROM t;",
            "SELECT 'it''s; -- no comment';",
            "SELECT 1 -- ' no string\n;",
            ";",
        ];
        for text in complete {
            assert!(is_complete(text), "{text}");
        }
        let incomplete = [
            "SELECT",
            "SELECT 1; SELECT",
            "SELECT 'a;",
            "SELECT 'it''s;",
            "SELECT `a;",
            "SELECT 1 -- done;",
            "SELECT 1 /* done;",
            "SELECT 1; /* open",
            "/*/",
        ];
        for text in incomplete {
            assert!(!is_complete(text), "{text}");
        }
    }

    #[test]
    fn a_statement_set_ends_with_its_end() {
        let sets = [
            "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1;",
            "begin statement set;",
            "EXPLAIN PLAN FOR STATEMENT SET BEGIN INSERT INTO a SELECT 1;",
            "SHOW TABLES; EXPLAIN ANALYZE STATEMENT SET BEGIN INSERT INTO a SELECT 1;",
        ];
        for set in sets {
            assert!(!is_complete(set), "{set}");
            let more = format!("{set}\nINSERT INTO b SELECT 2;");
            assert!(!is_complete(&more), "{more}");
            assert!(is_complete(&format!("{more} END;")), "{more} END;");
            assert!(!is_complete(&format!("{more} END")), "{more} END");
        }
        assert!(is_complete("SET 'a' = 'b';"));
    }

    #[test]
    fn statements_are_found_without_what_is_around_them() {
        let found =
            |text: &'static str| -> Vec<&str> { statements(text).into_iter().map(|range| &text[range]).collect() };
        assert_eq!(found(" SELECT 1 ;; -- no\n SELECT ';' /* 2 */;"), ["SELECT 1", "SELECT ';'"]);
        let set = "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END";
        assert_eq!(
            found("EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END; SELECT 3"),
            [set, "SELECT 3"]
        );
        assert!(found(" ; -- nothing").is_empty());
    }

    #[test]
    fn tokens_know_where_they_stand() {
        let text = "SELECT `ä``b`, 'c''d' -- e";
        let tokens = scan(text);
        let texts: Vec<&str> = tokens.iter().map(|token| &text[token.range.clone()]).collect();
        assert_eq!(texts, ["SELECT", "`ä``b`", ",", "'c''d'", "-- e"]);
        assert_eq!(tokens[1].name().as_deref(), Some("ä`b"));
    }
}
