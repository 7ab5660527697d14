//! Changes that wait for their turn: each user's in the order in which they came, and the users in turn. So before each change of a user
//! comes at most one of each other user, however many these have. Every second turn is the service's own, whose changes end leases and start
//! jobs.

use alloc::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    vec::Vec,
};

use crate::{
    Change, RequestId,
    change::Queued,
    config::{QUEUE_MAX, USER_QUEUE_MAX},
};

/// Who asked, as the audit trail names them: callers that it does not tell apart are one. `None`: the service itself and its scheduler.
type User = Option<Arc<str>>;

/// There is no room for a change.
#[derive(Debug, PartialEq)]
pub(crate) struct Full {
    /// Who waits for its answer.
    pub(crate) request: Option<RequestId>,
    /// How many changes are waiting, and how many may: of that user, or of all.
    pub(crate) waiting: usize,
    pub(crate) max: usize,
}

#[derive(Debug, Default)]
pub(crate) struct ChangeQueue {
    /// The changes of each user who has some, in the order in which they came.
    lines: BTreeMap<User, VecDeque<Queued>>,
    /// The users who have some, in the order of their turns.
    turns: VecDeque<User>,
    len: usize,
    /// The last turn was the service's own.
    was_own: bool,
}

impl ChangeQueue {
    /// Adds a change at the end of its user's line, if there is room.
    pub(crate) fn push(&mut self, change: Queued) -> Result<(), Full> {
        let user = user(&change);
        let own = self.lines.get(&user).map_or(0, VecDeque::len);
        if self.len >= QUEUE_MAX {
            return Err(Full { request: change.request(), waiting: self.len, max: QUEUE_MAX });
        }
        if user.is_some() && own >= USER_QUEUE_MAX {
            return Err(Full { request: change.request(), waiting: own, max: USER_QUEUE_MAX });
        }
        if own == 0 {
            self.turns.push_back(user.clone());
        }
        self.lines.entry(user).or_default().push_back(change);
        self.len += 1;
        Ok(())
    }

    /// The next change: the first of the user whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<Queued> {
        let own = self.turns.iter().position(Option::is_none).filter(|_| !self.was_own);
        let user = self.turns.remove(own.unwrap_or(0))?;
        self.was_own = user.is_none();
        // A user has a turn as long as its line is not empty.
        let line = self.lines.get_mut(&user)?;
        let change = line.pop_front()?;
        self.len -= 1;
        if line.is_empty() {
            self.lines.remove(&user);
        } else {
            self.turns.push_back(user);
        }
        Some(change)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes all of them out, in the order of their turns.
    pub(crate) fn drain(&mut self) -> Vec<Queued> {
        core::iter::from_fn(|| self.pop()).collect()
    }
}

fn user(change: &Queued) -> User {
    let Queued::Asked { change, .. } = change else { return None };
    match change {
        Change::Commit(commit) => commit.by.clone(),
        Change::Release { by, .. } | Change::SetFabric { by, .. } => by.clone(),
        Change::Schedule(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use alloc::{string::ToString, vec};

    use super::*;

    fn release(by: Option<&str>, number: u64) -> Queued {
        Queued::Asked { request: RequestId(number), change: Change::Release { by: by.map(Arc::from), jobs: vec![number.to_string()] } }
    }

    fn numbers(changes: Vec<Queued>) -> Vec<u64> {
        changes.iter().filter_map(Queued::request).map(|request| request.0).collect()
    }

    #[test]
    fn users_have_turns_and_each_keeps_its_order() {
        let mut queue = ChangeQueue::default();
        let mut push = |by, number| queue.push(release(by, number)).is_ok();
        // Many of one user, and then one each of another and of the service.
        assert!((1..=4).all(|number| push(Some("alice"), number)));
        assert!(push(Some("bob"), 11) && push(None, 21) && push(Some("bob"), 12));
        assert_eq!(numbers(queue.drain()), [21, 1, 11, 2, 12, 3, 4]);
        let mut push = |by, number| queue.push(release(by, number)).is_ok();
        assert!(push(Some("alice"), 1) && push(Some("bob"), 11) && push(Some("carol"), 31) && (21..=23).all(|own| push(None, own)));
        assert_eq!(numbers(queue.drain()), [21, 1, 22, 11, 23, 31]);
        assert!(queue.is_empty() && queue.pop().is_none());
    }

    #[test]
    fn one_user_leaves_room_for_others() {
        let mut queue = ChangeQueue::default();
        for number in 0..USER_QUEUE_MAX as u64 {
            assert!(queue.push(release(Some("alice"), number)).is_ok());
        }
        let full = Full { request: Some(RequestId(7)), waiting: USER_QUEUE_MAX, max: USER_QUEUE_MAX };
        assert_eq!(queue.push(release(Some("alice"), 7)), Err(full));
        assert!(queue.push(release(Some("bob"), 0)).is_ok());
        while queue.push(release(None, 0)).is_ok() {}
        assert_eq!(queue.len, QUEUE_MAX);
        assert!(queue.push(release(Some("carol"), 0)).is_err());
    }
}
