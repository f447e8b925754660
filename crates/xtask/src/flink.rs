//! `cargo xtask flink`: compares the scripts in `tests/sql/flink` with the answers of a real Flink.
//!
//! The scripts contain Flink's answers, so the test suite needs no Flink. This command is for developers who add queries to them.
//! It needs Python 3, the scripts in [`TOOLS`], and a Flink distribution, which the first of these installs.
//! A cluster that runs already is used as it is; otherwise one is started on loopback and stopped at the end.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::processes;

const VERSION: &str = "2.3.0";
/// Scripts that install, start and stop Flink, relative to the workspace.
const TOOLS: &str = "../shared/tools/flink";
/// The folder of the installation, which the scripts read too.
const HOME: &str = "PELTON_FLINK";
/// Default port of Flink's SQL gateway.
const GATEWAY_PORT: u16 = 8083;
const START_SECONDS_MAX: u64 = 120;
const SCRIPTS: &str = "tests/sql/flink";

/// Compares the scripts whose name contains `filter` with Flink's answers; `bless` writes the answers into the scripts instead.
///
/// # Errors
/// Where no Flink is installed, where it does not start, or where an answer differs.
pub fn run(root: &Path, filter: &str, bless: bool) -> Result<(), String> {
    let scripts = scripts(root, filter)?;
    let _cluster = if is_listening(GATEWAY_PORT) { None } else { Some(Cluster::start(root)?) };
    let mut command = Command::new("python3");
    command
        .arg(root.join("crates/xtask/flink.py"))
        .arg(if bless { "bless" } else { "compare" })
        .arg(format!("http://127.0.0.1:{GATEWAY_PORT}"))
        .args(scripts);
    let status = command.status().map_err(|error| format!("python3: {error}"))?;
    if status.success() { Ok(()) } else { Err("Flink's answers differ from the scripts".to_string()) }
}

fn scripts(root: &Path, filter: &str) -> Result<Vec<PathBuf>, String> {
    let folder = root.join(SCRIPTS);
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let is_chosen = |path: &PathBuf| path.file_stem().is_some_and(|name| name.to_string_lossy().contains(filter));
    let mut scripts: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_chosen).collect();
    scripts.sort();
    if scripts.is_empty() {
        Err(format!("no script in {SCRIPTS} contains '{filter}' in its name"))
    } else {
        Ok(scripts)
    }
}

/// A running cluster that stops when it is dropped.
struct Cluster {
    tools: PathBuf,
    home: PathBuf,
}

impl Cluster {
    fn start(root: &Path) -> Result<Cluster, String> {
        let tools = root.join(TOOLS);
        if !tools.is_dir() {
            return Err(format!(
                "there is no {TOOLS}: start a Flink {VERSION} cluster with its SQL gateway on port {GATEWAY_PORT} yourself"
            ));
        }
        let home = home()?;
        if !home.join(format!("flink-{VERSION}")).is_dir() {
            let home = home.display();
            return Err(format!(
                "there is no Flink {VERSION} in {home}: `mkdir -p {home}; bash {TOOLS}/make_dist.sh {VERSION}` installs it from \
                 PyPI and Maven Central; {HOME} names another folder"
            ));
        }
        for folder in ["log", "pid"].map(|name| home.join(name)) {
            std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let cluster = Cluster { tools, home };
        processes::run(&mut cluster.script("start_flink.sh"))?;
        wait_for(GATEWAY_PORT)?;
        Ok(cluster)
    }

    fn script(&self, name: &str) -> Command {
        let mut command = Command::new("bash");
        command.arg(self.tools.join(name)).env(HOME, &self.home).env_remove("FLINK_ENV_JAVA_OPTS");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Err(problem) = processes::run(&mut self.script("stop_flink.sh")) {
            eprintln!("{problem}");
        }
    }
}

/// The folder that contains the distribution.
fn home() -> Result<PathBuf, String> {
    if let Some(home) = std::env::var_os(HOME) {
        return Ok(PathBuf::from(home));
    }
    let user = std::env::var_os("HOME").ok_or_else(|| format!("neither {HOME} nor HOME is set"))?;
    Ok(Path::new(&user).join(".cache/pelton-flink"))
}

fn is_listening(port: u16) -> bool {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok()
}

fn wait_for(port: u16) -> Result<(), String> {
    let start = Instant::now();
    while !is_listening(port) {
        if start.elapsed() > Duration::from_secs(START_SECONDS_MAX) {
            return Err(format!("Flink does not listen on port {port} after {START_SECONDS_MAX} s"));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}
