//! What pipelines read: tables, and rows written in the query itself.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::logical_plan::{EmptyRelation, Values};
use datafusion_expr::{Expr, lit};

use crate::bind::table_scan::TableScanSource;
use crate::coerce::held_types::carried_type;
use crate::coerce::simplify::simplify;
use crate::errors::{PlanError, external};
use crate::lower::Lowering;
use crate::lower::scope::cast_to;
use crate::lower::unbound::{Branch, Relation, UnboundProgram};
use crate::lower::unbound_source::{Origin, UnboundSource};
use crate::pipeline::StreamRef;

impl UnboundProgram {
    /// The stream of a table, one for all of its readers.
    pub fn table_source(&mut self, scan: &TableScanSource) -> StreamRef {
        let name = &scan.table.definition.name;
        let is_same = |source: &UnboundSource| match &source.origin {
            Origin::Table(known) => known.table.definition.name == *name,
            Origin::Rows(_) => false,
        };
        let known = self.sources.iter().position(is_same);
        StreamRef::Source(known.unwrap_or_else(|| {
            let physical = scan.table.physical.fields();
            let added = scan.schema.fields().iter().skip(physical.len());
            let fields = physical.iter().chain(added).cloned().collect();
            self.sources.push(UnboundSource { origin: Origin::Table(scan.clone()), fields });
            self.sources.len() - 1
        }))
    }

    fn rows_source(&mut self, rows: RecordBatch) -> StreamRef {
        let fields = rows.schema().fields().iter().cloned().collect();
        self.sources.push(UnboundSource { origin: Origin::Rows(rows), fields });
        StreamRef::Source(self.sources.len() - 1)
    }
}

impl Lowering<'_> {
    /// `VALUES (…), …`
    pub(crate) fn values(&mut self, values: &Values) -> Result<Relation> {
        let empty = Arc::new(DFSchema::empty());
        let mut arrays: Vec<ArrayRef> = Vec::new();
        let mut fields = Vec::new();
        for (index, field) in values.schema.fields().iter().enumerate() {
            let Some(data_type) = carried_type(field.data_type()) else {
                let message = "these VALUES have a type that no column can have";
                return Err(external(PlanError::invalid(self.locations.query, message)));
            };
            let mut scalars = Vec::new();
            for row in &values.values {
                match simplify(cast_to(row[index].clone(), &data_type, &empty)?, &empty)? {
                    Expr::Literal(scalar, _) => scalars.push(scalar),
                    other => {
                        let message = format!("{other} in VALUES has no value before the query runs");
                        return Err(external(PlanError::invalid(self.locations.query, message)));
                    }
                }
            }
            arrays.push(ScalarValue::iter_to_array(scalars)?);
            fields.push(Field::new(field.name(), data_type, true));
        }
        let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?;
        let input = self.unbound.rows_source(rows);
        let mut branch = Branch::new(input, self.unbound.fields(input))?;
        for (column, field) in branch.columns.iter_mut().zip(values.schema.fields()) {
            *column = match field.data_type() {
                DataType::Null => Expr::Literal(ScalarValue::Null, None),
                other => cast_to(column.clone(), other, &branch.scope)?,
            };
        }
        Ok(Relation { branches: vec![branch] })
    }

    /// A SELECT without FROM: one row without columns; or no rows, of any columns.
    pub(crate) fn one_row(&mut self, empty: &EmptyRelation) -> Result<Relation> {
        let column: ArrayRef = Arc::new(BooleanArray::from(vec![true; usize::from(empty.produce_one_row)]));
        let schema = Schema::new(vec![Field::new("row", DataType::Boolean, false)]);
        let input = self.unbound.rows_source(RecordBatch::try_new(Arc::new(schema), vec![column])?);
        let mut branch = Branch::new(input, self.unbound.fields(input))?;
        let nulls = empty.schema.fields().iter().map(|field| ScalarValue::try_from(field.data_type()).map(lit));
        branch.columns = nulls.collect::<Result<_>>()?;
        Ok(Relation { branches: vec![branch] })
    }
}
