//! What a command says whose answer is cut off: by the end of the service, on the way, or by a service that hangs.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    process::{Child, ChildStdout, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use crate::{
    doctor::Service,
    process::{Run, program, run},
};

/// Bytes of answers after which a connection is cut: nothing, in the first frames of HTTP/2, and in the answer.
const CUTS: [usize; 6] = [0, 1, 20, 100, 400, 4_000];

/// `antiphase events --follow` that has said what was and now waits for what comes.
struct Follower {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Follower {
    fn start(service: &Service) -> Self {
        let mut command = Command::new(program());
        command.args(["events", "--follow", "--server", &service.url]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let said = BufReader::new(child.stdout.take().expect("invariant: a pipe was asked for"));
        let mut follower = Self { child, said };
        follower.until("fabric 1 is in force");
        // What comes after the list comes in the stream, which then is open.
        let jobs = b"{schema: antiphase.jobs/v1, jobs: [{id: a, model: {name: vgg16}, hosts: [h1, h5]}]}";
        let mut commit = Command::new(program());
        run(commit.args(["commit", "--jobs", "-", "--server", &service.url]), "commit".into(), jobs).expect(0);
        follower.until("committed a");
        follower
    }

    fn until(&mut self, part: &str) {
        let mut line = String::new();
        while !line.contains(part) {
            line.clear();
            let read = self.said.read_line(&mut line).expect("text");
            assert!(read > 0, "it ended before {part:?}");
        }
    }

    /// The end: exit code, and what was said of it.
    fn end(mut self) -> (Option<i32>, String) {
        let (mut rest, mut problem) = (String::new(), String::new());
        self.said.read_to_string(&mut rest).expect("text");
        self.child.stderr.take().expect("invariant: a pipe was asked for").read_to_string(&mut problem).expect("text");
        (self.child.wait().expect("it was started").code(), problem)
    }
}

#[test]
fn who_follows_events_is_told_how_the_service_ended() {
    // Stopped, it ends its streams: whoever follows can go on where this ended.
    let mut stopped = Service::start("cut-off-stopped");
    let follower = Follower::start(&stopped);
    stopped.signal("TERM");
    let (code, problem) = follower.end();
    assert_eq!(code, Some(1), "{problem}");
    let (line, after) = problem.trim_end().split_once("the service ended; `antiphase events --follow --after ").expect("how to go on");
    assert_eq!(line, format!("antiphase: {}: ", stopped.url));
    let after: u64 = after.strip_suffix("` goes on").expect("how to go on").parse().expect("a number");
    assert!(after >= 2, "{problem}");
    stopped.kill();

    let mut killed = Service::start("cut-off-killed");
    let follower = Follower::start(&killed);
    killed.kill();
    let (code, problem) = follower.end();
    let said = format!("antiphase: {}: the service is gone: no service runs here; start one with ", killed.url);
    assert!(code == Some(1) && problem.starts_with(&said) && problem.lines().count() == 1, "{code:?} {problem}");
}

/// A way to the service on which the first connection of each command ends after so many bytes of answers.
struct Way {
    url: String,
    /// Bytes that the next connection lets through.
    cut: Arc<AtomicUsize>,
}

impl Way {
    fn to(service: &Service) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("it listens"));
        let to = service.url.strip_prefix("http://").expect("invariant: it begins so").to_owned();
        let cut = Arc::new(AtomicUsize::new(usize::MAX));
        let next = Arc::clone(&cut);
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect(&to) else { return };
                let left = next.swap(usize::MAX, Ordering::SeqCst);
                let (asks, answers) = (near.try_clone().expect("a descriptor"), far.try_clone().expect("a descriptor"));
                thread::spawn(move || pass(asks, far, usize::MAX));
                thread::spawn(move || pass(answers, near, left));
            }
        });
        Self { url, cut }
    }
}

/// Passes bytes on, then ends the connection in both directions.
fn pass(mut from: TcpStream, mut to: TcpStream, mut left: usize) {
    let mut piece = [0; 4_096];
    while left > 0 {
        let Ok(read @ 1..) = from.read(&mut piece) else { break };
        let read = read.min(left);
        if to.write_all(&piece[..read]).is_err() {
            break;
        }
        left -= read;
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

#[test]
fn an_answer_that_is_cut_off_on_the_way_says_that_the_service_is_there() {
    let service = Service::start("cut-off-way");
    let way = Way::to(&service);
    let ask = |arguments: &[&str]| -> Run {
        let mut command = Command::new(program());
        run(command.args(arguments).args(["--server", &way.url]), arguments.join(" "), b"")
    };
    let again = format!("antiphase: {}: the service ended the connection, and is there again; start the command again\n", way.url);
    let mut cut_off = 0;
    for cut in CUTS {
        for arguments in [["links"], ["events"], ["agents"]] {
            way.cut.store(cut, Ordering::SeqCst);
            let asked = ask(&arguments);
            if asked.code != Some(0) {
                assert_eq!(
                    (asked.code, asked.stderr.as_str()),
                    (Some(1), again.as_str()),
                    "{arguments:?} cut after {cut} bytes: {}",
                    asked.stdout
                );
                assert_eq!(asked.stdout, "", "{arguments:?} cut after {cut} bytes");
                cut_off += 1;
            }
            // The next one is whole.
            way.cut.store(usize::MAX, Ordering::SeqCst);
        }
    }
    ask(&["events"]).expect(0);
    println!("{cut_off} answers were cut off");
    // A short answer is whole before the last of the cuts.
    assert!(cut_off >= 9, "{cut_off}");
}

/// Twenty seconds without a sign of life, and five for a look at it.
#[test]
fn a_service_that_hangs_in_an_answer_is_told_from_one_that_is_gone() {
    let service = Service::start("cut-off-hangs");
    let follower = Follower::start(&service);
    service.signal("STOP");
    let (code, problem) = follower.end();
    service.signal("CONT");
    let said =
        format!("antiphase: {}: the service did not answer for 20 s: it hangs, or is cut off from here; look at its log\n", service.url);
    assert_eq!((code, problem), (Some(1), said));
}
