//! Rings of events and other files that are passed through the socket.

use std::{
    fs::File,
    io::{ErrorKind, IoSlice, Write},
    iter,
    mem::MaybeUninit,
    net::{TcpListener, TcpStream},
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixDatagram,
    },
    path::Path,
    time::{Duration, Instant},
};

use antiphase_gate::{
    JobName, NoteReader, Received,
    events::{Event, EventKind, EventWriter},
    notes::{Greeting, NOTE_BYTES, OPEN_FILES, SOCKET},
    now,
};
use rustix::{
    net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg, sockopt::set_socket_linger},
    process::{Resource, Rlimit, geteuid, getrlimit, setrlimit},
};

use crate::{
    ends::{JOB, eventually, gate, page},
    turns::no_answer,
};

/// What a plugin of the communication library passes: the memory of its events, which the agent reads as it is written.
#[test]
fn a_ring_of_events_is_passed_and_read() {
    let directory = tempfile::tempdir().unwrap();
    let reader = NoteReader::bind(directory.path()).unwrap();
    let ring = EventWriter::create().unwrap();
    let greeting = Greeting::new(directory.path(), &JobName::try_new(JOB).unwrap(), &ring);
    assert!(greeting.send(&ring) && greeting.send(&ring));
    let Some(Received::Events { job, mut events, from }) = reader.recv_any().unwrap() else { panic!("no ring") };
    assert_eq!((job.as_str(), from, events.writer()), (JOB, geteuid().as_raw(), ring.writer()));
    let event = Event { kind: EventKind::Idle, at: now(), value: 7 };
    ring.push(event);
    drop(ring);
    let mut read = Vec::new();
    events.read(&mut read);
    assert_eq!(read, [event], "the memory outlives the job");
    // For whoever takes notes only, a ring is a datagram that is none.
    assert!(reader.recv().unwrap().is_none());
    // Nobody there: nothing is waited for.
    reader.remove().unwrap();
    assert!(!greeting.send(&EventWriter::create().unwrap()));
}

/// A socket whose closing takes until the peer reads or ends: it lingers, and what it has to send does not fit.
fn hangs_when_closed() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut hanging = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (peer, _) = listener.accept().unwrap();
    set_socket_linger(&hanging, Some(Duration::from_secs(300))).unwrap();
    hanging.set_nonblocking(true).unwrap();
    while hanging.write(&[0; 1 << 16]).is_ok() {}
    (hanging.into(), peer)
}

/// Passes open files to the agent of a directory, and closes nothing itself.
fn pass(directory: &Path, bytes: &[u8], files: &[OwnedFd]) {
    let socket = UnixDatagram::unbound().unwrap();
    socket.connect(directory.join(SOCKET)).unwrap();
    let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut with = SendAncillaryBuffer::new(&mut space);
    assert!(with.push(SendAncillaryMessage::ScmRights(&files)));
    sendmsg(&socket, &[IoSlice::new(bytes)], &mut with, SendFlags::empty()).unwrap();
}

/// Opens of a file that closes at once.
fn closes_at_once(count: usize) -> Vec<OwnedFd> {
    let null = File::open("/dev/null").unwrap();
    iter::repeat_with(|| null.try_clone().unwrap().into()).take(count).collect()
}

/// Anybody on the node may pass files whose closing takes for ever. The agent reads on until too many wait, then says that it does not, and
/// reads again when they have closed; neither does it wait where it drops a socket that is full of them, again and again.
#[test]
fn files_that_do_not_close_hang_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let reader = NoteReader::bind(directory.path()).unwrap();
    // All that is read here fits, and no more: where the kernel has no number left, it closes in the thread that receives.
    let own = 100;
    let files = (OPEN_FILES + own) as u64;
    setrlimit(Resource::Nofile, Rlimit { current: Some(files), ..getrlimit(Resource::Nofile) }).unwrap();
    let began = Instant::now();
    let mut peers = Vec::new();
    // As many files as a datagram can carry, of which the last one closes late.
    let mut pass_slow = |directory: &Path| {
        let (file, peer) = hangs_when_closed();
        let copies: Vec<OwnedFd> = iter::repeat_with(|| file.try_clone().unwrap()).take(253).collect();
        pass(directory, b"no note", &copies);
        peers.push(peer);
    };
    // Each of three threads has one that does not close, and all others of these wait.
    for _ in 0..3 {
        pass_slow(directory.path());
        assert!(reader.recv_any().unwrap().is_none());
    }
    // There is room for three datagrams more: the third is one file too many for another.
    for _ in 0..3 {
        pass(directory.path(), &[0; NOTE_BYTES], &closes_at_once(253));
        // The others of the three datagrams may be under way.
        eventually("a datagram is taken", || reader.recv_any().ok());
    }
    pass_slow(directory.path());
    let error = reader.recv_any().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceBusy);
    assert_eq!(error.to_string(), format!("files do not close that user {} passed", geteuid().as_raw()));
    // An agent whose jobs go and come.
    drop(reader);
    for _ in 0..3 {
        let reader = NoteReader::bind(directory.path()).unwrap();
        pass_slow(directory.path());
        assert_eq!(reader.recv_any().unwrap_err().kind(), ErrorKind::ResourceBusy);
    }
    let reader = NoteReader::bind(directory.path()).unwrap();
    assert!(began.elapsed() < Duration::from_secs(100), "nobody waited for a socket that lingers: {:?}", began.elapsed());
    drop(peers);
    let gate = gate(directory.path());
    let _page = page(directory.path(), &no_answer());
    eventually("a note, once the files have closed", || {
        gate.step();
        reader.recv().ok().flatten()
    });
}

/// Bursts of files that close at once are not taken for files that do not.
#[test]
fn files_that_close_are_read_on() {
    let directory = tempfile::tempdir().unwrap();
    let reader = NoteReader::bind(directory.path()).unwrap();
    // Fewer files than may wait, so this holds however slowly they are closed.
    for _ in 0..90 {
        // The kernel has room for some ten datagrams.
        for _ in 0..8 {
            pass(directory.path(), b"no note", &closes_at_once(1));
        }
        for _ in 0..8 {
            assert!(reader.recv_any().unwrap().is_none());
        }
    }
}
