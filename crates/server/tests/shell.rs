//! The SQL shell as a user meets it: in a pseudo-terminal, and fed through a pipe.
#![cfg(unix)]

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use pty_process::Size;
use pty_process::blocking::{Command as PtyCommand, Pty, open};

/// No answer takes longer.
const ANSWER_MAX: Duration = Duration::from_secs(60);

const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";
const UP: &str = "\x1b[A";

/// The program in a terminal of its own.
struct Terminal {
    pty: Arc<Pty>,
    child: Child,
    written: Receiver<Vec<u8>>,
    /// What was written and not yet waited for, without escape sequences.
    screen: String,
    /// The same as bytes.
    bytes: Vec<u8>,
}

impl Terminal {
    fn start(arguments: &[&str], state: &Path) -> Terminal {
        let (pty, pts) = open().expect("a pseudo-terminal");
        pty.resize(Size::new(24, 60)).expect("its size can be set");
        let command = PtyCommand::new(env!("CARGO_BIN_EXE_pelton")).args(arguments);
        let command = command.env("XDG_STATE_HOME", state).env("TERM", "xterm").env_remove("NO_COLOR");
        let child = command.spawn(pts).expect("the program starts");
        let (pty, (sender, written)) = (Arc::new(pty), mpsc::channel());
        let reader = pty.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The terminal fails when the program has ended.
            while let Ok(length) = (&*reader).read(&mut bytes) {
                if length == 0 || sender.send(bytes[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        Terminal { pty, child, written, screen: String::new(), bytes: Vec::new() }
    }

    fn types(&self, text: &str) {
        (&*self.pty).write_all(text.as_bytes()).expect("the terminal takes what is typed");
    }

    /// Waits until a text was written, and returns what came before it.
    fn wait_for(&mut self, text: &str) -> String {
        let asked = Instant::now();
        loop {
            if let Some(at) = self.screen.find(text) {
                let rest = self.screen.split_off(at + text.len());
                return std::mem::replace(&mut self.screen, rest);
            }
            let left = ANSWER_MAX.saturating_sub(asked.elapsed());
            match self.written.recv_timeout(left) {
                Ok(bytes) => {
                    self.bytes.extend(bytes);
                    self.screen.push_str(&take_plain(&mut self.bytes));
                }
                Err(error) => panic!("no '{text}' ({error}) in:\n{}", self.screen),
            }
        }
    }

    /// The exit code, when the program has ended.
    fn ended(mut self) -> Option<i32> {
        let asked = Instant::now();
        while asked.elapsed() < ANSWER_MAX {
            // Nobody is kept waiting for a reader.
            while self.written.try_recv().is_ok() {}
            if let Some(status) = self.child.try_wait().expect("the program's state") {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(self.child.kill());
        panic!("the program does not end");
    }
}

/// Takes the whole escape sequences and characters from the bytes, and leaves the sequences out.
fn take_plain(bytes: &mut Vec<u8>) -> String {
    let (mut plain, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        if bytes[at] != 0x1b {
            plain.push(bytes[at]);
            at += 1;
            continue;
        }
        // `ESC [ … letter`, and others of two characters.
        let is_long = bytes.get(at + 1) == Some(&b'[');
        let end = match bytes[at..].iter().skip(2).position(|byte| (0x40..0x7f).contains(byte)) {
            Some(end) if is_long => at + 3 + end,
            None if is_long => break,
            _ if at + 2 > bytes.len() => break,
            _ => at + 2,
        };
        at = end;
    }
    bytes.drain(..at);
    // A character that was cut waits for its end.
    match String::from_utf8(plain) {
        Ok(text) => text,
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            let plain = error.into_bytes();
            bytes.splice(0..0, plain[valid..].iter().copied());
            String::from_utf8_lossy(&plain[..valid]).into_owned()
        }
    }
}

fn state_folder(test: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("pelton-shell-{test}-{}", std::process::id()));
    drop(std::fs::remove_dir_all(&folder));
    folder
}

const TICKS: &str = "CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000', 'pace' = 'real-time', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '1000000000');\r";

#[test]
fn statements_are_typed_and_answered() {
    let state = state_folder("typed");
    let mut terminal = Terminal::start(&[], &state);
    terminal.wait_for("pelton> ");
    // Several lines.
    terminal.types("SELECT a, 'x;y' AS t -- two; columns\r");
    terminal.wait_for("...> ");
    terminal.types("FROM (VALUES (1), (2)) AS v (a);\r");
    terminal.wait_for("a  t\r\n─  ───\r\n1  x;y\r\n2  x;y\r\n");
    terminal.wait_for("2 rows in 0.");
    terminal.wait_for("pelton> ");
    // A mistake is shown as `pelton run` shows it.
    terminal.types("SELECT b FROM (VALUES (1)) AS v (a);\r");
    let expected = "error: there is no column b; there are a\r\n --> <stdin>:1:8\r\n  |\r\n1 | SELECT b FROM (VALUES (1)) AS v (a);\r\n  |        ^\r\n";
    terminal.wait_for(expected);
    terminal.wait_for("pelton> ");
    // Completion, and a line that is dropped.
    terminal.types("sel\t");
    terminal.wait_for("pelton> select");
    terminal.types(CTRL_C);
    terminal.wait_for("pelton> ");
    terminal.types("help\r");
    terminal.wait_for("search the history");
    terminal.wait_for("pelton> ");
    // The last statement but the command comes back whole.
    terminal.types(&format!("{UP}{UP}{UP}\r"));
    terminal.wait_for("2 rows in 0.");
    terminal.wait_for("pelton> ");
    terminal.types(CTRL_D);
    assert_eq!(terminal.ended(), Some(0));
    let history = std::fs::read_to_string(state.join("pelton/history")).expect("the history");
    assert!(history.contains("SELECT b FROM") && history.contains("x;y"), "{history}");
    std::fs::remove_dir_all(&state).expect("the history can be removed");
}

#[test]
fn ctrl_c_stops_an_endless_query_and_no_more() {
    let state = state_folder("endless");
    let mut terminal = Terminal::start(&["sql", "--format", "csv"], &state);
    terminal.wait_for("pelton> ");
    terminal.types(TICKS);
    for _ in 0..2 {
        terminal.types("SELECT n FROM ticks;\r");
        // Rows are seen as they come.
        terminal.wait_for("\r\n100\r\n");
        terminal.types(CTRL_C);
        terminal.wait_for(" rows in ");
        terminal.wait_for("pelton> ");
    }
    terminal.types("SELECT 40 + 2 AS answer;\r");
    terminal.wait_for("answer\r\n42\r\n1 row in 0.");
    terminal.wait_for("pelton> ");
    terminal.types("\\q\r");
    assert_eq!(terminal.ended(), Some(0));
    drop(std::fs::remove_dir_all(&state));
}

#[test]
fn inserts_run_on_as_jobs() {
    let state = state_folder("jobs");
    let mut terminal = Terminal::start(&["sql", "--format", "csv"], &state);
    terminal.wait_for("pelton> ");
    terminal.types(TICKS);
    terminal.types("CREATE TABLE hole (n BIGINT) WITH ('connector' = 'blackhole');\r");
    // A short one is waited for.
    terminal.types("INSERT INTO hole VALUES (1), (2);\r");
    terminal.wait_for("hole: 2 rows written in 0.");
    terminal.types("INSERT INTO hole SELECT n FROM ticks;\r");
    terminal.wait_for("insert_into_hole runs as a job");
    terminal.wait_for("pelton> ");
    terminal.types("SELECT 40 + 2 AS answer;\r");
    terminal.wait_for("answer\r\n42\r\n1 row in 0.");
    terminal.types("STOP JOB insert_into_hole;\r");
    terminal.wait_for("insert_into_hole was stopped");
    terminal.wait_for(" rows written in ");
    // One that fails is told of behind the next statement.
    terminal.types("INSERT INTO hole SELECT 10 / (n - 1500) FROM ticks;\r");
    terminal.wait_for("insert_into_hole runs as a job");
    std::thread::sleep(Duration::from_secs(1));
    terminal.types("SHOW VIEWS;\r");
    terminal.wait_for("error: insert_into_hole has failed: division by zero");
    // One that is waited for is stopped with Ctrl-C.
    terminal.types("SET 'table.dml-sync' = 'true';\r");
    terminal.types("INSERT INTO hole SELECT n FROM ticks;\r");
    terminal.wait_for(" rows read");
    terminal.types(CTRL_C);
    terminal.wait_for(" rows written in ");
    // Who leaves stops what runs.
    terminal.types("RESET 'table.dml-sync';\r");
    terminal.types("INSERT INTO hole SELECT n FROM ticks;\r");
    terminal.wait_for("insert_into_hole runs as a job");
    terminal.wait_for("pelton> ");
    terminal.types(CTRL_D);
    terminal.wait_for("stopping insert_into_hole");
    terminal.wait_for("insert_into_hole was stopped");
    assert_eq!(terminal.ended(), Some(0));
    drop(std::fs::remove_dir_all(&state));
}

#[test]
fn wide_rows_are_cut_and_history_needs_no_file() {
    // A file stands where the folder would be.
    let state = state_folder("wide");
    std::fs::write(&state, "").expect("a file");
    let mut terminal = Terminal::start(&["sql"], &state);
    terminal.wait_for("pelton> ");
    terminal.types("SELECT REPEAT('x', 100) AS t, 7 AS n;\r");
    terminal.wait_for(&format!("\r\n{}…  7\r\n", "x".repeat(56)));
    terminal.wait_for("1 row in 0.");
    terminal.wait_for("values are cut to fit");
    terminal.wait_for("pelton> ");
    terminal.types("\\format json\r");
    terminal.wait_for("pelton> ");
    terminal.types("SELECT 7 AS n;\r");
    terminal.wait_for("{\"n\":7}\r\n");
    terminal.wait_for("pelton> ");
    terminal.types("exit\r");
    assert_eq!(terminal.ended(), Some(0));
    std::fs::remove_file(&state).expect("the file can be removed");
}

fn piped(arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pelton"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    // A program that reads nothing closes the pipe.
    drop(child.stdin.take().expect("piped").write_all(input.as_bytes()));
    child.wait_with_output().expect("the program ends")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

#[test]
fn without_a_terminal_statements_run_as_a_script() {
    let output = piped(&["sql", "--format", "csv"], "SELECT 1 AS a;\nSELECT 2 AS b;\n");
    assert_eq!((output.status.code(), text(&output.stdout), text(&output.stderr)), (Some(0), "a\n1\nb\n2\n", ""));
    let output = piped(&["sql"], "SELECT 1 AS a;\nSELECT b;\n");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains(" --> <stdin>:2:8\n"), "{}", text(&output.stderr));
}

#[test]
fn a_file_is_executed_before_the_statements() {
    let file = std::env::temp_dir().join(format!("pelton-shell-{}.sql", std::process::id()));
    std::fs::write(&file, "CREATE VIEW one AS SELECT 1 AS a;").expect("a file");
    let path = file.display().to_string();
    let output = piped(&["sql", "--format", "csv", "-f", &path, "-e", "SELECT a + 1 AS b FROM one"], "SELECT nothing");
    assert_eq!((output.status.code(), text(&output.stdout), text(&output.stderr)), (Some(0), "b\n2\n", ""));
    std::fs::remove_file(&file).expect("the file can be removed");
}

#[test]
fn without_a_terminal_the_program_alone_prints_its_help() {
    let output = piped(&[], "SELECT 1;");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""));
    assert!(text(&output.stderr).contains("Usage: pelton"), "{}", text(&output.stderr));
}
