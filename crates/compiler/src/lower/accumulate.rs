//! What a row does to one accumulator.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value, types};
use cranelift_frontend::FunctionBuilder;
use pelton_data::aggregate::Accumulate;

use super::emit::{Columns, Emitter, load, register_type, select};
use super::graph::{Machine, NodeId};

/// A change of one accumulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Update {
    /// What it does.
    pub(crate) accumulate: Accumulate,
    /// Its argument; `None` counts rows.
    pub(crate) argument: Option<NodeId>,
    /// How its state stands in registers.
    pub(crate) state: Machine,
    /// First byte inside the entry.
    pub(crate) offset: usize,
}

impl Update {
    /// Reads the state of the entry at an address.
    pub(crate) fn load(&self, builder: &mut FunctionBuilder<'_>, entry: Value) -> Value {
        let flags = MemFlagsData::trusted();
        match self.state {
            Machine::Wide | Machine::View => {
                let address = builder.ins().iadd_imm_u(entry, self.offset as i64);
                load(builder, self.state, flags, address)
            }
            state => builder.ins().load(register_type(state), flags, entry, self.offset as i32),
        }
    }

    /// Writes the state of the entry at an address.
    pub(crate) fn store(&self, builder: &mut FunctionBuilder<'_>, entry: Value, state: Value) {
        let flags = MemFlagsData::trusted();
        if self.state == Machine::Wide {
            let (low, high) = builder.ins().isplit(state);
            builder.ins().store(flags, low, entry, self.offset as i32);
            builder.ins().store(flags, high, entry, self.offset as i32 + 8);
        } else {
            builder.ins().store(flags, state, entry, self.offset as i32);
        }
    }

    /// The state after the emitter's row.
    pub(crate) fn apply<C: Columns>(&self, emitter: &mut Emitter<'_, '_, C>, old: Value) -> Value {
        let Some(argument) = self.argument else { return emitter.builder.ins().iadd_imm_u(old, 1) };
        let argument = emitter.widened(argument, self.state_of_argument(emitter, argument));
        let builder = &mut *emitter.builder;
        let changed = match self.accumulate {
            Accumulate::Count => {
                return match argument.valid {
                    None => builder.ins().iadd_imm_u(old, 1),
                    Some(valid) => {
                        let valid = builder.ins().uextend(types::I64, valid);
                        builder.ins().iadd(old, valid)
                    }
                };
            }
            Accumulate::SumInteger | Accumulate::SumWide => builder.ins().iadd(old, argument.value),
            Accumulate::SumSquaresLow | Accumulate::SumSquaresHigh => {
                let part = match self.accumulate {
                    Accumulate::SumSquaresLow => builder.ins().imul(argument.value, argument.value),
                    // Squares have no sign.
                    _ => builder.ins().smulhi(argument.value, argument.value),
                };
                let part = builder.ins().uextend(types::I128, part);
                builder.ins().iadd(old, part)
            }
            Accumulate::SumFloat => {
                let is_double = builder.func.dfg.value_type(argument.value) == types::F64;
                let value = if is_double { argument.value } else { builder.ins().fpromote(types::F64, argument.value) };
                builder.ins().fadd(old, value)
            }
            Accumulate::SumFloatWide
            | Accumulate::SumSquares
            | Accumulate::First
            | Accumulate::Last
            | Accumulate::Values
            | Accumulate::Arrivals
            | Accumulate::Distinct { .. }
            | Accumulate::Frequencies
            | Accumulate::DistinctSketch
            | Accumulate::Own(_) => {
                unreachable!("{:?} is updated a column at a time", self.accumulate)
            }
            Accumulate::Minimum | Accumulate::Maximum => {
                let (new, held) = match self.state {
                    Machine::Float32 | Machine::Float64 => {
                        (emitter.ordered(argument.value, self.state), emitter.ordered(old, self.state))
                    }
                    _ => (argument.value, old),
                };
                let better = emitter.builder.ins().icmp(self.better(), new, held);
                select(emitter.builder, better, argument.value, old)
            }
        };
        match argument.valid {
            Some(valid) => select(emitter.builder, valid, changed, old),
            None => changed,
        }
    }

    /// The machine form in which the argument is combined with the state.
    fn state_of_argument<C: Columns>(&self, emitter: &Emitter<'_, '_, C>, argument: NodeId) -> Machine {
        match self.accumulate {
            Accumulate::Count | Accumulate::SumFloat => emitter.machine(argument),
            Accumulate::SumSquaresLow | Accumulate::SumSquaresHigh => Machine::Integer { bits: 64, signed: true },
            _ => self.state,
        }
    }

    fn better(&self) -> IntCC {
        let unsigned = matches!(self.state, Machine::Integer { signed: false, .. });
        match (self.accumulate, unsigned) {
            (Accumulate::Minimum, false) => IntCC::SignedLessThan,
            (Accumulate::Minimum, true) => IntCC::UnsignedLessThan,
            (_, false) => IntCC::SignedGreaterThan,
            (_, true) => IntCC::UnsignedGreaterThan,
        }
    }
}
