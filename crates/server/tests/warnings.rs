//! What a user is told without asking: rows that are lost, what a stop waits for, files that were left behind.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

fn pelton(script: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pelton"));
    let command_line = ["run", "--format", "csv", "-e", script];
    command.args(command_line).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(script: &str) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = pelton(script).output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code(), text(stdout), text(stderr))
}

/// An empty folder of this test.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("pelton-{name}-{}", std::process::id()));
    drop(fs::remove_dir_all(&folder));
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// What Ctrl-C in a terminal does.
fn interrupt(child: &Child) {
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(status.expect("there is a kill command").success());
}

#[test]
fn a_row_from_the_future_is_named_with_the_option_that_bounds_it() {
    let folder = folder("future");
    let path = folder.join("rows.csv").display().to_string();
    let second = |row: u64| format!("{row},2024-01-01 {:02}:{:02}:{:02}\n", row / 3600, row / 60 % 60, row % 60);
    let mut rows: Vec<String> = (0..2000).map(second).collect();
    rows[2] = "2,2099-06-01 12:00:00\n".to_owned();
    fs::write(&path, rows.concat()).expect("a file");
    let script = |options: &str| {
        format!(
            "CREATE TABLE t (id INT, ts TIMESTAMP(0), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
             WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv'{options});
             SELECT COUNT(*) AS n FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR) GROUP BY window_start, window_end"
        )
    };
    let (code, printed, said) = run(&script(""));
    assert_eq!((code, printed.as_str()), (Some(0), "n\n2\n1\n"), "{said}");
    let expected = format!(
        "warning: window 0: 1 997 of 2 000 rows came after their window had closed and were left out
  table t: a row ({path}, row 3) with event time 2099-06-01 12:00:00 moved the watermark from 2023-12-31 23:59:55 to 2099-06-01 11:59:55
  'scan.watermark.max-ahead' = '1 h' in CREATE TABLE t keeps rows that are further ahead of the clock from moving it\n"
    );
    assert!(said.ends_with(&expected), "{said}\nis not\n{expected}");
    let (code, printed, said) = run(&script(", 'scan.watermark.max-ahead' = '1 d'"));
    assert_eq!((code, printed.as_str(), said.as_str()), (Some(0), "n\n1999\n1\n", ""));
    fs::remove_dir_all(&folder).expect("the folder can be removed");
}

#[test]
fn an_input_without_rows_and_a_file_that_was_left_behind_are_told() {
    let folder = folder("left");
    fs::write(folder.join("none.csv"), "").expect("a file");
    let out = folder.join("out");
    fs::create_dir_all(&out).expect("a folder");
    fs::write(out.join(".part-0.csv.inprogress"), "1\n").expect("a file");
    let [none, written] = ["none.csv", "out"].map(|name| folder.join(name).display().to_string());
    let table = |name: &str, path: &str| {
        format!("CREATE TABLE {name} (a INT) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv');")
    };
    let script = format!("{}{} INSERT INTO o SELECT a FROM n", table("n", &none), table("o", &written));
    let (code, _, said) = run(&script);
    assert_eq!(code, Some(0), "{said}");
    let left = format!(
        "o: {written}/.part-0.csv.inprogress was left by an INSERT that was killed, and may have rows of it; remove or rename it"
    );
    assert!(said.contains(&left) && said.contains("warning: n: no row was read\n"), "{said}");
    assert!(out.join(".part-0.csv.inprogress").exists(), "rows of others are not removed");
    fs::remove_dir_all(&folder).expect("the folder can be removed");
}

#[test]
fn a_column_that_no_row_has_is_told_with_the_nearest_name() {
    let folder = folder("absent");
    let path = |name: &str| folder.join(name).display().to_string();
    fs::write(path("rows.json"), "{\"price\": 1, \"volume\": 2}\n{\"price\": 3}\n{\"volume\": null}\n")
        .expect("a file");
    let table = |columns: &str, file: &str| {
        let path = path(file);
        format!("CREATE TABLE t ({columns}) WITH ('connector' = 'filesystem', 'path' = '{path}');")
    };
    let json = table("pirce INT, volume INT, amount INT, price INT", "rows.json");
    let (code, printed, said) = run(&format!("{json} SELECT volume, pirce, amount FROM t"));
    assert_eq!((code, printed.as_str()), (Some(0), "volume,pirce,amount\n2,,\n,,\n,,\n"), "{said}");
    let file = path("rows.json");
    let expected = format!(
        "warning: t: column 'pirce' is in none of 3 rows of {file}, and is NULL; did you mean 'price'?
warning: t: column 'amount' is in none of 3 rows of {file}, and is NULL; the first rows also have 'price'\n"
    );
    assert_eq!(said, expected);
    // A column that no query reads is not looked for, and one that a single row has is there.
    let (_, _, said) = run(&format!("{json} SELECT volume FROM t"));
    assert_eq!(said, "");
    // Another file of the table may have it.
    fs::write(path("more.json"), "{\"pirce\": null}\n").expect("a file");
    let both = table("pirce INT, amount INT", "*.json");
    let (code, _, said) = run(&format!("{both} SELECT * FROM t"));
    assert_eq!((code, said.lines().count()), (Some(0), 1), "{said}");
    assert!(
        said.contains("column 'amount' is in none of 4 rows of") && said.contains(" and others, and is NULL"),
        "{said}"
    );
    fs::remove_dir_all(&folder).expect("the folder can be removed");
}

#[test]
fn a_field_that_no_object_has_is_told_with_the_nearest_name() {
    let folder = folder("absent-field");
    let path = |name: &str| folder.join(name).display().to_string();
    let rows = "{\"r\": {\"price\": 1, \"deep\": [{\"volume\": 2}]}, \"m\": {\"k\": {\"b\": 1}}, \"n\": null}\n\
                {\"r\": null}\n{\"r\": {\"price\": 3}}\n";
    fs::write(path("a.json"), rows).expect("a file");
    fs::write(path("b.json"), "{\"r\": null}\n").expect("a file");
    let table =
        "CREATE TABLE t (r ROW<pirce INT, deep ARRAY<ROW<volum INT>>>, m MAP<STRING, ROW<a INT, b INT>>, n ROW<x INT>)";
    let run_on = |file: &str| {
        let options = format!("WITH ('connector' = 'filesystem', 'path' = '{}')", path(file));
        run(&format!("{table} {options}; SELECT r.pirce FROM t WHERE m IS NULL AND n IS NULL")).2
    };
    let warning =
        |absence: &str, place: &str, hint: &str| format!("warning: t: {absence} of {place}, and is NULL{hint}\n");
    for (file, others) in [("a.json", ""), ("*.json", " and others")] {
        let place = format!("{}{others}", path("a.json"));
        let expected = [
            warning("field 'r.pirce' is in none of 2 objects", &place, "; did you mean 'price'?"),
            warning("field 'r.deep[…].volum' is not in the only object", &place, "; did you mean 'volume'?"),
            warning("field 'm[…].a' is not in the only object", &place, ""),
        ];
        assert_eq!(run_on(file), expected.concat(), "{file}");
    }
    // A ROW that is always NULL may have all fields.
    let absence = |column: &str| format!("column '{column}' is not in the only row");
    let expected = ["m", "n"].map(|column| warning(&absence(column), &path("b.json"), ""));
    assert_eq!(run_on("b.json"), expected.concat());
    fs::remove_dir_all(&folder).expect("the folder can be removed");
}

#[test]
fn a_column_that_no_row_has_is_told_while_the_input_still_comes() {
    let folder = folder("absent-early");
    let path = folder.join("pipe").display().to_string();
    assert!(Command::new("mkfifo").arg(&path).status().expect("there is a mkfifo command").success());
    let script = format!(
        "CREATE TABLE t (id INT, pirce INT) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'json');
         SELECT SUM(pirce) AS total FROM t"
    );
    let mut child = pelton(&script).spawn().expect("the program starts");
    let mut pipe = fs::OpenOptions::new().write(true).open(&path).expect("it is read");
    let rows: String = (0..2000).map(|id| format!("{{\"id\": {id}, \"price\": 1}}\n")).collect();
    pipe.write_all(rows.as_bytes()).expect("it is read");
    let mut said = String::new();
    let mut errors = BufReader::new(child.stderr.take().expect("piped"));
    errors.read_line(&mut said).expect("text");
    let expected = format!("rows of {path}, and is NULL; did you mean 'price'?\n");
    assert!(
        said.starts_with("warning: t: column 'pirce' is in none of the first ") && said.ends_with(&expected),
        "{said}"
    );
    drop(pipe);
    assert_eq!(child.wait().expect("the program ends").code(), Some(0));
    let mut rest = String::new();
    errors.read_to_string(&mut rest).expect("text");
    assert_eq!(rest, "", "it is said once");
    fs::remove_dir_all(&folder).expect("the folder can be removed");
}

#[test]
fn a_row_that_cannot_be_read_is_shown_and_not_the_statement() {
    let folder = folder("row");
    let path = folder.join("rows.csv").display().to_string();
    fs::write(&path, "1,2\n3,4x\n").expect("a file");
    let table = format!(
        "CREATE TABLE t (a INT, b INT) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv');"
    );
    let (code, _, said) = run(&format!("{table}\nSELECT a, b FROM t"));
    let expected = format!(
        "error: table 't': {path}, row 2, column 'b': '4x' is not an INT\n --> {path}:2:3\n  |\n2 | 3,4x\n  |   ^^\n(read by the statement at -e:2:1)\n"
    );
    assert_eq!((code, said), (Some(1), expected));
    fs::remove_dir_all(&folder).expect("the folder can be removed");
}

#[test]
fn a_stop_that_waits_says_for_what() {
    let script =
        "CREATE TABLE n (i BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000000'); SELECT i FROM n";
    let mut child = pelton(script).spawn().expect("the program starts");
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    output.read_line(&mut String::new()).expect("the query runs");
    // The pipe is full before long.
    std::thread::sleep(std::time::Duration::from_millis(500));
    interrupt(&child);
    let mut said = String::new();
    let mut errors = BufReader::new(child.stderr.take().expect("piped"));
    errors.read_line(&mut said).expect("text");
    let expected = "stopping: waiting for standard output, which nobody reads; press Ctrl-C again to end at once\n";
    assert_eq!(said, expected);
    interrupt(&child);
    assert_eq!(child.wait().expect("the program ends").code(), Some(130));
}
