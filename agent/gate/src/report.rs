//! What a gate tells its agent: totals, and the last iterations one by one.
//!
//! The job writes the file, so the agent believes nothing in it: it reads a copy, checks that the copy is whole, and treats
//! every number as one that could be anything. Neither side maps the file, because the job may write it, and
//! whoever may write a file may shrink it under a mapping, which is a fault in the other process.
//! `docs/schedule-page.md` has the layout.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind},
    os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    process,
};

use gate_core::{Counters, RING, Reason, Sample, Tracker};
use rustix::{
    fs::{FileType, Mode, OFlags, fchmod, fstat},
    process::{Resource, geteuid, getrlimit},
};
use units::{Nanos, NodeTime};

use crate::{
    clock,
    directory::{JobName, REPORTS, Stem, is_local, is_sized},
    words::FILE_BYTES,
};

/// `ANTIPHRP` as bytes in the file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"ANTIPHRP");
/// The layout that this library reads and writes.
pub const LAYOUT: u64 = 1;

const CHECKSUM_AT: usize = 2;
const WRITER_AT: usize = 3;
const REASONS_AT: usize = 10;
const RING_AT: usize = 32;
const SAMPLE_WORDS: usize = 4;
const REPORT_WORDS: usize = RING_AT + RING * SAMPLE_WORDS;
const REPORT_BYTES: usize = REPORT_WORDS * 8;
/// Stands for a start without a lateness.
const NO_LATENESS: i64 = i64::MIN;

const _: () = assert!(REASONS_AT + Reason::COUNT <= RING_AT && REPORT_BYTES <= FILE_BYTES);

/// Times that a reader tries to meet no write. One write takes about a microsecond and comes ten times a second at most.
const READ_TRIES: usize = 3;

/// A report as it was read. No number in it can be relied on.
#[derive(Clone, Debug)]
pub struct Report {
    /// Tells one run of a gate from another: when it changes, totals begin anew. The number stays when a gate finds a new file.
    pub writer: u64,
    /// Counts the writes of that run to this file.
    pub sequence: u64,
    /// Totals and the last iterations.
    pub tracker: Tracker,
}

fn encode(report: &Report) -> [u64; REPORT_WORDS] {
    let mut words = [0; REPORT_WORDS];
    let counters = report.tracker.counters();
    words[0] = MAGIC;
    words[1] = LAYOUT;
    words[WRITER_AT..REASONS_AT].copy_from_slice(&[
        report.writer,
        report.sequence,
        report.tracker.plan_version(),
        counters.iterations,
        counters.holds,
        counters.slips,
        counters.held.0,
    ]);
    words[REASONS_AT..REASONS_AT + Reason::COUNT].copy_from_slice(&counters.by_reason);
    for (words, sample) in words[RING_AT..].chunks_exact_mut(SAMPLE_WORDS).zip(report.tracker.ring()) {
        let late = sample.late.unwrap_or(NO_LATENESS).cast_unsigned();
        words.copy_from_slice(&[sample.start.0, late, sample.held.0, sample.sent.0]);
    }
    words[CHECKSUM_AT] = checksum(&words);
    words
}

fn decode(words: &[u64; REPORT_WORDS]) -> Option<Report> {
    if words[0] != MAGIC || words[1] != LAYOUT || words[CHECKSUM_AT] != checksum(words) {
        return None;
    }
    // The words may hold anything, as the job writes the file: every length here is a constant, and no word is an index.
    let &[writer, sequence, plan_version, iterations, holds, slips, held] = words[WRITER_AT..].first_chunk()?;
    let by_reason = *words[REASONS_AT..].first_chunk()?;
    let mut ring = [Sample::default(); RING];
    for (sample, words) in ring.iter_mut().zip(words[RING_AT..].chunks_exact(SAMPLE_WORDS)) {
        let late = Some(words[1].cast_signed()).filter(|&late| late != NO_LATENESS);
        *sample = Sample { start: NodeTime(words[0]), late, held: Nanos(words[2]), sent: Nanos(words[3]) };
    }
    let counters = Counters { iterations, holds, slips, by_reason, held: Nanos(held) };
    Some(Report { writer, sequence, tracker: Tracker::new(counters, plan_version, ring) })
}

/// The checksum of all words after it. A copy that is half of one write and half of another is found; malice is not.
fn checksum(words: &[u64; REPORT_WORDS]) -> u64 {
    words[WRITER_AT..].iter().fold(MAGIC, |sum, &word| (sum ^ word).wrapping_mul(units::GOLDEN).rotate_left(29))
}

fn open(directory: &Path, job: &JobName, create: bool) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut options = OpenOptions::new();
    // The mode is 0666, because the job runs as another user than the agent. A link or a FIFO of that name is not followed
    // and not waited for.
    options.read(true).write(true).create(create).mode(0o666).custom_flags(flags.bits().cast_signed());
    options.open(job.stem().report(directory))
}

/// Makes the folder of the reports, which everybody may read and only its owner may write to, if there is none.
///
/// # Errors
/// What the file system says, and `AlreadyExists` where something else has its name.
pub fn make_folder(directory: &Path) -> io::Result<()> {
    let folder = directory.join(REPORTS);
    match fs::create_dir(&folder) {
        // The mode is cut by the umask.
        Ok(()) => fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)),
        // A link would lead to where others want files made.
        Err(error) if error.kind() == ErrorKind::AlreadyExists && fs::symlink_metadata(&folder)?.is_dir() => Ok(()),
        Err(error) => Err(io::Error::new(error.kind(), format!("{}: {error}", folder.display()))),
    }
}

/// Removes the report of a job that is gone; there may be none. A gate that still writes it notices and stops.
///
/// # Errors
/// What the file system says.
pub fn remove(directory: &Path, stem: &Stem) -> io::Result<()> {
    // Agents of before had it beside the page.
    let _ = fs::remove_file(directory.join(stem.file("report")));
    match fs::remove_file(stem.report(directory)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Opens a report that belongs to the job's user: nobody else but root can have written it.
fn open_owned(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let found = fstat(&file)?;
    let others_write = Mode::from_raw_mode(found.st_mode).intersects(Mode::WGRP | Mode::WOTH);
    if others_write || FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        let what = format!("{} is no regular file that its owner alone may write", path.display());
        return Err(io::Error::new(ErrorKind::InvalidInput, what));
    }
    Ok(file)
}

/// The user to whom the report of a job belongs alone: whoever starts jobs made it for the job's user. `None` where there is none, or where
/// others may write it.
#[must_use]
pub fn report_owner(directory: &Path, job: &JobName) -> Option<u32> {
    let file = open_owned(&job.stem().report(directory)).ok()?;
    fstat(&file).ok().map(|found| found.st_uid)
}

/// The agent's side of a report.
#[derive(Debug)]
pub struct ReportReader {
    path: PathBuf,
    /// A report that the agent made; `None`: one that others make for the job's user, looked for at each read.
    file: Option<File>,
}

impl ReportReader {
    /// Opens the report of a job, and makes an empty one that every user may write if there is none. One that is there and belongs to
    /// the job's user alone is read as it is.
    ///
    /// # Errors
    /// `InvalidInput` for a name that no job can have, and what the file system says.
    pub fn open_or_create(directory: &Path, job: &str) -> io::Result<Self> {
        let owned = Self::of_owner(directory, job)?;
        let job = JobName::try_new(job).map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
        if open_owned(&owned.path).is_ok_and(|file| fstat(&file).is_ok_and(|found| found.st_uid != geteuid().as_raw())) {
            return Ok(owned);
        }
        make_folder(directory)?;
        let file = open(directory, &job, true)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(ErrorKind::InvalidInput, format!("the report of {job} is not a regular file")));
        }
        // The permissions asked for at creation are cut by the umask. A file of another user cannot be changed, and need not be.
        match fchmod(&file, Mode::from_raw_mode(0o666)) {
            Ok(()) | Err(rustix::io::Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
        keep_size(&file)?;
        Ok(Self { file: Some(file), ..owned })
    }

    /// The report of a job whose file is made by others, for the job's user: whoever starts jobs makes it before. It may come later,
    /// and be replaced.
    ///
    /// # Errors
    /// `InvalidInput` for a name that no job can have.
    pub fn of_owner(directory: &Path, job: &str) -> io::Result<Self> {
        let job = JobName::try_new(job).map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
        Ok(Self { path: job.stem().report(directory), file: None })
    }

    /// Whether the file that it reads has no name any more: a gate that is opened now finds another one, or none.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.file.as_ref().is_some_and(|file| fstat(file).is_ok_and(|found| found.st_nlink == 0))
    }

    /// Removes the file, when the job is gone. A gate that still writes it notices and stops.
    ///
    /// # Errors
    /// What the file system says.
    pub fn remove(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }

    /// The last report; `None` if there is none yet or if what is there is not whole.
    #[must_use]
    pub fn read(&self) -> Option<Report> {
        let owned;
        let file = match &self.file {
            Some(file) => {
                keep_size(file).ok()?;
                file
            }
            None => {
                owned = open_owned(&self.path).ok()?;
                &owned
            }
        };
        read(file)
    }
}

/// The report in a file, if it is whole.
fn read(file: &File) -> Option<Report> {
    // READ_TRIES bounds the loop: a job that writes all the time must not keep the agent's loop, which also beats the heart.
    for _ in 0..READ_TRIES {
        let mut bytes = [0; REPORT_BYTES];
        file.read_exact_at(&mut bytes, 0).ok()?;
        let mut words = [0; REPORT_WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().expect("invariant: chunks of 8 bytes"));
        }
        let report = decode(&words);
        // Before the first report all words are zero, and another try would find the same.
        if report.is_some() || words[0] == 0 {
            return report;
        }
    }
    None
}

/// The last report of a job, for one who only looks: nothing is made and nothing set right. `None` where there is none that this user can
/// read.
pub(crate) fn look(directory: &Path, job: &JobName) -> Option<Report> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(job.stem().report(directory)).ok()?;
    file.metadata().ok()?.is_file().then(|| read(&file)).flatten()
}

/// A job may have made the file shorter or very long. Nobody maps it, so it can be set right at any time.
fn keep_size(file: &File) -> io::Result<()> {
    if file.metadata()?.len() == FILE_BYTES as u64 { Ok(()) } else { file.set_len(FILE_BYTES as u64) }
}

/// What became of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// The report is in the file.
    Whole,
    /// The file is not there any more, or is broken; there may be a new one.
    Gone,
    /// Another gate writes this job's report now.
    TakenOver,
}

/// A number that differs between two gates of one process, between processes, and between runs.
pub(crate) fn new_writer() -> u64 {
    // The rotation moves the fast bits of the clock away from those of the process id, so the two do not cancel out.
    clock::now().0.rotate_left(32) ^ u64::from(process::id())
}

/// The job's side of a report. The last gate that opened a report writes it; earlier ones notice and stop.
#[derive(Debug)]
pub(crate) struct ReportWriter {
    file: File,
    writer: u64,
    sequence: u64,
}

impl ReportWriter {
    /// Opens the report that the agent made and writes the totals so far; `None` if it made none or if it cannot be written
    /// safely.
    pub(crate) fn open(directory: &Path, job: &JobName, writer: u64, tracker: &Tracker) -> Option<Self> {
        // A write beyond RLIMIT_FSIZE is a signal (SIGXFSZ) that kills the job, so such a job goes without a report.
        if getrlimit(Resource::Fsize).current.is_some_and(|limit| limit < FILE_BYTES as u64) {
            return None;
        }
        let file = open(directory, job, false).ok()?;
        let found = fstat(&file).ok()?;
        // A report that was made for this user alone may be empty yet; nobody else may be surprised by its growth.
        let others_write = Mode::from_raw_mode(found.st_mode).intersects(Mode::WGRP | Mode::WOTH);
        if found.st_uid == geteuid().as_raw() && found.st_size == 0 && found.st_nlink == 1 && !others_write {
            keep_size(&file).ok()?;
        }
        // A write to a remote file may never return, and a file of another size is not the one that the agent made.
        if !is_sized(&fstat(&file).ok()?) || !is_local(&file).ok()? {
            return None;
        }
        let mut report = Self { file, writer, sequence: 0 };
        report.put(tracker).then_some(report)
    }

    /// Writes a report.
    pub(crate) fn write(&mut self, tracker: &Tracker) -> Written {
        // A file without a name was removed by the agent, which may have made a new one since.
        let there = fstat(&self.file).is_ok_and(|found| found.st_nlink > 0 && is_sized(&found));
        let mut writer = [0; 8];
        if !there || self.file.read_exact_at(&mut writer, WRITER_AT as u64 * 8).is_err() {
            return Written::Gone;
        }
        // Two gates that write at once settle it at their next write: the file has one number, and the other gate stops.
        match u64::from_le_bytes(writer) {
            // An agent emptied the file and made it anew.
            0 => Written::Gone,
            writer if writer != self.writer => Written::TakenOver,
            _ if self.put(tracker) => Written::Whole,
            _ => Written::Gone,
        }
    }

    fn put(&mut self, tracker: &Tracker) -> bool {
        self.sequence += 1;
        let report = Report { writer: self.writer, sequence: self.sequence, tracker: tracker.clone() };
        let mut bytes = [0; REPORT_BYTES];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(encode(&report)) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        self.file.write_all_at(&bytes, 0).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use gate_core::StepOutcome;

    use super::*;

    fn outcome(start: u64) -> StepOutcome {
        let late = (start.is_multiple_of(2)).then_some(-3);
        StepOutcome { because: Reason::OnTime, start: NodeTime(start), held: Nanos(2), slip: false, late, plan_version: 9 }
    }

    fn open_new(directory: &Path, job: &JobName) -> Option<ReportWriter> {
        ReportWriter::open(directory, job, new_writer(), &Tracker::default())
    }

    #[test]
    fn a_report_goes_through_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let job = JobName::try_new("j").unwrap();
        assert!(open_new(directory.path(), &job).is_none(), "a job makes no files");
        let reader = ReportReader::open_or_create(directory.path(), "j").unwrap();
        assert!(reader.read().is_none());
        let mut writer = open_new(directory.path(), &job).unwrap();
        let mut tracker = Tracker::default();
        (0..70).for_each(|start| tracker.record(&outcome(start)));
        tracker.ended(Nanos(11));
        assert_eq!(writer.write(&tracker), Written::Whole);
        let report = reader.read().unwrap();
        assert_eq!(report.tracker.counters(), tracker.counters());
        assert_eq!(report.tracker.ring(), tracker.ring());
        assert_eq!((report.tracker.plan_version(), report.sequence), (9, 2));
    }

    #[test]
    fn the_last_gate_that_opens_a_report_writes_it() {
        let directory = tempfile::tempdir().unwrap();
        let job = JobName::try_new("j").unwrap();
        let reader = ReportReader::open_or_create(directory.path(), "j").unwrap();
        let mut first = open_new(directory.path(), &job).unwrap();
        let mut second = open_new(directory.path(), &job).unwrap();
        let mut tracker = Tracker::default();
        tracker.record(&outcome(1));
        assert_eq!(first.write(&tracker), Written::TakenOver);
        assert_eq!(second.write(&tracker), Written::Whole);
        assert_eq!(reader.read().unwrap().writer, second.writer);
    }

    #[test]
    fn a_link_in_place_of_the_folder_is_not_followed() {
        let (directory, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink(elsewhere.path(), directory.path().join(REPORTS)).unwrap();
        let refused = ReportReader::open_or_create(directory.path(), "j").unwrap_err();
        assert!(refused.to_string().contains("/reports"), "{refused}");
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }

    /// Whoever starts a job makes its report for the job's user, before the gate opens it and after the agent asked for it.
    #[test]
    fn a_report_of_the_jobs_user_is_read_and_one_that_others_may_write_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let job = JobName::try_new("j").unwrap();
        let reader = ReportReader::of_owner(directory.path(), "j").unwrap();
        assert!(reader.read().is_none() && open_new(directory.path(), &job).is_none());
        let path = directory.path().join("reports/j.report");
        make_folder(directory.path()).unwrap();
        let make = |mode: u32| {
            let _ = fs::remove_file(&path);
            fs::write(&path, b"").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        make(0o644);
        let mut writer = open_new(directory.path(), &job).unwrap();
        assert_eq!((writer.write(&Tracker::default()), reader.read().unwrap().writer), (Written::Whole, writer.writer));
        // A file that others may write says nothing of the job, even with a good report in it.
        for mode in [0o666, 0o664, 0o646] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert!(reader.read().is_none(), "{mode:o}");
        }
        // It may be replaced, and a link or a FIFO is none.
        make(0o644);
        let mut writer = open_new(directory.path(), &job).unwrap();
        assert_eq!((writer.write(&Tracker::default()), reader.read().unwrap().writer), (Written::Whole, writer.writer));
        fs::rename(&path, directory.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        assert!(reader.read().is_none());
        fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(reader.read().is_none());
    }

    /// As root, who can make a file for another user: the agent reads it, and leaves mode and owner alone.
    #[test]
    fn a_report_that_was_made_for_another_user_stays_theirs() {
        if !geteuid().is_root() {
            println!("skipped: without root no file can be given to another user");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("reports/j.report");
        make_folder(directory.path()).unwrap();
        fs::write(&path, b"").unwrap();
        std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let reader = ReportReader::open_or_create(directory.path(), "j").unwrap();
        assert!(reader.read().is_none());
        let found = fstat(File::open(&path).unwrap()).unwrap();
        assert_eq!((found.st_uid, found.st_mode & 0o777, found.st_size), (65_534, 0o644, 0));
    }

    #[test]
    fn a_report_that_is_not_whole_or_not_sized_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let job = JobName::try_new("j").unwrap();
        let reader = ReportReader::open_or_create(directory.path(), "j").unwrap();
        let mut writer = open_new(directory.path(), &job).unwrap();
        let path = directory.path().join("reports/j.report");
        make_folder(directory.path()).unwrap();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&[1], 6 * 8).unwrap();
        assert!(reader.read().is_none(), "one byte differs");
        assert_eq!(writer.write(&Tracker::default()), Written::Whole);
        file.set_len(100).unwrap();
        assert_eq!(writer.write(&Tracker::default()), Written::Gone, "the job does not grow the file");
        assert!(reader.read().is_none());
        file.set_len(1 << 40).unwrap();
        let _ = reader.read();
        assert_eq!(file.metadata().unwrap().len(), FILE_BYTES as u64);
    }
}
