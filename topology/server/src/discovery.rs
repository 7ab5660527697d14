//! What agents see of the cabling by LLDP, beside the fabric; and the fabric itself, where nobody gives one.
//!
//! Each agent tells the other ends of its host's cables. A task puts them together from time to time ([`fabric::import::lldp`] joins them,
//! [`fabric::diff::observe`] compares), says what differs as events, and keeps the answer for reads. LLDP is not signed, so nothing changes
//! by that. Only where the configuration says `discovery = "grow"` a service without a fabric takes what was seen, under the name
//! [`OBSERVED_NAME`], and adds to it what is seen later. A fabric that anybody else has set, whatever its name, is never changed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use fabric::{
    Fabric, FabricBuilder, FabricError, Finding, NodeKind,
    diff::{OBSERVED_NAME, observe},
    import::{BuildOptions, NAME_BYTES_MAX, lldp},
    native::write_yaml,
};
use futures_util::future::BoxFuture;
use proto::v1alpha1::{self as pb, Neighbour, Neighbours};
use state::{Notice, NoticeKind, Severity};
use tokio::sync::watch;
use units::Rate;

use crate::{
    config::{Config, Discovery as Mode},
    controller::{ControllerHandle, FabricView, Stopped, Surroundings},
    quic,
    tls::Subject,
};

/// How often the task looks whether something changed.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// A comparison may take this share of the time, 1 of so many: one agent that tells something else all the time must not keep a core busy.
const SHARE_OF_TIME: u32 = 5;
/// How long what was seen has to stay as it is before a fabric is made of it: agents that start together tell within seconds.
const SETTLED: Duration = Duration::from_secs(4);
/// A fabric is made of what was seen no more often than this, also after one that was refused: each one plans all jobs anew.
const GROW_EVERY: Duration = Duration::from_secs(60);
/// Ports that one host may have in a fabric that grows: as many as an agent reads. A host that would have more is left out, whether it tells
/// of them at once or of other ones each time.
const GROW_PORTS_MAX: usize = 256;
/// Entries of the trail of changes that are looked at for who set the fabric; one that was set longer ago is nobody's to change.
const TRAIL: usize = state::AUDIT_MAX;
/// Tables that were not told again are forgotten after this; agents tell theirs every ten minutes.
const TABLE_AGE_MAX: Duration = Duration::from_secs(3_600);
/// Neighbours taken of one host: it has at most 256 ports, and each cable one system at its end.
const OF_HOST_MAX: usize = 1_024;
/// Hosts whose tables are held: as many as can have a session. Their names take memory too, also of a host without neighbours.
const HOSTS_MAX: usize = quic::SESSIONS_MAX;
/// Neighbours held: two ends of as many cables as the largest fabric has, in some 100 MiB.
const HELD_MAX: usize = 400_000;
/// Differences and findings of one answer.
const ANSWER_MAX: usize = 1_000;
/// Events of one look: more differences at once are a fabric that was replaced, and one event counts them.
const EVENTS_MAX: usize = 20;
/// The owner of these events in the ring, so that cables fill one part only.
const EVENTS_OF: &str = "lldp";
/// Findings that say nothing here: most cables have one end without an agent, and parts, kinds and capacities show in the fabric itself.
const EXPECTED: [&str; 5] = ["one-sided-link", "no-neighbours", "disconnected", "unknown-capacity", "no-hosts"];

/// What the agent of a host sees.
type Table = (String, Arc<Neighbours>);

/// Takes what agents see, and answers reads. Cloning it shares it.
#[derive(Clone, Debug, Default)]
pub struct Discovery(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    tables: Mutex<Tables>,
    found: Mutex<Arc<Found>>,
}

#[derive(Debug, Default)]
struct Tables {
    by_host: BTreeMap<String, (Arc<Neighbours>, Instant)>,
    neighbours: usize,
    /// Counts changes.
    revision: u64,
}

/// What was found last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Version of the fabric that it was compared with.
    pub fabric_version: u64,
    /// Systems that told what they see.
    pub systems: usize,
    /// Cables that were seen.
    pub seen: usize,
    /// Cables of the fabric among them.
    pub confirmed: usize,
    /// Cables of the fabric that nobody could have seen.
    pub unseen: usize,
    /// Kind and place of each difference.
    pub differences: Vec<(&'static str, String)>,
    /// What was odd.
    pub findings: Vec<String>,
    /// The fabric with what was seen.
    merged: Arc<str>,
    /// The fabric to set, if `discovery = "grow"` applies and it differs from the one in force.
    grown: Option<Arc<str>>,
}

impl Found {
    /// The answer to a client, with the document or without.
    #[must_use]
    pub fn answer(&self, whole: bool) -> pb::GetObservedResponse {
        let difference = |(kind, place): &(&'static str, String)| pb::Difference { kind: (*kind).into(), place: place.clone() };
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        pb::GetObservedResponse {
            fabric: if whole { self.merged.as_ref().to_owned() } else { String::new() },
            fabric_version: self.fabric_version,
            systems: count(self.systems),
            seen: count(self.seen),
            confirmed: count(self.confirmed),
            unseen: count(self.unseen),
            differences: self.differences.iter().take(ANSWER_MAX).map(difference).collect(),
            total: count(self.differences.len()),
            findings: self.findings.iter().take(ANSWER_MAX).cloned().collect(),
        }
    }
}

impl Discovery {
    /// Takes the table of a host's agent in place of the one before. What no agent would tell is left out.
    pub fn take(&self, host: &str, mut told: Neighbours) {
        let is_name = |text: &str| text.len() <= NAME_BYTES_MAX;
        let fits = |n: &Neighbour| {
            let optional = [n.chassis_id.as_deref(), n.description.as_deref()];
            [&n.port, &n.chassis, &n.remote_port].into_iter().all(|text| is_name(text)) && optional.into_iter().flatten().all(is_name)
        };
        told.neighbours.retain(fits);
        told.neighbours.truncate(OF_HOST_MAX);
        let mut tables = self.tables();
        let before = tables.by_host.get(host).map_or(0, |(held, _)| held.neighbours.len());
        let held = tables.neighbours - before + told.neighbours.len();
        if held > HELD_MAX {
            tracing::warn!(host, held, "LLDP: more neighbours than are held ({HELD_MAX}); the host's table stays as it was");
            return;
        }
        if tables.by_host.len() >= HOSTS_MAX && !tables.by_host.contains_key(host) {
            tracing::warn!(host, "LLDP: tables of {HOSTS_MAX} hosts are held already; this host's is not");
            return;
        }
        tables.neighbours = held;
        let now = Instant::now();
        match tables.by_host.get_mut(host) {
            // Told again: it is as good as new, and nothing changed.
            Some((held, at)) if **held == told => *at = now,
            _ => {
                tables.by_host.insert(host.into(), (Arc::new(told), now));
                tables.revision += 1;
            }
        }
    }

    /// What was found last.
    #[must_use]
    pub fn found(&self) -> Arc<Found> {
        Arc::clone(&self.0.found.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.0.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks, until it is stopped.
    pub async fn run(self, config: watch::Receiver<Arc<Config>>, set: SetFabric, controller: ControllerHandle, around: Surroundings) {
        let (mut looked, mut changed) = (None, Instant::now());
        let mut tried = None::<Instant>;
        let mut took = Duration::ZERO;
        loop {
            tokio::time::sleep(LOOK_EVERY.max((SHARE_OF_TIME - 1) * took)).await;
            let mode = config.borrow().discovery;
            let Ok(view) = controller.fabric().await else { return };
            let (tables, revision) = self.look();
            let is_now = Some((mode, revision, view.as_ref().map(|view| view.version)));
            if is_now != looked {
                (looked, changed) = (is_now, Instant::now());
                let Ok(grows) = may_grow(mode, view.as_ref(), &controller).await else { return };
                let tables = if mode == Mode::Off { Vec::new() } else { tables };
                self.compare(view, tables, grows, &around).await;
                took = changed.elapsed();
            }
            let found = self.found();
            let Some(grown) = found.grown.as_ref().filter(|_| changed.elapsed() >= SETTLED) else { continue };
            if tried.is_none_or(|at| at.elapsed() >= GROW_EVERY) {
                tried = Some(Instant::now());
                grow(&set, &found, grown).await;
            }
        }
    }

    /// The tables of now and their revision, without those that are too old.
    fn look(&self) -> (Vec<Table>, u64) {
        let mut tables = self.tables();
        let count = tables.by_host.len();
        tables.by_host.retain(|_, (_, at)| at.elapsed() < TABLE_AGE_MAX);
        if tables.by_host.len() != count {
            tables.revision += 1;
            tables.neighbours = tables.by_host.values().map(|(table, _)| table.neighbours.len()).sum();
        }
        (tables.by_host.iter().map(|(host, (table, _))| (host.clone(), Arc::clone(table))).collect(), tables.revision)
    }

    async fn compare(&self, view: Option<FabricView>, tables: Vec<Table>, grows: bool, around: &Surroundings) {
        // A large fabric takes seconds, which no thread of the runtime has.
        let made = tokio::task::spawn_blocking(move || found(view.as_ref(), &tables, grows)).await;
        let new = match made {
            Ok(Ok(new)) => Arc::new(new),
            Ok(Err(error)) => {
                tracing::warn!(%error, "LLDP: what agents see cannot be put together");
                return self.stay();
            }
            Err(_) => {
                tracing::error!("LLDP: putting together what agents see failed");
                return self.stay();
            }
        };
        let before = std::mem::replace(&mut *self.0.found.lock().unwrap_or_else(PoisonError::into_inner), Arc::clone(&new));
        tell(&before.differences, &new.differences, around);
    }

    /// What was to become of the fabric was made of other tables than those of now.
    fn stay(&self) {
        let mut found = self.0.found.lock().unwrap_or_else(PoisonError::into_inner);
        *found = Arc::new(Found { grown: None, ..(**found).clone() });
    }
}

/// Whether the fabric may be changed by what agents see: none is there, or the last one was made of that.
async fn may_grow(mode: Mode, view: Option<&FabricView>, controller: &ControllerHandle) -> Result<bool, Stopped> {
    if mode != Mode::Grow || view.is_none() {
        return Ok(mode == Mode::Grow);
    }
    let trail = controller.audit(None, TRAIL).await?;
    Ok(trail.iter().rfind(|entry| entry.kind == NoticeKind::Fabric.word()).is_some_and(|entry| entry.by == Subject::discovery().told))
}

/// What the tables say, beside the fabric if there is one.
fn found(view: Option<&FabricView>, tables: &[Table], grows: bool) -> Result<Found, FabricError> {
    let fabric_version = view.map_or(0, |view| view.version);
    if tables.is_empty() {
        return Ok(Found { fabric_version, ..Found::default() });
    }
    let (observed, findings) = joined(tables.iter())?;
    let looked = looked(tables.iter());
    let none = FabricBuilder::new(OBSERVED_NAME).build();
    let fabric: &Fabric = view.map_or(&none, |view| &view.fabric);
    let mut observation = observe(fabric, &observed, &looked)?;
    let merged = write_yaml(&observation.merged);
    let mut findings: Vec<String> = findings.iter().filter(|finding| !EXPECTED.contains(&finding.kind)).map(ToString::to_string).collect();
    let mut grown = None;
    if grows {
        let (larger, left_out) = self::grown(fabric, tables)?;
        let text = write_yaml(&larger);
        // What the fabric has soon is no difference.
        observation = observe(&observation.merged, &observed, &looked)?;
        grown = (text != write_yaml(fabric)).then(|| text.into());
        let say = |host: &String| format!("too many ports: {host} would have more than {GROW_PORTS_MAX}; the fabric does not grow by it");
        findings.extend(left_out.iter().map(say));
    }
    // Where there is no fabric nothing differs from it.
    let differences = if view.is_some() || grows { observation.diff.lines() } else { Vec::new() };
    Ok(Found {
        fabric_version,
        systems: tables.len(),
        seen: observed.links().len().div_ceil(2),
        confirmed: observation.confirmed,
        unseen: observation.unseen,
        differences,
        findings,
        merged: merged.into(),
        grown,
    })
}

/// The fabric with what agents saw that have looked for long enough, and the hosts that are left out because they tell of too many ports.
fn grown(fabric: &Fabric, tables: &[Table]) -> Result<(Fabric, Vec<String>), FabricError> {
    let ports = |host: &str, table: &Neighbours| -> usize {
        let links = fabric.find(host).map_or(&[][..], |id| fabric.links_from(id));
        let there = links.iter().map(|&link| fabric.link(link).from.name.as_str());
        table.neighbours.iter().map(|n| n.port.as_str()).chain(there).collect::<BTreeSet<_>>().len()
    };
    let (taken, too_many): (Vec<_>, Vec<_>) =
        tables.iter().filter(|(_, table)| table.settled).partition(|(host, table)| ports(host, table) <= GROW_PORTS_MAX);
    let left_out = too_many.into_iter().map(|(host, _)| host.clone()).collect();
    if taken.is_empty() {
        return Ok((fabric.clone(), left_out));
    }
    let (observed, _) = joined(taken.iter().copied())?;
    Ok((observe(fabric, &observed, &looked(taken.iter().copied()))?.merged, left_out))
}

fn joined<'t>(tables: impl Iterator<Item = &'t Table>) -> Result<(Fabric, Vec<Finding>), FabricError> {
    let reports = tables.map(|(host, table)| {
        let kind = if table.forwards { NodeKind::Switch { tier: 0 } } else { NodeKind::Host };
        lldp::Report::told(host, Some(kind), table.neighbours.iter().map(neighbour).collect())
    });
    lldp::join(reports.collect::<Result<Vec<_>, _>>()?)?
        .into_fabric(&BuildOptions { name: OBSERVED_NAME.into(), ..BuildOptions::default() })
}

/// Which systems looked, and whether for long enough.
fn looked<'t>(tables: impl Iterator<Item = &'t Table>) -> BTreeMap<&'t str, bool> {
    tables.map(|(host, table)| (host.as_str(), table.settled)).collect()
}

fn neighbour(told: &Neighbour) -> lldp::Neighbour {
    let kind = |forwards| if forwards { NodeKind::Switch { tier: 0 } } else { NodeKind::Host };
    // With a chassis id beside it `chassis` is a name, else the id itself.
    let (name, chassis) = match &told.chassis_id {
        Some(id) => (Some(told.chassis.clone()), Some(id.clone())),
        None => (None, Some(told.chassis.clone())),
    };
    lldp::Neighbour {
        local_port: told.port.clone(),
        name,
        chassis,
        kind: told.forwards.map(kind),
        ports: [Some(&told.remote_port), told.description.as_ref()]
            .into_iter()
            .flatten()
            .filter(|name| !name.is_empty())
            .cloned()
            .collect(),
        description: told.description.clone(),
        capacity: told.rate_mbps.filter(|mbps| *mbps > 0).map(Rate),
    }
}

/// Makes a document the fabric, unless it is another version by now; says which version it then is.
pub(crate) type SetFabric = Box<dyn Fn(String, u64) -> BoxFuture<'static, Result<u64, String>> + Send + Sync>;

/// Makes what was seen the fabric, unless somebody has set another one since it was compared.
async fn grow(set: &SetFabric, found: &Found, grown: &Arc<str>) {
    match set(grown.as_ref().to_owned(), found.fabric_version).await {
        Ok(version) => tracing::info!(version, cables = found.seen, "the fabric is what agents see"),
        Err(error) => tracing::warn!(%error, "the fabric that agents see was not taken"),
    }
}

/// One event for each difference that came or went.
fn tell(before: &[(&'static str, String)], now: &[(&'static str, String)], around: &Surroundings) {
    let (before, now): (BTreeSet<_>, BTreeSet<_>) = (before.iter().collect(), now.iter().collect());
    let say = |severity, message: String| {
        tracing::info!(kind = NoticeKind::Cabling.word(), "{message}");
        around.metrics.notice(NoticeKind::Cabling);
        around.events.push(Notice {
            by: None,
            at: around.clock.now(),
            severity,
            kind: NoticeKind::Cabling,
            message,
            job: None,
            host: None,
            agent: Some(EVENTS_OF.into()),
            plan_version: 0,
            order: None,
        });
    };
    for (severity, word, list) in [
        (Severity::Warning, "", now.difference(&before).collect::<Vec<_>>()),
        (Severity::Info, "no longer: ", before.difference(&now).collect()),
    ] {
        for (kind, place) in list.iter().take(EVENTS_MAX) {
            say(severity, format!("{word}{kind}: {place}"));
        }
        if list.len() > EVENTS_MAX {
            say(severity, format!("{word}{} more differences; antiphase fabric observed shows them", list.len() - EVENTS_MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use fabric::route::{Ecmp, Routing};

    use super::*;

    fn sees(host: &str, settled: bool, ports: usize) -> Table {
        (host.into(), Arc::new(Neighbours { settled, ..sees_on(host, "eth", ports) }))
    }

    /// Cables to one leaf, on ports of that name with a number.
    fn sees_on(host: &str, name: &str, ports: usize) -> Neighbours {
        let neighbour = |n: usize| Neighbour {
            port: format!("{name}{n}"),
            chassis: "leaf1".into(),
            chassis_id: Some("02:00:00:00:00:01".into()),
            remote_port: format!("{host}-{name}{n}"),
            forwards: Some(true),
            rate_mbps: Some(100_000),
            ..Neighbour::default()
        };
        Neighbours { neighbours: (0..ports).map(neighbour).collect(), settled: true, forwards: false }
    }

    fn hosts(text: &str) -> Vec<String> {
        let fabric = fabric::native::read(text).unwrap();
        fabric.hosts().map(|host| fabric.node(host).name.to_string()).collect()
    }

    #[test]
    fn by_default_no_fabric_is_made_of_what_agents_see() {
        assert_eq!(Mode::default(), Mode::Compare);
        let found = found(None, &[sees("h1", true, 1), sees("h2", true, 1)], false).unwrap();
        assert_eq!((found.grown, found.differences, found.seen), (None, Vec::new(), 2));
        assert_eq!(hosts(&found.merged), ["h1", "h2"], "a person may set it");
    }

    #[test]
    fn a_fabric_grows_by_what_has_settled_and_by_no_host_of_too_many_ports() {
        let tables = [sees("h1", true, 1), sees("h2", false, 1), sees("h3", true, GROW_PORTS_MAX), sees("h4", true, GROW_PORTS_MAX + 1)];
        let first = found(None, &tables, true).unwrap();
        assert_eq!(hosts(first.grown.as_ref().unwrap()), ["h1", "h3"]);
        assert!(first.findings.iter().any(|said| said.starts_with("too many ports: h4")), "{:?}", first.findings);
        // What was taken is not taken again.
        let fabric = Arc::new(fabric::native::read(first.grown.as_ref().unwrap()).unwrap());
        let routing = Routing::new(Arc::clone(&fabric), Ecmp::Spread, &[]).unwrap();
        let view = FabricView { version: 1, fabric, routing, text: first.grown.clone().unwrap() };
        assert_eq!(found(Some(&view), &tables[..1], true).unwrap().grown, None);
        // Beside one that may not be changed only differences are said.
        let beside = found(Some(&view), &tables, false).unwrap();
        assert!(beside.grown.is_none() && beside.differences.iter().any(|(_, place)| place.contains("h2")), "{:?}", beside.differences);
    }

    #[test]
    fn one_agent_fills_as_much_memory_as_a_host_has_ports() {
        let discovery = Discovery::default();
        let held = || {
            let tables = discovery.tables();
            (tables.by_host["h1"].0.neighbours.len(), tables.neighbours, tables.by_host.len())
        };
        let (_, many) = sees("h1", true, 2 * OF_HOST_MAX);
        discovery.take("h1", Neighbours::clone(&many));
        assert_eq!(held(), (OF_HOST_MAX, OF_HOST_MAX, 1));
        // Told again and again, each time with other neighbours, its table is still one.
        for n in 0..20 {
            discovery.take("h1", sees_on("h1", &format!("swp{n}-"), 3));
        }
        assert_eq!(held(), (3, 3, 1));
        // A name that is too long is left out, whichever it is.
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        let mut told = sees_on("h1", "eth", 6);
        let [a, b, c, d, e, _] = &mut told.neighbours[..] else { panic!() };
        (a.port, b.chassis, c.remote_port) = (long.clone(), long.clone(), long.clone());
        (d.chassis_id, e.description) = (Some(long.clone()), Some(long));
        discovery.take("h1", told);
        assert_eq!(held(), (1, 1, 1));
    }

    #[test]
    fn all_agents_together_fill_bounded_memory() {
        let discovery = Discovery::default();
        let (_, table) = sees("h", true, OF_HOST_MAX);
        for n in 0..HELD_MAX / OF_HOST_MAX + 10 {
            discovery.take(&format!("h{n}"), Neighbours::clone(&table));
        }
        let held = |discovery: &Discovery| {
            let tables = discovery.tables();
            (tables.by_host.len(), tables.neighbours)
        };
        assert_eq!(held(&discovery), (HELD_MAX / OF_HOST_MAX, HELD_MAX / OF_HOST_MAX * OF_HOST_MAX));
        // A host without neighbours has a name.
        let discovery = Discovery::default();
        for n in 0..HOSTS_MAX + 10 {
            discovery.take(&format!("h{n}"), Neighbours::default());
        }
        assert_eq!(held(&discovery), (HOSTS_MAX, 0));
        discovery.take("h0", sees_on("h0", "eth", 1));
        assert_eq!(held(&discovery), (HOSTS_MAX, 1), "those that are held are told anew");
    }

    #[test]
    fn an_agent_that_tells_of_other_ports_each_time_does_not_let_the_fabric_grow_for_ever() {
        let mut fabric = FabricBuilder::new(OBSERVED_NAME).build();
        for round in 0..40 {
            let mut table = sees_on("h1", "eth", 1);
            table.neighbours.extend(sees_on("h1", &format!("r{round}-"), 20).neighbours);
            // One port is cabled to another system each time.
            table.neighbours.push(Neighbour { port: "eth1".into(), chassis: format!("x{round}"), ..table.neighbours[0].clone() });
            fabric = grown(&fabric, &[("h1".into(), Arc::new(table))]).unwrap().0;
        }
        // Two ports that stay and 12 times 20 others fit; a cable is two links. The nodes are h1, leaf1 and x0.
        assert_eq!((fabric.links().len(), fabric.nodes().len()), (2 * (2 + 12 * 20), 3));
    }

    #[test]
    fn after_an_error_the_fabric_does_not_grow_by_what_was_before() {
        let discovery = Discovery::default();
        let grown = Some("a document".into());
        *discovery.0.found.lock().unwrap() = Arc::new(Found { grown, seen: 3, ..Found::default() });
        discovery.stay();
        assert_eq!((discovery.found().grown.clone(), discovery.found().seen), (None, 3));
    }
}
