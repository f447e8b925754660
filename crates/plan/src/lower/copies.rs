//! Rows of HOP and CUMULATE that are read one by one, and not grouped by their windows: each row once for each window that it is in.
//!
//! The windows of a row follow from its time, and there are as many of them for every row (or some more than it is in): each is a branch of its
//! own, whose windows have each row once.

use arrow::datatypes::DataType;
use datafusion_common::Result;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_expr::{Expr, ExprSchemable};
use pelton_data::Micros;
use pelton_data::window::Window;

use crate::coerce::simplify::simplify;
use crate::lower::unbound::{Branch, Cut, Relation, UnboundStep};
use crate::lower::window_bounds::{Bounds, named_bound, ticks, window_bound};

/// Windows of one row that are read one by one: each reads the rows once more.
const COPIES_MAX: i64 = 64;

impl Relation {
    /// The same rows, each once for each of its windows where it may be in several, so far as these can be told by its time.
    pub fn each_in_its_windows(self) -> Result<Relation> {
        let mut branches = Vec::new();
        for branch in self.branches {
            match branch.cut.as_ref().and_then(windows_of_row) {
                Some(windows) => {
                    let copies = windows.iter().map(|bounds| branch.in_window(bounds));
                    branches.extend(copies.collect::<Result<Vec<Branch>>>()?);
                }
                None => branches.push(branch),
            }
        }
        Ok(Relation { branches })
    }

    /// As [`Relation::each_in_its_windows`] where `expressions` of the relation name the windows.
    pub fn apart_where_named(self, names: impl Fn(&Branch) -> Result<Vec<Expr>>) -> Result<Relation> {
        for branch in &self.branches {
            if let Some(cut) = branch.cut.as_ref().filter(|cut| !cut.window.has_each_row_once())
                && names(branch)?.iter().any(names_window)
            {
                let apart = cut.place;
                let mut relation = self.each_in_its_windows()?;
                relation.branches.iter_mut().for_each(|branch| branch.apart = apart);
                return Ok(relation);
            }
        }
        Ok(self)
    }
}

impl Branch {
    /// The rows that are in a window with these bounds.
    fn in_window(&self, bounds: &Bounds) -> Result<Branch> {
        let mut branch = self.clone();
        let Some(Cut { time: Some(time), .. }) = branch.cut.take() else { unreachable!("it is cut by a time") };
        let columns = std::mem::take(&mut branch.columns).into_iter();
        branch.columns = columns.map(|column| self.bound_of(column, &time, bounds)).collect::<Result<_>>()?;
        if bounds.may_be_outside {
            let end = window_bound(&time, bounds, 1, &DataType::Int64)?;
            let is_inside = simplify(ticks(&time).lt(end), &branch.scope)?;
            branch.steps.push(UnboundStep::Filter(is_inside));
        }
        Ok(branch)
    }

    /// An expression in which the bounds of windows are computed.
    fn bound_of(&self, expression: Expr, time: &Expr, bounds: &Bounds) -> Result<Expr> {
        let replaced = expression.transform_up(|node| {
            let Some(bound) = named_bound(&node) else { return Ok(Transformed::no(node)) };
            let data_type = node.get_type(self.scope.as_ref())?;
            Ok(Transformed::yes(window_bound(time, bounds, bound, &data_type)?))
        })?;
        Ok(replaced.data)
    }
}

/// Whether an expression over a branch's scope reads a column of its windows.
pub(crate) fn names_window(expression: &Expr) -> bool {
    let mut is_named = false;
    let visited = expression.apply(|node| {
        is_named |= named_bound(node).is_some();
        Ok(if is_named { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    visited.expect("the visit fails at no part");
    is_named
}

/// The windows that a row may be in; `None` where it is in one, where its time does not tell them, or where there are too many.
fn windows_of_row(cut: &Cut) -> Option<Vec<Bounds>> {
    if cut.time.is_none() || cut.window.has_each_row_once() {
        return None;
    }
    let count = |size: Micros, stride: Micros| (size + stride - 1) / stride;
    match cut.window {
        Window::Hopping { size, slide, offset } if count(size, slide) <= COPIES_MAX => {
            let bounds = |number: i64| Bounds {
                stride: slide,
                offset,
                start: -number * slide,
                end: size - number * slide,
                may_be_outside: size - number * slide < slide,
            };
            Some((0..count(size, slide)).map(bounds).collect())
        }
        Window::Cumulative { size, step, offset } if count(size, step) <= COPIES_MAX => {
            let bounds = |number: i64| Bounds {
                stride: size,
                offset,
                start: 0,
                end: number * step,
                may_be_outside: number * step < size,
            };
            Some((1..=size / step).map(bounds).collect())
        }
        _ => None,
    }
}
