use std::collections::BTreeMap;

use fabric::Fabric;
use proptest::prelude::*;
use proto::v1alpha1 as pb;

use super::{
    decode::{DatagramError, Interface, head, samples},
    port::PortName,
    state::{DATAGRAMS_PER_S_MAX, STRANGERS_MAX, UNMAPPED_MAX},
    *,
};
use crate::config::{ExporterConfig, InterfaceName, PORTS_MAX, SflowConfig};

/// Words as the standard has them.
fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// A value with its format and length before it, and zeros behind it.
fn opaque(format: u32, value: &[u8]) -> Vec<u8> {
    let mut out = [words(&[format, u32::try_from(value.len()).unwrap()]), value.to_vec()].concat();
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

/// One interface's counter sample, plain or expanded.
fn sample(index: u32, octets: [u64; 2], name: Option<&str>, expanded: bool) -> Vec<u8> {
    let long = |value: u64| [u32::try_from(value >> 32).unwrap(), value as u32];
    // ifIndex, ifType 6 (Ethernet), ifSpeed 100 Gbit/s, full duplex, up; counters; promiscuous.
    let mut generic = vec![index, 6];
    generic.extend(long(100_000_000_000));
    generic.extend([1, 3]);
    generic.extend(long(octets[0]));
    generic.extend([1, 2, 3, 4, 5, 6]);
    generic.extend(long(octets[1]));
    generic.extend([7, 8, 9, 10, 11, 0]);
    let mut records = vec![opaque(1, &words(&generic)), opaque(2, &[0; 52])];
    if let Some(name) = name {
        let length = u32::try_from(name.len()).unwrap();
        records.push(opaque(1_005, &[length.to_be_bytes().to_vec(), name.as_bytes().to_vec()].concat()));
    }
    let mut head = if expanded { words(&[1, 0, index]) } else { words(&[1, index]) };
    head.extend(u32::try_from(records.len()).unwrap().to_be_bytes());
    opaque(if expanded { 4 } else { 2 }, &[head, records.concat()].concat())
}

fn packet(agent: [u8; 4], uptime_ms: u32, samples: &[Vec<u8>]) -> Vec<u8> {
    let count = u32::try_from(samples.len()).unwrap();
    [words(&[5, 1]), agent.to_vec(), words(&[0, 77, uptime_ms, count]), samples.concat()].concat()
}

const LEAF: [u8; 4] = [192, 0, 2, 1];
/// Where the leaf's datagrams come from.
const SOURCE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 7));

/// One leaf, whose Ethernet0 says its name, whose cable to the spine is interface 9, and whose cable to h2 is `swp2`.
fn state() -> State {
    let ports = BTreeMap::from([("spine1".to_owned(), InterfaceName::Index(9)), ("p2".to_owned(), InterfaceName::Name("swp2".to_owned()))]);
    let leaf = ExporterConfig { address: IpAddr::from(LEAF), sources: vec![SOURCE], ports };
    let mut state = State::default();
    state
        .configure(&SflowConfig { listen: SocketAddr::from(([127, 0, 0, 1], 0)), exporters: BTreeMap::from([("leaf1".to_owned(), leaf)]) });
    state
}

fn fabric() -> Fabric {
    let text = "schema: antiphase.fabric/v1\ndefaults: {capacity: 100G}\nhosts: [h1, h2, h3]\n\
        switches: [{name: leaf1, tier: 1}, {name: spine1, tier: 2}]\ncables:\n\
        - {ends: [h1:eth0, leaf1:Ethernet0]}\n- {ends: [h2:eth0, leaf1:p2], capacity: 50G}\n- {ends: [leaf1, spine1]}\n- {ends: [h3, leaf1]}\n";
    fabric::native::read(text).unwrap()
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn counters_of_both_kinds_are_read_and_the_rest_is_skipped() {
    // Flow samples between them, and one of another enterprise.
    let all = [
        sample(1, [10, 20], Some("Ethernet0"), false),
        opaque(1, &[1; 40]),
        opaque(3, &[1; 3]),
        opaque((9 << 12) | 2, &[2; 7]),
        sample(2, [u64::MAX, 0], None, true),
    ];
    let bytes = packet(LEAF, 5_000, &all);
    let (who, rest) = head(&bytes).unwrap();
    assert_eq!((who.agent, who.sub_agent, who.uptime_ms), (IpAddr::from(LEAF), 0, 5_000));
    let read = samples(rest).unwrap();
    assert_eq!((read.counters, read.flows, read.others), (2, 2, 1));
    let [first, second] = &read.interfaces[..] else { panic!("{read:?}") };
    assert_eq!((first.index, first.speed, first.in_octets, first.out_octets), (1, 100_000_000_000, 10, 20));
    assert_eq!(first.name.as_deref(), Some("Ethernet0"));
    assert_eq!((second.index, second.in_octets, second.out_octets, second.name.as_deref()), (2, u64::MAX, 0, None));
    let v6 = [words(&[5, 2]), [0xfe; 16].to_vec(), words(&[0, 0, 0, 0])].concat();
    assert_eq!(head(&v6).unwrap().0.agent, IpAddr::from([0xfe; 16]));
}

#[test]
fn a_datagram_that_is_cut_anywhere_is_refused() {
    let read = |bytes: &[u8]| head(bytes).and_then(|(_, rest)| samples(rest));
    let whole = packet(LEAF, 1, &[sample(1, [1, 2], Some("Ethernet0"), true)]);
    assert!(read(&whole).is_ok());
    for cut in 0..whole.len() - 3 {
        assert!(matches!(read(&whole[..cut]), Err(DatagramError::Ends(_))), "{cut}");
    }
    let mut other = whole.clone();
    other[3] = 4;
    assert_eq!(read(&other), Err(DatagramError::Version(4)));
    other[3] = 5;
    other[7] = 9;
    assert_eq!(read(&other), Err(DatagramError::Address(9)));
    // Counts and lengths that no datagram can have end the reading at once.
    for at in [24, 32] {
        let mut large = whole.clone();
        large[at..at + 4].copy_from_slice(&[0xff; 4]);
        assert!(matches!(read(&large), Err(DatagramError::Ends(_))), "{at}");
    }
}

/// What Open vSwitch said, and what it counted itself, in the order of the recording.
const RECORDING: &str = include_str!("../../tests/sflow/open-vswitch.txt");

#[test]
fn what_a_real_switch_said_is_what_it_counted() {
    let (mut state, began) = (State::default(), Instant::now());
    let leaf = ExporterConfig { address: IpAddr::from(LEAF), sources: vec![SOURCE], ports: BTreeMap::new() };
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    state.configure(&SflowConfig { listen, exporters: BTreeMap::from([("leaf1".to_owned(), leaf)]) });
    let (mut last, mut carried, mut compared) = (BTreeMap::new(), BTreeMap::<String, [f64; 2]>::new(), Vec::new());
    for line in RECORDING.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        if words[0] == "interface" {
            let [index, speed, received, sent] = [2, 3, 4, 5].map(|at| words[at].parse::<u64>().unwrap());
            let told: &Interface = &last[words[1]];
            assert_eq!((u64::from(told.index), told.speed, told.in_octets, told.out_octets), (index, speed, received, sent), "{line}");
            compared.push((words[1], [received, sent]));
            continue;
        }
        let at = began + Duration::from_millis(words[1].parse().unwrap());
        let byte = |at: usize| u8::from_str_radix(&words[2][at..at + 2], 16).unwrap();
        let bytes: Vec<u8> = (0..words[2].len()).step_by(2).map(byte).collect();
        assert_eq!(state.take(&bytes, SOURCE, at), Taken::Well, "{line}");
        for interface in samples(head(&bytes).unwrap().1).unwrap().interfaces {
            let name = interface.name.clone().expect("Open vSwitch names its interfaces");
            // What the rates say that it carried, once the comparison above has begun.
            if let Some(rates) = state.exporters["leaf1"].ports[&PortName::Told(name.clone())].fresh(at).filter(|_| !compared.is_empty()) {
                let seconds = rates.interval.as_secs_f64();
                let sums = carried.entry(name.clone()).or_default();
                for (sum, rate) in sums.iter_mut().zip([rates.received, rates.sent]) {
                    *sum += rate.unwrap() as f64 * seconds / 8.0;
                }
            }
            last.insert(name, interface);
        }
    }
    let [(first, before), (second, other), (_, after), (_, both)] = compared[..] else { panic!("{compared:?}") };
    for (name, from, to) in [(first, before, after), (second, other, both)] {
        for direction in [0, 1] {
            let (counted, told) = ((to[direction] - from[direction]) as f64, carried[name][direction]);
            // A rate is cut to whole bits a second.
            assert!(counted > 0.0 && (told - counted).abs() < 10.0, "{name}: {told} of {counted} bytes");
        }
    }
    assert_eq!((state.counts.malformed, state.exporters["leaf1"].resets, last.len()), (0, 0, 3), "two ports, and the bridge's own");
    assert!(state.counts.flows > 0, "the recording holds flow samples too");
}

#[test]
fn what_a_port_carried_is_told_of_both_directions_while_it_is_fresh() {
    let (mut state, fabric, began) = (state(), fabric(), Instant::now());
    // Ethernet0 is named by the switch; 9 and swp2 by the configuration; "2" is a number of ours in the fabric, and no port so called.
    let mut told = |uptime, octets: [[u64; 2]; 4], at| {
        let names = [(1, Some("Ethernet0")), (9, None), (3, Some("swp2")), (4, Some("2"))];
        let all: Vec<_> = names.iter().zip(octets).map(|(&(index, name), octets)| sample(index, octets, name, index % 2 == 0)).collect();
        assert_eq!(state.take(&packet(LEAF, uptime, &all), SOURCE, at), Taken::Well);
        state.exporters["leaf1"].ports.len()
    };
    let zero = [[0; 2]; 4];
    assert_eq!(told(1_000, zero, began), 4);
    // 20 s on the switch's clock. 12.5 GB in 20 s are 5 Gbit/s.
    let later = began + 20 * SECOND;
    let octets = [[12_500_000_000, 25_000_000_000], [2_500_000, 125_000_000_000], [0, 62_500_000_000], [1, 1]];
    told(21_000, octets, later);
    let names = ["leaf1->h1", "h1->leaf1", "leaf1->spine1", "spine1->leaf1", "leaf1->h2", "h2->leaf1", "h3->leaf1"];
    let seen = |state: &State, now| names.map(|name| Table::new(&fabric, state, now).of(name).map(|seen| seen.bits / 1_000_000));
    assert_eq!(seen(&state, later), [Some(10_000), Some(5_000), Some(50_000), Some(1), Some(25_000), Some(0), None]);
    assert_eq!(seen(&state, later + 60 * SECOND)[0], Some(10_000));
    assert_eq!(seen(&state, later + 61 * SECOND), [None; 7]);
    let table = Table::new(&fabric, &state, later);
    assert_eq!(table.fullest().take(3).collect::<Vec<_>>(), ["leaf1->spine1", "leaf1->h2", "leaf1->h1"], "50 %, 50 % of less, 10 %");
    // Beside a plan of 20 %.
    let mut link = table.bare(&fabric, "leaf1->spine1").unwrap();
    assert_eq!((link.from_tier, link.to_tier, link.capacity_mbps), (1, 2, 100_000));
    link.mean_demand_ratio = 0.2;
    table.tell(&mut link, later + SECOND);
    assert_eq!((link.observed_mbps, link.observed_ratio, link.observed_age_ms), (Some(50_000), Some(0.5), Some(1_000)));
    assert!((link.observed_excess_ratio.unwrap() - 0.3).abs() < 1e-9);
    let mut unknown = pb::Link { id: "h3->leaf1".into(), ..pb::Link::default() };
    table.tell(&mut unknown, later);
    assert_eq!(unknown.observed_ratio, None);
}

#[test]
fn what_does_not_fit_the_fabric_is_said() {
    let (mut state, fabric, now) = (state(), fabric(), Instant::now());
    let all = [sample(1, [0; 2], Some("Ethernet0"), false), sample(3, [0; 2], Some("swp2"), false), sample(5, [0; 2], Some("eth0"), false)];
    state.take(&packet(LEAF, 1, &all), SOURCE, now);
    state.take(&packet(LEAF, 1, &(100..150).map(|index| sample(index, [0; 2], None, false)).collect::<Vec<_>>()), SOURCE, now);
    let exporter = &state.exporters["leaf1"];
    assert_eq!(exporter.unmapped.len(), UNMAPPED_MAX);
    assert_eq!(exporter.silent_ports().collect::<Vec<_>>(), ["spine1"]);
    let (links, notes) = table::compare(&fabric, fabric.find("leaf1").unwrap(), exporter, now);
    assert_eq!(
        (links, notes),
        (0, vec!["\"p2\" has 100 Gb/s, the fabric says 50 Gb/s".to_owned(), "interface \"eth0\" is no port of the fabric".to_owned()])
    );
}

#[test]
fn strangers_and_forgers_take_nothing_from_who_is_configured() {
    let (mut state, began) = (state(), Instant::now());
    let one = |uptime| packet(LEAF, uptime, &[sample(1, [0, 0], Some("Ethernet0"), false)]);
    assert_eq!(state.take(&one(1), SOURCE, began), Taken::Well);
    // Many agents, and the leaf's own address from elsewhere, more than it may send.
    for n in 0..10_000_u32 {
        let [a, b, c, d] = n.to_be_bytes();
        assert_eq!(state.take(&packet([10 + a, b, c, d], 1, &[]), SOURCE, began), Taken::Unknown(IpAddr::from([10 + a, b, c, d])));
        let forger = IpAddr::from([203, 0, c, d]);
        assert_eq!(state.take(&one(n), forger, began), Taken::Foreign(forger));
    }
    assert_eq!((state.strangers.len(), state.exporters.len()), (STRANGERS_MAX, 1));
    assert_eq!(state.exporters["leaf1"].foreign, Some(IpAddr::from([203, 0, 39, 15])));
    // What it may send in this second it still may, but for the one before.
    for n in 1..DATAGRAMS_PER_S_MAX {
        assert_eq!(state.take(&one(1), SOURCE, began), Taken::Well, "{n}");
    }
    assert_eq!(state.take(&one(1), SOURCE, began), Taken::Limited);
    assert_eq!(state.take(&one(20_001), SOURCE, began + 20 * SECOND), Taken::Well);
    let counts = state.counts;
    assert_eq!((counts.unknown, counts.foreign, counts.limited, counts.malformed), (10_000, 10_000, 1, 0));
    assert_eq!(counts.taken, u64::from(DATAGRAMS_PER_S_MAX) + 1);
}

#[test]
fn names_without_end_fill_no_memory_and_leave_room_for_ports_of_the_configuration() {
    let (mut state, began) = (state(), Instant::now());
    let flood = |state: &mut State, from: u32, at| {
        for first in (from..from + 3_000).step_by(100) {
            let all: Vec<_> = (first..first + 100).map(|n| sample(n + 10, [0; 2], Some(&format!("name{n}")), false)).collect();
            state.take(&packet(LEAF, 1, &all), SOURCE, at);
        }
    };
    flood(&mut state, 0, began);
    assert_eq!(state.exporters["leaf1"].ports.len(), PORTS_MAX);
    assert_eq!(state.exporters["leaf1"].crowded, 3_000 - PORTS_MAX as u64);
    state.take(&packet(LEAF, 1, &[sample(9, [0; 2], None, false)]), SOURCE, began);
    assert_eq!(state.exporters["leaf1"].ports.len(), PORTS_MAX + 1);
    // Those of which nothing was heard for long make room.
    flood(&mut state, 5_000, began + 601 * SECOND);
    let ports = &state.exporters["leaf1"].ports;
    assert!(ports.contains_key(&PortName::Told("name5000".into())) && ports.contains_key(&PortName::Configured("spine1".into())));
    assert_eq!(ports.len(), PORTS_MAX + 1);
}

#[test]
fn a_reload_keeps_what_exporters_said_of_which_it_says_the_same() {
    let (mut state, now) = (state(), Instant::now());
    state.take(&packet(LEAF, 1, &[sample(9, [0; 2], None, false)]), SOURCE, now);
    state.take(&packet([192, 0, 2, 2], 1, &[]), SOURCE, now);
    let leaf = state.exporters["leaf1"].config().clone();
    let other = ExporterConfig { address: IpAddr::from([192, 0, 2, 2]), ..leaf.clone() };
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    state.configure(&SflowConfig { listen, exporters: BTreeMap::from([("leaf1".into(), leaf.clone()), ("leaf2".into(), other)]) });
    assert_eq!((state.exporters["leaf1"].ports.len(), state.strangers.len()), (1, 0));
    assert_eq!(state.take(&packet([192, 0, 2, 2], 1, &[]), SOURCE, now), Taken::Well);
    let changed = ExporterConfig { ports: BTreeMap::new(), ..leaf };
    state.configure(&SflowConfig { listen, exporters: BTreeMap::from([("leaf1".into(), changed)]) });
    assert_eq!((state.exporters["leaf1"].ports.len(), state.exporters.len()), (0, 1));
}

proptest! {
    /// Whatever comes is taken or refused, and what is kept has its limits.
    #[test]
    fn any_datagram_is_survived(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let (mut state, now, fabric) = (state(), Instant::now(), fabric());
        let mut real = packet(LEAF, 1, &[sample(1, [1, 2], Some("Ethernet0"), true), opaque(1, &bytes), sample(9, [3, u64::MAX], None, false)]);
        for (at, byte) in changes {
            let at = at.index(real.len());
            real[at] = byte;
        }
        for n in 1..4 {
            state.take(&bytes, SOURCE, now + n * SECOND);
            state.take(&real, SOURCE, now + n * SECOND);
            state.take(&real[..cut.index(real.len())], SOURCE, now + n * SECOND);
            Table::new(&fabric, &state, now + n * SECOND);
        }
        let counts = state.counts;
        prop_assert_eq!(counts.taken + counts.malformed + counts.unknown + counts.foreign + counts.limited, 9);
        prop_assert!(state.exporters["leaf1"].ports.len() <= 6 && state.strangers.len() <= 6);
    }
}

/// By hand: `ANTIPHASE_DATAGRAMS=2000000 cargo test -p antiphase-topology --release sflow -- mutated --nocapture`.
#[test]
fn mutated_datagrams_are_survived() {
    let count: u64 = std::env::var("ANTIPHASE_DATAGRAMS").map_or(5_000, |count| count.parse().unwrap());
    let (mut state, began, fabric) = (state(), Instant::now(), fabric());
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    // xorshift64: any stream of numbers does that is the same in every run.
    let mut random = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed >> 32).unwrap() % below
    };
    let whole: Vec<Vec<u8>> = (0..8)
        .map(|n| {
            let name = ["Ethernet0", "swp2", "2", "é"][n % 4];
            packet(
                LEAF,
                n as u32 * 20_000,
                &[sample(1, [n as u64; 2], Some(name), n < 4), opaque(1, &[7; 90]), sample(9, [n as u64; 2], None, n > 4)],
            )
        })
        .collect();
    for n in 0..count {
        let mut bytes = whole[random(whole.len())].clone();
        for _ in 0..1 + random(8) {
            let at = random(bytes.len());
            match random(5) {
                0 => bytes[at] = [0, 1, 4, 0x7f, 0x80, 0xff][random(6)],
                1 => bytes[at] ^= 1 << random(8),
                2 => bytes.truncate(at.max(1)),
                3 => bytes.extend_from_within(at..),
                _ => drop(bytes.drain(at..(at + random(8)).min(bytes.len() - 1).max(at))),
            }
            bytes.truncate(DATAGRAM_BYTES_MAX);
        }
        let now = began + Duration::from_millis(n);
        state.take(&bytes, SOURCE, now);
        if n % 1_000 == 0 {
            Table::new(&fabric, &state, now);
        }
    }
    let counts = state.counts;
    println!("{count} changed datagrams in {:?}: {counts:?}", began.elapsed());
    assert!(counts.taken > count / 100 && counts.malformed > count / 100 && counts.unknown > 0, "{counts:?}");
    assert!(state.exporters["leaf1"].ports.len() <= PORTS_MAX + 2 && state.strangers.len() <= STRANGERS_MAX);
}
