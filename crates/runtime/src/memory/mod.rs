//! Memory: what queries may take, and pages that are prepared before they are needed.

pub mod budget;

#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) mod pages;
