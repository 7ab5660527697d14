//! What the kernel's netlink for RDMA tells (NLDEV; uapi/rdma/rdma_netlink.h): counters of queue pairs (`rdma statistic qp show`), queue pairs
//! and their processes, and counters of ports with the optional ones. This module only reads.
//!
//! Counters of queue pairs are there where somebody bound queue pairs to them, such as `rdma statistic qp set link mlx5_0/1 auto type,pid on`.
//! Soft-RoCE has neither those nor optional ones, and no device that has was at hand: they were tried on messages made after the header. Its
//! queue pairs and counters of ports are recorded (`tests/rxe`).

mod pair;
mod statistics;

use std::{fmt, io};

use rustix::{
    fd::OwnedFd,
    net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with},
};

pub use self::{pair::QueuePair, statistics::PortStatistics};

/// `NETLINK_RDMA`.
const NETLINK_RDMA: u32 = 20;
/// `RDMA_NL_NLDEV`, above the command.
const NLDEV: u16 = 5 << 10;
const GET: u16 = 1;
const RES_QP_GET: u16 = 10;
const STAT_GET: u16 = 17;
const STAT_GET_STATUS: u16 = 24;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// A question with one answer, and one with many.
const REQUEST: u16 = 1;
const REQUEST_DUMP: u16 = 0x301;
const HEADER_BYTES: usize = 16;

const DEV_INDEX: u16 = 1;
const DEV_NAME: u16 = 2;
const PORT_INDEX: u16 = 3;
const RES_QP: u16 = 19;
const RES_QP_ENTRY: u16 = 20;
const RES_LQPN: u16 = 21;
const RES_PID: u16 = 28;
const STAT_RES: u16 = 75;
const STAT_COUNTER: u16 = 77;
const STAT_COUNTER_ENTRY: u16 = 78;
const STAT_COUNTER_ID: u16 = 79;
const STAT_HWCOUNTERS: u16 = 80;
const STAT_HWCOUNTER_ENTRY: u16 = 81;
const STAT_HWCOUNTER_ENTRY_NAME: u16 = 82;
const STAT_HWCOUNTER_ENTRY_VALUE: u16 = 83;

/// Devices, counters, and queue pairs and values of one counter that are kept: a node has a few devices, and a counter a few dozen values.
const DEVICES_MAX: usize = 256;
const COUNTERS_MAX: usize = 4_096;
/// Queue pairs that are kept: a rank of NCCL has some hundreds.
const PAIRS_MAX: usize = 65_536;
/// Ports of one device that are asked.
const PORTS_OF_DEVICE_MAX: u32 = 255;
const OF_COUNTER_MAX: usize = 1_024;
/// What the kernel puts into one answer of a dump, twice.
const ANSWER_BYTES: usize = 64 << 10;
/// Answers of one dump: each holds a device, a counter or a queue pair at least.
const ANSWERS_MAX: usize = DEVICES_MAX + PAIRS_MAX;

/// One counter set and the queue pairs that are bound to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// The device.
    pub device: String,
    /// The device's port.
    pub port: u32,
    /// The kernel's number of it.
    pub id: u32,
    /// The owner of the bound queue pairs, if they belong to one process.
    pub pid: Option<u32>,
    /// Numbers of the queue pairs.
    pub queue_pairs: Vec<u32>,
    /// The driver's names, and values.
    pub values: Vec<(String, u64)>,
}

/// Why nothing is told.
#[derive(Debug)]
#[non_exhaustive]
pub enum NldevError {
    /// The kernel has no netlink for RDMA: ib_core is not there.
    NoKernel,
    /// It has, and no device.
    NoDevice,
    /// The kernel refused.
    Refused(io::Error),
    /// An answer that is none of the kernel's.
    Malformed,
}

impl fmt::Display for NldevError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKernel => write!(f, "no kernel support: there is no netlink for RDMA (ib_core is not loaded)"),
            Self::NoDevice => write!(f, "no device: the kernel has no RDMA device (its driver is not loaded)"),
            Self::Refused(error) => write!(f, "the kernel does not tell: {error}"),
            Self::Malformed => write!(f, "the kernel's answer is malformed"),
        }
    }
}

impl std::error::Error for NldevError {}

/// One message of an answer.
#[derive(Debug, PartialEq, Eq)]
enum Message<'a> {
    Data(&'a [u8]),
    /// An error number, or 0 for an acknowledgement.
    Error(i32),
    Done,
}

/// A device, as far as a message names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// The kernel's number of it.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// How many ports it has, in an answer to the question for devices; else the port that the message is of.
    pub port: Option<u32>,
}

/// What one answer of the kernel holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Devices.
    pub devices: Vec<Device>,
    /// Counters of queue pairs.
    pub counters: Vec<QueueCounters>,
    /// Queue pairs.
    pub queue_pairs: Vec<QueuePair>,
    /// Ports: counters with values, or optional counters without.
    pub ports: Vec<PortStatistics>,
    /// Nothing follows.
    pub is_last: bool,
}

/// Reads an answer. What it holds that is not known here is passed over.
///
/// # Errors
/// [`NldevError::Refused`] with the number that the kernel gave, and [`NldevError::Malformed`].
pub fn decode(bytes: &[u8]) -> Result<Answer, NldevError> {
    let mut answer = Answer::default();
    for message in messages(bytes) {
        match message.ok_or(NldevError::Malformed)? {
            Message::Data(payload) => {
                let named = device(payload);
                let name = named.as_ref().map_or("", |device| device.name.as_str());
                answer.counters.extend(counters_of(payload).into_iter().map(|counter| QueueCounters { device: name.into(), ..counter }));
                answer.queue_pairs.extend(pair::of(payload).map(|pair| QueuePair { device: name.into(), ..pair }).take(PAIRS_MAX));
                answer.ports.extend(statistics::of(payload).map(|port| PortStatistics { device: name.into(), ..port }));
                answer.devices.extend(named);
            }
            Message::Done | Message::Error(0) => answer.is_last = true,
            Message::Error(number) => return Err(NldevError::Refused(io::Error::from_raw_os_error(number.saturating_neg()))),
        }
    }
    Ok(answer)
}

/// The counters of queue pairs of all devices now. A device that has none is passed over.
///
/// # Errors
/// [`NldevError`]; a kernel without RDMA is one, and one without a device.
pub fn queue_counters() -> Result<Vec<QueueCounters>, NldevError> {
    of_devices(STAT_GET, &[(STAT_RES, u32::from(RES_QP))], COUNTERS_MAX, |answer| answer.counters)
}

/// The queue pairs of all devices now.
///
/// # Errors
/// As [`queue_counters`].
pub fn queue_pairs() -> Result<Vec<QueuePair>, NldevError> {
    of_devices(RES_QP_GET, &[], PAIRS_MAX, |answer| answer.queue_pairs)
}

/// What the devices answer to a question of this kind, `max` at most. A device that does not know the question is passed over.
fn of_devices<T>(command: u16, about: &[(u16, u32)], max: usize, of: impl Fn(Answer) -> Vec<T>) -> Result<Vec<T>, NldevError> {
    let mut all = Vec::new();
    for device in devices()? {
        let question = [&[(DEV_INDEX, device.index)], about].concat();
        let asked = dump(command, &question, |answer| {
            let room = max - all.len();
            all.extend(of(answer).into_iter().take(room));
        });
        // EOPNOTSUPP: this driver has none; others may.
        unless(asked, &[rustix::io::Errno::OPNOTSUPP])?;
    }
    Ok(all)
}

/// The counters of the ports of all devices now, and which of the optional ones are on. A port that has none is passed over.
///
/// # Errors
/// As [`queue_counters`].
pub fn port_statistics() -> Result<Vec<PortStatistics>, NldevError> {
    let mut ports = Vec::new();
    for device in devices()? {
        for port in 1..=device.port.unwrap_or(0).min(PORTS_OF_DEVICE_MAX) {
            let asked = |command| {
                let answer = one(command, &[(DEV_INDEX, device.index), (PORT_INDEX, port)]).map(|answer| answer.ports.into_iter().next());
                // EINVAL: the port has no counters, or the kernel is older than the question (STAT_GET_STATUS came with Linux 5.16).
                unless(answer, &[rustix::io::Errno::OPNOTSUPP, rustix::io::Errno::INVAL]).map(Option::flatten)
            };
            let (values, status) = (asked(STAT_GET)?, asked(STAT_GET_STATUS)?);
            let optional = status.map(|port| port.optional).unwrap_or_default();
            ports.extend(values.map(|port| PortStatistics { optional, ..port }));
        }
    }
    Ok(ports)
}

fn devices() -> Result<Vec<Device>, NldevError> {
    let mut devices = Vec::new();
    dump(GET, &[], |answer| devices.extend(answer.devices))?;
    devices.truncate(DEVICES_MAX);
    if devices.is_empty() { Err(NldevError::NoDevice) } else { Ok(devices) }
}

/// Nothing in the place of a refusal with one of these numbers.
fn unless<T>(asked: Result<T, NldevError>, numbers: &[rustix::io::Errno]) -> Result<Option<T>, NldevError> {
    match asked {
        Err(NldevError::Refused(error)) if numbers.iter().any(|number| error.raw_os_error() == Some(number.raw_os_error())) => Ok(None),
        other => other.map(Some),
    }
}

fn refused(error: rustix::io::Errno) -> NldevError {
    NldevError::Refused(error.into())
}

fn dump(command: u16, attributes: &[(u16, u32)], mut take: impl FnMut(Answer)) -> Result<(), NldevError> {
    let socket = asked(&request(command, REQUEST_DUMP, attributes))?;
    let mut buffer = vec![0; ANSWER_BYTES];
    // ANSWERS_MAX bounds a kernel that never says that it is done.
    for _ in 0..ANSWERS_MAX {
        let answer = answer(&socket, &mut buffer)?;
        let is_last = answer.is_last;
        take(answer);
        if is_last {
            return Ok(());
        }
    }
    Err(NldevError::Malformed)
}

/// A question that has one answer.
fn one(command: u16, attributes: &[(u16, u32)]) -> Result<Answer, NldevError> {
    answer(&asked(&request(command, REQUEST, attributes))?, &mut vec![0; ANSWER_BYTES])
}

/// A socket on which the question was sent.
fn asked(question: &[u8]) -> Result<OwnedFd, NldevError> {
    let protocol = core::num::NonZeroU32::new(NETLINK_RDMA).map(Protocol::from_raw);
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol).map_err(|error| match error {
        rustix::io::Errno::PROTONOSUPPORT => NldevError::NoKernel,
        error => refused(error),
    })?;
    send(&socket, question, SendFlags::empty()).map_err(refused)?;
    Ok(socket)
}

/// An answer is there when it is asked for: none is an error, and no wait.
fn answer(socket: &OwnedFd, buffer: &mut [u8]) -> Result<Answer, NldevError> {
    let (_, length) = recv(socket, &mut *buffer, RecvFlags::DONTWAIT).map_err(refused)?;
    decode(buffer.get(..length).ok_or(NldevError::Malformed)?)
}

fn request(command: u16, flags: u16, attributes: &[(u16, u32)]) -> Vec<u8> {
    let mut request = Vec::new();
    let length = HEADER_BYTES + attributes.len() * 8;
    request.extend((length as u32).to_ne_bytes());
    request.extend((NLDEV | command).to_ne_bytes());
    request.extend(flags.to_ne_bytes());
    // A sequence number and an address: each request has a socket of its own, so neither tells anything.
    request.extend([0; 8]);
    for (kind, value) in attributes {
        request.extend(8_u16.to_ne_bytes());
        request.extend(kind.to_ne_bytes());
        request.extend(value.to_ne_bytes());
    }
    request
}

/// The messages of an answer; `None` for what is none, which is the last then.
fn messages(answer: &[u8]) -> impl Iterator<Item = Option<Message<'_>>> {
    let mut rest = answer;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let message = message(rest);
        // The length was judged, so there is as much.
        rest = message.as_ref().map_or(&[][..], |(_, after)| after);
        Some(message.map(|(message, _)| message))
    })
}

fn message(bytes: &[u8]) -> Option<(Message<'_>, &[u8])> {
    let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
    let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
    let payload = bytes.get(HEADER_BYTES..length)?;
    let after = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    let message = match kind {
        NLMSG_DONE => Message::Done,
        NLMSG_ERROR => Message::Error(i32::from_ne_bytes(*payload.first_chunk()?)),
        _ => Message::Data(payload),
    };
    Some((message, after))
}

/// The attributes of a message or a nest, up to the first that is none.
fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(*rest.first_chunk()?));
        let kind = u16::from_ne_bytes(*rest.get(2..)?.first_chunk()?);
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        // The two highest bits say that it is a nest, and of which byte order.
        Some((kind & 0x3fff, value))
    })
}

fn number(value: &[u8]) -> Option<u32> {
    value.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

/// A name up to its zero, if it is one that can be shown.
fn text(value: &[u8]) -> Option<String> {
    let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
    crate::lldp::name(&value[..end])
}

/// The first attribute of that kind.
fn find(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

fn device(payload: &[u8]) -> Option<Device> {
    let name = text(find(payload, DEV_NAME)?)?;
    Some(Device { index: number(find(payload, DEV_INDEX)?)?, name, port: find(payload, PORT_INDEX).and_then(number) })
}

/// The counters in a message, without their device.
fn counters_of(payload: &[u8]) -> Vec<QueueCounters> {
    let nested = |bytes, wanted: u16| attributes(bytes).filter(move |(kind, _)| *kind == wanted).map(|(_, value)| value);
    let entries = nested(payload, STAT_COUNTER).flat_map(|table| nested(table, STAT_COUNTER_ENTRY));
    entries.take(COUNTERS_MAX).map(entry).collect()
}

fn entry(bytes: &[u8]) -> QueueCounters {
    let mut counter = QueueCounters::default();
    for (kind, value) in attributes(bytes) {
        match kind {
            PORT_INDEX => counter.port = number(value).unwrap_or_default(),
            STAT_COUNTER_ID => counter.id = number(value).unwrap_or_default(),
            RES_PID => counter.pid = number(value),
            RES_QP => {
                let numbers = attributes(value).filter(|(kind, _)| *kind == RES_QP_ENTRY);
                let numbers = numbers.filter_map(|(_, pair)| find(pair, RES_LQPN).and_then(number));
                counter.queue_pairs.extend(numbers.take(OF_COUNTER_MAX));
            }
            STAT_HWCOUNTERS => {
                let entries = attributes(value).filter(|(kind, _)| *kind == STAT_HWCOUNTER_ENTRY);
                counter.values.extend(entries.filter_map(|(_, entry)| named(entry)).take(OF_COUNTER_MAX));
            }
            _ => {}
        }
    }
    counter
}

fn named(entry: &[u8]) -> Option<(String, u64)> {
    let value = find(entry, STAT_HWCOUNTER_ENTRY_VALUE)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))?;
    Some((text(find(entry, STAT_HWCOUNTER_ENTRY_NAME)?)?, value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = [&((value.len() + 4) as u16).to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    /// A nest, with the bit that newer kernels set.
    fn nest(kind: u16, parts: &[Vec<u8>]) -> Vec<u8> {
        attribute(kind | 0x8000, &parts.concat())
    }

    fn framed(kind: u16, payload: &[u8]) -> Vec<u8> {
        let length = (HEADER_BYTES + payload.len()) as u32;
        let mut bytes = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10], payload].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    /// As `fill_res_counter_entry` of the kernel writes it: two queue pairs of a process, and two values.
    fn counter() -> Vec<u8> {
        let pair = |n: u32| nest(RES_QP_ENTRY, &[attribute(RES_LQPN, &n.to_ne_bytes())]);
        let value = |name: &str, value: u64| {
            let name = attribute(STAT_HWCOUNTER_ENTRY_NAME, &[name.as_bytes(), &[0]].concat());
            nest(STAT_HWCOUNTER_ENTRY, &[name, attribute(STAT_HWCOUNTER_ENTRY_VALUE, &value.to_ne_bytes())])
        };
        let entry = nest(
            STAT_COUNTER_ENTRY,
            &[
                attribute(PORT_INDEX, &1_u32.to_ne_bytes()),
                attribute(STAT_COUNTER_ID, &4_u32.to_ne_bytes()),
                attribute(RES_PID, &4_711_u32.to_ne_bytes()),
                nest(RES_QP, &[pair(178), pair(179)]),
                nest(STAT_HWCOUNTERS, &[value("np_ecn_marked_roce_packets", 7), value("out_of_sequence", u64::MAX)]),
            ],
        );
        [attribute(DEV_INDEX, &0_u32.to_ne_bytes()), attribute(DEV_NAME, b"mlx5_0\0"), nest(STAT_COUNTER, &[entry])].concat()
    }

    #[test]
    fn a_counter_of_queue_pairs_is_read() {
        let bytes = [framed(NLDEV | STAT_GET, &counter()), framed(NLMSG_DONE, &[0; 4])].concat();
        let values = vec![("np_ecn_marked_roce_packets".into(), 7), ("out_of_sequence".into(), u64::MAX)];
        let expected = QueueCounters { device: "mlx5_0".into(), port: 1, id: 4, pid: Some(4_711), queue_pairs: vec![178, 179], values };
        let answer = decode(&bytes).unwrap();
        let devices = vec![Device { index: 0, name: "mlx5_0".into(), port: None }];
        assert_eq!(answer, Answer { devices, counters: vec![expected], is_last: true, ..Answer::default() });
    }

    /// As `stat_get_doit_default_counter` and `nldev_stat_get_counter_status_doit` of the kernel write them: mlx5 has optional counters, and
    /// Soft-RoCE, which is recorded, has none.
    #[test]
    fn optional_counters_are_on_or_off() {
        let named = |name: &str| attribute(STAT_HWCOUNTER_ENTRY_NAME, &[name.as_bytes(), &[0]].concat());
        let entry = |name: &str, rest: Vec<u8>| nest(STAT_HWCOUNTER_ENTRY, &[named(name), rest]);
        let of_port = |entries: &[Vec<u8>]| {
            let port =
                [attribute(DEV_INDEX, &2_u32.to_ne_bytes()), attribute(DEV_NAME, b"mlx5_2\0"), attribute(PORT_INDEX, &1_u32.to_ne_bytes())];
            framed(NLDEV | STAT_GET_STATUS, &[port.concat(), nest(STAT_HWCOUNTERS, entries)].concat())
        };
        let dynamic = |is_on: u8| attribute(statistics::STAT_HWCOUNTER_DYNAMIC, &[is_on]);
        let always = entry("out_of_sequence", attribute(94, &0_u32.to_ne_bytes()));
        let status = of_port(&[always, entry("cc_rx_ce_pkts", dynamic(1)), entry("cc_tx_cnp_pkts", dynamic(0))]);
        let port = |values: &[(&str, u64)], optional: &[(&str, bool)]| PortStatistics {
            device: "mlx5_2".into(),
            port: 1,
            values: values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
            optional: optional.iter().map(|(name, is_on)| ((*name).to_owned(), *is_on)).collect(),
        };
        assert_eq!(decode(&status).unwrap().ports, [port(&[], &[("cc_rx_ce_pkts", true), ("cc_tx_cnp_pkts", false)])]);
        let values = of_port(&[entry("cc_rx_ce_pkts", attribute(STAT_HWCOUNTER_ENTRY_VALUE, &7_u64.to_ne_bytes()))]);
        assert_eq!(decode(&values).unwrap().ports, [port(&[("cc_rx_ce_pkts", 7)], &[])]);
    }

    #[test]
    fn errors_are_numbers_and_what_is_cut_is_none() {
        let refused = framed(NLMSG_ERROR, &(-95_i32).to_ne_bytes());
        assert!(matches!(decode(&refused), Err(NldevError::Refused(error)) if error.raw_os_error() == Some(95)));
        let whole = framed(NLDEV | STAT_GET, &counter());
        assert_eq!(messages(&whole[..whole.len() - 1]).collect::<Vec<_>>(), [None]);
        assert_eq!((messages(&[]).count(), messages(&[1, 2, 3]).collect::<Vec<_>>()), (0, vec![None]));
        // A length of zero must not stand still.
        assert_eq!(messages(&[0; 32]).collect::<Vec<_>>(), [None]);
        assert_eq!(attributes(&[0; 32]).count(), 0);
    }

    #[test]
    fn the_request_is_the_one_of_the_header() {
        let bytes = request(STAT_GET, REQUEST_DUMP, &[(DEV_INDEX, 3)]);
        assert_eq!((bytes.len(), &bytes[..8]), (24, &[&24_u32.to_ne_bytes()[..], &5_137_u16.to_ne_bytes(), &[1, 3]].concat()[..]));
    }

    /// The names of an enum of a header of C, in their order; the first is 0, and none here is set to another number.
    fn names_of(header: &str, name: &str) -> Vec<String> {
        let mut plain = String::new();
        let mut rest = header;
        while let Some((code, comment)) = rest.split_once("/*") {
            plain += code;
            rest = comment.split_once("*/").unwrap().1;
        }
        plain += rest;
        let body = plain.split_once(&format!("enum {name} {{")).unwrap().1.split_once('}').unwrap().0;
        let names = body.split(',').map(str::trim).filter(|line| !line.is_empty());
        // An alias has the number of another name, and is none of the order.
        names.filter(|line| !line.contains('=')).map(str::to_owned).collect()
    }

    #[test]
    fn numbers_of_attributes_are_those_of_the_kernels_header() {
        let Ok(header) = std::fs::read_to_string("/usr/include/rdma/rdma_netlink.h") else {
            println!("skipped: needs the kernel's headers (linux-libc-dev) for /usr/include/rdma/rdma_netlink.h");
            return;
        };
        let known = names_of(&header, "rdma_nldev_attr");
        let ours = [
            ("DEV_INDEX", DEV_INDEX),
            ("DEV_NAME", DEV_NAME),
            ("PORT_INDEX", PORT_INDEX),
            ("RES_QP", RES_QP),
            ("RES_QP_ENTRY", RES_QP_ENTRY),
            ("RES_LQPN", RES_LQPN),
            ("RES_RQPN", pair::RES_RQPN),
            ("RES_TYPE", pair::RES_TYPE),
            ("RES_STATE", pair::RES_STATE),
            ("RES_PID", RES_PID),
            ("STAT_RES", STAT_RES),
            ("STAT_COUNTER", STAT_COUNTER),
            ("STAT_COUNTER_ENTRY", STAT_COUNTER_ENTRY),
            ("STAT_COUNTER_ID", STAT_COUNTER_ID),
            ("STAT_HWCOUNTERS", STAT_HWCOUNTERS),
            ("STAT_HWCOUNTER_ENTRY", STAT_HWCOUNTER_ENTRY),
            ("STAT_HWCOUNTER_ENTRY_NAME", STAT_HWCOUNTER_ENTRY_NAME),
            ("STAT_HWCOUNTER_ENTRY_VALUE", STAT_HWCOUNTER_ENTRY_VALUE),
            ("STAT_HWCOUNTER_DYNAMIC", statistics::STAT_HWCOUNTER_DYNAMIC),
        ];
        for (name, number) in ours {
            let name = format!("RDMA_NLDEV_ATTR_{name}");
            assert_eq!(known.get(usize::from(number)), Some(&name));
        }
    }

    /// "no kernel support" and "no device" are told apart: a kernel without RDMA has no such netlink, whoever asks.
    #[test]
    fn this_kernel_says_what_it_has() {
        let told = [queue_counters().map(|all| all.len()), queue_pairs().map(|all| all.len()), port_statistics().map(|all| all.len())];
        let has_netlink = std::path::Path::new("/sys/module/ib_core").exists();
        for told in told {
            match told {
                Ok(_) | Err(NldevError::NoDevice) => assert!(has_netlink),
                Err(NldevError::NoKernel) => assert!(!has_netlink),
                Err(error) => println!("{error}"),
            }
        }
    }

    proptest! {
        #[test]
        fn any_answer_is_survived(answer in prop::collection::vec(any::<u8>(), 0..400), at in 0_usize..400, byte: u8, cut in 0_usize..400) {
            let mut spoilt = [framed(NLDEV | STAT_GET, &counter()), answer].concat();
            let length = spoilt.len();
            spoilt[at % length] = byte;
            spoilt.truncate(cut.max(1));
            if let Ok(answer) = decode(&spoilt) {
                let is_plain = |c: &QueueCounters| c.queue_pairs.len() <= OF_COUNTER_MAX && !c.device.chars().any(char::is_control);
                prop_assert!(answer.counters.iter().all(is_plain));
                prop_assert!(answer.queue_pairs.iter().all(|pair| !pair.device.chars().any(char::is_control)));
            }
        }
    }
}
