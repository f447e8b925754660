//! One expression, as the interpreter evaluates it.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options, concat};
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DataFusionError, Result, ScalarValue};
use datafusion_expr::{ColumnarValue, Operator, ScalarUDF};
use datafusion_physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NegativeExpr,
    NotExpr, TryCastExpr, case, lit,
};
use datafusion_physical_expr::utils::collect_columns;
use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion_physical_expr_common::physical_expr::{fmt_sql, is_volatile};
use pelton_data::allowance::Allowance;
use pelton_plan::always_casts;
use pelton_plan::growth::{bounded, bytes_of_array, can_grow, is_too_large, joined};
use pelton_state::kernel::KernelError;

use super::rows::Rows;
use crate::error::{CompileError, row_failure};

/// An expression over a pipeline's columns that reads only the columns it needs, and for each row evaluates only what
/// that row's value depends on: whether it fails does not depend on the rows around it.
#[derive(Debug, Clone)]
pub(crate) struct Expression {
    /// As planned, for messages and for telling equal expressions.
    planned: Arc<dyn PhysicalExpr>,
    /// Over `schema`, whose columns are `columns` of the pipeline.
    expression: Arc<dyn PhysicalExpr>,
    columns: Vec<usize>,
    schema: SchemaRef,
    /// The type of the values it is asked for.
    data_type: DataType,
}

impl Expression {
    /// `planned`, over the columns `schema` of a pipeline, as values of `data_type` (or of its own type).
    ///
    /// # Errors
    /// Where it has no type over those columns.
    pub(crate) fn new(
        planned: &Arc<dyn PhysicalExpr>,
        schema: &Schema,
        data_type: Option<&DataType>,
    ) -> Result<Expression, CompileError> {
        let failed = |error: DataFusionError| CompileError::Expression {
            expression: fmt_sql(planned.as_ref()).to_string(),
            problem: error.strip_backtrace(),
        };
        let mut columns: Vec<usize> = collect_columns(planned).iter().map(Column::index).collect();
        columns.sort_unstable();
        columns.dedup();
        let fields = columns.iter().map(|&column| schema.fields()[column].clone()).collect::<Vec<_>>();
        let compact = Arc::new(Schema::new(fields));
        let renumbered = renumber(planned, &columns).map_err(failed)?;
        let wrapping = negate_wrapping(renumbered, &compact).map_err(failed)?;
        let bounded = bound_growth(wrapping, &compact).map_err(failed)?;
        let expression = evaluate_left_first(bounded, &compact).map_err(failed)?;
        let own_type = expression.data_type(&compact).map_err(failed)?;
        let data_type = data_type.unwrap_or(&own_type).clone();
        Ok(Expression { planned: planned.clone(), expression, columns, schema: compact, data_type })
    }

    /// The type of its values.
    pub(crate) fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Whether it may have no value for some row.
    pub(crate) fn can_fail(&self) -> bool {
        let own_type = self.expression.data_type(&self.schema);
        let typed: Arc<dyn PhysicalExpr> = match own_type.is_ok_and(|own_type| own_type == self.data_type) {
            true => self.expression.clone(),
            false => Arc::new(CastExpr::new(self.expression.clone(), self.data_type.clone(), None)),
        };
        can_fail(&typed, &self.schema).unwrap_or(true)
    }

    /// Whether it may have other values for the same row.
    pub(crate) fn is_volatile(&self) -> bool {
        is_volatile(&self.planned)
    }

    /// Whether both always have the same values.
    pub(crate) fn same_as(&self, other: &Expression) -> bool {
        self.data_type == other.data_type
            && self.planned.as_ref() == other.planned.as_ref()
            && !is_volatile(&self.planned)
    }

    /// Its values for `rows`, which must not be empty: a constant may fail, and fails only where there is a row.
    ///
    /// # Errors
    /// Where it has no value for one of the rows.
    pub(crate) fn evaluate(&self, rows: &mut Rows<'_>) -> Result<ColumnarValue, KernelError> {
        debug_assert!(rows.len() > 0);
        let batch = self.batch(rows);
        self.values(&batch).map_err(|error| self.failure(rows, &batch, error))
    }

    /// Its values for all rows of a batch of the pipeline's columns.
    ///
    /// # Errors
    /// Where it has no value for one of the rows.
    pub(crate) fn evaluate_batch(&self, rows: &RecordBatch) -> Result<ArrayRef, KernelError> {
        self.evaluate_columns(rows.num_rows(), |column| rows.column(column).clone())
    }

    /// Its values for so many rows, of whose columns those that it reads are asked for.
    ///
    /// # Errors
    /// Where it has no value for one of the rows.
    pub(crate) fn evaluate_columns(
        &self,
        rows: usize,
        column: impl FnMut(usize) -> ArrayRef,
    ) -> Result<ArrayRef, KernelError> {
        let batch = self.batch_of(rows, column);
        self.array(&batch).map_err(|error| KernelError::Expression(self.failed_row(&batch, error).1))
    }

    /// Its values for the rows of a batch, which are evaluated in parts where all at once take too much on the way.
    fn values(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let rows = batch.num_rows();
        match self.expression.evaluate(batch) {
            Err(error) if rows > 1 && is_too_large(&error) => {
                let part = |first: usize, rows: usize| self.values(&batch.slice(first, rows))?.into_array(rows);
                let parts = [part(0, rows / 2)?, part(rows / 2, rows - rows / 2)?];
                let is_allowed = Allowance::get().allows(parts.iter().map(bytes_of_array).sum());
                let values = concat(&parts.each_ref().map(AsRef::as_ref))?;
                if is_allowed { Ok(ColumnarValue::Array(values)) } else { Err(error) }
            }
            values => values,
        }
    }

    /// The columns that it reads.
    fn batch(&self, rows: &mut Rows<'_>) -> RecordBatch {
        self.batch_of(rows.len(), |column| rows.column(column))
    }

    fn batch_of(&self, rows: usize, column: impl FnMut(usize) -> ArrayRef) -> RecordBatch {
        let columns = self.columns.iter().copied().map(column).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .expect("columns have the types that the pipeline was planned for")
    }

    /// Its values for the rows of a batch, of the type asked for.
    fn array(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        Ok(self.typed(self.values(batch)?.into_array(batch.num_rows())?)?)
    }

    /// The first row of a batch for which it has no value, and why.
    fn failed_row(&self, batch: &RecordBatch, error: DataFusionError) -> (usize, String) {
        let planned = renumber(&self.planned, &self.columns).expect("it was renumbered before");
        row_failure(&planned, batch, error, |batch| self.array(batch).map(drop))
    }

    /// Why it has no value for some of `rows`, whose columns `batch` has.
    fn failure(&self, rows: &Rows<'_>, batch: &RecordBatch, error: DataFusionError) -> KernelError {
        let (row, message) = self.failed_row(batch, error);
        let place = rows.provenance(row).map_or(String::new(), |place| place.to_string());
        KernelError::Expression(message + &place)
    }

    /// Values of its own type as those of the type asked for.
    fn typed(&self, values: ArrayRef) -> Result<ArrayRef, ArrowError> {
        if values.data_type() == &self.data_type {
            return Ok(values);
        }
        let options = CastOptions { safe: false, ..CastOptions::default() };
        cast_with_options(&values, &self.data_type, &options)
    }

    /// Its values for `rows`, which must not be empty, as an array of the type asked for.
    ///
    /// # Errors
    /// Where it has no value for one of the rows.
    pub(crate) fn evaluate_array(&self, rows: &mut Rows<'_>) -> Result<ArrayRef, KernelError> {
        let values = match self.expression.downcast_ref::<Column>() {
            Some(column) => Ok(rows.column(self.columns[column.index()])),
            None => self.evaluate(rows)?.into_array(rows.len()),
        };
        let typed = values.and_then(|values| Ok(self.typed(values)?));
        typed.map_err(|error| {
            let batch = self.batch(rows);
            self.failure(rows, &batch, error)
        })
    }
}

impl std::fmt::Display for Expression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", fmt_sql(self.planned.as_ref()))
    }
}

/// The expression over a batch that holds only `columns`.
fn renumber(expression: &Arc<dyn PhysicalExpr>, columns: &[usize]) -> Result<Arc<dyn PhysicalExpr>> {
    let renumbered = expression.clone().transform_down(|node| {
        let Some(column) = node.downcast_ref::<Column>() else { return Ok(Transformed::no(node)) };
        let index = columns.binary_search(&column.index()).expect("all columns were collected");
        Ok(Transformed::yes(Arc::new(Column::new(column.name(), index)) as Arc<dyn PhysicalExpr>))
    });
    renumbered.map(|transformed| transformed.data)
}

/// Makes the right side of AND and OR wait for the left one, row by row, where it can fail.
///
/// DataFusion evaluates it or not depending on how many rows of the batch the left side decides. A guard such as
/// `b <> 0 AND a / b > 1` would then work or fail with the size of the block.
fn evaluate_left_first(expression: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    let ordered = expression.transform_up(|node| {
        let Some(binary) = node.downcast_ref::<BinaryExpr>() else { return Ok(Transformed::no(node)) };
        let decides = match binary.op() {
            Operator::And => false,
            Operator::Or => true,
            _ => return Ok(Transformed::no(node)),
        };
        if !can_fail(binary.right(), schema)? {
            return Ok(Transformed::no(node));
        }
        if is_volatile(binary.left()) {
            // What is drawn by chance is drawn once.
            let unknown: Arc<dyn PhysicalExpr> = Arc::new(Literal::new(ScalarValue::Boolean(None)));
            let undecided: Arc<dyn PhysicalExpr> =
                Arc::new(BinaryExpr::new(unknown, *binary.op(), binary.right().clone()));
            let branches = vec![(lit(decides), lit(decides)), (lit(!decides), binary.right().clone())];
            return Ok(Transformed::yes(case(Some(binary.left().clone()), branches, Some(undecided))?));
        }
        let decided: Arc<dyn PhysicalExpr> =
            Arc::new(BinaryExpr::new(binary.left().clone(), Operator::IsNotDistinctFrom, lit(decides)));
        let branches = vec![(decided, lit(decides))];
        Ok(Transformed::yes(case(None, branches, Some(node.clone()))?))
    });
    ordered.map(|transformed| transformed.data)
}

/// Makes minus an integer a subtraction from zero, which wraps for every operand as all integer arithmetic does: DataFusion's own
/// negation wraps for columns, but fails for the smallest constant.
fn negate_wrapping(expression: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    let wrapping = expression.transform_up(|node| {
        let Some(negative) = node.downcast_ref::<NegativeExpr>() else { return Ok(Transformed::no(node)) };
        let data_type = negative.arg().data_type(schema)?;
        if !data_type.is_signed_integer() {
            return Ok(Transformed::no(node));
        }
        let zero = Literal::new(ScalarValue::new_zero(&data_type)?);
        let difference = BinaryExpr::new(Arc::new(zero), Operator::Minus, negative.arg().clone());
        Ok(Transformed::yes(Arc::new(difference) as Arc<dyn PhysicalExpr>))
    });
    wrapping.map(|transformed| transformed.data)
}

/// Makes functions that return strings fail where these take too much, and chains of `||` one function, which does so too.
fn bound_growth(expression: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    let bounded = expression.transform_up(|node| {
        if let Some(call) = node.downcast_ref::<ScalarFunctionExpr>() {
            if !can_grow(call.return_type()) {
                return Ok(Transformed::no(node));
            }
            let function = Arc::new(bounded(call.fun()));
            let options = Arc::new(call.config_options().clone());
            return Ok(Transformed::yes(call_of(function, call.args().to_vec(), call.return_field(schema)?, options)));
        }
        let Some(binary) = node.downcast_ref::<BinaryExpr>() else { return Ok(Transformed::no(node)) };
        let operands = [binary.left(), binary.right()];
        let is_text = |operand: &&Arc<dyn PhysicalExpr>| {
            operand.data_type(schema).is_ok_and(|data_type| data_type == DataType::Utf8View)
        };
        if *binary.op() != Operator::StringConcat || !operands.iter().all(is_text) {
            return Ok(Transformed::no(node));
        }
        let parts = operands.into_iter().flat_map(|operand| match operand.downcast_ref::<ScalarFunctionExpr>() {
            Some(call) if call.fun().name() == JOINED.name() => call.args().to_vec(),
            _ => vec![operand.clone()],
        });
        let options = Arc::new(ConfigOptions::default());
        Ok(Transformed::yes(call_of(JOINED.clone(), parts.collect(), node.return_field(schema)?, options)))
    });
    bounded.map(|transformed| transformed.data)
}

static JOINED: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(joined()));

fn call_of(
    function: Arc<ScalarUDF>,
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    field: FieldRef,
    options: Arc<ConfigOptions>,
) -> Arc<dyn PhysicalExpr> {
    let name = function.name().to_owned();
    Arc::new(ScalarFunctionExpr::new(&name, function, arguments, field, options))
}

/// Whether the expression may have no value for some row.
pub(crate) fn can_fail(expression: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<bool> {
    let mut fails = false;
    expression.apply(|node| {
        fails = node_can_fail(node, schema)?;
        Ok(if fails { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(fails)
}

/// Functions with a value for every argument; there are others, which only costs them time behind AND and OR.
const FUNCTIONS_THAT_NEVER_FAIL: [&str; 15] = [
    "btrim",
    "character_length",
    "concat",
    "contains",
    "decimal_to_double",
    "decimal_upper_half",
    "ends_with",
    "lower",
    "ltrim",
    "octet_length",
    "replace",
    "rtrim",
    "starts_with",
    "strpos",
    "upper",
];

fn node_can_fail(node: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<bool> {
    let is_float = |data_type: &DataType| matches!(data_type, DataType::Float32 | DataType::Float64);
    if let Some(binary) = node.downcast_ref::<BinaryExpr>() {
        use Operator::*;
        return Ok(match binary.op() {
            And | Or | Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom => false,
            // Integers wrap; decimals and times are checked.
            Plus | Minus | Multiply => {
                let data_type = node.data_type(schema)?;
                !data_type.is_integer() && !is_float(&data_type)
            }
            Divide | Modulo => !is_float(&node.data_type(schema)?),
            _ => true,
        });
    }
    if let Some(cast) = node.downcast_ref::<CastExpr>() {
        return Ok(!(is_float(&node.data_type(schema)?) && cast.expr().data_type(schema)?.is_numeric()));
    }
    if node.is::<NegativeExpr>() {
        let data_type = node.data_type(schema)?;
        return Ok(!data_type.is_signed_integer() && !is_float(&data_type));
    }
    if let Some(function) = node.downcast_ref::<ScalarFunctionExpr>() {
        if let ("cast_as", [value, _]) = (function.fun().name(), function.args()) {
            return Ok(!always_casts(&value.data_type(schema)?, function.return_type()));
        }
        return Ok(!FUNCTIONS_THAT_NEVER_FAIL.contains(&function.fun().name()));
    }
    Ok(!(node.is::<Column>()
        || node.is::<Literal>()
        || node.is::<NotExpr>()
        || node.is::<IsNullExpr>()
        || node.is::<IsNotNullExpr>()
        || node.is::<InListExpr>()
        || node.is::<LikeExpr>()
        || node.is::<CaseExpr>()
        || node.is::<TryCastExpr>()))
}

/// The truth of a predicate's value for all rows, where it is the same for all.
pub(crate) fn constant_truth(value: &ColumnarValue) -> Option<bool> {
    match value {
        ColumnarValue::Scalar(ScalarValue::Boolean(truth)) => Some(*truth == Some(true)),
        ColumnarValue::Scalar(_) => Some(false),
        ColumnarValue::Array(_) => None,
    }
}
