//! A state file opened for a look: what the database would write to it stays in memory.
//!
//! The database repairs what it opens, and so changes a file before anybody knows whether the file can be used. A file that is
//! refused has to stay as it is, because it may be all that somebody has.

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    ops::Bound,
    os::unix::fs::FileExt as _,
    sync::{Mutex, MutexGuard, PoisonError},
};

use redb::{BackendError, StorageBackend};

/// Bytes that are kept in memory together; a page of the database.
const BLOCK: usize = 4_096;
/// Most blocks that are kept: 256 MiB, far above what a repair writes, and far below what a damaged length could ask for.
const BLOCKS_MAX: usize = (256 << 20) / BLOCK;

/// A file below what was written over it.
#[derive(Debug)]
pub(super) struct Trial {
    file: File,
    over: Mutex<Over>,
}

/// What differs from the file.
#[derive(Debug)]
struct Over {
    /// The length that the database sees.
    length: u64,
    /// From here on nothing of the file shows: it was cut off, or never there.
    shows: u64,
    /// Whole blocks, by number.
    blocks: BTreeMap<u64, Box<[u8; BLOCK]>>,
}

impl Trial {
    /// The file as it is. Nothing is ever written to it.
    pub(super) fn of(file: File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        Ok(Self { file, over: Mutex::new(Over { length, shows: length, blocks: BTreeMap::new() }) })
    }

    fn over(&self) -> MutexGuard<'_, Over> {
        // The database gives up after a panic, so nobody reads what one left half done.
        self.over.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Over {
    /// A block as the database sees it.
    fn block(&self, file: &File, number: u64) -> io::Result<[u8; BLOCK]> {
        if let Some(block) = self.blocks.get(&number) {
            return Ok(**block);
        }
        let mut block = [0; BLOCK];
        let at = number * BLOCK as u64;
        // What is beyond the end reads as zeroes, as after an extension of the file.
        let there = usize::try_from(self.shows.saturating_sub(at)).unwrap_or(BLOCK).min(BLOCK);
        file.read_exact_at(&mut block[..there], at)?;
        Ok(block)
    }
}

/// The parts of the bytes from `offset` on that lie in one block each: its number, where in it, and which of the bytes.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        // A remainder below BLOCK fits any integer.
        let within = (at % BLOCK as u64) as usize;
        let now = (BLOCK - within).min(length - done);
        let part = (at / BLOCK as u64, within, done..done + now);
        done += now;
        (now > 0).then_some(part)
    })
}

fn end(offset: u64, length: usize) -> io::Result<u64> {
    offset.checked_add(length as u64).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))
}

impl StorageBackend for Trial {
    fn len(&self) -> io::Result<u64> {
        Ok(self.over().length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let over = self.over();
        if end(offset, out.len())? > over.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for (number, within, which) in parts(offset, out.len()) {
            let block = over.block(&self.file, number)?;
            out[which.clone()].copy_from_slice(&block[within..within + which.len()]);
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut over = self.over();
        if length < over.length {
            over.shows = over.shows.min(length);
            let (last, within) = (length / BLOCK as u64, (length % BLOCK as u64) as usize);
            over.blocks.retain(|number, _| *number <= last);
            // What was cut off reads as zeroes if the file grows again.
            if let Some(block) = over.blocks.get_mut(&last) {
                block[within..].fill(0);
            }
        }
        over.length = length;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut over = self.over();
        over.length = over.length.max(end(offset, data.len())?);
        for (number, within, which) in parts(offset, data.len()) {
            let mut block = over.block(&self.file, number)?;
            block[within..within + which.len()].copy_from_slice(&data[which]);
            over.blocks.insert(number, Box::new(block));
            if over.blocks.len() > BLOCKS_MAX {
                return Err(io::ErrorKind::StorageFull.into());
            }
        }
        Ok(())
    }

    // The lock is on the file itself, and its holder makes one trial at a time.

    fn try_lock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<bool, BackendError> {
        Ok(true)
    }

    fn try_lock_shared_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<bool, BackendError> {
        Ok(true)
    }

    fn lock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<(), BackendError> {
        Ok(())
    }

    fn lock_shared_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<(), BackendError> {
        Ok(())
    }

    fn unlock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<(), BackendError> {
        Ok(())
    }

    fn query_lock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<bool, BackendError> {
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A small generator: the same steps in every run.
    fn numbers(mut state: u64) -> impl FnMut(u64) -> u64 {
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        }
    }

    /// Reads, writes and lengths at random, beside a vector that is plainly what a file would be.
    #[test]
    fn a_trial_shows_what_the_file_would_and_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for seed in 0..20 {
            let mut draw = numbers(seed);
            let original: Vec<u8> = (0..draw(30_000)).map(|n| n as u8 | 1).collect();
            fs::write(&path, &original).unwrap();
            let trial = Trial::of(File::open(&path).unwrap()).unwrap();
            let mut expected = original.clone();
            for step in 0..400 {
                let at = draw(40_000) as usize;
                match draw(4) {
                    0 => {
                        trial.set_len(at as u64).unwrap();
                        expected.resize(at, 0);
                    }
                    1 | 2 => {
                        let data = vec![step as u8; draw(9_000) as usize];
                        trial.write(at as u64, &data).unwrap();
                        expected.resize(expected.len().max(at + data.len()), 0);
                        expected[at..at + data.len()].copy_from_slice(&data);
                    }
                    _ => {
                        let mut out = vec![0; draw(9_000) as usize];
                        let read = trial.read(at as u64, &mut out);
                        assert_eq!(read.is_ok(), at + out.len() <= expected.len(), "seed {seed}, step {step}");
                        if read.is_ok() {
                            assert!(out == expected[at..at + out.len()], "seed {seed}, step {step}");
                        }
                    }
                }
                assert_eq!(trial.len().unwrap(), expected.len() as u64);
            }
            let mut all = vec![0; expected.len()];
            trial.read(0, &mut all).unwrap();
            assert!(all == expected && fs::read(&path).unwrap() == original, "seed {seed}");
        }
    }

    #[test]
    fn what_would_be_written_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, b"x").unwrap();
        let trial = Trial::of(File::open(&path).unwrap()).unwrap();
        let piece = vec![1; 64 << 20];
        let refused = (0..5).map(|n| trial.write(n * (64 << 20), &piece)).find_map(Result::err).unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
    }
}
