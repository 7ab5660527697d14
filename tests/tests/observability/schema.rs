//! The dashboards against the schema that Grafana publishes, as classes of Python (grafana-foundation-sdk): what these classes do not
//! know, or have another type for, does not fit. `make setup` fetches the oldest and the newest version of them that we hold against.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use antiphase_tests::checkout;
use serde_json::{Value, json};

use crate::grafana::dashboards;

/// Versions of Grafana whose schema is held against the dashboards: the ones that scripts/setup.sh fetches.
const VERSIONS: [&str; 2] = ["10.4.0", "11.6.0"];

/// The classes of each version; `None`, and a line that says so, where they are not here.
fn schemas() -> Option<Vec<PathBuf>> {
    // Classes of enumerations of text came with this version.
    let python = Command::new("python3").args(["-c", "import sys; sys.exit(sys.version_info < (3, 11))"]).status();
    if !python.is_ok_and(|status| status.success()) {
        println!("skipped: there is no python3 of 3.11 or newer, so the dashboards were not held against Grafana's schema");
        return None;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../grafana");
    let wheels: Vec<PathBuf> = VERSIONS.iter().map(|version| folder.join(format!("{version}.whl"))).collect();
    let missing = wheels.iter().zip(VERSIONS).find(|(wheel, _)| !wheel.is_file());
    if let Some((_, version)) = missing {
        println!(
            "skipped: Grafana's schema of {version} is not there (grafana/{version}.whl among what is built); `make setup` fetches it"
        );
        return None;
    }
    Some(wheels)
}

/// What does not fit, a line each. Panics where the program itself fails.
fn findings(schema: &Path, dashboards: &[PathBuf]) -> String {
    let script = checkout().join("integrations/grafana/tests/schema.py");
    let output = Command::new("python3").arg("-B").arg(script).arg(schema).args(dashboards).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    match output.status.code() {
        Some(0) => {
            assert_eq!(said, format!("{} dashboards fit\n", dashboards.len()));
            String::new()
        }
        Some(1) if output.stderr.is_empty() => said,
        _ => panic!("{said}{}", String::from_utf8_lossy(&output.stderr)),
    }
}

#[test]
fn dashboards_fit_the_schema_that_grafana_publishes() {
    let Some(schemas) = schemas() else { return };
    let folder = checkout().join("integrations/grafana");
    let files: Vec<PathBuf> = dashboards().iter().map(|(name, _)| folder.join(format!("{name}.json"))).collect();
    for schema in schemas {
        assert_eq!(findings(&schema, &files), "", "{}", schema.display());
    }
}

#[test]
fn what_the_schema_of_grafana_does_not_have_is_found() {
    let Some(schemas) = schemas() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (_, good) = dashboards().into_iter().find(|(name, _)| name == "antiphase-fabric").unwrap();
    let line = good["panels"].as_array().unwrap().iter().position(|panel| panel["type"] == "timeseries").unwrap();
    let lines = format!("/panels/{line}");
    let over =
        |id: &str, value: Value| json!([{ "matcher": { "id": "byName", "options": "x" }, "properties": [{ "id": id, "value": value }] }]);
    // Where a value is put, the value, and what is said of it.
    let wrong: [(String, Value, &str); 14] = [
        ("/schemaVersion".into(), json!("39"), "schema_version: \"39\" is no int"),
        ("/graphTooltip".into(), json!(3), "graph_tooltip: 3 is none of 0, 1, 2"),
        ("/templating/list/0/definition".into(), json!("x"), "list[0].definition: the schema has no such key"),
        ("/templating/list/0/hide".into(), json!("no"), "hide: \"no\" is none of"),
        (format!("{lines}/gridPos/x"), json!("0"), "x: \"0\" is no int"),
        (format!("{lines}/gridPos/left"), json!(0), "left: the schema has no such key"),
        (format!("{lines}/type"), json!("graph2"), "there is no panel of type 'graph2'"),
        (format!("{lines}/options/legend/placement"), json!("left"), "placement: \"left\" is none of bottom, right"),
        (format!("{lines}/options/legends"), json!({}), "legends: the schema has no such key"),
        (format!("{lines}/fieldConfig/defaults/custom/lineWidth"), json!(true), "true is no float"),
        (format!("{lines}/targets/0/expression"), json!("up"), "expression: the schema has no such key"),
        (format!("{lines}/targets/0/format"), json!("tables"), "\"tables\" is none of time_series, table, heatmap"),
        (
            format!("{lines}/fieldConfig/overrides"),
            over("custom.lineWith", json!(1)),
            "custom.lineWith.lineWith: the schema has no such key",
        ),
        (format!("{lines}/fieldConfig/overrides"), over("unit", json!(5)), "override unit.unit: 5 is no str"),
    ];
    let files: Vec<PathBuf> = wrong
        .iter()
        .enumerate()
        .map(|(number, (place, value, _))| {
            let mut dashboard = good.clone();
            let (inside, key) = place.rsplit_once('/').unwrap();
            dashboard.pointer_mut(inside).unwrap_or_else(|| panic!("nothing at {place}"))[key] = value.clone();
            let file = folder.path().join(format!("wrong-{number}.json"));
            fs::write(&file, dashboard.to_string()).unwrap();
            file
        })
        .collect();
    for schema in schemas {
        let said = findings(&schema, &files);
        for (number, (place, _, words)) in wrong.iter().enumerate() {
            let found = said.lines().any(|line| line.starts_with(&format!("wrong-{number}.")) && line.contains(words));
            assert!(found, "{place}: nothing says {words:?} in {said}");
        }
    }
}
