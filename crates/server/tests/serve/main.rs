//! `pelton serve` as its clients meet it: drivers of Postgres, psql and psycopg.

mod clients;
mod drivers;
mod processes;
mod program;
