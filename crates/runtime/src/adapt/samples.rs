//! What rows cost, sample by sample. Where a sample was disturbed, by whatever else the machine did, it costs many times as much: medians do not notice.

/// Tasks are put together until they have so many rows.
const SAMPLE_ROWS_MIN: u64 = 8 * 1024;

/// Samples of the same code.
#[derive(Debug, Default)]
pub(super) struct Samples {
    /// Of the sample that is being collected.
    rows: u64,
    nanos: u64,
    nanos_per_row: Vec<f64>,
}

impl Samples {
    /// Takes in what a task has cost.
    pub fn add(&mut self, rows: u64, nanos: u64) {
        self.rows += rows;
        self.nanos += nanos;
        if self.rows >= SAMPLE_ROWS_MIN {
            self.nanos_per_row.push(self.nanos as f64 / self.rows as f64);
            (self.rows, self.nanos) = (0, 0);
        }
    }

    /// Nanoseconds a row of each sample, in their order.
    pub fn nanos_per_row(&self) -> &[f64] {
        &self.nanos_per_row
    }

    /// The median of all, which are forgotten; their memory is kept for the next ones.
    pub fn take_median(&mut self) -> f64 {
        let median = median(&mut self.nanos_per_row);
        self.nanos_per_row.clear();
        (self.rows, self.nanos) = (0, 0);
        median
    }
}

/// The value in the middle; 0 of none.
pub(super) fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_tasks_are_put_together() {
        let mut samples = Samples::default();
        (0..8192 + 100).for_each(|_| samples.add(1, 3));
        assert_eq!(samples.nanos_per_row(), [3.0]);
        // What was begun is forgotten with the others.
        assert_eq!(samples.take_median(), 3.0);
        (0..8191).for_each(|_| samples.add(1, 3));
        assert!(samples.nanos_per_row().is_empty());
    }

    #[test]
    fn what_disturbs_less_than_half_of_the_samples_does_not_move_the_median() {
        let mut samples = Samples::default();
        [2, 500, 1, 700, 3].into_iter().for_each(|nanos_per_row| samples.add(8192, 8192 * nanos_per_row));
        assert_eq!((samples.take_median(), samples.take_median()), (3.0, 0.0));
    }
}
