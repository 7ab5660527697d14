//! Pictures of what is committed, drawn by the crate `render`.

use std::{collections::BTreeMap, sync::Arc};

use proto::v1alpha1 as pb;
use render::{
    curves::{self, CurveView},
    fabric_map, link,
    palette::{Colours, SLOTS},
    svg::Svg,
    view::{Apart, FabricView, JobView, LinkView, MapLinkView, MemberView, NodeView, PhaseView},
};
use state::turns::Measured;
use units::LinkId;

use super::{Api, ApiError, beside};
use crate::{controller::Snapshot, links::LinkTable, loads::Loads, sflow::Table as Carried, tls::Who};

/// Which colour jobs have for whoever asks: slots of the palette by job, counted from 0.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobColours(BTreeMap<String, usize>);

impl JobColours {
    /// Reads `SLOT:JOB` pairs; slots are counted from 1, as the classes `j1`, `j2` ... of a picture are.
    ///
    /// # Errors
    /// Names the pair that is none.
    pub(crate) fn read(pairs: &[String]) -> Result<Self, ApiError> {
        let read = |pair: &String| {
            let bad = || ApiError::invalid(format!("query: colour={pair:?}; expected SLOT:JOB with a slot of 1 to {SLOTS}"));
            let (slot, job) = pair.split_once(':').ok_or_else(bad)?;
            let slot: usize = slot.parse().ok().filter(|slot| (1..=SLOTS).contains(slot)).ok_or_else(bad)?;
            // The range above begins at 1, so the difference is never below 0.
            Ok((job.to_owned(), slot - 1))
        };
        pairs.iter().map(read).collect::<Result<_, _>>().map(Self)
    }
}

impl Api {
    /// The circles of a link with demand, before and after the committed shifts, as SVG: `alone`, or for a page that has the style
    /// sheet of pictures. Jobs without a colour get the first that is free. `None`: the link carries no job, which is no error,
    /// because its jobs may have been released between two requests.
    ///
    /// # Errors
    /// The service is stopping.
    pub(crate) async fn circles(&self, who: Option<Who>, link: &str, colours: JobColours, alone: bool) -> Result<Option<String>, ApiError> {
        let table = self.0.controller.links().await?;
        // The position is found here and not in the drawing thread: a link that is missing waits for no turn.
        let Some(at) = table.links.iter().position(|l| l.id == *link) else { return Ok(None) };
        let snapshot = self.snapshot().await?;
        // A link of 10,000 jobs takes seconds to draw, which no thread that serves requests may lose (docs/operating.md).
        let drawn = beside(&self.0.drawing, who, move || draw(&table.links[at], &snapshot, &colours)).await?;
        Ok(Some(if alone { drawn.document() } else { drawn.unstyled() }))
    }

    /// The fabric with its links coloured by score, as SVG: `alone`, or for a page that has the style sheet of pictures.
    /// `None`: no fabric is set, or it has no switch of that name.
    ///
    /// # Errors
    /// The service is stopping.
    pub(crate) async fn map(&self, who: Option<Who>, shape: MapShape, alone: bool) -> Result<Option<String>, ApiError> {
        let table = self.0.controller.links().await?;
        let snapshot = self.snapshot().await?;
        if snapshot.fabric.is_none() {
            return Ok(None);
        }
        let (loads, carried) = (self.loads(snapshot.fabric.as_ref()), self.carried(snapshot.fabric.as_ref()));
        let drawn = beside(&self.0.drawing, who, move || {
            let (fabric, jobs) = map_view(&table, &snapshot, &loads, &carried)?;
            let wide = |width: Option<u32>| f64::from(width.unwrap_or(WIDTH_DEFAULT));
            let drawn = match shape {
                MapShape::Links if alone => fabric_map::draw(&fabric, &jobs),
                MapShape::Links => fabric_map::for_page(&fabric, &jobs),
                MapShape::Pods { width } => fabric_map::heat(&fabric, wide(width)),
                MapShape::Switch { name, width } => fabric_map::switch(&fabric, &name, wide(width))?,
            };
            Some(if alone { drawn.document() } else { drawn.unstyled() })
        });
        drawn.await
    }

    /// How long the last iterations of a job took, by turns, free, and as its gate reports, as curves: which share of them at most so long.
    /// `None`: nothing was measured.
    ///
    /// # Errors
    /// The service is stopping.
    pub(crate) async fn iterations(&self, who: Option<Who>, job: &str, alone: bool) -> Result<Option<String>, ApiError> {
        let turns = self.0.controller.look_at_turns()?;
        let of_job = turns.groups.iter().flat_map(|group| &group.jobs).find(|turning| *turning.job == *job);
        let measured = of_job.map(|turning| [("by turns", turning.held), ("free", turning.free)]);
        let asked =
            pb::GetTelemetryRequest { jobs: vec![job.to_owned()], seconds: ITERATION_SECONDS, ..pb::GetTelemetryRequest::default() };
        let told = self.telemetry(&asked).jobs.pop().map(|series| series.iteration_ns).unwrap_or_default();
        let curves: Vec<CurveView> = curves(measured.as_slice().concat(), told);
        if curves.is_empty() {
            return Ok(None);
        }
        let label = format!("Iterations of {job}");
        let drawn =
            beside(&self.0.drawing, who, move || curves::draw(&label, "an iteration, in milliseconds", &curves, span(&curves))).await?;
        Ok(Some(if alone { drawn.document() } else { drawn.unstyled() }))
    }
}

/// Which map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MapShape {
    /// Links between rows of hosts and switches.
    Links,
    /// A cell for each switch, by pods.
    Pods { width: Option<u32> },
    /// One switch and its neighbours.
    Switch { name: String, width: Option<u32> },
}

/// Width of a picture where the caller names none, in pixels: half a common screen.
pub(super) const WIDTH_DEFAULT: u32 = 960;
/// How far back the reports of gates are looked at: as far as they are kept.
const ITERATION_SECONDS: u32 = 600;
/// Room on both sides of what was measured, as a share of it.
const ROOM: f64 = 0.05;

/// A curve for each kind of iterations that there are.
fn curves(measured: Vec<(&str, Measured)>, mut told: Vec<u64>) -> Vec<CurveView> {
    let ms = |ns: u64| ns as f64 / 1e6;
    let exact = measured.into_iter().filter(|(_, times)| times.count > 0).map(|(name, times)| CurveView {
        name: format!("{name} ({} iterations)", times.count),
        percentiles: times.spread.iter().map(|time| ms(time.0)).collect(),
    });
    let mut curves: Vec<CurveView> = exact.collect();
    // One value is no distribution.
    if told.len() > 1 {
        told.sort_unstable();
        let percentiles = (0..=100).filter_map(|percent| told.get((told.len() - 1) * percent / 100)).map(|&ns| ms(ns)).collect();
        curves.push(CurveView { name: format!("medians of {} reports", told.len()), percentiles });
    }
    curves
}

/// From the shortest to the longest, with some room.
fn span(curves: &[CurveView]) -> (f64, f64) {
    let all = || curves.iter().flat_map(|curve| curve.percentiles.iter().copied());
    let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
    (low * (1.0 - ROOM), high * (1.0 + ROOM))
}

/// The fabric and the scores of its links. A link of the table that a newer fabric lacks is left out: the next table has it no more.
fn map_view(table: &LinkTable, snapshot: &Snapshot, loads: &Loads, carried: &Carried) -> Option<(FabricView, Vec<JobView>)> {
    let fabric = &snapshot.fabric.as_ref()?.fabric;
    let nodes = fabric.nodes().iter().zip(fabric::tier::tiers(fabric)).map(|(node, tier)| NodeView { name: node.name.clone(), tier });
    let numbers: BTreeMap<&str, usize> = snapshot.jobs.iter().enumerate().map(|(j, job)| (job.message.id.as_str(), j)).collect();
    let used: BTreeMap<&str, &pb::Link> = table.links.iter().map(|link| (link.id.as_str(), link)).collect();
    let link = |(at, link): (usize, &fabric::Link)| {
        let (from, to) = (link.from.node, link.to.node);
        let view = MapLinkView {
            from: from.index(),
            to: to.index(),
            capacity_mbps: link.capacity.map_or(0, |rate| rate.0),
            measured: loads.of(&fabric.node(from).name, &fabric.node(to).name),
            ..MapLinkView::default()
        };
        // A name is made only where a link may be used, or observed, at all.
        if used.is_empty() && carried.len() == 0 {
            return view;
        }
        let id = fabric.link_name(LinkId(at as u32));
        let view = MapLinkView { observed: carried.of(&id).and_then(|seen| seen.ratio), ..view };
        match used.get(id.as_str()) {
            Some(row) => {
                let jobs = row.jobs.iter().filter_map(|job| numbers.get(job.as_str()).copied()).collect();
                MapLinkView { score: row.score, jobs, id, planned: row.mean_demand_ratio, ..view }
            }
            None => view,
        }
    };
    let links = fabric.links().iter().enumerate().map(link).collect();
    let view = FabricView { name: fabric.name().to_owned(), nodes: nodes.collect(), links };
    let jobs = snapshot.jobs.iter().map(|job| JobView { name: job.message.id.clone(), ..JobView::default() }).collect();
    Some((view, jobs))
}

fn draw(link: &pb::Link, snapshot: &Arc<Snapshot>, colours: &JobColours) -> Svg {
    let mut jobs: Vec<JobView> = link.demands.iter().map(|demand| job_view(demand, snapshot)).collect();
    // Jobs that were let go run as they come, whatever the plan says of shifts; so does the score.
    if link.apart() == pb::Apart::Free {
        jobs.iter_mut().for_each(|job| job.shift_ns = 0);
    }
    let members = link.demands.iter().enumerate().map(|(job, demand)| member_view(job, demand)).collect();
    let slots: Vec<Option<usize>> = link.demands.iter().map(|demand| colours.0.get(&demand.job).copied()).collect();
    let view = LinkView {
        name: link.id.clone(),
        capacity_mbps: link.capacity_mbps,
        members,
        zero_shift_score: link.zero_shift_score.unwrap_or(f64::NAN),
        score: link.score.unwrap_or(f64::NAN),
        apart: match link.apart() {
            pb::Apart::Turns => Apart::Turns,
            pb::Apart::Free => Apart::Free,
            pb::Apart::Shifts | pb::Apart::Unspecified => Apart::Shifts,
        },
        ..LinkView::default()
    };
    link::draw(&view, &jobs, &Colours::given(&slots))
}

fn job_view(demand: &pb::Demand, snapshot: &Snapshot) -> JobView {
    // The snapshot may be older or newer than the link by one change: then a job of the link may be without a slot.
    let slot = snapshot.job(&demand.job).and_then(|job| job.message.slot.as_ref());
    JobView {
        name: demand.job.clone(),
        period_ns: demand.period_ns,
        shift_ns: demand.shift_ns,
        slack_ns: slot.map(|slot| slot.slack_ns),
        ..JobView::default()
    }
}

fn member_view(job: usize, demand: &pb::Demand) -> MemberView {
    let phase = |p: &pb::Phase| PhaseView { start_ns: p.start_ns, end_ns: p.end_ns, mbps: p.rate_mbps };
    MemberView { job, phases: demand.phases.iter().map(phase).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_slots_and_jobs() {
        let read = |pairs: &[&str]| JobColours::read(&pairs.iter().map(|&p| p.to_owned()).collect::<Vec<_>>());
        let colours = read(&["1:a", "24:b:c"]).unwrap();
        assert_eq!((colours.0["a"], colours.0["b:c"]), (0, 23), "a name may hold a colon");
        for bad in ["a", "0:a", "25:a", "-1:a", ":a", "x:a"] {
            let message = read(&[bad]).unwrap_err().message;
            assert!(message.contains("SLOT:JOB") && message.contains(bad), "{message}");
        }
    }
}
