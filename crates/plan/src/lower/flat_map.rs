//! Calls of table functions, which become steps of pipelines.

use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion_common::Result;
use datafusion_expr::logical_plan::UserDefinedLogicalNodeCore;
use datafusion_expr::{Expr, ExprSchemable};
use pelton_data::column::logical_type;

use crate::bind::flat_map::{FlatMapNode, placed};
use crate::bind::names::Names;
use crate::coerce::simplify::simplify;
use crate::errors::{PlanError, external};
use crate::lower::Lowering;
use crate::lower::scope::{cast_to, column, flat_map_qualifier};
use crate::lower::unbound::{Branch, Relation, UnboundFlatMap, UnboundStep};
use crate::lower::window_bounds::materialize;
use crate::pipeline::Window;

impl Lowering<'_> {
    /// The rows of a call, with the input's columns before the function's; `condition` is that of a LEFT JOIN.
    pub(crate) fn flat_map(&mut self, node: &FlatMapNode, condition: Option<&Expr>) -> Result<Relation> {
        let schema = node.input.schema();
        let named =
            |branch: &Branch| node.arguments.iter().map(|argument| branch.substitute(argument, schema)).collect();
        let mut relation = self.relation(&node.input)?.apart_where_named(named)?;
        let number = self.unbound.flat_maps;
        self.unbound.flat_maps += 1;
        let qualifier = flat_map_qualifier(number);
        let mut names = Names::default();
        let own_name = |field: &FieldRef| Arc::new(field.as_ref().clone().with_name(names.unique(field.name())));
        let fields: Vec<FieldRef> = node.added().map(own_name).collect();
        for branch in &mut relation.branches {
            check_cut(branch, node.call.keep_unmatched)?;
            let arguments = self.arguments(node, branch)?;
            branch.extend_scope(&qualifier, fields.iter().cloned())?;
            branch.columns.extend(fields.iter().map(|field| column(&qualifier, field.name())));
            let condition = condition.map(|condition| {
                let condition = branch.substitute(condition, node.schema())?;
                simplify(materialize(condition, branch)?, &branch.scope)
            });
            branch.steps.push(UnboundStep::FlatMap(UnboundFlatMap {
                number,
                function: node.call.function.clone(),
                arguments,
                keep_unmatched: node.call.keep_unmatched,
                condition: condition.transpose()?,
                fields: fields.clone(),
            }));
        }
        Ok(relation)
    }

    /// The arguments of a call in terms of a branch's scope, with the types that the function takes.
    fn arguments(&self, node: &FlatMapNode, branch: &Branch) -> Result<Vec<Expr>> {
        let scope = branch.scope.as_ref();
        let arguments = node.arguments.iter().map(|argument| {
            let argument = branch.substitute(argument, node.input.schema())?;
            simplify(materialize(argument, branch)?, &branch.scope)
        });
        let arguments: Vec<Expr> = arguments.collect::<Result<_>>()?;
        let types: Vec<_> = arguments.iter().map(|argument| argument.get_type(scope)).collect::<Result<_>>()?;
        let types: Vec<_> = types.iter().map(|own| logical_type(own).clone()).collect();
        let wanted = node.call.function.0.argument_types(&types).map_err(|error| external(placed(&error, None)))?;
        arguments.into_iter().zip(&wanted).map(|(argument, wanted)| cast_to(argument, wanted, scope)).collect()
    }
}

/// Refuses to call a function for rows whose windows depend on how many rows there are. With `keeps_rows` each stays at least once.
fn check_cut(branch: &Branch, keeps_rows: bool) -> Result<()> {
    let Some(cut) = &branch.cut else { return Ok(()) };
    let (windows, left_join) = match cut.window {
        Window::Session { .. } if keeps_rows => return Ok(()),
        Window::Session { .. } => ("sessions", "use LEFT JOIN, or "),
        // Rows that become several would be counted more than once.
        _ if cut.by_key().is_some() => ("windows that count the rows of each key", ""),
        _ => return Ok(()),
    };
    let construct = format!("a table function for rows that are cut into {windows}");
    let hint = format!("{left_join}call it in a view and read that");
    Err(external(PlanError::unsupported(cut.place, construct, hint)))
}
