//! Ethernet frames around RoCEv2.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{
    UDP_BYTES,
    bth::{BTH_BYTES, Bth},
    checksum::{ICRC_BYTES, icrc},
};

/// The UDP port of RoCEv2.
pub const PORT: u16 = 4_791;
/// Size of the frame of a notification over IPv4: Ethernet 14, IP 20, UDP 8, transport 12, reserved 16, checksum 4.
pub const CNP_BYTES: usize = ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES + BTH_BYTES + RESERVED_BYTES + ICRC_BYTES;

const ETHERNET_BYTES: usize = 14;
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
/// What a notification carries in place of a payload, all zero.
const RESERVED_BYTES: usize = 16;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// Types of VLAN tags, of customers and of providers (IEEE 802.1Q).
const VLAN: [u16; 2] = [0x8100, 0x88a8];
/// Most VLAN tags that are passed over: a provider's and a customer's.
const VLANS_MAX: usize = 2;
const UDP: u8 = 17;
/// Class selector 6, at which switches and NICs keep notifications ahead of data.
const CNP_DSCP: u8 = 48;

/// What the ECN bits of an IP header say (RFC 3168).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// A queue drops it and marks nothing.
    NotCapable,
    /// Capable, code point 1.
    Ect1,
    /// Capable, code point 0: what RoCE senders use.
    Ect0,
    /// Marked on the way.
    Marked,
}

impl Ecn {
    const fn of(byte: u8) -> Self {
        match byte & 3 {
            0 => Self::NotCapable,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Marked,
        }
    }
}

/// A packet of RoCEv2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Who sent it.
    pub source: IpAddr,
    /// Whom it is for.
    pub destination: IpAddr,
    /// The source port, by which ECMP tells queue pairs apart.
    pub source_port: u16,
    /// Differentiated services code point.
    pub dscp: u8,
    /// Marks.
    pub ecn: Ecn,
    /// The transport header.
    pub bth: Bth,
    /// Bytes between the transport header and the checksum, further headers and padding among them.
    pub payload_bytes: usize,
    /// Whether the checksum is that of the packet.
    pub is_whole: bool,
}

/// Why a frame is no packet of RoCEv2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameError {
    /// It ends within a header, or before a length that it states.
    Cut,
    /// It is something else: another protocol, another port, a fragment, or IPv6 with further headers.
    Other,
}

impl core::fmt::Display for FrameError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Cut => write!(f, "the frame ends within a header, or before a length that it states"),
            Self::Other => write!(f, "the frame is not of RoCEv2"),
        }
    }
}

impl std::error::Error for FrameError {}

/// Reads an Ethernet frame without its check sequence.
///
/// # Errors
/// [`FrameError`] for a frame that is cut, or of something else.
pub fn parse(frame: &[u8]) -> Result<Packet, FrameError> {
    let packet = payload(frame)?;
    let ip = Ip::parse(packet)?;
    // What Ethernet pads a short frame with is behind the packet, and the packet says where.
    let packet = packet.get(..ip.packet_bytes).ok_or(FrameError::Cut)?;
    let (udp, after) = packet.get(ip.header_bytes..).and_then(<[u8]>::split_first_chunk::<UDP_BYTES>).ok_or(FrameError::Cut)?;
    let &[p1, p0, d1, d0, l1, l0, _, _] = udp;
    if u16::from_be_bytes([d1, d0]) != PORT {
        return Err(FrameError::Other);
    }
    if usize::from(u16::from_be_bytes([l1, l0])) != UDP_BYTES + after.len() {
        return Err(FrameError::Cut);
    }
    let (bth, rest) = Bth::decode(after).map_err(|_| FrameError::Cut)?;
    let (payload, checksum) = rest.split_last_chunk::<ICRC_BYTES>().ok_or(FrameError::Cut)?;
    let covered = packet.get(..packet.len() - ICRC_BYTES).ok_or(FrameError::Cut)?;
    Ok(Packet {
        source: ip.source,
        destination: ip.destination,
        source_port: u16::from_be_bytes([p1, p0]),
        dscp: ip.class >> 2,
        ecn: Ecn::of(ip.class),
        bth,
        payload_bytes: payload.len(),
        is_whole: icrc(covered, ip.header_bytes) == *checksum,
    })
}

/// What a frame carries behind its addresses and VLAN tags, if that is IP.
fn payload(frame: &[u8]) -> Result<&[u8], FrameError> {
    // Two addresses of six bytes; each tag is a type and two bytes of its own.
    let mut rest = frame.get(ETHERNET_BYTES - 2..).ok_or(FrameError::Cut)?;
    for _ in 0..=VLANS_MAX {
        let (kind, after) = rest.split_first_chunk::<2>().ok_or(FrameError::Cut)?;
        match u16::from_be_bytes(*kind) {
            IPV4 | IPV6 => return Ok(after),
            tag if VLAN.contains(&tag) => rest = after.get(2..).ok_or(FrameError::Cut)?,
            _ => break,
        }
    }
    Err(FrameError::Other)
}

/// What an IP header of either version says.
struct Ip {
    source: IpAddr,
    destination: IpAddr,
    class: u8,
    header_bytes: usize,
    packet_bytes: usize,
}

impl Ip {
    fn parse(packet: &[u8]) -> Result<Self, FrameError> {
        match packet.first().ok_or(FrameError::Cut)? >> 4 {
            4 => Self::v4(packet.first_chunk::<IPV4_BYTES>().ok_or(FrameError::Cut)?),
            6 => Self::v6(packet.first_chunk::<IPV6_BYTES>().ok_or(FrameError::Cut)?),
            _ => Err(FrameError::Other),
        }
    }

    fn v4(header: &[u8; IPV4_BYTES]) -> Result<Self, FrameError> {
        let &[size, class, l1, l0, _, _, f1, f0, _, protocol, _, _, s3, s2, s1, s0, d3, d2, d1, d0] = header;
        let (header_bytes, packet_bytes) = (usize::from(size & 0xf) * 4, usize::from(u16::from_be_bytes([l1, l0])));
        if header_bytes < IPV4_BYTES || packet_bytes < header_bytes {
            return Err(FrameError::Cut);
        }
        // A fragment has more to come or comes later: the lower 14 bits, without "do not fragment".
        if protocol != UDP || u16::from_be_bytes([f1, f0]) & 0x3fff != 0 {
            return Err(FrameError::Other);
        }
        let (source, destination) = (Ipv4Addr::new(s3, s2, s1, s0).into(), Ipv4Addr::new(d3, d2, d1, d0).into());
        Ok(Self { source, destination, class, header_bytes, packet_bytes })
    }

    fn v6(header: &[u8; IPV6_BYTES]) -> Result<Self, FrameError> {
        let &[version, label, _, _, l1, l0, next, _, ..] = header;
        if next != UDP {
            return Err(FrameError::Other);
        }
        let address = |at: usize| {
            let bytes = header.get(at..at + 16).and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
            bytes.map(|bytes| IpAddr::from(Ipv6Addr::from(bytes))).ok_or(FrameError::Cut)
        };
        Ok(Self {
            source: address(8)?,
            destination: address(24)?,
            class: version << 4 | label >> 4,
            header_bytes: IPV6_BYTES,
            packet_bytes: IPV6_BYTES + usize::from(u16::from_be_bytes([l1, l0])),
        })
    }
}

/// Whom a notification is from and for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CnpFrame {
    /// Ethernet address of the next station.
    pub destination_mac: [u8; 6],
    /// Our Ethernet address.
    pub source_mac: [u8; 6],
    /// The receiver of the marked packet.
    pub source: Ipv4Addr,
    /// The sender of the marked packet.
    pub destination: Ipv4Addr,
    /// The source port.
    pub source_port: u16,
    /// The sender's queue pair.
    pub queue_pair: u32,
}

/// The frame of a congestion notification over IPv4, for tests and for trying how a NIC answers one.
#[must_use]
pub fn cnp(to: &CnpFrame) -> [u8; CNP_BYTES] {
    let mut frame = [0; CNP_BYTES];
    let mut rest = frame.as_mut_slice();
    let length = |bytes: usize| (bytes as u16).to_be_bytes();
    let ip = ipv4(to, CNP_BYTES - ETHERNET_BYTES);
    let [ip_high, ip_low] = IPV4.to_be_bytes();
    let parts: [&[u8]; 8] = [
        &to.destination_mac,
        &to.source_mac,
        &[ip_high, ip_low],
        &ip,
        &to.source_port.to_be_bytes(),
        &PORT.to_be_bytes(),
        &length(CNP_BYTES - ETHERNET_BYTES - IPV4_BYTES),
        // No UDP checksum, as RoCEv2 has its own.
        &[0, 0],
    ];
    for part in parts.into_iter().chain([Bth::notification(to.queue_pair).encode().as_slice()]) {
        // The parts are shorter than the frame by what is reserved and the checksum.
        let Some((here, after)) = rest.split_at_mut_checked(part.len()) else { return frame };
        here.copy_from_slice(part);
        rest = after;
    }
    let covered = CNP_BYTES - ICRC_BYTES;
    let checksum = icrc(&frame[ETHERNET_BYTES..covered], IPV4_BYTES);
    frame[covered..].copy_from_slice(&checksum);
    frame
}

fn ipv4(to: &CnpFrame, packet_bytes: usize) -> [u8; IPV4_BYTES] {
    let [l1, l0] = (packet_bytes as u16).to_be_bytes();
    let ([s3, s2, s1, s0], [d3, d2, d1, d0]) = (to.source.octets(), to.destination.octets());
    // Version 4 and five words; class; do not fragment; 64 hops.
    let mut header = [0x45, CNP_DSCP << 2, l1, l0, 0, 0, 0x40, 0, 64, UDP, 0, 0, s3, s2, s1, s0, d3, d2, d1, d0];
    let words = header.chunks_exact(2).map(|word| word.iter().fold(0, |word, &byte| word << 8 | u32::from(byte)));
    let sum: u32 = words.sum();
    // The carries of ten words are added back once (RFC 1071); their sum carries no more than once again.
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    header[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    header
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TO: CnpFrame = CnpFrame {
        destination_mac: [2, 0, 0, 0, 0, 1],
        source_mac: [2, 0, 0, 0, 0, 2],
        source: Ipv4Addr::new(10, 9, 0, 2),
        destination: Ipv4Addr::new(10, 9, 0, 1),
        source_port: 49_152,
        queue_pair: 0xd2,
    };

    /// The same frame made by another program: a script over Python's `struct` and `zlib.crc32`.
    const KNOWN: &str = "020000000001020000000002080045c0003c00004000401125dd0a0900020a090001c00012b7002800008140ffff400000d2000000000000\
        00000000000000000000000000003d8b4dc5";

    /// A write over IPv6 in a VLAN, marked, made by the same script; 5 bytes of payload and 3 of padding.
    const KNOWN_V6: &str = "0200000000010200000000028100006486dd66babcde0020113ffd000000000000000000000000000007fd00000000000000000000000000\
        0008c35012b7002012340a70ffff0012345680fffffe68656c6c6f000000a6c97c4b";

    fn bytes(hex: &str) -> Vec<u8> {
        hex.as_bytes().chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    }

    #[test]
    fn a_notification_is_what_another_program_makes() {
        assert_eq!(cnp(&TO).as_slice(), bytes(KNOWN));
        let packet = parse(&cnp(&TO)).unwrap();
        assert_eq!((packet.source, packet.destination), (IpAddr::from(TO.source), IpAddr::from(TO.destination)));
        assert_eq!((packet.source_port, packet.dscp, packet.ecn, packet.payload_bytes), (49_152, 48, Ecn::NotCapable, 16));
        assert!(packet.bth.is_notification() && packet.is_whole);
    }

    #[test]
    fn a_marked_write_over_ipv6_in_a_vlan_is_read() {
        let frame = bytes(KNOWN_V6);
        let packet = parse(&frame).unwrap();
        assert_eq!((packet.source, packet.destination), ("fd00::7".parse().unwrap(), "fd00::8".parse().unwrap()));
        assert_eq!((packet.dscp, packet.ecn, packet.payload_bytes, packet.is_whole), (26, Ecn::Marked, 8, true));
        assert_eq!((packet.bth.opcode, packet.bth.padding, packet.bth.queue_pair), (0x0a, 3, 0x12_3456));
        assert_eq!((packet.bth.sequence, packet.bth.acknowledge, packet.bth.partition), (0xff_fffe, true, 0xffff));
    }

    #[test]
    fn marks_and_hops_on_the_way_leave_it_whole_and_a_flipped_bit_does_not() {
        let mut frame = cnp(&TO);
        frame[15] |= 3;
        frame[22] -= 1;
        let packet = parse(&frame).unwrap();
        assert!(packet.is_whole && packet.ecn == Ecn::Marked);
        frame[60] ^= 1;
        assert!(!parse(&frame).unwrap().is_whole);
        // Behind the packet Ethernet may have put anything.
        assert_eq!(parse(&[frame.as_slice(), &[7; 5]].concat()), parse(&frame));
    }

    #[test]
    fn what_is_no_roce_says_so() {
        let spoilt = |at: usize, byte: u8| {
            let mut frame = cnp(&TO);
            frame[at] = byte;
            parse(&frame).unwrap_err()
        };
        // EtherType, version, a fragment, protocol, and port.
        for (at, byte) in [(12, 9), (14, 0x55), (20, 0x20), (21, 1), (23, 6), (36, 0)] {
            assert_eq!(spoilt(at, byte), FrameError::Other, "byte {at}");
        }
        // A short header, and lengths of IP and of UDP.
        for (at, byte) in [(14, 0x44), (17, 200), (17, 19), (39, 41), (39, 3)] {
            assert_eq!(spoilt(at, byte), FrameError::Cut, "byte {at}");
        }
        let frame = cnp(&TO);
        assert!((0..frame.len()).all(|length| parse(&frame[..length]) == Err(FrameError::Cut)));
    }

    proptest! {
        #[test]
        fn any_frame_is_survived(frame in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&frame);
        }

        /// Frames that are nearly right reach deeper.
        #[test]
        fn a_spoilt_frame_is_survived(v6: bool, spoils in prop::collection::vec((0_usize..110, any::<u8>()), 0..6), cut in 0_usize..110) {
            let mut frame = bytes(if v6 { KNOWN_V6 } else { KNOWN });
            let length = frame.len();
            spoils.into_iter().for_each(|(at, byte)| frame[at % length] = byte);
            frame.truncate(cut);
            if let Ok(packet) = parse(&frame) {
                prop_assert!(packet.payload_bytes + BTH_BYTES + ICRC_BYTES <= frame.len());
            }
        }

        #[test]
        fn notifications_are_read_again(source: u32, destination: u32, source_port: u16, queue_pair in 0_u32..1 << 24) {
            let to = CnpFrame { source: source.into(), destination: destination.into(), source_port, queue_pair, ..TO };
            let packet = parse(&cnp(&to)).unwrap();
            prop_assert_eq!((packet.source, packet.destination), (to.source.into(), to.destination.into()));
            prop_assert_eq!((packet.source_port, packet.bth.queue_pair, packet.is_whole), (source_port, queue_pair, true));
        }
    }
}
