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

    /// Changes the state of the entry at an address by the emitter's row. Returns the new state as a word, where it is one and no NULL leaves it as it is.
    pub(crate) fn change<C: Columns>(&self, emitter: &mut Emitter<'_, '_, C>, entry: Value) -> Option<Value> {
        if let Some(argument) = self.argument_of_words(emitter) {
            self.change_words(emitter.builder, entry, argument);
            return None;
        }
        let old = self.load(emitter.builder, entry);
        let new = self.apply(emitter, old);
        self.store(emitter.builder, entry, new);
        if self.argument.is_some_and(|argument| emitter.emit(argument).valid.is_some()) {
            return None;
        }
        match self.state {
            Machine::Integer { bits: 64, .. } => Some(new),
            Machine::Float64 => Some(emitter.builder.ins().bitcast(types::I64, MemFlagsData::new(), new)),
            _ => None,
        }
    }

    /// The argument as a word, or zero where it is NULL, of sums in two words.
    fn argument_of_words<C: Columns>(&self, emitter: &mut Emitter<'_, '_, C>) -> Option<Value> {
        let is_sum =
            matches!(self.accumulate, Accumulate::SumWide | Accumulate::SumSquaresLow | Accumulate::SumSquaresHigh);
        let argument = self.argument.filter(|_| is_sum)?;
        let Machine::Integer { signed: true, .. } = emitter.machine(argument) else { return None };
        let argument = emitter.widened(argument, Machine::Integer { bits: 64, signed: true });
        let builder = &mut *emitter.builder;
        Some(match argument.valid {
            Some(valid) => {
                let zero = builder.ins().iconst(types::I64, 0);
                builder.ins().select(valid, argument.value, zero)
            }
            None => argument.value,
        })
    }

    /// Adds to the lower word of a sum. The upper one seldom changes: that is done out of the loop's way, where it may have to.
    fn change_words(&self, builder: &mut FunctionBuilder<'_>, entry: Value, argument: Value) {
        if self.accumulate == Accumulate::SumSquaresHigh {
            // The square of 32 bits has no upper word.
            let lower = builder.ins().ireduce(types::I32, argument);
            let lower = builder.ins().sextend(types::I64, lower);
            let is_long = builder.ins().icmp(IntCC::NotEqual, lower, argument);
            return seldom(builder, is_long, |builder| {
                // Squares have no sign.
                let part = builder.ins().smulhi(argument, argument);
                let old = self.load(builder, entry);
                let part = builder.ins().uextend(types::I128, part);
                let new = builder.ins().iadd(old, part);
                self.store(builder, entry, new);
            });
        }
        let (flags, offset) = (MemFlagsData::trusted(), self.offset as i32);
        let is_square = self.accumulate == Accumulate::SumSquaresLow;
        let added = if is_square { builder.ins().imul(argument, argument) } else { argument };
        let old = builder.ins().load(types::I64, flags, entry, offset);
        let new = builder.ins().iadd(old, added);
        builder.ins().store(flags, new, entry, offset);
        let carries = |builder: &mut FunctionBuilder<'_>| builder.ins().icmp(IntCC::UnsignedLessThan, new, added);
        let may_change = match is_square {
            true => carries(builder),
            false => {
                // A step of less than half of the lower word's range that leaves the range changes the word's own sign.
                let differs = builder.ins().bxor(old, new);
                builder.ins().icmp_imm_s(IntCC::SignedLessThan, differs, 0)
            }
        };
        seldom(builder, may_change, |builder| {
            let change = if is_square {
                // It is done where there is a carry.
                builder.ins().iconst(types::I64, 1)
            } else {
                let carries = carries(builder);
                let carry = builder.ins().uextend(types::I64, carries);
                let is_negative = builder.ins().icmp_imm_s(IntCC::SignedLessThan, argument, 0);
                let is_negative = builder.ins().uextend(types::I64, is_negative);
                builder.ins().isub(carry, is_negative)
            };
            let old = builder.ins().load(types::I64, flags, entry, offset + 8);
            let new = builder.ins().iadd(old, change);
            builder.ins().store(flags, new, entry, offset + 8);
        });
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

/// Does what is to be done where a word is not zero, which is expected not to be.
pub(super) fn seldom(builder: &mut FunctionBuilder<'_>, word: Value, what: impl FnOnce(&mut FunctionBuilder<'_>)) {
    let (side, next) = (builder.create_block(), builder.create_block());
    builder.set_cold_block(side);
    builder.ins().brif(word, side, &[], next, &[]);
    builder.switch_to_block(side);
    what(builder);
    builder.ins().jump(next, &[]);
    builder.switch_to_block(next);
}
