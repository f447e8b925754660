//! What Tab offers: names, keywords, settings and files, by what the cursor stands in.

use std::collections::BTreeSet;
use std::path::Path;

use pelton::{identifier, suggest};

use super::backend::Backend;
use super::keywords::{AFTER_FROM, COMMANDS, KEYWORDS, SHOWN, STATEMENTS};
use crate::scan::{Kind, Token, is_in_word, scan};

/// What can stand at the cursor, and where the text begins that it takes the place of.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Completion {
    pub start: usize,
    pub texts: Vec<String>,
}

/// What can stand at a byte of a text.
pub fn complete(backend: &Backend, text: &str, cursor: usize) -> Completion {
    let before = &text[..cursor];
    let tokens = scan(before);
    let begin = tokens.iter().rposition(|token| token.is(";")).map_or(0, |semicolon| semicolon + 1);
    let mut statement: Vec<Token> =
        tokens[begin..].iter().filter(|token| token.kind != Kind::Comment || !token.is_closed).cloned().collect();
    let is_touching = |token: &Token| token.range.end == cursor && (token.kind == Kind::Word || !token.is_closed);
    let last = if statement.last().is_some_and(is_touching) { statement.pop() } else { None };
    match last {
        None => named(backend, text, &statement, "", cursor),
        Some(word) if word.kind == Kind::Word => named(backend, text, &statement, word.text, word.range.start),
        Some(name) if name.kind == Kind::Name => {
            let prefix = &name.text[1..];
            let (columns, tables) = (columns_at(backend, text, &statement, cursor), tables(backend));
            let names = columns.into_iter().chain(tables).map(|name| identifier(&name));
            starting_with(names, &format!("`{prefix}"), name.range.start)
        }
        Some(string) if string.kind == Kind::Text => in_string(backend, text, &statement, &string, cursor),
        Some(_) => Completion::default(),
    }
}

/// Names and keywords that begin with a prefix.
fn named(backend: &Backend, text: &str, before: &[Token], prefix: &str, start: usize) -> Completion {
    let Some(previous) = before.last() else {
        return words(STATEMENTS.into_iter().chain(COMMANDS), prefix, start);
    };
    if previous.is(".") {
        return names(columns_at(backend, text, before, start), prefix, start);
    }
    if before.len() == 1 && (previous.is("SET") || previous.is("RESET")) {
        let quoted = settings(backend).into_iter().map(|key| format!("'{key}'"));
        return starting_with(quoted, &format!("'{prefix}"), start);
    }
    if before.len() == 1 && previous.is("SHOW") {
        return words(SHOWN.into_iter(), prefix, start);
    }
    if before.len() == 2 && previous.is("JOB") {
        return names(backend.running_jobs(), prefix, start);
    }
    let tables = tables(backend);
    const NAMES_A_TABLE: [&str; 7] = ["FROM", "JOIN", "INTO", "TABLE", "VIEW", "DESCRIBE", "DESC"];
    if NAMES_A_TABLE.iter().any(|word| previous.is(word)) {
        let mut found = names(tables, prefix, start);
        if previous.is("FROM") || previous.is("JOIN") {
            found.texts.extend(words(AFTER_FROM.into_iter(), prefix, start).texts);
        }
        return found;
    }
    let columns = columns_at(backend, text, before, start);
    let mut found = names(columns.into_iter().chain(tables), prefix, start);
    // All keywords and functions at once would help nobody.
    if !prefix.is_empty() {
        let functions = backend.listed("SHOW FUNCTIONS");
        let functions = functions.iter().map(|function| format!("{function}("));
        let all: BTreeSet<String> = functions.chain(KEYWORDS.map(str::to_owned)).collect();
        found.texts.extend(words(all.iter().map(String::as_str), prefix, start).texts);
    }
    found
}

/// What a string can hold: the key of a setting, or the path of a file.
fn in_string(backend: &Backend, text: &str, before: &[Token], string: &Token, cursor: usize) -> Completion {
    let (quote, content, start) = (&string.text[..1], &string.text[1..], string.range.start + 1);
    let end = if text[cursor..].starts_with(quote) { "" } else { quote };
    if let [only] = before
        && (only.is("SET") || only.is("RESET"))
    {
        let keys = settings(backend).into_iter().filter(|key| key.starts_with(content));
        return Completion { start, texts: keys.map(|key| format!("{key}{end}")).collect() };
    }
    let Some(opening) = opening_of_options(before) else { return paths(content, start, end) };
    let offered = |texts: Vec<String>| {
        let found = starting_with(texts.into_iter(), content, start);
        Completion { texts: found.texts.into_iter().map(|text| format!("{text}{end}")).collect(), ..found }
    };
    match before {
        [.., name, equals] if equals.is("=") && name.kind == Kind::Text => {
            let words = suggest::values(&name.text[1..name.text.len() - 1]);
            match words.is_empty() {
                true => paths(content, start, end),
                false => offered(words.iter().map(|word| word.to_string()).collect()),
            }
        }
        [.., last] if last.is("(") || last.is(",") => {
            let behind = text[cursor..].strip_prefix(quote).map(scan).unwrap_or_default();
            let behind = behind.split(|token| token.is(";") || token.is(")")).next().unwrap_or_default();
            let given = given_options(&before[opening + 1..]).chain(given_options(behind)).collect();
            offered(suggest::names(&given, &declared_columns(&before[..opening])))
        }
        _ => Completion::default(),
    }
}

/// Where the parenthesis of `WITH (` is that is open.
fn opening_of_options(before: &[Token]) -> Option<usize> {
    let mut depth = 0;
    let opening = before.iter().rposition(|token| {
        depth += i32::from(token.is("(")) - i32::from(token.is(")"));
        depth > 0
    })?;
    before[opening.checked_sub(1)?].is("WITH").then_some(opening)
}

/// Options and their values.
fn given_options<'a>(tokens: &'a [Token]) -> impl Iterator<Item = (String, String)> + 'a {
    let content = |token: &Token| token.text[1..token.text.len() - 1].to_owned();
    let is_string = |token: &Token| token.kind == Kind::Text && token.is_closed;
    tokens.windows(3).filter_map(move |option| match option {
        [name, equals, value] if equals.is("=") && is_string(name) && is_string(value) => {
            Some((content(name), content(value)))
        }
        _ => None,
    })
}

/// The columns that a definition declares in its first parentheses.
fn declared_columns(definition: &[Token]) -> Vec<String> {
    let mut depth = 0;
    let mut begins = false;
    let mut columns = Vec::new();
    for token in definition {
        let is_first = std::mem::replace(&mut begins, depth <= 1 && (token.is("(") || token.is(",")));
        match depth {
            1 if is_first => columns.extend(token.name()),
            1 if token.is(")") => break,
            _ => {}
        }
        depth += i32::from(token.is("(")) - i32::from(token.is(")"));
    }
    columns
}

/// Files and folders whose path begins with a prefix.
fn paths(prefix: &str, start: usize, end: &str) -> Completion {
    let (folder, name) =
        prefix.rsplit_once('/').map_or(("", prefix), |(_, name)| prefix.split_at(prefix.len() - name.len()));
    let listed = std::fs::read_dir(if folder.is_empty() { Path::new(".") } else { Path::new(folder) });
    let entries = listed.into_iter().flatten().flatten().filter_map(|entry| {
        let found = entry.file_name().into_string().ok()?;
        // A quote would end the string.
        let is_offered = found.starts_with(name) && (name.starts_with('.') || !found.starts_with('.'));
        let tail = if entry.path().is_dir() { "/" } else { end };
        (is_offered && !found.contains('\'')).then(|| format!("{folder}{found}{tail}"))
    });
    let mut texts: Vec<String> = entries.collect();
    texts.sort();
    Completion { start, texts }
}

/// Columns that a name at a byte can mean: of the table or alias before a point, or else of the tables that the statement
/// names, or of all where it names none yet.
fn columns_at(backend: &Backend, text: &str, before: &[Token], at: usize) -> Vec<String> {
    let known = tables(backend);
    let statement = statement_around(text, at);
    let named = tables_of(&statement, &known);
    let mut wanted: Vec<String> = match before {
        [.., qualifier, point] if point.is(".") => {
            let qualifier = qualifier.name().unwrap_or_default();
            named.into_iter().filter(|(alias, _)| *alias == qualifier).map(|(_, table)| table).collect()
        }
        _ if named.is_empty() => known,
        _ => named.into_iter().map(|(_, table)| table).collect(),
    };
    wanted.sort();
    wanted.dedup();
    let describe = |table: String| backend.listed(&format!("DESCRIBE {}", identifier(&table)));
    let columns: BTreeSet<String> = wanted.into_iter().flat_map(describe).collect();
    columns.into_iter().collect()
}

/// The tokens of the statement that a byte belongs to.
fn statement_around(text: &str, at: usize) -> Vec<Token<'_>> {
    let tokens: Vec<Token> = scan(text).into_iter().filter(|token| token.kind != Kind::Comment).collect();
    let is_here = |piece: &&[Token]| piece.last().is_some_and(|last| last.range.end >= at);
    let piece = tokens.split(|token| token.is(";")).find(is_here);
    piece.or_else(|| tokens.rsplit(|token| token.is(";")).next()).unwrap_or_default().to_vec()
}

/// The tables that a statement names, each under its own name and its alias.
fn tables_of(statement: &[Token], known: &[String]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (index, token) in statement.iter().enumerate() {
        let Some(table) = token.name().filter(|name| known.contains(name)) else { continue };
        let mut rest = statement[index + 1..].iter().skip_while(|token| token.is("AS") || token.is(")"));
        let is_keyword = |token: &Token| KEYWORDS.iter().any(|keyword| token.is(keyword));
        if let Some(alias) = rest.next().filter(|token| !is_keyword(token)).and_then(Token::name) {
            found.push((alias, table.clone()));
        }
        found.push((table.clone(), table));
    }
    found
}

fn tables(backend: &Backend) -> Vec<String> {
    backend.listed("SHOW TABLES")
}

fn settings(backend: &Backend) -> Vec<String> {
    backend.listed("SET")
}

/// Keywords and functions, in small letters where those are typed.
fn words<'a>(words: impl Iterator<Item = &'a str>, prefix: &str, start: usize) -> Completion {
    let is_small = prefix.chars().any(char::is_lowercase) && !prefix.chars().any(char::is_uppercase);
    let spelt = words.map(|word| if is_small { word.to_lowercase() } else { word.to_owned() });
    starting_with(spelt, prefix, start)
}

/// The texts that begin with a prefix, whatever their case.
fn starting_with(texts: impl Iterator<Item = String>, prefix: &str, start: usize) -> Completion {
    let folded = prefix.to_lowercase();
    Completion { start, texts: texts.filter(|text| text.to_lowercase().starts_with(&folded)).collect() }
}

/// The names that begin with a prefix, as SQL writes them.
fn names(names: impl IntoIterator<Item = String>, prefix: &str, start: usize) -> Completion {
    let mut found = starting_with(names.into_iter(), prefix, start);
    found.texts = found.texts.into_iter().map(spelt).collect();
    found
}

/// A name as SQL writes it: in backticks where it would not be read as a name otherwise.
fn spelt(name: String) -> String {
    let is_plain =
        name.chars().all(is_in_word) && !name.starts_with(|first: char| first.is_ascii_digit() || first == '$');
    let is_keyword = KEYWORDS.iter().any(|keyword| name.eq_ignore_ascii_case(keyword));
    if is_plain && !is_keyword { name } else { identifier(&name) }
}

#[cfg(test)]
mod tests {
    use pelton::Session;

    use super::*;

    fn backend() -> Backend {
        let session = Session::new();
        let script = "CREATE TABLE trades (price DOUBLE, product STRING, `order` INT) WITH ('connector' = 'datagen');
             CREATE TABLE bids (bidder INT, price INT) WITH ('connector' = 'datagen');
             CREATE VIEW products AS SELECT product FROM trades";
        for statement in session.prepare(script).expect("statements") {
            session.execute(&statement).expect("a definition");
        }
        Backend::Session(session)
    }

    /// What is offered at the mark `|`.
    fn offered(text: &str) -> Vec<String> {
        let cursor = text.find('|').expect("a mark");
        complete(&backend(), &text.replacen('|', "", 1), cursor).texts
    }

    #[test]
    fn tables_and_columns_are_offered_where_they_can_stand() {
        assert_eq!(offered("SELECT * FROM |")[..4], ["bids", "products", "trades", "TABLE"]);
        assert_eq!(offered("SELECT * FROM tr|"), ["trades"]);
        assert_eq!(offered("INSERT INTO b|"), ["bids"]);
        assert_eq!(offered("SELECT | FROM bids")[..2], ["bidder", "price"]);
        assert_eq!(offered("SELECT p| FROM bids")[..2], ["price", "products"]);
        assert_eq!(offered("SELECT o| FROM trades")[0], "`order`");
        assert_eq!(offered("SELECT `o| FROM trades"), ["`order`"]);
        assert_eq!(offered("SELECT 1; SELECT bid| FROM trades; SELECT bidder FROM bids;"), ["bids"]);
    }

    #[test]
    fn a_qualifier_says_whose_columns_are_meant() {
        assert_eq!(offered("SELECT b.| FROM trades AS t JOIN bids b ON TRUE"), ["bidder", "price"]);
        assert_eq!(offered("SELECT t.pro| FROM trades AS t JOIN bids b ON TRUE"), ["product"]);
        assert_eq!(offered("SELECT bids.b| FROM bids"), ["bidder"]);
        assert!(offered("SELECT nobody.| FROM bids").is_empty());
    }

    #[test]
    fn keywords_and_functions_are_spelt_as_the_prefix_is() {
        assert_eq!(offered("SEL|"), ["SELECT"]);
        assert_eq!(offered("sel|"), ["select"]);
        assert_eq!(offered("SHOW V|"), ["VIEWS"]);
        assert_eq!(
            offered("SHOW C|"),
            ["CREATE TABLE", "CREATE VIEW", "COLUMNS FROM", "CATALOGS", "CURRENT CATALOG", "CURRENT DATABASE"]
        );
        assert_eq!(offered("US|"), ["USE"]);
        assert_eq!(offered("SELECT * FROM trades whe|"), ["when", "where"]);
        assert!(offered("SELECT char_l| FROM trades").contains(&"char_length(".to_owned()));
        assert_eq!(offered("SELECT 1; -- a comment\nhe|"), ["help"]);
    }

    #[test]
    fn settings_are_offered_behind_set() {
        assert_eq!(offered("SET pelton.wor|"), Vec::<String>::new(), "keys are quoted");
        assert!(offered("SET |").contains(&"'pelton.workers'".to_owned()));
        assert_eq!(offered("SET 'pelton.wor|"), ["pelton.workers'"]);
        assert_eq!(offered("SET 'pelton.wor|' = '1'"), ["pelton.workers"]);
        assert_eq!(offered("RESET 'pelton.wor|"), ["pelton.workers'"]);
    }

    #[test]
    fn paths_are_offered_in_strings() {
        let folder = std::env::temp_dir().join(format!("pelton-complete-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("trades.d")).expect("a folder");
        std::fs::write(folder.join("trades.csv"), "").expect("a file");
        std::fs::write(folder.join(".trades"), "").expect("a file");
        let folder_path = folder.display();
        let create = format!("CREATE TABLE t (a INT) WITH ('path' = '{folder_path}/tr|");
        assert_eq!(offered(&create), [format!("{folder_path}/trades.csv'"), format!("{folder_path}/trades.d/")]);
        let hidden = format!("CREATE TABLE t (a INT) WITH ('path' = '{folder_path}/.|')");
        assert_eq!(offered(&hidden), [format!("{folder_path}/.trades")]);
        assert!(offered(&format!("CREATE TABLE t (a INT) WITH ('a' = 'b', '{folder_path}/|")).is_empty(), "an option");
        std::fs::remove_dir_all(&folder).expect("the folder can be removed");
    }

    #[test]
    fn options_are_offered_in_with() {
        let create = |options: &str| offered(&format!("CREATE TABLE t (id INT, `a b` DECIMAL(3, 1)) WITH ({options}"));
        assert_eq!(create("'connector|"), ["connector'"]);
        assert_eq!(create("'connector' = 'f|"), ["filesystem'"]);
        assert_eq!(create("'connector' = 'filesystem', 'for|"), ["format'"]);
        assert_eq!(create("'connector' = 'filesystem', 'format' = 'j|')"), ["json"]);
        assert_eq!(create("'connector' = 'filesystem', 'path' = 'a.csv', 'json.|"), Vec::<String>::new());
        assert_eq!(create("'connector' = 'filesystem', 'csv.header' = '|"), ["true'", "false'"]);
        assert_eq!(create("'json.f|', 'connector' = 'filesystem'); SELECT 1"), ["json.fail-on-missing-field"]);
        assert_eq!(create("'json.f|', 'connector' = 'print'); SELECT 1"), Vec::<String>::new());
        assert_eq!(create("'connector' = 'datagen', 'fields.|")[..2], ["fields.id.kind'", "fields.a b.kind'"]);
        assert_eq!(create("'connector' = 'print', 'connector|"), Vec::<String>::new(), "it is given");
    }

    #[test]
    fn nothing_is_offered_in_comments() {
        assert!(offered("SELECT 1 -- sel|").is_empty());
        assert!(offered("SELECT 1 /* sel|").is_empty());
    }
}
