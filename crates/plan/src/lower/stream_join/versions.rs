//! The versions of the rows of a table, which `FOR SYSTEM_TIME AS OF` joins with: a version of each value of the PRIMARY KEY, at each time.

use arrow::datatypes::DataType;
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::logical_plan::Join;
use datafusion_expr::{BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator};

use super::time_bounds::is_finer;
use crate::bind::table_scan::TableScanSource;
use crate::bind::time_attribute::{TimeAttribute, passed_through, time_attribute};
use crate::errors::{PlanError, external};
use crate::lower::Lowering;

/// The table that a plan reads row by row.
pub(super) struct Versions<'p> {
    source: &'p TableScanSource,
    /// The table's column that each column of the plan is, if it is one.
    columns: Vec<Option<String>>,
    /// The column of the plan that is the time of the versions.
    pub time: usize,
}

/// Pairs of equal expressions: the left side's, the right side's.
type Equal = Vec<(Expr, Expr)>;

impl Lowering<'_> {
    /// The versions that a plan has.
    pub(super) fn versions<'p>(&self, plan: &'p LogicalPlan) -> Result<Versions<'p>> {
        let (source, columns) = self.versioned_table(plan)?;
        let table = &source.table.definition;
        let invalid =
            |message: String, hint: &str| external(PlanError::invalid(self.locations.join, message).with_hint(hint));
        if table.primary_key.is_empty() {
            let message = format!("table {} has no PRIMARY KEY, which tells whose versions its rows are", table.name);
            return Err(invalid(message, "declare PRIMARY KEY (key) NOT ENFORCED in CREATE TABLE"));
        }
        let is_time = |column: &usize| time_attribute(plan, *column) == Some(TimeAttribute::Event);
        if let Some(time) = (0..columns.len()).find(is_time) {
            return Ok(Versions { source, columns, time });
        }
        Err(match &table.watermark {
            Some(watermark) => {
                let (time, table) = (&watermark.column, &table.name);
                let message = format!("{time} is the time of the versions of table {table}, and is not selected");
                invalid(message, "select it in the view")
            }
            None => {
                let message = format!("table {} has no WATERMARK, which tells the time of its versions", table.name);
                invalid(message, "declare WATERMARK FOR time AS time in CREATE TABLE")
            }
        })
    }

    /// The table that a plan reads row by row, and the table's column that each column of the plan is. Without some of its rows, older versions would take their place.
    fn versioned_table<'p>(&self, plan: &'p LogicalPlan) -> Result<(&'p TableScanSource, Vec<Option<String>>)> {
        match plan {
            LogicalPlan::TableScan(scan) => {
                let source = scan.source.downcast_ref::<TableScanSource>().expect("tables come from the catalogue");
                let names = source.schema.fields().iter().map(|field| Some(field.name().clone()));
                Ok((source, names.collect()))
            }
            LogicalPlan::SubqueryAlias(alias) => self.versioned_table(&alias.input),
            LogicalPlan::Projection(projection) => {
                let (source, columns) = self.versioned_table(&projection.input)?;
                let column = |expression| columns[passed_through(expression, projection.input.schema())?].clone();
                Ok((source, projection.expr.iter().map(column).collect()))
            }
            LogicalPlan::Filter(_) => {
                let hint = "write the condition behind ON, where the version of the time must meet it";
                Err(self.refused_join("FOR SYSTEM_TIME AS OF of a view with WHERE", hint))
            }
            _ => {
                let hint = "name a table with a PRIMARY KEY and a WATERMARK, or a view of its columns";
                Err(self.refused_join("FOR SYSTEM_TIME AS OF of what is not one table", hint))
            }
        }
    }

    /// The equalities of a join that are of the PRIMARY KEY, all columns of which are compared; and the others, which the version that is found must meet.
    pub(super) fn keys_of_versions(&self, versions: &Versions<'_>, join: &Join) -> Result<(Equal, Equal)> {
        let table = &versions.source.table.definition;
        let schema = join.right.schema();
        let column = |right: &Expr| versions.columns[told_apart_by(right, schema)?].as_ref();
        let is_key = |right: &Expr| column(right).is_some_and(|column| table.primary_key.contains(column));
        let (keys, others): (Equal, Equal) = join.on.iter().cloned().partition(|(_, right)| is_key(right));
        let is_compared = |key: &&String| keys.iter().any(|(_, right)| column(right) == Some(*key));
        if let Some(lacking) = table.primary_key.iter().find(|key| !is_compared(key)) {
            let message = format!(
                "{lacking} is a part of the PRIMARY KEY of table {}, and the join compares it with nothing",
                table.name
            );
            let hint = format!("write ON a.{lacking} = b.{lacking} for each column of the key");
            return Err(external(PlanError::invalid(self.locations.join, message).with_hint(hint)));
        }
        Ok((keys, others))
    }
}

/// The column that an expression is, or has another value for each value of.
fn told_apart_by(expression: &Expr, schema: &DFSchema) -> Option<usize> {
    match expression {
        Expr::Column(column) => schema.maybe_index_of_column(column),
        Expr::Alias(alias) => told_apart_by(&alias.expr, schema),
        Expr::Cast(Cast { expr, field }) => {
            let keeps_all = keeps_all_values(&expr.get_type(schema).ok()?, field.data_type());
            keeps_all.then(|| told_apart_by(expr, schema)).flatten()
        }
        // The zeros of floating-point numbers are equal: see `coerce::zeros`.
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Plus, right }) => match &**right {
            Expr::Literal(ScalarValue::Float32(Some(0.0)) | ScalarValue::Float64(Some(0.0)), _) => {
                told_apart_by(left, schema)
            }
            _ => None,
        },
        _ => None,
    }
}

/// Whether a cast makes different values of different values.
fn keeps_all_values(from: &DataType, to: &DataType) -> bool {
    use DataType::{Date32, Decimal128, Float32, Float64, LargeUtf8, Timestamp, Utf8, Utf8View};
    match (from, to) {
        (from, to) if from == to => true,
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View)
        | (Float32, Float64)
        | (Date32, Timestamp(_, None)) => true,
        (Timestamp(..), Timestamp(..)) => is_finer(to, from),
        (Decimal128(precision, scale), Decimal128(wider, finer)) => {
            finer >= scale && wide(*wider, *finer) >= wide(*precision, *scale)
        }
        (integer, Decimal128(precision, scale)) => {
            digits(integer).is_some_and(|digits| wide(*precision, *scale) >= digits)
        }
        (integer, Float32) => digits(integer).is_some_and(|digits| digits < 6),
        (integer, Float64) => digits(integer).is_some_and(|digits| digits < 15),
        (integer, wider) => digits(integer).zip(digits(wider)).is_some_and(|(digits, wider)| digits < wider),
    }
}

/// Digits before the point.
fn wide(precision: u8, scale: i8) -> i32 {
    i32::from(precision) - i32::from(scale)
}

/// Digits of the largest integer of a type.
fn digits(integer: &DataType) -> Option<i32> {
    match integer {
        DataType::Int8 => Some(3),
        DataType::Int16 => Some(5),
        DataType::Int32 => Some(10),
        DataType::Int64 => Some(19),
        _ => None,
    }
}
