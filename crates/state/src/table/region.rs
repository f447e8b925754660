//! Zeroed memory for entries: huge pages where it is large.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Size and alignment of a huge page. Random reads of a table in huge pages miss the address cache far less often.
const HUGE_PAGE: usize = 2 << 20;

/// Entries begin at a cache line.
const ALIGNMENT: usize = 64;

/// Bytes that this value owns, zero at first. It does not move.
#[derive(Debug)]
pub(super) struct Region {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a region owns its memory as a `Vec<u8>` does; all access goes through `&self` and `&mut self` of its owner.
unsafe impl Send for Region {}
// SAFETY: as above: nothing is written through a shared region.
unsafe impl Sync for Region {}

impl Region {
    /// No memory.
    pub(super) const fn empty() -> Region {
        Region { start: NonNull::<u64>::dangling().cast(), bytes: 0 }
    }

    /// `bytes` bytes of zeros.
    pub(super) fn zeroed(bytes: usize) -> Region {
        if bytes == 0 {
            return Region::empty();
        }
        let start = if is_mapped(bytes) { map(bytes) } else { allocate(bytes) };
        Region { start, bytes }
    }

    pub(super) fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes `count` bytes from `first` on zero again.
    pub(super) fn clear(&mut self, first: usize, count: usize) {
        assert!(first.checked_add(count).is_some_and(|end| end <= self.bytes));
        // SAFETY: the range lies inside the region, as just checked, and the region is borrowed exclusively.
        unsafe { self.as_ptr().add(first).write_bytes(0, count) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        if is_mapped(self.bytes) {
            unmap(self.start, self.bytes);
        } else {
            // SAFETY: `allocate` got this memory with this layout.
            unsafe { dealloc(self.start.as_ptr(), allocation_layout(self.bytes)) }
        }
    }
}

fn allocation_layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, ALIGNMENT).expect("a table is smaller than the address space")
}

fn allocate(bytes: usize) -> NonNull<u8> {
    let layout = allocation_layout(bytes);
    // SAFETY: the layout's size is not zero: `zeroed` asks for at least one byte.
    let start = unsafe { alloc_zeroed(layout) };
    NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout))
}

/// Whether a region of this size is mapped by itself. Mappings are zero without being written, and go back to the system.
fn is_mapped(bytes: usize) -> bool {
    cfg!(all(target_os = "linux", not(miri))) && bytes >= HUGE_PAGE
}

#[cfg(all(target_os = "linux", not(miri)))]
fn map(bytes: usize) -> NonNull<u8> {
    let length = bytes.next_multiple_of(HUGE_PAGE);
    // SAFETY: an anonymous mapping at an address of the system's choice touches no memory in use.
    let mapped = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            length + HUGE_PAGE,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if mapped == libc::MAP_FAILED {
        handle_alloc_error(allocation_layout(bytes));
    }
    let before = mapped.cast::<u8>().align_offset(HUGE_PAGE);
    // SAFETY: the mapping is a huge page longer than needed, so the aligned part lies inside it, and what is
    // unmapped before and after it lies inside it too and was handed to nobody. `madvise` changes no contents.
    unsafe {
        let start = mapped.cast::<u8>().add(before);
        if before > 0 {
            libc::munmap(mapped, before);
        }
        if before < HUGE_PAGE {
            libc::munmap(start.add(length).cast(), HUGE_PAGE - before);
        }
        libc::madvise(start.cast(), length, libc::MADV_HUGEPAGE);
        NonNull::new_unchecked(start)
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
fn unmap(start: NonNull<u8>, bytes: usize) {
    // SAFETY: `map` made this mapping with this length, and its owner is being dropped.
    unsafe { libc::munmap(start.as_ptr().cast(), bytes.next_multiple_of(HUGE_PAGE)) };
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn map(bytes: usize) -> NonNull<u8> {
    allocate(bytes)
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn unmap(_start: NonNull<u8>, _bytes: usize) {
    unreachable!("no region is mapped here");
}

/// Asks for the cache line at `address` to be brought near.
#[inline(always)]
pub(super) fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint: it reads nothing and cannot fault, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
