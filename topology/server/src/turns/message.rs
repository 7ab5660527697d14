//! Notes and orders, from the wire and to it.

use proto::v1alpha1::{TurnNote, TurnOrder, turn_note, turn_order};
use state::turns::{Note, NoteKind, Order, OrderKind};
use units::Nanos;

/// A note as it came; `None` for one of a later agent, or of a job that cannot be.
pub(crate) fn note(note: TurnNote) -> Option<Note> {
    let kind = match note.kind() {
        turn_note::Kind::Withdrawn => NoteKind::Withdrawn,
        turn_note::Kind::Ready => NoteKind::Ready,
        turn_note::Kind::Started => NoteKind::Started,
        turn_note::Kind::Ended => NoteKind::Ended,
        turn_note::Kind::Unspecified => return None,
    };
    // The name is kept, and stands in answers: it is checked like every other.
    units::check_name(&note.job).ok()?;
    let TurnNote { job, writer, number, phase, age_ns, up_ns, .. } = note;
    Some(Note { job: job.into(), writer, number, kind, phase, age: Nanos(age_ns), sent: Nanos(up_ns) })
}

/// An order as it goes.
pub(super) fn order(order: &Order) -> TurnOrder {
    let kind = match order.kind {
        OrderKind::Heard(_) => turn_order::Kind::Heard,
        OrderKind::Grant => turn_order::Kind::Grant,
        OrderKind::GrantAhead => turn_order::Kind::GrantAhead,
        OrderKind::Hold => turn_order::Kind::Hold,
        OrderKind::Withdraw => turn_order::Kind::Withdraw,
    };
    let heard = match order.kind {
        OrderKind::Heard(NoteKind::Withdrawn) => turn_note::Kind::Withdrawn,
        OrderKind::Heard(NoteKind::Ready) => turn_note::Kind::Ready,
        OrderKind::Heard(NoteKind::Started) => turn_note::Kind::Started,
        OrderKind::Heard(NoteKind::Ended) => turn_note::Kind::Ended,
        _ => turn_note::Kind::Unspecified,
    };
    TurnOrder {
        job: order.job.to_string(),
        writer: order.writer,
        number: order.number,
        kind: kind.into(),
        at_most_ns: order.at_most.0,
        heard: heard.into(),
    }
}
