//! Comparisons of two values.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value, types};

use super::{Columns, Emitted, Emitter};
use crate::lower::graph::{Machine, NodeId};
use crate::select::Comparison;

impl<C: Columns> Emitter<'_, '_, C> {
    /// Operands must be in the form `machine`.
    pub(super) fn compare(&mut self, comparison: Comparison, a: Value, b: Value, machine: Machine) -> Value {
        let (a, b, signed) = match machine {
            Machine::Float32 | Machine::Float64 => (self.comparable(a, machine), self.comparable(b, machine), true),
            Machine::Integer { signed, .. } => (a, b, signed),
            Machine::Wide | Machine::View => (a, b, true),
        };
        let condition = match (comparison, signed) {
            (Comparison::Equal, _) => IntCC::Equal,
            (Comparison::NotEqual, _) => IntCC::NotEqual,
            (Comparison::Less, true) => IntCC::SignedLessThan,
            (Comparison::Less, false) => IntCC::UnsignedLessThan,
            (Comparison::LessOrEqual, true) => IntCC::SignedLessThanOrEqual,
            (Comparison::LessOrEqual, false) => IntCC::UnsignedLessThanOrEqual,
            (Comparison::Greater, true) => IntCC::SignedGreaterThan,
            (Comparison::Greater, false) => IntCC::UnsignedGreaterThan,
            (Comparison::GreaterOrEqual, true) => IntCC::SignedGreaterThanOrEqual,
            (Comparison::GreaterOrEqual, false) => IntCC::UnsignedGreaterThanOrEqual,
        };
        self.builder.ins().icmp(condition, a, b)
    }

    /// As [`Self::ordered`], and the zeros are equal, as SQL has it: in total order -0.0 is next to 0.0.
    fn comparable(&mut self, value: Value, machine: Machine) -> Value {
        let ordered = self.ordered(value, machine);
        let is_negative_zero = self.builder.ins().icmp_imm_s(IntCC::Equal, ordered, -1);
        let register = self.builder.func.dfg.value_type(ordered);
        let one = self.builder.ins().uextend(register, is_negative_zero);
        self.builder.ins().iadd(ordered, one)
    }

    /// An integer that orders as the float does in total order: all bits but the sign are flipped where it is negative.
    pub(crate) fn ordered(&mut self, value: Value, machine: Machine) -> Value {
        let register = if machine == Machine::Float32 { types::I32 } else { types::I64 };
        let bits = self.builder.ins().bitcast(register, MemFlagsData::new(), value);
        let sign = self.builder.ins().sshr_imm_u(bits, i64::from(register.bits()) - 1);
        let flips = self.builder.ins().ushr_imm_u(sign, 1);
        self.builder.ins().bxor(bits, flips)
    }

    pub(super) fn distinct(&mut self, a: NodeId, b: NodeId) -> Emitted {
        let (left, right) = self.common(a, b);
        let differ = self.compare(Comparison::NotEqual, left.value, right.value, self.common_machine(a, b));
        let value = match (left.valid, right.valid) {
            (None, None) => differ,
            (x, y) => {
                let one = self.builder.ins().iconst(types::I8, 1);
                let (x, y) = (x.unwrap_or(one), y.unwrap_or(one));
                let one_is_null = self.builder.ins().bxor(x, y);
                let both = self.builder.ins().band(x, y);
                let both_differ = self.builder.ins().band(both, differ);
                self.builder.ins().bor(one_is_null, both_differ)
            }
        };
        Emitted { value, valid: None, failed: self.either(left.failed, right.failed) }
    }
}
