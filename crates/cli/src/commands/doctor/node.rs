//! This machine as a node: the agent, the directory of the pages, gates, counters.

use std::{collections::BTreeMap, fs, os::unix::fs::MetadataExt as _, path::Path, thread, time::Duration};

use agent::{
    config::{Config, CountersConfig},
    counters::new_ports,
    pages::shared_with,
};
use gate::status::{Surroundings, findings};
use rustix::fs::{statfs, statvfs};
use telemetry::{Counter, PortSource, Root, aliases};

use super::{exposition, finding::Finding};

/// Type of a tmpfs (linux/magic.h).
const TMPFS: u32 = 0x0102_1994;
/// Room that a node of some jobs needs: a page and a report of 4 KiB each, and three files, for each of them.
const FREE_BYTES_MIN: u64 = 256 << 10;
const FREE_FILES_MIN: u64 = 64;
/// How long after the first look the second comes: an agent writes its pages ten times as often.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Bits of others in a file's mode: read and enter, and write of group and others.
const OTHERS_ENTER: u32 = 0o005;
const OTHERS_WRITE: u32 = 0o022;

/// The agent of this configuration, by its own endpoint.
pub(super) fn agent(config: &Config) -> Vec<Finding> {
    let Ok(address) = config.metrics.listen.parse() else {
        return vec![Finding::note("agent", "metrics.listen is empty: the agent was not asked", "set metrics.listen to 127.0.0.1:7481")];
    };
    let text = match exposition::of_agent(address) {
        Ok(text) => text,
        Err(error) => {
            let fix = "systemctl start antiphase-agent; journalctl -u antiphase-agent says why it ended";
            return vec![Finding::wrong("agent", format!("no agent answers at {address}: {error}"), fix)];
        }
    };
    let mut found = Vec::new();
    let version = exposition::version(&text, "antiphase_agent").unwrap_or_else(|| "?".into());
    if version == env!("CARGO_PKG_VERSION") {
        found.push(Finding::well("agent", format!("version {version} at {address}")));
    } else {
        let says = format!("version {version} at {address}, this program is {}", env!("CARGO_PKG_VERSION"));
        found.push(Finding::wrong("agent", says, "install both from the same release"));
    }
    found.extend(another(&text, config));
    if config.service.address.is_some() {
        found.extend(session(&text));
    } else {
        let fix = "set service.address and service.tls where jobs of this node are to be held";
        found.push(Finding::note("agent", "no service.address is set: it only reads counters", fix));
    }
    found.extend(strange_notes(&text));
    found.extend(page_errors(&text, || {
        thread::sleep(AGAIN_AFTER);
        exposition::of_agent(address).ok()
    }));
    found
}

fn number(text: &str, name: &str) -> Option<f64> {
    exposition::value(text, &format!("antiphase_agent_{name}"))
}

/// That the agent which answers runs with another configuration than this one: everything else that is found here is then of two agents.
fn another(text: &str, config: &Config) -> Option<Finding> {
    let page_dir = config.page_dir.display().to_string();
    let service = config.service.address.as_deref().unwrap_or_default();
    let differs = |(key, label, ours): (&str, &str, &str)| {
        // An agent of an earlier version does not say it.
        let theirs = exposition::label(text, "antiphase_agent_config_info", label)?;
        (theirs != ours).then(|| format!("{key} = {theirs:?} there, {ours:?} in the file"))
    };
    let parts = [("host", "host", config.host.as_str()), ("page_dir", "page_dir", &page_dir), ("service.address", "service", service)];
    let differ: Vec<String> = parts.into_iter().filter_map(differs).collect();
    let fix = "name the file that this agent runs with (--agent-config), or restart the agent with this one; two agents on one machine need \
               a metrics.listen each";
    (!differ.is_empty()).then(|| Finding::wrong("agent", format!("runs with another configuration: {}", differ.join("; ")), fix))
}

/// The session with the service, and the time that comes with it.
fn session(text: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    if number(text, "connected") != Some(1.0) {
        let fix = "its log names the file or address at fault: journalctl -u antiphase-agent; the service's port is UDP too";
        found.push(Finding::wrong("agent", "has no session with the service: its jobs follow the last plan for a minute, then go", fix));
    }
    match number(text, "clock_bound_seconds") {
        Some(bound) => found.push(Finding::well("clock", format!("fabric time is known within {:.3} ms here", bound * 1e3))),
        None => found.push(Finding::wrong("clock", "the agent knows no fabric time", "it needs a session with the service for a second")),
    }
    found
}

/// Notes of gates that the agent did not take. Some are of jobs that have just ended.
fn strange_notes(text: &str) -> Option<Finding> {
    let count = number(text, "turn_notes_strange_total").filter(|count| *count > 0.0)?;
    let says = format!("{count} notes of gates were of no job that takes turns here, or of a user who does not speak for it");
    const FIX: &str =
        "where it grows, a program runs under the name of another's job: antiphase gate status --job JOB, as root, names those";
    Some(Finding::note("agent", says, FIX))
}

/// Pages that could not be written. The count stays when the cause is gone, so it is looked at `again` whether it grows.
fn page_errors(text: &str, again: impl FnOnce() -> Option<String>) -> Option<Finding> {
    let errors = |text: &str| number(text, "page_errors_total");
    let before = errors(text).filter(|before| *before > 0.0)?;
    let grows = again().and_then(|text| errors(&text)).is_some_and(|now| now > before);
    let fix = "the log names page and reason: another agent has the page, or the directory is full";
    Some(if grows {
        Finding::wrong("agent", "cannot write pages", fix)
    } else {
        Finding::note("agent", format!("writes its pages, and could not {before} times since it started"), fix)
    })
}

/// The directory of pages and reports.
pub(super) fn pages(directory: &Path) -> Vec<Finding> {
    let shown = directory.display();
    let metadata = match fs::metadata(directory) {
        Ok(metadata) if metadata.is_dir() => metadata,
        // The gate's own findings say so.
        _ => return Vec::new(),
    };
    const MOUNT: &str = "mount a file system of its own there: packaging/systemd/run-antiphase.mount";
    let mut found = Vec::new();
    let mut wrong = |says: String, fix: &str| found.push(Finding::wrong("pages", says, fix));
    let mode = metadata.mode() & 0o7777;
    if mode & OTHERS_WRITE != 0 {
        wrong(format!("{shown} has mode {mode:04o}: others may put files there"), "chmod 0755, owned by the agent's user");
    }
    if mode & OTHERS_ENTER != OTHERS_ENTER {
        wrong(format!("{shown} has mode {mode:04o}: jobs of other users cannot read their pages"), "chmod 0755");
    }
    if fs::File::open(directory).is_ok_and(|file| gate::is_local(file).is_ok_and(|is_local| !is_local)) {
        wrong(format!("{shown} is on a network or user file system: gates believe no page there"), MOUNT);
    }
    let vfs = statvfs(directory).ok();
    // A file system without a limit of its own says 0 of 0.
    let room = vfs.map(|vfs| (vfs.f_bavail.saturating_mul(vfs.f_frsize), vfs.f_favail, vfs.f_files));
    if let Some((bytes, files, all)) = room
        && (bytes < FREE_BYTES_MIN || (all > 0 && files < FREE_FILES_MIN))
    {
        wrong(
            format!("{shown} has room for {bytes} bytes and {files} files only"),
            "remove reports of jobs that are gone, or mount it larger (size=, nr_inodes=)",
        );
    }
    if statfs(directory).is_ok_and(|fs| fs.f_type as u32 != TMPFS) {
        found.push(Finding::note("pages", format!("{shown} is not in memory (tmpfs): writes of the heartbeat go to a disk"), MOUNT));
    } else if let Some(with) = shared_with(directory) {
        found.push(Finding::note("pages", format!("{shown} has no file system of its own: jobs can fill {}", with.display()), MOUNT));
    }
    if found.is_empty() {
        let (mib, files) = room.map_or((0, 0), |(bytes, files, _)| (bytes >> 20, files));
        found.push(Finding::well("pages", format!("{shown}: mode {mode:04o}, in memory, {mib} MiB and {files} files free")));
    }
    found
}

/// What a gate in this environment would do: the findings of `antiphase gate status`.
pub(super) fn gates(config: &gate::Config, around: &Surroundings) -> Vec<Finding> {
    // Nobody said that this shell is one of a job, and a node without jobs has no pages.
    let is_unasked =
        |of: &str| config.job.is_none() && (of == "job" && around.unnamed.is_none() || of == "pages" && config.directory.is_dir());
    let found = findings(config, around, gate::now()).into_iter().map(|one| {
        let says = match one.of.as_str() {
            "gate" | "job" | "rank" | "pages" => one.says,
            job => format!("{job}: {}", one.says),
        };
        match one.is_obstacle {
            true if is_unasked(&one.of) => Finding::note("gate", says, one.fix),
            true => Finding::wrong("gate", says, one.fix),
            false => Finding::well("gate", says),
        }
    });
    found.collect()
}

/// Counters that ports of this node have and lack.
pub(super) fn counters(root: &Root, config: &CountersConfig) -> Vec<Finding> {
    let ports = new_ports(root, config, |_| false);
    if ports.is_empty() {
        let fix = "counters.include and counters.exclude of the agent's configuration choose them; /sys/class/net lists interfaces";
        return vec![Finding::wrong("counters", "no port of this node is read", fix)];
    }
    // Ports of one kind lack the same, and a node has eight of them.
    let mut alike: BTreeMap<(String, Vec<&str>), Vec<&str>> = BTreeMap::new();
    let mut found = Vec::new();
    for port in &ports {
        let (kind, wanted): (String, Vec<Counter>) = match port.source() {
            PortSource::Rdma(rdma) => (format!("{:?}", rdma.driver()), aliases(rdma.driver()).map(|alias| alias.counter).collect()),
            _ => ("interface".into(), vec![Counter::RxBytes, Counter::TxBytes, Counter::RxPackets, Counter::TxPackets]),
        };
        let mut lacks: Vec<&str> =
            wanted.iter().filter(|counter| !port.counters().contains(counter)).map(|counter| counter.name()).collect();
        lacks.sort_unstable();
        lacks.dedup();
        alike.entry((kind, lacks)).or_default().push(port.name());
        if let PortSource::Rdma(rdma) = port.source()
            && rdma.lifespan() > config.sampling()
        {
            let says = format!("{} renews its counters each {} only", port.name(), rdma.lifespan());
            found.push(Finding::note(
                "counters",
                says,
                "write a shorter time in ms into hw_counters/lifespan of the port, where the driver lets you",
            ));
        }
    }
    for ((kind, lacks), names) in alike {
        let names = names.join(", ");
        found.push(if lacks.is_empty() {
            Finding::well("counters", format!("{names} ({kind}): all that this driver has names for"))
        } else {
            let fix = "absent is not 0: dashboards have no line there; a newer driver or firmware may have them";
            Finding::note("counters", format!("{names} ({kind}): absent are {}", lacks.join(", ")), fix)
        });
    }
    if !ports.iter().any(|port| matches!(port.source(), PortSource::Rdma(_))) {
        let fix = "load the RDMA driver of the NIC, or include its ports in the agent's counters.include";
        found.push(Finding::note("counters", "no RDMA port: marks and CNPs of RoCE are not seen on this node", fix));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        os::unix::fs::PermissionsExt as _,
    };

    use agent::metrics::{Configured, Snapshot};
    use units::NodeTime;

    use super::{super::finding::Verdict, *};

    fn scratch(name: &str) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("antiphase-doctor-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_directory_that_others_write_to_or_cannot_enter_is_wrong() {
        let folder = scratch("pages");
        let wrong = |mode: u32| {
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
            pages(&folder).iter().filter(|one| one.verdict == Verdict::Wrong).map(|one| one.says.clone()).collect::<Vec<_>>()
        };
        assert_eq!(wrong(0o755), Vec::<String>::new());
        assert!(wrong(0o777)[0].contains("mode 0777: others may put files there"));
        assert!(wrong(0o700)[0].contains("mode 0700: jobs of other users cannot read"));
        // The folder of a test has no file system of its own, wherever it is.
        assert!(pages(&folder).iter().any(|one| one.verdict == Verdict::Note));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn pages_that_failed_once_are_no_fault_and_those_that_fail_now_are() {
        let after = |before: u64, now: Option<u64>| {
            let text = |count: u64| format!("antiphase_agent_page_errors_total {count}\n");
            page_errors(&text(before), || now.map(text)).map(|one| one.verdict)
        };
        assert_eq!(after(0, Some(9)), None);
        assert_eq!(after(3, Some(3)), Some(Verdict::Note));
        assert_eq!(after(3, Some(4)), Some(Verdict::Wrong));
        // An agent that has just ended does not answer twice; its count says nothing of now.
        assert_eq!((after(3, Some(0)), after(3, None)), (Some(Verdict::Note), Some(Verdict::Note)));
    }

    #[test]
    fn notes_that_were_not_taken_lead_to_the_program_that_sends_them() {
        let of = |count: u64| strange_notes(&format!("antiphase_agent_turn_notes_strange_total {count}\n"));
        assert_eq!(of(0), None);
        let found = of(7).unwrap();
        assert!(found.verdict == Verdict::Note && found.says.starts_with("7 notes of gates") && found.fix.is_some(), "{found:?}");
    }

    /// Stands for an agent without a session.
    fn alone() -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // The whole request is read: bytes that nobody read would make the end a reset.
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.extend(byte);
            }
            let version = env!("CARGO_PKG_VERSION");
            write!(stream, "HTTP/1.0 200 OK\r\n\r\nantiphase_agent_build_info{{version=\"{version}\"}} 1\nantiphase_agent_connected 0\n")
                .unwrap();
        });
        address
    }

    #[test]
    fn an_agent_that_is_told_of_no_service_only_reads_counters() {
        let found = |service: bool| {
            let mut config = Config::default();
            (config.metrics.listen, config.service.address) = (alone(), service.then(|| "127.0.0.1:7480".into()));
            agent(&config)
        };
        let verdicts = |service: bool| found(service).iter().map(|one| one.verdict).collect::<Vec<_>>();
        assert_eq!(verdicts(true), [Verdict::Well, Verdict::Wrong, Verdict::Wrong]);
        assert_eq!(verdicts(false), [Verdict::Well, Verdict::Note]);
        assert!(found(false)[1].says.contains("no service.address is set"));
    }

    #[test]
    fn an_agent_of_another_configuration_is_told_from_ours() {
        let config = |host: &str, dir: &str, service: Option<&str>| {
            let mut config = Config { host: host.into(), page_dir: dir.into(), ..Config::default() };
            config.service.address = service.map(str::to_owned);
            config
        };
        // What an agent says, by its own code.
        let configured = Configured { host: "h1".into(), page_dir: "/run/a \"b\"".into(), service: "s:7480".into() };
        let text = agent::metrics::text(&Snapshot { configured, ..Snapshot::default() }, NodeTime(0));
        assert_eq!(another(&text, &config("h1", "/run/a \"b\"", Some("s:7480"))), None);
        let says = |config: Config| another(&text, &config).map(|one| one.says).unwrap_or_default();
        assert_eq!(
            says(config("h2", "/run/a \"b\"", Some("s:7480"))),
            "runs with another configuration: host = \"h1\" there, \"h2\" in the file"
        );
        let said = says(config("h1", "/run/c", None));
        assert!(said.contains("page_dir = ") && said.ends_with("service.address = \"s:7480\" there, \"\" in the file"), "{said}");
        assert_eq!(another("antiphase_agent_connected 1\n", &config("h2", "/", None)), None, "an earlier agent does not say it");
    }

    #[test]
    fn counters_that_a_port_lacks_are_named() {
        let folder = scratch("counters");
        let write = |path: &str, text: &str| {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(counters(&Root::under(&folder), &CountersConfig::default())[0].verdict, Verdict::Wrong);
        for file in ["rx_bytes", "tx_bytes", "rx_packets"] {
            write(&format!("sys/class/net/ens1/statistics/{file}"), "0\n");
        }
        for file in ["rcvd_pkts", "sent_pkts", "lifespan"] {
            write(&format!("sys/class/infiniband/rxe0/ports/1/hw_counters/{file}"), "1000\n");
        }
        let found = counters(&Root::under(&folder), &CountersConfig::default());
        let says: Vec<&str> = found.iter().map(|one| one.says.as_str()).collect();
        assert!(says.contains(&"rxe0/1 renews its counters each 1.000000 s only") || says[0].contains("rxe0/1 renews"), "{says:?}");
        assert!(
            says.iter().any(|says| says.starts_with("rxe0/1 (Rxe): absent are ") && says.contains("retrans") && !says.contains("cnp")),
            "{says:?}"
        );
        assert!(says.contains(&"ens1 (interface): absent are tx_packets"), "{says:?}");
        assert!(found.iter().all(|one| one.verdict != Verdict::Wrong), "{found:?}");
        fs::remove_dir_all(folder).unwrap();
    }
}
