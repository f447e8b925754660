//! Scripts and what they are planned to: `tests/plans/*.txt`.
//!
//! A file holds cases separated by lines of `====`: a script, a line `----`, and the pipelines of the script's last
//! statement (for EXPLAIN also its logical plan and what is not portable), or the error. `BLESS=1 cargo test -p pelton-plan --test plans` rewrites what is expected.

use std::path::Path;

use pelton_plan::{Catalog, PlanError, Statement, Table, explain, parse, plan_statements};

const CASE: &str = "\n====\n";
const EXPECTED: &str = "\n----\n";

/// What a script's last statement is planned to, or why it is refused.
fn planned(script: &str) -> String {
    match try_plan(script) {
        Ok(shown) => shown,
        Err(error) => format!("error: {error}\n"),
    }
}

fn try_plan(script: &str) -> Result<String, PlanError> {
    let mut catalog = Catalog::default();
    let mut shown = String::new();
    for parsed in parse(script)? {
        match parsed.statement {
            Statement::CreateTable(definition) => {
                let bounded = definition.options.get("bounded").is_some_and(|value| value == "true");
                let coded = definition.options.get("coded").cloned();
                let declared = definition.physical_schema();
                let fields = declared.fields().iter().map(|field| match &coded {
                    Some(coded) if coded == field.name() => {
                        let codes = Box::new(arrow::datatypes::DataType::UInt8);
                        let strings = Box::new(arrow::datatypes::DataType::Utf8View);
                        let coded = arrow::datatypes::DataType::Dictionary(codes, strings);
                        field.as_ref().clone().with_data_type(coded)
                    }
                    _ => field.as_ref().clone(),
                });
                let delivered = arrow::datatypes::Schema::new(fields.collect::<Vec<_>>());
                catalog.add_table(Table::new(definition, delivered, bounded)?)?;
            }
            Statement::CreateView(view) => catalog.add_view(view)?,
            Statement::Explain(statement) => {
                let planned = plan_statements(&catalog, &[&statement])?;
                let notes: Vec<String> =
                    explain::portability(&planned).into_iter().map(|note| format!("not portable: {note}\n")).collect();
                shown = explain::logical_plans(&planned) + &explain::pipelines(&planned.program) + &notes.concat();
            }
            statement => {
                let planned = plan_statements(&catalog, &[&statement])?;
                shown = explain::pipelines(&planned.program);
            }
        }
    }
    Ok(shown)
}

fn check(path: &Path) {
    let text = std::fs::read_to_string(path).unwrap().trim_end().to_string() + "\n";
    let mut rewritten = Vec::new();
    let mut failures = Vec::new();
    for case in text.split(CASE) {
        let (script, expected) = case.split_once(EXPECTED).unwrap_or((case, ""));
        let actual = planned(script);
        if actual.trim_end() != expected.trim_end() {
            failures.push(format!("{}\n--- expected\n{}\n--- planned\n{actual}", script.trim(), expected.trim_end()));
        }
        rewritten.push(format!("{}{EXPECTED}{}", script.trim_end(), actual.trim_end()));
    }
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, rewritten.join(CASE) + "\n").unwrap();
        return;
    }
    assert!(failures.is_empty(), "{}: BLESS=1 accepts\n{}", path.display(), failures.join("\n\n"));
}

#[test]
fn scripts_are_planned_as_recorded() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plans");
    let mut paths: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    for path in paths {
        check(&path);
    }
}
