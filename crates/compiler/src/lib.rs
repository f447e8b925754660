//! Pipeline to kernel: SIMD selection, Cranelift lowering, interpretation.

pub mod error;

pub mod select;

pub mod interpret;

pub mod read_out;

pub use error::CompileError;
pub use interpret::interpret;
pub use read_out::{entry_layout, read_out};
