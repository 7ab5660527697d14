//! What a gate would do now, and why: for people who wonder that nothing is held.
//!
//! A gate fails open without a word, because a job must not stop for it. So the words are here: `antiphase gate status` looks at what a
//! gate looks at, in the same order, and says what to do about it.

use std::{fmt, fs, path::Path};

use gate_core::{Decision, Mode, Reason, Schedule, decide};
use units::{Nanos, NodeTime};

use crate::{Config, JobName, NameError, PageReader, Stem, exec, report, who};

/// Most names of the directory that are looked at; an agent leads 256 jobs at most.
const NAMES_MAX: usize = 4_096;
/// A gate that has reported no start for so long says nothing of now.
const REPORT_AGE_MAX: Nanos = Nanos::from_millis(60_000);
/// More unanswered starts than one in this many are reported. A restarted agent causes some, a lost answer one.
const UNHEARD_ONE_IN: u64 = 10;
/// Pages that are named where the one asked for is not there.
const PAGES_NAMED: usize = 8;
/// How the finding of a job without a page begins.
const NO_PAGE: &str = "not held (no-page)";
/// Programs of one job's name that are named.
const PROGRAMS_NAMED: usize = 5;

/// What stands between a job and its slot or turn, or that nothing does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at: `job`, `rank`, `library`, `pages` or the page of a job.
    pub of: String,
    /// Whether this keeps a gate from holding.
    pub is_obstacle: bool,
    /// What was found.
    pub says: String,
    /// What to do about it; empty where nothing is to be done.
    pub fix: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.says)?;
        if self.fix.is_empty() { Ok(()) } else { write!(f, ": {}", self.fix) }
    }
}

/// What the environment of a process tells a gate, beside [`Config`].
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Why the job's name cannot be one.
    pub unnamed: Option<NameError>,
    /// `ANTIPHASE_GATE_LIBRARY`, of the Python package.
    pub library: Option<std::path::PathBuf>,
}

/// Looks at all that a gate of this environment would look at. Without a job every page of the directory is looked at.
#[must_use]
pub fn findings(config: &Config, around: &Surroundings, now: NodeTime) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |of: &str, says: String, fix: &str| {
        found.push(Finding { of: of.to_owned(), is_obstacle: true, says, fix: fix.to_owned() });
    };
    if config.off {
        add("gate", "switched off by ANTIPHASE_GATE".into(), "unset it where the job starts");
    }
    match (&config.job, &around.unnamed) {
        (Some(_), _) => {}
        (None, Some(error)) => {
            add("job", format!("{error}: nothing is held under this name"), "set ANTIPHASE_JOB to the name that the job has in the plan");
        }
        (None, None) => add(
            "job",
            "ANTIPHASE_JOB is not set here, and a gate without it holds nothing".into(),
            "set it where the job starts; --job NAME asks about one",
        ),
    }
    if let Some((name, rank)) = exec::rank().filter(|(_, rank)| rank != "0") {
        let says = format!("{name}={}: only rank 0 is held, and the others wait for it", rank.display());
        add("rank", says, "ask in the environment of rank 0");
    }
    if let Some(library) = around.library.as_ref().filter(|library| !library.is_file()) {
        let says = format!("ANTIPHASE_GATE_LIBRARY={}: no such file, so the Python package holds nothing", library.display());
        add("library", says, "set it to the path of libantiphase_gate.so, or unset it where the package has the library inside");
    }
    if !config.directory.is_dir() {
        let says = format!("{} is no directory", config.directory.display());
        add("pages", says, "no agent has run on this host: start one; or its page_dir is another one: set ANTIPHASE_DIR to it");
        return found;
    }
    let jobs = config.job.as_ref().map_or_else(|| jobs(&config.directory), |job| vec![job.clone()]);
    if jobs.is_empty() {
        let says = format!("none in {}: no committed job has its rank 0 on this host, or no agent runs", config.directory.display());
        add("pages", says, "ask `antiphase jobs` and `antiphase agents`");
    }
    found.extend(jobs.iter().map(|job| of_page(&config.directory, job, now)));
    found.iter_mut().filter(|one| one.says.starts_with(NO_PAGE)).for_each(|one| one.fix.push_str(&others(&config.directory)));
    found
}

/// Where a job has no page, those that have one: a name may be written otherwise, and the directory may be another agent's.
fn others(directory: &Path) -> String {
    let there = jobs(directory);
    let named: Vec<&str> = there.iter().take(PAGES_NAMED).map(JobName::as_str).collect();
    let more = there.len() - named.len();
    match (there.is_empty(), more) {
        (true, _) => format!("; {} has no page of any job", directory.display()),
        (false, 0) => format!("; pages here: {}", named.join(", ")),
        (false, more) => format!("; pages here: {} and {more} more", named.join(", ")),
    }
}

/// The jobs that have a page in a directory, in order of their names.
fn jobs(directory: &Path) -> Vec<JobName> {
    let entries = fs::read_dir(directory).into_iter().flatten().take(NAMES_MAX);
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let pages = names.filter(|name| name.ends_with(".page")).filter_map(|name| Stem::of_file(&name));
    // A name too long for a file is not known from it; its job has to be named.
    let mut jobs: Vec<JobName> = pages.filter_map(|stem| JobName::try_new(&stem.to_string()).ok()).collect();
    jobs.sort();
    jobs
}

fn of_page(directory: &Path, job: &JobName, now: NodeTime) -> Finding {
    let page = PageReader::open(directory, job).and_then(|page| page.read());
    let not_held = |reason: Reason, age| {
        let (says, fix) = why(reason, age);
        (true, format!("not held ({reason}): {says}"), fix.to_owned())
    };
    let (is_obstacle, says, fix) = match page {
        Err(reason) => not_held(reason, None),
        Ok(schedule) => match trouble(&schedule, now) {
            Some(reason) => not_held(reason, Some(now.since(schedule.written))),
            None => match unheard(directory, job, &schedule, now) {
                Some(says) => (true, format!("not held ({}): {says}", Reason::Unheard), UNHEARD_FIX.to_owned()),
                None => (false, well(job, &schedule, now), String::new()),
            },
        },
    };
    Finding { of: job.to_string(), is_obstacle, says, fix }
}

/// Why a gate would not follow a schedule that it can read.
fn trouble(schedule: &Schedule, now: NodeTime) -> Option<Reason> {
    let open = match decide(now, schedule) {
        Decision::Go { because, .. } if because.is_fail_open() => Some(because),
        _ => None,
    };
    // What holds nothing needs no trust, so no gate asks how old it is; who asks here wants to know.
    schedule.distrust(now).filter(|reason| reason.is_fail_open()).or(open).or_else(|| schedule.is_stale(now).then_some(Reason::Stale))
}

/// What is wrong where the page is well and nobody answers the job's gate, as its report says.
fn unheard(directory: &Path, job: &JobName, schedule: &Schedule, now: NodeTime) -> Option<String> {
    if schedule.mode != Mode::Turn {
        return None;
    }
    let report = report::look(directory, job)?;
    let counters = report.tracker.counters();
    // The job writes its report, so a number in it may be anything.
    let unheard = counters.by_reason[usize::from(Reason::Unheard.code())];
    let is_old = report.tracker.last(1).all(|last| now.since(last.start).0 > REPORT_AGE_MAX.0);
    if is_old || unheard == 0 || unheard.saturating_mul(UNHEARD_ONE_IN) < counters.iterations {
        return None;
    }
    let programs = who::follow(&directory.join(job.file("page")));
    let named: Vec<String> =
        programs.iter().take(PROGRAMS_NAMED).map(|one| format!("process {} of user {}", one.process, one.user)).collect();
    let seen = if named.is_empty() { String::new() } else { format!("; programs that follow this page: {}", named.join(", ")) };
    Some(format!("{unheard} of {} starts of the program that reports under this name were not answered{seen}", counters.iterations))
}

/// What to look for where nobody answers.
const UNHEARD_FIX: &str = "is another program started with this job's name, perhaps by another user? One user speaks for a job, and each \
                           program needs a name of its own in ANTIPHASE_JOB; as root this names them. Otherwise the agent or the service \
                           does not answer: `antiphase doctor` looks at both";

/// What a page says that a gate follows. Whether a group takes turns now is the service's to know, and whether the service is still there
/// is the agent's: a page has neither, so no more is said than that.
fn well(job: &JobName, schedule: &Schedule, now: NodeTime) -> String {
    let said = match schedule.mode {
        Mode::Hold => format!("held for its slot, every {:.3} ms", schedule.period.as_millis_f64()),
        Mode::Turn => format!("takes turns while the service has its group take turns (`antiphase turns {job}` says whether it does)"),
        Mode::Pass => {
            "runs as it comes, because the plan holds it for nobody, or the service only observes (`antiphase status` says which)"
                .to_owned()
        }
    };
    let ends = match schedule.mode {
        // What holds nothing does not end.
        Mode::Pass => String::new(),
        Mode::Hold | Mode::Turn => format!(", good for {} more unless the service renews it", Age(schedule.expires.since(now))),
    };
    format!("{said}; plan version {}{ends}; the agent wrote this {} ago", schedule.plan_version, Age(now.since(schedule.written)))
}

/// A length of time as people say it.
struct Age(Nanos);

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.0 / 1_000_000 {
            ms if ms < 10_000 => write!(f, "{ms} ms"),
            ms => write!(f, "{} s", ms / 1_000),
        }
    }
}

/// What a reason means, with the age of the heartbeat, and what to do about it.
fn why(reason: Reason, age: Option<Nanos>) -> (String, &'static str) {
    let (says, fix) = match (reason, age) {
        (Reason::NoPage, _) => (
            "no page: no job of this name is committed with its rank 0 on this host, or the agent has stopped",
            "ask `antiphase jobs` and `antiphase agents`",
        ),
        (Reason::Unreadable, _) => (
            "the page cannot be read, or is not to be believed",
            "it has to be a regular file of root, of this user or of the directory's owner that nobody else may write",
        ),
        (Reason::Layout, _) => {
            ("the page has a layout that this gate does not know: gate and agent are of different versions", SAME_VERSION)
        }
        (Reason::Torn, _) => ("the agent stopped in the middle of a write", "start it again"),
        (Reason::Stale, Some(age)) => {
            return (format!("the agent last wrote {} ago: it is gone, or stopped", Age(age)), "start it again");
        }
        (Reason::Expired, _) => (
            "the plan has expired: the agent has had no session with the service for too long",
            "ask `antiphase agents`; the agent's log says why",
        ),
        (Reason::ClockBound, _) => ("the agent does not know fabric time well enough yet", "ask `antiphase agents` for its clock bound"),
        (Reason::ClockStep, _) => {
            ("the page was written in the future: gate and agent do not share a clock", "run both in one time namespace")
        }
        (Reason::Malformed, _) => ("the numbers on the page make no sense: gate and agent are of different versions", SAME_VERSION),
        (Reason::HoldTooLong, _) => {
            ("the wait would be longer than a gate may hold", "commit the job again: its slot and its profile do not fit")
        }
        (Reason::Unheard, _) => ("the agent or the service does not answer this job's gate", UNHEARD_FIX),
        (other, _) => return (other.to_string(), ""),
    };
    (says.to_owned(), fix)
}

const SAME_VERSION: &str = "install both from the same release";

#[cfg(test)]
mod tests {
    use gate_core::{Permit, Turn};

    use super::*;
    use crate::{PageWriter, now};

    fn hold(at: NodeTime) -> Schedule {
        Schedule {
            mode: Mode::Hold,
            plan_version: 7,
            slot: at,
            period: Nanos(40_000_000),
            tolerance: Nanos(6_000_000),
            hold_max: Nanos(40_000_000),
            slack: Nanos(4_000_000),
            expires: at.saturating_add(Nanos(60_000_000_000)),
            written: at,
            stale_after: Nanos(500_000_000),
            clock_bound: Nanos(1_000),
            turn: Turn::default(),
        }
    }

    fn one(config: &Config, at: NodeTime) -> (bool, String) {
        let found = findings(config, &Surroundings::default(), at);
        let found = found.last().unwrap();
        // An obstacle without a way out would leave its reader where they were.
        assert_eq!(found.is_obstacle, !found.fix.is_empty(), "{found:?}");
        (found.is_obstacle, found.to_string())
    }

    /// What an agent can put on a page, and what is said of it; each way not to be held has a sentence with what to do.
    #[test]
    fn every_page_is_explained() {
        let directory = tempfile::tempdir().unwrap();
        let config = Config::new(directory.path(), JobName::try_new("j").unwrap());
        assert!(one(&config, now()).1.starts_with("not held (no-page): no page: no job of this name is committed"));
        let mut page = PageWriter::create(directory.path(), "j").unwrap();
        let at = now();
        let good = hold(at);
        let turn = Schedule { mode: Mode::Turn, turn: Turn { permit: Permit::None, max: Nanos(1_000_000), ..Turn::default() }, ..good };
        let later = at.saturating_add(Nanos(1_000_000));
        let after = at.saturating_add(Nanos(3_000_000_000));
        for (schedule, when, is_obstacle, begins) in [
            (
                good,
                later,
                false,
                "held for its slot, every 40.000 ms; plan version 7, good for 59 s more unless the service renews it; the agent wrote this 1 ms ago",
            ),
            (
                turn,
                later,
                false,
                "takes turns while the service has its group take turns (`antiphase turns j` says whether it does); plan version 7, good",
            ),
            (
                Schedule { mode: Mode::Pass, ..good },
                later,
                false,
                "runs as it comes, because the plan holds it for nobody, or the service only observes",
            ),
            (Schedule { mode: Mode::Pass, ..good }, after, true, "not held (stale): the agent last wrote 3000 ms ago"),
            (good, after, true, "not held (stale): the agent last wrote 3000 ms ago: it is gone"),
            (Schedule { expires: at, ..good }, later, true, "not held (expired): the plan has expired"),
            (Schedule { clock_bound: Nanos(u64::MAX), ..good }, later, true, "not held (clock-bound): "),
            (Schedule { period: Nanos(0), ..good }, later, true, "not held (malformed): "),
            (Schedule { written: after, ..good }, later, true, "not held (clock-step): "),
        ] {
            page.write(&schedule);
            let (obstacle, says) = one(&config, when);
            assert!(obstacle == is_obstacle && says.starts_with(begins), "{says}");
        }
        page.remove().unwrap();
        fs::write(directory.path().join("j.page"), "short").unwrap();
        assert!(one(&config, now()).1.starts_with("not held (unreadable): "));
    }

    /// The page is well, and the agent does not listen to the program that reports: it says so, and names the program.
    #[test]
    fn a_gate_that_nobody_answers_is_explained() {
        let directory = tempfile::tempdir().unwrap();
        let job = JobName::try_new("j").unwrap();
        let config = Config::new(directory.path(), job);
        let _report = crate::ReportReader::open_or_create(directory.path(), "j").unwrap();
        let mut page = PageWriter::create(directory.path(), "j").unwrap();
        let turn = Turn { max: Nanos(1_000_000), ..Turn::default() };
        let mut write = || page.write(&Schedule { mode: Mode::Turn, stale_after: Nanos(60_000_000_000), turn, ..hold(now()) });
        write();
        assert!(!one(&config, now()).0, "no program has reported");
        // There is no socket of an agent, so no note is heard.
        let gate = crate::Gate::open(&config);
        assert_eq!(gate.step().because, Reason::Unheard);
        gate.flush();
        let (is_obstacle, says) = one(&config, now());
        assert!(is_obstacle && says.starts_with("not held (unheard): 1 of 1 starts"), "{says}");
        let us = format!("process {} of user", std::process::id());
        assert!(says.contains(&us) && says.contains("another program"), "{says}");
        // What a program said that is gone since says nothing of now.
        let later = now().saturating_add(Nanos(REPORT_AGE_MAX.0 + 1_000_000_000));
        page.write(&Schedule { mode: Mode::Turn, stale_after: Nanos(60_000_000_000), turn, ..hold(later) });
        assert!(!one(&config, later).0);
    }

    #[test]
    fn what_is_missing_before_any_page_is_said() {
        let directory = tempfile::tempdir().unwrap();
        let nothing = Config { directory: directory.path().join("none"), job: None, off: true };
        let bad = JobName::try_new("a/b").unwrap_err();
        let around = Surroundings { unnamed: Some(bad), library: Some("/nonexistent/lib.so".into()) };
        let of: Vec<String> = findings(&nothing, &around, now()).into_iter().map(|found| format!("{}: {found}", found.of)).collect();
        assert!(of[0].starts_with("gate: switched off") && of[1].starts_with("job: job name \"a/b\""), "{of:?}");
        assert!(of[2].starts_with("library: ANTIPHASE_GATE_LIBRARY=/nonexistent/lib.so"), "{of:?}");
        assert!(of[3].starts_with("pages: ") && of[3].contains("is no directory") && of.len() == 4, "{of:?}");
        // Without a job every page is looked at.
        let here = Config { directory: directory.path().to_owned(), job: None, off: false };
        let says = |found: &[Finding]| found.iter().map(|found| found.of.clone()).collect::<Vec<_>>();
        assert_eq!(says(&findings(&here, &Surroundings::default(), now())), ["job", "pages"]);
        let mut pages = ["b", "a"].map(|job| PageWriter::create(directory.path(), job).unwrap());
        pages.iter_mut().for_each(|page| page.write(&hold(now())));
        let found = findings(&here, &Surroundings::default(), now());
        assert_eq!(says(&found), ["job", "a", "b"]);
        assert!(!found[1].is_obstacle && !found[2].is_obstacle, "{found:?}");
        // Who mistypes a name sees the names that are there.
        let said = one(&Config::new(directory.path(), JobName::try_new("aa").unwrap()), now()).1;
        assert!(said.starts_with("not held (no-page)") && said.ends_with("; pages here: a, b"), "{said}");
    }
}
