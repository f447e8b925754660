//! `bench/*.bench`.

use std::collections::BTreeSet;
use std::path::Path;

use pelton_bench::file::Benchmark;

#[test]
fn every_benchmark_can_be_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench");
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "bench") {
            let text = std::fs::read_to_string(&path).unwrap();
            let benchmark = Benchmark::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert_eq!(path.file_stem().unwrap().to_string_lossy(), benchmark.name.as_str());
            for case in &benchmark.cases {
                let filled = benchmark.statements(case, 1.0, "folder");
                let filled = filled.setup + &filled.prepare + &filled.query;
                // What has a value in each of many queries.
                let filled = filled.replace("${number}", "").replace("${one of:", "");
                assert!(!filled.contains("${"), "{}, case {}: a parameter has no value", benchmark.name, case.name);
            }
            assert!(names.insert(benchmark.name));
        }
    }
    assert!(names.len() > 5);
}
