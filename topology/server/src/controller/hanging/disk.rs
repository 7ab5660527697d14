//! The disk below the state file: syncs that fail, and what a machine finds after its end.
//!
//! Of each file it is known what is durable, as it was at the last sync that passed, and what was written since. A rename is durable when
//! the write that needed it has returned; before, either file may stand under the name.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use super::sectors;

/// A file.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    durable: Vec<u8>,
    written: Vec<u8>,
}

/// All that a process or a machine leaves behind.
#[derive(Clone, Debug)]
pub(super) struct Left {
    /// What may stand under the name: the file of the last durable rename, and those that were renamed since, the newest last.
    named: Vec<Held>,
    /// The file that was to take its place.
    new: Option<Held>,
}

/// The file beside it, which is to take its place.
#[derive(Debug)]
struct New {
    inode: u64,
    held: Held,
    /// Whether this process writes it. One that another process left stays as it is until it is needed.
    is_written: bool,
}

/// What the disk does with syncs, and what it has.
#[derive(Debug, Default)]
pub(super) struct Disk {
    path: PathBuf,
    /// The next syncs that fail.
    pub(super) fails: u32,
    /// Counts down to the sync at which everything ends.
    pub(super) end_at: Option<u32>,
    /// What was there then.
    ended: Option<Left>,
    named: Vec<Held>,
    new: Option<New>,
}

/// In the place of an inode that is not known yet: no file has it.
const FOUND: u64 = 0;

/// Inode and bytes.
fn read(path: &Path) -> Option<(u64, Vec<u8>)> {
    Some((fs::metadata(path).ok()?.ino(), fs::read(path).ok()?))
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

impl Disk {
    /// A disk that has this under a name, or nothing, and on which everything ends at that sync.
    pub(super) fn of(path: PathBuf, left: Option<Left>, end_at: Option<u32>) -> Self {
        let Left { named, new } = left.unwrap_or(Left { named: vec![Held::default()], new: None });
        Self { path, end_at, named, new: new.map(|held| New { inode: FOUND, held, is_written: false }), ..Self::default() }
    }

    /// Looks what was written, and which file stands under the name.
    fn look(&mut self) {
        // Before the first rename nothing stands there.
        if let Some((inode, written)) = read(&self.path) {
            self.named.extend(self.new.take_if(|new| new.inode == inode).map(|new| new.held));
            if let Some(last) = self.named.last_mut() {
                last.written = written;
            }
        }
        self.new = read(&beside(&self.path)).map(|(inode, written)| match self.new.take() {
            Some(New { inode: was, held, is_written }) if [FOUND, inode].contains(&was) => {
                New { inode, is_written: is_written || written != held.written, held: Held { written, ..held } }
            }
            _ => New { inode, is_written: true, held: Held { durable: Vec::new(), written } },
        });
    }

    /// What the end leaves, now or at the sync at which it came: the process went on only in this test.
    pub(super) fn left(&mut self) -> Left {
        if let Some(left) = self.ended.take() {
            return left;
        }
        self.look();
        Left { named: self.named.clone(), new: self.new.as_ref().map(|new| new.held.clone()) }
    }

    /// Gives the memory of its files back.
    pub(super) fn clear(&self) {
        for file in [&self.path, &beside(&self.path)] {
            // There may be none.
            let _ = fs::remove_file(file);
        }
    }

    /// Whether the sync came at which everything ends.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Asked before each sync.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.look();
        if self.end_at == Some(0) && self.ended.is_none() {
            self.ended = Some(self.left());
        }
        self.end_at = self.end_at.map(|left| left.saturating_sub(1));
        if self.fails > 0 || self.ended.is_some() {
            self.fails = self.fails.saturating_sub(1);
            return Err(io::Error::other("no answer of the device"));
        }
        // While a new file is written nothing else is. A file that was renamed is not written before its name is durable.
        match (&mut self.new, self.named.as_mut_slice()) {
            (Some(New { held, is_written: true, .. }), _) | (_, [held]) => held.durable.clone_from(&held.written),
            _ => {}
        }
        Ok(())
    }

    /// A write has returned well: what was renamed stands under its name.
    pub(super) fn passed(&mut self) {
        let last = self.named.len().saturating_sub(1);
        self.named.drain(..last);
    }
}

impl Left {
    /// Only the process is gone: everything that was written is there, durable or not.
    pub(super) fn of_process(mut self) -> Self {
        self.named.drain(..self.named.len().saturating_sub(1));
        self
    }

    /// The power is gone, and with it some of what was not synced.
    pub(super) fn of_machine(self, below: &mut impl FnMut(usize) -> usize) -> Self {
        let mut cut = |held: &Held| {
            let found = sectors::after_power_cut(&held.durable, &held.written, below);
            Held { durable: found.clone(), written: found }
        };
        let new = self.new.as_ref().map(&mut cut);
        let all: Vec<Held> = self.named.iter().map(cut).collect();
        let named = vec![all[below(all.len())].clone()];
        // The folder may have forgotten a file that never got a durable name.
        Self { named, new: new.filter(|_| below(2) == 0) }
    }

    /// The file, for damage to it.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.named[0].written
    }

    /// Puts the files under a name.
    pub(super) fn lay(&self, path: &Path) {
        fs::write(path, self.bytes()).expect("memory has room");
        if let Some(new) = &self.new {
            fs::write(beside(path), &new.written).expect("memory has room");
        }
    }
}
