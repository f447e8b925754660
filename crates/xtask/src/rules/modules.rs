//! The modules of a crate, and which source file uses which: the paths of its code, resolved to the files that define what they name.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenTree};

use super::SourceFile;

/// Each source file of a crate with the files of the same crate that it uses.
pub type Uses<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// Re-exports are followed so many times; more is a circle.
const RE_EXPORTS_MAX: usize = 8;

/// Which file of a crate uses which, test code apart. `folder` ends in a slash; below it are `src/lib.rs`, `src/main.rs` or both.
///
/// # Errors
/// Where a file is no Rust.
pub fn uses<'a>(files: &'a [SourceFile], folder: &str) -> Result<Uses<'a>, String> {
    let mut uses = Uses::new();
    for root in ["src/lib.rs", "src/main.rs"] {
        let root = format!("{folder}{root}");
        let Some(root) = files.iter().find(|file| file.path == root) else { continue };
        let mut tree = Tree { files, modules: Vec::new() };
        tree.read_file(root, None)?;
        for module in &tree.modules {
            uses.entry(&module.file.path).or_default();
        }
        for (at, module) in tree.modules.iter().enumerate() {
            for path in &module.paths {
                if let Some(Named::Module(used) | Named::Item(used)) = tree.resolve(at, path, 0) {
                    let used = &tree.modules[used].file.path;
                    if *used != module.file.path {
                        uses.entry(&module.file.path).or_default().insert(used);
                    }
                }
            }
        }
    }
    Ok(uses)
}

/// Segments of a path.
type Path = Vec<String>;

struct Module<'a> {
    file: &'a SourceFile,
    parent: Option<usize>,
    /// Where the files of its modules are, with a slash at the end.
    directory: String,
    children: BTreeMap<String, usize>,
    defines: BTreeSet<String>,
    /// What names of `use` mean.
    imports: BTreeMap<String, Path>,
    globs: Vec<Path>,
    /// All that its code names.
    paths: Vec<Path>,
}

/// What a path names: a module, or something that a module defines.
#[derive(Clone, Copy)]
enum Named {
    Module(usize),
    Item(usize),
}

struct Tree<'a> {
    files: &'a [SourceFile],
    /// The first is the root.
    modules: Vec<Module<'a>>,
}

impl<'a> Tree<'a> {
    fn read_file(&mut self, file: &'a SourceFile, parent: Option<usize>) -> Result<usize, String> {
        let stem = file.path.strip_suffix(".rs").unwrap_or(&file.path);
        let is_directory = parent.is_none() || stem.ends_with("/mod");
        let directory = match stem.rsplit_once('/') {
            Some((directory, _)) if is_directory => format!("{directory}/"),
            _ => format!("{stem}/"),
        };
        let tokens: proc_macro2::TokenStream = file.text.parse().map_err(|error| format!("{}: {error}", file.path))?;
        self.read_module(file, parent, directory, &Vec::from_iter(tokens))
    }

    fn read_module(
        &mut self,
        file: &'a SourceFile,
        parent: Option<usize>,
        directory: String,
        tokens: &[TokenTree],
    ) -> Result<usize, String> {
        let at = self.modules.len();
        self.modules.push(Module {
            file,
            parent,
            directory,
            children: BTreeMap::new(),
            defines: BTreeSet::new(),
            imports: BTreeMap::new(),
            globs: Vec::new(),
            paths: Vec::new(),
        });
        self.read_items(at, tokens)?;
        Ok(at)
    }

    /// The items of a module. What is within them is read by [`Tree::read_code`].
    fn read_items(&mut self, module: usize, mut tokens: &[TokenTree]) -> Result<(), String> {
        let mut is_re_export = false;
        while let Some(first) = tokens.first() {
            let mut taken = 1;
            match (word(first).as_str(), tokens.get(1)) {
                ("#", _) => taken = after_attribute(tokens),
                ("pub", Some(next)) => {
                    taken += usize::from(is_group(next, Delimiter::Parenthesis));
                    is_re_export = true;
                    tokens = &tokens[taken..];
                    continue;
                }
                // `use<'a>` belongs to a type.
                ("use", Some(next)) if word(next) != "<" => {
                    taken = 1 + semicolon(&tokens[1..]);
                    self.read_use(module, &tokens[1..taken], is_re_export);
                }
                ("mod", Some(name)) => {
                    taken = 2;
                    self.read_child(module, word(name), tokens.get(2))?;
                    if tokens.get(2).is_some_and(|body| is_group(body, Delimiter::Brace)) {
                        taken = 3;
                    }
                }
                ("fn" | "struct" | "enum" | "union" | "trait" | "type" | "const" | "static", Some(name)) => {
                    self.modules[module].defines.insert(word(name));
                }
                ("macro_rules", Some(_)) if tokens.len() > 2 => {
                    self.modules[module].defines.insert(word(&tokens[2]));
                }
                _ => taken = self.read_token(module, tokens),
            }
            is_re_export = false;
            tokens = &tokens[taken.min(tokens.len())..];
        }
        Ok(())
    }

    /// A module of a module: its text is in braces behind its name, or in a file.
    fn read_child(&mut self, module: usize, name: String, body: Option<&TokenTree>) -> Result<(), String> {
        let Module { file, ref directory, .. } = self.modules[module];
        let child = match body {
            Some(TokenTree::Group(body)) => {
                let directory = format!("{directory}{name}/");
                self.read_module(file, Some(module), directory, &Vec::from_iter(body.stream()))?
            }
            _ => {
                let places = [format!("{directory}{name}.rs"), format!("{directory}{name}/mod.rs")];
                // A file elsewhere, which an attribute names, belongs to another crate.
                let Some(file) = self.files.iter().find(|file| places.contains(&file.path)) else { return Ok(()) };
                self.read_file(file, Some(module))?
            }
        };
        self.modules[module].children.insert(name, child);
        Ok(())
    }

    /// Code within items.
    fn read_code(&mut self, module: usize, mut tokens: &[TokenTree]) {
        while let Some(first) = tokens.first() {
            let taken = match (word(first).as_str(), tokens.get(1)) {
                ("#", _) => after_attribute(tokens),
                ("pub", Some(next)) => 1 + usize::from(is_group(next, Delimiter::Parenthesis)),
                ("use", Some(next)) if word(next) != "<" => {
                    let taken = 1 + semicolon(&tokens[1..]);
                    let mut found = Vec::new();
                    use_tree(&tokens[1..taken], &[], &mut found);
                    self.modules[module].paths.extend(found.into_iter().map(|used| used.path));
                    taken
                }
                _ => self.read_token(module, tokens),
            };
            tokens = &tokens[taken.min(tokens.len())..];
        }
    }

    /// A path, what is in brackets, or a token that says nothing: how many tokens that are.
    fn read_token(&mut self, module: usize, tokens: &[TokenTree]) -> usize {
        if let TokenTree::Group(group) = &tokens[0] {
            self.read_code(module, &Vec::from_iter(group.stream()));
            return 1;
        }
        let (path, taken) = path(tokens);
        if path.len() > 1 {
            self.modules[module].paths.push(path);
        }
        taken
    }

    fn read_use(&mut self, module: usize, tokens: &[TokenTree], is_re_export: bool) {
        let mut found = Vec::new();
        use_tree(tokens, &[], &mut found);
        let module = &mut self.modules[module];
        for Use { path, name } in found {
            // A re-export passes a name on: who uses it depends on what it means.
            if !is_re_export {
                module.paths.push(path.clone());
            }
            match name {
                Some(name) => drop(module.imports.insert(name, path)),
                None => module.globs.push(path),
            }
        }
    }

    /// What a path names where it stands in this module; `None` where that is in another crate.
    fn resolve(&self, from: usize, path: &[String], re_exports: usize) -> Option<Named> {
        let mut at = from;
        for (index, segment) in path.iter().enumerate() {
            let module = &self.modules[at];
            at = match segment.as_str() {
                "crate" => 0,
                "self" => at,
                "super" => module.parent?,
                name => match module.children.get(name) {
                    Some(child) => *child,
                    None => match self.named(at, name, re_exports) {
                        Some(Named::Module(module)) => module,
                        Some(item) => return Some(item),
                        // The first segment may be another crate; what a module has from elsewhere counts as its own.
                        None => return (index > 0).then_some(Named::Item(at)),
                    },
                },
            };
        }
        Some(Named::Module(at))
    }

    /// What a name means in a module that has no module of that name.
    fn named(&self, at: usize, name: &str, re_exports: usize) -> Option<Named> {
        let module = &self.modules[at];
        if module.defines.contains(name) {
            return Some(Named::Item(at));
        }
        if re_exports == RE_EXPORTS_MAX {
            return None;
        }
        if let Some(path) = module.imports.get(name) {
            // `use name::…` of another crate, or of this name itself.
            return if path[0] == name { None } else { self.resolve(at, path, re_exports + 1) };
        }
        module.globs.iter().find_map(|glob| match self.resolve(at, glob, re_exports + 1)? {
            Named::Module(other) => match self.modules[other].children.get(name) {
                Some(child) => Some(Named::Module(*child)),
                None => self.named(other, name, re_exports + 1),
            },
            Named::Item(_) => None,
        })
    }
}

/// One path of a `use`, and what it is called; `None` where it brings all names of a module.
struct Use {
    path: Path,
    name: Option<String>,
}

/// The paths of a `use`, without the word and the semicolon.
fn use_tree(tokens: &[TokenTree], prefix: &[String], found: &mut Vec<Use>) {
    for branch in tokens.split(|token| word(token) == ",").filter(|branch| !branch.is_empty()) {
        let mut path = prefix.to_vec();
        let mut name = None;
        let mut rest = branch.iter();
        let is_whole = loop {
            match rest.next() {
                None => break true,
                Some(TokenTree::Group(group)) => {
                    use_tree(&Vec::from_iter(group.stream()), &path, found);
                    break false;
                }
                Some(token) => match word(token).as_str() {
                    "as" => name = rest.next().map(word),
                    "*" => {
                        found.push(Use { path: path.clone(), name: None });
                        break false;
                    }
                    ":" | ";" => {}
                    "self" if !path.is_empty() => {}
                    segment => path.push(segment.to_string()),
                },
            }
        };
        if is_whole && let Some(last) = path.last() {
            found.push(Use { name: name.or(Some(last.clone())), path });
        }
    }
}

/// The path that the tokens begin with, and how many tokens it has. A token that is no name counts as one, and the path is empty.
fn path(tokens: &[TokenTree]) -> (Path, usize) {
    let mut path = Path::new();
    let mut at = 0;
    while let Some(TokenTree::Ident(name)) = tokens.get(at) {
        path.push(name.to_string());
        at += 1;
        if !is_path_separator(&tokens[at..]) {
            break;
        }
        at += 2;
    }
    (path, at.max(1))
}

fn is_path_separator(tokens: &[TokenTree]) -> bool {
    tokens.len() > 1 && word(&tokens[0]) == ":" && word(&tokens[1]) == ":"
}

/// How many tokens an attribute has, and where it says that what follows is for tests, that as well.
fn after_attribute(tokens: &[TokenTree]) -> usize {
    let is_inner = tokens.get(1).is_some_and(|token| word(token) == "!");
    let at = 1 + usize::from(is_inner);
    let Some(TokenTree::Group(attribute)) = tokens.get(at) else { return 1 };
    let mut inside = attribute.stream().into_iter();
    let is_for_tests = inside.next().is_some_and(|name| word(&name) == "cfg")
        && inside.next().is_some_and(|condition| {
            let condition: String = condition.to_string().split_whitespace().collect();
            condition == "(test)" || condition.starts_with("(all(test,")
        });
    match (is_for_tests, is_inner) {
        (false, _) => at + 1,
        (true, true) => tokens.len(),
        (true, false) => at + 1 + item(&tokens[at + 1..]),
    }
}

/// How many tokens an item, a statement, a field or a variant has.
fn item(tokens: &[TokenTree]) -> usize {
    const KEYWORDS: [&str; 13] =
        ["pub", "mod", "use", "fn", "struct", "enum", "union", "trait", "type", "const", "static", "impl", "unsafe"];
    let attributes = tokens.iter().position(|token| word(token) != "#" && !is_group(token, Delimiter::Bracket));
    let first = tokens.get(attributes.unwrap_or(0)).map(word).unwrap_or_default();
    let is_item = KEYWORDS.contains(&first.as_str());
    let is_use = tokens.iter().take_while(|token| !is_group(token, Delimiter::Brace)).any(|token| word(token) == "use");
    let end = tokens.iter().position(|token| match word(token).as_str() {
        ";" => true,
        "," => !is_item,
        _ => is_group(token, Delimiter::Brace) && !is_use,
    });
    end.map_or(tokens.len(), |end| end + 1)
}

/// How many tokens there are up to the semicolon, which counts.
fn semicolon(tokens: &[TokenTree]) -> usize {
    tokens.iter().position(|token| word(token) == ";").map_or(tokens.len(), |at| at + 1)
}

fn is_group(token: &TokenTree, delimiter: Delimiter) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == delimiter)
}

/// A name or a sign; empty for anything else.
fn word(token: &TokenTree) -> String {
    match token {
        TokenTree::Ident(name) => name.to_string(),
        TokenTree::Punct(sign) => sign.as_char().to_string(),
        TokenTree::Group(_) | TokenTree::Literal(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each file of a made-up crate uses, as `user: used used`, those that use nothing left out.
    fn used(files: &[(&str, &str)]) -> Vec<String> {
        let file =
            |(path, text): &(&str, &str)| SourceFile { path: format!("a/src/{path}"), text: (*text).to_string() };
        let files: Vec<SourceFile> = files.iter().map(file).collect();
        let uses = uses(&files, "a/").unwrap();
        let name = |path: &str| path["a/src/".len()..path.len() - ".rs".len()].to_string();
        let names = |used: &BTreeSet<&str>| used.iter().map(|path| name(path)).collect::<Vec<_>>().join(" ");
        let users = uses.iter().filter(|(_, used)| !used.is_empty());
        users.map(|(user, used)| format!("{}: {}", name(user), names(used))).collect()
    }

    #[test]
    fn paths_lead_to_files() {
        let files = [
            ("lib.rs", "pub mod one; mod two; pub struct Root;"),
            ("one.rs", "mod inner; use inner::Inner; use crate::two::{deep::{self, Deep as D}, Two};"),
            ("one/inner.rs", "use super::super::Root; pub struct Inner; fn f() -> u8 { super::helper() }"),
            ("two/mod.rs", "pub mod deep; pub struct Two;"),
            (
                "two/deep.rs",
                "pub struct Deep; use std::fmt; fn f() { other::thing(); crate::one::x::<u8>(); fmt::f() }",
            ),
        ];
        assert_eq!(
            used(&files),
            ["one: one/inner two/deep two/mod", "one/inner: lib one", "two/deep: one"],
            "declaring a module is no use of it"
        );
    }

    #[test]
    fn re_exports_lead_to_what_defines_a_name() {
        let files = [
            (
                "lib.rs",
                "mod one; mod two; mod three; mod four; pub use one::One; pub use two::*; pub(crate) use std::fmt as shown;",
            ),
            ("one.rs", "pub struct One;"),
            ("two.rs", "pub mod sub { pub use crate::one::One as Other; } pub enum Two { A } pub fn two() {}"),
            ("three.rs", "use crate::{One, Two::A}; use super::two::sub::Other; fn f() { crate::two() }"),
            ("four.rs", "use crate::shown; macro_rules! m { () => { $crate::one::One } }"),
        ];
        assert_eq!(used(&files), ["four: lib one", "three: one two"]);
    }

    #[test]
    fn test_code_uses_nothing() {
        let files = [
            ("main.rs", "mod one; mod two; #[cfg(test)] mod tests;"),
            ("one.rs", "#[cfg(test)] use crate::two::{Two}; struct S { #[cfg(test)] a: crate::two::Two, b: u8 }
                #[cfg(all(test, unix))] #[inline] fn f() { crate::two::f() } #[cfg(test)] mod tests { use crate::two::Two; }"),
            ("two.rs", "#![cfg(test)] use crate::one::One;"),
            ("tests.rs", "use crate::one::One;"),
        ];
        assert_eq!(used(&files), [""; 0]);
        let after = [
            ("main.rs", "mod one; mod two;"),
            ("one.rs", "#[cfg(test)] fn f() {} fn g() { crate::two::g() }"),
            ("two.rs", ""),
        ];
        assert_eq!(used(&after), ["one: two"]);
        let other = [
            ("main.rs", "mod one; mod two;"),
            ("one.rs", "#[cfg(not(test))] use super::two::g;"),
            ("two.rs", "pub fn g() {}"),
        ];
        assert_eq!(used(&other), ["one: two"]);
    }

    #[test]
    fn visibility_and_captured_lifetimes_are_no_paths() {
        let files = [
            ("lib.rs", "mod one;"),
            ("one.rs", "mod two;"),
            (
                "one/two.rs",
                "pub(in crate::one) fn f<'a>(a: &'a u8) -> impl Sized + use<'a> { a } struct S { pub(super) a: u8 }",
            ),
        ];
        assert_eq!(used(&files), [""; 0]);
    }

    #[test]
    fn what_is_no_rust_is_an_error() {
        let file = SourceFile { path: "a/src/lib.rs".into(), text: "fn f( {".into() };
        assert!(uses(&[file], "a/").unwrap_err().starts_with("a/src/lib.rs: "));
    }
}
