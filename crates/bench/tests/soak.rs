//! Ten queries at changing rates for a few seconds: what does not depend on how long.
#![cfg(unix)]

use std::time::Duration;

use pelton_bench::soak::soak;

#[test]
fn every_row_of_ten_queries_is_accounted_for() {
    let folder = std::env::temp_dir().join(format!("pelton-soak-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut said = Vec::new();
    let report = soak(Duration::from_secs(3), 1_000, &folder, Duration::from_secs(1), &mut said);
    std::fs::remove_dir_all(&folder).unwrap();
    let report = report.unwrap();
    assert_eq!(report.accounts.len(), 10);
    for account in &report.accounts {
        assert!(account.is_balanced(), "{account:?}");
        // A line in 97 is broken where lines are read; one row in 499 is late where there is a time to be late for and rows are out of order.
        let is_late = ["tumble", "session", "over", "distinct", "twice"].contains(&account.name);
        assert_eq!(account.late > 0, is_late, "{account:?}");
        let broken = if account.name == "text" { account.fed.div_ceil(97) } else { 0 };
        assert_eq!(account.rejected, broken, "{account:?}");
    }
    let said = String::from_utf8(said).unwrap();
    assert!(said.lines().count() >= 1 && said.lines().all(|line| line.contains("MB resident")), "{said}");
}
