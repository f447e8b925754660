//! `cargo xtask bench-table`: the README's figures, from what `pelton bench --json` measured.

use std::fmt::Write;
use std::path::Path;

const BEGIN: &str = "<!-- bench:begin -->";
const END: &str = "<!-- bench:end -->";

/// Replaces what stands between the markers of `README.md`.
///
/// # Errors
/// Where the results or the README cannot be read, or have another form than expected.
pub fn write(root: &Path) -> Result<(), String> {
    let folder = root.join("bench/results");
    let mut paths: Vec<_> = std::fs::read_dir(&folder)
        .map_err(|error| format!("{}: {error}", folder.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    paths.sort();
    let mut lines = String::new();
    for path in paths {
        lines += &std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let readme = root.join("README.md");
    let text = std::fs::read_to_string(&readme).map_err(|error| format!("README.md: {error}"))?;
    let written = replaced(&text, &table(&lines)?)?;
    std::fs::write(&readme, written).map_err(|error| format!("README.md: {error}"))
}

fn replaced(text: &str, table: &str) -> Result<String, String> {
    let missing = || format!("README.md has no '{BEGIN}' … '{END}'");
    let (before, rest) = text.split_once(BEGIN).ok_or_else(missing)?;
    let (_, after) = rest.split_once(END).ok_or_else(missing)?;
    Ok(format!("{before}{BEGIN}\n{table}{END}{after}"))
}

fn table(lines: &str) -> Result<String, String> {
    let mut table = String::from(
        "| workload | case | engine | workers | million records/s | GB/s | measured against | ratio |\n|---|---|---|--:|--:|--:|---|--:|\n",
    );
    for line in lines.lines().filter(|line| !line.trim().is_empty()) {
        let value = |key: &str| field(line, key).ok_or_else(|| format!("no \"{key}\" in {line}"));
        let number = |key: &str| -> Result<f64, String> {
            value(key)?.parse().map_err(|_| format!("\"{key}\" is not a number in {line}"))
        };
        let (reference, ratio) = match value("reference")? {
            "null" => ("–", "–".to_string()),
            reference => (reference, format!("{:.2}", number("ratio")?)),
        };
        let _ = writeln!(
            table,
            "| {} | {} | {} | {} | {:.1} | {:.2} | {reference} | {ratio} |",
            value("bench")?,
            value("case")?,
            value("engine")?,
            value("workers")?,
            number("records_per_s")? / 1e6,
            number("bytes_per_s")? / 1e9,
        );
    }
    Ok(table)
}

/// A field of one flat object in the form that `pelton bench --json` writes: no nesting, no escapes in strings.
fn field<'a>(object: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = object.split_once(&format!("\"{key}\":"))?;
    let rest = rest.trim_start();
    match rest.strip_prefix('"') {
        Some(string) => string.split('"').next(),
        None => rest.split([',', '}']).next().map(str::trim),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_replace_what_was_there() {
        let measured = "{\"bench\":\"ysb\",\"case\":\"cache\",\"engine\":\"compiled\",\"workers\":1,\"records_per_s\":2.0e9,\
            \"bytes_per_s\":34000000000,\"reference\":\"select, then count\",\"reference_records_per_s\":2.1e9,\"ratio\":0.952}\n\
            {\"bench\":\"csv\",\"case\":\"file\",\"engine\":\"compiled\",\"workers\":2,\"records_per_s\":1e6,\
            \"bytes_per_s\":1e8,\"reference\":null,\"reference_records_per_s\":null,\"ratio\":null}\n";
        let table = table(measured).unwrap();
        assert!(table.ends_with(
            "| ysb | cache | compiled | 1 | 2000.0 | 34.00 | select, then count | 0.95 |\n| csv | file | compiled | 2 | 1.0 | 0.10 | – | – |\n"
        ));
        let readme = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        assert_eq!(replaced(&readme, "new\n").unwrap(), format!("a\n{BEGIN}\nnew\n{END}\nb\n"));
        assert!(replaced("nothing", "new").is_err());
    }
}
