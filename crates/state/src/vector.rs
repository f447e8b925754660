//! Loops compiled for the vector instructions that the processor has, and memory asked for before they need it.

#[cfg(target_arch = "x86_64")]
use std::sync::LazyLock;

/// Does work whose loops are compiled for the best vector instructions that are there. What it calls must be inlined to be compiled with it; the
/// result is the same everywhere. A closure that is not `#[inline(always)]` may not be inlined.
#[inline(always)]
pub(crate) fn vectorised<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt,lzcnt")]
        fn avx512<R>(work: impl FnOnce() -> R) -> R {
            work()
        }
        #[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
        fn avx2<R>(work: impl FnOnce() -> R) -> R {
            work()
        }
        match *LEVEL {
            // SAFETY: the processor has all of these instructions: it was asked.
            Level::Avx512 => return unsafe { avx512(work) },
            // SAFETY: as above.
            Level::Avx2 => return unsafe { avx2(work) },
            Level::Any => {}
        }
    }
    work()
}

/// Which vector instructions there are.
#[cfg(target_arch = "x86_64")]
enum Level {
    Avx512,
    Avx2,
    Any,
}

#[cfg(target_arch = "x86_64")]
static LEVEL: LazyLock<Level> = LazyLock::new(|| {
    let has_avx2 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("popcnt")
        && is_x86_feature_detected!("lzcnt");
    let has_avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    match (has_avx2, has_avx512) {
        (true, true) => Level::Avx512,
        (true, false) => Level::Avx2,
        _ => Level::Any,
    }
});

/// Asks for the line at `address` to be brought into the second-level cache: more of these are waited for at a time than of those into the first.
#[inline(always)]
pub(crate) fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint: it reads nothing and cannot fault, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// A line of the cache, in bytes.
pub(crate) const LINE_BYTES: usize = 64;

/// How far before they are read columns that come are asked for, in bytes.
pub(crate) const AHEAD_BYTES: usize = 4096;

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
pub(crate) fn extend_asking<V: Copy, O: Copy>(out: &mut Vec<O>, values: &[V], mut map: impl FnMut(V) -> O) {
    let (groups, rest) = values.as_chunks::<8>();
    out.reserve(values.len());
    for group in groups {
        prefetch_behind(group, AHEAD_BYTES);
        out.extend_from_slice(&group.map(&mut map));
    }
    out.extend(rest.iter().map(|&value| map(value)));
}

/// Copies values of a column, and asks for those that follow.
#[inline]
pub(crate) fn copy_asking<V: Copy>(out: &mut [V], values: &[V]) {
    let ((groups, rest), (out_groups, out_rest)) = (values.as_chunks::<8>(), out.as_chunks_mut::<8>());
    for (group, out) in groups.iter().zip(out_groups) {
        prefetch_behind(group, AHEAD_BYTES);
        *out = *group;
    }
    out_rest.copy_from_slice(rest);
}

/// Appends what becomes of the values of two columns as long as each other, pair by pair, and asks for those that follow both.
#[inline(always)]
pub(crate) fn extend_asking_both<V: Copy, O: Copy>(
    out: &mut Vec<O>,
    values: &[V],
    others: &[V],
    mut map: impl FnMut(V, V) -> O,
) {
    let ((groups, rest), (other_groups, other_rest)) = (values.as_chunks::<8>(), others.as_chunks::<8>());
    out.reserve(values.len());
    for (group, others) in groups.iter().zip(other_groups) {
        prefetch_behind(group, AHEAD_BYTES);
        prefetch_behind(others, AHEAD_BYTES);
        out.extend_from_slice(&std::array::from_fn::<O, 8, _>(|at| map(group[at], others[at])));
    }
    out.extend(rest.iter().zip(other_rest).map(|(&value, &other)| map(value, other)));
}
