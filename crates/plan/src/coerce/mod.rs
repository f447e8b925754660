//! Types and values as Flink has them, in DataFusion's logical plan.
//!
//! Types of operands are made to agree (`optimize`, `flink_types`, `common_types`, `comparisons`, `decimals`, `literals`, `lengths`), casts and functions of instants go by the clocks of the
//! session's zone (`zone`), the two zeros of floats are one (`zeros`), and expressions are simplified (`simplify`, `memberships`, `fractions`). INTERSECT and EXCEPT become aggregations (`set_operations`), subqueries joins (`subqueries`, `subquery_values`, `correlated`); what joins tables stands above the join (`flat_map_filters`).

pub(crate) mod common_types;

pub(crate) mod comparisons;

pub(crate) mod conditions;

pub(crate) mod correlated;

pub(crate) mod decimals;

pub(crate) mod deferred_casts;

pub(crate) mod flat_map_filters;

pub(crate) mod flink_types;

pub(crate) mod fractions;

pub(crate) mod held_types;

pub(crate) mod instants;

pub(crate) mod lengths;

pub(crate) mod literals;

pub(crate) mod memberships;

pub(crate) mod named_casts;

pub(crate) mod nested;

pub(crate) mod optimize;

pub(crate) mod set_operations;

pub(crate) mod simplify;

pub(crate) mod strictness;

pub(crate) mod subqueries;

pub(crate) mod subquery_values;

pub(crate) mod zeros;

pub(crate) mod zone;
