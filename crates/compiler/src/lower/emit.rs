//! One row's expressions, as Cranelift instructions.
//!
//! Nothing here branches: every operand is computed, and conditions select among results. A value carries beside it
//! whether it is valid (not NULL) and whether computing it failed; a failure counts only where the row's result depends
//! on it. The loop around leaves the function when a row has failed, before the row has had any effect.

mod compare;

use std::collections::HashMap;

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::immediates::{Ieee32, Ieee64};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value, types};
use cranelift_frontend::FunctionBuilder;

use super::graph::{Arithmetic, Bounds, Conversion, Graph, Literal, Machine, Misfit, NodeId, Operation, Rounding};
use crate::select::Comparison;

/// A computed value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Emitted {
    /// In its node's machine form. Without meaning where it is not valid.
    pub(crate) value: Value,
    /// 1 where it is not NULL; `None` where it never is.
    pub(crate) valid: Option<Value>,
    /// 1 where the row has no value; `None` where it always has.
    pub(crate) failed: Option<Value>,
}

/// The columns of one row.
pub(crate) trait Columns {
    /// Reads the column of a [`Operation::Column`] or [`Operation::Foreign`] node.
    fn load(&self, builder: &mut FunctionBuilder<'_>, id: NodeId) -> (Value, Option<Value>);
}

/// Emits the expressions of one row, each once.
pub(crate) struct Emitter<'a, 'f, C> {
    /// Where instructions go.
    pub(crate) builder: &'a mut FunctionBuilder<'f>,
    graph: &'a Graph,
    columns: &'a C,
    known: HashMap<NodeId, Emitted>,
}

/// The register type of a machine form.
pub(crate) fn register_type(machine: Machine) -> Type {
    match machine {
        Machine::Integer { bits, .. } => Type::int(u16::from(bits)).expect("8, 16, 32 or 64 bits"),
        Machine::Wide | Machine::View => types::I128,
        Machine::Float32 => types::F32,
        Machine::Float64 => types::F64,
    }
}

/// Reads memory that no store of the function reaches.
pub(crate) fn column_flags() -> MemFlagsData {
    MemFlagsData::trusted().with_readonly()
}

/// Reads `machine`'s bytes at an address.
pub(crate) fn load(builder: &mut FunctionBuilder<'_>, machine: Machine, flags: MemFlagsData, address: Value) -> Value {
    match machine {
        Machine::Wide | Machine::View => {
            let low = builder.ins().load(types::I64, flags, address, 0);
            let high = builder.ins().load(types::I64, flags, address, 8);
            builder.ins().iconcat(low, high)
        }
        _ => builder.ins().load(register_type(machine), flags, address, 0),
    }
}

/// The first value where the condition holds, else the second. Wide values are chosen half by half: Cranelift would make
/// a 128-bit minimum of a comparison and a choice, which it then cannot lower.
pub(crate) fn select(builder: &mut FunctionBuilder<'_>, condition: Value, a: Value, b: Value) -> Value {
    if builder.func.dfg.value_type(a) != types::I128 {
        return builder.ins().select(condition, a, b);
    }
    let (a_low, a_high) = builder.ins().isplit(a);
    let (b_low, b_high) = builder.ins().isplit(b);
    let low = builder.ins().select(condition, a_low, b_low);
    let high = builder.ins().select(condition, a_high, b_high);
    builder.ins().iconcat(low, high)
}

impl<'a, 'f, C: Columns> Emitter<'a, 'f, C> {
    /// For the row whose columns are `columns`.
    pub(crate) fn new(builder: &'a mut FunctionBuilder<'f>, graph: &'a Graph, columns: &'a C) -> Emitter<'a, 'f, C> {
        Emitter { builder, graph, columns, known: HashMap::new() }
    }

    /// The machine form of a node.
    pub(crate) fn machine(&self, id: NodeId) -> Machine {
        self.graph.node(id).machine
    }

    /// The value of a node.
    pub(crate) fn emit(&mut self, id: NodeId) -> Emitted {
        if let Some(&emitted) = self.known.get(&id) {
            return emitted;
        }
        let emitted = self.compute(id);
        self.known.insert(id, emitted);
        emitted
    }

    fn compute(&mut self, id: NodeId) -> Emitted {
        let graph = self.graph;
        let node = graph.node(id);
        match &node.operation {
            Operation::Column(_) | Operation::Foreign(_) => {
                let (value, valid) = self.columns.load(self.builder, id);
                Emitted { value, valid, failed: None }
            }
            Operation::Constant(literal) => self.constant(*literal, node.machine),
            Operation::Arithmetic(operator, a, b) => self.arithmetic(*operator, *a, *b, node.machine),
            Operation::Negate(a) => {
                let operand = self.widened(*a, node.machine);
                let value = match node.machine {
                    Machine::Float32 | Machine::Float64 => self.builder.ins().fneg(operand.value),
                    _ => self.builder.ins().ineg(operand.value),
                };
                Emitted { value, ..operand }
            }
            Operation::Compare(comparison, a, b) => {
                let (left, right) = self.common(*a, *b);
                let value = self.compare(*comparison, left.value, right.value, self.common_machine(*a, *b));
                self.joined(value, left, right)
            }
            Operation::Distinct(a, b) => self.distinct(*a, *b),
            Operation::And(a, b) => self.conjunction(*a, *b, false),
            Operation::Or(a, b) => self.conjunction(*a, *b, true),
            Operation::Not(a) => {
                let operand = self.emit(*a);
                Emitted { value: self.not(operand.value), ..operand }
            }
            Operation::IsNull(a) => {
                let operand = self.emit(*a);
                let value = match operand.valid {
                    Some(valid) => self.not(valid),
                    None => self.builder.ins().iconst(types::I8, 0),
                };
                Emitted { value, valid: None, failed: operand.failed }
            }
            Operation::Cast(conversion, a) => self.cast(*conversion, *a, node.machine),
            Operation::Case(branches, otherwise) => self.case(branches, *otherwise, node.machine),
            Operation::Among(value, list) => self.among(*value, list),
            Operation::NullIf(a, b) => self.null_if(*a, *b, node.machine),
        }
    }

    fn constant(&mut self, literal: Literal, machine: Machine) -> Emitted {
        let always = |value| Emitted { value, valid: None, failed: None };
        match literal {
            Literal::Integer(value) => always(self.integer(value, register_type(machine))),
            Literal::View(view) => always(self.integer(view as i128, types::I128)),
            Literal::Float(bits) if machine == Machine::Float32 => {
                always(self.builder.ins().f32const(Ieee32::with_bits(bits as u32)))
            }
            Literal::Float(bits) => always(self.builder.ins().f64const(Ieee64::with_bits(bits))),
            Literal::Null => {
                let value = match machine {
                    Machine::Float32 => self.builder.ins().f32const(Ieee32::with_bits(0)),
                    Machine::Float64 => self.builder.ins().f64const(Ieee64::with_bits(0)),
                    _ => self.integer(0, register_type(machine)),
                };
                let valid = self.builder.ins().iconst(types::I8, 0);
                Emitted { value, valid: Some(valid), failed: None }
            }
        }
    }

    /// An integer constant of any width, truncated to it.
    fn integer(&mut self, value: i128, register: Type) -> Value {
        if register == types::I128 {
            let low = self.builder.ins().iconst(types::I64, value as i64);
            let high = self.builder.ins().iconst(types::I64, (value >> 64) as i64);
            return self.builder.ins().iconcat(low, high);
        }
        let mask = u64::MAX >> (64 - register.bits());
        self.builder.ins().iconst(register, (value as u64 & mask) as i64)
    }

    fn not(&mut self, truth: Value) -> Value {
        self.builder.ins().bxor_imm_u(truth, 1)
    }

    /// Both, where each may be missing for "always".
    pub(crate) fn both(&mut self, a: Option<Value>, b: Option<Value>) -> Option<Value> {
        match (a, b) {
            (Some(a), Some(b)) if a != b => Some(self.builder.ins().band(a, b)),
            (a, b) => a.or(b),
        }
    }

    /// Either, where each may be missing for "never".
    pub(crate) fn either(&mut self, a: Option<Value>, b: Option<Value>) -> Option<Value> {
        match (a, b) {
            (Some(a), Some(b)) if a != b => Some(self.builder.ins().bor(a, b)),
            (a, b) => a.or(b),
        }
    }

    /// A value that is NULL where one of its operands is.
    fn joined(&mut self, value: Value, a: Emitted, b: Emitted) -> Emitted {
        Emitted { value, valid: self.both(a.valid, b.valid), failed: self.either(a.failed, b.failed) }
    }

    /// The node's value in another width: extended, or cut where it fits anyway.
    pub(crate) fn widened(&mut self, id: NodeId, machine: Machine) -> Emitted {
        let emitted = self.emit(id);
        let from = self.graph.node(id).machine;
        Emitted { value: self.resized(emitted.value, from, machine), ..emitted }
    }

    /// An integer-like value in another width: extended as its own sign says, or cut.
    fn resized(&mut self, value: Value, from: Machine, to: Machine) -> Value {
        let (a, b) = (register_type(from), register_type(to));
        if a == b || !a.is_int() || !b.is_int() {
            return value;
        }
        let unsigned = matches!(from, Machine::Integer { signed: false, .. });
        match a.bits() < b.bits() {
            true if unsigned => self.builder.ins().uextend(b, value),
            true => self.builder.ins().sextend(b, value),
            false => self.builder.ins().ireduce(b, value),
        }
    }

    fn common_machine(&self, a: NodeId, b: NodeId) -> Machine {
        let (a, b) = (self.graph.node(a).machine, self.graph.node(b).machine);
        if a == Machine::Wide || b == Machine::Wide { Machine::Wide } else { a }
    }

    /// Both operands in one machine form.
    fn common(&mut self, a: NodeId, b: NodeId) -> (Emitted, Emitted) {
        let machine = self.common_machine(a, b);
        (self.widened(a, machine), self.widened(b, machine))
    }

    fn arithmetic(&mut self, operator: Arithmetic, a: NodeId, b: NodeId, machine: Machine) -> Emitted {
        if matches!(machine, Machine::Float32 | Machine::Float64) {
            let (left, right) = (self.emit(a), self.emit(b));
            let (x, y) = (left.value, right.value);
            let value = match operator {
                Arithmetic::Add => self.builder.ins().fadd(x, y),
                Arithmetic::Subtract => self.builder.ins().fsub(x, y),
                Arithmetic::Multiply => self.builder.ins().fmul(x, y),
                Arithmetic::Divide => self.builder.ins().fdiv(x, y),
                Arithmetic::Remainder => unreachable!("float remainders are foreign"),
            };
            return self.joined(value, left, right);
        }
        if matches!(operator, Arithmetic::Divide | Arithmetic::Remainder) {
            return self.divide(operator, a, b, machine);
        }
        let (left, right) = (self.widened(a, machine), self.widened(b, machine));
        let (x, y) = (left.value, right.value);
        let value = match operator {
            Arithmetic::Add => self.builder.ins().iadd(x, y),
            Arithmetic::Subtract => self.builder.ins().isub(x, y),
            _ => self.builder.ins().imul(x, y),
        };
        self.joined(value, left, right)
    }

    fn divide(&mut self, operator: Arithmetic, a: NodeId, b: NodeId, machine: Machine) -> Emitted {
        let Machine::Integer { bits, signed } = machine else { unreachable!("wide quotients are foreign") };
        let working = Machine::Integer { bits: bits.max(32), signed };
        let (left, right) = (self.widened(a, working), self.widened(b, working));
        let register = register_type(working);
        // Known of constants alone: bounds are those of values, and a row whose divisor is NULL is divided by whatever stands there.
        let constant = self.graph.literal(b).filter(|&constant| constant != Literal::Null);
        let has = |value: i128| constant.is_none_or(|constant| constant == Literal::Integer(value));
        let (mut divisor, mut failed) = (right.value, None);
        if has(0) {
            let is_zero = self.builder.ins().icmp_imm_u(IntCC::Equal, divisor, 0);
            failed = Some(is_zero);
            divisor = self.replaced_by_one(divisor, is_zero);
        }
        if signed && has(-1) {
            let least = self.integer(i128::MIN >> (128 - u32::from(bits)), register);
            let is_least = self.builder.ins().icmp(IntCC::Equal, left.value, least);
            let minus_one = self.integer(-1, register);
            let is_minus_one = self.builder.ins().icmp(IntCC::Equal, divisor, minus_one);
            let overflows = self.builder.ins().band(is_least, is_minus_one);
            divisor = self.replaced_by_one(divisor, overflows);
            if operator == Arithmetic::Divide {
                failed = self.either(failed, Some(overflows));
            }
        }
        let value = match (operator, signed) {
            (Arithmetic::Divide, true) => self.builder.ins().sdiv(left.value, divisor),
            (Arithmetic::Divide, false) => self.builder.ins().udiv(left.value, divisor),
            (_, true) => self.builder.ins().srem(left.value, divisor),
            (_, false) => self.builder.ins().urem(left.value, divisor),
        };
        let value = self.resized(value, working, machine);
        let joined = self.joined(value, left, right);
        self.failing(joined, failed)
    }

    fn replaced_by_one(&mut self, value: Value, condition: Value) -> Value {
        let register = self.builder.func.dfg.value_type(value);
        let one = self.builder.ins().iconst(register, 1);
        self.builder.ins().select(condition, one, value)
    }

    /// The value, which has also failed where `failed` and it is valid.
    fn failing(&mut self, emitted: Emitted, failed: Option<Value>) -> Emitted {
        let Some(failed) = failed else { return emitted };
        let counts = self.both(Some(failed), emitted.valid);
        Emitted { failed: self.either(emitted.failed, counts), ..emitted }
    }

    /// AND (`decides` is false) or OR (`decides` is true): one operand that is `decides` decides, whatever the other is.
    fn conjunction(&mut self, a: NodeId, b: NodeId, decides: bool) -> Emitted {
        let (left, right) = (self.emit(a), self.emit(b));
        let value = match decides {
            true => self.builder.ins().bor(left.value, right.value),
            false => self.builder.ins().band(left.value, right.value),
        };
        let decided_by_left = self.decided(left, decides);
        let valid = match (left.valid, right.valid) {
            (None, None) => None,
            (x, y) => {
                let decided_by_right = self.decided(right, decides);
                let decided = self.builder.ins().bor(decided_by_left, decided_by_right);
                let both = self.both(x, y);
                self.either(both, Some(decided))
            }
        };
        let failed_right = right.failed.map(|failed| {
            let looked_at = self.not(decided_by_left);
            self.builder.ins().band(failed, looked_at)
        });
        Emitted { value, valid, failed: self.either(left.failed, failed_right) }
    }

    /// Whether the operand is valid and `decides`.
    fn decided(&mut self, operand: Emitted, decides: bool) -> Value {
        let is = if decides { operand.value } else { self.not(operand.value) };
        match operand.valid {
            Some(valid) => self.builder.ins().band(is, valid),
            None => is,
        }
    }

    fn case(&mut self, branches: &[(NodeId, NodeId)], otherwise: Option<NodeId>, machine: Machine) -> Emitted {
        let mut result = match otherwise {
            Some(value) => self.widened(value, machine),
            None => self.constant(Literal::Null, machine),
        };
        for &(condition, value) in branches.iter().rev() {
            let condition = self.emit(condition);
            let value = self.widened(value, machine);
            let taken = self.decided(condition, true);
            let chosen = select(self.builder, taken, value.value, result.value);
            let valid = self.chosen_flag(taken, value.valid, result.valid, 1);
            let failed = self.chosen_flag(taken, value.failed, result.failed, 0);
            result = Emitted { value: chosen, valid, failed: self.either(condition.failed, failed) };
        }
        result
    }

    /// One of two flags; a missing flag is `absent`.
    fn chosen_flag(&mut self, first: Value, a: Option<Value>, b: Option<Value>, absent: i64) -> Option<Value> {
        if a.is_none() && b.is_none() {
            return None;
        }
        let absent = self.builder.ins().iconst(types::I8, absent);
        Some(self.builder.ins().select(first, a.unwrap_or(absent), b.unwrap_or(absent)))
    }

    fn among(&mut self, value: NodeId, list: &[NodeId]) -> Emitted {
        let subject = self.emit(value);
        let mut has_null = false;
        let mut found = None;
        for &item in list {
            if self.graph.literal(item) == Some(Literal::Null) {
                has_null = true;
                continue;
            }
            let (left, right) = self.common(value, item);
            let equal = self.compare(Comparison::Equal, left.value, right.value, self.common_machine(value, item));
            found = self.either(found, Some(equal));
        }
        let found = found.unwrap_or_else(|| self.builder.ins().iconst(types::I8, 0));
        let valid = if has_null { self.both(subject.valid, Some(found)) } else { subject.valid };
        Emitted { value: found, valid, failed: subject.failed }
    }

    fn null_if(&mut self, a: NodeId, b: NodeId, machine: Machine) -> Emitted {
        let (left, right) = self.common(a, b);
        let equal = self.compare(Comparison::Equal, left.value, right.value, self.common_machine(a, b));
        let becomes_null = self.both(Some(equal), right.valid).unwrap_or(equal);
        let stays = self.not(becomes_null);
        let value = self.widened(a, machine);
        let valid = self.both(value.valid, Some(stays));
        Emitted { value: value.value, valid, failed: self.either(left.failed, right.failed) }
    }

    fn cast(&mut self, conversion: Conversion, operand: NodeId, machine: Machine) -> Emitted {
        let from = self.graph.node(operand).machine;
        let emitted = self.emit(operand);
        match conversion {
            Conversion::Scale { multiplier, check, misfit } => {
                let fits = check.and_then(|check| self.within(emitted.value, from, check));
                let resized = self.resized(emitted.value, from, machine);
                let value = self.multiplied(resized, multiplier, machine);
                self.fitting(Emitted { value, ..emitted }, fits, misfit)
            }
            Conversion::Divide { divisor, rounding, check, misfit } => {
                let long = Machine::Integer { bits: 64, signed: true };
                let dividend = self.resized(emitted.value, from, long);
                let quotient = self.quotient(dividend, divisor, rounding);
                let fits = check.and_then(|check| self.within(quotient, long, check));
                let value = self.resized(quotient, long, machine);
                self.fitting(Emitted { value, ..emitted }, fits, misfit)
            }
            Conversion::ToFloat { divisor } => {
                let value = self.float_of(emitted.value, from, register_type(machine), divisor);
                Emitted { value, ..emitted }
            }
            Conversion::Float => {
                let value = match (from, machine) {
                    (Machine::Float32, Machine::Float64) => self.builder.ins().fpromote(types::F64, emitted.value),
                    (Machine::Float64, Machine::Float32) => self.builder.ins().fdemote(types::F32, emitted.value),
                    _ => emitted.value,
                };
                Emitted { value, ..emitted }
            }
            Conversion::FromFloat { misfit } => {
                let (value, fits) = self.integer_of_float(emitted.value, from, machine);
                self.fitting(Emitted { value, ..emitted }, Some(fits), misfit)
            }
            Conversion::FromFloatSaturating => {
                let double = match from {
                    Machine::Float32 => self.builder.ins().fpromote(types::F64, emitted.value),
                    _ => emitted.value,
                };
                let is_long = matches!(machine, Machine::Integer { bits: 64, .. });
                let (register, bits) = if is_long { (types::I64, 64) } else { (types::I32, 32) };
                let whole = self.builder.ins().fcvt_to_sint_sat(register, double);
                let value = self.resized(whole, Machine::Integer { bits, signed: true }, machine);
                Emitted { value, ..emitted }
            }
            Conversion::UpperHalf => {
                let value = match from {
                    Machine::Wide => self.builder.ins().isplit(emitted.value).1,
                    _ => self.builder.ins().sshr_imm_u(emitted.value, 63),
                };
                Emitted { value, ..emitted }
            }
            Conversion::ToBoolean => {
                let value = match from {
                    Machine::Float32 | Machine::Float64 => {
                        let zero = self.constant(Literal::Float(0), from).value;
                        self.builder.ins().fcmp(FloatCC::NotEqual, emitted.value, zero)
                    }
                    _ => self.builder.ins().icmp_imm_u(IntCC::NotEqual, emitted.value, 0),
                };
                Emitted { value, ..emitted }
            }
        }
    }

    /// A value that is a misfit where it does not fit.
    fn fitting(&mut self, emitted: Emitted, fits: Option<Value>, misfit: Misfit) -> Emitted {
        let Some(fits) = fits else { return emitted };
        match misfit {
            Misfit::Null => Emitted { valid: self.both(emitted.valid, Some(fits)), ..emitted },
            Misfit::Fails => {
                let failed = self.not(fits);
                self.failing(emitted, Some(failed))
            }
        }
    }

    /// Whether an integer-like value is within bounds; `None` where all values of its form are.
    fn within(&mut self, value: Value, machine: Machine, bounds: Bounds) -> Option<Value> {
        let (all, signed) = match machine {
            Machine::Integer { bits, signed: true } => {
                let max = (1i128 << (bits - 1)) - 1;
                (Bounds { min: -max - 1, max }, true)
            }
            Machine::Integer { bits, signed: false } => (Bounds { min: 0, max: (1i128 << bits) - 1 }, false),
            _ => (Bounds { min: i128::MIN, max: i128::MAX }, true),
        };
        let register = register_type(machine);
        let (least, most) = match signed {
            true => (IntCC::SignedGreaterThanOrEqual, IntCC::SignedLessThanOrEqual),
            false => (IntCC::UnsignedGreaterThanOrEqual, IntCC::UnsignedLessThanOrEqual),
        };
        let above = (bounds.min > all.min).then(|| {
            let bound = self.integer(bounds.min, register);
            self.builder.ins().icmp(least, value, bound)
        });
        let below = (bounds.max < all.max).then(|| {
            let bound = self.integer(bounds.max, register);
            self.builder.ins().icmp(most, value, bound)
        });
        self.both(above, below)
    }

    fn multiplied(&mut self, value: Value, multiplier: i128, machine: Machine) -> Value {
        if multiplier == 1 {
            return value;
        }
        let factor = match (machine, i64::try_from(multiplier)) {
            (Machine::Wide, Ok(small)) => {
                let small = self.builder.ins().iconst(types::I64, small);
                self.builder.ins().sextend(types::I128, small)
            }
            _ => self.integer(multiplier, register_type(machine)),
        };
        self.builder.ins().imul(value, factor)
    }

    fn quotient(&mut self, dividend: Value, divisor: i64, rounding: Rounding) -> Value {
        if divisor == 1 {
            return dividend;
        }
        let by = self.builder.ins().iconst(types::I64, divisor);
        let quotient = self.builder.ins().sdiv(dividend, by);
        if rounding == Rounding::Truncate {
            return quotient;
        }
        let whole = self.builder.ins().imul(quotient, by);
        let rest = self.builder.ins().isub(dividend, whole);
        if rounding == Rounding::Floor {
            let below = self.builder.ins().icmp_imm_s(IntCC::SignedLessThan, rest, 0);
            let below = self.builder.ins().uextend(types::I64, below);
            return self.builder.ins().isub(quotient, below);
        }
        let up = self.builder.ins().icmp_imm_s(IntCC::SignedGreaterThanOrEqual, rest, divisor / 2);
        let down = self.builder.ins().icmp_imm_s(IntCC::SignedLessThanOrEqual, rest, -(divisor / 2));
        let up = self.builder.ins().uextend(types::I64, up);
        let down = self.builder.ins().uextend(types::I64, down);
        let raised = self.builder.ins().iadd(quotient, up);
        self.builder.ins().isub(raised, down)
    }

    fn float_of(&mut self, value: Value, from: Machine, register: Type, divisor: u64) -> Value {
        let long = self.resized(value, from, Machine::Integer { bits: 64, signed: true });
        let float = match from {
            Machine::Integer { bits: 64, signed: false } => self.builder.ins().fcvt_from_uint(register, long),
            _ => self.builder.ins().fcvt_from_sint(register, long),
        };
        if divisor == 1f64.to_bits() {
            return float;
        }
        let divisor = self.builder.ins().f64const(Ieee64::with_bits(divisor));
        self.builder.ins().fdiv(float, divisor)
    }

    /// The value towards zero, and whether it fits.
    fn integer_of_float(&mut self, value: Value, from: Machine, to: Machine) -> (Value, Value) {
        let Machine::Integer { bits, signed } = to else { unreachable!("floats are cast to integers only") };
        let double = match from {
            Machine::Float32 => self.builder.ins().fpromote(types::F64, value),
            _ => value,
        };
        let power = f64::powi(2.0, i32::from(bits) - i32::from(signed));
        // One below the smallest is the last that does not fit, unless doubles are too coarse to have it.
        let (least, condition) = match (signed, bits) {
            (true, 64) => (-power, FloatCC::GreaterThanOrEqual),
            (true, _) => (-power - 1.0, FloatCC::GreaterThan),
            (false, _) => (-1.0, FloatCC::GreaterThan),
        };
        let least = self.builder.ins().f64const(least);
        let most = self.builder.ins().f64const(power);
        let above = self.builder.ins().fcmp(condition, double, least);
        let below = self.builder.ins().fcmp(FloatCC::LessThan, double, most);
        let fits = self.builder.ins().band(above, below);
        let long = match signed {
            true => self.builder.ins().fcvt_to_sint_sat(types::I64, double),
            false => self.builder.ins().fcvt_to_uint_sat(types::I64, double),
        };
        (self.resized(long, Machine::Integer { bits: 64, signed }, to), fits)
    }
}
