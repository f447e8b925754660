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
    /// How its state stands in registers, where [`Update::may_stay_in_registers`].
    pub(crate) state: Machine,
    /// First byte inside the entry.
    pub(crate) offset: usize,
}

impl Update {
    /// Whether its state can stand in registers from row to row.
    pub(crate) fn may_stay_in_registers(&self) -> bool {
        self.accumulate != Accumulate::SumSquares192
    }

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

    /// The argument as a word, or zero where it is NULL, of sums in several words.
    fn argument_of_words<C: Columns>(&self, emitter: &mut Emitter<'_, '_, C>) -> Option<Value> {
        let is_sum =
            matches!(self.accumulate, Accumulate::SumWide | Accumulate::SumSquares128 | Accumulate::SumSquares192);
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

    /// Adds to the lowest word of a sum. Those above seldom change: that is done out of the loop's way, where it may have to.
    fn change_words(&self, builder: &mut FunctionBuilder<'_>, entry: Value, argument: Value) {
        match self.accumulate {
            Accumulate::SumWide => self.add_signed(builder, entry, argument),
            _ => self.add_square(builder, entry, argument),
        }
    }

    fn add_signed(&self, builder: &mut FunctionBuilder<'_>, entry: Value, argument: Value) {
        let (old, new) = self.add_to_lowest_word(builder, entry, argument);
        // A step of less than half of the lower word's range that leaves the range changes the word's own sign.
        let differs = builder.ins().bxor(old, new);
        let may_change = builder.ins().icmp_imm_s(IntCC::SignedLessThan, differs, 0);
        seldom(builder, may_change, |builder| {
            let carries = builder.ins().icmp(IntCC::UnsignedLessThan, new, argument);
            let carry = builder.ins().uextend(types::I64, carries);
            let is_negative = builder.ins().icmp_imm_s(IntCC::SignedLessThan, argument, 0);
            let is_negative = builder.ins().uextend(types::I64, is_negative);
            let change = builder.ins().isub(carry, is_negative);
            self.add_to_upper_words(builder, entry, change);
        });
    }

    fn add_square(&self, builder: &mut FunctionBuilder<'_>, entry: Value, argument: Value) {
        let square = builder.ins().imul(argument, argument);
        let (_, new) = self.add_to_lowest_word(builder, entry, square);
        let carries = builder.ins().icmp(IntCC::UnsignedLessThan, new, square);
        seldom(builder, carries, |builder| {
            let carry = builder.ins().iconst(types::I64, 1);
            self.add_to_upper_words(builder, entry, carry);
        });
        if self.accumulate == Accumulate::SumSquares192 {
            // The square of 32 bits has no upper word.
            let lower = builder.ins().ireduce(types::I32, argument);
            let lower = builder.ins().sextend(types::I64, lower);
            let is_long = builder.ins().icmp(IntCC::NotEqual, lower, argument);
            seldom(builder, is_long, |builder| {
                // Squares have no sign.
                let upper = builder.ins().smulhi(argument, argument);
                self.add_to_upper_words(builder, entry, upper);
            });
        }
    }

    /// Returns what the word was, and what it is then.
    fn add_to_lowest_word(&self, builder: &mut FunctionBuilder<'_>, entry: Value, added: Value) -> (Value, Value) {
        let (flags, offset) = (MemFlagsData::trusted(), self.offset as i32);
        let old = builder.ins().load(types::I64, flags, entry, offset);
        let new = builder.ins().iadd(old, added);
        builder.ins().store(flags, new, entry, offset);
        (old, new)
    }

    /// Adds a word to those above the lowest: one, or two, which have no sign.
    fn add_to_upper_words(&self, builder: &mut FunctionBuilder<'_>, entry: Value, added: Value) {
        let (state, added) = match self.accumulate {
            Accumulate::SumSquares192 => (Machine::Wide, builder.ins().uextend(types::I128, added)),
            _ => (Machine::Integer { bits: 64, signed: true }, added),
        };
        let upper = Update { state, offset: self.offset + 8, ..*self };
        let old = upper.load(builder, entry);
        let new = builder.ins().iadd(old, added);
        upper.store(builder, entry, new);
    }

    /// The state after the emitter's row, of what stands in registers.
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
            Accumulate::SumSquares128 => {
                let square = builder.ins().imul(argument.value, argument.value);
                let square = builder.ins().uextend(types::I128, square);
                builder.ins().iadd(old, square)
            }
            Accumulate::SumSquares192 => unreachable!("its three words stand in no register"),
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
            | Accumulate::Udaf(_) => {
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
            Accumulate::SumSquares128 | Accumulate::SumSquares192 => Machine::Integer { bits: 64, signed: true },
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
