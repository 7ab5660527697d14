//! What there is to see: three sheets of rows, each row with what it is sorted by and its details.

use std::cmp::Ordering;

use proto::v1alpha1::{Agent, Apart, Job, Link};
use units::{OneLine, Rate};

use super::super::{agents, exporters::age, jobs, links, millis, or_dash, overview::Overview, score};

/// What a cell is sorted by. Nothing comes last, whichever way round.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Key {
    Number(f64),
    Text(String),
    Nothing,
}

impl Key {
    fn of(number: Option<f64>) -> Self {
        number.map_or(Self::Nothing, Self::Number)
    }

    /// The order of two rows, down the screen.
    pub(super) fn order(&self, other: &Self, descending: bool) -> Ordering {
        let turned = |order: Ordering| if descending { order.reverse() } else { order };
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => turned(a.total_cmp(b)),
            (Self::Text(a), Self::Text(b)) => turned(a.cmp(b)),
            (Self::Nothing, Self::Nothing) => Ordering::Equal,
            (Self::Nothing, _) => Ordering::Greater,
            (_, Self::Nothing) => Ordering::Less,
            (Self::Number(_), Self::Text(_)) => Ordering::Less,
            (Self::Text(_), Self::Number(_)) => Ordering::Greater,
        }
    }
}

/// How bad a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Well,
    Doubtful,
    Bad,
}

/// A line of a sheet.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// Its first cell, by which it is known from one answer to the next.
    pub(super) name: String,
    pub(super) cells: Vec<String>,
    pub(super) keys: Vec<Key>,
    pub(super) mark: Mark,
    /// What else there is to say.
    pub(super) details: Vec<String>,
}

impl Row {
    fn new(cells: Vec<(String, Key)>, mark: Mark, details: Vec<String>) -> Self {
        // Names come from documents and from other machines, and a terminal does what control characters say.
        let (cells, keys): (Vec<String>, Vec<Key>) = cells.into_iter().map(|(cell, key)| (OneLine(cell).to_string(), key)).unzip();
        let details = details.into_iter().map(|line| OneLine(line).to_string()).collect();
        Self { name: cells.first().cloned().unwrap_or_default(), cells, keys, mark, details }
    }

    /// Whether a text is in it, whatever its capitals.
    pub(super) fn contains(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        self.cells.iter().any(|cell| cell.to_lowercase().contains(&text))
    }
}

/// A table that can be sorted.
#[derive(Debug)]
pub(super) struct Sheet {
    pub(super) title: &'static str,
    pub(super) headings: &'static [&'static str],
    /// The column by which the worst comes first, and whether it falls.
    pub(super) worst: (usize, bool),
    pub(super) rows: Vec<Row>,
}

/// Scores below which a link is coloured: the time above capacity costs iterations from there on (docs/limits.md, Scores).
const DOUBTFUL_SCORE: f64 = 0.95;
const BAD_SCORE: f64 = 0.8;
/// How much longer than alone an iteration is where its job is coloured.
const DOUBTFUL_SLOWER: f64 = 1.1;
const BAD_SLOWER: f64 = 1.3;

/// The sheets of one answer.
pub(super) fn sheets(now: &Overview) -> [Sheet; 3] {
    [
        Sheet {
            title: "Links",
            headings: &["LINK", "CAPACITY", "SCORE", "UNSHIFTED", "PEAK", "OBSERVED", "MORE", "JOBS"],
            worst: (2, false),
            rows: now.links.links.iter().map(|link| of_link(link, now)).collect(),
        },
        Sheet {
            title: "Jobs",
            headings: &["JOB", "STATE", "ITERATION", "ALONE", "LONGER", "WAITS", "SLIPS", "LINKS"],
            worst: (4, true),
            rows: now.jobs.jobs.iter().map(|job| of_job(job, now)).collect(),
        },
        Sheet {
            title: "Agents",
            headings: &["HOST", "STATE", "VERSION", "PLAN", "CLOCK BOUND", "RTT", "JOBS"],
            worst: (1, true),
            rows: now.agents.iter().map(of_agent).collect(),
        },
    ]
}

fn text(value: &str) -> (String, Key) {
    (value.to_owned(), Key::Text(value.to_lowercase()))
}

fn number(value: Option<f64>, show: impl FnOnce(f64) -> String) -> (String, Key) {
    (or_dash(value, show), Key::of(value))
}

fn time(ns: Option<u64>) -> (String, Key) {
    (or_dash(ns, millis), Key::of(ns.map(|ns| ns as f64)))
}

fn of_link(link: &Link, now: &Overview) -> Row {
    let mark = match link.score {
        // Whatever shifts would do.
        _ if link.apart() == Apart::Turns => Mark::Well,
        Some(score) if score < BAD_SCORE => Mark::Bad,
        Some(score) if score < DOUBTFUL_SCORE => Mark::Doubtful,
        _ => Mark::Well,
    };
    let of = |name: &String| {
        let job = now.jobs.jobs.iter().find(|job| job.id == *name)?;
        Some(format!("{name}: {}, iteration {}, alone {}", jobs::state(job.state()), jobs::iteration(job), millis(job.solo_period_ns)))
    };
    let mut details = vec![format!("from {} (tier {}) to {} (tier {})", link.from_node, link.from_tier, link.to_node, link.to_tier)];
    details.extend(link.observed_age_ms.map(|ms| {
        let (observed, planned) = (links::observed(link), links::percent(link.mean_demand_ratio));
        format!("a switch counted {observed} {}, planned {planned}", age(ms))
    }));
    details.extend(link.jobs.iter().filter_map(of));
    let cells = vec![
        text(&link.id),
        (Rate(link.capacity_mbps).to_string(), Key::Number(link.capacity_mbps as f64)),
        (links::standing(link), Key::of(link.score)),
        number(link.zero_shift_score, score),
        number(Some(link.peak_demand_ratio), links::percent),
        (links::observed(link), Key::of(link.observed_ratio)),
        number(link.observed_excess_ratio, links::more),
        (link.jobs.join(", "), Key::Number(link.jobs.len() as f64)),
    ];
    Row::new(cells, mark, details)
}

fn of_job(job: &Job, now: &Overview) -> Row {
    let turn = now.turn(&job.id);
    let iteration = jobs::measured(job).map(|(ns, _)| ns as f64);
    let longer = iteration.map(|ns| ns / job.solo_period_ns.max(1) as f64);
    let waits = turn.and_then(|turn| turn.held.as_ref()).map(|held| held.mean_wait_ns as f64 / held.mean_ns.max(1) as f64);
    let is_wrong = job.period_mismatch_ns.is_some() || !job.hold_ended.is_empty();
    let mark = match longer {
        _ if is_wrong => Mark::Bad,
        Some(longer) if longer > BAD_SLOWER => Mark::Bad,
        Some(longer) if longer > DOUBTFUL_SLOWER => Mark::Doubtful,
        _ => Mark::Well,
    };
    let mut details = vec![format!("on {}", job.hosts.join(", ")), format!("shares {}", or_none(&job.shared_links))];
    if let Some(slot) = &job.slot {
        let way = if slot.turns {
            "takes turns"
        } else if slot.hold {
            "keeps to slots"
        } else {
            "runs as it comes"
        };
        details.push(format!(
            "{way}; rank 0 on {}; scheduled every {}, slack {}",
            slot.leader_host,
            millis(slot.period_ns),
            millis(slot.slack_ns)
        ));
    }
    if let Some(turn) = turn {
        let times = |times: &Option<proto::v1alpha1::TurnTimes>| {
            or_dash(times.as_ref(), |t| format!("{} (p99 {})", millis(t.mean_ns), millis(t.p99_ns)))
        };
        details.push(format!("by turns {}, free {}; waits for {}", times(&turn.held), times(&turn.free), or_none(&turn.waits_for)));
    }
    if let (Some(free), Some(turns)) = (job.predicted_free_ns, job.predicted_turns_ns) {
        details.push(format!("predicted {} as it comes, {} by turns", millis(free), millis(turns)));
    }
    details.extend(job.period_mismatch_ns.map(|ns| format!("repeats every {}: its profile is wrong", millis(ns))));
    details.extend(jobs::congestion(job));
    details.extend(Some(&job.hold_ended).filter(|why| !why.is_empty()).map(|why| format!("not held any more: {why}")));
    let cells = vec![
        text(&job.id),
        text(jobs::state(job.state())),
        (jobs::iteration(job), Key::of(iteration)),
        time(Some(job.solo_period_ns)),
        number(longer, |longer| format!("{longer:.2}x")),
        number(waits, links::percent),
        number(job.slips.map(|n| n as f64), |n| format!("{n:.0}")),
        number(Some(job.shared_links.len() as f64), |n| format!("{n:.0}")),
    ];
    Row::new(cells, mark, details)
}

fn of_agent(agent: &Agent) -> Row {
    let badness = agents::badness(agent);
    let mark = match badness {
        0 => Mark::Well,
        1 => Mark::Doubtful,
        _ => Mark::Bad,
    };
    let mut details = vec![format!("ports {}", or_none(&agent.ports)), format!("leads {}", or_none(&agent.jobs))];
    details.extend(Some(agent.trouble.clone()).filter(|trouble| !trouble.is_empty()));
    let cells = vec![
        text(&agent.host),
        (agents::standing(agent).to_owned(), Key::Number(f64::from(badness))),
        text(&agent.version),
        (agent.plan_version.to_string(), Key::Number(agent.plan_version as f64)),
        time(agent.clock_bound_ns),
        time(agent.clock_rtt_ns),
        (agent.jobs.join(", "), Key::Number(agent.jobs.len() as f64)),
    ];
    Row::new(cells, mark, details)
}

fn or_none(names: &[String]) -> String {
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::{super::super::overview::tests::overview, *};

    #[test]
    fn what_is_not_known_comes_last_both_ways() {
        let mut keys = [Key::Nothing, Key::Number(2.0), Key::Number(1.0)];
        for (descending, first) in [(false, 1.0), (true, 2.0)] {
            keys.sort_by(|a, b| a.order(b, descending));
            assert_eq!((&keys[0], &keys[2]), (&Key::Number(first), &Key::Nothing));
        }
    }

    /// Job b has a long tail, so its median says that all is well; the agent of job a tells a median alone, which is called that.
    #[test]
    fn how_much_longer_a_job_takes_is_of_means() {
        let mut now = overview();
        let [b, a] = now.jobs.jobs.as_mut_slice() else { panic!("two jobs") };
        (b.solo_period_ns, b.iteration_ns, b.iteration_mean_ns) = (340_000_000, Some(340_000_000), Some(447_000_000));
        (a.iteration_ns, a.iteration_mean_ns) = (Some(105_000_000), None);
        let [_, jobs, _] = sheets(&now);
        let shown = |row: &Row| [row.cells[2].clone(), row.cells[4].clone()];
        assert_eq!(jobs.rows.iter().map(shown).collect::<Vec<_>>(), [["447.000 ms", "1.31x"], ["105.000 ms median", "1.05x"]]);
        assert_eq!(jobs.rows[0].mark, Mark::Bad);
    }

    #[test]
    fn rows_say_what_is_bad_and_hold_no_control_characters() {
        let mut now = overview();
        now.links.links[0].id = "a\u{1b}[2J".into();
        let [links, jobs, agents] = sheets(&now);
        assert_eq!(links.rows[0].cells[0], "a\\u{1b}[2J");
        assert_eq!(links.rows.iter().map(|row| row.mark).collect::<Vec<_>>(), [Mark::Bad, Mark::Doubtful, Mark::Well]);
        // Job b is 1.12 of alone, job a 1.50 and its profile is wrong.
        assert_eq!(jobs.rows.iter().map(|row| row.mark).collect::<Vec<_>>(), [Mark::Doubtful, Mark::Bad]);
        assert!(jobs.rows[1].details.iter().any(|line| line == "repeats every 130.000 ms: its profile is wrong"));
        assert_eq!(agents.rows.iter().map(|row| row.mark).collect::<Vec<_>>(), [Mark::Well, Mark::Bad]);
        for sheet in [links, jobs, agents] {
            assert!(sheet.rows.iter().all(|row| row.cells.len() == sheet.headings.len() && row.keys.len() == sheet.headings.len()));
        }
    }
}
