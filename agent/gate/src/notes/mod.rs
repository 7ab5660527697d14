//! Notes from a job's gate to its agent: one datagram per event of a start, to a socket beside the pages.
//!
//! All words are 64 bits, little-endian; `docs/schedule-page.md` is the contract:
//!
//! ```text
//! 0 magic   1 layout   2 kind   3 writer   4 number   5 phase   6 at   7 length of the name   then the name in 256 bytes
//! ```
//!
//! A note is never waited for: where nobody reads, or where the socket is full, the sender goes on without.

mod closer;
mod greeting;
mod reader;
mod sender;

use gate_core::{Note, NoteKind};
use units::NodeTime;

use crate::directory::JobName;

pub use greeting::Greeting;
pub use reader::{Heard, NoteReader, OPEN_FILES, Received};
pub(crate) use sender::NoteSender;

/// The name of the socket in the directory of the pages. No job's file has this name.
pub const SOCKET: &str = "turns.sock";
/// `ANTIPHTN` as bytes in the datagram.
pub const MAGIC: u64 = u64::from_le_bytes(*b"ANTIPHTN");
/// The layout of the notes that this library sends and reads.
pub const LAYOUT: u64 = 1;
/// Size of every note.
pub const NOTE_BYTES: usize = NAME_AT + NAME_BYTES;

/// Words before the length of the name.
const WORDS: usize = 7;
const LENGTH_AT: usize = WORDS * 8;
const NAME_AT: usize = LENGTH_AT + 8;
/// Room for the longest name of a job, 253 bytes.
const NAME_BYTES: usize = 256;

/// What a datagram says. Nothing of it is more than the claim of whoever sent it ([`Heard::from`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobNote {
    /// The job that it is about.
    pub job: JobName,
    /// What it says.
    pub note: Note,
}

/// The bytes of a note.
#[must_use]
pub fn encode(job: &JobName, note: &Note) -> [u8; NOTE_BYTES] {
    let words = [MAGIC, LAYOUT, u64::from(note.kind.code()), note.writer, note.number, note.phase, note.at.0];
    let mut bytes = [0; NOTE_BYTES];
    for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    put_name(&mut bytes, job);
    bytes
}

/// Puts a job's name and its length where every datagram of a job has them.
fn put_name(bytes: &mut [u8; NOTE_BYTES], job: &JobName) {
    let name = job.as_str().as_bytes();
    bytes[LENGTH_AT..NAME_AT].copy_from_slice(&(name.len() as u64).to_le_bytes());
    // A `JobName` has at most 253 bytes, so the pair never ends early.
    for (byte, &letter) in bytes[NAME_AT..].iter_mut().zip(name) {
        *byte = letter;
    }
}

/// The job that a datagram is about; `None` for a name that no job has.
fn name_of(bytes: &[u8; NOTE_BYTES]) -> Option<JobName> {
    let length = u64::from_le_bytes(bytes[LENGTH_AT..NAME_AT].try_into().ok()?);
    let name = bytes[NAME_AT..].get(..usize::try_from(length).ok()?)?;
    JobName::try_new(str::from_utf8(name).ok()?).ok()
}

/// The note in a datagram; `None` for anything that no gate of this layout sends.
#[must_use]
pub fn decode(bytes: &[u8]) -> Option<JobNote> {
    let bytes: &[u8; NOTE_BYTES] = bytes.try_into().ok()?;
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().ok()?);
    }
    let [magic, layout, kind, writer, number, phase, at] = words;
    if (magic, layout) != (MAGIC, LAYOUT) {
        return None;
    }
    let job = name_of(bytes)?;
    Some(JobNote { job, note: Note { kind: NoteKind::from_code(kind)?, writer, number, phase, at: NodeTime(at) } })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn note() -> Note {
        Note { kind: NoteKind::Ended, writer: 3, number: 4, phase: 5, at: NodeTime(6) }
    }

    #[test]
    fn a_note_goes_through_bytes_unchanged() {
        for name in ["j", &"x".repeat(253)] {
            let job = JobName::try_new(name).unwrap();
            let bytes = encode(&job, &note());
            assert_eq!(&bytes[..24], b"ANTIPHTN\x01\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0");
            assert_eq!((bytes[56], bytes[64]), (name.len() as u8, name.as_bytes()[0]));
            assert_eq!(decode(&bytes), Some(JobNote { job, note: note() }));
        }
    }

    #[test]
    fn what_no_gate_sends_is_no_note() {
        let good = encode(&JobName::try_new("j").unwrap(), &note());
        let spoilt = |at: usize, byte: u8| {
            let mut bytes = good;
            bytes[at] = byte;
            decode(&bytes)
        };
        assert!(spoilt(64, b'k').is_some(), "another job's");
        // Magic, layout, kind, an empty name, one that is too long for its room or far beyond it, and one with a slash.
        let bad = [(0, b'B'), (8, 2), (16, 0), (16, 4), (17, 1), (56, 0), (56, 255), (63, 255), (64, b'/')];
        assert!(bad.iter().all(|&(at, byte)| spoilt(at, byte).is_none()));
        assert!(decode(&good[..NOTE_BYTES - 1]).is_none() && decode(&[good.as_slice(), &[0]].concat()).is_none() && decode(&[]).is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(mut bytes in prop::collection::vec(any::<u8>(), NOTE_BYTES), header in any::<bool>()) {
            if header {
                bytes[..16].copy_from_slice(&encode(&JobName::try_new("j").unwrap(), &note())[..16]);
            }
            if let Some(found) = decode(&bytes) {
                prop_assert_eq!(&encode(&found.job, &found.note)[..NAME_AT + found.job.as_str().len()], &bytes[..NAME_AT + found.job.as_str().len()]);
            }
        }
    }
}
