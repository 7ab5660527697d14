//! Users of this machine, on connections without certificates: changes are told of them, and not of the machine alone.
//!
//! The kernel says whose the socket at the other end of a loopback connection is (`/proc/net/tcp`). What it does not say, such as of a
//! socket in another network namespace, is told of the machine as before. Nobody's rights depend on it.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
    sync::{Arc, OnceLock},
};

use axum::extract::Request;
use units::OneLine;

use super::answer::changes;
use crate::tls::Subject;

/// Most of a table of sockets that is read: 50,000 of them. On a machine with more, users are not told.
const SOCKETS_BYTES_MAX: u64 = 8 << 20;
/// Most of the list of users that is read: 10,000 of them.
const USERS_BYTES_MAX: u64 = 1 << 20;
/// Longest name of a user that is told.
const USER_CHARS_MAX: usize = 64;
/// The state of a connection that is open at both ends, as the table writes it. Of one that is closing the kernel says no user, but 0.
const ESTABLISHED: &str = "01";

/// The two ends of a connection of this machine. Its user is looked up once, when somebody asks for a change on it: whoever only reads,
/// as the page does all day, costs nothing.
#[derive(Clone, Debug)]
pub(super) struct Local(Arc<Ends>);

#[derive(Debug)]
struct Ends {
    theirs: SocketAddr,
    ours: SocketAddr,
    told: OnceLock<Option<Arc<str>>>,
}

impl Local {
    pub(super) fn new(theirs: SocketAddr, ours: SocketAddr) -> Self {
        Self(Arc::new(Ends { theirs, ours, told: OnceLock::new() }))
    }

    /// As events name the user at the other end.
    fn told(&self) -> Option<Arc<str>> {
        let find = || {
            let uid = owner(self.0.theirs, self.0.ours).ok().flatten()?;
            let name = name(Path::new("/etc/passwd"), uid).unwrap_or_else(|| format!("user {uid}"));
            Some(Arc::from(format!("{} on {}", OneLine(name.chars().take(USER_CHARS_MAX).collect::<String>()), Subject::local().told)))
        };
        self.0.told.get_or_init(find).clone()
    }
}

/// Puts the user's name before the machine's where a request changes something.
pub(super) async fn name_user(request: &mut Request) {
    if !changes(request.method(), request.uri().path()) {
        return;
    }
    let (Some(local), Some(subject)) = (request.extensions().get::<Local>().cloned(), request.extensions().get::<Subject>().cloned())
    else {
        return;
    };
    // Tables of the kernel take milliseconds on a busy machine, which no thread that serves requests may lose.
    let told = tokio::task::spawn_blocking(move || local.told()).await;
    if let Ok(Some(told)) = told {
        request.extensions_mut().insert(Subject { told, ..subject });
    }
}

/// The user whose socket is the other end.
fn owner(theirs: SocketAddr, ours: SocketAddr) -> io::Result<Option<u32>> {
    // A connection by IPv4 to a socket of IPv6 stands in the table of the socket that made it.
    let (theirs, ours) = (canonical(theirs), canonical(ours));
    let table = if theirs.is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" };
    let lines = BufReader::new(File::open(table)?.take(SOCKETS_BYTES_MAX)).lines();
    for line in lines.skip(1) {
        if let Some(uid) = uid(&line?, theirs, ours) {
            return Ok(Some(uid));
        }
    }
    Ok(None)
}

/// The user of a line of the table, if it is of this connection as the other end has it.
fn uid(line: &str, theirs: SocketAddr, ours: SocketAddr) -> Option<u32> {
    // Number, local address, remote address, state, queues, timer, retransmissions, user.
    let mut words = line.split_ascii_whitespace().skip(1);
    let (local, remote, state) = (words.next()?, words.next()?, words.next()?);
    let is_it = state == ESTABLISHED && address(local)? == theirs && address(remote)? == ours;
    is_it.then(|| words.nth(3)?.parse().ok()).flatten()
}

/// An address as the table writes it: 32-bit words in the order of the machine, each in hexadecimal, and the port.
fn address(word: &str) -> Option<SocketAddr> {
    let (host, port) = word.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let part = |at: usize| Some(u32::from_str_radix(host.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let ip: IpAddr = match host.len() {
        8 => Ipv4Addr::from(part(0)?).into(),
        32 => {
            let mut octets = [0; 16];
            for (at, chunk) in octets.chunks_exact_mut(4).enumerate() {
                chunk.copy_from_slice(&part(at * 8)?);
            }
            Ipv6Addr::from(octets).into()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// The name of a user of this machine.
fn name(users: &Path, uid: u32) -> Option<String> {
    let mut text = String::new();
    File::open(users).ok()?.take(USERS_BYTES_MAX).read_to_string(&mut text).ok()?;
    let of = |line: &str| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse() == Ok(uid)).then(|| name.to_owned())
    };
    text.lines().find_map(of)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_kernel_says_whose_a_connection_is() {
        let us = rustix::process::getuid().as_raw();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                println!("skipped: no {address} here");
                continue;
            };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (stream, peer) = listener.accept().unwrap();
            let ours = stream.local_addr().unwrap();
            assert_eq!(owner(peer, ours).unwrap(), Some(us), "{address}");
            assert_eq!(owner(SocketAddr::new(peer.ip(), 1), ours).unwrap(), None);
            let told = Local::new(peer, ours).told().unwrap();
            assert!(told.ends_with(" on this machine") && told.len() > " on this machine".len(), "{told}");
            // Of a connection that is closing the table says user 0, which would be root.
            drop(client);
            assert_ne!(owner(peer, ours).unwrap(), Some(us), "{address}");
        }
    }

    #[test]
    fn lines_of_the_table_are_read() {
        let (theirs, ours) = ("127.0.0.1:7610".parse().unwrap(), "127.0.0.1:7600".parse().unwrap());
        // As a machine with the low byte first writes it.
        if cfg!(target_endian = "little") {
            let line = |state: &str| {
                format!("   3: 0100007F:1DBA 0100007F:1DB0 {state} 00000000:00000000 00:00000000 00000000  1000        0 2078638 1 0 100")
            };
            assert_eq!(uid(&line("01"), theirs, ours), Some(1000));
            assert_eq!(uid(&line("06"), theirs, ours), None, "closing");
            assert_eq!(uid(&line("01"), ours, theirs), None, "our own end");
            assert_eq!(address("00000000000000000000000001000000:0050"), Some("[::1]:80".parse().unwrap()));
        }
        for garbage in ["", "x", "1: 2", "1: 0100007F:1DBA 0100007F:1DB0 01", "1: é:1 é:2 01"] {
            assert_eq!(uid(garbage, theirs, ours), None, "{garbage:?}");
        }
    }

    #[test]
    fn users_have_the_names_of_the_list() {
        let dir = std::env::temp_dir().join(format!("antiphase-users-{}", std::process::id()));
        std::fs::write(&dir, "root:x:0:0:root:/home/root:\nbroken\nalice:x:1000:1000::/home/alice:\n").unwrap();
        assert_eq!([0, 1000, 7].map(|uid| name(&dir, uid)), [Some("root".into()), Some("alice".into()), None]);
        std::fs::remove_file(&dir).unwrap();
    }
}
