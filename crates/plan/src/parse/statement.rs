//! What a statement says, before anyone asked whether it makes sense.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use pelton_data::Micros;
use sqlparser::ast::{Expr, Ident, Query};

use crate::errors::Place;
use crate::types::SqlType;

/// One statement of a script.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// What it says. Spans inside it are places in the whole script.
    pub statement: Statement,
    /// Its text, from its first to its last token, without the semicolon.
    pub text: String,
    /// Line of the script it begins on, from 1.
    pub line: u64,
    /// Character of that line it begins at, from 1.
    pub column: u64,
    /// The files that stand in it where tables do: their tables are defined before it is executed.
    pub files: Vec<FileTable>,
}

/// A file, or several, in the place of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileTable {
    /// The name of the table that stands for it: what is written, in one form.
    pub name: String,
    /// Where it is written.
    pub place: Option<Place>,
    /// A file, a directory, or a glob pattern.
    pub path: String,
    /// Where that is written.
    pub path_place: Option<Place>,
    /// The format that a function such as `read_csv` reads.
    pub format: Option<&'static str>,
    /// The function's other arguments.
    pub arguments: Vec<FileArgument>,
}

/// `name => value`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileArgument {
    /// As written.
    pub name: String,
    /// Its value as text.
    pub value: String,
    /// Where both stand.
    pub places: OptionPlace,
}

/// What a statement asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    /// `CREATE TABLE`
    CreateTable(TableDefinition),
    /// `CREATE VIEW`
    CreateView(ViewDefinition),
    /// `DROP TABLE` or `DROP VIEW`
    Drop(Dropped),
    /// `INSERT INTO`
    Insert(Insert),
    /// `EXECUTE STATEMENT SET BEGIN … END`: several inserts that run as one program.
    StatementSet(Vec<Insert>),
    /// `SELECT`, `WITH` or `VALUES`
    Query(Box<Query>),
    /// `EXPLAIN` of a query, an insert or a statement set.
    Explain(Box<Statement>),
    /// `EXPLAIN ANALYZE [VERBOSE]` of a query, an insert or a statement set, which it runs to its end.
    Analyze {
        /// What.
        statement: Box<Statement>,
        /// Whether what became of its code is told.
        is_verbose: bool,
    },
    /// `EXPLAIN ANALYZE [VERBOSE] QUERY n`: of the session's n-th query, which runs or has ended.
    AnalyzeQuery {
        /// n.
        number: usize,
        /// Whether what became of its code is told.
        is_verbose: bool,
    },
    /// `SET 'key' = 'value'`
    Set {
        /// The setting.
        key: String,
        /// Its new value, as text.
        value: String,
        /// Where both stand.
        place: OptionPlace,
    },
    /// `SET`: shows all settings.
    ShowSettings,
    /// `RESET` of one setting, or of all.
    Reset {
        /// Which one.
        key: Option<String>,
        /// Where it stands.
        place: Option<Place>,
    },
    /// `SHOW TABLES`: tables and views.
    ShowTables(Option<NameFilter>),
    /// `SHOW VIEWS`
    ShowViews(Option<NameFilter>),
    /// `SHOW [USER] FUNCTIONS`
    ShowFunctions {
        /// Whether only those are shown that the program has added.
        are_own: bool,
        /// Which of them.
        filter: Option<NameFilter>,
    },
    /// `SHOW COLUMNS FROM table`
    ShowColumns(Named, Option<NameFilter>),
    /// `SHOW CATALOGS`, `SHOW DATABASES` and the like: there is one.
    ShowName {
        /// What it is the name of.
        column: &'static str,
        /// The name.
        name: &'static str,
        /// Which names are shown.
        filter: Option<NameFilter>,
    },
    /// `USE` of the only catalog or database.
    Use,
    /// `SHOW PROGRESS [VERBOSE]`: what the running queries wait for.
    ShowProgress {
        /// Whether all is shown that is known, however wide that is.
        is_verbose: bool,
    },
    /// `SHOW QUERIES [VERBOSE]`: how the running queries fare.
    ShowQueries {
        /// As of `SHOW PROGRESS`.
        is_verbose: bool,
    },
    /// `SHOW OPERATORS [VERBOSE]`: what their operators cost, and what waits in front of each.
    ShowOperators {
        /// As of `SHOW PROGRESS`.
        is_verbose: bool,
    },
    /// `SHOW SHARING`: which queries read tables together.
    ShowSharing,
    /// `SHOW JOBS [VERBOSE]`: the inserts that run, and the last that have ended.
    ShowJobs {
        /// As of `SHOW PROGRESS`.
        is_verbose: bool,
    },
    /// `DESCRIBE JOB name`
    DescribeJob(Named),
    /// `STOP JOB name [WITH SAVEPOINT] [WITH DRAIN]`
    StopJob {
        /// Which.
        job: Named,
        /// Whether its last checkpoint stays until it is removed by hand.
        with_savepoint: bool,
        /// Whether its inputs end, so that windows are reported which are open.
        with_drain: bool,
    },
    /// `ALTER JOB name AS …`
    AlterJob {
        /// Which.
        job: Named,
        /// The insert or statement set that goes on in its place,
        statement: Box<Statement>,
        /// and its text.
        text: String,
    },
    /// `SHOW CREATE TABLE` or `SHOW CREATE VIEW`
    ShowCreate(Named),
    /// `DESCRIBE` of a table, a view or a file.
    Describe(Named),
    /// `DESCRIBE` of a query: the columns of its result.
    DescribeQuery(Box<Query>),
}

/// `[NOT] LIKE 'pattern'` behind SHOW.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameFilter {
    /// The pattern, with `%` and `_`.
    pub pattern: String,
    /// Whether names are shown that it does not match.
    pub is_negated: bool,
    /// Whether letters match in either case: `ILIKE`.
    pub ignores_case: bool,
}

impl NameFilter {
    /// Whether a name is shown.
    pub fn passes(&self, name: &str) -> bool {
        let fold = |text: &str| if self.ignores_case { text.to_lowercase() } else { text.to_string() };
        let (pattern, name) = (fold(&self.pattern), fold(name));
        let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
        matches_pattern(&pattern, &name) != self.is_negated
    }
}

/// Whether a name is like a pattern, in which `%` stands for any characters, `_` for one, and a backslash before them makes them stand for themselves.
fn matches_pattern(pattern: &[char], name: &[char]) -> bool {
    // Which beginnings of the name the pattern so far matches.
    let mut matched = vec![false; name.len() + 1];
    matched[0] = true;
    let mut letters = pattern.iter();
    while let Some(&letter) = letters.next() {
        if letter == '%' {
            let first = matched.iter().position(|matches| *matches).unwrap_or(matched.len());
            matched[first..].fill(true);
            continue;
        }
        let (letter, is_any) = match letter {
            '\\' => (letters.next().copied().unwrap_or('\\'), false),
            other => (other, other == '_'),
        };
        for end in (1..matched.len()).rev() {
            matched[end] = matched[end - 1] && (is_any || name[end - 1] == letter);
        }
        matched[0] = false;
    }
    matched.last() == Some(&true)
}

/// A name of the catalogue, and where it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// As written, without quotes. Names are case sensitive, as in Flink.
    pub name: String,
    /// Where.
    pub place: Option<Place>,
}

/// What `DROP` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// Which table or view.
    pub target: Named,
    /// Whether it must be a table or a view.
    pub kind: RelationKind,
    /// `TEMPORARY`
    pub is_temporary: bool,
    /// `CASCADE`: what needs it goes as well.
    pub cascades: bool,
    /// Whether it is fine for it not to exist.
    pub if_exists: bool,
}

/// What a relation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelationKind {
    /// A table.
    Table,
    /// A view.
    View,
}

impl RelationKind {
    /// As messages name it.
    pub fn name(self) -> &'static str {
        match self {
            RelationKind::Table => "table",
            RelationKind::View => "view",
        }
    }

    /// As statements name it.
    pub fn keyword(self) -> &'static str {
        match self {
            RelationKind::Table => "TABLE",
            RelationKind::View => "VIEW",
        }
    }
}

/// `INSERT INTO target [(columns)] query`
#[derive(Debug, Clone, PartialEq)]
pub struct Insert {
    /// The table that takes the rows.
    pub target: Named,
    /// The columns that the query's columns go to, in order; empty means all physical columns.
    pub columns: Vec<Ident>,
    /// Where the rows come from.
    pub query: Box<Query>,
}

/// `CREATE VIEW name [(columns)] AS query`
#[derive(Debug, Clone, PartialEq)]
pub struct ViewDefinition {
    /// Its name.
    pub name: String,
    /// Where the name stands.
    pub place: Option<Place>,
    /// New names of the query's columns; empty keeps the query's.
    pub columns: Vec<Ident>,
    /// What it stands for.
    pub query: Box<Query>,
    /// The query as written.
    pub text: String,
    /// The tables, views and files that the query names, once it has been checked.
    pub reads: Vec<String>,
    /// Whether it was created `TEMPORARY`: it belongs to one session.
    pub temporary: bool,
    /// Whether an existing view of this name stays.
    pub if_not_exists: bool,
}

/// `CREATE TABLE`
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TableDefinition {
    /// Its name.
    pub name: String,
    /// Where the name stands.
    pub place: Option<Place>,
    /// In the order declared. Where none of them is stored, the connector supplies others.
    pub columns: Vec<ColumnDefinition>,
    /// Whether the types of its columns were told by the connector, or guessed from its data.
    pub has_guessed_types: bool,
    /// The file of `CREATE TABLE … FROM`, which the options name once it has been looked at.
    pub file: Option<Box<FileTable>>,
    /// `WATERMARK FOR column AS …`
    pub watermark: Option<WatermarkDefinition>,
    /// `PRIMARY KEY (…) NOT ENFORCED`: kept for SHOW CREATE TABLE, used by nothing.
    pub primary_key: Vec<String>,
    /// `PARTITIONED BY (…)`
    pub partition_keys: Vec<Named>,
    /// `COMMENT`
    pub comment: Option<String>,
    /// `WITH (…)`
    pub options: BTreeMap<String, String>,
    /// Where the options stand.
    pub option_places: BTreeMap<String, OptionPlace>,
    /// Names of columns that were written without backticks, and where.
    pub bare_names: Vec<(String, Option<Place>)>,
    /// Whether it was created `TEMPORARY`: it belongs to one session.
    pub temporary: bool,
    /// Whether an existing table of this name stays.
    pub if_not_exists: bool,
}

/// Where an option of a table, or a setting, stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionPlace {
    /// Its key.
    pub key: Option<Place>,
    /// Its value.
    pub value: Option<Place>,
}

/// One column of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnDefinition {
    /// Its name.
    pub name: String,
    /// Where the name stands.
    pub place: Option<Place>,
    /// Where its values come from.
    pub kind: ColumnKind,
    /// `COMMENT`
    pub comment: Option<String>,
}

/// Where a column's values come from.
#[derive(Debug, Clone, PartialEq)]
pub enum ColumnKind {
    /// From the row itself.
    Physical {
        /// Its type.
        sql_type: SqlType,
        /// Whether it may be NULL.
        nullable: bool,
    },
    /// From other columns of the row.
    Computed {
        /// How.
        expression: Box<Expr>,
        /// The same as it was written.
        text: String,
    },
    /// `PROCTIME()`: the clock when the row is taken in.
    ProcessingTime,
    /// From what the connector knows besides the row.
    Metadata {
        /// The connector's name of it.
        key: String,
        /// Its type.
        sql_type: SqlType,
        /// Whether it may be NULL.
        nullable: bool,
        /// Whether inserts leave it out.
        is_virtual: bool,
    },
}

/// `WATERMARK FOR column AS column - delay`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatermarkDefinition {
    /// The event-time column.
    pub column: String,
    /// How far the watermark trails the largest event time, in microseconds, at least 0.
    pub delay: Micros,
    /// What stands behind AS, as it was written.
    pub text: String,
    /// Whether it was not declared: the column is the only time in a file. Queries that do not need it read the file as if it had none.
    pub is_inferred: bool,
    /// Where the clause stands.
    pub place: Option<Place>,
}

impl TableDefinition {
    /// Whether the connector or its data tell the columns that are stored: none is declared.
    pub fn has_inferred_columns(&self) -> bool {
        self.file.is_some() || !self.columns.iter().any(|column| column.physical_field().is_some())
    }

    /// The columns that the connector delivers, physical and metadata, in the order declared, with their declared types.
    pub fn physical_schema(&self) -> SchemaRef {
        let fields = self.columns.iter().filter_map(ColumnDefinition::physical_field);
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// Names of the `PROCTIME()` columns.
    pub fn processing_time_columns(&self) -> impl Iterator<Item = &str> {
        let is_processing_time = |column: &&ColumnDefinition| matches!(column.kind, ColumnKind::ProcessingTime);
        self.columns.iter().filter(is_processing_time).map(|column| column.name.as_str())
    }
}

impl ColumnDefinition {
    /// The Arrow field of a column that the connector delivers; `None` for computed columns.
    pub fn physical_field(&self) -> Option<Field> {
        match &self.kind {
            ColumnKind::Physical { sql_type, nullable } | ColumnKind::Metadata { sql_type, nullable, .. } => {
                Some(Field::new(&self.name, sql_type.to_arrow(), *nullable))
            }
            ColumnKind::Computed { .. } | ColumnKind::ProcessingTime => None,
        }
    }
}
