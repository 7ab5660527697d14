//! What a step costs that need not wait, and what it is made of.
//!
//! `cargo bench -p antiphase-gate`. The steps alternate between the reasons for which a job goes at once.

use std::hint::black_box;

use antiphase_gate::{Config, Gate, JobName, NoteReader, PageReader, PageWriter, ReportReader, now};
use gate_core::{Mode, Permit, Reason, Schedule, Turn, decide};
use tempfile::TempDir;
use units::{Nanos, NodeTime};

fn main() {
    divan::main();
}

/// A plan under which every start is in a slot of its own: one is due in every nanosecond.
fn always_on_time() -> Schedule {
    let period = Nanos(1);
    Schedule {
        mode: Mode::Hold,
        plan_version: 1,
        slot: now(),
        period,
        tolerance: Nanos(0),
        hold_max: period,
        slack: Nanos::from_millis(10),
        expires: NodeTime(u64::MAX),
        written: now(),
        stale_after: Nanos(u64::MAX),
        clock_bound: Nanos(0),
        turn: Turn::default(),
    }
}

/// A job that takes turns, with a permit for one start.
fn turns(writer: u64, number: u64) -> Schedule {
    let turn = Turn { writer, number, permit: Permit::Go, max: Nanos::from_millis(100) };
    Schedule { mode: Mode::Turn, turn, ..always_on_time() }
}

struct Room {
    directory: TempDir,
    page: PageWriter,
    _report: ReportReader,
}

fn room(schedule: &Schedule) -> Room {
    let directory = tempfile::tempdir().expect("invariant: benches have a temporary directory");
    let mut page = PageWriter::create(directory.path(), "j").expect("invariant: it can be written");
    page.write(schedule);
    let report = ReportReader::open_or_create(directory.path(), "j").expect("invariant: it can be written");
    Room { directory, page, _report: report }
}

fn job() -> JobName {
    JobName::try_new("j").expect("invariant: a good name")
}

fn config(room: &Room) -> Config {
    Config::new(room.directory.path(), job())
}

#[divan::bench(sample_size = 1_000)]
fn step_on_time(bencher: divan::Bencher<'_, '_>) {
    let room = room(&always_on_time());
    let gate = Gate::open(&config(&room));
    bencher.bench_local(|| gate.step());
}

#[divan::bench(sample_size = 1_000)]
fn step_not_held(bencher: divan::Bencher<'_, '_>) {
    let room = room(&Schedule::default());
    let gate = Gate::open(&config(&room));
    bencher.bench_local(|| gate.step());
}

/// A start with a grant ahead and its end: two datagrams. One at a time, because each start needs its permit and room in the socket.
#[divan::bench(sample_size = 1, sample_count = 10_000)]
fn step_granted_ahead_and_done(bencher: divan::Bencher<'_, '_>) {
    let mut room = room(&turns(0, 1));
    let reader = NoteReader::bind(room.directory.path()).expect("invariant: it can be bound");
    let gate = Gate::open(&config(&room));
    // The first start is not answered, and says whose permits these are.
    gate.step();
    let first = reader.recv().expect("invariant: it was sent").expect("invariant: it is a note");
    let mut number = 1;
    bencher
        .with_inputs(|| {
            while reader.recv().is_ok() {}
            number += 1;
            room.page.write(&turns(first.note.writer, number));
        })
        .bench_local_values(|()| {
            assert_eq!(gate.step().because, Reason::Granted);
            gate.done();
        });
}

#[divan::bench(sample_size = 1_000)]
fn step_no_page(bencher: divan::Bencher<'_, '_>) {
    let config = Config::new("/nonexistent", job());
    let gate = Gate::open(&config);
    bencher.bench_local(|| gate.step());
}

#[divan::bench(sample_size = 1_000)]
fn step_off(bencher: divan::Bencher<'_, '_>) {
    let gate = Gate::open(&Config { off: true, ..Config::new("/nonexistent", job()) });
    bencher.bench_local(|| gate.step());
}

#[divan::bench(sample_size = 1_000)]
fn part_clock(bencher: divan::Bencher<'_, '_>) {
    bencher.bench_local(now);
}

#[divan::bench(sample_size = 1_000)]
fn part_page(bencher: divan::Bencher<'_, '_>) {
    let room = room(&always_on_time());
    let page = PageReader::open(room.directory.path(), &job()).expect("invariant: it was just made");
    bencher.bench_local(|| page.read());
}

#[divan::bench(sample_size = 1_000)]
fn part_decide(bencher: divan::Bencher<'_, '_>) {
    let schedule = always_on_time();
    let at = now();
    bencher.bench_local(|| decide(black_box(at), black_box(&schedule)));
}

/// The heartbeat of one job's page.
#[divan::bench(sample_size = 1_000)]
fn agent_write(bencher: divan::Bencher<'_, '_>) {
    let directory = tempfile::tempdir().expect("invariant: benches have a temporary directory");
    let mut page = PageWriter::create(directory.path(), "j").expect("invariant: it can be written");
    let schedule = always_on_time();
    bencher.bench_local(|| page.write(black_box(&schedule)));
}
