//! Values that are to have one type: what of them is cast before DataFusion chooses it.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::logical_plan::{Projection, Union};
use datafusion_expr::{Cast, Expr, ExprSchemable, LogicalPlan, cast};
use datafusion_optimizer::analyzer::type_coercion::TypeCoercionRewriter;

use crate::coerce::lengths::as_difference;

/// Whether values of a type are cast.
type IsCast = fn(&DataType) -> bool;

/// Whether some of these are FLOAT or DOUBLE, and others DECIMAL.
pub(crate) fn is_mixed<'t>(types: impl Iterator<Item = &'t DataType> + Clone) -> bool {
    types.clone().any(DataType::is_floating)
        && types.clone().any(|data_type| matches!(data_type, DataType::Decimal128(..)))
}

/// Of types that values are to have in common: which are cast before DataFusion chooses a type, and to what. DECIMAL becomes DOUBLE beside FLOAT or DOUBLE, DATE and text become the type
/// of a timestamp, for DataFusion's have nanoseconds then, which do not reach far.
fn cast_first<'t>(types: impl Iterator<Item = &'t DataType> + Clone) -> Option<(IsCast, DataType)> {
    if is_mixed(types.clone()) {
        return Some((|data_type| matches!(data_type, DataType::Decimal128(..)), DataType::Float64));
    }
    let is_plain: IsCast = |data_type| *data_type == DataType::Date32 || data_type.is_string();
    let is_time =
        |data_type: &DataType| matches!(data_type, DataType::Timestamp(..) | DataType::Null) || is_plain(data_type);
    let has_plain = types.clone().any(is_plain) && types.clone().all(is_time);
    let unit = |data_type: &&DataType| if let DataType::Timestamp(unit, _) = data_type { Some(*unit) } else { None };
    let finest = types.filter(|data_type| unit(data_type).is_some()).max_by_key(unit);
    finest.filter(|_| has_plain).map(|finest| (is_plain, finest.clone()))
}

pub(crate) fn must_cast(values: &[Expr], schema: &DFSchema) -> bool {
    let types: Vec<DataType> = values.iter().filter_map(|value| value.get_type(schema).ok()).collect();
    cast_first(types.iter()).is_some()
}

/// The unit of time that a literal, a text or a timestamp, has digits of.
fn written_unit(value: &Expr) -> TimeUnit {
    use ScalarValue::{TimestampMicrosecond, TimestampMillisecond, TimestampNanosecond};
    let literal = match value {
        Expr::Literal(literal, _) => literal,
        Expr::Cast(Cast { expr, field }) => {
            return match field.data_type() {
                DataType::Timestamp(unit, _) => written_unit(expr).min(*unit),
                _ => TimeUnit::Second,
            };
        }
        _ => return TimeUnit::Second,
    };
    let digits = match literal {
        TimestampMillisecond(Some(ticks), _) => digits_of_ticks(*ticks, 3),
        TimestampMicrosecond(Some(ticks), _) => digits_of_ticks(*ticks, 6),
        TimestampNanosecond(Some(ticks), _) => digits_of_ticks(*ticks, 9),
        _ => {
            let fraction = literal.try_as_str().flatten().and_then(|text| text.split_once('.'));
            fraction.map_or(0, |(_, digits)| digits.trim_end().trim_end_matches('0').len())
        }
    };
    match digits {
        0 => TimeUnit::Second,
        1..=3 => TimeUnit::Millisecond,
        4..=6 => TimeUnit::Microsecond,
        // There is no type for more.
        _ if literal.data_type().is_string() => TimeUnit::Microsecond,
        _ => TimeUnit::Nanosecond,
    }
}

/// How many digits of so many the fraction of a second has without zeros at its end.
fn digits_of_ticks(ticks: i64, digits: usize) -> usize {
    (0..digits).rev().find(|&kept| ticks % 10_i64.pow((digits - kept) as u32) != 0).map_or(0, |kept| kept + 1)
}

/// Casts those of values that are to have one type which [`cast_first`] says.
pub(crate) fn bring_together(values: &mut [&mut Expr], schema: &DFSchema) {
    // An expression without a type yet is left to the analyzer, which says what is wrong with it.
    let types: Vec<Option<DataType>> = values.iter().map(|value| value.get_type(schema).ok()).collect();
    if let Some(unit) = types.iter().flatten().find_map(|data_type| match data_type {
        DataType::Duration(unit) => Some(*unit),
        _ => None,
    }) {
        values.iter_mut().for_each(|value| as_difference(value, unit));
    }
    if let Some((is_cast, mut target)) = cast_first(types.iter().flatten()) {
        if let DataType::Timestamp(unit, _) = &mut target {
            *unit = values.iter().map(|value| written_unit(value)).fold(*unit, TimeUnit::max);
        }
        for (value, data_type) in values.iter_mut().zip(&types) {
            if data_type.as_ref().is_some_and(is_cast) {
                **value = cast(std::mem::take(*value), target.clone());
            }
        }
    }
}

/// The parts of a UNION ALL, with the columns cast that [`cast_first`] says.
pub(crate) fn align_union(node: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Union(Union { inputs, schema }) = node else { return Ok(node) };
    let width = schema.fields().len();
    let has_width = |input: &Arc<LogicalPlan>| input.schema().fields().len() == width;
    if !inputs.iter().all(has_width) {
        return Ok(LogicalPlan::Union(Union { inputs, schema }));
    }
    let of_column = |column| cast_first(inputs.iter().map(move |input| input.schema().field(column).data_type()));
    let casts: Vec<_> = (0..width).map(of_column).collect();
    if casts.iter().all(Option::is_none) {
        return common_types(Union::try_new_with_loose_types(inputs)?);
    }
    let aligned = inputs.into_iter().map(|input| {
        let columns = input.schema().columns().into_iter().zip(&casts).enumerate().map(|(index, (column, known))| {
            let (relation, name) = (column.relation.clone(), column.name.clone());
            let column = Expr::Column(column);
            match known {
                Some((is_cast, target)) if is_cast(input.schema().field(index).data_type()) => {
                    cast(column, target.clone()).alias_qualified(relation, name)
                }
                _ => column,
            }
        });
        Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(columns.collect(), input.clone())?)))
    });
    common_types(Union::try_new_with_loose_types(aligned.collect::<Result<_>>()?)?)
}

/// A union with columns of one type each, on which the types of what is computed from them depend; the analyzer says why where there is none.
fn common_types(union: Union) -> Result<LogicalPlan> {
    Ok(TypeCoercionRewriter::coerce_union(union.clone()).unwrap_or(LogicalPlan::Union(union)))
}
