//! Recent counters of ports and iteration times of jobs, in memory, one value a step.
//!
//! Agents send samples of milliseconds; the page and the CLI draw minutes. Increments within one step are added up, and of a
//! job's reports the last in a step stays.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use proto::v1alpha1::{self as pb, CounterSeries, GetTelemetryRequest, GetTelemetryResponse, HostSeries, JobSeries, Telemetry};
use units::{FabricTime, Nanos};

use crate::{
    congestion::{Congestion, Stand},
    tally::Tally,
};

/// Width of a step: what a graph of minutes can show.
pub const STEP_NS: u64 = 1_000_000_000;
/// Steps held per series: ten minutes.
pub const STEPS_MAX: usize = 600;
/// Ports held; with the limits below at most 250 MiB, and 150 for jobs. Ports that come later are dropped and counted.
pub const PORTS_MAX: usize = 2_048;
/// Ports held of one host, as many as its agent may name: one that makes names up takes an eighth of the places, and not those of others.
pub const PORTS_OF_HOST_MAX: usize = state::config::PORTS_MAX;
/// Counters of one port: bytes and packets both ways, marks, CNPs, pauses, losses.
pub const COUNTERS_MAX: usize = 24;
/// Jobs held: as many as a plan has at most.
pub const JOBS_MAX: usize = state::config::JOBS_MAX;
/// Longest name of a counter or a port; ours have up to 40 bytes.
const NAME_BYTES_MAX: usize = 64;
/// How far a sample may lie ahead of the service's clock; the bound of a clock that is any use is far below.
const AHEAD_STEPS_MAX: u64 = 2;
/// Seconds of an answer when the caller names none.
const SECONDS_DEFAULT: u32 = 300;
/// Steps that a rate is the mean of: several iterations of every job that we know of, and soon enough for who looks on.
const RATE_STEPS: u64 = 10;
/// Series of one answer.
const ANSWER_SERIES_MAX: usize = 512;
/// Values of the ports of one answer: five counters of [`ANSWER_SERIES_MAX`] ports in [`SECONDS_DEFAULT`] are fewer, six are more. An
/// agent chooses them, and as text each takes up to 23 bytes.
const ANSWER_VALUES_MAX: usize = 1 << 20;

/// The ports of one answer, in order: of each host one, then the second of each, so that a host with many hides no other.
fn in_turn<'a>(ports: impl Iterator<Item = (&'a (String, String), usize)>) -> BTreeSet<&'a (String, String)> {
    let (mut place, mut last) = (0, "");
    let mut all: Vec<(usize, &(String, String), usize)> = Vec::new();
    for (port, values) in ports {
        place = if port.0 == last { place + 1 } else { 0 };
        last = &port.0;
        all.push((place, port, values));
    }
    all.sort_unstable();
    fitting(all.into_iter().map(|(_, port, values)| (port, values))).collect()
}

/// The first of them that one answer has room for.
fn fitting<T>(series: impl Iterator<Item = (T, usize)>) -> impl Iterator<Item = T> {
    let within = |sum: &mut usize, (series, values): (T, usize)| {
        *sum += values;
        (*sum <= ANSWER_VALUES_MAX).then_some(series)
    };
    series.scan(0, within).take(ANSWER_SERIES_MAX)
}

/// What the ports of a host send and receive together, in bits a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rate {
    pub(crate) sent: f64,
    pub(crate) received: f64,
}

/// Takes samples and answers reads. Cloning it shares it.
#[derive(Clone, Debug, Default)]
pub struct TelemetryHandle(Arc<Mutex<Rings>>);

#[derive(Debug, Default)]
struct Rings {
    /// By host, then port.
    ports: BTreeMap<(String, String), Port>,
    /// How many of these each host has.
    of_host: Tally<String>,
    jobs: BTreeMap<String, VecDeque<JobStep>>,
    congestion: Congestion,
    dropped: u64,
}

#[derive(Debug, Default)]
struct Port {
    /// Number of each step, rising; the counters' rings run beside it.
    steps: VecDeque<u64>,
    counters: BTreeMap<String, VecDeque<u64>>,
}

#[derive(Clone, Copy, Debug)]
struct JobStep {
    step: u64,
    iteration: Nanos,
    phase_error: i64,
}

impl TelemetryHandle {
    /// Adds a frame of one port. What is malformed, too old or too much is dropped and counted.
    pub fn port(&self, now: FabricTime, host: &str, frame: &Telemetry) {
        let mut rings = self.rings();
        // A frame is judged whole before anything of it is kept: an agent chooses every name and every number in it.
        let well_formed = frame.port.len() <= NAME_BYTES_MAX
            && frame.counters.len() <= COUNTERS_MAX
            && frame.counters.iter().all(|c| c.delta.len() == frame.at_ns.len() && c.name.len() <= NAME_BYTES_MAX);
        let key = (host.to_owned(), frame.port.clone());
        // A port that is known stays welcome when the table is full: series that run are not cut for new ones.
        let is_known = rings.ports.contains_key(&key);
        let is_full = rings.ports.len() >= PORTS_MAX || rings.of_host.of(&key.0) >= PORTS_OF_HOST_MAX;
        if !well_formed || (is_full && !is_known) {
            rings.dropped += 1;
            return;
        }
        if !is_known {
            rings.of_host.add(key.0.clone(), 1);
        }
        let port = rings.ports.entry(key).or_default();
        let samples = frame.at_ns.iter().enumerate();
        let add =
            |(i, at): (usize, &u64)| port.add(now.0 / STEP_NS, at / STEP_NS, frame.counters.iter().map(|c| (c.name.as_str(), c.delta[i])));
        let is_taken: Vec<bool> = samples.map(add).collect();
        rings.dropped += is_taken.iter().filter(|taken| !**taken).count() as u64;
        rings.congestion.take(host, frame, &is_taken);
    }

    /// Jobs stand so from now on.
    pub(crate) fn follow(&self, now: FabricTime, stands: impl Iterator<Item = Stand>) {
        self.rings().congestion.follow(now, stands);
    }

    /// What is known of the marks and CNPs of each of these jobs.
    pub(crate) fn congestion<'a>(&self, jobs: impl Iterator<Item = &'a str>) -> Vec<Option<pb::Congestion>> {
        let rings = self.rings();
        jobs.map(|job| rings.congestion.of(job)).collect()
    }

    /// Adds what the gate of a job saw.
    pub fn job(&self, at: FabricTime, job: &str, iteration: Nanos, phase_error: i64) {
        let mut rings = self.rings();
        // Jobs that are gone keep their series until the next `prune`, so the table may be full for a while.
        if rings.jobs.len() >= JOBS_MAX && !rings.jobs.contains_key(job) {
            rings.dropped += 1;
            return;
        }
        let ring = rings.jobs.entry(job.to_owned()).or_default();
        let step = at.0 / STEP_NS;
        match ring.back_mut() {
            // Two reports in one step: the later one stays, because both are medians and cannot be added.
            Some(last) if last.step >= step => (last.iteration, last.phase_error) = (iteration, phase_error),
            _ => ring.push_back(JobStep { step, iteration, phase_error }),
        }
        // One step was added at most, so one goes at most.
        if ring.len() > STEPS_MAX {
            ring.pop_front();
        }
    }

    /// Forgets jobs that are gone and ports that sent nothing for as long as a series lasts.
    pub fn prune(&self, now: FabricTime, keep: impl Fn(&str) -> bool) {
        // A series lasts `STEPS_MAX` steps: a port without a sample since then has nothing left to show.
        let oldest = (now.0 / STEP_NS).saturating_sub(STEPS_MAX as u64);
        let mut rings = self.rings();
        rings.jobs.retain(|job, _| keep(job));
        let Rings { ports, of_host, .. } = &mut *rings;
        ports.retain(|(host, _), port| {
            let keeps = port.steps.back().is_some_and(|last| *last >= oldest);
            of_host.take(host, usize::from(!keeps));
            keeps
        });
    }

    /// Samples that were dropped since the start.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.rings().dropped
    }

    /// The series that are asked for.
    #[must_use]
    pub fn read(&self, now: FabricTime, request: &GetTelemetryRequest) -> GetTelemetryResponse {
        let seconds = if request.seconds == 0 { SECONDS_DEFAULT } else { request.seconds };
        let from = (now.0 / STEP_NS).saturating_sub(u64::from(seconds) * 1_000_000_000 / STEP_NS);
        let rings = self.rings();
        // A name that stands twice is asked once.
        let (hosts, names): (BTreeSet<&String>, BTreeSet<&str>) =
            (request.hosts.iter().collect(), request.jobs.iter().map(String::as_str).collect());
        let host = |wanted: &String| {
            // The keys are sorted by host and then port: those of one host are a stretch that begins at the empty port.
            let of_host = rings.ports.range((wanted.clone(), String::new())..).take_while(move |((host, _), _)| host == wanted);
            of_host.collect::<Vec<_>>()
        };
        let (ports_total, hosts) = if request.all_hosts {
            let wanted = in_turn(rings.ports.iter().map(|(key, port)| (key, port.values(from))));
            let found = wanted.into_iter().filter_map(|key| Some(rings.ports.get(key)?.series(&key.0, &key.1, from)));
            (rings.ports.len(), found.collect())
        } else {
            let wanted: Vec<_> = hosts.into_iter().flat_map(host).collect();
            let fitting = fitting(wanted.iter().map(|(key, port)| ((*key, *port), port.values(from))));
            (wanted.len(), fitting.map(|((host, name), port)| port.series(host, name, from)).collect())
        };
        let all_jobs = request.jobs.is_empty() && request.hosts.is_empty();
        let wanted: Vec<_> = rings.jobs.iter().filter(|(job, _)| all_jobs || names.contains(job.as_str())).collect();
        let jobs = wanted.iter().take(ANSWER_SERIES_MAX).map(|(job, ring)| series(job, ring, from)).collect();
        let [ports_total, jobs_total] = [ports_total, wanted.len()].map(|total| u32::try_from(total).unwrap_or(u32::MAX));
        GetTelemetryResponse { hosts, jobs, ports_total, jobs_total }
    }

    /// What each host sent and received in the last ten seconds; without those that told nothing.
    pub(crate) fn rates(&self, now: FabricTime) -> BTreeMap<String, Rate> {
        // The step of now is not over, and would count as a whole one.
        let until = now.0 / STEP_NS;
        let mut rates: BTreeMap<String, Rate> = BTreeMap::new();
        for ((host, _), port) in &self.rings().ports {
            let Some((sent, received)) = port.rate(until.saturating_sub(RATE_STEPS), until) else { continue };
            let rate = rates.entry(host.clone()).or_default();
            (rate.sent, rate.received) = (rate.sent + sent, rate.received + received);
        }
        rates
    }

    /// What all ports counted in the last seconds, by the names of counters; none of one that no port has told in that time.
    pub(crate) fn sums<const N: usize>(&self, now: FabricTime, seconds: u64, names: [&str; N]) -> [Option<f64>; N] {
        let until = now.0 / STEP_NS;
        let from = until.saturating_sub(seconds * 1_000_000_000 / STEP_NS);
        let rings = self.rings();
        names.map(|name| rings.ports.values().filter_map(|port| port.sum(name, from, until)).reduce(|a, b| a + b))
    }

    fn rings(&self) -> std::sync::MutexGuard<'_, Rings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Port {
    /// Adds increments to a step; `false` when it is too old or ahead of time.
    fn add<'a>(&mut self, now: u64, step: u64, counters: impl Iterator<Item = (&'a str, u64)>) -> bool {
        // A sample far ahead would make every honest one that follows too old, so it is refused.
        if step > now + AHEAD_STEPS_MAX || step + (STEPS_MAX as u64) < now {
            return false;
        }
        let index = match self.steps.back() {
            Some(last) if *last >= step => match self.steps.binary_search(&step) {
                Ok(index) => index,
                // The sample is late and of a step that had none: to insert a step in the middle would move all rings.
                Err(_) => return false,
            },
            _ => {
                self.steps.push_back(step);
                // Every ring grows with `steps`: the index of a step is the same in all of them.
                self.counters.values_mut().for_each(|ring| ring.push_back(0));
                if self.steps.len() > STEPS_MAX {
                    self.steps.pop_front();
                    self.counters.values_mut().for_each(|ring| {
                        ring.pop_front();
                    });
                }
                self.steps.len() - 1
            }
        };
        for (name, delta) in counters {
            // `port` bounds the names of one frame; here they are bounded over all frames of the port.
            if !self.counters.contains_key(name) && self.counters.len() >= COUNTERS_MAX {
                return false;
            }
            let ring = self.counters.entry(name.to_owned()).or_insert_with(|| std::iter::repeat_n(0, self.steps.len()).collect());
            // An increment is what an agent says: a sum that wrapped would show as a step down.
            ring[index] = ring[index].saturating_add(delta);
        }
        true
    }

    /// Increments of a counter over a span of steps; none where the port told nothing in it, or lacks the counter.
    fn sum(&self, name: &str, from: u64, until: u64) -> Option<f64> {
        let (from, to) = (self.steps.partition_point(|step| *step < from), self.steps.partition_point(|step| *step < until));
        let ring = self.counters.get(name)?;
        // Sums of increments that an agent chose, so not in integers that could overflow.
        (to > from).then(|| ring.range(from..to).map(|delta| *delta as f64).sum())
    }

    /// Bits a second of both ways over the steps of this span that have samples; none where there are none, or bytes are not counted.
    fn rate(&self, from: u64, until: u64) -> Option<(f64, f64)> {
        let steps = self.steps.iter().filter(|step| (from..until).contains(*step)).count();
        let seconds = steps as f64 * STEP_NS as f64 / 1e9;
        let bits = |name: &str| Some(self.sum(name, from, until)? * 8.0 / seconds);
        match (bits("tx_bytes"), bits("rx_bytes")) {
            (None, None) => None,
            (sent, received) => Some((sent.unwrap_or(0.0), received.unwrap_or(0.0))),
        }
    }

    /// How many values [`Self::series`] has.
    fn values(&self, from: u64) -> usize {
        (1 + self.counters.len()) * (self.steps.len() - self.steps.partition_point(|step| *step < from))
    }

    fn series(&self, host: &str, port: &str, from: u64) -> HostSeries {
        let skip = self.steps.partition_point(|step| *step < from);
        let counters =
            self.counters.iter().map(|(name, ring)| CounterSeries { name: name.clone(), delta: ring.iter().skip(skip).copied().collect() });
        HostSeries {
            host: host.into(),
            port: port.into(),
            at_ms: self.steps.iter().skip(skip).map(|step| step * STEP_NS / Nanos::PER_MILLI).collect(),
            counters: counters.collect(),
        }
    }
}

fn series(job: &str, ring: &VecDeque<JobStep>, from: u64) -> JobSeries {
    let skip = ring.partition_point(|s| s.step < from);
    let steps = || ring.iter().skip(skip);
    JobSeries {
        job: job.into(),
        at_ms: steps().map(|s| s.step * STEP_NS / Nanos::PER_MILLI).collect(),
        iteration_ns: steps().map(|s| s.iteration.0).collect(),
        phase_error_ns: steps().map(|s| s.phase_error).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::v1alpha1::CounterDeltas;

    const NOW: FabricTime = FabricTime(1_000 * STEP_NS);

    fn frame(port: &str, at_ns: &[u64], name: &str, delta: &[u64]) -> Telemetry {
        Telemetry {
            port: port.into(),
            at_ns: at_ns.to_vec(),
            counters: vec![CounterDeltas { name: name.into(), delta: delta.to_vec() }],
            queue_pairs: None,
        }
    }

    #[test]
    fn samples_of_one_step_add_up_and_absent_counters_stay_absent() {
        let telemetry = TelemetryHandle::default();
        let at = |step: u64, ms: u64| step * STEP_NS + ms * Nanos::PER_MILLI;
        telemetry.port(NOW, "h1", &frame("eth0", &[at(998, 0), at(998, 500), at(999, 1)], "rx_bytes", &[1, 2, 4]));
        telemetry.port(NOW, "h1", &frame("eth0", &[at(999, 2)], "ecn", &[7]));
        telemetry.port(NOW, "h10", &frame("eth0", &[at(999, 2)], "rx_bytes", &[9]));
        let request = GetTelemetryRequest { hosts: vec!["h1".into()], ..Default::default() };
        let read = telemetry.read(NOW, &request);
        assert_eq!(read.hosts.len(), 1);
        assert_eq!(read.hosts[0].at_ms, [998_000, 999_000]);
        let counters: Vec<_> = read.hosts[0].counters.iter().map(|c| (c.name.as_str(), c.delta.clone())).collect();
        assert_eq!(counters, [("ecn", vec![0, 7]), ("rx_bytes", vec![3, 4])]);
        assert!(read.jobs.is_empty());
        let recent = telemetry.read(NOW, &GetTelemetryRequest { seconds: 1, ..request });
        assert_eq!(recent.hosts[0].at_ms, [999_000]);
    }

    #[test]
    fn what_does_not_fit_is_dropped_and_counted() {
        let telemetry = TelemetryHandle::default();
        telemetry.port(NOW, "h", &frame("p", &[NOW.0, NOW.0], "c", &[1]));
        telemetry.port(NOW, "h", &frame("p", &[0, u64::MAX], "c", &[1, 1]));
        telemetry.port(NOW, "h", &frame(&"p".repeat(65), &[NOW.0], "c", &[1]));
        for n in 0..PORTS_MAX + 5 {
            telemetry.port(NOW, &format!("h{n}"), &frame("p", &[NOW.0], "c", &[1]));
        }
        // The malformed frame, two samples out of time, the long name, and six ports too many: "h" is held too.
        assert_eq!(telemetry.dropped(), 1 + 2 + 1 + 6);
    }

    #[test]
    fn a_host_that_makes_ports_up_takes_no_places_of_others() {
        let telemetry = TelemetryHandle::default();
        let tell = |at: u64, host: &str, port: &str| telemetry.port(FabricTime(at), host, &frame(port, &[at], "tx_bytes", &[1]));
        let held = |host: &str| {
            let request = GetTelemetryRequest { hosts: vec![host.into()], seconds: u32::MAX, ..Default::default() };
            telemetry.read(NOW, &request).hosts.len()
        };
        for port in 0..PORTS_MAX + 10 {
            tell(NOW.0, "greedy", &format!("p{port}"));
        }
        tell(NOW.0, "honest", "eth0");
        assert_eq!((held("greedy"), held("honest")), (PORTS_OF_HOST_MAX, 1));
        assert_eq!(telemetry.dropped() as usize, PORTS_MAX + 10 - PORTS_OF_HOST_MAX);
        // What a host does not tell of any more makes room for what it tells now.
        let later = NOW.0 + (STEPS_MAX as u64 + 1) * STEP_NS;
        telemetry.prune(FabricTime(later), |_| true);
        assert_eq!((held("greedy"), telemetry.rings().of_host.len()), (0, 0));
        tell(later, "greedy", "another");
        assert_eq!(held("greedy"), 1);
    }

    #[test]
    fn hosts_with_many_ports_hide_no_other_from_who_asks_for_all() {
        let telemetry = TelemetryHandle::default();
        for port in 0..PORTS_OF_HOST_MAX {
            for host in ["h1", "h2"] {
                telemetry.port(NOW, host, &frame(&format!("p{port}"), &[NOW.0], "tx_bytes", &[1]));
            }
        }
        for host in ["h3", "h4"] {
            telemetry.port(NOW, host, &frame("eth0", &[NOW.0], "tx_bytes", &[1]));
        }
        let request = GetTelemetryRequest { all_hosts: true, seconds: u32::MAX, ..Default::default() };
        let answer = telemetry.read(NOW, &request);
        let read = answer.hosts;
        let of = |host: &str| read.iter().filter(|series| series.host == host).count();
        assert_eq!((read.len(), of("h3"), of("h4")), (ANSWER_SERIES_MAX, 1, 1));
        assert!(answer.ports_total as usize > ANSWER_SERIES_MAX, "{}", answer.ports_total);
        assert!(of("h1").abs_diff(of("h2")) <= 1 && read.is_sorted_by(|a, b| (&a.host, &a.port) < (&b.host, &b.port)));
    }

    /// Found by a stranger: four readers of what agents made up took the service to 900 MiB.
    #[test]
    fn an_answer_has_room_for_so_many_values_of_each_host_some() {
        let telemetry = TelemetryHandle::default();
        let counters: Vec<CounterDeltas> =
            (0..COUNTERS_MAX).map(|n| CounterDeltas { name: format!("c{n}"), delta: vec![u64::MAX; STEPS_MAX] }).collect();
        let at_ns: Vec<u64> = (0..STEPS_MAX as u64).map(|step| NOW.0 - step * STEP_NS).rev().collect();
        for (host, ports) in [("h1", 100), ("h2", 100), ("h3", 1)] {
            for port in 0..ports {
                let frame = Telemetry { port: format!("p{port}"), at_ns: at_ns.clone(), counters: counters.clone(), queue_pairs: None };
                telemetry.port(NOW, host, &frame);
            }
        }
        let read = |hosts: &[&str], all_hosts| {
            let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
            let answer = telemetry.read(NOW, &GetTelemetryRequest { hosts, seconds: u32::MAX, all_hosts, ..Default::default() });
            (answer.hosts, answer.ports_total)
        };
        let of = |read: &[HostSeries], host: &str| read.iter().filter(|series| series.host == host).count();
        let most = ANSWER_VALUES_MAX / ((1 + COUNTERS_MAX) * STEPS_MAX);
        let (all, total) = read(&[], true);
        assert_eq!(total, 201);
        assert_eq!((all.len(), of(&all, "h1") + of(&all, "h2"), of(&all, "h3")), (most, most - 1, 1));
        assert!(of(&all, "h1").abs_diff(of(&all, "h2")) <= 1);
        let (of_one, total) = read(&["h2"], false);
        assert_eq!((of_one.len(), total), (most, 100));
    }

    #[test]
    fn a_job_keeps_its_last_value_per_step_and_is_forgotten() {
        let telemetry = TelemetryHandle::default();
        for ms in [0, 400, 1_200] {
            telemetry.job(FabricTime(NOW.0 + ms * Nanos::PER_MILLI), "a", Nanos(ms), -1);
        }
        let read = || telemetry.read(NOW, &GetTelemetryRequest::default());
        assert_eq!(read().jobs[0].iteration_ns, [400, 1_200]);
        assert_eq!((read().jobs_total, read().ports_total), (1, 0));
        telemetry.prune(NOW, |job| job != "a");
        assert!(read().jobs.is_empty());
    }

    #[test]
    fn rings_are_bounded() {
        let telemetry = TelemetryHandle::default();
        for step in 0..STEPS_MAX as u64 + 50 {
            let now = FabricTime(step * STEP_NS);
            telemetry.port(now, "h", &frame("p", &[now.0], "c", &[1]));
            telemetry.job(now, "a", Nanos(1), 0);
        }
        let request = GetTelemetryRequest { hosts: vec!["h".into()], jobs: vec!["a".into()], seconds: u32::MAX, all_hosts: false };
        let read = telemetry.read(FabricTime(STEPS_MAX as u64 * STEP_NS), &request);
        assert_eq!((read.hosts[0].at_ms.len(), read.jobs[0].at_ms.len()), (STEPS_MAX, STEPS_MAX));
    }
}
