//! Script runner, reference model, reference loops, benchmark runner.
