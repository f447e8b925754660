//! Long chains of `AND`, `OR` and `||` as balanced trees: whatever walks a tree calls itself as deep as the tree is. The operators are associative, and operands
//! stay in their order.

use std::ops::ControlFlow;

use sqlparser::ast::{BinaryOperator, Expr, Value, VisitMut, VisitorMut};

/// Shorter chains stay as they are parsed.
const BALANCED_MIN: usize = 16;

/// Balances the chains of all expressions of a syntax tree. Equalities of one column with literals that `OR` joins become one `IN`.
pub(super) fn balance(tree: &mut impl VisitMut) {
    let _ = tree.visit(&mut Chains);
}

struct Chains;

impl VisitorMut for Chains {
    type Break = ();

    /// Before the walk descends, so that it never descends a chain.
    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        if let Some(operator) = chained(expression) {
            let nothing = Expr::Value(Value::Null.with_empty_span());
            let mut operands = operands(std::mem::replace(expression, nothing), &operator);
            if operator == BinaryOperator::Or {
                operands = membership_tests(operands);
            }
            *expression = balanced(operands, &operator);
        }
        ControlFlow::Continue(())
    }
}

fn is_associative(operator: &BinaryOperator) -> bool {
    matches!(operator, BinaryOperator::And | BinaryOperator::Or | BinaryOperator::StringConcat)
}

/// The operator of a chain that is long enough to be balanced.
fn chained(expression: &Expr) -> Option<BinaryOperator> {
    let Expr::BinaryOp { op: operator, .. } = expression else { return None };
    if !is_associative(operator) {
        return None;
    }
    let (mut part, mut operands) = (expression, 1);
    while let Expr::BinaryOp { left, op, .. } = part
        && op == operator
    {
        (part, operands) = (left, operands + 1);
    }
    (operands >= BALANCED_MIN).then(|| operator.clone())
}

fn operands(mut expression: Expr, operator: &BinaryOperator) -> Vec<Expr> {
    let mut operands = Vec::new();
    loop {
        match expression {
            Expr::BinaryOp { left, op, right } if op == *operator => {
                operands.push(*right);
                expression = *left;
            }
            first => {
                operands.push(first);
                operands.reverse();
                return operands;
            }
        }
    }
}

fn balanced(mut operands: Vec<Expr>, operator: &BinaryOperator) -> Expr {
    let right = operands.split_off(operands.len().div_ceil(2));
    let left = if operands.len() == 1 { operands.pop() } else { None };
    let left = left.unwrap_or_else(|| balanced(operands, operator));
    match right.len() {
        0 => left,
        _ => Expr::BinaryOp { left: Box::new(left), op: operator.clone(), right: Box::new(balanced(right, operator)) },
    }
}

/// Literals that have one type in common.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Integer,
    Text,
}

/// The column that an expression compares for equality with a literal.
fn equality(expression: &Expr) -> Option<(&Expr, Kind)> {
    let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = expression else { return None };
    let Expr::Value(literal) = right.as_ref() else { return None };
    let kind = match &literal.value {
        Value::Number(digits, _) if digits.bytes().all(|digit| digit.is_ascii_digit()) => Kind::Integer,
        Value::SingleQuotedString(_) => Kind::Text,
        _ => return None,
    };
    matches!(left.as_ref(), Expr::Identifier(_) | Expr::CompoundIdentifier(_)).then_some((left, kind))
}

/// The operands of OR with one `IN` for each run of equalities of one column.
fn membership_tests(operands: Vec<Expr>) -> Vec<Expr> {
    let mut tests: Vec<Expr> = Vec::new();
    let mut runs: Vec<(Expr, Kind, Vec<Expr>)> = Vec::new();
    for operand in operands {
        let Some(kind) = equality(&operand).map(|(_, kind)| kind) else {
            tests.extend(runs.drain(..).map(membership));
            tests.push(operand);
            continue;
        };
        let Expr::BinaryOp { left, right, .. } = operand else { unreachable!("an equality is a comparison") };
        match runs.last_mut() {
            Some((column, of_kind, list)) if *column == *left && *of_kind == kind => list.push(*right),
            _ => runs.push((*left, kind, vec![*right])),
        }
    }
    tests.extend(runs.into_iter().map(membership));
    tests
}

fn membership((column, _, mut list): (Expr, Kind, Vec<Expr>)) -> Expr {
    let expr = Box::new(column);
    match list.len() {
        1 => Expr::BinaryOp { left: expr, op: BinaryOperator::Eq, right: Box::new(list.remove(0)) },
        _ => Expr::InList { expr, list, negated: false },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Statement, parse};

    /// How deep the condition of a query is, as it is parsed.
    fn depth(condition: &str) -> usize {
        struct Depth(usize, usize);
        impl sqlparser::ast::Visitor for Depth {
            type Break = ();

            fn pre_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
                self.0 += 1;
                self.1 = self.1.max(self.0);
                ControlFlow::Continue(())
            }

            fn post_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
                self.0 -= 1;
                ControlFlow::Continue(())
            }
        }
        let mut parsed = parse(&format!("SELECT 1 FROM t WHERE {condition}")).expect("parses");
        let Statement::Query(query) = parsed.remove(0).statement else { panic!("a query") };
        let mut depth = Depth(0, 0);
        let _ = sqlparser::ast::Visit::visit(&query, &mut depth);
        depth.1
    }

    #[test]
    fn long_chains_are_as_deep_as_their_logarithm() {
        let chain = |operand: &dyn Fn(usize) -> String, operator: &str| {
            depth(&(0..4096).map(operand).collect::<Vec<_>>().join(operator))
        };
        // Twelve levels of the chain, and the two of a comparison.
        assert_eq!(chain(&|number| format!("a > {number}"), " AND "), 14);
        assert_eq!(chain(&|number| format!("a > {number}"), " OR "), 14);
        assert_eq!(chain(&|number| format!("a = {number}"), " OR "), 2, "one IN");
        assert_eq!(chain(&|_| "a > b AND c".to_string(), " OR "), 15);
        assert_eq!(depth(&format!("a = {}", vec!["b"; 4096].join(" || "))), 14);
    }

    #[test]
    fn equalities_of_one_column_in_a_row_are_one_list() {
        let condition = |text: &str| {
            let mut parsed = parse(&format!("SELECT 1 FROM t WHERE {text}")).expect("parses");
            let Statement::Query(query) = parsed.remove(0).statement else { panic!("a query") };
            query.to_string().split_once(" WHERE ").expect("it has a condition").1.to_string()
        };
        let equal = |column: &str, from: usize| {
            (from..from + 9).map(|number| format!("{column} = {number}")).collect::<Vec<_>>().join(" OR ")
        };
        let text = format!("{} OR t.a > 7 OR {} OR a = 'x'", equal("t.a", 0), equal("t.a", 10));
        assert_eq!(
            condition(&text),
            "t.a IN (0, 1, 2, 3, 4, 5, 6, 7, 8) OR t.a > 7 OR t.a IN (10, 11, 12, 13, 14, 15, 16, 17, 18) OR a = 'x'"
        );
        assert_eq!(condition("a = 1 OR a = 2"), "a = 1 OR a = 2", "a short chain stays as it is");
    }
}
