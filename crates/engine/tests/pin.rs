//! `SET 'pelton.pin'`: where the system runs workers.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use pelton::{Outcome, Session};

/// On which cores each of the workers may run, as the system says.
fn cores_of_workers() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let is_worker = |name: String| name.starts_with("pelton-worker");
    let workers = tasks.filter(|task| fs::read_to_string(task.join("comm")).is_ok_and(is_worker));
    let cores = |status: String| {
        status.lines().find_map(|line| Some(line.strip_prefix("Cpus_allowed_list:")?.trim().to_owned()))
    };
    workers.filter_map(|task| cores(fs::read_to_string(task.join("status")).ok()?)).collect()
}

fn wait_for(what: &str, is_so: impl Fn(&[String]) -> bool) {
    let began = Instant::now();
    loop {
        let cores = cores_of_workers();
        if is_so(&cores) {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{what}: {cores:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn workers_stay_on_cores_of_their_own_as_long_as_that_is_set() {
    let session = Session::new();
    session.set("pelton.workers", "2").unwrap();
    let rows = session.push_table("n", "i BIGINT").unwrap();
    let statement = session.prepare("SELECT i FROM n").unwrap().remove(0);
    let Outcome::Running(query) = session.execute(&statement).unwrap() else { panic!("it is a query") };
    let all = fs::read_to_string("/proc/self/status").unwrap();
    let all = all.lines().find_map(|line| Some(line.strip_prefix("Cpus_allowed_list:")?.trim().to_owned())).unwrap();
    let may_have_all = |cores: &[String]| cores.len() == 2 && cores.iter().all(|cores| *cores == all);
    wait_for("nobody asks", may_have_all);
    session.set("pelton.pin", "on").unwrap();
    // Where the process may use one core, both are on it.
    let different = if all.parse::<usize>().is_ok() { 1 } else { 2 };
    wait_for("pinned", |cores| {
        let is_one = |cores: &String| cores.parse::<usize>().is_ok();
        cores.len() == 2 && cores.iter().all(is_one) && cores.iter().collect::<BTreeSet<_>>().len() == different
    });
    let refused = session.set("pelton.pin", "2").unwrap_err().to_string();
    assert!(refused.contains("setting 'pelton.pin' takes 'on' or 'off', not '2'"), "{refused}");
    session.set("pelton.pin", "off").unwrap();
    wait_for("let go", may_have_all);
    drop(rows);
    query.wait().unwrap();
}
