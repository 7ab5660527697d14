//! The page between two real processes.

use std::time::{Duration, Instant};

use antiphase_gate::{PageReader, PageWriter};
use gate_core::Reason;
use rustix::process::Signal;

use crate::{
    child::{Process, uniform},
    ends::{JOB, config, gate},
};

/// One process writes all the time, another reads as fast as it can and never sees half of a write.
#[test]
fn reads_are_whole_while_another_process_writes() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = Process::start("paced", directory.path());
    assert_eq!(writer.line(), "ready");
    let page = PageReader::open(directory.path(), config(directory.path()).job.as_ref().unwrap()).unwrap();
    let (mut last, mut changes, mut torn, mut reads) = (0, 0_u64, 0_u64, 0_u64);
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(800) {
        for _ in 0..1_000 {
            reads += 1;
            match page.read() {
                Ok(schedule) => {
                    assert_eq!(schedule, uniform(schedule.plan_version));
                    assert!(schedule.plan_version >= last, "time went back from {last} to {}", schedule.plan_version);
                    changes += u64::from(schedule.plan_version != last);
                    last = schedule.plan_version;
                }
                Err(reason) => {
                    assert_eq!(reason, Reason::Torn);
                    torn += 1;
                }
            }
        }
    }
    println!("{reads} reads, {changes} different, {torn} given up");
    assert!(changes > 10, "nothing was written meanwhile");
}

/// How many writers are killed, at most, until one is in a write: on a busy machine a hundred were not.
const WRITERS_MAX: u32 = 5_000;

/// A writer is killed again and again until it dies in the middle of a write: then readers go, and the next agent mends it.
#[test]
fn a_writer_that_died_in_a_write_stops_nobody() {
    let directory = tempfile::tempdir().unwrap();
    for _ in 0..WRITERS_MAX {
        let mut writer = Process::start("hammer", directory.path());
        assert_eq!(writer.line(), "ready");
        writer.signal(Signal::KILL);
        writer.kill();
        let gate = gate(directory.path());
        let torn = gate.step().because == Reason::Torn;
        if torn {
            assert_eq!(gate.step().because, Reason::Torn, "for ever");
        }
        let _mended = PageWriter::create(directory.path(), JOB).unwrap();
        assert_eq!(gate.step().because, Reason::NotHeld);
        if torn {
            return;
        }
    }
    panic!("no writer of {WRITERS_MAX} died in a write");
}
