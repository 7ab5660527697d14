//! The schedule page of a job: a file of 4096 bytes that an agent writes and the job's gate maps.
//!
//! `docs/schedule-page.md` is the contract, byte by byte. All words are 64 bits, little-endian:
//!
//! ```text
//! 0 magic   1 layout   2 sequence (odd while the agent writes)
//! under the sequence:
//! 3 flags   4 mode   5 plan version   6 slot   7 period   8 tolerance   9 hold_max   10 slack   11 expires
//! 12 written   13 stale_after   14 clock_bound
//! in layout 2 also: 15 turn_writer   16 turn_number   17 turn_permit   18 not_before   19 turn_max
//! ```
//!
//! All other words are zero. An agent writes [`LAYOUT`], and a gate follows every layout from [`LAYOUT_FIRST`] on.

mod claim;
mod reader;
mod writer;

use std::sync::atomic::AtomicU64;

use gate_core::{Mode, Permit, Reason, Schedule, Turn};
use units::{Nanos, NodeTime};

use crate::{seqlock::Seqlock, words::Words};

pub use reader::PageReader;
pub use writer::PageWriter;

/// `ANTIPHPG` as bytes in the file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"ANTIPHPG");
/// The layout that this library writes. Another layout gets another number, and gates that do not know it go.
pub const LAYOUT: u64 = 2;
/// The first layout, without turns, which this library still reads.
pub const LAYOUT_FIRST: u64 = 1;

/// Set before the page is unlinked, so that gates that have it mapped let it go.
const RETIRED: u64 = 1;

const MAGIC_AT: usize = 0;
const LAYOUT_AT: usize = 1;
const SEQUENCE_AT: usize = 2;
const BODY_AT: usize = 3;
const BODY_WORDS: usize = 17;

/// The part of a page that the sequence guards.
fn lock(words: &Words) -> Seqlock<'_, AtomicU64> {
    let all = words.all();
    Seqlock { sequence: &all[SEQUENCE_AT], words: &all[BODY_AT..BODY_AT + BODY_WORDS] }
}

fn encode(schedule: &Schedule, flags: u64) -> [u64; BODY_WORDS] {
    let mode = match schedule.mode {
        Mode::Pass => 0,
        Mode::Hold => 1,
        Mode::Turn => 2,
    };
    let turn = &schedule.turn;
    let (permit, not_before) = match turn.permit {
        Permit::None => (0, 0),
        Permit::Go => (1, 0),
        Permit::NotBefore(at) => (2, at.0),
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
        turn.writer,
        turn.number,
        permit,
        not_before,
        turn.max.0,
    ]
}

/// Flags, modes and permits of a later agent are refused rather than guessed.
#[inline]
fn decode(layout: u64, body: [u64; BODY_WORDS]) -> Result<Schedule, Reason> {
    let [flags, mode, plan_version, slot, period, tolerance, hold_max, slack, expires, written, stale_after, clock_bound, ..] = body;
    let [.., turn_writer, turn_number, turn_permit, not_before, turn_max] = body;
    let mode = match (flags, mode) {
        // A page that was taken back counts as none, whatever its other words say.
        (RETIRED, _) => return Err(Reason::NoPage),
        (0, 0) => Mode::Pass,
        (0, 1) => Mode::Hold,
        (0, 2) if layout != LAYOUT_FIRST => Mode::Turn,
        // An unknown flag or mode may give the other words another meaning, so the job goes.
        _ => return Err(Reason::Malformed),
    };
    // Words that the first layout does not have are not looked at, whatever is there.
    let turn = if mode == Mode::Turn {
        let permit = match turn_permit {
            0 => Permit::None,
            1 => Permit::Go,
            2 => Permit::NotBefore(NodeTime(not_before)),
            _ => return Err(Reason::Malformed),
        };
        Turn { writer: turn_writer, number: turn_number, permit, max: Nanos(turn_max) }
    } else {
        Turn::default()
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
        turn,
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
            turn: Turn::default(),
        };
        assert_eq!(encode(&schedule, 0), [0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 0, 0, 0, 0]);
        for layout in [LAYOUT_FIRST, LAYOUT] {
            assert_eq!(decode(layout, encode(&schedule, 0)), Ok(schedule));
            assert_eq!(decode(layout, encode(&schedule, RETIRED)), Err(Reason::NoPage));
            assert_eq!(decode(layout, encode(&schedule, 2)), Err(Reason::Malformed));
            let mut body = encode(&schedule, 0);
            body[1] = 3;
            assert_eq!(decode(layout, body), Err(Reason::Malformed));
        }
    }

    #[test]
    fn turns_go_through_the_words_of_layout_2() {
        let with =
            |permit| Schedule { mode: Mode::Turn, turn: Turn { writer: 11, number: 12, permit, max: Nanos(13) }, ..Schedule::default() };
        for (permit, words) in [(Permit::None, [0, 0]), (Permit::Go, [1, 0]), (Permit::NotBefore(NodeTime(5)), [2, 5])] {
            let body = encode(&with(permit), 0);
            assert_eq!((body[1], &body[12..]), (2, &[11, 12, words[0], words[1], 13][..]));
            assert_eq!(decode(LAYOUT, body), Ok(with(permit)));
            assert_eq!(decode(LAYOUT_FIRST, body), Err(Reason::Malformed), "the first layout has no turns");
        }
        let mut body = encode(&with(Permit::Go), 0);
        body[14] = 3;
        assert_eq!(decode(LAYOUT, body), Err(Reason::Malformed));
        // Of a job that does not take turns, nobody looks at them.
        body[1] = 0;
        assert_eq!(decode(LAYOUT, body), Ok(Schedule::default()));
    }
}
