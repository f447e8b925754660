//! psql and psycopg, where they are there.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::program::Server;

/// Installed where Python is there and a package index can be reached.
const PSYCOPG: &str = "psycopg[binary]==3.2.13";

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

/// Runs psql with statements. `None` where it is not there.
fn psql(server: &Server, arguments: &[&str]) -> Option<Output> {
    let mut command = Command::new("psql");
    let port = server.port.to_string();
    command.args(["-h", "127.0.0.1", "-p", &port, "-U", "test", "-X"]).args(arguments).env("PGCONNECT_TIMEOUT", "60");
    match command.output() {
        Ok(output) => Some(output),
        Err(_) => {
            eprintln!("skipped: there is no psql");
            None
        }
    }
}

#[test]
fn psql_shows_rows_errors_and_notices() {
    let server = Server::start(&[]);
    let Some(output) = psql(&server, &["-A", "-c", "SELECT a, b FROM (VALUES (1, 'x'), (2, NULL)) AS t (a, b)"]) else {
        return;
    };
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("a|b\n1|x\n2|\n(2 rows)\n", ""));
    let output = psql(&server, &["-c", "SELECT a,\n  nope FROM (VALUES (1)) AS t (a)"]).unwrap();
    let expected =
        "ERROR:  there is no column nope\nLINE 2:   nope FROM (VALUES (1)) AS t (a)\n          ^\nHINT:  there are a\n";
    assert_eq!(text(&output.stderr), expected);
    let output = psql(&server, &["-c", "BEGIN", "-c", "SHOW server_version_num", "-t", "-A"]).unwrap();
    assert_eq!(text(&output.stdout), "BEGIN\n150000\n");
    assert!(text(&output.stderr).starts_with("NOTICE:  there are no transactions"), "{}", text(&output.stderr));
    // It asks the system catalog, which there is not.
    let output = psql(&server, &["-c", "\\d"]).unwrap();
    assert!(
        text(&output.stderr).contains("the system catalog of Postgres is not supported yet"),
        "{}",
        text(&output.stderr)
    );
}

/// Runs the shell as a client.
fn shell(server: &Server, arguments: &[&str]) -> Output {
    let address = format!("127.0.0.1:{}", server.port);
    let mut command = Command::new(env!("CARGO_BIN_EXE_pelton"));
    command.args(["sql", "--connect", &address]).args(arguments).output().expect("the program starts")
}

#[test]
fn the_shell_shows_what_a_server_answers() {
    let server = Server::start(&[]);
    let output =
        shell(&server, &["-e", "SELECT a, b, c FROM (VALUES (10, 'x', TRUE), (2, NULL, FALSE)) AS t (a, b, c)"]);
    let expected = " a  b     c\n──  ────  ─────\n10  x     true\n 2  NULL  false\n";
    assert_eq!((text(&output.stdout), text(&output.stderr)), (expected, ""));
    let query = "SELECT CAST('1.50' AS DECIMAL(5, 2)) AS n, 'a' AS t; SELECT 1 AS one";
    let output = shell(&server, &["--format", "json", "-e", query]);
    assert_eq!(text(&output.stdout), "{\"n\":1.50,\"t\":\"a\"}\n{\"one\":1}\n");
    // Other clients share what is created.
    assert!(shell(&server, &["-e", "CREATE VIEW v AS SELECT 7 AS a"]).status.success());
    let output = shell(&server, &["--format", "csv", "-e", "SELECT a FROM v WHERE a > 7"]);
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("a\n", ""));
    let output = shell(&server, &["-e", "SELECT a\nFROM nowhere"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), ""));
    assert!(text(&output.stderr).contains(" --> -e:2:6\n"), "{}", text(&output.stderr));
    let nobody =
        Command::new(env!("CARGO_BIN_EXE_pelton")).args(["sql", "--connect", "127.0.0.1:1", "-e", "SELECT 1"]).output();
    assert!(text(&nobody.unwrap().stderr).starts_with("error: --connect 127.0.0.1:1: "));
}

/// The Python of a virtual environment that has psycopg. `None` where there is no Python, or nowhere to install from.
fn python() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("psycopg");
    let python = folder.join("bin/python");
    let is_installed = || {
        let check = Command::new(&python).args(["-c", "import psycopg"]).output();
        check.is_ok_and(|output| output.status.success())
    };
    if !is_installed() {
        // Whatever fails leaves no psycopg.
        let _ = Command::new("python3").args(["-m", "venv"]).arg(&folder).output();
        let _ = Command::new(&python).args(["-m", "pip", "install", "--quiet", "--timeout", "10", PSYCOPG]).output();
    }
    if is_installed() {
        return Some(python);
    }
    eprintln!("skipped: {PSYCOPG} cannot be installed");
    None
}

const PROGRAM: &str = r#"
import datetime, decimal, sys, psycopg
with psycopg.connect(host="127.0.0.1", port=int(sys.argv[1]), user="test", dbname="test") as connection:
    row = connection.execute(
        "SELECT %s AS a, %s AS b, %s AS c, %s AS d, %s AS e, %s AS f, CAST(%s AS BIGINT) AS g",
        [1, 2.5, "it's", True, datetime.date(2024, 2, 29), decimal.Decimal("12.50"), None]).fetchone()
    print(row)
    print(connection.execute("SELECT ARRAY[1, 2] AS a, ROW(1, 'x') AS r, X'00ff' AS b, TO_TIMESTAMP_LTZ(1500, 3) AS t").fetchone())
    with connection.cursor(binary=True) as cursor:
        print(cursor.execute("SELECT CAST('-0.05' AS DECIMAL(10, 2)) AS n, DATE '1999-12-31' AS d, ARRAY['a', NULL] AS a").fetchone())
    connection.commit()
    try:
        connection.execute("SELECT nope FROM (VALUES (1)) AS t (a)")
    except psycopg.Error as error:
        print(error.sqlstate, error.diag.statement_position, error.diag.message_primary)
    connection.rollback()
    with connection.cursor() as cursor:
        print(sum(row[0] for row in cursor.stream("SELECT i FROM (VALUES (1), (2), (3)) AS t (i)")))
"#;

#[test]
fn psycopg_sends_and_receives_values() {
    let Some(python) = python() else { return };
    let server = Server::start(&[]);
    let output = Command::new(python).args(["-c", PROGRAM, &server.port.to_string()]).output().unwrap();
    let expected = "(1, 2.5, \"it's\", True, datetime.date(2024, 2, 29), Decimal('12.50'), None)\n\
        ([1, 2], {'EXPR$0': 1, 'EXPR$1': 'x'}, b'\\x00\\xff', datetime.datetime(1970, 1, 1, 0, 0, 1, 500000, tzinfo=datetime.timezone.utc))\n\
        (Decimal('-0.05'), datetime.date(1999, 12, 31), ['a', None])\n\
        42000 8 there is no column nope\n\
        6\n";
    assert_eq!((text(&output.stdout), text(&output.stderr)), (expected, ""));
}
