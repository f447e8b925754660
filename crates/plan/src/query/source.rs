//! What pipelines read: tables, and rows written in the query itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::Expr;
use datafusion_expr::logical_plan::Values;

use super::context::{TableScanSource, external};
use super::draft::{Branch, Draft, INPUT, Relation, carried_type, cast_to, column, sql_level};
use super::finish::{physical_expression, scope_of};
use super::lower::{Lowering, simplify};
use crate::error::PlanError;
use crate::pipeline::{SourceUse, StreamRef, TimeSource};

/// Stands for a table's name where rows are written in the query.
const VALUES: &str = "VALUES";

/// Something that pipelines read.
pub(super) struct SourceDraft {
    /// Where its rows come from.
    pub origin: Origin,
    /// Physical columns as the connector delivers them, then a computed event time, then processing time.
    pub fields: Vec<FieldRef>,
}

impl SourceDraft {
    /// Whether a column is the one with the watermark.
    pub fn is_event_time(&self, column: &str) -> bool {
        match &self.origin {
            Origin::Table(scan) => {
                scan.table.definition.watermark.as_ref().is_some_and(|watermark| watermark.column == column)
            }
            Origin::Rows(_) => false,
        }
    }

    /// Whether a column is a `PROCTIME()` one.
    pub fn is_processing_time(&self, column: &str) -> bool {
        match &self.origin {
            Origin::Table(scan) => scan.table.definition.processing_time_columns().any(|known| known == column),
            Origin::Rows(_) => false,
        }
    }
}

/// Where rows come from.
pub(super) enum Origin {
    /// A table.
    Table(TableScanSource),
    /// The query's text.
    Rows(RecordBatch),
}

impl Draft {
    /// The stream of a table, one for all of its readers.
    pub fn table_source(&mut self, scan: &TableScanSource) -> StreamRef {
        let name = &scan.table.definition.name;
        let is_same = |source: &SourceDraft| match &source.origin {
            Origin::Table(known) => known.table.definition.name == *name,
            Origin::Rows(_) => false,
        };
        let known = self.sources.iter().position(is_same);
        StreamRef::Source(known.unwrap_or_else(|| {
            let physical = scan.table.physical.fields();
            let added = scan.schema.fields().iter().skip(physical.len());
            let fields = physical.iter().chain(added).cloned().collect();
            self.sources.push(SourceDraft { origin: Origin::Table(scan.clone()), fields });
            self.sources.len() - 1
        }))
    }

    fn rows_source(&mut self, rows: RecordBatch) -> StreamRef {
        let fields = rows.schema().fields().iter().cloned().collect();
        self.sources.push(SourceDraft { origin: Origin::Rows(rows), fields });
        StreamRef::Source(self.sources.len() - 1)
    }
}

impl Lowering<'_> {
    /// `VALUES (…), …`
    pub(super) fn values(&mut self, values: &Values) -> Result<Relation> {
        let empty = Arc::new(DFSchema::empty());
        let mut arrays: Vec<ArrayRef> = Vec::new();
        let mut fields = Vec::new();
        for (index, field) in values.schema.fields().iter().enumerate() {
            let Some(data_type) = carried_type(field.data_type()) else {
                let message = "these VALUES have a type that no column can have";
                return Err(external(PlanError::invalid(self.landmarks.query, message)));
            };
            let mut scalars = Vec::new();
            for row in &values.values {
                match simplify(cast_to(row[index].clone(), &data_type, &empty)?, &empty)? {
                    Expr::Literal(scalar, _) => scalars.push(scalar),
                    other => {
                        let message = format!("{other} in VALUES has no value before the query runs");
                        return Err(external(PlanError::invalid(self.landmarks.query, message)));
                    }
                }
            }
            arrays.push(ScalarValue::iter_to_array(scalars)?);
            fields.push(Field::new(field.name(), data_type, true));
        }
        let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?;
        let input = self.draft.rows_source(rows);
        let mut branch = Branch::new(input, self.draft.fields(input))?;
        for (column, field) in branch.columns.iter_mut().zip(values.schema.fields()) {
            *column = match field.data_type() {
                DataType::Null => Expr::Literal(ScalarValue::Null, None),
                other => cast_to(column.clone(), other, &branch.scope)?,
            };
        }
        Ok(Relation { branches: vec![branch] })
    }

    /// A SELECT without FROM: one row without columns.
    pub(super) fn one_row(&mut self, produce_one_row: bool) -> Result<Relation> {
        let column: ArrayRef = Arc::new(BooleanArray::from(vec![true; usize::from(produce_one_row)]));
        let schema = Schema::new(vec![Field::new("row", DataType::Boolean, false)]);
        let input = self.draft.rows_source(RecordBatch::try_new(Arc::new(schema), vec![column])?);
        let mut branch = Branch::new(input, self.draft.fields(input))?;
        branch.columns.clear();
        Ok(Relation { branches: vec![branch] })
    }
}

impl SourceDraft {
    /// Whether its rows end.
    pub fn is_bounded(&self) -> bool {
        match &self.origin {
            Origin::Table(scan) => scan.table.bounded,
            Origin::Rows(_) => true,
        }
    }

    /// What of it is read: the columns `used`, and the time attributes `times` that windows are cut by.
    pub fn bind(&self, used: &BTreeSet<String>, times: &BTreeSet<String>) -> Result<SourceUse> {
        match &self.origin {
            Origin::Table(scan) => self.bind_table(scan, used, times),
            Origin::Rows(rows) => {
                let columns = touched(rows.schema().fields(), used);
                let rows = rows.project(&columns)?;
                Ok(SourceUse {
                    table: VALUES.to_string(),
                    columns: (0..rows.num_columns()).collect(),
                    computed_time: None,
                    schema: rows.schema(),
                    time: TimeSource::None,
                    rows: Some(rows),
                })
            }
        }
    }

    fn bind_table(
        &self,
        scan: &TableScanSource,
        used: &BTreeSet<String>,
        times: &BTreeSet<String>,
    ) -> Result<SourceUse> {
        let definition = &scan.table.definition;
        let is_needed = |column: &String| times.contains(column);
        let watermark = definition.watermark.as_ref();
        let watermark = watermark.filter(|watermark| !watermark.is_inferred || is_needed(&watermark.column));
        let event = watermark.filter(|watermark| is_needed(&watermark.column));
        let processing = definition.processing_time_columns().find(|column| used.contains(*column));
        if processing.is_some() && event.is_some() {
            let construct = format!("event time and processing time of table {} in one query", definition.name);
            let hint = "cut all windows by one of the two, or declare the table twice";
            return Err(external(PlanError::unsupported(None, construct, hint)));
        }
        let computed = scan.computed_time.as_ref().zip(watermark).filter(|(_, time)| used.contains(&time.column));
        let mut used = used.clone();
        if let Some((expression, _)) = computed {
            used.extend(expression.column_refs().into_iter().map(|column| column.name.clone()));
        }
        let physical = scan.table.physical.fields();
        let columns = touched(physical, &used);
        let mut fields: Vec<FieldRef> = columns.iter().map(|index| physical[*index].clone()).collect();
        let mut computed_time = None;
        if let Some((expression, time)) = computed {
            let scope = Arc::new(scope_of(&fields, &[])?);
            let expression = simplify(over_stream(expression.clone(), &fields)?, &scope)?;
            computed_time = Some(physical_expression(&expression, &scope)?);
            fields.push(self.field(&time.column));
        }
        let mut time = TimeSource::None;
        if let Some(watermark) = event {
            let column = fields.iter().position(|field| *field.name() == watermark.column).expect("windows use it");
            time = TimeSource::Event { column, delay: watermark.delay };
        } else if let Some(name) = processing {
            time = TimeSource::Processing { column: fields.len() };
            fields.push(self.field(name));
        }
        let noted = watermark.filter(|_| time == TimeSource::None);
        if let Some(column) = noted.and_then(|noted| fields.iter().position(|field| *field.name() == noted.column)) {
            time = TimeSource::Noted { column };
        }
        let schema = Arc::new(Schema::new(fields));
        Ok(SourceUse { table: definition.name.clone(), columns, computed_time, schema, time, rows: None })
    }

    fn field(&self, name: &str) -> FieldRef {
        self.fields.iter().find(|field| field.name() == name).expect("time attributes are columns of the scan").clone()
    }
}

/// Indices of the fields that are used. Rows are counted by the length of a column: the narrowest where none is.
fn touched(fields: &[FieldRef], used: &BTreeSet<String>) -> Vec<usize> {
    let columns: Vec<usize> = (0..fields.len()).filter(|index| used.contains(fields[*index].name())).collect();
    if !columns.is_empty() {
        return columns;
    }
    let width = |index: &usize| fields[*index].data_type().primitive_width().unwrap_or(16);
    (0..fields.len()).min_by_key(width).into_iter().collect()
}

/// An expression over a table's columns as one over its stream's.
fn over_stream(expression: Expr, fields: &[FieldRef]) -> Result<Expr> {
    let replaced = expression.transform_up(|node| {
        let Expr::Column(named) = &node else { return Ok(Transformed::no(node)) };
        let field = fields.iter().find(|field| *field.name() == named.name).expect("its columns are touched");
        Ok(Transformed::yes(sql_level(column(INPUT, &named.name), field)))
    })?;
    Ok(replaced.data)
}
