//! The decoders of what comes in from outside, each with what must hold of whatever it is given.
//!
//! Two programs use them: the tests, which change inputs at random, and `tests/fuzz`, where libFuzzer changes them by what they cover.

use std::{collections::BTreeSet, fs, os::unix::fs::FileExt as _};

use gate::{JobName, PageReader, PageWriter, ReportReader};
use gate_core::{Decision, HOLD_LIMIT, Mode, Schedule};
use proto::{
    frame,
    v1alpha1::{self as pb, AgentFrame, ServiceFrame, agent_frame},
};
use telemetry::{InterfaceTable, Root, lldp, nldev, pfc, roce};
use units::{Nanos, NodeTime};

/// Longest input: a page is 4 KiB, and a decoder that fails on more fails on less.
pub(crate) const BYTES_MAX: usize = 4 << 10;
/// Words of a report: 32, and four of each sample (docs/schedule-page.md).
const REPORT_WORDS: usize = 32 + 4 * gate_core::RING;

/// Decodes an input and says what became of it.
pub(crate) type Decode = Box<dyn FnMut(&[u8]) -> String>;
/// The name of a decoder's folder in `tests/corpus`, and what makes its target.
type Named = (&'static str, fn() -> Target);

/// A decoder under test.
pub(crate) struct Target {
    /// Inputs to begin with, beside those of the corpus.
    pub(crate) seeds: Vec<Vec<u8>>,
    /// Decodes an input of [`BYTES_MAX`] at most and says what became of it; panics where something does not hold.
    pub(crate) decode: Decode,
}

/// All of them, by the names of their folders in `tests/corpus`.
pub(crate) const DECODERS: [Named; 10] = [
    ("frames", frames),
    ("json", json),
    ("yaml", yaml),
    ("page", page),
    ("report", report),
    ("counters", counters),
    ("lldp", lldp),
    ("nldev", nldev),
    ("roce", roce),
    ("ethtool", ethtool),
];

impl Target {
    fn new(seeds: Vec<Vec<u8>>, decode: impl FnMut(&[u8]) -> String + 'static) -> Self {
        Self { seeds, decode: Box::new(decode) }
    }

    /// The decoder of that name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        DECODERS.iter().find(|(known, _)| *known == name).map(|(_, target)| target())
    }
}

fn told<T, E: std::fmt::Display>(result: Result<T, E>, size: impl Fn(&T) -> usize) -> String {
    match result {
        // How much was decoded, in powers of two.
        Ok(decoded) => format!("ok {}", "+".repeat(size(&decoded).next_power_of_two().trailing_zeros() as usize)),
        Err(error) => error.to_string(),
    }
}

/// Frames of the control stream, in one piece and in two: the same messages, and one that was decoded is the same after a round.
fn frames() -> Target {
    let seeds = [
        agent_frame::Kind::Hello(pb::Hello { host: "h1".into(), ports: vec!["eth0".into(), "eth1".into()], ..pb::Hello::default() }),
        agent_frame::Kind::Report(pb::Report {
            gates: vec![pb::GateReport { job: "a".into(), ..pb::GateReport::default() }; 3],
            ..pb::Report::default()
        }),
        agent_frame::Kind::Goodbye(pb::Goodbye { reason: "upgrade".into() }),
    ];
    let seeds = seeds.map(|kind| frame::encode(&AgentFrame { kind: Some(kind) }).unwrap());
    let decode = |input: &[u8], cut: usize| {
        let mut decoder = frame::Decoder::default();
        let (mut seen, mut error) = (Vec::new(), None);
        for piece in [&input[..cut], &input[cut..]] {
            decoder.push(piece);
            loop {
                match decoder.next::<AgentFrame>() {
                    Ok(Some(message)) => seen.push(message),
                    Ok(None) => break,
                    Err(e) => return (seen, Some(e.to_string())),
                }
            }
        }
        error = error.or(None);
        (seen, error)
    };
    Target::new(seeds.to_vec(), move |input| {
        let whole = decode(input, 0);
        assert_eq!(decode(input, input.len() / 2), whole);
        for message in &whole.0 {
            let bytes = frame::encode(message).unwrap();
            let mut again = frame::Decoder::default();
            again.push(&bytes);
            assert_eq!(again.next::<AgentFrame>().unwrap().as_ref(), Some(message));
        }
        // The agent reads what the service sends by the same code.
        let mut other = frame::Decoder::default();
        other.push(input);
        let other = told(other.next::<ServiceFrame>(), |frame| usize::from(frame.is_some()));
        format!("{} {} {other}", whole.0.len(), whole.1.unwrap_or_default())
    })
}

/// Requests as JSON: what is decoded says the same again.
fn json() -> Target {
    fn one<M: serde::de::DeserializeOwned + serde::Serialize + PartialEq + std::fmt::Debug>(text: &str) -> String {
        told(serde_json::from_str::<M>(text), |message| {
            let again = serde_json::to_string(message).unwrap();
            // A document that was sent as a text comes back inline, so what was written is compared and not what was read.
            let read = serde_json::from_str::<M>(&again).unwrap();
            assert_eq!(serde_json::to_string(&read).unwrap(), again);
            again.len()
        })
    }
    Target::new(Vec::new(), move |input| {
        let Ok(text) = str::from_utf8(input) else { return "no text".into() };
        format!("{} {}", one::<pb::CommitRequest>(text), one::<pb::EvaluateRequest>(text))
    })
}

/// Documents of a fabric: one that is taken is the same after it was written and read.
fn yaml() -> Target {
    Target::new(Vec::new(), move |input| {
        let Ok(text) = str::from_utf8(input) else { return "no text".into() };
        let jobs = told(job::JobsDoc::parse(text), |jobs| jobs.jobs.len());
        let read = fabric::native::read(text);
        if let Ok(fabric) = &read {
            let written = fabric::native::write_yaml(fabric);
            let again = fabric::native::read(&written).unwrap_or_else(|error| panic!("{error}: {written}"));
            assert_eq!(fabric::native::write_yaml(&again), written);
        }
        format!("{jobs} {}", told(read, |fabric| fabric.hosts().count()))
    })
}

/// A folder in memory, where there is one.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// The page that a gate reads: no value makes it hold a start for longer than the longest period.
fn page() -> Target {
    let folder = folder();
    let name = JobName::try_new("job").unwrap();
    let mut writer = PageWriter::create(folder.path(), "job").unwrap();
    let path =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.extension().is_some_and(|e| e == "page"));
    let path = path.expect("the page's file");
    let mut seeds = vec![fs::read(&path).unwrap()];
    for mode in [Mode::Pass, Mode::Hold, Mode::Turn] {
        let (slot, second) = (NodeTime(5_000_000_000), Nanos(1_000_000_000));
        writer.write(&Schedule {
            mode,
            slot,
            period: second,
            hold_max: second,
            expires: slot.saturating_add(second),
            written: slot,
            stale_after: second,
            ..Schedule::default()
        });
        seeds.push(fs::read(&path).unwrap());
    }
    let reader = PageReader::open(folder.path(), &name).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    Target::new(seeds, move |input| {
        let _kept = (&folder, &writer);
        let mut bytes = [0; 4_096];
        bytes[..input.len()].copy_from_slice(input);
        file.write_all_at(&bytes, 0).unwrap();
        match reader.read() {
            Ok(schedule) => format!("ok {:?} {}", schedule.mode, held(&schedule)),
            Err(reason) => format!("{reason:?}"),
        }
    })
}

/// Whether some start is held under a schedule; none longer than its bound.
fn held(schedule: &Schedule) -> bool {
    let times = [NodeTime(0), schedule.slot, schedule.written, schedule.written.saturating_add(Nanos(1)), NodeTime(u64::MAX)];
    let waits = times.map(|now| match gate_core::decide(now, schedule) {
        Decision::Wait { until, .. } => {
            let wait = until.since(now);
            assert!(until > now && wait <= schedule.hold_bound() && wait <= HOLD_LIMIT, "{schedule:?} at {now:?}");
            true
        }
        Decision::Go { .. } => false,
    });
    waits.contains(&true)
}

/// A report that a job wrote. Every second input, by its parity, has the right checksum, which no change hits by chance.
fn report() -> Target {
    let folder = folder();
    let reader = ReportReader::open_or_create(folder.path(), "job").unwrap();
    let file = fs::OpenOptions::new().write(true).open(folder.path().join("reports/job.report")).unwrap();
    Target::new(Vec::new(), move |input| {
        let _kept = &folder;
        let mut bytes = [0; 4_096];
        bytes[..input.len()].copy_from_slice(input);
        let checked = input.iter().fold(0, |sum, byte| sum ^ byte) % 2 == 0;
        if checked {
            let head = checked_head(&bytes);
            bytes[..24].copy_from_slice(&head);
        }
        file.write_all_at(&bytes, 0).unwrap();
        let read = reader.read();
        assert!(read.is_some() || !checked, "magic, layout and checksum are right");
        let Some(report) = read else { return "none".into() };
        // What an agent asks of it: no number is too large.
        let counters = report.tracker.counters();
        let (opens, zero) = (counters.fail_opens(), counters.since(counters).fail_opens());
        format!("ok {} {} {zero}", report.tracker.last(u64::MAX).count().min(9), opens > 0)
    })
}

/// The first three words of a report over the others: magic, layout and checksum (docs/schedule-page.md).
fn checked_head(bytes: &[u8; 4_096]) -> [u8; 24] {
    let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    let fold = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let checksum = words.take(REPORT_WORDS).skip(3).fold(gate::report::MAGIC, fold);
    let head = [gate::report::MAGIC, gate::report::LAYOUT, checksum].map(u64::to_le_bytes);
    head.concat().try_into().unwrap()
}

/// The kernel's table of interfaces.
fn counters() -> Target {
    let folder = folder();
    fs::create_dir_all(folder.path().join("proc/net")).unwrap();
    let path = folder.path().join("proc/net/dev");
    fs::write(&path, "x\n").unwrap();
    let mut table = InterfaceTable::open(&Root::under(folder.path())).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    Target::new(Vec::new(), move |input| {
        let _kept = &folder;
        file.set_len(0).unwrap();
        file.write_all_at(input, 0).unwrap();
        let is_read = table.read();
        assert!(table.listed() <= input.iter().filter(|byte| **byte == b'\n').count());
        format!("{is_read} {} {:?}", "+".repeat(table.listed()), table.bytes("eth0").is_some())
    })
}

/// LLDP, from the cable and from lldpd. Whatever is taken for a name can be shown, and is short.
fn lldp() -> Target {
    // A chassis id and a system name have at most 255 bytes (IEEE 802.1AB).
    let is_name = |name: &String| (1..=255).contains(&name.len()) && !name.chars().any(char::is_control);
    Target::new(Vec::new(), move |input| {
        let table = str::from_utf8(input).map_or_else(|_| "no text".into(), |text| told(lldp::neighbours(text), Vec::len));
        let advert = lldp::parse(input);
        if let Ok(lldp::Advert { chassis, port, system, description, rate, .. }) = &advert {
            assert!([Some(chassis), Some(port), system.as_ref(), description.as_ref()].into_iter().flatten().all(is_name), "{advert:?}");
            assert!(rate.is_none_or(|rate| (100..=400_000).contains(&rate.mbps())), "{advert:?}");
        }
        let parts = |a: &lldp::Advert| {
            1 << [a.system.is_some(), a.description.is_some(), a.forwards.is_some(), a.rate.is_some()].into_iter().filter(|is| *is).count()
        };
        format!("{} {table}", told(advert, parts))
    })
}

/// Queue pairs, their counters, and counters of ports, from the kernel.
fn nldev() -> Target {
    let held = |answer: &nldev::Answer| {
        let counters = answer.counters.iter().map(|counter| counter.queue_pairs.len() + counter.values.len() + 1).sum::<usize>();
        let ports = answer.ports.iter().map(|port| port.values.len() + port.optional.len()).sum::<usize>();
        counters + ports + answer.queue_pairs.len() + answer.devices.len()
    };
    Target::new(Vec::new(), move |input| {
        let answer = nldev::decode(input);
        if let Ok(answer) = &answer {
            // Each takes four bytes at least: nothing comes of nothing.
            assert!(held(answer) <= input.len() / 4, "{answer:?}");
        }
        told(answer, held)
    })
}

/// Frames of RoCEv2 with marks and notifications, as a mirror port shows them. Each is counted once, and no byte that is not there.
fn roce() -> Target {
    let (source, destination) = ([10, 9, 0, 2].into(), [10, 9, 0, 1].into());
    let (destination_mac, source_mac, source_port, queue_pair) = ([2; 6], [4; 6], 49_152, 210);
    let frame = roce::CnpFrame { destination_mac, source_mac, source, destination, source_port, queue_pair };
    Target::new(vec![roce::cnp(&frame).to_vec()], move |input| {
        let mut tally = roce::Tally::default();
        tally.add(input);
        let seen: Vec<&roce::Seen> = tally.queue_pairs.values().collect();
        let counted = seen.iter().map(|seen| seen.packets + seen.notifications).sum::<u64>() + tally.foreign;
        assert_eq!((counted, tally.others), (1, roce::Seen::default()), "{tally:?}");
        assert!(seen.iter().all(|seen| seen.payload_bytes <= input.len() as u64 && seen.marked <= seen.packets), "{tally:?}");
        let outcome = told(roce::parse(input), |packet| packet.payload_bytes + 1);
        let kinds: Vec<_> = seen.iter().map(|s| (s.marked > 0, s.notifications > 0, s.broken > 0)).collect();
        format!("{outcome} {kinds:?}")
    })
}

/// Names of a driver's statistics, and which of them are pauses of a priority.
fn ethtool() -> Target {
    Target::new(Vec::new(), move |input| {
        let names = verbs::ethtool::names(input);
        assert_eq!(names.len(), input.len() / 32);
        // A byte that is no text shows as a sign of three.
        assert!(names.iter().all(|name| name.len() <= 3 * 32 && !name.contains('\0')), "{names:?}");
        let pauses: BTreeSet<_> = names.iter().filter_map(|name| pfc::pause(name)).collect();
        assert!(pauses.iter().all(|(_, priority)| *priority < 8), "{names:?}");
        format!(
            "{} {:?}",
            "+".repeat(names.len().next_power_of_two().trailing_zeros() as usize),
            pauses.iter().map(|(what, _)| what).collect::<Vec<_>>()
        )
    })
}
