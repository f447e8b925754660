//! `cargo xtask record-demo`: runs `pelton demo` in a terminal of 80 columns and draws what it shows as an animated SVG.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::Read;
use std::num::NonZero;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use vt100::{Cell, Color, Parser};

use crate::processes;

/// The file that is written, relative to the workspace.
const FILE: &str = "docs/images/demo.svg";

const COLUMNS: u16 = 80;
const ROWS: u16 = 24;

/// What is recorded.
const SECONDS: u64 = 13;
const FRAME: Duration = Duration::from_millis(250);

/// A character's size, and the room around all of them.
const WIDTH: u32 = 8;
const HEIGHT: u32 = 17;
const MARGIN: u32 = 12;

/// A row of the screen as SVG.
type Drawn = String;

/// Builds the program unless one is given, runs its demo, and writes the recording.
///
/// # Errors
/// Where the program cannot be built or fails, there is no `script` command, or the file cannot be written.
pub fn run(root: &Path, program: Option<&str>) -> Result<String, String> {
    let program = match program {
        Some(program) => program.to_string(),
        None => {
            processes::run(processes::cargo(root).args(["build", "--release", "--package", "pelton-server"]))?;
            let program = processes::target_directory()?.join("release/pelton");
            program.display().to_string()
        }
    };
    let frames = record(&program)?;
    let svg = animation(&frames);
    let path = root.join(FILE);
    let written = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&path, &svg));
    written.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(format!("{FILE}: {} frames, {} kB", frames.len(), svg.len() / 1000))
}

/// What the program shows, a frame at a time. `script` gives it a terminal.
fn record(program: &str) -> Result<Vec<Vec<Drawn>>, String> {
    let command = format!("stty cols {COLUMNS} rows {ROWS}; exec '{program}' demo --seconds {SECONDS}");
    let mut child = Command::new("script")
        .args(["-qfec", &command, "/dev/null"])
        .env("TERM", "xterm-256color")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("script: {error}"))?;
    let mut output = child.stdout.take().expect("the output is piped");
    let (sender, receiver) = mpsc::channel();
    let reader = thread::spawn(move || {
        let mut buffer = [0; 65536];
        while let Ok(length) = output.read(&mut buffer)
            && length > 0
            && sender.send(buffer[..length].to_vec()).is_ok()
        {}
    });
    let mut terminal = empty_terminal();
    let (mut frames, mut next) = (Vec::new(), Instant::now());
    loop {
        match receiver.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(bytes) => terminal.process(&bytes),
            Err(RecvTimeoutError::Timeout) => {
                next += FRAME;
                if terminal.screen().alternate_screen() {
                    frames.push((0..ROWS).map(|row| drawn(&terminal, row)).collect());
                }
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    reader.join().expect("reading does not panic");
    let status = child.wait().map_err(|error| format!("{program}: {error}"))?;
    if status.success() && !frames.is_empty() { Ok(frames) } else { Err(format!("{program} demo: {status}")) }
}

fn empty_terminal() -> Parser {
    let [rows, columns] = [ROWS, COLUMNS].map(|count| NonZero::new(count).expect("it is not 0"));
    Parser::new(rows, columns, 0)
}

/// A row as text, blocks and lines.
fn drawn(terminal: &Parser, row: u16) -> Drawn {
    let mut texts = String::new();
    let mut paths: BTreeMap<(&str, bool), String> = BTreeMap::new();
    let cells: Vec<&Cell> = (0..COLUMNS).filter_map(|column| terminal.screen().cell(row, column)).collect();
    let mut column = 0;
    while column < cells.len() {
        let (cell, x) = (cells[column], column as u32 * WIDTH);
        let character = cell.contents().chars().next().unwrap_or(' ');
        if let Some((width, height)) = block(character) {
            let same = cells[column..]
                .iter()
                .take_while(|other| other.contents() == cell.contents() && other.fgcolor() == cell.fgcolor());
            // Whole blocks side by side are one; parts of one are not.
            let cells = if width == WIDTH { same.count() } else { 1 };
            let width = width + (cells as u32 - 1) * WIDTH;
            let path = paths.entry((color(cell), true)).or_default();
            write!(path, "M{x} {}h{width}v{height}h-{width}z", HEIGHT - height).expect("text has room");
            column += cells;
        } else if let Some(line) = line(character) {
            let path = paths.entry((color(cell), false)).or_default();
            let same = cells[column..].iter().take_while(|other| other.contents() == "─").count();
            match same {
                0 => write!(path, "M{x} 0{line}").expect("text has room"),
                _ => write!(path, "M{x} 8.5h{}", same as u32 * WIDTH).expect("text has room"),
            }
            column += same.max(1);
        } else {
            column += text(&cells[column..], x, &mut texts);
        }
    }
    for ((color, is_filled), path) in paths {
        let style = if is_filled { format!("fill=\"{color}\"") } else { format!("stroke=\"{color}\" fill=\"none\"") };
        write!(texts, "<path {style} d=\"{path}\"/>").expect("text has room");
    }
    texts
}

/// Writes the characters of one style that stand here, and returns how many they are.
fn text(cells: &[&Cell], x: u32, texts: &mut String) -> usize {
    let style = |cell: &Cell| (color(cell), cell.bold());
    let is_text = |cell: &Cell| {
        let character = cell.contents().chars().next().unwrap_or(' ');
        block(character).is_none() && line(character).is_none()
    };
    let is_gap = |at: usize| cells[at..].iter().take(2).all(|cell| !cell.has_contents() || cell.contents() == " ");
    // Who draws it may draw several spaces as one.
    let is_part =
        |(at, cell): &(usize, &&Cell)| is_text(cell) && style(cell) == style(cells[0]) && (*at == 0 || !is_gap(*at));
    let length = cells.iter().enumerate().take_while(is_part).count();
    let contents = |cell: &&&Cell| if cell.has_contents() { cell.contents().to_owned() } else { " ".to_owned() };
    let whole: String = cells[..length].iter().map(|cell| contents(&cell)).collect();
    let words = whole.trim();
    if !words.is_empty() {
        let x = x + (whole.chars().count() - whole.trim_start().chars().count()) as u32 * WIDTH;
        let (color, is_bold) = style(cells[0]);
        let weight = if is_bold { " font-weight=\"bold\"" } else { "" };
        let width = words.chars().count() as u32 * WIDTH;
        let words = words.replace('&', "&amp;").replace('<', "&lt;");
        write!(texts, "<text x=\"{x}\" y=\"13\" textLength=\"{width}\" fill=\"{color}\"{weight}>{words}</text>")
            .expect("text has room");
    }
    length
}

/// How wide and high a block element is.
fn block(character: char) -> Option<(u32, u32)> {
    match u32::from(character) {
        low @ 0x2581..=0x2587 => Some((WIDTH, (low - 0x2580) * HEIGHT / 8)),
        0x2588 => Some((WIDTH, HEIGHT)),
        left @ 0x2589..=0x258f => Some(((0x2590 - left) * WIDTH / 8, HEIGHT)),
        _ => None,
    }
}

/// A box-drawing character as the rest of a path that begins at its upper left corner.
fn line(character: char) -> Option<&'static str> {
    Some(match character {
        '─' => "m0 8.5h8",
        '│' => "m4 0v17",
        '╭' => "m8 8.5q-4 0-4 4v4.5",
        '╮' => "m0 8.5q4 0 4 4v4.5",
        '╰' => "m4 0v4.5q0 4 4 4",
        '╯' => "m4 0v4.5q0 4-4 4",
        _ => return None,
    })
}

fn color(cell: &Cell) -> &'static str {
    match cell.fgcolor() {
        _ if cell.dim() => "#8b949e",
        Color::Idx(2) => "#3fb950",
        Color::Idx(3) => "#e3b341",
        Color::Idx(5) => "#bc8cff",
        Color::Idx(6) => "#39c5cf",
        Color::Idx(8) => "#484f58",
        _ => "#e6edf3",
    }
}

/// Frames below each other, which are moved past a window. Each distinct row is drawn once. Who shows no animations shows the last frame.
fn animation(frames: &[Vec<Drawn>]) -> String {
    let (width, height) = (u32::from(COLUMNS) * WIDTH, u32::from(ROWS) * HEIGHT);
    let (outer_width, outer_height) = (width + 2 * MARGIN, height + 2 * MARGIN);
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut rows, mut uses, mut offsets) = (String::new(), String::new(), Vec::new());
    for (index, frame) in frames.iter().enumerate() {
        let top = index as u32 * height;
        offsets.push(format!("0 -{top}"));
        for (row, drawn) in frame.iter().enumerate().filter(|(_, drawn)| !drawn.is_empty()) {
            let next = numbers.len();
            let number = *numbers.entry(drawn).or_insert(next);
            if number == next {
                writeln!(rows, "<g id=\"r{number}\">{drawn}</g>").expect("text has room");
            }
            write!(uses, "<use href=\"#r{number}\" y=\"{}\"/>", top + row as u32 * HEIGHT).expect("text has room");
        }
        uses.push('\n');
    }
    let seconds = frames.len() as f64 * FRAME.as_secs_f64();
    let last = offsets.last().cloned().unwrap_or_default();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{outer_width}\" height=\"{outer_height}\" viewBox=\"0 0 {outer_width} {outer_height}\" \
         font-family=\"ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace\" font-size=\"13\">\n\
         <title>pelton demo</title>\n\
         <style>text{{white-space:pre}}</style>\n\
         <rect width=\"{outer_width}\" height=\"{outer_height}\" rx=\"8\" fill=\"#0d1117\"/>\n\
         <defs>\n{rows}</defs>\n\
         <svg x=\"{MARGIN}\" y=\"{MARGIN}\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
         <g transform=\"translate({last})\">\n\
         <animateTransform attributeName=\"transform\" type=\"translate\" calcMode=\"discrete\" dur=\"{seconds}s\" repeatCount=\"indefinite\" values=\"{}\"/>\n\
         {uses}</g>\n</svg>\n</svg>\n",
        offsets.join(";")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_row(text: &str) -> Drawn {
        let mut terminal = empty_terminal();
        terminal.process(text.as_bytes());
        drawn(&terminal, 0)
    }

    #[test]
    fn text_blocks_and_lines_are_drawn_where_they_stand() {
        assert_eq!(first_row(""), "");
        let text = "<text x=\"8\" y=\"13\" textLength=\"24\" fill=\"#e6edf3\" font-weight=\"bold\">a&lt;b</text>";
        assert_eq!(first_row(" \x1b[1ma<b"), text);
        assert_eq!(first_row("\x1b[36m██▌"), "<path fill=\"#39c5cf\" d=\"M0 0h16v17h-16zM16 0h4v17h-4z\"/>");
        assert_eq!(first_row("╭──"), "<path stroke=\"#e6edf3\" fill=\"none\" d=\"M0 0m8 8.5q-4 0-4 4v4.5M8 8.5h16\"/>");
    }

    #[test]
    fn rows_that_stay_are_drawn_once() {
        let row = |text: &str| vec![first_row(text)];
        let svg = animation(&[row("a"), row("b"), row("a")]);
        assert_eq!((svg.matches("<text").count(), svg.matches("<use").count()), (2, 3));
        assert!(svg.contains("values=\"0 -0;0 -408;0 -816\"") && svg.contains("dur=\"0.75"), "{svg}");
    }
}
