//! How names are written, and what a misspelt one was meant to be.

/// A name in backticks, as SQL reads any name.
pub fn identifier(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// Whether the name of a table is that of a file which stands in its place: it quotes the path.
pub fn is_file(table: &str) -> bool {
    table.contains('\'')
}

/// The candidate that `name` was most likely meant to be: one that differs in case only, or else the closest by
/// edits, when they are at most a third of the name's letters. Letters are inserted, deleted, replaced, or swapped with their neighbour.
pub fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = name.to_lowercase();
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        if candidate.eq_ignore_ascii_case(name) {
            return Some(candidate);
        }
        let edits = strsim::osa_distance(&wanted, &candidate.to_lowercase());
        let close_enough = 3 * edits <= name.chars().count();
        if close_enough && best.is_none_or(|(least, _)| edits < least) {
            best = Some((edits, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closest_prefers_case_then_edits() {
        assert_eq!(closest("bid", ["Bids", "Bid", "bidder"]), Some("Bid"));
        assert_eq!(closest("pirce", ["prize", "price"]), Some("price"));
        assert_eq!(closest("b", ["a"]), None);
        assert_eq!(closest("auctoin_id", ["auction_id", "bidder_id"]), Some("auction_id"));
        assert_eq!(closest("conector", ["connector", "path"]), Some("connector"));
        assert_eq!(closest("zzz", ["connector"]), None);
    }
}
