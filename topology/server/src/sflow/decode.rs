//! sFlow version 5 datagrams: the counters of interfaces, of all that they may hold (sFlow.org, "sFlow Version 5", July 2004).
//!
//! Counter samples, plain and expanded, with generic interface counters and port names are read; everything else is skipped by its
//! length, flow samples are counted. Numbers are big-endian words of 32 bits (XDR, RFC 4506).

use std::net::IpAddr;

/// The version of the datagrams that are read.
const VERSION: u32 = 5;
/// Longest datagram: UDP has no longer ones.
pub(crate) const DATAGRAM_BYTES_MAX: usize = 65_535;
/// Longest name of a port that is kept, as long as that of a fabric's port.
const NAME_BYTES_MAX: usize = units::NAME_BYTES_MAX;

/// Formats are an enterprise in the upper 20 bits, of which 0 is the standard, and a number.
const FLOW_SAMPLE: u32 = 1;
const COUNTERS_SAMPLE: u32 = 2;
const EXPANDED_FLOW_SAMPLE: u32 = 3;
const EXPANDED_COUNTERS_SAMPLE: u32 = 4;
const GENERIC_INTERFACE: u32 = 1;
/// "sFlow Port Name Structure", as the list of structures at sflow.org has it.
const PORT_NAME: u32 = 1_005;

/// What is wrong with a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DatagramError {
    /// It ends before what it says that it holds.
    #[error("the datagram ends in {0}")]
    Ends(&'static str),
    /// It is of another version.
    #[error("version {0}; only {VERSION} is read")]
    Version(u32),
    /// The agent's address is neither of IPv4 nor of IPv6.
    #[error("the agent's address is of type {0}; expected 1 or 2")]
    Address(u32),
}

/// Who speaks, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The switch, as it calls itself.
    pub(crate) agent: IpAddr,
    /// Which part of the switch speaks.
    pub(crate) sub_agent: u32,
    /// Milliseconds since that part started; begins anew after 2^32.
    pub(crate) uptime_ms: u32,
}

/// What a datagram holds, as far as it is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Samples {
    /// Counters of interfaces.
    pub(crate) interfaces: Vec<Interface>,
    /// Counter samples, of interfaces and of anything else.
    pub(crate) counters: u32,
    /// Flow samples, which are not read.
    pub(crate) flows: u32,
    /// Samples of other kinds, such as those of a manufacturer.
    pub(crate) others: u32,
}

/// Counters of one interface since the switch began to count, and its name where the switch says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    /// The index of SNMP (RFC 2863, ifIndex).
    pub(crate) index: u32,
    /// ifSpeed in bits a second; 0: unknown.
    pub(crate) speed: u64,
    /// Bytes received (ifHCInOctets); all ones: not counted.
    pub(crate) in_octets: u64,
    /// Bytes sent (ifHCOutOctets); all ones: not counted.
    pub(crate) out_octets: u64,
    /// ifName.
    pub(crate) name: Option<String>,
}

/// Reads who speaks; the rest of the datagram is for [`samples`].
///
/// # Errors
/// [`DatagramError`].
pub(crate) fn head(bytes: &[u8]) -> Result<(Head, &[u8]), DatagramError> {
    let mut words = Words(bytes);
    let version = words.word("its head")?;
    if version != VERSION {
        return Err(DatagramError::Version(version));
    }
    let agent = match words.word("its head")? {
        1 => IpAddr::from(words.array::<4>("the agent's address")?),
        2 => IpAddr::from(words.array::<16>("the agent's address")?),
        other => return Err(DatagramError::Address(other)),
    };
    let sub_agent = words.word("its head")?;
    // The number of the datagram.
    words.word("its head")?;
    let uptime_ms = words.word("its head")?;
    Ok((Head { agent, sub_agent, uptime_ms }, words.0))
}

/// Reads what stands behind the head. A datagram that is not as the standard has it is refused as a whole.
///
/// # Errors
/// [`DatagramError`].
pub(crate) fn samples(rest: &[u8]) -> Result<Samples, DatagramError> {
    let mut words = Words(rest);
    let mut read = Samples::default();
    // Each sample takes at least eight bytes, so the bytes bound the loop, whatever the count says.
    for _ in 0..words.word("its head")? {
        let format = words.word("the head of a sample")?;
        let mut sample = words.opaque("a sample")?;
        match format {
            COUNTERS_SAMPLE | EXPANDED_COUNTERS_SAMPLE => {
                read.counters += 1;
                read.interfaces.extend(counters(&mut sample, format == EXPANDED_COUNTERS_SAMPLE)?);
            }
            FLOW_SAMPLE | EXPANDED_FLOW_SAMPLE => read.flows += 1,
            _ => read.others += 1,
        }
    }
    Ok(read)
}

/// One counter sample: its records are of one source, and so of one interface.
fn counters(sample: &mut Words<'_>, expanded: bool) -> Result<Option<Interface>, DatagramError> {
    const PLACE: &str = "the head of a counter sample";
    // The sample's number; then the source, one word or two, which the record names again.
    sample.skip(if expanded { 3 } else { 2 }, PLACE)?;
    let (mut found, mut name) = (None, None);
    for _ in 0..sample.word(PLACE)? {
        let format = sample.word("the head of a record")?;
        let mut record = sample.opaque("a record")?;
        match format {
            GENERIC_INTERFACE => found = Some(generic(&mut record)?),
            PORT_NAME => name = port_name(&mut record)?,
            _ => {}
        }
    }
    Ok(found.map(|interface| Interface { name, ..interface }))
}

fn generic(record: &mut Words<'_>) -> Result<Interface, DatagramError> {
    const PLACE: &str = "the counters of an interface";
    let index = record.word(PLACE)?;
    // ifType.
    record.skip(1, PLACE)?;
    let speed = record.long(PLACE)?;
    // ifDirection, ifStatus.
    record.skip(2, PLACE)?;
    let in_octets = record.long(PLACE)?;
    // Unicast, multicast and broadcast packets, discards, errors and unknown protocols.
    record.skip(6, PLACE)?;
    let out_octets = record.long(PLACE)?;
    // Unicast, multicast and broadcast packets, discards, errors; promiscuous mode.
    record.skip(6, PLACE)?;
    Ok(Interface { index, speed, in_octets, out_octets, name: None })
}

/// A name that is no text, or too long for any port of a fabric, is none.
fn port_name(record: &mut Words<'_>) -> Result<Option<String>, DatagramError> {
    let bytes = record.opaque("the name of a port")?.0;
    let text = std::str::from_utf8(bytes).ok().filter(|text| !text.is_empty() && text.len() <= NAME_BYTES_MAX);
    Ok(text.map(str::to_owned))
}

/// What is left to read.
struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    fn take(&mut self, bytes: usize, place: &'static str) -> Result<&'a [u8], DatagramError> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or(DatagramError::Ends(place))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, place: &'static str) -> Result<[u8; N], DatagramError> {
        self.take(N, place)?.try_into().map_err(|_| DatagramError::Ends(place))
    }

    fn word(&mut self, place: &'static str) -> Result<u32, DatagramError> {
        self.array(place).map(u32::from_be_bytes)
    }

    fn long(&mut self, place: &'static str) -> Result<u64, DatagramError> {
        self.array(place).map(u64::from_be_bytes)
    }

    fn skip(&mut self, words: usize, place: &'static str) -> Result<(), DatagramError> {
        self.take(4 * words, place).map(drop)
    }

    /// Bytes with their length before them; zeros fill up the last word.
    fn opaque(&mut self, place: &'static str) -> Result<Self, DatagramError> {
        let length = self.word(place)? as usize;
        let taken = self.take(length, place)?;
        // Some agents leave out what fills up the last word of a datagram.
        let fill = (4 - length % 4) % 4;
        self.0 = self.0.get(fill..).unwrap_or_default();
        Ok(Self(taken))
    }
}
