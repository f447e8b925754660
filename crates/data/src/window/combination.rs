//! How windows are put together from their slices.

use super::Window;
use crate::aggregate::{Accumulate, Accumulator};
use crate::udaf::Merging;

/// How a window is put together from its slices: what a generalized aggregation graph (LightSaber, section 5) is reduced to by
/// the windows and by what the accumulators' algebra allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Combination {
    /// Each window is one slice.
    Single,
    /// Each window's slices are combined anew.
    Recompute,
    /// A running window, which a slice is added to when it comes and subtracted from when it leaves. Accumulators that cannot be subtracted are
    /// combined anew for each window.
    SubtractOnEvict,
    /// Suffixes of the older slices, and a running prefix of the younger: nothing is ever subtracted.
    TwoStacks,
    /// A running window that slices are added to, and that begins anew with each period.
    Prefix,
    /// No slices: each window has its own table, and a row is added to all of its windows. To compare slices with.
    Buckets,
    /// What a slice has of each key is merged with the session of the key that it touches.
    Merge,
}

/// Up to this many slices combining them anew is no more work than two stacks are: these combine four tables a slice.
const RECOMPUTED_SLICES_MAX: i64 = 4;

impl Combination {
    /// The cheapest for these windows and accumulators. Floating-point sums are never subtracted: they would drift. Lists of values, and sets of values
    /// in the order in which they came, are put together for each window: suffixes would hold each value once for each slice before it. Sets that
    /// count how often each value came are subtracted, whatever else there is, which is put together for each window then: it is much less.
    /// What rows without keys have, one slice behind the other, lies side by side in two stacks, where many windows are a few operations: it is not
    /// subtracted.
    pub fn choose(window: &Window, accumulators: &[Accumulator], has_keys: bool) -> Combination {
        let has_references = accumulators.iter().any(Accumulator::has_reference);
        match window {
            Window::Zoned(window) => Combination::choose(&window.by_clock(), accumulators, has_keys),
            Window::Tumbling { .. } | Window::Counted | Window::Global => Combination::Single,
            Window::Cumulative { .. } => Combination::Prefix,
            Window::Session { .. } => Combination::Merge,
            Window::RowsByKey { .. } if window.slices_max() == 1 => Combination::Single,
            Window::RowsByKey { .. } => match window.slices_max() {
                ..=RECOMPUTED_SLICES_MAX => Combination::Recompute,
                _ if has_references => Combination::Recompute,
                _ => Combination::TwoStacks,
            },
            Window::Rows { .. } if !has_keys && !has_references && window.slices_max() > RECOMPUTED_SLICES_MAX => {
                Combination::TwoStacks
            }
            Window::Hopping { .. } | Window::Rows { .. } => {
                let is_invertible = accumulators.iter().all(|kept| kept.accumulate.is_invertible());
                let counts_values = accumulators.iter().any(|kept| kept.accumulate.counts_values());
                let keeps_lists = accumulators.iter().any(|kept| kept.accumulate.keeps_lists());
                match window.slices_max() {
                    1 => Combination::Single,
                    _ if !window.evicts_slices() => Combination::Recompute,
                    _ if is_invertible || counts_values => Combination::SubtractOnEvict,
                    _ if keeps_lists => Combination::Recompute,
                    ..=RECOMPUTED_SLICES_MAX => Combination::Recompute,
                    _ => Combination::TwoStacks,
                }
            }
        }
    }
}

impl Accumulate {
    /// Whether what is kept grows with each value, and none can be taken away again.
    pub fn keeps_lists(self) -> bool {
        use Accumulate::{Arrivals, Distinct, Udaf, Values};
        matches!(self, Values | Arrivals | Distinct { is_ordered: true } | Udaf(Merging::Rows))
    }

    /// Whether each distinct value is kept with how often it came.
    pub fn counts_values(self) -> bool {
        matches!(self, Accumulate::Distinct { is_ordered: false } | Accumulate::Frequencies)
    }

    /// Whether what was added can be taken away again, exactly.
    pub fn is_invertible(self) -> bool {
        match self {
            Accumulate::Count
            | Accumulate::SumInteger
            | Accumulate::SumWide
            | Accumulate::SumSquares128
            | Accumulate::SumSquares192
            | Accumulate::Distinct { is_ordered: false }
            | Accumulate::Frequencies
            | Accumulate::Udaf(Merging::Invert) => true,
            Accumulate::SumFloat
            | Accumulate::SumFloatWide
            | Accumulate::SumSquares
            | Accumulate::Minimum
            | Accumulate::Maximum
            | Accumulate::First
            | Accumulate::Last
            | Accumulate::Values
            | Accumulate::Arrivals
            | Accumulate::Distinct { is_ordered: true }
            | Accumulate::DistinctSketch
            | Accumulate::Udaf(Merging::Rows | Merging::Combine) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_that_count_their_values_are_subtracted_beside_whatever_else_there_is() {
        use Accumulate::{Distinct, Frequencies, Minimum, SumInteger, Values};
        let choose = |size, accumulates: &[Accumulate]| {
            let accumulators: Vec<_> = accumulates.iter().map(|kept| Accumulator::new(*kept, None, false)).collect();
            Combination::choose(&Window::Hopping { size, slide: 1, offset: 0 }, &accumulators, true)
        };
        let (set, in_order) = (Distinct { is_ordered: false }, Distinct { is_ordered: true });
        for beside in [&[][..], &[SumInteger], &[Minimum], &[Values], &[in_order]] {
            for set in [set, Frequencies] {
                assert_eq!(choose(100, &[&[set], beside].concat()), Combination::SubtractOnEvict, "{beside:?}");
            }
        }
        assert_eq!(choose(100, &[Minimum, in_order]), Combination::Recompute);
        assert_eq!(choose(100, &[Minimum, SumInteger]), Combination::TwoStacks);
        assert_eq!(choose(2, &[set]), Combination::Recompute);
        let of_rows = |has_keys| {
            Combination::choose(&Window::Rows { size: 100, slide: 1 }, &[Accumulator::counting_rows()], has_keys)
        };
        assert_eq!((of_rows(false), of_rows(true)), (Combination::TwoStacks, Combination::SubtractOnEvict));
    }
}
