//! What answers may take of the memory, from when they are made until they are taken.
//!
//! A client may ask and not read, over many streams of one connection and over many connections. So every answer counts while it is
//! held, and one that does not fit is not given. Readers, admins with a certificate and changes have a budget each: whatever readers
//! leave lying, an admin is answered. The answer of a change is always given, because the change is made, and a change is not made where
//! too many answers of changes were not taken; and a connection may always hold a little. Answers whose bytes are shared, such as the
//! fabric's, count nothing, and the metrics have a budget of their own (`http/routes/metrics.rs`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{
    api::{ApiError, Kind},
    tally::{CALLER_PART, Shares},
    tls::Who,
};

/// What the answers of readers may hold together: with all else that clients may cause, the service is to stay below 512 MiB.
const READERS_MAX: usize = 192 << 20;
/// What those of admins may, who have certificates, and those of changes.
const ADMINS_MAX: usize = 64 << 20;
const CHANGES_MAX: usize = 32 << 20;
/// The part of a budget, one in so many, that the answers of one connection have. A caller with a certificate has [`CALLER_PART`].
const CONNECTION_PART: usize = 4;
/// What the answers of a connection may hold whatever the others hold.
const ALWAYS: usize = 64 << 10;
/// What has to be left for an answer to be made at all: making one that is then refused would cost as much as giving it.
const MARGIN: usize = 1 << 20;

/// Whose budget an answer is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purse {
    /// Questions of anybody.
    Readers,
    /// Questions of an admin with a certificate.
    Admins,
    /// Whatever changes something.
    Changes,
}

impl Purse {
    const COUNT: usize = 3;

    const fn max(self) -> usize {
        match self {
            Self::Readers => READERS_MAX,
            Self::Admins => ADMINS_MAX,
            Self::Changes => CHANGES_MAX,
        }
    }

    const fn connection_max(self) -> usize {
        self.max() / CONNECTION_PART
    }
}

/// The answers of all connections. Cloning it shares it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers(Arc<Mutex<[Shares; Purse::COUNT]>>);

/// The answers of one connection. Cloning it shares it.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    answers: Answers,
    who: Option<Who>,
    /// What the connection's answers hold of each budget.
    held: Arc<Mutex<[usize; Purse::COUNT]>>,
    purse: Purse,
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
        Account { answers: self.clone(), who, held: Arc::default(), purse: Purse::Readers }
    }

    fn lock(&self) -> MutexGuard<'_, [Shares; Purse::COUNT]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Account {
    /// The same, of another budget.
    pub(crate) fn of(&self, purse: Purse) -> Self {
        Self { purse, ..self.clone() }
    }

    fn held(&self) -> MutexGuard<'_, [usize; Purse::COUNT]> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fits(&self, held: &[Shares; Purse::COUNT], bytes: usize) -> bool {
        let max = self.purse.max();
        held[self.purse as usize].fits(self.who, bytes, max, max / CALLER_PART)
    }

    /// Whether an answer may find room, so that one which finds none is not made first.
    pub(crate) fn has_room(&self) -> bool {
        let here = self.held()[self.purse as usize];
        here < ALWAYS || here + MARGIN <= self.purse.connection_max() && self.fits(&self.answers.lock(), MARGIN)
    }

    /// Counts an answer of so many bytes.
    ///
    /// # Errors
    /// The answers that nobody has taken yet leave no room for it.
    pub(crate) fn owe(&self, bytes: usize) -> Result<Owed, ApiError> {
        let max = self.purse.connection_max();
        // One that is larger than a connection's share counts as much as that: it can be given, and not often.
        let counted = bytes.min(max);
        let mut connection = self.held();
        let here = &mut connection[self.purse as usize];
        let mut held = self.answers.lock();
        let fits = *here + counted <= max && self.fits(&held, counted);
        if !fits && self.purse != Purse::Changes && *here + counted > ALWAYS {
            let problem = format!("an answer of {} KiB: answers that were not taken yet leave no room for it", bytes >> 10);
            return Err(ApiError::new(Kind::Exhausted, &problem).hint("read what was asked for, and try again"));
        }
        *here += counted;
        held[self.purse as usize].add(self.who, counted);
        drop((connection, held));
        Ok(Owed { account: self.clone(), bytes: counted })
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        let Self { account, bytes } = self;
        let purse = account.purse as usize;
        account.held()[purse] -= *bytes;
        account.answers.lock()[purse].take(account.who, *bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;
    const CONNECTION: usize = Purse::Readers.connection_max();

    #[test]
    fn answers_that_nobody_takes_have_a_limit_and_small_ones_are_always_given() {
        let answers = Answers::default();
        let greedy = answers.account(None);
        let held: Vec<Owed> = std::iter::from_fn(|| greedy.owe(11 * MIB).ok()).collect();
        assert_eq!(held.len(), CONNECTION / (11 * MIB));
        let others: Vec<Account> = (0..6).map(|_| answers.account(None)).collect();
        let more: Vec<Owed> = others.iter().filter_map(|other| other.owe(40 * MIB).ok()).collect();
        assert_eq!(more.len(), (READERS_MAX - 44 * MIB) / (40 * MIB));
        let late = answers.account(None);
        assert_eq!(late.owe(40 * MIB).unwrap_err().kind, Kind::Exhausted);
        // What is made already is given.
        drop(late.of(Purse::Changes).owe(40 * MIB).unwrap());
        assert!(late.has_room() && greedy.has_room());
        let full: Vec<Owed> = std::iter::from_fn(|| greedy.owe(MIB).ok()).collect();
        assert!(late.has_room() && !greedy.has_room() && greedy.of(Purse::Changes).has_room());
        drop(full);
        let small: Vec<Owed> = (0..4).map(|_| late.owe(ALWAYS / 4).unwrap()).collect();
        drop(more);
        drop(small);
        // One that is larger than all of it can be given.
        let huge = late.owe(8 * READERS_MAX).unwrap();
        drop((held, huge));
        assert!(answers.lock().iter().all(Shares::is_empty));
    }

    #[test]
    fn a_caller_has_half_whatever_the_number_of_connections() {
        let answers = Answers::default();
        let of = |who: u8| answers.account(Some(Who([who; 32])));
        let greedy: Vec<Owed> = (0..20).filter_map(|_| of(1).owe(20 * MIB).ok()).collect();
        assert_eq!(greedy.len(), READERS_MAX / CALLER_PART / (20 * MIB));
        assert!(of(2).owe(40 * MIB).is_ok());
        drop(greedy);
        assert!(answers.lock().iter().all(Shares::is_empty));
    }

    /// Neither readers nor another admin keep an admin from an answer; and what changes something is made only where its answer finds
    /// room, or is the first.
    #[test]
    fn readers_admins_and_changes_have_a_budget_each() {
        let answers = Answers::default();
        let of = |who: u8, purse| answers.account(Some(Who([who; 32]))).of(purse);
        for purse in [Purse::Readers, Purse::Admins, Purse::Changes] {
            let greedy = of(1, purse);
            let mut held: Vec<Owed> = Vec::new();
            while greedy.has_room() {
                held.push(greedy.owe(MIB).unwrap());
            }
            assert_eq!(held.len(), purse.connection_max() / MIB);
            let mut more: Vec<Owed> = Vec::new();
            for account in (0..8).map(|_| of(1, purse)) {
                more.extend((0..64).map_while(|_| account.has_room().then(|| account.owe(MIB).ok()).flatten()));
            }
            // Each of the other connections has its first one whatever the others hold, where it changes something.
            let most = purse.max() / CALLER_PART / MIB + if purse == Purse::Changes { 8 } else { 0 };
            assert!(held.len() + more.len() <= most, "{purse:?}: {} of {most}", held.len() + more.len());
            assert!(of(2, purse).owe(purse.connection_max()).is_ok(), "another caller");
            let others = [Purse::Readers, Purse::Admins, Purse::Changes].into_iter().filter(|other| *other != purse);
            assert!(others.into_iter().all(|other| greedy.of(other).owe(other.connection_max()).is_ok()));
        }
        assert!(answers.lock().iter().all(Shares::is_empty));
    }
}
