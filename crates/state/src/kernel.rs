//! The contract between the code of a pipeline and the runtime that calls it.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use pelton_data::Block;

use crate::count::RowCounter;
use crate::join::Lookups;
use crate::profile::{Met, Predicate, PredicateOrder, Profile};
use crate::slice::{SliceRows, SliceStore};
use crate::table::Table;

/// Rows of one block, for one call of a kernel.
#[derive(Debug, Clone, Copy)]
pub struct KernelInput<'a> {
    /// The block.
    pub block: &'a Block,
    /// First row to visit.
    pub first: usize,
    /// One past the last row to visit.
    pub end: usize,
    /// Which of them to visit: bit `row` (least significant first, counted from row 0 of the block), one bit for every
    /// row of the block; all where there is none.
    pub mask: Option<&'a [u64]>,
}

impl<'a> KernelInput<'a> {
    /// All rows of a block.
    pub fn all(block: &'a Block) -> KernelInput<'a> {
        KernelInput { block, first: 0, end: block.rows(), mask: None }
    }

    /// The rows as a range.
    pub fn range(&self) -> Range<usize> {
        self.first..self.end
    }
}

/// How the code of a pipeline runs at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tier {
    /// Precompiled primitives, and DataFusion for expressions.
    Interpreted,
    /// Machine code compiled for the pipeline.
    Compiled,
}

impl std::fmt::Display for Tier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Tier::Interpreted => "interpreted",
            Tier::Compiled => "compiled",
        })
    }
}

/// A row or block that a kernel could not compute.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KernelError {
    /// An expression has no value for a row, such as a division by zero or a cast that does not fit. The user's error.
    #[error("{0}")]
    Expression(String),
    /// The state would be larger than allowed. The user's error, or the environment's.
    #[error("{0}")]
    State(String),
}

/// The code of one pipeline. Workers share it; what a call needs to write is in `Scratch` and in its target, and the tables that it looks rows up in
/// are inputs of the call: a kernel holds no rows.
///
/// A kernel never keeps a row for later: after a call, all rows visited are in the target.
pub trait Kernel: Send + Sync {
    /// How this code runs.
    fn tier(&self) -> Tier;

    /// Adds the rows to a slice's table. For pipelines that end in an aggregation.
    ///
    /// # Errors
    /// [`KernelError`]; the table then holds some of the rows, and the query must stop.
    fn aggregate(
        &self,
        input: KernelInput<'_>,
        lookups: &Lookups,
        table: &mut Table,
        scratch: &mut Scratch,
    ) -> Result<(), KernelError>;

    /// Adds the rows of a block to the tables of their slices.
    ///
    /// # Errors
    /// As [`Kernel::aggregate`].
    fn aggregate_slices(
        &self,
        block: &Block,
        slices: &[SliceRows],
        lookups: &Lookups,
        store: &mut SliceStore,
        scratch: &mut Scratch,
    ) -> Result<(), KernelError> {
        let mut mask = std::mem::take(&mut scratch.slice_mask);
        let mut add = |slice: &SliceRows| {
            self.aggregate(slice.input(block, &mut mask), lookups, store.table(slice.slice), scratch)
        };
        let added = slices.iter().try_for_each(&mut add);
        scratch.slice_mask = mask;
        added
    }

    /// Adds rows to windows that count the rows of each key: those of one block after the other, in their order.
    ///
    /// # Errors
    /// As [`Kernel::aggregate`].
    fn count(
        &self,
        input: KernelInput<'_>,
        lookups: &Lookups,
        counter: &mut RowCounter,
        scratch: &mut Scratch,
    ) -> Result<(), KernelError>;

    /// Computes the output rows of the input rows, in order. A batch may hold rows of several inputs. For pipelines that end in a stream.
    ///
    /// # Errors
    /// [`KernelError`]; `output` then holds the rows of all inputs before the one that failed, and the query must stop.
    fn emit(
        &self,
        inputs: &[KernelInput<'_>],
        lookups: &Lookups,
        output: &mut Vec<RecordBatch>,
        scratch: &mut Scratch,
    ) -> Result<(), KernelError>;

    /// Predicates that may be tested in any order, as they were planned; none where the code knows no other order.
    fn predicates(&self) -> &[Predicate] {
        &[]
    }

    /// The order in which this code tests its predicates.
    fn order(&self) -> PredicateOrder {
        PredicateOrder::planned(self.predicates())
    }

    /// Whether the rows that all predicates leave are listed where all of them were tested over blocks.
    fn lists_rows(&self) -> bool {
        true
    }

    /// The same code with its predicates in another order, which is one of them; `None` where it knows no other order.
    fn reordered(&self, _order: &PredicateOrder) -> Option<Arc<dyn Kernel>> {
        None
    }

    /// Whether this code asks for the memory that it reads some rows before it does.
    fn fetches_ahead(&self) -> bool {
        false
    }

    /// The same code that asks for memory ahead, or does not; `None` where that is this code, or there is none.
    fn fetching(&self, _ahead: bool) -> Option<Arc<dyn Kernel>> {
        None
    }

    /// Counts which rows pass which predicates. Changes nothing else.
    fn profile(&self, _input: KernelInput<'_>, _lookups: &Lookups, _profile: &mut Profile, _scratch: &mut Scratch) {}
}

/// A kernel with the tables that its calls look rows up in.
#[derive(Clone, Copy)]
pub struct KernelCall<'a> {
    /// The code.
    pub kernel: &'a dyn Kernel,
    /// The tables.
    pub lookups: &'a Lookups,
}

impl KernelCall<'_> {
    /// [`Kernel::aggregate_slices`].
    ///
    /// # Errors
    /// Its errors.
    pub fn aggregate_slices(
        self,
        block: &Block,
        slices: &[SliceRows],
        store: &mut SliceStore,
        scratch: &mut Scratch,
    ) -> Result<(), KernelError> {
        self.kernel.aggregate_slices(block, slices, self.lookups, store, scratch)
    }

    /// [`Kernel::count`].
    ///
    /// # Errors
    /// Its errors.
    pub fn count(
        self,
        input: KernelInput<'_>,
        counter: &mut RowCounter,
        scratch: &mut Scratch,
    ) -> Result<(), KernelError> {
        self.kernel.count(input, self.lookups, counter, scratch)
    }

    /// [`Kernel::emit`].
    ///
    /// # Errors
    /// Its errors.
    pub fn emit(
        self,
        inputs: &[KernelInput<'_>],
        output: &mut Vec<RecordBatch>,
        scratch: &mut Scratch,
    ) -> Result<(), KernelError> {
        self.kernel.emit(inputs, self.lookups, output, scratch)
    }
}

/// Buffers that a worker reuses from call to call, so that a call allocates nothing in steady state.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Row numbers that passed the predicates so far.
    pub selection: Vec<u32>,
    /// For each selected position, the row of a looked-up table.
    pub lookup_rows: Vec<u32>,
    /// One bit a row of the block.
    pub mask: Vec<u64>,
    /// The same of the rows of one slice.
    pub slice_mask: Vec<u64>,
    /// For each selected position, the hash of its key.
    pub hashes: Vec<u64>,
    /// For each selected position, its packed key.
    pub keys: Vec<u8>,
    /// For each selected position, its key as a table's integer key.
    pub integers: Vec<i64>,
    /// For each selected position, where its entry is, in units of eight bytes from entry 0.
    pub entries: Vec<u32>,
    /// Whether loops check for NULL even where a block has none.
    pub checks_nulls: bool,
    /// What calls have met since somebody looked.
    pub met: Met,
    /// Room for whatever else a kernel needs, such as output columns before they are Arrow buffers.
    pub spare: Vec<Vec<u8>>,
    /// What only the kernels know that left it here.
    pub of_kernels: Option<Box<dyn Any + Send>>,
}
