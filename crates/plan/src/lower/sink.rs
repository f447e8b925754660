//! Where rows leave: a query's columns are fitted to the table they are inserted into.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::{DataFusionError, Result, ScalarValue, exec_err};
use datafusion_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use pelton_data::column::{is_nested, sql_name};
use pelton_data::zone::Zone;
use pelton_functions::fits;
use sqlparser::ast::{Ident, Query, SetExpr};

use crate::bind::names::Names;
use crate::bind::syntax_parts::{select_item, union_parts};
use crate::catalog::{Catalog, Relation, Table};
use crate::coerce::held_types::{carried_type, held_type};
use crate::coerce::simplify::simplify;
use crate::coerce::zone::cast_to_in_zone;
use crate::errors::diagnose::unheld_column;
use crate::errors::{Place, PlanError, closest, external};
use crate::lower::Lowering;
use crate::lower::arrange::Arranged;
use crate::lower::scope::cast_to;
use crate::lower::unbound::{Branch, UnboundProgram, UnboundStep, UnboundTarget};
use crate::lower::window_bounds::materialize;
use crate::parse::{ColumnKind, Named};
use crate::pipeline::OutputTarget;
use crate::types::SqlType;

impl UnboundProgram {
    /// Ends a branch in an output, in types that blocks hold.
    pub fn end_in_output(&mut self, branch: Branch, columns: Vec<Expr>, output: usize) -> Result<()> {
        let mut held = Vec::new();
        for (column, name) in columns.into_iter().zip(&self.outputs[output].names) {
            let column = simplify(materialize(column, &branch)?, &branch.scope)?;
            let data_type = column.get_type(branch.scope.as_ref())?;
            let Some(wanted) = carried_type(&data_type) else {
                return Err(external(unheld_column(name, &data_type)));
            };
            held.push(simplify(cast_to(column, &wanted, &branch.scope)?, &branch.scope)?);
        }
        branch.check_each_row_once()?;
        self.end(branch, UnboundTarget::Stream { output, columns: held });
        Ok(())
    }
}

/// The table that takes a query's rows.
pub(crate) struct Destination<'a> {
    /// The table.
    pub table: &'a Table,
    /// The columns that the query's columns go to, in order; empty means all that the table persists.
    pub columns: &'a [Ident],
    /// Where the table is named.
    pub place: Option<Place>,
    /// The query, where it is written as text.
    pub query: Option<&'a Query>,
}

impl<'a> Destination<'a> {
    /// The table of a name, all of its columns.
    pub fn named(catalog: &'a Catalog, target: &Named) -> Result<Destination<'a>, PlanError> {
        match catalog.resolve(target)? {
            Relation::Table(table) => Ok(Destination { table, columns: &[], place: target.place, query: None }),
            Relation::View(_) => {
                let message = format!("{} is a view, and rows can be inserted into tables only", target.name);
                Err(PlanError::invalid(target.place, message))
            }
        }
    }
}

impl Destination<'_> {
    /// The columns that a query of so many gives, each with the number of the query's; none where they do not fit.
    pub fn given(&self, width: usize) -> Vec<(usize, FieldRef)> {
        let columns = sink_columns(self, width).unwrap_or_default().into_iter();
        columns.filter_map(|column| Some((column.from?, column.field))).collect()
    }
}

/// A column of a sink, and which column of the query goes there.
struct SinkColumn {
    field: FieldRef,
    from: Option<usize>,
}

impl Lowering<'_> {
    /// Ends rows in the program's result.
    pub(crate) fn emit(&mut self, arranged: Arranged, plan: &LogicalPlan) -> Result<()> {
        let names = Names::of(plan);
        let columns = arranged.relation.branches.iter().map(|branch| branch.columns.clone()).collect();
        self.end(arranged, names, columns, OutputTarget::Result)
    }

    /// Ends rows in a table.
    pub(crate) fn insert(
        &mut self,
        arranged: Arranged,
        plan: &LogicalPlan,
        destination: &Destination<'_>,
    ) -> Result<()> {
        let table = &destination.table.definition.name;
        let columns = sink_columns(destination, plan.schema().fields().len()).map_err(external)?;
        let names = columns.iter().map(|column| column.field.name().clone()).collect();
        let branches = &arranged.relation.branches;
        let parts = destination.query.map(|query| union_parts(&query.body)).unwrap_or_default();
        // A part whose own type does not fit is told where what all have in common does not.
        let blamed = |column: &SinkColumn| {
            let pairs = branches.iter().zip(&parts).filter(|_| branches.len() > 1 && branches.len() == parts.len());
            pairs.into_iter().find_map(|(branch, part)| misfit_of_part(branch, part, column, plan, table))
        };
        let mut fitted = Vec::new();
        for branch in branches {
            let fit = columns.iter().map(|column| {
                let place = column.from.zip(parts.first()).and_then(|(from, part)| select_item(part, from).0);
                let query_field = column.from.map(|from| plan.schema().field(from));
                fit(branch, column, query_field, table, (place, self.unbound.zone))
                    .map_err(|error| blamed(column).unwrap_or(error))
            });
            fitted.push(fit.collect::<Result<Vec<_>>>()?);
        }
        self.end(arranged, names, fitted, OutputTarget::Table(table.clone()))
    }
}

/// The columns that a table persists, each with the query's column that goes there.
fn sink_columns(destination: &Destination<'_>, width: usize) -> Result<Vec<SinkColumn>, PlanError> {
    let definition = &destination.table.definition;
    let is_written = |column: &&crate::parse::ColumnDefinition| match column.kind {
        ColumnKind::Physical { .. } => true,
        ColumnKind::Metadata { is_virtual, .. } => !is_virtual,
        ColumnKind::Computed { .. } | ColumnKind::ProcessingTime => false,
    };
    let mut columns = Vec::new();
    for column in definition.columns.iter().filter(is_written) {
        let field = column.physical_field().expect("a written column is no computed one");
        columns.push(SinkColumn { field: Arc::new(field), from: None });
    }
    let place = destination.place;
    if destination.columns.is_empty() {
        if width != columns.len() {
            let names: Vec<&str> = columns.iter().map(|column| column.field.name().as_str()).collect();
            let message =
                format!("the query has {width} columns, and table {} takes {}", definition.name, columns.len());
            let hint = format!("its columns are {}", names.join(", "));
            return Err(PlanError::invalid(place, message).with_hint(hint));
        }
        for (index, column) in columns.iter_mut().enumerate() {
            column.from = Some(index);
        }
        return Ok(columns);
    }
    if destination.columns.len() != width {
        let message = format!("the query has {width} columns, and INSERT INTO names {}", destination.columns.len());
        let place = destination.columns.first().and_then(|first| Place::of(first.span)).or(place);
        return Err(PlanError::invalid(place, message).with_hint("name a column for each column of the query"));
    }
    for (index, name) in destination.columns.iter().enumerate() {
        let place = Place::of(name.span).or(place);
        let Some(found) = columns.iter().position(|column| *column.field.name() == name.value) else {
            let message = format!("table {} has no column {} to insert into", definition.name, name.value);
            let error = PlanError::invalid(place, message);
            let names: Vec<&str> = columns.iter().map(|column| column.field.name().as_str()).collect();
            return Err(match closest(&name.value, names.iter().copied()) {
                Some(closest) => error.with_hint(format!("did you mean {closest}? (names are case sensitive)")),
                None => error.with_hint(format!("its columns are {}", names.join(", "))),
            });
        };
        if columns[found].from.replace(index).is_some() {
            let error = PlanError::invalid(place, format!("the column {} is named twice", name.value));
            return Err(error.with_hint("name each column once"));
        }
    }
    match columns.iter().find(|column| column.from.is_none() && !column.field.is_nullable()) {
        Some(missing) => {
            let message = format!("the column {} of table {} is NOT NULL", missing.field.name(), definition.name);
            Err(PlanError::invalid(place, message).with_hint("name it in INSERT INTO, or declare it without NOT NULL"))
        }
        None => Ok(columns),
    }
}

/// The error of one part of a `UNION ALL`, where its column does not go into a table's as its own type is: all parts are cast to a type that they have in
/// common, which does not say which of them is wrong.
fn misfit_of_part(
    branch: &Branch,
    part: &SetExpr,
    column: &SinkColumn,
    plan: &LogicalPlan,
    table: &str,
) -> Option<DataFusionError> {
    let from = column.from?;
    let common = plan.schema().field(from);
    let data_type = match &branch.columns[from] {
        Expr::Cast(Cast { expr, field }) if field.data_type() == common.data_type() => {
            expr.get_type(branch.scope.as_ref())
        }
        own => own.get_type(branch.scope.as_ref()),
    };
    let data_type = data_type.ok().filter(|data_type| !is_implicit_cast(data_type, column.field.data_type()))?;
    let (place, name) = select_item(part, from);
    let name = name.unwrap_or_else(|| common.name().clone());
    Some(external(wrong_type((&name, &data_type), column, table, place)))
}

/// The error of a query's column that goes into no column of that type.
fn wrong_type(
    (name, data_type): (&str, &DataType),
    column: &SinkColumn,
    table: &str,
    place: Option<Place>,
) -> PlanError {
    let wanted = column.field.data_type();
    let message = format!(
        "the query's column {name} has type {}, and the column {} of table {table} has type {}",
        sql_name(data_type),
        column.field.name(),
        sql_name(wanted)
    );
    PlanError::invalid(place, message).with_hint(match is_nested(wanted) {
        true => "its fields, elements, keys and values must be of types that go into these".to_string(),
        false => format!("write CAST({name} AS {})", sql_name(wanted)),
    })
}

fn fit(
    branch: &Branch,
    column: &SinkColumn,
    query_field: Option<&FieldRef>,
    table: &str,
    (place, zone): (Option<Place>, Option<Zone>),
) -> Result<Expr> {
    let wanted = column.field.data_type();
    let (Some(from), Some(query_field)) = (column.from, query_field) else {
        return Ok(Expr::Literal(ScalarValue::try_from(wanted)?, None));
    };
    let expression = branch.columns[from].clone();
    let data_type = expression.get_type(branch.scope.as_ref())?;
    if !is_implicit_cast(&data_type, wanted) {
        return Err(external(wrong_type((query_field.name(), &data_type), column, table, place)));
    }
    let value = cast_to_in_zone(expression, wanted, &branch.scope, zone)?;
    let value = cast_to(value, wanted, &branch.scope)?;
    let is_tested = |step: &UnboundStep| matches!(step, UnboundStep::Filter(Expr::IsNotNull(tested)) if **tested == branch.columns[from]);
    let is_guarded = branch.steps.iter().any(is_tested);
    if column.field.is_nullable() || is_guarded || !value.nullable(branch.scope.as_ref())? {
        return Ok(value);
    }
    let guard = NotNull::new(table, column.field.name());
    Ok(ScalarUDF::from(guard).call(vec![value]))
}

/// Whether values of one type go into a column of another without being asked to: where Flink does so, and from wider to
/// narrower integers, since literals are wider here than in Flink; a value that does not fit stops the query.
fn is_implicit_cast(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    if from == to || *from == Null {
        return true;
    }
    match to {
        Int8 | Int16 | Int32 | Int64 => from.is_integer(),
        Float32 => from.is_integer() || matches!(from, Decimal128(..)),
        Float64 | Decimal128(..) => from.is_numeric(),
        Timestamp(..) => matches!(from, Timestamp(..) | Date32),
        Struct(_) | List(_) | Map(..) => fits(from, to),
        _ => held_type(from).and_then(|held| SqlType::from_arrow(&held)) == SqlType::from_arrow(to),
    }
}

/// The name that nobody writes.
const NOT_NULL: &str = "not_null";

/// Whether a function is the guard of a column that is NOT NULL, which is in no query's text.
pub(crate) fn is_not_null_guard(function: &str) -> bool {
    function == NOT_NULL
}

/// `value`, and an error where it is NULL: Flink refuses NULL in a NOT NULL column when it meets one, so does this.
#[derive(Debug, PartialEq, Eq, Hash)]
struct NotNull {
    table: String,
    column: String,
    signature: Signature,
}

impl NotNull {
    fn new(table: &str, column: &str) -> NotNull {
        // Volatile: a constant NULL must not be evaluated while the query is planned.
        let signature = Signature::any(1, Volatility::Volatile);
        NotNull { table: table.to_string(), column: column.to_string(), signature }
    }
}

impl ScalarUDFImpl for NotNull {
    fn name(&self) -> &str {
        NOT_NULL
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(self.name(), arguments.arg_fields[0].data_type().clone(), false)))
    }

    fn invoke_with_args(&self, mut arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let value = arguments.args.remove(0);
        let nulls = match &value {
            ColumnarValue::Array(array) => array.null_count(),
            ColumnarValue::Scalar(scalar) => usize::from(scalar.is_null()),
        };
        if nulls > 0 {
            return exec_err!(
                "column {} of table {} is NOT NULL, and there is NULL (declare the column without NOT NULL, or drop such rows WHERE … IS NOT NULL)",
                self.column,
                self.table
            );
        }
        Ok(value)
    }
}
