//! Slices that windows of different lengths share: on-the-fly sharing (Krishnamurthy et al., section 4; LightSaber, section 5.3), where a slice begins
//! at each edge of any of them.

use crate::Micros;

use super::Window;

/// A grid may have so many slices for each that the windows which have most would have alone.
const FINER_MAX: i64 = 2;

impl Window {
    /// Windows that are cut into slices wherever any of these may begin or end, at even distances, and cover each slice at least as long as any of these
    /// does. `None` where they do not go by event time, leave rows out, or each alone would have much longer slices.
    pub fn grid(windows: &[Window]) -> Option<Window> {
        Window::finer_grid(windows, FINER_MAX)
    }

    /// The same, where slices may be so many times as short as those of the windows which have most.
    pub fn finer_grid(windows: &[Window], finer_max: i64) -> Option<Window> {
        let first = windows.first()?.edges()?;
        let (mut slide, mut size) = (0, 0);
        for window in windows {
            let Edges { distance, offset, rest, size: own } = window.edges()?;
            slide = [distance, rest, offset.checked_sub(first.offset)?].into_iter().fold(slide, divisor);
            size = size.max(own);
        }
        let is_fine = |window: &Window| {
            let Edges { distance, rest, .. } = window.edges().expect("its edges were just looked at");
            let slices = if rest == 0 { 1 } else { 2 };
            distance <= slide.saturating_mul(slices * finer_max)
        };
        let offset = first.offset.rem_euclid(slide);
        // The windows of a slice end within the longest of them, and all lengths are multiples of the distance.
        windows.iter().any(is_fine).then_some(Window::Hopping { size, slide, offset })
    }

    /// Where windows by event time that have all rows begin and end.
    fn edges(&self) -> Option<Edges> {
        match *self {
            Window::Tumbling { size, offset } => Some(Edges { distance: size, offset, rest: 0, size }),
            Window::Hopping { size, slide, offset } if size >= slide => {
                Some(Edges { distance: slide, offset, rest: size % slide, size })
            }
            Window::Cumulative { size, step, offset } => Some(Edges { distance: step, offset, rest: 0, size }),
            _ => None,
        }
    }
}

/// Edges are at `offset`, and `rest` behind it, plus multiples of `distance`.
struct Edges {
    distance: Micros,
    offset: Micros,
    rest: Micros,
    /// Of the longest window.
    size: Micros,
}

/// The greatest common one.
fn divisor(one: i64, other: i64) -> i64 {
    if other == 0 { one.abs() } else { divisor(other, one % other) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(size: Micros, slide: Micros, offset: Micros) -> Window {
        Window::Hopping { size, slide, offset }
    }

    #[test]
    fn a_grid_has_all_edges() {
        let tumbling = |size, offset| Window::Tumbling { size, offset };
        let grid = |windows: &[Window]| Window::grid(windows);
        assert_eq!(grid(&[hop(10, 1, 0), hop(5, 1, 0), tumbling(1, 0)]), Some(hop(10, 1, 0)));
        assert_eq!(grid(&[tumbling(10, 0), tumbling(10, 5)]), Some(hop(10, 5, 0)));
        assert_eq!(grid(&[hop(10, 3, 1), hop(9, 3, 1)]), Some(hop(10, 1, 0)));
        assert_eq!(grid(&[tumbling(4, -2), Window::Cumulative { size: 8, step: 4, offset: 2 }]), Some(hop(8, 4, 2)));
        assert_eq!(grid(&[tumbling(10, 0), tumbling(1, 0)]), Some(hop(10, 1, 0)));
        assert_eq!(grid(&[tumbling(10, 0), tumbling(7, 0)]), None, "either has slices that are much longer than 1");
        assert_eq!(grid(&[hop(3, 10, 0), tumbling(5, 0)]), None, "there are rows in none of the first");
        assert_eq!(grid(&[tumbling(10, 0), Window::Session { gap: 5 }]), None);
        assert_eq!(grid(&[]), None);
    }

    fn all() -> Vec<Window> {
        let mut all = Vec::new();
        for (size, slide, offset) in [(10, 3, -7), (10, 5, 0), (9, 9, 4), (7, 1, 1), (12, 8, 5), (6, 2, -1), (4, 4, 2)]
        {
            all.push(Window::Tumbling { size, offset });
            all.push(hop(size, slide, offset));
            all.push(Window::Cumulative { size: size * slide, step: slide, offset });
        }
        all
    }

    #[test]
    fn slices_of_a_grid_lie_inside_those_of_each_window() {
        let mut found = 0;
        for (one, other) in all().into_iter().flat_map(|one| all().into_iter().map(move |other| (one, other))) {
            let windows = [one, other];
            let Some(grid) = Window::grid(&windows) else { continue };
            found += 1;
            for time in -100..100 {
                let slice = grid.slice(time);
                let last_end = slice.covered.unwrap().last_end;
                for window in &windows {
                    let own = window.slice(time);
                    assert!(own.start <= slice.start && slice.end <= own.end, "{window:?} {own:?} {slice:?}");
                    let covered = own.covered.unwrap();
                    assert!(covered.last_end <= last_end && covered.first_end >= slice.end, "{window:?} {slice:?}");
                    assert_eq!(grid.next_end(covered.first_end - 1), covered.first_end, "an end of the grid's");
                }
            }
        }
        assert!(found > 100, "{found} pairs of windows share a grid");
    }
}
