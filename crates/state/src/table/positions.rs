//! Where the rows of an update stand among all rows.

/// The positions of the rows of one update, ascending.
#[derive(Debug, Clone, Copy)]
pub enum Positions<'a> {
    /// From this one on, without gaps.
    From(u64),
    /// This one plus each row number of a block.
    Listed(u64, &'a [u32]),
}

impl Positions<'_> {
    /// The position of the row at a place of the update.
    pub fn get(&self, at: usize) -> u64 {
        match self {
            Positions::From(first) => first + at as u64,
            Positions::Listed(first, rows) => first + u64::from(rows[at]),
        }
    }

    /// The positions of some rows, where these are of a whole block.
    ///
    /// # Panics
    /// Where rows were listed already.
    pub fn of_rows<'r>(&self, rows: &'r [u32]) -> Positions<'r> {
        match *self {
            Positions::From(first) => Positions::Listed(first, rows),
            Positions::Listed(..) => panic!("rows are listed once"),
        }
    }

    /// The positions from a place on.
    pub fn skip(&self, places: usize) -> Self {
        match *self {
            Positions::From(first) => Positions::From(first + places as u64),
            Positions::Listed(first, rows) => Positions::Listed(first, &rows[places..]),
        }
    }
}
