//! Zeroed memory for entries: huge pages where it is large, from those that are prepared (`stock`).

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
#[cfg(all(target_os = "linux", not(miri)))]
use std::ops::Range;
use std::ptr::NonNull;

#[cfg(all(target_os = "linux", not(miri)))]
use super::stock;

/// Size and alignment of a huge page. Random reads of a table in huge pages miss the address cache far less often.
pub(super) const HUGE_PAGE: usize = 2 << 20;

/// Entries begin at a cache line.
const ALIGNMENT: usize = 64;

/// As no memory is aligned.
#[repr(align(64))]
struct CacheLine;

/// Bytes that this value owns, zero at first. It does not move.
#[derive(Debug)]
pub(crate) struct Region {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a region owns its memory as a `Vec<u8>` does; all access goes through `&self` and `&mut self` of its owner.
unsafe impl Send for Region {}
// SAFETY: as above: nothing is written through a shared region.
unsafe impl Sync for Region {}

impl Region {
    /// No memory.
    pub(crate) const fn empty() -> Region {
        Region { start: NonNull::<CacheLine>::dangling().cast(), bytes: 0 }
    }

    /// `bytes` bytes of zeros.
    pub(super) fn zeroed(bytes: usize) -> Region {
        if bytes == 0 {
            return Region::empty();
        }
        let start = if is_mapped(bytes) { map_pages(bytes) } else { allocate(bytes) };
        Region { start, bytes }
    }

    /// Becomes as long as `bytes`, which must not be less than it has: zeros follow what it holds. Only these need fresh memory where the
    /// region is large. Its memory may move.
    pub(crate) fn grow(&mut self, bytes: usize) {
        assert!(bytes >= self.bytes);
        if is_mapped(self.bytes) {
            self.start = remap(self.start, self.bytes, bytes);
            self.bytes = bytes;
            return;
        }
        let longer = Region::zeroed(bytes);
        // SAFETY: both regions are at least this long, and different allocations.
        unsafe { longer.as_ptr().copy_from_nonoverlapping(self.as_ptr(), self.bytes) };
        *self = longer;
    }

    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub(crate) fn bytes(&self) -> usize {
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
            keep_pages(self.start, self.bytes);
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

/// Maps `bytes` bytes, with pages that are prepared as far as there are some.
#[cfg(all(target_os = "linux", not(miri)))]
fn map_pages(bytes: usize) -> NonNull<u8> {
    let (start, pages) = (map(bytes), bytes.div_ceil(HUGE_PAGE));
    stock::fill(start, pages, pages);
    start
}

/// Has the system back memory by huge pages as it is first touched, as far as it is large enough to hold some.
pub(crate) fn use_huge_pages<T>(memory: &mut [T]) {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        let Range { start, end } = memory.as_mut_ptr_range();
        let (start, end) = (start.addr().next_multiple_of(HUGE_PAGE), end.addr() / HUGE_PAGE * HUGE_PAGE);
        if start < end {
            // SAFETY: these pages lie inside the slice, which is borrowed exclusively. `madvise` changes no contents.
            unsafe { libc::madvise(memory.as_mut_ptr().with_addr(start).cast(), end - start, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = memory;
}

/// Bytes of pages that are prepared, which cost no first touch.
#[cfg(all(target_os = "linux", not(miri)))]
pub(super) fn prepared_bytes() -> usize {
    stock::prepared() * HUGE_PAGE
}

/// Puts pages away that [`map_pages`] mapped.
#[cfg(all(target_os = "linux", not(miri)))]
fn keep_pages(start: NonNull<u8>, bytes: usize) {
    stock::keep(start, bytes.div_ceil(HUGE_PAGE));
}

#[cfg(all(target_os = "linux", not(miri)))]
pub(super) fn map(bytes: usize) -> NonNull<u8> {
    try_map(bytes).unwrap_or_else(|| handle_alloc_error(allocation_layout(bytes)))
}

/// Maps as many huge pages as `bytes` bytes need, if the system has them.
#[cfg(all(target_os = "linux", not(miri)))]
pub(super) fn try_map(bytes: usize) -> Option<NonNull<u8>> {
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
        return None;
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
        Some(NonNull::new_unchecked(start))
    }
}

/// Maps a fresh huge page at a place that belongs to the caller and holds nothing, if none is mapped there any more: moving another page there has
/// failed, which may have unmapped it.
#[cfg(all(target_os = "linux", not(miri)))]
pub(super) fn map_again(place: NonNull<u8>) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: nothing is replaced: where something is mapped, the call fails. `madvise` changes no contents.
    let mapped = unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let mapped = libc::mmap(place.as_ptr().cast(), HUGE_PAGE, protection, flags, -1, 0);
        libc::madvise(place.as_ptr().cast(), HUGE_PAGE, libc::MADV_HUGEPAGE);
        mapped
    };
    let is_there =
        mapped == place.as_ptr().cast() || std::io::Error::last_os_error().raw_os_error() == Some(libc::EEXIST);
    if !is_there {
        handle_alloc_error(allocation_layout(HUGE_PAGE));
    }
}

/// Moves a mapping of `bytes` bytes to the front of a longer one: its pages go along, and none is copied.
#[cfg(all(target_os = "linux", not(miri)))]
fn remap(start: NonNull<u8>, bytes: usize, longer: usize) -> NonNull<u8> {
    let (pages, pages_longer) = (bytes.div_ceil(HUGE_PAGE), longer.div_ceil(HUGE_PAGE));
    if pages_longer == pages {
        return start;
    }
    let target = map(longer);
    // Page by page: those that were prepared are mappings of their own.
    for index in 0..pages {
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: both mappings are at least this long.
        let (from, to) = unsafe { (start.add(index * HUGE_PAGE), target.add(index * HUGE_PAGE)) };
        // SAFETY: `map` made both mappings, which are apart. What is replaced in the target nobody has seen yet.
        let moved = unsafe { libc::mremap(from.as_ptr().cast(), HUGE_PAGE, HUGE_PAGE, flags, to.as_ptr()) };
        if moved == libc::MAP_FAILED {
            // Too many mappings: the page is copied.
            map_again(to);
            // SAFETY: both are huge pages, apart from each other, which are mapped.
            unsafe { to.as_ptr().copy_from_nonoverlapping(from.as_ptr(), HUGE_PAGE) };
            unmap(from, HUGE_PAGE);
        }
    }
    // SAFETY: the target is as long as that, and what lies behind the pages that were moved nobody has touched.
    stock::fill(unsafe { target.add(pages * HUGE_PAGE) }, pages_longer - pages, pages_longer);
    target
}

#[cfg(all(target_os = "linux", not(miri)))]
pub(super) fn unmap(start: NonNull<u8>, bytes: usize) {
    // SAFETY: `map` made this mapping with this length, and its owner is being dropped.
    unsafe { libc::munmap(start.as_ptr().cast(), bytes.next_multiple_of(HUGE_PAGE)) };
}

#[cfg(not(all(target_os = "linux", not(miri))))]
pub(super) fn prepared_bytes() -> usize {
    0
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn map_pages(bytes: usize) -> NonNull<u8> {
    allocate(bytes)
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn keep_pages(_start: NonNull<u8>, _bytes: usize) {
    unreachable!("no region is mapped here");
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn remap(_start: NonNull<u8>, _bytes: usize, _longer: usize) -> NonNull<u8> {
    unreachable!("no region is mapped here");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_keeps_its_bytes_when_it_grows_and_zeros_follow() {
        let mut region = Region::zeroed(1000);
        let mut length = 1000;
        for longer in [5_000, HUGE_PAGE + 8, 2 * HUGE_PAGE - 8, 2 * HUGE_PAGE, 5 * HUGE_PAGE + 64] {
            let held = |region: &Region, at: usize| {
                assert!(at < region.bytes());
                // SAFETY: the byte lies in the region, as just checked.
                unsafe { region.as_ptr().add(at).read() }
            };
            // SAFETY: the region is as long as that.
            unsafe { region.as_ptr().write_bytes(7, length) };
            region.grow(longer);
            assert_eq!(region.bytes(), longer);
            let places = (0..longer).step_by(61).chain([length - 1, length, longer - 1]);
            assert!(places.into_iter().all(|at| held(&region, at) == if at < length { 7 } else { 0 }), "{longer}");
            length = longer;
        }
    }
}
