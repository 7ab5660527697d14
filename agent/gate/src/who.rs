//! Which programs of this host use a job's page, as far as the user who asks may see.

use std::{collections::BTreeMap, fs, io::Read as _, os::unix::fs::MetadataExt as _, path::Path};

/// Most processes that are looked at: a busy host has some thousands.
const PROCESSES_MAX: usize = 20_000;
/// Most of a process's list of mappings that is read: a trainer has some thousands of lines of 100 bytes.
const MAPS_BYTES_MAX: u64 = 4 << 20;

/// A program that has the page mapped to follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// Its process.
    pub(crate) process: u32,
    /// The user it runs as.
    pub(crate) user: u32,
}

/// Programs that follow the page at this path, in order of their processes. A child that was forked from one is none of its own. Users other
/// than root see their own programs only.
pub(crate) fn follow(page: &Path) -> Vec<Program> {
    let Ok(page) = fs::metadata(page) else { return Vec::new() };
    let entries = fs::read_dir("/proc").into_iter().flatten().take(PROCESSES_MAX);
    let processes = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let all: BTreeMap<u32, u32> =
        processes.filter(|process| maps(*process, page.ino())).filter_map(|process| Some((process, parent(process)?))).collect();
    let first = all.iter().filter(|(_, parent)| !all.contains_key(parent)).map(|(process, _)| *process);
    first.filter_map(|process| Some(Program { process, user: fs::metadata(format!("/proc/{process}")).ok()?.uid() })).collect()
}

/// Whether a process reads a page that is this file: shared and read-only, as gates map it; the agent's own mapping is one to write.
fn maps(process: u32, page: u64) -> bool {
    let mut text = Vec::new();
    let read = fs::File::open(format!("/proc/{process}/maps")).and_then(|file| file.take(MAPS_BYTES_MAX).read_to_end(&mut text));
    read.is_ok() && String::from_utf8_lossy(&text).lines().any(|line| is_of(line, page))
}

/// Whether a line of a process's list is of this file. The device is left out: some file systems show another one there.
fn is_of(line: &str, page: u64) -> bool {
    let mut words = line.split_ascii_whitespace().skip(1);
    let reads = words.next() == Some("r--s");
    let inode = words.nth(2).and_then(|inode| inode.parse().ok());
    reads && inode == Some(page) && line.contains(".page")
}

/// The parent of a process.
fn parent(process: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program stands in parentheses and may hold any character.
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{JobName, PageReader, PageWriter};

    #[test]
    fn who_follows_a_page_is_seen_and_its_agent_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let _page = PageWriter::create(directory.path(), "j").unwrap();
        let path = directory.path().join("j.page");
        assert_eq!(follow(&path), []);
        let reader = PageReader::open(directory.path(), &JobName::try_new("j").unwrap()).unwrap();
        let user = fs::metadata("/proc/self").unwrap().uid();
        assert_eq!(follow(&path), [Program { process: std::process::id(), user }]);
        drop(reader);
        assert_eq!(follow(&path), []);
        assert_eq!(follow(&directory.path().join("none.page")), []);
        assert!(!is_of("7f00-7f01 r--s 00000000 00:1a 12 /run/antiphase/j.page", 1) && !is_of("", 0));
    }
}
