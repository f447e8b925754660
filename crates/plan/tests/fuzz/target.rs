//! What a fuzzer calls with any bytes: parsing and planning do not panic, and errors name a place inside the text.

use std::sync::LazyLock;

use arrow::datatypes::Schema;
use pelton_plan::show::show;
use pelton_plan::{Catalog, PlanError, Statement, Table, explain, parse, plan_statements};

/// Tables that every script finds.
const TABLES: &str = "
CREATE TABLE bid (auction BIGINT NOT NULL, bidder BIGINT NOT NULL, price BIGINT NOT NULL, channel STRING,
  quantity INT, fee DECIMAL(10, 2), rate FLOAT, ts TIMESTAMP(3) NOT NULL, p AS PROCTIME(),
  WATERMARK FOR ts AS ts - INTERVAL '4' SECOND) WITH ('connector' = 'x');
CREATE TABLE side (id BIGINT, name STRING, flag BOOLEAN, day DATE) WITH ('bounded' = 'true');
CREATE VIEW dear AS SELECT auction, price * 2 AS price, ts FROM bid WHERE price > 100;";

static CATALOG: LazyLock<Catalog> = LazyLock::new(|| {
    let mut catalog = Catalog::default();
    run(TABLES, &mut catalog).unwrap();
    catalog
});

/// Parses and plans a script. Bytes that are no text stand for the replacement character.
pub fn sql(bytes: &[u8]) {
    let sql = String::from_utf8_lossy(bytes);
    let Err(error) = run(&sql, &mut CATALOG.clone()) else { return };
    let place = error.place.unwrap_or_else(|| panic!("'{error}' has no place"));
    let line = place.line.checked_sub(1).and_then(|line| sql.split('\n').nth(line as usize));
    let characters = line.unwrap_or_else(|| panic!("'{error}' is past the last line")).chars().count() as u64;
    // What is missing at the end of a line is missing behind its last character.
    assert!((1..=characters + 1).contains(&place.column), "'{error}' in a line of {characters} characters");
}

/// Runs DDL, plans and explains queries and inserts, and shows what the other statements ask for.
fn run(sql: &str, catalog: &mut Catalog) -> Result<(), PlanError> {
    for parsed in parse(sql)? {
        match parsed.statement {
            Statement::CreateTable(definition) => {
                let bounded = definition.options.contains_key("bounded");
                let delivered = Schema::clone(&definition.physical_schema());
                catalog.add_table(Table::new(definition, delivered, bounded)?)?;
            }
            Statement::CreateView(view) => catalog.add_view(view)?,
            Statement::Drop(dropped) => {
                if catalog.check_dropped(&dropped)? {
                    catalog.remove(&dropped.target.name);
                }
            }
            statement @ (Statement::Query(_) | Statement::Insert(_) | Statement::StatementSet(_)) => {
                explain(catalog, &statement)?;
            }
            Statement::Explain(statement)
            | Statement::Analyze { statement, .. }
            | Statement::AlterJob { statement, .. } => explain(catalog, &statement)?,
            // Settings, queries and jobs are those of sessions and engines.
            Statement::Set { .. }
            | Statement::Reset { .. }
            | Statement::ShowSettings
            | Statement::Use
            | Statement::ShowProgress { .. }
            | Statement::ShowQueries { .. }
            | Statement::ShowOperators { .. }
            | Statement::ShowSharing
            | Statement::ShowJobs { .. }
            | Statement::DescribeJob(_)
            | Statement::StopJob { .. }
            | Statement::AnalyzeQuery { .. } => {}
            shown => drop(show(catalog, &shown)?),
        }
    }
    Ok(())
}

fn explain(catalog: &Catalog, statement: &Statement) -> Result<(), PlanError> {
    let planned = plan_statements(catalog, &[statement])?;
    assert!(!explain::pipelines(&planned.program).is_empty() && !explain::logical_plans(&planned).is_empty());
    explain::portability(&planned);
    Ok(())
}
