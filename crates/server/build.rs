//! How the program is linked.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |what: &str| env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    // The linker that comes with Rust for this target makes one of functions that are the same, of which generic code has many: the
    // program is a twentieth smaller. Others may not know the option.
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    if is_release && target("ARCH") == "x86_64" && target("OS") == "linux" && target("ENV") == "gnu" {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}
