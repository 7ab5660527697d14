//! Which programs of this host use a job's page, and of which job a process is, as far as the user who asks may see.

use std::{collections::BTreeMap, ffi::OsStr, fs, io::Read as _, os::unix::ffi::OsStrExt as _, os::unix::fs::MetadataExt as _, path::Path};

use crate::{Config, JobName, Stem};

/// Most processes that are looked at: a busy host has some thousands.
const PROCESSES_MAX: usize = 20_000;
/// Most of a process's list of mappings that is read: a trainer has some thousands of lines of 100 bytes.
const MAPS_BYTES_MAX: u64 = 4 << 20;
/// Most of a process's environment that is read.
const ENVIRONMENT_BYTES_MAX: u64 = 1 << 20;

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
    told(process, "maps", MAPS_BYTES_MAX).is_some_and(|text| String::from_utf8_lossy(&text).lines().any(|line| is_of(line, page)))
}

/// The job of a process: what its gate would follow by the environment with which it was started, else whose page it has mapped. `None`
/// where neither says, and where the user who asks may not see: root sees all, others their own processes.
#[must_use]
pub fn job_of(process: u32) -> Option<JobName> {
    let environment = told(process, "environ", ENVIRONMENT_BYTES_MAX)?;
    let value = |name: &str| {
        let mut entries = environment.split(|byte| *byte == 0);
        entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")).map(|value| OsStr::from_bytes(value).into())
    };
    // A name that is none is as good as no name: the page may tell.
    Config::from_values(value).ok().and_then(|config| config.job).or_else(|| {
        let maps = told(process, "maps", MAPS_BYTES_MAX)?;
        String::from_utf8_lossy(&maps).lines().find_map(job_of_line)
    })
}

/// The job whose page a line of a process's list maps. Of a name that is too long for a file the file has a part only.
fn job_of_line(line: &str) -> Option<JobName> {
    let path = line.find('/').map(|at| &line[at..]).filter(|_| line.split_ascii_whitespace().nth(1) == Some("r--s"))?;
    let file = path.strip_suffix(" (deleted)").unwrap_or(path).rsplit('/').next().filter(|file| file.ends_with(".page"))?;
    JobName::try_new(&Stem::of_file(file)?.to_string()).ok()
}

/// A file of a process.
fn told(process: u32, file: &str, bytes_max: u64) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    fs::File::open(format!("/proc/{process}/{file}")).and_then(|file| file.take(bytes_max).read_to_end(&mut text)).ok()?;
    Some(text)
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
    use crate::{PageReader, PageWriter};

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

    #[test]
    fn the_job_of_a_process_is_that_of_its_environment_else_of_its_page() {
        let sleeper = |job: Option<&str>| {
            let mut command = std::process::Command::new("sleep");
            command.arg("60").env_remove("ANTIPHASE_JOB").envs(job.map(|job| ("ANTIPHASE_JOB", job)));
            command.spawn().unwrap()
        };
        let mut children = [Some("bert-7"), Some(""), Some("no name"), None].map(sleeper);
        // A child has the environment of its program once that runs, and the parent's before.
        let began = std::time::Instant::now();
        let comm = |child: &std::process::Child| fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap_or_default();
        while children.iter().any(|child| comm(child) != "sleep\n") && began.elapsed().as_secs() < 20 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let jobs = children.each_ref().map(|child| job_of(child.id()).map(|job| job.as_str().to_owned()));
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(jobs, [Some("bert-7".to_owned()), None, None, None]);
        // A process that is gone is nobody's.
        assert_eq!(job_of(children[0].id()), None);

        let page = |rights: &str, file: &str| job_of_line(&format!("7f00-7f01 {rights} 00000000 00:1a 12      {file}"));
        let named = |name: &str| Some(JobName::try_new(name).unwrap());
        assert_eq!(page("r--s", "/run/antiphase/j.page"), named("j"));
        assert_eq!(page("r--s", "/run/my jobs/j.page (deleted)"), named("j"));
        // The agent's own mapping, another file, and a name of which the file has a part only.
        let long = JobName::try_new(&"x".repeat(250)).unwrap().file("page");
        assert_eq!(
            [page("rw-s", "/run/antiphase/j.page"), page("r--s", "/usr/lib/j.so"), page("r--s", &format!("/run/{long}"))],
            [None, None, None]
        );
        if std::env::var_os("ANTIPHASE_JOB").is_none() {
            let directory = tempfile::tempdir().unwrap();
            let _page = PageWriter::create(directory.path(), "mapped").unwrap();
            let _reader = PageReader::open(directory.path(), &JobName::try_new("mapped").unwrap()).unwrap();
            assert!(job_of(std::process::id()).is_some(), "a page of this process");
        }
    }
}
