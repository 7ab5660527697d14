//! A profile for people: what it is, its phases, a strip of one iteration.

use profile::{Profile, Scope};

use super::strip;
use crate::table::Table;

/// Most phases listed; the rest is counted, and `-o json` has them all.
const PHASES_LISTED: usize = 24;

pub(super) fn text(profile: &Profile) -> String {
    let mut text = Table::new(&["", ""]).with_rows(facts(profile)).render();
    text.push('\n');
    text.push_str(&phases(profile));
    match profile.levels() {
        Ok(levels) => text.push_str(&format!("\n{}", strip::draw(&levels, profile.period()))),
        Err(e) => text.push_str(&format!("\nno picture: {e}\n")),
    }
    text
}

fn facts(p: &Profile) -> Vec<[String; 2]> {
    let d = p.dims();
    let plural = |n: usize| if n == 1 { "" } else { "s" };
    let model = if p.model().is_empty() { "model not stated" } else { p.model() };
    let mut facts = vec![
        ["profile".into(), format!("{} ({model})", p.name())],
        ["source".into(), format!("{}, confidence {:.2}, {} iterations seen", p.source(), p.confidence(), p.iterations())],
        ["period".into(), format!("{}, standard deviation {:.1} %", p.period(), p.variance() * 100.0)],
        [
            "ranks".into(),
            format!("{} = tp {} x cp {} x pp {} x dp {}, ep {}, {} per host", d.ranks(), d.tp, d.cp, d.pp, d.dp, d.ep, d.gpus_per_host),
        ],
        ["up".into(), format!("{:.1} % of the period, {} phase{}", p.duty() * 100.0, p.phases().len(), plural(p.phases().len()))],
        ["sent".into(), format!("{} per iteration by the busiest NIC", p.bytes_per_iteration())],
    ];
    if let Some(at) = p.collected_at() {
        facts.push(["collected".into(), at.into()]);
    }
    facts
}

fn phases(p: &Profile) -> String {
    let rows = p.phases().iter().take(PHASES_LISTED).map(|x| {
        let sent = x.bytes().to_string();
        [x.start.to_string(), x.duration.to_string(), x.rate.to_string(), sent, x.collective.to_string(), x.scope.to_string()]
    });
    let mut text = Table::new(&[">START", ">DURATION", ">RATE", ">SENT", "COLLECTIVE", "SCOPE"]).with_rows(rows).render();
    if p.phases().len() > PHASES_LISTED {
        text.push_str(&format!("and {} more; -o json lists them all\n", p.phases().len() - PHASES_LISTED));
    }
    let scopes: Vec<Scope> = Scope::ALL.into_iter().filter(|s| p.phases().iter().any(|x| x.scope == *s)).collect();
    if scopes.len() > 1 {
        text.push_str("\nThe picture adds the scopes up, as on a NIC that takes part in all of them.\n");
    }
    for (scope, direction) in scopes.iter().filter_map(|s| Some((s, p.unsent_direction(*s)?))) {
        text.push_str(&format!("\nThe picture leaves {direction} ({scope}) out: between two hosts no NIC sends both directions.\n"));
    }
    text
}
