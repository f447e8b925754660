//! Tables, and rows written in a query, whose columns are not chosen yet.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{FieldRef, Schema};
use datafusion_common::Result;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_expr::Expr;

use super::physical::{physical_expression, scope_of};
use super::scope::{INPUT, column, sql_level};
use crate::bind::table_scan::TableScanSource;
use crate::coerce::simplify::simplify;
use crate::errors::{PlanError, external};
use crate::pipeline::{SourceUse, TimeSource};

/// Stands for a table's name where rows are written in the query.
const VALUES: &str = "VALUES";

/// Something that pipelines read.
pub(crate) struct UnboundSource {
    /// Where its rows come from.
    pub origin: Origin,
    /// Physical columns as the connector delivers them, then a computed event time, then processing time.
    pub fields: Vec<FieldRef>,
}

impl UnboundSource {
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
pub(crate) enum Origin {
    /// A table.
    Table(TableScanSource),
    /// The query's text.
    Rows(RecordBatch),
}

impl UnboundSource {
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
                    join: None,
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
        Ok(SourceUse { table: definition.name.clone(), columns, computed_time, schema, time, rows: None, join: None })
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
