//! Nested JSON as others publish it: GitHub's events and Wikipedia's edits. Expected figures were computed of the same files by another program.

use std::path::{Path, PathBuf};

use pelton::{Outcome, Session};

use crate::shown::rows;

/// A file of the real data, which is not part of the repository.
fn data(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(name);
    if !path.is_file() {
        eprintln!("skipped: there is no ../shared/data/{name}");
        return None;
    }
    Some(path)
}

fn result(session: &Session, sql: &str) -> Vec<String> {
    rows(&session.sql(sql).unwrap().collect().unwrap())
}

/// Executes statements, each to its end.
fn execute(session: &Session, script: &str) {
    for statement in session.prepare(script).unwrap() {
        if let Outcome::Running(query) = session.execute(&statement).unwrap() {
            query.collect().unwrap();
        }
    }
}

#[test]
fn github_events_are_read_without_json_functions() {
    let Some(path) = data("github_events_2021/2021-07-21-few-hours.json.gz") else { return };
    for tier in ["interpret", "compile"] {
        let session = Session::new();
        session.set("pelton.tier", tier).unwrap();
        execute(&session, &format!("CREATE TABLE e FROM '{}'", path.display()));
        let check = |sql: &str, expected: &[&str]| assert_eq!(result(&session, sql), expected, "{tier}: {sql}");
        check(
            "SELECT COUNT(*), SUM(payload.size), SUM(CARDINALITY(payload.commits)), MAX(actor.login) FROM e",
            &["800 | 1630 | 680 | zwacky"],
        );
        check(
            "SELECT e.type, COUNT(*) AS n, SUM(payload.distinct_size) FROM e WHERE e.type IN ('PushEvent', 'WatchEvent') GROUP BY e.type",
            &["PushEvent | 425 | 1298", "WatchEvent | 58 | NULL"],
        );
        check(
            "SELECT SUM(CASE WHEN payload.pull_request.merged THEN 1 ELSE 0 END), SUM(payload.pull_request.additions) FROM e",
            &["25 | 16176"],
        );
        check("SELECT COUNT(*) FROM e WHERE payload.commits[1].author.email LIKE '%gmail.com'", &["107"]);
        check(
            "SELECT actor.login, COUNT(*) AS n FROM e GROUP BY actor.login HAVING COUNT(*) >= 16",
            &["dependabot-preview[bot] | 16", "vpnsuperapp | 16"],
        );
    }
}

#[test]
fn declared_fields_of_github_events_are_the_inferred_ones() {
    let Some(path) = data("github_events_2021/2021-07-21-few-hours.json.gz") else { return };
    let session = Session::new();
    let table = format!(
        "CREATE TABLE events (
             type STRING, actor ROW<id BIGINT, login STRING>, repo ROW<name STRING>, created_at TIMESTAMP_LTZ(3),
             payload ROW<size INT, commits ARRAY<ROW<sha STRING, author ROW<email STRING, name STRING>>>>,
             WATERMARK FOR created_at AS created_at - INTERVAL '1' MINUTE
         ) WITH ('connector' = 'filesystem', 'path' = '{}', 'json.timestamp-format.standard' = 'ISO-8601')",
        path.display()
    );
    execute(&session, &table);
    let total = |sql: &str| result(&session, sql);
    let windows = "SELECT window_start, SUM(payload.size) AS s, COUNT(*) AS n
         FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(created_at), INTERVAL '1' HOUR)) GROUP BY window_start, window_end";
    assert_eq!(total(&format!("SELECT SUM(s), SUM(n) FROM ({windows})")), ["1630 | 800"]);
    assert_eq!(
        total(
            "SELECT COUNT(*), COUNT(payload.commits[1].author.name) FROM events WHERE CARDINALITY(payload.commits) > 0"
        ),
        total("SELECT COUNT(*), COUNT(*) FROM events WHERE CARDINALITY(payload.commits) > 0"),
    );
}

#[test]
fn wikipedia_edits_become_nested_and_are_read_again() {
    let Some(path) = data("wikipedia_edits_2015/wikiticker-2015-09-12-sampled.json.gz") else { return };
    let folder = std::env::temp_dir().join(format!("pelton-nested-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for format in ["json", "parquet"] {
        let session = Session::new();
        let out = folder.join(format!("edits.{format}"));
        let script = format!(
            "CREATE TABLE edits (page STRING, `user` STRING, isRobot BOOLEAN, added BIGINT, deleted BIGINT, channel STRING)
                 WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json');
             CREATE TABLE nested (edit ROW<page STRING, by ROW<name STRING, is_robot BOOLEAN>>, bytes MAP<STRING, BIGINT>, words ARRAY<STRING>)
                 WITH ('connector' = 'filesystem', 'path' = '{}');
             INSERT INTO nested SELECT ROW(page, ROW(`user`, isRobot)), MAP['added', added, 'deleted', deleted], ARRAY[page, channel] FROM edits",
            path.display(),
            out.display()
        );
        execute(&session, &script);
        let sql = "SELECT COUNT(*), SUM(bytes['added']), SUM(CASE WHEN edit.`by`.is_robot THEN 1 ELSE 0 END),
                       SUM(CASE WHEN words[1] = edit.page THEN 1 ELSE 0 END) FROM nested";
        assert_eq!(result(&session, sql), ["39244 | 9385573 | 15420 | 39244"], "{format}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
