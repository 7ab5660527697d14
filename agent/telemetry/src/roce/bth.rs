//! The base transport header of InfiniBand: the first twelve bytes of what RoCEv2 carries (volume 1, section 9.2).

/// Size of the header.
pub const BTH_BYTES: usize = 12;
/// The operation code of a congestion notification packet (annex A17.9.3).
pub const CNP: u8 = 0x81;

const SOLICITED: u8 = 0x80;
const MIGRATION: u8 = 0x40;
const FECN: u8 = 0x80;
const BECN: u8 = 0x40;
const ACK: u8 = 0x80;
/// Numbers of queue pairs and of packets have 24 bits.
const NUMBER_MAX: u32 = 0x00ff_ffff;

/// A base transport header. What is written is read again, but for bits that are reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bth {
    /// Transport and operation; [`CNP`] for a notification.
    pub opcode: u8,
    /// Whether the receiver is to raise an event.
    pub solicited: bool,
    /// The state of path migration.
    pub migration: bool,
    /// Bytes that fill the payload up to a multiple of four, up to 3.
    pub padding: u8,
    /// Version of the transport, up to 15; 0 in practice.
    pub version: u8,
    /// Partition key.
    pub partition: u16,
    /// A forward notification; RoCEv2 marks in the IP header in its place.
    pub fecn: bool,
    /// A backward notification: set in a CNP.
    pub becn: bool,
    /// The queue pair that the packet is for, 24 bits.
    pub queue_pair: u32,
    /// Whether the receiver is to acknowledge.
    pub acknowledge: bool,
    /// Number of the packet, 24 bits.
    pub sequence: u32,
}

/// A header that ends too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Short;

impl core::fmt::Display for Short {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "fewer than {BTH_BYTES} bytes of transport header")
    }
}

impl std::error::Error for Short {}

impl Bth {
    /// The header of a notification to a queue pair.
    #[must_use]
    pub const fn notification(queue_pair: u32) -> Self {
        Self {
            opcode: CNP,
            solicited: false,
            migration: true,
            padding: 0,
            version: 0,
            partition: 0xffff,
            fecn: false,
            becn: true,
            queue_pair,
            acknowledge: false,
            sequence: 0,
        }
    }

    /// Reads the header at the front of a payload, and gives what follows it.
    ///
    /// # Errors
    /// [`Short`] for fewer bytes than a header has.
    pub fn decode(payload: &[u8]) -> Result<(Self, &[u8]), Short> {
        let (header, rest) = payload.split_first_chunk::<BTH_BYTES>().ok_or(Short)?;
        let [opcode, flags, key_high, key_low, congestion, q2, q1, q0, ask, s2, s1, s0] = *header;
        let bth = Self {
            opcode,
            solicited: flags & SOLICITED != 0,
            migration: flags & MIGRATION != 0,
            padding: flags >> 4 & 3,
            version: flags & 0xf,
            partition: u16::from_be_bytes([key_high, key_low]),
            fecn: congestion & FECN != 0,
            becn: congestion & BECN != 0,
            queue_pair: u32::from_be_bytes([0, q2, q1, q0]),
            acknowledge: ask & ACK != 0,
            sequence: u32::from_be_bytes([0, s2, s1, s0]),
        };
        Ok((bth, rest))
    }

    /// The bytes of the header; of a number too long for its field the lower bits.
    #[must_use]
    pub const fn encode(&self) -> [u8; BTH_BYTES] {
        const fn set(flag: bool, bit: u8) -> u8 {
            if flag { bit } else { 0 }
        }
        let flags = set(self.solicited, SOLICITED) | set(self.migration, MIGRATION) | (self.padding & 3) << 4 | self.version & 0xf;
        let [key_high, key_low] = self.partition.to_be_bytes();
        let [_, q2, q1, q0] = (self.queue_pair & NUMBER_MAX).to_be_bytes();
        let [_, s2, s1, s0] = (self.sequence & NUMBER_MAX).to_be_bytes();
        let congestion = set(self.fecn, FECN) | set(self.becn, BECN);
        [self.opcode, flags, key_high, key_low, congestion, q2, q1, q0, set(self.acknowledge, ACK), s2, s1, s0]
    }

    /// Whether it is a congestion notification.
    #[must_use]
    pub const fn is_notification(&self) -> bool {
        self.opcode == CNP
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_notification_has_the_bytes_of_the_specification() {
        // Operation 0x81, default partition, backward notification, and the queue pair 0x0000d2.
        let bytes = [0x81, 0x40, 0xff, 0xff, 0x40, 0x00, 0x00, 0xd2, 0, 0, 0, 0];
        assert_eq!(Bth::notification(0xd2).encode(), bytes);
        // Others write it without the state of migration, and it is as good.
        let other = [0x81, 0x00, 0xff, 0xff, 0x40, 0x00, 0x00, 0xd2, 0, 0, 0, 0];
        let (bth, rest) = Bth::decode(&other).unwrap();
        assert!(bth.is_notification() && bth.becn && !bth.migration && bth.queue_pair == 0xd2 && rest.is_empty());
    }

    #[test]
    fn each_field_has_its_place() {
        let none = Bth { opcode: 0, migration: false, partition: 0, becn: false, ..Bth::notification(0) };
        assert_eq!(none.encode(), [0; BTH_BYTES]);
        let places = [
            (Bth { opcode: 0x0a, ..none }, 0, 0x0a),
            (Bth { solicited: true, ..none }, 1, 0x80),
            (Bth { migration: true, ..none }, 1, 0x40),
            (Bth { padding: 3, ..none }, 1, 0x30),
            (Bth { version: 15, ..none }, 1, 0x0f),
            (Bth { partition: 0x0200, ..none }, 2, 2),
            (Bth { fecn: true, ..none }, 4, 0x80),
            (Bth { queue_pair: 0x01_0000, ..none }, 5, 1),
            (Bth { acknowledge: true, ..none }, 8, 0x80),
            (Bth { sequence: 7, ..none }, 11, 7),
        ];
        for (bth, at, byte) in places {
            let mut expected = [0; BTH_BYTES];
            expected[at] = byte;
            assert_eq!(bth.encode(), expected, "{bth:?}");
        }
    }

    proptest! {
        #[test]
        fn any_header_is_read_and_written_again(bytes: [u8; BTH_BYTES], rest in prop::collection::vec(any::<u8>(), 0..20)) {
            let payload = [bytes.as_slice(), &rest].concat();
            let (bth, after) = Bth::decode(&payload).unwrap();
            prop_assert_eq!(after, rest.as_slice());
            // All but the reserved bits: 6 beside the notifications, and 7 beside the request for an acknowledgement.
            let mut known = bytes;
            known[4] &= 0xc0;
            known[8] &= 0x80;
            prop_assert_eq!(bth.encode(), known);
            prop_assert!(Bth::decode(&bytes[..BTH_BYTES - 1]).is_err());
        }
    }
}
