//! What was enqueued and not yet answered: a ticket for each start and end, and the number up to which streams may go.
//!
//! Three kinds of threads meet here: those of the job, which enqueue; one of the driver, which says that a stream has come to a ticket; and
//! the two of [`super::keeper`], which answer. Nobody waits for another: all is atomic, and a ticket has one owner at a time, whom
//! its state names.

use std::{
    ffi::c_void,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
};

use units::{Nanos, NodeTime};

use crate::{clock::now, futex};

/// Tickets that may be under way. A start and its end take two, and a GPU has room for about as many operations as this.
pub(super) const TICKETS: usize = 1_024;
/// A ready start that nobody took up by then goes, unless whoever takes them up is at another. On a machine that is too busy for the thread that takes it up the job pays this once a
/// start, and turns bring nothing there.
const TAKE_MAX: Nanos = Nanos::from_millis(100);
/// A start that was taken up goes by then whatever happens: the gate's own bound of 60 s, and what a busy machine adds.
pub(super) const WAIT_MAX: Nanos = Nanos::from_millis(61_000);

/// Nobody's: a thread of the job may take it.
const FREE: u32 = 0;
/// Enqueued: the driver's.
const QUEUED: u32 = 1;
/// The stream has come to it: the keeper's.
const READY: u32 = 2;
/// The keeper answers it.
const TAKEN: u32 = 3;

/// What a ticket stands for. A start has its phase; 0 is a whole iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Start(u32),
    End,
}

/// How an end is written where phases are.
const END: u32 = u32::MAX;

/// The memory that the GPU sees: one page, of which the first word is the number that streams wait for.
const PAGE_BYTES: usize = 4096;

#[derive(Default)]
struct Ticket {
    state: AtomicU32,
    number: AtomicU32,
    event: AtomicU32,
    /// Since when it is ready, and then since when it is taken.
    since: AtomicU64,
    /// Of which it is one.
    home: OnceLock<&'static Tickets>,
}

/// A ticket that the keeper has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    place: usize,
    pub(super) number: u32,
    pub(super) event: Event,
}

/// All of one gate. Lives as long as the process, because GPU and driver may come to it at any time.
pub(super) struct Tickets {
    /// Streams may go up to this number.
    go: &'static AtomicU32,
    tickets: [Ticket; TICKETS],
    /// Changes with each thing that the threads should look at; they sleep at it.
    bell: AtomicU64,
    /// When the last ticket was answered: until then whoever answers had no time for others.
    answered: AtomicU64,
    ended: AtomicBool,
}

impl Tickets {
    /// For the rest of the process; `None` where the system has no page.
    pub(super) fn leaked() -> Option<&'static Self> {
        let all: &'static Self = Box::leak(Box::new(Self {
            go: shared_word()?,
            tickets: std::array::from_fn(|_| Ticket::default()),
            bell: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        }));
        for ticket in &all.tickets {
            let _ = ticket.home.set(all);
        }
        Some(all)
    }

    /// The page to register, and its size.
    pub(super) fn page(&'static self) -> (*mut c_void, usize) {
        (self.go.as_ptr().cast(), PAGE_BYTES)
    }

    /// Takes the ticket of that number for an event, and gives what [`came`] is to be called with; `None` where all are under way.
    pub(super) fn enqueue(&'static self, number: u32, event: Event) -> Option<*mut c_void> {
        let ticket = &self.tickets[number as usize % TICKETS];
        if ticket.state.load(Ordering::Acquire) != FREE {
            return None;
        }
        ticket.number.store(number, Ordering::Relaxed);
        ticket.event.store(
            match event {
                Event::Start(phase) => phase.min(END - 1),
                Event::End => END,
            },
            Ordering::Relaxed,
        );
        ticket.state.store(QUEUED, Ordering::Release);
        Some(std::ptr::from_ref(ticket).cast_mut().cast())
    }

    /// Gives a ticket back that the driver did not take.
    pub(super) fn cancel(&self, number: u32) {
        self.tickets[number as usize % TICKETS].state.store(FREE, Ordering::Release);
    }

    fn ready(&self, ticket: &Ticket) {
        ticket.since.store(now().0, Ordering::Relaxed);
        ticket.state.store(READY, Ordering::Release);
        self.ring();
    }

    /// The oldest ticket that a stream has come to, which is the caller's now.
    pub(super) fn take(&self) -> Option<Taken> {
        let ready = (0..TICKETS).filter(|&place| self.tickets[place].state.load(Ordering::Acquire) == READY);
        let number = |place: usize| self.tickets[place].number.load(Ordering::Relaxed);
        // Numbers wrap; those under way lie within `TICKETS` of each other.
        let place = ready.reduce(|a, b| if is_before(number(b), number(a)) { b } else { a })?;
        let ticket = &self.tickets[place];
        ticket.since.store(now().0, Ordering::Relaxed);
        ticket.state.store(TAKEN, Ordering::Release);
        let event = match ticket.event.load(Ordering::Relaxed) {
            END => Event::End,
            phase => Event::Start(phase),
        };
        Some(Taken { place, number: number(place), event })
    }

    /// A ticket has been answered.
    pub(super) fn answered(&self, taken: Taken) {
        // Before the state: whoever sees the ticket free sees the time too.
        self.answered.store(now().0, Ordering::Release);
        self.tickets[taken.place].state.store(FREE, Ordering::Release);
    }

    /// Lets every start up to this number go.
    pub(super) fn let_go(&self, number: u32) {
        let later = |go: u32| is_before(go, number).then_some(number);
        // Release: what the host did before is done when the GPU sees the number.
        let _ = self.go.fetch_update(Ordering::Release, Ordering::Relaxed, later);
    }

    /// Whether a start of that number may go, or has.
    pub(super) fn is_let_go(&self, number: u32) -> bool {
        !is_before(self.go.load(Ordering::Relaxed), number)
    }

    /// Lets starts go that waited too long, and gives the time at which the next one will have.
    pub(super) fn overdue(&self, at: NodeTime) -> Option<NodeTime> {
        let mut next: Option<NodeTime> = None;
        // While one waits for its turn, the others wait for it: a later number lets all before it go.
        let is_busy = self.tickets.iter().any(|ticket| ticket.state.load(Ordering::Acquire) == TAKEN);
        let answered = self.answered.load(Ordering::Acquire);
        for ticket in &self.tickets {
            let state = ticket.state.load(Ordering::Acquire);
            // State and time are not read at once. A ticket that changed hands between lets one start go that nobody holds any more.
            let since = ticket.since.load(Ordering::Relaxed);
            let (since, bound) = match state {
                READY if !is_busy => (since.max(answered), TAKE_MAX),
                READY | TAKEN => (since, WAIT_MAX),
                _ => continue,
            };
            let (number, end) = (ticket.number.load(Ordering::Relaxed), NodeTime(since).saturating_add(bound));
            if self.is_let_go(number) {
                continue;
            }
            if end <= at {
                self.let_go(number);
            } else {
                next = Some(next.map_or(end, |next| next.min(end)));
            }
        }
        next
    }

    /// What the bell says now, to be given to [`Self::sleep`].
    pub(super) fn bell(&self) -> u64 {
        self.bell.load(Ordering::Acquire)
    }

    /// Sleeps until the bell says something else, or that long.
    pub(super) fn sleep(&self, bell: u64, at_most: Nanos) {
        // An error is one of a sleep that was not possible: the caller looks again, as after any sleep.
        let _ = futex::wait(&self.bell, bell as u32, at_most);
    }

    fn ring(&self) {
        self.bell.fetch_add(1, Ordering::Release);
        futex::wake_all(&self.bell);
    }

    /// From now on nobody answers.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.ring();
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

/// A word on a page of its own, for the rest of the process.
///
/// The page is shared memory and not the process's own: after a fork, such as that of a worker that loads data, a page of its own is
/// copied for whoever writes first, and on older kernels that leaves the GPU with the page that nobody writes any more.
fn shared_word() -> Option<&'static AtomicU32> {
    let (read_write, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, which touches no other memory.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), PAGE_BYTES, read_write, shared, -1, 0) };
    // SAFETY: the mapping is there, aligned to a page, zero, never unmapped, and its first word is used as this atomic alone; the GPU reads it.
    (page != libc::MAP_FAILED).then(|| unsafe { AtomicU32::from_ptr(page.cast()) })
}

/// The stream has come to a ticket. Runs in a thread of the driver, and neither waits, nor allocates, nor panics, nor calls the driver.
///
/// # Safety
/// `ticket` is what [`Tickets::enqueue`] gave.
pub(super) unsafe extern "C" fn came(ticket: *mut c_void) {
    // SAFETY: a ticket, by the caller's promise; tickets are never given back, and are atomics.
    let ticket = unsafe { &*ticket.cast::<Ticket>() };
    if let Some(home) = ticket.home.get() {
        home.ready(ticket);
    }
}

/// Whether a number comes before another, as the driver's wait compares them.
fn is_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b)).cast_signed() < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enqueue(tickets: &'static Tickets, number: u32, event: Event) -> *mut c_void {
        tickets.enqueue(number, event).unwrap_or_else(|| panic!("{number} is under way"))
    }

    fn come(ticket: *mut c_void) {
        // SAFETY: a ticket that `enqueue` gave.
        unsafe { came(ticket) }
    }

    #[test]
    fn tickets_are_taken_in_their_order_also_where_numbers_wrap() {
        let tickets = Tickets::leaked().unwrap();
        let numbers = [u32::MAX - 1, u32::MAX, 0, 1];
        let events = [Event::Start(0), Event::End, Event::Start(7), Event::End];
        let given: Vec<*mut c_void> = numbers.iter().zip(events).map(|(&number, event)| enqueue(tickets, number, event)).collect();
        assert_eq!(tickets.take(), None, "no stream has come");
        // The last two come first: the older of them is taken, and those that no stream has come to stay.
        [3, 2].into_iter().for_each(|at| come(given[at]));
        let take = || tickets.take().map(|taken| (taken.number, taken.event)).unwrap();
        assert_eq!(take(), (0, Event::Start(7)));
        [0, 1].into_iter().for_each(|at| come(given[at]));
        assert_eq!([take(), take(), take()], [(u32::MAX - 1, Event::Start(0)), (u32::MAX, Event::End), (1, Event::End)]);
        assert_eq!(tickets.take(), None);
    }

    #[test]
    fn a_number_is_let_go_once_and_never_taken_back() {
        let tickets = Tickets::leaked().unwrap();
        tickets.let_go(5);
        tickets.let_go(3);
        assert!(tickets.is_let_go(5) && !tickets.is_let_go(6));
        // Numbers that are compared lie nearer to each other than half of all.
        [1 << 30, 1 << 31, 3 << 30, u32::MAX].into_iter().for_each(|number| tickets.let_go(number));
        assert!(!tickets.is_let_go(0) && tickets.is_let_go(u32::MAX), "the numbers begin anew after the last");
        tickets.let_go(2);
        assert!(tickets.is_let_go(2) && tickets.is_let_go(u32::MAX));
    }

    #[test]
    fn a_place_is_given_again_once_its_ticket_is_answered() {
        let tickets = Tickets::leaked().unwrap();
        let first = enqueue(tickets, 1, Event::Start(0));
        let again = 1 + TICKETS as u32;
        assert_eq!(tickets.enqueue(again, Event::End), None);
        come(first);
        assert_eq!(tickets.enqueue(again, Event::End), None, "ready");
        let taken = tickets.take().unwrap();
        assert_eq!(tickets.enqueue(again, Event::End), None, "taken");
        tickets.answered(taken);
        enqueue(tickets, again, Event::End);
        tickets.cancel(again);
        enqueue(tickets, again, Event::Start(1));
    }

    #[test]
    fn what_nobody_takes_up_goes_and_what_is_taken_up_has_longer() {
        let tickets = Tickets::leaked().unwrap();
        let [first, second, third, end] = [(1, Event::Start(0)), (2, Event::Start(0)), (3, Event::Start(0)), (4, Event::End)]
            .map(|(n, event)| enqueue(tickets, n, event));
        let at = now();
        assert_eq!(tickets.overdue(at.saturating_add(WAIT_MAX)), None, "no stream has come");
        come(first);
        let taken = tickets.take().unwrap();
        let next = tickets.overdue(at).unwrap();
        assert!(next >= at.saturating_add(WAIT_MAX));
        // While the first waits for its turn, a second one that is ready lets it not go.
        come(second);
        assert!(tickets.overdue(at).unwrap() >= at.saturating_add(WAIT_MAX));
        tickets.overdue(now().saturating_add(TAKE_MAX));
        assert!(!tickets.is_let_go(1));
        // The time in which it could not be taken up does not count.
        let before = now();
        tickets.let_go(1);
        tickets.answered(taken);
        let next = tickets.overdue(at).unwrap();
        assert!((before.saturating_add(TAKE_MAX)..before.saturating_add(WAIT_MAX)).contains(&next));
        tickets.overdue(now().saturating_add(TAKE_MAX));
        assert!(tickets.is_let_go(2) && !tickets.is_let_go(3));
        // Whoever took one up and forgot it, and what is ready behind it.
        tickets.take().unwrap();
        tickets.take();
        come(third);
        tickets.overdue(now().saturating_add(WAIT_MAX));
        assert!(tickets.is_let_go(3));
        come(end);
    }

    #[test]
    fn what_was_taken_up_and_forgotten_goes() {
        let tickets = Tickets::leaked().unwrap();
        come(enqueue(tickets, 1, Event::Start(0)));
        tickets.take().unwrap();
        assert_eq!(tickets.overdue(now().saturating_add(WAIT_MAX)), None);
        assert!(tickets.is_let_go(1));
    }
}
