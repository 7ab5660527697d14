//! Feeds both decoders of frames with inputs from a seed: frames of theirs with bytes spoilt, cut and lengthened, and noise.
//!
//! `cargo run --release -p antiphase-telemetry --example fuzz_frames -- 10000000 1` prints how many were read as what; a panic ends it.

use std::{env, net::Ipv4Addr};

use antiphase_telemetry::{
    lldp,
    roce::{self, CnpFrame},
};
use units::{Nanos, Rate, splitmix64};

fn main() {
    let argument = |at: usize, default: u64| env::args().nth(at).map_or(Ok(default), |text| text.parse());
    let (Ok(count), Ok(mut state)) = (argument(1, 1_000_000), argument(2, 1)) else {
        eprintln!("usage: fuzz_frames [COUNT [SEED]]");
        return;
    };
    let (source, destination) = (Ipv4Addr::new(10, 9, 0, 2), Ipv4Addr::new(10, 9, 0, 1));
    let to = CnpFrame { destination_mac: [2; 6], source_mac: [4; 6], source, destination, source_port: 49_152, queue_pair: 0xd2 };
    let system = Some("leaf-01".to_owned());
    let (description, forwards, rate) = (Some("Eth1/1".to_owned()), Some(true), Some(Rate(100_000)));
    let ttl = Nanos::from_millis(120_000);
    let advert = lldp::Advert { chassis: "leaf-01".into(), port: "Ethernet1/1".into(), ttl, system, description, forwards, rate };
    let seeds = [roce::cnp(&to).to_vec(), lldp::encode(&advert)];
    let (mut packets, mut whole, mut adverts) = (0_u64, 0_u64, 0_u64);
    let mut frame = Vec::new();
    for n in 0..count {
        let draw = splitmix64(&mut state);
        frame.clear();
        if draw.is_multiple_of(8) {
            frame.extend((0..draw >> 8 & 0x7f).map(|_| splitmix64(&mut state) as u8));
        } else {
            frame.extend_from_slice(&seeds[(n % 2) as usize]);
            for _ in 0..draw >> 8 & 3 {
                let (at, length) = (splitmix64(&mut state), frame.len());
                frame[at as usize % length] = (at >> 32) as u8;
            }
            match draw >> 16 & 7 {
                0 => frame.truncate((draw >> 24) as usize % frame.len()),
                1 => frame.extend((0..draw >> 24 & 0x3f).map(|_| draw as u8)),
                _ => {}
            }
        }
        if let Ok(packet) = roce::parse(&frame) {
            packets += 1;
            whole += u64::from(packet.is_whole);
        }
        adverts += u64::from(lldp::parse(&frame).is_ok());
    }
    println!("{count} inputs: {packets} packets, {whole} of them whole; {adverts} adverts; no panic");
}
