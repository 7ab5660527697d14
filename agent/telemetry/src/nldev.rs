//! Counters of queue pairs, by the kernel's netlink for RDMA (NLDEV; uapi/rdma/rdma_netlink.h): what `rdma statistic qp show` prints.
//!
//! The kernel has them where somebody bound queue pairs to counters, such as `rdma statistic qp set link mlx5_0/1 auto type,pid on`; this
//! module only reads. Soft-RoCE has none, and no device that has was at hand: the decoder was tried on messages made after the header.

use std::{fmt, io};

use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

/// `NETLINK_RDMA`.
const NETLINK_RDMA: u32 = 20;
/// `RDMA_NL_NLDEV`, above the command.
const NLDEV: u16 = 5 << 10;
const GET: u16 = 1;
const STAT_GET: u16 = 17;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
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
const OF_COUNTER_MAX: usize = 1_024;
/// What the kernel puts into one answer of a dump, twice.
const ANSWER_BYTES: usize = 64 << 10;
/// Answers of one dump: each holds a device or a counter at least.
const ANSWERS_MAX: usize = DEVICES_MAX + COUNTERS_MAX;

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

/// Why there are no counters of queue pairs.
#[derive(Debug)]
#[non_exhaustive]
pub enum NldevError {
    /// The kernel has no netlink for RDMA: ib_core is not there.
    NoKernel,
    /// The kernel refused, or has no such counters.
    Refused(io::Error),
    /// An answer that is none of the kernel's.
    Malformed,
}

impl fmt::Display for NldevError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKernel => write!(f, "no kernel support: there is no netlink for RDMA (ib_core is not loaded)"),
            Self::Refused(error) => write!(f, "the kernel has no counters of queue pairs: {error}"),
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

/// What one answer of the kernel holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Numbers and names of devices.
    pub devices: Vec<(u32, String)>,
    /// Counters.
    pub counters: Vec<QueueCounters>,
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
                let name = named.as_ref().map_or("", |(_, name)| name);
                answer.counters.extend(counters_of(payload).into_iter().map(|counter| QueueCounters { device: name.into(), ..counter }));
                answer.devices.extend(named);
            }
            Message::Done | Message::Error(0) => answer.is_last = true,
            Message::Error(number) => return Err(NldevError::Refused(io::Error::from_raw_os_error(number.saturating_neg()))),
        }
    }
    Ok(answer)
}

/// The counters of all devices now. A device that has none is passed over.
///
/// # Errors
/// [`NldevError`]; a kernel without RDMA is one.
pub fn queue_counters() -> Result<Vec<QueueCounters>, NldevError> {
    let mut devices = Vec::new();
    dump(GET, &[], |answer| devices.extend(answer.devices))?;
    devices.truncate(DEVICES_MAX);
    let mut counters = Vec::new();
    for (index, _) in devices {
        let asked = dump(STAT_GET, &[(DEV_INDEX, index), (STAT_RES, u32::from(RES_QP))], |answer| {
            let room = COUNTERS_MAX - counters.len();
            counters.extend(answer.counters.into_iter().take(room));
        });
        match asked {
            // EOPNOTSUPP: this driver has none; others may.
            Err(NldevError::Refused(error)) if error.raw_os_error() == Some(rustix::io::Errno::OPNOTSUPP.raw_os_error()) => {}
            other => other?,
        }
    }
    Ok(counters)
}

fn dump(command: u16, attributes: &[(u16, u32)], mut take: impl FnMut(Answer)) -> Result<(), NldevError> {
    let refused = |error: rustix::io::Errno| NldevError::Refused(error.into());
    let protocol = core::num::NonZeroU32::new(NETLINK_RDMA).map(Protocol::from_raw);
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol).map_err(|error| match error {
        rustix::io::Errno::PROTONOSUPPORT => NldevError::NoKernel,
        error => refused(error),
    })?;
    send(&socket, &request(command, attributes), SendFlags::empty()).map_err(refused)?;
    let mut buffer = vec![0; ANSWER_BYTES];
    // ANSWERS_MAX bounds a kernel that never says that it is done. An answer is there when it is asked for: none is an error, and no wait.
    for _ in 0..ANSWERS_MAX {
        let (_, length) = recv(&socket, &mut buffer[..], RecvFlags::DONTWAIT).map_err(refused)?;
        let answer = decode(buffer.get(..length).ok_or(NldevError::Malformed)?)?;
        let is_last = answer.is_last;
        take(answer);
        if is_last {
            return Ok(());
        }
    }
    Err(NldevError::Malformed)
}

fn request(command: u16, attributes: &[(u16, u32)]) -> Vec<u8> {
    let mut request = Vec::new();
    let length = HEADER_BYTES + attributes.len() * 8;
    request.extend((length as u32).to_ne_bytes());
    request.extend((NLDEV | command).to_ne_bytes());
    request.extend(REQUEST_DUMP.to_ne_bytes());
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

/// Number and name of a device.
fn device(payload: &[u8]) -> Option<(u32, String)> {
    let find = |wanted: u16| attributes(payload).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
    Some((number(find(DEV_INDEX)?)?, text(find(DEV_NAME)?)?))
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
                let numbers =
                    numbers.filter_map(|(_, pair)| attributes(pair).find(|(kind, _)| *kind == RES_LQPN).and_then(|(_, n)| number(n)));
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
    let find = |wanted: u16| attributes(entry).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
    let value = find(STAT_HWCOUNTER_ENTRY_VALUE)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))?;
    Some((text(find(STAT_HWCOUNTER_ENTRY_NAME)?)?, value))
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
        assert_eq!(answer, Answer { devices: vec![(0, "mlx5_0".into())], counters: vec![expected], is_last: true });
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
        let bytes = request(STAT_GET, &[(DEV_INDEX, 3)]);
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
            ("RES_PID", RES_PID),
            ("STAT_RES", STAT_RES),
            ("STAT_COUNTER", STAT_COUNTER),
            ("STAT_COUNTER_ENTRY", STAT_COUNTER_ENTRY),
            ("STAT_COUNTER_ID", STAT_COUNTER_ID),
            ("STAT_HWCOUNTERS", STAT_HWCOUNTERS),
            ("STAT_HWCOUNTER_ENTRY", STAT_HWCOUNTER_ENTRY),
            ("STAT_HWCOUNTER_ENTRY_NAME", STAT_HWCOUNTER_ENTRY_NAME),
            ("STAT_HWCOUNTER_ENTRY_VALUE", STAT_HWCOUNTER_ENTRY_VALUE),
        ];
        for (name, number) in ours {
            let name = format!("RDMA_NLDEV_ATTR_{name}");
            assert_eq!(known.get(usize::from(number)), Some(&name));
        }
    }

    #[test]
    fn this_kernel_says_what_it_has() {
        match queue_counters() {
            Ok(counters) => println!("{} counters of queue pairs", counters.len()),
            Err(error) => {
                let said = error.to_string();
                println!("{said}");
                assert!(
                    said.starts_with("no kernel support: ") || said.starts_with("the kernel has no counters of queue pairs: "),
                    "{said}"
                );
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
            }
        }
    }
}
