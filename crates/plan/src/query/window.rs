//! Window table functions: `TUMBLE(TABLE t, DESCRIPTOR(time), size [, offset])`.
//!
//! In the logical plan a window function is a node of its own that adds `window_start`, `window_end` and `window_time` to
//! its input's columns. DataFusion's rules push predicates through it and leave the rest of it alone.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion_common::{Column, DFSchema, DFSchemaRef, Result};
use datafusion_expr::logical_plan::{Extension, UserDefinedLogicalNodeCore};
use datafusion_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion_expr::{Expr, LogicalPlan};
use pelton_data::Micros;
use pelton_data::time::micros_per_tick;
use sqlparser::ast::{
    self, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, ObjectNamePart, Spanned, TableAlias, TableFactor,
};

use super::context::external;
use super::time_attribute::{time_attribute, time_attributes};
use crate::error::{Place, PlanError, closest};
use crate::parse::{TABLE_ARGUMENT_PREFIX, interval_micros};

/// Names of the columns that a window function adds, in their order.
pub(crate) const WINDOW_COLUMNS: [&str; 3] = ["window_start", "window_end", "window_time"];

const TUMBLE_HINT: &str = "write TUMBLE(TABLE t, DESCRIPTOR(time_column), INTERVAL '10' SECOND [, offset])";

/// `TUMBLE` in a logical plan.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct TumbleNode {
    /// What is cut into windows.
    pub input: LogicalPlan,
    /// The time attribute of the input.
    pub time: Column,
    /// Length of the windows.
    pub size: Micros,
    /// Where window 0 begins.
    pub offset: Micros,
    schema: DFSchemaRef,
}

impl TumbleNode {
    /// Windows over `input`, whose column `time` is a timestamp.
    pub fn new(input: LogicalPlan, time: Column, size: Micros, offset: Micros) -> Result<TumbleNode> {
        let time_field = input.schema().qualified_field_from_column(&time)?.1.clone();
        let mut fields: Vec<_> =
            input.schema().iter().map(|(qualifier, field)| (qualifier.cloned(), field.clone())).collect();
        for added in window_fields(time_field.data_type()) {
            // A window over a window's rows: Flink numbers the names that are taken.
            let mut name = added.name().clone();
            let mut number = 0;
            while fields.iter().any(|(_, field)| *field.name() == name) {
                name = format!("{}{number}", added.name());
                number += 1;
            }
            fields.push((None, Arc::new(added.as_ref().clone().with_name(name))));
        }
        let schema = DFSchema::new_with_metadata(fields, input.schema().metadata().clone())?;
        Ok(TumbleNode { input, time, size, offset, schema: Arc::new(schema) })
    }

    /// The plan that consists of this node.
    pub fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }

    /// The node that a plan consists of.
    pub fn of(plan: &LogicalPlan) -> Option<&TumbleNode> {
        match plan {
            LogicalPlan::Extension(extension) => extension.node.as_any().downcast_ref(),
            _ => None,
        }
    }
}

/// The fields that a window function adds, in the order of [`WINDOW_COLUMNS`].
pub(crate) fn window_fields(time_type: &DataType) -> [FieldRef; 3] {
    let zone = match time_type {
        DataType::Timestamp(_, zone) => zone.clone(),
        _ => None,
    };
    let bound = DataType::Timestamp(TimeUnit::Millisecond, None);
    let [start, end, time] = WINDOW_COLUMNS;
    [
        Arc::new(Field::new(start, bound.clone(), false)),
        Arc::new(Field::new(end, bound, false)),
        Arc::new(Field::new(time, DataType::Timestamp(TimeUnit::Millisecond, zone), false)),
    ]
}

impl PartialOrd for TumbleNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for TumbleNode {
    fn name(&self) -> &str {
        "Tumble"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![Expr::Column(self.time.clone())]
    }

    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        let added = self.input.schema().fields().len()..self.schema.fields().len();
        added.map(|index| self.schema.field(index).name().clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "Tumble: time={}, size={}", self.time.name, Length(self.size))?;
        if self.offset == 0 { Ok(()) } else { write!(f, ", offset={}", Length(self.offset)) }
    }

    fn with_exprs_and_inputs(&self, expressions: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        let time = match expressions.into_iter().next() {
            Some(Expr::Column(time)) => time,
            other => unreachable!("the time attribute of a window stays a column, but became {other:?}"),
        };
        TumbleNode::new(inputs.remove(0), time, self.size, self.offset)
    }
}

/// A length of time as people write it.
pub(crate) struct Length(pub Micros);

impl std::fmt::Display for Length {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (unit, name) = match self.0 {
            0 => (1, "s"),
            micros if micros % 86_400_000_000 == 0 => (86_400_000_000, "d"),
            micros if micros % 3_600_000_000 == 0 => (3_600_000_000, "h"),
            micros if micros % 60_000_000 == 0 => (60_000_000, "min"),
            micros if micros % 1_000_000 == 0 => (1_000_000, "s"),
            micros if micros % 1_000 == 0 => (1_000, "ms"),
            _ => (1, "us"),
        };
        write!(f, "{} {name}", self.0 / unit)
    }
}

/// Plans `TUMBLE` in FROM, with or without `TABLE(…)` around it.
#[derive(Debug)]
pub(super) struct WindowFunctionPlanner;

impl RelationPlanner for WindowFunctionPlanner {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let Some(call) = Call::of(&relation) else { return Ok(RelationPlanning::Original(Box::new(relation))) };
        let plan = call.plan(context)?;
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, call.alias.cloned()))))
    }
}

/// A call of a table function.
pub(super) struct Call<'a> {
    /// Which function.
    pub name: &'a ObjectName,
    /// Its arguments.
    pub arguments: &'a [FunctionArg],
    alias: Option<&'a TableAlias>,
}

/// The arguments of `TUMBLE`, in the order of their positions.
#[derive(Default)]
struct TumbleArguments<'a> {
    data: Option<&'a ast::Expr>,
    time: Option<&'a ast::Expr>,
    size: Option<&'a ast::Expr>,
    offset: Option<&'a ast::Expr>,
}

impl<'a> Call<'a> {
    /// The call that `relation` is, if it is one.
    pub fn of(relation: &'a TableFactor) -> Option<Call<'a>> {
        match relation {
            TableFactor::Table { name, args: Some(arguments), alias, .. } => {
                Some(Call { name, arguments: &arguments.args, alias: alias.as_ref() })
            }
            TableFactor::Function { name, args, alias, .. } => {
                Some(Call { name, arguments: args, alias: alias.as_ref() })
            }
            TableFactor::TableFunction { expr: ast::Expr::Function(function), alias } => {
                let arguments = match &function.args {
                    FunctionArguments::List(list) => list.args.as_slice(),
                    FunctionArguments::None | FunctionArguments::Subquery(_) => &[],
                };
                Some(Call { name: &function.name, arguments, alias: alias.as_ref() })
            }
            _ => None,
        }
    }

    fn place(&self) -> Option<Place> {
        Place::of(self.name.span())
    }

    fn plan(&self, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
        if !self.name.to_string().eq_ignore_ascii_case("tumble") {
            let message = format!("there is no table function {}", self.name);
            return Err(external(PlanError::invalid(self.place(), message).with_hint("there is TUMBLE")));
        }
        let arguments = self.tumble_arguments().map_err(external)?;
        let missing = |what: &str| {
            external(PlanError::invalid(self.place(), format!("TUMBLE lacks {what}")).with_hint(TUMBLE_HINT))
        };
        let data = arguments.data.ok_or_else(|| missing("its table"))?;
        let descriptor = arguments.time.ok_or_else(|| missing("DESCRIPTOR(time_column)"))?;
        let size_literal = arguments.size.ok_or_else(|| missing("its size"))?;
        let input = context.plan(table_argument(data).map_err(external)?)?;
        let time = descriptor_column(descriptor, &input).map_err(external)?;
        let size = interval_micros(size_literal, "the size of a window").map_err(external)?;
        let offset = match arguments.offset {
            Some(literal) => interval_micros(literal, "the offset of a window").map_err(external)?,
            None => 0,
        };
        let offset_place = arguments.offset.and_then(|literal| Place::of(literal.span()));
        check_lengths(size, offset, Place::of(size_literal.span()), offset_place).map_err(external)?;
        Ok(TumbleNode::new(input, time, size, offset)?.into_plan())
    }

    fn tumble_arguments(&self) -> Result<TumbleArguments<'a>, PlanError> {
        let mut read = TumbleArguments::default();
        for (position, argument) in self.arguments.iter().enumerate() {
            let (name, value) = match argument {
                FunctionArg::Unnamed(value) => (None, value),
                FunctionArg::Named { name, arg, .. } => (Some(name.value.to_uppercase()), arg),
                FunctionArg::ExprNamed { name, arg, .. } => (Some(name.to_string().to_uppercase()), arg),
            };
            let place = Place::of(argument.span());
            let FunctionArgExpr::Expr(value) = value else {
                return Err(PlanError::invalid(place, "'*' is no argument of TUMBLE").with_hint(TUMBLE_HINT));
            };
            let slot = match (name.as_deref(), position) {
                (Some("DATA"), _) | (None, 0) => &mut read.data,
                (Some("TIMECOL"), _) | (None, 1) => &mut read.time,
                (Some("SIZE"), _) | (None, 2) => &mut read.size,
                (Some("OFFSET"), _) | (None, 3) => &mut read.offset,
                (Some(other), _) => {
                    let message = format!("TUMBLE has no argument {other}");
                    let hint = "its arguments are DATA, TIMECOL, SIZE and OFFSET";
                    return Err(PlanError::invalid(place, message).with_hint(hint));
                }
                (None, _) => {
                    let message = "TUMBLE takes at most four arguments";
                    return Err(PlanError::invalid(place, message).with_hint(TUMBLE_HINT));
                }
            };
            if slot.replace(value).is_some() {
                return Err(PlanError::invalid(place, "an argument of TUMBLE is given twice").with_hint(TUMBLE_HINT));
            }
        }
        Ok(read)
    }
}

/// Refuses windows that are empty, or cut finer than their bounds can say.
pub(super) fn check_lengths(
    size: Micros,
    offset: Micros,
    size_place: Option<Place>,
    offset_place: Option<Place>,
) -> Result<(), PlanError> {
    let whole = |length: Micros| length % 1_000 == 0;
    if size <= 0 || !whole(size) {
        let message = format!("the size of a window must be a positive number of milliseconds, not {}", Length(size));
        return Err(PlanError::invalid(size_place, message));
    }
    if offset.abs() >= size || !whole(offset) {
        let message = format!(
            "the offset of a window must be whole milliseconds and shorter than its size {}, not {}",
            Length(size),
            Length(offset)
        );
        return Err(PlanError::invalid(offset_place, message));
    }
    Ok(())
}

fn table_argument(argument: &ast::Expr) -> Result<TableFactor, PlanError> {
    let name = match argument {
        ast::Expr::Prefixed { prefix, value } if prefix.value == TABLE_ARGUMENT_PREFIX => match value.as_ref() {
            ast::Expr::Identifier(name) => vec![name.clone()],
            ast::Expr::CompoundIdentifier(names) => names.clone(),
            _ => Vec::new(),
        },
        ast::Expr::Subquery(query) => {
            return Ok(TableFactor::Derived { lateral: false, subquery: query.clone(), alias: None, sample: None });
        }
        _ => Vec::new(),
    };
    if name.is_empty() {
        let message = "the first argument of TUMBLE must be a table";
        let hint = format!("write TABLE {argument}");
        return Err(PlanError::invalid(Place::of(argument.span()), message).with_hint(hint));
    }
    Ok(TableFactor::Table {
        name: ObjectName(name.into_iter().map(ObjectNamePart::Identifier).collect()),
        alias: None,
        args: None,
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    })
}

/// The column that `DESCRIPTOR(column)` names, which must be a time attribute of `input`.
fn descriptor_column(descriptor: &ast::Expr, input: &LogicalPlan) -> Result<Column, PlanError> {
    let place = Place::of(descriptor.span());
    let name = match descriptor {
        ast::Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("descriptor") => {
            match &function.args {
                FunctionArguments::List(list) => match list.args.as_slice() {
                    [FunctionArg::Unnamed(FunctionArgExpr::Expr(ast::Expr::Identifier(name)))] => Some(name),
                    _ => None,
                },
                FunctionArguments::None | FunctionArguments::Subquery(_) => None,
            }
        }
        _ => None,
    };
    let Some(name) = name else {
        let message = "the second argument of TUMBLE must name a time attribute";
        return Err(PlanError::invalid(place, message).with_hint("write DESCRIPTOR(time_column)"));
    };
    let place = Place::of(name.span).or(place);
    time_column(input, &name.value, place)
}

/// The column `name` of `input`, which must be a time attribute.
pub(super) fn time_column(input: &LogicalPlan, name: &str, place: Option<Place>) -> Result<Column, PlanError> {
    let schema = input.schema();
    let mut found = (0..schema.fields().len()).filter(|index| schema.field(*index).name() == name);
    let Some(index) = found.next() else {
        let error = PlanError::invalid(place, format!("there is no column {name} to cut windows by"));
        let names = schema.fields().iter().map(|field| field.name().as_str());
        return Err(match closest(name, names) {
            Some(closest) => error.with_hint(format!("did you mean {closest}? (names are case sensitive)")),
            None => error.with_hint(attributes_hint(input)),
        });
    };
    if found.next().is_some() {
        return Err(PlanError::invalid(place, format!("there are several columns {name} to cut windows by")));
    }
    let is_timestamp = micros_per_tick(schema.field(index).data_type()).is_some();
    if !is_timestamp || time_attribute(input, index).is_none() {
        let message = format!("{name} is not a time attribute, and windows are cut by time attributes only");
        return Err(PlanError::invalid(place, message).with_hint(attributes_hint(input)));
    }
    Ok(Column::from(schema.qualified_field(index)))
}

fn attributes_hint(input: &LogicalPlan) -> String {
    let attributes = time_attributes(input);
    if attributes.is_empty() {
        return "declare WATERMARK FOR column AS column - INTERVAL '5' SECOND, or a column AS PROCTIME(), in CREATE TABLE"
            .to_string();
    }
    let verb = if attributes.len() == 1 { "time attribute is" } else { "time attributes are" };
    format!("the {verb} {}", attributes.join(", "))
}
