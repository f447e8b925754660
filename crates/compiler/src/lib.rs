//! Pipeline to kernel: SIMD selection, Cranelift lowering, interpretation.

pub mod error;

pub use error::CompileError;
