//! No text makes the parser panic, hang or overflow: every script of `tests/corpus`, mutated at random.

use std::path::Path;

use pelton_plan::parse;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Pieces that are put where they do not belong.
const PIECES: [&str; 32] = [
    ";",
    "(",
    ")",
    "'",
    "`",
    "\"",
    ",",
    ".",
    "--",
    "/*",
    "*/",
    "/*+",
    "é",
    "\u{0}",
    "\n",
    "\u{2028}",
    "INTERVAL",
    "TABLE",
    "NOT",
    "CAST(",
    "CASE",
    "SELECT",
    "BEGIN",
    "END",
    "TO",
    "SIMILAR TO",
    "PROCTIME()",
    "=>",
    "- ",
    "99999999999999999999",
    "ARRAY<",
    "((((((",
];

/// One change of a script.
#[derive(Debug, Clone)]
enum Mutation {
    Insert(Index, &'static str),
    Delete(Index, usize),
    Repeat(Index, usize),
    CutOff(Index),
}

/// What a fuzzer calls: any bytes, taken for text. Errors are fine when they name a place inside the script.
fn fuzz_parse(bytes: &[u8]) {
    let sql = String::from_utf8_lossy(bytes);
    if let Err(error) = parse(&sql) {
        let lines = sql.split('\n').count() as u64;
        assert!((1..=lines).contains(&error.line()), "{error} in {lines} lines of {sql}");
        assert!(error.column() >= 1, "{error}");
    }
}

fn corpus() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

fn mutate(script: &mut Vec<u8>, mutation: &Mutation) {
    let at = |index: &Index, script: &[u8]| index.index(script.len() + 1);
    match mutation {
        Mutation::Insert(index, piece) => {
            let at = at(index, script);
            script.splice(at..at, piece.bytes());
        }
        Mutation::Delete(index, length) => {
            let at = at(index, script);
            script.drain(at..(at + length).min(script.len()));
        }
        Mutation::Repeat(index, length) => {
            let at = at(index, script);
            let piece = script[at..(at + length).min(script.len())].to_vec();
            script.splice(at..at, piece);
        }
        Mutation::CutOff(index) => script.truncate(at(index, script)),
    }
}

fn mutations() -> impl Strategy<Value = Vec<Mutation>> {
    let mutation = prop_oneof![
        4 => (any::<Index>(), select(&PIECES[..])).prop_map(|(index, piece)| Mutation::Insert(index, piece)),
        2 => (any::<Index>(), 1..20_usize).prop_map(|(index, length)| Mutation::Delete(index, length)),
        2 => (any::<Index>(), 1..60_usize).prop_map(|(index, length)| Mutation::Repeat(index, length)),
        1 => any::<Index>().prop_map(Mutation::CutOff),
    ];
    prop::collection::vec(mutation, 1..8)
}

#[test]
fn the_corpus_parses() {
    for script in corpus() {
        parse(&script).unwrap_or_else(|error| panic!("{error}\n{script}"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn mutated_scripts_do_not_panic(script in select(corpus()), mutations in mutations()) {
        let mut bytes = script.into_bytes();
        mutations.iter().for_each(|mutation| mutate(&mut bytes, mutation));
        fuzz_parse(&bytes);
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        fuzz_parse(&bytes);
    }
}
