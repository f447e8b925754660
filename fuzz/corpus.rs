//! Kept inputs of the fuzz targets, and seeded mutations of them: what ordinary tests run of each target.
//!
//! The tests of a target's crate take this file in with `#[path]`. A kept input either reaches code that no smaller one
//! reaches, or has broken something once.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

/// Mutations of one input at most.
const MUTATIONS_MAX: u64 = 6;

/// Bytes that a mutation copies, removes or repeats at most.
const PIECE_BYTES_MAX: u64 = 64;

/// Runs `target` on every input of `fuzz/corpus/NAME`, then on `mutations` inputs that are mutations of these with `words` put in.
///
/// # Panics
/// Where the target does, after saying with which input; a file of these bytes in `fuzz/corpus/NAME` keeps it.
pub fn run(name: &str, words: &[&str], mutations: u64, target: fn(&[u8])) {
    let inputs = inputs(name);
    for (file, input) in &inputs {
        attempt(target, input, &format!("fuzz/corpus/{name}/{file}"));
    }
    for seed in 0..mutations {
        let mut noise = Noise(seed);
        let mut input = inputs[noise.below(inputs.len() as u64)].1.clone();
        for _ in 0..=noise.below(MUTATIONS_MAX) {
            mutate(&mut input, words, &inputs, &mut noise);
        }
        attempt(target, &input, &format!("mutation {seed} of {name}"));
    }
}

/// All kept inputs with their files' names, in the order of these.
fn inputs(name: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", folder.display());
    let read = |path: &Path| (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(path).unwrap());
    paths.iter().map(|path| read(path)).collect()
}

fn attempt(target: fn(&[u8]), input: &[u8], origin: &str) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(input))) {
        eprintln!("{origin}: failed with b\"{}\"", input.escape_ascii());
        resume_unwind(panic);
    }
}

/// One change at a random place.
fn mutate(input: &mut Vec<u8>, words: &[&str], inputs: &[(String, Vec<u8>)], noise: &mut Noise) {
    let at = noise.below(input.len() as u64 + 1);
    let end = (at + noise.below(PIECE_BYTES_MAX)).min(input.len());
    match noise.below(8) {
        0 | 1 if !words.is_empty() => drop(input.splice(at..at, words[noise.below(words.len() as u64)].bytes())),
        2 => drop(input.drain(at..end)),
        3 => {
            let piece = input[at..end].to_vec();
            let to = noise.below(input.len() as u64 + 1);
            drop(input.splice(to..to, piece));
        }
        4 => {
            let other = &inputs[noise.below(inputs.len() as u64)].1;
            let from = noise.below(other.len() as u64 + 1);
            let to = (from + noise.below(PIECE_BYTES_MAX)).min(other.len());
            drop(input.splice(at..at, other[from..to].iter().copied()));
        }
        5 => input.truncate(at),
        6 if at < input.len() => input[at] ^= 1 << noise.below(8),
        _ if at < input.len() => input[at] = noise.below(256) as u8,
        _ => input.push(noise.below(256) as u8),
    }
}

/// Reproducible numbers (splitmix64).
struct Noise(u64);

impl Noise {
    /// The next number below `bound`, which is not 0.
    fn below(&mut self, bound: u64) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % bound) as usize
    }
}
