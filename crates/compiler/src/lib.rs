//! Pipeline to kernel: SIMD selection, Cranelift lowering, interpretation.
