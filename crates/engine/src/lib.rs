//! The engine: sessions, queries, the catalogue, and the builder.
