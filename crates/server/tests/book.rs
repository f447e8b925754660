//! Runs the examples of the book (`docs/**/*.md`) and of `README.md` with the program, and checks the table of contents.
//!
//! In a page, a fenced block whose language is followed by a file name (```` ```csv trades.csv ````) is a file. A block of `sql` is a script.
//! Where the next block is `text`, it holds what the script prints: the script runs behind all `sql` blocks before it that have no output.
//! A script that fails prints its error. Blocks of `sql ignore` are not run. `BLESS=1` writes what is printed into the pages.
//! The page of functions is compared with `SHOW FUNCTIONS`, and expressions in tables with their values.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A fenced block of a page: the words behind the fence, its lines, and where these stand.
struct Fence {
    words: Vec<String>,
    text: String,
    first_line: usize,
    line_count: usize,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All pages below a folder.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the folder of the book") {
        let path = entry.expect("an entry of the book").path();
        if path.is_dir() {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn fences(page: &str) -> Vec<Fence> {
    let mut fences = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((start, line)) = lines.next() {
        let Some(head) = line.strip_prefix("```") else { continue };
        let words = head.split_whitespace().map(str::to_owned).collect();
        let mut fence = Fence { words, text: String::new(), first_line: start + 1, line_count: 0 };
        for (_, line) in lines.by_ref().take_while(|(_, line)| !line.starts_with("```")) {
            fence.line_count += 1;
            writeln!(fence.text, "{line}").expect("strings can be written to");
        }
        fences.push(fence);
    }
    fences
}

/// What the program prints for a script: rows, or the error.
fn printed(script: &str, folder: &Path) -> String {
    let path = folder.join("example.sql");
    std::fs::write(&path, script).expect("the example's folder can be written to");
    let output = Command::new(env!("CARGO_BIN_EXE_pelton"))
        .args(["run", "example.sql"])
        .current_dir(folder)
        .output()
        .expect("the program starts");
    let bytes = if output.status.success() { output.stdout } else { output.stderr };
    let text = String::from_utf8(bytes).expect("the program prints UTF-8");
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// The page with what its examples print, and the lines at which that is not what the page says.
fn run_page(page: &str) -> (String, Vec<String>) {
    let folder = example_folder(page);
    let fences = fences(page);
    let mut lines: Vec<String> = page.lines().map(str::to_owned).collect();
    let (mut setup, mut problems, mut replacements) = (String::new(), Vec::new(), Vec::new());
    for (index, fence) in fences.iter().enumerate() {
        let words: Vec<&str> = fence.words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["csv" | "json" | "text", name] => {
                std::fs::write(folder.join(name), &fence.text).expect("the example's folder can be written to");
            }
            ["sql"] => match fences.get(index + 1).filter(|next| next.words == ["text"]) {
                None => setup += &fence.text,
                Some(expected) => {
                    let found = printed(&format!("{setup}{}", fence.text), &folder);
                    if columns(&found) != columns(&expected.text) {
                        problems.push(format!("line {}: the example prints\n{found}", fence.first_line));
                        replacements.push((expected.first_line, expected.line_count, found));
                    }
                }
            },
            _ => {}
        }
    }
    if !setup.is_empty() {
        let found = printed(&setup, &folder);
        if found.starts_with("error") {
            problems.push(format!("an example without output fails:\n{found}"));
        }
    }
    std::fs::remove_dir_all(&folder).expect("the example's folder can be removed");
    for (first, count, found) in replacements.into_iter().rev() {
        lines.splice(first..first + count, found.lines().map(str::to_owned));
    }
    (lines.join("\n") + "\n", problems)
}

/// The text without what depends on how many rows were there when the first were printed: the width of columns, and a heading that is
/// printed again where columns become wider.
fn columns(text: &str) -> Vec<String> {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_rule = |line: &str| !line.is_empty() && line.chars().all(|c| c == '─' || c == ' ');
    let lines: Vec<&str> = text.lines().collect();
    let mut heading = String::new();
    let mut kept = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let is_heading = lines.get(index + 1).is_some_and(|next| is_rule(next));
        if is_rule(line) || is_heading && words(line) == heading {
            continue;
        }
        if is_heading {
            heading = words(line);
        }
        kept.push(words(line));
    }
    kept
}

fn example_folder(page: &str) -> PathBuf {
    let number = page.len();
    let title = page.lines().next().unwrap_or_default().replace(|c: char| !c.is_alphanumeric(), "");
    let folder = std::env::temp_dir().join(format!("pelton-book-{}-{title}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for examples");
    folder
}

#[test]
fn examples_print_what_the_pages_say() {
    let bless = std::env::var_os("BLESS").is_some_and(|value| value == "1");
    let mut failed = String::new();
    for path in pages(&root().join("docs")).into_iter().chain([root().join("README.md")]) {
        let page = std::fs::read_to_string(&path).expect("a page of the book");
        let (written, problems) = run_page(&page);
        if bless && !problems.is_empty() {
            std::fs::write(&path, written).expect("a page of the book can be written");
        } else if !problems.is_empty() {
            writeln!(failed, "{}:\n{}", path.display(), problems.join("\n")).expect("strings can be written to");
        }
    }
    assert!(failed.is_empty(), "{failed}");
}

/// Every page is in the table of contents, and every page that it names exists.
#[test]
fn table_of_contents_is_complete() {
    let docs = root().join("docs");
    let contents = std::fs::read_to_string(docs.join("SUMMARY.md")).expect("the table of contents");
    let targets = contents.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let named: Vec<PathBuf> = targets.map(|target| docs.join(target)).collect();
    let missing: Vec<&PathBuf> = named.iter().filter(|path| !path.exists()).collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md names pages that do not exist: {missing:?}");
    let unnamed: Vec<PathBuf> =
        pages(&docs).into_iter().filter(|path| !path.ends_with("SUMMARY.md") && !named.contains(path)).collect();
    assert!(unnamed.is_empty(), "docs/SUMMARY.md lacks {unnamed:?}");
}

/// The page of functions names every function.
#[test]
fn functions_are_described() {
    let page = std::fs::read_to_string(root().join("docs/sql/functions.md")).expect("the page of functions");
    let words: Vec<&str> = page.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    let names = csv("SHOW FUNCTIONS");
    let missing: Vec<&str> = names.lines().skip(1).filter(|name| !words.contains(name)).collect();
    assert!(missing.is_empty(), "docs/sql/functions.md lacks {missing:?}");
}

/// Expressions in tables (`` | `expression` → `value` | ``) have the values that stand there.
#[test]
fn expressions_have_the_values_that_tables_say() {
    let (mut script, mut expected) = (String::new(), Vec::new());
    for path in pages(&root().join("docs/sql")) {
        let page = std::fs::read_to_string(path).expect("a page of the book");
        for (before, after) in page.lines().filter_map(|line| line.split_once("` → `")) {
            let (_, expression) = before.rsplit_once('`').expect("an expression in backticks");
            let expression = expression.replace("\\|", "|");
            writeln!(script, "SELECT {expression} AS x;").expect("strings can be written to");
            let value = after.split('`').next().unwrap_or_default();
            expected.push(format!("{expression} → {value}"));
        }
    }
    let results = csv(&script);
    let values = results.lines().skip(1).step_by(2).map(unquoted);
    let written = expected.iter().map(|line| line.split(" → ").next().unwrap_or_default());
    let found: Vec<String> = written.zip(values).map(|(expression, value)| format!("{expression} → {value}")).collect();
    assert_eq!(found, expected);
}

/// What the program prints as CSV.
fn csv(sql: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_pelton")).args(["sql", "--format", "csv", "-e", sql]).output();
    let output = output.expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("the program prints UTF-8")
}

/// A field of CSV as its text; an empty one is NULL.
fn unquoted(field: &str) -> String {
    match field.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None if field.is_empty() => "NULL".to_owned(),
        None => field.to_owned(),
    }
}
