//! What the processor counts of a thread's work, on machines with counters that a process may read (`perf_event_open`; not on most virtual machines).

/// How often a thread waited in vain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Misses {
    /// Lines of memory that were in no cache, as the processor's own event for that has it.
    pub cache: u64,
    /// Branches that went another way than was expected.
    pub branches: u64,
}

impl Misses {
    /// Those since others were counted.
    pub fn since(self, before: Misses) -> Misses {
        Misses {
            cache: self.cache.saturating_sub(before.cache),
            branches: self.branches.saturating_sub(before.branches),
        }
    }
}

impl std::ops::AddAssign for Misses {
    fn add_assign(&mut self, more: Misses) {
        self.cache += more.cache;
        self.branches += more.branches;
    }
}

/// The counters of one thread, which opens them when it asks for the first time. Where there are none, it does not ask again.
#[derive(Default)]
pub(crate) struct Counters(Option<Option<system::Counters>>);

impl Counters {
    /// Misses of the calling thread so far, the only one that ever calls; `None` where they are not counted.
    pub fn misses(&mut self) -> Option<Misses> {
        let counters = self.0.get_or_insert_with(system::Counters::open);
        let [cache, branches] = counters.as_mut()?.read()?;
        Some(Misses { cache, branches })
    }
}

#[cfg(target_os = "linux")]
mod system {
    use perf_event::events::{Event, Hardware};
    use perf_event::{Builder, Counter};

    /// Of misses of caches and of branches.
    pub struct Counters([Counter; 2]);

    impl Counters {
        /// The counters, where the processor has them and the process may read them.
        pub fn open() -> Option<Counters> {
            Counters::of([Hardware::CACHE_MISSES, Hardware::BRANCH_MISSES].map(Event::from))
        }

        pub fn of(events: [Event; 2]) -> Option<Counters> {
            let open = |event| {
                let mut counter = Builder::new().kind(event).build().ok()?;
                counter.enable().ok()?;
                Some(counter)
            };
            let [first, second] = events.map(open);
            Some(Counters([first?, second?]))
        }

        /// What they count. Where other programs use the counters as well, each has them for a while, and what it would have counted is told.
        pub fn read(&mut self) -> Option<[u64; 2]> {
            let [first, second] = self.0.each_mut().map(|counter| {
                let read = counter.read_count_and_time().ok().filter(|read| read.time_running > 0)?;
                Some((u128::from(read.count) * u128::from(read.time_enabled) / u128::from(read.time_running)) as u64)
            });
            Some([first?, second?])
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    /// There are none.
    pub enum Counters {}

    impl Counters {
        pub fn open() -> Option<Counters> {
            None
        }

        pub fn read(&mut self) -> Option<[u64; 2]> {
            match *self {}
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use perf_event::events::{Event, Software};

    use super::*;

    /// What the system counts itself stands in for what processors count.
    #[test]
    fn what_a_thread_does_is_counted() {
        let faults = [Software::PAGE_FAULTS, Software::PAGE_FAULTS_MIN].map(Event::from);
        let Some(counters) = system::Counters::of(faults) else {
            eprintln!("skipped: perf_event_open is not allowed here");
            return;
        };
        let mut counters = Counters(Some(Some(counters)));
        let before = counters.misses().expect("events are counted");
        let pages: Vec<u8> = (0..1 << 24).map(|byte| byte as u8).collect();
        let fresh = counters.misses().expect("events are counted").since(before);
        // 16 MiB, in pages of up to two.
        assert!((8..100_000).contains(&fresh.cache) && fresh.cache == fresh.branches, "{fresh:?}, {}", pages.len());
    }

    #[test]
    fn where_nothing_is_counted_nobody_asks_again() {
        let mut counters = Counters(Some(None));
        assert_eq!(counters.misses(), None);
        // On this machine there may be some or not; what there is stays.
        let mut counters = Counters::default();
        assert_eq!(counters.misses().is_some(), counters.misses().is_some());
    }
}
