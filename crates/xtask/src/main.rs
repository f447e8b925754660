//! The project's own commands: `cargo xtask COMMAND`.
//!
//! Needs little but cargo and git, and builds in seconds: it is the first thing that runs on a fresh machine.
//! In reading order: [`processes`] (programs that are started), [`steps`] (what `test` does), [`rules`] (the house rules), [`judge`] (DuckDB's opinion of the examples),
//! [`flink`] (Flink's answers to scripts), [`python`] (the tests of the Python package), [`examples`] (which of them run here), [`bench_table`] (figures in `bench/results/README.md`),
//! [`cachegrind`] (what a record takes on a simulated machine), [`record_demo`] (the picture of the demo), [`docs`] (tables of options and settings).

mod processes;

mod steps;

mod rules;

mod examples;

mod judge;

mod flink;

mod python;

mod bench_table;

mod cachegrind;

mod record_demo;

mod docs;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use steps::Extent;

const USAGE: &str = "usage: cargo xtask COMMAND

  test [--quick | --bless]
                      all checks, as continuous integration runs them; stops at the first that fails.
                      --quick: one configuration of each SQL script, a few cases of each property, no races, examples or documentation.
                      --bless rewrites the expected results of SQL scripts instead of comparing them
  rules [--record]    the house rules only; --record writes down what has become shorter
  judge [NAME…]       compares the results of examples/*.sql with DuckDB's on real data
  flink [--bless] [FILTER]
                      compares the scripts in tests/sql/flink whose names contain FILTER, or all, with the answers of a real Flink 2.3;
                      --bless writes the answers into the scripts
  python [ARGUMENT…]  the tests of the Python package; arguments are pytest's
  soak [MINUTES]      ten queries at changing rates for ten minutes, or so many: no row may be lost, and memory may not grow
  bench-table         writes the figures of bench/results/*.json into bench/results/README.md
  docs [--check]      writes the tables of options and settings in docs/; --check compares them, as rules does
  cachegrind [BINARY] instructions, branches and simulated cache misses of a record, by valgrind, of generic and of specialised code
  record-demo [BINARY] runs the demo and writes docs/images/demo.svg; builds the program where none is given";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = root();
    let outcome = match arguments.as_slice() {
        ["test"] => steps::test(&root, Extent::Whole, false),
        ["test", "--quick"] => steps::test(&root, Extent::Quick, false),
        ["test", "--bless"] => steps::test(&root, Extent::Whole, true),
        ["test", "--quick", "--bless"] => Err("--bless runs every configuration: leave --quick out".to_string()),
        ["rules"] => rules::check(&root).map(|said| println!("{said}")),
        ["rules", "--record"] => rules::record(&root),
        ["judge", names @ ..] => judge::run(&root, names).map(|said| println!("{said}")),
        ["python", arguments @ ..] => python::test(&root, arguments).map(|said| println!("{said}")),
        ["flink"] => flink::run(&root, "", false),
        ["flink", "--bless"] => flink::run(&root, "", true),
        ["flink", "--bless", filter] => flink::run(&root, filter, true),
        ["flink", filter] => flink::run(&root, filter, false),
        ["cachegrind"] => cachegrind::run(&root, None).map(|table| println!("{table}")),
        ["cachegrind", binary] => cachegrind::run(&root, Some(binary)).map(|table| println!("{table}")),
        ["soak", minutes @ ..] => steps::soak(&root, minutes),
        ["record-demo"] => record_demo::run(&root, None).map(|said| println!("{said}")),
        ["record-demo", binary] => record_demo::run(&root, Some(binary)).map(|said| println!("{said}")),
        ["docs"] => docs::write(&root),
        ["docs", "--check"] => docs::check(&root).into_iter().next().map_or(Ok(()), Err),
        ["bench-table"] => bench_table::write(&root),
        _ => Err(USAGE.to_string()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

/// The workspace's directory: commands work from anywhere inside it.
fn root() -> PathBuf {
    // What cargo says now: a target directory that checkouts share may hold the program that another one built.
    let now = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let here = now.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf());
    here.ancestors().nth(2).expect("xtask lies two levels below the workspace").to_path_buf()
}
