//! Random choices, replayable and shrinkable: a case is the list of the choices that made it.

use std::ops::RangeInclusive;

/// Choices made one after the other; when they run out, each is 0, which every generator takes as its simplest form.
pub struct Choices<'a> {
    rest: &'a [u32],
}

impl<'a> Choices<'a> {
    /// The choices to replay.
    pub fn new(choices: &'a [u32]) -> Choices<'a> {
        Choices { rest: choices }
    }

    fn next(&mut self) -> u32 {
        match self.rest.split_first() {
            Some((&first, rest)) => {
                self.rest = rest;
                first
            }
            None => 0,
        }
    }

    /// A number in the range.
    pub fn number(&mut self, range: RangeInclusive<usize>) -> usize {
        range.start() + self.next() as usize % (range.end() - range.start() + 1)
    }

    /// True once in `times` on average, false where choices have run out.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.number(0..=times - 1) == times - 1
    }

    /// One of the options; the first is the simplest.
    pub fn pick<'o, T>(&mut self, options: &'o [T]) -> &'o T {
        &options[self.number(0..=options.len() - 1)]
    }

    /// A seed for [`Noise`].
    pub fn seed(&mut self) -> u64 {
        u64::from(self.next())
    }
}

/// Cheap reproducible numbers for the data of a case, so that a case with many rows has few choices.
pub struct Noise(u64);

impl Noise {
    /// Numbers that depend on the seed alone.
    pub fn new(seed: u64) -> Noise {
        Noise(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// The next number (splitmix64).
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// The next number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
