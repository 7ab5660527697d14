//! Whose turn it is to compute: so many at a time, and those who wait by caller in turn.
//!
//! Work that takes seconds is no one's to take all of: a caller with a certificate has at most half of the places, and one when there is
//! only one. Who waits gets the next place by caller, round and round, however many requests each has in line. So a caller that comes
//! waits for the one that runs and one more of each other caller at most, and not for all that somebody has lined up.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

use crate::{
    tally::{CALLER_PART, Tally},
    tls::Who,
};

/// A line for places. Cloning it shares it.
#[derive(Clone, Debug)]
pub(super) struct Line(Arc<Mutex<Queue>>);

#[derive(Debug)]
struct Queue {
    places: usize,
    taken: usize,
    /// Places taken, by caller.
    callers: Tally<Option<Who>>,
    /// Callers who wait, in the order in which they get the next place.
    order: VecDeque<Option<Who>>,
    /// Their requests, first come first; never empty.
    waiting: BTreeMap<Option<Who>, VecDeque<Request>>,
    /// Number of the last request.
    last: u64,
}

#[derive(Debug)]
struct Request {
    number: u64,
    granted: oneshot::Sender<Turn>,
}

/// A place, until dropped.
#[derive(Debug)]
pub(super) struct Turn {
    line: Line,
    who: Option<Who>,
}

/// A request in the line; it leaves when it is dropped.
struct Waits<'a> {
    line: &'a Line,
    who: Option<Who>,
    number: u64,
}

impl Line {
    /// A line for so many places.
    pub(super) fn new(places: usize) -> Self {
        Self(Arc::new(Mutex::new(Queue {
            places,
            taken: 0,
            callers: Tally::default(),
            order: VecDeque::new(),
            waiting: BTreeMap::new(),
            last: 0,
        })))
    }

    /// Waits for a place. A caller that goes away leaves the line. `None`: there will be none any more.
    pub(super) async fn turn(&self, who: Option<Who>) -> Option<Turn> {
        let (number, granted) = self.queue().enter(who);
        let _waits = Waits { line: self, who, number };
        self.serve();
        granted.await.ok()
    }

    /// Gives free places to those who wait.
    fn serve(&self) {
        loop {
            // The lock is given up before a place is handed over: where nobody takes it any more, it comes back through `Drop`.
            let Some((who, granted)) = self.queue().next() else { return };
            drop(granted.send(Turn { line: self.clone(), who }));
        }
    }

    /// Places that are taken.
    #[cfg(test)]
    pub(super) fn taken(&self) -> usize {
        self.queue().taken
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn enter(&mut self, who: Option<Who>) -> (u64, oneshot::Receiver<Turn>) {
        let (granted, receiver) = oneshot::channel();
        self.last += 1;
        let requests = self.waiting.entry(who).or_default();
        if requests.is_empty() {
            self.order.push_back(who);
        }
        requests.push_back(Request { number: self.last, granted });
        (self.last, receiver)
    }

    /// Takes a free place for the first caller in turn who may have one more.
    fn next(&mut self) -> Option<(Option<Who>, oneshot::Sender<Turn>)> {
        if self.taken >= self.places {
            return None;
        }
        let share = (self.places / CALLER_PART).max(1);
        // Callers without certificates count as one caller, which may have every place.
        let may = |who: &Option<Who>| who.is_none() || self.callers.of(who) < share;
        let who = self.order.remove(self.order.iter().position(may)?)?;
        let requests = self.waiting.get_mut(&who)?;
        let request = requests.pop_front()?;
        if requests.is_empty() {
            self.waiting.remove(&who);
        } else {
            self.order.push_back(who);
        }
        self.taken += 1;
        self.callers.add(who, 1);
        Some((who, request.granted))
    }

    /// Takes a request out that has no place yet.
    fn leave(&mut self, who: Option<Who>, number: u64) {
        let Some(requests) = self.waiting.get_mut(&who) else { return };
        requests.retain(|request| request.number != number);
        if requests.is_empty() {
            self.waiting.remove(&who);
            self.order.retain(|other| *other != who);
        }
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.line.queue().leave(self.who, self.number);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut queue = self.line.queue();
        queue.taken -= 1;
        queue.callers.take(&self.who, 1);
        drop(queue);
        self.line.serve();
    }
}

#[cfg(test)]
mod tests {
    use tokio::{sync::mpsc, task::JoinHandle};

    use super::*;

    /// A line, and who has got a place of it; 0 is a caller without a certificate.
    struct World {
        line: Line,
        tells: mpsc::UnboundedSender<(u8, Turn)>,
        told: mpsc::UnboundedReceiver<(u8, Turn)>,
    }

    impl World {
        fn new(places: usize) -> Self {
            let (tells, told) = mpsc::unbounded_channel();
            Self { line: Line::new(places), tells, told }
        }

        async fn asks(&self, caller: u8) -> JoinHandle<()> {
            let (line, tells) = (self.line.clone(), self.tells.clone());
            let who = (caller > 0).then_some(Who([caller; 32]));
            let task = tokio::spawn(async move {
                let turn = line.turn(who).await.unwrap();
                let _ = tells.send((caller, turn));
            });
            settled().await;
            task
        }

        /// Who began since the last look.
        async fn begun(&mut self) -> Vec<(u8, Turn)> {
            settled().await;
            std::iter::from_fn(|| self.told.try_recv().ok()).collect()
        }
    }

    /// All tasks of this thread have gone as far as they can.
    async fn settled() {
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
    }

    fn callers(begun: &[(u8, Turn)]) -> Vec<u8> {
        begun.iter().map(|(caller, _)| *caller).collect()
    }

    #[tokio::test]
    async fn who_comes_waits_for_one_of_each_and_not_for_all_that_somebody_lined_up() {
        let mut world = World::new(2);
        for _ in 0..20 {
            world.asks(1).await;
        }
        let mut first = world.begun().await;
        assert_eq!(callers(&first), [1], "half of the places");
        world.asks(2).await;
        let mut second = world.begun().await;
        assert_eq!(callers(&second), [2], "the other half is for others");
        world.asks(3).await;
        world.asks(2).await;
        drop(first.pop());
        first = world.begun().await;
        assert_eq!(callers(&first), [1], "it was in line before");
        drop(second.pop());
        assert_eq!(callers(&world.begun().await), [3], "2 had its turn and is behind 3");
    }

    #[tokio::test]
    async fn callers_that_cannot_be_told_apart_have_all_and_come_in_order() {
        let mut world = World::new(3);
        for _ in 0..5 {
            world.asks(0).await;
        }
        assert_eq!(world.begun().await.len(), 3);
        let mut one = World::new(1);
        for caller in [1, 1, 1, 2] {
            one.asks(caller).await;
        }
        let mut order = Vec::new();
        loop {
            let begun = one.begun().await;
            if begun.is_empty() {
                break;
            }
            order.extend(callers(&begun));
        }
        assert_eq!(order, [1, 1, 2, 1], "one place, which everybody may have; 2 came behind the second of 1, and before its third");
    }

    #[tokio::test]
    async fn no_place_is_lost_or_given_twice_whatever_happens() {
        const PLACES: usize = 5;
        let mut world = World::new(PLACES);
        let (mut random, mut held, mut tasks) = (7_u64, Vec::<(u8, Turn)>::new(), VecDeque::new());
        for _ in 0..20_000 {
            // Marsaglia, "Xorshift RNGs", 2003.
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            match random >> 62 {
                0 => tasks.push_back(world.asks((random >> 20) as u8 % 4).await),
                // Some go away: before, while or after they get a place.
                1 => drop(tasks.pop_front().map(|task| task.abort())),
                2 => drop((!held.is_empty()).then(|| held.swap_remove((random >> 8) as usize % held.len()))),
                _ => held.extend(world.begun().await),
            }
            let of = |caller: u8| held.iter().filter(|(other, _)| *other == caller).count();
            assert!(held.len() <= PLACES && (1..4).all(|caller| of(caller) <= PLACES / CALLER_PART), "{:?}", callers(&held));
        }
        tasks.into_iter().for_each(|task| task.abort());
        held.clear();
        drop(world.begun().await);
        let queue = world.line.queue();
        assert_eq!((queue.taken, queue.callers.len(), queue.order.len(), queue.waiting.len()), (0, 0, 0, 0));
    }
}
