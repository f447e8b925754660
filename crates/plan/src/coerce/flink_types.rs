//! Expressions get the types that they have in Flink, where DataFusion's are others.
//!
//! This is done before DataFusion makes types agree, and leaves nothing to it that it would decide otherwise: where FLOAT or DOUBLE meets
//! DECIMAL, it would make a decimal of the other, which has no NaN and few digits; where DATE meets TIMESTAMP, nanoseconds of both.

use arrow::datatypes::DataType;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRewriter};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::{AggregateFunction, Between, Case, InList, ScalarFunction, TryCast};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::logical_plan::Values;
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{
    BinaryExpr, Cast, Expr, ExprSchemable, Like, LogicalPlan, LogicalPlanBuilder, Operator, WindowFunctionDefinition,
    binary_expr, cast, lit, not,
};
use datafusion_optimizer::analyzer::type_coercion::TypeCoercionRewriter;
use pelton_data::column::sql_name;
use pelton_functions::decimal::DIGITS_MAX;
use pelton_functions::{ARRAY_OF, MAP_OF, is_flink_cast, makes_null};

use crate::coerce::common_types::{align_union, bring_together, must_cast};
use crate::coerce::comparisons::{check_comparable, check_operands};
use crate::coerce::decimals::{BIGINT_DIGITS, decimal_arithmetic, decimal_comparison, decimal_range, typed_aggregate};
use crate::coerce::deferred_casts::defer_casts;
use crate::coerce::instants::instant;
use crate::coerce::lengths::{field_of_length, of_equal_days, refine_time};
use crate::coerce::literals::whole_number;
use crate::coerce::strictness::is_strict;
use crate::errors::{PlanError, external};
use crate::parse::CONSTRUCTORS;

/// The plan with Flink's types.
pub(crate) fn flink_types(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up(|node| {
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        // DataFusion has cast the values of a column of VALUES to one type.
        let has_written_casts = !matches!(node, LogicalPlan::Values(_));
        let node = node.map_expressions(|expression| {
            let name = names.save(&expression);
            let typed = defer_casts(expression)?.transform_up(|part| {
                if has_written_casts {
                    check_cast(&part, &schema)?;
                }
                flink_type(part, &schema)
            })?;
            Ok(typed.update_data(|expression| name.restore(expression)))
        })?;
        // What is below may have other types than before.
        Ok(Transformed::yes(retyped_values(align_union(node.data)?)?.recompute_schema()?))
    });
    rewritten.map(|rewritten| rewritten.data)
}

/// An expression over columns with Flink's types.
pub(crate) fn flink_expression(expression: Expr, schema: &DFSchema) -> Result<Expr> {
    let typed = defer_casts(expression)?.transform_up(|part| {
        check_cast(&part, schema)?;
        flink_type(part, schema)
    });
    typed.map(|typed| typed.data)
}

/// VALUES whose columns have the types of what stands there now.
fn retyped_values(node: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Values(Values { schema, values }) = &node else { return Ok(node) };
    let empty = DFSchema::empty();
    let keeps_type = |row: &Vec<Expr>| {
        let mut columns = row.iter().zip(schema.fields());
        columns.all(|(value, field)| value.get_type(&empty).is_ok_and(|data_type| data_type == *field.data_type()))
    };
    if values.iter().all(keeps_type) {
        return Ok(node);
    }
    LogicalPlanBuilder::values(values.clone())?.build()
}

/// An expression whose operands have their types.
fn flink_type(mut expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match &mut expression {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(length)), _) => *length = of_equal_days(*length),
        Expr::Cast(Cast { expr, field }) if may_lose_value(expr, field.data_type(), schema) => {
            let target = Expr::Literal(ScalarValue::try_from(field.data_type())?, None);
            return Ok(Transformed::yes(pelton_functions::cast_as(std::mem::take(&mut **expr), target)));
        }
        Expr::BinaryExpr(BinaryExpr {
            left,
            right,
            op: op @ (Operator::RegexMatch | Operator::RegexNotMatch | Operator::RegexIMatch | Operator::RegexNotIMatch),
        }) => return Ok(Transformed::yes(java_match(*op, std::mem::take(&mut **left), std::mem::take(&mut **right)))),
        Expr::Like(like) if like.escape_char.is_none() => {
            escape_by_name(like, schema);
            return Ok(Transformed::yes(expression));
        }
        Expr::BinaryExpr(BinaryExpr { left, right, op }) => {
            check_operands(*op, left, right, schema)?;
            refine_time(*op, left, right, schema);
            if *op != Operator::StringConcat {
                bring_together(&mut [&mut *left, &mut *right], schema);
            }
            let operands = (&**left, &**right);
            let exact = decimal_arithmetic(*op, operands, schema);
            if let Some(exact) = exact.or_else(|| decimal_comparison(*op, operands, schema)) {
                return Ok(Transformed::yes(exact));
            }
            if let Some(divisor) = narrower_divisor(*op, operands, schema) {
                return Ok(Transformed::yes(cast(expression, divisor)));
            }
        }
        Expr::AggregateFunction(AggregateFunction { func, params }) => {
            let Some(typed) = typed_aggregate(func, &params.args, schema) else {
                return Ok(Transformed::no(expression));
            };
            *func = typed;
        }
        Expr::WindowFunction(call) => {
            let WindowFunctionDefinition::AggregateUDF(func) = &mut call.fun else {
                return Ok(Transformed::no(expression));
            };
            let Some(typed) = typed_aggregate(func, &call.params.args, schema) else {
                return Ok(Transformed::no(expression));
            };
            *func = typed;
        }
        Expr::Between(Between { expr, low, high, .. }) => {
            check_comparable(expr, low, schema)?;
            check_comparable(expr, high, schema)?;
            bring_together(&mut [expr, low, high], schema);
        }
        Expr::InList(InList { expr, list, .. }) => {
            list.iter().try_for_each(|value| check_comparable(expr, value, schema))?;
            let mut values: Vec<&mut Expr> = list.iter_mut().chain([&mut **expr]).collect();
            bring_together(&mut values, schema);
        }
        Expr::Case(case) => {
            bring_branches_together(case, schema);
            return Ok(Transformed::yes(coerced(expression, schema)));
        }
        Expr::ScalarFunction(call) => {
            let call = call.clone();
            return typed_call(expression, call, schema);
        }
        _ => return Ok(Transformed::no(expression)),
    }
    let exact = decimal_range(&expression, schema);
    Ok(Transformed::yes(exact.unwrap_or(expression)))
}

/// Functions that DataFusion computes of a FLOAT as a FLOAT, and Flink of every number as a DOUBLE.
const DOUBLE_FUNCTIONS: [&str; 20] = [
    "acos", "asin", "atan", "atan2", "cbrt", "cos", "cosh", "cot", "degrees", "exp", "ln", "log", "log10", "log2",
    "radians", "sin", "sinh", "sqrt", "tan", "tanh",
];

/// Refuses casts to types with parts: DataFusion's casts of the parts are not Flink's. NULL may be of every type.
fn check_cast(expression: &Expr, schema: &DFSchema) -> Result<()> {
    let (Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field })) = expression else { return Ok(()) };
    let to = field.data_type();
    let Some(from) = expr.get_type(schema).ok().filter(|_| to.is_nested()) else { return Ok(()) };
    if from == DataType::Null || to.contains(&from) {
        return Ok(());
    }
    let error = PlanError::invalid(None, format!("there is no CAST of {} to {}", sql_name(&from), sql_name(to)));
    Err(external(error.with_hint(CONSTRUCTORS)))
}

/// The type of a remainder that is narrower than the dividend: a remainder has the type of the divisor.
fn narrower_divisor(operator: Operator, (left, right): (&Expr, &Expr), schema: &DFSchema) -> Option<DataType> {
    let [dividend, divisor] = [left, right].map(|operand| operand.get_type(schema).ok());
    let (dividend, divisor) = dividend.zip(divisor).filter(|_| operator == Operator::Modulo)?;
    let are_integers = dividend.is_signed_integer() && divisor.is_signed_integer();
    (are_integers && divisor.primitive_width() < dividend.primitive_width()).then_some(divisor)
}

fn bring_branches_together(case: &mut Case, schema: &DFSchema) {
    let (mut whens, mut results): (Vec<&mut Expr>, Vec<&mut Expr>) =
        case.when_then_expr.iter_mut().map(|(when, then)| (&mut **when, &mut **then)).unzip();
    if let Some(operand) = &mut case.expr {
        whens.push(operand);
        bring_together(&mut whens, schema);
    }
    results.extend(case.else_expr.as_deref_mut());
    bring_together(&mut results, schema);
}

/// The expression with branches of one type, which is its own; the analyzer says why where there is none.
fn coerced(expression: Expr, schema: &DFSchema) -> Expr {
    let coerced = TypeCoercionRewriter::new(schema).f_up(expression.clone());
    coerced.map_or(expression, |coerced| coerced.data)
}

fn typed_call(expression: Expr, mut call: ScalarFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let first_type = call.args.first().and_then(|first| first.get_type(schema).ok());
    match (call.name(), first_type) {
        (ARRAY_OF | MAP_OF, _) => Ok(Transformed::yes(constructed(call, schema))),
        (name @ ("coalesce" | "greatest" | "least" | "nvl" | "nvl2"), _) => {
            let conditions = usize::from(name == "nvl2");
            let mut values: Vec<&mut Expr> = call.args.iter_mut().skip(conditions).collect();
            bring_together(&mut values, schema);
            Ok(Transformed::yes(Expr::ScalarFunction(call)))
        }
        (name, _) if DOUBLE_FUNCTIONS.contains(&name) => {
            for argument in &mut call.args {
                let own = argument.get_type(schema);
                if own.is_ok_and(|own| own.is_numeric() && own != DataType::Float64) {
                    *argument = cast(std::mem::take(argument), DataType::Float64);
                }
            }
            Ok(Transformed::yes(Expr::ScalarFunction(call)))
        }
        ("abs", Some(integer)) if integer.is_signed_integer() => {
            Ok(Transformed::yes(pelton_functions::absolute(call.args)))
        }
        ("date_part", _) => Ok(match field_of_length(&call.args, schema) {
            Some(field) => Transformed::yes(field),
            None => Transformed::no(expression),
        }),
        ("overlay", _) => Ok(Transformed::yes(pelton_functions::overlay(call.args))),
        ("power", _) => Ok(Transformed::yes(pelton_functions::power(call.args))),
        ("replace", _) if call.args.len() == 3 && may_be_empty(&call.args[1]) => {
            Ok(Transformed::yes(pelton_functions::replace(call.args)))
        }
        // Its value has the type of the first, whatever that is compared with.
        ("nullif", Some(first_type))
            if call.args.len() == 2 && (first_type.is_numeric() || must_cast(&call.args, schema)) =>
        {
            null_if(&call, first_type, schema).map(Transformed::yes)
        }
        ("floor" | "ceil", Some(integer)) if integer.is_integer() => Ok(Transformed::yes(call.args.swap_remove(0))),
        ("floor" | "ceil", Some(DataType::Decimal128(precision, scale))) if scale > 0 => {
            // The next whole number may have one digit more than the decimal.
            let wide = DataType::Decimal128((precision + 1).min(DIGITS_MAX), scale);
            call.args[0] = cast(std::mem::take(&mut call.args[0]), wide);
            Ok(Transformed::yes(cast(Expr::ScalarFunction(call), DataType::Decimal128(precision, 0))))
        }
        ("round", Some(integer)) if integer.is_signed_integer() => {
            Ok(Transformed::yes(pelton_functions::round_integer(call.args)))
        }
        ("round", Some(float)) if float.is_floating() => Ok(Transformed::yes(pelton_functions::round(call.args))),
        ("to_timestamp_ltz", Some(data_type)) => instant(call, &data_type, schema).map(Transformed::yes),
        ("trunc", Some(float)) if float.is_floating() => Ok(Transformed::yes(pelton_functions::truncate(call.args))),
        ("round", Some(DataType::Decimal128(precision, scale))) => Ok(shorten(expression, &call, precision, scale)),
        ("trunc", Some(integer)) if integer.is_integer() => Ok(Transformed::yes(cut_integer(call, integer))),
        ("trunc", Some(DataType::Decimal128(precision, scale))) => Ok(shorten(expression, &call, precision, scale)),
        _ => Ok(Transformed::no(expression)),
    }
}

/// ARRAY of elements of one type, or MAP of keys and of values of one type each.
fn constructed(mut call: ScalarFunction, schema: &DFSchema) -> Expr {
    let sides = if call.name() == MAP_OF { 2 } else { 1 };
    for side in 0..sides {
        let mut values: Vec<&mut Expr> = call.args.iter_mut().skip(side).step_by(sides).collect();
        bring_together(&mut values, schema);
    }
    Expr::ScalarFunction(call)
}

/// `NULLIF`, whose value has the type of its first argument.
fn null_if(call: &ScalarFunction, first_type: DataType, schema: &DFSchema) -> Result<Expr> {
    let [value, other] = [0, 1].map(|index| call.args[index].clone());
    let mut sides = [value.clone(), other];
    bring_together(&mut sides.iter_mut().collect::<Vec<_>>(), schema);
    let [left, right] = sides;
    let is_equal = binary_expr(left, Operator::Eq, right);
    let null = Expr::Literal(ScalarValue::try_from(first_type)?, None);
    Ok(Expr::Case(Case::new(None, vec![(is_equal.into(), null.into())], Some(value.into()))))
}

/// Whether a text may be empty: a literal says so.
fn may_be_empty(text: &Expr) -> bool {
    match text {
        Expr::Literal(literal, _) => literal.try_as_str().flatten().is_none_or(str::is_empty),
        _ => true,
    }
}

/// Whether a cast may have no value for a number: not all are instants, or have room in a decimal. This is settled before it is said what may be NULL.
fn may_lose_value(value: &Expr, to: &DataType, schema: &DFSchema) -> bool {
    let Ok(from) = value.get_type(schema) else { return false };
    makes_null(&from, to) && !(is_strict() && is_flink_cast(&from, to))
}

/// LIKE with a pattern in which a backslash escapes, as DataFusion takes it where no escape character is named.
fn escape_by_name(like: &mut Like, schema: &DFSchema) {
    if like.pattern.get_type(schema).is_ok_and(|data_type| data_type.is_string()) {
        *like.pattern = pelton_functions::like_pattern(std::mem::take(&mut *like.pattern));
    }
    like.escape_char = Some('\\');
}

/// `text ~ pattern` and its like, by Java's rules.
fn java_match(operator: Operator, text: Expr, pattern: Expr) -> Expr {
    let pattern = match operator {
        Operator::RegexIMatch | Operator::RegexNotIMatch => with_flags("i", pattern),
        _ => pattern,
    };
    let matches = pelton_functions::regexp_like(text, pattern);
    match operator {
        Operator::RegexNotMatch | Operator::RegexNotIMatch => not(matches),
        _ => matches,
    }
}

/// A regular expression with flags in front of it.
fn with_flags(flags: &str, pattern: Expr) -> Expr {
    let flags = format!("(?{flags})");
    match pattern {
        Expr::Literal(literal, _) if literal.try_as_str().flatten().is_some() => {
            lit(flags + literal.try_as_str().flatten().unwrap_or_default())
        }
        other => binary_expr(lit(flags), Operator::StringConcat, other),
    }
}

/// How many digits behind the point ROUND and TRUNCATE leave, where that is constant; none where it cuts before the point.
fn digits_left(call: &ScalarFunction) -> Option<i64> {
    match call.args.get(1) {
        None | Some(Expr::Negative(_)) => Some(0),
        Some(digits) => whole_number(digits).map(|digits| digits.max(0)),
    }
}

/// TRUNCATE of a whole number stays one: as a decimal it loses no digit.
fn cut_integer(mut call: ScalarFunction, integer: DataType) -> Expr {
    let is_whole = match call.args.get(1) {
        None => true,
        Some(digits) => whole_number(digits).is_some_and(|digits| digits >= 0),
    };
    if is_whole {
        return call.args.swap_remove(0);
    }
    call.args[0] = cast(std::mem::take(&mut call.args[0]), DataType::Decimal128(BIGINT_DIGITS, 0));
    cast(Expr::ScalarFunction(call), integer)
}

/// ROUND and TRUNCATE of a DECIMAL have no more digits behind the point than it was shortened to.
fn shorten(expression: Expr, call: &ScalarFunction, precision: u8, scale: i8) -> Transformed<Expr> {
    let digits = digits_left(call).and_then(|digits| i8::try_from(digits).ok());
    let Some(scale_now) = digits.filter(|digits| *digits < scale) else { return Transformed::no(expression) };
    let precision_now = (precision - (scale - scale_now) as u8 + 1).min(precision);
    Transformed::yes(cast(expression, DataType::Decimal128(precision_now, scale_now)))
}
