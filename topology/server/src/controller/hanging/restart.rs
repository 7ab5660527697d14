//! The end of a process or of its machine, and the start of the next one.

use std::{
    collections::BTreeMap,
    fs,
    panic::{self, AssertUnwindSafe},
    path::PathBuf,
};

use store::{StateFile, Store as _, StoreError};

use super::{Left, SYNCS_MAX, World, adapter, config, open, sectors};
use crate::writer::StoreHealth;

/// What a state file holds.
pub(super) type Contents = BTreeMap<String, Vec<u8>>;

/// Sectors that rot at a time.
const ROTTEN: [u64; 3] = [1, 8, 64];
/// More syncs than a start has.
const START_SYNCS_MAX: u64 = 4;

/// What ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Killed,
    PowerCut,
    /// Nothing was under way, and the file was closed.
    Stopped,
}

fn contents(file: &StateFile) -> Contents {
    file.dump().map(|(key, value)| (key.to_owned(), value.to_vec())).collect()
}

impl World {
    fn below(&mut self) -> impl FnMut(usize) -> usize {
        |bound| self.dice.below(bound as u64) as usize
    }

    fn new_path(&mut self) -> PathBuf {
        self.lives += 1;
        self.folder.path().join(format!("life-{}.redb", self.lives))
    }

    /// What is acknowledged from now on.
    pub(super) fn acknowledge(&mut self) {
        let now = self.store.as_ref().map(contents).unwrap_or_default();
        if now != self.acknowledged[0] {
            self.acknowledged.rotate_right(1);
            self.acknowledged[0] = now;
        }
    }

    /// One process ends, and another one opens what it finds.
    pub(super) fn restart(&mut self) {
        let is_idle = self.writing.is_none() && !self.is_in_doubt();
        let end = match self.dice.below(10) {
            0..6 if is_idle => End::Stopped,
            n if n % 2 == 0 => End::Killed,
            _ => End::PowerCut,
        };
        let left = self.end(end);
        self.disk.lock().unwrap().clear();
        if self.dice.chance(40) {
            self.rot(end, &left);
        }
        self.start(left);
        for (name, entry) in std::mem::take(&mut self.doubtful) {
            self.histories.entry(name).or_default().push(entry);
        }
        self.given_up.clear();
        for client in 0..self.clients.len() {
            if let Some(asked) = self.clients[client].take() {
                self.unknown(client, asked);
            }
        }
    }

    /// Ends the process, also in the middle of a write.
    fn end(&mut self, end: End) -> Left {
        if let Some((ticket, records, ..)) = self.writing.take() {
            self.draw();
            self.disk.lock().unwrap().end_at = Some(self.dice.below(u64::from(SYNCS_MAX) / 3) as u32);
            // Nobody hears whether it is written.
            let _ = self.write(&[(ticket, records)]);
        }
        if end == End::Stopped {
            self.tally.stops += 1;
            // What closing the file writes is there too.
            self.store = None;
        }
        let left = self.disk.lock().unwrap().left();
        self.store = None;
        match end {
            End::Killed => self.tally.kills += 1,
            End::PowerCut => self.tally.power_cuts += 1,
            End::Stopped => {}
        }
        if end == End::PowerCut { left.of_machine(&mut self.below()) } else { left.of_process() }
    }

    /// Some sectors read as something else: the file is refused in one line and stays as it is, or holds all. An operator then has the disk
    /// as it was.
    fn rot(&mut self, end: End, left: &Left) {
        let path = self.new_path();
        left.lay(&path);
        let whole = StateFile::look(&path).unwrap();
        let mut rotten = left.bytes().to_vec();
        for _ in 0..ROTTEN[self.dice.below(3) as usize] {
            sectors::rot(&mut rotten, &mut self.below());
        }
        fs::write(&path, &rotten).unwrap();
        // The database panics at some damage, of which a start makes a line as well.
        let hook = panic::take_hook();
        panic::set_hook(Box::new(|_| {}));
        let opened = panic::catch_unwind(AssertUnwindSafe(|| StateFile::open(&path)));
        panic::set_hook(hook);
        match opened {
            Ok(Ok(mut file)) => {
                let there = contents(&file);
                file.load().unwrap();
                // Where the process was killed, damage to the last batch looks like a batch that a power cut tore.
                let torn = &self.acknowledged[usize::from(whole == self.acknowledged[0])];
                assert!(there == whole || end != End::Stopped && there == *torn, "{end:?}: a rotten file holds something else");
                self.tally.rotten_whole += 1;
            }
            refused => {
                if let Ok(Err(error)) = refused {
                    let said = error.to_string();
                    assert!(matches!(error, StoreError::Damaged { .. } | StoreError::Newer { .. }), "{said}");
                    assert!(said.contains(&path.display().to_string()) && !said.contains('\n'), "{said}");
                }
                assert!(fs::read(&path).unwrap() == rotten, "a file was refused and changed");
                self.tally.rotten_refused += 1;
            }
        }
        fs::remove_file(path).unwrap();
    }

    /// Opens what was left, and begins again where the power goes meanwhile.
    fn start(&mut self, mut left: Left) {
        loop {
            let path = self.new_path();
            left.lay(&path);
            let end_at = self.dice.chance(20).then(|| self.dice.below(START_SYNCS_MAX) as u32);
            let (disk, opened) = open(path, Some(left), end_at);
            if disk.lock().unwrap().has_ended() {
                self.tally.again += 1;
                let mut disk = disk.lock().unwrap();
                left = disk.left();
                disk.clear();
                left = left.of_machine(&mut self.below());
                continue;
            }
            let mut store = opened.unwrap_or_else(|error| panic!("what was left is refused: {error}"));
            {
                let mut disk = disk.lock().unwrap();
                disk.end_at = None;
                disk.passed();
            }
            let loaded = store.load().unwrap();
            (self.disk, self.store, self.revision) = (disk, Some(store), loaded.revision);
            self.acknowledge();
            self.service = adapter::restore(&config(), self.now, loaded.records).unwrap();
            (self.health, self.failed) = (StoreHealth::default(), false);
            return;
        }
    }
}
