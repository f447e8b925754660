//! Loops compiled for the vector instructions that the processor has.

#[cfg(target_arch = "x86_64")]
use std::sync::LazyLock;

/// Does work whose loops are compiled for the best vector instructions that are there. What it calls must be inlined to be compiled with it; the
/// result is the same everywhere. A closure that is not `#[inline(always)]` may not be inlined.
#[inline(always)]
pub(crate) fn vectorised<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
        fn avx2<R>(work: impl FnOnce() -> R) -> R {
            work()
        }
        static IS_THERE: LazyLock<bool> = LazyLock::new(|| {
            is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("popcnt")
                && is_x86_feature_detected!("lzcnt")
        });
        if *IS_THERE {
            // SAFETY: the processor has all of these instructions: it was asked.
            return unsafe { avx2(work) };
        }
    }
    work()
}
