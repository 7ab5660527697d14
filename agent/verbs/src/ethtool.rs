//! Statistics of a network interface as its driver names them: what `ethtool -S` shows (ETHTOOL_GSTRINGS and ETHTOOL_GSTATS of
//! linux/ethtool.h). Needs no privilege.
//!
//! There is no netlink for them: netlink has the standard statistics, and priorities are not among those.

use std::{ffi::c_void, io, os::fd::AsRawFd as _};

use rustix::{
    fd::OwnedFd,
    net::{AddressFamily, SocketFlags, SocketType, socket_with},
};

/// Longest name of an interface, with its zero (IFNAMSIZ).
const NAME_BYTES: usize = 16;
/// Length of the name of a statistic (ETH_GSTRING_LEN).
const STRING_BYTES: usize = 32;
const SS_STATS: u32 = 1;
const GET_STRINGS: u32 = 0x1b;
const GET_STATS: u32 = 0x1d;
const GET_COUNTS: u32 = 0x37;
const SIOCETHTOOL: u32 = 0x8946;

/// Most statistics that are read: a NIC with 256 queues has some ten thousand.
pub const STATISTICS_MAX: usize = 16_384;
/// The kernel writes as many as the driver has at that moment, whatever was asked for, so there is room for a driver that gets four times
/// as many queues between two calls.
const ROOM: usize = 4 * STATISTICS_MAX;
/// Words of a name.
const STRING_WORDS: usize = STRING_BYTES / 8;
/// Words of a request before its data, of which the names begin in the middle of the last one.
const HEAD_STATS: usize = 1;
const HEAD_STRINGS: usize = 2;

/// The names of an interface's statistics, ready to be read.
#[derive(Debug)]
pub struct Statistics {
    socket: OwnedFd,
    interface: [u8; NAME_BYTES],
    names: Vec<String>,
    /// For the kernel to write to, as words: aligned for numbers of 64 bits.
    room: Vec<u64>,
}

/// `struct ifreq`: a name, and a union of 24 bytes that begins with the pointer.
#[repr(C)]
struct Request {
    name: [u8; NAME_BYTES],
    data: *mut c_void,
    rest: [u64; 2],
}

impl Statistics {
    /// Asks for the names.
    ///
    /// # Errors
    /// The interface is not there, its driver has no statistics (`EOPNOTSUPP`), or more than [`STATISTICS_MAX`].
    pub fn open(interface: &str) -> io::Result<Self> {
        let mut name = [0; NAME_BYTES];
        // The last byte stays zero.
        let fits = interface.len() < NAME_BYTES && !interface.is_empty() && !interface.contains('\0');
        if !fits {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{interface:?} is no name of an interface")));
        }
        name[..interface.len()].copy_from_slice(interface.as_bytes());
        let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        let mut statistics = Self { socket, interface: name, names: Vec::new(), room: vec![0; HEAD_STRINGS + ROOM * STRING_WORDS] };
        statistics.names = statistics.ask_names()?;
        statistics.room = vec![0; HEAD_STATS + ROOM];
        Ok(statistics)
    }

    /// The names, in the order of the numbers.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The numbers now.
    ///
    /// # Errors
    /// The interface is gone, or its driver has others by now ([`io::ErrorKind::InvalidData`]): open it again.
    pub fn read(&mut self) -> io::Result<&[u64]> {
        self.room[0] = word(GET_STATS, 0);
        self.call()?;
        let count = self.names.len();
        if halves(self.room[0])[1] as usize != count {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the driver has other statistics by now"));
        }
        Ok(&self.room[HEAD_STATS..HEAD_STATS + count])
    }

    fn ask_names(&mut self) -> io::Result<Vec<String>> {
        // How many there are: a mask of sets, of which one is asked for, and its number behind.
        self.room[..3].copy_from_slice(&[word(GET_COUNTS, 0), 1 << SS_STATS, 0]);
        self.call()?;
        let [count, _] = halves(self.room[2]);
        // A set that the driver does not have is taken out of the mask.
        let count = if self.room[1] == 0 { 0 } else { count as usize };
        if count > STATISTICS_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{count} statistics; at most {STATISTICS_MAX} are read")));
        }
        if count == 0 {
            return Ok(Vec::new());
        }
        self.room[..HEAD_STRINGS].copy_from_slice(&[word(GET_STRINGS, SS_STATS), word(count as u32, 0)]);
        self.call()?;
        let [told, _] = halves(self.room[1]);
        if told as usize != count {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the driver has other statistics by now"));
        }
        // The names begin behind three halves of words.
        let words = &self.room[1..HEAD_STRINGS + count * STRING_WORDS];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).skip(4).collect();
        Ok(names(&bytes[..count * STRING_BYTES]))
    }

    fn call(&mut self) -> io::Result<()> {
        let mut request = Request { name: self.interface, data: self.room.as_mut_ptr().cast(), rest: [0; 2] };
        // SAFETY: the request lives through the call and has the layout and size of `struct ifreq`. `data` points to `room`, which is
        // exclusively ours. The kernel writes a head of at most 16 bytes and what the driver has: 32 bytes for each name, or 8 for each
        // number. `ask_names` refuses a driver that has more than STATISTICS_MAX, and there is room for ROOM, four times as many.
        let result = unsafe { libc::ioctl(self.socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// The names in a block of them, 32 bytes each; what is behind the last whole one is none.
#[must_use]
pub fn names(block: &[u8]) -> Vec<String> {
    block.chunks_exact(STRING_BYTES).map(text).collect()
}

/// Two numbers of 32 bits as they lie in memory.
fn word(first: u32, second: u32) -> u64 {
    let ([a, b, c, d], [e, f, g, h]) = (first.to_ne_bytes(), second.to_ne_bytes());
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

fn halves(word: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    [u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h])]
}

/// A name up to its zero; what is no text shows as such.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
}
