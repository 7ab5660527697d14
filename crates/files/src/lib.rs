//! Files that a person names to a program that runs for ever: configurations, certificates, documents.
//!
//! Such a program reads them again while others rely on it. A name may lead to anything: a FIFO whose other end nobody holds, a
//! device without an end, a file of gigabytes. So a file is opened without waiting, has to be a regular one, and is read up to a limit.
//! What the kernel's files say of such a program itself is in [`process`].
#![forbid(unsafe_code)]

pub mod process;

use std::{
    fs::{File, FileType, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _},
    path::Path,
};

use rustix::fs::OFlags;

/// Largest configuration that is read: the examples have 4 kB, and a mistaken path must not fill memory.
pub const CONFIG_BYTES_MAX: u64 = 1 << 20;
/// Largest file of certificates or of a key that is read; a chain of ten RSA certificates takes 20 KiB.
pub const PEM_BYTES_MAX: u64 = 256 * 1024;

/// Why a file was not read. The caller names the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// What the operating system says.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is there, and not a regular file.
    #[error("is {0}, not a regular file")]
    Kind(&'static str),
    /// It has more bytes than may be read.
    #[error("{bytes} bytes; at most {max} are read")]
    TooLarge {
        /// What it has, as far as was seen.
        bytes: u64,
        /// What may be read.
        max: u64,
    },
    /// Not UTF-8, where text is wanted.
    #[error("is not UTF-8")]
    NotText,
}

/// Reads a regular file of at most `max` bytes. Waits for nobody but the file system.
///
/// # Errors
/// [`FileError`], one line without the file's name.
pub fn read(path: &Path, max: u64) -> Result<Vec<u8>, FileError> {
    let file = open(path)?;
    let bytes = file.metadata()?.len();
    if bytes > max {
        return Err(FileError::TooLarge { bytes, max });
    }
    let mut content = Vec::new();
    // Somebody may write to the file while it is read, so its length is no limit: one byte more than allowed tells it.
    file.take(max.saturating_add(1)).read_to_end(&mut content)?;
    let bytes = content.len() as u64;
    if bytes > max { Err(FileError::TooLarge { bytes, max }) } else { Ok(content) }
}

/// As [`read`], for text.
///
/// # Errors
/// As [`read`], and [`FileError::NotText`].
pub fn read_text(path: &Path, max: u64) -> Result<String, FileError> {
    String::from_utf8(read(path, max)?).map_err(|_| FileError::NotText)
}

/// Longest line of a configuration that is quoted: a key and a path fit.
const QUOTED_CHARS_MAX: usize = 80;

/// What is wrong with a configuration, on one line: the number of the line at `start` (in bytes), its text where `problem` names neither
/// key nor value, and the problem. Without a place, the problem alone.
#[must_use]
pub fn at_line(text: &str, start: Option<usize>, problem: &str) -> String {
    let Some(before) = start.and_then(|start| text.get(..start.min(text.len()))) else { return problem.to_owned() };
    let number = before.matches('\n').count();
    let line = text.lines().nth(number).unwrap_or_default().trim();
    // Of an unknown key the problem has the name. Characters that move a cursor stay out of logs.
    let quotes = line.contains('=') && !problem.starts_with("unknown field") && !line.chars().any(char::is_control);
    let number = number.saturating_add(1);
    if !quotes {
        return format!("line {number}: {problem}");
    }
    let quoted: String = line.chars().take(QUOTED_CHARS_MAX).collect();
    format!("line {number}: {quoted}: {problem}")
}

fn open(path: &Path) -> Result<File, FileError> {
    // Without NONBLOCK the open of a FIFO waits for a writer (fifo(7)); NOCTTY keeps a terminal from becoming ours.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path) {
        Ok(file) => file,
        // A socket cannot be opened at all (ENXIO), and what is said should be what it is.
        Err(error) => {
            return Err(path.metadata().ok().and_then(|found| other(found.file_type())).map_or(FileError::Io(error), FileError::Kind));
        }
    };
    // The question is about the open file and not about its name, which may lead elsewhere by now.
    match other(file.metadata()?.file_type()) {
        None => Ok(file),
        Some(kind) => Err(FileError::Kind(kind)),
    }
}

/// What a file is that is not a regular one.
fn other(kind: FileType) -> Option<&'static str> {
    if kind.is_file() {
        return None;
    }
    Some(match kind {
        kind if kind.is_dir() => "a directory",
        kind if kind.is_fifo() => "a FIFO",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::net::UnixListener, sync::mpsc, thread, time::Duration};

    use rustix::fs::{CWD, FileType as Kind, Mode, mknodat};

    use super::*;

    /// What reading says, which must not take long: a hang fails here, and not when the runner gives up.
    fn said(path: &Path, max: u64) -> String {
        let (send, answer) = mpsc::channel();
        let path = path.to_owned();
        thread::spawn(move || send.send(read_text(&path, max).unwrap_or_else(|e| e.to_string())));
        answer.recv_timeout(Duration::from_secs(20)).expect("reading waits for somebody")
    }

    #[test]
    fn a_mistake_is_told_with_its_line() {
        let text = "a = 1\n[b]\n  c = -1 # three\n";
        let told = |start, problem| at_line(text, start, problem);
        assert_eq!(told(Some(16), "expected u32"), "line 3: c = -1 # three: expected u32");
        assert_eq!(told(Some(12), "unknown field `c`, expected `d`"), "line 3: unknown field `c`, expected `d`");
        assert_eq!(told(Some(7), "moon"), "line 2: moon");
        assert_eq!(told(Some(4_000), "ends too early"), "line 4: ends too early");
        assert_eq!(told(None, "moon"), "moon");
        assert_eq!(at_line("a = \u{1b}[2J", Some(0), "moon"), "line 1: moon");
        assert_eq!(at_line(&format!("a = {}", "x".repeat(100)), Some(0), "moon").len(), "line 1: ".len() + 80 + ": moon".len());
    }

    #[test]
    fn only_regular_files_are_read_and_nobody_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("text"), "a = 1\n").unwrap();
        std::os::unix::fs::symlink("text", at("link")).unwrap();
        mknodat(CWD, at("fifo"), Kind::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        std::os::unix::fs::symlink("fifo", at("to-fifo")).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        assert_eq!(said(&at("text"), 6), "a = 1\n");
        assert_eq!(said(&at("link"), 6), "a = 1\n");
        assert_eq!(said(&at("fifo"), 6), "is a FIFO, not a regular file");
        assert_eq!(said(&at("to-fifo"), 6), "is a FIFO, not a regular file");
        assert_eq!(said(&at("socket"), 6), "is a socket, not a regular file");
        assert_eq!(said(folder.path(), 6), "is a directory, not a regular file");
        assert_eq!(said(Path::new("/dev/zero"), 6), "is a device, not a regular file");
        assert!(said(&at("none"), 6).contains("No such file"));
    }

    #[test]
    fn nothing_beyond_the_limit_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("long");
        fs::write(&path, "1234567").unwrap();
        assert_eq!(said(&path, 7), "1234567");
        assert_eq!(said(&path, 6), "7 bytes; at most 6 are read");
        // A file without room on any disk: its length alone refuses it.
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(said(&path, 1 << 20), "1099511627776 bytes; at most 1048576 are read");
        // Files of the kernel say that they have no byte and have some: the limit counts what is read.
        assert!(said(Path::new("/proc/self/status"), 10).ends_with("11 bytes; at most 10 are read"));
        fs::write(&path, [0xff]).unwrap();
        assert_eq!(said(&path, 7), "is not UTF-8");
    }
}
