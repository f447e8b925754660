//! Which entries of a table are meant.

use std::ops::Range;

/// Some entries of a table, in their order.
#[derive(Debug, Clone, Copy)]
pub enum Chosen<'a> {
    /// Groups of a list that follow each other: their values lie side by side.
    Neighbours {
        /// The first.
        first: usize,
        /// How many.
        count: usize,
    },
    /// These.
    Listed(&'a [u32]),
}

impl<'a> Chosen<'a> {
    /// The first groups of a list.
    pub fn first(count: usize) -> Chosen<'a> {
        Chosen::Neighbours { first: 0, count }
    }

    /// How many.
    pub fn len(self) -> usize {
        match self {
            Chosen::Neighbours { count, .. } => count,
            Chosen::Listed(entries) => entries.len(),
        }
    }

    /// Whether their values lie side by side.
    pub fn are_neighbours(self) -> bool {
        matches!(self, Chosen::Neighbours { .. })
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The entry in a place.
    ///
    /// # Panics
    /// Where there are fewer listed.
    #[inline(always)]
    pub fn get(self, at: usize) -> u32 {
        match self {
            Chosen::Neighbours { first, .. } => (first + at) as u32,
            Chosen::Listed(entries) => entries[at],
        }
    }

    /// All of them.
    pub fn iter(self) -> impl ExactSizeIterator<Item = u32> + Clone + use<'a> {
        (0..self.len()).map(move |at| self.get(at))
    }

    /// Those in some places.
    ///
    /// # Panics
    /// Where there are fewer.
    pub fn part(self, places: Range<usize>) -> Chosen<'a> {
        assert!(places.end <= self.len(), "there are as many");
        match self {
            Chosen::Neighbours { first, .. } => Chosen::Neighbours { first: first + places.start, count: places.len() },
            Chosen::Listed(entries) => Chosen::Listed(&entries[places]),
        }
    }

    /// The same in parts of at most `length`.
    pub fn chunks(self, length: usize) -> impl Iterator<Item = Chosen<'a>> {
        let end = move |start: usize| self.len().min(start.saturating_add(length));
        (0..self.len()).step_by(length.max(1)).map(move |start| self.part(start..end(start)))
    }
}

impl<'a> From<&'a [u32]> for Chosen<'a> {
    fn from(entries: &'a [u32]) -> Chosen<'a> {
        Chosen::Listed(entries)
    }
}

impl<'a> From<&'a Vec<u32>> for Chosen<'a> {
    fn from(entries: &'a Vec<u32>) -> Chosen<'a> {
        Chosen::Listed(entries)
    }
}

impl<'a, const N: usize> From<&'a [u32; N]> for Chosen<'a> {
    fn from(entries: &'a [u32; N]) -> Chosen<'a> {
        Chosen::Listed(entries)
    }
}
