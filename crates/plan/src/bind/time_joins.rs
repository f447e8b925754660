//! `ASOF JOIN`, and `JOIN … FOR SYSTEM_TIME AS OF`: joins with the nearest row in time.
//!
//! DataFusion knows none of them. They become outer joins, whose rules are sound for both, with a call in the condition that says what they are: lowering takes it
//! out again.

use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};

use arrow::datatypes::DataType;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use sqlparser::ast;
use sqlparser::ast::{
    BinaryOperator, Ident, Join, JoinConstraint, JoinOperator, Select, Spanned, TableFactor, TableVersion,
    TableWithJoins, VisitMut, VisitorMut,
};

use crate::bind::constructs::refuse;
use crate::errors::{Place, PlanError};

/// Its arguments are the condition of an ASOF JOIN, which is TRUE where that is one of the other conditions, and whether the join is inner.
const NEAREST: &str = "nearest row";

/// Its arguments are the time that FOR SYSTEM_TIME AS OF names, and whether the join is inner.
const VERSION: &str = "version as of";

/// Which row of the right side a row of the left side is joined with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Nearest {
    /// The nearest one that meets this condition; that is one of the others, where it is TRUE.
    Match(Expr),
    /// The version of this time.
    Version(Expr),
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Marker {
    name: &'static str,
    signature: Signature,
}

impl ScalarUDFImpl for Marker {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        datafusion_common::internal_err!("{} is a part of a join", self.name)
    }
}

static MARKERS: LazyLock<[Arc<ScalarUDF>; 2]> = LazyLock::new(|| {
    [NEAREST, VERSION].map(|name| {
        // What is volatile is neither computed when it is planned, nor taken for equal to another.
        Arc::new(ScalarUDF::from(Marker { name, signature: Signature::any(2, Volatility::Volatile) }))
    })
});

/// The function of a name, if it says what a join is.
pub(crate) fn marker(name: &str) -> Option<Arc<ScalarUDF>> {
    MARKERS.iter().find(|marker| marker.name() == name).cloned()
}

/// What a condition of a join says of it, and whether it drops rows without a match.
pub(crate) fn nearest_of(condition: &Expr) -> Option<(Nearest, bool)> {
    let Expr::ScalarFunction(call) = condition else { return None };
    let [argument, is_inner] = call.args.as_slice() else { return None };
    let is_inner = matches!(is_inner, Expr::Literal(ScalarValue::Boolean(Some(true)), _));
    match call.name() {
        NEAREST => Some((Nearest::Match(argument.clone()), is_inner)),
        VERSION => Some((Nearest::Version(argument.clone()), is_inner)),
        _ => None,
    }
}

/// Refuses those that have no meaning.
pub(crate) fn check(table: &TableWithJoins) -> std::result::Result<(), PlanError> {
    if version_of(&table.relation).is_some() {
        let place = Place::of(table.relation.span());
        return refuse(
            place,
            "FOR SYSTEM_TIME AS OF of a table that is not joined",
            "JOIN it: FROM a JOIN b FOR SYSTEM_TIME AS OF a.time AS b ON a.key = b.key",
        );
    }
    for join in &table.joins {
        let place = Place::of(join.relation.span());
        let constraint = match &join.join_operator {
            JoinOperator::AsOf { .. } if version_of(&join.relation).is_some() => {
                return refuse(place, "FOR SYSTEM_TIME AS OF in an ASOF JOIN", "use one of the two");
            }
            JoinOperator::AsOf { constraint, .. } => constraint,
            operator if version_of(&join.relation).is_some() => match operator {
                JoinOperator::Join(constraint)
                | JoinOperator::Inner(constraint)
                | JoinOperator::Left(constraint)
                | JoinOperator::LeftOuter(constraint) => constraint,
                _ => return refuse(place, "FOR SYSTEM_TIME AS OF in this kind of join", "use JOIN or LEFT JOIN"),
            },
            _ => continue,
        };
        if !matches!(constraint, JoinConstraint::On(_) | JoinConstraint::None) {
            return refuse(place, "a join with the nearest row in time USING columns", "write ON a.key = b.key");
        }
    }
    Ok(())
}

fn version_of(table: &TableFactor) -> Option<&ast::Expr> {
    match table {
        TableFactor::Table { version: Some(TableVersion::ForSystemTimeAsOf(time)), .. } => Some(time),
        _ => None,
    }
}

/// Writes them as outer joins with a call in their conditions.
pub(crate) fn respell(written: &mut impl VisitMut) {
    struct Joins;
    impl VisitorMut for Joins {
        type Break = ();

        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
            select.from.iter_mut().flat_map(|table| &mut table.joins).for_each(respell_join);
            ControlFlow::Continue(())
        }

        fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
            if let TableFactor::NestedJoin { table_with_joins, .. } = table {
                table_with_joins.joins.iter_mut().for_each(respell_join);
            }
            ControlFlow::Continue(())
        }
    }
    let _ = written.visit(&mut Joins);
}

fn respell_join(join: &mut Join) {
    let is_global = std::mem::take(&mut join.global);
    let version = match &mut join.relation {
        TableFactor::Table { version, .. } => version.take(),
        _ => None,
    };
    let (marker, constraint) = match (&mut join.join_operator, version) {
        (JoinOperator::AsOf { match_condition, constraint }, _) => {
            (call(NEAREST, match_condition.clone(), is_global), constraint)
        }
        (operator, Some(TableVersion::ForSystemTimeAsOf(time))) => {
            let is_inner = matches!(operator, JoinOperator::Join(_) | JoinOperator::Inner(_));
            match operator {
                JoinOperator::Join(constraint)
                | JoinOperator::Inner(constraint)
                | JoinOperator::Left(constraint)
                | JoinOperator::LeftOuter(constraint) => (call(VERSION, time, is_inner), constraint),
                _ => return,
            }
        }
        _ => return,
    };
    let condition = match std::mem::replace(constraint, JoinConstraint::None) {
        JoinConstraint::On(condition) => and(ast::Expr::Nested(Box::new(condition)), marker),
        _ => marker,
    };
    join.join_operator = JoinOperator::LeftOuter(JoinConstraint::On(condition));
}

/// A call of a function that says what a join is.
fn call(name: &str, argument: ast::Expr, is_inner: bool) -> ast::Expr {
    let argument_of = |value: ast::Expr| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(value));
    let is_inner = ast::Expr::Value(ast::Value::Boolean(is_inner).with_empty_span());
    ast::Expr::Function(ast::Function {
        name: ast::ObjectName::from(vec![Ident::with_quote('`', name)]),
        uses_odbc_syntax: false,
        parameters: ast::FunctionArguments::None,
        args: ast::FunctionArguments::List(ast::FunctionArgumentList {
            duplicate_treatment: None,
            args: vec![argument_of(argument), argument_of(is_inner)],
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

fn and(left: ast::Expr, right: ast::Expr) -> ast::Expr {
    ast::Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::And, right: Box::new(right) }
}
