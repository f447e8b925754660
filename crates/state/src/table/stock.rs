//! Huge pages for large tables: prepared before they are needed, and used again (Enjima, section 3.1).
//!
//! The first touch of a page is the system's work: it finds memory, clears it and, under a hypervisor, may have to ask for it. A table that
//! doubles does that in the middle of a block, for as long as a block's rows take ten thousand times. So a thread of the runtime does it before:
//! whoever takes pages is likely to double next, and as many are prepared as the table has then. A page goes into its place in a region by a
//! change of the address space, and nothing is copied.

use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::region::{HUGE_PAGE, map_again, try_map, unmap};

/// At most this part of the machine's memory waits, prepared or used.
const MEMORY_PART: usize = 32;

/// At most so many pages wait, whatever the machine has: 128 MiB, which also a container of a gibibyte can spare.
const PAGES_MAX: usize = 64;

/// The pages of this process.
static STOCK: Stock = Stock::new();

/// Whom to tell that pages have been taken or put away.
static MOVED: OnceLock<fn()> = OnceLock::new();

/// Has `tell` called whenever pages have been taken or put away: whoever is told calls [`prepare`] as long as there is something to do, and, when it
/// has not been told for a while, [`give_back`]. Only the first caller of a process is told.
pub fn when_moved(tell: fn()) {
    MOVED.get_or_init(|| tell);
}

/// Prepares one page: whether there was one to prepare.
pub fn prepare() -> bool {
    STOCK.prepare()
}

/// Gives one page back to the system, and wants none until some are taken: whether there was one.
pub fn give_back() -> bool {
    STOCK.give_back()
}

/// How many pages are prepared.
pub(super) fn prepared() -> usize {
    STOCK.pages().prepared.len()
}

/// Puts pages that are there in the place of the first ones of a mapping of `pages` huge pages, which nobody has touched. `pages_next` is how many
/// may be wanted next.
pub(super) fn fill(start: NonNull<u8>, pages: usize, pages_next: usize) {
    STOCK.fill(start, pages, pages_next);
    tell();
}

/// Takes a mapping of `pages` huge pages that nobody uses any more.
pub(super) fn keep(start: NonNull<u8>, pages: usize) {
    // Where nobody is told nobody gives pages back.
    if MOVED.get().is_none() {
        return unmap(start, pages * HUGE_PAGE);
    }
    STOCK.keep(start, pages);
    tell();
}

fn tell() {
    if let Some(tell) = MOVED.get() {
        tell();
    }
}

/// Pages that wait for a table.
struct Stock(Mutex<Pages>);

struct Pages {
    /// Populated and zero.
    prepared: Vec<Page>,
    /// Populated, with what they held.
    used: Vec<Page>,
    /// How many should be prepared.
    wanted: usize,
    /// How many may wait; 0 before it is known.
    limit: usize,
}

/// A mapping of one huge page that nobody else knows.
struct Page(NonNull<u8>);

// SAFETY: a page owns its mapping as a `Vec<u8>` does.
unsafe impl Send for Page {}

impl Page {
    /// A populated page; `None` where the system has none.
    fn new() -> Option<Page> {
        let page = Page(try_map(HUGE_PAGE)?);
        // The system populates it at the first write.
        // SAFETY: the page is mapped for this owner, and a huge page long.
        (0..HUGE_PAGE).step_by(4096).for_each(|at| unsafe { page.0.as_ptr().add(at).write_volatile(0) });
        Some(page)
    }

    fn clear(&mut self) {
        // SAFETY: the page is a huge page long, and nobody else knows it.
        unsafe { self.0.as_ptr().write_bytes(0, HUGE_PAGE) };
    }

    /// Takes the place of a huge page at `target`, which was mapped for the caller and is not in use. Where the system refuses, nothing changes there
    /// that could be seen.
    fn move_to(self, target: NonNull<u8>) {
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: both are mappings of that length, apart from each other, and nobody reads or writes either meanwhile.
        let moved = unsafe { libc::mremap(self.0.as_ptr().cast(), HUGE_PAGE, HUGE_PAGE, flags, target.as_ptr()) };
        if moved == libc::MAP_FAILED {
            // Too many mappings: the place keeps its own page, which is zero.
            map_again(target);
            unmap(self.0, HUGE_PAGE);
        }
    }
}

impl Stock {
    const fn new() -> Stock {
        Stock(Mutex::new(Pages { prepared: Vec::new(), used: Vec::new(), wanted: 0, limit: 0 }))
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fill(&self, start: NonNull<u8>, pages: usize, pages_next: usize) {
        let mut waiting = self.pages();
        let limit = waiting.limit();
        waiting.wanted = waiting.wanted.max(pages_next.min(limit));
        let prepared_from = waiting.prepared.len().saturating_sub(pages);
        let mut taken = waiting.prepared.split_off(prepared_from);
        let used_from = waiting.used.len().saturating_sub(pages - taken.len());
        let mut used = waiting.used.split_off(used_from);
        drop(waiting);
        used.iter_mut().for_each(Page::clear);
        taken.append(&mut used);
        for (index, page) in taken.into_iter().enumerate() {
            // SAFETY: there are `pages` huge pages from `start` on.
            page.move_to(unsafe { start.add(index * HUGE_PAGE) });
        }
    }

    fn keep(&self, start: NonNull<u8>, pages: usize) {
        for index in 0..pages {
            // SAFETY: there are `pages` huge pages from `start` on.
            let page = unsafe { start.add(index * HUGE_PAGE) };
            let is_populated = is_populated(page);
            let mut waiting = self.pages();
            if waiting.prepared.len() + waiting.used.len() >= waiting.limit() {
                drop(waiting);
                return unmap(page, (pages - index) * HUGE_PAGE);
            }
            if is_populated {
                waiting.used.push(Page(page));
            } else {
                drop(waiting);
                unmap(page, HUGE_PAGE);
            }
        }
    }

    fn prepare(&self) -> bool {
        let mut waiting = self.pages();
        if waiting.prepared.len() >= waiting.wanted {
            return false;
        }
        let used = waiting.used.pop();
        drop(waiting);
        let page = match used {
            Some(mut page) => {
                page.clear();
                Some(page)
            }
            None => Page::new(),
        };
        let mut waiting = self.pages();
        // Without memory for more, there is nothing to prepare.
        let Some(page) = page else {
            waiting.wanted = 0;
            return false;
        };
        waiting.prepared.push(page);
        true
    }

    fn give_back(&self) -> bool {
        let mut waiting = self.pages();
        waiting.wanted = 0;
        let page = waiting.used.pop().or_else(|| waiting.prepared.pop());
        drop(waiting);
        page.map(|page| unmap(page.0, HUGE_PAGE)).is_some()
    }
}

impl Pages {
    fn limit(&mut self) -> usize {
        if self.limit == 0 {
            // SAFETY: asks the system for numbers.
            let [pages, bytes] = [libc::_SC_PHYS_PAGES, libc::_SC_PAGESIZE].map(|name| unsafe { libc::sysconf(name) });
            let memory = (pages.max(0) as usize).saturating_mul(bytes.max(0) as usize);
            self.limit = (memory / MEMORY_PART / HUGE_PAGE).clamp(1, PAGES_MAX);
        }
        self.limit
    }
}

/// Whether a huge page's first part is in memory. One that was never touched would be populated by being cleared.
fn is_populated(page: NonNull<u8>) -> bool {
    let mut state = 0_u8;
    // SAFETY: one page of memory is asked for, whose state is one byte.
    let asked = unsafe { libc::mincore(page.as_ptr().cast(), 1, &mut state) };
    asked == 0 && state & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::region::map;

    fn bytes(start: NonNull<u8>, pages: usize) -> &'static mut [u8] {
        // SAFETY: the tests below map as many pages, and use them until they are unmapped.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), pages * HUGE_PAGE) }
    }

    fn counts(stock: &Stock) -> (usize, usize) {
        let waiting = stock.pages();
        (waiting.prepared.len(), waiting.used.len())
    }

    #[test]
    fn as_many_pages_are_prepared_as_a_table_may_take_next() {
        let stock = Stock::new();
        let first = map(2 * HUGE_PAGE);
        stock.fill(first, 2, 3);
        while stock.prepare() {}
        assert_eq!(counts(&stock), (3, 0));
        let second = map(4 * HUGE_PAGE);
        stock.fill(second, 4, 1);
        assert_eq!(counts(&stock), (0, 0));
        // Prepared or not, pages are zero, and differ.
        bytes(second, 4).iter_mut().enumerate().for_each(|(at, byte)| {
            assert_eq!(*byte, 0);
            *byte = (at / HUGE_PAGE) as u8 + 1;
        });
        assert!((0..4).all(|page| bytes(second, 4)[page * HUGE_PAGE + 77] == page as u8 + 1));
        stock.keep(second, 4);
        stock.keep(first, 2);
        while stock.give_back() {}
        assert_eq!(counts(&stock), (0, 0));
    }

    #[test]
    fn used_pages_come_back_clear() {
        let stock = Stock::new();
        let first = map(3 * HUGE_PAGE);
        bytes(first, 3)[..2 * HUGE_PAGE].fill(7);
        stock.keep(first, 3);
        assert_eq!(counts(&stock), (0, 2), "the page that nobody touched is not kept");
        let second = map(HUGE_PAGE);
        stock.fill(second, 1, 1);
        assert_eq!(counts(&stock), (0, 1));
        assert!(bytes(second, 1).iter().all(|&byte| byte == 0));
        assert!(stock.prepare() && !stock.prepare());
        assert_eq!(counts(&stock), (1, 0));
        stock.keep(second, 1);
        assert!(stock.give_back() && stock.give_back() && !stock.give_back());
    }

    #[test]
    fn pages_beyond_the_limit_go_back_to_the_system() {
        let stock = Stock::new();
        stock.pages().limit = 2;
        let start = map(3 * HUGE_PAGE);
        bytes(start, 3).fill(1);
        stock.keep(start, 3);
        assert_eq!(counts(&stock), (0, 2));
        while stock.give_back() {}
    }
}
