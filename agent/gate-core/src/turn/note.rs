//! What a gate tells its agent of one start.

use units::NodeTime;

/// [`Note::phase`] of a start that stands for everything that the iteration sends.
pub const WHOLE_ITERATION: u64 = 0;

/// What became of a start. The numbers are part of the notes between gate and agent: they never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum NoteKind {
    /// The job could start, and waits for the answer.
    Ready = 1,
    /// The job has started, with an answer or without one.
    Started = 2,
    /// What the job sent after the start has ended.
    Ended = 3,
}

impl NoteKind {
    /// The number of this kind.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The kind of a number; `None` for one of a later version.
    #[must_use]
    pub const fn from_code(code: u64) -> Option<Self> {
        match code {
            1 => Some(Self::Ready),
            2 => Some(Self::Started),
            3 => Some(Self::Ended),
            _ => None,
        }
    }
}

/// One event of one start. Of one writer, the pair of number and kind only grows; numbers may be left out, because a note can
/// be lost, and a note of a later start says that the earlier ones have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Note {
    /// What happened.
    pub kind: NoteKind,
    /// The run of the gate, as in its report.
    pub writer: u64,
    /// Which start of that run, from 1.
    pub number: u64,
    /// [`WHOLE_ITERATION`], or `k` for the k-th time that the iteration sends.
    pub phase: u64,
    /// When it happened.
    pub at: NodeTime,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_numbers_both_ways() {
        for kind in [NoteKind::Ready, NoteKind::Started, NoteKind::Ended] {
            assert_eq!(NoteKind::from_code(u64::from(kind.code())), Some(kind));
        }
        assert_eq!([NoteKind::from_code(0), NoteKind::from_code(4), NoteKind::from_code(257)], [None; 3]);
    }
}
