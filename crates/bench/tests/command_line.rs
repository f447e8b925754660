//! The benchmark runner's binary.

use std::process::Command;

#[test]
fn a_benchmark_that_is_not_there_is_an_error_that_names_those_that_are() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench");
    for (arguments, expected) in [
        (
            ["--folder", folder, "strat"].as_slice(),
            "error: there is no benchmark 'strat'; there are adapt, bare-kernel, block-rows, checkpoints, chunk-blocks, close-pause, ",
        ),
        (
            &["--folder", folder, "nexmark-q2/cash"],
            "error: there is no benchmark 'nexmark-q2/cash'; there are nexmark-q2/cache, nexmark-q2/memory\n",
        ),
        (&["--folder", "nowhere"], "error: there is no folder 'nowhere': run it in a clone of the repository"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_pelton-bench")).args(arguments).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && error.starts_with(expected), "{error}");
    }
}

#[test]
fn a_benchmark_without_its_data_is_skipped() {
    let folder = std::env::temp_dir().join(format!("pelton-bench-skipped-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let text =
        "name real\nwhat It does.\nreads t v\nneeds nowhere/data.txt\ncase all rows=1\n\nsetup\n\nquery\nSELECT 1\n";
    std::fs::write(folder.join("real.bench"), text).unwrap();
    for name in [None, Some("real"), Some("real/all")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pelton-bench"));
        let output = command.arg("--folder").arg(&folder).args(name).output().unwrap();
        assert!(output.status.success() && output.stdout.is_empty());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said, "real: skipped, as there is no file 'nowhere/data.txt' here\n");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
