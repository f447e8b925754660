//! What SHOW and DESCRIBE show: rows of text.

use std::collections::BTreeSet;
use std::fmt::Write;

use datafusion_expr::planner::ContextProvider;
use pelton_data::column::sql_name;
use pelton_data::spelling::{identifier, is_file};
use sqlparser::ast::Query;

use crate::bind::context::Context;
use crate::catalog::{Catalog, Relation, Table};
use crate::errors::PlanError;
use crate::parse::{
    ColumnDefinition, ColumnKind, NameFilter, Named, Statement, ViewDefinition, is_written, respelt_names, stem,
};
use crate::query::{columns_of, columns_of_query};

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
    let filtered = |column, all: Vec<String>, filter: &Option<NameFilter>| {
        let passes = |name: &String| filter.as_ref().is_none_or(|filter| filter.passes(name));
        names(column, all.into_iter().filter(passes).collect())
    };
    match statement {
        Statement::ShowTables(filter) => {
            let tables = catalog.tables().map(|table| table.definition.name.clone());
            let all: BTreeSet<String> = tables.chain(catalog.views().map(|view| view.name.clone())).collect();
            filtered("table name", all.into_iter().collect(), filter)
        }
        Statement::ShowViews(filter) => {
            let all: BTreeSet<String> = catalog.views().map(|view| view.name.clone()).collect();
            filtered("view name", all.into_iter().collect(), filter)
        }
        Statement::ShowFunctions { are_own, filter } => {
            let all = if *are_own { own_names(catalog).collect() } else { function_names(catalog) };
            filtered("function name", all, filter)
        }
        Statement::ShowName { column, name, filter } => filtered(column, vec![(*name).to_string()], filter),
        Statement::ShowColumns(named, filter) => {
            let mut listing = describe(catalog, named)?;
            listing.rows.retain(|row| filter.as_ref().is_none_or(|filter| filter.passes(&row[0])));
            Ok(Some(listing))
        }
        Statement::ShowCreate(named) => {
            let text = match catalog.resolve(named)? {
                Relation::Table(table) => create_table(table),
                Relation::View(view) => create_view(view),
            };
            names("statement", vec![text])
        }
        Statement::Describe(named) => describe(catalog, named).map(Some),
        Statement::DescribeQuery(query) => describe_query(catalog, query).map(Some),
        _ => Ok(None),
    }
}

/// Names of scalar and aggregate functions, in upper case. Operators spelt as functions are among them.
fn function_names(catalog: &Catalog) -> Vec<String> {
    let context = Context::new(catalog);
    let planned = context.udf_names().into_iter().chain(context.udaf_names());
    let syntax = ["CAST", "CEIL", "EXTRACT", "FLOOR", "OVERLAY", "POSITION", "SUBSTRING", "TRIM", "TRY_CAST"];
    let syntax = syntax.into_iter().chain(respelt_names()).map(str::to_string);
    let known = planned.chain(syntax).map(|name| name.to_uppercase()).filter(|name| is_written(name));
    let all: BTreeSet<String> = known.chain(own_names(catalog)).collect();
    all.into_iter().collect()
}

/// Names of functions that the program has added, in upper case and in order.
fn own_names(catalog: &Catalog) -> impl Iterator<Item = String> {
    let scalar = catalog.functions().map(|function| function.name().to_uppercase());
    let tables = catalog.table_functions().map(|function| function.0.name().to_string());
    let all: BTreeSet<String> =
        scalar.chain(catalog.aggregates().map(|function| function.name().to_uppercase())).chain(tables).collect();
    all.into_iter()
}

/// One row for each column of a query's result.
fn describe_query(catalog: &Catalog, query: &Query) -> Result<Listing, PlanError> {
    let schema = columns_of_query(catalog, query)?;
    let rows = schema.fields().iter().map(|field| {
        let nullable = field.is_nullable().to_string().to_uppercase();
        let nothing = std::iter::repeat_n(String::new(), 3);
        [field.name().clone(), sql_name(field.data_type()), nullable].into_iter().chain(nothing).collect()
    });
    Ok(Listing { columns: DESCRIBED.to_vec(), rows: rows.collect() })
}

/// What is told of each column.
const DESCRIBED: [&str; 6] = ["name", "type", "null", "key", "extras", "watermark"];

/// One row for each column: name, type, whether it may be NULL, whether it is in the key, where it comes from, watermark.
fn describe(catalog: &Catalog, named: &Named) -> Result<Listing, PlanError> {
    let relation = catalog.resolve(named)?;
    let schema = columns_of(catalog, named)?;
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
                watermark = declared.text.clone();
            }
        }
        vec![field.name().clone(), shown_type, field.is_nullable().to_string().to_uppercase(), key, extras, watermark]
    });
    Ok(Listing { columns: DESCRIBED.to_vec(), rows: rows.collect() })
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
        ColumnKind::Computed { text, .. } => format!("AS {text}"),
        ColumnKind::ProcessingTime => "AS PROCTIME()".to_string(),
        ColumnKind::Metadata { key, is_virtual, .. } => {
            let key = if *key == column.name { String::new() } else { format!(" FROM {}", quoted(key)) };
            format!("METADATA{key}{}", if *is_virtual { " VIRTUAL" } else { "" })
        }
    }
}

/// What a definition does not say of a table whose types were inferred.
const GUESSED_TYPES_NOTE: &str = "-- The types were inferred from the first rows, and a value that does not fit its type is an error.\n\
     -- A table with this definition reads Flink's way, unless SET 'pelton.strict-values' = 'true'.\n";

/// A statement that creates the same table.
fn create_table(table: &Table) -> String {
    let definition = &table.definition;
    let mut lines: Vec<String> = definition.columns.iter().map(column_clause).collect();
    if let Some(watermark) = &definition.watermark {
        let column = identifier(&watermark.column);
        lines.push(format!("WATERMARK FOR {column} AS {}", watermark.text));
    }
    if !definition.primary_key.is_empty() {
        let key: Vec<String> = definition.primary_key.iter().map(|column| identifier(column)).collect();
        lines.push(format!("PRIMARY KEY ({}) NOT ENFORCED", key.join(", ")));
    }
    let temporary = if definition.temporary { "TEMPORARY " } else { "" };
    // A file that stands in the place of a table is called by its path.
    let name = match definition.options.get("path").filter(|_| is_file(&definition.name)) {
        Some(path) => stem(path),
        None => &definition.name,
    };
    let note = if definition.has_guessed_types { GUESSED_TYPES_NOTE } else { "" };
    let mut text = format!("{note}CREATE {temporary}TABLE {} (\n  {}\n)", identifier(name), lines.join(",\n  "));
    if let Some(comment) = &definition.comment {
        write!(text, " COMMENT {}", quoted(comment)).expect("writing to a string");
    }
    if !definition.partition_keys.is_empty() {
        let keys: Vec<String> = definition.partition_keys.iter().map(|key| identifier(&key.name)).collect();
        write!(text, " PARTITIONED BY ({})", keys.join(", ")).expect("writing to a string");
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

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{TableDefinition, parse};

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
ts|TIMESTAMP(3)|TRUE|||ts - INTERVAL '1.5' SECOND
file|STRING|TRUE||METADATA FROM 'path' VIRTUAL|
double_price|BIGINT|FALSE||AS auction * 2|
p|TIMESTAMP_LTZ(3)|FALSE||AS PROCTIME()|";
        assert_eq!(shown("DESCRIBE bid"), described);
        assert_eq!(
            shown("DESCRIBE v"),
            "name|type|null|key|extras|watermark\na|BIGINT|FALSE|||\nb c|DECIMAL(26, 6)|FALSE|||"
        );
    }

    /// Columns of all kinds and types, with expressions that are planned as others than were written.
    const KINDS: &str = r"CREATE TEMPORARY TABLE `a ``table` (
            b BOOLEAN NOT NULL, t TINYINT, s SMALLINT, i INT, n BIGINT, f FLOAT, d DOUBLE, m DECIMAL(10, 3), c CHAR(1), vc VARCHAR(10),
            st STRING COMMENT 'it''s', by BYTES, dt DATE, t0 TIMESTAMP(0), t6 TIMESTAMP, z TIMESTAMP(3) WITH LOCAL TIME ZONE, `a ``column` STRING,
            file STRING NOT NULL METADATA FROM 'it''s' VIRTUAL, kept INT METADATA,
            p AS PROCTIME() COMMENT 'the clock',
            month_on AS TIMESTAMPADD(MONTH, 1, t6), hour_of AS FLOOR(t6 TO HOUR), up AS CEIL(t6 TO DAY), bytes AS ENCODE(st, 'UTF-8'),
            instant AS n::TIMESTAMP(3) WITH LOCAL TIME ZONE, other AS CAST(i AS TIMESTAMP_LTZ(3)),
            clean AS REGEXP_REPLACE(st, '\d', '''') COMMENT 'no digits', part AS SUBSTRING(st FROM 2 FOR 3),
            quoted AS `a ``column` || 'x' , noted AS i /* twice */ * 2 -- and no more
            , lines AS CASE WHEN i > 1
                THEN 'one' ELSE 'other' END,
            same AS i != 1 AND b, trimmed AS TRIM(BOTH 'x' FROM st), since AS EXTRACT(YEAR FROM t6), matched AS st NOT SIMILAR TO 'a%' ,
            later AS t6 + INTERVAL '1 02' DAY TO HOUR, ts AS TO_TIMESTAMP_LTZ(n, 3),
            PRIMARY KEY (b, `a ``column`) NOT ENFORCED, WATERMARK FOR ts AS ( ts - INTERVAL '01:30' HOUR TO MINUTE )
        ) COMMENT 'a table''s' PARTITIONED BY (b, n) WITH ('connector' = 'x', 'it''s' = 'a''s')";

    fn created(text: &str) -> TableDefinition {
        match parse(text).expect("parses").remove(0).statement {
            Statement::CreateTable(definition) => definition,
            other => panic!("{other:?}"),
        }
    }

    /// All of a definition but the places, expressions as they were read.
    fn known(definition: &TableDefinition) -> Vec<String> {
        let columns = definition.columns.iter().map(|column| match &column.kind {
            ColumnKind::Computed { expression, .. } => format!("{} {expression}", column_clause(column)),
            _ => column_clause(column),
        });
        let watermark = definition.watermark.as_ref().map(|watermark| (&watermark.column, watermark.delay));
        let TableDefinition { name, primary_key, partition_keys, comment, options, temporary, .. } = definition;
        let keys: Vec<&String> = partition_keys.iter().map(|key| &key.name).collect();
        columns
            .chain([format!("{watermark:?} {name} {primary_key:?} {keys:?} {comment:?} {options:?} {temporary}")])
            .collect()
    }

    #[test]
    fn what_show_create_shows_creates_the_same() {
        for script in [SCRIPT, KINDS] {
            let original = created(script);
            let expected = known(&original);
            let delivered = original.physical_schema().as_ref().clone();
            let text = create_table(&Table::new(original, delivered, false).expect("fits"));
            assert_eq!(known(&created(&text)), expected, "{text}");
        }
        let view = "statement\nCREATE TEMPORARY VIEW `v` (`a`, `b c`) AS\nSELECT auction, auction / 2.0 FROM bid";
        assert_eq!(shown("SHOW CREATE VIEW v"), view);
    }

    #[test]
    fn computed_columns_are_shown_as_they_were_written() {
        let definition = created(KINDS);
        let shown = |name: &str| {
            let column = definition.columns.iter().find(|column| column.name == name);
            column.map(column_clause).expect("it is a column")
        };
        assert_eq!(shown("month_on"), "`month_on` AS TIMESTAMPADD(MONTH, 1, t6)");
        assert_eq!(shown("instant"), "`instant` AS n::TIMESTAMP(3) WITH LOCAL TIME ZONE");
        assert_eq!(shown("clean"), r"`clean` AS REGEXP_REPLACE(st, '\d', '''') COMMENT 'no digits'");
        assert_eq!(shown("noted"), "`noted` AS i /* twice */ * 2");
        let watermark = definition.watermark.expect("it has one");
        assert_eq!(watermark.text, "( ts - INTERVAL '01:30' HOUR TO MINUTE )");
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
