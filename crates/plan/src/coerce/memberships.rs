//! Keeps lists of `IN` apart where DataFusion's simplifier would join them wrongly.
//!
//! It makes one list of two over the same value, and no test at all where that is empty: FALSE of `k IN (1, 2) AND k IN (3)`, and TRUE of
//! `k NOT IN (1, 2) OR k NOT IN (3)`. Where k is NULL both are NULL. A NULL in a list, and a value that each row has its own of, it takes for values
//! like others, that equal themselves and nothing else. What it joins by lengthening a list, `IN … OR … IN` and `NOT IN … AND … NOT IN`, stays right.

use std::collections::{BTreeMap, BTreeSet};

use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{Column, DFSchema, Result};
use datafusion_expr::expr::InList;
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, Operator};

/// A test of whether a value is one of some.
struct Test<'e> {
    value: &'e Expr,
    is_negated: bool,
    /// Whether it is a list, and not one comparison: the simplifier makes lists of several.
    is_list: bool,
    /// Whether what the value is compared with is constant, and nothing of it NULL.
    is_certain: bool,
}

/// Tests by the columns that their values are of: values may become equal only when they are simplified, as those do that are cast to the type of a literal.
type Tests<'e> = BTreeMap<BTreeSet<&'e Column>, Vec<Test<'e>>>;

/// Names, and so hides from the simplifier, the operands of AND and OR that it must not join. The names have no meaning.
pub(crate) fn set_apart(expression: Expr, scope: &DFSchema) -> Result<Transformed<Expr>> {
    if !expression.exists(|part| Ok(connective(part).is_some()))? {
        return Ok(Transformed::no(expression));
    }
    expression.transform_up(|part| {
        let Some((left, operator, right)) = connective(&part) else { return Ok(Transformed::no(part)) };
        if !joins_wrongly(left, operator, right, scope)? {
            return Ok(Transformed::no(part));
        }
        let hidden = |operand: &Expr| Box::new(operand.clone().alias("apart"));
        Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(hidden(left), operator, hidden(right)))))
    })
}

/// The operands of AND or OR.
fn connective(expression: &Expr) -> Option<(&Expr, Operator, &Expr)> {
    match expression {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            Some((left, *op, right))
        }
        _ => None,
    }
}

/// Whether lists of both sides would become one that says something else about NULL.
fn joins_wrongly(left: &Expr, operator: Operator, right: &Expr, scope: &DFSchema) -> Result<bool> {
    let (mut of_left, mut of_right) = (Tests::new(), Tests::new());
    tests(right, false, &mut of_right);
    of_right.retain(|_, tests| become_lists(tests));
    if of_right.is_empty() {
        return Ok(false);
    }
    tests(left, false, &mut of_left);
    of_left.retain(|_, tests| become_lists(tests));
    for (columns, of_left) in &of_left {
        let of_right = of_right.get(columns).map_or(&[][..], Vec::as_slice);
        for (one, other) in of_left.iter().flat_map(|one| of_right.iter().map(move |other| (one, other))) {
            let is_lengthened = one.is_negated == other.is_negated && one.is_negated == (operator == Operator::And);
            if is_lengthened {
                continue;
            }
            if !one.is_certain || !other.is_certain || one.value.nullable(scope)? || other.value.nullable(scope)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Whether tests of one value are a list, or several that may become one.
fn become_lists(tests: &[Test<'_>]) -> bool {
    tests.len() > 1 || tests.iter().any(|test| test.is_list)
}

/// The tests that an expression of AND, OR and NOT consists of.
fn tests<'e>(expression: &'e Expr, is_negated: bool, found: &mut Tests<'e>) {
    let is_certain = |value: &Expr| matches!(value, Expr::Literal(value, _) if !value.is_null());
    let mut add = |test: Test<'e>| {
        let columns = test.value.column_refs().into_iter().collect();
        found.entry(columns).or_default().push(test);
    };
    match expression {
        Expr::Not(inner) => tests(inner, !is_negated, found),
        Expr::Alias(alias) => tests(&alias.expr, is_negated, found),
        Expr::InList(InList { expr, list, negated }) => add(Test {
            value: expr,
            is_negated: is_negated != *negated,
            is_list: true,
            is_certain: list.iter().all(is_certain),
        }),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And | Operator::Or, right }) => {
            tests(left, is_negated, found);
            tests(right, is_negated, found);
        }
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Eq | Operator::NotEq), right }) => {
            let (value, with) = match [left, right].map(|side| side.column_refs().is_empty()) {
                [false, true] => (left, right),
                [true, false] => (right, left),
                _ => return,
            };
            let is_negated = is_negated != (*op == Operator::NotEq);
            add(Test { value, is_negated, is_list: false, is_certain: is_certain(with) });
        }
        _ => {}
    }
}
