//! The payload of an LLDP frame: a list of TLVs, each with 7 bits of type and 9 bits of length.

use units::{Nanos, Rate};

use super::{NAME_BYTES_MAX, mau, name};

/// Most TLVs that are read of one frame. A frame of 1,500 bytes could hold 750 empty ones; systems send about twenty.
pub const TLVS_MAX: usize = 128;

/// Longest value of a TLV: the longest name, and a subtype before it.
const VALUE_MAX: usize = NAME_BYTES_MAX + 1;

const END: u16 = 0;
const CHASSIS_ID: u16 = 1;
const PORT_ID: u16 = 2;
const TTL: u16 = 3;
const PORT_DESCRIPTION: u16 = 4;
const SYSTEM_NAME: u16 = 5;
const CAPABILITIES: u16 = 7;
const ORGANISATION: u16 = 127;

/// What forwards between cables: bridge and router (IEEE 802.1AB, 8.5.8).
const FORWARDING: u16 = 1 << 2 | 1 << 4;
/// A system that is nothing but an end station.
const STATION: u16 = 1 << 7;
/// IEEE 802.3 and its subtype of what was negotiated (IEEE 802.3, 79.3.1).
const NEGOTIATION: [u8; 4] = [0x00, 0x12, 0x0f, 1];

/// What a neighbour says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advert {
    /// Chassis id.
    pub chassis: String,
    /// Port id.
    pub port: String,
    /// How long the advert holds; 0 is a goodbye.
    pub ttl: Nanos,
    /// System name, if it gives one.
    pub system: Option<String>,
    /// Port description, if it gives one: often the port's own name, where the id is a MAC address.
    pub description: Option<String>,
    /// Whether it forwards between cables, as a switch does; `None` where it does not say.
    pub forwards: Option<bool>,
    /// The rate that both ends agreed on, if it says so.
    pub rate: Option<Rate>,
}

/// Why a payload is not LLDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameError {
    /// The frame ends within a TLV.
    Cut,
    /// Chassis id, port id and TTL must come first, in this order.
    OutOfOrder {
        /// The type found.
        found: u16,
        /// The type wanted.
        wanted: u16,
    },
    /// An id or the TTL has an impossible length or text.
    BadValue {
        /// The TLV's type.
        tlv: u16,
    },
}

impl core::fmt::Display for FrameError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Cut => write!(f, "the frame ends within a TLV"),
            Self::OutOfOrder { found, wanted } => write!(f, "TLV {found} where {wanted} must stand"),
            Self::BadValue { tlv } => write!(f, "the value of TLV {tlv} is malformed"),
        }
    }
}

impl std::error::Error for FrameError {}

/// Reads a payload, that is what follows the EtherType. Unknown TLVs are passed over, as the standard asks.
///
/// # Errors
/// [`FrameError`] at the first thing that is not LLDP.
pub fn parse(payload: &[u8]) -> Result<Advert, FrameError> {
    let mut rest = payload;
    // Chassis id, port id and TTL begin every frame, in this order (IEEE 802.1AB, clause 8).
    let chassis = mandatory(&mut rest, CHASSIS_ID)?;
    // Subtype 4 of a chassis id is a MAC address, and 5 a network address.
    let chassis = id(chassis, 4, 5).ok_or(FrameError::BadValue { tlv: CHASSIS_ID })?;
    let port = mandatory(&mut rest, PORT_ID)?;
    // A port id numbers the same subtypes one lower.
    let port = id(port, 3, 4).ok_or(FrameError::BadValue { tlv: PORT_ID })?;
    let ttl = mandatory(&mut rest, TTL)?;
    let seconds = ttl.first_chunk::<2>().map(|seconds| u16::from_be_bytes(*seconds)).ok_or(FrameError::BadValue { tlv: TTL })?;
    let ttl = Nanos::from_millis(u64::from(seconds) * 1_000);
    let mut advert = Advert { chassis, port, ttl, system: None, description: None, forwards: None, rate: None };
    for _ in 0..TLVS_MAX {
        // Ethernet pads short frames with zeros, which read as the end; a frame without an end is taken as it is. TLVS_MAX bounds
        // the loop for a sender who fills a frame with empty TLVs.
        if rest.is_empty() {
            break;
        }
        match tlv(&mut rest)? {
            (END, _) => break,
            // A second name that is not printable must not erase a good one.
            (SYSTEM_NAME, value) => advert.system = name(value).or(advert.system),
            (PORT_DESCRIPTION, value) => advert.description = name(value).or(advert.description),
            (CAPABILITIES, value) => advert.forwards = forwards(value).or(advert.forwards),
            (ORGANISATION, value) => advert.rate = negotiated(value).or(advert.rate),
            _ => {}
        }
    }
    Ok(advert)
}

/// The payload of a frame that says this: the inverse of [`parse`]. Ids go as text, chassis by local name (subtype 7) and port by interface
/// name (subtype 5); of a text that is too long for a TLV, what fits of it, of a time whole seconds, at most 65,535, and of a rate those
/// that a kind of medium has.
#[must_use]
pub fn encode(advert: &Advert) -> Vec<u8> {
    let mut payload = Vec::new();
    let mut put = |kind: u16, parts: [&[u8]; 2]| {
        let value: Vec<u8> = parts.concat().into_iter().take(VALUE_MAX).collect();
        payload.extend((kind << 9 | value.len() as u16).to_be_bytes());
        payload.extend(value);
    };
    put(CHASSIS_ID, [&[7], fitting(&advert.chassis)]);
    put(PORT_ID, [&[5], fitting(&advert.port)]);
    let seconds = u16::try_from(advert.ttl.0 / 1_000_000_000).unwrap_or(u16::MAX);
    put(TTL, [&seconds.to_be_bytes(), &[]]);
    if let Some(description) = &advert.description {
        put(PORT_DESCRIPTION, [fitting(description), &[]]);
    }
    if let Some(system) = &advert.system {
        put(SYSTEM_NAME, [fitting(system), &[]]);
    }
    if let Some(forwards) = advert.forwards {
        let enabled = if forwards { FORWARDING } else { STATION }.to_be_bytes();
        put(CAPABILITIES, [&enabled, &enabled]);
    }
    if let Some(kind) = advert.rate.and_then(mau::kind) {
        // Negotiation is supported and done; what was advertised is nobody's business here.
        put(ORGANISATION, [&NEGOTIATION, &[&[3, 0, 0][..], &kind.to_be_bytes()].concat()]);
    }
    put(END, [&[], &[]]);
    payload
}

/// As many whole characters as the longest name has bytes.
fn fitting(text: &str) -> &[u8] {
    let end = (0..=text.len().min(NAME_BYTES_MAX)).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    text.as_bytes().get(..end).unwrap_or_default()
}

fn tlv<'a>(rest: &mut &'a [u8]) -> Result<(u16, &'a [u8]), FrameError> {
    let (header, body) = rest.split_first_chunk::<2>().ok_or(FrameError::Cut)?;
    let header = u16::from_be_bytes(*header);
    // The length is the sender's word, so the bytes that came have the last one.
    let (value, after) = body.split_at_checked(usize::from(header & 0x1ff)).ok_or(FrameError::Cut)?;
    *rest = after;
    Ok((header >> 9, value))
}

/// What is enabled of a system's capabilities; what it could do says nothing.
fn forwards(value: &[u8]) -> Option<bool> {
    let (_, enabled) = value.split_first_chunk::<2>()?;
    let enabled = u16::from_be_bytes(*enabled.first_chunk()?);
    // A wireless access point or a telephone is neither a switch nor a host.
    match (enabled & FORWARDING != 0, enabled & STATION != 0) {
        (true, _) => Some(true),
        (false, true) => Some(false),
        (false, false) => None,
    }
}

/// The rate of the operational kind of medium. One that is not negotiated is as true: it is what the port runs at.
fn negotiated(value: &[u8]) -> Option<Rate> {
    // A byte of status and two of what was advertised stand before the kind.
    let kind = value.strip_prefix(&NEGOTIATION)?.get(3..5)?;
    mau::rate(u16::from_be_bytes(kind.try_into().ok()?))
}

fn mandatory<'a>(rest: &mut &'a [u8], wanted: u16) -> Result<&'a [u8], FrameError> {
    match tlv(rest)? {
        (found, value) if found == wanted => Ok(value),
        (found, _) => Err(FrameError::OutOfOrder { found, wanted }),
    }
}

/// A subtype and an id: text, or an address in the subtypes `mac` and `network`, printed as people write it.
fn id(value: &[u8], mac: u8, network: u8) -> Option<String> {
    let (&subtype, id) = value.split_first()?;
    match (subtype, id) {
        (subtype, [a, b, c, d, e, f]) if subtype == mac => Some(format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")),
        (subtype, _) if subtype == mac => None,
        // An address family (RFC 3232: 1 is IPv4, 2 is IPv6), then the address.
        (subtype, [1, a, b, c, d]) if subtype == network => Some(std::net::Ipv4Addr::new(*a, *b, *c, *d).to_string()),
        (subtype, [2, v6 @ ..]) if subtype == network => Some(std::net::Ipv6Addr::from(<[u8; 16]>::try_from(v6).ok()?).to_string()),
        _ => name(id),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(tlvs: &[(u16, &[u8])]) -> Vec<u8> {
        let header = |kind: u16, value: &[u8]| ((kind << 9) | value.len() as u16).to_be_bytes();
        tlvs.iter().flat_map(|(kind, value)| [&header(*kind, value)[..], value].concat()).collect()
    }

    #[test]
    fn a_switch_is_read() {
        let frame = frame(&[
            (1, b"\x04\xaa\xbb\xcc\xdd\xee\x01"),
            (2, b"\x05Ethernet448"),
            (3, &[0, 120, 9]),
            (4, b"Eth57/1"),
            // Bridge and router, of which the router is enabled.
            (7, &[0, 0x14, 0, 0x10]),
            (127, b"\x00\x80\xc2\x01\x00\x01"),
            // 100GBASE-CR4.
            (127, b"\x00\x12\x0f\x01\x03\x00\x00\x00\x62"),
            (5, b"leaf-01"),
            (0, b""),
            (5, b"after the end"),
        ]);
        let advert = parse(&frame).unwrap();
        assert_eq!(advert.chassis, "aa:bb:cc:dd:ee:01");
        assert_eq!(advert.port, "Ethernet448");
        assert_eq!(advert.ttl, Nanos::from_millis(120_000));
        assert_eq!(advert.system.as_deref(), Some("leaf-01"));
        assert_eq!(advert.description.as_deref(), Some("Eth57/1"));
        assert_eq!((advert.forwards, advert.rate), (Some(true), Some(Rate(100_000))));
    }

    #[test]
    fn what_a_system_does_not_say_is_not_known() {
        let with = |tlv: (u16, &[u8])| parse(&frame(&[(1, b"\x07x"), (2, b"\x05y"), (3, &[0, 1]), tlv])).unwrap();
        assert_eq!(with((7, &[0, 0x80, 0, 0x80])).forwards, Some(false));
        // Able to forward, and not doing it; an access point; cut.
        for value in [&[0, 0x14, 0, 0][..], &[0, 8, 0, 8], &[0, 0x14, 0], &[]] {
            assert_eq!(with((7, value)).forwards, None, "{value:?}");
        }
        // An unknown kind of medium, and a value that ends before it.
        for value in [&b"\x00\x12\x0f\x01\x03\x00\x00\xff\xff"[..], b"\x00\x12\x0f\x01\x03\x00\x00\x00", b"\x00\x12\x0f\x01", b""] {
            assert_eq!(with((127, value)).rate, None, "{value:?}");
        }
    }

    #[test]
    fn addresses_are_printed_as_people_write_them() {
        let frame = frame(&[(1, b"\x05\x01\x0a\x00\x00\x0b"), (2, b"\x03\x02\x00\x00\x00\x00\x07"), (3, &[0, 1])]);
        let advert = parse(&frame).unwrap();
        assert_eq!((advert.chassis.as_str(), advert.port.as_str()), ("10.0.0.11", "02:00:00:00:00:07"));
    }

    #[test]
    fn what_is_not_lldp_is_refused() {
        assert_eq!(parse(b""), Err(FrameError::Cut));
        assert_eq!(parse(&frame(&[(2, b"\x05a")])), Err(FrameError::OutOfOrder { found: 2, wanted: 1 }));
        assert_eq!(parse(&frame(&[(1, b"\x04short")])), Err(FrameError::BadValue { tlv: 1 }));
        assert_eq!(parse(&frame(&[(1, b"\x07x"), (2, b"\x05\x1b[31m")])), Err(FrameError::BadValue { tlv: 2 }));
        assert_eq!(parse(&frame(&[(1, b"\x07x"), (2, b"\x05y"), (3, b"z")])), Err(FrameError::BadValue { tlv: 3 }));
        let mut cut = frame(&[(1, b"\x07x"), (2, b"\x05y"), (3, &[0, 1]), (5, b"name")]);
        cut.pop();
        assert_eq!(parse(&cut), Err(FrameError::Cut));
    }

    #[test]
    fn an_advert_has_the_bytes_of_the_standard() {
        let advert = Advert {
            chassis: "leaf-01".into(),
            port: "Ethernet1/1".into(),
            ttl: Nanos::from_millis(120_999),
            system: Some("leaf-01".into()),
            description: None,
            forwards: Some(false),
            rate: Some(Rate(10_000)),
        };
        let expected = b"\x02\x08\x07leaf-01\x04\x0c\x05Ethernet1/1\x06\x02\x00\x78\x0a\x07leaf-01\x0e\x04\x00\x80\x00\x80\xfe\x09\x00\x12\x0f\x01\x03\x00\x00\x00\x21\x00\x00";
        assert_eq!(encode(&advert), expected);
        let long = Advert { chassis: "\u{e9}".repeat(200), ttl: Nanos(u64::MAX), ..advert };
        let read = parse(&encode(&long)).unwrap();
        assert_eq!((read.chassis, read.ttl), ("\u{e9}".repeat(127), Nanos::from_millis(65_535_000)));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            chassis in "[!-~]{1,255}",
            port in "[!-~]{1,255}",
            seconds: u16,
            system in prop::option::of("[!-~]{1,255}"),
            description in prop::option::of("[!-~]{1,255}"),
            forwards: Option<bool>,
            rate in prop::option::of(prop::sample::select(vec![Rate(1_000), Rate(25_000), Rate(100_000)])),
        ) {
            let ttl = Nanos::from_millis(u64::from(seconds) * 1_000);
            let advert = Advert { chassis, port, ttl, system, description, forwards, rate };
            prop_assert_eq!(parse(&encode(&advert)).unwrap(), advert);
        }

        #[test]
        fn any_bytes_are_survived(payload in prop::collection::vec(any::<u8>(), 0..2_000)) {
            let _ = parse(&payload);
        }

        #[test]
        fn a_broken_frame_is_survived(at in 0_usize..60, byte: u8, cut in 0_usize..70) {
            let mut frame = frame(&[(1, b"\x07chassis"), (2, b"\x05port"), (3, &[0, 120]), (5, b"system"), (8, &[1; 24]), (0, b"")]);
            let length = frame.len();
            frame[at % length] = byte;
            frame.truncate(cut);
            if let Ok(advert) = parse(&frame) {
                for text in [Some(&advert.chassis), Some(&advert.port), advert.system.as_ref()].into_iter().flatten() {
                    prop_assert!(!text.is_empty() && text.chars().all(|c| !c.is_control()));
                }
            }
        }
    }
}
