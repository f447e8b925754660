//! Every way to run a query gives the same rows: interpreted, compiled, cut into blocks of any size, spread over
//! workers, changing from one tier to the other halfway; and they are the rows that a model computes one at a time.
//!
//! `PELTON_PROPERTY_CASES` sets how many random queries are tried.

mod choices;
mod columns;
#[path = "../../../../fuzz/corpus.rs"]
mod corpus;
mod expressions;
#[path = "../made/mod.rs"]
mod made;
mod model;
mod queries;
mod runs;
mod tiers;

use pelton_plan::pipeline::Step;
use proptest::prelude::*;

use choices::Noise;
use model::Outcome;
use queries::Query;
use runs::BOUNDS;
use tiers::{Case, check};

fn config() -> ProptestConfig {
    let cases = std::env::var("PELTON_PROPERTY_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(256);
    ProptestConfig { cases, max_shrink_iters: 2_000, ..ProptestConfig::with_source_file("properties") }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_way_to_run_a_query_gives_the_rows_of_the_model(choices in prop::collection::vec(any::<u32>(), 50..500)) {
        check(&choices);
    }
}

#[test]
fn kept_cases_and_their_mutations_agree() {
    corpus::run("kernel", &[], 100, tiers::check_bytes);
}

fn has_flat_map(query: &Query) -> bool {
    query.pipeline().steps.iter().any(|step| matches!(step, Step::FlatMap { .. }))
}

/// The property means something only as long as random queries do more than nothing.
#[test]
fn random_queries_fail_sometimes_and_have_rows_and_groups_often() {
    let (mut failures, mut streams, mut groups, mut joins, mut flat_maps) = (0, 0, 0, 0, 0);
    for seed in 0..300 {
        let mut noise = Noise::new(seed);
        let choices: Vec<u32> = (0..300).map(|_| noise.next() as u32).collect();
        let Case { query, run } = Case::new(&choices);
        match model::outcome(&query, &run.rows(), BOUNDS) {
            Outcome::Failed => failures += 1,
            Outcome::Rows(rows) if !rows.is_empty() && has_flat_map(&query) => flat_maps += 1,
            Outcome::Rows(rows) if rows.len() > 3 => {
                joins += usize::from(!query.tables.is_empty());
                *if query.window().is_some() { &mut groups } else { &mut streams } += 1;
            }
            Outcome::Rows(_) => {}
        }
    }
    let reached = [failures, streams, groups, joins, flat_maps];
    assert!(reached.iter().all(|&count| count >= 10) && failures <= 60, "{reached:?}");
}
