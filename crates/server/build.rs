//! How the program is linked.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |what: &str| env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    if !is_release || target("ARCH") != "x86_64" || target("OS") != "linux" || target("ENV") != "gnu" {
        return;
    }
    // The linker that comes with Rust for this target makes one of functions that are the same, of which generic code has many: the
    // program is a twentieth smaller. Others may not know the option.
    println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    // Addresses that the loader puts in their places take a bit each instead of 24 bytes: a fourteenth of the program. An older loader
    // would refuse to start it, so that this is done only where the program is built for the system that builds it.
    if env::var("HOST") == env::var("TARGET") && loader_unpacks_addresses() {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Whether the C library of this system is glibc 2.36 or newer, the first whose loader reads packed addresses.
fn loader_unpacks_addresses() -> bool {
    let Ok(output) = Command::new("getconf").arg("GNU_LIBC_VERSION").output() else {
        return false;
    };
    let answer = String::from_utf8_lossy(&output.stdout);
    let version = answer.trim().strip_prefix("glibc ").and_then(|version| version.split_once('.'));
    let numbers =
        version.and_then(|(major, minor)| Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?)));
    numbers.is_some_and(|numbers: (u32, u32)| numbers >= (2, 36))
}
