//! A definition as DataFusion sees it: casts of arguments, types, and evaluation.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion_common::{Result, ScalarValue, plan_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use pelton_data::column::sql_name;
use regex::Regex;

use crate::definition::{Arguments, Definition, Evaluate, Parameter, unmet_count, written_name};
use crate::{json, printf, regexp};

/// A definition as DataFusion sees it.
#[derive(Debug)]
pub(super) struct Function {
    definition: &'static Definition,
    signature: Signature,
    /// Compiled when the query is planned, where it is a constant.
    regex: Option<Regex>,
}

impl Function {
    pub fn new(definition: &'static Definition) -> Function {
        Function { definition, signature: Signature::user_defined(Volatility::Immutable), regex: None }
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Function) -> bool {
        self.definition.name == other.definition.name
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.definition.name.hash(state);
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.definition.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let Definition { name, parameters, required, repeats, .. } = self.definition;
        let name = written_name(name);
        let most = if *repeats { usize::MAX } else { parameters.len() };
        if let Some(wanted) = unmet_count(*required, most, types.len()) {
            return plan_err!("{name} takes {wanted}, not {}", types.len());
        }
        let cast = |(at, (parameter, given)): (usize, (&Parameter, &DataType))| match accepted(*parameter, given) {
            Some(data_type) => Ok(data_type),
            None if matches!(parameter, Parameter::Json | Parameter::Printed) => {
                plan_err!("{name} takes no {}; use CAST(value AS STRING)", sql_name(given))
            }
            None => {
                let wanted = match parameter {
                    Parameter::Text => "a string",
                    Parameter::Integer => "a whole number",
                    Parameter::Number | Parameter::Double => "a number",
                    Parameter::Bytes => "BYTES",
                    Parameter::Time | Parameter::TimeOrText => "a DATE or TIMESTAMP",
                    Parameter::Any | Parameter::Json | Parameter::Printed => "a value",
                };
                plan_err!("argument {} of {name} is {}; it must be {wanted}: use CAST", at + 1, sql_name(given))
            }
        };
        let last = parameters.last().into_iter().cycle();
        parameters.iter().chain(last).zip(types).enumerate().map(cast).collect()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok((self.definition.returns)(types))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let is_nullable = (self.definition.is_nullable)(args.arg_fields);
        Ok(Arc::new(Field::new(self.definition.name, self.return_type(&types)?, is_nullable)))
    }

    fn simplify(&self, arguments: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let pattern = match arguments.get(1) {
            Some(Expr::Literal(ScalarValue::Utf8View(Some(pattern)) | ScalarValue::Utf8(Some(pattern)), _))
                if matches!(self.definition.evaluate, Evaluate::Pattern(_)) && self.regex.is_none() =>
            {
                pattern
            }
            _ => return Ok(ExprSimplifyResult::Original(arguments)),
        };
        // What is wrong with it is said when there is a row to apply it to.
        let Ok(Some(regex)) = regexp::compiled(self.definition.name, pattern) else {
            return Ok(ExprSimplifyResult::Original(arguments));
        };
        if self.definition.name == "regexp_like" && regexp::is_plain(pattern) {
            return Ok(ExprSimplifyResult::Simplified(regexp::as_operator(arguments)));
        }
        let prepared = Function { regex: Some(regex), ..Function::new(self.definition) };
        let function = ScalarFunction::new_udf(ScalarUDF::new_from_impl(prepared).into(), arguments);
        Ok(ExprSimplifyResult::Simplified(Expr::ScalarFunction(function)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = args.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let values = match self.definition.evaluate {
            Evaluate::Arrays(evaluate) => evaluate(&ColumnarValue::values_to_arrays(&args.args)?)?,
            Evaluate::Arguments(evaluate) | Evaluate::Pattern(evaluate) => {
                let rows = if is_constant { 1 } else { args.number_rows };
                evaluate(&Arguments { arguments: &args.args, rows, regex: self.regex.as_ref() })?
            }
        };
        if is_constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?));
        }
        Ok(ColumnarValue::Array(values))
    }
}

/// The type an argument of type `given` is cast to, or `None` where it does not fit.
fn accepted(parameter: Parameter, given: &DataType) -> Option<DataType> {
    let given = match given {
        DataType::Dictionary(_, values) => values,
        other => other,
    };
    match parameter {
        Parameter::Any | Parameter::Json | Parameter::Printed if given.is_string() => Some(DataType::Utf8View),
        Parameter::Json => json::has_json_form(given).then(|| given.clone()),
        Parameter::Printed => printf::is_printed(given).then(|| given.clone()),
        Parameter::Any => Some(given.clone()),
        Parameter::Text => (given.is_string() || given.is_null()).then_some(DataType::Utf8View),
        Parameter::Bytes => {
            let is_bytes = matches!(given, DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
            (is_bytes || given.is_null()).then_some(DataType::BinaryView)
        }
        Parameter::Integer => (given.is_integer() || given.is_null()).then_some(DataType::Int64),
        Parameter::Number if given.is_numeric() => Some(given.clone()),
        Parameter::Number | Parameter::Double => (given.is_numeric() || given.is_null()).then_some(DataType::Float64),
        Parameter::TimeOrText if given.is_string() => Some(DataType::Utf8View),
        Parameter::Time | Parameter::TimeOrText => match given {
            DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
                Some(DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))
            }
            DataType::Timestamp(..) | DataType::Date32 => Some(given.clone()),
            other if other.is_string() || other.is_null() => Some(DataType::Timestamp(TimeUnit::Millisecond, None)),
            _ => None,
        },
    }
}
