//! GREATEST and LEAST: NULL where any argument is, unlike DataFusion's, which pass over NULLs.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, BooleanArray};
use arrow::buffer::NullBuffer;
use arrow::compute::nullif;
use arrow::datatypes::DataType;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};

pub(super) fn functions() -> impl Iterator<Item = ScalarUDF> {
    let inner = [datafusion_functions::core::greatest(), datafusion_functions::core::least()];
    inner.into_iter().map(|inner| ScalarUDF::new_from_impl(Extreme { inner }))
}

#[derive(Debug)]
struct Extreme {
    inner: Arc<ScalarUDF>,
}

impl PartialEq for Extreme {
    fn eq(&self, other: &Extreme) -> bool {
        self.inner.name() == other.inner.name()
    }
}

impl Eq for Extreme {}

impl Hash for Extreme {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.name().hash(state);
    }
}

impl ScalarUDFImpl for Extreme {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let mut has_null_scalar = false;
        let mut nulls: Option<NullBuffer> = None;
        for argument in &args.args {
            match argument {
                ColumnarValue::Scalar(value) => has_null_scalar |= value.is_null(),
                ColumnarValue::Array(array) => {
                    nulls = NullBuffer::union(nulls.as_ref(), array.logical_nulls().as_ref());
                }
            }
        }
        if has_null_scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from(args.return_type())?));
        }
        let value = self.inner.invoke_with_args(args)?;
        let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else { return Ok(value) };
        let is_null = BooleanArray::new(!nulls.inner(), None);
        Ok(ColumnarValue::Array(nullif(&value.into_array(rows)?, &is_null)?))
    }
}
