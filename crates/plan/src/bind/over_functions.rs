//! Functions that have a value only OVER rows, as DataFusion's planner sees them: names and types. They run as calls of an `OverSpec`.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::{Result, exec_err};
use datafusion_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion_expr::{PartitionEvaluator, Signature, TypeSignature, Volatility, WindowUDF, WindowUDFImpl};

/// What to write instead of a function that has no value OVER rows.
pub(crate) const HINT: &str = "use COUNT, SUM, AVG, VAR_POP, VAR_SAMP, STDDEV_POP, STDDEV_SAMP, MIN, MAX, FIRST_VALUE, LAST_VALUE, MEDIAN, PERCENTILE, MODE, ARRAY_AGG, LISTAGG, BIT_*, BOOL_*, EVERY, CORR, COVAR_*, REGR_*, LAG, LEAD, ROW_NUMBER, RANK or DENSE_RANK, or aggregate within TUMBLE windows";

/// The function of a name.
pub(crate) fn window_function(name: &str) -> Option<Arc<WindowUDF>> {
    FUNCTIONS.iter().find(|function| function.name().eq_ignore_ascii_case(name)).cloned()
}

static FUNCTIONS: LazyLock<[Arc<WindowUDF>; 7]> = LazyLock::new(|| {
    [
        ("row_number", 0..=0),
        ("rank", 0..=0),
        ("dense_rank", 0..=0),
        ("lag", 1..=3),
        ("lead", 1..=3),
        ("first_value", 1..=1),
        ("last_value", 1..=1),
    ]
    .map(|(name, arguments)| {
        let counts = arguments.map(|count| if count == 0 { TypeSignature::Nullary } else { TypeSignature::Any(count) });
        let signature = Signature::one_of(counts.collect(), Volatility::Immutable);
        Arc::new(WindowUDF::from(OverRows { name, signature }))
    })
});

/// A function of the rows around a row.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OverRows {
    name: &'static str,
    signature: Signature,
}

impl WindowUDFImpl for OverRows {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn partition_evaluator(&self, _arguments: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        exec_err!("{} runs as a part of a program", self.name)
    }

    fn field(&self, arguments: WindowUDFFieldArgs) -> Result<FieldRef> {
        let name = arguments.name();
        Ok(Arc::new(match arguments.input_fields().first() {
            Some(value) => {
                // It may be asked for before there are enough rows: then it is the default.
                let has_default = arguments.input_fields().get(2).is_some_and(|default| !default.is_nullable());
                let is_nullable = value.is_nullable() || matches!(self.name, "lag" | "lead") && !has_default;
                Field::new(name, value.data_type().clone(), is_nullable)
            }
            None => Field::new(name, DataType::Int64, false),
        }))
    }
}
