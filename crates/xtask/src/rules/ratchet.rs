//! What is too long today may not grow, what has shrunk may not grow back, and nothing new may be too long.

use super::length::{Lengths, unit};

const HEADER: &str = "\
# What is longer than the house rules allow, in lines (documents in bytes). It may not grow; `cargo xtask rules --record` writes down what shrank.
# Nothing is added here: shorten what is new.
";

/// The list of known offenders.
pub struct Ratchet {
    known: Lengths,
}

impl Ratchet {
    /// Reads the list: one offender a line, its length last.
    ///
    /// # Errors
    /// Where a line has no length.
    pub fn parse(text: &str) -> Result<Ratchet, String> {
        let mut known = Lengths::new();
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
            let entry = line.rsplit_once(' ').and_then(|(name, lines)| Some((name, lines.parse().ok()?)));
            let (name, lines) = entry.ok_or_else(|| format!("ratchet: '{line}' does not end in a number"))?;
            known.insert(name.to_string(), lines);
        }
        Ok(Ratchet { known })
    }

    /// What differs from the list.
    pub fn compare(&self, measured: &Lengths) -> Vec<String> {
        let mut violations = Vec::new();
        for (name, length) in measured {
            let unit = unit(name);
            match self.known.get(name) {
                None => violations.push(format!("{name} has {length} {unit}: too long")),
                Some(known) if length > known => {
                    violations.push(format!("{name} has {length} {unit}, {known} before: it may not grow"));
                }
                Some(_) => {}
            }
        }
        for (name, known) in &self.known {
            if measured.get(name).is_none_or(|length| length < known) {
                let unit = unit(name);
                violations.push(format!("{name} is shorter than {known} {unit} now: run `cargo xtask rules --record`"));
            }
        }
        violations
    }

    /// The list with what has shrunk or gone taken off, and nothing added.
    pub fn tightened(&self, measured: &Lengths) -> Ratchet {
        let known = self.known.iter().filter_map(|(name, known)| {
            let lines = measured.get(name)?;
            Some((name.clone(), *lines.min(known)))
        });
        Ratchet { known: known.collect() }
    }
}

impl std::fmt::Display for Ratchet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(HEADER)?;
        self.known.iter().try_for_each(|(name, lines)| writeln!(f, "{name} {lines}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(entries: &[(&str, usize)]) -> Lengths {
        entries.iter().map(|(name, lines)| (name.to_string(), *lines)).collect()
    }

    #[test]
    fn lengths_only_fall() {
        let ratchet = Ratchet::parse("# why\nfile a.rs 700\nfunction b.rs f 90\n").unwrap();
        assert!(ratchet.compare(&lengths(&[("file a.rs", 700), ("function b.rs f", 90)])).is_empty());
        let grown = ratchet.compare(&lengths(&[("file a.rs", 701), ("function b.rs f", 90), ("file c.rs", 601)]));
        assert_eq!(grown.len(), 2);
        let shrunk = lengths(&[("file a.rs", 650)]);
        assert_eq!(ratchet.compare(&shrunk).len(), 2);
        let tightened = ratchet.tightened(&shrunk);
        assert!(tightened.compare(&shrunk).is_empty());
        assert_eq!(tightened.to_string(), format!("{HEADER}file a.rs 650\n"));
        assert!(!ratchet.tightened(&lengths(&[("file a.rs", 800)])).to_string().contains("800"));
    }

    #[test]
    fn a_line_without_a_length_is_an_error() {
        assert!(Ratchet::parse("file a.rs").is_err());
    }
}
