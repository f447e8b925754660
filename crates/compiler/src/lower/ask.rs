//! Elements of large dense tables and indexes: their lines are asked for some rows before they are read or changed.
//!
//! A processor has many rows under way, and waits for the lines of all of them at once; but a core waits for some twenty lines of its first-level cache, however
//! many memory would answer. Lines that are asked for into the second-level cache are not among those: of a million keys a row takes half as long then, of four
//! and sixteen million two thirds, where asking into the first gains a tenth. The question has to stand between the rows, so that memory is never idle: asked
//! in a loop of its own, before the loop over some rows, it gains nothing. Cranelift has no instruction for it, so that code calls one.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{AbiParam, InstBuilder, Signature, Value, types};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::FunctionBuilder;

use super::emit::Emitter;
use super::frame::Function;
use super::function::{Effect, Number, Place, ROWS_PER_TURN, Recipe, arguments, block, indexed, plus};
use super::graph::{Graph, NodeId, Operation};

/// Tables, indexes and columns that take more than this are asked for ahead: a part of them, at least, is not in the second-level cache.
pub(crate) const FAR_BYTES_MIN: usize = 2 << 20;

/// How many rows before it is read or changed the line of an element is asked for: some hundred nanoseconds.
pub(super) const ROWS_AHEAD: i64 = 96;

impl Effect {
    /// Whether elements can be asked for ahead: there is one table or index, and its keys are read and not computed.
    pub(crate) fn can_ask(&self, graph: &Graph) -> bool {
        let is_read = |key: NodeId| matches!(graph.node(key).operation, Operation::Column(_));
        cfg!(target_arch = "x86_64") && self.element().is_some_and(|(key, _)| is_read(key))
    }

    /// The key that the element of a row is found by in the only table or index, and the bytes from one element to the next.
    fn element(&self) -> Option<(NodeId, usize)> {
        match self {
            Effect::Accumulate { place: Place::Dense { key, stride, of_slices: false, .. }, .. } => {
                Some((*key, *stride))
            }
            Effect::Probe { key, is_in_order: false, .. } => Some((*key, size_of::<u32>())),
            Effect::Accumulate { .. } | Effect::Probe { .. } | Effect::Keep { .. } | Effect::Write { .. } => None,
        }
    }
}

impl Recipe<'_> {
    /// Asks for the elements of the first rows from a position on, for which no turn before has.
    pub(super) fn ask_first(&self, function: &Function, builder: &mut FunctionBuilder<'_>, start: Value) {
        let (body, at) = block(builder, &[types::I64], &[]);
        let (behind, _) = block(builder, &[], &[]);
        let end = builder.ins().iadd_imm_s(start, ROWS_AHEAD);
        let end = builder.ins().smin(end, function.count);
        let last_start = builder.ins().iadd_imm_s(end, -ROWS_PER_TURN);
        let turn = |builder: &mut FunctionBuilder<'_>, start: Value| {
            let any = builder.ins().icmp(IntCC::SignedLessThanOrEqual, start, last_start);
            builder.ins().brif(any, body, &arguments(&[start], &[]), behind, &[]);
        };
        turn(builder, start);
        builder.switch_to_block(body);
        self.ask(function, builder, Number::from(at[0]));
        let next = builder.ins().iadd_imm_u(at[0], ROWS_PER_TURN);
        turn(builder, next);
        builder.switch_to_block(behind);
    }

    /// Asks for the elements of the rows of the turn that begins at a position.
    pub(super) fn ask(&self, function: &Function, builder: &mut FunctionBuilder<'_>, start: Number) {
        let (key, stride) = self.effect.element().expect("only elements of one table or index are asked for");
        let first = match self.effect {
            Effect::Accumulate { updates, .. } => updates.iter().map(|update| update.offset).min(),
            Effect::Keep { .. } | Effect::Probe { .. } | Effect::Write { .. } => None,
        };
        let first = first.unwrap_or(0);
        let table = plus(builder, function.table, first as i64);
        let addresses = std::array::from_fn(|row| {
            let position = Number { ahead: start.ahead + row as i64, ..start };
            let columns = function.row_columns(self, builder, position);
            let place = function.distance(&mut Emitter::new(builder, self.graph, &columns), key);
            indexed(builder, table, place, stride)
        });
        ask_for(builder, addresses);
    }
}

/// Asks for the lines at some addresses, which need not exist.
fn ask_for(builder: &mut FunctionBuilder<'_>, addresses: [Value; ROWS_PER_TURN as usize]) {
    // What is called leaves all registers as they are, so that nothing is saved around the call.
    let mut signature = Signature::new(CallConv::PreserveAll);
    signature.params.extend(addresses.map(|_| AbiParam::new(types::I64)));
    let signature = builder.import_signature(signature);
    let callee = builder.ins().iconst(types::I64, prefetch as *const () as i64);
    builder.ins().call_indirect(signature, callee, &addresses);
}

/// Asks for the lines at four addresses, and changes no register.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
extern "sysv64" fn prefetch(_: *const u8, _: *const u8, _: *const u8, _: *const u8) {
    // A prefetch is a hint: it reads nothing and cannot fault, whatever the address. The addresses come in these registers by the convention of System V,
    // which is that of `CallConv::PreserveAll` but for the registers that are left as they are.
    core::arch::naked_asm!("prefetcht1 [rdi]", "prefetcht1 [rsi]", "prefetcht1 [rdx]", "prefetcht1 [rcx]", "ret")
}

#[cfg(not(target_arch = "x86_64"))]
extern "C" fn prefetch() {
    unreachable!("no code is made that asks")
}
