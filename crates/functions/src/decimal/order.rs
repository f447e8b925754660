//! Which of two decimals is greater, whatever their digits: no DECIMAL need hold both.

use std::cmp::Ordering;
use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, Int8Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{ArrowNativeTypeOp, DataType, i256};
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, binary_expr,
    lit,
};

use super::{DIGITS_MAX, Digits, Operand, digits_of};

/// `left operator right` of operands with so many digits, where no DECIMAL holds the values of both; `None` where one does, or the operator does not compare, or
/// tells NULL from values.
pub fn comparison(
    operator: Operator,
    (left, (p1, s1)): (Expr, Digits),
    (right, (p2, s2)): (Expr, Digits),
) -> Option<Expr> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::new_from_impl(Order::new())));
    use Operator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    let whole = (i16::from(p1) - i16::from(s1)).max(i16::from(p2) - i16::from(s2));
    let has_room = whole + i16::from(s1.max(s2)) <= i16::from(DIGITS_MAX);
    if has_room || !matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq) {
        return None;
    }
    Some(binary_expr(FUNCTION.call(vec![left, right]), operator, lit(0_i8)))
}

/// -1 where the first decimal is less than the second, 0 where they are equal, 1 where it is greater.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Order {
    signature: Signature,
}

impl Order {
    fn new() -> Order {
        Order { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Order {
    fn name(&self) -> &str {
        "decimal_compare"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(types.to_vec())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = args.args.as_slice() else { return internal_err!("two decimals are compared") };
        let scales = (digits_of(&left.data_type())?.1, digits_of(&right.data_type())?.1);
        let is_constant = matches!((left, right), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let (left, right) = (Operand::new(left)?, Operand::new(right)?);
        let nulls = NullBuffer::union(left.nulls(rows).as_ref(), right.nulls(rows).as_ref());
        let factors = factors(scales);
        let signs = (0..rows).map(|row| order((left.value(row), right.value(row)), factors) as i8);
        let signs: ArrayRef = Arc::new(Int8Array::new(signs.collect(), nulls));
        if is_constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&signs, 0)?));
        }
        Ok(ColumnarValue::Array(signs))
    }
}

/// What brings decimals with so many digits behind the point to as many.
fn factors((s1, s2): (i8, i8)) -> (i256, i256) {
    let power = |digits: i8| i256::from_i128(10).pow_wrapping(digits.unsigned_abs().into());
    (power(s1.max(s2) - s1), power(s1.max(s2) - s2))
}

/// 256 bits hold 76 digits, as many as two decimals.
fn order((left, right): (i128, i128), (left_factor, right_factor): (i256, i256)) -> Ordering {
    i256::from_i128(left).wrapping_mul(left_factor).cmp(&i256::from_i128(right).wrapping_mul(right_factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_without_a_common_type_are_compared_by_value() {
        let most = 10_i128.pow(38) - 1;
        let compared = |left, right, scales| order((left, right), factors(scales));
        // 99…9 against 0.99…9, and against its negative
        assert_eq!(compared(most, most, (0, 38)), Ordering::Greater);
        assert_eq!(compared(-most, most, (0, 38)), Ordering::Less);
        assert_eq!(compared(most, most, (38, 0)), Ordering::Less);
        // 2 against 2.00…0
        assert_eq!(compared(2, 2 * 10_i128.pow(37), (0, 37)), Ordering::Equal);
        assert_eq!(compared(2, 2 * 10_i128.pow(37) + 1, (0, 37)), Ordering::Less);
        assert_eq!(compared(-2, -2 * 10_i128.pow(37) - 1, (0, 37)), Ordering::Greater);
    }
}
