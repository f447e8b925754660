//! Functions of ROW, ARRAY and MAP: access to their parts (`access`), what makes them (`construct`), what tells of them (`contents`), and the fit of a nested value to a
//! column's type (`fit`).
//!
//! What a function returns depends on more than the types of its arguments: on whether parts may be NULL, and on the names of fields.

pub(crate) mod access;

mod construct;

mod contents;

mod fit;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::buffer::BooleanBuffer;
use arrow::compute::kernels::cmp::distinct;
use arrow::compute::{cast, nullif};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion_common::{DataFusionError, Result, ScalarValue, exec_err, internal_err};
use datafusion_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

pub use fit::fits;
use pelton_data::column::sql_name;

/// A function of nested values.
struct Nested {
    name: &'static str,
    /// How many arguments it takes; any number where there is none.
    arguments: Option<usize>,
    /// The field of its result.
    returns: fn(&ReturnFieldArgs<'_>) -> Result<Returned>,
    /// How it is computed; the type is that of the result.
    evaluate: fn(&Call<'_>, &DataType) -> Result<ArrayRef>,
}

/// The type of a result, and whether it may be NULL.
type Returned = (DataType, bool);

/// The arguments of one call.
struct Call<'a> {
    arguments: &'a [ColumnarValue],
    rows: usize,
}

impl Call<'_> {
    /// The argument at `index`, a value for each row.
    fn column(&self, index: usize) -> Result<ArrayRef> {
        self.arguments[index].to_array(self.rows)
    }

    /// The argument at `index`, where it is constant.
    fn constant(&self, index: usize) -> Option<&ScalarValue> {
        match &self.arguments[index] {
            ColumnarValue::Scalar(value) => Some(value),
            ColumnarValue::Array(_) => None,
        }
    }
}

static FUNCTIONS: [Nested; 11] = [
    Nested { name: FIELD, arguments: Some(2), returns: access::field_type, evaluate: access::field },
    Nested { name: ITEM, arguments: Some(2), returns: access::item_type, evaluate: access::item },
    Nested { name: "row", arguments: None, returns: construct::row_type, evaluate: construct::row },
    Nested { name: ARRAY_OF, arguments: None, returns: construct::array_type, evaluate: construct::array },
    Nested { name: MAP_OF, arguments: None, returns: construct::map_type, evaluate: construct::map },
    Nested { name: "cardinality", arguments: Some(1), returns: contents::count_type, evaluate: contents::cardinality },
    Nested { name: "element", arguments: Some(1), returns: contents::element_type, evaluate: contents::element },
    Nested { name: "array_contains", arguments: Some(2), returns: contents::truth_type, evaluate: contents::contains },
    Nested { name: "map_keys", arguments: Some(1), returns: contents::keys_type, evaluate: contents::keys },
    Nested { name: "map_values", arguments: Some(1), returns: contents::values_type, evaluate: contents::values },
    Nested { name: FIT, arguments: Some(2), returns: fit::fit_type, evaluate: fit::fit },
];

/// The function behind `row.field`.
pub const FIELD: &str = "row_field";
/// The function behind `array[index]` and `map[key]`.
pub const ITEM: &str = "item";
/// The function behind `ARRAY[…]`.
pub const ARRAY_OF: &str = "array_of";
/// The function behind `MAP[…]`.
pub const MAP_OF: &str = "map_of";
/// The function that makes a nested value one of a column's type.
pub const FIT: &str = "fit_nested";

/// All functions of nested values.
pub(super) fn functions() -> impl Iterator<Item = ScalarUDF> {
    FUNCTIONS.iter().map(|nested| ScalarUDF::new_from_impl(NestedFunction::new(nested)))
}

/// The field of a ROW.
pub fn field(row: Expr, name: Expr) -> Expr {
    named(FIELD, vec![row, name])
}

/// The element of an ARRAY at a position, or the value of a MAP by its key.
pub fn item(value: Expr, key: Expr) -> Expr {
    named(ITEM, vec![value, key])
}

/// A nested value as one of the type that `target` has, field by field.
pub fn fit_nested(value: Expr, target: Expr) -> Expr {
    named(FIT, vec![value, target])
}

fn named(name: &str, arguments: Vec<Expr>) -> Expr {
    let nested = FUNCTIONS.iter().find(|nested| nested.name == name).expect("it is one of them");
    ScalarUDF::new_from_impl(NestedFunction::new(nested)).call(arguments)
}

#[derive(Debug)]
struct NestedFunction {
    nested: &'static Nested,
    signature: Signature,
}

impl NestedFunction {
    fn new(nested: &'static Nested) -> NestedFunction {
        let signature = match nested.arguments {
            Some(count) => Signature::any(count, Volatility::Immutable),
            None => Signature::variadic_any(Volatility::Immutable),
        };
        NestedFunction { nested, signature }
    }
}

impl std::fmt::Debug for Nested {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for NestedFunction {
    fn eq(&self, other: &NestedFunction) -> bool {
        self.nested.name == other.nested.name
    }
}

impl Eq for NestedFunction {}

impl Hash for NestedFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nested.name.hash(state);
    }
}

impl ScalarUDFImpl for NestedFunction {
    fn name(&self) -> &str {
        self.nested.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        internal_err!("the type of {} depends on more than the types of its arguments", self.nested.name)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let (data_type, nullable) = (self.nested.returns)(&arguments)?;
        Ok(Arc::new(Field::new(self.nested.name, data_type, nullable)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let are_constant = arguments.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if are_constant { 1 } else { arguments.number_rows };
        let call = Call { arguments: &arguments.args, rows };
        let values = (self.nested.evaluate)(&call, arguments.return_field.data_type())?;
        match are_constant {
            true => ScalarValue::try_from_array(&values, 0).map(ColumnarValue::Scalar),
            false => Ok(ColumnarValue::Array(values)),
        }
    }
}

/// The error of a call that cannot be, as it is shown.
fn refused<T>(message: String) -> Result<T> {
    Err(DataFusionError::External(message.into()))
}

/// The SQL name of the type of an argument. A literal that is an INT has that type only when the call is looked at again.
fn type_of(arguments: &ReturnFieldArgs<'_>, index: usize) -> String {
    match arguments.scalar_arguments[index] {
        Some(ScalarValue::Int64(Some(value))) if i32::try_from(*value).is_ok() => sql_name(&DataType::Int32),
        _ => sql_name(&held(arguments.arg_fields[index].data_type())),
    }
}

/// The type that a part of a nested value has: as of columns.
fn held(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Null => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        DataType::Dictionary(_, value) => held(value),
        other => other.clone(),
    }
}

/// Values to search for among values of another type: NULL for one that this type cannot hold exactly, which is equal to none of them.
fn searched(values: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    if values.data_type() == data_type || !values.data_type().is_numeric() {
        return fit::fitted(values, data_type);
    }
    let found = cast(values, data_type)?;
    let back = cast(&found, values.data_type())?;
    let is_other = match values.data_type().is_floating() {
        true => {
            let [values, back] = [cast(values, &DataType::Float64)?, cast(&back, &DataType::Float64)?];
            let [values, back] = [values.as_primitive::<Float64Type>(), back.as_primitive::<Float64Type>()];
            let is_other = |row: usize| {
                let (one, other) = (values.value(row), back.value(row));
                back.is_null(row) || one != other && !(one.is_nan() && other.is_nan())
            };
            BooleanArray::new(BooleanBuffer::collect_bool(values.len(), is_other), None)
        }
        false => distinct(values, &back)?,
    };
    Ok(nullif(&found, &is_other)?)
}

/// Refuses to make more values than an array can hold.
fn checked_length(length: usize, what: &str) -> Result<i32> {
    match i32::try_from(length) {
        Ok(length) => Ok(length),
        Err(_) => exec_err!("{what} of a block would have more than {} parts", i32::MAX),
    }
}
