//! What is special about windows that count rows: rows are counted in the order of their arrival, before anything that is written behind the
//! windows drops some of them.
//!
//! Where all rows of a stream are counted as they are, blocks know their numbers. Else a node without functions passes them on, whose stream has
//! the rows that are counted and no others. Windows of each key count them where they are accumulated.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion_common::{DFSchema, Result};
use datafusion_expr::{Expr, lit};
use pelton_data::over::{OverColumn, OverSpec};

use crate::bind::window::WindowNode;
use crate::coerce::simplify::simplify;
use crate::errors::{PlanError, external};
use crate::lower::Lowering;
use crate::lower::aggregate::result;
use crate::lower::over::{Added, Collector};
use crate::lower::unbound::{Branch, Cut, Relation};
use crate::pipeline::{Operator, StreamRef, Window, WindowColumn};

impl Lowering<'_> {
    /// Cuts rows into windows that count them.
    pub(crate) fn cut_by_number(&mut self, node: &WindowNode) -> Result<Relation> {
        let mut relation = self.relation(&node.input)?;
        let (Some(branch), true) = (relation.branches.pop(), relation.branches.is_empty()) else {
            let hint = "count the rows of each part by themselves";
            let construct = "counting the rows of a UNION ALL, which has no order,";
            return Err(external(PlanError::unsupported(self.locations.window, construct, hint)));
        };
        self.check_not_cut(&branch)?;
        let schema = node.input.schema();
        let mut keys = Vec::new();
        for key in &node.keys {
            let key = Expr::Column(key.clone());
            if !matches!(simplify(branch.substitute(&key, schema)?, &branch.scope)?, Expr::Literal(..)) {
                keys.push(key);
            }
        }
        self.check_order(&branch, &keys, schema)?;
        let (mut branch, window) = match (node.window, keys.is_empty()) {
            (window, true) if branch.steps.is_empty() => (branch, window),
            (window, true) => (self.pass_on(branch, schema)?, window),
            (Window::Rows { size, slide }, false) => (branch, Window::RowsByKey { size, slide }),
            (other, false) => unreachable!("{other:?} does not count rows"),
        };
        let keys = keys.iter().map(|key| branch.substitute(key, schema));
        let keys = keys.collect::<Result<_>>()?;
        branch.cut(Cut { window, place: self.locations.window, time: None, keys })?;
        Ok(Relation { branches: vec![branch] })
    }

    /// Refuses rows that come in no order: which of them a window has would be left to chance.
    fn check_order(&self, branch: &Branch, keys: &[Expr], schema: &DFSchema) -> Result<()> {
        let of_input = |key: &Expr| Ok(self.window_key(branch, &branch.substitute(key, schema)?));
        let keys: Vec<Option<usize>> = keys.iter().map(of_input).collect::<Result<_>>()?;
        let is_ordered = match self.unbound.window_behind(branch.input) {
            // A window has one row of each group, and windows leave in the order of their ends.
            Some((_, window)) if window.ranking.is_none() => {
                (0..window.keys.len()).all(|key| keys.contains(&Some(key)))
            }
            _ => self.has_order(branch.input),
        };
        if is_ordered {
            return Ok(());
        }
        let construct = "counting the results of windows, which come in no order within one window,";
        let hint = "PARTITION BY all columns that these are grouped by besides the window";
        Err(external(PlanError::unsupported(self.locations.window, construct, hint)))
    }

    /// Which of its window's keys a column of a branch is.
    fn window_key(&self, branch: &Branch, expression: &Expr) -> Option<usize> {
        let expression = if let Expr::Cast(cast) = expression { &cast.expr } else { expression };
        match self.unbound.window_column(branch.input, expression)? {
            (_, WindowColumn::Key(key)) => Some(*key),
            _ => None,
        }
    }

    fn has_order(&self, stream: StreamRef) -> bool {
        match stream {
            StreamRef::Source(_) => true,
            StreamRef::Pipeline(pipeline) => self.has_order(self.unbound.pipelines[pipeline].input),
            StreamRef::Operator(operator) => match self.unbound.operators[operator].as_window() {
                Some(window) => window.ranking.is_none() && window.keys.is_empty(),
                None => self.unbound.feeding(operator).all(|(_, pipeline)| self.has_order(pipeline.input)),
            },
        }
    }

    /// The rows of a branch in the order of their arrival.
    fn pass_on(&mut self, branch: Branch, schema: &DFSchema) -> Result<Branch> {
        let mut collector = Collector::new(Relation { branches: vec![branch] });
        let mut columns = Vec::new();
        let mut results = Vec::new();
        for (index, field) in schema.fields().iter().enumerate() {
            let values = vec![collector.branches[0].columns[index].clone()];
            match collector.add(values, field.name())? {
                Added::Constant(value) => results.push(value),
                Added::Column(column) => {
                    results.push(result(collector.fields[column].name(), collector.fields[column].data_type(), field));
                    columns.push(OverColumn::Input(column));
                }
            }
        }
        if columns.is_empty() {
            // Rows are counted by the length of a column.
            columns.push(OverColumn::Input(collector.add_column(vec![lit(true)], "row")?));
        }
        let fields: Vec<_> = columns.iter().map(|column| collector.field(*column)).collect();
        let input_schema = Arc::new(Schema::new(collector.fields.clone()));
        let schema = Arc::new(Schema::new(fields));
        let (keys, calls) = (Vec::new(), Vec::new());
        self.feed_rows(self.unbound.operators.len(), collector, |_, _| None);
        let over = OverSpec { input_schema, time: None, keys, calls, columns, schema };
        let mut branch = self.unbound.add_operator(Operator::Over(over))?;
        branch.columns = results;
        Ok(branch)
    }
}
