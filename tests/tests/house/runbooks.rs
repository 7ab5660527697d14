//! Rule: every alert has a section in docs/runbooks.md, and leads to it, a rule test, and no section is without an alert.

use crate::tree::{Finding, expect_none, expect_one, read};

const ALERTS: &str = "integrations/prometheus/antiphase-alerts.yaml";
const TESTS: &str = "integrations/prometheus/antiphase-tests.yaml";
const RUNBOOKS: &str = "docs/runbooks.md";

/// Names in `text` that stand behind `key`, up to the end of the word.
fn behind(text: &str, key: &str) -> Vec<String> {
    let word = |rest: &str| rest.chars().take_while(char::is_ascii_alphanumeric).collect();
    text.split(key).skip(1).map(word).collect()
}

fn findings(alerts: &str, tests: &str, runbooks: &str) -> Vec<Finding> {
    let names = behind(alerts, "- alert: ");
    let sections = behind(runbooks, "\n## Antiphase").into_iter().map(|rest| format!("Antiphase{rest}")).collect::<Vec<_>>();
    let mut found = Vec::new();
    for name in &names {
        if !sections.contains(name) {
            found.push(Finding::new(ALERTS, format!("{name} has no section in {RUNBOOKS}; write what it means and what to do")));
        }
        let link = format!("runbook: {RUNBOOKS}#{}}}", name.to_lowercase());
        if !alerts.contains(&link) {
            found.push(Finding::new(ALERTS, format!("{name} does not lead to its section; add {link}")));
        }
        if !tests.contains(&format!("alertname=\"{name}\"")) {
            found.push(Finding::new(ALERTS, format!("{name} fires in no test of {TESTS}; add a case")));
        }
    }
    let stale = sections.iter().filter(|section| !names.contains(section));
    found.extend(stale.map(|section| Finding::new(RUNBOOKS, format!("{section} is no alert of {ALERTS}; remove the section"))));
    found
}

#[test]
fn every_alert_has_a_section_and_a_test() {
    let alerts = read(ALERTS);
    assert!(behind(&alerts, "- alert: ").len() >= 20, "the alerts were not understood");
    expect_none(&findings(&alerts, &read(TESTS), &read(RUNBOOKS)));
}

#[test]
fn an_alert_without_section_link_or_test_is_found() {
    let alerts = "- alert: AntiphaseA\n  annotations: {runbook: docs/runbooks.md#antiphasea}\n";
    expect_none(&findings(alerts, "alertname=\"AntiphaseA\"", "\n## AntiphaseA\n"));
    expect_one(&findings(alerts, "alertname=\"AntiphaseA\"", "\n## Install\n"), "has no section");
    expect_one(&findings(alerts, "", "\n## AntiphaseA\n"), "fires in no test");
    expect_one(&findings("- alert: AntiphaseA\n", "alertname=\"AntiphaseA\"", "\n## AntiphaseA\n"), "does not lead");
    expect_one(&findings(alerts, "alertname=\"AntiphaseA\"", "\n## AntiphaseA\n\n## AntiphaseB\n"), "AntiphaseB is no alert");
}
