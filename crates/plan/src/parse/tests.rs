//! Scripts and what they parse to, as text.

use std::fmt::Write;

use crate::errors::PlanError;
use crate::parse::*;

mod inserts;

/// One line for each statement: its place, its kind and what matters of it.
fn check(sql: &str, expected: &str) {
    let found = match parse(sql) {
        Ok(statements) => statements.iter().map(describe).collect::<Vec<_>>().join("\n"),
        Err(error) => error.to_string(),
    };
    assert_eq!(found.trim(), unindent(expected), "\nof the script\n{sql}");
}

fn unindent(text: &str) -> String {
    text.trim().lines().map(str::trim).collect::<Vec<_>>().join("\n")
}

fn describe(parsed: &Parsed) -> String {
    format!("{}:{} {}", parsed.line, parsed.column, statement(&parsed.statement))
}

fn statement(statement: &Statement) -> String {
    let insert = |insert: &Insert| {
        let columns: Vec<String> = insert.columns.iter().map(|column| column.value.clone()).collect();
        let columns = if columns.is_empty() { String::new() } else { format!(" ({})", columns.join(", ")) };
        format!("insert {}{columns} {}", insert.target.name, insert.query)
    };
    match statement {
        Statement::CreateTable(table) => describe_table(table),
        Statement::CreateView(view) => {
            let columns: Vec<&str> = view.columns.iter().map(|column| column.value.as_str()).collect();
            format!(
                "view {} [{}] {} | {}",
                view.name,
                columns.join(", "),
                flags(view.temporary, view.if_not_exists),
                view.text
            )
        }
        Statement::Drop(Dropped { target, kind, is_temporary, cascades, if_exists }) => {
            let temporary = if *is_temporary { "temporary " } else { "" };
            let cascade = if *cascades { " cascade" } else { "" };
            format!("drop {temporary}{} {} {if_exists}{cascade}", kind.name(), target.name)
        }
        Statement::Insert(into) => insert(into),
        Statement::StatementSet(inserts) => {
            let inserts: Vec<String> = inserts.iter().map(insert).collect();
            format!("set of [{}]", inserts.join("; "))
        }
        Statement::Query(query) | Statement::DescribeQuery(query) => format!("query {query}"),
        Statement::Explain(inner) => format!("explain {}", self::statement(inner)),
        Statement::Analyze { statement, is_verbose } => format!("analyze {is_verbose} {}", self::statement(statement)),
        Statement::Set { key, value, .. } => format!("set {key} = {value}"),
        Statement::Reset { key, .. } => format!("reset {key:?}"),
        Statement::ShowCreate(named) => format!("show create {}", named.name),
        Statement::Describe(named) => format!("describe {}", named.name),
        Statement::AnalyzeQuery { .. }
        | Statement::ShowSettings
        | Statement::ShowTables(_)
        | Statement::ShowViews(_)
        | Statement::ShowFunctions { .. }
        | Statement::ShowColumns(..)
        | Statement::ShowName { .. }
        | Statement::Use
        | Statement::ShowProgress { .. }
        | Statement::ShowQueries { .. }
        | Statement::ShowOperators { .. }
        | Statement::ShowSharing
        | Statement::ShowJobs { .. }
        | Statement::DescribeJob(_)
        | Statement::StopJob { .. } => format!("{statement:?}"),
        Statement::AlterJob { job, statement, text } => {
            format!("alter job {} as {} {text:?}", job.name, self::statement(statement))
        }
    }
}

fn flags(temporary: bool, if_not_exists: bool) -> String {
    format!("{}{}", if temporary { "T" } else { "-" }, if if_not_exists { "E" } else { "-" })
}

fn describe_table(table: &TableDefinition) -> String {
    let mut text = format!("table {} {}", table.name, flags(table.temporary, table.if_not_exists));
    let null = |nullable: bool| if nullable { "" } else { " NOT NULL" };
    for column in &table.columns {
        let kind = match &column.kind {
            ColumnKind::Physical { sql_type, nullable } => format!("{sql_type}{}", null(*nullable)),
            ColumnKind::Computed { expression, .. } => format!("AS {expression}"),
            ColumnKind::ProcessingTime => "PROCTIME".to_string(),
            ColumnKind::Metadata { key, sql_type, nullable, is_virtual } => {
                format!("{sql_type}{} METADATA {key}{}", null(*nullable), if *is_virtual { " VIRTUAL" } else { "" })
            }
        };
        write!(text, "\n{} {kind}", column.name).expect("writing to a string");
        if let Some(comment) = &column.comment {
            write!(text, " -- {comment}").expect("writing to a string");
        }
    }
    if let Some(watermark) = &table.watermark {
        write!(text, "\nwatermark {} - {} us", watermark.column, watermark.delay).expect("writing to a string");
    }
    if !table.primary_key.is_empty() {
        write!(text, "\nkey {}", table.primary_key.join(", ")).expect("writing to a string");
    }
    for (key, value) in &table.options {
        write!(text, "\n{key} = {value}").expect("writing to a string");
    }
    text
}

#[test]
fn every_statement_has_its_place_in_the_script() {
    check(
        "-- a script\nSET 'pelton.tier' = 'compile';\n\n  /* two; on one line */ SELECT 1; SELECT 'a;b' ;;\nSHOW TABLES",
        "2:1 set pelton.tier = compile
         4:26 query SELECT 1
         4:36 query SELECT 'a;b'
         5:1 ShowTables(None)",
    );
    check("", "");
    check(" ; ; -- nothing", "");
    let parsed = parse("SELECT 1 ;\n SELECT\n  'ä' -- why\n ; DROP TABLE t").expect("parses");
    let texts: Vec<&str> = parsed.iter().map(|parsed| parsed.text.as_str()).collect();
    assert_eq!(texts, ["SELECT 1", "SELECT\n  'ä'", "DROP TABLE t"]);
}

#[test]
fn statements_but_create_table() {
    check("SET", "1:1 ShowSettings");
    check("set 'a.b' = 'it''s'", "1:1 set a.b = it's");
    check("show progress", "1:1 ShowProgress { is_verbose: false }");
    check("SHOW QUERIES VERBOSE", "1:1 ShowQueries { is_verbose: true }");
    check("show Operators verbose", "1:1 ShowOperators { is_verbose: true }");
    check("show sharing", "1:1 ShowSharing");
    check("RESET; RESET 'k'", "1:1 reset None\n1:8 reset Some(\"k\")");
    check(
        "SHOW VIEWS; show functions; SHOW CREATE TABLE t; SHOW CREATE VIEW `v w`",
        "1:1 ShowViews(None)\n1:13 ShowFunctions { are_own: false, filter: None }\n1:29 show create t\n1:50 show create v w",
    );
    check("DESCRIBE t; DESC EXTENDED Tt", "1:1 describe t\n1:13 describe Tt");
    check(
        "DROP TABLE t; DROP TEMPORARY TABLE IF EXISTS `t t`; DROP VIEW IF EXISTS v; DROP TABLE t CASCADE; DROP VIEW v RESTRICT",
        "1:1 drop table t false\n1:15 drop temporary table t t true\n1:53 drop view v true
1:76 drop table t false cascade
1:98 drop view v false",
    );
    check("CREATE VIEW v AS SELECT a, b FROM t", "1:1 view v [] -- | SELECT a, b FROM t");
    check(
        "CREATE TEMPORARY VIEW IF NOT EXISTS v (x, `y z`) COMMENT 'c' AS\nWITH w AS (SELECT 1) SELECT * FROM w ;",
        "1:1 view v [x, y z] TE | WITH w AS (SELECT 1) SELECT * FROM w",
    );
    check("INSERT INTO t SELECT * FROM s", "1:1 insert t SELECT * FROM s");
    check("INSERT INTO t (a, b) SELECT a, b FROM s", "1:1 insert t (a, b) SELECT a, b FROM s");
    check("INSERT INTO t VALUES (1, 'a'), (2, NULL)", "1:1 insert t VALUES (1, 'a'), (2, NULL)");
    check("INSERT INTO t (SELECT 1)", "1:1 insert t (SELECT 1)");
    check("INSERT INTO t WITH w AS (SELECT 1) SELECT * FROM w", "1:1 insert t WITH w AS (SELECT 1) SELECT * FROM w");
    check(
        "EXPLAIN SELECT 1; EXPLAIN PLAN FOR INSERT INTO t SELECT 1",
        "1:1 explain query SELECT 1\n1:19 explain insert t SELECT 1",
    );
    check(
        "EXPLAIN ANALYZE VERBOSE SELECT 1; explain analyze query 12",
        "1:1 analyze true query SELECT 1\n1:35 AnalyzeQuery { number: 12, is_verbose: false }",
    );
    check("VALUES (1), (2); (SELECT 1)", "1:1 query VALUES (1), (2)\n1:18 query (SELECT 1)");
}

#[test]
fn tables_have_every_kind_of_column() {
    check(
        "CREATE TEMPORARY TABLE IF NOT EXISTS `my bids` (
            auction BIGINT NOT NULL COMMENT 'which',
            `timestamp` TIMESTAMP(3),
            price DECIMAL(12, 2) NULL,
            offset_in_file BIGINT NOT NULL METADATA FROM 'offset' VIRTUAL,
            file STRING METADATA,
            cost AS price * 0.9 COMMENT 'less',
            p AS PROCTIME(),
            PRIMARY KEY (auction, `timestamp`) NOT ENFORCED,
            WATERMARK FOR `timestamp` AS `timestamp` - INTERVAL '4' SECOND
         ) COMMENT 'bids' WITH ('connector' = 'nexmark', 'seed' = '7')",
        "1:1 table my bids TE
         auction BIGINT NOT NULL -- which
         timestamp TIMESTAMP(3)
         price DECIMAL(12, 2)
         offset_in_file BIGINT NOT NULL METADATA offset VIRTUAL
         file STRING METADATA file
         cost AS price * 0.9 -- less
         p PROCTIME
         watermark timestamp - 4000000 us
         key auction, timestamp
         connector = nexmark
         seed = 7",
    );
    check("CREATE TABLE t WITH ('connector' = 'ysb')", "1:1 table t --\nconnector = ysb");
    check("CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCED, b INT)", "1:1 table t --\na INT NOT NULL\nb INT\nkey a");
    check(
        "CREATE TABLE t (ts TIMESTAMP_LTZ(3), CONSTRAINT k PRIMARY KEY (ts) NOT ENFORCED, WATERMARK FOR ts AS ts)",
        "1:1 table t --\nts TIMESTAMP_LTZ(3)\nwatermark ts - 0 us\nkey ts",
    );
}

#[test]
fn types_of_columns() {
    let cases = [
        ("BOOLEAN", "BOOLEAN"),
        ("TINYINT", "TINYINT"),
        ("SMALLINT", "SMALLINT"),
        ("INT", "INT"),
        ("INTEGER", "INT"),
        ("bigint", "BIGINT"),
        ("FLOAT", "FLOAT"),
        ("DOUBLE", "DOUBLE"),
        ("DOUBLE PRECISION", "DOUBLE"),
        ("DECIMAL", "DECIMAL(10, 0)"),
        ("DECIMAL(5)", "DECIMAL(5, 0)"),
        ("NUMERIC(38, 18)", "DECIMAL(38, 18)"),
        ("CHAR", "CHAR(1)"),
        ("CHAR(3)", "CHAR(3)"),
        ("VARCHAR(2147483647)", "VARCHAR(2147483647)"),
        ("STRING", "STRING"),
        ("BYTES", "BYTES"),
        ("VARBINARY(16)", "BYTES"),
        ("DATE", "DATE"),
        ("TIMESTAMP", "TIMESTAMP(6)"),
        ("TIMESTAMP(0)", "TIMESTAMP(0)"),
        ("TIMESTAMP(3) WITHOUT TIME ZONE", "TIMESTAMP(3)"),
        ("TIMESTAMP_LTZ", "TIMESTAMP_LTZ(6)"),
        ("TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(3)"),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP_LTZ(3)"),
    ];
    for (written, meant) in cases {
        check(&format!("CREATE TABLE t (c {written} NOT NULL)"), &format!("1:1 table t --\nc {meant} NOT NULL"));
    }
    let refused = [
        ("LONG", "there is no type LONG; did you mean BIGINT?"),
        ("STRIGN", "there is no type STRIGN; did you mean STRING?"),
        ("TIMESTAMP(9)", "+10 expected the number of fractional digits of a second, 0 to 6, found 9"),
        (
            "TIMESTAMP(3) WITH TIME ZONE",
            "+13 TIMESTAMP WITH TIME ZONE is not supported yet; use TIMESTAMP_LTZ for instants",
        ),
        ("DECIMAL(39, 2)", "+8 expected the number of digits, 1 to 38, found 39"),
        (
            "DECIMAL(3, 4)",
            "DECIMAL(3, 4) has more digits after the point than in all; the first number counts all digits, the second those after the point",
        ),
        ("MULTISET<INT>", "MULTISET is not supported yet; use an ARRAY"),
        ("TIME(3)", "the type TIME is not supported yet; use TIMESTAMP(3), or INT for the milliseconds of the day"),
        ("'INT'", "expected the type of the column, found 'INT'"),
    ];
    for (written, message) in refused {
        let (column, message) = match message.strip_prefix('+').and_then(|rest| rest.split_once(' ')) {
            Some((at, message)) => (19 + at.parse::<usize>().expect("a number"), message),
            None => (19, message),
        };
        check(&format!("CREATE TABLE t (c {written})"), &format!("line 1, column {column}: {message}"));
    }
}

#[test]
fn tables_that_do_not_make_sense() {
    let cases = [
        ("(a INT, a STRING)", "line 1, column 24: the column a is declared twice; rename one of them"),
        (
            "(a INT, p AS PROCTIME(), WATERMARK FOR ts AS ts)",
            "line 1, column 41: the watermark names ts, which is no column of the table; the columns are a, p",
        ),
        (
            "(Ts TIMESTAMP(3), WATERMARK FOR ts AS ts)",
            "line 1, column 34: the watermark names ts, which is no column of the table; did you mean Ts? (names are case sensitive)",
        ),
        (
            "(ts BIGINT, WATERMARK FOR ts AS ts)",
            "line 1, column 28: the event-time column ts is BIGINT; it must be TIMESTAMP or TIMESTAMP_LTZ: add a computed column such as event_time AS TO_TIMESTAMP_LTZ(ts, 3)",
        ),
        (
            "(ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' MONTH)",
            "line 1, column 68: the delay of a watermark cannot be in months or years; their length varies: use DAY, HOUR, MINUTE or SECOND",
        ),
        (
            "(ts TIMESTAMP(3), WATERMARK FOR ts AS ts + INTERVAL '1' SECOND)",
            "line 1, column 54: the watermark ts + INTERVAL '1' SECOND is not supported yet; write WATERMARK FOR ts AS ts - INTERVAL '5' SECOND, or AS ts; compute the column itself with a computed column",
        ),
        (
            "(ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '-1' SECOND)",
            "line 1, column 54: a watermark cannot run ahead of its column; subtract a positive INTERVAL",
        ),
        (
            "(a INT, PRIMARY KEY (b) NOT ENFORCED)",
            "line 1, column 37: the primary key names b, which is no column of the table; the columns are a",
        ),
        (
            "(a INT, PRIMARY KEY (a))",
            "line 1, column 39: a primary key cannot be enforced on a stream; write PRIMARY KEY (…) NOT ENFORCED",
        ),
        (
            "(a INT DEFAULT 1)",
            "line 1, column 23: DEFAULT is not supported yet; compute the value in the query, as in COALESCE(c, 0)",
        ),
        ("(a INT b INT)", "line 1, column 23: expected `,` or `)` after a column, found b"),
        ("(a INT,)", "line 1, column 23: expected the name of a column, found )"),
        ("(a INT", "line 1, column 22: expected `,` or `)` after a column, found the end of the statement"),
        (
            "(select INT)",
            "line 1, column 17: expected the name of a column, found select; select is a reserved word: as a name, write `select` in backticks",
        ),
        ("('a' INT)", "line 1, column 17: expected the name of a column, found 'a'; names stand in backticks: `a`"),
        (
            "(a INT) WITH (connector = 'x')",
            "line 1, column 30: expected the quoted key of an option, found connector; write options as 'key' = 'value', both in single quotes",
        ),
        (
            "(a INT) WITH ('connector' = 5)",
            "line 1, column 44: expected the quoted value of the option, found 5; write options as 'key' = 'value', both in single quotes",
        ),
        ("(a INT) WITH ('k' = '1', 'k' = '2')", "line 1, column 41: the option 'k' is given twice; keep one of them"),
        (
            "(a INT) PARTITIONED BY (b) WITH ('k' = '1')",
            "line 1, column 40: PARTITIONED BY names b, which is no column of the table; the columns are a",
        ),
        (
            "WITH ('k' = '1') AS SELECT 1",
            "line 1, column 33: CREATE TABLE … AS SELECT is not supported yet; use CREATE TABLE, then INSERT INTO … SELECT",
        ),
        ("LIKE s", "line 1, column 16: CREATE TABLE … LIKE is not supported yet; list the columns and options"),
    ];
    for (rest, message) in cases {
        check(&format!("CREATE TABLE t {rest}"), message);
    }
}

#[test]
fn intervals_have_one_form() {
    let cases = [
        ("INTERVAL '10' SECOND", "INTERVAL '10' SECOND", Ok(10_000_000)),
        ("INTERVAL '10' SECOND(3)", "INTERVAL '10' SECOND (3)", Ok(10_000_000)),
        ("INTERVAL '10.5' SECOND(2, 1)", "INTERVAL '10.5' SECOND (2)", Ok(10_500_000)),
        ("INTERVAL '0.000001' SECOND", "INTERVAL '0.000001' SECOND", Ok(1)),
        ("INTERVAL '5' MINUTES", "INTERVAL '5' MINUTE", Ok(300_000_000)),
        ("INTERVAL '2' hours", "INTERVAL '2' HOUR", Ok(7_200_000_000)),
        ("INTERVAL '1' DAY(2)", "INTERVAL '1' DAY (2)", Ok(86_400_000_000)),
        ("INTERVAL '250' MILLISECOND", "INTERVAL '250' MILLISECOND", Ok(250_000)),
        ("INTERVAL '1:30' MINUTE TO SECOND", "INTERVAL '90' SECOND", Ok(90_000_000)),
        ("INTERVAL '1 02:03:04.5' DAY TO SECOND", "INTERVAL '93784500000' MICROSECOND", Ok(93_784_500_000)),
        ("INTERVAL '10:20' HOUR TO MINUTE", "INTERVAL '37200' SECOND", Ok(37_200_000_000)),
        ("INTERVAL -'5' SECOND", "INTERVAL '-5' SECOND", Ok(-5_000_000)),
        ("-INTERVAL '5' SECOND", "-INTERVAL '5' SECOND", Ok(-5_000_000)),
        (
            "INTERVAL '2-6' YEAR TO MONTH",
            "INTERVAL '30' MONTH",
            Err("the size cannot be in months or years; their length varies: use DAY, HOUR, MINUTE or SECOND"),
        ),
        (
            "INTERVAL '1' YEAR",
            "INTERVAL '1' YEAR",
            Err("the size cannot be in months or years; their length varies: use DAY, HOUR, MINUTE or SECOND"),
        ),
        (
            "5",
            "5",
            Err(
                "the size must be an INTERVAL; write a literal such as INTERVAL '10' SECOND, INTERVAL '1' MINUTE or INTERVAL '1:30' MINUTE TO SECOND",
            ),
        ),
    ];
    for (written, meant, micros) in cases {
        let parsed = parse(&format!("SELECT {written}")).unwrap_or_else(|error| panic!("{written}: {error}"));
        let Statement::Query(query) = &parsed[0].statement else { panic!("a query") };
        assert_eq!(query.to_string(), format!("SELECT {meant}"));
        let Some(select) = query.body.as_select() else { panic!("a SELECT") };
        let sqlparser::ast::SelectItem::UnnamedExpr(expression) = &select.projection[0] else {
            panic!("an expression")
        };
        let found = interval_micros(expression, "the size").map_err(|error: PlanError| error.to_string());
        assert_eq!(
            found,
            micros.map_err(|message| format!("line 1, column {}: {message}", if written == "5" { 8 } else { 17 }))
        );
    }
    let refused = [
        (
            "INTERVAL 5 SECOND",
            "line 1, column 17: expected a quoted number after INTERVAL, as in INTERVAL '10' SECOND, found 5",
        ),
        (
            "INTERVAL '5'",
            "line 1, column 20: expected a unit after the number, such as SECOND, MINUTE, HOUR or DAY, found the end of the statement",
        ),
        (
            "INTERVAL '5' FORTNIGHT",
            "line 1, column 21: expected a unit after the number, such as SECOND, MINUTE, HOUR or DAY, found FORTNIGHT",
        ),
        ("INTERVAL 'ten' SECOND", "line 1, column 17: expected a number of SECONDs, such as '10', found 'ten'"),
        (
            "INTERVAL '90' MINUTE TO SECOND",
            "line 1, column 17: expected the form 'mm:ss.fff' for MINUTE TO SECOND, found '90'",
        ),
        (
            "INTERVAL '1' SECOND TO DAY",
            "line 1, column 17: expected a finer unit after TO than SECOND, not DAY, found '1'",
        ),
    ];
    for (written, message) in refused {
        check(&format!("SELECT {written}"), message);
    }
}

#[test]
fn windows_parse_in_both_spellings() {
    check(
        "SELECT * FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' MINUTES, INTERVAL '1' MINUTE)) AS w",
        "1:1 query SELECT * FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' MINUTE, INTERVAL '1' MINUTE)) AS w",
    );
    check(
        "SELECT * FROM TUMBLE(DATA => TABLE `b id`, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '10' SECOND, `OFFSET` => INTERVAL '1' SECOND)",
        "1:1 query SELECT * FROM TUMBLE(DATA => TABLE `b id`, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '10' SECOND, `OFFSET` => INTERVAL '1' SECOND)",
    );
    check(
        "SELECT * FROM TUMBLE(DATA => TABLE b, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '10' SECOND, OFFSET => INTERVAL '1' SECOND)",
        "1:1 query SELECT * FROM TUMBLE(DATA => TABLE b, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '10' SECOND, OFFSET => INTERVAL '1' SECOND)",
    );
    check("SELECT COUNT(*) FILTER (WHERE a > 1) FROM t", "1:1 query SELECT COUNT(*) FILTER (WHERE a > 1) FROM t");
}

#[test]
fn syntax_errors_name_place_and_remedy() {
    let cases = [
        ("SELEKT 1", "line 1, column 1: expected a statement, found SELEKT; did you mean SELECT?"),
        (
            "FOO",
            "line 1, column 1: expected a statement, found FOO; statements begin with SELECT, WITH, CREATE, DROP, INSERT INTO, EXECUTE STATEMENT SET, SET, RESET, EXPLAIN, SHOW, DESCRIBE, STOP JOB or ALTER JOB",
        ),
        ("= 1", "line 1, column 1: expected a statement, found ="),
        (
            "SELECT 1;\nSELECT a FORM t",
            "line 2, column 15: expected the end of the statement, found t; did you mean FROM?",
        ),
        ("SELECT a,\n  b c d FROM t", "line 2, column 7: expected the end of the statement, found d"),
        ("SELECT (1 + 2", "line 1, column 14: expected ), found the end of the statement"),
        ("SELECT a FROM t WHERE", "line 1, column 22: expected an expression, found the end of the statement"),
        ("SELECT 'abc", "line 1, column 8: Unterminated string literal"),
        ("SELECT `abc", "line 1, column 8: Expected close delimiter '`' before EOF."),
        (
            "SELECT \"a\" FROM t",
            "line 1, column 8: \"a\" is neither a name nor a string; write `a` for a name, 'a' for a string",
        ),
        (
            "SELECT ? FROM t",
            "line 1, column 8: the placeholder ? is not supported yet; write the value in the statement",
        ),
        ("SET a = 1", "line 1, column 5: expected the quoted key of a setting, found a; write SET 'key' = 'value'"),
        ("INSERT t SELECT 1", "line 1, column 8: expected INTO, found t"),
        (
            "INSERT INTO a.b SELECT 1",
            "line 1, column 13: there is no catalog or database a; write b, or default_catalog.default_database.b",
        ),
        (
            "SHOW TABELS",
            "line 1, column 6: expected TABLES, VIEWS, FUNCTIONS, COLUMNS, CATALOGS, DATABASES, CURRENT CATALOG, CURRENT DATABASE, JOBS, PROGRESS, QUERIES, OPERATORS, SHARING, CREATE TABLE or CREATE VIEW after SHOW, found TABELS; did you mean TABLE?",
        ),
        (
            "EXPLAIN ANALYZE QUERY x",
            "line 1, column 23: expected the number of a query, as in EXPLAIN ANALYZE QUERY 1, found x",
        ),
        ("EXPLAIN SET", "line 1, column 9: expected a query or INSERT INTO after EXPLAIN, found SET"),
        (
            "WITH w AS (SELECT 1) INSERT INTO t SELECT * FROM w",
            "line 1, column 1: expected a query, found a statement that changes a table; write INSERT INTO table WITH … SELECT …",
        ),
        (
            "CREATE TABEL t (a INT)",
            "line 1, column 8: expected TABLE or VIEW, found TABEL; write CREATE [TEMPORARY] TABLE, CREATE [TEMPORARY] VIEW, DROP TABLE or DROP VIEW",
        ),
    ];
    for (sql, message) in cases {
        check(sql, message);
    }
}

#[test]
fn what_flink_has_and_we_have_not_yet() {
    let cases = [
        (
            "UPDATE t SET a = 1",
            "line 1, column 1: UPDATE is not supported yet; streams are append-only: use INSERT INTO … SELECT",
        ),
        (
            "DELETE FROM t",
            "line 1, column 1: DELETE is not supported yet; streams are append-only: use INSERT INTO … SELECT",
        ),
        ("USE CATALOG c", "line 1, column 13: there is no catalog c; the only one is default_catalog"),
        (
            "ALTER TABLE t ADD c INT",
            "line 1, column 1: ALTER is not supported yet; only jobs are altered (ALTER JOB name AS INSERT INTO …); for a table use DROP TABLE and CREATE TABLE",
        ),
        (
            "CREATE CATALOG c",
            "line 1, column 8: CATALOG is not supported yet; a session has one catalog and one database: leave the statement out",
        ),
        (
            "CREATE FUNCTION f AS 'x'",
            "line 1, column 8: FUNCTION is not supported yet; add functions through the Rust crate",
        ),
        (
            "CREATE OR REPLACE TABLE t",
            "line 1, column 11: CREATE OR REPLACE is not supported yet; use DROP … IF EXISTS, then CREATE",
        ),
        ("INSERT OVERWRITE t SELECT 1", "line 1, column 8: INSERT OVERWRITE is not supported yet; use INSERT INTO"),
        (
            "SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A))",
            "line 1, column 17: MATCH_RECOGNIZE is not supported yet; filter and group within TUMBLE windows",
        ),
        (
            "SELECT * FROM a, LATERAL (SELECT * FROM b WHERE b.x = a.x)",
            "line 1, column 18: LATERAL before a query is not supported yet; call a table function: LATERAL TABLE(f(x)), or UNNEST(array)",
        ),
        ("SELECT ARRAY(SELECT 1)", "line 1, column 8: ARRAY of a query is not supported yet; write ARRAY[1, 2]"),
        (
            "SELECT * FROM t /*+ OPTIONS('a'='b') */",
            "line 1, column 17: a hint /*+ … */ is not supported yet; put options in WITH (…) of CREATE TABLE",
        ),
    ];
    for (sql, message) in cases {
        check(sql, message);
    }
}

#[test]
fn deep_statements_are_refused_before_they_overflow_the_stack() {
    let nested = [
        ("SELECT ", "(", "1", ")"),
        ("SELECT ", "ABS(", "1", ")"),
        ("SELECT ", "CAST(", "1", " AS INT)"),
        ("SELECT ", "CASE WHEN ", "1", " THEN 1 END"),
        ("SELECT ", "NOT ", "a", ""),
        ("SELECT ", "- ", "a", ""),
        ("SELECT ", "a IN (", "1", ")"),
        ("SELECT ", "a + (", "1", ")"),
        ("SELECT ", "SUBSTRING(a FROM ", "1", ")"),
        ("SELECT ", "(SELECT ", "1", ")"),
        ("SELECT ", "EXISTS (SELECT ", "1", ")"),
        ("SELECT * FROM ", "(SELECT * FROM ", "t", ")"),
        ("SELECT * FROM ", "(a JOIN ", "t", " ON TRUE)"),
        ("", "(", "SELECT 1", ")"),
        ("", "SELECT 1 UNION ALL (", "SELECT 1", ")"),
        ("", "WITH w AS (", "SELECT 1", ") SELECT * FROM w"),
    ];
    for (before, open, inside, close) in nested {
        let sql = format!("{before}{}{inside}{}", open.repeat(60), close.repeat(60));
        let error = parse(&sql).expect_err("too deep").to_string();
        assert!(error.contains("the statement is nested too deeply; at most 50 levels"), "{open}: {error}");
        let sql = format!("{before}{}{inside}{}", open.repeat(10), close.repeat(10));
        parse(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    check(
        &format!("SELECT 1{}", "+1".repeat(2_000)),
        "line 1, column 609: the expression has more than 300 operators; compute a part of it in a subquery or view; AND, OR, || and IN (…) may be longer",
    );
    let values = vec!["(-1, -2)"; 5_000].join(", ");
    assert_eq!(parse(&format!("INSERT INTO t VALUES {values}")).expect("parses").len(), 1);
    assert_eq!(parse(&format!("SELECT a{}", " OR a = 1".repeat(20_000))).expect("parses").len(), 1);
    assert_eq!(parse(&format!("SELECT a{}", "+ 1".repeat(299))).expect("parses").len(), 1);
}
