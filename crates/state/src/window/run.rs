//! Windows that close together: as long as one small slice completes each, and one leaves behind it.

use pelton_data::Micros;
use pelton_data::window::{ResultKind, Window};

use super::{CloseLimits, ClosedSmallSlices, ClosedWindow, OpenWindows, Step};
use crate::coalesce::{Leaving, small_groups_max};
use crate::gag::Gag;
use crate::work::{GROUPS_PER_WINDOW, Work};

impl OpenWindows {
    /// Closes the window that ends at `end`, which is the next one, and those that follow it, together: whether they can be, be it one. Nothing is done
    /// otherwise, but that others leave.
    pub(super) fn close_run<E>(
        &mut self,
        end: Micros,
        limits: CloseLimits,
        work: &mut Work,
        hand_on: &mut impl FnMut(Leaving<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        let (size, slide) = match self.window {
            Window::Hopping { size, slide, .. } | Window::Rows { size, slide } if size % slide == 0 => (size, slide),
            _ => return Ok(false),
        };
        let Gag::Combined(graph) = &mut self.gag else { return Ok(false) };
        let next = |sealed: &ClosedSmallSlices| sealed.first_end() == Some(end);
        let Some(at) = self.pieces.iter().position(next) else { return Ok(false) };
        let sealed = &self.pieces[at];
        let most = graph.run_max(sealed.pieces.ids().len() - sealed.slice, end, slide);
        if most == 0 || graph.groups() > small_groups_max(limits.groups_at_once) || self.corrections.is_some() {
            return Ok(false);
        }
        if self.coalescer.room(limits.groups_at_once) < graph.groups() {
            self.coalescer.leave(hand_on)?;
        }
        let most = most.min(self.coalescer.room(limits.groups_at_once) / graph.groups());
        // A window may need what others have of its slice, or a later part of it.
        let others = self.pieces.iter().enumerate().filter(|(index, _)| *index != at);
        let others = others.filter_map(|(_, sealed)| sealed.first_end());
        let others = others.chain(self.sealed.first_end()).min();
        let until = limits.until.min(others.map_or(Micros::MAX, |other| other.saturating_sub(1)));
        let end_of = |number: usize| end.saturating_add((number as Micros).saturating_mul(slide));
        let completes = |number: usize| {
            let slice = sealed.pieces.slice(sealed.slice + number).filter(|_| end_of(number) <= until);
            slice
                .is_some_and(|(id, _)| id.first_end == end_of(number) && id.start.saturating_add(slide) == id.first_end)
        };
        let mut windows = (0..most).take_while(|&number| completes(number)).count();
        let behind = sealed.pieces.slice(sealed.slice + windows);
        if behind.is_some_and(|(id, _)| windows > 0 && id.first_end < end_of(windows)) {
            windows -= 1;
        }
        let last_end = end.saturating_add(size - slide);
        windows = graph.insert_run(&sealed.pieces, (sealed.slice, windows), (last_end, slide));
        if windows == 0 {
            return Ok(false);
        }
        let window = |number: usize| {
            let end = end_of(number);
            ClosedWindow { start: end.saturating_sub(size), end, groups: 0, kind: ResultKind::Final }
        };
        self.coalescer.take_rows((0..windows).map(window), graph.run(windows));
        work.spend(windows * (2 * graph.groups() + GROUPS_PER_WINDOW) - GROUPS_PER_WINDOW);
        self.closed_until = window(windows - 1).end;
        self.step = Step::Evict;
        let sealed = &mut self.pieces[at];
        sealed.slice += windows;
        if sealed.first_end().is_none() {
            self.pieces.remove(at);
        }
        Ok(true)
    }
}
