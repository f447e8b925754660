//! A server that speaks the protocol of S3 on loopback: `moto`, of the Python package index.
//!
//! It is the one that Python has, or is installed once in an environment of its own beside the tests. Its objects are in memory, and it ends with the process that
//! started it, however that ends.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

const PACKAGE: &str = "moto[server]==5.2.1";

/// How long it may take to start.
const START_MAX: Duration = Duration::from_secs(60);

/// Runs a command that ends when nobody has the other end of its input any more.
const WATCHED: &str = r#""$@" </dev/null & child=$!; trap 'kill -KILL $child 2>/dev/null' EXIT; cat >/dev/null"#;

/// A running server.
pub struct Server {
    port: u16,
    /// The shell that ends it when its input is closed.
    _process: Child,
}

/// The server of this process; `None`, with a line that says why, where there can be none.
pub fn server() -> Option<&'static Server> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    SERVER.get_or_init(|| started(None)).as_ref()
}

/// One that knows no key.
pub fn strict_server() -> Option<Server> {
    started(Some(("INITIAL_NO_AUTH_ACTION_COUNT", "0")))
}

fn started(variable: Option<(&str, &str)>) -> Option<Server> {
    match python() {
        Ok(python) => Some(Server::start(&python, variable)),
        Err(problem) => {
            eprintln!("skipped, as there is no server of S3: {problem}");
            None
        }
    }
}

/// A Python that has the package.
fn python() -> Result<PathBuf, String> {
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _installing = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let has_it = |python: &Path| {
        let mut command = Command::new(python);
        command.args(["-c", "import moto.server, flask_cors"]).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if has_it(Path::new("python3")) {
        return Ok("python3".into());
    }
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("moto");
    let python = place.join("bin/python");
    if has_it(&python) {
        return Ok(python);
    }
    let run = |command: &mut Command| {
        let output = command.output().map_err(|error| format!("python3: {error}"))?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(text.lines().last().unwrap_or_default().to_owned()) }
    };
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&place))?;
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--retries", "1", PACKAGE]))?;
    Ok(python)
}

impl Server {
    fn start(python: &Path, variable: Option<(&str, &str)>) -> Server {
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let mut command = Command::new("sh");
        command.args(["-c", WATCHED, "moto"]).arg(python).args(["-m", "moto.server", "-H", "127.0.0.1", "-p"]);
        command.arg(port.to_string()).envs(variable);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Server { port, _process: command.spawn().expect("sh runs") };
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(began.elapsed() < START_MAX, "moto does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        server
    }

    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Makes a bucket.
    pub fn create_bucket(&self, name: &str) {
        self.request("PUT", name, b"");
    }

    /// Makes an object, or replaces it.
    pub fn put(&self, path: &str, content: &[u8]) {
        self.request("PUT", path, content);
    }

    /// The text of an object.
    pub fn get(&self, path: &str) -> String {
        let answer = self.request("GET", path, b"");
        answer.split_once("\r\n\r\n").map_or_else(String::new, |(_, body)| body.to_owned())
    }

    /// The names of all objects of a bucket.
    pub fn names(&self, bucket: &str) -> Vec<String> {
        let answer = self.request("GET", &format!("{bucket}?list-type=2"), b"");
        answer.split("<Key>").skip(1).map(|rest| rest.split("</Key>").next().unwrap().to_owned()).collect()
    }

    /// How many uploads of a bucket are not complete.
    pub fn uploads(&self, bucket: &str) -> usize {
        self.request("GET", &format!("{bucket}?uploads"), b"").matches("<UploadId>").count()
    }

    fn request(&self, method: &str, path: &str, content: &[u8]) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let credential =
            "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";
        let head = format!(
            "{method} /{path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: {credential}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.port,
            content.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(content).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.starts_with("HTTP/1.1 20"), "{method} {path}: {answer}");
        answer
    }
}
