//! When what a start sends has ended, of a job whose gate does not tell it.
//!
//! The bytes of the host's ports tell it, where nobody else sends there: after enough of what earlier starts sent, the rate falls and
//! stays low. Without such bytes a start ends after the time that was measured, or that the service expects.

use alloc::vec::Vec;

use units::{Nanos, NodeTime};

/// Starts in a row without an end before the job counts as one that tells none: one end may be lost.
pub const UNTOLD_MAX: u32 = 2;
/// Bytes are looked at so often at most. An end that is told so much later costs others 0.4 % of an iteration of 250 ms.
pub const LOOK_EVERY: Nanos = Nanos::from_millis(1);
/// Looks at one start: some 40 find an end, and some 60 learn what a start of seconds sends.
pub const LOOKS_MAX: usize = 192;
/// The rate has to stay low for so long: gaps between the messages of one Up phase are shorter, where the host keeps up.
const QUIET: Nanos = Nanos::from_millis(2);
/// Before this part of the learned bytes is gone, a low rate is a gap: between two Up phases, or before the first.
const ENOUGH: (u64, u64) = (15, 16);
/// After this part of the learned time a low rate is the end, however little was sent: some iterations send less than others.
const LATE: (u64, u64) = (9, 8);
/// After this part of the learned time nobody waits for the end any more: leases are as long.
const LEASE: (u64, u64) = (5, 4);
/// An iteration whose bytes flow for more than this part of it has no end that could be seen.
const BUSY_MAX: (u64, u64) = (7, 8);
/// Fewer bytes in an iteration are not a job's: agents, logins and clocks send as much.
const BYTES_MIN: u64 = 65_536;
/// What two starts in a row send repeats itself if the smaller is more than this part of the larger; else the bytes are not the job's.
const REPEATS: (u64, u64) = (3, 4);
/// Looks after the end, or before anything is known, are this part of the time since the start apart: few, and none too coarse.
const COARSE: u64 = 16;
/// Looks near the end are this part of the time since the start apart.
const FINE: u64 = 128;
/// The longest way between two looks while a start is known to send, as a part of what it takes: its speed may double meanwhile.
const APART_MAX: u64 = 8;
/// Phases of an iteration that are learned one by one; those beyond share the last place.
const PHASES_MAX: u64 = 64;

/// What starts of one kind were seen to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Learned {
    /// Of the last start, until the next one: all bytes, and the time. Busy is what is faster than half of this mean.
    all: (u64, u64),
    /// From the start to the end: bytes and time.
    bytes: u64,
    length: Nanos,
    /// What the last start sent, and whether the one before sent as much.
    last: u64,
    repeats: bool,
}

/// A start, and the bytes that were seen since.
#[derive(Clone, Debug)]
struct Start {
    at: NodeTime,
    phase: u64,
    /// In order of time; the first is what all ports had sent before.
    seen: Vec<(NodeTime, u64)>,
    looks: usize,
    /// Since when the rate is low.
    quiet: Option<NodeTime>,
    ended: bool,
    look_at: Option<NodeTime>,
}

/// Finds the ends of a job's starts. It looks at nothing itself: [`Self::look_at`] says when bytes are wanted.
#[derive(Clone, Debug, Default)]
pub(super) struct Ends {
    /// Starts in a row whose end was not told when the next one began.
    untold: u32,
    learned: Vec<Option<Learned>>,
    now: Option<Start>,
    /// The one before, until the first bytes of the present one complete it.
    before: Option<Start>,
    /// How long the service expects a start of each phase to send; zero where it does not say.
    expected: Vec<Nanos>,
}

const fn part(whole: u64, (of, in_all): (u64, u64)) -> u64 {
    let part = whole as u128 * of as u128 / in_all as u128;
    if part > u64::MAX as u128 { u64::MAX } else { part as u64 }
}

/// Whether so many bytes in so much time are faster than half of a mean.
fn is_busy(bytes: u64, time: u64, (all, in_time): (u64, u64)) -> bool {
    2 * u128::from(bytes) * u128::from(in_time) >= u128::from(all) * u128::from(time)
}

impl Ends {
    /// A start of that phase went.
    pub(super) fn started(&mut self, at: NodeTime, phase: u64) {
        self.before = self.now.take().filter(|before| !before.seen.is_empty());
        self.untold = self.untold.saturating_add(1);
        // Of the first start nobody knows yet whether its end will be told, so nobody looks.
        let look_at = (self.untold > 1).then_some(at);
        let phase = phase.min(PHASES_MAX - 1);
        self.now = Some(Start { at, phase, seen: Vec::new(), looks: 0, quiet: None, ended: false, look_at });
    }

    /// The job tells its ends.
    pub(super) fn told(&mut self) {
        (self.untold, self.now, self.before) = (0, None, None);
    }

    /// The service expects starts of that phase to send for so long; zero where it does not say.
    pub(super) fn expects(&mut self, phase: u64, expected: Nanos) {
        // The phase is below a small constant, so it is an index.
        let place = phase.min(PHASES_MAX - 1) as usize;
        if self.expected.len() <= place {
            self.expected.resize(place + 1, Nanos(0));
        }
        self.expected[place] = expected;
    }

    /// When the bytes of all ports are wanted; `None` while they would say nothing.
    pub(super) fn look_at(&self) -> Option<NodeTime> {
        self.now.as_ref()?.look_at
    }

    /// When [`Self::end_by_length`] has an answer, if no bytes give it before.
    pub(super) fn deadline(&self) -> Option<NodeTime> {
        let start = self.now.as_ref().filter(|start| self.is_mute() && !start.ended && !self.is_seen(start))?;
        let measured = self.learned_of(start.phase).filter(|learned| learned.repeats);
        let expected = usize::try_from(start.phase).ok().and_then(|place| self.expected.get(place));
        let length = measured.map(|learned| learned.length).or(expected.copied())?;
        (length.0 > 0).then(|| start.at.saturating_add(length))
    }

    /// When the start has ended, by the time that it takes; `None` before that, and where bytes tell it.
    pub(super) fn end_by_length(&mut self, now: NodeTime) -> Option<NodeTime> {
        let at = self.deadline().filter(|at| *at <= now)?;
        self.now.as_mut()?.ended = true;
        Some(at)
    }

    /// All ports had carried so many bytes at `at`, by counters that are renewed every `renewed`. When the start has ended, if these
    /// bytes say so.
    pub(super) fn end_by_bytes(&mut self, at: NodeTime, bytes: u64, renewed: Nanos) -> Option<NodeTime> {
        if let Some(mut before) = self.before.take().filter(|before| before.seen.last().is_some_and(|(_, last)| *last <= bytes)) {
            before.seen.push((at, bytes));
            self.learn(&before);
        }
        let learned = self.now.as_ref().and_then(|start| self.learned_of(start.phase));
        let is_mute = self.is_mute();
        let start = self.now.as_mut().filter(|start| at >= start.at)?;
        let last = start.seen.last().copied();
        // A counter that went back begins anew, and so does what is known of this start.
        if last.is_some_and(|(_, before)| bytes < before) {
            start.seen.clear();
            start.look_at = None;
            return None;
        }
        if let (Some((since, before)), Some(learned)) = (last, learned) {
            let busy = is_busy(bytes - before, at.since(since).0, learned.all);
            start.quiet = if busy { None } else { start.quiet.or(Some(since)) };
        }
        start.seen.push((at, bytes));
        start.looks += 1;
        let end = learned.and_then(|learned| start.end(at, &learned, renewed)).filter(|_| is_mute && !start.ended);
        start.ended |= end.is_some();
        let apart = start.apart(at, learned.as_ref()).max(LOOK_EVERY.0).max(renewed.0);
        start.look_at = (start.looks < LOOKS_MAX).then(|| at.saturating_add(Nanos(apart)));
        end
    }

    /// Whether the job's gate tells no ends.
    pub(super) const fn is_mute(&self) -> bool {
        self.untold > UNTOLD_MAX
    }

    /// Whether bytes will say when this start ends.
    fn is_seen(&self, start: &Start) -> bool {
        !start.seen.is_empty() && self.learned_of(start.phase).is_some_and(|learned| learned.repeats)
    }

    fn learned_of(&self, phase: u64) -> Option<Learned> {
        *self.learned.get(usize::try_from(phase).ok()?)?
    }

    /// Looks back at a start whose last bytes are known.
    fn learn(&mut self, start: &Start) {
        let Some(all) = start.all() else { return };
        let busy = start.seen.windows(2).rposition(|pair| is_busy(pair[1].1 - pair[0].1, pair[1].0.since(pair[0].0).0, all));
        let Some(&(end, bytes)) = busy.and_then(|last| start.seen.get(last + 1)) else { return };
        let (bytes, length) = (bytes - start.seen[0].1, end.since(start.at));
        let place = start.phase as usize;
        if self.learned.len() <= place {
            self.learned.resize(place + 1, None);
        }
        let has_end = all.0 >= BYTES_MIN && length.0 <= part(all.1, BUSY_MAX);
        let known = self.learned[place];
        let repeats = known.is_some_and(|known| has_end && known.last.min(bytes) >= part(known.last.max(bytes), REPEATS));
        self.learned[place] = match known {
            // What was known stays until two starts in a row agree on something else.
            Some(known) if !repeats => Some(Learned { last: bytes, repeats, ..known }),
            _ => has_end.then_some(Learned { all, bytes, length, last: bytes, repeats }),
        };
    }
}

impl Start {
    /// All bytes from the start to the last look, and the time; `None` where that says nothing.
    fn all(&self) -> Option<(u64, u64)> {
        let (first, last) = (self.seen.first()?, self.seen.last()?);
        let (bytes, time) = (last.1.checked_sub(first.1)?, last.0.since(self.at).0);
        (bytes > 0 && time > 0).then_some((bytes, time))
    }

    fn sent(&self) -> u64 {
        self.seen.first().zip(self.seen.last()).map_or(0, |(first, last)| last.1.saturating_sub(first.1))
    }

    /// When it ended, if that is seen at `at`.
    fn end(&self, at: NodeTime, learned: &Learned, renewed: Nanos) -> Option<NodeTime> {
        // Two looks between two renewals see the same value, though bytes pass.
        let quiet = self.quiet.filter(|since| at.since(*since).0 >= QUIET.0.max(renewed.0.saturating_mul(2)))?;
        let is_enough = self.sent() >= part(learned.bytes, ENOUGH) || at.since(self.at).0 >= part(learned.length.0, LATE);
        (learned.repeats && is_enough).then_some(quiet)
    }

    /// How far away the next look is.
    fn apart(&self, at: NodeTime, learned: Option<&Learned>) -> u64 {
        let (since, sent) = (at.since(self.at).0, self.sent());
        let Some(learned) = learned.filter(|learned| learned.repeats && !self.ended && since < part(learned.length.0, LEASE)) else {
            return since / COARSE;
        };
        if sent >= part(learned.bytes, ENOUGH) || since >= part(learned.length.0, LATE) {
            return since / FINE;
        }
        // Half of what is left, so that a start that becomes twice as fast is met at its end.
        let left = part(learned.length.0, (learned.bytes - sent, learned.bytes.max(1)));
        (left / 2).min(learned.length.0 / APART_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A job, and a port that carries `noise` in each tenth of a millisecond besides what the job sends.
    struct Host {
        ends: Ends,
        now: u64,
        bytes: u64,
        noise: u64,
        looks: usize,
        phase: u64,
    }

    impl Host {
        fn new() -> Self {
            Self { ends: Ends::default(), now: 1_000 * MS, bytes: 77, noise: 0, looks: 0, phase: 0 }
        }

        /// One start that sends 12,500 bytes a millisecond in these spans of milliseconds, and takes so many in all. Gives the times after the
        /// start at which it ended, in microseconds, by bytes if `counted`.
        fn start(&mut self, ups: &[(u64, u64)], takes: u64, counted: bool) -> Vec<u64> {
            self.ends.started(NodeTime(self.now), self.phase);
            let (began, mut ends) = (self.now, Vec::new());
            // Ten steps a millisecond.
            for step in 0..takes * 10 {
                self.now = began + step * MS / 10;
                let sends = ups.iter().any(|(from, to)| (from * 10..to * 10).contains(&step));
                let looks = self.ends.look_at().is_some_and(|at| at.0 <= self.now) && counted;
                self.looks += usize::from(looks);
                let by_bytes = looks.then(|| self.ends.end_by_bytes(NodeTime(self.now), self.bytes, Nanos(0))).flatten();
                let by_length = self.ends.end_by_length(NodeTime(self.now));
                ends.extend(by_bytes.or(by_length).map(|at| (at.0 - began) / 1_000));
                self.bytes += if sends { 1_250 } else { 0 } + self.noise;
            }
            self.now = began + takes * MS;
            ends
        }

        fn starts(&mut self, count: usize, ups: &[(u64, u64)], takes: u64, counted: bool) -> Vec<Vec<u64>> {
            (0..count).map(|_| self.start(ups, takes, counted)).collect()
        }
    }

    /// Whether each start has one end between these microseconds.
    fn within(ends: &[Vec<u64>], from: u64, to: u64) -> bool {
        ends.iter().all(|ends| matches!(ends[..], [at] if (from..=to).contains(&at)))
    }

    #[test]
    fn bytes_tell_the_end_from_the_fourth_start_on() {
        let mut host = Host::new();
        // Two starts tell that the job tells no ends, two teach what it sends; nothing else is known of their ends.
        assert_eq!(host.starts(3, &[(0, 110)], 250, true), vec![Vec::<u64>::new(); 3]);
        let ends = host.starts(20, &[(0, 110)], 250, true);
        assert!(within(&ends, 108_000, 112_000), "{ends:?}");
        let before = host.looks;
        host.start(&[(0, 110)], 250, true);
        assert!((10..60).contains(&(host.looks - before)), "{} looks", host.looks - before);
    }

    #[test]
    fn a_gap_between_two_phases_is_no_end_and_neither_is_the_time_before_the_first() {
        for ups in [&[(0, 40), (70, 110)][..], &[(60, 110)], &[(20, 60), (100, 110)]] {
            let mut host = Host::new();
            host.starts(4, ups, 250, true);
            let ends = host.starts(20, ups, 250, true);
            assert!(within(&ends, 107_000, 113_000), "{ups:?}: {ends:?}");
        }
    }

    #[test]
    fn each_phase_has_an_end_of_its_own() {
        let mut host = Host::new();
        let mut ends = [Vec::new(), Vec::new()];
        for round in 0..20 {
            for (phase, up, takes) in [(1, 30, 80), (2, 90, 170)] {
                host.phase = phase;
                let found = host.start(&[(0, up)], takes, true);
                // Two starts of each phase teach it.
                if round > 2 {
                    ends[phase as usize - 1].push(found);
                }
            }
        }
        assert!(within(&ends[0], 28_000, 32_000) && within(&ends[1], 88_000, 92_000), "{ends:?}");
    }

    #[test]
    fn other_traffic_that_is_steady_and_slower_changes_no_end() {
        let mut host = Host::new();
        host.noise = 200;
        host.starts(4, &[(0, 110)], 250, true);
        let ends = host.starts(20, &[(0, 110)], 250, true);
        assert!(within(&ends, 107_000, 130_000), "{ends:?}");
    }

    #[test]
    fn an_iteration_that_sends_less_ends_late_and_one_that_sends_nothing_too() {
        let mut host = Host::new();
        host.starts(8, &[(0, 110)], 250, true);
        let short = host.starts(1, &[(0, 80)], 250, true);
        // It is told after 9/8 of 110 ms, and lies where the rate fell, as far as the looks of that time tell: an eighth of 110 ms apart.
        assert!(within(&short, 79_000, 94_000), "{short:?}");
        // What does not repeat itself is not believed: from here on the time counts, until two agree again.
        host.ends.expects(0, Nanos(100 * MS));
        let next = host.starts(1, &[(0, 110)], 250, true);
        assert!(within(&next, 100_000, 100_200), "{next:?}");
        host.starts(2, &[(0, 110)], 250, true);
        assert!(within(&host.starts(5, &[(0, 110)], 250, true), 108_000, 112_000));
    }

    #[test]
    fn without_bytes_the_length_counts_that_the_service_expects() {
        let mut host = Host::new();
        assert!(host.starts(5, &[(0, 110)], 250, false).iter().all(Vec::is_empty), "of an unknown length");
        host.ends.expects(0, Nanos(90 * MS));
        assert!(within(&host.starts(3, &[(0, 110)], 250, false), 90_000, 90_100));
        // What was measured goes before it, also where bytes are not to be had any more.
        host.starts(4, &[(0, 110)], 250, true);
        let ends = host.starts(3, &[(0, 110)], 250, false);
        assert!(within(&ends, 109_000, 113_000), "{ends:?}");
    }

    #[test]
    fn a_port_without_silence_tells_nothing_and_the_length_counts() {
        let mut host = Host::new();
        host.ends.expects(0, Nanos(90 * MS));
        host.starts(3, &[(0, 250)], 250, true);
        let ends = host.starts(8, &[(0, 250)], 250, true);
        assert!(within(&ends, 90_000, 90_100), "{ends:?}");
        // Nor does one that carries next to nothing.
        let mut host = Host::new();
        host.ends.expects(0, Nanos(90 * MS));
        host.noise = 1;
        host.starts(3, &[], 250, true);
        let ends = host.starts(8, &[], 250, true);
        assert!(within(&ends, 90_000, 90_100), "{ends:?}");
    }

    #[test]
    fn who_tells_the_ends_is_never_looked_at() {
        let mut host = Host::new();
        host.ends.expects(0, Nanos(90 * MS));
        for _ in 0..20 {
            host.ends.told();
            assert_eq!(host.start(&[(0, 110)], 250, true), Vec::<u64>::new());
        }
        assert_eq!(host.looks, 0);
    }

    #[test]
    fn looks_are_bounded_and_a_counter_that_begins_anew_ends_nothing() {
        let mut host = Host::new();
        host.starts(4, &[(0, 110)], 250, true);
        host.looks = 0;
        host.start(&[(0, 50_000)], 60_000, true);
        assert!(host.looks <= LOOKS_MAX, "{}", host.looks);
        let mut host = Host::new();
        host.starts(6, &[(0, 110)], 250, true);
        host.ends.started(NodeTime(host.now), 0);
        host.ends.end_by_bytes(NodeTime(host.now + MS), host.bytes, Nanos(0));
        assert_eq!(host.ends.end_by_bytes(NodeTime(host.now + 200 * MS), 5, Nanos(0)), None);
        assert_eq!(host.ends.look_at(), None);
        // Also between two starts.
        host.start(&[(0, 110)], 250, true);
        host.ends.started(NodeTime(host.now), 0);
        assert_eq!(host.ends.end_by_bytes(NodeTime(host.now + MS), 5, Nanos(0)), None);
    }
}
