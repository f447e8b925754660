//! The demo's terminal view.

use std::time::Instant;

use crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Bar, BarChart, BarGroup, Block, Paragraph, Row, Table};

use super::{Demo, FRAME, Frame, adaptation, is_over, latency};
use crate::Failure;
use crate::print::{count, short};

/// Rows for the hottest auctions that others leave.
const HOTTEST_ROWS_MIN: u16 = 6;

/// Shows the demo until its end or `q`. The terminal is as it was afterwards, whatever happened.
pub(super) fn show(demo: &mut Demo, until: Option<Instant>) -> Result<(), Failure> {
    let mut terminal = ratatui::try_init()?;
    let result = (|| {
        while !is_over(demo, until) && !asked_to_quit()? {
            let frame = demo.frame();
            terminal.draw(|area| draw(area, &frame))?;
        }
        Ok(())
    })();
    ratatui::restore();
    result
}

/// Waits for one frame's time; whether `q`, Escape or Ctrl-C was pressed in it.
fn asked_to_quit() -> Result<bool, Failure> {
    if !event::poll(FRAME)? {
        return Ok(false);
    }
    let Event::Key(key) = event::read()? else { return Ok(false) };
    let control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    Ok(control_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc))
}

fn draw(area: &mut ratatui::Frame<'_>, frame: &Frame) {
    let pipelines = frame.progress.pipelines.len() as u16;
    // Two columns are the border's.
    let adaptation = adaptation_lines(frame, usize::from(area.area().width).saturating_sub(2));
    let rows = [
        Constraint::Length(4),
        Constraint::Min(HOTTEST_ROWS_MIN),
        Constraint::Length(pipelines + 3),
        Constraint::Length(adaptation.len() as u16 + 2),
        Constraint::Length(1),
    ];
    let [top, middle, bottom, below, help] = Layout::vertical(rows).areas(area.area());
    area.render_widget(figures(frame), top);
    area.render_widget(hottest(frame), middle);
    area.render_widget(pipeline_table(frame), bottom);
    area.render_widget(Paragraph::new(adaptation).block(Block::bordered().title(" adaptation ")), below);
    area.render_widget(Line::from(" q ends the demo").dim(), help);
}

fn figures(frame: &Frame) -> Paragraph<'static> {
    let rows: u64 = frame.progress.sources.iter().map(|source| source.rows).sum();
    let first = format!(
        " {} events/s in   {} rows/s out   {} events so far",
        short(frame.rows_in_per_s),
        short(frame.rows_out_per_s),
        count(rows)
    );
    let second = format!(" end-to-end latency {}", latency(&frame.progress));
    let title = format!(" Pelton · Nexmark bids · {:.0} s ", frame.progress.elapsed.as_secs_f64());
    Paragraph::new(vec![Line::from(first).bold(), Line::from(second)]).block(Block::bordered().title(title))
}

fn hottest(frame: &Frame) -> BarChart<'static> {
    let title = match &frame.newest {
        None => " hottest auctions: the first window closes after ten seconds ".to_owned(),
        Some(window) => {
            let second_of_day = window.start_ms.div_euclid(1_000).rem_euclid(86_400);
            let (hour, minute, second) = (second_of_day / 3_600, second_of_day / 60 % 60, second_of_day % 60);
            format!(
                " hottest auctions of the ten seconds from {hour:02}:{minute:02}:{second:02} UTC: bids, highest price "
            )
        }
    };
    let auctions = frame.newest.iter().flat_map(|window| &window.auctions);
    let bars = auctions.map(|&(auction, bids, highest)| {
        let text = format!("{} bids, {}.{:02}", count(bids as u64), highest / 100, highest % 100);
        Bar::default().value(bids as u64).text_value(text).label(Line::from(format!("auction {auction}")))
    });
    BarChart::default()
        .block(Block::bordered().title(title))
        .direction(ratatui::layout::Direction::Horizontal)
        .bar_width(1)
        .bar_gap(0)
        .bar_style(Style::new().cyan())
        .value_style(Style::new().black().on_cyan())
        .data(BarGroup::default().bars(&bars.collect::<Vec<_>>()))
}

fn pipeline_table(frame: &Frame) -> Table<'static> {
    let rows = frame.progress.pipelines.iter().map(|pipeline| {
        let cost = format!("{:.2} ns", pipeline.nanos_per_row());
        let tier = format!("{} in {:.1} ms", pipeline.tier, pipeline.preparation.as_secs_f64() * 1e3);
        Row::new([pipeline.name.clone(), tier, cost, count(pipeline.rows)])
    });
    let widths = [Constraint::Fill(2), Constraint::Length(24), Constraint::Length(10), Constraint::Length(16)];
    Table::new(rows, widths)
        .header(Row::new(["pipeline", "tier", "a record", "records"]).dim())
        .block(Block::bordered().title(" pipelines "))
}

/// What becomes of the code of each pipeline, in lines of at most so many characters: none is cut off.
fn adaptation_lines(frame: &Frame, width: usize) -> Vec<Line<'static>> {
    let texts = frame.progress.pipelines.iter().flat_map(adaptation);
    texts.flat_map(|text| folded(&text, width)).map(Line::from).collect()
}

/// A text in lines of at most so many characters, cut where words end if there are any.
fn folded(text: &str, width: usize) -> Vec<String> {
    let (mut lines, mut rest) = (Vec::new(), text);
    while let Some((end, next)) = rest.char_indices().nth(width.max(1)) {
        let last_space = rest[..end + next.len_utf8()].rfind(' ');
        let cut = last_space.filter(|&space| !rest[..space].trim().is_empty()).unwrap_or(end);
        lines.push(rest[..cut].to_owned());
        rest = rest[cut..].trim_start();
    }
    lines.push(rest.to_owned());
    lines
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pelton::Session;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::Window;
    use super::*;

    /// What the view shows for a query that has ended, and the hottest auctions of a window.
    fn screen(newest: Option<Window>) -> String {
        let query = Session::new().sql("SELECT a + 1 FROM (VALUES (1), (2), (3)) AS t (a)").unwrap();
        let control = query.control();
        query.collect().unwrap();
        let mut progress = control.progress();
        progress.elapsed = Duration::from_secs(42);
        let frame = Frame { progress, rows_in_per_s: 1_500_000.0, rows_out_per_s: 12.0, newest };
        let mut terminal = Terminal::new(TestBackend::new(100, 24)).unwrap();
        terminal.draw(|area| draw(area, &frame)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn the_view_shows_rates_and_pipelines_before_the_first_window() {
        let screen = screen(None);
        for part in ["Nexmark bids · 42 s", "1.50 M events/s in", "the first window closes after", "q ends the demo"] {
            assert!(screen.contains(part), "no '{part}' in\n{screen}");
        }
        assert!(screen.contains("interpreted in ") || screen.contains("compiled in "), "{screen}");
        // Which variant, how it was made, what it has done and what happened last, to the end of the text.
        for part in ["adaptation", "  variant ", "generic): made in", "guards failed", " s: variant "] {
            assert!(screen.contains(part), "no '{part}' in\n{screen}");
        }
    }

    #[test]
    fn long_lines_are_folded_where_words_end() {
        assert_eq!(folded("over blocks a, then b", 14), ["over blocks a,", "then b"]);
        assert_eq!(folded("over blocks a, then b", 13), ["over blocks", "a, then b"]);
        assert_eq!(folded("  abcdefgh", 4), ["  ab", "cdef", "gh"]);
        assert_eq!(folded("µs", 2), ["µs"]);
    }

    #[test]
    fn the_view_shows_the_hottest_auctions() {
        let window = Window { start_ms: 3_600_000 + 61_000, auctions: vec![(1007, 2500, 123_456), (1001, 3, 99)] };
        let screen = screen(Some(window));
        for part in ["01:01:01 UTC", "auction 1007", "500 bids, 1234.56", "auction 1001"] {
            assert!(screen.contains(part), "no '{part}' in\n{screen}");
        }
    }
}
