//! Joins that keep the rows of a bounded table: an operator knows which of them have been found, and lets the others go when the stream has ended.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion_common::{DFSchema, Result};
use datafusion_expr::Expr;
use pelton_data::join::JoinKind;

use crate::bind::names::Names;
use crate::coerce::held_types::held_or_same;
use crate::lower::Lowering;
use crate::lower::aggregate::result;
use crate::lower::scope::{ROW, cast_to, column, lookup_qualifier};
use crate::lower::unbound::{Relation, UnboundTarget};
use crate::pipeline::{Operator, UnmatchedRows};

/// A join whose stream has looked rows of a table up.
pub(crate) struct JoinedTable {
    pub table: usize,
    pub kind: JoinKind,
    /// How many columns of the stream stand before those of the table, and how many columns the table has.
    pub before: usize,
    pub width: usize,
}

impl Lowering<'_> {
    /// The pairs of a join, and the rows of its table that are in none. `planned` describes the columns of both.
    pub(crate) fn with_unmatched(
        &mut self,
        pairs: Relation,
        joined: &JoinedTable,
        planned: &DFSchema,
    ) -> Result<Relation> {
        let JoinedTable { table, kind, before, width } = *joined;
        let of_table = |index: usize| index.checked_sub(before).filter(|index| *index < width);
        let held = &self.unbound.lookups[table].fields;
        let (mut names, mut fields, mut columns): (_, Vec<FieldRef>, _) = (Names::default(), Vec::new(), Vec::new());
        for (index, field) in planned.fields().iter().enumerate() {
            let (data_type, nullable) = match of_table(index) {
                Some(own) => (held[own].data_type().clone(), held[own].is_nullable() || kind == JoinKind::Full),
                None => (held_or_same(field.data_type()), true),
            };
            fields.push(Arc::new(Field::new(names.unique(field.name()), data_type, nullable)));
            columns.push(of_table(index));
        }
        let row = Arc::new(Field::new(ROW, DataType::Int64, true));
        let rows_schema = Arc::new(Schema::new(fields.iter().cloned().chain([row]).collect::<Vec<_>>()));
        let operator = self.unbound.operators.len();
        for mut branch in pairs.branches {
            let values = std::mem::take(&mut branch.columns).into_iter().zip(&fields).enumerate().map(
                |(index, (value, field))| {
                    let value = match of_table(index) {
                        Some(own) => column(&lookup_qualifier(table), self.unbound.lookups[table].fields[own].name()),
                        None => value,
                    };
                    cast_to(value, field.data_type(), &branch.scope)
                },
            );
            let mut values: Vec<Expr> = values.collect::<Result<_>>()?;
            values.push(column(&lookup_qualifier(table), ROW));
            self.unbound.end(branch, UnboundTarget::Rows { operator, columns: values, time: None });
        }
        let schema = Arc::new(Schema::new(fields.clone()));
        let unmatched = UnmatchedRows { table, columns, schema, rows_schema };
        let mut branch = self.unbound.add_operator(Operator::Unmatched(unmatched))?;
        let results = fields.iter().zip(planned.fields());
        branch.columns = results.map(|(field, planned)| result(field.name(), field.data_type(), planned)).collect();
        Ok(Relation { branches: vec![branch] })
    }
}
