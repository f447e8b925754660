//! SQL text to logical plan to pipelines.

pub mod pipeline;
