//! Aggregate functions that a program defines, as DataFusion's planner sees them.

use std::any::Any;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::{Result, internal_err, plan_err};
use datafusion_expr::function::AccumulatorArgs;
use datafusion_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use pelton_data::column::sql_name;
use pelton_data::udaf::{AggregateFunction, UdafHandle};

/// A function as DataFusion's planner sees it: these arguments, which are cast to their types, and this result.
pub fn aggregate_udf(
    function: Arc<dyn AggregateFunction>,
    arguments: Vec<DataType>,
    returns: DataType,
) -> AggregateUDF {
    let signature = Signature::user_defined(Volatility::Immutable);
    AggregateUDF::new_from_impl(OwnAggregate { function: UdafHandle(function), arguments, returns, signature })
}

/// Whether a function of the program takes an argument of a type, and casts it to the type that it wants.
pub fn accepts(wanted: &DataType, given: &DataType) -> bool {
    given == wanted
        || given.is_null()
        || given.is_string() && wanted.is_string()
        || given.is_numeric() && wanted.is_numeric()
}

/// The function behind one of DataFusion's, where the program defined it.
pub(crate) fn udaf_of(function: &AggregateUDF) -> Option<UdafHandle> {
    let inner: &dyn Any = function.inner().as_ref();
    inner.downcast_ref::<OwnAggregate>().map(|own| own.function.clone())
}

#[derive(Debug)]
struct OwnAggregate {
    function: UdafHandle,
    arguments: Vec<DataType>,
    returns: DataType,
    signature: Signature,
}

impl PartialEq for OwnAggregate {
    fn eq(&self, other: &OwnAggregate) -> bool {
        self.function == other.function
    }
}

impl Eq for OwnAggregate {}

impl Hash for OwnAggregate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl AggregateUDFImpl for OwnAggregate {
    fn name(&self) -> &str {
        self.function.0.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.returns.clone())
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let name = self.name().to_uppercase();
        if types.len() != self.arguments.len() {
            let plural = if self.arguments.len() == 1 { "" } else { "s" };
            return plan_err!("{name} takes {} argument{plural}, not {}", self.arguments.len(), types.len());
        }
        for (at, (wanted, given)) in self.arguments.iter().zip(types).enumerate() {
            if !accepts(wanted, given) {
                return plan_err!(
                    "argument {} of {name} is {}; it must be {}: use CAST",
                    at + 1,
                    sql_name(given),
                    sql_name(wanted)
                );
            }
        }
        Ok(self.arguments.clone())
    }

    fn supports_null_handling_clause(&self) -> bool {
        false
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        internal_err!("windows compute aggregates, not DataFusion")
    }
}
