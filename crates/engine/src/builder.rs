//! Queries as calls instead of text: what a program puts together is planned and run as the same query in SQL would be.
//!
//! [`Session::table`] begins a query; each call is a clause. Expressions are DataFusion's: [`col`], [`lit`] and their
//! operators and methods, aggregates from here, other functions by their SQL names through [`Session::call`].
//!
//! ```
//! use std::time::Duration;
//! use pelton::builder::{TimeWindow, col, count_all, lit, max};
//! let session = pelton::Session::new();
//! # for statement in session.prepare("CREATE TABLE bid (WATERMARK FOR dateTime AS dateTime)
//! #     WITH ('connector' = 'nexmark', 'table' = 'bid', 'rows' = '92000', 'pace' = 'flat-out')")? { session.execute(&statement)?; }
//! let query = session
//!     .table("bid")?
//!     .filter(col("price").gt(lit(100_i64)))?
//!     .window(TimeWindow::tumble("dateTime", Duration::from_secs(5)))?
//!     .group_by([col("channel")])
//!     .aggregate([max(col("price")).alias("highest"), count_all().alias("bids")])?
//!     .filter(col("bids").gt(lit(1_000_i64)))?
//!     .select([col("window_start"), col("channel"), col("highest")])?;
//! let batches = query.run()?.collect()?;
//! assert_eq!(batches[0].schema().field(2).name(), "highest");
//! # Ok::<(), pelton::Error>(())
//! ```
//!
//! [`ExprFunctionExt`] has `DISTINCT` and `FILTER` for aggregates, and [`ScalarValue`] the literals that Rust has no type for:
//!
//! ```
//! use pelton::builder::{ExprFunctionExt, ScalarValue, col, count, count_all, lit};
//! let session = pelton::Session::new();
//! # for statement in session.prepare("CREATE TABLE bid WITH ('connector' = 'nexmark', 'table' = 'bid', 'rows' = '920')")? { session.execute(&statement)?; }
//! let noon = ScalarValue::TimestampMillisecond(Some(43_200_000), None);
//! let bidders = count(col("bidder")).distinct().build()?.alias("bidders");
//! let dear = count_all().filter(col("price").gt(lit(ScalarValue::Decimal128(Some(10_050), 10, 2)))).build()?.alias("dear");
//! let late = count_all().filter(col("dateTime").gt(lit(noon))).build()?.alias("late");
//! let counted = session.table("bid")?.aggregate([bidders, dear, late])?.run()?.collect()?;
//! assert_eq!(counted[0].num_columns(), 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use arrow::array::ArrayRef;
use arrow::datatypes::Field;
use datafusion_common::Column;
use pelton_data::table_function::OutputRows;
use pelton_plan::PlanError;
use pelton_plan::query::builder::RelationBuilder;

use crate::error::Error;
use crate::query::Query;
use crate::session::Session;
use crate::table_function::table_function;

pub use datafusion_common::ScalarValue;
pub use datafusion_expr::{Expr, ExprFunctionExt, SortExpr, cast, lit, when};
pub use pelton_plan::query::builder::{
    CountWindow, JoinKind, OverWindow, RowWindow, TableCall, TimeWindow, avg, count, count_all, max, min, sum,
};

/// A column by its name, which is case sensitive, as in SQL. `table.column` is the column of a table or alias; a name
/// that has a dot or other signs of its own is put in double quotes.
///
/// ```
/// use pelton::builder::col;
/// assert_eq!(col("dateTime").to_string(), "dateTime");
/// assert_eq!(col("bid.dateTime").to_string(), "bid.dateTime");
/// assert_eq!(col("\"a.b\"").qualified_name(), (None, "a.b".to_string()));
/// ```
pub fn col(name: &str) -> Expr {
    Expr::Column(Column::from_qualified_name_ignore_case(name))
}

/// A call of a closure as a table function, for [`QueryBuilder::flat_map`]. Its arguments keep their types, and it returns these columns; otherwise it is as a
/// function of [`Session::register_table_function`].
///
/// See [`QueryBuilder::flat_map`] for an example.
pub fn table_call<F>(arguments: impl IntoIterator<Item = Expr>, returns: Vec<Field>, body: F) -> TableCall
where
    F: Fn(&[ArrayRef]) -> Result<OutputRows, String> + Send + Sync + 'static,
{
    TableCall::of(table_function("flat_map", None, returns, body), arguments)
}

/// A query under construction, and the session that it will run in.
///
/// Each method consumes the query and returns the extended one, or an error that names the method, the problem and the alternatives.
/// Clones are independent queries.
#[derive(Clone)]
pub struct QueryBuilder {
    session: Session,
    relation: RelationBuilder,
}

/// A query with a GROUP BY clause that still needs its aggregates.
#[derive(Clone)]
pub struct GroupedQueryBuilder {
    query: QueryBuilder,
    keys: Vec<Expr>,
}

/// An error of a call, which it names.
fn in_call(call: &str, error: PlanError) -> PlanError {
    PlanError { message: format!(".{call}(…): {}", error.message), ..error }
}

impl QueryBuilder {
    pub(crate) fn new(session: Session, relation: RelationBuilder) -> QueryBuilder {
        QueryBuilder { session, relation }
    }

    /// The query with one step more; an error names the call that it is of.
    fn then(
        self,
        call: &str,
        step: impl FnOnce(RelationBuilder) -> Result<RelationBuilder, PlanError>,
    ) -> Result<QueryBuilder, Error> {
        let relation = step(self.relation).map_err(|error| in_call(call, error))?;
        Ok(QueryBuilder { relation, session: self.session })
    }

    /// Keeps the rows for which `condition` is true: `WHERE`, and behind [`QueryBuilder::aggregate`] `HAVING`.
    ///
    /// # Errors
    /// [`Error::Plan`] where the condition names no column of the rows, or is not BOOLEAN.
    ///
    /// ```
    /// use pelton::builder::{col, lit};
    /// let session = pelton::Session::new();
    /// let numbers = session.push_table("numbers", "i BIGINT NOT NULL")?;
    /// let large = session.table("numbers")?.filter(col("i").gt(lit(1_i64)))?;
    /// let error = session.table("numbers")?.filter(col("j").gt(lit(1_i64))).err().unwrap();
    /// assert_eq!(error.to_string(), ".filter(…): there is no column j; there are i");
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn filter(self, condition: Expr) -> Result<QueryBuilder, Error> {
        self.then("filter", |relation| relation.filter(condition))
    }

    /// Projects to these expressions: `SELECT`. An expression without a name is called `EXPR$` and its position. Functions over preceding rows
    /// are expressions too ([`OverWindow`]).
    ///
    /// # Errors
    /// [`Error::Plan`] where an expression names no column of the rows, or its types do not fit.
    ///
    /// ```
    /// use pelton::builder::{OverWindow, col, lit, sum};
    /// let session = pelton::Session::new();
    /// let numbers = session.push_table("numbers", "i BIGINT NOT NULL, at TIMESTAMP(3) NOT NULL, WATERMARK FOR at AS at")?;
    /// let last_ten = OverWindow::rows(col("at"), Some(9));
    /// let columns = [(col("i") * lit(2_i64)).alias("twice"), last_ten.of(sum(col("i")))?.alias("recent")];
    /// let query = session.table("numbers")?.select(columns)?.run()?;
    /// assert_eq!(query.schema().field(1).name(), "recent");
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn select(self, columns: impl IntoIterator<Item = Expr>) -> Result<QueryBuilder, Error> {
        self.then("select", |relation| relation.select(columns))
    }

    /// Removes duplicate rows: `SELECT DISTINCT`. The input must be bounded, or its columns must include those of a window.
    ///
    /// # Errors
    /// [`Error::Plan`] where the type of a column cannot be compared.
    ///
    /// ```
    /// use std::time::Duration;
    /// use pelton::builder::{TimeWindow, col};
    /// let session = pelton::Session::new();
    /// let clicks = session.push_table("clicks", "page STRING, at TIMESTAMP(3) NOT NULL, WATERMARK FOR at AS at")?;
    /// let pages = session
    ///     .table("clicks")?
    ///     .window(TimeWindow::tumble("at", Duration::from_mins(1)))?
    ///     .select([col("window_start"), col("window_end"), col("page")])?
    ///     .distinct()?;
    /// # pages.run()?;
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn distinct(self) -> Result<QueryBuilder, Error> {
        self.then("distinct", RelationBuilder::distinct)
    }

    /// Assigns rows to windows, which adds the columns `window_start` and `window_end`, and `window_time` where windows are of time
    /// ([`TimeWindow`]) and not of row counts ([`CountWindow`]).
    ///
    /// # Errors
    /// [`Error::Plan`] where the rows lack the time attribute or a key, or the length of the window is invalid.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use pelton::arrow::array::{RecordBatch, StringViewArray, TimestampMillisecondArray};
    /// use pelton::builder::{TimeWindow, count_all};
    /// let (ten_seconds, minute) = (Duration::from_secs(10), Duration::from_mins(1));
    /// // Each minute that begins at its second 15; the last minute, every ten seconds; the minute so far, every ten seconds.
    /// let minutes = TimeWindow::tumble("at", minute).offset(Duration::from_secs(15));
    /// let last_minute = TimeWindow::hop("at", ten_seconds, minute);
    /// let minute_so_far = TimeWindow::cumulate("at", ten_seconds, minute);
    /// // A click at 00:00:25 is in those of the cumulative windows that end at 30, 40, 50 and 60 seconds.
    /// for (window, windows_of_the_click) in [(minutes, 1), (last_minute, 6), (minute_so_far, 4)] {
    ///     let session = pelton::Session::new();
    ///     let clicks = session.push_table("clicks", "page STRING, at TIMESTAMP(3) NOT NULL, WATERMARK FOR at AS at")?;
    ///     let query = session.table("clicks")?.window(window)?.aggregate([count_all().alias("hits")])?.run()?;
    ///     let pages = Arc::new(StringViewArray::from(vec!["home"]));
    ///     let times = Arc::new(TimestampMillisecondArray::from(vec![25_000]));
    ///     clicks.push_blocking(RecordBatch::try_new(clicks.schema().clone(), vec![pages, times]).unwrap())?;
    ///     drop(clicks);
    ///     let rows: usize = query.collect()?.iter().map(|hits| hits.num_rows()).sum();
    ///     assert_eq!(rows, windows_of_the_click);
    /// }
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn window(self, window: impl Into<RowWindow>) -> Result<QueryBuilder, Error> {
        self.then("window", |relation| relation.window(&window.into()))
    }

    /// Groups the rows by `keys`, for [`GroupedQueryBuilder::aggregate`]. Rows of windows are grouped by window as well.
    ///
    /// ```
    /// use pelton::builder::{col, count_all};
    /// let session = pelton::Session::new();
    /// # for statement in session.prepare("CREATE TABLE bid WITH ('connector' = 'nexmark', 'table' = 'bid', 'rows' = '920')")? { session.execute(&statement)?; }
    /// let channels = session.table("bid")?.group_by([col("channel")]).aggregate([count_all().alias("bids")])?;
    /// # channels.run()?.collect()?;
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn group_by(self, keys: impl IntoIterator<Item = Expr>) -> GroupedQueryBuilder {
        GroupedQueryBuilder { query: self, keys: keys.into_iter().collect() }
    }

    /// Aggregates all rows, or all rows of each window: as [`GroupedQueryBuilder::aggregate`] without keys.
    ///
    /// # Errors
    /// As [`GroupedQueryBuilder::aggregate`].
    ///
    /// ```
    /// use pelton::builder::{avg, col};
    /// let session = pelton::Session::new();
    /// # for statement in session.prepare("CREATE TABLE bid WITH ('connector' = 'nexmark', 'table' = 'bid', 'rows' = '920')")? { session.execute(&statement)?; }
    /// let mean = session.table("bid")?.aggregate([avg(col("price")).alias("mean")])?;
    /// assert_eq!(mean.run()?.collect()?[0].num_rows(), 1);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn aggregate(self, aggregates: impl IntoIterator<Item = Expr>) -> Result<QueryBuilder, Error> {
        self.group_by([]).aggregate(aggregates)
    }

    /// Top-N: numbers the rows of each window and each group of `keys` in an order, and keeps the first `rows_max`. The number,
    /// from 1, becomes the column `row_number`: `ROW_NUMBER() OVER (PARTITION BY window_start, window_end, … ORDER BY …) <= rows_max`.
    ///
    /// The rows are cut into windows, or are results of windows whose `window_start` and `window_end` they still have. Rows that the order
    /// does not tell apart are told apart by their other columns.
    ///
    /// # Errors
    /// [`Error::Plan`] where the rows are in no windows, or an expression names none of their columns.
    ///
    /// ```
    /// use std::time::Duration;
    /// use pelton::builder::{TimeWindow, col, count_all};
    /// let session = pelton::Session::new();
    /// # for statement in session.prepare("CREATE TABLE bid (WATERMARK FOR dateTime AS dateTime)
    /// #     WITH ('connector' = 'nexmark', 'table' = 'bid', 'rows' = '9200', 'pace' = 'flat-out')")? { session.execute(&statement)?; }
    /// let (ascending, nulls_first) = (false, false);
    /// let hottest = session
    ///     .table("bid")?
    ///     .window(TimeWindow::tumble("dateTime", Duration::from_hours(1)))?
    ///     .group_by([col("auction")])
    ///     .aggregate([count_all().alias("bids")])?
    ///     .top(3, [col("bids").sort(ascending, nulls_first)], [])?;
    /// assert_eq!(hottest.run()?.collect()?[0].num_rows(), 3);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn top(
        self,
        rows_max: usize,
        order: impl IntoIterator<Item = SortExpr>,
        keys: impl IntoIterator<Item = Expr>,
    ) -> Result<QueryBuilder, Error> {
        self.then("top", |relation| relation.top(rows_max, order, keys))
    }

    /// Joins with another query: `JOIN … ON`. One side is a bounded table, which is loaded when the query starts; or both are streams, whose rows are in
    /// windows, or near each other in time by a condition of `on`. Rows that are cut into windows match in the same window only.
    ///
    /// # Errors
    /// [`Error::Plan`] where `on` names no column of either side, or one that both have; [`Error::Usage`] where `other` belongs to another session.
    ///
    /// ```
    /// use pelton::builder::{JoinKind, col};
    /// let session = pelton::Session::new();
    /// # for statement in session.prepare("CREATE TABLE person WITH ('connector' = 'nexmark', 'table' = 'person', 'rows' = '920');
    /// #     CREATE TABLE bid WITH ('connector' = 'nexmark', 'table' = 'bid', 'rows' = '920')")? { session.execute(&statement)?; }
    /// let named = session
    ///     .table("bid")?
    ///     .join(session.table("person")?, JoinKind::Left, col("bid.bidder").eq(col("person.id")))?
    ///     .select([col("auction"), col("name")])?;
    /// # named.run()?.collect()?;
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn join(self, other: QueryBuilder, kind: JoinKind, on: Expr) -> Result<QueryBuilder, Error> {
        self.check_session("join", &other)?;
        self.then("join", |relation| relation.join(other.relation, kind, on))
    }

    /// Replaces each row by the rows that a table function makes of it, with the function's columns behind the row's: `CROSS JOIN LATERAL TABLE(f(…))`, or
    /// `CROSS JOIN UNNEST(…)`.
    ///
    /// # Errors
    /// [`Error::Plan`] where the function does not take its arguments.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use pelton::arrow::{array::{AsArray, StringViewArray}, datatypes::{DataType, Field}};
    /// use pelton::builder::{TableCall, col, table_call};
    /// use pelton::function::OutputRows;
    /// let session = pelton::Session::new();
    /// let posts = session.push_table("posts", "text STRING, tags ARRAY<STRING>")?;
    /// let tags = session.table("posts")?.flat_map(TableCall::unnest(col("tags")).named("t", ["tag"]).keep_unmatched())?;
    /// // A closure gets the arguments of many rows, and says for each row of its own of which row it was made.
    /// let words = table_call([col("text")], vec![Field::new("word", DataType::Utf8View, false)], |arguments| {
    ///     let texts = arguments[0].as_string_view().iter().zip(0..);
    ///     let words = texts.flat_map(|(text, row)| text.unwrap_or("").split(' ').map(move |word| (row, word)));
    ///     let (input_rows, words): (Vec<u32>, Vec<&str>) = words.unzip();
    ///     Ok(OutputRows { input_rows, columns: vec![Arc::new(StringViewArray::from(words))] })
    /// });
    /// let words = session.table("posts")?.flat_map(words)?.select([col("word")])?;
    /// # tags.explain()?; words.explain()?;
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn flat_map(self, call: TableCall) -> Result<QueryBuilder, Error> {
        self.then("flat_map", |relation| relation.flat_map(&call))
    }

    /// Groups the rows of this query and of another by keys, and by window where both are cut into windows, for one aggregation over both. A row has NULLs
    /// as the other side's columns, and 'left' or 'right' as the column `side`; an aggregate skips the NULLs, and `FILTER` tells the sides apart. A key is a
    /// pair: an expression of this side, which names the column, and one of the other.
    ///
    /// # Errors
    /// [`Error::Plan`] where an expression names no column of its side, or one side alone is cut into windows; [`Error::Usage`] where `other` belongs to
    /// another session.
    ///
    /// ```
    /// use std::time::Duration;
    /// use pelton::builder::{ExprFunctionExt, TimeWindow, col, count_all, lit, max};
    /// let session = pelton::Session::new();
    /// let sales = session.push_table("sales", "item INT, price INT, at TIMESTAMP(3), WATERMARK FOR at AS at")?;
    /// let views = session.push_table("views", "page INT, at TIMESTAMP(3), WATERMARK FOR at AS at")?;
    /// let minute = TimeWindow::tumble("at", Duration::from_mins(1));
    /// let of_views = count_all().filter(col("side").eq(lit("right"))).build()?.alias("views");
    /// let both = session
    ///     .table("sales")?
    ///     .window(minute.clone())?
    ///     .co_group(session.table("views")?.window(minute)?, [(col("item"), col("page"))])?
    ///     .aggregate([max(col("price")).alias("highest"), of_views])?;
    /// # both.run()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn co_group(
        self,
        other: QueryBuilder,
        keys: impl IntoIterator<Item = (Expr, Expr)>,
    ) -> Result<GroupedQueryBuilder, Error> {
        self.check_session("co_group", &other)?;
        let keys: Vec<(Expr, Expr)> = keys.into_iter().collect();
        let names = keys.iter().map(|(key, _)| match key {
            Expr::Column(column) => Expr::Column(Column::from_name(column.name.as_str())),
            other => Expr::Column(Column::from_name(other.schema_name().to_string())),
        });
        let names: Vec<Expr> = names.collect();
        let query = self.then("co_group", |relation| relation.co_group(other.relation, keys))?;
        Ok(GroupedQueryBuilder { query, keys: names })
    }

    /// Appends the rows of another query: `UNION ALL`. Columns are matched by position.
    ///
    /// # Errors
    /// [`Error::Plan`] where the numbers or types of the columns differ; [`Error::Usage`] where `other` belongs to another session.
    ///
    /// ```
    /// use pelton::builder::{col, lit};
    /// let session = pelton::Session::new();
    /// # for statement in session.prepare("CREATE TABLE person WITH ('connector' = 'nexmark', 'table' = 'person', 'rows' = '920');
    /// #     CREATE TABLE auction WITH ('connector' = 'nexmark', 'table' = 'auction', 'rows' = '920')")? { session.execute(&statement)?; }
    /// let people = session.table("person")?.select([col("id"), lit("person").alias("kind")])?;
    /// let auctions = session.table("auction")?.select([col("id"), lit("auction").alias("kind")])?;
    /// let all = people.union_all(auctions)?;
    /// # all.run()?.collect()?;
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn union_all(self, other: QueryBuilder) -> Result<QueryBuilder, Error> {
        self.check_session("union_all", &other)?;
        self.then("union_all", |relation| relation.union_all(other.relation))
    }

    /// Sorts the rows: `ORDER BY`, with the most significant key first. The rows end, and nothing but [`QueryBuilder::limit`] follows.
    ///
    /// # Errors
    /// [`Error::Plan`] where a key names no column of the rows.
    ///
    /// ```
    /// use pelton::builder::col;
    /// let session = pelton::Session::new();
    /// # for statement in session.prepare("CREATE TABLE bid WITH ('connector' = 'nexmark', 'table' = 'bid', 'rows' = '920')")? { session.execute(&statement)?; }
    /// let (ascending, nulls_first) = (false, false);
    /// let dearest = session.table("bid")?.order_by([col("price").sort(ascending, nulls_first)])?.limit(0, Some(10))?;
    /// assert_eq!(dearest.run()?.collect()?[0].num_rows(), 10);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn order_by(self, keys: impl IntoIterator<Item = SortExpr>) -> Result<QueryBuilder, Error> {
        self.then("order_by", |relation| relation.order_by(keys))
    }

    /// Skips the first `offset` rows, and ends the query after `rows_max` more: `LIMIT … OFFSET …`. Nothing follows.
    ///
    /// # Errors
    /// [`Error::Plan`] where the query so far cannot be planned.
    ///
    /// ```
    /// let session = pelton::Session::new();
    /// # for statement in session.prepare("CREATE TABLE bid WITH ('connector' = 'nexmark', 'table' = 'bid')")? { session.execute(&statement)?; }
    /// let rows: usize = session.table("bid")?.limit(5, Some(3))?.run()?.collect()?.iter().map(|rows| rows.num_rows()).sum();
    /// assert_eq!(rows, 3);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn limit(self, offset: usize, rows_max: Option<usize>) -> Result<QueryBuilder, Error> {
        self.then("limit", |relation| relation.limit(offset, rows_max))
    }

    /// Gives the rows an alias, so that `name.column` distinguishes their columns from those of the other side of a join: `AS name`.
    ///
    /// # Errors
    /// [`Error::Plan`] where two of the columns have the same name.
    ///
    /// ```
    /// use pelton::builder::col;
    /// let session = pelton::Session::new();
    /// let numbers = session.push_table("numbers", "i BIGINT NOT NULL")?;
    /// let query = session.table("numbers")?.alias("n")?.select([col("n.i")])?;
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn alias(self, name: &str) -> Result<QueryBuilder, Error> {
        self.then("alias", |relation| relation.alias(name))
    }

    /// Starts the query.
    ///
    /// # Errors
    /// [`Error::Plan`] where an operation is not possible on a stream; otherwise as [`Session::sql`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use pelton::arrow::array::{Int64Array, RecordBatch};
    /// let session = pelton::Session::new();
    /// let numbers = session.push_table("numbers", "i BIGINT NOT NULL")?;
    /// let query = session.table("numbers")?.run()?;
    /// let rows = RecordBatch::try_new(numbers.schema().clone(), vec![Arc::new(Int64Array::from(vec![1, 2]))]).unwrap();
    /// numbers.push_blocking(rows)?;
    /// drop(numbers);
    /// assert_eq!(query.collect()?[0].num_rows(), 2);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn run(&self) -> Result<Query, Error> {
        self.session.start_built(&self.relation, None)
    }

    /// Starts the query and inserts its rows into a table: `INSERT INTO`.
    ///
    /// # Errors
    /// [`Error::Plan`] where the table does not exist, or its columns do not fit the rows; otherwise as [`QueryBuilder::run`].
    ///
    /// ```
    /// let session = pelton::Session::new();
    /// # for statement in session.prepare("CREATE TABLE bid WITH ('connector' = 'nexmark', 'table' = 'bid', 'rows' = '920');
    /// #     CREATE TABLE nowhere (price BIGINT) WITH ('connector' = 'blackhole')")? { session.execute(&statement)?; }
    /// let summary = session.table("bid")?.select([pelton::builder::col("price")])?.insert_into("nowhere")?.wait()?;
    /// assert_eq!(summary.sinks[0].rows, 920);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn insert_into(&self, table: &str) -> Result<Query, Error> {
        self.session.start_built(&self.relation, Some(table)).map_err(|error| match error {
            Error::Plan(error) if self.is_refused_by(table) => in_call("insert_into", error).into(),
            other => other,
        })
    }

    /// Whether the query can be planned, and not so that its rows go into a table.
    fn is_refused_by(&self, table: &str) -> bool {
        let can_be_planned = |into: Option<&str>| self.session.plan_built(&self.relation, into).is_ok();
        can_be_planned(None) && !can_be_planned(Some(table))
    }

    /// The output of `EXPLAIN` for the query.
    ///
    /// # Errors
    /// As [`QueryBuilder::run`].
    ///
    /// ```
    /// let session = pelton::Session::new();
    /// let numbers = session.push_table("numbers", "i BIGINT NOT NULL")?;
    /// assert!(session.table("numbers")?.explain()?.contains("pipeline"));
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn explain(&self) -> Result<String, Error> {
        self.session.explain_built(&self.relation, None)
    }

    fn check_session(&self, call: &str, other: &QueryBuilder) -> Result<(), Error> {
        if self.session.is_same(&other.session) {
            return Ok(());
        }
        Err(Error::Usage(format!(
            ".{call}(…): the two queries belong to different sessions: begin both with the table method of one"
        )))
    }
}

impl GroupedQueryBuilder {
    /// One row for each group: its columns are `window_start` and `window_end` where there are windows, the keys, and then `aggregates`.
    ///
    /// An aggregate may be part of an expression, as in `sum(col("a")) / count_all()`.
    ///
    /// # Errors
    /// [`Error::Plan`] where an expression names no column of the rows, contains no aggregate, or is not possible in a window.
    ///
    /// ```
    /// use pelton::builder::{col, lit, sum};
    /// let session = pelton::Session::new();
    /// # for statement in session.prepare("CREATE TABLE bid WITH ('connector' = 'nexmark', 'table' = 'bid', 'rows' = '920')")? { session.execute(&statement)?; }
    /// let cents = session.table("bid")?.group_by([col("channel")]).aggregate([(sum(col("price")) * lit(100_i64)).alias("cents")])?;
    /// assert_eq!(cents.run()?.schema().field(1).name(), "cents");
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn aggregate(self, aggregates: impl IntoIterator<Item = Expr>) -> Result<QueryBuilder, Error> {
        let keys = self.keys;
        let call = if keys.is_empty() { "aggregate" } else { "group_by(…).aggregate" };
        self.query.then(call, |relation| relation.aggregate(keys, aggregates))
    }
}
