//! What the interpreter promises beyond the right rows: which rows an expression is evaluated for, and what users read
//! when it fails.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use datafusion_expr::Operator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{binary, cast, col, lit};
use pelton_compiler::interpret;
use pelton_data::Block;
use pelton_plan::pipeline::{Pipeline, Program, Step, StreamRef, Target};
use pelton_state::join::Lookups;
use pelton_state::kernel::{KernelError, KernelInput, Scratch};

fn input() -> RecordBatch {
    let fields = ["a", "b"].map(|name| Field::new(name, DataType::Int64, true));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![Some(10), Some(20), None, Some(40)])),
        Arc::new(Int64Array::from(vec![Some(5), Some(0), Some(0), None])),
    ];
    RecordBatch::try_new(Arc::new(Schema::new(fields.to_vec())), columns).unwrap()
}

type Expression = Arc<dyn PhysicalExpr>;

fn operator(left: Expression, operator: Operator, right: Expression) -> Expression {
    binary(left, operator, right, &input().schema()).unwrap()
}

fn column(name: &str) -> Expression {
    col(name, &input().schema()).unwrap()
}

fn zero() -> Expression {
    lit(0_i64)
}

/// The rows of `column` that come of the filters, or the error.
fn emitted(
    filters: Vec<Expression>,
    output: Expression,
    mask: Option<&[u64]>,
) -> Result<Vec<RecordBatch>, KernelError> {
    let schema = input().schema();
    let field = Field::new("o", output.data_type(&schema).unwrap(), true);
    let target = Target::Stream { columns: vec![output], schema: Arc::new(Schema::new(vec![field])) };
    let steps = filters.into_iter().map(Step::Filter).collect();
    let pipeline = Pipeline { input: StreamRef::Source(0), input_schema: schema, steps, target };
    let program = Program {
        sources: Vec::new(),
        lookups: Vec::new(),
        pipelines: vec![pipeline],
        operators: Vec::new(),
        outputs: Vec::new(),
    };
    let block = Block::new(input(), None).unwrap();
    let mut output = Vec::new();
    let call = KernelInput { mask, ..KernelInput::all(&block) };
    interpret(&program, 0).unwrap().emit(&[call], &Lookups::default(), &mut output, &mut Scratch::default())?;
    Ok(output)
}

fn quotient() -> Expression {
    operator(column("a"), Operator::Divide, column("b"))
}

#[test]
fn a_failing_expression_is_named_as_sql_writes_it() {
    let error = emitted(Vec::new(), quotient(), None).unwrap_err();
    assert_eq!(error.to_string(), "division by zero in a / b, where a = 20 and b = 0");
    let words = cast(lit("ten"), &input().schema(), DataType::Int64).unwrap();
    let error = emitted(Vec::new(), words, None).unwrap_err().to_string();
    assert!(error.contains("'ten' is not a valid BIGINT in "), "{error}");
    assert!(!error.contains("Arrow error"), "{error}");
}

#[test]
fn a_filter_guards_all_that_comes_after_it() {
    let guard = operator(column("b"), Operator::NotEq, zero());
    let rows = emitted(vec![guard], quotient(), None).unwrap();
    assert_eq!(rows[0].column(0).as_primitive::<Int64Type>().values(), &[2]);
}

#[test]
fn rows_that_are_masked_out_are_not_evaluated() {
    let rows = emitted(Vec::new(), quotient(), Some(&[0b1001])).unwrap();
    assert_eq!(rows[0].column(0).as_ref(), &Int64Array::from(vec![Some(2), None]));
}

#[test]
fn the_left_side_of_and_and_or_guards_the_right_one_in_each_row() {
    let guard = operator(column("b"), Operator::NotEq, zero());
    let large = operator(quotient(), Operator::Gt, lit(1_i64));
    let both = operator(guard, Operator::And, large.clone());
    let rows = emitted(vec![both], column("a"), None).unwrap();
    assert_eq!(rows[0].column(0).as_primitive::<Int64Type>().values(), &[10]);

    let zero_divisor = operator(column("b"), Operator::Eq, zero());
    let either = operator(zero_divisor, Operator::Or, large);
    let rows = emitted(vec![either], column("a"), None).unwrap();
    assert_eq!(rows[0].column(0).as_ref(), &Int64Array::from(vec![Some(10), Some(20), None]));
}

#[test]
fn no_row_no_batch_and_no_failure() {
    let never = operator(column("a"), Operator::Gt, lit(1000_i64));
    let constant = operator(lit(1_i64), Operator::Divide, zero());
    assert!(emitted(vec![never], constant, None).unwrap().is_empty());
}
