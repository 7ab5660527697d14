//! One link in the picture that tells most of it: circles where the jobs have a common turn, else phases against each other, else a timeline.

use alloc::vec::Vec;

use super::{
    circles,
    demand::common_perimeter,
    palette::Colours,
    phases,
    svg::Svg,
    timeline,
    view::{JobView, LinkView},
};

/// Draws the link. Circles of jobs without a common turn would be a star of thin arcs, which tells nothing.
pub fn draw(link: &LinkView, jobs: &[JobView], colours: &Colours) -> Svg {
    let here: Vec<&JobView> = link.members.iter().filter_map(|member| jobs.get(member.job)).collect();
    let together = common_perimeter(here.iter().map(|job| job.period_ns.max(1)), circles::TURNS_MAX).is_some();
    match here.len() {
        0 | 1 => circles::draw(link, jobs, colours),
        _ if together => circles::draw(link, jobs, colours),
        2 => phases::draw(link, jobs, colours),
        _ => timeline::draw(&link.name, &[link], jobs, colours),
    }
}

#[cfg(test)]
mod tests {
    use alloc::{format, vec};

    use super::*;
    use crate::view::{MemberView, PhaseView};

    #[test]
    fn what_is_drawn_follows_from_the_periods() {
        let picture = |periods: &[u64]| {
            let jobs: Vec<JobView> = periods
                .iter()
                .enumerate()
                .map(|(n, &period_ns)| JobView { name: format!("j{n}"), period_ns, ..JobView::default() })
                .collect();
            let up = vec![PhaseView { start_ns: 0, end_ns: 40_000_000, mbps: 50_000 }];
            let members = (0..jobs.len()).map(|job| MemberView { job, phases: up.clone() }).collect();
            let link = LinkView { name: "l".into(), capacity_mbps: 50_000, members, ..LinkView::default() };
            draw(&link, &jobs, &Colours::assign(jobs.len(), [&link])).document()
        };
        let ms = 1_000_000;
        assert!(picture(&[100 * ms, 200 * ms]).contains("Circles of link"));
        assert!(picture(&[100 * ms]).contains("Circles of link"));
        assert!(picture(&[199 * ms, 200 * ms]).contains("Phases of link"));
        assert!(picture(&[199 * ms, 200 * ms, 201 * ms]).contains("Timeline of"));
        assert!(picture(&[]).contains("Circles of link"));
    }
}
