//! The binary as a user meets it: exit codes, what is printed where, Ctrl-C.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn pelton(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pelton"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn output(arguments: &[&str]) -> Output {
    pelton(arguments).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

/// What Ctrl-C in a terminal does.
fn interrupt(child: &Child) {
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(status.expect("there is a kill command").success());
}

#[test]
fn a_select_prints_its_rows_in_each_format() {
    let query = "SELECT a, a * 2 AS b FROM (VALUES (1), (2)) AS t (a)";
    let printed = |format: &str| {
        let output = output(&["run", "--format", format, "-e", query]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout).to_string()
    };
    assert_eq!(printed("csv"), "a,b\n1,2\n2,4\n");
    assert_eq!(printed("json"), "{\"a\":1,\"b\":2}\n{\"a\":2,\"b\":4}\n");
    assert_eq!(printed("table"), "a  b\n─  ─\n1  2\n2  4\n");
}

/// They are those of `pelton sql`.
#[test]
fn statements_need_no_command() {
    let printed = |arguments: &[&str]| {
        let output = output(arguments);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout).to_string()
    };
    assert_eq!(printed(&["-e", "SELECT 1 AS one"]), "one\n───\n  1\n");
    let file = std::env::temp_dir().join(format!("pelton_statements_{}.sql", std::process::id()));
    std::fs::write(&file, "SELECT 2 AS two").unwrap();
    let path = file.to_str().expect("a path is text");
    assert_eq!(printed(&["--format", "csv", "-f", path, "-e", "SELECT 1 AS one"]), "two\n2\none\n1\n");
    std::fs::remove_file(&file).unwrap();
    let both = output(&["-e", "SELECT 1", "run", "-e", "SELECT 2"]);
    assert_eq!(both.status.code(), Some(2), "{}", text(&both.stdout));
}

#[test]
fn a_table_has_columns_of_any_width() {
    let output = output(&["run", "--format", "table", "-e", "SELECT REPEAT('x', 70000) AS wide, 1 AS one"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let lines: Vec<&str> = text(&output.stdout).lines().collect();
    assert_eq!(lines[2].len(), 70_000 + "  ".len() + "one".len());
}

/// Looking for the place of such a mistake plans parts of the query: the query's own place must do.
#[test]
fn a_plan_that_is_too_deep_is_refused_at_once() {
    let more = (1..800).map(|i| format!(", c{i} AS (SELECT x + 1 AS x FROM c{})", i - 1));
    let query = format!("WITH c0 AS (SELECT 1 AS x){} SELECT * FROM c799", more.collect::<String>());
    let output = output(&["run", "-e", &query]);
    let error = text(&output.stderr);
    assert!(error.contains("a query that is more than 2000 levels deep once views"), "{error}");
}

#[test]
fn what_a_format_has_no_form_for_is_printed_as_text() {
    let query = "-- floats and lists\nSELECT CAST(x AS DOUBLE) AS d, CAST(x AS FLOAT) AS f FROM (VALUES ('1.5'), ('NaN'), ('-Infinity'), (NULL)) AS t (x)";
    let printed = |format: &str, query: &str| {
        let output = output(&["run", "--format", format, "-e", query]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout).to_string()
    };
    let rows = [("1.5", "1.5"), ("\"NaN\"", "\"NaN\""), ("\"-Infinity\"", "\"-Infinity\""), ("null", "null")];
    let lines = rows.map(|(double, float)| format!("{{\"d\":{double},\"f\":{float}}}\n"));
    assert_eq!(printed("json", query), lines.concat());
    let lists = "SELECT k, ARRAY_AGG(v) AS v FROM (VALUES (1, 2), (1, 3)) AS t (k, v) GROUP BY k";
    assert_eq!(printed("csv", lists), "k,v\n1,\"[2, 3]\"\n");
    assert_eq!(printed("json", lists), "{\"k\":1,\"v\":[2,3]}\n");
}

#[test]
fn a_mistake_is_named_on_standard_error_with_its_line() {
    let output = output(&["run", "-e", "SELECT\n  nothing FROM (VALUES (1)) AS t (a)"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let expected = "error: there is no column nothing; there are a\n --> -e:2:3\n  |\n2 |   nothing FROM (VALUES (1)) AS t (a)\n  |   ^^^^^^^\n";
    assert_eq!(text(&output.stderr), expected);
}

#[test]
fn a_mistake_in_a_script_is_named_with_its_place_in_the_file() {
    let folder = std::env::temp_dir().join(format!("pelton-mistakes-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let written = |name: &str, script: &[u8]| {
        let path = folder.join(name).display().to_string();
        std::fs::write(&path, script).expect("a file");
        path
    };
    let rows = written("rows.csv", b"1,2\n3,0\n");
    let with = format!("WITH ('connector' = 'filesystem', 'path' = '{rows}', 'format' = 'csv'");
    // The third statement fails: where it is planned, where a table is opened, and where a row is computed.
    let definition = format!("CREATE TABLE t (n INT, m INT) {with});\n\nSHOW TABLES;\n\n");
    let planned = written("planned.sql", format!("{definition}SELECT n,\n\tn / x FROM t;\n").as_bytes());
    let computed = written("computed.sql", format!("{definition}  SELECT n / m AS q\n  FROM t;\n").as_bytes());
    let opened = format!("CREATE TABLE t (n INT)\n{with},\n'replay.passes' = 'x');\nSELECT 1;\nSELECT n FROM t");
    let opened = written("opened.sql", opened.as_bytes());
    let garbled = written("garbled.sql", b"SELECT 1;\nSELECT '\xff'");
    let absent = folder.join("absent.sql").display().to_string();
    let planned_error = format!(
        "error: there is no column x; there are n, m\n --> {planned}:6:6\n  |\n6 | \tn / x FROM t;\n  | \t    ^\n"
    );
    let computed_error = format!(
        "error: division by zero in n / m, where n = 3 and m = 0, at {rows}, row 2 (in pipeline 0: t → rows)\n --> {computed}:5:3\n  |\n5 |   SELECT n / m AS q\n  |   ^^^^^^\n"
    );
    for (arguments, expected) in [
        (["explain", &planned], planned_error.clone()),
        (["run", &planned], planned_error),
        (["run", &computed], computed_error),
        (["run", &opened], format!("--> {opened}:3:19\n  |\n3 | 'replay.passes' = 'x');\n  |                   ^^^\n")),
        (["run", &garbled], format!("error: {garbled}:2:9: the script is no text in UTF-8; save it in that encoding\n")),
        (["run", &absent], format!("error: the script {absent} cannot be read: No such file or directory (os error 2)\n")),
        (
            ["run", "SELECT 1"],
            "error: the script SELECT 1 cannot be read: No such file or directory (os error 2); statements themselves are given with -e\n".to_string(),
        ),
    ] {
        let output = output(&arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let error = text(&output.stderr);
        assert!(error.ends_with(&expected), "{error}\nis not\n{expected}");
    }
    std::fs::remove_dir_all(&folder).expect("the folder can be removed");
    for arguments in [&["run"][..], &["run", "-"]] {
        let mut child = pelton(arguments).stdin(Stdio::piped()).spawn().expect("the program starts");
        let mut input = child.stdin.take().expect("piped");
        std::io::Write::write_all(&mut input, b"SELECT 1 FRM t").expect("the script is taken");
        drop(input);
        let output = child.wait_with_output().expect("the program ends");
        assert!(text(&output.stderr).contains("\n --> <stdin>:1:14\n"), "{}", text(&output.stderr));
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_run_quietly() {
    let endless = "CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'datagen'); SELECT n FROM ticks";
    for command in [vec!["run", "--format", "csv", "-e", endless], vec!["demo", "--rate", "50000"]] {
        let mut child = pelton(&command).spawn().expect("the program starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        stdout.read_line(&mut String::new()).expect("a line");
        drop(stdout);
        let output = child.wait_with_output().expect("the program ends");
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(141), ""), "{command:?}");
    }
}

#[test]
fn ctrl_c_drains_what_was_read_and_flushes_sinks() {
    let path = std::env::temp_dir().join(format!("pelton-ctrl-c-{}.csv", std::process::id()));
    let script = format!(
        "CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '1000000000',
             'rows-per-second' = '20000', 'pace' = 'real-time');
         CREATE TABLE kept (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv');
         CREATE TABLE shown (n BIGINT) WITH ('connector' = 'print');
         EXECUTE STATEMENT SET BEGIN
             INSERT INTO kept SELECT n FROM ticks;
             INSERT INTO shown SELECT n FROM ticks;
         END",
        path.display()
    );
    let mut child = pelton(&["run", "-e", &script]).spawn().expect("the program starts");
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    let mut first = String::new();
    stdout.read_line(&mut first).expect("a row");
    interrupt(&child);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).expect("rows");
    let output = child.wait_with_output().expect("the program ends");
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{error}");
    let shown = 1 + rest.lines().count();
    let kept = std::fs::read_to_string(&path).expect("the sink's file");
    std::fs::remove_file(&path).expect("the sink's file can be removed");
    let numbers: Vec<usize> = kept.lines().map(|line| line.parse().expect("a number")).collect();
    assert_eq!(numbers, (0..shown).collect::<Vec<_>>(), "all rows that were read are in both sinks, in order");
    let told = |what: &str| error.matches(what).count();
    assert_eq!((told("rows read in"), told("rows written")), (1, 2), "each sink once: {error}");
}

#[test]
fn what_fails_is_told_with_its_insert_and_with_the_story_that_was_asked_for() {
    let script = "CREATE TABLE n (i BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '1000', 'fields.i.kind' = 'sequence', 'fields.i.start' = '1', 'fields.i.end' = '1000');
         CREATE TABLE good (i BIGINT) WITH ('connector' = 'blackhole');
         CREATE TABLE bad (i BIGINT) WITH ('connector' = 'blackhole');
         EXPLAIN ANALYZE VERBOSE STATEMENT SET BEGIN
             INSERT INTO good SELECT i FROM n;
             INSERT INTO bad SELECT 1 / (i - 500) FROM n;
         END";
    let output = output(&["run", "-e", script]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("→ rows, for INSERT INTO bad)"), "{error}");
    assert!(error.contains("-e:4:10") && error.contains("== adaptation ==\npipeline 0: n → rows: "), "{error}");
}

#[test]
fn ctrl_c_twice_ends_a_run_whose_output_nobody_reads() {
    let endless = "CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'datagen'); SELECT n FROM ticks";
    let mut child = pelton(&["run", "--format", "csv", "-e", endless]).spawn().expect("the program starts");
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    stdout.read_line(&mut String::new()).expect("a line");
    // By then the pipe is full, and who prints waits for whoever reads it.
    std::thread::sleep(Duration::from_secs(1));
    interrupt(&child);
    std::thread::sleep(Duration::from_millis(200));
    interrupt(&child);
    let asked = Instant::now();
    while child.try_wait().expect("the program's state").is_none() && asked.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let code = child.try_wait().expect("the program's state").map(|status| status.code());
    drop(child.kill());
    assert_eq!(code, Some(Some(130)));
}

#[test]
fn without_a_terminal_the_demo_prints_lines_and_a_summary() {
    let output = output(&["demo", "--seconds", "2", "--rate", "50000"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    let lines: Vec<&str> =
        printed.lines().filter(|line| line.contains("; most bids in the last five seconds: ")).collect();
    assert!(!lines.is_empty() && lines.iter().all(|line| line.contains(" bids a second; ")), "{printed}");
    assert!(printed.contains(" a second; results ") && printed.contains("A bid takes "), "{printed}");
    // What has become of the code.
    for part in [" s: variant ", "rows in ", "guards failed"] {
        assert!(printed.contains(part), "no '{part}' in {printed}");
    }
}

#[test]
fn ctrl_c_ends_the_demo_with_its_summary() {
    let mut child = pelton(&["demo", "--rate", "50000"]).spawn().expect("the program starts");
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    stdout.read_line(&mut String::new()).expect("a line");
    interrupt(&child);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).expect("lines");
    assert_eq!(child.wait().expect("the program ends").code(), Some(130));
    assert!(rest.contains(" a second; results "), "{rest}");
}

#[test]
fn rows_of_a_pipe_are_printed_as_they_come_and_ctrl_c_ends_the_wait() {
    let query = "CREATE TABLE line (a INT) WITH ('connector' = 'filesystem', 'path' = '/dev/stdin', 'format' = 'csv'); SELECT * FROM line";
    let mut child = pelton(&["run", "--status", "--format", "csv", "-e", query]).stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for written in ["1\n", "2\n"] {
        std::io::Write::write_all(&mut input, written.as_bytes()).unwrap();
        if written == "1\n" {
            assert_eq!(lines.next().unwrap().unwrap(), "a");
        }
        assert_eq!(lines.next().unwrap().unwrap(), written.trim_end());
    }
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    for (column, statement) in
        [("held back by", "SHOW QUERIES"), ("waits for", "SHOW PROGRESS"), ("busy ms", "SHOW OPERATORS")]
    {
        assert!(said.any(|line| line.unwrap().contains(column)), "{statement}");
    }
    // The pipe is open, and nothing comes.
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(input);
}

/// The line of a value that cannot be read is shown where it can be read again: not of a pipe, and not of a line that is very long.
#[test]
fn a_value_of_a_pipe_or_a_long_line_is_told_without_its_line() {
    let directory = std::env::temp_dir().join(format!("pelton-shown-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let told = |name: &str, format: &str, script: &str| {
        let path = directory.join(name);
        let query = format!(
            "CREATE TABLE t ({script}) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = '{format}'); SELECT * FROM t",
            path.display()
        );
        let mut child = pelton(&["run", "-e", &query]).spawn().expect("the program starts");
        let began = Instant::now();
        while child.try_wait().expect("it can be asked").is_none() {
            if began.elapsed() > Duration::from_secs(60) {
                child.kill().expect("it runs");
                panic!("the error of {name} is not told");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let output = child.wait_with_output().expect("the program has ended");
        assert_eq!(output.status.code(), Some(1), "{name}");
        text(&output.stderr).to_owned()
    };
    let pipe = directory.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("there is a mkfifo command").success());
    let writer = std::thread::spawn(move || std::fs::write(pipe, "1,x\nbad,y\n").expect("the program reads"));
    let said = told("pipe", "csv", "a INT, b STRING");
    assert!(said.contains("pipe, row 2, column 'a': 'bad' is not an INT") && !said.contains(" | "), "{said}");
    writer.join().expect("all was written");

    std::fs::write(directory.join("long"), format!("{{\"a\":\"bad\",\"b\":\"{}\"}}\n", "x".repeat(100_000)))
        .expect("a file");
    let said = told("long", "json", "a INT");
    assert!(said.contains("row 1, column 'a': 'bad' is not an INT") && !said.contains("xxx"), "{said}");

    std::fs::write(directory.join("nested"), "{\"a\":\"7x\",\"r\":{\"b\":7,\"a\":[1,\"7x\"]}}\n").expect("a file");
    let said = told("nested", "json", "r ROW<a ARRAY<INT>>");
    assert!(said.contains("nested:1:30\n"), "{said}");
    std::fs::remove_dir_all(&directory).expect("it is there");
}

#[test]
fn ctrl_c_ends_what_is_no_query_yet() {
    let ended = |arguments: &[&str], line: &str| {
        let mut child = pelton(arguments).stdin(Stdio::piped()).spawn().expect("the program starts");
        let mut input = child.stdin.take().expect("piped");
        // More than the pipe holds: when it is written, the program reads, and has listened before.
        std::io::Write::write_all(&mut input, line.repeat(1 << 20).as_bytes()).expect("the program reads");
        interrupt(&child);
        assert_eq!(child.wait().expect("the program ends").code(), Some(130), "{arguments:?}");
        drop(input);
    };
    let numbers = |options: &str| {
        format!(
            "CREATE TABLE n (a INT) WITH ('connector' = 'filesystem', 'path' = '/dev/stdin', 'format' = 'csv'{options});"
        )
    };
    ended(&["run"], "--\n");
    ended(&["run", "-e", &format!("{} SELECT * FROM n", numbers(", 'replay' = 'memory'"))], "1\n");
    ended(&["run", "-e", &format!("{} SELECT b FROM (VALUES (1)) AS t (b) JOIN n ON n.a = t.b", numbers(""))], "1\n");
}

#[test]
fn ctrl_c_ends_the_query_that_is_analyzed_and_tells_what_became_of_it() {
    let script =
        "CREATE TABLE n (i BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000', 'pace' = 'real-time');
                  CREATE TABLE p (i BIGINT) WITH ('connector' = 'print');
                  EXPLAIN ANALYZE INSERT INTO p SELECT i FROM n";
    let mut child = pelton(&["run", "-e", script]).spawn().expect("the program starts");
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    stdout.read_line(&mut String::new()).expect("a row: the query runs");
    interrupt(&child);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).expect("text");
    assert_eq!(child.wait().expect("the program ends").code(), Some(130));
    assert!(rest.contains("== operators, in ") && rest.contains("busy ms"), "{rest}");
    assert!(rest.lines().all(|line| line.chars().count() <= 100), "{rest}");
}

#[test]
fn output_that_nobody_reads_stops_only_what_is_printed() {
    const ROWS: usize = 400_000;
    let path = std::env::temp_dir().join(format!("pelton-beside-print-{}.csv", std::process::id()));
    let numbers = |name: &str| {
        format!(
            "CREATE TABLE {name} (i BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '{ROWS}', 'pace' = 'flat-out', 'fields.i.kind' = 'sequence', 'fields.i.start' = '1', 'fields.i.end' = '{ROWS}');"
        )
    };
    let script = format!(
        "SET 'pelton.workers' = '1'; {} {}
         CREATE TABLE p (i BIGINT) WITH ('connector' = 'print');
         CREATE TABLE f (i BIGINT) WITH ('connector' = 'filesystem', 'path' = '{}');
         EXECUTE STATEMENT SET BEGIN INSERT INTO p SELECT i FROM n; INSERT INTO f SELECT i FROM m; END;",
        numbers("n"),
        numbers("m"),
        path.display()
    );
    let mut child = pelton(&["run", "-e", &script]).stderr(Stdio::null()).spawn().expect("the program starts");
    let began = Instant::now();
    while !path.exists() {
        assert!(began.elapsed() < Duration::from_secs(60), "the file waits for what is printed");
        std::thread::sleep(Duration::from_millis(10));
    }
    let rows = std::fs::read_to_string(&path).expect("it is there").lines().count();
    std::fs::remove_file(&path).expect("it is there");
    assert_eq!(rows, ROWS);
    let printed = child.stdout.take().expect("piped");
    let lines = BufReader::new(printed).lines().map(|line| line.expect("text"));
    assert!(lines.eq((1..=ROWS).map(|i| format!("+I[{i}]"))), "all rows are printed in their order");
    assert_eq!(child.wait().expect("the program ends").code(), Some(0));
}

#[test]
fn two_interrupts_end_a_query_whose_output_nobody_reads() {
    let script = "CREATE TABLE n (i BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000000');
                  CREATE TABLE p (i BIGINT) WITH ('connector' = 'print'); INSERT INTO p SELECT i FROM n";
    let mut child = pelton(&["run", "-e", script]).spawn().expect("the program starts");
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    stdout.read_line(&mut String::new()).expect("a row: the query runs");
    std::thread::sleep(Duration::from_millis(500));
    interrupt(&child);
    std::thread::sleep(Duration::from_millis(200));
    assert!(child.try_wait().expect("it can be asked").is_none(), "what was taken waits for its reader");
    let mut said = String::new();
    BufReader::new(child.stderr.take().expect("piped")).read_line(&mut said).expect("text");
    assert_eq!(
        said,
        "stopping: waiting for the output p, whose reader takes no rows; press Ctrl-C again to end at once\n"
    );
    interrupt(&child);
    assert_eq!(child.wait().expect("the program ends").code(), Some(130));
    drop(stdout);
}

#[test]
fn a_closed_pipe_ends_what_is_printed_into_it() {
    let script = "CREATE TABLE n (i BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000000');
                  CREATE TABLE p (i BIGINT) WITH ('connector' = 'print'); INSERT INTO p SELECT i FROM n";
    let mut child = pelton(&["run", "-e", script]).spawn().expect("the program starts");
    drop(child.stdout.take());
    let ended = child.wait_with_output().expect("the program ends");
    assert!(text(&ended.stderr).contains("standard output: "), "{}", text(&ended.stderr));
    assert_eq!(ended.status.code(), Some(1));
}

#[test]
fn standard_error_may_be_closed() {
    let script = "CREATE TABLE b (a INT) WITH ('connector' = 'blackhole'); INSERT INTO b VALUES (1)";
    let mut child = pelton(&["run", "-e", script]).stdin(Stdio::piped()).spawn().expect("the program starts");
    drop(child.stderr.take());
    assert_eq!(child.wait().expect("the program ends").code(), Some(0));
}

#[test]
fn a_script_may_begin_with_a_byte_order_mark() {
    let path = std::env::temp_dir().join(format!("pelton-mark-{}.sql", std::process::id()));
    std::fs::write(&path, "\u{feff}SELECT a FROM (VALUES (1)) AS t (a)").expect("a file");
    let output = output(&["run", "--format", "csv", &path.display().to_string()]);
    std::fs::remove_file(&path).expect("it is there");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "a\n1\n"), "{}", text(&output.stderr));
}
