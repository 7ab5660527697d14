//! Files of the kernel that hold one number or one table, kept open.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

/// Longest text of one number: 20 digits, a newline, and room for "N/A (no PMA)".
const NUMBER_BYTES_MAX: usize = 64;
/// Most names of one folder that are looked at: a host has a few hundred interfaces at most, and each file costs a descriptor.
pub(crate) const NAMES_MAX: usize = 4_096;

/// Where the kernel's files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Usually `/sys`.
    pub sys: PathBuf,
    /// Usually `/proc`.
    pub proc: PathBuf,
}

impl Default for Root {
    fn default() -> Self {
        Self { sys: "/sys".into(), proc: "/proc".into() }
    }
}

impl Root {
    /// `sys` and `proc` under one folder: a container's view of its host, or a recorded tree.
    #[must_use]
    pub fn under(folder: &Path) -> Self {
        Self { sys: folder.join("sys"), proc: folder.join("proc") }
    }

    pub(crate) fn net(&self) -> PathBuf {
        self.sys.join("class/net")
    }

    pub(crate) fn infiniband(&self) -> PathBuf {
        self.sys.join("class/infiniband")
    }
}

/// A file with one number.
#[derive(Debug)]
pub(crate) struct NumberFile {
    file: File,
}

impl NumberFile {
    /// Opens a file, and reads it once: `None` for a file that is missing, unreadable or holds no number.
    ///
    /// A port without a PMA answers "N/A (no PMA)", EINVAL or EOPNOTSUPP; none of them is a failure.
    pub(crate) fn open(path: &Path) -> Option<Self> {
        let opened = Self { file: File::open(path).ok()? };
        // A file of a port may exist and never hold a number; the first reading keeps it from the list for good.
        opened.read().map(|_| opened)
    }

    /// The number now. `None` when the device is gone or the file stopped to be a number.
    pub(crate) fn read(&self) -> Option<u64> {
        let mut buffer = [0; NUMBER_BYTES_MAX];
        // A read at offset 0 makes the kernel write the value anew, so the descriptor can stay open for years.
        let length = self.file.read_at(&mut buffer, 0).ok()?;
        number(&buffer[..length])
    }
}

/// A decimal number with white space around it.
pub(crate) fn number(text: &[u8]) -> Option<u64> {
    str::from_utf8(text).ok()?.trim().parse().ok()
}

/// A whole table in a file, read again and again into one buffer.
#[derive(Debug)]
pub(crate) struct TableFile {
    file: File,
    buffer: Vec<u8>,
}

/// Longest table. `/proc/net/netstat` has about 5 KiB.
const TABLE_BYTES_MAX: usize = 64 << 10;

impl TableFile {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::open(path)?, buffer: vec![0; TABLE_BYTES_MAX] })
    }

    /// The text now, or `None` when it cannot be read or is longer than [`TABLE_BYTES_MAX`].
    pub(crate) fn read(&mut self) -> Option<&str> {
        let mut length = 0;
        // A seq_file may hand out less than asked for; each pass reads at least one byte, so the buffer bounds the loop.
        while length < self.buffer.len() {
            match self.file.read_at(&mut self.buffer[length..], length as u64).ok()? {
                0 => return str::from_utf8(&self.buffer[..length]).ok(),
                read => length += read,
            }
        }
        None
    }
}

/// A small file as text without white space around it.
pub(crate) fn text(path: &Path) -> Option<String> {
    let mut buffer = [0; 256];
    // 256 bytes bound the text: the callers read names of interfaces and a few digits.
    let length = File::open(path).ok()?.read_at(&mut buffer, 0).ok()?;
    Some(str::from_utf8(&buffer[..length]).ok()?.trim().to_owned())
}

/// Names in a folder, sorted, at most [`NAMES_MAX`]; a folder that is not there has none.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    // NAMES_MAX bounds the list before it is sorted. A name that is not UTF-8 is of no interface that we could report.
    let mut names: Vec<String> = entries.take(NAMES_MAX).filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_number_is_absent() {
        let folder = tempfile::tempdir().unwrap();
        let file = |text: &str| {
            let path = folder.path().join("counter");
            fs::write(&path, text).unwrap();
            NumberFile::open(&path).and_then(|file| file.read())
        };
        assert_eq!(file("0\n"), Some(0));
        assert_eq!(file("18446744073709551615\n"), Some(u64::MAX));
        assert_eq!(file("18446744073709551616\n"), None);
        assert_eq!(file("N/A (no PMA)\n"), None);
        assert_eq!(file(""), None);
        assert_eq!(file("-1\n"), None);
        assert!(NumberFile::open(&folder.path().join("missing")).is_none());
    }

    #[test]
    fn an_open_file_shows_the_new_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("counter");
        fs::write(&path, "12\n").unwrap();
        let file = NumberFile::open(&path).unwrap();
        fs::write(&path, "13\n").unwrap();
        assert_eq!(file.read(), Some(13));
    }

    #[test]
    fn a_table_is_read_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table");
        fs::write(&path, "a b\n1 2\n").unwrap();
        let mut table = TableFile::open(&path).unwrap();
        assert_eq!(table.read(), Some("a b\n1 2\n"));
        fs::write(&path, vec![b'x'; TABLE_BYTES_MAX]).unwrap();
        assert_eq!(table.read(), None);
    }
}
