//! How two ends find each other: each tells its [`Address`] on a TCP connection, which stays open for as long as the ends are used.

use std::{
    io::{self, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    time::{Duration, Instant},
};

use rustix::net::sockopt;
use serde::{Deserialize, Serialize};

use crate::queue::Address;

/// Version of what is said.
const VERSION: u32 = 1;
/// Longest line; an address has about 150 bytes.
const LINE_BYTES_MAX: usize = 1 << 12;
/// How long the other end may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// After so much silence the kernel asks whether the other host is still there: about 11 minutes later a dead one is given up.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(60);

/// Why two ends did not find each other.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// No address behind the name, or nobody who answers.
    #[error("{peer}: {source}")]
    Peer {
        /// Who was called.
        peer: String,
        /// What happened.
        source: io::Error,
    },
    /// The other end refuses, and says why.
    #[error("{peer} refuses: {because}")]
    Refused {
        /// Who was called.
        peer: String,
        /// Its words.
        because: String,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hello {
    version: u32,
    address: Address,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Address(Address),
    Refused(String),
}

/// Calls a server: sends our address and returns its own. The connection holds what the server made for us.
///
/// # Errors
/// [`ExchangeError`]
pub fn call(peer: &str, ours: &Address) -> Result<(TcpStream, Address), ExchangeError> {
    let failed = |source: io::Error| ExchangeError::Peer { peer: peer.to_owned(), source };
    let stream = connect(peer).map_err(failed)?;
    let hello = Hello { version: VERSION, address: *ours };
    say(&stream, &hello).map_err(failed)?;
    match hear(&stream).map_err(failed)? {
        Answer::Address(theirs) => Ok((stream, theirs)),
        Answer::Refused(because) => Err(ExchangeError::Refused { peer: peer.to_owned(), because }),
    }
}

fn connect(peer: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    // A name has a few addresses, and each may take its time.
    for address in peer.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, ANSWER_WITHIN) {
            Ok(stream) => return prepare(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn prepare(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    stream.set_write_timeout(Some(ANSWER_WITHIN))?;
    sockopt::set_socket_keepalive(&stream, true)?;
    sockopt::set_tcp_keepidle(&stream, KEEPALIVE_AFTER)?;
    Ok(stream)
}

/// Answers one caller: `make` makes an end for its address and returns that end's. Returns what `make` made when the caller has gone.
///
/// # Errors
/// A caller that says something else, and what `make` says, which the caller hears too.
pub fn answer<E, F: std::fmt::Display>(stream: TcpStream, make: impl FnOnce(&Address) -> Result<(E, Address), F>) -> io::Result<()> {
    let stream = prepare(stream)?;
    let hello: Hello = hear(&stream)?;
    if hello.version != VERSION {
        let because = format!("version {} is spoken here, not {}", VERSION, hello.version);
        say(&stream, &Answer::Refused(because.clone()))?;
        return Err(io::Error::new(io::ErrorKind::InvalidData, because));
    }
    let made = match make(&hello.address) {
        Ok((made, address)) => {
            say(&stream, &Answer::Address(address))?;
            made
        }
        Err(error) => {
            say(&stream, &Answer::Refused(error.to_string()))?;
            return Err(io::Error::other(error.to_string()));
        }
    };
    stream.set_read_timeout(None)?;
    // The caller says nothing more: the read ends when it closes, or when its host is given up.
    let _ = (&stream).read(&mut [0]);
    drop(made);
    Ok(())
}

fn say(mut stream: &TcpStream, what: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(what).map_err(io::Error::from)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// One line, all of which has to come in time.
fn hear<T: for<'de> Deserialize<'de>>(mut stream: &TcpStream) -> io::Result<T> {
    let (until, mut line) = (Instant::now() + ANSWER_WITHIN, Vec::new());
    let mut part = [0; 512];
    while !line.contains(&b'\n') && line.len() < LINE_BYTES_MAX {
        // A timeout of nothing would be none at all.
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        stream.set_read_timeout(Some(left))?;
        let read = stream.read(&mut part)?;
        if read == 0 {
            break;
        }
        line.extend_from_slice(&part[..read]);
        if Instant::now() > until {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    serde_json::from_slice(&line).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("no address: {error}")))
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, thread};

    use super::*;

    fn address(queue_pair: u32) -> Address {
        Address { queue_pair, psn: 1, gid: "::1".parse().unwrap(), mtu: 3, buffer: 2, length: 3, key: 4 }
    }

    fn server(
        make: impl FnOnce(&Address) -> Result<((), Address), String> + Send + 'static,
    ) -> (String, thread::JoinHandle<io::Result<()>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let name = listener.local_addr().unwrap().to_string();
        (name, thread::spawn(move || answer(listener.accept().unwrap().0, make)))
    }

    #[test]
    fn each_end_hears_the_address_of_the_other() {
        let (name, thread) = server(|theirs| Ok(((), address(theirs.queue_pair + 1))));
        let (stream, theirs) = call(&name, &address(7)).unwrap();
        assert_eq!(theirs, address(8));
        drop(stream);
        thread.join().unwrap().unwrap();
    }

    #[test]
    fn a_refusal_is_told() {
        let (name, thread) = server(|_| Err("too long".to_owned()));
        assert_eq!(call(&name, &address(7)).unwrap_err().to_string(), format!("{name} refuses: too long"));
        assert!(thread.join().unwrap().is_err());
    }

    #[test]
    fn strangers_are_not_understood() {
        for text in ["GET / HTTP/1.1\r\n\r\n", "", "{\"version\":2,\"address\":{}}\n", &"x".repeat(1 << 16)] {
            let (name, thread) = server(|_| unreachable!("no address was told"));
            let mut stream = TcpStream::connect(&name).unwrap();
            // The server may close before it has read all.
            let _ = stream.write_all(text.as_bytes());
            drop(stream);
            assert!(thread.join().unwrap().is_err());
        }
    }
}
