//! Files of lines: every option, and every kind of malformed input with the message it gets.

mod support;

use pelton_connectors::{TableRequest, declared};
use support::{Directory, options, read, request, rows, schema};

/// A file with `content` in a format, its columns, its options, and the rows it has or the message it gets.
/// In messages the file's path is `FILE`.
fn check(extension: &str, content: impl AsRef<[u8]>, columns: &str, pairs: &[&str], expected: Result<&[&str], &str>) {
    let directory = Directory::new();
    let path = directory.file(&format!("t.{extension}"), &content);
    // Some values that strict rules refuse are made to fit by the default ones, as the scripts of casts and of decoding test.
    let strict_values = expected.is_err();
    let request = TableRequest { strict_values, ..request(schema(columns), options(&path, pairs)) };
    let found = read(&request).map(|table| rows(&table.rows)).map_err(|message| message.replace(&path, "FILE"));
    let expected = expected.map(|rows| rows.iter().map(|row| row.to_string()).collect::<Vec<_>>());
    let shown = String::from_utf8_lossy(content.as_ref()).into_owned();
    assert_eq!(found, expected.map_err(str::to_string), "of {shown:?} as {columns} with {pairs:?}");
}

#[test]
fn csv_options() {
    let ok = |content: &str, columns: &str, pairs: &[&str], expected: &[&str]| {
        check("csv", content, columns, pairs, Ok(expected));
    };
    let two = "a INT, b STRING";
    ok("1,x\n2,y\n", two, &[], &["1|x", "2|y"]);
    ok("1,x\n2,y", two, &[], &["1|x", "2|y"]);
    ok("1,x\r\n2,y\r\n", two, &[], &["1|x", "2|y"]);
    ok("\u{feff}1,x\n", two, &[], &["1|x"]);
    ok("", two, &[], &[]);
    ok("\n\n1,x\n\r\n2,y\n\n", two, &[], &["1|x", "2|y"]);
    ok("1;x\n", two, &["csv.field-delimiter=;"], &["1|x"]);
    ok("1\tx\n", two, &["csv.field-delimiter=\\t"], &["1|x"]);
    ok("1\tx\n", two, &["csv.field-delimiter=\t"], &["1|x"]);
    ok("1¦x\n2¦é¦\n", "a INT, b STRING", &["csv.field-delimiter=¦", "on-error=skip"], &["1|x"]);
    ok("1,\"x,\"\"y\"\"\n z\"\n2,\"\"\n", two, &[], &["1|x,\"y\"\n z", "2|"]);
    ok("1,'it''s'\n", two, &["csv.quote-character='"], &["1|it's"]);
    ok("1,\"x\n2,5\" y\"z\n", two, &["csv.disable-quote-character=true"], &["1|\"x", "2|5\" y\"z"]);
    ok("1,5\" disk\n", two, &[], &["1|5\" disk"]);
    ok("1,\"a\\\"b\"\n2,c\\,d\n3,e\\\\\\n\n", two, &["csv.escape-character=\\\\"], &["1|a\"b", "2|c,d", "3|e\\\n"]);
    ok("#no\n1,x\n# 3,\"\n2,#y\n", two, &["csv.allow-comments=true"], &["1|x", "2|#y"]);
    ok("%no\n1,x\n", two, &["csv.comment-character=%"], &["1|x"]);
    ok("1,x\n,-\n-,\n", two, &["csv.null-literal=-"], &["1|x", "NULL|NULL", "NULL|"]);
    ok("1,x\n,\n", two, &["csv.null-literal="], &["1|x", "NULL|NULL"]);
    ok("1,\"-\"\n", two, &["csv.null-literal=-"], &["1|-"]);
    ok("-1,x\n-2,x\n", two, &["csv.null-literal=-1"], &["NULL|x", "-2|x"]);
    ok(" 1 , x y \n2,\" z \" \n", two, &["csv.trim=true"], &["1|x y", "2| z "]);
    ok(" 1 , x y \n", two, &[], &["1| x y "]);
    ok("  1   x\n2 \t y  \n\n  \n3 z\r\n", two, &["csv.delimiter-run=true"], &["1|x", "2|y", "3|z"]);
    ok("1\t\tx\t\n2\t\"y z\"\n", two, &["csv.delimiter-run=true", "csv.field-delimiter=\\t"], &["1|x", "2|y z"]);
    ok("1,,,x,\n", two, &["csv.delimiter-run=true", "csv.field-delimiter=,"], &["1|x"]);
    ok("b,more,a\nx,?,1\n", two, &["csv.header=true"], &["1|x"]);
    ok("# c\n\n\"b\", a \nx,1\n", two, &["csv.header=true", "csv.allow-comments=true"], &["1|x"]);
    ok("a,b\n", two, &["csv.header=true"], &[]);
    ok("a,b", two, &["csv.header=true"], &[]);
    ok("", two, &["csv.header=true"], &[]);
    ok("x\n\n\"\"\nlonger than twelve bytes\n", "a STRING", &[], &["x", "", "", "longer than twelve bytes"]);
    ok(
        "long enough for a view, \"and quoted\"\n",
        "a STRING, b STRING",
        &["csv.trim=true"],
        &["long enough for a view|and quoted"],
    );
}

#[test]
fn csv_types() {
    let ok = |columns: &str, content: &str, expected: &[&str]| check("csv", content, columns, &[], Ok(expected));
    ok("a BOOLEAN, b TINYINT", "true,-128\nFALSE,127\n,\n", &["true|-128", "false|127", "NULL|NULL"]);
    ok("a SMALLINT, b BIGINT", "+5,0012\n-32768,-9223372036854775808\n", &["5|12", "-32768|-9223372036854775808"]);
    ok("a FLOAT, b DOUBLE", "0.1,1e3\nNaN,-Infinity\n.5,5.\n", &["0.1|1000.0", "NaN|-inf", "0.5|5.0"]);
    ok(
        "a DECIMAL(10,2), b DATE",
        "-1.5,2013-01-31\n12345678.90,1969-12-31\n",
        &["-1.50|2013-01-31", "12345678.90|1969-12-31"],
    );
    ok(
        "a TIMESTAMP(3), b TIMESTAMP(0)",
        "2013-01-31 08:15:30.25,2013-01-31T08:15:30\n",
        &["2013-01-31T08:15:30.250|2013-01-31T08:15:30"],
    );
    ok(
        "a TIMESTAMP_LTZ(3), b TIMESTAMP_LTZ(6)",
        "2013-01-31 08:15:30Z,2013-01-31T08:15:30.123456+02:00\n",
        &["2013-01-31T08:15:30Z|2013-01-31T06:15:30.123456Z"],
    );
    check(
        "csv",
        "1359620130250,-1\n",
        "a TIMESTAMP(6), b TIMESTAMP_LTZ(3)",
        &["csv.timestamp-format=epoch-millis"],
        Ok(&["2013-01-31T08:15:30.250|1969-12-31T23:59:59.999Z"]),
    );
}

#[test]
fn malformed_csv_names_file_row_column_and_value() {
    let wrong = |content: &str, columns: &str, pairs: &[&str], message: &str| {
        check("csv", content, columns, pairs, Err(message));
    };
    let two = "a INT, b DOUBLE";
    wrong("1,2\n3,abc\n", two, &[], "FILE, row 2, column 'b': 'abc' is not a DOUBLE");
    wrong(
        "a,b\n# c\n\n1,2\nx,y\n",
        two,
        &["csv.header=true", "csv.allow-comments=true"],
        "FILE, row 5, column 'a': 'x' is not an INT",
    );
    wrong("\"1\n\",2\n3,abc\n", two, &[], "FILE, row 3, column 'b': 'abc' is not a DOUBLE");
    wrong("1\n", two, &[], "FILE, row 1, column 'b': '1' has 1 field where 2 are expected");
    wrong("1,2\n1,2,\n", two, &[], "FILE, row 2, column 'b': '1,2,' has 3 fields where 2 are expected");
    wrong("1,\"2\n3,4\n", two, &[], "FILE, row 1, column 'b': '2\n3,4\n' begins with a quote that is not closed");
    wrong(
        "1,\"2\"x\n",
        two,
        &[],
        "FILE, row 1, column 'b': '\"2\"x' has text after its closing quote; a quote inside of quotes is written twice",
    );
    wrong(
        "1,2\n,\n",
        "a INT NOT NULL, b DOUBLE",
        &[],
        "FILE, row 2, column 'a': '' is NULL, and the column is NOT NULL, as event times are",
    );
    wrong(
        "1,-\n",
        "a INT, b STRING NOT NULL",
        &["csv.null-literal=-"],
        "FILE, row 1, column 'b': '-' is NULL, and the column is NOT NULL, as event times are",
    );
    wrong("128\n", "a TINYINT", &[], "FILE, row 1, column 'a': '128' does not fit TINYINT (-128 to 127)");
    wrong(
        "9223372036854775808\n",
        "a BIGINT",
        &[],
        "FILE, row 1, column 'a': '9223372036854775808' does not fit BIGINT (-9223372036854775808 to 9223372036854775807)",
    );
    wrong(
        "1.005\n",
        "a DECIMAL(10,2)",
        &[],
        "FILE, row 1, column 'a': '1.005' has more digits after the point than DECIMAL(10, 2) keeps",
    );
    wrong("100000000\n", "a DECIMAL(10,2)", &[], "FILE, row 1, column 'a': '100000000' does not fit DECIMAL(10, 2)");
    wrong("1\n", "a BOOLEAN", &[], "FILE, row 1, column 'a': '1' is not a BOOLEAN");
    wrong("\"\"\n", "a INT", &[], "FILE, row 1, column 'a': '' is not an INT");
    wrong("2013-02-30\n", "a DATE", &[], "FILE, row 1, column 'a': '2013-02-30' is not a DATE such as 2013-01-31");
    wrong(
        "2013-02-03\n",
        "a TIMESTAMP(3)",
        &[],
        "FILE, row 1, column 'a': '2013-02-03' is not a TIMESTAMP(3) such as 2013-01-31 08:15:00",
    );
    wrong(
        "2013-02-03 00:00:00Z\n",
        "a TIMESTAMP(3)",
        &[],
        "FILE, row 1, column 'a': '2013-02-03 00:00:00Z' has a time zone, which a TIMESTAMP(3) has not: declare the column TIMESTAMP_LTZ(3)",
    );
    wrong("a\nx,1\n", two, &["csv.header=true"], "FILE: column 'b' is not in the header of FILE, which names a");
    wrong("a,B\nx,1\n", two, &["csv.header=true"], "FILE: column 'b' is not in the header of FILE; did you mean 'B'?");
    wrong("a,b,a\n1,2,3\n", two, &["csv.header=true"], "FILE: column 'a' is named twice in the header of FILE");
}

#[test]
fn strings_that_are_not_utf8_are_rejected() {
    let directory = Directory::new();
    let path = directory.file("t.csv", b"1,ok\n2,caf\xe9\n3,quite a long string with \xff in it\n");
    let table = read(&request(schema("a INT, b STRING"), options(&path, &["on-error=skip"]))).unwrap();
    assert_eq!(rows(&table.rows), ["1|ok"]);
    let messages: Vec<String> =
        table.rejected.first.iter().map(|row| row.error.to_string().replace(&path, "FILE")).collect();
    assert_eq!(
        messages,
        [
            "FILE, row 2, column 'b': 'caf\u{fffd}' is not valid UTF-8",
            "FILE, row 3, column 'b': 'quite a long string with \u{fffd} in it' is not valid UTF-8",
        ]
    );
}

#[test]
fn skipped_rows_are_counted_and_the_first_are_kept() {
    let directory = Directory::new();
    let mut content = String::new();
    for row in 0..100_000 {
        content += &match row % 10 {
            3 => format!("{row}\n"),
            7 => format!("x{row},1,a string that is long enough\n"),
            _ => format!("{row},{row}.5,a string that is long enough\n"),
        };
    }
    let path = directory.file("t.csv", &content);
    let columns = "a BIGINT, b DOUBLE NOT NULL, c STRING";
    let table = read(&request(schema(columns), options(&path, &["on-error=skip"]))).unwrap();
    assert_eq!(table.rows.num_rows(), 80_000);
    assert_eq!((table.rejected.count, table.nulled.count), (20_000, 0));
    assert_eq!(rows(&table.rows.slice(3, 1)), ["4|4.5|a string that is long enough"]);
    assert_eq!(rows(&table.rows.slice(79_999, 1)), ["99999|99999.5|a string that is long enough"]);
    assert_eq!(table.rejected.first[0].row, "3");
    assert_eq!(table.rejected.first[1].row, "x7,1,a string that is long enough");
    let error = table.rejected.first[1].error.to_string();
    assert_eq!(error, format!("{path}, row 8, column 'a': 'x7' is not a BIGINT"));
    // Chunks keep a hundred each; rows far into the file are still numbered right.
    let last = table.rejected.first.last().unwrap();
    let row: u64 = last.row.trim_start_matches('x').split(',').next().unwrap().parse().unwrap();
    assert!(last.error.to_string().contains(&format!("row {},", row + 1)), "{last:?}");
    assert!(row > 50_000);

    // Of each ten rows one lacks a field that cannot be NULL, and one has a value that becomes NULL.
    let ignoring = read(&request(schema(columns), options(&path, &["csv.ignore-parse-errors=true"]))).unwrap();
    assert_eq!(ignoring.rows.num_rows(), 90_000);
    assert_eq!((ignoring.rejected.count, ignoring.nulled.count), (10_000, 10_000));
    assert_eq!(rows(&ignoring.rows.slice(6, 1)), ["NULL|1.0|a string that is long enough"]);
    let error = ignoring.rejected.first[0].error.to_string();
    assert_eq!(error, format!("{path}, row 4, column 'b': '3' has fewer fields than are expected"));
    assert_eq!(
        (&ignoring.nulled.first[0].row, &ignoring.nulled.first[0].error),
        (&table.rejected.first[1].row, &table.rejected.first[1].error)
    );
    let error = read(&request(schema(columns), options(&path, &[]))).err().unwrap();
    assert_eq!(error, format!("{path}, row 4, column 'b': '3' has 1 field where 3 are expected"));
}

#[test]
fn wanted_columns_only() {
    let directory = Directory::new();
    let path = directory.file("t.csv", "1,oops,x\n2,oops,y\n");
    let mut request = request(schema("a INT, b INT, c STRING"), options(&path, &[]));
    request.columns = vec![0, 2];
    assert_eq!(rows(&read(&request).unwrap().rows), ["1|x", "2|y"]);
    request.columns = vec![];
    assert_eq!(read(&request).unwrap().rows.num_rows(), 2);
    let path = directory.file("t.json", "{\"a\":1,\"b\":\"oops\",\"c\":\"x\"}\n");
    request.options = options(&path, &[]);
    request.columns = vec![2];
    assert_eq!(rows(&read(&request).unwrap().rows), ["x"]);
    request.columns = vec![];
    assert_eq!(read(&request).unwrap().rows.num_rows(), 1);
}

#[test]
fn json_lines() {
    let ok = |content: &str, columns: &str, pairs: &[&str], expected: &[&str]| {
        check("json", content, columns, pairs, Ok(expected));
    };
    let two = "a INT, b STRING";
    ok("{\"a\":1,\"b\":\"x\"}\n{\"b\":\"y\",\"a\":2}", two, &[], &["1|x", "2|y"]);
    ok(" { \"a\" : 1 , \"b\" : null } \r\n\n{}\n{\"b\":\"\"}\n", two, &[], &["1|NULL", "NULL|NULL", "NULL|"]);
    ok("{\"z\":{\"a\":[1,\"}\"]},\"a\":\"7\",\"b\":{\"c\":[1, 2]}}\n", two, &[], &["7|{\"c\":[1,2]}"]);
    ok("{\"a\":1,\"a\":2,\"b\":true}\n", two, &[], &["2|true"]);
    ok(
        "{\"\\u0061\":1,\"b\":\"\\ud83d\\ude00 \\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\"}\n",
        two,
        &[],
        &["1|\u{1f600} \"\\/\u{8}\u{c}\n\r\t\u{e9}"],
    );
    ok(
        "{\"a\":1.50,\"b\":\"2013-01-31T08:15:30Z\"}\n",
        "a DECIMAL(10,2), b TIMESTAMP_LTZ(3)",
        &["json.timestamp-format.standard=ISO-8601"],
        &["1.50|2013-01-31T08:15:30Z"],
    );
    ok("{\"a\":true,\"b\":\"NaN\"}\n", "a BOOLEAN, b DOUBLE", &["json.fail-on-missing-field=false"], &["true|NaN"]);
    let wrong = |content: &str, pairs: &[&str], message: &str| {
        check("json", content, two, pairs, Err(message));
    };
    wrong("{\"a\":1}\n{\"a\":\"x\"}\n", &[], "FILE, row 2, column 'a': 'x' is not an INT");
    wrong("{\"a\":1.5}\n", &[], "FILE, row 1, column 'a': '1.5' is not an INT");
    wrong(
        "{\"a\":3000000000}\n",
        &[],
        "FILE, row 1, column 'a': '3000000000' does not fit INT (-2147483648 to 2147483647)",
    );
    wrong("{\"b\":\"\\x\"}\n", &[], "FILE, row 1, column 'b': '\\x' has an escape sequence that means nothing");
    wrong("{\"b\":\"\\ud800\"}\n", &[], "FILE, row 1, column 'b': '\\ud800' has an escape sequence that means nothing");
    wrong(
        "{\"b\":\"x\"}\n",
        &["json.fail-on-missing-field=true"],
        "FILE, row 1, column 'a': '{\"b\":\"x\"}' has no such member",
    );
    for (line, problem) in [
        ("1", "'{' is expected at character 1"),
        ("{", "a name in double quotes is expected at character 2"),
        ("{\"a\"", "':' is expected at character 5"),
        ("{\"a\":", "a value is expected at character 6"),
        ("{\"a\":}", "a value is expected at character 6"),
        ("{\"a\":x}", "a value is expected at character 6"),
        ("{\"é\":1 2}", "',' or '}' is expected at character 8"),
        ("{\"a\":1,}", "a name in double quotes is expected at character 8"),
        ("{\"a\":\"x}", "'\"' is expected at character 9"),
        ("{\"a\":[{}", "'}' or ']' is expected at character 9"),
    ] {
        wrong(line, &[], &format!("FILE, row 1, column 'a': '{line}' is not a valid JSON object: {problem}"));
    }
    // A line may have several objects: the number of a row is that of its line.
    let second =
        "FILE, row 1, column 'a': '{' is not a valid JSON object: a name in double quotes is expected at character 2";
    wrong("{\"a\":1} {", &[], second);
}

#[test]
fn a_line_may_have_very_many_objects() {
    const OBJECTS: usize = 200_000;
    let directory = Directory::new();
    let path = directory.file("t.json", "{\"a\":1}".repeat(OBJECTS) + " {\"a\":2}\n\n{\"a\":3}\n");
    let table = read(&request(schema("a INT"), options(&path, &[]))).unwrap();
    assert_eq!(table.rows.num_rows(), OBJECTS + 2);
    assert_eq!(rows(&table.rows.slice(OBJECTS - 1, 3)), ["1", "2", "3"]);
    let declared = declared(&options(&path, &[])).unwrap().unwrap();
    assert_eq!(declared.schema, schema("a BIGINT"));
}
