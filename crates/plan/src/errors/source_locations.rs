//! Where constructs stand in the text of a query: errors that are found later point at them.

use super::Place;

/// Where constructs of a query stand.
#[derive(Debug, Clone, Default)]
pub(crate) struct SourceLocations {
    /// The query.
    pub query: Option<Place>,
    /// Its first grouping that is not by a window, or else its first.
    pub grouping: Option<Place>,
    /// What that grouping is written as.
    pub grouping_construct: &'static str,
    /// Its ORDER BY.
    pub order: Option<Place>,
    /// Its LIMIT or OFFSET.
    pub limit: Option<Place>,
    /// The first LIMIT or OFFSET of a subquery.
    pub inner_limit: Option<Place>,
    /// Casts: the type as written, in capitals, and place.
    pub casts: Vec<(String, Place)>,
    /// Its first join.
    pub join: Option<Place>,
    /// Its first subquery in an expression.
    pub subquery: Option<Place>,
    /// Its first window function.
    pub window: Option<Place>,
    /// Calls of functions: name in lower case, and place, where the call is written as text.
    pub functions: Vec<(String, Option<Place>)>,
    /// Tables and views: name, and place.
    pub tables: Vec<(String, Option<Place>)>,
    /// Calls of functions OVER rows.
    pub overs: Vec<OverCall>,
    /// Columns that OVER puts rows in order by: name as written, and place.
    pub over_orders: Vec<(String, Option<Place>)>,
    /// Whether the query was put together by calls: there is no text then, and advice is to call something.
    pub is_built: bool,
    pub is_grouping_windowed: bool,
}

/// A call of a function OVER rows.
#[derive(Debug, Clone)]
pub(crate) struct OverCall {
    /// The function's name in lower case.
    pub name: String,
    pub place: Option<Place>,
    /// What is written behind OVER.
    pub window: String,
    /// The SELECT that it stands in.
    pub select: Option<Place>,
}

impl SourceLocations {
    /// Those of a query that was put together by calls.
    pub fn of_calls() -> SourceLocations {
        SourceLocations { grouping_construct: "an aggregation", is_built: true, ..SourceLocations::default() }
    }

    /// Where the function of this name is called first.
    pub fn place_of(&self, function: &str) -> Option<Place> {
        self.functions.iter().find(|(name, _)| name == function).and_then(|(_, place)| *place)
    }

    /// How to group by windows.
    pub fn windowed_grouping(&self) -> &'static str {
        if self.is_built {
            return "cut the rows into windows first: window(TimeWindow::tumble(time_column, size))";
        }
        "read TABLE(TUMBLE(TABLE t, DESCRIPTOR(time_column), INTERVAL '10' SECOND)) \
         and GROUP BY window_start, window_end"
    }

    /// Where a function is called OVER rows.
    pub fn over(&self, function: &str) -> Option<Place> {
        self.overs.iter().find(|call| call.name == function).and_then(|call| call.place)
    }

    /// Where the first function OVER rows stands.
    pub fn first_over(&self) -> Option<Place> {
        self.overs.first().and_then(|call| call.place)
    }

    /// Where a function is called OVER rows that come after the row.
    pub fn following_over(&self) -> Option<Place> {
        let is_after = |call: &&OverCall| call.name == "lead" || call.window.to_uppercase().contains("FOLLOWING");
        self.overs.iter().find(is_after).and_then(|call| call.place)
    }

    /// Where a function is called OVER other rows than the first of the same SELECT.
    pub fn other_over(&self) -> Option<Place> {
        let differs = |call: &&OverCall| {
            let first = self.overs.iter().find(|first| first.select == call.select);
            first.is_some_and(|first| first.window != call.window)
        };
        self.overs.iter().find(differs).and_then(|call| call.place)
    }

    /// Where OVER puts rows in order by a column, or first by any.
    pub fn over_order(&self, column: Option<&str>) -> Option<Place> {
        let named = self.over_orders.iter().find(|(name, _)| column.is_none_or(|column| column == name));
        named.or(self.over_orders.first()).and_then(|(_, place)| *place)
    }

    /// Adds the places of another statement that becomes part of the same program.
    pub fn add(&mut self, other: SourceLocations) {
        self.query = self.query.or(other.query);
        self.functions.extend(other.functions);
        self.casts.extend(other.casts);
        self.tables.extend(other.tables);
        self.overs.extend(other.overs);
        self.note_grouping(other.grouping_construct, other.grouping, other.is_grouping_windowed);
    }

    /// Notes what groups rows, unless another has been noted that says more.
    pub(crate) fn note_grouping(&mut self, construct: &'static str, place: Option<Place>, is_windowed: bool) {
        if self.grouping.is_none() || (self.is_grouping_windowed && !is_windowed) {
            self.grouping = place;
            self.grouping_construct = construct;
            self.is_grouping_windowed = is_windowed;
        }
    }

    /// Where the only call of any of these functions stands.
    pub fn only(&self, functions: &[&str]) -> Option<Place> {
        let mut calls = self.functions.iter().filter(|(name, _)| functions.contains(&name.as_str()));
        let (_, place) = calls.next()?;
        if calls.next().is_none() { *place } else { None }
    }

    /// Where a table or view of this name stands first.
    pub fn table(&self, name: &str) -> Option<Place> {
        self.tables.iter().find(|(known, _)| known == name).and_then(|(_, place)| *place)
    }

    /// Where rows are grouped first that are not cut into windows.
    pub fn grouping_without_window(&self) -> Option<Place> {
        self.grouping.filter(|_| !self.is_grouping_windowed)
    }
}
