//! The time of day.

use std::time::{SystemTime, UNIX_EPOCH};

use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

const NAME: &str = "current_timestamp";

/// `CURRENT_TIMESTAMP`, when a row is processed: the clock is read once for those that are processed together.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct CurrentTimestamp {
    signature: Signature,
}

impl CurrentTimestamp {
    pub fn new() -> CurrentTimestamp {
        CurrentTimestamp { signature: Signature::nullary(Volatility::Volatile) }
    }
}

fn instant() -> DataType {
    DataType::Timestamp(TimeUnit::Millisecond, Some("+00:00".into()))
}

impl ScalarUDFImpl for CurrentTimestamp {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(instant())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Field::new(NAME, instant(), false).into())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let millis = i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX);
        Ok(ColumnarValue::Scalar(ScalarValue::TimestampMillisecond(Some(millis), Some("+00:00".into()))))
    }
}
