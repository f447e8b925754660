//! Pipeline to kernel: SIMD selection, Cranelift lowering, interpretation.
//!
//! A pipeline of the plan comes in, and a kernel goes out that the runtime calls for each block. There are two ways to
//! make one. The interpreter is ready at once: DataFusion evaluates expressions, precompiled loops do the rest. The
//! compiler takes a millisecond more: each step becomes a loop of machine code. Both change the same tables in the same
//! way, so that one can take over from the other between two blocks.
//!
//! In reading order: [`select`] and `fold` (precompiled primitives); [`interpret`](mod@interpret); [`lower`] (expressions and loops as machine code), `code_memory`,
//! `kernel` (what calls the loops), [`describe`](mod@describe) (a kernel in words); [`read_out`](mod@read_out) and `holistic` (closed windows to rows).

pub mod error;

pub mod select;

mod fold;

pub mod interpret;

pub mod lower;

mod code_memory;

mod kernel;

pub mod describe;

pub mod read_out;

mod holistic;

pub use describe::{KernelDescription, describe};
pub use error::{CompileError, row_failure, words_at_row};
pub use interpret::column::{Column, column};
pub use interpret::condition::test;
pub use interpret::interpret;
pub use lower::{Compiled, compile};
pub use read_out::{entry_layout, read_collected, read_out, read_rows};
