//! The labs of this machine, written down before they are built, so that a lab whose process was killed can be removed.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use crate::{tool, wiring};

/// Where labs are written down: memory that does not survive a reboot, as namespaces do not.
const FOLDER: &str = "/run/antiphase-lab";
/// How long killed processes may take to go.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
/// How often they are looked at.
const POLL: Duration = Duration::from_millis(5);
/// Tries at a free id before something is wrong with the folder.
const ID_TRIES: u32 = 16;

/// One lab on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Its id: six hexadecimal digits.
    pub id: String,
    /// Name of the case.
    pub case: String,
    /// The process that runs it; none for a lab that was left up.
    pub owner: Option<Owner>,
}

/// A process, told apart from later ones with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owner {
    /// Process number.
    pub pid: i32,
    /// When it started, in clock ticks since boot (proc(5), field 22 of stat).
    pub started: u64,
}

impl Owner {
    /// This process.
    ///
    /// # Errors
    /// `/proc` is not mounted.
    pub fn this() -> Result<Self> {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        Ok(Self { pid, started: started(pid).context("/proc/self/stat")? })
    }

    /// Whether it still runs.
    #[must_use]
    pub fn alive(&self) -> bool {
        started(self.pid) == Some(self.started)
    }
}

/// Start time of a process.
fn started(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, field 2, may hold spaces and brackets; field 3 follows its last bracket.
    let rest = &stat[stat.rfind(')')? + 1..];
    // Field 3 of stat(5) is the first word here, so field 22 is the one with index 19.
    rest.split_whitespace().nth(19)?.parse().ok()
}

impl Record {
    /// Writes down a new lab, owned by this process.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn create(case: &str) -> Result<Self> {
        fs::create_dir_all(FOLDER).context(FOLDER)?;
        let owner = Owner::this()?;
        for attempt in 0..ID_TRIES {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().subsec_nanos();
            // The id only has to be free: `create_dir` fails for one that is taken, and `attempt` changes the upper four bits.
            let id = format!("{:06x}", (now ^ owner.pid.unsigned_abs().rotate_left(12) ^ (attempt << 20)) & 0xff_ffff);
            match fs::create_dir(Path::new(FOLDER).join(&id)) {
                Ok(()) => {
                    let record = Self { id, case: case.to_owned(), owner: Some(owner) };
                    record.write()?;
                    return Ok(record);
                }
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e).context(FOLDER),
            }
        }
        bail!("{FOLDER}: no free id in {ID_TRIES} tries");
    }

    /// Gives up ownership: the lab stays up when this process ends.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn leave(&mut self) -> Result<()> {
        self.owner = None;
        self.write()
    }

    fn write(&self) -> Result<()> {
        // In one step, so that no reader finds half a record.
        let (new, path) = (self.folder().join("lab.json.new"), self.folder().join("lab.json"));
        fs::write(&new, serde_json::to_string(self)?).and_then(|()| fs::rename(&new, &path)).with_context(|| path.display().to_string())
    }

    /// Where the lab keeps its files.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        Path::new(FOLDER).join(&self.id)
    }

    /// All labs on this machine, those included whose record is lost but whose namespaces stand.
    ///
    /// # Errors
    /// The folders cannot be read.
    pub fn all() -> Result<Vec<Self>> {
        let mut ids: Vec<String> = match fs::read_dir(FOLDER) {
            Ok(entries) => entries.filter_map(|e| e.ok()?.file_name().into_string().ok()).collect(),
            Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
            Err(e) => return Err(e).context(FOLDER),
        };
        // A namespace without a record is a lab whose folder was lost; it must be removable as well.
        ids.extend(tool::namespaces("ap-")?.iter().filter_map(|name| Some(name.split('-').nth(1)?.to_owned())));
        ids.sort();
        ids.dedup();
        // Ids become names of folders that are deleted, so nothing but six hexadecimal digits passes.
        ids.retain(|id| is_id(id));
        // A record that cannot be read still names a lab: with its id alone the lab can be removed.
        let read = |id: String| {
            let text = fs::read_to_string(Path::new(FOLDER).join(&id).join("lab.json")).ok();
            text.and_then(|t| serde_json::from_str(&t).ok()).unwrap_or(Self { id, case: "unknown".into(), owner: None })
        };
        Ok(ids.into_iter().map(read).collect())
    }

    /// Whether the process that made it still runs it.
    #[must_use]
    pub fn running(&self) -> bool {
        self.owner.is_some_and(|owner| owner.alive())
    }

    /// Its namespaces that stand.
    ///
    /// # Errors
    /// As [`Record::all`].
    pub fn namespaces(&self) -> Result<Vec<String>> {
        tool::namespaces(&wiring::prefix(&self.id))
    }

    /// Processes in its namespaces.
    ///
    /// # Errors
    /// `ip` is missing or fails.
    pub fn processes(&self) -> Result<Vec<i32>> {
        let mut pids = Vec::new();
        for namespace in self.namespaces()? {
            let text = tool::run("ip", &["netns", "pids", &namespace], "")?;
            pids.extend(text.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
        }
        Ok(pids)
    }

    /// Removes the lab: its processes, its namespaces with all devices, queues and programs in them, and its files.
    /// Doing it again does nothing.
    ///
    /// # Errors
    /// Something would not go; what did go is gone.
    pub fn remove(&self) -> Result<()> {
        let end = Instant::now() + KILL_TIMEOUT;
        loop {
            // The list is read anew each time, because a process may fork between the look and the kill; `KILL_TIMEOUT` bounds the loop.
            let pids = self.processes()?;
            if pids.is_empty() {
                break;
            }
            if Instant::now() > end {
                bail!("lab {}: processes {pids:?} do not end", self.id);
            }
            for pid in pids.into_iter().filter_map(Pid::from_raw) {
                // The process may have ended since the look.
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
            thread::sleep(POLL);
        }
        // A namespace lives on while a process is in it, so processes go first. Its devices, qdiscs and programs go with it.
        let deletions: String = self.namespaces()?.iter().map(|name| format!("netns del {name}\n")).collect();
        if !deletions.is_empty() {
            tool::run("ip", &["-batch", "-"], &deletions)?;
        }
        // The folder goes last: until then a second `down` still finds the lab.
        match fs::remove_dir_all(self.folder()) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(e).with_context(|| self.folder().display().to_string()),
            _ => Ok(()),
        }
    }
}

fn is_id(text: &str) -> bool {
    text.len() == 6 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// Where the leader of a job writes its iterations.
pub(crate) fn trace_path(folder: &Path, job: &str) -> PathBuf {
    folder.join(format!("{job}.trace"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_apart_from_a_later_one_with_its_number() {
        let this = Owner::this().unwrap();
        assert!(this.alive());
        assert!(!Owner { started: this.started + 1, ..this }.alive());
        assert!(!Owner { pid: i32::MAX, ..this }.alive());
    }

    #[test]
    fn ids_cannot_name_other_folders() {
        assert!(is_id("00ff12"));
        assert!(!is_id("../etc") && !is_id("") && !is_id("00FF12") && !is_id("1234567"));
    }
}
