//! Jobs that the service's scheduler starts and stops, with real ranks.

use crate::support::{ALONE, finish, lab_or_skip, labs, no_service, start, text};

/// Two jobs and hosts for one: the longer one starts, makes way for the shorter one, which stands on its hosts, and then runs to its end.
#[test]
fn a_scheduler_starts_stops_and_starts_real_jobs() {
    lab_or_skip!();
    if let Some(why) = no_service() {
        println!("skipped: {why}");
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let folder = tempfile::tempdir().unwrap();
    let case = text(folder.path(), "test-executor", 200);
    let output = finish(start(&["live", &case, "--scheduler", "srtf", "--hosts", "2", "--run", "5"]));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let words = ["submitted", "started", "stopped", "finished"];
    let told = said.lines().filter(|line| words.iter().any(|word| line.starts_with(word)));
    let told: Vec<String> = told.map(|line| line.split([':', ',']).next().unwrap().to_owned()).collect();
    let expected =
        ["submitted a", "started a on a0", "submitted b", "stopped a", "started b on a0", "finished b", "started a on a0", "finished a"];
    assert_eq!(told, expected, "{said}");
    assert!(said.contains("started b on a0, a1: 0 jobs before it"), "{said}");
    assert!(said.ends_with("the lab is gone\n"), "{said}");
    assert_eq!(labs("test-executor"), Vec::<String>::new());
}

#[test]
fn a_job_that_never_fits_is_named_before_anything_is_built() {
    let output = finish(start(&["live", "two-equal", "--scheduler", "srtf", "--hosts", "1"]));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--hosts: 1; job \"a\" needs 2") && said.lines().count() == 1, "{said}");
}
