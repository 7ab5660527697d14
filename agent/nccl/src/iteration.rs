//! Where in what a job calls an iteration begins to communicate, and where it ends.
//!
//! The calls of a job repeat themselves ([`gate_core::repeat()`]), but the sequence alone does not say with which of them an iteration begins:
//! that is the one before which nothing was sent for longest. Nor does it say how many equal buckets are one iteration. So some iterations are timed,
//! by the stream and not by the host, which may be iterations ahead; the first call is the one with the longest silence before it in each of them.

use gate_core::{ALIKE_MAX, REPEATS_MIN, Repeat, Silence, UNKNOWN, by_silences, repeat_with};
use units::{Nanos, NodeTime};

/// Calls that are kept, of which [`REPEATS_MIN`] iterations have to be; and calls that are timed.
pub(crate) const CALLS_MAX: usize = 4_096;
/// Calls of an iteration that is followed.
const LENGTH_MAX: usize = CALLS_MAX / REPEATS_MIN;
/// Shorter silences are between two buckets and not between two iterations.
const SILENCE_MIN: Nanos = Nanos::from_millis(1);
/// For so long a job is watched before its calls are looked at, and each time that says nothing for twice as long, up to
/// [`WATCHED_MAX`]: three iterations have to be in it.
const WATCHED_MIN: Nanos = Nanos::from_millis(3_000);
/// An iteration of a minute is in it three times.
const WATCHED_MAX: Nanos = Nanos::from_millis(192_000);
/// Most calls that are timed of shorter iterations: eight of as many equal buckets as there may be.
const TIMED_MAX: usize = 8 * ALIKE_MAX;
/// Calls that were not expected, such as a loss that is averaged now and then, are passed over as long as they are no more than one in so many.
/// More of them are equal buckets in a row that were taken for iterations, or another loop.
const ASTRAY_ONE_IN: usize = 32;
/// So many in a row that were not expected are another loop.
const ASTRAY_MAX: usize = 8;

/// What a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Nothing is known of it, or nothing is to be done.
    Any,
    /// To be timed, under this number: below [`CALLS_MAX`].
    Timed(usize),
    /// The times have to come; ask [`Calls::decide`].
    Waits,
    /// Nothing can be done with such calls.
    Streams,
    /// An iteration begins to communicate with it.
    First,
    /// It is the last of its iteration.
    Last,
    /// Both.
    Only,
}

/// When a call began and ended for the stream, in ns; 0 where nobody knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) begin: u64,
    pub(crate) end: u64,
}

/// What was found in the calls of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// An iteration of so many calls begins after a silence, whose length is that of the iteration where it was shortest.
    Begins { calls: usize, silence: Nanos },
    /// Of so many calls none stands out by a silence.
    NoSilence { calls: usize },
    /// Calls come on several streams: what waits on one would stop the others too late, and its end is not theirs.
    Streams,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Times are taken, of so many calls.
    Timed(usize),
    /// Times of so many calls were asked for and are under way.
    Waits(usize),
    /// The first call of an iteration is known.
    Held(usize),
    /// No call stands out.
    Unheld,
}

/// An iteration that is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Followed {
    /// Calls that came as expected since the first one that was timed.
    count: usize,
    /// Grows by [`ASTRAY_ONE_IN`] with a call that was not expected, and shrinks by one with any other.
    astray: usize,
    part: Part,
    /// A first call came, and its last one did not.
    is_open: bool,
}

/// The calls of one process. Allocates nothing after [`Self::new`].
#[derive(Debug)]
pub(crate) struct Calls {
    kept: Vec<u64>,
    /// Since when, for how long, and on which stream by its number.
    began: Option<NodeTime>,
    watched: Nanos,
    stream: usize,
    has_streams: bool,
    borders: Vec<usize>,
    /// The calls of the iteration that is followed.
    iteration: Vec<u64>,
    /// Before each call that was timed.
    silences: Vec<u64>,
    followed: Option<Followed>,
}

impl Calls {
    pub(crate) fn new() -> Self {
        let [kept, iteration, silences] = [CALLS_MAX, LENGTH_MAX, CALLS_MAX].map(Vec::with_capacity);
        Self {
            kept,
            began: None,
            watched: WATCHED_MIN,
            stream: 0,
            has_streams: false,
            borders: Vec::with_capacity(CALLS_MAX),
            iteration,
            silences,
            followed: None,
        }
    }

    /// A call, in the order of the job; `what` tells it from others, and `stream` is a number of its stream.
    pub(crate) fn called(&mut self, what: u64, stream: usize, at: NodeTime) -> Place {
        if self.followed.is_some() {
            // Another stream is another loop.
            return if stream == self.stream { self.follow(what) } else { self.astray() };
        }
        let began = *self.began.get_or_insert(at);
        self.has_streams |= !self.kept.is_empty() && stream != self.stream;
        self.stream = stream;
        if self.kept.len() == CALLS_MAX {
            self.kept.drain(..CALLS_MAX / 2);
        }
        self.kept.push(what);
        if at.since(began) < self.watched {
            return Place::Any;
        }
        let streams = self.has_streams;
        if streams || !self.look() {
            self.begin_anew();
        }
        if streams { Place::Streams } else { Place::Any }
    }

    fn follow(&mut self, what: u64) -> Place {
        let Some(followed) = self.followed.as_mut() else { return Place::Any };
        let length = self.iteration.len();
        let (number, place) = (followed.count, followed.count % length);
        if self.iteration.get(place) != Some(&what) {
            return self.astray();
        }
        followed.astray = followed.astray.saturating_sub(1);
        followed.count += 1;
        match followed.part {
            Part::Timed(calls) => {
                if number + 1 == calls {
                    followed.part = Part::Waits(calls);
                }
                Place::Timed(number)
            }
            // Once an iteration, because looking whether all times are there has its price.
            Part::Waits(_) if place == 0 => Place::Waits,
            Part::Held(_) if length == 1 => Place::Only,
            Part::Held(first) if place == first => {
                followed.is_open = true;
                Place::First
            }
            Part::Held(first) if (place + 1) % length == first && followed.is_open => {
                followed.is_open = false;
                Place::Last
            }
            _ => Place::Any,
        }
    }

    /// A call that was not expected.
    fn astray(&mut self) -> Place {
        if let Some(followed) = self.followed.as_mut() {
            followed.astray += ASTRAY_ONE_IN;
            if followed.astray > ASTRAY_MAX * ASTRAY_ONE_IN {
                self.begin_anew();
            }
        }
        Place::Any
    }

    /// Forgets all calls, and watches the next ones for longer.
    pub(crate) fn begin_anew(&mut self) {
        (self.followed, self.began, self.has_streams) = (None, None, false);
        self.kept.clear();
        self.watched = Nanos(self.watched.0.saturating_mul(2)).min(WATCHED_MAX);
    }

    /// Whether the calls that were watched are iterations, which are followed from now on.
    fn look(&mut self) -> bool {
        let Some(Repeat { length, .. }) = repeat_with(&self.kept, &mut self.borders) else { return false };
        let Some(iteration) = self.kept.len().checked_sub(length).and_then(|first| self.kept.get(first..)) else { return false };
        self.iteration.clear();
        self.iteration.extend_from_slice(iteration);
        // Of all calls, not of the last ones alone: read backwards, each is the one that is expected, or was not.
        let (mut expected, mut astray) = (self.iteration.iter().rev().cycle().peekable(), 0);
        for call in self.kept.iter().rev() {
            if expected.next_if_eq(&call).is_none() {
                astray += 1;
            }
        }
        if astray * ASTRAY_ONE_IN > self.kept.len() {
            return false;
        }
        let timed = self.kept.len().min(TIMED_MAX.max(2 * REPEATS_MIN * length)).max(REPEATS_MIN * length);
        self.followed = Some(Followed { count: 0, astray: 0, part: Part::Timed(timed), is_open: false });
        true
    }

    /// Learns from the times of the calls how many are an iteration, and which is the first.
    pub(crate) fn decide(&mut self, span: impl Fn(usize) -> Span) -> Option<Found> {
        let followed = self.followed.as_mut()?;
        let Part::Waits(timed) = followed.part else { return None };
        let alike = self.iteration.len();
        self.silences.clear();
        let mut ended = 0;
        for number in 0..timed.min(CALLS_MAX) {
            let Span { begin, end } = span(number);
            self.silences.push(match number {
                // What came before it was not timed.
                0 => UNKNOWN,
                // A begin that nobody knows is no silence.
                _ if begin == 0 || ended == 0 => 0,
                _ => begin.saturating_sub(ended),
            });
            ended = ended.max(begin).max(end);
        }
        let is_long = |_, silence: u64| silence >= SILENCE_MIN.0;
        let Silence { length, first, shortest: silence } = by_silences(&self.silences, alike, LENGTH_MAX, is_long);
        let first = (silence >= SILENCE_MIN.0).then_some(first);
        if first.is_some() {
            (1..length / alike).for_each(|_| self.iteration.extend_from_within(..alike));
        }
        followed.part = first.map_or(Part::Unheld, Part::Held);
        let calls = self.iteration.len();
        if first.is_some() {
            self.watched = WATCHED_MIN;
        }
        Some(if first.is_some() { Found::Begins { calls, silence: Nanos(silence) } } else { Found::NoSilence { calls } })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    /// A job whose stream is as far behind its host as the test says.
    #[derive(Default)]
    struct Job {
        spans: Vec<Span>,
        stream: u64,
        host: u64,
        /// The number of the stream.
        on: usize,
    }

    /// A call, what the stream computes before it, and how long it sends, in ms.
    type Step = (u64, u64, u64);

    impl Job {
        fn call(&mut self, calls: &mut Calls, (what, computes, sends): Step) -> Place {
            self.host += computes * MS;
            let place = calls.called(what, self.on, NodeTime(self.host));
            let begin = self.stream.max(self.host) + computes * MS;
            self.stream = begin + sends * MS;
            if let Place::Timed(number) = place {
                self.spans.resize(self.spans.len().max(number + 1), Span::default());
                self.spans[number] = Span { begin, end: self.stream };
            }
            if place == Place::Waits {
                calls.decide(|number| self.spans[number]);
            }
            place
        }

        /// What the calls of the last of so many iterations are.
        fn play(&mut self, calls: &mut Calls, iteration: &[Step], count: usize) -> Vec<Place> {
            let mut last = Vec::new();
            for _ in 0..count {
                last = iteration.iter().map(|&step| self.call(calls, step)).collect();
            }
            last
        }
    }

    #[test]
    fn an_iteration_begins_after_the_longest_silence_wherever_the_calls_were_first_seen() {
        use Place::{Any, First, Last};
        let (mut calls, mut job) = (Calls::new(), Job::default());
        job.play(&mut calls, &[(100, 1, 1), (101, 500, 1), (102, 1, 1)], 1);
        let iteration = [(1, 5, 20), (2, 5, 20), (2, 5, 90), (3, 200, 20), (4, 5, 9)];
        assert_eq!(job.play(&mut calls, &iteration, 100), [Any, Any, Last, First, Any]);
    }

    /// A call that sends for long is no silence.
    #[test]
    fn silence_begins_where_a_call_has_ended() {
        let (mut calls, mut job) = (Calls::new(), Job::default());
        assert_eq!(job.play(&mut calls, &[(1, 100, 300), (2, 5, 5), (3, 5, 5)], 60), [Place::First, Place::Any, Place::Last]);
    }

    #[test]
    fn equal_buckets_are_no_iterations() {
        let (mut calls, mut job) = (Calls::new(), Job::default());
        let mut iteration = vec![(1, 100, 5)];
        iteration.extend([(2, 3, 5); 24]);
        iteration.push((3, 1, 5));
        let places = job.play(&mut calls, &iteration, 60);
        assert_eq!((places[0], places[25]), (Place::First, Place::Last));
        assert!(places[1..25].iter().all(|&place| place == Place::Any));
    }

    /// DistributedDataParallel makes such buckets of layers of one size.
    #[test]
    fn of_calls_that_are_all_alike_the_silences_tell_the_iterations() {
        use Place::{Any, First, Last};
        for buckets in [2, 4, 7, 60] {
            let (mut calls, mut job) = (Calls::new(), Job::default());
            let mut iteration = vec![(7, 3, 5); buckets];
            iteration[0] = (7, 150, 5);
            let places = job.play(&mut calls, &iteration, 100);
            assert_eq!((places[0], places[buckets - 1]), (First, Last), "{buckets}");
            assert!(places[1..buckets - 1].iter().all(|&place| place == Any));
        }
        // Two kinds in turn, four times.
        let (mut calls, mut job) = (Calls::new(), Job::default());
        let mut iteration = [(1, 0, 5), (2, 0, 5)].repeat(4);
        iteration[3] = (2, 90, 5);
        assert_eq!(job.play(&mut calls, &iteration, 100), [Any, Any, Last, First, Any, Any, Any, Any]);
    }

    /// Three iterations of two seconds are in no three seconds.
    #[test]
    fn long_iterations_are_watched_for_longer() {
        let (mut calls, mut job) = (Calls::new(), Job::default());
        let mut iteration = vec![(1, 1_000, 25)];
        iteration.extend([(2, 15, 25); 24]);
        iteration.push((3, 15, 25));
        let places = job.play(&mut calls, &iteration, 40);
        assert_eq!((places[0], places[25]), (Place::First, Place::Last));
        assert!(places[1..25].iter().all(|&place| place == Place::Any));
        // Shards: gathered for the forward pass, gathered again and scattered for the backward one.
        let (mut calls, mut job) = (Calls::new(), Job::default());
        let mut iteration = vec![(1, 10, 10); 48];
        iteration.extend([(1, 5, 10), (2, 5, 10)].repeat(48));
        iteration.push((3, 1, 1));
        iteration[0] = (1, 300, 10);
        let places = job.play(&mut calls, &iteration, 40);
        assert_eq!((places[0], places[144]), (Place::First, Place::Last));
        assert!(places[1..144].iter().all(|&place| place == Place::Any));
    }

    #[test]
    fn calls_on_several_streams_are_not_held_and_those_of_a_new_one_are_learned() {
        let (mut calls, mut job, mut said) = (Calls::new(), Job::default(), 0);
        for number in 0..1_000 {
            job.on = number % 2;
            match job.call(&mut calls, (number as u64 % 2, 50, 50)) {
                Place::Streams => said += 1,
                place => assert_eq!(place, Place::Any),
            }
        }
        assert!(said > 0);
        let (mut calls, mut job) = (Calls::new(), Job::default());
        assert_eq!(job.play(&mut calls, &[(1, 100, 50)], 100), [Place::Only]);
        job.on = 9;
        assert_eq!(job.play(&mut calls, &[(1, 100, 50)], 3), [Place::Any]);
        assert_eq!(job.play(&mut calls, &[(1, 100, 50)], 150), [Place::Only]);
    }

    #[test]
    fn one_call_in_an_iteration_is_both() {
        let (mut calls, mut job) = (Calls::new(), Job::default());
        assert_eq!(job.play(&mut calls, &[(1, 100, 50)], 100), [Place::Only]);
    }

    #[test]
    fn a_job_that_is_never_silent_is_not_held() {
        let (mut calls, mut job) = (Calls::new(), Job::default());
        assert_eq!(job.play(&mut calls, &[(1, 0, 50), (2, 0, 50)], 100), [Place::Any, Place::Any]);
        // Times that nobody took.
        let mut calls = Calls::new();
        for at in 0..1_000 {
            assert!(!matches!(calls.called(at % 2, 7, NodeTime(at * 50 * MS)), Place::First | Place::Last | Place::Only));
            calls.decide(|_| Span::default());
        }
    }

    #[test]
    fn a_call_now_and_then_is_passed_over_and_another_loop_is_followed() {
        let (mut calls, mut job) = (Calls::new(), Job::default());
        let iteration = [(1, 100, 50), (2, 5, 20)];
        job.play(&mut calls, &iteration, 100);
        for _ in 0..50 {
            assert_eq!(job.play(&mut calls, &iteration, 20), [Place::First, Place::Last]);
            job.play(&mut calls, &[(9, 1, 1)], 1);
        }
        let other = [(5, 1, 50), (6, 100, 20)];
        assert_eq!(job.play(&mut calls, &other, 200), [Place::Last, Place::First]);
    }

    #[test]
    fn a_sequence_too_long_is_not_followed_and_what_is_kept_is_bounded() {
        let (mut calls, mut job) = (Calls::new(), Job::default());
        let long: Vec<Step> = (0..LENGTH_MAX as u64 + 1).map(|what| (what, 1, 1)).collect();
        assert!(job.play(&mut calls, &long, 20).iter().all(|&place| place == Place::Any));
        assert!(calls.kept.capacity() == CALLS_MAX && calls.borders.capacity() == CALLS_MAX);
        let just: Vec<Step> = (0..LENGTH_MAX as u64 / 2).map(|what| (what, if what == 7 { 50 } else { 1 }, 1)).collect();
        let places = job.play(&mut calls, &just, 60);
        assert_eq!((places[6], places[7]), (Place::Last, Place::First));
    }

    proptest! {
        /// Whatever a job calls, and whatever comes between: no end comes without its start.
        #[test]
        fn a_last_call_has_a_first_one(
            iteration in prop::collection::vec((0_u64..3, 0_u64..300, 0_u64..50), 1..7),
            between in prop::collection::vec((0_usize..80, 0_u64..3), 0..20),
        ) {
            let (mut calls, mut job, mut is_open, mut firsts) = (Calls::new(), Job::default(), false, 0);
            for round in 0..120 {
                let more = between.iter().filter(|(at, _)| *at == round).map(|(_, what)| (*what, 1, 1));
                for step in more.chain(iteration.iter().copied()) {
                    match job.call(&mut calls, step) {
                        Place::First => (is_open, firsts) = (true, firsts + 1),
                        Place::Last => prop_assert!(core::mem::take(&mut is_open)),
                        Place::Only => firsts += 1,
                        _ => {}
                    }
                }
            }
            let computes = iteration.iter().map(|(_, computes, _)| *computes).max().unwrap();
            prop_assert!(firsts > 0 || computes < 150 || !between.is_empty(), "{iteration:?}");
        }
    }
}
