//! The demo's terminal view.

use std::collections::VecDeque;
use std::time::Instant;

use crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::symbols::border;
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Paragraph, Sparkline, Wrap};

use super::{Demo, FRAME, Frame, bids, history, words};
use crate::failure::Failure;
use crate::print::{count, short};

/// Columns of the charts.
const CHARTS_WIDTH: u16 = 30;

/// Columns of a lot's name, and of its number of bids.
const NAME_WIDTH: usize = 12;
const BIDS_WIDTH: usize = 10;

/// By which share of the way a bar comes closer to its length in each frame.
const STEP: f64 = 0.25;

/// A bar of less than a character: so many eighths of it.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// Shows the demo until its end or `q`. The terminal is as it was afterwards, whatever happened.
pub(super) fn show(demo: &mut Demo, until: Option<Instant>) -> Result<(), Failure> {
    let mut terminal = ratatui::try_init()?;
    let result = (|| {
        let mut bars = Bars::default();
        while !demo.is_over(until) && !asked_to_quit()? {
            let frame = demo.frame();
            bars.follow(&frame);
            terminal.draw(|area| draw(area, &frame, &bars))?;
        }
        Ok(())
    })();
    ratatui::restore();
    result
}

/// Waits for one frame's time; whether `q`, Escape or Ctrl-C was pressed in it.
fn asked_to_quit() -> Result<bool, Failure> {
    let end = Instant::now() + FRAME;
    // Other events, as of a terminal that is being resized, do not end the frame.
    while event::poll(end.saturating_duration_since(Instant::now()))? {
        let Event::Key(key) = event::read()? else { continue };
        let control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        if control_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Bids of each lot as bars show them: they follow the newest window within a few frames.
#[derive(Default)]
struct Bars(Vec<f64>);

impl Bars {
    fn follow(&mut self, frame: &Frame<'_>) {
        let Some(newest) = &frame.newest else { return };
        self.0.resize(newest.bids.len(), 0.0);
        for (shown, bids) in self.0.iter_mut().zip(newest.bids) {
            *shown += (bids as f64 - *shown) * STEP;
        }
    }

    /// Of each lot its shown and its true number, longest bar first.
    fn ranked(&self, frame: &Frame<'_>) -> Vec<(usize, f64, u64)> {
        let bids = frame.newest.iter().flat_map(|window| window.bids);
        let mut bars: Vec<_> =
            self.0.iter().zip(bids).enumerate().map(|(lot, (shown, bids))| (lot, *shown, bids)).collect();
        bars.sort_by(|a, b| b.1.total_cmp(&a.1));
        bars
    }
}

fn draw(area: &mut ratatui::Frame<'_>, frame: &Frame<'_>, bars: &Bars) {
    let width = area.area().width.saturating_sub(2).max(1);
    let query_lines: u16 = bids::QUERY.lines().map(|line| (line.len() as u16).div_ceil(width)).sum();
    let rows = [Constraint::Length(query_lines + 2), Constraint::Min(6), Constraint::Length(4), Constraint::Length(1)];
    let [top, middle, bottom, help] = Layout::vertical(rows).areas(area.area());
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Length(CHARTS_WIDTH)]).areas(middle);
    let [upper, lower] = Layout::vertical([Constraint::Fill(1), Constraint::Fill(1)]).areas(right);
    let rate = frame.history.bids_per_s(&frame.progress);
    let workers = match frame.workers {
        1 => "one core".to_owned(),
        workers => format!("{workers} cores"),
    };
    let title = format!(" Pelton: one SQL query over {} bids a second, on {workers} ", short(rate));
    area.render_widget(text(Text::from(bids::QUERY).dim()).block(panel(title.bold())), top);
    let inner = panel("").inner(left);
    let bars = Paragraph::new(bar_lines(bars.ranked(frame), inner.width, inner.height));
    area.render_widget(bars.block(panel(format!(" most bids in {} ", bids::WINDOW_TEXT))), left);
    chart(area, upper, format!(" {} bids a second ", short(rate)), &frame.history.bids_per_s, Color::Green);
    let p99_us = &frame.history.p99_us;
    let latency = p99_us.back().filter(|us| **us > 0);
    let latency =
        latency.map_or(" latency ".to_owned(), |us| format!(" result after {} (p99) ", history::duration(*us)));
    chart(area, lower, latency, p99_us, Color::Magenta);
    let adaptation = text(words::adaptation(&frame.progress));
    area.render_widget(adaptation.block(panel(" how the code has adapted to the data ")), bottom);
    let total: u64 = frame.progress.sources.iter().map(|source| source.rows).sum();
    let elapsed = frame.progress.elapsed.as_secs();
    let right = Line::from(format!("{} bids in {elapsed} s ", count(total))).alignment(Alignment::Right);
    area.render_widget(Line::from(" q quits").dim(), help);
    area.render_widget(right.dim(), help);
}

fn panel<'a>(title: impl Into<Line<'a>>) -> Block<'a> {
    Block::bordered()
        .border_set(border::ROUNDED)
        .border_style(Style::new().dark_gray())
        .title_style(Style::new().gray())
        .title(title)
}

fn text<'a>(text: impl Into<Text<'a>>) -> Paragraph<'a> {
    Paragraph::new(text).wrap(Wrap { trim: true })
}

/// A line for each of the lots that there is room for.
fn bar_lines(bars: Vec<(usize, f64, u64)>, width: u16, height: u16) -> Vec<Line<'static>> {
    if bars.is_empty() {
        return vec![Line::from(" the first window closes within a second").dim()];
    }
    let longest = bars.first().map_or(1.0, |bar| bar.1.max(1.0));
    let room = usize::from(width).saturating_sub(NAME_WIDTH + BIDS_WIDTH + 1);
    let lines = bars.into_iter().take(usize::from(height)).enumerate().map(|(rank, (lot, shown, bids))| {
        let eighths = (shown / longest * (room * 8) as f64) as usize;
        let bar = "█".repeat(eighths / 8) + EIGHTHS[eighths % 8];
        let color = if rank == 0 { Color::Yellow } else { Color::Cyan };
        Line::from(vec![
            Span::from(format!(" {:<width$}", bids::name(lot), width = NAME_WIDTH - 1)),
            Span::from(format!("{bar:<room$}")).fg(color),
            Span::from(format!("{:>BIDS_WIDTH$}", count(bids))),
        ])
    });
    lines.collect()
}

/// The last samples, the newest at the right.
fn chart(area: &mut ratatui::Frame<'_>, place: Rect, title: String, samples: &VecDeque<u64>, color: Color) {
    let panel = panel(title);
    let columns = usize::from(panel.inner(place).width);
    let shown = samples.iter().skip(samples.len().saturating_sub(columns)).copied();
    let empty = std::iter::repeat_n(0, columns.saturating_sub(samples.len()));
    let data: Vec<u64> = empty.chain(shown).collect();
    // Room above the highest, so that a rate that does not change is no full panel.
    let highest = data.iter().max().map_or(1, |highest| highest + highest / 4);
    area.render_widget(Sparkline::default().max(highest).data(data).style(Style::new().fg(color)).block(panel), place);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pelton::Session;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::bids::Window;
    use super::super::history::History;
    use super::*;

    /// What the view shows for a query that has ended, after so many frames with the same window.
    fn screen(newest: Option<Window>, frames: usize, (width, height): (u16, u16)) -> String {
        let query = Session::new().sql("SELECT a + 1 FROM (VALUES (1), (2), (3)) AS t (a)").unwrap();
        let control = query.control();
        query.collect().unwrap();
        let mut progress = control.progress();
        progress.elapsed = Duration::from_secs(42);
        let mut history = History::default();
        history.bids_per_s.extend([900_000, 1_500_000]);
        history.p99_us.extend([0, 340]);
        let frame = Frame { progress, history: &history, workers: 2, newest };
        let mut bars = Bars::default();
        (0..frames).for_each(|_| bars.follow(&frame));
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|area| draw(area, &frame, &bars)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn the_view_says_what_it_shows_before_the_first_window() {
        let screen = screen(None, 1, (80, 24));
        for part in [
            "one SQL query over 1.50 M bids a second, on 2 cores",
            "SELECT window_end, lot",
            "the first window closes within a second",
            "result after 340 µs (p99)",
            "how the code has adapted",
            "3 bids in 42 s",
            "q quits",
        ] {
            assert!(screen.contains(part), "no '{part}' in\n{screen}");
        }
        // Three rows may be computed before the code is compiled, and before a row's cost is known.
        let is_told = ["Compiled to machine code in", "Interpreted until"].iter().any(|words| screen.contains(words));
        assert!(is_told, "{screen}");
    }

    #[test]
    fn bars_grow_to_their_length_and_stand_by_rank() {
        let mut window = Window { end_ms: 1000, ..Window::default() };
        (window.bids[3], window.bids[1]) = (1200, 600);
        let blocks = |screen: &str, name: &str| {
            let line =
                screen.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("no {name} in\n{screen}"));
            line.matches('█').count()
        };
        let at_once = screen(Some(window.clone()), 1, (80, 24));
        let later = screen(Some(window.clone()), 60, (80, 24));
        assert!(later.find("Clock") < later.find("Globe"), "{later}");
        assert!(later.contains("1 200") && later.contains("600"), "{later}");
        assert!(blocks(&later, "Clock").abs_diff(2 * blocks(&later, "Globe")) <= 1, "{later}");
        assert!(at_once.contains("1 200"), "numbers are true at once: {at_once}");
        for size in [(80, 24), (132, 50), (40, 12), (1, 1)] {
            screen(Some(window.clone()), 2, size);
        }
    }
}
