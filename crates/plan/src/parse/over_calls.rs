//! What DataFusion does not know of functions OVER rows: `WITHIN GROUP (ORDER BY …)`, whose argument stands in front of the others, and `FILTER` of those that it has no
//! aggregates for. `LISTAGG(…) WITHIN GROUP (ORDER BY …)`, whose argument does not stand there, is written as `LISTAGG(… ORDER BY …)`.

use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{
    CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments, ObjectNamePart,
    Spanned,
};

use crate::errors::{Place, PlanError};

/// What follows the name of a function that stands for one with `WITHIN GROUP (ORDER BY … DESC)`.
const DESCENDING: &str = "_DESCENDING";

/// A function's name as it is written in queries, in upper case.
pub(crate) fn shown_name(name: &str) -> String {
    let shown = name.to_uppercase();
    shown.strip_suffix(DESCENDING).unwrap_or(&shown).to_owned()
}

/// A function OVER rows whose argument stands in `WITHIN GROUP (ORDER BY …)`, as one that has it in front of its others.
pub(super) fn without_group(name: &str, function: &Function) -> Result<Option<Function>, PlanError> {
    let [order] = function.within_group.as_slice() else { return Ok(None) };
    if function.over.is_none() {
        return Ok(None);
    }
    let refused = |construct: &str, hint: &str| {
        let place = Place::of(function.name.0[0].span());
        Err(PlanError::unsupported(place, format!("{name} … WITHIN GROUP {construct}OVER"), hint))
    };
    if !["MODE", "PERCENTILE_CONT", "PERCENTILE_DISC"].contains(&name) {
        return refused("", "leave WITHIN GROUP out");
    }
    let is_descending = order.options.asc == Some(false);
    if is_descending && name == "MODE" {
        return refused("(ORDER BY … DESC) ", "leave DESC out: of several values it is the smallest");
    }
    let mut respelt = Function { within_group: Vec::new(), ..function.clone() };
    if is_descending && let ObjectNamePart::Identifier(written) = &mut respelt.name.0[0] {
        written.value = format!("{name}{DESCENDING}").to_lowercase();
    }
    if let FunctionArguments::List(list) = &mut respelt.args {
        list.args.insert(0, FunctionArg::Unnamed(FunctionArgExpr::Expr(order.expr.clone())));
    }
    Ok(Some(respelt))
}

/// `LISTAGG(…) WITHIN GROUP (ORDER BY …)` as `LISTAGG(… ORDER BY …)`.
pub(super) fn ordered_inside(name: &str, function: &Function) -> Option<Function> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let is_ordered = list.clauses.iter().any(|clause| matches!(clause, FunctionArgumentClause::OrderBy(_)));
    if name != "LISTAGG" || function.over.is_some() || function.within_group.is_empty() || is_ordered {
        return None;
    }
    let mut respelt = function.clone();
    let order = FunctionArgumentClause::OrderBy(std::mem::take(&mut respelt.within_group));
    if let FunctionArguments::List(list) = &mut respelt.args {
        list.clauses.push(order);
    }
    Some(respelt)
}

/// `FIRST_VALUE` or `LAST_VALUE` OVER rows, of a value that is NULL where the `FILTER` leaves a row out: they pass over NULLs.
pub(super) fn without_filter(name: &str, function: &Function) -> Option<Function> {
    if function.over.is_none() || !["FIRST_VALUE", "LAST_VALUE"].contains(&name) {
        return None;
    }
    let mut respelt = function.clone();
    let condition = *respelt.filter.take()?;
    let FunctionArguments::List(list) = &mut respelt.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(value))] = list.args.as_mut_slice() else { return None };
    let result = std::mem::replace(value, Expr::value(sqlparser::ast::Value::Null));
    *value = Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result }],
        else_result: None,
    };
    Some(respelt)
}
