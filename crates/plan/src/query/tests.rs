//! What functions return, as text: expressions on the left, values as Flink's documentation gives them on the right.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion_common::DFSchema;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::execution_props::ExecutionProps;
use datafusion_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion_expr::simplify::SimplifyContext;
use datafusion_expr::{Expr, col};
use datafusion_optimizer::simplify_expressions::ExprSimplifier;
use datafusion_physical_expr::create_physical_expr;
use datafusion_sql::planner::PlannerContext;
use pelton_functions::scalar_functions;
use sqlparser::ast::SelectItem;

use crate::bind::context::Context;
use crate::catalog::Catalog;
use crate::parse::{Statement, parse};

fn plan(expression: &str) -> Result<Expr, String> {
    let parsed = parse(&format!("SELECT {expression}")).map_err(|error| error.to_string())?;
    let Statement::Query(query) = &parsed[0].statement else { panic!("{expression}: a query") };
    let select = query.body.as_select().expect("a SELECT");
    let SelectItem::UnnamedExpr(expression) = &select.projection[0] else { panic!("{expression}: one expression") };
    let catalog = Catalog::default();
    let context = Context::new(&catalog);
    let planned = context.planner().sql_to_expr(expression.clone(), &DFSchema::empty(), &mut PlannerContext::new());
    let planned = planned.map_err(|error| error.strip_backtrace())?;
    let simplifier = ExprSimplifier::new(SimplifyContext::default());
    simplifier.coerce(planned, &DFSchema::empty()).map_err(|error| error.strip_backtrace())
}

/// Turns constant arguments of our own functions into columns of three equal rows.
fn with_columns(expression: Expr) -> (Expr, RecordBatch) {
    let own = scalar_functions();
    let mut fields = Vec::new();
    let mut columns = Vec::new();
    let changed = expression.transform(|expression| {
        let Expr::ScalarFunction(mut function) = expression else { return Ok(Transformed::no(expression)) };
        if !own.iter().any(|own| own.name() == function.name()) {
            return Ok(Transformed::no(Expr::ScalarFunction(function)));
        }
        for argument in &mut function.args {
            if let Expr::Literal(value, _) = argument {
                let name = format!("c{}", fields.len());
                fields.push(Field::new(&name, value.data_type(), true));
                columns.push(value.to_array_of_size(3)?);
                *argument = col(name);
            }
        }
        Ok(Transformed::yes(Expr::ScalarFunction(function)))
    });
    if fields.is_empty() {
        fields.push(Field::new("unused", DataType::Int64, true));
        columns.push(Arc::new(arrow::array::Int64Array::from(vec![0; 3])));
    }
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("columns fit their schema");
    (changed.expect("literals have arrays").data, batch)
}

/// The value of the expression in each of a batch's rows, which must agree.
fn evaluate(expression: &Expr, batch: &RecordBatch) -> Result<String, String> {
    let schema = DFSchema::try_from(batch.schema()).expect("distinct names");
    let simplifier = ExprSimplifier::new(SimplifyContext::builder().with_schema(Arc::new(schema.clone())).build());
    let simplified = simplifier.simplify(expression.clone()).map_err(|error| error.strip_backtrace())?;
    let physical =
        create_physical_expr(&simplified, &schema, &ExecutionProps::new(), &PhysicalPlanningContext::default())
            .map_err(|error| error.strip_backtrace())?;
    let values = physical.evaluate(batch).map_err(|error| error.strip_backtrace())?;
    let values = values.into_array(batch.num_rows()).map_err(|error| error.strip_backtrace())?;
    let options = FormatOptions::default().with_null("NULL");
    let formatter = ArrayFormatter::try_new(&values, &options).expect("values can be shown");
    let first = formatter.value(0).to_string();
    for row in 1..batch.num_rows() {
        assert_eq!(formatter.value(row).to_string(), first, "{expression} in row {row}");
    }
    Ok(first)
}

fn check(table: &str) {
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (expression, expected) = line.rsplit_once("→").unwrap_or_else(|| panic!("no arrow in {line}"));
        let expected = expected.trim();
        let found = plan(expression).and_then(|planned| {
            let (with_columns, batch) = with_columns(planned.clone());
            let constant = evaluate(&planned, &batch)?;
            let of_columns = evaluate(&with_columns, &batch)?;
            assert_eq!(constant, of_columns, "{expression}: constants and columns differ");
            Ok(constant)
        });
        let found = found.unwrap_or_else(|error| format!("error: {error}"));
        assert_eq!(found, expected, "{expression}");
    }
}

#[test]
fn text_functions() {
    check(
        "CHAR_LENGTH('héllo') → 5
         CHARACTER_LENGTH('abc') → 3
         UPPER('aBc') → ABC
         LOWER('aBc') → abc
         INITCAP('hello wORLD') → Hello World
         SUBSTRING('hello' FROM 2 FOR 3) → ell
         SUBSTRING('hello', 2) → ello
         SUBSTR('hello', -3, 2) → ll
         SUBSTRING('hello', 0) → hello
         SUBSTRING('hello', -9) →
         SUBSTRING('hello' FROM CAST(NULL AS INT)) → NULL
         CONCAT('a', 'b', 'c') → abc
         CONCAT('a', CAST(NULL AS STRING), 'c') → NULL
         CONCAT('a') → a
         CONCAT_WS('~', 'AA', CAST(NULL AS STRING), 'BB') → AA~BB
         'a' || 'b' → ab
         REPLACE('hello world', 'world', 'flink') → hello flink
         REPEAT('ab', 3) → ababab
         REVERSE('abc') → cba
         LPAD('hi', 4, '??') → ??hi
         RPAD('hi', 4, '??') → hi??
         LPAD('hello', 1, '?') → h
         TRIM('  a ') → a
         TRIM(BOTH 'x' FROM 'xxaxx') → a
         TRIM(LEADING 'x' FROM 'xxaxx') → axx
         TRIM(TRAILING 'x' FROM 'xxaxx') → xxa
         LTRIM('  a') → a
         RTRIM('a  ') → a
         BTRIM('  a ') → a
         LEFT('hello', 2) → he
         RIGHT('hello', 2) → lo
         OVERLAY('This is an old string' PLACING ' new' FROM 10 FOR 5) → This is a new string
         POSITION('lo' IN 'hello') → 4
         INSTR('hello', 'lo') → 4
         LOCATE('l', 'hello') → 3
         LOCATE('l', 'hello', 4) → 4
         LOCATE('l', 'hello', 5) → 0
         LOCATE('x', 'hello', 1) → 0
         LOCATE('', 'abc', 4) → 1
         LOCATE('', 'abc', 5) → 1
         ASCII('abc') → 97
         CHR(97) → a
         SPLIT_INDEX('a,b,c', ',', 1) → b
         SPLIT_INDEX('a,b,c', ',', 3) → NULL
         SPLIT_INDEX('a,b,c', ',', -1) → NULL
         SPLIT_INDEX('a;b', 59, 1) → b
         SPLIT_INDEX('', ',', 0) → NULL
         REGEXP_EXTRACT('foothebar', 'foo(.*?)(bar)', 2) → bar
         REGEXP_EXTRACT('foothebar', 'foo(.*?)(bar)') → foothebar
         REGEXP_EXTRACT('foothebar', 'x', 0) → NULL
         REGEXP_EXTRACT('foothebar', 'foo', 5) → NULL
         REGEXP_EXTRACT('foothebar', 'foo', -1) → NULL",
    );
}

#[test]
fn text_functions_that_match_test_and_encode() {
    check(
        "REGEXP_REPLACE('foobarfoo', 'foo', 'x') → xbarx
         REGEXP_REPLACE('foobar', 'o(o)', '<$1>') → f<$1>bar
         REGEXP('hello', 'h.*o') → true
         REGEXP('hello', '^x') → false
         'hello' LIKE 'h_ll%' → true
         'hello' NOT LIKE 'x%' → true
         'abc' SIMILAR TO 'a(b|x)c' → true
         'abcd' SIMILAR TO 'abc' → false
         'a.c' SIMILAR TO 'a.c' → true
         'abc' SIMILAR TO 'a.c' → true
         'abc' SIMILAR TO 'a%' → true
         'abc' NOT SIMILAR TO '[a-b]_c' → false
         STARTSWITH('hello', 'he') → true
         ENDSWITH('hello', 'he') → false
         TO_BASE64('hello world') → aGVsbG8gd29ybGQ=
         FROM_BASE64('aGVsbG8gd29ybGQ=') → hello world
         IS_ALPHA('abc') → true
         IS_ALPHA('ab1') → false
         IS_ALPHA('') → false
         IS_ALPHA(CAST(NULL AS STRING)) → false
         IS_DIGIT('123') → true
         IS_DIGIT('1.3') → false
         IS_DIGIT(5) → true
         IS_DECIMAL('-1.5') → true
         IS_DECIMAL('x') → false
         IS_DECIMAL(1.5) → true
         JSON_VALUE('{\"a\": true}', '$.a') → true
         JSON_VALUE('{\"a\": {\"b\": [1, 2.50]}}', 'lax $.a.b[1]') → 2.50
         JSON_VALUE('{\"a.b\": \"x\"}', '$[''a.b'']') → x
         JSON_VALUE('{\"a\": {}}', '$.a') → NULL
         JSON_VALUE('{\"a\": null}', '$.a') → NULL
         JSON_VALUE('not json', '$.a') → NULL
         JSON_VALUE('{}', 'a') → error: Execution error: JSON_VALUE: 'a' is not a valid JSON path; write one such as '$.a.b[0]'",
    );
}

#[test]
fn numeric_functions() {
    check(
        "MOD(7, 3) → 1
         MOD(-7, 3) → -1
         7 % 3 → 1
         POWER(2, 3) → 8.0
         SQRT(16) → 4.0
         EXP(0) → 1.0
         LN(E()) → 1.0
         LOG(E()) → 1.0
         LOG(2, 8) → 3.0
         LOG10(1000) → 3.0
         LOG2(8) → 3.0
         ABS(-5) → 5
         SIGN(-2.5) → -1.0
         ROUND(2.567, 2) → 2.57
         TRUNCATE(CAST('2.567' AS DOUBLE), 2) → 2.56
         FLOOR(CAST('2.5' AS DOUBLE)) → 2.0
         CEIL(CAST('2.1' AS DOUBLE)) → 3.0
         CEILING(CAST('2.1' AS DOUBLE)) → 3.0
         PI() → 3.141592653589793
         BIN(4) → 100
         BIN(-1) → 1111111111111111111111111111111111111111111111111111111111111111
         HEX(20) → 14
         HEX(255) → FF
         HEX('hello,world') → 68656C6C6F2C776F726C64
         GREATEST(1, 3, 2) → 3
         GREATEST(1, CAST(NULL AS INT), 2) → NULL
         LEAST('b', 'a') → a
         NULLIF(5, 5) → NULL
         COALESCE(CAST(NULL AS INT), 5) → 5
         IFNULL(CAST(NULL AS INT), 7) → 7
         IF(1 > 2, 'yes', 'no') → no
         IF(CAST(NULL AS BOOLEAN), 'yes', 'no') → no
         CASE 3 WHEN 1 THEN 'a' WHEN 3 THEN 'c' ELSE 'z' END → c
         TRY_CAST('x' AS INT) → NULL
         CAST('12' AS INT) → 12
         CAST(1.5 AS DECIMAL(5)) → 2
         TYPEOF(CAST(1 AS DECIMAL)) → DECIMAL(10, 0)
         TYPEOF('x') → STRING
         TYPEOF(CAST(1 AS SMALLINT)) → SMALLINT
         TYPEOF(TIMESTAMP '2020-01-01 00:00:00.123') → TIMESTAMP(3)
         TYPEOF(CAST('2020-01-01' AS TIMESTAMP)) → TIMESTAMP(6)
         TYPEOF(CAST(0 AS TIMESTAMP_LTZ(3))) → TIMESTAMP_LTZ(3)
         MOD(1) → error: line 1, column 8: MOD takes 2 arguments, not 1; SHOW FUNCTIONS lists what there is besides MOD",
    );
}

#[test]
fn time_functions() {
    check(
        "YEAR(DATE '1994-09-27') → 1994
         QUARTER(DATE '1994-09-27') → 3
         MONTH(DATE '1994-09-27') → 9
         WEEK(DATE '1994-09-27') → 39
         DAYOFYEAR(DATE '1994-09-27') → 270
         DAYOFMONTH(DATE '1994-09-27') → 27
         DAYOFWEEK(DATE '1994-09-27') → 3
         HOUR(TIMESTAMP '1994-09-27 13:14:15') → 13
         MINUTE(TIMESTAMP '1994-09-27 13:14:15') → 14
         SECOND(TIMESTAMP '1994-09-27 13:14:15') → 15
         EXTRACT(DAY FROM DATE '2006-06-05') → 5
         EXTRACT(DOW FROM DATE '2023-01-01') → 1
         TYPEOF(EXTRACT(HOUR FROM TIMESTAMP '1994-09-27 13:14:15')) → BIGINT
         FLOOR(TIMESTAMP '1994-09-27 13:14:59' TO MINUTE) → 1994-09-27T13:14:00
         CEIL(TIMESTAMP '1994-09-27 13:14:59' TO MINUTE) → 1994-09-27T13:15:00
         CEIL(TIMESTAMP '1994-09-27 13:14:00' TO MINUTE) → 1994-09-27T13:14:00
         FLOOR(DATE '1994-09-27' TO QUARTER) → 1994-07-01
         FLOOR(TIMESTAMP '1994-09-27 13:14:15' TO WEEK) → 1994-09-25T00:00:00
         CEIL(DATE '1994-09-27' TO YEAR) → 1995-01-01
         FLOOR(TIMESTAMP '1969-12-31 23:59:59.999' TO SECOND) → 1969-12-31T23:59:59
         TIMESTAMPADD(WEEK, 1, DATE '2003-01-02') → 2003-01-09
         TIMESTAMPADD(MONTH, 1, TIMESTAMP '2003-01-31 10:00:00') → 2003-02-28T10:00:00
         TIMESTAMPADD(HOUR, -1, DATE '2003-01-02') → 2003-01-01T23:00:00
         TIMESTAMPADD(SECOND, 10, TIMESTAMP '2003-01-02 00:00:55') → 2003-01-02T00:01:05
         TIMESTAMPDIFF(DAY, TIMESTAMP '2003-01-02 10:00:00', TIMESTAMP '2003-01-03 10:00:00') → 1
         TIMESTAMPDIFF(DAY, TIMESTAMP '2003-01-02 10:00:00', TIMESTAMP '2003-01-03 09:59:59') → 0
         TIMESTAMPDIFF(MONTH, DATE '2003-02-01', DATE '2003-05-01') → 3
         TIMESTAMPDIFF(YEAR, DATE '2004-05-02', DATE '2003-05-01') → -1
         TIMESTAMPDIFF(SQL_TSI_MINUTE, TIMESTAMP '2003-02-01 00:00:00', TIMESTAMP '2003-02-01 02:00:00') → 120
         TIMESTAMP '2020-01-01 00:00:00' + INTERVAL '1' DAY → 2020-01-02T00:00:00
         DATE_FORMAT(TIMESTAMP '2020-02-03 14:05:06.789', 'yyyy-MM-dd HH:mm') → 2020-02-03 14:05
         DATE_FORMAT(TIMESTAMP '2020-02-03 14:05:06.789', 'yy/M/d h:m:s.SS a') → 20/2/3 2:5:6.78 PM
         DATE_FORMAT('2020-02-03 14:05:06', 'EEEE, dd MMM yyyy ''at'' HH''h''') → Monday, 03 Feb 2020 at 14h
         DATE_FORMAT(TIMESTAMP '2020-02-03 14:05:06', 'D MMMM E') → 34 February Mon
         TO_DATE('2020-02-03') → 2020-02-03
         TO_DATE('03.02.2020', 'dd.MM.yyyy') → 2020-02-03
         TO_DATE('x') → NULL
         TO_TIMESTAMP('2020-02-03 04:05:06') → 2020-02-03T04:05:06
         TO_TIMESTAMP('2020-02-03 04:05:06.7891') → 2020-02-03T04:05:06.789
         TO_TIMESTAMP('2020-2-3') → 2020-02-03T00:00:00
         TO_TIMESTAMP('20200203040506', 'yyyyMMddHHmmss') → 2020-02-03T04:05:06
         TO_TIMESTAMP('Feb 03, 2020 02:05 PM', 'MMM dd, yyyy hh:mm a') → 2020-02-03T14:05:00
         TO_TIMESTAMP('2020-02-30 00:00:00') → 2020-02-29T00:00:00
         TO_TIMESTAMP('2020-02-03', 'yyyy/MM/dd') → 2020-02-03T00:00:00
         TO_TIMESTAMP('2020.02.03', 'yyyy/MM/dd') → NULL
         TYPEOF(TO_TIMESTAMP('2020-02-03')) → TIMESTAMP(3)
         TO_TIMESTAMP_LTZ(1000, 0) → 1970-01-01T00:16:40Z
         TO_TIMESTAMP_LTZ(1500, 3) → 1970-01-01T00:00:01.500Z
         TO_TIMESTAMP_LTZ(1500, 6) → 1970-01-01T00:00:00.001500Z
         TYPEOF(TO_TIMESTAMP_LTZ(1000, 0)) → TIMESTAMP_LTZ(3)
         UNIX_TIMESTAMP('1970-01-01 00:16:40') → 1000
         UNIX_TIMESTAMP('16:40', 'mm:ss') → 1000
         UNIX_TIMESTAMP('x') → NULL
         FROM_UNIXTIME(44) → 1970-01-01 00:00:44
         FROM_UNIXTIME(44, 'HH:mm:ss') → 00:00:44",
    );
}

#[test]
fn functions_that_are_refused() {
    check(
        "RAND(7) → error: line 1, column 8: RAND with a seed is not supported yet; write RAND(): in which order rows are computed is not fixed
         1 + CURRENT_TIME → error: line 1, column 12: CURRENT_TIME is not supported yet; write DATE_FORMAT(LOCALTIMESTAMP, 'HH:mm:ss'): there is no type TIME
         RAND_INTEGER(-5) → error: line 1, column 8: the bound of RAND_INTEGER must be positive; write RAND_INTEGER(10) for numbers from 0 to 9
         TO_TIMESTAMP_LTZ(1, 7) → error: line 1, column 28: the precision of TO_TIMESTAMP_LTZ must be from 0 to 6; write 0 for a number of seconds, 3 for milliseconds, 6 for microseconds
         TIMESTAMPDIFF(FORTNIGHT, DATE '2003-01-02', DATE '2003-01-02') → error: line 1, column 22: FORTNIGHT is not a valid unit of time; use YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE, SECOND, MILLISECOND or MICROSECOND
         'a' SIMILAR TO '(' → error: line 1, column 23: '(' is not a valid SIMILAR TO pattern; close all brackets, and put what * + ? { repeat before them
         DATE_FORMAT(DATE '2003-01-02', 'yyyy Q') → error: Execution error: 'yyyy Q' is not a valid datetime pattern: the letter Q (1 times) is not known; use y, M, d, H, h, m, s, S, a, E and D, and put words in quotes
         SPLIT_INDEX(5, ',', 1) → error: Execution error: Function 'split_index' user-defined coercion failed with: Error during planning: argument 1 of SPLIT_INDEX is BIGINT; it must be a string: use CAST",
    );
}
