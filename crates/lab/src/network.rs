//! The fabric of a case on the kernel: namespaces, cables, routes, rates, and the marking queues.

use std::{collections::BTreeMap, fmt::Write as _, fs};

use anyhow::{Context, Result};
use units::{LinkId, Nanos, Rate};

use crate::{
    case::Case,
    queue::{self, Counters, Maps},
    record::Record,
    tool,
    wiring::{LabPort, Namespace, Role, Wiring, wire},
};

/// Congestion control of the ring: it backs off when packets are marked, and every kernel has it.
pub(crate) const CONGESTION_CONTROL: &str = "cubic";
/// Settings of every namespace. Forwarding by the routes given, whatever way packets came; ECN asked for on every connection;
/// the window kept over the Down phase, as an RDMA sender keeps its rate; no neighbours but the cables'.
const SETTINGS: [(&str, &str); 7] = [
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    ("ipv4/ip_forward", "1"),
    ("ipv4/tcp_ecn", "1"),
    ("ipv4/tcp_slow_start_after_idle", "0"),
    ("ipv6/conf/all/disable_ipv6", "1"),
    ("ipv6/conf/default/disable_ipv6", "1"),
];
/// Burst of a rate limiter: a few packets, so that a queue stands where the model has it.
const SHAPER_BURST_BYTES: u32 = 16_000;
/// How much of one job is sent before the next one's turn: four packets.
const FAIR_QUANTUM_BYTES: u32 = 6_056;
/// Room of a queue, as time at the port's rate: marks come long before anything is dropped.
const QUEUE: Nanos = Nanos::from_millis(60);
/// Class of the first job's data; the others follow.
const DATA_CLASS: u32 = 0x10;
/// Class of acknowledgements, and of what is no IP.
const ACK_CLASS: u32 = 0xfff;
/// Name by which programs that want a device and no address, such as gloo, find the address of a rank.
pub(crate) const RANK_LABEL: &str = "lo:rank";
/// Share of a link that acknowledgements are promised, in percent: those of a full link make 3.
const ACK_PERCENT: u64 = 5;

/// A lab that is up; the lab goes when this is dropped, unless it is left.
#[derive(Debug)]
pub struct Lab {
    /// The case that is played.
    pub case: Case,
    /// The namespaces and cables that it became.
    pub wiring: Wiring,
    record: Record,
    queues: BTreeMap<LinkId, Maps>,
    left: bool,
}

impl Lab {
    /// Builds the fabric of a case. What was built is removed again if something fails.
    ///
    /// # Errors
    /// A tool is missing, the kernel refuses, or this is not root.
    pub fn up(case: Case) -> Result<Self> {
        anyhow::ensure!(rustix::process::geteuid().is_root(), "the lab makes network namespaces and needs root");
        let missing = tool::missing_tools();
        anyhow::ensure!(missing.is_empty(), "the lab needs {}", missing.join(", "));
        // The record is written before anything is built, so that `antiphase lab down` finds a lab whose process was killed meanwhile.
        let record = Record::create(&case.name)?;
        let wiring = match wire(&case, &record.id) {
            Ok(wiring) => wiring,
            Err(e) => {
                record.remove()?;
                return Err(e.into());
            }
        };
        let mut lab = Self { case, wiring, record, queues: BTreeMap::new(), left: false };
        // `lab` exists before it is built: if a step fails, its drop removes what was built so far.
        lab.build()?;
        Ok(lab)
    }

    /// Its record.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Leaves it up when this process ends.
    ///
    /// # Errors
    /// The record cannot be written; then the lab goes.
    pub fn leave(mut self) -> Result<Record> {
        // The record changes first: if that fails, `left` is still false and the drop removes the lab.
        self.record.leave()?;
        self.left = true;
        Ok(self.record.clone())
    }

    /// Removes it now, and says what would not go.
    ///
    /// # Errors
    /// As [`Record::remove`].
    pub fn down(mut self) -> Result<()> {
        // The drop below must not remove a second time, and must not print an error that the caller gets anyway.
        self.left = true;
        self.record.remove()
    }

    /// The namespace of a rank.
    #[must_use]
    pub fn namespace(&self, job: usize, rank: usize) -> &str {
        &self.wiring.namespaces[self.case.jobs[job].hosts[rank].index()].name
    }

    /// Counters of every marking queue, by link.
    pub(crate) fn counters(&self) -> Result<BTreeMap<LinkId, Counters>> {
        self.queues.iter().map(|(link, maps)| Ok((*link, queue::read(maps)?))).collect()
    }

    fn build(&mut self) -> Result<()> {
        // One `ip` runs all commands, instead of a process for each namespace and cable.
        tool::run("ip", &["-batch", "-"], &cabling(&self.wiring))?;
        let mut objects: BTreeMap<Rate, String> = BTreeMap::new();
        // RATE and the thresholds are compiled in, so there is one object for each rate.
        let marked = self.wiring.namespaces.iter().flat_map(|n| &n.ports).filter(|p| p.role == Role::Fabric);
        for port in marked {
            objects.insert(port.rate, queue::build(&self.record.folder(), port.rate)?);
        }
        for namespace in &self.wiring.namespaces {
            let found = tool::enter(&namespace.name, || set_up(namespace, &objects))?;
            self.queues.extend(found);
        }
        Ok(())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if !self.left
            && let Err(e) = self.record.remove()
        {
            eprintln!("antiphase lab: {e:#}; `antiphase lab down` tries again");
        }
    }
}

/// Namespaces and the cables between them, for `ip -batch`.
fn cabling(wiring: &Wiring) -> String {
    let mut batch = String::new();
    for namespace in &wiring.namespaces {
        // Every namespace comes before every cable, because a cable names both of its ends.
        let _ = writeln!(batch, "netns add {}", namespace.name);
    }
    for [a, b] in &wiring.cables {
        let end = |&(n, p): &(usize, usize)| (&wiring.namespaces[n].ports[p].device, &wiring.namespaces[n].name);
        let ((near, near_ns), (far, far_ns)) = (end(a), end(b));
        let _ = writeln!(batch, "link add {near} netns {near_ns} mtu 1500 type veth peer name {far} netns {far_ns} mtu 1500");
    }
    batch
}

/// Everything inside one namespace; returns the maps of its marking queues.
fn set_up(namespace: &Namespace, objects: &BTreeMap<Rate, String>) -> Result<Vec<(LinkId, Maps)>> {
    for (key, value) in SETTINGS {
        // This thread has entered the namespace, and `/proc/sys/net` shows the namespace of the thread that opens it.
        let path = format!("/proc/sys/net/{key}");
        match fs::write(&path, value) {
            // A kernel without IPv6 has nothing to turn off.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && key.starts_with("ipv6") => {}
            other => other.with_context(|| path.clone())?,
        }
    }
    tool::run("ip", &["-batch", "-"], &addressing(namespace))?;
    for port in &namespace.ports {
        // With offloads one packet would stand for up to 64 kB, and marks and queues would count those.
        tool::run("ethtool", &["-K", &port.device, "tso", "off", "gso", "off", "gro", "off"], "")?;
    }
    let mut batch = String::new();
    for port in &namespace.ports {
        for line in shaping(port) {
            let _ = writeln!(batch, "{line}");
        }
        if port.role == Role::Fabric
            && let Some(object) = objects.get(&port.rate)
        {
            for line in queue::attach(&port.device, object) {
                let _ = writeln!(batch, "{line}");
            }
        }
    }
    if !batch.is_empty() {
        // `tc -batch` stops at the first line that fails, so a class is never added to a missing qdisc.
        tool::run("tc", &["-batch", "-"], &batch)?;
    }
    let marked = namespace.ports.iter().filter(|p| p.role == Role::Fabric);
    marked.map(|port| Ok((port.link, queue::maps(&port.device)?))).collect()
}

/// Addresses and routes, for `ip -batch`. A host's routes name the congestion control for programs that do not choose, such as
/// gloo: some machines default to bbr, which does not hear marks, and their default is nothing that a namespace may change.
fn addressing(namespace: &Namespace) -> String {
    let mut batch = String::from("link set lo up\n");
    if let Some(address) = namespace.address {
        // A rank's address is a /32 on `lo`, because the ports have the /31 addresses of their cables.
        let _ = writeln!(batch, "addr add {address}/32 dev lo label {RANK_LABEL}");
    }
    for port in &namespace.ports {
        let _ = writeln!(batch, "addr add {}/31 dev {}", port.address, port.device);
        let _ = writeln!(batch, "link set {} up", port.device);
    }
    for route in &namespace.routes {
        // `src` makes packets carry the rank's address, whose third byte is the job's number in the marking queue.
        let source = namespace.address.map(|a| format!(" src {a} congctl {CONGESTION_CONTROL}")).unwrap_or_default();
        let _ = writeln!(batch, "route add {}/32 via {} dev {}{source}", route.to, route.via, route.device);
    }
    batch
}

/// The rate of a port, and between switches one fair class per job: a single queue lets TCP flows drift apart by themselves and
/// hides the effect that the lab is to show. Acknowledgements go first everywhere: those that wait behind the data of
/// the other direction come in bunches and leave links idle, which is TCP's trouble and not the fabric's.
fn shaping(port: &LabPort) -> Vec<String> {
    let LabPort { device, rate, .. } = port;
    let classes: Vec<(u32, Option<usize>)> = match port.role {
        Role::Edge => return Vec::new(),
        Role::Nic => vec![(DATA_CLASS, None)],
        Role::Fabric => port.jobs.iter().map(|&job| (DATA_CLASS + job as u32, Some(job))).collect(),
    };
    // HTB has two buckets per class, one for `rate` and one for `ceil`; both are small, or a burst would pass the link unshaped.
    let bursts = format!("burst {SHAPER_BURST_BYTES} cburst {SHAPER_BURST_BYTES}");
    // `r2q` sizes the quantum of class 1:1 only, which names none; with its default of 10 the kernel warns of a large quantum.
    // Packets that no filter matches, such as ARP, go to the class of acknowledgements: they are few and must not wait.
    let mut lines = vec![
        format!("qdisc add dev {device} root handle 1: htb default {ACK_CLASS:x} r2q 1000"),
        format!("class add dev {device} parent 1: classid 1:1 htb rate {0}mbit ceil {0}mbit {bursts}", rate.mbps()),
    ];
    let kbit = |percent: u64| rate.mbps() * 10 * percent;
    // The shares add up to the link, and `ceil` lets a job borrow what others leave: the link is shared max-min fairly.
    let share = kbit(100 - ACK_PERCENT) / (classes.len() as u64).max(1);
    let mut class = |class: u32, priority: u32, kbit: u64| {
        lines.push(format!(
            "class add dev {device} parent 1:1 classid 1:{class:x} htb prio {priority} rate {kbit}kbit ceil {}mbit {bursts} quantum {FAIR_QUANTUM_BYTES}",
            rate.mbps()
        ));
        // The queue counts bytes, so that its length in time does not depend on the size of packets.
        lines.push(format!("qdisc add dev {device} parent 1:{class:x} bfifo limit {}", rate.bytes_in(QUEUE).0));
    };
    class(ACK_CLASS, 0, kbit(ACK_PERCENT));
    classes.iter().for_each(|&(data, _)| class(data, 1, share));
    // TCP of a total length below 128 bytes and without the push flag: an acknowledgement. Data ends with a pushed packet, and
    // one that overtook the rest of its data would arrive out of order.
    // Byte 33 holds the TCP flags only behind an IP header without options, and the lab's programs set no IP options.
    let filter = format!("filter add dev {device} parent 1: protocol ip");
    lines.push(format!(
        "{filter} prio 1 u32 match u16 0x0000 0xff80 at 2 match ip protocol 6 0xff match u8 0x00 0x08 at 33 flowid 1:{ACK_CLASS:x}"
    ));
    for (data, job) in classes {
        let source = job.map_or("0.0.0.0/0".to_owned(), |job| format!("10.77.{job}.0/24"));
        lines.push(format!("{filter} prio 2 u32 match ip src {source} flowid 1:{data:x}"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_between_switches_has_one_class_per_job_and_a_nic_has_one() {
        let port = |role| LabPort {
            device: "e1".into(),
            address: std::net::Ipv4Addr::LOCALHOST,
            link: LinkId(0),
            rate: Rate(100),
            role,
            jobs: vec![0, 2],
        };
        let fabric = shaping(&port(Role::Fabric));
        assert_eq!(fabric.iter().filter(|l| l.starts_with("class")).count(), 4, "the link, acknowledgements, and two jobs");
        assert!(fabric.iter().any(|l| l.ends_with("match ip src 10.77.2.0/24 flowid 1:12")), "{fabric:?}");
        assert!(fabric.iter().any(|l| l.contains("classid 1:12 htb prio 1 rate 47500kbit ceil 100mbit")), "95 % over two jobs: {fabric:?}");
        assert!(shaping(&port(Role::Nic)).iter().any(|l| l.contains("rate 100mbit")));
        assert!(shaping(&port(Role::Edge)).is_empty());
    }
}
