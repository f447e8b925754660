//! Expressions that are a multiple of one column plus a constant, exactly: what is compared with a constant then bounds the column.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion_expr::Operator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, CastExpr, Column, Literal};

use super::graph::Bounds;
use crate::select::number;

/// `factor * column + addend`, in integers (of decimals their digits). The factor is not zero; no value of the column overflows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Linear {
    /// Which column of the pipeline.
    pub(crate) column: usize,
    /// What its value is multiplied with.
    pub(crate) factor: i128,
    /// What is added then.
    pub(crate) addend: i128,
}

/// Bounds that nothing lies between.
const NOTHING: (i128, i128) = (i128::MAX, i128::MIN);

impl Linear {
    /// The form of an expression over integers or decimals; `None` where it has none, or may wrap or fail for some value.
    pub(crate) fn of(expression: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<Linear> {
        let data_type = expression.data_type(schema).ok()?;
        scale(&data_type)?;
        if let Some(column) = expression.downcast_ref::<Column>() {
            return Some(Linear { column: column.index(), factor: 1, addend: 0 });
        }
        if let Some(cast) = expression.downcast_ref::<CastExpr>() {
            let from = scale(&cast.expr().data_type(schema).ok()?)?;
            let linear = Linear::of(cast.expr(), schema)?.raised(scale(&data_type)?.checked_sub(from)?)?;
            return linear.fitting(&data_type, schema);
        }
        let binary = expression.downcast_ref::<BinaryExpr>()?;
        let (operand, constant, constant_first) = match (literal(binary.left()), literal(binary.right())) {
            (None, Some(constant)) => (binary.left(), constant, false),
            (Some(constant), None) => (binary.right(), constant, true),
            _ => return None,
        };
        let linear = Linear::of(operand, schema)?;
        let scales = (scale(&operand.data_type(schema).ok()?)?, constant.1);
        let linear = match binary.op() {
            Operator::Multiply if scales.0 + scales.1 == scale(&data_type)? => linear.times(constant.0)?,
            Operator::Plus | Operator::Minus if scales.0.max(scales.1) == scale(&data_type)? => {
                let linear = linear.raised(scale(&data_type)? - scales.0)?;
                let constant = constant.0.checked_mul(power_of_ten(scale(&data_type)? - scales.1)?)?;
                match (binary.op(), constant_first) {
                    (Operator::Plus, _) => linear.plus(constant)?,
                    (_, false) => linear.plus(constant.checked_neg()?)?,
                    (_, true) => linear.times(-1)?.plus(constant)?,
                }
            }
            _ => return None,
        };
        linear.fitting(&data_type, schema)
    }

    /// The values of the column for which the expression lies between `low` and `high`, both inclusive; the smallest and largest number
    /// stand for open ends.
    pub(crate) fn preimage(self, (low, high): (i128, i128)) -> (i128, i128) {
        // A bound that the addition takes beyond all numbers is beyond all values.
        let low = match low.checked_sub(self.addend) {
            _ if low == i128::MIN => None,
            None if self.addend < 0 => return NOTHING,
            low => low,
        };
        let high = match high.checked_sub(self.addend) {
            _ if high == i128::MAX => None,
            None if self.addend > 0 => return NOTHING,
            high => high,
        };
        let (first, last) = if self.factor > 0 { (low, high) } else { (high, low) };
        let down = |bound: i128| {
            let is_above = bound % self.factor != 0 && (bound < 0) != (self.factor < 0);
            bound / self.factor - i128::from(is_above)
        };
        let up = |bound: i128| down(bound) + i128::from(bound % self.factor != 0);
        (first.map_or(i128::MIN, up), last.map_or(i128::MAX, down))
    }

    fn times(self, factor: i128) -> Option<Linear> {
        let Linear { column, factor: own, addend } = self;
        let product = Linear { column, factor: own.checked_mul(factor)?, addend: addend.checked_mul(factor)? };
        (product.factor != 0).then_some(product)
    }

    fn plus(self, addend: i128) -> Option<Linear> {
        Some(Linear { addend: self.addend.checked_add(addend)?, ..self })
    }

    /// With so many more digits behind the point.
    fn raised(self, digits: i8) -> Option<Linear> {
        self.times(power_of_ten(digits)?)
    }

    /// Itself, where the type holds what becomes of every value of the column.
    fn fitting(self, data_type: &DataType, schema: &Schema) -> Option<Linear> {
        let column = Bounds::of(schema.field(self.column).data_type())?;
        let at = |value: i128| value.checked_mul(self.factor)?.checked_add(self.addend);
        let ends = Bounds::hull([at(column.min), at(column.max)])?;
        ends.fits(Bounds::of(data_type)?).then_some(self)
    }
}

/// Digits behind the point; `None` for what is neither an integer nor a decimal.
fn scale(data_type: &DataType) -> Option<i8> {
    match data_type {
        DataType::Decimal128(_, scale) => Some(*scale),
        integer if integer.is_integer() => Some(0),
        _ => None,
    }
}

fn power_of_ten(digits: i8) -> Option<i128> {
    10i128.checked_pow(u32::try_from(digits).ok()?)
}

/// The digits of a constant, and how many stand behind the point.
fn literal(expression: &Arc<dyn PhysicalExpr>) -> Option<(i128, i8)> {
    let value = expression.downcast_ref::<Literal>()?.value();
    Some((number(&value.data_type(), value)?, scale(&value.data_type())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_beyond_all_numbers_are_beyond_all_values() {
        let linear = |addend| Linear { column: 0, factor: 1, addend };
        assert_eq!(linear(-2).preimage((i128::MAX - 1, i128::MAX)), NOTHING);
        assert_eq!(linear(2).preimage((i128::MIN, i128::MIN + 1)), NOTHING);
        assert_eq!(linear(-2).preimage((0, i128::MAX - 1)), (2, i128::MAX));
        assert_eq!(linear(2).preimage((i128::MIN + 1, 0)), (i128::MIN, -2));
    }

    #[test]
    fn a_preimage_holds_exactly_the_values_whose_images_lie_between_the_bounds() {
        for factor in [-7, -2, -1, 1, 2, 3, 10] {
            for addend in [-5, 0, 4] {
                let linear = Linear { column: 0, factor, addend };
                for bounds in [(-20, 20), (-3, 3), (0, 0), (1, 2), (5, 4), (i128::MIN, 1), (-1, i128::MAX)] {
                    let (first, last) = linear.preimage(bounds);
                    for value in -50..50 {
                        let image = factor * value + addend;
                        let lies_between = bounds.0 <= image && image <= bounds.1;
                        assert_eq!((first..=last).contains(&value), lies_between, "{linear:?} {bounds:?} {value}");
                    }
                }
            }
        }
    }
}
