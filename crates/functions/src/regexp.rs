//! Functions of regular expressions: Java's patterns, matched by the library here.
//!
//! A constant pattern is compiled once, when the query is planned. A pattern that is computed for each row and is none gives NULL, or FALSE from REGEXP, as in
//! Flink; one that only Java's library knows ends the query, because its result would differ.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, BooleanBuilder, Int32Builder, StringViewBuilder};
use datafusion_common::{Result, ScalarValue, exec_err};
use datafusion_expr::{Expr, Operator, binary_expr};
use pelton_data::column::Cuts;
use regex::{CaptureLocations, Match, Regex};

use crate::definition::Arguments;
use crate::growth;
use crate::regular::{java_only, translated};
use crate::text::{integer_at, integers, string_at, strings};

/// The regular expression that a function is given; `None` where it is none.
pub(super) fn compiled(function: &str, expression: &str) -> Result<Option<Regex>> {
    if let Some((message, instead)) = java_only(expression) {
        return exec_err!("{}: {message}; {instead}", function.to_uppercase());
    }
    Ok(Regex::new(&translated(expression)).ok())
}

/// Whether DataFusion's operator `~`, which becomes LIKE or a comparison where that is quicker, gives what REGEXP does: LIKE takes a backslash for an escape,
/// and an empty pattern is found everywhere there, and nowhere by REGEXP.
pub(super) fn is_plain(pattern: &str) -> bool {
    // Of .* it makes IS NOT NULL.
    !pattern.is_empty() && pattern != ".*" && !translated(pattern).contains('\\')
}

/// `text ~ pattern`, where the pattern is a constant.
pub(super) fn as_operator(mut arguments: Vec<Expr>) -> Expr {
    let (pattern, text) = (arguments.pop(), arguments.pop());
    let (text, mut pattern) = text.zip(pattern).expect("REGEXP has two arguments");
    if let Expr::Literal(ScalarValue::Utf8View(Some(pattern)) | ScalarValue::Utf8(Some(pattern)), _) = &mut pattern {
        *pattern = translated(pattern);
    }
    binary_expr(text, Operator::RegexMatch, pattern)
}

/// A compiled regular expression and room for what its groups match.
struct Compiled {
    regex: Regex,
    groups: CaptureLocations,
}

impl Compiled {
    fn new(regex: Regex) -> Compiled {
        Compiled { groups: regex.capture_locations(), regex }
    }

    /// Where the group of the first match lies.
    fn find(&mut self, text: &str, group: usize) -> Option<(usize, usize)> {
        if group == 0 {
            return self.regex.find(text).map(|found| (found.start(), found.end()));
        }
        self.regex.captures_read(&mut self.groups, text)?;
        self.groups.get(group)
    }

    /// All matches, as Java has them: an empty one may follow at the end of another.
    fn all<'t>(&self, text: &'t str) -> impl Iterator<Item = Match<'t>> {
        let mut from = Some(0);
        std::iter::from_fn(move || {
            let found = self.regex.find_at(text, from.filter(|from| *from <= text.len())?)?;
            from = match found.is_empty() {
                true => text[found.end()..].chars().next().map(|letter| found.end() + letter.len_utf8()),
                false => Some(found.end()),
            };
            Some(found)
        })
    }
}

/// What a row has.
enum Row<'t, 'c> {
    /// Text or pattern are NULL.
    Null,
    /// The pattern is no regular expression.
    NoPattern,
    /// Both are there.
    Both(&'t str, &'c mut Compiled),
}

/// Visits texts, row by row, with their patterns.
fn for_each(
    function: &str,
    arguments: &Arguments<'_>,
    mut visit: impl FnMut(usize, Row<'_, '_>) -> Result<()>,
) -> Result<()> {
    let texts = arguments.column(0)?;
    let Some(patterns) = arguments.get(1)? else { return exec_err!("{} has no pattern", function.to_uppercase()) };
    let (texts, all_patterns) = (strings(&texts), strings(&patterns.values));
    // A clone shares what was compiled, but not the memory that searches need: workers do not wait for each other.
    let mut known: Option<(Option<&str>, Option<Compiled>)> =
        arguments.regex.cloned().map(|regex| (None, Some(Compiled::new(regex))));
    for row in 0..arguments.rows {
        let (Some(text), Some(pattern)) = (string_at(texts, row), string_at(all_patterns, patterns.place(row))) else {
            visit(row, Row::Null)?;
            continue;
        };
        let compiled = match &mut known {
            Some((of, compiled)) if of.is_none_or(|of| of == pattern) => compiled,
            known => &mut known.insert((Some(pattern), compiled(function, pattern)?.map(Compiled::new))).1,
        };
        visit(row, compiled.as_mut().map_or(Row::NoPattern, |compiled| Row::Both(text, compiled)))?;
    }
    Ok(())
}

/// `REGEXP(text, pattern)`: whether some part of the text matches; an empty pattern matches nothing.
pub(super) fn regexp_like(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let mut found = BooleanBuilder::with_capacity(arguments.rows);
    for_each("regexp", arguments, |_, row| {
        match row {
            Row::Null => found.append_null(),
            Row::NoPattern => found.append_value(false),
            Row::Both(text, compiled) => {
                found.append_value(!compiled.regex.as_str().is_empty() && compiled.regex.is_match(text))
            }
        }
        Ok(())
    })?;
    let found: BooleanArray = found.finish();
    Ok(Arc::new(found))
}

/// `REGEXP_COUNT(text, pattern)`: how many matches there are.
pub(super) fn regexp_count(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    whole_numbers("regexp_count", arguments, |text, compiled| compiled.all(text).count())
}

/// `REGEXP_INSTR(text, pattern)`: the place of the first match, counted from 1; 0 where there is none.
pub(super) fn regexp_instr(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    whole_numbers("regexp_instr", arguments, |text, compiled| {
        compiled.regex.find(text).map_or(0, |found| text[..found.start()].chars().count() + 1)
    })
}

fn whole_numbers(
    function: &str,
    arguments: &Arguments<'_>,
    number: impl Fn(&str, &Compiled) -> usize,
) -> Result<ArrayRef> {
    let mut numbers = Int32Builder::with_capacity(arguments.rows);
    for_each(function, arguments, |_, row| {
        match row {
            Row::Both(text, compiled) => numbers.append_value(number(text, compiled) as i32),
            Row::Null | Row::NoPattern => numbers.append_null(),
        }
        Ok(())
    })?;
    Ok(Arc::new(numbers.finish()))
}

/// `REGEXP_EXTRACT(text, pattern[, group])`: what the group matched, 0 being all of the match; NULL where nothing matched.
pub(super) fn regexp_extract(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let texts = arguments.column(0)?;
    let groups = arguments.get(2)?;
    let all_groups = groups.as_ref().map(|groups| (groups, integers(&groups.values)));
    let mut matches = Cuts::of(strings(&texts));
    for_each("regexp_extract", arguments, |row, found| {
        let group = all_groups.map_or(Some(0), |(groups, values)| integer_at(Some(values), groups.place(row), 0));
        let group = group.map(|group| usize::try_from(group).unwrap_or(usize::MAX));
        let part = match (found, group) {
            (Row::Both(text, compiled), Some(group)) => compiled.find(text, group),
            _ => None,
        };
        match part {
            Some((start, end)) => matches.push(row, start..end),
            None => matches.push_null(),
        }
        Ok(())
    })?;
    Ok(Arc::new(matches.finish()))
}

/// `REGEXP_REPLACE(text, pattern, replacement)`: the replacement is put in as it is, `$1` and backslashes too, as in Flink.
pub(super) fn regexp_replace(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let replacements = arguments.column(2)?;
    let replacements = strings(&replacements);
    let mut replaced = StringViewBuilder::with_capacity(arguments.rows);
    let (mut made, mut bytes) = (String::new(), 0_usize);
    for_each("regexp_replace", arguments, |row, found| {
        let Row::Both(text, compiled) = found else {
            replaced.append_null();
            return Ok(());
        };
        let Some(replacement) = string_at(replacements, row) else {
            replaced.append_null();
            return Ok(());
        };
        let count = || compiled.all(text).count();
        bytes = bytes.saturating_add(growth::replaced_bytes(text, replacement, 0, count));
        growth::check("regexp_replace", bytes)?;
        made.clear();
        let mut behind = 0;
        for found in compiled.all(text) {
            made.push_str(&text[behind..found.start()]);
            made.push_str(replacement);
            behind = found.end();
        }
        made.push_str(&text[behind..]);
        replaced.append_value(&made);
        Ok(())
    })?;
    Ok(Arc::new(replaced.finish()))
}
