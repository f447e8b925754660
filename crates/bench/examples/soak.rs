//! `cargo xtask soak`: ten queries for as many minutes as are given, or ten. Fails where rows are lost or memory grows.

use std::error::Error;
use std::io::stdout;
use std::time::Duration;

use pelton_bench::soak::{Account, soak};

/// That of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Of each query, at the least rate.
const ROWS_PER_S: u64 = 10_000;

fn main() -> Result<(), Box<dyn Error>> {
    let minutes: f64 = std::env::args().nth(1).map_or(Ok(10.0), |text| text.parse())?;
    let whole = Duration::try_from_secs_f64(minutes * 60.0)?;
    let folder = std::env::temp_dir().join(format!("pelton-soak-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let report = soak(whole, ROWS_PER_S, &folder, (whole / 60).max(Duration::from_secs(1)), &mut stdout());
    std::fs::remove_dir_all(&folder)?;
    let report = report?;
    report.write(&mut stdout())?;
    let is_good = report.is_flat() && report.accounts.iter().all(Account::is_balanced);
    if is_good { Ok(()) } else { Err("the soak has failed".into()) }
}
