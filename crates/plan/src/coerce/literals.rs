//! Literals of a query's text with their types in Flink: whole numbers are INT where they fit, and BIGINT otherwise. DataFusion plans all of them as BIGINT.

use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::planner::{ExprPlanner, PlannerResult, RawAggregateExpr, RawBinaryExpr, RawWindowExpr};
use datafusion_expr::{Expr, LogicalPlan};
use pelton_functions::decimal::DIGITS_MAX;
use sqlparser::ast;

/// The plan of a text with INT literals. Schemas are left to [`super::flink_types`], which computes all of them.
pub(crate) fn with_int_literals(plan: LogicalPlan) -> Result<LogicalPlan> {
    let narrowed = plan.transform_up(|node| {
        // LIMIT and OFFSET are read as BIGINT.
        if matches!(node, LogicalPlan::Limit(_)) {
            return Ok(Transformed::no(node));
        }
        let names = NamePreserver::new(&node);
        node.map_expressions(|expression| {
            if !expression.exists(|part| Ok(narrowed(part).is_some()))? {
                return Ok(Transformed::no(expression));
            }
            let name = names.save(&expression);
            let narrowed = int_literals(expression)?;
            Ok(Transformed::yes(name.restore(narrowed)))
        })
    });
    narrowed.map(|narrowed| narrowed.data)
}

/// Gives operands their types as they are planned: names that DataFusion makes of expressions tell the types of literals.
#[derive(Debug)]
pub(crate) struct IntOperands;

impl ExprPlanner for IntOperands {
    fn plan_binary_op(&self, call: RawBinaryExpr, _schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let typed = |operand: Expr| narrowed(&operand).unwrap_or(operand);
        let RawBinaryExpr { op, left, right } = call;
        Ok(PlannerResult::Original(RawBinaryExpr { op, left: typed(left), right: typed(right) }))
    }

    fn plan_aggregate(&self, mut call: RawAggregateExpr) -> Result<PlannerResult<RawAggregateExpr>> {
        narrow_all(&mut call.args);
        Ok(PlannerResult::Original(call))
    }

    fn plan_window(&self, mut call: RawWindowExpr) -> Result<PlannerResult<RawWindowExpr>> {
        narrow_all(&mut call.args);
        Ok(PlannerResult::Original(call))
    }
}

fn narrow_all(arguments: &mut [Expr]) {
    for argument in arguments {
        if let Some(typed) = narrowed(argument) {
            *argument = typed;
        }
    }
}

/// A whole number as a query's text has it.
pub(crate) fn literal(number: i64) -> Expr {
    let literal = Expr::Literal(ScalarValue::Int64(Some(number)), None);
    narrowed(&literal).unwrap_or(literal)
}

/// An expression of a text with INT literals.
pub(crate) fn int_literals(expression: Expr) -> Result<Expr> {
    let narrowed = expression.transform_up(|part| {
        Ok(match narrowed(&part) {
            Some(literal) => Transformed::yes(literal),
            None => Transformed::no(part),
        })
    });
    narrowed.map(|narrowed| narrowed.data)
}

/// A literal with the type that it has in Flink, where DataFusion gives it another: an INT as BIGINT, and a fraction such as 0.5 as DECIMAL(1, 1), without its zero.
fn narrowed(part: &Expr) -> Option<Expr> {
    let Expr::Literal(literal, metadata) = part else { return None };
    let typed = match *literal {
        ScalarValue::Int64(Some(number)) => ScalarValue::Int32(Some(i32::try_from(number).ok()?)),
        ScalarValue::Decimal128(digits @ Some(_), precision, scale)
            if i16::from(precision) == i16::from(scale) && precision < DIGITS_MAX =>
        {
            ScalarValue::Decimal128(digits, precision + 1, scale)
        }
        _ => return None,
    };
    Some(Expr::Literal(typed, metadata.clone()))
}

/// Casts whole numbers in VALUES to INT where they fit: DataFusion chooses the type of a column as it plans VALUES.
pub(crate) fn cast_to_int(value: &mut ast::Expr) {
    let is_literal = match &*value {
        ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => is_int(expr),
        other => is_int(other),
    };
    if is_literal {
        let number = std::mem::replace(value, ast::Expr::Value(ast::Value::Null.with_empty_span()));
        *value = ast::Expr::Cast {
            kind: ast::CastKind::Cast,
            expr: Box::new(number),
            data_type: ast::DataType::Int(None),
            array: false,
            format: None,
        };
    }
}

fn is_int(value: &ast::Expr) -> bool {
    let ast::Expr::Value(ast::ValueWithSpan { value: ast::Value::Number(digits, _), .. }) = value else { return false };
    digits.parse::<i32>().is_ok()
}

/// The value of a whole number that is written as a literal.
pub(crate) fn whole_number(expression: &Expr) -> Option<i64> {
    match expression {
        Expr::Literal(ScalarValue::Int32(number), _) => number.map(i64::from),
        Expr::Literal(ScalarValue::Int64(number), _) => *number,
        _ => None,
    }
}
