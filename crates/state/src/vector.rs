//! Loops compiled for the vector instructions that the processor has, and memory asked for before they need it.

use std::sync::LazyLock;

/// A set of vector instructions. Primitives have one implementation for each, and all give the same result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(Instructions);

/// A [`Level`]'s instructions. A level is only made where the processor has them: primitives rely on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Instructions {
    /// Those of every processor.
    Portable,
    /// AVX2, BMI1, BMI2, POPCNT and LZCNT.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// These, and F, BW, DQ and VL of AVX-512.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Level {
    /// What every processor has.
    pub const PORTABLE: Level = Level(Instructions::Portable);

    /// The best that this processor has.
    pub fn best() -> Level {
        static BEST: LazyLock<Level> =
            LazyLock::new(|| Level::available().pop().expect("every processor has the portable level"));
        *BEST
    }

    /// All that this processor has, the best last.
    pub fn available() -> Vec<Level> {
        #[allow(unused_mut, reason = "other processors have no further levels yet")]
        let mut levels = vec![Level::PORTABLE];
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("popcnt")
                && is_x86_feature_detected!("lzcnt");
            if avx2 {
                levels.push(Level(Instructions::Avx2));
            }
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            if avx2 && avx512 {
                levels.push(Level(Instructions::Avx512));
            }
        }
        levels
    }

    /// Which these are.
    #[inline]
    pub fn instructions(self) -> Instructions {
        self.0
    }
}

impl std::fmt::Display for Level {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            Instructions::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => "AVX2",
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => "AVX-512",
        })
    }
}

/// Does work whose loops are compiled for the best vector instructions that are there. What it calls must be inlined to be compiled with it; the
/// result is the same everywhere. A closure that is not `#[inline(always)]` may not be inlined.
#[inline(always)]
pub(crate) fn vectorised<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt,lzcnt")]
    fn avx512<R>(work: impl FnOnce() -> R) -> R {
        work()
    }
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
    fn avx2<R>(work: impl FnOnce() -> R) -> R {
        work()
    }
    match Level::best().instructions() {
        Instructions::Portable => work(),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a level is only made where the processor has its instructions.
        Instructions::Avx2 => unsafe { avx2(work) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Instructions::Avx512 => unsafe { avx512(work) },
    }
}

/// Asks for the line at `address` to be brought into the second-level cache: more of these are waited for at a time than of those into the first.
#[inline(always)]
pub fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint: it reads nothing and cannot fault, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// A line of the cache, in bytes.
pub const LINE_BYTES: usize = 64;

/// How far before they are read columns that come are asked for, in bytes.
pub(crate) const PREFETCH_BYTES: usize = 4096;

/// Asks for what is so many bytes behind the beginning of some values of a column, as many as there are of them. Loops that stop and begin anew each few thousand bytes
/// would otherwise wait for memory each time.
#[inline(always)]
pub(crate) fn prefetch_behind<V, const COUNT: usize>(values: &[V; COUNT], bytes: usize) {
    for line in (0..size_of_val(values)).step_by(LINE_BYTES) {
        prefetch(values.as_ptr().cast::<u8>().wrapping_add(line + bytes));
    }
}

/// Appends what becomes of the values of a column, and asks for those that follow.
#[inline(always)]
pub(crate) fn extend_prefetching<V: Copy, O: Copy>(out: &mut Vec<O>, values: &[V], mut map: impl FnMut(V) -> O) {
    let (groups, rest) = values.as_chunks::<8>();
    out.reserve(values.len());
    for group in groups {
        prefetch_behind(group, PREFETCH_BYTES);
        out.extend_from_slice(&group.map(&mut map));
    }
    out.extend(rest.iter().map(|&value| map(value)));
}

/// Copies values of a column, and asks for those that follow.
#[inline]
pub(crate) fn copy_prefetching<V: Copy>(out: &mut [V], values: &[V]) {
    let ((groups, rest), (out_groups, out_rest)) = (values.as_chunks::<8>(), out.as_chunks_mut::<8>());
    for (group, out) in groups.iter().zip(out_groups) {
        prefetch_behind(group, PREFETCH_BYTES);
        *out = *group;
    }
    out_rest.copy_from_slice(rest);
}

/// Appends what becomes of the values of two columns as long as each other, pair by pair, and asks for those that follow both.
#[inline(always)]
pub(crate) fn extend_prefetching_both<V: Copy, O: Copy>(
    out: &mut Vec<O>,
    values: &[V],
    others: &[V],
    mut map: impl FnMut(V, V) -> O,
) {
    let ((groups, rest), (other_groups, other_rest)) = (values.as_chunks::<8>(), others.as_chunks::<8>());
    out.reserve(values.len());
    for (group, others) in groups.iter().zip(other_groups) {
        prefetch_behind(group, PREFETCH_BYTES);
        prefetch_behind(others, PREFETCH_BYTES);
        out.extend_from_slice(&std::array::from_fn::<O, 8, _>(|at| map(group[at], others[at])));
    }
    out.extend(rest.iter().zip(other_rest).map(|(&value, &other)| map(value, other)));
}
