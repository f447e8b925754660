//! A call, and how it is computed for the rows of a run.

use std::ops::Range;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use pelton_data::column::sql_name;
use pelton_data::over::{Frame, OverCall, OverFunction, OverSpec, Sliding};

use super::call::{CallState, Run, Scratch};
use super::frame::Bounds;
use super::held::HeldCall;
use super::number::{count_rows, number_times};
use super::retained::RetainedColumn;
use super::scanned::Scanned;
use super::text::TextRun;
use super::totals::RUN_ROWS;
use super::udaf::UdafRun;
use super::value::{Column, DecimalMean, Form, Overflow, Results};
use crate::kernel::KernelError;

/// What calls of each form compute on the way.
#[derive(Debug, Default)]
pub(super) struct Scratches {
    integers: Scratch<i64>,
    floats: Scratch<f64>,
    decimals: Scratch<i128>,
}

/// A call, and what it is computed from.
pub(super) struct PlannedCall {
    pub call: OverCall,
    /// Index in `OverRows::frames`.
    pub frame: usize,
    /// Index in `OverRows::arguments`.
    pub argument: Option<usize>,
    /// Whether the argument may be NULL.
    pub nullable: bool,
    pub decimal: Option<DecimalMean>,
    /// Of a call that holds all values of its frame all those that hold them alike, itself the first: values are held once for all. Empty of what holds none, or
    /// is not the first.
    pub held: Vec<HeldCall>,
    /// How it follows its frame.
    pub sliding: Sliding,
    /// Whether it is a sum of doubles over a frame of more rows than a run has: such calls of one argument share what runs are scanned for.
    pub is_long_sum: bool,
    /// Of one of the program's own functions, the input's columns that it is computed from,
    pub udaf_columns: Vec<usize>,
    /// and their types.
    pub udaf_types: Vec<DataType>,
}

/// The argument of a call.
#[derive(Clone, Copy)]
pub(super) struct ArgumentRows<'a> {
    /// Of the rows that are computed.
    pub values: &'a Column,
    /// Of these and those before them, as far as calls look back.
    pub kept: Option<&'a RetainedColumn>,
    /// What sums of several frames share.
    pub scanned: Option<&'a Scanned<f64>>,
}

/// Where the rows of a run are: in their batch, among all rows of their key, and what their frames are.
pub(super) struct RunRows<'a> {
    pub rows: Range<usize>,
    pub position: u64,
    pub bounds: &'a Bounds,
}

impl PlannedCall {
    /// A call over the frame and of the argument with these numbers.
    pub fn new(spec: &OverSpec, call: &OverCall, frame: usize, argument: Option<usize>, nullable: bool) -> PlannedCall {
        // Rows come into such frames apart from those whose frames they are: values are counted.
        let nullable = nullable || call.frame.end().is_some();
        let is_udaf = matches!(call.function, OverFunction::Udaf { .. });
        let udaf_columns: Vec<usize> = call.columns().filter(|_| is_udaf).collect();
        let type_of = |&column: &usize| spec.input_schema.field(column).data_type().clone();
        let udaf_types = udaf_columns.iter().map(type_of).collect();
        let decimal = decimal_mean(spec, call);
        let sliding = call.sliding(spec.argument_type(call));
        let is_float = spec.argument_type(call).is_some_and(|of| Form::of(of) == Form::Float);
        let is_sum = !call.is_distinct && matches!(call.function, OverFunction::Sum | OverFunction::Mean);
        let is_long = matches!(call.frame, Frame::Rows { preceding: Some(RUN_ROWS..) });
        let is_long_sum = spec.keys.is_empty() && is_float && is_sum && is_long;
        let (call, held) = (call.clone(), Vec::new());
        PlannedCall { call, frame, argument, nullable, decimal, held, sliding, is_long_sum, udaf_columns, udaf_types }
    }

    /// Has calls computed together that hold the values of one frame and argument alike.
    pub fn share(calls: &mut [PlannedCall]) {
        for index in 0..calls.len() {
            let planned = &calls[index];
            if !planned.sliding.holds_values() {
                continue;
            }
            let how = |planned: &PlannedCall| (planned.frame, planned.argument, planned.sliding.counts_values());
            let is_like = |other: &PlannedCall| !other.held.is_empty() && how(other) == how(planned);
            let first = calls[..index].iter().position(is_like).unwrap_or(index);
            let held = HeldCall { index, function: planned.call.function.clone(), decimal: planned.decimal };
            calls[first].held.push(held);
        }
    }

    /// Whether its values are held by an earlier call.
    pub fn is_of_another(&self) -> bool {
        self.sliding.holds_values() && self.held.is_empty()
    }

    /// No results yet, and room for so many.
    pub fn results(&self, rows: usize) -> Results {
        match self.call.function {
            OverFunction::Udaf { .. } => Results::of_udaf(),
            _ => Results::new(&self.call.data_type, rows),
        }
    }

    /// Appends the results of a run to those of this call, the `index`th of all, and of those that are computed with it. `own` has the columns of one of the
    /// program's own functions.
    ///
    /// # Errors
    /// What such a function returns, or where a result does not fit its type.
    pub fn compute(
        &self,
        state: &mut CallState,
        (argument, own): (Option<ArgumentRows<'_>>, &[ArrayRef]),
        place: RunRows<'_>,
        scratch: &mut Scratches,
        (index, results): (usize, &mut [Results]),
    ) -> Result<(), KernelError> {
        let RunRows { rows, position, bounds } = place;
        let (values, kept, scanned) = match argument {
            Some(ArgumentRows { values, kept, scanned }) => (Some(values), kept, scanned),
            None => (None, None, None),
        };
        let computed = match (state, values) {
            (CallState::OfAnother, _) => Ok(()),
            (CallState::Udaf(state), _) => {
                let run = UdafRun { columns: own, rows, bounds };
                results[index].push_array(state.compute(&run).map_err(KernelError::Expression)?);
                Ok(())
            }
            (CallState::Times(times), _) => {
                number_times(times, bounds, &mut results[index]);
                Ok(())
            }
            (CallState::Positions, _) => {
                count_rows(&self.call.function, bounds, &mut results[index]);
                Ok(())
            }
            (CallState::Integer(state), Some(Column::Integers(values))) => {
                let run = Run::new(values, rows, position, bounds, kept.map(RetainedColumn::integers));
                state.compute(self, &run, &mut scratch.integers, (index, results))
            }
            (CallState::Float(state), Some(Column::Floats(values))) => {
                let run = Run::new(values, rows, position, bounds, kept.map(RetainedColumn::floats));
                let run = Run { scanned: scanned.filter(|_| self.is_long_sum), ..run };
                state.compute(self, &run, &mut scratch.floats, (index, results))
            }
            (CallState::Decimal(state), Some(Column::Decimals(values))) => {
                let run = Run::new(values, rows, position, bounds, kept.map(RetainedColumn::decimals));
                state.compute(self, &run, &mut scratch.decimals, (index, results))
            }
            (CallState::Bytes(state), Some(Column::Bytes(values))) => {
                let run = TextRun { values, rows, position, bounds, kept: kept.map(RetainedColumn::texts) };
                state.compute(self, &run, (index, results))
            }
            (_, _) => unreachable!("the state has the form of its argument"),
        };
        computed.map_err(|Overflow| self.overflow())
    }

    fn overflow(&self) -> KernelError {
        let function = match self.call.function {
            OverFunction::Array { .. } | OverFunction::Joined { .. } => {
                let is_list = matches!(self.call.function, OverFunction::Array { .. });
                let name = if is_list { "ARRAY_AGG" } else { "LISTAGG" };
                let problem = "makes more of the rows of a block than there is memory for (shorten its frame)";
                return KernelError::Expression(format!("{name} OVER {problem}"));
            }
            OverFunction::Sum => "SUM",
            _ => "AVG",
        };
        let fits = sql_name(&self.call.data_type);
        KernelError::Expression(format!(
            "{function} OVER does not fit {fits} (cast what is aggregated to DOUBLE, or to DECIMAL of fewer digits)"
        ))
    }
}

/// How a call's mean is written, where it is one of decimals.
fn decimal_mean(spec: &OverSpec, call: &OverCall) -> Option<DecimalMean> {
    match (&call.function, spec.argument_type(call), &call.data_type) {
        (OverFunction::Mean, Some(DataType::Decimal128(_, scale)), DataType::Decimal128(precision, mean_scale)) => {
            Some(DecimalMean { digits: mean_scale - scale, precision: *precision })
        }
        _ => None,
    }
}
