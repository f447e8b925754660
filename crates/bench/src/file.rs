//! A benchmark as text: what runs, over which input, against what.
//!
//! ```text
//! # Anything about it.
//! name ysb-grizzly
//! what A third of the events pass; their values are summed by campaign over ten seconds.
//! reads event event_type campaign_id value
//! reference ysb-sums
//! case cache rows=131072
//! case memory rows=126322567
//!
//! setup
//! CREATE TABLE event (…) WITH ('connector' = 'ysb', 'rows' = '${rows}', 'replay' = 'memory', 'replay.duration' = '${seconds} s');
//!
//! query
//! INSERT INTO nowhere SELECT …
//! ```
//!
//! `reads` names the table whose rows are counted and the columns that the query must look at for every row: their bytes are what is
//! compared with the machine's bandwidth. `joins` names another stream, whose rows are counted as well, and `probes` a bounded table, whose rows are not; a loop over
//! both gets their keys from the first of the columns. Of several loops that `reference` names the fastest counts, and each is reported. A line
//! `with buckets` also runs each window by itself (`SET 'pelton.windows' = 'buckets'`), `with apart` the windows of each aggregation, and `with auto` as sessions do unless told otherwise,
//! measured against the interpreter. A case `against=CASE` is measured against
//! another case of the same benchmark and not against the loops; a case `tier=…` runs with this `pelton.tier` alone, others compiled and
//! interpreted. A case `windows=N each=FUNCTION` has that function OVER each row and those before it in place of `${frames}`, N times, of random lengths, and
//! as many columns of the type `${type}` in place of `${columns}`; a line with `${frame}` is there N times, with one of them each. A line `needs FILE`
//! names a file of real data, `${file}`: without it the benchmark is skipped. A section lasts to the next, or to the end. `kind` says what is
//! measured where it is not the rows a second of a replayed stream ([`Kind`]); a section `prepare` between `setup` and `query`
//! writes the files that the query reads, in the folder `${folder}`. A section `duckdb` behind these loads the same rows into tables of DuckDB, and asks the same question:
//! the reference `duckdb` is that.
//!
//! Cases of `queries` are drawn over how many there are, or with a line `over PARAMETER` over that number, which the cases give.
//! With a line `compare checkpoints`, queries that have a checkpoint each second are compared with queries that have none.
//! With a line `compare sharing`, queries that read their tables together are compared with queries that read them alone; the tables have no end. With a line `counts results`
//! the rows of their results are counted: of what a join reads that runs once for all, a query that has its pairs does not know.
//!
//! A course has a line `rows` with the number of rows that pass, the table's over and over, and lines `steps COLUMN SHARE…`: in as many steps, which
//! have as many rows each, that share of the column's values, in ten-thousandths, is 0 or more. They must be drawn from 0 to 9999, and less is
//! taken away from each of them. A case `always=STEP`, from 0, is given the rows of that step all the time.

use std::collections::BTreeMap;

/// What a benchmark measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// `stream`: rows a second of a table replayed from memory, against a loop over the same blocks.
    #[default]
    Stream,
    /// `files`: rows a second of files in the page cache, against another reader of them.
    Files,
    /// `start`: what a new query waits for: its kernels' compilation, its first result, a process's whole life.
    Start,
    /// `resident`: the memory of a process while a long stream passes.
    Resident,
    /// `pause`: how long rows of another stream wait while windows close.
    Pause,
    /// `latency`: how long results take at rates that change in steps.
    Latency,
    /// `idle`: how long the processor is busy with queries for which nothing comes.
    Idle,
    /// `state`: bytes that the windows' state has, with slices and with a table for each window.
    State,
    /// `queries`: many queries at once, under each policy.
    Queries,
    /// `live`: how long it takes to add a query to running ones, and what many of them take.
    Live,
    /// `ad-hoc`: how fast rows pass while queries come and go.
    AdHoc,
    /// `modes`: queries at rising rates, with threads or the engine's policy, and with queues or blocks, all cases as points of a picture.
    Modes,
    /// `course`: rows a second of a replayed stream part by part, all cases as lines of one picture.
    Course,
}

impl Kind {
    const NAMES: [(&'static str, Kind); 13] = [
        ("stream", Kind::Stream),
        ("files", Kind::Files),
        ("start", Kind::Start),
        ("resident", Kind::Resident),
        ("pause", Kind::Pause),
        ("latency", Kind::Latency),
        ("idle", Kind::Idle),
        ("state", Kind::State),
        ("queries", Kind::Queries),
        ("live", Kind::Live),
        ("ad-hoc", Kind::AdHoc),
        ("modes", Kind::Modes),
        ("course", Kind::Course),
    ];

    fn named(name: &str) -> Result<Kind, String> {
        let found = Kind::NAMES.iter().find(|(known, _)| *known == name);
        let names = || Kind::NAMES.map(|(name, _)| name).join(", ");
        found.map(|(_, kind)| *kind).ok_or_else(|| format!("a benchmark's kind is one of {}, not '{name}'", names()))
    }
}

/// Rows of the longest window of a case with windows of random lengths.
const FRAME_ROWS_MAX: usize = 128 * 1024;

/// Values of `pelton.tier`.
const TIERS: [&str; 3] = ["auto", "interpret", "compile"];

/// The values of a column that has steps are from 0 to one less.
pub const STEP_VALUES: i64 = 10_000;

/// The rows of a course.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CourseShape {
    /// So many pass.
    pub rows: usize,
    /// Columns whose values change on the way: of each step how many of [`STEP_VALUES`] are 0 or more.
    pub steps: Vec<(String, Vec<i64>)>,
}

impl CourseShape {
    /// How many steps there are.
    pub fn count(&self) -> usize {
        self.steps.first().map_or(1, |(_, steps)| steps.len())
    }

    /// Whether each step has as many rows.
    fn is_divided(&self) -> bool {
        self.rows > 0 && self.rows.is_multiple_of(self.count())
    }

    /// Whether two steps have the same rows.
    pub fn are_alike(&self, one: usize, other: usize) -> bool {
        self.steps.iter().all(|(_, steps)| steps.get(one) == steps.get(other))
    }

    /// Whether some column's values change with a step.
    pub fn changes_at(&self, step: usize) -> bool {
        step > 0 && !self.are_alike(step, step - 1)
    }

    fn add_steps(&mut self, mut words: impl Iterator<Item = String>) -> Result<(), String> {
        let column = words.next().ok_or("steps need a column")?;
        let share = |word: String| match word.parse() {
            Ok(share) if (0..=STEP_VALUES).contains(&share) => Ok(share),
            _ => Err(format!("a step's share is a number from 0 to {STEP_VALUES}, not '{word}'")),
        };
        let steps: Vec<i64> = words.map(share).collect::<Result<_, _>>()?;
        if steps.is_empty() || !self.steps.is_empty() && steps.len() != self.count() {
            return Err(format!("column '{column}' needs as many steps as the others, and at least one"));
        }
        self.steps.push((column, steps));
        Ok(())
    }
}

/// What queries are compared in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// Whether they read tables together.
    Sharing,
    /// Whether they have a checkpoint each second.
    Checkpoints,
}

/// One benchmark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Benchmark {
    /// What it is called on the command line.
    pub name: String,
    /// One sentence about it.
    pub what: String,
    /// What is measured.
    pub kind: Kind,
    /// The table whose rows are counted.
    pub table: String,
    /// Columns of that table which the query must look at for every row.
    pub columns: Vec<String>,
    /// The table that it is joined with.
    pub other: Option<OtherTable>,
    /// A file without which it cannot run.
    pub needs: Option<String>,
    /// Names of the hand-written loops it is measured against: the fastest counts.
    pub references: Vec<String>,
    /// What windows are made of besides (`pelton.windows`), which slices are compared with.
    pub with_windows: Option<&'static str>,
    /// Whether it is run as sessions run queries too, which is compared with interpreted code.
    pub with_auto: bool,
    /// What queries are drawn over, where it is not their number.
    pub over: Option<String>,
    /// What queries are compared in, instead of policies.
    pub compares: Option<Comparison>,
    /// Whether the rows of results are counted, and not those that are read.
    pub counts_results: bool,
    /// Of a course.
    pub course: CourseShape,
    /// Sizes and parameters, at least one.
    pub cases: Vec<Case>,
    setup: String,
    prepare: String,
    duckdb: String,
    query: String,
}

/// A table that a benchmark joins the one that it reads with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherTable {
    /// Its name.
    pub table: String,
    /// The columns of it that the query must look at.
    pub columns: Vec<String>,
    /// Whether it is a stream, whose rows are counted.
    pub is_stream: bool,
}

/// One size of a benchmark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// What it is called.
    pub name: String,
    /// Values of `${NAME}` in setup and query.
    pub parameters: BTreeMap<String, String>,
}

/// A line that means nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct BenchmarkError {
    /// From 1.
    pub line: usize,
    /// What is wrong, and what would be right.
    pub problem: String,
}

impl Benchmark {
    /// Reads a benchmark.
    ///
    /// # Errors
    /// Where a line means nothing, or something is missing.
    pub fn parse(text: &str) -> Result<Benchmark, BenchmarkError> {
        let lines: Vec<&str> = text.lines().collect();
        let section = |name: &str| lines.iter().position(|line| *line == name);
        let at_end = |problem: &str| BenchmarkError { line: lines.len(), problem: problem.to_string() };
        let setup = section("setup").ok_or_else(|| at_end("there is no line 'setup'"))?;
        let query = section("query").filter(|query| *query > setup);
        let query = query.ok_or_else(|| at_end("there is no line 'query' behind 'setup'"))?;
        let between = |name: &str| section(name).filter(|line| (setup..query).contains(line));
        let duckdb = between("duckdb");
        let before_duckdb = duckdb.unwrap_or(query);
        let prepare = between("prepare").filter(|prepare| *prepare < before_duckdb);
        let mut benchmark = Benchmark {
            name: String::new(),
            what: String::new(),
            kind: Kind::default(),
            table: String::new(),
            columns: Vec::new(),
            other: None,
            needs: None,
            references: Vec::new(),
            with_windows: None,
            with_auto: false,
            over: None,
            compares: None,
            counts_results: false,
            course: CourseShape::default(),
            cases: Vec::new(),
            setup: lines[setup + 1..prepare.unwrap_or(before_duckdb)].join("\n"),
            prepare: prepare.map_or(String::new(), |prepare| lines[prepare + 1..before_duckdb].join("\n")),
            duckdb: duckdb.map_or(String::new(), |duckdb| lines[duckdb + 1..query].join("\n")),
            query: lines[query + 1..].join("\n"),
        };
        for (index, line) in lines[..setup].iter().enumerate() {
            benchmark.read(line).map_err(|problem| BenchmarkError { line: index + 1, problem })?;
        }
        for (index, line) in lines[..setup].iter().enumerate() {
            benchmark.check(line).map_err(|problem| BenchmarkError { line: index + 1, problem })?;
        }
        let missing = [("name", benchmark.name.is_empty()), ("reads", benchmark.table.is_empty())];
        let missing = missing.into_iter().chain([("case", benchmark.cases.is_empty())]).find(|(_, missing)| *missing);
        match missing {
            Some((word, _)) => {
                Err(BenchmarkError { line: setup + 1, problem: format!("there is no line '{word} …'") })
            }
            None if benchmark.kind == Kind::Course && !benchmark.course.is_divided() => {
                let problem = "a course needs a line 'rows …', a multiple of its steps".to_string();
                Err(BenchmarkError { line: setup + 1, problem })
            }
            None => Ok(benchmark),
        }
    }

    fn read(&mut self, line: &str) -> Result<(), String> {
        if line.trim().is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut words = rest.split_whitespace().map(str::to_string);
        match word {
            "name" => self.name = rest.to_string(),
            "what" => self.what = rest.to_string(),
            "kind" => self.kind = Kind::named(rest)?,
            "rows" => self.course.rows = rest.parse().map_err(|_| format!("'{rest}' is no number of rows"))?,
            "steps" => self.course.add_steps(words)?,
            "needs" => self.needs = Some(rest.to_string()),
            "reference" => self.references = words.collect(),
            "with" if rest == "buckets" => self.with_windows = Some("buckets"),
            "with" if rest == "apart" => self.with_windows = Some("apart"),
            "with" if rest == "auto" => self.with_auto = true,
            "over" => self.over = Some(rest.to_string()),
            "compare" if rest == "sharing" => self.compares = Some(Comparison::Sharing),
            "compare" if rest == "checkpoints" => self.compares = Some(Comparison::Checkpoints),
            "counts" if rest == "results" => self.counts_results = true,
            "reads" => {
                self.table = words.next().ok_or("reads needs a table and its columns")?;
                self.columns = words.collect();
            }
            "joins" | "probes" => {
                let table = words.next().ok_or_else(|| format!("{word} needs a table and its columns"))?;
                self.other = Some(OtherTable { table, columns: words.collect(), is_stream: word == "joins" });
            }
            "case" => {
                let name = words.next().ok_or("a case needs a name")?;
                let parameter = |word: String| match word.split_once('=') {
                    Some(("tier", tier)) if !TIERS.contains(&tier) => {
                        Err(format!("a case's tier is one of {}, not '{tier}'", TIERS.join(", ")))
                    }
                    Some((name, value)) => Ok((name.to_string(), value.to_string())),
                    None => Err(format!("'{word}' is no NAME=VALUE")),
                };
                self.cases.push(Case { name, parameters: words.map(parameter).collect::<Result<_, _>>()? });
            }
            _ => {
                return Err(format!(
                    "'{word}' is not known; known are name, what, kind, reads, joins, probes, needs, rows, steps, reference, with buckets, with apart, with auto, compare, counts results, over, case, setup, query"
                ));
            }
        }
        Ok(())
    }

    /// Whether there is what a case names: another case, a step.
    fn check(&self, line: &str) -> Result<(), String> {
        let named = |by: &str| line.split_whitespace().find_map(|word| word.split_once(by)).map(|(_, name)| name);
        let steps = self.course.count();
        if let Some(step) = named("always=")
            && !step.parse().is_ok_and(|step: usize| step < steps)
        {
            return Err(format!("steps are numbers from 0 to {}, not '{step}'", steps - 1));
        }
        let Some(name) = named("against=") else { return Ok(()) };
        let known = || self.cases.iter().map(|case| case.name.as_str()).collect::<Vec<_>>().join(", ");
        match self.case(name) {
            Some(_) => Ok(()),
            None => Err(format!("there is no case '{name}'; there are {}", known())),
        }
    }

    /// The streams whose rows are counted.
    pub fn counted(&self) -> impl Iterator<Item = &str> {
        let other = self.other.as_ref().filter(|other| other.is_stream);
        std::iter::once(self.table.as_str()).chain(other.map(|other| other.table.as_str()))
    }

    /// The case of that name.
    pub fn case(&self, name: &str) -> Option<&Case> {
        self.cases.iter().find(|case| case.name == name)
    }

    /// The case that this one is measured against, where it is not the loop.
    pub fn against(&self, case: &Case) -> Option<&Case> {
        self.case(case.parameters.get("against")?)
    }

    /// Whether each window of a case is a query of its own.
    pub fn windows_are_queries(&self) -> bool {
        self.query.contains("${frame}")
    }

    /// The statements of a case.
    ///
    /// `seconds` is how long a replay lasts; files lie in `folder`.
    pub fn statements(&self, case: &Case, seconds: f64, folder: &str) -> Statements {
        let file = self.needs.as_deref().unwrap_or_default();
        let fill = |text: &str| case.fill(text, seconds).replace("${folder}", folder).replace("${file}", file);
        let [setup, prepare, duckdb, query] =
            [&self.setup, &self.prepare, &self.duckdb, &self.query].map(|text| fill(text));
        Statements { setup, prepare, duckdb, query }
    }
}

/// What a case executes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statements {
    /// Makes the tables.
    pub setup: String,
    /// Writes what the query reads; often empty.
    pub prepare: String,
    /// What DuckDB is asked; often empty.
    pub duckdb: String,
    /// What is measured.
    pub query: String,
}

impl Case {
    /// The value of a parameter that is a number.
    pub fn number(&self, name: &str) -> Option<usize> {
        self.parameters.get(name)?.parse().ok()
    }

    /// The step whose rows it is always given.
    pub fn always(&self) -> Option<usize> {
        self.number("always")
    }

    /// Of a case with so many `windows` of random lengths, how many rows each has: the same in every run.
    pub fn frames(&self) -> Vec<usize> {
        let mut random = 1_u64;
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % FRAME_ROWS_MAX + 1
        };
        (0..self.number("windows").unwrap_or(0)).map(|_| next()).collect()
    }

    fn fill(&self, text: &str, seconds: f64) -> String {
        let millis = format!("{:.0} ms", seconds * 1000.0);
        let mut filled = text.replace("${duration}", &millis);
        if let Some(function) = self.parameters.get("each") {
            let frames: Vec<String> = self
                .frames()
                .iter()
                .map(|rows| {
                    format!("{function} OVER (ORDER BY ts ROWS BETWEEN {} PRECEDING AND CURRENT ROW)", rows - 1)
                })
                .collect();
            let columns: Vec<String> = (0..frames.len()).map(|number| format!("result_{number} ${{type}}")).collect();
            filled = filled.replace("${frames}", &frames.join(", ")).replace("${columns}", &columns.join(", "));
            let lines = filled.split('\n').flat_map(|line| match line.contains("${frame}") {
                true => frames.iter().map(|frame| line.replace("${frame}", frame)).collect(),
                false => vec![line.to_string()],
            });
            filled = lines.collect::<Vec<_>>().join("\n");
        }
        self.parameters.iter().fold(filled, |text, (name, value)| text.replace(&format!("${{{name}}}"), value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# comment
name n
what It does.
reads t a b
reference loop
case small rows=10 keys=3 against=large
case large rows=1000

setup
CREATE TABLE t (a INT) WITH ('rows' = '${rows}', 'replay.duration' = '${duration}');

query
SELECT ${keys} FROM t
";

    #[test]
    fn a_benchmark_and_its_cases() {
        let benchmark = Benchmark::parse(TEXT).unwrap();
        assert_eq!((benchmark.name.as_str(), benchmark.what.as_str()), ("n", "It does."));
        assert_eq!((benchmark.table.as_str(), benchmark.columns.as_slice()), ("t", &["a".to_string(), "b".into()][..]));
        assert_eq!(benchmark.cases.len(), 2);
        let small = &benchmark.cases[0];
        assert_eq!(small.number("keys"), Some(3));
        assert_eq!(benchmark.against(small).map(|case| case.name.as_str()), Some("large"));
        assert_eq!(benchmark.against(&benchmark.cases[1]), None);
        let statements = benchmark.statements(small, 0.5, "nowhere");
        assert!(statements.setup.contains("'rows' = '10', 'replay.duration' = '500 ms'"));
        assert_eq!((statements.prepare.as_str(), statements.query.trim()), ("", "SELECT 3 FROM t"));
        assert_eq!(benchmark.kind, Kind::Stream);
        assert_eq!(benchmark.counted().collect::<Vec<_>>(), ["t"]);
    }

    #[test]
    fn the_rows_of_a_stream_that_is_joined_count() {
        let counted = |word: &str| {
            let benchmark = Benchmark::parse(&TEXT.replace("reference", &format!("{word} u c d\nreference"))).unwrap();
            let other = benchmark.other.clone().unwrap();
            assert_eq!((other.table.as_str(), other.columns), ("u", vec!["c".to_string(), "d".into()]));
            benchmark.counted().map(str::to_string).collect::<Vec<_>>()
        };
        assert_eq!((counted("joins"), counted("probes")), (vec!["t".to_string(), "u".into()], vec!["t".into()]));
    }

    #[test]
    fn files_are_written_before_they_are_read() {
        let text =
            TEXT.replace("reads t", "kind files\nreads t").replace("query\n", "prepare\nINSERT '${folder}'\nquery\n");
        let benchmark = Benchmark::parse(&text).unwrap();
        assert_eq!(benchmark.kind, Kind::Files);
        let statements = benchmark.statements(&benchmark.cases[0], 1.0, "here");
        assert_eq!((statements.prepare.as_str(), statements.query.trim()), ("INSERT 'here'", "SELECT 3 FROM t"));
        let text = text.replace("query\n", "duckdb\nSELECT ${keys}\nquery\n");
        let benchmark = Benchmark::parse(&text).unwrap();
        let asked = benchmark.statements(&benchmark.cases[0], 1.0, "here");
        assert_eq!((asked.prepare.as_str(), asked.duckdb.as_str()), ("INSERT 'here'", "SELECT 3"));
        assert_eq!((asked.setup, asked.query), (statements.setup, statements.query));
    }

    #[test]
    fn a_file_of_real_data_is_named_once() {
        let text = TEXT.replace("reads t", "needs ../data.txt\nreads t").replace("SELECT", "SELECT '${file}',");
        let benchmark = Benchmark::parse(&text).unwrap();
        assert_eq!(benchmark.needs.as_deref(), Some("../data.txt"));
        let statements = benchmark.statements(&benchmark.cases[0], 1.0, "here");
        assert_eq!(statements.query.trim(), "SELECT '../data.txt', 3 FROM t");
    }

    #[test]
    fn windows_are_columns_or_statements() {
        let text = TEXT.replace("keys=3", "windows=2 each=MIN(v) type=INT");
        let frames = |text: &str| {
            let benchmark = Benchmark::parse(text).unwrap();
            (benchmark.cases[0].frames(), benchmark.statements(&benchmark.cases[0], 1.0, "here").query)
        };
        let (rows, columns) = frames(&text.replace("SELECT ${keys} FROM t", "${frames}: ${columns}"));
        let frame = |index: usize| {
            format!("MIN(v) OVER (ORDER BY ts ROWS BETWEEN {} PRECEDING AND CURRENT ROW)", rows[index] - 1)
        };
        assert_eq!(columns.trim(), format!("{}, {}: result_0 INT, result_1 INT", frame(0), frame(1)));
        let (_, statements) = frames(&text.replace("SELECT ${keys} FROM t", "BEGIN\nSELECT ${frame};\nEND"));
        assert_eq!(statements.trim(), format!("BEGIN\nSELECT {};\nSELECT {};\nEND", frame(0), frame(1)));
    }

    #[test]
    fn the_rows_of_a_course() {
        let text = TEXT.replace("reads t", "kind course\nrows 999\nsteps a 0 10 10\nsteps b 1 1 1\nreads t");
        let course = Benchmark::parse(&text).unwrap().course;
        assert_eq!((course.rows, course.count()), (999, 3));
        assert_eq!([0, 1, 2].map(|step| course.changes_at(step)), [false, true, false]);
        assert_eq!([0, 2].map(|step| course.are_alike(1, step)), [false, true]);
        let problem = |lines: &str| {
            Benchmark::parse(&TEXT.replace("reads t", &format!("{lines}\nreads t"))).unwrap_err().to_string()
        };
        assert_eq!(problem("rows many"), "line 4: 'many' is no number of rows");
        assert_eq!(problem("steps a 5 10001"), "line 4: a step's share is a number from 0 to 10000, not '10001'");
        assert_eq!(
            problem("steps a 5 6\nsteps b 1"),
            "line 5: column 'b' needs as many steps as the others, and at least one"
        );
        assert!(problem("steps a 5 6\ncase c always=2").ends_with("steps are numbers from 0 to 1, not '2'"));
        let needs_rows = "a course needs a line 'rows …', a multiple of its steps";
        assert!(problem("kind course\nsteps a 5 6").ends_with(needs_rows));
        assert!(problem("kind course\nrows 999\nsteps a 5 6").ends_with(needs_rows));
    }

    #[test]
    fn mistakes_are_named() {
        let problem = |from: &str, to: &str| Benchmark::parse(&TEXT.replace(from, to)).unwrap_err().to_string();
        assert!(problem("what", "waht").starts_with("line 3: 'waht' is not known"));
        assert_eq!(problem("name n\n", ""), "line 8: there is no line 'name …'");
        assert_eq!(
            problem("reads t", "kind loop\nreads t"),
            "line 4: a benchmark's kind is one of stream, files, start, resident, pause, latency, idle, state, queries, live, ad-hoc, modes, course, not 'loop'"
        );
        assert_eq!(problem("rows=10", "rows"), "line 6: 'rows' is no NAME=VALUE");
        assert_eq!(
            problem("rows=1000", "tier=fast"),
            "line 7: a case's tier is one of auto, interpret, compile, not 'fast'"
        );
        assert_eq!(problem("rows=1000", "against=none"), "line 7: there is no case 'none'; there are small, large");
        assert_eq!(problem("query\n", ""), "line 12: there is no line 'query' behind 'setup'");
    }
}
