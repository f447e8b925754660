//! How long functions, files and documents are.

use std::collections::BTreeMap;

use super::SourceFile;
use super::scan::scan;

/// A function fits on a screen.
const FUNCTION_LINES_MAX: usize = 70;
/// A file fits in a sitting.
const FILE_LINES_MAX: usize = 600;
/// What a reader reads first fits in a sitting: documents and their greatest sizes in bytes.
const DOCUMENT_BYTES_MAX: [(&str, usize); 2] = [("README.md", 10_000), ("ARCHITECTURE.md", 16_000)];

/// What is too long, and by which name it is known: `file PATH`, `function PATH NAME` or `document PATH`. Of several functions of one name
/// in a file the longest counts.
pub type Lengths = BTreeMap<String, usize>;

/// The unit of what has this name.
pub fn unit(name: &str) -> &'static str {
    if name.starts_with("document ") { "bytes" } else { "lines" }
}

/// Everything that is longer than it should be: functions and files in lines, documents in bytes.
pub fn measure(files: &[SourceFile]) -> Lengths {
    let mut lengths = Lengths::new();
    for (path, bytes_max) in DOCUMENT_BYTES_MAX {
        let bytes = files.iter().find(|file| file.path == path).map_or(0, |file| file.text.len());
        if bytes > bytes_max {
            lengths.insert(format!("document {path}"), bytes);
        }
    }
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        let lines = file.text.lines().count();
        if lines > FILE_LINES_MAX {
            lengths.insert(format!("file {}", file.path), lines);
        }
        for (name, lines) in functions(&scan(&file.text).code) {
            if lines > FUNCTION_LINES_MAX {
                let longest = lengths.entry(format!("function {} {name}", file.path)).or_default();
                *longest = lines.max(*longest);
            }
        }
    }
    lengths
}

/// Name and length in lines, signature to closing brace, of each function with a body.
fn functions(code: &str) -> Vec<(&str, usize)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = &code[at + 3..];
        let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("");
        if !name.is_empty()
            && let Some(length) = body_end(rest)
        {
            found.push((name, rest[..length].matches('\n').count() + 1));
        }
    }
    found
}

/// Where the body of a function whose signature `code` begins with ends, or `None` where it has no body.
fn body_end(code: &str) -> Option<usize> {
    let mut braces = 0usize;
    let mut brackets = 0usize;
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets = brackets.saturating_sub(1),
            ';' if braces == 0 && brackets == 0 => return None,
            '{' => braces += 1,
            '}' => {
                braces = braces.checked_sub(1)?;
                if braces == 0 && brackets == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_measured_from_signature_to_brace() {
        let code = "trait T { fn a(&self); fn b(&self) {\n x\n } }\nfn c<const N: usize>(x: [u8; 4],\n y: u8)\n{ if x { y }\n}";
        assert_eq!(functions(code), [("b", 3), ("c", 4)]);
        assert_eq!(functions("type F = fn (u8) -> u8; let f: fn(u8);"), []);
    }

    #[test]
    fn only_what_is_too_long_is_listed() {
        let long = format!("fn f() {{\n{}}}\n", "x;\n".repeat(69));
        let file = |text: &str| SourceFile { path: "a.rs".into(), text: text.into() };
        assert_eq!(measure(&[file(&long)]).into_iter().collect::<Vec<_>>(), [("function a.rs f".to_string(), 71)]);
        assert!(measure(&[file(&long.replacen("x;\n", "", 1))]).is_empty());
        assert_eq!(measure(&[file(&"\n".repeat(601))])["file a.rs"], 601);
        let document = |path: &str, bytes| SourceFile { path: path.into(), text: "x".repeat(bytes) };
        let documents =
            [document("README.md", 10_001), document("ARCHITECTURE.md", 16_000), document("docs/README.md", 20_000)];
        assert_eq!(measure(&documents).into_iter().collect::<Vec<_>>(), [("document README.md".to_string(), 10_001)]);
    }
}
