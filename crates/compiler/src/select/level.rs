//! Which vector instructions primitives use.

use std::sync::LazyLock;

/// A set of vector instructions. Primitives have one implementation for each, and all give the same result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(Instructions);

/// A [`Level`]'s instructions. A level is only made where the processor has them: primitives rely on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Instructions {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
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

    pub(crate) fn instructions(self) -> Instructions {
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

/// Runs an inline function compiled for a level's instructions.
///
/// `at_level!(level, function::<Types>(arguments: Types) -> Result)`: the function must be `#[inline(always)]`, and is compiled three times.
macro_rules! at_level {
    ($level:expr, $function:ident $(::<$($generic:ident : $bound:path),*>)? ( $($argument:ident : $type:ty),* ) $(-> $result:ty)?) => {{
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
        fn avx2 $(<$($generic: $bound),*>)? ($($argument: $type),*) $(-> $result)? {
            $function $(::<$($generic),*>)? ($($argument),*)
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt,lzcnt")]
        fn avx512 $(<$($generic: $bound),*>)? ($($argument: $type),*) $(-> $result)? {
            $function $(::<$($generic),*>)? ($($argument),*)
        }
        match $level.instructions() {
            $crate::select::Instructions::Portable => $function $(::<$($generic),*>)? ($($argument),*),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a level is only made where the processor has its instructions.
            $crate::select::Instructions::Avx2 => unsafe { avx2 $(::<$($generic),*>)? ($($argument),*) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            $crate::select::Instructions::Avx512 => unsafe { avx512 $(::<$($generic),*>)? ($($argument),*) },
        }
    }};
}

pub(crate) use at_level;
