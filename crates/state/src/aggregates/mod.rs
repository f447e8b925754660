//! Aggregates whose state is a value, each defined once: the state of no values, of one value, of two groups of values together, and, where
//! that is possible, of what is left when a group leaves again. What is computed of states in the end is defined beside them.
//!
//! Windows and OVER use the same definitions. Entries of a [`table`](crate::table) hold states, which [`Accumulate`] names; frames of OVER
//! combine them value by value. All definitions are inlined into loops over columns: none is chosen for a value.
//!
//! Aggregates that keep values themselves are groups' lists, sets and sketches (`table/stores`), strings (`table/extremes`) and values with
//! their positions (`table/arrivals`); those of `functions` and of programs have states of their own (`pelton_data::udaf`).

mod count;

mod sum;

mod extreme;

mod variance;

mod mean;

use std::fmt::Debug;

use pelton_data::aggregate::{Accumulate, Accumulator};

use crate::layout::value_type;

pub use self::count::Count;
pub use self::extreme::{Maximum, Minimum};
pub use self::mean::integer_mean;
pub use self::sum::{SumDecimal, SumFloat, SumFloatWide, SumInteger, SumWide};
pub use self::variance::{
    FloatVariance, IntegerVariance, NoVariance, SumSquares, SumSquares128, SumSquares192, Variance,
};

/// No state has more bytes.
pub const STATE_BYTES_MAX: usize = 24;

/// An aggregate whose state is a value.
pub trait Aggregate {
    /// What is kept of values.
    type State: Copy + Debug + 'static;

    /// The state of no values, which changes no other.
    const EMPTY: Self::State;

    /// The empty state as an entry holds it, in its first bytes. Zero is that of all but extremes.
    fn empty_bytes() -> [u8; STATE_BYTES_MAX] {
        [0; STATE_BYTES_MAX]
    }

    /// Whether states are the very same however values are grouped. Otherwise they are up to rounding.
    const IS_EXACT: bool;

    /// Whether values can leave again, without loss.
    const IS_INVERTIBLE: bool;

    /// The state of the values of both.
    fn combine(older: Self::State, younger: Self::State) -> Self::State;

    /// The state without the values of one that was combined with it.
    ///
    /// # Panics
    /// Where the aggregate is not invertible.
    fn invert(_all: Self::State, _leaving: Self::State) -> Self::State {
        unreachable!("only what is invertible is subtracted")
    }

    /// The state where one value enters and another leaves.
    ///
    /// # Panics
    /// As [`Aggregate::invert`].
    #[inline]
    fn slide(all: Self::State, entering: Self::State, leaving: Self::State) -> Self::State {
        Self::invert(Self::combine(all, entering), leaving)
    }
}

/// An aggregate of values of a type.
pub trait Takes<V>: Aggregate {
    /// The state of one value.
    fn of(value: V) -> Self::State;

    /// The state with one value more.
    #[inline(always)]
    fn add(state: Self::State, value: V) -> Self::State {
        Self::combine(state, Self::of(value))
    }
}

/// What is done with the aggregate of an accumulator, whichever it is.
pub(crate) trait Visitor {
    type Output;

    fn visit<A: Aggregate>(self) -> Self::Output;
}

/// Hands the aggregate of an accumulator to a visitor; `None` where the accumulator's state is not a value, but refers to something beside it.
pub(crate) fn visit<V: Visitor>(accumulator: &Accumulator, visitor: V) -> Option<V::Output> {
    Some(match accumulator.accumulate {
        Accumulate::Count => visitor.visit::<Count>(),
        Accumulate::SumInteger => visitor.visit::<SumInteger>(),
        Accumulate::SumWide => visitor.visit::<SumWide>(),
        Accumulate::SumFloat => visitor.visit::<SumFloat>(),
        Accumulate::SumFloatWide => visitor.visit::<SumFloatWide>(),
        Accumulate::SumSquares => visitor.visit::<SumSquares>(),
        Accumulate::SumSquares128 => visitor.visit::<SumSquares128>(),
        Accumulate::SumSquares192 => visitor.visit::<SumSquares192>(),
        Accumulate::Minimum => return extreme::visit_minimum(value_type(accumulator), visitor),
        Accumulate::Maximum => return extreme::visit_maximum(value_type(accumulator), visitor),
        Accumulate::First
        | Accumulate::Last
        | Accumulate::Values
        | Accumulate::Arrivals
        | Accumulate::Distinct { .. }
        | Accumulate::Frequencies
        | Accumulate::DistinctSketch
        | Accumulate::Udaf(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;

    use super::*;

    struct IsInvertible;

    impl Visitor for IsInvertible {
        type Output = bool;

        fn visit<A: Aggregate>(self) -> bool {
            A::IS_INVERTIBLE
        }
    }

    #[test]
    fn plans_subtract_what_can_be_subtracted() {
        use Accumulate::{
            Count, Maximum, Minimum, SumFloat, SumFloatWide, SumInteger, SumSquares, SumSquares128, SumSquares192,
            SumWide,
        };
        let all = [
            Count,
            SumInteger,
            SumWide,
            SumFloat,
            SumFloatWide,
            SumSquares,
            SumSquares128,
            SumSquares192,
            Minimum,
            Maximum,
        ];
        for accumulate in all {
            let accumulator = Accumulator::new(accumulate, Some(DataType::Int64), false);
            assert_eq!(visit(&accumulator, IsInvertible), Some(accumulate.is_invertible()), "{accumulate:?}");
        }
    }
}
