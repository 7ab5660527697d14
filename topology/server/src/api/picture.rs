//! Pictures of what is committed, drawn by the crate `render`.

use std::{collections::BTreeMap, sync::Arc};

use proto::v1alpha1 as pb;
use render::{
    circles, fabric_map,
    palette::{Colours, SLOTS},
    svg::Svg,
    view::{FabricView, JobView, LinkView, MapLinkView, MemberView, NodeView, PhaseView},
};
use units::LinkId;

use super::{Api, ApiError, beside};
use crate::{controller::Snapshot, links::LinkTable, tls::Who};

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

    /// The fabric with its links coloured by score, as SVG: `alone` with a legend, or for a page that has the style sheet of pictures.
    /// `None`: no fabric is set.
    ///
    /// # Errors
    /// The service is stopping.
    pub(crate) async fn map(&self, who: Option<Who>, alone: bool) -> Result<Option<String>, ApiError> {
        let table = self.0.controller.links().await?;
        let snapshot = self.snapshot().await?;
        if snapshot.fabric.is_none() {
            return Ok(None);
        }
        let drawn = beside(&self.0.drawing, who, move || {
            let (fabric, jobs) = map_view(&table, &snapshot)?;
            Some(if alone { fabric_map::draw(&fabric, &jobs).document() } else { fabric_map::for_page(&fabric, &jobs).unstyled() })
        });
        drawn.await
    }
}

/// The fabric and the scores of its links. A link of the table that a newer fabric lacks is left out: the next table has it no more.
fn map_view(table: &LinkTable, snapshot: &Snapshot) -> Option<(FabricView, Vec<JobView>)> {
    let fabric = &snapshot.fabric.as_ref()?.fabric;
    let nodes = fabric.nodes().iter().zip(fabric::tier::tiers(fabric)).map(|(node, tier)| NodeView { name: node.name.clone(), tier });
    let numbers: BTreeMap<&str, usize> = snapshot.jobs.iter().enumerate().map(|(j, job)| (job.message.id.as_str(), j)).collect();
    let shared: BTreeMap<&str, &pb::Link> =
        table.links.iter().filter(|link| link.score.is_some()).map(|link| (link.id.as_str(), link)).collect();
    let link = |(at, link): (usize, &fabric::Link)| {
        let view = MapLinkView { from: link.from.node.index(), to: link.to.node.index(), ..MapLinkView::default() };
        // A name is made only where a link may be shared at all.
        if shared.is_empty() {
            return view;
        }
        let id = fabric.link_name(LinkId(at as u32));
        match shared.get(id.as_str()) {
            Some(row) => {
                let jobs = row.jobs.iter().filter_map(|job| numbers.get(job.as_str()).copied()).collect();
                MapLinkView { score: row.score, jobs, id, ..view }
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
    let jobs: Vec<JobView> = link.demands.iter().map(|demand| job_view(demand, snapshot)).collect();
    let members = link.demands.iter().enumerate().map(|(job, demand)| member_view(job, demand)).collect();
    let slots: Vec<Option<usize>> = link.demands.iter().map(|demand| colours.0.get(&demand.job).copied()).collect();
    let view = LinkView {
        name: link.id.clone(),
        capacity_mbps: link.capacity_mbps,
        members,
        zero_shift_score: link.zero_shift_score.unwrap_or(f64::NAN),
        score: link.score.unwrap_or(f64::NAN),
        ..LinkView::default()
    };
    circles::draw(&view, &jobs, &Colours::given(&slots))
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
