//! Queries that are put together by calls.

use std::time::Duration;

use pelton::builder::{self, CountWindow, Expr, JoinKind, RowWindow, SortExpr, TimeWindow};
use pyo3::prelude::*;

use crate::error::{invalid, raised};
use crate::expressions::Expression;
use crate::query::Query;

/// Expressions of a call.
type Expressions<'py> = Vec<PyRef<'py, Expression>>;

/// Expressions to order by: whether each is ascending, and whether its NULLs come first.
type Order<'py> = Vec<(PyRef<'py, Expression>, bool, bool)>;

fn cloned(expressions: &[PyRef<'_, Expression>]) -> Vec<Expr> {
    expressions.iter().map(|expression| expression.0.clone()).collect()
}

fn sorted(order: &Order<'_>) -> Vec<SortExpr> {
    order.iter().map(|(key, is_ascending, nulls_first)| key.0.clone().sort(*is_ascending, *nulls_first)).collect()
}

/// A query under construction.
#[pyclass(frozen, module = "pelton._native")]
pub struct QueryBuilder(pub pelton::QueryBuilder);

impl QueryBuilder {
    fn then(
        &self,
        py: Python<'_>,
        step: impl FnOnce(pelton::QueryBuilder) -> Result<pelton::QueryBuilder, pelton::Error> + Send,
    ) -> PyResult<QueryBuilder> {
        let query = self.0.clone();
        py.detach(|| step(query)).map(QueryBuilder).map_err(raised)
    }
}

#[pymethods]
impl QueryBuilder {
    fn filter(&self, py: Python<'_>, condition: &Expression) -> PyResult<QueryBuilder> {
        self.then(py, |query| query.filter(condition.0.clone()))
    }

    fn select(&self, py: Python<'_>, columns: Expressions<'_>) -> PyResult<QueryBuilder> {
        let columns = cloned(&columns);
        self.then(py, |query| query.select(columns))
    }

    fn distinct(&self, py: Python<'_>) -> PyResult<QueryBuilder> {
        self.then(py, pelton::QueryBuilder::distinct)
    }

    fn window(&self, py: Python<'_>, window: &Window) -> PyResult<QueryBuilder> {
        self.then(py, |query| query.window(window.0.clone()))
    }

    fn group_by(&self, keys: Expressions<'_>) -> GroupedQueryBuilder {
        GroupedQueryBuilder(self.0.clone().group_by(cloned(&keys)))
    }

    fn top(&self, py: Python<'_>, rows_max: usize, order: Order<'_>, keys: Expressions<'_>) -> PyResult<QueryBuilder> {
        let (order, keys) = (sorted(&order), cloned(&keys));
        self.then(py, |query| query.top(rows_max, order, keys))
    }

    fn join(&self, py: Python<'_>, other: &QueryBuilder, kind: &str, on: &Expression) -> PyResult<QueryBuilder> {
        let kind = match kind {
            "inner" => JoinKind::Inner,
            "left" => JoinKind::Left,
            "right" => JoinKind::Right,
            "full" => JoinKind::Full,
            other => return Err(invalid(format!("there is no join '{other}': it is inner, left, right or full"))),
        };
        self.then(py, |query| query.join(other.0.clone(), kind, on.0.clone()))
    }

    fn flat_map(&self, py: Python<'_>, call: &TableCall) -> PyResult<QueryBuilder> {
        self.then(py, |query| query.flat_map(call.0.clone()))
    }

    fn union_all(&self, py: Python<'_>, other: &QueryBuilder) -> PyResult<QueryBuilder> {
        self.then(py, |query| query.union_all(other.0.clone()))
    }

    fn order_by(&self, py: Python<'_>, keys: Order<'_>) -> PyResult<QueryBuilder> {
        let keys = sorted(&keys);
        self.then(py, |query| query.order_by(keys))
    }

    #[pyo3(signature = (offset, rows_max))]
    fn limit(&self, py: Python<'_>, offset: usize, rows_max: Option<usize>) -> PyResult<QueryBuilder> {
        self.then(py, |query| query.limit(offset, rows_max))
    }

    fn alias(&self, py: Python<'_>, name: &str) -> PyResult<QueryBuilder> {
        self.then(py, |query| query.alias(name))
    }

    fn run(&self, py: Python<'_>) -> PyResult<Query> {
        py.detach(|| self.0.run()).map(Query::new).map_err(raised)
    }

    fn insert_into(&self, py: Python<'_>, table: &str) -> PyResult<Query> {
        py.detach(|| self.0.insert_into(table)).map(Query::new).map_err(raised)
    }

    fn explain(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| self.0.explain()).map_err(raised)
    }
}

/// A query with keys that has no aggregates yet.
#[pyclass(frozen, module = "pelton._native")]
pub struct GroupedQueryBuilder(pelton::builder::GroupedQueryBuilder);

#[pymethods]
impl GroupedQueryBuilder {
    fn aggregate(&self, py: Python<'_>, aggregates: Expressions<'_>) -> PyResult<QueryBuilder> {
        let (grouped, aggregates) = (self.0.clone(), cloned(&aggregates));
        py.detach(|| grouped.aggregate(aggregates)).map(QueryBuilder).map_err(raised)
    }
}

/// A call of a table function.
#[pyclass(frozen, module = "pelton._native")]
pub struct TableCall(pub builder::TableCall);

#[pymethods]
impl TableCall {
    /// The elements of a collection.
    #[staticmethod]
    fn unnest(collection: &Expression) -> TableCall {
        TableCall(builder::TableCall::unnest(collection.0.clone()))
    }

    /// The call with a name for its rows and their columns.
    fn named(&self, alias: &str, columns: Vec<String>) -> TableCall {
        TableCall(self.0.clone().named(alias, columns))
    }

    /// The call that keeps rows of which it makes none.
    fn keep_unmatched(&self) -> TableCall {
        TableCall(self.0.clone().keep_unmatched())
    }
}

/// How rows are assigned to windows.
#[pyclass(frozen, module = "pelton._native")]
pub struct Window(RowWindow);

#[pymethods]
impl Window {
    #[staticmethod]
    fn tumble(time: &str, size_us: u64, offset_us: u64) -> Window {
        Window(TimeWindow::tumble(time, micros(size_us)).offset(micros(offset_us)).into())
    }

    #[staticmethod]
    fn hop(time: &str, slide_us: u64, size_us: u64, offset_us: u64) -> Window {
        Window(TimeWindow::hop(time, micros(slide_us), micros(size_us)).offset(micros(offset_us)).into())
    }

    #[staticmethod]
    fn cumulate(time: &str, step_us: u64, size_us: u64, offset_us: u64) -> Window {
        Window(TimeWindow::cumulate(time, micros(step_us), micros(size_us)).offset(micros(offset_us)).into())
    }

    #[staticmethod]
    fn session(time: &str, gap_us: u64, partition_by: Vec<String>) -> Window {
        Window(TimeWindow::session(time, micros(gap_us)).partition_by(partition_by).into())
    }

    #[staticmethod]
    fn rows(slide: u64, size: u64, partition_by: Vec<String>) -> Window {
        Window(CountWindow::hop(slide, size).partition_by(partition_by).into())
    }
}

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}
