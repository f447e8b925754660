//! Threads that stay on one core each.

use std::mem::{size_of, zeroed};

/// Cores that a thread may run on.
#[derive(Clone)]
pub(crate) struct Cores(libc::cpu_set_t);

impl Cores {
    /// Those of the calling thread, which threads that it starts have too; `None` where the system does not say.
    pub fn of_thread() -> Option<Cores> {
        // SAFETY: all zeros are a set without cores.
        let mut cores: libc::cpu_set_t = unsafe { zeroed() };
        // SAFETY: the system fills the set, whose size it is told.
        let failed = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut cores) };
        (failed == 0).then_some(Cores(cores))
    }

    /// One of them; where there are fewer, another one has it as well.
    pub fn one(&self, index: usize) -> Cores {
        // SAFETY: a set has a bit for each of so many cores.
        let is_among = |core: &usize| unsafe { libc::CPU_ISSET(*core, &self.0) };
        let cores = || (0..libc::CPU_SETSIZE as usize).filter(is_among);
        let core = cores().nth(index % cores().count().max(1));
        // SAFETY: as above.
        let mut one: libc::cpu_set_t = unsafe { zeroed() };
        // SAFETY: as above.
        core.into_iter().for_each(|core| unsafe { libc::CPU_SET(core, &mut one) });
        Cores(one)
    }

    /// Has the calling thread run on them only. Where the system does not allow that any more, it stays where it is.
    pub fn take_thread(&self) {
        // SAFETY: the system reads the set, whose size it is told.
        unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(cores: &Cores) -> i32 {
        // SAFETY: it is a set.
        unsafe { libc::CPU_COUNT(&cores.0) }
    }

    #[test]
    fn a_thread_stays_on_one_core_until_it_may_have_all_again() {
        let work = || {
            let all = Cores::of_thread().unwrap();
            for index in [0, 1, count(&all) as usize] {
                all.one(index).take_thread();
                let now = Cores::of_thread().unwrap();
                // SAFETY: both are sets.
                assert!(count(&now) == 1 && unsafe { libc::CPU_EQUAL(&now.0, &all.one(index).0) });
            }
            let [first, wrapped] = [0, count(&all) as usize].map(|index| all.one(index));
            // SAFETY: as above.
            assert!(unsafe { libc::CPU_EQUAL(&first.0, &wrapped.0) });
            all.take_thread();
            assert_eq!(count(&Cores::of_thread().unwrap()), count(&all));
        };
        std::thread::spawn(work).join().unwrap();
    }
}
