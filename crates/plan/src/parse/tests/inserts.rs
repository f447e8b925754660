//! Statement sets, and jobs that are altered.

use super::check;
use crate::parse::parse;

#[test]
fn jobs_are_altered_to_inserts() {
    check(
        "ALTER JOB 'a b' AS\n INSERT INTO t SELECT 1; SELECT 2",
        "1:1 alter job a b as insert t SELECT 1 \"INSERT INTO t SELECT 1\"\n2:26 query SELECT 2",
    );
    check(
        "alter job 3 as EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END; SELECT 3",
        "1:1 alter job 3 as set of [insert a SELECT 1; insert b SELECT 2] \
         \"EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END\"\n1:97 query SELECT 3",
    );
    for (script, error) in [
        ("ALTER JOB j", "line 1, column 12: expected AS, found the end of the statement"),
        (
            "ALTER JOB j AS",
            "line 1, column 15: expected INSERT INTO or EXECUTE STATEMENT SET, found the end of the statement",
        ),
        ("ALTER JOB j AS SELECT 1", "line 1, column 16: expected INSERT INTO or EXECUTE STATEMENT SET after AS"),
        (
            "ALTER JOB AS INSERT INTO t SELECT 1",
            "line 1, column 11: expected the name of a job, as in 'insert_into_t', found AS; AS is a reserved word: as a name, write `AS` in backticks",
        ),
    ] {
        check(script, error);
    }
}

#[test]
fn statement_sets_hold_semicolons() {
    let inserts = "[insert a SELECT 1; insert b SELECT 2]";
    check(
        "EXECUTE STATEMENT SET BEGIN\n INSERT INTO a SELECT 1;\n INSERT INTO b SELECT 2;\nEND; SELECT 3",
        &format!("1:1 set of {inserts}\n4:6 query SELECT 3"),
    );
    check(
        "BEGIN STATEMENT SET; INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END;",
        &format!("1:1 set of {inserts}"),
    );
    check(
        "EXPLAIN STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END",
        &format!("1:1 explain set of {inserts}"),
    );
    check(
        "EXPLAIN ANALYZE VERBOSE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END",
        &format!("1:1 analyze true set of {inserts}"),
    );
    check(
        "EXPLAIN ANALYZE EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; END",
        "line 1, column 17: EXPLAIN ANALYZE EXECUTE is not supported yet; write EXPLAIN ANALYZE STATEMENT SET BEGIN … END",
    );
    let parsed = parse("EXECUTE STATEMENT SET\nBEGIN INSERT INTO a SELECT 1;\nEND ; SET").expect("parses");
    assert_eq!(parsed[0].text, "EXECUTE STATEMENT SET\nBEGIN INSERT INTO a SELECT 1;\nEND");
    check(
        "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1;",
        "line 1, column 1: the statement set does not end; close it with END;",
    );
    check(
        "BEGIN STATEMENT SET; END",
        "line 1, column 1: the statement set is empty; put INSERT INTO statements between BEGIN and END",
    );
    check(
        "BEGIN STATEMENT SET; INSERT INTO a SELECT 1;\nSELECT 2; END",
        "line 2, column 1: expected INSERT INTO or END in the statement set, found SELECT",
    );
}
