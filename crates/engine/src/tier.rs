//! Interpreted first, compiled a moment later.

use std::sync::Arc;
use std::time::Instant;

use pelton_compiler::CompileError;
use pelton_plan::pipeline::Program;
use pelton_runtime::adapt::{KernelSlot, Permission, Specialisation};
use pelton_runtime::pool::Pool;
use pelton_state::join::{Lookups, Shape};

use crate::settings::{AdaptChoice, Settings, TierChoice};

/// The code of each of a program's pipelines, as the settings want it.
///
/// With [`TierChoice::Auto`] the kernels start interpreted, and are replaced one by one aside of the pool's workers: the run
/// does not wait for that, unless the settings want both from the first row on: where interpreted code is pinned, or chance or made-up costs decide.
pub(crate) fn kernels(
    program: &Arc<Program>,
    lookups: &Arc<Lookups>,
    settings: &Settings,
    pool: &Pool,
) -> Result<Vec<Arc<KernelSlot>>, CompileError> {
    let shapes = lookups.shapes();
    let (pipelines, choice) = (0..program.pipelines.len(), settings.tier);
    let first = |pipeline| match choice {
        TierChoice::Auto | TierChoice::Interpret => pelton_compiler::interpret(program, pipeline),
        TierChoice::Compile => pelton_compiler::compile(program, pipeline, &shapes).map(|compiled| compiled.kernel),
    };
    let slots = pipelines.map(|pipeline| {
        let start = Instant::now();
        let kernel = first(pipeline)?;
        Ok(Arc::new(KernelSlot::new(kernel, lookups.clone(), start.elapsed(), settings.adapt_options())))
    });
    let slots: Vec<_> = slots.collect::<Result<_, CompileError>>()?;
    if choice == TierChoice::Auto {
        let (program, compiled) = (program.clone(), slots.clone());
        let is_pinned = settings.permissions.of(Specialisation::Tier) == Permission::Pin;
        if is_pinned || settings.adapt == AdaptChoice::Random || settings.costs.is_some() {
            compile_all(&program, &shapes, &compiled);
        } else {
            // Left undone, the pipelines stay interpreted, which is only slower.
            pool.background(move || compile_all(&program, &shapes, &compiled));
        }
    }
    Ok(slots)
}

fn compile_all(program: &Program, shapes: &[Shape], slots: &[Arc<KernelSlot>]) {
    for (pipeline, slot) in slots.iter().enumerate() {
        // The run may have ended: then nobody else has a reference.
        if Arc::strong_count(slot) == 1 {
            return;
        }
        let start = Instant::now();
        // A pipeline that does not compile stays interpreted; EXPLAIN says why.
        if let Ok(compiled) = pelton_compiler::compile(program, pipeline, shapes) {
            slot.store(compiled.kernel, start.elapsed());
        }
    }
}
