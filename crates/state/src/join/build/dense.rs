//! Builds dense indexes: each unit owns a range of keys, and looks at all rows.

use super::{Unit, parts, ranges};
use crate::join::UNMATCHED;
use crate::join::dense::{CACHED_BYTES, DenseIndex, DenseRows};
use crate::join::keys::KeyColumns;
use crate::table::region::use_huge_pages;
use crate::vector::prefetch;

/// A dense index of this length is worth it for any number of rows.
const LENGTH_FREE: u64 = 1 << 16;

/// A longer one may have this many elements for each row.
const LENGTH_PER_ROW: u64 = 8;

/// A dense index that is being built.
pub(super) struct DenseBuild {
    base: i64,
    /// Keys from the smallest to the largest.
    length: usize,
    /// Whether they are the keys of the rows, in this order: no element is needed.
    is_in_order: bool,
    stage: Stage,
    /// One for each key, and one more.
    elements: Vec<u32>,
    /// The rows of each key, one key after the other.
    list: Vec<u32>,
}

enum Stage {
    /// Each key gets its row. Of each unit: whether a key has several.
    Rows(Vec<bool>),
    /// Each key gets the number of its rows, one element further on.
    Counts,
    /// Where a key's rows begin moves to where they end, as they are listed.
    List {
        rows: usize,
    },
    Built,
}

impl DenseBuild {
    /// An index of so many rows, where their smallest and largest key lie close enough together. `is_in_order`: each row's key is one more than that of the row before.
    pub fn new((smallest, largest): (i64, i64), rows: usize, is_in_order: bool) -> Option<DenseBuild> {
        let distance = largest.wrapping_sub(smallest) as u64;
        if distance >= LENGTH_FREE.max(rows as u64 * LENGTH_PER_ROW) {
            return None;
        }
        let stage = if is_in_order { Stage::Built } else { Stage::Rows(Vec::new()) };
        let (length, elements, list) = (distance as usize + 1, Vec::new(), Vec::new());
        Some(DenseBuild { base: smallest, length, is_in_order, stage, elements, list })
    }

    pub fn bytes(&self) -> usize {
        let (elements, listed) = match self.stage {
            Stage::Rows(_) | Stage::Counts => (self.length + 1, 0),
            Stage::List { rows } => (self.length + 1, rows),
            Stage::Built => (self.elements.len(), self.list.len()),
        };
        (elements + listed) * size_of::<u32>()
    }

    pub fn units<'a>(&'a mut self, keys: &'a KeyColumns, workers: usize) -> Vec<Unit<'a>> {
        let ranges = ranges(self.length, workers);
        // The first key of each.
        let firsts: Vec<i64> = ranges.iter().map(|range| self.base.wrapping_add(range.start as i64)).collect();
        let lengths = ranges.iter().map(|range| range.len());
        match &mut self.stage {
            Stage::Rows(have_several) => {
                self.elements = vec![0; self.length + 1];
                use_huge_pages(&mut self.elements);
                have_several.resize(ranges.len(), false);
                let units = firsts.into_iter().zip(parts(&mut self.elements, lengths)).zip(have_several);
                let units = units.map(|((first, part), several)| {
                    Box::new(move || *several = fill_rows(keys, first, part)) as Unit<'_>
                });
                units.collect()
            }
            Stage::Counts => {
                let units = firsts.into_iter().zip(parts(&mut self.elements[1..], lengths));
                units.map(|(first, part)| Box::new(move || count_rows(keys, first, part)) as Unit<'_>).collect()
            }
            Stage::List { rows } => {
                self.list = vec![0; *rows];
                let ends = &mut self.elements[1..];
                let starts = ranges.iter().map(|range| ends[range.start] as usize).chain([*rows]).collect::<Vec<_>>();
                let lists = parts(&mut self.list, starts.windows(2).map(|pair| pair[1] - pair[0]));
                let units = firsts.into_iter().zip(parts(ends, lengths)).zip(lists);
                let units =
                    units.map(|((first, part), list)| Box::new(move || list_rows(keys, first, part, list)) as Unit<'_>);
                units.collect()
            }
            Stage::Built => Vec::new(),
        }
    }

    pub fn is_built(&self) -> bool {
        matches!(self.stage, Stage::Built)
    }

    pub fn advance(&mut self) {
        self.stage = match &self.stage {
            Stage::Rows(have_several) if have_several.contains(&true) => {
                self.elements[0] = 0;
                Stage::Counts
            }
            Stage::Counts => {
                let mut rows = 0;
                for element in &mut self.elements[1..] {
                    let count = std::mem::replace(element, rows);
                    rows += count;
                }
                Stage::List { rows: rows as usize }
            }
            Stage::Rows(_) => {
                self.elements.truncate(self.length);
                Stage::Built
            }
            Stage::List { .. } | Stage::Built => Stage::Built,
        };
    }

    /// The index, and the list of rows, which is empty where keys are unique.
    pub fn finish(self) -> (DenseIndex, Vec<u32>) {
        let DenseBuild { base, length, is_in_order, elements, list, .. } = self;
        let rows = match elements.len() {
            _ if is_in_order => DenseRows::InOrder(length),
            elements_count if elements_count == length => DenseRows::Unique(elements),
            _ => DenseRows::Several(elements),
        };
        (DenseIndex { base, rows }, list)
    }
}

/// Visits the elements of the keys of all rows, as far as they are among those from the key `first` on. Elements that do not stay in the cache are prefetched.
#[inline(always)]
fn for_each_element(keys: &KeyColumns, first: i64, part: &mut [u32], mut visit: impl FnMut(u32, &mut u32)) {
    let (start, length) = (part.as_ptr(), part.len());
    let place = |key: i64| key.wrapping_sub(first) as u64 as usize;
    let visit = |row: u32, key: i64| {
        if let Some(element) = part.get_mut(place(key)) {
            visit(row, element);
        }
    };
    if length * size_of::<u32>() <= CACHED_BYTES {
        return keys.for_each_integer(0..keys.rows(), visit);
    }
    let ask = |key: i64| {
        if place(key) < length {
            prefetch(start.wrapping_add(place(key)).cast());
        }
    };
    keys.for_each_integer_prefetching(0..keys.rows(), ask, visit);
}

/// Gives each key its row. Whether one has several.
fn fill_rows(keys: &KeyColumns, first: i64, part: &mut [u32]) -> bool {
    part.fill(UNMATCHED);
    let mut have_several = false;
    for_each_element(keys, first, part, |row, element| {
        // Where a key has several rows, all are counted anew.
        if !have_several {
            have_several = *element != UNMATCHED;
            *element = row;
        }
    });
    have_several
}

fn count_rows(keys: &KeyColumns, first: i64, part: &mut [u32]) {
    part.fill(0);
    for_each_element(keys, first, part, |_, element| *element += 1);
}

/// Lists the rows of each key from where they begin, which is where those of the part's first key do in `list`.
fn list_rows(keys: &KeyColumns, first: i64, part: &mut [u32], list: &mut [u32]) {
    let before = part.first().copied().unwrap_or(0);
    for_each_element(keys, first, part, |row, next| {
        list[(*next - before) as usize] = row;
        *next += 1;
    });
}
