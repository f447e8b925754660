//! Calls of window functions, as queries write them.

use arrow::datatypes::FieldRef;
use datafusion_common::{Column, Result};
use datafusion_expr::LogicalPlan;
use datafusion_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use pelton_data::Micros;
use pelton_data::time::micros_per_tick;
use pelton_data::window::Window;
use sqlparser::ast;
use sqlparser::ast::{
    FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, ObjectNamePart, Spanned, TableAlias, TableFactor,
};

use crate::bind::references::alias_of;
use crate::bind::time_attribute::{time_attribute, time_attributes};
use crate::bind::window::{WindowNode, ambiguous};
use crate::bind::window_columns::WINDOW_COLUMNS;
use crate::errors::{Place, PlanError, closest, external};
use crate::length::Length;
use crate::parse::{TABLE_ARGUMENT_PREFIX, interval_micros, named_table};

/// Rows that a window may count.
const ROWS_MAX: i64 = 1 << 40;

/// Plans window functions in FROM, with or without `TABLE(…)` around them.
#[derive(Debug)]
pub(crate) struct WindowFunctionPlanner;

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
pub(crate) struct Call<'a> {
    /// Which function.
    pub name: &'a ObjectName,
    /// Its arguments.
    pub arguments: &'a [FunctionArg],
    /// The name of its rows, and those of their columns.
    pub alias: Option<&'a TableAlias>,
    /// Whether `WITH ORDINALITY` stands behind it.
    pub with_ordinality: bool,
}

/// The functions there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WindowFunction {
    Tumble,
    Hop,
    Cumulate,
    Session,
    TumbleRows,
    HopRows,
}

/// The arguments of a window function, by name.
#[derive(Default)]
struct Arguments<'a>(Vec<(&'static str, &'a ast::Expr)>);

impl<'a> Arguments<'a> {
    fn get(&self, name: &str) -> Option<&'a ast::Expr> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

impl WindowFunction {
    fn of(name: &ObjectName) -> Option<WindowFunction> {
        use WindowFunction::{Cumulate, Hop, HopRows, Session, Tumble, TumbleRows};
        let name = name.to_string();
        let mut all = [Tumble, Hop, Cumulate, Session, TumbleRows, HopRows].into_iter();
        all.find(|function| function.name().eq_ignore_ascii_case(&name))
    }

    fn name(self) -> &'static str {
        match self {
            WindowFunction::Tumble => "TUMBLE",
            WindowFunction::Hop => "HOP",
            WindowFunction::Cumulate => "CUMULATE",
            WindowFunction::Session => "SESSION",
            WindowFunction::TumbleRows => "TUMBLE_ROWS",
            WindowFunction::HopRows => "HOP_ROWS",
        }
    }

    fn counts_rows(self) -> bool {
        matches!(self, WindowFunction::TumbleRows | WindowFunction::HopRows)
    }

    /// Names of the arguments, in the order of their positions.
    fn parameters(self) -> &'static [&'static str] {
        match self {
            WindowFunction::Tumble => &["DATA", "TIMECOL", "SIZE", "OFFSET"],
            WindowFunction::Hop => &["DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"],
            WindowFunction::Cumulate => &["DATA", "TIMECOL", "STEP", "SIZE", "OFFSET"],
            WindowFunction::Session => &["DATA", "TIMECOL", "GAP"],
            WindowFunction::TumbleRows => &["DATA", "SIZE"],
            WindowFunction::HopRows => &["DATA", "SLIDE", "SIZE"],
        }
    }

    fn hint(self) -> &'static str {
        match self {
            WindowFunction::Tumble => "write TUMBLE(TABLE t, DESCRIPTOR(time_column), INTERVAL '10' SECOND [, offset])",
            WindowFunction::Hop => {
                "write HOP(TABLE t, DESCRIPTOR(time_column), slide, size [, offset]), \
                 with slide and size as INTERVAL '10' SECOND"
            }
            WindowFunction::Cumulate => {
                "write CUMULATE(TABLE t, DESCRIPTOR(time_column), step, size [, offset]), \
                 with step and size as INTERVAL '10' SECOND"
            }
            WindowFunction::Session => {
                "write SESSION(TABLE t PARTITION BY key, DESCRIPTOR(time_column), gap), with gap as INTERVAL '10' SECOND"
            }
            WindowFunction::TumbleRows => {
                "write TUMBLE_ROWS(TABLE t [PARTITION BY key], 100), with numbers of rows in digits"
            }
            WindowFunction::HopRows => {
                "write HOP_ROWS(TABLE t [PARTITION BY key], slide, size), with numbers of rows in digits"
            }
        }
    }

    /// The windows that the arguments ask for.
    fn window(self, lengths: &Lengths<'_>) -> Result<Window, PlanError> {
        let sized = || {
            let size = lengths.positive("SIZE", "size")?;
            Ok::<_, PlanError>((size, lengths.offset(size)?))
        };
        match self {
            WindowFunction::Tumble => sized().map(|(size, offset)| Window::Tumbling { size, offset }),
            WindowFunction::Hop => {
                let (size, offset) = sized()?;
                Ok(hopping(size, lengths.positive("SLIDE", "slide")?, offset))
            }
            WindowFunction::Cumulate => {
                let (size, offset) = sized()?;
                cumulative(size, lengths.positive("STEP", "step")?, offset, lengths.place("SIZE"))
            }
            WindowFunction::Session => Ok(Window::Session { gap: lengths.positive("GAP", "gap")? }),
            WindowFunction::TumbleRows => {
                let size = lengths.rows("SIZE", "size")?;
                Ok(Window::Rows { size, slide: size })
            }
            WindowFunction::HopRows => {
                Ok(Window::Rows { slide: lengths.rows("SLIDE", "slide")?, size: lengths.rows("SIZE", "size")? })
            }
        }
    }
}

/// `HOP`. Windows that do not overlap tumble.
pub(crate) fn hopping(size: Micros, slide: Micros, offset: Micros) -> Window {
    if slide == size { Window::Tumbling { size, offset } } else { Window::Hopping { size, slide, offset } }
}

/// `CUMULATE`, with the place of its size. Windows that do not overlap tumble.
pub(crate) fn cumulative(
    size: Micros,
    step: Micros,
    offset: Micros,
    place: Option<Place>,
) -> Result<Window, PlanError> {
    if size % step != 0 {
        let (step, size) = (Length(step), Length(size));
        let message = format!("the size of a cumulative window must be a multiple of its step {step}, not {size}");
        return Err(PlanError::invalid(place, message));
    }
    if step == size {
        return Ok(Window::Tumbling { size, offset });
    }
    Ok(Window::Cumulative { size, step, offset })
}

/// The arguments that are lengths of time.
struct Lengths<'a> {
    function: WindowFunction,
    arguments: &'a Arguments<'a>,
    call: Option<Place>,
}

impl Lengths<'_> {
    fn place(&self, parameter: &str) -> Option<Place> {
        self.arguments.get(parameter).and_then(|literal| Place::of(literal.span()))
    }

    /// An argument that must be there; `what` is its name in messages.
    fn literal(&self, parameter: &str, what: &str) -> Result<&ast::Expr, PlanError> {
        self.arguments.get(parameter).ok_or_else(|| {
            let message = format!("{} lacks its {what}", self.function.name());
            PlanError::invalid(self.call, message).with_hint(self.function.hint())
        })
    }

    fn rows(&self, parameter: &str, what: &str) -> Result<i64, PlanError> {
        let literal = self.literal(parameter, what)?;
        let rows = match literal {
            ast::Expr::Value(ast::ValueWithSpan { value: ast::Value::Number(digits, _), .. }) => digits.parse().ok(),
            _ => None,
        };
        check_rows(what, rows.ok_or_else(|| literal.to_string()), self.place(parameter), self.function.hint())
    }

    fn positive(&self, parameter: &str, what: &str) -> Result<Micros, PlanError> {
        let literal = self.literal(parameter, what)?;
        let length = interval_micros(literal, &format!("the {what} of a window"))?;
        check_length(what, length, self.place(parameter))?;
        Ok(length)
    }

    fn offset(&self, size: Micros) -> Result<Micros, PlanError> {
        let Some(literal) = self.arguments.get("OFFSET") else { return Ok(0) };
        let offset = interval_micros(literal, "the offset of a window")?;
        check_offset(offset, size, self.place("OFFSET"))?;
        Ok(offset)
    }
}

impl<'a> Call<'a> {
    /// The call that `relation` is, if it is one: `f(x)`, `TABLE(f(x))`, `LATERAL f(x)` or `LATERAL TABLE(f(x))`.
    pub fn of(relation: &'a TableFactor) -> Option<Call<'a>> {
        match relation {
            TableFactor::Table { name, args: Some(arguments), alias, with_ordinality, .. } => Some(Call {
                name,
                arguments: &arguments.args,
                alias: alias.as_ref(),
                with_ordinality: *with_ordinality,
            }),
            TableFactor::Function { name, args, alias, with_ordinality, .. } => {
                let (alias, with_ordinality) = (alias.as_ref(), *with_ordinality);
                match args.as_slice() {
                    [FunctionArg::Unnamed(FunctionArgExpr::Expr(ast::Expr::Function(function)))]
                        if name.to_string().eq_ignore_ascii_case("table") =>
                    {
                        Some(Call { with_ordinality, ..Call::of_function(function, alias) })
                    }
                    arguments => Some(Call { name, arguments, alias, with_ordinality }),
                }
            }
            TableFactor::TableFunction { expr: ast::Expr::Function(function), alias } => {
                Some(Call::of_function(function, alias.as_ref()))
            }
            _ => None,
        }
    }

    fn of_function(function: &'a ast::Function, alias: Option<&'a TableAlias>) -> Call<'a> {
        let arguments = match &function.args {
            FunctionArguments::List(list) => list.args.as_slice(),
            FunctionArguments::None | FunctionArguments::Subquery(_) => &[],
        };
        Call { name: &function.name, arguments, alias, with_ordinality: false }
    }

    /// Whether `relation` calls a function that is no window function.
    pub fn is_of_table_function(relation: &TableFactor) -> bool {
        Call::of(relation).is_some_and(|call| WindowFunction::of(call.name).is_none())
    }

    /// Where its name stands.
    pub fn place(&self) -> Option<Place> {
        Place::of(self.name.span())
    }

    fn plan(&self, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
        let function = WindowFunction::of(self.name).expect("other functions are planned before");
        let arguments = self.named_arguments(function).map_err(external)?;
        let missing = |what: &str| {
            let message = format!("{} lacks {what}", function.name());
            external(PlanError::invalid(self.place(), message).with_hint(function.hint()))
        };
        let data = arguments.get("DATA").ok_or_else(|| missing("its table"))?;
        let descriptor = arguments.get("TIMECOL");
        if descriptor.is_none() && !function.counts_rows() {
            return Err(missing("DESCRIPTOR(time_column)"));
        }
        let lengths = Lengths { function, arguments: &arguments, call: self.place() };
        let (table, keys) = table_argument(function, data).map_err(external)?;
        let input = context.plan(table)?;
        let time = descriptor.map(|descriptor| descriptor_column(function, descriptor, &input)).transpose();
        let time = time.map_err(external)?;
        let window = function.window(&lengths).map_err(external)?;
        // Behind an alias the two cannot be told apart.
        let has_time = |field: &FieldRef| field.name() == WINDOW_COLUMNS[2];
        if time.is_some() && self.alias.is_some() && input.schema().fields().iter().any(has_time) {
            return Err(external(ambiguous(WINDOW_COLUMNS[2], self.place())));
        }
        let key = |key: &ast::Ident| partition_column(&input, &key.value, Place::of(key.span));
        let keys = keys.iter().map(key).collect::<Result<_, _>>().map_err(external)?;
        Ok(WindowNode::new(input, time, window, keys, self.place())?.into_plan())
    }

    fn named_arguments(&self, function: WindowFunction) -> Result<Arguments<'a>, PlanError> {
        let (called, parameters) = (function.name(), function.parameters());
        let mut read = Arguments::default();
        for (position, argument) in self.arguments.iter().enumerate() {
            let (name, value) = match argument {
                FunctionArg::Unnamed(value) => (None, value),
                FunctionArg::Named { name, arg, .. } => (Some(name.value.to_uppercase()), arg),
                FunctionArg::ExprNamed { name, arg, .. } => (Some(name.to_string().to_uppercase()), arg),
            };
            let place = Place::of(argument.span());
            let invalid = |message: String| PlanError::invalid(place, message).with_hint(function.hint());
            let FunctionArgExpr::Expr(value) = value else {
                return Err(invalid(format!("'*' is no argument of {called}")));
            };
            let parameter = match &name {
                Some(name) => parameters.iter().find(|known| *known == name).ok_or_else(|| {
                    let (last, first) = parameters.split_last().expect("every function has parameters");
                    let hint = format!("its arguments are {} and {last}", first.join(", "));
                    PlanError::invalid(place, format!("{called} has no argument {name}")).with_hint(hint)
                })?,
                None => parameters.get(position).ok_or_else(|| {
                    let most = ["two", "three", "four", "five"][parameters.len() - 2];
                    invalid(format!("{called} takes at most {most} arguments"))
                })?,
            };
            if read.get(parameter).is_some() {
                return Err(invalid(format!("an argument of {called} is given twice")));
            }
            read.0.push((parameter, value));
        }
        Ok(read)
    }
}

/// A length of windows, called `what` in messages, which must be neither empty nor finer than bounds can say.
pub(crate) fn check_length(what: &str, length: Micros, place: Option<Place>) -> Result<(), PlanError> {
    if length <= 0 || length % 1_000 != 0 {
        let message =
            format!("the {what} of a window must be a positive number of milliseconds, not {}", Length(length));
        return Err(PlanError::invalid(place, message));
    }
    Ok(())
}

/// A number of rows, called `what` in messages; or what there is instead.
pub(crate) fn check_rows(
    what: &str,
    rows: Result<i64, String>,
    place: Option<Place>,
    hint: &str,
) -> Result<i64, PlanError> {
    let found = match rows {
        Ok(rows @ 1..=ROWS_MAX) => return Ok(rows),
        Ok(rows) => rows.to_string(),
        Err(other) => other,
    };
    let message =
        format!("the {what} of windows that count rows must be a number of rows from 1 to {ROWS_MAX}, not {found}");
    Err(PlanError::invalid(place, message).with_hint(hint))
}

/// The offset of windows of `size`.
pub(crate) fn check_offset(offset: Micros, size: Micros, place: Option<Place>) -> Result<(), PlanError> {
    if offset.abs() >= size || offset % 1_000 != 0 {
        let message = format!(
            "the offset of a window must be whole milliseconds and shorter than its size {}, not {}",
            Length(size),
            Length(offset)
        );
        return Err(PlanError::invalid(place, message));
    }
    Ok(())
}

/// The table that is an argument of a window function, and what it is partitioned by.
fn table_argument(function: WindowFunction, argument: &ast::Expr) -> Result<(TableFactor, Vec<ast::Ident>), PlanError> {
    let (table, keys) = match argument {
        ast::Expr::Prefixed { prefix, value } if prefix.value == TABLE_ARGUMENT_PREFIX => match value.as_ref() {
            ast::Expr::Tuple(parts) => (parts.first(), parts.get(1..).unwrap_or_default()),
            name => (Some(name), Default::default()),
        },
        query @ ast::Expr::Subquery(_) => (Some(query), Default::default()),
        _ => (None, Default::default()),
    };
    let name = match table {
        Some(ast::Expr::Identifier(name)) => vec![name.clone()],
        Some(ast::Expr::CompoundIdentifier(names)) => names.clone(),
        _ => Vec::new(),
    };
    let key = |key: &ast::Expr| if let ast::Expr::Identifier(name) = key { Some(name.clone()) } else { None };
    let keys: Vec<ast::Ident> = keys.iter().filter_map(key).collect();
    let is_partitioned = function == WindowFunction::Session || function.counts_rows();
    if let Some(first) = keys.first().filter(|_| !is_partitioned) {
        let message = format!("{} is not partitioned", function.name());
        let hint =
            "only SESSION, TUMBLE_ROWS and HOP_ROWS have PARTITION BY; the keys of other windows are those of GROUP BY";
        return Err(PlanError::invalid(Place::of(first.span), message).with_hint(hint));
    }
    if let Some(ast::Expr::Subquery(query)) = table {
        let table = TableFactor::Derived { lateral: false, subquery: query.clone(), alias: None, sample: None };
        return Ok((table, keys));
    }
    if name.is_empty() {
        let message = format!("the first argument of {} must be a table", function.name());
        let hint = format!("write TABLE {argument}");
        return Err(PlanError::invalid(Place::of(argument.span()), message).with_hint(hint));
    }
    let name = ObjectName(name.into_iter().map(ObjectNamePart::Identifier).collect());
    let alias = alias_of(&name);
    Ok((named_table(name, alias), keys))
}

/// The column `name` of `input`, which windows are partitioned by.
pub(crate) fn partition_column(input: &LogicalPlan, name: &str, place: Option<Place>) -> Result<Column, PlanError> {
    let names: Vec<&str> = input.schema().fields().iter().map(|field| field.name().as_str()).collect();
    let hint = format!("there are {}", names.join(", "));
    let index = named_column(input, name, "to partition by", place, Some(hint))?;
    Ok(Column::from(input.schema().qualified_field(index)))
}

/// Which of the columns of `input` has this name; `purpose` says what it is wanted for, and `hint` what to do where none has a similar one.
fn named_column(
    input: &LogicalPlan,
    name: &str,
    purpose: &str,
    place: Option<Place>,
    hint: Option<String>,
) -> Result<usize, PlanError> {
    let schema = input.schema();
    let mut found = (0..schema.fields().len()).filter(|index| schema.field(*index).name() == name);
    match (found.next(), found.next()) {
        (Some(index), None) => Ok(index),
        (Some(_), Some(_)) => Err(PlanError::invalid(place, format!("there are several columns {name} {purpose}"))),
        (None, _) => {
            let error = PlanError::invalid(place, format!("there is no column {name} {purpose}"));
            let names = schema.fields().iter().map(|field| field.name().as_str());
            let similar =
                closest(name, names).map(|closest| format!("did you mean {closest}? (names are case sensitive)"));
            Err(match similar.or(hint) {
                Some(hint) => error.with_hint(hint),
                None => error,
            })
        }
    }
}

/// The column that `DESCRIPTOR(column)` names, which must be a time attribute of `input`.
fn descriptor_column(
    function: WindowFunction,
    descriptor: &ast::Expr,
    input: &LogicalPlan,
) -> Result<Column, PlanError> {
    let place = Place::of(descriptor.span());
    let name = match descriptor {
        ast::Expr::Function(call) if call.name.to_string().eq_ignore_ascii_case("descriptor") => match &call.args {
            FunctionArguments::List(list) => match list.args.as_slice() {
                [FunctionArg::Unnamed(FunctionArgExpr::Expr(ast::Expr::Identifier(name)))] => Some(name),
                _ => None,
            },
            FunctionArguments::None | FunctionArguments::Subquery(_) => None,
        },
        _ => None,
    };
    let Some(name) = name else {
        let message = format!("the second argument of {} must name a time attribute", function.name());
        return Err(PlanError::invalid(place, message).with_hint("write DESCRIPTOR(time_column)"));
    };
    let place = Place::of(name.span).or(place);
    time_column(input, &name.value, place)
}

/// The column `name` of `input`, which must be a time attribute.
pub(crate) fn time_column(input: &LogicalPlan, name: &str, place: Option<Place>) -> Result<Column, PlanError> {
    let index = named_column(input, name, "to cut windows by", place, Some(attributes_hint(input)))?;
    let schema = input.schema();
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
