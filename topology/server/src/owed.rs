//! What answers may take of the memory, from when they are made until they are taken.
//!
//! A client may ask and not read, over many streams of one connection and over many connections. So every answer counts while it is
//! held, and one that does not fit is not given. The answer of a change is always given, because the change is made; and a connection
//! may always hold a little. Answers whose bytes are shared, such as the fabric's, count nothing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{
    api::{ApiError, Kind},
    tally::Shares,
    tls::Who,
};

/// What all answers may hold together: with all else that clients may cause, the service is to stay below 512 MiB.
const ALL_MAX: usize = 192 << 20;
/// What the answers of one caller may hold who has a certificate, and those of one connection.
const CALLER_MAX: usize = ALL_MAX / 2;
const CONNECTION_MAX: usize = ALL_MAX / 4;
/// What the answers of a connection may hold whatever the others hold.
const ALWAYS: usize = 64 << 10;
/// What has to be left for an answer to be made at all: making one that is then refused would cost as much as giving it.
const MARGIN: usize = 1 << 20;

/// The answers of all connections. Cloning it shares it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers(Arc<Mutex<Shares>>);

/// The answers of one connection. Cloning it shares it.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    answers: Answers,
    who: Option<Who>,
    /// What the connection's answers hold.
    held: Arc<Mutex<usize>>,
    /// Whether answers are given whatever the others hold.
    always: bool,
}

/// An answer that is held, until dropped.
#[derive(Debug)]
pub(crate) struct Owed {
    account: Account,
    bytes: usize,
}

/// Marks an answer whose bytes are shared with all others of its kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedBytes;

impl Answers {
    /// For a connection of a caller.
    pub(crate) fn account(&self, who: Option<Who>) -> Account {
        Account { answers: self.clone(), who, held: Arc::default(), always: false }
    }

    fn lock(&self) -> MutexGuard<'_, Shares> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Account {
    /// The same, for an answer that is given whatever the others hold: it is counted, and not judged.
    pub(crate) fn always(&self) -> Self {
        Self { always: true, ..self.clone() }
    }

    /// Whether an answer may find room, so that one which finds none is not made first.
    pub(crate) fn has_room(&self) -> bool {
        let here = *self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if self.always || here < ALWAYS {
            return true;
        }
        here + MARGIN <= CONNECTION_MAX && self.answers.lock().fits(self.who, MARGIN, ALL_MAX, CALLER_MAX)
    }

    /// Counts an answer of so many bytes.
    ///
    /// # Errors
    /// The answers that nobody has taken yet leave no room for it.
    pub(crate) fn owe(&self, bytes: usize) -> Result<Owed, ApiError> {
        // One that is larger than a connection's share counts as much as that: it can be given, and not often.
        let counted = bytes.min(CONNECTION_MAX);
        let mut here = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut held = self.answers.lock();
        let fits = *here + counted <= CONNECTION_MAX && held.fits(self.who, counted, ALL_MAX, CALLER_MAX);
        if !fits && !self.always && *here + counted > ALWAYS {
            let problem = format!("an answer of {} KiB: answers that were not taken yet leave no room for it", bytes >> 10);
            return Err(ApiError::new(Kind::Exhausted, &problem).hint("read what was asked for, and try again"));
        }
        *here += counted;
        held.add(self.who, counted);
        drop((here, held));
        Ok(Owed { account: self.clone(), bytes: counted })
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        let Self { account, bytes } = self;
        *account.held.lock().unwrap_or_else(PoisonError::into_inner) -= *bytes;
        account.answers.lock().take(account.who, *bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn answers_that_nobody_takes_have_a_limit_and_small_ones_are_always_given() {
        let answers = Answers::default();
        let greedy = answers.account(None);
        let held: Vec<Owed> = std::iter::from_fn(|| greedy.owe(11 * MIB).ok()).collect();
        assert_eq!(held.len(), CONNECTION_MAX / (11 * MIB));
        let others: Vec<Account> = (0..6).map(|_| answers.account(None)).collect();
        let more: Vec<Owed> = others.iter().filter_map(|other| other.owe(40 * MIB).ok()).collect();
        assert_eq!(more.len(), (ALL_MAX - 44 * MIB) / (40 * MIB));
        let late = answers.account(None);
        assert_eq!(late.owe(40 * MIB).unwrap_err().kind, Kind::Exhausted);
        // What is made already is given.
        drop(late.always().owe(40 * MIB).unwrap());
        assert!(late.has_room() && greedy.has_room());
        let full: Vec<Owed> = std::iter::from_fn(|| greedy.owe(MIB).ok()).collect();
        assert!(late.has_room() && !greedy.has_room() && greedy.always().has_room());
        drop(full);
        let small: Vec<Owed> = (0..4).map(|_| late.owe(ALWAYS / 4).unwrap()).collect();
        drop(more);
        drop(small);
        // One that is larger than all of it can be given.
        let huge = late.owe(8 * ALL_MAX).unwrap();
        drop((held, huge));
        assert!(answers.lock().is_empty());
    }

    #[test]
    fn a_caller_has_half_whatever_the_number_of_connections() {
        let answers = Answers::default();
        let of = |who: u8| answers.account(Some(Who([who; 32])));
        let greedy: Vec<Owed> = (0..20).filter_map(|_| of(1).owe(20 * MIB).ok()).collect();
        assert_eq!(greedy.len(), CALLER_MAX / (20 * MIB));
        assert!(of(2).owe(40 * MIB).is_ok());
        drop(greedy);
        assert!(answers.lock().is_empty());
    }
}
