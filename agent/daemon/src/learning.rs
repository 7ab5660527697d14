//! Iterations of the job on this host, learned from the bytes of its busiest port, on a thread of its own.
//!
//! A job that nobody holds keeps no beat, so its iterations are found one by one ([`telemetry::learn_jobs`]), which takes longer than a
//! reading may wait. Bytes do not say whose they are: only a job that is alone on its host is learned.

use std::{
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
};

use gate::now;
use proto::v1alpha1 as wire;
use telemetry::{Learned, Series, learn_jobs};
use units::{Nanos, NodeTime, Rate};

/// How long what was learned stands for the job of now.
pub const FRESH: Nanos = Nanos::from_millis(60_000);

/// A job that is to be learned. Bytes do not say whose they are, so each has a number of its own and a time at which it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) generation: u64,
    /// Readings from before are another job's.
    pub(crate) since: NodeTime,
}

/// The last readings of one port.
#[derive(Debug)]
pub(crate) struct Question {
    /// Of the job that they are of.
    pub(crate) generation: u64,
    pub(crate) port: String,
    /// From after its beginning.
    pub(crate) series: Series,
    pub(crate) step: Nanos,
    /// Of the bytes both ways the part that was sent, in thousandths: rates of profiles are of one direction.
    pub(crate) sent_permille: u64,
}

/// The one job behind a port.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnedJob {
    /// The port.
    pub port: String,
    /// When it was learned.
    pub at: NodeTime,
    /// What was learned; rates are of what the port sends.
    pub job: Learned,
}

/// A running thread, which ends with this value and its clones.
#[derive(Clone, Debug)]
pub struct Learning {
    asked: SyncSender<Question>,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Counts jobs, also those that are over.
    generation: u64,
    /// When the one of now began.
    since: Option<NodeTime>,
    /// What was learned of it.
    found: Option<LearnedJob>,
}

impl Learning {
    /// Starts the thread.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn start() -> io::Result<Self> {
        // One question waits at most: while the thread thinks, newer readings come by themselves.
        let (asked, questions) = sync_channel(1);
        let shared = Arc::new(Mutex::new(Shared::default()));
        let to = Arc::clone(&shared);
        thread::Builder::new().name("learning".into()).spawn(move || work(&questions, &to))?;
        Ok(Self { asked, shared })
    }

    /// From now on another job is to be learned, or none. What was learned is forgotten, and what is being learned is dropped.
    pub fn begin(&self, since: Option<NodeTime>) {
        let mut shared = lock(&self.shared);
        *shared = Shared { generation: shared.generation + 1, since, found: None };
    }

    pub(crate) fn wanted(&self) -> Option<Wanted> {
        let shared = lock(&self.shared);
        shared.since.map(|since| Wanted { generation: shared.generation, since })
    }

    /// Asks, unless a question waits already.
    pub(crate) fn ask(&self, question: Question) {
        let _ = self.asked.try_send(question);
    }

    /// What was learned last, if that is not long ago.
    #[must_use]
    pub fn found(&self, now: NodeTime) -> Option<LearnedJob> {
        lock(&self.shared).found.clone().filter(|found| now.since(found.at) <= FRESH)
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    // Nothing that can panic runs while it is held.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Until nobody can ask any more.
fn work(questions: &Receiver<Question>, shared: &Mutex<Shared>) {
    while let Ok(question) = questions.recv() {
        let Question { generation, port, series, step, sent_permille } = question;
        // Two jobs behind one port are none that could be told apart by name.
        let jobs = learn_jobs(&series, step).inspect_err(|problem| tracing::debug!(port, %problem, "the job is not learned yet"));
        let one = jobs.ok().filter(|jobs| jobs.len() == 1).and_then(|mut jobs| jobs.pop());
        let learned = one.map(|job| LearnedJob { port, at: now(), job: sent_only(job, sent_permille) });
        let mut shared = lock(shared);
        // The job may have become another while this one was thought about.
        if learned.is_some() && shared.generation == generation {
            shared.found = learned;
        }
    }
}

fn sent_only(mut job: Learned, sent_permille: u64) -> Learned {
    for phase in &mut job.phases {
        phase.rate = Rate((phase.rate.mbps().saturating_mul(sent_permille) / 1_000).max(1));
    }
    job
}

/// What was learned of a job, for the service. A phase over the end of the iteration is two.
#[must_use]
pub fn message(name: &str, learned: &LearnedJob) -> wire::LearnedJob {
    let Learned { period, jitter, confidence, iterations, ref phases, .. } = learned.job;
    let ppm = |share: f64| (share * 1e6).round().clamp(0.0, 1e9) as u64;
    let mut spans: Vec<wire::Phase> = Vec::with_capacity(phases.len() + 1);
    for phase in phases {
        let (start, rate_mbps) = (phase.start.0 % period.0.max(1), phase.rate.mbps());
        let end = start.saturating_add(phase.duration.0.min(period.0));
        spans.push(wire::Phase { start_ns: start, end_ns: end.min(period.0), rate_mbps });
        if end > period.0 {
            spans.push(wire::Phase { start_ns: 0, end_ns: end - period.0, rate_mbps });
        }
    }
    spans.retain(|span| span.start_ns < span.end_ns);
    spans.sort_by_key(|span| span.start_ns);
    wire::LearnedJob {
        job: name.into(),
        port: learned.port.clone(),
        period_ns: period.0,
        jitter_ppm: ppm(jitter),
        confidence_ppm: ppm(confidence),
        iterations: iterations as u64,
        phases: spans,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// From a time on a job of some 100 ms that sends at 8 Gb/s for 40 of them, as much both ways, with iterations a little longer and shorter.
    fn series(begin_ms: u64) -> Series {
        let mut series = Series::default();
        let (mut at, mut bytes) = (begin_ms, 0);
        for iteration in 0..30_u64 {
            let length = 96 + iteration * 7 % 9;
            for ms in 0..length {
                if (at + ms) % 4 == 0 {
                    series.push(NodeTime((at + ms) * 1_000_000), Some(bytes));
                }
                bytes += if ms < 40 { 2_000_000 } else { 0 };
            }
            at += length;
        }
        series
    }

    fn ask(learning: &Learning, generation: u64) {
        let question = Question { generation, port: "ens1".into(), series: series(0), step: Nanos::from_millis(4), sent_permille: 500 };
        // The thread takes what waits; a question that found no room would be no question.
        learning.asked.send(question).unwrap();
    }

    fn found(learning: &Learning) -> LearnedJob {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(found) = learning.found(now()) {
                return found;
            }
            assert!(Instant::now() < until, "nothing was learned");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_job_that_keeps_no_beat_is_learned_beside_the_readings() {
        let learning = Learning::start().unwrap();
        learning.begin(Some(NodeTime(0)));
        ask(&learning, learning.wanted().unwrap().generation);
        let found = found(&learning);
        // Half of 16 Gb/s both ways.
        assert!(found.job.period.0.abs_diff(100_000_000) < 1_000_000, "{found:?}");
        let told = message("bert", &found);
        let [phase] = &told.phases[..] else { panic!("{told:?}") };
        assert!(
            (7_000..=9_000).contains(&phase.rate_mbps) && (32_000_000..=48_000_000).contains(&(phase.end_ns - phase.start_ns)),
            "{told:?}"
        );
        learning.begin(None);
        assert_eq!((learning.found(now()), learning.wanted()), (None, None));
    }

    #[test]
    fn an_answer_about_the_job_before_is_dropped() {
        let (asked, questions) = sync_channel(2);
        let learning = Learning { asked, shared: Arc::default() };
        learning.begin(Some(NodeTime(0)));
        let before = learning.wanted().unwrap().generation;
        learning.begin(Some(NodeTime(1)));
        let present = learning.wanted().unwrap().generation;
        // The thread's work, until nobody can ask: of the job before, and then of the one of now.
        for (generation, is_found) in [(before, false), (present, true)] {
            ask(&learning, generation);
            let shared = Arc::clone(&learning.shared);
            let question = questions.recv().unwrap();
            let (once, one) = sync_channel(1);
            once.send(question).unwrap();
            drop(once);
            work(&one, &shared);
            assert_eq!(learning.found(now()).is_some(), is_found);
        }
    }

    #[test]
    fn a_phase_over_the_end_is_two() {
        let phase = |start, duration| telemetry::BusyPhase { start: Nanos(start), duration: Nanos(duration), rate: Rate(5) };
        let job = Learned {
            period: Nanos(100),
            jitter: 0.05,
            confidence: 0.9,
            iterations: 20,
            phases: vec![phase(80, 30), phase(40, 10)],
            origin: NodeTime(0),
        };
        let told = message("j", &LearnedJob { port: "p".into(), at: NodeTime(0), job });
        let spans: Vec<(u64, u64)> = told.phases.iter().map(|phase| (phase.start_ns, phase.end_ns)).collect();
        assert_eq!((spans.as_slice(), told.jitter_ppm, told.confidence_ppm), (&[(0, 10), (40, 50), (80, 100)][..], 50_000, 900_000));
    }
}
