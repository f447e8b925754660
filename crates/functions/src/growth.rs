//! Functions whose values can be far longer than their arguments, and a bound for all that make strings.
//!
//! What a function makes of a block's rows must fit its allowance ([`pelton_data::allowance`]). Those that multiply say so before they do; of the others,
//! whose values are a few times as long as their arguments, it is looked at afterwards, so that calls inside calls do not multiply either.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef};
use datafusion_common::{DataFusionError, Result, ScalarValue};
use datafusion_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use pelton_data::allowance::Allowance;

use crate::definition::written_name;
use crate::text::{integers, string_at, strings};

/// Fails where values of so many bytes are more than a function may make.
pub(crate) fn check(function: &str, bytes: usize) -> Result<()> {
    match Allowance::get().refusal(bytes) {
        None => Ok(()),
        Some(refusal) => Err(DataFusionError::ResourcesExhausted(format!("{} {refusal}", written_name(function)))),
    }
}

/// Whether a function has failed because its values would take too much: those of fewer rows may not.
pub fn is_too_large(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
}

/// `REPEAT(text, count)`: empty where the count is not positive.
pub(super) fn repeat(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let (texts, counts) = (strings(&arguments[0]), integers(&arguments[1]));
    let count = |row: usize| usize::try_from(counts.value(row)).unwrap_or(0);
    let is_valid = |row: usize| texts.is_valid(row) && counts.is_valid(row);
    let bytes = (0..texts.len())
        .filter(|&row| is_valid(row))
        .fold(0_usize, |bytes, row| bytes.saturating_add(texts.value(row).len().saturating_mul(count(row))));
    check("repeat", bytes)?;
    let repeated = (0..texts.len()).map(|row| is_valid(row).then(|| texts.value(row).repeat(count(row))));
    Ok(Arc::new(repeated.collect::<StringViewArray>()))
}

/// Bytes of `text` with another replacement in the place of each part, which are counted where they may be too many.
pub(crate) fn replaced_bytes(
    text: &str,
    replacement: &str,
    part_bytes_min: usize,
    count: impl FnOnce() -> usize,
) -> usize {
    if replacement.len() <= part_bytes_min {
        return text.len();
    }
    let with = |count: usize| text.len().saturating_add(count.saturating_mul(replacement.len()));
    let most = with(text.len() / part_bytes_min.max(1) + 1);
    if Allowance::get().allows(most.saturating_mul(ROWS_COUNTED)) { most } else { with(count()) }
}

/// Parts are not counted where as many rows could have as long values.
const ROWS_COUNTED: usize = 1 << 14;

/// Bytes that REPLACE makes at most.
pub(crate) fn bytes_of_replace(
    texts: &StringViewArray,
    parts: &StringViewArray,
    replacements: &StringViewArray,
) -> usize {
    let of_row = |row: usize| {
        let (text, part) = (string_at(texts, row)?, string_at(parts, row)?);
        Some(replaced_bytes(text, string_at(replacements, row)?, part.len(), || text.matches(part).count()))
    };
    (0..texts.len()).filter_map(of_row).fold(0, usize::saturating_add)
}

/// Strings of several columns, one behind the other: NULL where one of them is.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Joined {
    signature: Signature,
}

/// What puts strings together, however many they are.
pub fn joined() -> ScalarUDF {
    ScalarUDF::new_from_impl(Joined { signature: Signature::variadic(vec![DataType::Utf8View], Volatility::Immutable) })
}

impl ScalarUDFImpl for Joined {
    fn name(&self) -> &str {
        "concat_strings"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = |argument: &ColumnarValue| matches!(argument, ColumnarValue::Scalar(_));
        let rows = if args.args.iter().all(is_constant) { 1 } else { args.number_rows };
        let bytes = args.args.iter().fold(0, |bytes: usize, argument| bytes.saturating_add(bytes_of(argument, rows)));
        check("concat", bytes)?;
        let part = |argument: &ColumnarValue| -> Result<(ArrayRef, bool)> {
            let values = if is_constant(argument) { argument.to_array(1)? } else { argument.to_array(rows)? };
            Ok((values, is_constant(argument)))
        };
        let parts = args.args.iter().map(part).collect::<Result<Vec<_>>>()?;
        let (mut strings, mut text) = (StringViewBuilder::with_capacity(rows), String::new());
        for row in 0..rows {
            text.clear();
            let is_whole = parts.iter().all(|(values, is_constant)| {
                let part = string_at(values.as_string_view(), if *is_constant { 0 } else { row });
                part.map(|part| text.push_str(part)).is_some()
            });
            strings.append_option(is_whole.then_some(&text));
        }
        let strings: ArrayRef = Arc::new(strings.finish());
        match args.args.iter().all(is_constant) {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&strings, 0)?)),
            false => Ok(ColumnarValue::Array(strings)),
        }
    }
}

/// A function that fails where its values take more than they may.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded(ScalarUDF);

/// The same function, which fails where its values take more than they may.
pub fn bounded(function: &ScalarUDF) -> ScalarUDF {
    ScalarUDF::new_from_impl(Bounded(function.clone()))
}

/// Whether values of a type can have any length.
pub fn can_grow(data_type: &DataType) -> bool {
    data_type.is_string() || data_type.is_binary() || data_type.is_list()
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.0.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.0.return_field_from_args(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (name, rows) = (self.0.name().to_owned(), args.number_rows);
        let is_constant = args.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let predicted = match name.as_str() {
            "concat" | "concat_ws" => {
                let all =
                    args.args.iter().fold(0, |bytes: usize, argument| bytes.saturating_add(bytes_of(argument, rows)));
                let separators = args.args.first().map_or(0, |first| bytes_of(first, rows));
                if name == "concat" { all } else { all.saturating_add(separators.saturating_mul(args.args.len())) }
            }
            "replace" => {
                let rows = if is_constant { 1 } else { rows };
                let column = |argument: &ColumnarValue| -> Result<ArrayRef> {
                    Ok(cast(&argument.to_array(rows)?, &DataType::Utf8View)?)
                };
                let columns = args.args.iter().map(column).collect::<Result<Vec<_>>>()?;
                match columns.as_slice() {
                    [texts, parts, replacements] => {
                        bytes_of_replace(strings(texts), strings(parts), strings(replacements))
                    }
                    _ => 0,
                }
            }
            _ => 0,
        };
        check(&name, predicted)?;
        let values = self.0.invoke_with_args(args)?;
        check(&name, bytes_of(&values, 1))?;
        Ok(values)
    }
}

/// Bytes of strings and bytes in each of `rows`, or of an array.
fn bytes_of(values: &ColumnarValue, rows: usize) -> usize {
    match values {
        ColumnarValue::Array(values) => bytes_of_array(values),
        ColumnarValue::Scalar(ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text)) => {
            text.as_ref().map_or(0, String::len).saturating_mul(rows)
        }
        ColumnarValue::Scalar(
            ScalarValue::Binary(bytes) | ScalarValue::LargeBinary(bytes) | ScalarValue::BinaryView(bytes),
        ) => bytes.as_ref().map_or(0, Vec::len).saturating_mul(rows),
        ColumnarValue::Scalar(_) => 0,
    }
}

/// Bytes of the strings and bytes of an array.
pub fn bytes_of_array(values: &ArrayRef) -> usize {
    let of_views = |views: &[u128]| views.iter().map(|&view| view as u32 as usize).sum();
    match values.data_type() {
        DataType::Utf8View => of_views(values.as_string_view().views()),
        DataType::BinaryView => of_views(values.as_binary_view().views()),
        DataType::Utf8 => values.as_string::<i32>().value_data().len(),
        DataType::LargeUtf8 => values.as_string::<i64>().value_data().len(),
        DataType::Binary => values.as_binary::<i32>().value_data().len(),
        DataType::LargeBinary => values.as_binary::<i64>().value_data().len(),
        _ => values.get_array_memory_size(),
    }
}
