//! Machine code and the memory it lives in.

use std::sync::OnceLock;

use cranelift_codegen::ir::{AbiParam, Function, UserFuncName, types};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{Linkage, Module, default_libcall_names};
use pelton_data::abi::{CallFrame, Status};

use crate::error::CompileError;

/// One compiled function and the pages that hold it. Freed when dropped.
pub struct Code {
    entry: unsafe extern "C" fn(*mut CallFrame) -> u64,
    module: Option<JITModule>,
}

// SAFETY: the pages are never written after `compile` has finished, and `module` is only touched again by `drop`, which
// has the only reference. Running the code from several threads touches nothing but each thread's own frame.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

impl Code {
    /// Compiles the function that `build` writes: from a pointer to a [`CallFrame`] (its only parameter, already appended
    /// to the entry block) to a [`Status`].
    ///
    /// # Errors
    /// Where Cranelift refuses the function or the system gives no executable memory.
    pub fn compile(build: impl FnOnce(&mut FunctionBuilder<'_>)) -> Result<Code, CompileError> {
        let mut module = JITModule::new(JITBuilder::with_isa(host_isa()?.clone(), default_libcall_names()));
        let mut context = module.make_context();
        context.func.signature.params.push(AbiParam::new(types::I64));
        context.func.signature.returns.push(AbiParam::new(types::I64));
        context.func.name = UserFuncName::user(0, 0);
        write_body(&mut context.func, &module, build);
        let failed = |error: Box<cranelift_module::ModuleError>| CompileError::CodeGeneration(format!("{error:?}"));
        let id = module.declare_anonymous_function(&context.func.signature).map_err(|error| failed(Box::new(error)))?;
        debug_assert_eq!(Linkage::Local, module.declarations().get_function_decl(id).linkage);
        module.define_function(id, &mut context).map_err(|error| failed(Box::new(error)))?;
        module.finalize_definitions().map_err(|error| failed(Box::new(error)))?;
        let address = module.get_finalized_function(id);
        // SAFETY: `address` is the entry of a function that was compiled with exactly this signature, in the C calling
        // convention of the host, and stays mapped as long as `module` does.
        let entry = unsafe { std::mem::transmute::<*const u8, unsafe extern "C" fn(*mut CallFrame) -> u64>(address) };
        Ok(Code { entry, module: Some(module) })
    }

    /// Runs the function.
    ///
    /// # Safety
    /// Every pointer in `frame` that the function uses must be valid for the rows, positions and columns the frame says.
    pub unsafe fn run(&self, frame: &mut CallFrame) -> Status {
        // SAFETY: the code is mapped as long as `self`; the caller answers for the frame.
        match unsafe { (self.entry)(frame) } {
            0 => Status::Done,
            1 => Status::KeyOutOfRange,
            2 => Status::RowFailed,
            3 => Status::EntryUnknown,
            other => unreachable!("compiled code returned status {other}"),
        }
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        if let Some(module) = self.module.take() {
            // SAFETY: whoever runs the code borrows `self`, so nobody runs it now, and `entry` dies with `self`.
            unsafe { module.free_memory() };
        }
    }
}

fn write_body(function: &mut Function, module: &JITModule, build: impl FnOnce(&mut FunctionBuilder<'_>)) {
    let mut context = FunctionBuilderContext::new();
    let mut builder = FunctionBuilder::new(function, &mut context);
    let entry = builder.create_block();
    builder.append_block_params_for_function_params(entry);
    builder.switch_to_block(entry);
    build(&mut builder);
    builder.seal_all_blocks();
    builder.finalize(module.target_config());
}

/// The machine this process runs on, found out once.
fn host_isa() -> Result<&'static OwnedTargetIsa, CompileError> {
    static ISA: OnceLock<Result<OwnedTargetIsa, String>> = OnceLock::new();
    let isa = ISA.get_or_init(|| {
        let mut flags = settings::builder();
        let options = [
            ("opt_level", "speed"),
            ("use_colocated_libcalls", "false"),
            ("is_pic", "false"),
            ("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" }),
            ("unwind_info", "false"),
        ];
        for (name, value) in options {
            flags.set(name, value).map_err(|error| error.to_string())?;
        }
        let builder = cranelift_native::builder().map_err(str::to_owned)?;
        builder.finish(settings::Flags::new(flags)).map_err(|error| error.to_string())
    });
    isa.as_ref().map_err(|message| CompileError::CodeGeneration(message.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cranelift_codegen::ir::InstBuilder;

    #[test]
    fn a_function_runs_and_its_memory_is_given_back() {
        for _ in 0..100 {
            let code = Code::compile(|builder| {
                let status = builder.ins().iconst(types::I64, Status::RowFailed as i64);
                builder.ins().return_(&[status]);
            })
            .unwrap();
            // SAFETY: the function reads nothing from its frame.
            let status = unsafe { code.run(&mut std::mem::zeroed()) };
            assert_eq!(status, Status::RowFailed);
        }
    }
}
