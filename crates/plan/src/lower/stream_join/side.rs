//! The columns that a side's rows are kept with.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion_common::{DFSchemaRef, Result, ScalarValue};
use datafusion_expr::{Expr, ExprSchemable};
use pelton_data::TimeColumn;

use crate::bind::names::Names;
use crate::coerce::held_types::held_or_same;
use crate::coerce::simplify::simplify;
use crate::lower::copies::names_window;
use crate::lower::scope::cast_to;
use crate::lower::unbound::{Branch, Relation};
use crate::lower::window_bounds::materialize;

/// One side of a join while its columns are collected.
pub(super) struct SideRows {
    relation: Relation,
    /// What its plan's columns are.
    pub planned: DFSchemaRef,
    names: Names,
    fields: Vec<FieldRef>,
    /// For each column, one expression a branch.
    columns: Vec<Vec<Expr>>,
    /// For each column of the plan, which of these it is, if it has been asked for.
    of_plan: Vec<Option<usize>>,
    /// The columns that are equal to those of the other side.
    pub keys: Vec<usize>,
    /// The column of the event time, where the join looks at it.
    pub time: Option<TimeColumn>,
    /// The time attribute of each branch's input that rows are placed in time by.
    pub times: Vec<Option<Expr>>,
}

impl SideRows {
    /// No columns yet.
    pub fn new(relation: Relation, planned: DFSchemaRef) -> SideRows {
        let times = relation.branches.iter().map(|branch| branch.cut.as_ref().and_then(|cut| cut.time.clone()));
        SideRows {
            times: times.collect(),
            of_plan: vec![None; planned.fields().len()],
            relation,
            planned,
            names: Names::default(),
            fields: Vec::new(),
            columns: Vec::new(),
            keys: Vec::new(),
            time: None,
        }
    }

    pub fn branches(&self) -> &[Branch] {
        &self.relation.branches
    }

    pub fn branches_mut(&mut self) -> &mut [Branch] {
        &mut self.relation.branches
    }

    pub fn field(&self, column: usize) -> &FieldRef {
        &self.fields[column]
    }

    /// A condition that reads columns of this side alone, in terms of each branch's scope; nothing where rows cannot be filtered by it one by one, before
    /// they are in windows.
    pub fn row_filters(&self, condition: &Expr) -> Result<Option<Vec<Expr>>> {
        let columns = condition.column_refs();
        if columns.is_empty() || !columns.iter().all(|column| self.planned.has_column(column)) {
            return Ok(None);
        }
        let filters = self.branches().iter().map(|branch| branch.substitute(condition, &self.planned));
        let filters: Vec<Expr> = filters.collect::<Result<_>>()?;
        let is_of_rows = filters.iter().all(|filter| !filter.is_volatile() && !names_window(filter));
        Ok(is_of_rows.then_some(filters))
    }

    /// Column `index` of the plan, as one that rows are kept with.
    pub fn planned_column(&mut self, index: usize) -> Result<usize> {
        if let Some(known) = self.of_plan[index] {
            return Ok(known);
        }
        let name = self.planned.field(index).name().clone();
        let values = self.branches().iter().map(|branch| branch.columns[index].clone()).collect();
        let column = self.add(&name, values, None)?;
        self.of_plan[index] = Some(column);
        Ok(column)
    }

    /// An expression over the plan's columns, as a column that rows are kept with: of a type, where there is one.
    pub fn expression(&mut self, expression: &Expr, data_type: Option<&DataType>) -> Result<usize> {
        let plain = expression.clone().unalias_nested().data;
        if let Expr::Column(column) = &plain {
            let column = self.planned_column(self.planned.index_of_column(column)?)?;
            if data_type.is_none_or(|wanted| wanted == self.fields[column].data_type()) {
                return Ok(column);
            }
        }
        let values = self.branches().iter().map(|branch| branch.substitute(&plain, &self.planned));
        self.add("key", values.collect::<Result<_>>()?, data_type)
    }

    /// A column that is the same in all rows.
    pub fn constant(&mut self) -> Result<usize> {
        let zero = Expr::Literal(ScalarValue::Int64(Some(0)), None);
        self.add("all", vec![zero; self.branches().len()], None)
    }

    fn add(&mut self, name: &str, values: Vec<Expr>, data_type: Option<&DataType>) -> Result<usize> {
        let mut held_values = Vec::new();
        let mut field: Option<Field> = None;
        for (branch, value) in self.relation.branches.iter().zip(values) {
            let value = simplify(materialize(value, branch)?, &branch.scope)?;
            let own_type = value.get_type(branch.scope.as_ref())?;
            let wanted = data_type.cloned().unwrap_or_else(|| held_or_same(&own_type));
            let wanted = field.as_ref().map_or(wanted, |field| field.data_type().clone());
            let nullable = value.nullable(branch.scope.as_ref())?;
            field = Some(match field {
                Some(field) => Field::new(name, wanted.clone(), field.is_nullable() || nullable),
                None => Field::new(name, wanted.clone(), nullable),
            });
            held_values.push(cast_to(value, &wanted, &branch.scope)?);
        }
        let field = field.expect("a side has a branch").with_name(self.names.unique(name));
        self.fields.push(Arc::new(field));
        self.columns.push(held_values);
        Ok(self.fields.len() - 1)
    }

    /// The columns of its rows.
    pub fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(self.fields.clone()))
    }

    /// For each branch its columns and its time attribute.
    pub fn into_pipelines(self) -> impl Iterator<Item = (Branch, Vec<Expr>, Option<Expr>)> {
        let SideRows { relation, columns, times, .. } = self;
        relation.branches.into_iter().zip(times).enumerate().map(move |(number, (branch, time))| {
            (branch, columns.iter().map(|values| values[number].clone()).collect(), time)
        })
    }
}
