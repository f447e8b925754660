//! Expressions as SQL.

use std::fmt;
use std::fmt::Display;

use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion_common::ScalarValue;
use datafusion_physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NegativeExpr,
    NotExpr, TryCastExpr,
};
use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use pelton_data::column::sql_name;
use pelton_functions::decimal::{is_to_double, operator_of};
use pelton_functions::{ARRAY_OF, FIELD, FIT, ITEM, MAP_OF, cast_spelling, is_pattern_translation};

use crate::lower::sink::is_not_null_guard;
use crate::parse::BASE64_PADDED;

/// An expression as SQL, with columns by name.
pub fn expression(expression: &dyn PhysicalExpr) -> impl Display + '_ {
    Sql { expression, context: 0 }
}

/// How tightly NOT, IS NULL, LIKE and IN bind: as comparisons do.
const PREDICATE: u8 = 20;

/// How tightly a minus sign binds.
const SIGN: u8 = 60;

struct Sql<'a> {
    expression: &'a dyn PhysicalExpr,
    /// How tightly the surrounding expression binds: what binds less is put in parentheses.
    context: u8,
}

impl Display for Sql<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = binding(self.expression);
        if own < self.context {
            f.write_str("(")?;
            write_expression(f, self.expression)?;
            return f.write_str(")");
        }
        write_expression(f, self.expression)
    }
}

fn binding(expression: &dyn PhysicalExpr) -> u8 {
    if let Some(binary) = expression.downcast_ref::<BinaryExpr>() {
        return binary.op().precedence();
    }
    if let Some(operator) =
        expression.downcast_ref::<ScalarFunctionExpr>().and_then(|call| operator_of(call.fun().name()))
    {
        return operator.precedence();
    }
    let is_predicate = expression.is::<NotExpr>()
        || expression.is::<IsNullExpr>()
        || expression.is::<IsNotNullExpr>()
        || expression.is::<LikeExpr>()
        || expression.is::<InListExpr>();
    match is_predicate {
        true => PREDICATE,
        false if expression.is::<NegativeExpr>() => SIGN,
        false => u8::MAX,
    }
}

/// The name and argument of FROM_BASE64 or TO_BASE64, where a call stands in for it. Its argument has been cast to what that function takes.
fn base64_spelling(call: &ScalarFunctionExpr) -> Option<(&'static str, &dyn PhysicalExpr)> {
    let name = match call.fun().name() {
        "decode" => "FROM_BASE64",
        "encode" => "TO_BASE64",
        _ => return None,
    };
    let [argument, encoding] = call.args() else { return None };
    if encoding.downcast_ref::<Literal>()?.value().try_as_str()?? != BASE64_PADDED {
        return None;
    }
    let mut argument = argument.as_ref();
    while let Some(cast) = argument.downcast_ref::<CastExpr>() {
        if !matches!(cast.cast_type(), DataType::Binary | DataType::BinaryView | DataType::Utf8) {
            break;
        }
        argument = cast.expr().as_ref();
    }
    Some((name, argument))
}

fn write_expression(f: &mut fmt::Formatter<'_>, expression: &dyn PhysicalExpr) -> fmt::Result {
    let within = |expression: &'_ dyn PhysicalExpr, context: u8| Sql { expression, context }.to_string();
    if let Some(column) = expression.downcast_ref::<Column>() {
        return f.write_str(column.name());
    }
    if let Some(literal) = expression.downcast_ref::<Literal>() {
        return write_literal(f, literal.value());
    }
    if let Some(binary) = expression.downcast_ref::<BinaryExpr>() {
        let own = binary.op().precedence();
        let left = within(binary.left().as_ref(), own);
        return write!(f, "{left} {} {}", binary.op(), within(binary.right().as_ref(), own + 1));
    }
    if let Some(cast) = expression.downcast_ref::<CastExpr>() {
        return write!(f, "CAST({} AS {})", within(cast.expr().as_ref(), 0), sql_name(cast.cast_type()));
    }
    if let Some(cast) = expression.downcast_ref::<TryCastExpr>() {
        return write!(f, "TRY_CAST({} AS {})", within(cast.expr().as_ref(), 0), sql_name(cast.cast_type()));
    }
    if let Some(is_null) = expression.downcast_ref::<IsNullExpr>() {
        return write!(f, "{} IS NULL", within(is_null.arg().as_ref(), PREDICATE + 1));
    }
    if let Some(is_not_null) = expression.downcast_ref::<IsNotNullExpr>() {
        return write!(f, "{} IS NOT NULL", within(is_not_null.arg().as_ref(), PREDICATE + 1));
    }
    if let Some(not) = expression.downcast_ref::<NotExpr>() {
        return write!(f, "NOT {}", within(not.arg().as_ref(), PREDICATE + 1));
    }
    if let Some(negative) = expression.downcast_ref::<NegativeExpr>() {
        return write!(f, "-{}", within(negative.arg().as_ref(), SIGN + 1));
    }
    if let Some(like) = expression.downcast_ref::<LikeExpr>() {
        let negated = if like.negated() { "NOT " } else { "" };
        let operator = if like.case_insensitive() { "ILIKE" } else { "LIKE" };
        let text = within(like.expr().as_ref(), PREDICATE + 1);
        return write!(f, "{text} {negated}{operator} {}", like_pattern(like.pattern().as_ref()));
    }
    if let Some(list) = expression.downcast_ref::<InListExpr>() {
        let negated = if list.negated() { "NOT " } else { "" };
        let values: Vec<String> = list.list().iter().map(|value| within(value.as_ref(), 0)).collect();
        return write!(f, "{} {negated}IN ({})", within(list.expr().as_ref(), PREDICATE + 1), values.join(", "));
    }
    if let Some(call) = expression.downcast_ref::<ScalarFunctionExpr>() {
        return write_call(f, call);
    }
    match expression.downcast_ref::<CaseExpr>() {
        Some(case) => write_case(f, case),
        None => expression.fmt_sql(f),
    }
}

fn write_call(f: &mut fmt::Formatter<'_>, call: &ScalarFunctionExpr) -> fmt::Result {
    let within = |expression: &'_ dyn PhysicalExpr, context: u8| Sql { expression, context }.to_string();
    if let (Some(operator), [left, right]) = (operator_of(call.fun().name()), call.args()) {
        let own = operator.precedence();
        return write!(f, "{} {operator} {}", within(left.as_ref(), own), within(right.as_ref(), own + 1));
    }
    if is_to_double(call.fun().name()) {
        return write!(f, "CAST({} AS DOUBLE)", within(call.args()[0].as_ref(), 0));
    }
    if is_pattern_translation(call.fun().name()) || is_not_null_guard(call.fun().name()) {
        return write_expression(f, call.args()[0].as_ref());
    }
    if let Some(cast) = cast_spelling(call.fun().name()) {
        return write!(f, "{cast}({} AS {})", within(call.args()[0].as_ref(), 0), sql_name(call.return_type()));
    }
    if let ("length_between", [later, earlier]) = (call.fun().name(), call.args()) {
        return write!(f, "({} - {}) SECOND", within(later.as_ref(), 30), within(earlier.as_ref(), 31));
    }
    if let (FIELD, [row, name]) = (call.fun().name(), call.args()) {
        let name = name.downcast_ref::<Literal>().and_then(|name| name.value().try_as_str().flatten());
        return write!(f, "{}.{}", within(row.as_ref(), u8::MAX), name.unwrap_or_default());
    }
    if let (ITEM, [value, key]) = (call.fun().name(), call.args()) {
        return write!(f, "{}[{}]", within(value.as_ref(), u8::MAX), within(key.as_ref(), 0));
    }
    if call.fun().name() == FIT {
        return write_expression(f, call.args()[0].as_ref());
    }
    if let Some((name, argument)) = base64_spelling(call) {
        return write!(f, "{name}({})", within(argument, 0));
    }
    let arguments: Vec<String> = call.args().iter().map(|argument| within(argument.as_ref(), 0)).collect();
    let name = if call.fun().name() == "regexp_like" { "regexp" } else { call.fun().name() };
    match name {
        ARRAY_OF => write!(f, "ARRAY[{}]", arguments.join(", ")),
        MAP_OF => write!(f, "MAP[{}]", arguments.join(", ")),
        _ => write!(f, "{}({})", name.to_uppercase(), arguments.join(", ")),
    }
}

/// The pattern behind LIKE as it is written there: a plan's escapes by a backslash.
fn like_pattern(pattern: &dyn PhysicalExpr) -> String {
    let within = |part: &dyn PhysicalExpr| Sql { expression: part, context: PREDICATE + 1 }.to_string();
    if let Some(call) = pattern.downcast_ref::<ScalarFunctionExpr>()
        && let (true, [pattern, escape]) = (is_pattern_translation(call.fun().name()), call.args())
    {
        return format!("{} ESCAPE {}", within(pattern.as_ref()), within(escape.as_ref()));
    }
    let text = within(pattern);
    let escapes = |letter: char| text.contains(['\\', letter].iter().collect::<String>().as_str());
    match pattern.is::<Literal>() && text.contains('\\') {
        true if escapes('%') || escapes('_') => text + r" ESCAPE '\'",
        true => text.replace(r"\\", r"\"),
        false => text,
    }
}

fn write_case(f: &mut fmt::Formatter<'_>, case: &CaseExpr) -> fmt::Result {
    f.write_str("CASE")?;
    if let Some(value) = case.expr() {
        write!(f, " {}", expression(value.as_ref()))?;
    }
    for (when, then) in case.when_then_expr() {
        write!(f, " WHEN {} THEN {}", expression(when.as_ref()), expression(then.as_ref()))?;
    }
    if let Some(otherwise) = case.else_expr() {
        write!(f, " ELSE {}", expression(otherwise.as_ref()))?;
    }
    f.write_str(" END")
}

fn write_literal(f: &mut fmt::Formatter<'_>, value: &ScalarValue) -> fmt::Result {
    if value.is_null() {
        return f.write_str("NULL");
    }
    if let ScalarValue::Dictionary(_, value) = value {
        return write_literal(f, value);
    }
    let array = value.to_array().map_err(|_| fmt::Error)?;
    let options = FormatOptions::new().with_null("NULL");
    let formatter = ArrayFormatter::try_new(&array, &options).map_err(|_| fmt::Error)?;
    let text = formatter.value(0).try_to_string().map_err(|_| fmt::Error)?;
    let prefix = match value.data_type() {
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 => "",
        DataType::Date32 => "DATE ",
        DataType::Timestamp(_, None) => "TIMESTAMP ",
        DataType::Timestamp(_, Some(_)) => "TIMESTAMP_LTZ ",
        DataType::Interval(_) => "INTERVAL ",
        _ => return f.write_str(&text),
    };
    let text = if prefix.is_empty() { text } else { text.replace('T', " ") };
    write!(f, "{prefix}'{}'", text.replace('\'', "''"))
}
