//! Who is on each link of a group, and what they still send there.

use alloc::vec::Vec;

use units::FabricTime;

use crate::{
    demand::Left,
    room::{Cutter, Pieces, Room},
};

/// A job that sends on a link, or has a permission ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Present {
    pub(crate) job: u32,
    /// Which of the job's links it is.
    pub(crate) nth: u32,
}

#[derive(Clone, Debug, Default)]
struct Link {
    /// They are few, whatever the group.
    present: Vec<Present>,
    /// What all of them still send, from when on, and whether that is known; none since somebody came or went. At one event many jobs look
    /// at the same link, and nearly always all on it are opponents of all that look.
    all: Option<(FabricTime, bool)>,
    pieces: Pieces,
}

/// The links of a group.
#[derive(Clone, Debug)]
pub(crate) struct Links {
    links: Vec<Link>,
    cutter: Cutter,
}

impl Links {
    /// Nobody is on any of them.
    pub(crate) fn new(links: usize) -> Self {
        Self { links: (0..links).map(|_| Link::default()).collect(), cutter: Cutter::default() }
    }

    /// The jobs on a link.
    pub(crate) fn on(&self, link: u32) -> impl Iterator<Item = u32> {
        self.links[link as usize].present.iter().map(|here| here.job)
    }

    /// A job is on a link now with something new to send, or is not there.
    pub(crate) fn change(&mut self, link: u32, job: Present, is_there: bool) {
        let Link { present, all, .. } = &mut self.links[link as usize];
        *all = None;
        let at = present.iter().position(|here| here.job == job.job);
        match (at, is_there) {
            (None, true) => present.push(job),
            // What is sent together does not depend on their order.
            (Some(at), false) => drop(present.swap_remove(at)),
            _ => {}
        }
    }

    /// Gives a start what its opponents still send on one of its links; false where that is not known. `left` adds what one of them still
    /// sends from `now` on, and says whether it is known.
    pub(crate) fn look(
        &mut self,
        link: u32,
        now: FabricTime,
        is_opponent: impl Fn(u32) -> bool,
        left: impl Fn(Present, &mut Vec<Left>) -> bool,
        room: &mut Room,
    ) -> bool {
        let Link { present, all, pieces } = &mut self.links[link as usize];
        let meets_all = present.iter().all(|here| is_opponent(here.job));
        let (known, added) = match *all {
            Some((at, known)) if meets_all && at == now => (known, 0),
            _ => {
                let near = |here: &&Present| meets_all || is_opponent(here.job);
                let (known, added) = self.cutter.cut(pieces, |out| present.iter().filter(near).all(|here| left(*here, out)));
                *all = meets_all.then_some((now, known));
                (known, added)
            }
        };
        room.add_link(pieces, present.len() as u64 + added);
        known
    }
}

#[cfg(test)]
mod tests {
    use alloc::{collections::BTreeMap, vec};

    use units::{Nanos, Rate};

    use super::*;
    use crate::{Ask, Up, Use, demand::Profile};

    /// However often a link was looked at before, and by whom, a look says what one at a link without a past says.
    #[test]
    fn a_look_says_what_the_first_look_would_say() {
        let mut random = 11_u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        let ups = |rate| vec![Up { start: Nanos(0), end: Nanos(30), rate }, Up { start: Nanos(50), end: Nanos(70), rate }];
        let demand = |job: u64| Profile::new(vec![Use { link: 0, ups: ups(Rate(10 + job)) }]).demand(Ask::Iteration, None);
        let asks = demand(0);
        let (mut links, mut there) = (Links::new(1), BTreeMap::<u32, Option<u64>>::new());
        let (mut now, mut before, mut same) = (0, None, 0);
        for _ in 0..20_000 {
            let job = next(4) as u32;
            match next(8) {
                0 => drop(there.insert(job, Some(now))),
                1 => drop(there.insert(job, None)),
                2 => drop(there.remove(&job)),
                3 => now += next(20),
                // Nobody came and no time went by.
                _ => {}
            }
            links.change(0, Present { job, nth: 0 }, there.contains_key(&job));
            let most = 10 + next(40);
            // Two looks without a change between them: one of somebody whom only some concern, and one whom all do.
            for opponents in [[3, 15][next(2) as usize], 15, 15] {
                let is_opponent = |other: u32| opponents >> other & 1 == 1;
                let left = |here: Present, out: &mut Vec<Left>| {
                    let started = there[&here.job];
                    let lease = |start: u64| FabricTime(start + 90);
                    started.iter().for_each(|s| demand(here.job.into()).left(here.nth, FabricTime(*s), lease(*s), FabricTime(now), out));
                    started.is_some()
                };
                let mut fresh = Links::new(1);
                there.keys().for_each(|job| fresh.change(0, Present { job: *job, nth: 0 }, true));
                let [said, would] = [&mut links, &mut fresh].map(|links| {
                    let mut room = Room::default();
                    let known = links.look(0, FabricTime(now), is_opponent, left, &mut room);
                    known.then(|| room.first_fit(&asks, FabricTime(now), FabricTime(u64::MAX), &[Rate(most)]))
                });
                assert_eq!(said, would, "{there:?} at {now}, opponents {opponents:b}");
                same += u32::from(before == Some(said));
                before = Some(said);
            }
        }
        assert!(same < 55_000, "answers differ");
    }
}
