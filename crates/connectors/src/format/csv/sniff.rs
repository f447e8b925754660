//! The dialect of a file whose table does not say it: the delimiter that gives most rows the same number of fields, and whether the first row names the columns.

use std::collections::BTreeSet;

use super::split::CsvSplitter;
use super::{Dialect, IGNORE_FIRST_LINE};
use crate::format::split::Split;

/// Rows that are looked at.
const ROWS: usize = 1_000;

/// Delimiters, the likeliest first.
const DELIMITERS: [&str; 4] = [",", "\t", ";", "|"];

/// What has been found out of a file.
pub(crate) struct Sniffed {
    /// How its rows are told apart.
    pub(crate) dialect: Dialect,
    /// The fields of its first row.
    pub(crate) first: Vec<String>,
    /// Where the next row begins.
    pub(crate) second_row: usize,
}

/// The dialect of a file that begins with `bytes`: `dialect`, but for what its table does not tell. `None` where there are no rows.
pub(crate) fn dialect(dialect: &Dialect, is_told: &dyn Fn(&str) -> bool, bytes: &[u8]) -> Option<Sniffed> {
    let mut best: Option<(f64, Sniffed)> = None;
    for candidate in candidates(dialect, is_told, bytes) {
        let Some((first, second_row)) = CsvSplitter::first_row(&candidate, bytes) else { continue };
        let score = score(&candidate, &first, bytes);
        let is_better = match &best {
            None => true,
            Some((least, sniffed)) => score > *least || score == *least && first.len() > sniffed.first.len(),
        };
        if is_better {
            best = Some((score, Sniffed { dialect: candidate, first, second_row }));
        }
    }
    best.map(|(_, sniffed)| sniffed)
}

fn candidates(dialect: &Dialect, is_told: &dyn Fn(&str) -> bool, bytes: &[u8]) -> Vec<Dialect> {
    let is_delimited = is_told("csv.field-delimiter") || dialect.delimiter_run || dialect.delimiter != b",";
    let delimiters: Vec<Vec<u8>> = match is_delimited {
        true => vec![dialect.delimiter.clone()],
        false => DELIMITERS.map(|delimiter| delimiter.as_bytes().to_vec()).to_vec(),
    };
    let tells_comments = is_told("csv.allow-comments") || is_told("csv.comment-character");
    // Behind the first row a line that begins with `#` is more likely a row, which must not be lost.
    let begins_with_comment = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start().starts_with(b"#");
    let comments = match (tells_comments, begins_with_comment) {
        (true, _) => vec![dialect.comment],
        (false, true) => vec![None, Some(b'#')],
        (false, false) => vec![None],
    };
    let trims = if is_told("csv.trim") { vec![dialect.trim] } else { vec![false, true] };
    let mut candidates = Vec::new();
    for delimiter in delimiters {
        for &comment in &comments {
            for &trim in &trims {
                candidates.push(Dialect { delimiter: delimiter.clone(), comment, trim, ..dialect.clone() });
            }
        }
    }
    let are_different = |candidate: &Dialect| {
        let characters = [candidate.quote, candidate.escape, candidate.comment];
        characters.iter().flatten().all(|&character| candidate.delimiter != [character])
    };
    candidates.retain(are_different);
    candidates
}

/// The share of rows with as many fields as the first one has. A single field is half as good: any text has one.
fn score(dialect: &Dialect, first: &[String], bytes: &[u8]) -> f64 {
    let all: Vec<usize> = (0..first.len()).collect();
    let splitter = CsvSplitter::new(dialect.clone(), vec![String::new(); first.len()], &all);
    let mut split = Split::new(first.len());
    splitter.split(bytes, 0, ROWS, &mut split);
    let (right, wrong) = (split.rows.len() as f64, split.failures.len() as f64);
    right / (right + wrong).max(1.0) * if first.len() > 1 { 1.0 } else { 0.5 }
}

/// The options that tell the dialect and are not those of `before`.
pub(crate) fn options(before: &Dialect, after: &Dialect) -> Vec<(&'static str, String)> {
    let mut options = Vec::new();
    if before.delimiter != after.delimiter {
        let delimiter = String::from_utf8_lossy(&after.delimiter).replace('\t', "\\t");
        options.push(("csv.field-delimiter", delimiter));
    }
    if before.comment != after.comment {
        options.push(("csv.allow-comments", "true".to_string()));
    }
    if before.trim != after.trim {
        options.push(("csv.trim", "true".to_string()));
    }
    if before.ignores_first != after.ignores_first {
        options.push((IGNORE_FIRST_LINE, "true".to_string()));
    }
    options
}

/// The names of the columns, if the first row has them: each once, and none empty.
pub(crate) fn column_names(first: &[String]) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let mut names = Vec::new();
    for (index, name) in first.iter().enumerate() {
        let base = if name.is_empty() { format!("column{index}") } else { name.clone() };
        let mut name = base.clone();
        let mut number = 1;
        while !taken.insert(name.clone()) {
            name = format!("{base}_{number}");
            number += 1;
        }
        names.push(name);
    }
    names
}
