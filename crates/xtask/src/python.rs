//! The tests of the Python package: pytest, over the native module as the workspace builds it.
//!
//! The package is laid out under the target directory: its Python code, and the module beside it. What the tests import is installed in an environment of its own there.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::processes;

/// What the tests import. Tools are pinned, so that a new version of one changes no result of a test.
const PACKAGES: [&str; 8] = [
    "pytest==9.2.0",
    "pyarrow==26.0.1",
    "pandas==3.1.1",
    "polars==2.1.0",
    "duckdb==1.4.2",
    "deltalake==1.6.6",
    "nbclient==0.11.0",
    "ipykernel==7.4.0",
];

/// Names the packages that an environment has.
const READY: &str = "ready";

/// Runs the tests, all or those that pytest's arguments choose.
///
/// # Errors
/// Where one fails, or the module cannot be built.
pub fn test(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let place = processes::target_directory()?.join("python");
    let Some(python) = interpreter(&place)? else {
        return Ok("skipped: the packages that the tests import cannot be installed here".to_string());
    };
    let program = crate::examples::pelton(root)?;
    lay_out(root, &place.join("package"), &program)?;
    let mut command = Command::new(python);
    // Not beside the package's source, which has no native module: its folder would be imported.
    command
        .current_dir(root.join("python/tests"))
        .args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider"])
        .args(arguments);
    command
        .env("PYTHONPATH", place.join("package"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PELTON_PROGRAM", &program);
    processes::run(&mut command).map(|()| String::new())
}

/// The package as `pip` would install it. Each file is replaced, and none of an earlier version stays.
fn lay_out(root: &Path, folder: &Path, program: &Path) -> Result<(), String> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error: std::io::Error| format!("{path}: {error}")
    };
    let (from, to) = (root.join("python/pelton"), folder.join("pelton"));
    if to.exists() {
        std::fs::remove_dir_all(&to).map_err(failed(&to))?;
    }
    std::fs::create_dir_all(&to).map_err(failed(&to))?;
    for entry in std::fs::read_dir(&from).map_err(failed(&from))? {
        let path = entry.map_err(failed(&from))?.path();
        if path.is_file() {
            std::fs::copy(&path, to.join(path.file_name().unwrap_or_default())).map_err(failed(&path))?;
        }
    }
    let name = |base: &str| format!("{}{base}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let module = program.with_file_name(name("pelton_native"));
    std::fs::copy(&module, to.join("_native.abi3.so")).map_err(failed(&module))?;
    Ok(())
}

/// A Python that has the packages; none where they cannot be installed, as without a network.
fn interpreter(place: &Path) -> Result<Option<PathBuf>, String> {
    let python = place.join("venv/bin/python");
    let (ready, wanted) = (place.join(READY), PACKAGES.join("\n"));
    if std::fs::read_to_string(&ready).is_ok_and(|installed| installed == wanted) {
        return Ok(Some(python));
    }
    std::fs::create_dir_all(place).map_err(|error| format!("{}: {error}", place.display()))?;
    let mut environment = Command::new("python3");
    environment.args(["-m", "venv", "--clear"]).arg(place.join("venv"));
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1"]).args(PACKAGES);
    if processes::run(&mut environment).and_then(|()| processes::run(&mut install)).is_err() {
        return Ok(None);
    }
    std::fs::write(&ready, wanted).map_err(|error| format!("{}: {error}", ready.display()))?;
    Ok(Some(python))
}
