//! Two threads that answer what streams have come to: one passes the gate, and one lets go what the first did not.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use units::{Nanos, NodeTime};

use crate::{
    clock::now,
    gate::Gate,
    stream::tickets::{Event, Tickets, WAIT_MAX},
};

/// A thread looks this often when nothing happens, so that its death is seen.
const LOOK_EVERY: Nanos = Nanos::from_millis(1_000);
/// A thread that did not look for so long is not trusted to let a stream go. A process that was stopped is trusted again at the next look.
const LOOK_MAX: Nanos = Nanos::from_millis(3_000);
/// A step reads a page and writes a report: some kilobytes of stack.
const STACK_BYTES: usize = 256 << 10;

/// Until when each thread is trusted.
#[derive(Debug, Default)]
struct Trust {
    keeper: AtomicU64,
    watchdog: AtomicU64,
}

fn trust(until: &AtomicU64, for_at_most: Nanos) {
    until.store(now().saturating_add(for_at_most).0, Ordering::Relaxed);
}

/// The threads of one gate.
#[derive(Debug, Default)]
pub(super) struct Keeper {
    trust: Trust,
}

impl Keeper {
    /// Starts both threads; `None` where the system gives none.
    pub(super) fn start(gate: Arc<Gate>, tickets: &'static Tickets) -> Option<Arc<Self>> {
        let keeper = Arc::new(Self::default());
        // Both are trusted from the beginning: a thread that the system made runs.
        trust(&keeper.trust.keeper, LOOK_MAX);
        trust(&keeper.trust.watchdog, LOOK_MAX);
        let watched = Arc::clone(&keeper);
        // The watchdog comes first: no start is taken up that it does not see.
        spawn("gate-watchdog", move || watched.watch(tickets))?;
        let kept = Arc::clone(&keeper);
        if spawn("gate-stream", move || kept.keep(&gate, tickets)).is_none() {
            tickets.end();
            return None;
        }
        Some(keeper)
    }

    /// Whether both threads would let a stream go.
    pub(super) fn is_trusted(&self, at: NodeTime) -> bool {
        [&self.trust.keeper, &self.trust.watchdog].into_iter().all(|until| until.load(Ordering::Relaxed) >= at.0)
    }

    /// Passes the gate for each start that a stream has come to, and tells each end.
    fn keep(&self, gate: &Gate, tickets: &Tickets) {
        loop {
            // Both are read before the tickets. One that comes in between changes the bell, and the sleep below ends at once; what had come before
            // the end is answered.
            let (bell, ended) = (tickets.bell(), tickets.has_ended());
            trust(&self.trust.keeper, LOOK_MAX);
            while let Some(taken) = tickets.take() {
                match taken.event {
                    // The watchdog let it go already, and a turn that is asked for now would be nobody's.
                    Event::Start(_) if tickets.is_let_go(taken.number) => {}
                    Event::Start(phase) => {
                        trust(&self.trust.keeper, WAIT_MAX);
                        gate.step_phase(phase.into());
                        tickets.let_go(taken.number);
                        trust(&self.trust.keeper, LOOK_MAX);
                    }
                    Event::End => gate.done(),
                }
                tickets.answered(taken);
            }
            if ended {
                return;
            }
            tickets.sleep(bell, LOOK_EVERY);
        }
    }

    /// Lets starts go that nobody took up, or that somebody took up and forgot.
    fn watch(&self, tickets: &Tickets) {
        while !tickets.has_ended() {
            let bell = tickets.bell();
            let at = now();
            let next = tickets.overdue(at);
            trust(&self.trust.watchdog, LOOK_MAX);
            tickets.sleep(bell, next.map_or(LOOK_EVERY, |next| next.since(at)).min(LOOK_EVERY));
        }
    }
}

/// Starts a thread that gets none of the process's signals: the job's handlers expect its own threads.
fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Option<()> {
    let body = move || {
        block_signals();
        run();
    };
    thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES).spawn(body).ok().map(drop)
}

fn block_signals() {
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigfillset` initialises the set that it is given, and the set of this thread alone changes.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), std::ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::stream::tickets::came;

    fn eventually(what: &str, mut seen: impl FnMut() -> bool) {
        let began = Instant::now();
        while !seen() {
            assert!(began.elapsed() < Duration::from_secs(30), "no {what}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn come(tickets: &'static Tickets, number: u32, event: Event) {
        let ticket = tickets.enqueue(number, event).unwrap();
        // SAFETY: a ticket that `enqueue` gave.
        unsafe { came(ticket) }
    }

    /// Ends the threads also where a test fails.
    struct Ends(&'static Tickets);

    impl Drop for Ends {
        fn drop(&mut self) {
            self.0.end();
        }
    }

    /// The thread that passes the gate never began, or is dead.
    #[test]
    fn the_watchdog_alone_lets_a_start_go() {
        let (tickets, keeper) = (Tickets::leaked().unwrap(), Keeper::default());
        thread::scope(|scope| {
            let _ends = Ends(tickets);
            scope.spawn(|| keeper.watch(tickets));
            come(tickets, 1, Event::Start(0));
            eventually("start", || tickets.is_let_go(1));
            assert!(!keeper.is_trusted(now()), "one of two looks");
        });
    }

    /// A turn that is asked for after the start went would be nobody's, and others would wait for it.
    #[test]
    fn a_start_that_was_let_go_does_not_pass_the_gate() {
        let (tickets, directory) = (Tickets::leaked().unwrap(), tempfile::tempdir().unwrap());
        let report = crate::ReportReader::open_or_create(directory.path(), "j").unwrap();
        let gate = Arc::new(Gate::open(&crate::Config::new(directory.path(), crate::JobName::try_new("j").unwrap())));
        let keeper = Keeper::start(Arc::clone(&gate), tickets).unwrap();
        tickets.let_go(1);
        [(1, Event::Start(0)), (2, Event::End), (3, Event::Start(0))].into_iter().for_each(|(number, event)| come(tickets, number, event));
        eventually("second start", || tickets.is_let_go(3));
        tickets.end();
        eventually("end", || Arc::strong_count(&keeper) == 1);
        gate.flush();
        assert_eq!(report.read().unwrap().tracker.counters().iterations, 1);
    }

    #[test]
    fn both_threads_are_trusted_while_they_look_and_no_longer() {
        let tickets = Tickets::leaked().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let gate = Gate::open(&crate::Config::new(directory.path(), crate::JobName::try_new("j").unwrap()));
        let keeper = Keeper::start(Arc::new(gate), tickets).unwrap();
        // Without a page every start goes, so each is answered.
        for number in 1..=100 {
            assert!(keeper.is_trusted(now()));
            come(tickets, number, if number % 2 == 0 { Event::End } else { Event::Start(0) });
        }
        eventually("last start", || tickets.is_let_go(99));
        assert!(keeper.is_trusted(now()));
        tickets.end();
        // The threads hold the keeper until they are gone.
        eventually("end", || Arc::strong_count(&keeper) == 1);
        assert!(!keeper.is_trusted(now().saturating_add(LOOK_MAX)));
    }
}
