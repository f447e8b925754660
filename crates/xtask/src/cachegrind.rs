//! Instructions, branches and simulated cache misses of each record, of generic code and of code that suits the data (Grizzly, Table 1).
//!
//! Valgrind runs the release binary twice, over a stream and over one that is longer: the difference is what the records between them take, without
//! loading and compiling. Its processor has no AVX-512, so the code is that of a portable machine, and its caches are Grizzly's. Nothing here was
//! counted by hardware.

use std::path::Path;
use std::process::Command;

/// Records of one pass, and passes of the shorter and the longer run.
const RECORDS: u64 = 500_000;
const PASSES: [u64; 2] = [1, 5];

/// A third of the records summed by ten thousand keys over ten seconds, as Grizzly's variant of the Yahoo benchmark.
const SCRIPT: &str = "
SET 'pelton.workers' = '1';
SET 'pelton.tier' = '${tier}';
SET 'pelton.adapt' = 'off';
SET 'pelton.adapt.dense-keys' = '${dense}';
CREATE TABLE t (a BIGINT NOT NULL, k BIGINT NOT NULL, v BIGINT NOT NULL, ts TIMESTAMP(3) NOT NULL, WATERMARK FOR ts AS ts) WITH (
    'connector' = 'datagen', 'number-of-rows' = '${records}', 'rows-per-second' = '1000000', 'pace' = 'flat-out',
    'base-time' = '2020-01-01 00:00:00', 'fields.a.min' = '0', 'fields.a.max' = '2', 'fields.k.min' = '0', 'fields.k.max' = '9999',
    'fields.v.min' = '0', 'fields.v.max' = '999', 'replay' = 'memory', 'replay.passes' = '${passes}'
);
CREATE TABLE nowhere (k BIGINT, total BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO nowhere
SELECT k, SUM(v) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)) WHERE a = 0 GROUP BY window_start, window_end, k;
";

/// What is compared: a name, the tier, and whether keys may have entries side by side. The last suits the data, the others are generic.
const VARIANTS: [(&str, &str, &str); 3] = [
    ("interpreted, by hash", "interpret", "forbid"),
    ("compiled, by hash", "compile", "forbid"),
    ("compiled, side by side", "compile", "pin"),
];

/// What is counted: a name, and how cachegrind's line about it begins.
const COUNTS: [(&str, &str); 6] = [
    ("instructions", "I   refs:"),
    ("branches", "Branches:"),
    ("mispredicted", "Mispredicts:"),
    ("data accesses", "D   refs:"),
    ("L1 data misses", "D1  misses:"),
    ("last level misses", "LLd misses:"),
];

/// A table of what each record takes.
pub fn run(root: &Path, binary: Option<&str>) -> Result<String, String> {
    let binary = binary.map_or_else(|| root.join("target/release/pelton"), Into::into);
    if !binary.is_file() {
        return Err(format!("there is no {}: build it with 'cargo build --release'", binary.display()));
    }
    let names = COUNTS.map(|(name, _)| format!("{name:>18}")).concat();
    let mut counts = Vec::new();
    for (name, tier, dense) in VARIANTS {
        let [short, long] = PASSES.map(|passes| count(&binary, tier, dense, passes));
        let (short, long) = (short?, long?);
        let records = ((PASSES[1] - PASSES[0]) * RECORDS) as f64;
        counts.push((name, short.iter().zip(&long).map(|(short, long)| (long - short) / records).collect()));
    }
    Ok(format!("of each record, simulated\n{:<46}{names}\n{}{}", "", lines(&counts, 3), lines(&ratios(&counts), 2)))
}

/// What is counted of a variant, in the order of [`COUNTS`], with its name.
type Counted = (&'static str, Vec<f64>);

/// How many times as much generic code takes as the last variant.
fn ratios(counts: &[Counted]) -> Vec<(String, Vec<f64>)> {
    let Some(((suited, least), generic)) = counts.split_last() else { return Vec::new() };
    let ratio = |(name, counts): &Counted| {
        (format!("{name} ÷ {suited}"), counts.iter().zip(least).map(|(count, least)| count / least).collect())
    };
    generic.iter().map(ratio).collect()
}

fn lines<N: AsRef<str>>(rows: &[(N, Vec<f64>)], digits: usize) -> String {
    let column = |value: &f64| format!("{value:>18.digits$}");
    let line = |(name, values): &(N, Vec<f64>)| {
        format!("{:<46}{}\n", name.as_ref(), values.iter().map(column).collect::<String>())
    };
    rows.iter().map(line).collect()
}

/// What cachegrind counts in one run.
fn count(binary: &Path, tier: &str, dense: &str, passes: u64) -> Result<Vec<f64>, String> {
    let filled = SCRIPT.replace("${tier}", tier).replace("${dense}", dense);
    let filled = filled.replace("${records}", &RECORDS.to_string()).replace("${passes}", &passes.to_string());
    let script = std::env::temp_dir().join(format!("pelton-cachegrind-{}.sql", std::process::id()));
    std::fs::write(&script, filled).map_err(|error| format!("{}: {error}", script.display()))?;
    let caches = ["--I1=32768,8,64", "--D1=32768,8,64", "--LL=8388608,16,64"];
    let output = Command::new("valgrind")
        .args(["--tool=cachegrind", "--branch-sim=yes", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"])
        .args(caches)
        .arg(binary)
        .arg("run")
        .arg(&script)
        .output();
    // Whether it can be removed or not, the counts are there.
    drop(std::fs::remove_file(&script));
    let output = output.map_err(|error| format!("valgrind does not start: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("valgrind has failed:\n{said}"));
    }
    COUNTS.iter().map(|(_, begin)| counted(&said, begin)).collect()
}

/// The number of a line such as `==1== I   refs:      79,076,252`.
fn counted(said: &str, begin: &str) -> Result<f64, String> {
    let line = said.lines().find_map(|line| line.split_once(begin)).map(|(_, rest)| rest);
    let digits = line.and_then(|rest| rest.split_whitespace().next()).map(|number| number.replace(',', ""));
    digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| format!("cachegrind has no line '{begin}':\n{said}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generic_code_is_told_in_what_code_takes_that_suits_the_data() {
        let counts = [("generic", vec![6.0, 1.0]), ("suited", vec![2.0, 0.25])];
        assert_eq!(ratios(&counts), [("generic ÷ suited".to_owned(), vec![3.0, 4.0])]);
        assert_eq!(lines(&ratios(&counts), 2), format!("{:<46}{:>18}{:>18}\n", "generic ÷ suited", "3.00", "4.00"));
    }

    #[test]
    fn numbers_are_read_by_their_lines() {
        let said =
            "==1== I   refs:      79,076,252\n==1== D1  misses:       919,997  (  527,914 rd   +   392,083 wr)\n";
        assert_eq!(counted(said, "I   refs:"), Ok(79_076_252.0));
        assert_eq!(counted(said, "D1  misses:"), Ok(919_997.0));
        assert!(counted(said, "Branches:").unwrap_err().starts_with("cachegrind has no line 'Branches:'"));
    }
}
