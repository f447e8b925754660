//! What a call leaves to the next one of its worker, so that calls allocate nothing once these lists have grown.

use std::rc::Rc;

use arrow::array::ArrayRef;
use pelton_data::abi::OutputPointer;
use pelton_state::kernel::Scratch;

use super::call::Bound;
use super::few::FewColumn;
use super::loops::Loop;
use super::project::WrittenColumn;

/// Lists without elements, and bindings without columns.
#[derive(Default)]
pub(crate) struct Spare {
    /// Nobody else has them.
    bound: Vec<Rc<Bound>>,
    pub(super) bindings: Vec<(*const Loop, Rc<Bound>)>,
    pub(super) computed: Vec<Option<ArrayRef>>,
    /// Row numbers.
    pub(super) rows: Vec<u32>,
    /// The same, for each lookup.
    pub(super) found: Vec<Vec<u32>>,
    pub(super) matches: Vec<Vec<u32>>,
    pub(super) ends: Vec<usize>,
    /// Of slices.
    pub(super) numbers: Vec<u8>,
    /// Keys, and other arguments of an aggregation.
    pub(super) arguments: [Vec<ArrayRef>; 2],
    pub(super) written: Vec<WrittenColumn>,
    pub(super) pointers: Vec<OutputPointer>,
    pub(super) few: Vec<FewColumn>,
}

// SAFETY: between two calls the bindings are nobody else's, as `Spare::take_back` checks, and no list has an element that points anywhere.
unsafe impl Send for Spare {}

impl Spare {
    /// What calls have left there.
    pub(super) fn take(scratch: &mut Scratch) -> Box<Spare> {
        scratch.of_kernels.take().and_then(|left| left.downcast().ok()).unwrap_or_default()
    }

    /// The same, which stays there.
    pub(super) fn of(scratch: &mut Scratch) -> &mut Spare {
        let left = scratch.of_kernels.get_or_insert_with(|| Box::new(Spare::default()));
        left.downcast_mut().expect("there is one kind of kernels that leaves anything")
    }

    /// A binding of nothing.
    pub(super) fn binding(&mut self) -> Rc<Bound> {
        self.bound.pop().unwrap_or_default()
    }

    /// Takes bindings that are not needed any more, unless somebody still has them.
    pub(super) fn take_back(&mut self, bindings: &mut Vec<(*const Loop, Rc<Bound>)>) {
        for (_, mut bound) in bindings.drain(..) {
            if let Some(alone) = Rc::get_mut(&mut bound) {
                alone.clear();
                self.bound.push(bound);
            }
        }
    }
}
