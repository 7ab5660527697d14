//! Whose marks and CNPs they are: what ports of hosts count is joined with the jobs that use them.
//!
//! A mark shows at the receiver, and the CNP that follows slows the sender down: of a job the numbers of all its hosts are added up. Counters
//! are a port's. Which job a port carried is known by the queue pairs on it, else by placement; where several jobs used it, each gets its share
//! by what it sends on average as planned. Nothing is planned with these numbers.

use std::collections::BTreeMap;

use proto::v1alpha1::{self as pb, Attribution, Telemetry};
use units::FabricTime;

/// Jobs that an agent may name on one port: a node runs a few.
const PORT_JOBS_MAX: usize = 64;

/// What is counted, in the order of [`NAMES`].
const MARKED: usize = 0;
const CNPS_SENT: usize = 1;
const CNPS_HANDLED: usize = 2;
const CNPS_IGNORED: usize = 3;
const RECEIVED: usize = 4;
const KINDS: usize = 5;
/// Names of the counters, but for what was received: a port of the host's IP counts its packets by codepoint, an RDMA port all of them.
const NAMES: [&str; 4] = ["ecn_marked_rx", "cnp_tx", "cnp_rx_handled", "cnp_rx_ignored"];
const BY_CODEPOINT: [&str; 3] = ["ect0_rx", "ect1_rx", "not_ect_rx"];

/// A job and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stand {
    pub(crate) job: String,
    pub(crate) hosts: Vec<String>,
    /// What it sends on average as planned, in Mbit/s; none where nobody knows.
    pub(crate) mbps: Option<f64>,
}

/// What was counted for each job since it stands where it does.
#[derive(Debug, Default)]
pub(crate) struct Congestion {
    jobs: BTreeMap<String, Counted>,
    /// The jobs that have ranks on each host.
    on: BTreeMap<String, Vec<String>>,
}

#[derive(Debug)]
struct Counted {
    stand: Stand,
    since: FabricTime,
    /// Absent where no port counts it.
    totals: [Option<f64>; KINDS],
    /// Marks that came in at each host, and CNPs that it obeyed.
    of_host: BTreeMap<String, [f64; 2]>,
    weakest: Attribution,
}

impl Congestion {
    /// These jobs stand now. What was counted of one that stands where it stood goes on.
    pub(crate) fn follow(&mut self, now: FabricTime, stands: impl Iterator<Item = Stand>) {
        let mut before = std::mem::take(&mut self.jobs);
        self.on.clear();
        for stand in stands {
            for host in &stand.hosts {
                let on = self.on.entry(host.clone()).or_default();
                // A host may have several ranks of a job.
                if on.last() != Some(&stand.job) {
                    on.push(stand.job.clone());
                }
            }
            let name = stand.job.clone();
            let counted = match before.remove(&name).filter(|counted| counted.stand.hosts == stand.hosts) {
                Some(counted) => Counted { stand, ..counted },
                None => Counted { stand, since: now, totals: [None; KINDS], of_host: BTreeMap::new(), weakest: Attribution::Unspecified },
            };
            self.jobs.insert(name, counted);
        }
    }

    /// Adds those samples of a frame that `is_taken`.
    pub(crate) fn take(&mut self, host: &str, frame: &Telemetry, is_taken: &[bool]) {
        let deltas = |name: &str| frame.counters.iter().find(|counter| counter.name == name).map(|counter| counter.delta.as_slice());
        let counted = NAMES.map(deltas);
        if counted.iter().all(Option::is_none) {
            return;
        }
        let (attribution, shares) = self.shares(host, frame.queue_pairs.as_ref());
        let codepoints: Vec<&[u64]> = BY_CODEPOINT.iter().filter_map(|name| deltas(name)).collect();
        // Of how many packets the marked ones are is told by ports that count marks, and by no others.
        let received: Vec<&[u64]> = match (counted[MARKED], codepoints.is_empty()) {
            (None, _) => Vec::new(),
            (Some(marked), false) => codepoints.into_iter().chain([marked]).collect(),
            (Some(_), true) => deltas("rx_packets").into_iter().collect(),
        };
        for (job, share) in shares {
            let Some(of_job) = self.jobs.get_mut(&job) else { continue };
            let is_of_job: Vec<bool> = frame.at_ns.iter().zip(is_taken).map(|(at, taken)| *taken && *at >= of_job.since.0).collect();
            let sum = |delta: &[u64]| -> f64 { delta.iter().zip(&is_of_job).filter(|(_, is)| **is).map(|(delta, _)| *delta as f64).sum() };
            let mut passed = [None; KINDS];
            for (passed, delta) in passed.iter_mut().zip(counted) {
                *passed = delta.map(|delta| share * sum(delta));
            }
            passed[RECEIVED] = (!received.is_empty()).then(|| share * received.iter().map(|delta| sum(delta)).sum::<f64>());
            of_job.add(host, attribution, passed);
        }
    }

    /// Who used a port, with shares of 1, and how that is known.
    fn shares(&self, host: &str, told: Option<&pb::QueuePairs>) -> (Attribution, Vec<(String, f64)>) {
        // Where some queue pairs are of nobody known, they may be of any job with ranks there.
        let told = told.filter(|told| told.others == 0 && !told.jobs.is_empty() && told.jobs.len() <= PORT_JOBS_MAX);
        let mut jobs: Vec<&str> = match told {
            Some(told) => told.jobs.iter().map(|of| of.job.as_str()).collect(),
            None => self.on.get(host).into_iter().flatten().map(String::as_str).collect(),
        };
        jobs.sort_unstable();
        jobs.dedup();
        let attribution = match (jobs.len(), told) {
            (1, Some(_)) => Attribution::QueuePairs,
            (1, None) => Attribution::Alone,
            _ => Attribution::Shared,
        };
        let weights: Option<Vec<f64>> = jobs.iter().map(|job| self.jobs.get(*job)?.stand.mbps).collect();
        // What one of them sends is not known: then each counts as much.
        let weights = weights.unwrap_or_else(|| vec![1.0; jobs.len()]);
        let all: f64 = weights.iter().sum();
        // An agent speaks for the jobs of its host.
        let stands = |job: &str| self.on.get(host).is_some_and(|on| on.iter().any(|name| name == job));
        let shares = jobs.into_iter().zip(weights).filter(|(job, _)| stands(job));
        (attribution, shares.map(|(job, weight)| (job.to_owned(), weight / all)).collect())
    }

    /// What is known of a job.
    pub(crate) fn of(&self, job: &str) -> Option<pb::Congestion> {
        let counted = self.jobs.get(job)?;
        // Sums of shares are no whole numbers, and as many as an agent says may not fit: `as` keeps to what does.
        let whole = |kind: usize| counted.totals[kind].map(|total| total.round() as u64);
        let most = |which: usize| {
            let hosts = counted.of_host.iter().filter(|(_, of)| of[which] > 0.0);
            hosts.max_by(|(_, a), (_, b)| a[which].total_cmp(&b[which])).map(|(host, _)| host.clone()).unwrap_or_default()
        };
        counted.totals.iter().any(Option::is_some).then(|| pb::Congestion {
            since_ns: counted.since.0,
            marked: whole(MARKED),
            received: whole(RECEIVED),
            cnps_sent: whole(CNPS_SENT),
            cnps_handled: whole(CNPS_HANDLED),
            cnps_ignored: whole(CNPS_IGNORED),
            attribution: counted.weakest.into(),
            marked_host: most(0),
            slowed_host: most(1),
        })
    }
}

impl Counted {
    fn add(&mut self, host: &str, attribution: Attribution, passed: [Option<f64>; KINDS]) {
        for (total, passed) in self.totals.iter_mut().zip(passed) {
            *total = total.map_or(passed, |total| Some(total + passed.unwrap_or(0.0)));
        }
        // The values rise as what is known becomes weaker. Nothing that nobody counted says nothing of how it is known.
        if passed[..RECEIVED].iter().flatten().any(|passed| *passed > 0.0) {
            self.weakest = self.weakest.max(attribution);
            let of = self.of_host.entry(host.to_owned()).or_default();
            of[0] += passed[MARKED].unwrap_or(0.0);
            of[1] += passed[CNPS_HANDLED].unwrap_or(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use proto::v1alpha1::{CounterDeltas, JobQueuePairs, QueuePairs};

    use super::*;

    fn stand(job: &str, hosts: &[&str], mbps: Option<f64>) -> Stand {
        Stand { job: job.into(), hosts: hosts.iter().map(|host| (*host).into()).collect(), mbps }
    }

    /// One sample at each second from 10 on.
    fn frame(counters: &[(&str, &[u64])], queue_pairs: &[(&str, u32)], others: u32) -> Telemetry {
        let samples = counters.first().map_or(0, |(_, delta)| delta.len() as u64);
        let counters = counters.iter().map(|(name, delta)| CounterDeltas { name: (*name).into(), delta: delta.to_vec() });
        let jobs = queue_pairs.iter().map(|(job, count)| JobQueuePairs { job: (*job).into(), count: *count }).collect();
        Telemetry {
            port: "mlx5_0/1".into(),
            at_ns: (10..10 + samples).map(|second| second * 1_000_000_000).collect(),
            counters: counters.collect(),
            queue_pairs: (!queue_pairs.is_empty() || others > 0).then_some(QueuePairs { jobs, others }),
        }
    }

    const START: FabricTime = FabricTime(9_000_000_000);

    fn numbers(congestion: &Congestion, job: &str) -> [Option<u64>; KINDS] {
        let of = congestion.of(job).unwrap_or_default();
        [of.marked, of.received, of.cnps_sent, of.cnps_handled, of.cnps_ignored]
    }

    fn known(congestion: &Congestion, job: &str) -> Attribution {
        congestion.of(job).unwrap().attribution()
    }

    /// Two hosts: marks come in at h2, which sends CNPs, and h1 obeys them.
    #[test]
    fn marks_at_receivers_are_joined_with_cnps_at_senders() {
        let mut congestion = Congestion::default();
        congestion.follow(START, [stand("a", &["h1", "h2"], Some(10.0))].into_iter());
        assert_eq!(congestion.of("a"), None, "nobody counts anything");
        let receiver = frame(&[("ecn_marked_rx", &[40, 2]), ("rx_packets", &[900, 100]), ("cnp_tx", &[3, 1])], &[("a", 8)], 0);
        congestion.take("h2", &receiver, &[true; 2]);
        // A driver that counts no marks says nothing of them, and its packets are not those among which marks were looked for.
        let sender = frame(&[("cnp_rx_handled", &[3]), ("cnp_rx_ignored", &[0]), ("rx_packets", &[5_000])], &[("a", 8)], 0);
        congestion.take("h1", &sender, &[true]);
        assert_eq!(numbers(&congestion, "a"), [Some(42), Some(1_000), Some(4), Some(3), Some(0)]);
        let of = congestion.of("a").unwrap();
        assert_eq!((of.attribution(), of.marked_host.as_str(), of.slowed_host.as_str()), (Attribution::QueuePairs, "h2", "h1"));
        // Not what a host counts that the job does not stand on, nor samples that are refused or of before.
        congestion.take("h3", &receiver, &[true; 2]);
        congestion.take("h2", &receiver, &[false; 2]);
        congestion.follow(FabricTime(11_000_000_000), [stand("a", &["h2", "h1"], None)].into_iter());
        assert_eq!(congestion.of("a"), None, "it stands elsewhere");
        congestion.take("h2", &receiver, &[true; 2]);
        assert_eq!((numbers(&congestion, "a")[MARKED], congestion.of("a").unwrap().since_ns), (Some(2), 11_000_000_000));
    }

    #[test]
    fn a_port_of_several_jobs_is_split_by_what_they_send() {
        let mut congestion = Congestion::default();
        let jobs = |b: Option<f64>| [stand("a", &["h1", "h2"], Some(30.0)), stand("b", &["h3", "h2"], b)].into_iter();
        congestion.follow(START, jobs(Some(10.0)));
        let marks = |queue_pairs: &[(&str, u32)], others| frame(&[("ecn_marked_rx", &[101])], queue_pairs, others);
        let each = |congestion: &Congestion| ["a", "b"].map(|job| numbers(congestion, job)[MARKED].unwrap_or(0));
        // By placement both; the parts of an odd number add up to it.
        congestion.take("h2", &marks(&[], 0), &[true]);
        assert_eq!((each(&congestion), known(&congestion, "a")), ([76, 25], Attribution::Shared));
        // Queue pairs say that one alone had the port; a process of nobody known may be of either.
        congestion.take("h2", &marks(&[("b", 4)], 0), &[true]);
        assert_eq!((each(&congestion), known(&congestion, "b")), ([76, 126], Attribution::Shared));
        congestion.take("h2", &marks(&[("b", 4)], 1), &[true]);
        assert_eq!(each(&congestion), [152, 152]);
        // By placement one job alone has ranks on a host.
        congestion.take("h1", &marks(&[], 0), &[true]);
        assert_eq!(each(&congestion), [253, 152]);
        // Where nobody knows what one of them sends, each counts as much; what was counted goes on.
        congestion.follow(FabricTime(10_000_000_000), jobs(None));
        congestion.take("h2", &frame(&[("ecn_marked_rx", &[100])], &[("a", 1), ("b", 9)], 0), &[true]);
        assert_eq!(each(&congestion), [303, 202]);
        // A job that is not committed takes its part, and what an agent tells of jobs of other hosts is not taken.
        congestion.take("h2", &frame(&[("ecn_marked_rx", &[100])], &[("a", 1), ("stranger", 1)], 0), &[true]);
        congestion.take("h1", &frame(&[("ecn_marked_rx", &[100])], &[("b", 1)], 0), &[true]);
        assert_eq!(each(&congestion), [353, 202]);
        congestion.follow(FabricTime(10_000_000_000), std::iter::empty());
        assert_eq!(congestion.of("a"), None);
    }

    #[test]
    fn what_no_port_counts_is_absent_and_packets_of_ip_are_those_of_all_codepoints() {
        let mut congestion = Congestion::default();
        congestion.follow(START, [stand("a", &["h1", "h2"], Some(10.0))].into_iter());
        congestion.take("h1", &frame(&[("rx_bytes", &[7])], &[], 0), &[true]);
        assert_eq!(congestion.of("a"), None);
        // Nothing came in that was marked: it is known that it was nothing.
        let of_ip: [(&str, &[u64]); 4] = [("ecn_marked_rx", &[0]), ("ect0_rx", &[5]), ("ect1_rx", &[1]), ("not_ect_rx", &[4])];
        congestion.take("h1", &frame(&of_ip, &[], 0), &[true]);
        assert_eq!(numbers(&congestion, "a"), [Some(0), Some(10), None, None, None]);
        assert_eq!(known(&congestion, "a"), Attribution::Unspecified);
        congestion.take("h1", &frame(&[("ecn_marked_rx", &[u64::MAX])], &[], 0), &[true]);
        congestion.take("h1", &frame(&[("ecn_marked_rx", &[u64::MAX])], &[], 0), &[true]);
        assert_eq!((numbers(&congestion, "a")[MARKED], known(&congestion, "a")), (Some(u64::MAX), Attribution::Alone));
    }
}
