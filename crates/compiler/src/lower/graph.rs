//! Expressions that machine code computes, as a graph in which equal subexpressions are one node.

use std::collections::HashMap;

use arrow::datatypes::DataType;
use pelton_data::column::{Layout, VIEW_INLINE_LENGTH_MAX};

use crate::select::Comparison;

/// A node of a [`Graph`]. Operands have smaller numbers than what uses them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(pub(crate) usize);

/// What a node computes from its operands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Operation {
    /// Column of the pipeline.
    Column(usize),
    /// Column that DataFusion computed before the call: index into the pipeline's foreign expressions.
    Foreign(usize),
    /// The same for every row.
    Constant(Literal),
    /// Wrapping for integers, exact for decimals (which are only lowered where they cannot overflow), IEEE for floats.
    Arithmetic(Arithmetic, NodeId, NodeId),
    /// Minus the operand.
    Negate(NodeId),
    /// Floats in total order, but zeros are equal; operands have the same machine form.
    Compare(Comparison, NodeId, NodeId),
    /// `IS DISTINCT FROM`: never NULL.
    Distinct(NodeId, NodeId),
    /// Three-valued. The right operand may fail only where the left one is not false.
    And(NodeId, NodeId),
    /// Three-valued. The right operand may fail only where the left one is not true.
    Or(NodeId, NodeId),
    /// Three-valued.
    Not(NodeId),
    /// Never NULL.
    IsNull(NodeId),
    /// To the node's type.
    Cast(Conversion, NodeId),
    /// The first branch whose condition is true, else the last operand, else NULL. Only the branch taken may fail.
    Case(Vec<(NodeId, NodeId)>, Option<NodeId>),
    /// Whether the operand equals one of the constants.
    Among(NodeId, Vec<NodeId>),
    /// The first operand, or NULL where both are equal.
    NullIf(NodeId, NodeId),
}

/// A constant as machine code holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Literal {
    /// Integers, decimals (unscaled), dates, timestamps, booleans (0 or 1).
    Integer(i128),
    /// The bits of a `DOUBLE` or, in the low half, of a `FLOAT`.
    Float(u64),
    /// An Arrow string view; long ones point into [`Graph::strings`].
    View(u128),
    /// NULL.
    Null,
}

/// Arithmetic on two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Arithmetic {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`: fails for a zero divisor, and where the quotient does not fit. Towards zero.
    Divide,
    /// `%`: fails for a zero divisor. The sign of the dividend.
    Remainder,
}

/// How a cast computes its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Conversion {
    /// Integer-like to integer-like times `multiplier`. Operands outside `check` do not fit.
    Scale { multiplier: i128, check: Option<Bounds>, misfit: Misfit },
    /// Divides by `divisor`, then checks that the quotient is within `check`.
    Divide { divisor: i64, rounding: Rounding, check: Option<Bounds>, misfit: Misfit },
    /// To a float, then divided by `divisor` (the bits of a double) unless that is 1.
    ToFloat { divisor: u64 },
    /// From one float type to the other.
    Float,
    /// From a float, towards zero; what does not fit is a misfit.
    FromFloat { misfit: Misfit },
    /// From a float, towards zero: the least and greatest integer of 32 or 64 bits in place of what lies beyond, 0 for NaN, and of narrower integers the last bits.
    FromFloatSaturating,
    /// Whether it is not zero.
    ToBoolean,
    /// The upper 64 of 128 bits.
    UpperHalf,
}

/// What becomes of a value that does not fit the type it is cast to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Misfit {
    /// The row fails (CAST).
    Fails,
    /// The result is NULL (TRY_CAST).
    Null,
}

/// Where a quotient that is not whole goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Rounding {
    /// Towards zero.
    Truncate,
    /// Towards minus infinity.
    Floor,
    /// To the nearest, halves away from zero.
    HalfAway,
}

/// The values an integer-like node can have, both inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Bounds {
    /// Smallest.
    pub(crate) min: i128,
    /// Largest.
    pub(crate) max: i128,
}

impl Bounds {
    /// Of 64-bit signed integers.
    pub(crate) const I64: Bounds = Bounds { min: i64::MIN as i128, max: i64::MAX as i128 };

    /// The smallest bounds that hold all of `values`, or `None` where one of them does not exist.
    pub(crate) fn hull(values: impl IntoIterator<Item = Option<i128>>) -> Option<Bounds> {
        values.into_iter().try_fold(Bounds { min: i128::MAX, max: i128::MIN }, |bounds, value| {
            let value = value?;
            Some(Bounds { min: bounds.min.min(value), max: bounds.max.max(value) })
        })
    }

    /// Whether all values are within `other`.
    pub(crate) fn fits(self, other: Bounds) -> bool {
        other.min <= self.min && self.max <= other.max
    }

    /// Of the results of an operation that is monotone in each operand.
    pub(crate) fn combine(self, other: Bounds, operation: impl Fn(i128, i128) -> Option<i128>) -> Option<Bounds> {
        let (a, b) = (self, other);
        Bounds::hull([
            operation(a.min, b.min),
            operation(a.min, b.max),
            operation(a.max, b.min),
            operation(a.max, b.max),
        ])
    }

    /// Of all values of an integer-like type.
    pub(crate) fn of(data_type: &DataType) -> Option<Bounds> {
        use DataType::*;
        let (min, max) = match data_type {
            Boolean => (0, 1),
            Int8 => (i8::MIN.into(), i8::MAX.into()),
            Int16 => (i16::MIN.into(), i16::MAX.into()),
            Int32 | Date32 => (i32::MIN.into(), i32::MAX.into()),
            Int64 | Timestamp(..) => (i64::MIN.into(), i64::MAX.into()),
            UInt8 => (0, u8::MAX.into()),
            UInt16 => (0, u16::MAX.into()),
            UInt32 => (0, u32::MAX.into()),
            UInt64 => (0, u64::MAX.into()),
            Decimal128(precision, _) => {
                let limit = 10i128.pow(u32::from(*precision)) - 1;
                (-limit, limit)
            }
            _ => return None,
        };
        Some(Bounds { min, max })
    }
}

/// How a value stands in machine registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Machine {
    /// 8 to 64 bits. Booleans are 0 or 1 in 8 unsigned bits.
    Integer {
        /// Width.
        bits: u8,
        /// Whether it has a sign.
        signed: bool,
    },
    /// A decimal that does not fit 64 bits.
    Wide,
    /// 32 bits.
    Float32,
    /// 64 bits.
    Float64,
    /// A string view of 16 bytes.
    View,
}

impl Machine {
    /// The form of values of a type, decimals apart.
    pub(crate) fn of(data_type: &DataType) -> Option<Machine> {
        use DataType::*;
        let integer = |bits, signed| Some(Machine::Integer { bits, signed });
        match data_type {
            Boolean | UInt8 => integer(8, false),
            Int8 => integer(8, true),
            Int16 => integer(16, true),
            UInt16 => integer(16, false),
            Int32 | Date32 => integer(32, true),
            UInt32 => integer(32, false),
            Int64 | Timestamp(..) => integer(64, true),
            UInt64 => integer(64, false),
            Float32 => Some(Machine::Float32),
            Float64 => Some(Machine::Float64),
            Utf8View => Some(Machine::View),
            Decimal128(precision, _) if *precision <= 18 => integer(64, true),
            Decimal128(..) => Some(Machine::Wide),
            _ => None,
        }
    }
}

/// One expression and what is known of its values.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// What it computes.
    pub(crate) operation: Operation,
    /// The Arrow type of its values.
    pub(crate) data_type: DataType,
    /// How its values stand in registers.
    pub(crate) machine: Machine,
    /// Its values, where they are integer-like.
    pub(crate) bounds: Option<Bounds>,
    /// Whether its operands hold a column that DataFusion computes and that may fail. It is computed for every row, so
    /// it must not stand where only some rows are looked at.
    pub(crate) foreign_may_fail: bool,
    /// Where the bytes of its values are, where these are string views.
    pub(crate) bytes: Option<Bytes>,
}

/// Where the bytes of strings are that do not lie inside their views.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bytes {
    /// There are no such strings.
    Inside,
    /// In [`Graph::strings`].
    Constant,
    /// In the buffers of this column or foreign column.
    Of(NodeId),
}

impl Bytes {
    /// Of strings that are some here, some there; `None` where a view could not tell which of the two it points into.
    fn and(self, other: Bytes) -> Option<Bytes> {
        match (self, other) {
            (Bytes::Inside, bytes) | (bytes, Bytes::Inside) => Some(bytes),
            (bytes, other) => (bytes == other).then_some(bytes),
        }
    }
}

/// The expressions of one pipeline.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    nodes: Vec<Node>,
    known: HashMap<(Operation, DataType), NodeId>,
    /// Bytes of constant strings that do not fit into a view.
    pub(crate) strings: Vec<u8>,
}

impl Graph {
    /// The node.
    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0]
    }

    /// The value of a constant.
    pub(crate) fn literal(&self, id: NodeId) -> Option<Literal> {
        match self.node(id).operation {
            Operation::Constant(literal) => Some(literal),
            _ => None,
        }
    }

    /// The node that computes `operation`, new or known; `None` where machine code has no form for the type.
    /// `bounds` are those of the type where none are given.
    pub(crate) fn add(&mut self, operation: Operation, data_type: DataType, bounds: Option<Bounds>) -> Option<NodeId> {
        let key = (operation, data_type);
        if let Some(&id) = self.known.get(&key) {
            return Some(id);
        }
        let (operation, data_type) = key.clone();
        let bounds = bounds.or_else(|| Bounds::of(&data_type));
        let machine = match data_type {
            DataType::Decimal128(..) if !matches!(operation, Operation::Foreign(_)) => match bounds {
                Some(bounds) if bounds.fits(Bounds::I64) => Machine::Integer { bits: 64, signed: true },
                _ => Machine::Wide,
            },
            _ => Machine::of(&data_type)?,
        };
        let id = NodeId(self.nodes.len());
        let bytes = match machine {
            Machine::View => Some(self.bytes(id, &operation)?),
            _ => None,
        };
        let mut foreign_may_fail = false;
        operation.for_each_operand(|operand| foreign_may_fail |= self.node(operand).foreign_may_fail);
        self.nodes.push(Node { operation, data_type, machine, bounds, foreign_may_fail, bytes });
        self.known.insert(key, id);
        Some(id)
    }

    /// Where the bytes of the values of node `id`, string views, are; `None` where in several places.
    fn bytes(&self, id: NodeId, operation: &Operation) -> Option<Bytes> {
        let of = |id: &NodeId| self.node(*id).bytes.unwrap_or(Bytes::Inside);
        match operation {
            Operation::Column(_) | Operation::Foreign(_) => Some(Bytes::Of(id)),
            Operation::Constant(Literal::View(view)) if *view as u32 > VIEW_INLINE_LENGTH_MAX => Some(Bytes::Constant),
            Operation::Case(branches, otherwise) => {
                let values = branches.iter().map(|(_, value)| value).chain(otherwise);
                values.map(of).try_fold(Bytes::Inside, Bytes::and)
            }
            Operation::NullIf(value, _) | Operation::Cast(_, value) => Some(of(value)),
            _ => Some(Bytes::Inside),
        }
    }

    /// Says that the foreign column `id` may fail.
    pub(crate) fn mark_foreign_may_fail(&mut self, id: NodeId) {
        self.nodes[id.0].foreign_may_fail = true;
    }

    /// All nodes that `roots` need, operands before users.
    pub(crate) fn reachable(&self, roots: impl IntoIterator<Item = NodeId>) -> Vec<NodeId> {
        let mut needed = vec![false; self.nodes.len()];
        let mut open: Vec<NodeId> = roots.into_iter().collect();
        while let Some(id) = open.pop() {
            if !std::mem::replace(&mut needed[id.0], true) {
                self.node(id).operation.for_each_operand(|operand| open.push(operand));
            }
        }
        (0..self.nodes.len()).filter(|&id| needed[id]).map(NodeId).collect()
    }

    /// Whether values of a type can be read from a column.
    pub(crate) fn loads(data_type: &DataType) -> bool {
        Machine::of(data_type).is_some() && Layout::of(data_type).is_some()
    }
}

impl Operation {
    /// Calls `visit` with each operand.
    pub(crate) fn for_each_operand(&self, mut visit: impl FnMut(NodeId)) {
        match self {
            Operation::Column(_) | Operation::Foreign(_) | Operation::Constant(_) => {}
            Operation::Negate(a) | Operation::Not(a) | Operation::IsNull(a) | Operation::Cast(_, a) => visit(*a),
            Operation::Arithmetic(_, a, b)
            | Operation::Compare(_, a, b)
            | Operation::Distinct(a, b)
            | Operation::And(a, b)
            | Operation::Or(a, b)
            | Operation::NullIf(a, b) => {
                visit(*a);
                visit(*b);
            }
            Operation::Case(branches, otherwise) => {
                for (condition, value) in branches {
                    visit(*condition);
                    visit(*value);
                }
                otherwise.iter().for_each(|&value| visit(value));
            }
            Operation::Among(value, list) => {
                visit(*value);
                list.iter().for_each(|&item| visit(item));
            }
        }
    }
}

impl Graph {
    /// Whether the node's value is NULL for no row, given which columns are not.
    pub(crate) fn never_null(&self, id: NodeId, column_never_null: &impl Fn(NodeId) -> bool) -> bool {
        let never = |id: &NodeId| self.never_null(*id, column_never_null);
        match &self.node(id).operation {
            Operation::Column(_) | Operation::Foreign(_) => column_never_null(id),
            Operation::Constant(literal) => *literal != Literal::Null,
            Operation::IsNull(_) | Operation::Distinct(..) => true,
            Operation::NullIf(..) => false,
            Operation::Cast(Conversion::Scale { check: Some(_), misfit: Misfit::Null, .. }, _)
            | Operation::Cast(Conversion::Divide { check: Some(_), misfit: Misfit::Null, .. }, _)
            | Operation::Cast(Conversion::FromFloat { misfit: Misfit::Null }, _) => false,
            Operation::Negate(a) | Operation::Not(a) | Operation::Cast(_, a) => never(a),
            Operation::Arithmetic(_, a, b)
            | Operation::Compare(_, a, b)
            | Operation::And(a, b)
            | Operation::Or(a, b) => never(a) && never(b),
            Operation::Case(branches, otherwise) => {
                branches.iter().all(|(_, value)| never(value)) && otherwise.as_ref().is_some_and(never)
            }
            Operation::Among(value, list) => never(value) && list.iter().all(never),
        }
    }
}
