//! GROUPING SETS, ROLLUP and CUBE: each set of keys is an aggregation of its own, and the results are put together as those of a UNION ALL.
//!
//! Before a query is planned they are written out as one list of sets: DataFusion knows neither `ROLLUP ((a, b))` nor sets inside of sets.

use datafusion_common::{DFSchema, DataFusionError, Result, ScalarValue};
use datafusion_expr::expr::GroupingSet;
use datafusion_expr::logical_plan::Aggregate;
use datafusion_expr::utils::grouping_set_to_exprlist;
use datafusion_expr::{Expr, lit};
use sqlparser::ast;

use crate::bind::aggregate_functions::{GROUP_ID, GROUPING};
use crate::errors::source_locations::SourceLocations;
use crate::errors::{PlanError, external};

/// Sets of one GROUP BY: each is a table of groups, and reads the rows once.
pub(crate) const SETS_MAX: usize = 256;

/// The sets that the expressions of a GROUP BY stand for together; `None` where none of them is GROUPING SETS, ROLLUP or CUBE.
///
/// # Errors
/// Where there are more than [`SETS_MAX`].
pub(crate) fn written_sets(expressions: &[ast::Expr]) -> Result<Option<Vec<Vec<ast::Expr>>>, TooManySets> {
    if !expressions.iter().any(|expression| nested_sets(expression).is_some()) {
        return Ok(None);
    }
    let mut sets = vec![Vec::new()];
    for expression in expressions {
        let more = match nested_sets(expression) {
            Some(nested) => nested?,
            None => vec![members(expression)],
        };
        if sets.len().saturating_mul(more.len()) > SETS_MAX {
            return Err(TooManySets);
        }
        sets = sets.iter().flat_map(|set: &Vec<ast::Expr>| more.iter().map(|more| united(set, more))).collect();
    }
    Ok(Some(sets))
}

/// There are more than [`SETS_MAX`].
#[derive(Debug)]
pub(crate) struct TooManySets;

/// The expressions inside of what a GROUP BY lists.
pub(crate) fn grouped(expression: &ast::Expr) -> Vec<&ast::Expr> {
    match expression {
        ast::Expr::GroupingSets(sets) | ast::Expr::Rollup(sets) | ast::Expr::Cube(sets) => {
            sets.iter().flatten().flat_map(grouped).collect()
        }
        ast::Expr::Function(_) => match nested_call(expression) {
            Some((_, arguments)) => arguments.into_iter().flat_map(grouped).collect(),
            None => vec![expression],
        },
        _ => vec![expression],
    }
}

/// The sets that GROUPING SETS, ROLLUP or CUBE stand for.
fn nested_sets(expression: &ast::Expr) -> Option<Result<Vec<Vec<ast::Expr>>, TooManySets>> {
    Some(match expression {
        ast::Expr::GroupingSets(sets) => {
            let sets = sets.iter().map(|set| match set.as_slice() {
                [only] => nested_sets(only).unwrap_or_else(|| Ok(vec![members(only)])),
                set => Ok(vec![set.to_vec()]),
            });
            sets.collect::<Result<Vec<_>, _>>().map(|sets| sets.concat())
        }
        ast::Expr::Rollup(parts) => rollup(parts),
        ast::Expr::Cube(parts) => cube(parts),
        // Inside of GROUPING SETS they are read as calls.
        _ => {
            let (is_cube, arguments) = nested_call(expression)?;
            let parts: Vec<_> = arguments.into_iter().map(members).collect();
            if is_cube { cube(&parts) } else { rollup(&parts) }
        }
    })
}

/// The arguments of `ROLLUP (…)` or `CUBE (…)`, and whether it is the latter, where they are read as calls of functions.
fn nested_call(expression: &ast::Expr) -> Option<(bool, Vec<&ast::Expr>)> {
    let ast::Expr::Function(function) = expression else { return None };
    let name = function.name.to_string();
    let is_cube = name.eq_ignore_ascii_case("cube");
    let ast::FunctionArguments::List(list) = &function.args else { return None };
    if !is_cube && !name.eq_ignore_ascii_case("rollup") {
        return None;
    }
    let arguments = list.args.iter().map(|argument| match argument {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expression)) => Some(expression),
        _ => None,
    });
    Some((is_cube, arguments.collect::<Option<_>>()?))
}

/// What stands in brackets.
fn members(expression: &ast::Expr) -> Vec<ast::Expr> {
    match expression {
        ast::Expr::Tuple(members) => members.clone(),
        ast::Expr::Nested(inner) => members(inner),
        other => vec![other.clone()],
    }
}

/// All parts, all but the last, and so on.
fn rollup(parts: &[Vec<ast::Expr>]) -> Result<Vec<Vec<ast::Expr>>, TooManySets> {
    if parts.len() >= SETS_MAX {
        return Err(TooManySets);
    }
    Ok((0..=parts.len()).rev().map(|count| parts[..count].concat()).collect())
}

/// All choices of parts.
fn cube(parts: &[Vec<ast::Expr>]) -> Result<Vec<Vec<ast::Expr>>, TooManySets> {
    if parts.len() > SETS_MAX.ilog2() as usize {
        return Err(TooManySets);
    }
    let is_chosen = |choice: u32, part: usize| choice >> part & 1 == 0;
    let set = |choice: u32| {
        let chosen = parts.iter().enumerate().filter(|(part, _)| is_chosen(choice, *part));
        chosen.flat_map(|(_, part)| part.clone()).collect()
    };
    Ok((0..1_u32 << parts.len()).map(set).collect())
}

/// Both sets' members, each once.
fn united(set: &[ast::Expr], more: &[ast::Expr]) -> Vec<ast::Expr> {
    let mut united = set.to_vec();
    for member in more {
        if !united.contains(member) {
            united.push(member.clone());
        }
    }
    united
}

/// The sets of an aggregation as the plan has them.
pub(crate) struct Sets {
    /// For each set which of all grouping expressions it has.
    members: Vec<Vec<usize>>,
    /// How many grouping expressions there are.
    width: usize,
    /// The type of the plan's own column behind them, which says what set a row is of; none where it has none.
    id: Option<ScalarValue>,
}

impl Sets {
    pub fn of(aggregate: &Aggregate) -> Result<Sets> {
        let all = grouping_set_to_exprlist(&aggregate.group_expr)?;
        let width = all.len();
        let [Expr::GroupingSet(GroupingSet::GroupingSets(sets))] = aggregate.group_expr.as_slice() else {
            return Ok(Sets { members: vec![(0..width).collect()], width, id: None });
        };
        let place = |member: &Expr| all.iter().position(|known| *known == member).expect("one of all members");
        let members = sets.iter().map(|set| {
            let mut places: Vec<usize> = set.iter().map(place).collect();
            places.sort_unstable();
            places.dedup();
            places
        });
        let id = ScalarValue::new_zero(aggregate.schema.field(width).data_type())?;
        Ok(Sets { members: members.collect(), width, id: Some(id) })
    }

    /// Columns of the plan before those of aggregates.
    pub fn first_aggregate(&self) -> usize {
        self.width + usize::from(self.id.is_some())
    }

    /// For each set which of all grouping expressions it has.
    pub fn iter(&self) -> impl Iterator<Item = &[usize]> {
        self.members.iter().map(Vec::as_slice)
    }

    /// Whether there are several.
    pub fn are_several(&self) -> bool {
        self.members.len() > 1
    }

    /// The columns of a set's results as the plan has them: `keys` are those of its members, `aggregates` those behind them.
    pub fn columns(&self, set: &[usize], keys: &[Expr], aggregates: Vec<Expr>, schema: &DFSchema) -> Result<Vec<Expr>> {
        let key = |place: usize| match set.iter().position(|member| *member == place) {
            Some(own) => Ok(keys[own].clone()),
            None => Ok(Expr::Literal(ScalarValue::try_from(schema.field(place).data_type())?, None)),
        };
        let keys = (0..self.width).map(key).collect::<Result<Vec<Expr>>>()?;
        let id = self.id.clone().map(|id| Expr::Literal(id, None));
        Ok(keys.into_iter().chain(id).chain(aggregates).collect())
    }

    /// The value of `GROUPING (…)` or `GROUP_ID ()` in the results of the set of this number; `None` where `call` is another aggregate.
    pub fn function(
        &self,
        number: usize,
        call: &Expr,
        aggregate: &Aggregate,
        locations: &SourceLocations,
    ) -> Result<Option<Expr>> {
        let Expr::AggregateFunction(function) = call.clone().unalias_nested().data else { return Ok(None) };
        let set = &self.members[number];
        match function.func.name() {
            GROUPING => {}
            GROUP_ID => {
                let before = self.members[..number].iter().filter(|other| *other == set).count();
                return Ok(Some(lit(before as i64)));
            }
            _ => return Ok(None),
        }
        let refused = |message: &str, hint: &str| -> DataFusionError {
            external(PlanError::invalid(locations.place_of(GROUPING), message).with_hint(hint))
        };
        let arguments = &function.params.args;
        if !(1..=63).contains(&arguments.len()) {
            return Err(refused("GROUPING takes 1 to 63 arguments", "write GROUPING(key)"));
        }
        let all = grouping_set_to_exprlist(&aggregate.group_expr)?;
        let mut bits = 0_i64;
        for argument in arguments {
            let argument = argument.clone().unalias_nested().data;
            let Some(place) = all.iter().position(|known| (*known).clone().unalias_nested().data == argument) else {
                let shown = match &argument {
                    Expr::Column(column) => column.name.clone(),
                    other => other.to_string(),
                };
                let message = format!("{shown} in GROUPING is none of what GROUP BY lists");
                return Err(refused(&message, "write what stands behind GROUP BY"));
            };
            bits = bits << 1 | i64::from(!set.contains(&place));
        }
        Ok(Some(lit(bits)))
    }
}
