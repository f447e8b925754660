//! Random streams, queries and orders of events against definitions, the interpreter, or each other. One program: its tests share the cores.
//!
//! `PELTON_PROPERTY_CASES` sets how many random streams are tried, `PELTON_SIMULATION_SEEDS` and `PELTON_ADAPT_SEEDS` how many seeds.

mod adapt;

mod count;

mod crashes;

mod cuts;

mod emission;

mod live;

mod over;

mod policies;

mod ranking;

mod shared;

mod simulation;

mod streams;

mod time_join;

mod window_join;

mod windows;
