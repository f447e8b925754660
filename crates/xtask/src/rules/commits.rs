//! Commit subjects: short, and in the imperative as far as a program can tell.

use std::path::Path;
use std::process::Command;

/// Subjects up to this commit are older than the rule.
const BASE: Base = Base { commit: "9c297c5cdb0bd095244c1d83ddc861c1077a0591", seconds: 1_795_943_235 };

const SUBJECT_CHARACTERS_MAX: usize = 72;

/// Words that end like a past tense, a participle or a third person, but are verbs in the imperative.
const IMPERATIVES: [&str; 27] = [
    "alias", "bias", "bleed", "breed", "bring", "canvas", "cling", "embed", "exceed", "feed", "fling", "focus", "heed",
    "need", "ping", "proceed", "ring", "seed", "shed", "sing", "speed", "spring", "string", "succeed", "swing", "wed",
    "weed",
];

/// First words that are no verb, or a verb in the past.
const OTHERS: [&str; 41] = [
    "a", "all", "an", "built", "did", "each", "every", "for", "gave", "got", "how", "if", "in", "it", "its", "kept",
    "made", "no", "nothing", "of", "on", "only", "ran", "said", "some", "that", "the", "these", "this", "took", "was",
    "went", "were", "what", "when", "where", "which", "who", "whose", "why", "wrote",
];

/// The last commit that the rule does not look at.
struct Base<'a> {
    commit: &'a str,
    /// When it was committed, in seconds since 1970: in a shallow clone only times tell what is older.
    seconds: i64,
}

/// Checks the subjects of the commits since the base.
///
/// # Errors
/// Where git does not answer.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let violation = |(commit, subject): (String, String)| {
        let problem = problem(&subject)?;
        Some(format!("commit {commit}: \"{subject}\" {problem}"))
    };
    Ok(subjects(root, &BASE)?.into_iter().filter_map(violation).collect())
}

/// Short names and subjects of the commits since the base. A clone without it has none, unless it is shallow.
fn subjects(root: &Path, base: &Base<'_>) -> Result<Vec<(String, String)>, String> {
    let range = format!("{}..HEAD", base.commit);
    let is_ancestor = succeeds(root, &["merge-base", "--is-ancestor", base.commit, "HEAD"]);
    let is_shallow = git(root, &["rev-parse", "--is-shallow-repository"])?.trim() == "true";
    let commits = match (is_ancestor, is_shallow) {
        (true, _) => range.as_str(),
        (false, true) => "HEAD",
        (false, false) => return Ok(Vec::new()),
    };
    let listed = git(root, &["log", "--no-merges", "--format=%ct %h %s", commits])?;
    let parsed = listed.lines().filter_map(|line| {
        let (seconds, rest) = line.split_once(' ')?;
        let (commit, subject) = rest.split_once(' ')?;
        let is_newer = is_ancestor || seconds.parse::<i64>().ok()? > base.seconds;
        is_newer.then(|| (commit.to_string(), subject.to_string()))
    });
    Ok(parsed.collect())
}

/// What is wrong with a subject.
fn problem(subject: &str) -> Option<String> {
    let characters = subject.chars().count();
    if characters > SUBJECT_CHARACTERS_MAX {
        return Some(format!("has {characters} characters: at most {SUBJECT_CHARACTERS_MAX}"));
    }
    if subject.ends_with('.') {
        return Some("ends in a period".to_string());
    }
    if !subject.starts_with(char::is_uppercase) {
        return Some("does not begin with a capital letter".to_string());
    }
    let first = subject.split(|c: char| !c.is_alphanumeric()).next().unwrap_or("").to_lowercase();
    let is_inflected =
        ["ed", "ing"].iter().any(|end| first.ends_with(end)) || (first.ends_with('s') && !first.ends_with("ss"));
    let is_other = OTHERS.contains(&first.as_str()) || (is_inflected && !IMPERATIVES.contains(&first.as_str()));
    is_other.then(|| "does not begin with a verb in the imperative, as in \"Add a rule\"".to_string())
}

fn succeeds(root: &Path, arguments: &[&str]) -> bool {
    Command::new("git").args(arguments).current_dir(root).output().is_ok_and(|output| output.status.success())
}

fn git(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git").args(arguments).current_dir(root).output();
    let output = output.map_err(|error| format!("git {}: {error}", arguments.join(" ")))?;
    if !output.status.success() {
        return Err(format!("git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_short_and_imperative() {
        for good in
            ["Add a rule", "Bring back x", "Process rows once", "Pass b", "Revert \"Add a rule\"", "Re-add x, y"]
        {
            assert_eq!(problem(good), None, "{good}");
        }
        assert_eq!(problem(&format!("Add {}", "x".repeat(68))), None);
        for bad in
            ["Added a rule", "Adds a rule", "Adding a rule", "add a rule", "Add a rule.", "The rule", "Rows pass", ""]
        {
            assert!(problem(bad).is_some(), "{bad}");
        }
        assert!(problem(&format!("Add {}", "é".repeat(69))).is_some_and(|problem| problem.contains("73 characters")));
    }

    /// A repository of one commit a minute with these subjects, and its commits' names.
    fn repository(name: &str, subjects: &[&str]) -> (std::path::PathBuf, Vec<String>) {
        let root = std::env::temp_dir().join(format!("pelton-xtask-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        git(&root, &["init", "--quiet"]).unwrap();
        let mut commits = Vec::new();
        for (minute, subject) in subjects.iter().enumerate() {
            let made = Command::new("git")
                .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false", "commit", "--quiet"])
                .args(["--allow-empty", "-m", subject])
                .env("GIT_COMMITTER_DATE", format!("{} +0000", 1_000_000_000 + 60 * minute))
                .current_dir(&root)
                .status();
            assert!(made.unwrap().success());
            commits.push(git(&root, &["rev-parse", "HEAD"]).unwrap().trim().to_string());
        }
        (root, commits)
    }

    fn subjects_since(root: &Path, base: &Base<'_>) -> Vec<String> {
        subjects(root, base).unwrap().into_iter().map(|(_, subject)| subject).collect()
    }

    #[test]
    fn only_commits_since_the_base_are_looked_at() {
        let (root, commits) = repository("whole", &["first", "base", "Add a", "Add b"]);
        let base = Base { commit: &commits[1], seconds: 1_000_000_060 };
        assert_eq!(subjects_since(&root, &base), ["Add b", "Add a"]);
        // Another history may say what it likes.
        let elsewhere = Base { commit: "0123456789012345678901234567890123456789", ..base };
        assert_eq!(subjects_since(&root, &elsewhere), [""; 0]);
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_shallow_clone_is_checked_by_time() {
        let (root, commits) = repository("origin", &["first", "base", "Add a", "Add b"]);
        let base = Base { commit: &commits[1], seconds: 1_000_000_060 };
        for (depth, expected) in [("1", &["Add b"][..]), ("2", &["Add b", "Add a"]), ("3", &["Add b", "Add a"])] {
            let clone = root.with_extension(depth);
            let (from, to) = (format!("file://{}", root.display()), clone.display().to_string());
            git(&root, &["clone", "--quiet", "--depth", depth, &from, &to]).unwrap();
            assert_eq!(subjects_since(&clone, &base), expected, "depth {depth}");
            std::fs::remove_dir_all(clone).unwrap();
        }
        std::fs::remove_dir_all(root).unwrap();
    }
}
