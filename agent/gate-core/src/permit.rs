//! What a page says of one start of a job that takes turns.

use units::{Nanos, NodeTime};

/// Whether one start may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Permit {
    /// No answer: nobody has decided on a start, or the answer was taken back.
    #[default]
    None,
    /// The start is granted. For a start that the gate has not told of yet, this is a grant ahead.
    Go,
    /// The start waits until then at the latest, because those ahead of it have ended by then.
    NotBefore(NodeTime),
}

/// The part of a page that is about turns: the answer to one start, and how long any start may wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Turn {
    /// The run of the gate that the answer is for ([`Note::writer`](crate::Note::writer)).
    pub writer: u64,
    /// The start of that run that the answer is for ([`Note::number`](crate::Note::number)).
    pub number: u64,
    /// The answer.
    pub permit: Permit,
    /// Longest time that a start may wait for its turn; [`HOLD_LIMIT`](crate::HOLD_LIMIT) bounds it too.
    pub max: Nanos,
}

impl Turn {
    /// The answer to this start; an answer to another start is none to this one.
    #[must_use]
    #[inline]
    pub fn permit_for(&self, writer: u64, number: u64) -> Permit {
        if (self.writer, self.number) == (writer, number) { self.permit } else { Permit::None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_for_one_start_of_one_run() {
        let turn = Turn { writer: 7, number: 3, permit: Permit::Go, max: Nanos(1) };
        assert_eq!([turn.permit_for(7, 3), turn.permit_for(7, 4), turn.permit_for(8, 3)], [Permit::Go, Permit::None, Permit::None]);
    }
}
