//! The invariant checksum of RoCEv2 (annex A17.3.3): CRC-32 over what no router changes.

use super::UDP_BYTES;

/// Size of the checksum at the end of a packet.
pub const ICRC_BYTES: usize = 4;

/// The polynomial of Ethernet's CRC-32, its bits in the order in which they are sent.
const POLYNOMIAL: u32 = 0xedb8_8320;
/// In place of InfiniBand's local routing header, which RoCEv2 lacks.
const PREFIX: [u8; 8] = [0xff; 8];
/// The byte of the transport header with the congestion flags, which count as ones.
const CONGESTION_AT: usize = 4;

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u32, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// The register of CRC-32 after more bytes; it begins with all ones, and the complement of its end is the checksum.
fn continued(register: u32, bytes: impl IntoIterator<Item = u8>) -> u32 {
    // The index has eight bits, as the table has places.
    bytes.into_iter().fold(register, |crc, byte| TABLE[((crc ^ u32::from(byte)) & 0xff) as usize] ^ crc >> 8)
}

/// The bytes of an IP header that routers may change: of IPv4 service, time to live and checksum; of IPv6 class, label and hop limit.
const fn may_change(is_v6: bool, at: usize) -> bool {
    if is_v6 { matches!(at, 1..=3 | 7) } else { matches!(at, 1 | 8 | 10 | 11) }
}

/// The checksum of a packet, from its IP header on and without the four bytes of the checksum itself, in the order in which it is sent.
///
/// `header` is the length of the IP header with its options. Meaningful only for a packet that is at least a UDP and a transport header long.
#[must_use]
pub fn icrc(packet: &[u8], header: usize) -> [u8; ICRC_BYTES] {
    let is_v6 = packet.first().is_some_and(|byte| byte >> 4 == 6);
    // The UDP checksum, which a translation of addresses changes.
    let checksum = header + 6;
    let masked = packet.iter().enumerate().map(|(at, &byte)| match at {
        // The first half of the first byte of class in IPv6 is the version, which stays.
        0 if is_v6 => byte | 0x0f,
        at if at < header && may_change(is_v6, at) => 0xff,
        at if at == checksum || at == checksum + 1 || at == header + UDP_BYTES + CONGESTION_AT => 0xff,
        _ => byte,
    });
    let register = continued(continued(u32::MAX, PREFIX), masked);
    (!register).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One bit at a time, as the polynomial says.
    fn by_bits(bytes: &[u8]) -> u32 {
        let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
        !bytes.iter().fold(u32::MAX, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), step))
    }

    #[test]
    fn the_check_value_of_the_algorithm_comes_out() {
        // The check value that catalogues of CRCs give for CRC-32 (ISO-HDLC).
        assert_eq!(!continued(u32::MAX, *b"123456789"), 0xcbf4_3926);
        assert_eq!(by_bits(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn what_routers_change_does_not_count_and_everything_else_does() {
        for (version, header, changed) in [(0x45, 20, vec![1, 8, 10, 11, 26, 27, 32]), (0x60, 40, vec![1, 2, 3, 7, 46, 47, 52])] {
            let mut packet: Vec<u8> = (0..header + 8 + 12 + 16).map(|at| at as u8).collect();
            packet[0] = version;
            let before = icrc(&packet, header);
            for at in 0..packet.len() {
                let mut other = packet.clone();
                // The lowest bit: of the first byte of IPv6 the version is the upper half.
                other[at] ^= if at == 0 { 0x10 } else { 1 };
                assert_eq!(icrc(&other, header) == before, changed.contains(&at), "byte {at} of version {}", version >> 4);
            }
            let mut masked = packet.clone();
            changed.iter().for_each(|&at| masked[at] = 0xff);
            masked[0] |= if version == 0x60 { 0x0f } else { 0 };
            assert_eq!(u32::from_le_bytes(before), by_bits(&[&PREFIX, masked.as_slice()].concat()));
        }
    }
}
