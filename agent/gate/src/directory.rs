//! Where the files of a job are, and which files are to be believed.

use std::{
    env,
    ffi::{OsStr, OsString},
    fmt,
    fs::File,
    io,
    path::{Path, PathBuf},
};

use gate_core::Reason;
use rustix::{
    fs::{FileType, Mode, OFlags, Stat, fstat, fstatfs, open, stat},
    io::Errno,
    process::geteuid,
};

use crate::words::FILE_BYTES;

/// Where agents keep their pages unless told otherwise.
pub const DIRECTORY: &str = "/run/antiphase";

/// Where in that directory the reports are: a folder of their own, so that a container can have it for writing and the pages only for reading.
pub const REPORTS: &str = "reports";

/// Longest part of a name that goes into a file's name as it is. Linux has 255 bytes for the whole.
const STEM_MAX: usize = 200;

/// End of the name of a lock's file.
const LOCK_END: &str = ".lock";

/// File systems whose pages come from another machine or another process, which may never answer: NFS, SMB, CIFS, SMB2,
/// 9p, FUSE, Ceph, AFS (linux/magic.h and the file systems' own sources).
const REMOTE: [u32; 8] = [0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x0102_1997, 0x6573_5546, 0x00c3_6400, 0x6b41_4653];

/// The name of a job, checked so that it can be part of a file's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobName(String);

/// A name that no job can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameError {
    name: String,
    because: units::NameError,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The name may be any text of the environment: 64 characters bound the line.
        let shown: String = self.name.chars().take(64).collect();
        write!(f, "job name {shown:?}: {}", self.because)
    }
}

impl std::error::Error for NameError {}

impl JobName {
    /// Checks a name.
    ///
    /// # Errors
    /// [`NameError`] for what [`units::check_name`] does not take.
    pub fn try_new(name: &str) -> Result<Self, NameError> {
        units::check_name(name).map_err(|because| NameError { name: name.to_owned(), because })?;
        Ok(Self(name.to_owned()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What its files are named after.
    #[must_use]
    pub fn stem(&self) -> Stem {
        // `units::check_name` lets ASCII through only, so the cut is at the end of a character.
        match self.0.get(..STEM_MAX) {
            Some(begin) if self.0.len() > STEM_MAX => Stem(format!("{begin}~{:016x}", units::fnv1a(units::FNV_OFFSET, self.0.as_bytes()))),
            _ => Stem(self.0.clone()),
        }
    }

    /// The name of a file of this job.
    pub(crate) fn file(&self, extension: &str) -> String {
        self.stem().file(extension)
    }
}

/// What a job's files are named after: its name, or for a name too long for a file its beginning, `~` and its hash (FNV-1a,
/// 64 bits). No job's name has a `~`, so every stem is that of one job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stem(String);

impl Stem {
    /// The stem of a file's name in the directory; `None` for a name that is no page's, report's or lock's.
    #[must_use]
    pub fn of_file(name: &str) -> Option<Self> {
        let seen = name.strip_suffix(".page").or_else(|| name.strip_suffix(".report"));
        let stem = seen.or_else(|| name.strip_prefix('.')?.strip_suffix(LOCK_END))?;
        // Exactly the names that `JobName::stem` makes are taken: an agent that sweeps must not remove a foreign file.
        let fits = match stem.split_once('~') {
            None => stem.len() <= STEM_MAX && JobName::try_new(stem).is_ok(),
            Some((begin, hash)) => {
                let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
                begin.len() == STEM_MAX && JobName::try_new(begin).is_ok() && hash.len() == 16 && hash.bytes().all(hex)
            }
        };
        fits.then(|| Self(stem.to_owned()))
    }

    /// The name of a file.
    pub(crate) fn file(&self, extension: &str) -> String {
        format!("{}.{extension}", self.0)
    }

    /// Where the report is, below the directory of the pages.
    pub(crate) fn report(&self, directory: &Path) -> PathBuf {
        directory.join(REPORTS).join(self.file("report"))
    }

    /// The name of the file that says which agent has the page.
    pub(crate) fn lock_file(&self) -> String {
        format!(".{}{LOCK_END}", self.0)
    }
}

impl fmt::Display for Stem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a gate is to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The directory of the agent's pages.
    pub directory: PathBuf,
    /// The job; without one the gate is off.
    pub job: Option<JobName>,
    /// Whether the gate is switched off.
    pub off: bool,
}

impl Config {
    /// A gate for one job in a directory.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>, job: JobName) -> Self {
        Self { directory: directory.into(), job: Some(job), off: false }
    }

    /// What `ANTIPHASE_JOB`, `ANTIPHASE_DIR` (default [`DIRECTORY`]) and `ANTIPHASE_GATE` (`off`, `0`, `false` or `no`
    /// switch the gate off) say.
    ///
    /// # Errors
    /// [`NameError`] if `ANTIPHASE_JOB` is not the name of a job.
    pub fn from_env() -> Result<Self, NameError> {
        Self::from_values(|name| env::var_os(name))
    }

    /// As [`Self::from_env`], for a caller that takes the job's name from elsewhere, or has none.
    #[must_use]
    pub fn from_env_without_job() -> Self {
        Self::without_job(|name| env::var_os(name))
    }

    pub(crate) fn from_values(value: impl Fn(&str) -> Option<OsString>) -> Result<Self, NameError> {
        let name = value("ANTIPHASE_JOB").filter(|name| !name.is_empty());
        // A name that is not UTF-8 gets a replacement character here, which no job's name may have, so it is refused below.
        let job = name.map(|name| JobName::try_new(&name.to_string_lossy())).transpose()?;
        Ok(Self { job, ..Self::without_job(value) })
    }

    fn without_job(value: impl Fn(&str) -> Option<OsString>) -> Self {
        // An empty variable counts as unset, so a launcher may export all of them.
        let set = |name: &str| value(name).filter(|value| !value.is_empty());
        let directory = set("ANTIPHASE_DIR").map_or_else(|| PathBuf::from(DIRECTORY), PathBuf::from);
        Self { directory, job: None, off: set("ANTIPHASE_GATE").is_some_and(|word| is_off(&word)) }
    }
}

fn is_off(word: &OsStr) -> bool {
    ["off", "0", "false", "no"].iter().any(|off| word.eq_ignore_ascii_case(off))
}

/// Opens a file that should be a page, without following a link or waiting for anybody, and checks that it can be believed:
/// a regular file of the right size on a local file system, which belongs to root, to us or to the directory's owner, and
/// which others cannot write or shrink.
pub(crate) fn open_page(directory: &Path, name: &str) -> Result<File, Reason> {
    // NOFOLLOW refuses a link that somebody planted; NONBLOCK keeps a FIFO from waiting for its other end (ADR 2, point 5).
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = open(directory.join(name), flags, Mode::empty()).map_err(|error| match error {
        Errno::NOENT | Errno::NOTDIR => Reason::NoPage,
        _ => Reason::Unreadable,
    })?;
    let unreadable = |_| Reason::Unreadable;
    // The checks are on the open file and not on its name, so nobody can put another file there between check and use.
    let found = fstat(&file).map_err(unreadable)?;
    let others_write = Mode::from_raw_mode(found.st_mode).intersects(Mode::WGRP | Mode::WOTH);
    // A file that others may write can be shrunk under the mapping (SIGBUS), and a remote one may never answer.
    let trusted = is_sized(&found)
        && is_believed(directory, found.st_uid).map_err(|_| Reason::Unreadable)?
        && !others_write
        && is_local(&file).map_err(|_| Reason::Unreadable)?;
    if trusted { Ok(File::from(file)) } else { Err(Reason::Unreadable) }
}

/// Whether what this user put into the directory is to be believed: root's, ours, and that of the directory's owner.
pub(crate) fn is_believed(directory: &Path, owner: u32) -> io::Result<bool> {
    // The directory's owner counts, because agents run without privileges and the host's root is another user in a container.
    Ok(owner == 0 || owner == geteuid().as_raw() || owner == stat(directory)?.st_uid)
}

/// Whether a file is a regular one of the size of a page.
pub(crate) fn is_sized(found: &Stat) -> bool {
    // A shorter file has no byte behind the end of the mapping, and the access would be a SIGBUS.
    FileType::from_raw_mode(found.st_mode) == FileType::RegularFile && usize::try_from(found.st_size) == Ok(FILE_BYTES)
}

/// Whether an access to the file is answered by this kernel alone: gates believe no page elsewhere.
///
/// # Errors
/// When the kernel does not say what file system it is.
pub fn is_local(file: impl rustix::fd::AsFd) -> io::Result<bool> {
    // The kernel's type of this field differs between architectures; magic numbers have 32 bits.
    Ok(!REMOTE.contains(&(fstatfs(file)?.f_type as u32)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_leave_the_directory_are_refused() {
        for bad in ["", ".", "..", ".hidden", "a/b", "a b", "a\0", "caf\u{e9}", "~", &"x".repeat(254)] {
            assert!(JobName::try_new(bad).is_err(), "{bad:?}");
        }
        for good in ["a", "job-1.train_2", "-", &"x".repeat(253)] {
            assert!(JobName::try_new(good).is_ok(), "{good:?}");
        }
        let message = JobName::try_new("a/b").unwrap_err().to_string();
        assert!(message.starts_with("job name \"a/b\": the name has the character"), "{message}");
    }

    #[test]
    fn the_longest_names_have_files_and_differ() {
        let name = |end: &str| JobName::try_new(&format!("{}{end}", "x".repeat(250))).unwrap();
        assert!(format!(".{}.4294967295", name("a").file("report")).len() <= 255);
        assert_ne!(name("a").file("page"), name("b").file("page"));
        assert_eq!(JobName::try_new("short").unwrap().file("page"), "short.page");
    }

    #[test]
    fn a_files_name_says_whose_it_is() {
        for name in ["a", "a.page", "-", &"x".repeat(200), &"x".repeat(201), &"x".repeat(253)] {
            let job = JobName::try_new(name).unwrap();
            for extension in ["page", "report"] {
                assert_eq!(Stem::of_file(&job.file(extension)), Some(job.stem()), "{name}");
            }
            assert_eq!(Stem::of_file(&job.stem().lock_file()), Some(job.stem()), "{name}");
        }
        let cut = |hash: &str| format!("{}~{hash}.page", "x".repeat(200));
        for other in
            ["a", "a.txt", ".page", ".lock", "..lock", "a.lock", ".a.page.12", "a~0123456789abcdef.page", "a b.page", "\u{e9}.report"]
        {
            assert_eq!(Stem::of_file(other), None, "{other}");
        }
        for other in [cut("0123456789ABCDEF"), cut("0"), format!("{}.page", "x".repeat(201))] {
            assert_eq!(Stem::of_file(&other), None, "{other}");
        }
    }

    #[test]
    fn the_environment_says_which_job() {
        let of = |values: &[(&str, &str)]| {
            Config::from_values(|name| values.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()))
        };
        assert_eq!(of(&[]).unwrap(), Config { directory: DIRECTORY.into(), job: None, off: false });
        let config = of(&[("ANTIPHASE_JOB", "j"), ("ANTIPHASE_DIR", "/x"), ("ANTIPHASE_GATE", "Off")]).unwrap();
        assert_eq!(config, Config { directory: "/x".into(), job: Some(JobName::try_new("j").unwrap()), off: true });
        assert!(!of(&[("ANTIPHASE_GATE", "on")]).unwrap().off);
        assert!(of(&[("ANTIPHASE_JOB", "../etc")]).is_err());
        // An explicit name replaces the one of the environment and nothing else.
        let rest = Config::without_job(|name| Some(if name == "ANTIPHASE_GATE" { "0" } else { "../x" }.into()));
        assert_eq!(rest, Config { directory: "../x".into(), job: None, off: true });
    }
}
