//! Expressions of the fluent API.

use arrow::datatypes::{DataType, Field, TimeUnit};
use pelton::builder::{self, Expr, ExprFunctionExt, OverWindow, ScalarValue, cast, col};
use pelton::display::sql_name;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDate, PyDateTime, PyFloat, PyInt, PyString};

use crate::error::{invalid, raised};
use crate::from_python::array;
use crate::functions::only_field;

/// An expression over the columns of a query.
#[pyclass(frozen, module = "pelton._native")]
pub struct Expression(pub Expr);

/// The column of a name.
#[pyfunction]
pub fn column(name: &str) -> Expression {
    Expression(col(name))
}

/// A value as a literal of the SQL type that it has.
#[pyfunction]
pub fn literal(value: &Bound<'_, PyAny>) -> PyResult<Expression> {
    if value.is_none() {
        return Ok(Expression(Expr::Literal(ScalarValue::Null, None)));
    }
    let field = Field::new("literal", literal_type(value)?, true);
    let values = array(&vec![Some(value.clone())], &field)?;
    let scalar = ScalarValue::try_from_array(&values, 0).map_err(|error| invalid(error.to_string()))?;
    Ok(Expression(Expr::Literal(scalar, None)))
}

fn literal_type(value: &Bound<'_, PyAny>) -> PyResult<DataType> {
    let py = value.py();
    if value.is_instance_of::<PyBool>() {
        return Ok(DataType::Boolean);
    }
    if value.is_instance_of::<PyInt>() {
        return Ok(DataType::Int64);
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(DataType::Float64);
    }
    if value.is_instance_of::<PyString>() {
        return Ok(DataType::Utf8);
    }
    if value.is_instance_of::<PyBytes>() {
        return Ok(DataType::Binary);
    }
    if value.is_instance_of::<PyDateTime>() {
        let zone = (!value.getattr("tzinfo")?.is_none()).then(|| "+00:00".into());
        return Ok(DataType::Timestamp(TimeUnit::Microsecond, zone));
    }
    if value.is_instance_of::<PyDate>() {
        return Ok(DataType::Date32);
    }
    if value.is_instance(&py.import("decimal")?.getattr("Decimal")?)? {
        let (digits, exponent): (usize, i32) = {
            let parts = value.call_method0("as_tuple")?;
            (parts.getattr("digits")?.len()?, parts.getattr("exponent")?.extract()?)
        };
        let scale = u8::try_from((-exponent).max(0)).map_err(|_| invalid("a decimal of at most 38 digits"))?;
        let precision = u8::try_from(digits).unwrap_or(u8::MAX).max(scale).max(1);
        return Ok(DataType::Decimal128(precision, scale as i8));
    }
    Err(invalid(format!("there is no literal of {}", value.get_type())))
}

/// An operator of two values.
fn operation(operator: &str, left: Expr, right: Expr) -> PyResult<Expr> {
    Ok(match operator {
        "+" => left + right,
        "-" => left - right,
        "*" => left * right,
        "/" => left / right,
        "%" => left % right,
        "=" => left.eq(right),
        "<>" => left.not_eq(right),
        "<" => left.lt(right),
        "<=" => left.lt_eq(right),
        ">" => left.gt(right),
        ">=" => left.gt_eq(right),
        "AND" => left.and(right),
        "OR" => left.or(right),
        "LIKE" => left.like(right),
        other => return Err(invalid(format!("there is no operator {other}"))),
    })
}

#[pymethods]
impl Expression {
    /// One of the aggregates that need no catalogue.
    #[staticmethod]
    fn aggregate(name: &str, argument: Option<&Expression>) -> PyResult<Expression> {
        let of = |function: fn(Expr) -> Expr| match argument {
            Some(argument) => Ok(function(argument.0.clone())),
            None => Err(invalid(format!("{name} takes a column"))),
        };
        Ok(Expression(match (name, argument) {
            ("count", None) => builder::count_all(),
            ("count", Some(_)) => of(builder::count)?,
            ("sum", _) => of(builder::sum)?,
            ("avg", _) => of(builder::avg)?,
            ("min", _) => of(builder::min)?,
            ("max", _) => of(builder::max)?,
            _ => return Err(invalid(format!("there is no aggregate {name}"))),
        }))
    }

    /// An operator between this and another expression.
    fn binary(&self, operator: &str, other: &Expression) -> PyResult<Expression> {
        operation(operator, self.0.clone(), other.0.clone()).map(Expression)
    }

    fn negative(&self) -> Expression {
        Expression(-self.0.clone())
    }

    fn negation(&self) -> Expression {
        Expression(!self.0.clone())
    }

    fn is_null(&self, is_negated: bool) -> Expression {
        Expression(if is_negated { self.0.clone().is_not_null() } else { self.0.clone().is_null() })
    }

    fn is_in(&self, values: Vec<PyRef<'_, Expression>>) -> Expression {
        Expression(self.0.clone().in_list(values.iter().map(|value| value.0.clone()).collect(), false))
    }

    fn between(&self, low: &Expression, high: &Expression) -> Expression {
        Expression(self.0.clone().between(low.0.clone(), high.0.clone()))
    }

    fn alias(&self, name: &str) -> Expression {
        Expression(self.0.clone().alias(name))
    }

    /// A cast to a type in SQL's words.
    fn cast(&self, sql_type: &str) -> PyResult<Expression> {
        let columns = pelton::Session::columns(&format!("`type` {sql_type}")).map_err(raised)?;
        Ok(Expression(cast(self.0.clone(), only_field(&columns)?.data_type().clone())))
    }

    fn distinct(&self) -> PyResult<Expression> {
        self.0.clone().distinct().build().map(Expression).map_err(|error| invalid(error.to_string()))
    }

    fn filter(&self, condition: &Expression) -> PyResult<Expression> {
        let filtered = self.0.clone().filter(condition.0.clone()).build();
        filtered.map(Expression).map_err(|error| invalid(error.to_string()))
    }

    /// An aggregate of the rows before each, and of each itself: so many rows, or microseconds; else all.
    #[pyo3(signature = (order, partition_by, rows, range_us))]
    fn over(
        &self,
        order: &Expression,
        partition_by: Vec<PyRef<'_, Expression>>,
        rows: Option<u64>,
        range_us: Option<u64>,
    ) -> PyResult<Expression> {
        let window = match (rows, range_us) {
            (None, range) => OverWindow::range(order.0.clone(), range.map(std::time::Duration::from_micros)),
            (rows, None) => OverWindow::rows(order.0.clone(), rows),
            (Some(_), Some(_)) => return Err(invalid("preceding rows are counted, or reach back in time: not both")),
        };
        let window = window.partition_by(partition_by.iter().map(|key| key.0.clone()));
        window.of(self.0.clone()).map(Expression).map_err(|error| raised(error.into()))
    }

    fn text(&self) -> String {
        match &self.0 {
            Expr::Literal(value, _) => format!("{value} ({})", sql_name(&value.data_type())),
            other => other.to_string(),
        }
    }
}
