//! A day of minutes: what the fabric was like, for the page. Longer is the work of whoever scrapes `/metrics`.
//!
//! The ring lies in a file of a fixed size beside the state file. It is no part of the state: a plan never depends on it, a sample that is
//! lost is a gap in a picture, and a file that cannot be used is begun anew.

use std::{
    collections::VecDeque,
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Seconds between two samples: an hour is then as many points as a picture can show apart.
pub const STEP_S: u64 = 60;
/// Samples that are kept: a day.
pub const SAMPLES_MAX: usize = 1_440;
/// Values of a sample, in the order of the file.
pub const VALUES: usize = 6;
/// A time, the values and a sum over both, eight bytes each.
const SLOT_BYTES: usize = 8 * (VALUES + 2);
/// The first slot holds this: which file it is, and of which layout.
const HEAD: &[u8; 16] = b"antiphase-hist-1";
/// The whole file: one slot for the head, and the ring.
const FILE_BYTES: u64 = (SLOT_BYTES * (SAMPLES_MAX + 1)) as u64;
/// Who keeps the state keeps this.
const MODE: u32 = 0o600;

/// What was known at one time; `None`: nothing was.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Seconds of fabric time, a multiple of [`STEP_S`].
    pub at_s: u64,
    /// Mean and worst score of shared links, iteration over one alone, marks and CNPs a second, share of time that jobs wait.
    pub values: [Option<f64>; VALUES],
}

/// The last day. Cloning it shares it.
#[derive(Clone, Debug, Default)]
pub struct History(Arc<Mutex<Ring>>);

#[derive(Debug, Default)]
struct Ring {
    /// In order of time.
    samples: VecDeque<Sample>,
    file: Option<File>,
}

/// Where the history of a state file lies.
#[must_use]
pub fn path(state: &Path) -> PathBuf {
    let mut name = state.as_os_str().to_owned();
    name.push(".history");
    name.into()
}

impl History {
    /// Reads the file, or begins it anew; without a file it is kept in memory, and the log says so. Blocks for some milliseconds.
    #[must_use]
    pub fn open(path: &Path, now_s: u64) -> Self {
        match open(path) {
            Ok((file, samples)) => {
                let mut ring = Ring { samples: VecDeque::new(), file: Some(file) };
                // A clock that went back would leave samples of the future, which would stay for ever.
                samples.into_iter().filter(|sample| sample.at_s <= now_s).for_each(|sample| ring.take(sample));
                Self(Arc::new(Mutex::new(ring)))
            }
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "the history of a day is kept in memory only, and ends with the service");
                Self::default()
            }
        }
    }

    /// Adds a sample and writes it. Blocks for one write.
    pub fn add(&self, sample: Sample) {
        let mut ring = self.ring();
        ring.take(sample);
        let Some(file) = &ring.file else { return };
        let place = (1 + slot(sample.at_s)) as u64 * SLOT_BYTES as u64;
        // A sample that is written in half has a wrong sum, and is a gap.
        if let Err(error) = file.write_all_at(&encode(&sample), place).and_then(|()| file.sync_data()) {
            tracing::warn!(%error, "a sample of the history was not written");
        }
    }

    /// Samples of the last `span_s` seconds, oldest first.
    #[must_use]
    pub fn last(&self, now_s: u64, span_s: u64) -> Vec<Sample> {
        self.ring().samples.iter().filter(|sample| sample.at_s <= now_s && sample.at_s + span_s >= now_s).copied().collect()
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ring {
    /// Takes a sample in its place; what is a day older goes.
    fn take(&mut self, sample: Sample) {
        // A clock that went back, or two samples of one step: the newer one stays.
        self.samples.retain(|known| known.at_s < sample.at_s);
        self.samples.push_back(sample);
        let oldest = sample.at_s.saturating_sub(STEP_S * SAMPLES_MAX as u64);
        while self.samples.len() > SAMPLES_MAX || self.samples.front().is_some_and(|known| known.at_s <= oldest) {
            self.samples.pop_front();
        }
    }
}

/// The slot of a time.
fn slot(at_s: u64) -> usize {
    // The remainder is below `SAMPLES_MAX`.
    (at_s / STEP_S % SAMPLES_MAX as u64) as usize
}

/// The file, and the samples in it in order of time.
fn open(path: &Path) -> io::Result<(File, Vec<Sample>)> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(MODE).open(path)?;
    let mut bytes = vec![0; FILE_BYTES as usize];
    let whole = file.metadata()?.len() == FILE_BYTES && file.read_exact_at(&mut bytes, 0).is_ok() && bytes.starts_with(HEAD);
    if !whole {
        // Another layout, or a file that a full disk left short: nothing in it is needed to go on.
        bytes.fill(0);
        bytes[..HEAD.len()].copy_from_slice(HEAD);
        file.set_len(FILE_BYTES)?;
        file.write_all_at(&bytes, 0)?;
        file.sync_all()?;
    }
    let mut samples: Vec<Sample> = bytes.chunks_exact(SLOT_BYTES).skip(1).filter_map(decode).collect();
    samples.sort_by_key(|sample| sample.at_s);
    Ok((file, samples))
}

fn encode(sample: &Sample) -> [u8; SLOT_BYTES] {
    let mut out = [0; SLOT_BYTES];
    // What is absent is no number.
    let values = sample.values.iter().map(|value| value.unwrap_or(f64::NAN).to_bits());
    let words = [sample.at_s].into_iter().chain(values);
    for (place, word) in out.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    let sum = sum(&out[..SLOT_BYTES - 8]);
    out[SLOT_BYTES - 8..].copy_from_slice(&sum.to_le_bytes());
    out
}

/// The sample of a slot; `None` for one that was never written, or not whole.
fn decode(slot: &[u8]) -> Option<Sample> {
    let (body, end) = slot.split_at_checked(SLOT_BYTES - 8)?;
    let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).ok();
    if word(end)? != sum(body) {
        return None;
    }
    let mut words = body.chunks_exact(8).filter_map(word);
    let at_s = words.next()?;
    let mut values = [None; VALUES];
    for (value, bits) in values.iter_mut().zip(words) {
        *value = Some(f64::from_bits(bits)).filter(|value| value.is_finite());
    }
    Some(Sample { at_s, values })
}

/// It finds what a write in half leaves. A slot of zeros has another sum.
fn sum(bytes: &[u8]) -> u64 {
    units::fnv1a(units::FNV_OFFSET, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(minute: u64) -> Sample {
        let values = [Some(minute as f64), None, Some(-1.5), Some(0.0), None, Some(1e300)];
        Sample { at_s: minute * STEP_S, values }
    }

    #[test]
    fn a_day_survives_a_restart_and_no_more_than_a_day_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = path(&folder.path().join("s.redb"));
        let last = 3 * SAMPLES_MAX as u64;
        let history = History::open(&path, 0);
        // Two days and a half, of which the last day stays.
        (SAMPLES_MAX as u64 / 2..=last).for_each(|minute| history.add(sample(minute)));
        let now = last * STEP_S;
        let day = history.last(now, 86_400);
        assert_eq!(
            (day.len(), day.first().copied(), day.last().copied()),
            (SAMPLES_MAX, Some(sample(last + 1 - SAMPLES_MAX as u64)), Some(sample(last)))
        );
        drop(history);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), FILE_BYTES);
        let again = History::open(&path, now);
        assert_eq!(again.last(now, 86_400), day);
        assert_eq!(again.last(now, 3_600).len(), 61);
        // A clock that went back: what would be of the future is forgotten.
        assert_eq!(History::open(&path, now - 600).last(now, 86_400).len(), SAMPLES_MAX - 10);
    }

    #[test]
    fn what_is_damaged_is_a_gap_and_another_file_is_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("h");
        let history = History::open(&path, 0);
        (100..110).for_each(|minute| history.add(sample(minute)));
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[SLOT_BYTES * (1 + 104) + 9] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let now = 200 * STEP_S;
        let minutes = |history: &History| history.last(now, 86_400).iter().map(|s| s.at_s / STEP_S).collect::<Vec<_>>();
        assert_eq!(minutes(&History::open(&path, now)), [100, 101, 102, 103, 105, 106, 107, 108, 109]);
        for other in [&b"something else"[..], &bytes[..200], &[]] {
            std::fs::write(&path, other).unwrap();
            let history = History::open(&path, now);
            assert_eq!(minutes(&history), [0; 0]);
            history.add(sample(150));
            assert_eq!(minutes(&History::open(&path, now)), [150]);
        }
        // A folder cannot be a file: it goes on in memory.
        let memory = History::open(folder.path(), now);
        memory.add(sample(150));
        assert_eq!(minutes(&memory), [150]);
    }
}
