//! What SHOW and DESCRIBE show: rows of text.

use std::collections::BTreeSet;
use std::fmt::Write;

use datafusion_common::TableReference;
use datafusion_expr::planner::ContextProvider;
use pelton_data::column::sql_name;

use crate::catalog::{Catalog, Relation, Table};
use crate::error::PlanError;
use crate::parse::{ColumnDefinition, ColumnKind, Named, Statement, ViewDefinition, is_written, respelt_names};
use crate::query::Context;

/// A small table of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// Names of its columns.
    pub columns: Vec<&'static str>,
    /// One text for each column.
    pub rows: Vec<Vec<String>>,
}

/// What a statement shows of the catalogue; `None` for statements that show nothing of it.
pub fn show(catalog: &Catalog, statement: &Statement) -> Result<Option<Listing>, PlanError> {
    let names = |column, names: Vec<String>| {
        Ok(Some(Listing { columns: vec![column], rows: names.into_iter().map(|name| vec![name]).collect() }))
    };
    match statement {
        Statement::ShowTables => {
            let tables = catalog.tables().map(|table| table.definition.name.clone());
            let all: BTreeSet<String> = tables.chain(catalog.views().map(|view| view.name.clone())).collect();
            names("table name", all.into_iter().collect())
        }
        Statement::ShowViews => names("view name", catalog.views().map(|view| view.name.clone()).collect()),
        Statement::ShowFunctions => names("function name", function_names(catalog)),
        Statement::ShowCreate(named) => {
            let text = match catalog.resolve(named)? {
                Relation::Table(table) => create_table(table),
                Relation::View(view) => create_view(view),
            };
            names("statement", vec![text])
        }
        Statement::Describe(named) => describe(catalog, named).map(Some),
        _ => Ok(None),
    }
}

/// Names of scalar and aggregate functions, in upper case. Operators spelt as functions are among them.
fn function_names(catalog: &Catalog) -> Vec<String> {
    let context = Context::new(catalog);
    let planned = context.udf_names().into_iter().chain(context.udaf_names());
    let own = catalog.functions().map(|function| function.name().to_string());
    let syntax = ["CAST", "CEIL", "EXTRACT", "FLOOR", "OVERLAY", "POSITION", "SUBSTRING", "TRIM", "TRY_CAST"];
    let syntax = syntax.into_iter().chain(respelt_names()).map(str::to_string);
    let known = planned.chain(syntax).map(|name| name.to_uppercase()).filter(|name| is_written(name));
    let all: BTreeSet<String> = known.chain(own.map(|name| name.to_uppercase())).collect();
    all.into_iter().collect()
}

/// One row for each column: name, type, whether it may be NULL, whether it is in the key, where it comes from, watermark.
fn describe(catalog: &Catalog, named: &Named) -> Result<Listing, PlanError> {
    let relation = catalog.resolve(named)?;
    let source = Context::new(catalog).get_table_source(TableReference::bare(named.name.as_str()));
    let source = source.map_err(|error| PlanError::invalid(named.place, error.strip_backtrace()))?;
    let schema = source.schema();
    let rows = schema.fields().iter().map(|field| {
        let (mut key, mut extras, mut watermark) = (String::new(), String::new(), String::new());
        let mut shown_type = sql_name(field.data_type());
        if let Relation::Table(Table { definition, .. }) = relation {
            let column = definition.columns.iter().find(|column| column.name == *field.name());
            if let Some(column) = column {
                shown_type = declared_type(column).unwrap_or(shown_type);
                extras = origin(column);
            }
            if definition.primary_key.contains(field.name()) {
                key = format!("PRI({})", definition.primary_key.join(", "));
            }
            if let Some(declared) = definition.watermark.as_ref().filter(|watermark| watermark.column == *field.name())
            {
                watermark = watermark_expression(&declared.column, declared.delay);
            }
        }
        vec![field.name().clone(), shown_type, field.is_nullable().to_string().to_uppercase(), key, extras, watermark]
    });
    let columns = vec!["name", "type", "null", "key", "extras", "watermark"];
    Ok(Listing { columns, rows: rows.collect() })
}

/// The type as declared: VARCHAR(10) where Arrow only knows strings.
fn declared_type(column: &ColumnDefinition) -> Option<String> {
    match &column.kind {
        ColumnKind::Physical { sql_type, .. } | ColumnKind::Metadata { sql_type, .. } => Some(sql_type.to_string()),
        ColumnKind::Computed { .. } | ColumnKind::ProcessingTime => None,
    }
}

fn origin(column: &ColumnDefinition) -> String {
    match &column.kind {
        ColumnKind::Physical { .. } => String::new(),
        ColumnKind::Computed { expression } => format!("AS {expression}"),
        ColumnKind::ProcessingTime => "AS PROCTIME()".to_string(),
        ColumnKind::Metadata { key, is_virtual, .. } => {
            let key = if *key == column.name { String::new() } else { format!(" FROM {}", quoted(key)) };
            format!("METADATA{key}{}", if *is_virtual { " VIRTUAL" } else { "" })
        }
    }
}

fn watermark_expression(column: &str, delay_us: i64) -> String {
    let column = identifier(column);
    if delay_us == 0 {
        return column;
    }
    let (seconds, micros) = (delay_us / 1_000_000, delay_us % 1_000_000);
    let fraction = if micros == 0 { String::new() } else { format!(".{micros:06}") };
    format!("{column} - INTERVAL '{seconds}{}' SECOND", fraction.trim_end_matches('0'))
}

/// A statement that creates the same table.
fn create_table(table: &Table) -> String {
    let definition = &table.definition;
    let mut lines: Vec<String> = definition.columns.iter().map(column_clause).collect();
    if let Some(watermark) = &definition.watermark {
        let column = identifier(&watermark.column);
        lines.push(format!("WATERMARK FOR {column} AS {}", watermark_expression(&watermark.column, watermark.delay)));
    }
    if !definition.primary_key.is_empty() {
        let key: Vec<String> = definition.primary_key.iter().map(|column| identifier(column)).collect();
        lines.push(format!("PRIMARY KEY ({}) NOT ENFORCED", key.join(", ")));
    }
    let temporary = if definition.temporary { "TEMPORARY " } else { "" };
    let mut text = format!("CREATE {temporary}TABLE {} (\n  {}\n)", identifier(&definition.name), lines.join(",\n  "));
    if let Some(comment) = &definition.comment {
        write!(text, " COMMENT {}", quoted(comment)).expect("writing to a string");
    }
    if !definition.options.is_empty() {
        let options = definition.options.iter().map(|(key, value)| format!("{} = {}", quoted(key), quoted(value)));
        write!(text, " WITH (\n  {}\n)", options.collect::<Vec<_>>().join(",\n  ")).expect("writing to a string");
    }
    text
}

fn column_clause(column: &ColumnDefinition) -> String {
    let mut text = identifier(&column.name);
    if let ColumnKind::Physical { sql_type, nullable } | ColumnKind::Metadata { sql_type, nullable, .. } = &column.kind
    {
        write!(text, " {sql_type}{}", if *nullable { "" } else { " NOT NULL" }).expect("writing to a string");
    }
    let origin = origin(column);
    if !origin.is_empty() {
        write!(text, " {origin}").expect("writing to a string");
    }
    if let Some(comment) = &column.comment {
        write!(text, " COMMENT {}", quoted(comment)).expect("writing to a string");
    }
    text
}

/// A statement that creates the same view.
fn create_view(view: &ViewDefinition) -> String {
    let columns: Vec<String> = view.columns.iter().map(|column| identifier(&column.value)).collect();
    let columns = if columns.is_empty() { String::new() } else { format!(" ({})", columns.join(", ")) };
    let temporary = if view.temporary { "TEMPORARY " } else { "" };
    format!("CREATE {temporary}VIEW {}{columns} AS\n{}", identifier(&view.name), view.text)
}

fn identifier(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;

    const SCRIPT: &str = "CREATE TABLE bid (auction BIGINT NOT NULL COMMENT 'it''s', name VARCHAR(10), ts TIMESTAMP(3),
            file STRING METADATA FROM 'path' VIRTUAL, double_price AS auction * 2, p AS PROCTIME(),
            PRIMARY KEY (auction) NOT ENFORCED, WATERMARK FOR ts AS ts - INTERVAL '1.5' SECOND) WITH ('connector' = 'x');
        CREATE TEMPORARY VIEW v (a, `b c`) AS SELECT auction, auction / 2.0 FROM bid;";

    fn shown(sql: &str) -> String {
        let mut catalog = Catalog::default();
        let mut listing = None;
        for parsed in parse(&format!("{SCRIPT} {sql}")).expect("parses") {
            match parsed.statement {
                Statement::CreateTable(definition) => {
                    let delivered = definition.physical_schema().as_ref().clone();
                    catalog.add_table(Table::new(definition, delivered, false).expect("fits")).expect("is new");
                }
                Statement::CreateView(view) => catalog.add_view(view).expect("is new"),
                statement => listing = show(&catalog, &statement).expect("can be shown"),
            }
        }
        let listing = listing.expect("the last statement shows something");
        let lines = listing.rows.iter().map(|row| row.join("|"));
        std::iter::once(listing.columns.join("|")).chain(lines).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn tables_and_views_are_listed_and_described() {
        assert_eq!(shown("SHOW TABLES"), "table name\nbid\nv");
        assert_eq!(shown("SHOW VIEWS"), "view name\nv");
        let described = "name|type|null|key|extras|watermark
auction|BIGINT|FALSE|PRI(auction)||
name|VARCHAR(10)|TRUE|||
ts|TIMESTAMP(3)|TRUE|||`ts` - INTERVAL '1.5' SECOND
file|STRING|TRUE||METADATA FROM 'path' VIRTUAL|
double_price|BIGINT|FALSE||AS auction * 2|
p|TIMESTAMP_LTZ(3)|FALSE||AS PROCTIME()|";
        assert_eq!(shown("DESCRIBE bid"), described);
        assert_eq!(
            shown("DESCRIBE v"),
            "name|type|null|key|extras|watermark\na|BIGINT|FALSE|||\nb c|DECIMAL(25, 4)|FALSE|||"
        );
    }

    #[test]
    fn what_show_create_shows_creates_the_same() {
        let table = shown("SHOW CREATE TABLE bid").trim_start_matches("statement\n").to_string();
        let again = |text: &str| match parse(text).expect("parses").remove(0).statement {
            Statement::CreateTable(mut definition) => {
                definition.place = None;
                definition.columns.iter_mut().for_each(|column| column.place = None);
                definition.watermark.iter_mut().for_each(|watermark| watermark.place = None);
                definition
            }
            other => panic!("{other:?}"),
        };
        let (original, shown_again) = (again(SCRIPT), again(&table));
        assert_eq!(format!("{:?}", original.options), format!("{:?}", shown_again.options));
        assert_eq!(original.watermark, shown_again.watermark);
        let clauses = |columns: &[ColumnDefinition]| columns.iter().map(column_clause).collect::<Vec<_>>();
        assert_eq!(clauses(&original.columns), clauses(&shown_again.columns));
        let view = "statement\nCREATE TEMPORARY VIEW `v` (`a`, `b c`) AS\nSELECT auction, auction / 2.0 FROM bid";
        assert_eq!(shown("SHOW CREATE VIEW v"), view);
    }

    #[test]
    fn functions_are_listed_by_the_names_people_write() {
        let functions = shown("SHOW FUNCTIONS");
        for name in
            ["COUNT", "UPPER", "SPLIT_INDEX", "DATE_FORMAT", "IF", "EXTRACT", "TIMESTAMPDIFF", "LOCATE", "NOW", "MD5"]
        {
            assert!(functions.lines().any(|line| line == name), "{name} is missing");
        }
        for name in ["SUBSTRING_FROM", "FLOOR_TO", "RANDOM", "DECIMAL_ADD"] {
            assert!(functions.lines().all(|line| line != name), "{name} is listed");
        }
    }
}
