//! Arithmetic on decimals with Flink's types, where exact results have more digits than the operators of DataFusion keep: quotients, and
//! sums, differences, products and remainders that do not fit a DECIMAL whatever the operands are.
//!
//! A result is rounded, the half away from zero, to the digits behind the point that its type has. One with more digits before the
//! point than its type has is NULL, as in Flink.

mod order;

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Float64Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{ArrowNativeTypeOp, DataType, Decimal128Type, Field, FieldRef, i256};
use arrow::error::ArrowError;
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::{
    ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
pub use order::comparison;
use pelton_data::decimal::{to_double, upper_half};

/// Digits that a DECIMAL can have.
pub const DIGITS_MAX: u8 = 38;

/// Digits behind the point that a result keeps at the cost of those before it.
const SCALE_KEPT: i16 = 6;

/// Operators that decimals have.
const OPERATORS: [(Operator, &str); 5] = [
    (Operator::Plus, "decimal_add"),
    (Operator::Minus, "decimal_subtract"),
    (Operator::Multiply, "decimal_multiply"),
    (Operator::Divide, "decimal_divide"),
    (Operator::Modulo, "decimal_remainder"),
];

/// The name of what makes a DOUBLE of a decimal.
const TO_DOUBLE: &str = "decimal_to_double";

/// The name of what takes the upper half of a decimal's bits.
const UPPER_HALF: &str = "decimal_upper_half";

/// Digits of a decimal: of all, and behind the point.
pub type Digits = (u8, i8);

/// The operator that a function of this name stands for.
pub fn operator_of(function: &str) -> Option<Operator> {
    OPERATORS.iter().find(|(_, name)| *name == function).map(|(operator, _)| *operator)
}

/// Whether a function of this name is a CAST to DOUBLE.
pub fn is_to_double(function: &str) -> bool {
    function == TO_DOUBLE
}

/// `left operator right` of operands with so many digits; `None` for operators that are not arithmetic.
pub fn arithmetic(
    operator: Operator,
    (left, left_digits): (Expr, Digits),
    (right, right_digits): (Expr, Digits),
) -> Option<Expr> {
    static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 5]> = LazyLock::new(|| {
        OPERATORS.map(|(operator, name)| Arc::new(ScalarUDF::new_from_impl(Arithmetic::new(operator, name))))
    });
    let function = OPERATORS.iter().position(|(known, _)| *known == operator)?;
    if keeps_all_digits(operator, left_digits, right_digits) {
        return Some(datafusion_expr::binary_expr(left, operator, right));
    }
    Some(FUNCTIONS[function].call(vec![left, right]))
}

/// A decimal as the nearest DOUBLE.
pub fn decimal_to_double(decimal: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Arc::new(ScalarUDF::new_from_impl(OfDigits::new(TO_DOUBLE, DataType::Float64))));
    FUNCTION.call(vec![decimal])
}

/// The upper half of a decimal's bits, a BIGINT.
pub fn decimal_upper_half(decimal: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Arc::new(ScalarUDF::new_from_impl(OfDigits::new(UPPER_HALF, DataType::Int64))));
    FUNCTION.call(vec![decimal])
}

/// Digits that all exact results have room in: of all, and behind the point. A quotient that does not end is given as many as Flink does.
fn exact_digits(operator: Operator, (p1, s1): Digits, (p2, s2): Digits) -> (i16, i16) {
    let (p1, s1, p2, s2) = (i16::from(p1), i16::from(s1), i16::from(p2), i16::from(s2));
    let scale = match operator {
        Operator::Multiply => s1 + s2,
        Operator::Divide => (s1 + p2 + 1).max(SCALE_KEPT),
        _ => s1.max(s2),
    };
    let precision = match operator {
        Operator::Multiply => p1 + p2 + 1,
        Operator::Divide => p1 - s1 + s2 + scale,
        Operator::Modulo => (p1 - s1).min(p2 - s2) + scale,
        _ => (p1 - s1).max(p2 - s2) + scale + 1,
    };
    (precision, scale)
}

/// The type of a result, as in Flink: where it would have too many digits it has fewer behind the point.
fn result_digits(operator: Operator, left: Digits, right: Digits) -> Digits {
    let (precision, scale) = exact_digits(operator, left, right);
    let most = i16::from(DIGITS_MAX);
    if precision <= most {
        return (precision as u8, scale as i8);
    }
    let scale = (most - (precision - scale)).max(scale.min(SCALE_KEPT));
    (DIGITS_MAX, scale as i8)
}

/// Whether DataFusion's operator has the same type, and room for all digits on the way.
fn keeps_all_digits(operator: Operator, (p1, s1): Digits, (p2, s2): Digits) -> bool {
    let (precision, scale) = exact_digits(operator, (p1, s1), (p2, s2));
    let whole = (i16::from(p1) - i16::from(s1)).max(i16::from(p2) - i16::from(s2));
    match operator {
        Operator::Divide => false,
        Operator::Modulo => whole + scale <= i16::from(DIGITS_MAX),
        _ => precision <= i16::from(DIGITS_MAX),
    }
}

/// An operator on decimals.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Arithmetic {
    operator: Operator,
    name: &'static str,
    signature: Signature,
}

impl Arithmetic {
    fn new(operator: Operator, name: &'static str) -> Arithmetic {
        Arithmetic { operator, name, signature: Signature::user_defined(Volatility::Immutable) }
    }
}

fn digits_of(data_type: &DataType) -> Result<Digits> {
    match data_type {
        DataType::Decimal128(precision, scale) => Ok((*precision, *scale)),
        other => internal_err!("the planner makes decimals of operands, not {other}"),
    }
}

impl ScalarUDFImpl for Arithmetic {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(types.to_vec())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let (precision, scale) = result_digits(self.operator, digits_of(&types[0])?, digits_of(&types[1])?);
        Ok(DataType::Decimal128(precision, scale))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        // A remainder is no larger than the operands, and what has few digits always fits.
        let (precision, _) = exact_digits(self.operator, digits_of(&types[0])?, digits_of(&types[1])?);
        let may_overflow = self.operator != Operator::Modulo && precision > i16::from(DIGITS_MAX);
        let is_nullable = may_overflow || args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name, self.return_type(&types)?, is_nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = args.args.as_slice() else { return internal_err!("an operator has two operands") };
        let computed = Calculation::new(self.operator, digits_of(&left.data_type())?, digits_of(&right.data_type())?);
        let is_constant = matches!((left, right), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let values = computed.column(&Operand::new(left)?, &Operand::new(right)?, rows)?;
        if is_constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?));
        }
        Ok(ColumnarValue::Array(values))
    }
}

/// A column of decimals, or one that holds for all rows.
struct Operand {
    values: Decimal128Array,
    is_constant: bool,
}

impl Operand {
    fn new(value: &ColumnarValue) -> Result<Operand> {
        let (values, is_constant) = match value {
            ColumnarValue::Array(values) => (values.clone(), false),
            ColumnarValue::Scalar(value) => (value.to_array()?, true),
        };
        Ok(Operand { values: values.as_primitive::<Decimal128Type>().clone(), is_constant })
    }

    fn value(&self, row: usize) -> i128 {
        self.values.value(if self.is_constant { 0 } else { row })
    }

    /// Which rows have a value; `None` where all have.
    fn nulls(&self, rows: usize) -> Option<NullBuffer> {
        match self.is_constant {
            true => (self.values.null_count() > 0).then(|| NullBuffer::new_null(rows)),
            false => self.values.nulls().cloned(),
        }
    }
}

/// What brings operands and the result to their digits behind the point, in integers of one size.
#[derive(Debug, Clone, Copy)]
struct Factors<N> {
    left: N,
    right: N,
    /// What the exact result is divided by.
    result: N,
}

impl<N: ArrowNativeTypeOp> Factors<N> {
    /// From powers of ten; `None` where one of them is too large.
    fn new([left, right, result]: [u32; 3]) -> Option<Factors<N>> {
        let power = |digits| N::usize_as(10).pow_checked(digits).ok();
        Some(Factors { left: power(left)?, right: power(right)?, result: power(result)? })
    }

    /// The result, if nothing on the way is too large. The divisor is not zero.
    fn compute(&self, operator: Operator, left: N, right: N) -> Option<N> {
        let (left, right) = (left.mul_checked(self.left).ok()?, right.mul_checked(self.right).ok()?);
        let exact = match operator {
            Operator::Plus => left.add_checked(right),
            Operator::Minus => left.sub_checked(right),
            Operator::Multiply => left.mul_checked(right),
            Operator::Divide => return quotient(left, right),
            _ => left.mod_checked(right),
        };
        let exact = exact.ok()?;
        if self.result.is_eq(N::ONE) { Some(exact) } else { quotient(exact, self.result) }
    }
}

/// The quotient, the half rounded away from zero.
fn quotient<N: ArrowNativeTypeOp>(dividend: N, divisor: N) -> Option<N> {
    let (whole, rest) = (dividend.div_checked(divisor).ok()?, dividend.mod_checked(divisor).ok()?);
    let absolute = |value: N| if value.is_lt(N::ZERO) { value.neg_checked().ok() } else { Some(value) };
    let (rest, size) = (absolute(rest)?, absolute(divisor)?);
    if rest.is_lt(size.sub_wrapping(rest)) {
        return Some(whole);
    }
    match dividend.is_lt(N::ZERO) == divisor.is_lt(N::ZERO) {
        true => whole.add_checked(N::ONE).ok(),
        false => whole.sub_checked(N::ONE).ok(),
    }
}

/// How results of one operator and types are computed.
struct Calculation {
    operator: Operator,
    result: Digits,
    /// In 128 bits, for operands that leave room.
    narrow: Option<Factors<i128>>,
    /// In 256 bits: what is too large for them is so for the result.
    wide: Factors<i256>,
    /// The first number that the result has no room for.
    limit: i128,
}

impl Calculation {
    fn new(operator: Operator, left: Digits, right: Digits) -> Calculation {
        let result = result_digits(operator, left, right);
        let (s1, s2, scale) = (i16::from(left.1), i16::from(right.1), i16::from(result.1));
        let powers = match operator {
            Operator::Multiply => [0, 0, s1 + s2 - scale],
            Operator::Divide => [(scale + s2 - s1).max(0), (s1 - s2 - scale).max(0), 0],
            _ => [s1.max(s2) - s1, s1.max(s2) - s2, s1.max(s2) - scale],
        };
        let powers = powers.map(|digits| u32::try_from(digits).expect("a result has no more digits than it is given"));
        Calculation {
            operator,
            result,
            narrow: Factors::new(powers),
            wide: Factors::new(powers).expect("256 bits hold 76 digits, as many as two decimals"),
            limit: 10_i128.pow(result.0.into()),
        }
    }

    /// `None` where the result has too many digits.
    fn value(&self, left: i128, right: i128) -> Result<Option<i128>> {
        if right == 0 && matches!(self.operator, Operator::Divide | Operator::Modulo) {
            return Err(ArrowError::DivideByZero.into());
        }
        let narrow = self.narrow.and_then(|factors| factors.compute(self.operator, left, right));
        let computed = narrow.or_else(|| {
            let wide = self.wide.compute(self.operator, i256::from_i128(left), i256::from_i128(right))?;
            wide.to_i128()
        });
        Ok(computed.filter(|value| value.unsigned_abs() < self.limit.unsigned_abs()))
    }

    fn column(&self, left: &Operand, right: &Operand, rows: usize) -> Result<ArrayRef> {
        let nulls = NullBuffer::union(left.nulls(rows).as_ref(), right.nulls(rows).as_ref());
        let values = (0..rows).map(|row| match &nulls {
            Some(nulls) if nulls.is_null(row) => Ok(None),
            _ => self.value(left.value(row), right.value(row)),
        });
        let (precision, scale) = self.result;
        let decimals = values.collect::<Result<Decimal128Array>>()?;
        Ok(Arc::new(decimals.with_data_type(DataType::Decimal128(precision, scale))))
    }
}

/// A number made of a decimal's digits.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OfDigits {
    name: &'static str,
    returns: DataType,
    signature: Signature,
}

impl OfDigits {
    fn new(name: &'static str, returns: DataType) -> OfDigits {
        OfDigits { name, returns, signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for OfDigits {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(types.to_vec())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.returns.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(self.name, self.returns.clone(), args.arg_fields[0].is_nullable())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (_, scale) = digits_of(&args.args[0].data_type())?;
        let made = |values: &ArrayRef| -> ArrayRef {
            let digits = values.as_primitive::<Decimal128Type>();
            match self.returns {
                DataType::Int64 => Arc::new(digits.unary::<_, arrow::datatypes::Int64Type>(upper_half)) as ArrayRef,
                _ => {
                    let doubles = digits.values().iter().map(|&digits| to_double(digits, scale));
                    Arc::new(Float64Array::new(doubles.collect(), digits.nulls().cloned()))
                }
            }
        };
        Ok(match &args.args[0] {
            ColumnarValue::Array(values) => ColumnarValue::Array(made(values)),
            ColumnarValue::Scalar(value) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&made(&value.to_array()?), 0)?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_types_that_flink_gives_them() {
        use Operator::{Divide, Minus, Modulo, Multiply, Plus};
        // By Flink's rules: precision and scale of both operands and of the result.
        let cases = [
            (Plus, (10, 2), (5, 4), (13, 4)),
            (Minus, (38, 2), (38, 2), (38, 2)),
            (Plus, (38, 10), (38, 20), (38, 9)),
            (Multiply, (3, 3), (19, 0), (23, 3)),
            (Multiply, (38, 2), (10, 2), (38, 4)),
            (Multiply, (20, 10), (20, 10), (38, 17)),
            (Multiply, (38, 20), (38, 20), (38, 6)),
            (Divide, (2, 1), (2, 1), (8, 6)),
            (Divide, (10, 2), (10, 2), (23, 13)),
            (Divide, (38, 0), (38, 38), (38, 6)),
            (Divide, (38, 38), (38, 0), (38, 38)),
            (Modulo, (10, 2), (5, 4), (5, 4)),
        ];
        for (operator, left, right, result) in cases {
            assert_eq!(result_digits(operator, left, right), result, "{left:?} {operator} {right:?}");
        }
    }

    #[test]
    fn results_are_exact_and_rounded_once() {
        let most = 10_i128.pow(38) - 1;
        let value = |operator, left: (i128, Digits), right: (i128, Digits)| {
            Calculation::new(operator, left.1, right.1).value(left.0, right.0).expect("nothing is divided by zero")
        };
        // 2.0 / 3.0 and -2.0 / 3.0
        assert_eq!(value(Operator::Divide, (20, (2, 1)), (30, (2, 1))), Some(666_667));
        assert_eq!(value(Operator::Divide, (-20, (2, 1)), (30, (2, 1))), Some(-666_667));
        assert_eq!(value(Operator::Plus, (most, (38, 0)), (0, (1, 0))), Some(most));
        assert_eq!(value(Operator::Plus, (most, (38, 0)), (1, (1, 0))), None);
        assert_eq!(value(Operator::Minus, (-most, (38, 0)), (most, (38, 0))), None);
        // 0.5 * 10^-37 of 38 digits behind the point: what is kept are six of them.
        assert_eq!(value(Operator::Multiply, (most, (38, 20)), (most, (38, 20))), None);
        assert_eq!(value(Operator::Multiply, (5, (38, 20)), (10_i128.pow(33), (38, 20))), Some(1));
        assert_eq!(value(Operator::Multiply, (5, (38, 20)), (10_i128.pow(33) - 1, (38, 20))), Some(0));
        // 256 bits do not hold the dividend, and 38 digits not the quotient.
        assert_eq!(value(Operator::Divide, (most, (38, 0)), (most, (38, 38))), None);
        assert_eq!(value(Operator::Divide, (1, (38, 0)), (most, (38, 38))), Some(1_000_000));
        // The dividend at the divisor's scale has 76 digits.
        assert_eq!(value(Operator::Modulo, (most, (38, 0)), (7, (38, 38))), Some(2));
        let by_zero = Calculation::new(Operator::Divide, (2, 1), (2, 1)).value(1, 0);
        assert!(by_zero.is_err());
    }
}
