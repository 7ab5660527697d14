//! Datagrams between peers with and without turns, and from strangers.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::VecDeque;

use antiphase_proto::{
    datagram::{DATAGRAM_BYTES_MAX, ITEMS_MAX, from_agent, from_service, pack},
    v1alpha1::{AgentDatagram, ClockEcho, ClockProbe, ServiceDatagram, TurnNote, TurnOrder, turn_note, turn_order},
};
use proptest::prelude::*;
use prost::Message;

fn note(job: &str) -> TurnNote {
    TurnNote { job: job.into(), writer: u64::MAX, number: 7, kind: turn_note::Kind::Ended.into(), phase: 1, age_ns: 5, up_ns: 9 }
}

fn order(job: &str) -> TurnOrder {
    TurnOrder { job: job.into(), writer: u64::MAX, number: 7, kind: turn_order::Kind::Hold.into(), at_most_ns: 9, heard: 0 }
}

#[test]
fn an_old_service_reads_a_probe_with_notes_as_a_probe() {
    let new = AgentDatagram { sequence: 3, sent_ns: 4, notes: vec![note("a"), note("b")] };
    assert_eq!(ClockProbe::decode(&*new.encode_to_vec()).unwrap(), ClockProbe { sequence: 3, sent_ns: 4 });
    let notes = AgentDatagram { notes: vec![note("a")], ..AgentDatagram::default() };
    // Its echo goes to no probe that the agent has open: probes have the time at which they were sent.
    assert_eq!(ClockProbe::decode(&*notes.encode_to_vec()).unwrap(), ClockProbe::default());
}

#[test]
fn a_new_service_reads_the_probe_of_an_old_agent() {
    let old = ClockProbe { sequence: 3, sent_ns: 4 };
    assert_eq!(from_agent(&old.encode_to_vec()).unwrap(), AgentDatagram { sequence: 3, sent_ns: 4, notes: Vec::new() });
}

#[test]
fn echoes_are_read_across_both_versions() {
    let old = ClockEcho { sequence: 3, sent_ns: 4, received_ns: 5, echoed_ns: 6 };
    let new = ServiceDatagram { sequence: 3, sent_ns: 4, received_ns: 5, echoed_ns: 6, orders: Vec::new() };
    assert_eq!(from_service(&old.encode_to_vec()).unwrap(), new);
    let with_orders = ServiceDatagram { orders: vec![order("a")], ..new };
    assert_eq!(ClockEcho::decode(&*with_orders.encode_to_vec()).unwrap(), old);
}

#[test]
fn a_datagram_takes_what_fits_and_leaves_the_rest() {
    let mut waiting: VecDeque<TurnNote> = (0..100).map(|i| note(&format!("job-{i:02}"))).collect();
    let one = AgentDatagram { notes: vec![note("job-00")], ..AgentDatagram::default() }.encoded_len();
    // Three and a half notes.
    let packed = pack(&mut waiting, 3 * one + one / 2);
    assert_eq!((packed.len(), waiting.len()), (3, 97));
    assert_eq!(AgentDatagram { notes: packed, ..AgentDatagram::default() }.encoded_len(), 3 * one);
    assert_eq!(pack(&mut waiting, usize::MAX).len(), ITEMS_MAX);
    // One that fits nowhere keeps nobody behind it waiting.
    let mut waiting = VecDeque::from([note(&"x".repeat(253)), note("b")]);
    assert_eq!(pack(&mut waiting, 200), [note("b")]);
    assert!(waiting.is_empty() && pack(&mut waiting, 200).is_empty());
}

#[test]
fn datagrams_beyond_a_limit_are_nothing() {
    let many = |notes: usize| AgentDatagram { notes: vec![TurnNote::default(); notes], ..AgentDatagram::default() }.encode_to_vec();
    assert!(from_agent(&many(ITEMS_MAX)).is_some() && from_agent(&many(ITEMS_MAX + 1)).is_none());
    let orders =
        |orders: usize| ServiceDatagram { orders: vec![TurnOrder::default(); orders], ..ServiceDatagram::default() }.encode_to_vec();
    assert!(from_service(&orders(ITEMS_MAX)).is_some() && from_service(&orders(ITEMS_MAX + 1)).is_none());
    let long = AgentDatagram { notes: vec![note(&"x".repeat(DATAGRAM_BYTES_MAX))], ..AgentDatagram::default() }.encode_to_vec();
    assert!(from_agent(&long).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = (from_agent(&bytes), from_service(&bytes));
    }

    #[test]
    fn what_is_packed_fits_and_nothing_is_lost(lengths in prop::collection::vec(0..253_usize, 0..60), bytes in 300..1_500_usize) {
        let all: Vec<TurnNote> = lengths.iter().map(|&length| note(&"x".repeat(length))).collect();
        let mut waiting: VecDeque<TurnNote> = all.iter().cloned().collect();
        let mut sent = Vec::new();
        while !waiting.is_empty() {
            let notes = pack(&mut waiting, bytes);
            prop_assert!(!notes.is_empty() && notes.len() <= ITEMS_MAX);
            let datagram = AgentDatagram { notes: notes.clone(), ..AgentDatagram::default() };
            prop_assert!(datagram.encoded_len() <= bytes);
            sent.extend(notes);
        }
        prop_assert_eq!(sent, all);
    }
}
