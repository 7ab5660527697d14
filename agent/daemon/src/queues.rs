//! Whose queue pairs are on the ports of RDMA devices, and the counters of ports that stand in no file, as the kernel's netlink tells both.
//!
//! The kernel may hold its lists for long while hundreds of queue pairs are made, so they are asked for seldom and on a thread of their own.

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use gate::job_of;
use proto::v1alpha1::{JobQueuePairs, QueuePairs};
use telemetry::nldev::{PortStatistics, QueuePair, port_statistics, queue_pairs};

use crate::nap;

/// How often is asked: a job that begins is seen within this.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// Jobs of one port that are told; those beyond count as of nobody known.
pub const JOBS_MAX: usize = 64;
/// Optional counters of one port that are kept; mlx5 has seven.
pub const OPTIONAL_MAX: usize = 32;
/// Kinds of queue pairs that carry no traffic of jobs.
const ADMINISTRATIVE: [&str; 4] = ["SMI", "GSI", "UD", "RAW_PACKET"];

/// The queue pairs of one port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairs {
    /// How many each job has.
    pub of_jobs: BTreeMap<String, u32>,
    /// How many are of the kernel, of processes without a job, and of those that the agent may not see.
    pub others: u32,
}

/// What is known of ports, by their names, such as `mlx5_0/1`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuesView {
    /// Queue pairs of ports that have some.
    pub pairs: BTreeMap<String, Pairs>,
    /// Optional counters that are on, by port and the driver's names: what they grew by since the agent sees them.
    pub optional: BTreeMap<String, BTreeMap<String, u64>>,
}

/// What is known now, for whoever asks. Clones are the same; the default knows nothing.
#[derive(Clone, Debug, Default)]
pub struct QueuesHandle(Arc<Mutex<QueuesView>>);

impl QueuesHandle {
    fn lock(&self) -> MutexGuard<'_, QueuesView> {
        // The view is replaced in one assignment, so whatever panics leaves a whole one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that is known.
    #[must_use]
    pub fn view(&self) -> QueuesView {
        self.lock().clone()
    }

    /// The queue pairs of a port as the service is told them; `None` where there are none.
    #[must_use]
    pub fn message(&self, port: &str) -> Option<QueuePairs> {
        let view = self.lock();
        let Pairs { of_jobs, others } = view.pairs.get(port)?;
        let jobs = of_jobs.iter().map(|(job, count)| JobQueuePairs { job: job.clone(), count: *count });
        Some(QueuePairs { jobs: jobs.collect(), others: *others })
    }
}

/// A running thread. It ends soon after this value is dropped, and nobody waits for the end: a driver may hang.
#[derive(Debug)]
pub struct Queues {
    handle: QueuesHandle,
    stop: Arc<AtomicBool>,
}

impl Queues {
    /// Starts to ask.
    ///
    /// # Errors
    /// When the thread cannot be made.
    pub fn start() -> io::Result<Self> {
        let (handle, stop) = (QueuesHandle::default(), Arc::new(AtomicBool::new(false)));
        let (shown, stopped) = (handle.clone(), Arc::clone(&stop));
        let work = move || {
            let mut optional = Optional::default();
            while !stopped.load(Ordering::Relaxed) {
                // A kernel without RDMA, or without a device, has neither; a driver may be loaded later.
                let pairs = by_port(queue_pairs().unwrap_or_default(), |pid| job_of(pid).map(|job| job.as_str().to_owned()));
                optional.add(&port_statistics().unwrap_or_default());
                *shown.lock() = QueuesView { pairs, optional: optional.totals.clone() };
                nap::until(ASK_EVERY, &stopped);
            }
        };
        thread::Builder::new().name("queues".into()).spawn(work)?;
        Ok(Self { handle, stop })
    }

    /// Who tells what is known.
    #[must_use]
    pub fn handle(&self) -> QueuesHandle {
        self.handle.clone()
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn by_port(pairs: Vec<QueuePair>, job_of: impl Fn(u32) -> Option<String>) -> BTreeMap<String, Pairs> {
    // A process has hundreds of queue pairs, and is asked once.
    let mut jobs: BTreeMap<u32, Option<String>> = BTreeMap::new();
    let mut ports: BTreeMap<String, Pairs> = BTreeMap::new();
    for pair in pairs {
        // One without a port is not connected yet.
        let Some(number) = pair.port.filter(|_| pair.kind.is_none_or(|kind| !ADMINISTRATIVE.contains(&kind))) else { continue };
        let port = ports.entry(port_name(&pair.device, number)).or_default();
        let job = pair.pid.and_then(|pid| jobs.entry(pid).or_insert_with(|| job_of(pid)).clone());
        match job.filter(|job| port.of_jobs.len() < JOBS_MAX || port.of_jobs.contains_key(job)) {
            Some(job) => *port.of_jobs.entry(job).or_default() += 1,
            None => port.others += 1,
        }
    }
    ports
}

/// As the port of an RDMA device is called wherever its counters are.
fn port_name(device: &str, port: u32) -> String {
    format!("{device}/{port}")
}

/// Optional counters, over what their drivers do with them.
#[derive(Debug, Default)]
struct Optional {
    last: BTreeMap<(String, String), u64>,
    totals: BTreeMap<String, BTreeMap<String, u64>>,
}

impl Optional {
    /// Adds what passed since the look before. A counter that went back began anew, and one that was switched on is new; both say nothing of
    /// what passed. One that is off is absent.
    fn add(&mut self, ports: &[PortStatistics]) {
        let (mut last, mut totals) = (BTreeMap::new(), BTreeMap::new());
        for port in ports {
            let name = port_name(&port.device, port.port);
            let on = port.optional.iter().filter(|(_, is_on)| *is_on).map(|(counter, _)| counter);
            let mut of_port = BTreeMap::new();
            for counter in on.take(OPTIONAL_MAX) {
                let Some((_, value)) = port.values.iter().find(|(known, _)| known == counter) else { continue };
                let key = (name.clone(), counter.clone());
                let passed = self.last.get(&key).and_then(|before| value.checked_sub(*before)).unwrap_or(0);
                let before = self.totals.get(&name).and_then(|totals| totals.get(counter)).copied().unwrap_or(0);
                of_port.insert(counter.clone(), before.saturating_add(passed));
                last.insert(key, *value);
            }
            if !of_port.is_empty() {
                totals.insert(name, of_port);
            }
        }
        (self.last, self.totals) = (last, totals);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_pairs_of_a_port_have_the_jobs_of_their_processes() {
        let pair = |device: &str, port, kind, pid| QueuePair { device: device.into(), port, kind, pid, ..QueuePair::default() };
        let of = |pid| pair("mlx5_0", Some(1), Some("RC"), pid);
        let mut pairs = vec![
            of(Some(7)),
            of(Some(7)),
            of(Some(8)),
            of(Some(9)),
            // The kernel's, one that is not connected, those of management, and another device's.
            of(None),
            pair("mlx5_0", None, Some("RC"), Some(7)),
            pair("mlx5_0", Some(1), Some("GSI"), None),
            pair("mlx5_0", Some(1), Some("UD"), Some(9)),
            pair("mlx5_1", Some(2), Some("DRIVER"), Some(8)),
        ];
        let job_of = |pid| match pid {
            7 | 8 => Some(format!("job{pid}")),
            1_000.. => Some(format!("many{pid}")),
            _ => None,
        };
        let ports = by_port(pairs.clone(), job_of);
        let jobs = |of: &[(&str, u32)]| of.iter().map(|(job, count)| ((*job).to_owned(), *count)).collect();
        assert_eq!(ports["mlx5_0/1"], Pairs { of_jobs: jobs(&[("job7", 2), ("job8", 1)]), others: 2 });
        assert_eq!(ports["mlx5_1/2"], Pairs { of_jobs: jobs(&[("job8", 1)]), others: 0 });
        assert_eq!(ports.len(), 2);
        pairs.extend((0..100).map(|n| of(Some(1_000 + n))));
        let many = &by_port(pairs, job_of)["mlx5_0/1"];
        assert_eq!((many.of_jobs.len(), many.others), (JOBS_MAX, 2 + 100 - (JOBS_MAX as u32 - 2)));
        // As the service hears it.
        let handle = QueuesHandle::default();
        *handle.lock() = QueuesView { pairs: ports, ..QueuesView::default() };
        let told = handle.message("mlx5_1/2").unwrap();
        assert_eq!((told.jobs[0].job.as_str(), told.jobs[0].count, told.others), ("job8", 1, 0));
        assert_eq!(handle.message("mlx5_1/1"), None);
    }

    #[test]
    fn optional_counters_count_on_over_a_reset_and_are_absent_while_they_are_off() {
        let mut optional = Optional::default();
        let mut after = |value: u64, is_on: bool| {
            let (name, other) = ("cc_rx_ce_pkts".to_owned(), "out_of_sequence".to_owned());
            let values = vec![(other, 5), (name.clone(), value)];
            let (device, optionals) = ("mlx5_0".into(), vec![(name.clone(), is_on), ("cc_rx_cnp_pkts".into(), false)]);
            optional.add(&[PortStatistics { device, port: 1, values, optional: optionals }]);
            optional.totals.get("mlx5_0/1").map(|port| (port.len(), port[&name]))
        };
        assert_eq!(after(100, true), Some((1, 0)), "what was before the agent is not the agent's");
        assert_eq!(after(104, true), Some((1, 4)));
        assert_eq!(after(1, true), Some((1, 4)), "it began anew");
        assert_eq!(after(3, true), Some((1, 6)));
        assert_eq!(after(3, false), None, "absent is not 0");
        assert_eq!(after(9, true), Some((1, 0)), "switched on again");
    }
}
