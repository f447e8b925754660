//! The bounded tables that a program's pipelines join with.

use std::sync::Arc;

use pelton_data::BLOCK_ROWS_MAX;

use super::bucket::{Bucket, Shape};

/// The loaded tables of a program, in its order: inputs of each call of its kernels. Other tables of the same columns and keys can be given to the same kernels.
#[derive(Debug)]
pub struct Lookups {
    buckets: Vec<Arc<Bucket>>,
    /// Validity bits for as many rows as any column has that a kernel reads.
    valid: Vec<u8>,
}

impl Lookups {
    /// These tables.
    pub fn new(buckets: Vec<Arc<Bucket>>) -> Lookups {
        let rows = buckets.iter().map(|bucket| bucket.columns().num_rows()).max();
        let valid = vec![0xff; rows.unwrap_or(0).max(BLOCK_ROWS_MAX).div_ceil(8)];
        Lookups { buckets, valid }
    }

    /// The bucket of a table.
    ///
    /// # Panics
    /// Where there is no such table.
    pub fn bucket(&self, table: usize) -> &Arc<Bucket> {
        &self.buckets[table]
    }

    /// How each table finds rows.
    pub fn shapes(&self) -> Vec<Shape> {
        self.buckets.iter().map(|bucket| bucket.shape()).collect()
    }

    /// A set validity bit for each row that a block, or one of the tables, can have.
    pub fn valid(&self) -> &[u8] {
        &self.valid
    }
}

impl Default for Lookups {
    /// No tables.
    fn default() -> Lookups {
        Lookups::new(Vec::new())
    }
}
