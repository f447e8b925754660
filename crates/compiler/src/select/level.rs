//! Functions compiled for each set of vector instructions.

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
            pelton_state::vector::Instructions::Portable => $function $(::<$($generic),*>)? ($($argument),*),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a level is only made where the processor has its instructions.
            pelton_state::vector::Instructions::Avx2 => unsafe { avx2 $(::<$($generic),*>)? ($($argument),*) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            pelton_state::vector::Instructions::Avx512 => unsafe { avx512 $(::<$($generic),*>)? ($($argument),*) },
        }
    }};
}

pub(crate) use at_level;
