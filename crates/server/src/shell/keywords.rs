//! Words that SQL statements are made of.

/// What a statement begins with.
pub const STATEMENTS: [&str; 31] = [
    "SELECT",
    "WITH",
    "VALUES",
    "INSERT INTO",
    "CREATE TABLE",
    "CREATE TEMPORARY TABLE",
    "CREATE VIEW",
    "CREATE TEMPORARY VIEW",
    "DROP TABLE",
    "DROP VIEW",
    "DROP TEMPORARY TABLE",
    "DROP TEMPORARY VIEW",
    "SHOW TABLES",
    "SHOW VIEWS",
    "SHOW FUNCTIONS",
    "SHOW CREATE TABLE",
    "SHOW CREATE VIEW",
    "SHOW COLUMNS FROM",
    "SHOW CATALOGS",
    "SHOW JOBS",
    "SHOW DATABASES",
    "DESCRIBE",
    "DESCRIBE JOB",
    "STOP JOB",
    "ALTER JOB",
    "EXPLAIN",
    "EXPLAIN ANALYZE",
    "EXECUTE STATEMENT SET BEGIN",
    "SET",
    "RESET",
    "USE",
];

/// What the shell itself understands in the place of a statement.
pub const COMMANDS: [&str; 2] = ["help", "quit"];

/// What SHOW shows.
pub const SHOWN: [&str; 16] = [
    "TABLES",
    "VIEWS",
    "FUNCTIONS",
    "USER FUNCTIONS",
    "QUERIES",
    "JOBS",
    "PROGRESS",
    "OPERATORS",
    "SHARING",
    "CREATE TABLE",
    "CREATE VIEW",
    "COLUMNS FROM",
    "CATALOGS",
    "DATABASES",
    "CURRENT CATALOG",
    "CURRENT DATABASE",
];

/// Table functions, and what else follows FROM and JOIN.
pub const AFTER_FROM: [&str; 7] = ["TABLE", "TUMBLE", "HOP", "CUMULATE", "SESSION", "UNNEST", "LATERAL"];

/// All other keywords, for completion and colours.
#[rustfmt::skip]
pub const KEYWORDS: [&str; 136] = [
    "ALL", "ANALYZE", "AND", "ANY", "ARRAY", "AS", "ASC", "BEGIN", "BETWEEN", "BIGINT", "BINARY", "BOOLEAN", "BY", "BYTES", "CASCADE", "CASE", "CAST", "CATALOGS",
    "CHAR", "COLUMNS", "CREATE", "CROSS", "CUMULATE", "CURRENT", "CURRENT_TIMESTAMP", "DATABASES", "DATE", "DAY", "DECIMAL", "DESC", "DESCRIBE", "DESCRIPTOR",
    "DISTINCT", "DOUBLE", "DRAIN", "DROP", "ELSE", "END", "ENFORCED", "ESCAPE", "EXCEPT", "EXECUTE", "EXISTS", "EXPLAIN", "FALSE", "FILTER", "FIRST",
    "FLOAT", "FOLLOWING", "FOR", "FROM", "FULL", "FUNCTIONS", "GROUP", "HAVING", "HOP", "HOUR", "IF", "IN", "INNER", "INSERT", "INT",
    "INTEGER", "INTERSECT", "INTERVAL", "INTO", "IS", "JOB", "JOBS", "JOIN", "KEY", "LAST", "LATERAL", "LEFT", "LIKE", "LIMIT", "METADATA", "MINUTE",
    "MONTH", "NOT", "NULL", "NULLS", "OF", "ON", "OR", "ORDER", "OUTER", "OVER", "PARTITION", "PRECEDING", "PRIMARY", "PROCTIME", "RANGE",
    "REAL", "RESET", "RESTRICT", "RIGHT", "ROW", "ROWS", "SECOND", "SELECT", "SESSION", "SET", "SHOW", "SIMILAR", "SMALLINT", "STATEMENT", "STOP", "STRING",
    "SYSTEM_TIME", "TABLE", "TABLES", "TEMPORARY", "THEN", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "TINYINT", "TO", "TRUE", "TUMBLE",
    "UNBOUNDED", "UNION", "UNNEST", "USE", "USING", "VALUES", "VARCHAR", "VIEW", "VIEWS", "VIRTUAL", "WATERMARK", "WHEN", "WHERE", "WITH", "YEAR",
];
