//! The dashboards as Grafana documents them ("Dashboard JSON model", schema version 39): what no schema says. The schema that Grafana
//! publishes is held against them in `schema.rs`. Grafana itself is in no Debian package, so none has loaded them here.

use std::{collections::BTreeSet, fs};

use antiphase_tests::checkout;
use serde_json::Value;

/// A query of a panel, with the variables of the dashboard filled in.
pub(crate) struct Query {
    /// Dashboard and panel.
    pub(crate) of: String,
    /// PromQL.
    pub(crate) expr: String,
}

/// All dashboards, by their file.
pub(crate) fn dashboards() -> Vec<(String, Value)> {
    let folder = fs::read_dir(checkout().join("integrations/grafana")).unwrap();
    let files = folder.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|end| end == "json"));
    let mut found: Vec<_> = files
        .map(|path| {
            let text = fs::read_to_string(&path).unwrap();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name.clone(), serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}")))
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(found.len() >= 4, "the dashboards were not found");
    found
}

fn panels(dashboard: &Value) -> &Vec<Value> {
    dashboard["panels"].as_array().unwrap()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("{key} is no text in {value}"))
}

/// The variables of a dashboard.
fn variables(dashboard: &Value) -> Vec<String> {
    dashboard["templating"]["list"].as_array().unwrap().iter().map(|one| text(one, "name").to_owned()).collect()
}

/// Every query of every panel, and of every variable.
pub(crate) fn queries() -> Vec<Query> {
    let mut found = Vec::new();
    for (name, dashboard) in dashboards() {
        let fill = |expr: &str| {
            let named = variables(&dashboard).iter().fold(expr.to_owned(), |expr, name| expr.replace(&format!("${name}"), ".*"));
            named.replace("$__rate_interval", "15s")
        };
        for panel in panels(&dashboard) {
            for target in panel["targets"].as_array().into_iter().flatten() {
                found.push(Query { of: format!("{name}: {}", text(panel, "title")), expr: fill(text(target, "expr")) });
            }
        }
        for one in dashboard["templating"]["list"].as_array().unwrap().iter().filter(|one| one["type"] == "query") {
            // label_values(METRIC, LABEL): the metric has to be there with the label.
            let inside = text(&one["query"], "query").strip_prefix("label_values(").unwrap().strip_suffix(')').unwrap();
            let (metric, label) = inside.split_once(", ").unwrap();
            found.push(Query { of: format!("{name}: ${}", text(one, "name")), expr: format!("{metric}{{{label}!=\"\"}}") });
        }
    }
    found
}

/// What is wrong with a dashboard.
fn findings(name: &str, dashboard: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut expect = |holds: bool, what: String| {
        if !holds {
            found.push(format!("{name}: {what}"));
        }
    };
    expect(text(dashboard, "uid") == name, "the uid is not the name of the file".into());
    expect(name.len() <= 40, "Grafana takes uids of 40 characters".into());
    expect(dashboard["schemaVersion"] == 39, "schemaVersion is not 39".into());
    for key in ["title", "description", "refresh", "timezone"] {
        expect(dashboard[key].is_string(), format!("{key} is no text"));
    }
    expect(dashboard["time"]["from"].is_string() && dashboard["time"]["to"].is_string(), "time has no from and to".into());
    let variables = variables(dashboard);
    expect(variables.first().is_some_and(|name| name == "datasource"), "the first variable is not the data source".into());
    let mut ids = BTreeSet::new();
    let mut taken = BTreeSet::new();
    for panel in panels(dashboard) {
        let title = text(panel, "title");
        expect(ids.insert(panel["id"].as_u64()), format!("{title}: an id twice"));
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().unwrap_or(u64::MAX));
        expect(x.saturating_add(w) <= 24 && w > 0 && (1..50).contains(&h), format!("{title}: gridPos is not within 24 columns"));
        // Cells are counted only where they are few.
        let cells = (y..y.saturating_add(h.min(50))).flat_map(|row| (x..x.saturating_add(w.min(24))).map(move |column| (row, column)));
        let overlaps = cells.filter(|cell| !taken.insert(*cell)).count();
        expect(overlaps == 0, format!("{title}: stands on another panel"));
        let kind = text(panel, "type");
        expect(["row", "text", "stat", "table", "timeseries"].contains(&kind), format!("{title}: no panel of type {kind}"));
        if matches!(kind, "row" | "text") {
            continue;
        }
        expect(panel["description"].as_str().is_some_and(|text| !text.is_empty()), format!("{title}: says not what to look for"));
        expect(panel["fieldConfig"]["defaults"]["unit"].is_string(), format!("{title}: has no unit"));
        expect(panel["fieldConfig"]["overrides"].is_array() && panel["options"].is_object(), format!("{title}: no overrides or options"));
        let targets = panel["targets"].as_array().unwrap();
        let references: BTreeSet<&str> = targets.iter().map(|target| text(target, "refId")).collect();
        expect(!targets.is_empty() && references.len() == targets.len(), format!("{title}: refIds are not one each"));
        for target in targets {
            let ours = target["datasource"]["type"] == "prometheus" && target["datasource"]["uid"] == "${datasource}";
            expect(ours, format!("{title}: a query has another data source than the variable"));
            let mut rest = text(target, "expr");
            while let Some((_, after)) = rest.split_once('$') {
                let name: String = after.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
                // A number is a group of a regular expression, as label_replace has them.
                let is_group = !name.is_empty() && name.chars().all(|c| c.is_ascii_digit());
                expect(
                    is_group || name == "__rate_interval" || variables.contains(&name),
                    format!("{title}: there is no variable ${name}"),
                );
                rest = after;
            }
        }
    }
    found
}

#[test]
fn dashboards_have_the_fields_that_grafana_reads() {
    let found: Vec<String> = dashboards().iter().flat_map(|(name, dashboard)| findings(name, dashboard)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_dashboard_that_grafana_would_not_show_is_found() {
    let (name, good) = dashboards().swap_remove(0);
    let with = |change: fn(&mut Value)| {
        let mut dashboard = good.clone();
        change(&mut dashboard);
        findings(&name, &dashboard).join("\n")
    };
    assert_eq!(with(|_| {}), "");
    assert!(with(|d| d["uid"] = "x".into()).contains("not the name of the file"));
    assert!(with(|d| d["panels"][1]["gridPos"]["x"] = 23.into()).contains("not within 24 columns"));
    assert!(with(|d| d["panels"][2]["gridPos"] = d["panels"][1]["gridPos"].clone()).contains("stands on another"));
    assert!(with(|d| d["panels"][2]["id"] = d["panels"][1]["id"].clone()).contains("an id twice"));
    assert!(with(|d| d["panels"][1]["type"] = "graph".into()).contains("no panel of type graph"));
    assert!(with(|d| d["panels"][1]["targets"][0]["expr"] = "up{job=\"$moon\"}".into()).contains("no variable $moon"));
    assert!(with(|d| d["panels"][1]["targets"][0]["datasource"]["uid"] = "x".into()).contains("another data source"));
}
