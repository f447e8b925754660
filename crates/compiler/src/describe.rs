//! A compiled pipeline in words, for EXPLAIN.

use std::fmt::Write;

use pelton_data::aggregate::Accumulate;
use pelton_data::join::JoinKind;
use pelton_plan::pipeline::Program;
use pelton_state::join::Shape;

use crate::error::CompileError;
use crate::kernel::aggregate::Grouping;
use crate::kernel::loops::Loop;
use crate::kernel::project::{Projected, Projection};
use crate::kernel::{CompiledKernel, CompiledStep, CompiledTarget};
use crate::lower::function::Effect;
use crate::lower::graph::{Arithmetic, Conversion, Graph, Literal, Machine, NodeId, Operation};
use crate::lower::plan::plan_kernel;
use crate::select::Comparison;

/// What a compiled kernel does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelDescription {
    /// The kernel, line by line: what each loop does to each row.
    pub text: String,
    /// Expressions that run as machine code.
    pub compiled: Vec<String>,
    /// Expressions that DataFusion evaluates, a column at a time.
    pub interpreted: Vec<String>,
}

/// Describes the kernel of `program.pipelines[pipeline]` without loading tables or compiling anything.
///
/// # Errors
/// Where an expression has no type or an aggregate does not take its argument's type.
pub fn describe(program: &Program, pipeline: usize) -> Result<KernelDescription, CompileError> {
    let shapes = vec![Shape::default(); program.lookups.len()];
    Ok(describe_kernel(&plan_kernel(program, pipeline, &shapes)?))
}

pub(crate) fn describe_kernel(kernel: &CompiledKernel) -> KernelDescription {
    let mut writer = Writer {
        graph: &kernel.shared.graph,
        names: &kernel.shared.names,
        foreign: kernel.shared.foreign.iter().map(ToString::to_string).collect(),
        text: String::new(),
        compiled: Vec::new(),
        interpreted: Vec::new(),
    };
    if !kernel.selects.is_empty() {
        let selects: Vec<String> = kernel.selects.iter().map(|select| select.planned.to_string()).collect();
        writer.line(0, &format!("select with SIMD where {}", selects.join(" and ")));
        writer.compiled.extend(selects);
    }
    for step in &kernel.steps {
        match step.as_ref() {
            CompiledStep::Keep { code, .. } => writer.keep(code),
            CompiledStep::FlatMap(flat_map) => {
                let kept = if flat_map.keep_unmatched() { ", rows without a match stay" } else { "" };
                writer.line(0, &format!("call {}{kept}", flat_map.text()));
            }
            CompiledStep::Lookup { keys, kind, conditions, .. } => {
                let kept = match kind {
                    JoinKind::Inner | JoinKind::Right => "",
                    JoinKind::Left | JoinKind::Full => ", rows without a match stay",
                    JoinKind::Semi => ", rows with a match stay",
                    JoinKind::Anti => ", rows without a match alone stay",
                };
                let keys = writer.projection(keys);
                let keys = if keys.is_empty() { "all rows".to_owned() } else { keys.join(", ") };
                writer.line(0, &format!("look up {keys}{kept}"));
                conditions.iter().for_each(|code| writer.condition(code));
            }
        }
    }
    match kernel.target.as_ref() {
        CompiledTarget::Stream { projection, schema } => {
            let columns = writer.projection(projection);
            writer.line(0, "for each row write");
            for (field, column) in schema.fields().iter().zip(columns) {
                writer.line(1, &format!("{} = {column}", field.name()));
            }
        }
        CompiledTarget::Window(aggregation) => writer.aggregation(aggregation),
    }
    let Writer { text, compiled, interpreted, .. } = writer;
    KernelDescription { text, compiled, interpreted }
}

struct Writer<'a> {
    graph: &'a Graph,
    names: &'a [String],
    foreign: Vec<String>,
    text: String,
    compiled: Vec<String>,
    interpreted: Vec<String>,
}

impl Writer<'_> {
    fn line(&mut self, indent: usize, line: &str) {
        writeln!(self.text, "{}{line}", "  ".repeat(indent)).expect("strings take all text");
    }

    fn keep(&mut self, code: &Loop) {
        let predicate = self.root(code.effect.root());
        self.line(0, &format!("for each row keep where {predicate}"));
    }

    fn condition(&mut self, code: &Loop) {
        let predicate = self.root(code.effect.root());
        self.line(1, &format!("for each pair keep where {predicate}"));
    }

    fn aggregation(&mut self, aggregation: &crate::kernel::aggregate::Aggregation) {
        for fold in &aggregation.folds {
            let argument = fold.column.map(|column| self.names[column].clone());
            self.line(0, &format!("column at a time: {}", change(fold.accumulate, argument.as_deref())));
        }
        if aggregation.only_folds() {
            return;
        }
        let found = match &aggregation.grouping {
            Grouping::Single => "entry = the only one, in registers".to_owned(),
            Grouping::Integer { keys, dense, .. } => {
                let key = self.root(keys.effect.root());
                match dense {
                    Some(_) => format!("entry = table[{key} - base], or by hash where keys are far apart"),
                    None => format!("entry = by hash of {key}"),
                }
            }
            Grouping::Columns(columns) => {
                let columns: Vec<&str> = columns.iter().map(|&column| self.names[column].as_str()).collect();
                format!("entry = by hash of ({})", columns.join(", "))
            }
            Grouping::Computed(projection) => {
                format!("entry = by hash of ({})", self.projection(projection).join(", "))
            }
        };
        self.line(0, "for each row");
        self.line(1, &found);
        if aggregation.by_lookup.is_some() {
            self.line(1, "found once for each row looked up, then known by its number");
        }
        let Effect::Accumulate { updates, .. } = &aggregation.update.effect else { return };
        for update in updates {
            let argument = update.argument.map(|argument| self.root(argument));
            self.line(1, &change(update.accumulate, argument.as_deref()));
        }
        for (_, projection) in &aggregation.others {
            let argument = self.projection(projection).join(", ");
            self.line(1, &format!("column at a time: {argument}"));
        }
    }

    fn projection(&mut self, projection: &Projection) -> Vec<String> {
        let outputs = projection.code.as_ref().map(|code| code.effect.roots().collect::<Vec<_>>()).unwrap_or_default();
        let describe = |projected: &Projected| match projected {
            Projected::Plain(column) => self.names[*column].clone(),
            Projected::Written(index) => self.root(outputs[*index]),
            Projected::Product { node, .. } => self.root(*node),
            Projected::Computed(index) => {
                let text = self.foreign[*index].clone();
                note(&mut self.interpreted, &text);
                format!("interpreted {text}")
            }
            Projected::Interpreted(expression) => {
                let text = expression.to_string();
                note(&mut self.interpreted, &text);
                format!("interpreted {text}")
            }
        };
        projection.columns.iter().map(describe).collect()
    }

    /// An expression that a loop computes.
    fn root(&mut self, id: NodeId) -> String {
        for needed in self.graph.reachable([id]) {
            if let Operation::Foreign(index) = self.graph.node(needed).operation {
                let text = self.foreign[index].clone();
                note(&mut self.interpreted, &text);
            }
        }
        let text = self.expression(id);
        if !matches!(self.graph.node(id).operation, Operation::Column(_) | Operation::Foreign(_)) {
            note(&mut self.compiled, &text);
        }
        text
    }

    fn expression(&self, id: NodeId) -> String {
        let node = self.graph.node(id);
        match &node.operation {
            Operation::Column(column) => self.names[*column].clone(),
            Operation::Foreign(index) => format!("interpreted {}", self.foreign[*index]),
            Operation::Constant(literal) => self.literal(*literal, node.machine),
            Operation::Arithmetic(operator, a, b) => {
                let sign = match operator {
                    Arithmetic::Add => "+",
                    Arithmetic::Subtract => "-",
                    Arithmetic::Multiply => "*",
                    Arithmetic::Divide => "/",
                    Arithmetic::Remainder => "%",
                };
                self.infix(*a, sign, *b)
            }
            Operation::Negate(a) => format!("-{}", self.operand(*a)),
            Operation::Compare(comparison, a, b) => {
                let sign = match comparison {
                    Comparison::Equal => "=",
                    Comparison::NotEqual => "<>",
                    Comparison::Less => "<",
                    Comparison::LessOrEqual => "<=",
                    Comparison::Greater => ">",
                    Comparison::GreaterOrEqual => ">=",
                };
                self.infix(*a, sign, *b)
            }
            Operation::Distinct(a, b) => self.infix(*a, "is distinct from", *b),
            Operation::And(a, b) => self.infix(*a, "and", *b),
            Operation::Or(a, b) => self.infix(*a, "or", *b),
            Operation::Not(a) => match self.graph.node(*a).operation {
                Operation::IsNull(a) => format!("{} is not null", self.operand(a)),
                _ => format!("not {}", self.operand(*a)),
            },
            Operation::IsNull(a) => format!("{} is null", self.operand(*a)),
            Operation::Cast(conversion, a) => match conversion {
                Conversion::Scale { multiplier: 1, check: None, .. } => self.expression(*a),
                _ => format!("{}({})", pelton_data::column::sql_name(&node.data_type), self.expression(*a)),
            },
            Operation::Case(branches, otherwise) => {
                let mut text = "case".to_owned();
                for (condition, value) in branches {
                    write!(text, " when {} then {}", self.expression(*condition), self.expression(*value))
                        .expect("strings take all text");
                }
                if let Some(otherwise) = otherwise {
                    write!(text, " else {}", self.expression(*otherwise)).expect("strings take all text");
                }
                text + " end"
            }
            Operation::Among(value, list) => {
                let list: Vec<String> = list.iter().map(|&item| self.expression(item)).collect();
                format!("{} in ({})", self.operand(*value), list.join(", "))
            }
            Operation::NullIf(a, b) => format!("nullif({}, {})", self.expression(*a), self.expression(*b)),
        }
    }

    fn infix(&self, a: NodeId, sign: &str, b: NodeId) -> String {
        format!("{} {sign} {}", self.operand(a), self.operand(b))
    }

    fn operand(&self, id: NodeId) -> String {
        let text = self.expression(id);
        match self.graph.node(id).operation {
            Operation::Foreign(_)
            | Operation::Arithmetic(..)
            | Operation::Compare(..)
            | Operation::Distinct(..)
            | Operation::And(..)
            | Operation::Or(..)
            | Operation::Not(_)
            | Operation::IsNull(_) => format!("({text})"),
            _ => text,
        }
    }

    fn literal(&self, literal: Literal, machine: Machine) -> String {
        match literal {
            Literal::Integer(value) => value.to_string(),
            Literal::Float(bits) if machine == Machine::Float32 => f32::from_bits(bits as u32).to_string(),
            Literal::Float(bits) => f64::from_bits(bits).to_string(),
            Literal::Null => "null".to_owned(),
            Literal::View(view) => {
                let bytes = view.to_le_bytes();
                let length = view as u32 as usize;
                let offset = (view >> 96) as usize;
                let text =
                    if length <= 12 { &bytes[4..4 + length] } else { &self.graph.strings[offset..offset + length] };
                format!("'{}'", String::from_utf8_lossy(text))
            }
        }
    }
}

/// What an argument does to an accumulator; none where rows are counted.
fn change(accumulate: Accumulate, argument: Option<&str>) -> String {
    match (accumulate, argument) {
        (_, None) => "count += 1".to_owned(),
        (Accumulate::Count, Some(argument)) => format!("count += {argument} is not null"),
        (
            Accumulate::SumInteger | Accumulate::SumWide | Accumulate::SumFloat | Accumulate::SumFloatWide,
            Some(argument),
        ) => {
            format!("sum += {argument}")
        }
        (Accumulate::SumSquares | Accumulate::SumSquares128 | Accumulate::SumSquares192, Some(argument)) => {
            format!("sum += {argument} * {argument}")
        }
        (Accumulate::Minimum, Some(argument)) => format!("minimum = min(minimum, {argument})"),
        (Accumulate::Maximum, Some(argument)) => format!("maximum = max(maximum, {argument})"),
        (Accumulate::First, Some(argument)) => format!("first = {argument}, where none came before"),
        (Accumulate::Last, Some(argument)) => format!("last = {argument}, where none came after"),
        (Accumulate::Values, Some(argument)) => format!("list += {argument}"),
        (Accumulate::Arrivals, Some(argument)) => format!("list += position of {argument}"),
        (Accumulate::Distinct { .. }, Some(argument)) => format!("set += {argument}"),
        (Accumulate::Frequencies, Some(argument)) => format!("frequency of {argument} += 1"),
        (Accumulate::DistinctSketch, Some(argument)) => format!("sketch += {argument}"),
        (Accumulate::Udaf(_), Some(argument)) => format!("state += {argument}"),
    }
}

fn note(list: &mut Vec<String>, text: &str) {
    if !list.iter().any(|known| known == text) {
        list.push(text.to_owned());
    }
}
