//! A job without a line for the gate, whose calls wait in its stream: NCCL's events as they come from a host that is ahead of its GPU, and
//! the gate's driver without a GPU in the GPU's place (`agent/gate/c/cuda.c`). With a GPU: `make test-gpu`, part `calls-held`.

use std::{
    env,
    ffi::{CStr, c_int, c_void},
    fs,
    path::Path,
    process::{Command, Stdio},
    ptr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use gate::{NoteReader, PageWriter, Received, now};
use gate_core::{Mode, Note, NoteKind, Permit, Schedule, Turn};
use units::{Nanos, NodeTime};

use crate::{JOB, Nccl, Number, child};

/// Iterations of a job: those of the three seconds after which it is followed, those that are timed, and some more.
const ITERATIONS: usize = 150;
/// What the GPU computes in an iteration, and what each of its calls sends, in ms.
const COMPUTES: u64 = 50;
const SENDS: u64 = 4;
/// Calls of an iteration.
const CALLS: usize = 3;
/// The host is so many iterations ahead.
const AHEAD: usize = 2;
/// How long the agent lets a start wait.
const HOLDS: Duration = Duration::from_millis(20);

type Stream = *mut c_void;

/// The driver, as far as a job calls it.
struct Driver {
    create: unsafe extern "C" fn(*mut Stream, u32) -> c_int,
    launch: unsafe extern "C" fn(Stream, unsafe extern "C" fn(*mut c_void), *mut c_void) -> c_int,
    synchronize: unsafe extern "C" fn(Stream) -> c_int,
}

impl Driver {
    fn load() -> Self {
        // SAFETY: a library without initialisers.
        let handle = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null());
        // SAFETY: each function has the type that it has in c/cuda.c.
        unsafe {
            Self {
                create: symbol(handle, c"cuStreamCreate"),
                launch: symbol(handle, c"cuLaunchHostFunc"),
                synchronize: symbol(handle, c"cuStreamSynchronize"),
            }
        }
    }
}

/// # Safety
/// `T` is the type of that function.
unsafe fn symbol<T: Copy>(handle: *mut c_void, name: &CStr) -> T {
    // SAFETY: the handle is of a loaded library.
    let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
    assert!(!address.is_null(), "{name:?}");
    // SAFETY: a function pointer has the size of a pointer, and the caller vouches for the type.
    unsafe { std::mem::transmute_copy(&address) }
}

impl Number {
    /// A stream, sent between threads as NCCL does.
    fn stream(self) -> Stream {
        ptr::with_exposed_provenance_mut(self.0)
    }
}

/// What the stream does for some ms, and when it began and ended.
struct Work {
    ms: u64,
    span: [AtomicU64; 2],
}

unsafe extern "C" fn work(work: *mut c_void) {
    // SAFETY: a `Work` that lives as long as the process.
    let work = unsafe { &*work.cast::<Work>() };
    work.span[0].store(now().0, Ordering::Relaxed);
    thread::sleep(Duration::from_millis(work.ms));
    work.span[1].store(now().0, Ordering::Relaxed);
}

/// The process of a job; prints when the stream had computed, when its first call began and when its last one ended, for each iteration.
pub(crate) fn job(how: &str) {
    let (driver, nccl) = (Driver::load(), Nccl::load(5));
    let (context, _) = nccl.init_as((if how == "one-host" { 1 } else { 2 }, if how == "third-rank" { 3 } else { 0 }), 0x5151);
    let mut stream = ptr::null_mut();
    // SAFETY: as a program of C calls the driver; works live as long as the process.
    assert_eq!(unsafe { (driver.create)(&raw mut stream, 1) }, 0);
    let into = Number(stream.expose_provenance());
    let enqueue = |ms: u64| -> &'static Work {
        let made: &'static Work = Box::leak(Box::new(Work { ms, span: [0, 0].map(AtomicU64::new) }));
        // SAFETY: as above.
        assert_eq!(unsafe { (driver.launch)(into.stream(), work, ptr::from_ref(made).cast_mut().cast()) }, 0);
        made
    };
    let mut iterations: Vec<[&Work; CALLS + 1]> = Vec::new();
    for iteration in 0..ITERATIONS {
        let computed = enqueue(COMPUTES);
        let calls = [0, 1, 2].map(|call| calls(&nccl, (context, stream), 1 + call, how, || enqueue(SENDS)));
        iterations.push([computed, calls[0], calls[1], calls[2]]);
        // Steps of the host are far shorter than those of the stream.
        while iteration >= AHEAD && iterations[iteration - AHEAD][CALLS].span[1].load(Ordering::Relaxed) == 0 {
            thread::sleep(Duration::from_millis(1));
        }
    }
    // SAFETY: as above.
    assert_eq!(unsafe { (driver.synchronize)(stream) }, 0);
    nccl.finalize(context);
    for [computed, first, _, last] in iterations {
        let [computed, first, last] = [&computed.span[1], &first.span[0], &last.span[1]].map(|time| time.load(Ordering::Relaxed));
        println!("iteration {computed} {first} {last}");
    }
}

/// A collective, as NCCL 2.28 tells of it: its group, its call, what is launched, and the ends of all. Communicators that do not block are told of
/// that the group has ended before another thread launches it, or while it does; and an NCCL may tell of no launch.
fn calls(
    nccl: &Nccl,
    (context, stream): (Number, Stream),
    count: u64,
    how: &str,
    enqueue: impl FnOnce() -> &'static Work + Send,
) -> &'static Work {
    let group = nccl.start(context, &nccl.event(1 << 8));
    let mut call = nccl.event(1 << 9);
    // func, count, datatype, root, stream, whether it is recorded
    let names = [c"AllReduce", c"ncclFloat32"].map(|name| name.as_ptr().addr() as u64);
    (call[3], call[4], call[5], call[6]) = (names[0], count, names[1], 0xaaaa_aaaa_0000_0000);
    (call[7], call[8]) = (stream.addr() as u64, 0xaaaa_aaaa_aaaa_aa00 | u64::from(how == "captured"));
    let call = nccl.start(context, &call);
    nccl.stop(call);
    let into = stream.addr() as u64;
    let launch = || {
        let mut launch = nccl.event(1 << 11);
        launch[3] = into;
        let launch = (how != "untold").then(|| nccl.start(context, &launch));
        let work = enqueue();
        launch.into_iter().for_each(|launch| nccl.stop(launch));
        work
    };
    if how == "not-blocking" {
        nccl.stop(group);
        thread::scope(|scope| scope.spawn(launch).join().unwrap())
    } else if how == "launched-before" {
        let work = thread::scope(|scope| scope.spawn(launch).join().unwrap());
        nccl.stop(group);
        work
    } else {
        let work = launch();
        nccl.stop(group);
        work
    }
}

/// An agent that lets each start wait for a moment. Returns the notes, once the job has ended.
fn agent(directory: &Path, is_over: &AtomicBool) -> Vec<Note> {
    let turns = |writer, number, permit| Schedule {
        mode: Mode::Turn,
        plan_version: 5,
        expires: NodeTime(u64::MAX),
        written: now(),
        stale_after: Nanos::from_millis(600_000),
        clock_bound: Nanos(u64::MAX),
        turn: Turn { writer, number, permit, max: Nanos::from_millis(30_000) },
        ..Schedule::default()
    };
    let mut page = PageWriter::create(directory, JOB).unwrap();
    page.write(&turns(0, 0, Permit::None));
    let reader = NoteReader::bind(directory).unwrap();
    let mut notes = Vec::new();
    let mut over = 0;
    // What came last is read once more after the job is over.
    while over < 2 {
        over += u32::from(is_over.load(Ordering::Relaxed));
        while let Ok(Some(received)) = reader.recv_any() {
            let Received::Note(heard) = received else { continue };
            notes.push(heard.note);
            if heard.note.kind == NoteKind::Ready {
                let (writer, number) = (heard.note.writer, heard.note.number);
                page.write_and_wake(&turns(writer, number, Permit::NotBefore(now().saturating_add(Nanos::from_millis(20_000)))));
                thread::sleep(HOLDS);
                page.write_and_wake(&turns(writer, number, Permit::Go));
            }
        }
        thread::sleep(Duration::from_micros(100));
    }
    notes
}

/// Plays a job; its iterations and the notes of its gate.
fn play(how: &str, drivers: &Path, variables: &[(&str, &str)]) -> (Vec<[u64; 3]>, Vec<Note>) {
    let directory = tempfile::tempdir().unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let (there, over) = (directory.path().to_owned(), Arc::clone(&is_over));
    let agent = thread::spawn(move || agent(&there, &over));
    while !directory.path().join(format!("{JOB}.page")).exists() {
        thread::sleep(Duration::from_millis(1));
    }
    let mut paths = vec![drivers.to_owned()];
    paths.extend(env::split_paths(&env::var_os("LD_LIBRARY_PATH").unwrap_or_default()));
    let output = child(&format!("held {how}"), |command| {
        command.env("ANTIPHASE_DIR", directory.path()).env("ANTIPHASE_JOB", JOB).stdin(Stdio::null());
        command.env("LD_LIBRARY_PATH", env::join_paths(paths).unwrap()).envs(variables.iter().copied())
    });
    is_over.store(true, Ordering::Relaxed);
    let notes = agent.join().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let iterations = said.lines().filter_map(|line| line.strip_prefix("iteration ")).map(|line| {
        let mut times = line.split(' ').map(|time| time.parse().unwrap());
        [0; 3].map(|_| times.next().unwrap())
    });
    (iterations.collect(), notes)
}

#[test]
fn a_job_without_a_line_takes_turns_by_what_it_calls() {
    if Command::new("gcc").arg("--version").output().is_err() {
        println!("skipped: gcc is not installed, so no call was held");
        return;
    }
    let drivers = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gate/c/cuda.c");
    let mut compiler = Command::new("gcc");
    compiler.args(["-std=c11", "-O1", "-shared", "-fPIC", "-pthread"]).arg(source).arg("-o").arg(drivers.path().join("libcuda.so.1"));
    assert!(compiler.status().unwrap().success());
    let empty = drivers.path().join("none");
    fs::create_dir(&empty).unwrap();
    let on = ("ANTIPHASE_NCCL_GATE", "on");
    let none: [(&str, &[(&str, &str)]); 6] = [
        ("not-asked", &[]),
        ("not-leader", &[on, ("RANK", "1")]),
        // No launcher says a rank.
        ("third-rank", &[on]),
        ("captured", &[on]),
        ("one-host", &[on]),
        ("one-queue", &[on, ("CUDA_DEVICE_MAX_CONNECTIONS", "1")]),
    ];
    thread::scope(|scope| {
        for (how, variables) in none {
            let drivers = drivers.path();
            scope.spawn(move || {
                let (iterations, notes) = play(how, drivers, variables);
                assert_eq!((iterations.len(), notes), (ITERATIONS, vec![]), "{how}");
            });
        }
        for how in ["blocking", "not-blocking", "launched-before", "untold"] {
            let drivers = drivers.path();
            scope.spawn(move || is_held(how, play(how, drivers, &[on])));
        }
    });
}

/// A start is ready when the stream has computed, though the host enqueued it iterations before, and its first call begins when the agent lets
/// it. It ends when the last call has.
fn is_held(how: &str, (iterations, notes): (Vec<[u64; 3]>, Vec<Note>)) {
    let of = |kind: NoteKind| notes.iter().filter(move |note| note.kind == kind);
    let (mut held, mut ended) = (0, 0);
    for ready in of(NoteKind::Ready) {
        let within = |[computed, first, _]: &&[u64; 3]| *computed <= ready.at.0 && ready.at.0 <= *first;
        let [_, first, _] = iterations.iter().find(within).unwrap_or_else(|| panic!("{how}: {ready:?} is of no iteration"));
        held += u32::from(first - ready.at.0 >= HOLDS.as_nanos() as u64);
    }
    for end in of(NoteKind::Ended) {
        let at = iterations.iter().position(|[_, _, last]| end.at.0 < *last).unwrap_or(iterations.len());
        let [_, first, last] = iterations[at.checked_sub(1).unwrap_or_else(|| panic!("{how}: {end:?} is of no iteration"))];
        // Before the stream has computed again.
        let before = iterations.get(at).map_or(u64::MAX, |next| next[0]);
        assert!(first < end.at.0 && last <= end.at.0 && end.at.0 < before, "{how}: {end:?} {first} {last}");
        ended += 1;
    }
    // On a machine that is busy with other work answers come too late, and after some of those a gate asks no more for a while.
    assert!(held >= 3 && ended >= 10, "{how}: {held} {ended}: {notes:?}");
    let starts: Vec<u64> = of(NoteKind::Started).map(|note| note.number).collect();
    assert!(starts.len() >= 10 && starts.is_sorted(), "{how}: {starts:?}");
}
