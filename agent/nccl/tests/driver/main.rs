//! The built library, loaded and called as NCCL does it, in a process of its own; the test is the agent of the node.
//!
//! Events are laid out here by the offsets of NCCL's public headers, not by the plugin's structures.
#![allow(unsafe_code, reason = "the library is loaded and called through its C interface")]
#![allow(clippy::unwrap_used, reason = "a test that meets an error should stop")]

mod hold;

use std::{
    env,
    ffi::{CStr, CString, c_char, c_int, c_void},
    path::PathBuf,
    process::{Command, Output},
    ptr, thread,
};

use gate::{
    NoteReader, Received,
    events::{Event, EventKind},
};

const JOB: &str = "train-7";
/// Which scenario this process is to play.
const SCENARIO: &str = "ANTIPHASE_NCCL_SCENARIO";
/// Size of an event, and whether its type has 64 bits, by version.
const EVENTS: [(usize, bool); 6] = [(120, false), (128, false), (120, false), (104, false), (112, true), (112, true)];

fn library() -> PathBuf {
    let library = env::current_exe().unwrap().parent().unwrap().join("libnccl_profiler_antiphase.so");
    assert!(library.exists(), "{} was not built with the tests", library.display());
    library
}

type Init1 = unsafe extern "C" fn(*mut *mut c_void, *mut c_int) -> c_int;
type Init4 = unsafe extern "C" fn(*mut *mut c_void, *mut c_int, *const c_char, u64, c_int, c_int, c_int, *const c_void) -> c_int;
type Init5 = unsafe extern "C" fn(*mut *mut c_void, u64, *mut c_int, *const c_char, c_int, c_int, c_int, *const c_void) -> c_int;

/// The 48 bytes that NCCL finds under each name.
#[derive(Clone, Copy)]
#[repr(C)]
struct Table {
    name: *const c_char,
    init: *const c_void,
    start: unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *const u8) -> c_int,
    stop: unsafe extern "C" fn(*mut c_void) -> c_int,
    record: unsafe extern "C" fn(*mut c_void, c_int, *const c_void) -> c_int,
    finalize: unsafe extern "C" fn(*mut c_void) -> c_int,
}

/// NCCL, as far as a plugin sees it.
#[derive(Clone, Copy)]
struct Nccl {
    table: Table,
    version: usize,
}

// SAFETY: NCCL calls the functions of a table from any of its threads.
unsafe impl Send for Nccl {}
// SAFETY: as above.
unsafe impl Sync for Nccl {}

/// The context or the handle of an event, sent between threads as NCCL does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Number(usize);

impl Number {
    fn pointer(self) -> *mut c_void {
        ptr::without_provenance_mut(self.0)
    }
}

impl Nccl {
    fn load(version: usize) -> Self {
        let path = CString::new(library().into_os_string().into_encoded_bytes()).unwrap();
        // SAFETY: a library of ours, by its path.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        // SAFETY: the text of the error that just happened, if one did.
        assert!(!library.is_null(), "{:?}", unsafe { CStr::from_ptr(libc::dlerror()) });
        let name = CString::new(format!("ncclProfiler_v{version}")).unwrap();
        // SAFETY: the library is open.
        let table = unsafe { libc::dlsym(library, name.as_ptr()) }.cast::<Table>();
        assert!(!table.is_null(), "{name:?}");
        // SAFETY: a static of the library, which is never unloaded, in the layout that the version has.
        let table = unsafe { *table };
        // SAFETY: the library is open. NCCL closes it too, and calls nothing after that; whoever is inside goes on.
        assert_eq!(unsafe { libc::dlclose(library) }, 0);
        // SAFETY: a string of the library.
        assert_eq!(unsafe { CStr::from_ptr(table.name) }, c"Antiphase");
        Self { table, version }
    }

    /// A communicator; its context and the events that are asked for.
    fn init(&self, communicator: u64) -> (Number, c_int) {
        self.init_as((2, 0), communicator)
    }

    /// Likewise, of so many hosts, as that rank.
    fn init_as(&self, (hosts, rank): (c_int, c_int), communicator: u64) -> (Number, c_int) {
        let (mut context, mut mask) = (ptr::null_mut(), -1);
        let (to, by) = (&raw mut context, &raw mut mask);
        // SAFETY: the functions of these versions have these types.
        let result = unsafe {
            match self.version {
                1..=3 => std::mem::transmute::<*const c_void, Init1>(self.table.init)(to, by),
                4 => std::mem::transmute::<*const c_void, Init4>(self.table.init)(
                    to,
                    by,
                    c"dp".as_ptr(),
                    communicator,
                    hosts,
                    16,
                    rank,
                    ptr::null(),
                ),
                _ => std::mem::transmute::<*const c_void, Init5>(self.table.init)(
                    to,
                    communicator,
                    by,
                    ptr::null(),
                    hosts,
                    16,
                    rank,
                    ptr::null(),
                ),
            }
        };
        assert_eq!(result, 0);
        assert!(!context.is_null());
        (Number(context.addr()), mask)
    }

    fn start(&self, context: Number, event: &[u64]) -> Number {
        let mut handle = ptr::null_mut();
        // SAFETY: an event of the version's size, whose names are literals.
        assert_eq!(unsafe { (self.table.start)(context.pointer(), &raw mut handle, event.as_ptr().cast()) }, 0);
        Number(handle.addr())
    }

    fn stop(&self, handle: Number) {
        // SAFETY: a handle may be any number.
        assert_eq!(unsafe { (self.table.stop)(handle.pointer()) }, 0);
    }

    fn record(&self, handle: Number, state: c_int) {
        // SAFETY: as above, and states may come without arguments.
        assert_eq!(unsafe { (self.table.record)(handle.pointer(), state, ptr::null()) }, 0);
    }

    fn finalize(&self, context: Number) {
        // SAFETY: a context may be any number.
        assert_eq!(unsafe { (self.table.finalize)(context.pointer()) }, 0);
    }

    /// An event with nothing but its type, of the version's size, as words.
    fn event(&self, kind: u64) -> Vec<u64> {
        let (bytes, is_wide) = EVENTS[self.version - 1];
        let mut words = vec![0xaaaa_aaaa_aaaa_aaaa; bytes / 8];
        // What the compiler leaves between a byte and the next field may be anything.
        words[0] = if is_wide { kind } else { 0xaaaa_aaaa_aaaa_aa00 | kind };
        (words[1], words[2]) = (0xdead_beef, 3);
        words
    }

    /// A collective, with the fields where the header of each version has them.
    fn collective(&self, communicator: u64, function: &'static CStr, count: u64) -> Vec<u64> {
        let mut words = self.event(2);
        let (text, kind) = (function.as_ptr().addr() as u64, c"ncclFloat32".as_ptr().addr() as u64);
        match self.version {
            // name, hash, sequence, func u8, buffers, count, root int and datatype u8
            1 => (words[4], words[6], words[9], words[10]) = (communicator, function.count_bytes() as u64, count, 7 << 32),
            2 | 3 => (words[4], words[6], words[9], words[10], words[11]) = (communicator, text, count, 0, kind),
            // sequence, func, buffers, count, root, datatype
            _ => (words[4], words[7], words[8], words[9]) = (text, count, 0, kind),
        }
        words
    }

    /// A send, likewise.
    fn send(&self, communicator: u64, count: u64, peer: u64) -> Vec<u64> {
        let mut words = self.event(4);
        let (text, kind) = (c"Send".as_ptr().addr() as u64, c"ncclInt8".as_ptr().addr() as u64);
        match self.version {
            1 => (words[4], words[5], words[7], words[8], words[9]) = (communicator, 6, 1, count, peer),
            2 | 3 => (words[4], words[5], words[7], words[8], words[9]) = (communicator, text, kind, count, peer),
            _ => (words[3], words[5], words[6], words[7]) = (text, kind, count, peer),
        }
        words
    }

    /// An operation of the network on the way for a process: pid, channel, peer, steps, chunk, direction.
    fn operation(&self, pid: u64) -> Vec<u64> {
        let mut words = self.event(8);
        (words[3], words[4], words[5]) = (pid, 1 | 4 << 32, 1 << 20);
        words
    }
}

/// Plays a scenario in a process of its own, and returns what its agent reads. The agent is there before.
fn play(scenario: &str) -> Vec<Event> {
    let directory = tempfile::tempdir().unwrap();
    let agent = NoteReader::bind(directory.path()).unwrap();
    let output = child(scenario, |command| command.env("ANTIPHASE_DIR", directory.path()).env("ANTIPHASE_JOB", JOB));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let Some(Received::Events { job, mut events, .. }) = agent.recv_any().expect("a ring") else { panic!("another datagram") };
    assert_eq!(job.as_str(), JOB);
    let mut read = Vec::new();
    events.read(&mut read);
    assert_eq!(events.lost(), 0);
    read
}

fn child(scenario: &str, with: impl FnOnce(&mut Command) -> &mut Command) -> Output {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "the_process_of_a_job", "--nocapture"]).env(SCENARIO, scenario);
    for variable in ["ANTIPHASE_GATE", "ANTIPHASE_JOB", "ANTIPHASE_NCCL_GATE", "RANK", "CUDA_DEVICE_MAX_CONNECTIONS"] {
        command.env_remove(variable);
    }
    with(&mut command).output().unwrap()
}

#[test]
#[ignore = "the other tests run this in a process of its own"]
fn the_process_of_a_job() {
    let scenario = env::var(SCENARIO).unwrap();
    match scenario.split_once(' ').unwrap_or((&scenario, "")) {
        ("iterations", version) => iterations(&Nccl::load(version.parse().unwrap())),
        ("hostile", version) => hostile(&Nccl::load(version.parse().unwrap())),
        ("threads", version) => threads(&Nccl::load(version.parse().unwrap())),
        ("held", how) => hold::job(how),
        ("nothing", _) => nothing(&Nccl::load(5)),
        other => panic!("{other:?}"),
    }
}

/// Three iterations of two collectives and a send, each with two operations that overlap.
fn iterations(nccl: &Nccl) {
    let (context, mask) = nccl.init(0x5151);
    assert_eq!(mask, 2 | 4 | 8);
    for _ in 0..3 {
        // The group that a collective is in comes too, and its handle must not be null: else its children do not come.
        let group = nccl.start(context, &nccl.event(1));
        assert_ne!(group, Number(0));
        let calls = [
            nccl.collective(0x5151, c"AllReduce", 1 << 20),
            nccl.collective(0x5151, c"ReduceScatter", 1 << 20),
            nccl.send(0x5151, 4_096, 3),
        ];
        for call in calls {
            let call = nccl.start(context, &call);
            let operations = [0; 2].map(|_| nccl.start(context, &nccl.operation(u64::from(std::process::id()))));
            nccl.stop(call);
            for operation in operations {
                nccl.record(operation, 3);
                nccl.stop(operation);
                nccl.record(operation, 4);
            }
        }
        nccl.stop(group);
    }
    nccl.finalize(context);
}

#[test]
fn iterations_are_seen_under_every_version() {
    for version in 1..=6 {
        let events = play(&format!("iterations {version}"));
        let kinds: Vec<EventKind> = events.iter().map(|event| event.kind).collect();
        assert_eq!(kinds, [EventKind::Called, EventKind::Busy, EventKind::Idle].repeat(9), "version {version}");
        let values = |kind| events.iter().filter(move |event| event.kind == kind).map(|event| event.value).collect::<Vec<_>>();
        assert_eq!(values(EventKind::Busy), (0..9).map(|n| 2 * n).collect::<Vec<_>>());
        assert_eq!(values(EventKind::Idle), (1..10).map(|n| 2 * n).collect::<Vec<_>>());
        let calls = values(EventKind::Called);
        assert!(calls[0] != calls[1] && calls[1] != calls[2] && calls[0] != calls[2], "version {version}");
        assert_eq!(calls, calls[..3].repeat(3), "the same calls have the same numbers");
        assert!(events.is_sorted_by_key(|event| event.at));
    }
}

/// All that was reported of NCCL and more: ends without a beginning, twice, late and of nothing; parents and contexts of others; states
/// after the end; null everywhere; events of later versions; operations that never end; a communicator that ends twice.
fn hostile(nccl: &Nccl) {
    let (context, _) = nccl.init(1);
    let operation = nccl.start(context, &nccl.operation(1));
    for handle in [0, 1, 2, 3, usize::MAX, 0xdead_beef, operation.0 ^ 1 << 40] {
        nccl.stop(Number(handle));
        nccl.record(Number(handle), -7);
    }
    let foreign = nccl.start(Number(usize::MAX), &nccl.operation(999_999));
    nccl.start(Number(0), &nccl.collective(1, c"AllReduce", 9));
    // SAFETY: null is a pointer that the plugin has to expect.
    unsafe {
        assert_eq!((nccl.table.start)(context.pointer(), ptr::null_mut(), ptr::null()), 0);
        assert_eq!((nccl.table.start)(ptr::null_mut(), ptr::null_mut(), nccl.event(8).as_ptr().cast()), 0);
        let mut handle = ptr::null_mut();
        assert_eq!((nccl.table.start)(context.pointer(), &raw mut handle, ptr::null()), 0);
        assert!(!handle.is_null());
    }
    let bits = if EVENTS[nccl.version - 1].1 { 63 } else { 7 };
    for bit in (0..=bits).filter(|bit| !(1..=3).contains(bit)) {
        let handle = nccl.start(context, &nccl.event(1 << bit));
        assert_ne!(handle, Number(0));
        nccl.stop(handle);
        nccl.stop(handle);
    }
    // Two were begun whose handles are known, and one whose handle nobody has.
    for handle in [operation, foreign, foreign, operation] {
        nccl.stop(handle);
    }
    nccl.finalize(context);
    // Late, and of a slot that is in use again.
    let (second, _) = nccl.init(2);
    let operations: Vec<Number> = (0..5_000).map(|_| nccl.start(second, &nccl.operation(1))).collect();
    nccl.stop(operation);
    nccl.stop(foreign);
    nccl.finalize(second);
    operations.into_iter().for_each(|operation| nccl.stop(operation));
    nccl.finalize(second);
    nccl.finalize(Number(0));
}

#[test]
fn hostile_events_are_survived_and_counted_once() {
    for version in [1, 3, 4, 6] {
        let events = play(&format!("hostile {version}"));
        let network: Vec<_> =
            events.iter().filter(|event| event.kind != EventKind::Called).map(|event| (event.kind, event.value)).collect();
        // Of the 5,000 all slots but the one that is skipped while it is in use are taken: 4,096 at most are counted.
        let &[(EventKind::Busy, 0), (EventKind::Idle, 3), (EventKind::Busy, 3), (EventKind::Idle, last)] = network.as_slice() else {
            panic!("version {version}: {network:?}");
        };
        assert_eq!(last, 3 + 4_096, "version {version}");
        assert_eq!(events.len() - network.len(), 1, "version {version}");
    }
}

/// The thread of the job calls collectives while two of NCCL's carry operations.
fn threads(nccl: &Nccl) {
    let (context, _) = nccl.init(1);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let operations = [0; 3].map(|_| nccl.start(context, &nccl.operation(1)));
                    thread::scope(|other| {
                        other.spawn(|| operations.map(|operation| nccl.stop(operation)));
                        other.spawn(|| operations.map(|operation| nccl.stop(operation)));
                    });
                }
            });
        }
        (0..500).for_each(|_| nccl.stop(nccl.start(context, &nccl.collective(1, c"AllReduce", 9))));
    });
    nccl.finalize(context);
}

#[test]
fn threads_at_once_lose_no_operation() {
    let events = play("threads 5");
    assert_eq!(events.iter().filter(|event| event.kind == EventKind::Called).count(), 500);
    let network: Vec<&Event> = events.iter().filter(|event| event.kind != EventKind::Called).collect();
    let idle = network.iter().filter(|event| event.kind == EventKind::Idle);
    assert_eq!(idle.map(|event| event.value).max(), Some(2 * 200 * 3));
    let busy = network.iter().filter(|event| event.kind == EventKind::Busy).count();
    assert_eq!(busy * 2, network.len(), "busy and idle take turns");
}

fn nothing(nccl: &Nccl) {
    let (context, mask) = nccl.init(1);
    assert_eq!(mask, 0, "NCCL is asked for nothing");
    let operation = nccl.start(context, &nccl.operation(1));
    nccl.stop(operation);
    nccl.stop(nccl.start(context, &nccl.collective(1, c"AllReduce", 9)));
    nccl.finalize(context);
}

#[test]
fn without_a_job_or_an_agent_or_memory_nothing_happens_and_nothing_fails() {
    let bad = |variable: &'static str, value: &'static str| child("nothing", |command| command.env(variable, value));
    let directory = tempfile::tempdir().unwrap();
    let off = child("nothing", |command| command.env("ANTIPHASE_JOB", JOB).env("ANTIPHASE_GATE", "off").current_dir(directory.path()));
    for output in [bad("ANTIPHASE_JOB", ""), bad("ANTIPHASE_JOB", "../x"), off] {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    // No agent: the job does all that it does.
    let alone = child("iterations 5", |command| command.env("ANTIPHASE_JOB", JOB).env("ANTIPHASE_DIR", directory.path()));
    assert!(alone.status.success(), "{}", String::from_utf8_lossy(&alone.stderr));
    assert_eq!(directory.path().read_dir().unwrap().count(), 0, "a job makes no files");
}

/// NCCL finds its six names, nothing else of ours stands in its way, and the library is never unloaded.
#[test]
fn the_library_exports_what_nccl_looks_for() {
    let Ok(output) = Command::new("readelf").args(["--wide", "--dyn-syms", "--dynamic"]).arg(library()).output() else {
        println!("skipped: readelf (binutils) is not installed, so the library's symbols were not looked at");
        return;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("NODELETE"), "the library could be unloaded");
    let words = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut exported: Vec<(String, String)> = words
        .filter(|words| words.len() == 8 && words[4] == "GLOBAL" && words[6] != "UND")
        .map(|words| (words[7].to_owned(), words[2].to_owned()))
        .collect();
    exported.sort_unstable();
    // Each table has six pointers.
    assert_eq!(exported, (1..=6).map(|version| (format!("ncclProfiler_v{version}"), "48".to_owned())).collect::<Vec<_>>());
}
