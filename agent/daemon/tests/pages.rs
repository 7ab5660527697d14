//! Plans become pages that real gates follow, and real gates' reports become reports to the service.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use antiphase_agent::{clock::ClockEstimate, config::Reports, gates::Gates, pages::Pages};
use gate::{Gate, JobName, PageReader, now};
use gate_core::{Mode, Reason};
use proto::v1alpha1::{HostPlan, Slot};
use units::{ClockOffset, Nanos, NodeTime};

const OFFSET: i64 = 1_700_000_000_000_000_000;
const HOST: &str = "gpu-01";

fn clock(bound: u64) -> ClockEstimate {
    ClockEstimate { offset: ClockOffset(OFFSET), bound: Nanos(bound), rtt: Nanos(1), at: now() }
}

fn slot(job: &str) -> Slot {
    Slot {
        job: job.into(),
        plan_version: 3,
        period_ns: 40_000_000,
        offset_ns: 7_000_000,
        tolerance_ns: 6_000_000,
        slack_ns: 4_000_000,
        hold_max_ns: 40_000_000,
        hold: true,
        expires_ns: now().0 + OFFSET.cast_unsigned() + 60_000_000_000,
        leader_host: HOST.into(),
        turns: false,
    }
}

fn plan(plan_version: u64, slots: &[Slot]) -> HostPlan {
    HostPlan { plan_version, slots: slots.to_vec() }
}

/// As the agent does, which binds the socket of turns between the two.
fn apply(pages: &mut Pages, plan: &HostPlan, clock: Option<&ClockEstimate>, now: NodeTime) {
    pages.take_over(plan);
    pages.write_plan(clock, now);
}

fn read(directory: &Path, job: &str) -> Result<gate_core::Schedule, Reason> {
    PageReader::open(directory, &JobName::try_new(job).unwrap())?.read()
}

#[test]
fn a_plan_becomes_pages_of_the_jobs_that_this_host_leads() {
    let directory = tempfile::tempdir().unwrap();
    let mut pages = Pages::new(directory.path(), HOST).unwrap();
    let clock = clock(1_000);
    let elsewhere = Slot { leader_host: "gpu-02".into(), ..slot("elsewhere") };
    let bad = Slot { period_ns: 0, ..slot("bad") };
    let escape = Slot { job: "../escape".into(), ..slot("x") };
    apply(&mut pages, &plan(3, &[slot("a"), slot("b"), elsewhere, bad, escape]), Some(&clock), now());
    assert_eq!((pages.len(), pages.plan_version()), (2, 3));
    for job in ["elsewhere", "bad"] {
        assert_eq!(read(directory.path(), job), Err(Reason::NoPage));
    }
    assert!(!directory.path().parent().unwrap().join("escape.page").exists());
    let page = read(directory.path(), "a").unwrap();
    assert_eq!((page.mode, page.plan_version, page.distrust(now())), (Mode::Hold, 3, None));
    assert_eq!((page.slot.0 + OFFSET.cast_unsigned()) % 40_000_000, 7_000_000);

    // A job that left: a gate that has its page mapped is told, and the file is gone.
    let mapped = PageReader::open(directory.path(), &JobName::try_new("b").unwrap()).unwrap();
    apply(&mut pages, &plan(4, &[Slot { offset_ns: 9_000_000, ..slot("a") }]), Some(&clock), now());
    assert_eq!(mapped.read(), Err(Reason::NoPage));
    assert!(!directory.path().join("b.page").exists());
    let page = read(directory.path(), "a").unwrap();
    assert_eq!((page.slot.0 + OFFSET.cast_unsigned()) % 40_000_000, 9_000_000);
}

#[test]
fn a_heartbeat_keeps_a_page_and_silence_opens_the_gate() {
    let directory = tempfile::tempdir().unwrap();
    let mut pages = Pages::new(directory.path(), HOST).unwrap();
    let clock = clock(1_000);
    let start = now();
    apply(&mut pages, &plan(1, &[slot("a")]), Some(&clock), start);
    let page = read(directory.path(), "a").unwrap();
    let at = |ms: u64| start.saturating_add(Nanos::from_millis(ms));
    assert_eq!((page.distrust(at(500)), page.distrust(at(501))), (None, Some(Reason::Stale)));
    pages.beat(Some(&clock), at(400));
    let page = read(directory.path(), "a").unwrap();
    assert_eq!((page.written, page.distrust(at(900))), (at(400), None));
    // Long after the service fell silent the agent still beats, and the plan's end opens the gate.
    pages.beat(Some(&ClockEstimate { at: at(61_000), ..clock }), at(61_000));
    assert_eq!(read(directory.path(), "a").unwrap().distrust(at(61_000)), Some(Reason::Expired));
}

/// Found by a stranger: a page whose file was removed was counted as kept, and no new gate found one until the job was planned anew.
#[test]
fn a_page_that_was_removed_or_replaced_is_made_anew() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("run");
    let mut pages = Pages::new(&folder, HOST).unwrap();
    let clock = clock(1_000);
    apply(&mut pages, &plan(1, &[slot("a")]), Some(&clock), now());
    let file = folder.join("a.page");
    let spoilt: [&dyn Fn(); 3] = [
        &|| fs::remove_file(&file).unwrap(),
        &|| {
            fs::remove_file(&file).unwrap();
            fs::write(&file, b"another").unwrap();
        },
        &|| fs::remove_dir_all(&folder).unwrap(),
    ];
    for spoil in spoilt {
        let mapped = PageReader::open(&folder, &JobName::try_new("a").unwrap()).unwrap();
        spoil();
        assert!(pages.beat(Some(&clock), now()));
        assert_eq!(mapped.read(), Err(Reason::NoPage), "a gate that has the old one looks for the new one");
        assert_eq!(read(&folder, "a").unwrap().distrust(now()), None);
        assert_eq!((pages.len(), pages.errors()), (1, 0));
    }
    // Nothing is made anew where nothing was spoilt.
    let mapped = PageReader::open(&folder, &JobName::try_new("a").unwrap()).unwrap();
    assert!(!pages.beat(Some(&clock), now()));
    assert_eq!(mapped.read().unwrap().distrust(now()), None);
}

#[test]
fn when_the_clock_moves_the_slot_moves() {
    let directory = tempfile::tempdir().unwrap();
    let mut pages = Pages::new(directory.path(), HOST).unwrap();
    let at = now();
    let clock = clock(1_000);
    apply(&mut pages, &plan(1, &[slot("a")]), Some(&clock), at);
    let before = read(directory.path(), "a").unwrap().slot;
    // Fabric time is 3 ms further than thought, so the start is due 3 ms sooner.
    let moved = ClockEstimate { offset: ClockOffset(OFFSET + 3_000_000), ..clock };
    pages.beat(Some(&moved), at);
    let after = read(directory.path(), "a").unwrap().slot;
    assert_eq!((before.0 + 40_000_000 - 3_000_000) % 40_000_000, after.0 % 40_000_000);
    pages.beat(None, at);
    assert_eq!(read(directory.path(), "a").unwrap().distrust(at), Some(Reason::ClockBound));
}

#[test]
fn pages_of_an_earlier_run_are_adopted_or_taken_back() {
    let directory = tempfile::tempdir().unwrap();
    {
        let mut pages = Pages::new(directory.path(), HOST).unwrap();
        apply(&mut pages, &plan(1, &[slot("stays"), slot("goes")]), Some(&clock(1)), now());
        // It dies here: the pages stay.
    }
    let gates = ["stays", "goes"].map(|job| PageReader::open(directory.path(), &JobName::try_new(job).unwrap()).unwrap());
    fs::write(directory.path().join("notes.txt"), "not ours").unwrap();
    let mut pages = Pages::new(directory.path(), HOST).unwrap();
    assert_eq!(gates[1].read().unwrap().plan_version, 3);
    apply(&mut pages, &plan(2, &[Slot { plan_version: 8, ..slot("stays") }]), Some(&clock(1)), now());
    // The gate that was there all the time sees the new plan on its old mapping.
    assert_eq!(gates[0].read().unwrap().plan_version, 8);
    assert_eq!(gates[1].read(), Err(Reason::NoPage));
    assert!(directory.path().join("notes.txt").exists() && !directory.path().join("goes.page").exists());
    pages.retire_all();
    assert_eq!(gates[0].read(), Err(Reason::NoPage));
    assert!(pages.is_empty());
}

#[test]
fn two_agents_do_not_write_one_page() {
    let directory = tempfile::tempdir().unwrap();
    let [mut first, mut second] = [(); 2].map(|()| Pages::new(directory.path(), HOST).unwrap());
    apply(&mut first, &plan(1, &[slot("a")]), Some(&clock(1)), now());
    apply(&mut second, &plan(2, &[Slot { plan_version: 9, ..slot("a") }]), Some(&clock(1)), now());
    assert_eq!((first.len(), second.len(), second.errors()), (1, 0, 1));
    assert_eq!(read(directory.path(), "a").unwrap().plan_version, 3);
    // The second gets it once the first is gone.
    drop(first);
    second.beat(Some(&clock(1)), now());
    assert_eq!((second.len(), read(directory.path(), "a").unwrap().plan_version), (1, 9));
}

#[test]
fn what_a_gate_did_is_reported_once() {
    let directory = tempfile::tempdir().unwrap();
    let mut pages = Pages::new(directory.path(), HOST).unwrap();
    apply(&mut pages, &plan(1, &[slot("a")]), Some(&clock(1_000)), now());
    let mut gates = Gates::default();
    gates.follow(directory.path(), pages.led().map(|(job, _)| job), now()).unwrap();
    assert!(gates.report(pages.led(), now()).is_empty());
    let config = gate::Config::new(directory.path(), JobName::try_new("a").unwrap());
    let gate = Gate::open(&config);
    for _ in 0..6 {
        pages.beat(Some(&clock(1_000)), now());
        gate.step();
        std::thread::sleep(std::time::Duration::from_millis(12));
    }
    drop(gate);
    let reports = gates.report(pages.led(), now());
    let [report] = reports.as_slice() else { panic!("{reports:?}") };
    assert_eq!((report.job.as_str(), report.plan_version, report.iterations, report.fail_opens), ("a", 3, 6, 0));
    // An iteration takes 12 ms and the period is 40 ms, so the gate held all but perhaps the first.
    assert!(report.holds >= 5 && report.held_ns > 0, "{report:?}");
    // Held to the period, give or take what a busy machine adds.
    let (p50, solo) = (report.iteration_p50_ns.unwrap(), report.solo_p75_ns.unwrap());
    assert!(p50 >= 20_000_000 && solo < p50, "{report:?}");
    assert!(report.phase_error_ns.unwrap().unsigned_abs() <= 20_000_000, "{report:?}");
    assert!(report.iteration_mean_ns.unwrap() >= 12_000_000, "{report:?}");
    assert!(gates.report(pages.led(), now()).is_empty());
    let totals = gates.totals();
    assert_eq!((totals[0].1.iterations, totals[0].1.holds), (6, report.holds));
}

#[test]
fn a_mean_is_of_the_iterations_under_the_present_slot() {
    let directory = tempfile::tempdir().unwrap();
    let mut pages = Pages::new(directory.path(), HOST).unwrap();
    let free = |plan_version| Slot { plan_version, hold: false, ..slot("a") };
    apply(&mut pages, &plan(1, &[free(3)]), Some(&clock(1_000)), now());
    let mut gates = Gates::default();
    gates.follow(directory.path(), pages.led().map(|(job, _)| job), now()).unwrap();
    let gate = Gate::open(&gate::Config::new(directory.path(), JobName::try_new("a").unwrap()));
    let mut iterations = |pages: &Pages, each: &[u64]| {
        for ms in each {
            gate.step();
            std::thread::sleep(std::time::Duration::from_millis(*ms));
        }
        gate.flush();
        let report = gates.report(pages.led(), now()).remove(0);
        (report.iteration_p50_ns, report.iteration_mean_ns)
    };
    // Three of four take 2 ms, each fourth 30; the last one is not over.
    let (median, mean) = iterations(&pages, &[2, 2, 2, 30].repeat(3));
    assert!(mean.unwrap() >= 7_000_000, "{mean:?} and the median {median:?}");
    // One start of the new slot has no length yet, though the median is known.
    apply(&mut pages, &plan(2, &[free(4)]), Some(&clock(1_000)), now());
    iterations(&pages, &[2]);
    let (median, mean) = iterations(&pages, &[2]);
    assert_eq!((median.is_some(), mean), (true, None));
    let (_, mean) = iterations(&pages, &[40, 40, 40]);
    assert!(mean.unwrap() >= 20_000_000, "{mean:?}");
}

#[test]
fn a_free_job_that_tells_its_ends_shows_how_long_it_sends() {
    let directory = tempfile::tempdir().unwrap();
    let mut pages = Pages::new(directory.path(), HOST).unwrap();
    apply(&mut pages, &plan(1, &[Slot { hold: false, ..slot("a") }]), Some(&clock(1_000)), now());
    let mut gates = Gates::default();
    gates.follow(directory.path(), pages.led().map(|(job, _)| job), now()).unwrap();
    let gate = Gate::open(&gate::Config::new(directory.path(), JobName::try_new("a").unwrap()));
    let sleep = |ms| std::thread::sleep(std::time::Duration::from_millis(ms));
    let mut shows = |tells: bool| {
        for _ in 0..30 {
            gate.step();
            sleep(1);
            if tells {
                gate.done();
            }
            sleep(8);
        }
        gate.flush();
        let report = gates.report(pages.led(), now()).remove(0);
        report.up_ns.zip(report.down_ns)
    };
    let (up, down) = shows(true).unwrap();
    // The lower tenth of thirty is above no sleep of a busy machine.
    assert!(up >= 1_000_000 && down >= 8_000_000 && up < down, "{up} {down}");
    assert_eq!(shows(false), None, "half of them told no end");
}

#[test]
fn fail_opens_are_reported_by_reason() {
    let directory = tempfile::tempdir().unwrap();
    let mut pages = Pages::new(directory.path(), HOST).unwrap();
    apply(&mut pages, &plan(1, &[slot("a")]), None, now());
    let mut gates = Gates::default();
    gates.follow(directory.path(), pages.led().map(|(job, _)| job), now()).unwrap();
    let gate = Gate::open(&gate::Config::new(directory.path(), JobName::try_new("a").unwrap()));
    for _ in 0..3 {
        gate.step();
    }
    drop(gate);
    assert_eq!(gates.report(pages.led(), now())[0].fail_opens, 3);
    assert_eq!(gates.totals()[0].1.fail_opens, [("clock-bound", 3)]);
}

#[test]
fn a_hostile_report_lies_within_bounds_or_not_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let mut pages = Pages::new(directory.path(), HOST).unwrap();
    apply(&mut pages, &plan(1, &[slot("a")]), Some(&clock(1)), now());
    let mut gates = Gates::default();
    gates.follow(directory.path(), pages.led().map(|(job, _)| job), NodeTime(0)).unwrap();
    let path = directory.path().join("reports/a.report");
    // A whole report of a real gate, with bytes overwritten: the checksum refuses most, and the rest is bounded.
    let gate = Gate::open(&gate::Config::new(directory.path(), JobName::try_new("a").unwrap()));
    gate.step();
    drop(gate);
    let whole = fs::read(&path).unwrap();
    for (at, byte) in (0..whole.len()).step_by(7).zip((0..=u8::MAX).cycle()) {
        let mut broken = whole.clone();
        broken[at] = broken[at].wrapping_add(byte | 1);
        fs::write(&path, &broken).unwrap();
        let now = now();
        for report in gates.report(pages.led(), now) {
            assert!(report.iterations <= now.0 / 10_000 + 1 && report.holds <= report.iterations);
        }
    }
    for text in [&b""[..], b"short", &[0xff; 100_000]] {
        fs::write(&path, text).unwrap();
        assert!(gates.report(pages.led(), now()).is_empty());
    }
    fs::remove_file(&path).unwrap();
    assert!(gates.report(pages.led(), now()).is_empty());
}

/// The names of jobs that are too long for a file are cut by the gate's rule, and their files are found by it again.
#[test]
fn whatever_an_earlier_run_left_is_taken_back() {
    let directory = tempfile::tempdir().unwrap();
    let long = |end: &str| format!("{}{end}", "x".repeat(250));
    let (stays, goes, others) = (long("a"), long("b"), long("c"));
    let led = |jobs: &[&String]| {
        let mut pages = Pages::new(directory.path(), HOST).unwrap();
        apply(&mut pages, &plan(1, &jobs.iter().map(|job| slot(job)).collect::<Vec<_>>()), Some(&clock(1)), now());
        Gates::default().follow(directory.path(), pages.led().map(|(job, _)| job), now()).unwrap();
        pages
    };
    // One lives on, and one that leads other jobs dies.
    let mut other = led(&[&others]);
    drop(led(&[&stays, &goes]));
    // A report whose page is gone, a lock whose page was never made, names that no file of a job has, and things that are no files.
    for name in ["reports/gone.report", ".early.lock", "x~1.page", "notes.txt", ".x.page.1"] {
        fs::write(directory.path().join(name), "").unwrap();
    }
    fs::create_dir(directory.path().join("folder.page")).unwrap();
    let [left, gone] = [&others, &goes].map(|job| PageReader::open(directory.path(), &JobName::try_new(job).unwrap()).unwrap());
    let mut pages = Pages::new(directory.path(), HOST).unwrap();
    apply(&mut pages, &plan(2, &[slot(&stays)]), Some(&clock(1)), now());
    assert_eq!((gone.read(), left.read().unwrap().plan_version), (Err(Reason::NoPage), 3));
    let list = |folder: &str| {
        let entries = fs::read_dir(directory.path().join(folder)).unwrap();
        entries.map(|entry| format!("{folder}{}", entry.unwrap().file_name().into_string().unwrap())).collect::<Vec<_>>()
    };
    let mut names = [list(""), list("reports/")].concat();
    names.sort_unstable();
    let files = |job: &str| {
        [("", "page"), ("reports/", "report"), (".", "lock")]
            .map(|(dot, end)| format!("{dot}{}.{end}", JobName::try_new(job).unwrap().stem()))
    };
    let mut wanted = [files(&stays), files(&others)].concat();
    wanted.extend([".x.page.1", "folder.page", "notes.txt", "reports", "x~1.page"].map(str::to_owned));
    wanted.sort_unstable();
    assert_eq!(names, wanted);
    // In order, its own long names go too, with their reports.
    other.retire_all();
    assert!(!fs::exists(directory.path().join(&files(&others)[1])).unwrap());
    assert_eq!(left.read(), Err(Reason::NoPage));
}

/// A panic is a way out too.
#[test]
fn an_agent_that_panics_takes_its_pages_back() {
    let directory = tempfile::tempdir().unwrap();
    let mut pages = Pages::new(directory.path(), HOST).unwrap();
    apply(&mut pages, &plan(1, &[slot("a")]), Some(&clock(1)), now());
    let gate = PageReader::open(directory.path(), &JobName::try_new("a").unwrap()).unwrap();
    assert!(gate.read().is_ok());
    let agent = std::thread::spawn(move || {
        assert!(pages.is_empty(), "as a defect would");
    });
    assert!(agent.join().is_err());
    assert_eq!(gate.read(), Err(Reason::NoPage));
    let left: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["reports"], "an empty folder");
}

/// With `reports = "owned"` the agent makes no file that others can write, and reads what was made for the job's user.
#[test]
fn an_owned_report_is_made_by_whoever_starts_the_job() {
    let directory = tempfile::tempdir().unwrap();
    let mut pages = Pages::new(directory.path(), HOST).unwrap();
    let mut gates = Gates::new(Reports::Owned);
    apply(&mut pages, &plan(3, &[slot("a")]), Some(&clock(1_000)), now());
    gates.follow(directory.path(), pages.led().map(|(job, _)| job), now()).unwrap();
    let report = directory.path().join("reports/a.report");
    assert!(!report.exists() && gates.report(pages.led(), now()).is_empty());
    fs::write(&report, b"").unwrap();
    fs::set_permissions(&report, fs::Permissions::from_mode(0o644)).unwrap();
    let gate = Gate::open(&gate::Config::new(directory.path(), JobName::try_new("a").unwrap()));
    gate.step();
    gate.flush();
    std::thread::sleep(std::time::Duration::from_millis(1));
    let seen = gates.report(pages.led(), now());
    assert_eq!((seen.len(), seen[0].iterations), (1, 1));
    // One that others could have written is not believed.
    fs::set_permissions(&report, fs::Permissions::from_mode(0o666)).unwrap();
    gate.step();
    gate.flush();
    assert!(gates.report(pages.led(), now()).is_empty());
}

#[test]
fn a_page_dir_without_a_file_system_of_its_own_is_known() {
    let directory = tempfile::tempdir().unwrap();
    let below = directory.path().join("pages");
    assert_eq!(Pages::new(&below, HOST).unwrap().shared_with(), Some(directory.path()));
    // Mounted for every process of Linux.
    assert_eq!(Pages::new(Path::new("/proc"), HOST).unwrap().shared_with(), None);
}

#[test]
fn a_page_dir_in_which_others_can_write_is_known() {
    let directory = tempfile::tempdir().unwrap();
    let pages = Pages::new(directory.path(), HOST).unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(pages.others(), None);
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(pages.others().as_deref(), Some("has mode 0777"));
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    if std::os::unix::fs::chown(directory.path(), Some(65_534), None).is_err() {
        println!("skipped: without root no directory can be given to another user");
        return;
    }
    assert_eq!(pages.others().as_deref(), Some("belongs to user 65534"));
}
