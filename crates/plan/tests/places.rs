//! Bad statements, the place that their errors must point at, and what they must say: `tests/places.txt`.
//!
//! A statement is a line, in which `▸` stands before what is wrong and `⏎` for a line end; the error is the indented line below. Statements
//! are planned against the tables that the first lines create; one that creates `z` is followed by a query of it.

use std::path::Path;

use pelton_plan::{Catalog, Place, PlanError, Statement, Table, parse, plan_statements};

const MARK: char = '▸';
const LINE_END: char = '⏎';

fn execute(catalog: &mut Catalog, script: &str) -> Result<(), PlanError> {
    for parsed in parse(script)? {
        match parsed.statement {
            Statement::CreateTable(definition) => {
                let bounded = definition.options.contains_key("number-of-rows");
                let delivered = definition.physical_schema().as_ref().clone();
                catalog.add_table(Table::new(definition, delivered, bounded)?)?;
            }
            Statement::CreateView(view) => catalog.add_view(view)?,
            statement => drop(plan_statements(catalog, &[&statement])?),
        }
    }
    Ok(())
}

/// Where the mark stands.
fn marked(statement: &str) -> Option<Place> {
    let (before, _) = statement.split_once(MARK)?;
    let line = before.matches('\n').count() as u64 + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() as u64 + 1;
    Some(Place { line, column })
}

#[test]
fn errors_point_at_what_is_wrong_and_say_what_would_be_right() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/places.txt");
    let text = std::fs::read_to_string(path).expect("the file of bad statements");
    let mut lines = text.lines().filter(|line| !line.is_empty()).peekable();
    let mut prelude = String::new();
    while let Some(line) = lines.next_if(|line| line.ends_with(';')) {
        prelude += line;
    }
    let (mut count, mut failures) = (0, Vec::new());
    while let Some(line) = lines.next() {
        let expected = lines.next().expect("below a statement stands its error").trim();
        let statement = line.replace(LINE_END, "\n");
        // What a definition says is planned where it is read.
        let reader = if statement.starts_with("CREATE ") { ";SELECT * FROM z" } else { "" };
        let mut catalog = Catalog::default();
        execute(&mut catalog, &prelude).expect("the tables can be created");
        let error = execute(&mut catalog, &(statement.replace(MARK, "") + reader)).expect_err(line);
        let wanted = marked(&statement);
        let said = PlanError { place: None, ..error.clone() }.to_string();
        if error.place != wanted || said != expected {
            failures.push(format!("{line}\n  expected {wanted:?} {expected}\n  but was  {:?} {said}", error.place));
        }
        count += 1;
    }
    assert!(count > 100, "{count} statements were read");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
