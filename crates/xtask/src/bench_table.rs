//! `cargo xtask bench-table`: the figures of `bench/results/README.md`, from what `pelton-bench --json` measured.

use std::path::Path;

const BEGIN: &str = "<!-- bench:begin -->";
const END: &str = "<!-- bench:end -->";
const PAGE: &str = "bench/results/README.md";

/// Replaces what stands between the markers of the page by the figures of all files beside it, in the order of their names.
///
/// # Errors
/// Where the results or the page cannot be read, or have another form than expected.
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
    let page = root.join(PAGE);
    let text = std::fs::read_to_string(&page).map_err(|error| format!("{PAGE}: {error}"))?;
    let written = replaced(PAGE, &text, &table(&lines)?)?;
    std::fs::write(&page, written).map_err(|error| format!("{PAGE}: {error}"))
}

fn replaced(name: &str, text: &str, table: &str) -> Result<String, String> {
    let missing = || format!("{name} has no '{BEGIN}' … '{END}'");
    let (before, rest) = text.split_once(BEGIN).ok_or_else(missing)?;
    let (_, after) = rest.split_once(END).ok_or_else(missing)?;
    Ok(format!("{before}{BEGIN}\n{table}{END}{after}"))
}

/// One table for each form that the lines have: rates, waits, memory of processes and of windows, many queries. A form that no line has gets none.
fn table(lines: &str) -> Result<String, String> {
    let lines: Vec<&str> = lines.lines().filter(|line| !line.trim().is_empty()).collect();
    let mut tables = Vec::new();
    for (key, head, row) in FORMS {
        let of_form: Vec<&str> = lines.iter().copied().filter(|line| field(line, key).is_some()).collect();
        let rows: Vec<Option<String>> = of_form.iter().map(|line| row(line, &of_form)).collect::<Result<_, _>>()?;
        let rows: Vec<String> = rows.into_iter().flatten().collect();
        if !rows.is_empty() {
            tables.push(format!("{head}\n{}\n", rows.join("\n")));
        }
    }
    Ok(tables.join("\n"))
}

/// The row of a line, which may look at the other lines; none where another line's row tells of it.
type Row = fn(&str, &[&str]) -> Result<Option<String>, String>;

/// The field by which a form is known, the head of its table, and how a line becomes a row.
const FORMS: [(&str, &str, Row); 7] = [
    (
        "records_per_s",
        "| workload | case | workers | million records/s | GB/s | measured against | ratio | interpreted | columns only read |\n|---|---|--:|--:|--:|---|--:|--:|--:|",
        rate,
    ),
    (
        "milliseconds",
        "| workload | case | waited for | workers | median ms | min–max ms |\n|---|---|---|--:|--:|--:|",
        wait,
    ),
    (
        "bytes_peak",
        "| workload | case | workers | most MB resident | last quarter of the run by the second |\n|---|---|--:|--:|--:|",
        resident,
    ),
    (
        "bytes_state",
        "| workload | case | workers | MB of windows, slices | MB, a table for each window | ratio |\n|---|---|--:|--:|--:|--:|",
        state,
    ),
    (
        "crowd_records_per_s",
        "| workload | case | workers | million records/s, all queries | best of other policies | the same once more | median ms | p99 ms | least p99 of others | p99 once more | ns a decision | deciding % | times threads+queues |\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
        crowd,
    ),
    (
        "course_records_per_s",
        "| workload | case | workers | million records/s | of the best fixed code | in its least stretch between changes, settled | least second, of the first code | longest until an answer, ms |\n|---|---|--:|--:|--:|--:|--:|--:|",
        course,
    ),
    (
        "partials",
        "| workload | case | partial results | median ns a row | p99 ns | most ns | fewest of others | best median of others |\n|---|---|--:|--:|--:|--:|--:|--:|",
        kept,
    ),
];

/// Code that runs by itself, or that the engine chose; the interpreter and the plain scan of the same case stand beside it.
fn rate(line: &str, lines: &[&str]) -> Result<Option<String>, String> {
    let engine = value(line, "engine")?;
    if matches!(engine, "interpreted" | "scan") || engine.starts_with("loop ") {
        return Ok(None);
    }
    let beside = |engine: &str| -> Result<String, String> {
        let found = lines.iter().find(|other| {
            field(other, "engine") == Some(engine) && are_alike(line, other, &["bench", "case", "workers"])
        });
        found.map_or(Ok("–".to_string()), |found| Ok(format!("{:.1}", number(found, "records_per_s")? / 1e6)))
    };
    let (reference, ratio) = match value(line, "reference")? {
        "null" => ("–", "–".to_string()),
        reference => (reference, format!("{:.2}", number(line, "ratio")?)),
    };
    Ok(Some(format!(
        "| {} | {} | {} | {:.1} | {:.2} | {reference} | {ratio} | {} | {} |",
        value(line, "bench")?,
        value(line, "case")?,
        value(line, "workers")?,
        number(line, "records_per_s")? / 1e6,
        number(line, "bytes_per_s")? / 1e9,
        beside("interpreted")?,
        beside("scan")?,
    )))
}

fn wait(line: &str, _: &[&str]) -> Result<Option<String>, String> {
    Ok(Some(format!(
        "| {} | {} | {} | {} | {:.2} | {:.2}–{:.2} |",
        value(line, "bench")?,
        value(line, "case")?,
        value(line, "waited_for")?,
        value(line, "workers")?,
        number(line, "milliseconds")?,
        number(line, "milliseconds_min")?,
        number(line, "milliseconds_max")?,
    )))
}

fn resident(line: &str, _: &[&str]) -> Result<Option<String>, String> {
    Ok(Some(format!(
        "| {} | {} | {} | {:.0} | {:.2} |",
        value(line, "bench")?,
        value(line, "case")?,
        value(line, "workers")?,
        number(line, "bytes_peak")? / 1e6,
        number(line, "growth")?,
    )))
}

fn state(line: &str, _: &[&str]) -> Result<Option<String>, String> {
    let (slices, buckets) = (number(line, "bytes_state")?, number(line, "bytes_state_buckets")?);
    Ok(Some(format!(
        "| {} | {} | {} | {:.3} | {:.3} | {:.1} |",
        value(line, "bench")?,
        value(line, "case")?,
        value(line, "workers")?,
        slices / 1e6,
        buckets / 1e6,
        buckets / slices,
    )))
}

/// The default policy once more: it says what chance does.
const AGAIN: &str = "adaptive-again";

/// The default policy; the others of the same case stand beside it.
fn crowd(line: &str, lines: &[&str]) -> Result<Option<String>, String> {
    let policy = value(line, "policy")?;
    if !matches!(policy, "adaptive" | "adaptive+blocks") {
        return Ok(None);
    }
    let of_case = || lines.iter().filter(|other| are_alike(line, other, &["bench", "case", "kind", "workers"]));
    // Chance is no policy to be compared with, and of who passes nothing nothing comes late.
    let is_other = |other: &&&str| {
        ![Some(policy), Some("random"), Some(AGAIN)].contains(&field(other, "policy"))
            && number(other, "crowd_records_per_s").is_ok_and(|records| records > 0.0)
    };
    let of_others = |key: &str, better: fn(f64, f64) -> f64| -> Result<Option<f64>, String> {
        let numbers = of_case().filter(is_other).map(|other| number(other, key));
        numbers.reduce(|best, number| Ok(better(best?, number?))).transpose()
    };
    let fastest = of_others("crowd_records_per_s", f64::max)?;
    let least_p99_ms = of_others("latency_p99_ms", f64::min)?;
    let again = |key: &str| {
        of_case().find(|other| field(other, "policy") == Some(AGAIN)).map(|other| number(other, key)).transpose()
    };
    let case = [Some(value(line, "case")?), field(line, "kind")];
    Ok(Some(format!(
        "| {} | {} | {} | {:.1} | {} | {} | {:.3} | {:.3} | {} | {} | {:.0} | {:.2} | {} |",
        value(line, "bench")?,
        case.into_iter().flatten().collect::<Vec<_>>().join(" "),
        value(line, "workers")?,
        number(line, "crowd_records_per_s")? / 1e6,
        optional(fastest.map(|fastest| fastest / 1e6), 1),
        optional(again("crowd_records_per_s")?.map(|again| again / 1e6), 1),
        number(line, "latency_median_ms")?,
        number(line, "latency_p99_ms")?,
        optional(least_p99_ms, 3),
        optional(again("latency_p99_ms")?, 3),
        number(line, "decision_ns")?,
        number(line, "deciding_share")? * 100.0,
        optional(measured(line, "of_threads_and_queues")?, 2),
    )))
}

/// Code that changes; what stays as it is is what it is compared with.
fn course(line: &str, _: &[&str]) -> Result<Option<String>, String> {
    if field(line, "of_best_fixed").is_none() {
        return Ok(None);
    }
    Ok(Some(format!(
        "| {} | {} | {} | {:.1} | {} | {} | {} | {} |",
        value(line, "bench")?,
        value(line, "case")?,
        value(line, "workers")?,
        number(line, "course_records_per_s")? / 1e6,
        optional(measured(line, "of_best_fixed")?, 2),
        optional(measured(line, "of_best_fixed_settled_stretch_min")?, 2),
        optional(measured(line, "of_first_fixed_second_min")?, 2),
        optional(measured(line, "answered_ms_max")?, 1),
    )))
}

/// A number, where that was measured.
fn measured(line: &str, key: &str) -> Result<Option<f64>, String> {
    field(line, key).filter(|value| *value != "null").map(|_| number(line, key)).transpose()
}

/// As it stands in a table: not all that ran was measured so.
fn optional(number: Option<f64>, digits: usize) -> String {
    number.map_or("–".to_owned(), |number| format!("{number:.digits$}"))
}

/// The engine's; the algorithms of the same case stand beside it.
fn kept(line: &str, lines: &[&str]) -> Result<Option<String>, String> {
    if value(line, "strategy")? != "pelton" {
        return Ok(None);
    }
    let is_beside =
        |other: &&&str| are_alike(line, other, &["bench", "case"]) && field(other, "strategy") != Some("pelton");
    let least = |key: &str| -> Result<String, String> {
        let numbers = lines.iter().filter(is_beside).map(|other| number(other, key));
        let least = numbers.reduce(|least, number| Ok(least?.min(number?))).transpose()?;
        Ok(least.map_or("–".to_string(), |least| format!("{least:.0}")))
    };
    Ok(Some(format!(
        "| {} | {} | {} | {} | {} | {} | {} | {} |",
        value(line, "bench")?,
        value(line, "case")?,
        value(line, "partials")?,
        value(line, "median_ns")?,
        value(line, "p99_ns")?,
        value(line, "max_ns")?,
        least("partials")?,
        least("median_ns")?,
    )))
}

/// Whether two lines have the same values in these fields.
fn are_alike(line: &str, other: &str, keys: &[&str]) -> bool {
    keys.iter().all(|key| field(other, key) == field(line, key))
}

fn value<'a>(line: &'a str, key: &str) -> Result<&'a str, String> {
    field(line, key).ok_or_else(|| format!("no \"{key}\" in {line}"))
}

fn number(line: &str, key: &str) -> Result<f64, String> {
    value(line, key)?.parse().map_err(|_| format!("\"{key}\" is not a number in {line}"))
}

/// A field of one flat object in the form that `pelton-bench --json` writes: no nesting, no escapes in strings.
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
            {\"bench\":\"ysb\",\"case\":\"cache\",\"engine\":\"interpreted\",\"workers\":1,\"records_per_s\":3.0e8,\
            \"bytes_per_s\":1,\"reference\":null,\"reference_records_per_s\":null,\"ratio\":null}\n\
            {\"bench\":\"csv\",\"case\":\"file\",\"engine\":\"compiled\",\"workers\":2,\"records_per_s\":1e6,\
            \"bytes_per_s\":1e8,\"reference\":null,\"reference_records_per_s\":null,\"ratio\":null}\n";
        let others = "{\"bench\":\"start\",\"case\":\"ten\",\"waited_for\":\"process\",\"workers\":1,\
            \"milliseconds\":9.1234,\"milliseconds_min\":8.0,\"milliseconds_max\":12.0}\n\
            {\"bench\":\"resident\",\"case\":\"long\",\"workers\":1,\"bytes_peak\":150000000,\"growth\":1.004}\n";
        let all = table(&format!("{others}{measured}")).unwrap();
        let table = table(measured).unwrap();
        assert!(all.starts_with(&table));
        assert!(all.contains("\n\n| workload | case | waited for |"));
        assert!(all.contains("| start | ten | process | 1 | 9.12 | 8.00–12.00 |\n"));
        assert!(all.ends_with("| resident | long | 1 | 150 | 1.00 |\n"));
        assert!(table.ends_with(
            "| ysb | cache | 1 | 2000.0 | 34.00 | select, then count | 0.95 | 300.0 | – |\n| csv | file | 2 | 1.0 | 0.10 | – | – | – | – |\n"
        ));
        let kept = |strategy: &str, partials: usize| {
            format!(
                "{{\"bench\":\"s\",\"case\":\"c\",\"strategy\":\"{strategy}\",\"partials\":{partials},\"median_ns\":4,\"p99_ns\":9,\"max_ns\":70}}\n"
            )
        };
        let kept = super::table(&[kept("pelton", 5), kept("loop a", 8), kept("loop b", 3)].concat()).unwrap();
        assert!(kept.ends_with("|\n| s | c | 5 | 4 | 9 | 70 | 3 | 4 |\n"), "{kept}");
        let crowd = |policy: &str, records: &str, p99: &str| {
            format!(
                "{{\"bench\":\"m\",\"case\":\"c\",\"kind\":\"trip\",\"policy\":\"{policy}\",\"workers\":2,\"crowd_records_per_s\":{records},\
                 \"latency_mean_ms\":0.1,\"latency_median_ms\":0.2,\"latency_p99_ms\":{p99},\"behind_ms\":0.0,\"decision_ns\":700,\
                 \"deciding_share\":0.0151}}\n"
            )
        };
        let lines = [
            crowd("adaptive", "2e9", "0.5"),
            crowd("fcfs", "1e9", "0.4"),
            crowd("min-cost", "1.5e9", "9.0"),
            crowd("random", "3e9", "0.1"),
            crowd("adaptive-again", "2.2e9", "0.3"),
            crowd("min-latency", "0", "0.0"),
        ];
        let crowds = super::table(&lines.concat()).unwrap();
        assert!(
            crowds.ends_with(
                "|\n| m | c trip | 2 | 2000.0 | 1500.0 | 2200.0 | 0.200 | 0.500 | 0.400 | 0.300 | 700 | 1.51 | – |\n"
            ),
            "{crowds}"
        );
        let course = |case: &str, compared: &str| {
            format!(
                "{{\"bench\":\"o\",\"case\":\"{case}\",\"workers\":1,\"course_records_per_s\":2e8,\"rates\":[1,2]{compared}}}\n"
            )
        };
        let compared = ",\"of_best_fixed\":1.5,\"of_best_fixed_settled_stretch_min\":0.97,\"of_first_fixed_second_min\":null,\"answered_ms_max\":5.1";
        let courses = super::table(&[course("fixed", ""), course("adaptive", compared)].concat()).unwrap();
        assert!(courses.ends_with("|\n| o | adaptive | 1 | 200.0 | 1.50 | 0.97 | – | 5.1 |\n"), "{courses}");
        let readme = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        assert_eq!(replaced("README.md", &readme, "new\n").unwrap(), format!("a\n{BEGIN}\nnew\n{END}\nb\n"));
        assert!(replaced("README.md", "nothing", "new").is_err());
    }
}
