//! The schedule page of a job: a file of 4096 bytes that an agent writes and the job's gate maps.
//!
//! `docs/schedule-page.md` is the contract, byte by byte. All words are 64 bits, little-endian:
//!
//! ```text
//! 0 magic   1 layout   2 sequence (odd while the agent writes)
//! under the sequence:
//! 3 flags   4 mode   5 plan version   6 slot   7 period   8 tolerance   9 hold_max   10 slack   11 expires
//! 12 written   13 stale_after   14 clock_bound   15.. zero
//! ```

mod claim;
mod reader;
mod writer;

use std::sync::atomic::AtomicU64;

use gate_core::{Mode, Reason, Schedule};
use units::{Nanos, NodeTime};

use crate::{seqlock::Seqlock, words::Words};

pub use reader::PageReader;
pub use writer::PageWriter;

/// `ANTIPHPG` as bytes in the file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"ANTIPHPG");
/// The layout that this library reads and writes. Another layout gets another number, and gates that do not know it go.
pub const LAYOUT: u64 = 1;

/// Set before the page is unlinked, so that gates that have it mapped let it go.
const RETIRED: u64 = 1;

const MAGIC_AT: usize = 0;
const LAYOUT_AT: usize = 1;
const SEQUENCE_AT: usize = 2;
const BODY_AT: usize = 3;
const BODY_WORDS: usize = 12;

/// The part of a page that the sequence guards.
fn lock(words: &Words) -> Seqlock<'_, AtomicU64> {
    let all = words.all();
    Seqlock { sequence: &all[SEQUENCE_AT], words: &all[BODY_AT..BODY_AT + BODY_WORDS] }
}

fn encode(schedule: &Schedule, flags: u64) -> [u64; BODY_WORDS] {
    let mode = match schedule.mode {
        Mode::Pass => 0,
        Mode::Hold => 1,
    };
    [
        flags,
        mode,
        schedule.plan_version,
        schedule.slot.0,
        schedule.period.0,
        schedule.tolerance.0,
        schedule.hold_max.0,
        schedule.slack.0,
        schedule.expires.0,
        schedule.written.0,
        schedule.stale_after.0,
        schedule.clock_bound.0,
    ]
}

/// Flags and modes of a later agent are refused rather than guessed.
#[inline]
fn decode(body: [u64; BODY_WORDS]) -> Result<Schedule, Reason> {
    let [flags, mode, plan_version, slot, period, tolerance, hold_max, slack, expires, written, stale_after, clock_bound] = body;
    let mode = match (flags, mode) {
        // A page that was taken back counts as none, whatever its other words say.
        (RETIRED, _) => return Err(Reason::NoPage),
        (0, 0) => Mode::Pass,
        (0, 1) => Mode::Hold,
        // An unknown flag or mode may give the other words another meaning, so the job goes.
        _ => return Err(Reason::Malformed),
    };
    Ok(Schedule {
        mode,
        plan_version,
        slot: NodeTime(slot),
        period: Nanos(period),
        tolerance: Nanos(tolerance),
        hold_max: Nanos(hold_max),
        slack: Nanos(slack),
        expires: NodeTime(expires),
        written: NodeTime(written),
        stale_after: Nanos(stale_after),
        clock_bound: Nanos(clock_bound),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_goes_through_words_unchanged() {
        let schedule = Schedule {
            mode: Mode::Hold,
            plan_version: 1,
            slot: NodeTime(2),
            period: Nanos(3),
            tolerance: Nanos(4),
            hold_max: Nanos(5),
            slack: Nanos(6),
            expires: NodeTime(7),
            written: NodeTime(8),
            stale_after: Nanos(9),
            clock_bound: Nanos(10),
        };
        assert_eq!(encode(&schedule, 0), [0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        assert_eq!(decode(encode(&schedule, 0)), Ok(schedule));
        assert_eq!(decode(encode(&schedule, RETIRED)), Err(Reason::NoPage));
        assert_eq!(decode(encode(&schedule, 2)), Err(Reason::Malformed));
        let mut body = encode(&schedule, 0);
        body[1] = 2;
        assert_eq!(decode(body), Err(Reason::Malformed));
    }
}
