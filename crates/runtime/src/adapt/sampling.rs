//! When rows are profiled: one in so many where there are many, and now and then where there are few.

use pelton_state::profile::Profile;

use super::Sample;

/// A profile is of so many rows.
pub(super) const PROFILE_ROWS: u64 = 4096;

/// Rows of one block that are profiled.
pub(super) const SAMPLE_ROWS: usize = 512;

/// One row in so many is profiled while nothing is known of the data,
const ROWS_PER_SAMPLED_FIRST: u64 = 64;

/// and when it has changed.
const ROWS_PER_SAMPLED_DENSE: u64 = 128;

/// One row in so many is profiled else.
const ROWS_PER_SAMPLED_SPARSE: u64 = 1024;

/// Where rows come slowly a profile takes so long, and not longer: changes are to be noticed within 200 ms. Each sample takes microseconds in some milliseconds then.
const PROFILE_NANOS: u64 = 32_000_000;

/// But at most one row in so many is profiled.
const ROWS_PER_SAMPLED_MIN: u64 = 16;

/// How rows are profiled.
pub(super) struct Sampling {
    /// Nothing while a worker has it.
    profile: Option<Profile>,
    /// Rows that the pipeline has computed since the profile began,
    rows: u64,
    /// and when that was.
    since_ns: u64,
    is_dense: bool,
    /// Profiles that are complete.
    pub profiles: u64,
    /// Samples so far: each begins elsewhere in its block.
    samples: usize,
}

impl Sampling {
    /// Nothing is known of the data.
    pub fn new() -> Sampling {
        Sampling { profile: Some(Profile::default()), rows: 0, since_ns: 0, is_dense: true, profiles: 0, samples: 0 }
    }

    /// A new profile begins, of rows from now on, more of them where it is dense.
    pub fn restart(&mut self, is_dense: bool, now_ns: u64) {
        (self.is_dense, self.rows, self.since_ns) = (is_dense, 0, now_ns);
        if let Some(profile) = &mut self.profile {
            *profile = Profile::default();
        }
    }

    /// Whether many rows are profiled.
    pub fn is_dense(&self) -> bool {
        self.is_dense
    }

    /// Rows have been computed.
    pub fn ran(&mut self, rows: u64) {
        self.rows += rows;
    }

    /// Where the profile is to be continued in a block, and with it, if it is time to.
    pub fn sample(&mut self, now_ns: u64) -> Option<(Profile, usize)> {
        let is_due = self.profile.as_ref().is_some_and(|profile| self.has_come_to(profile.rows, now_ns));
        let profile = self.profile.take_if(|_| is_due)?;
        self.samples += 1;
        Some((profile, self.samples.wrapping_mul(SAMPLE_ROWS)))
    }

    /// Takes a profile back: whether it is complete.
    pub fn put_back(&mut self, Sample { profile, .. }: Sample) -> bool {
        let is_complete = profile.rows >= PROFILE_ROWS;
        self.profile = Some(profile);
        is_complete
    }

    /// The profile that is complete, or empty where there is nothing to count.
    pub fn take_complete(&mut self) -> Profile {
        self.profiles += 1;
        self.profile.replace(Profile::default()).unwrap_or_default()
    }

    /// Whether so many rows of the present profile should have been profiled by now.
    pub fn has_come_to(&self, profiled: u64, now_ns: u64) -> bool {
        let every = match (self.is_dense, self.profiles) {
            (true, 0) => ROWS_PER_SAMPLED_FIRST,
            (true, _) => ROWS_PER_SAMPLED_DENSE,
            (false, _) => ROWS_PER_SAMPLED_SPARSE,
        };
        let is_time = now_ns.saturating_sub(self.since_ns) >= profiled * PROFILE_NANOS / PROFILE_ROWS;
        self.rows >= profiled * every || is_time && self.rows >= profiled * ROWS_PER_SAMPLED_MIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many rows are profiled of so many, which come in blocks of so many, so long one after the other; and when profiles are complete, in milliseconds.
    fn profiled(blocks: u64, rows: u64, nanos_per_block: u64) -> (u64, Vec<u64>) {
        let mut sampling = Sampling::new();
        sampling.profiles = 1;
        sampling.restart(false, 0);
        let (mut profiled, mut complete) = (0, Vec::new());
        for block in 1..=blocks {
            let now_ns = block * nanos_per_block;
            let sample = sampling.sample(now_ns);
            sampling.ran(rows);
            let Some((mut profile, _)) = sample else { continue };
            let sampled = rows.min(SAMPLE_ROWS as u64);
            (profile.rows, profiled) = (profile.rows + sampled, profiled + sampled);
            sampling.profile = Some(profile);
            if sampling.profile.as_ref().is_some_and(|profile| profile.rows >= PROFILE_ROWS) {
                sampling.take_complete();
                sampling.restart(false, now_ns);
                complete.push(now_ns / 1_000_000);
            }
        }
        (profiled, complete)
    }

    #[test]
    fn one_row_in_many_is_profiled_where_rows_come_fast() {
        let (rows, complete) = profiled(10_000, 65_536, 65_536);
        // The first of a profile's eight samples is taken at once.
        assert!((640_000..=640_000 * 8 / 7).contains(&rows), "{rows} of 655 million");
        assert!(complete.len() >= 140, "{complete:?}");
    }

    #[test]
    fn changes_are_noticed_soon_where_rows_come_slowly() {
        // A million rows a second, a thousand each millisecond, for three seconds: a profile takes as long as sixteen times its rows.
        let (rows, complete) = profiled(3_000, 1_000, 1_000_000);
        assert!((40..=52).contains(&complete.len()), "{complete:?}");
        assert!(complete.windows(2).all(|pair| pair[1] - pair[0] <= 70), "{complete:?}");
        assert!(rows <= 3_000_000 / ROWS_PER_SAMPLED_MIN * 8 / 7 + PROFILE_ROWS, "{rows}");
        // Ten million a second: one takes 32 ms, or an eighth less.
        let (rows, complete) = profiled(3_000, 10_000, 1_000_000);
        assert!(complete.windows(2).all(|pair| (28..=32).contains(&(pair[1] - pair[0]))), "{complete:?}");
        assert!(rows <= 3_000 / 28 * PROFILE_ROWS + PROFILE_ROWS, "{rows}");
    }
}
