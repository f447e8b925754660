//! Names: from a syntax tree to DataFusion's logical plan over the catalogue.
//!
//! A tree is walked once for what cannot be planned (`survey`, `constructs`, constants among it: `constants`) and for what Flink would not understand (`foreign`). Then DataFusion resolves
//! its names (`context`, `spelling`, `aggregate_functions`, `udaf`, `over_functions`) and plans it. Window functions and table functions are nodes of their own in the plan (`window`, `time_attribute`; `flat_map`); joins with the nearest row in time are calls in the conditions of others (`time_joins`).
//! Views and common table expressions are planned by themselves (`references`, `with_queries`), and columns of one name get others (`names`).

pub(crate) mod aggregate_functions;

pub(crate) mod chance;

pub(crate) mod constants;

pub(crate) mod constructs;

pub(crate) mod context;

pub(crate) mod flat_map;

pub(crate) mod foreign;

pub(crate) mod foreign_types;

pub(crate) mod names;

pub(crate) mod over_frame;

pub(crate) mod over_functions;

pub(crate) mod udaf;

pub(crate) mod using;

pub(crate) mod references;

pub(crate) mod row_membership;

pub(crate) mod spelling;

pub(crate) mod survey;

pub(crate) mod syntax_parts;

pub(crate) mod table_scan;

pub(crate) mod time_attribute;

pub(crate) mod time_joins;

pub(crate) mod window;

pub(crate) mod window_columns;

pub(crate) mod with_queries;
