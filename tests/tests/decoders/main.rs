//! Whatever comes in from outside is decoded or refused, and never more: the corpus of each decoder, and what is made of it.
//!
//! `tests/corpus/DECODER` holds inputs that once brought something new, as files; what a run finds to be wrong is kept there too. Each
//! test replays them and then changes them at random, `ANTIPHASE_INPUTS` times (2,000). An input that brings an outcome of a new kind
//! (another error, or one more thing that is decoded) is changed further: that is how a run gets behind the first check. With
//! `ANTIPHASE_CORPUS=FOLDER` such inputs are written there, up to [`KEPT_MAX`] of each decoder.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure here is a failed test")]

mod change;
mod targets;

use std::{collections::BTreeSet, fs, path::PathBuf, time::Instant};

use antiphase_tests::checkout;
use change::Random;
use targets::{BYTES_MAX, DECODERS, Target};

/// Changed inputs of each decoder, unless `ANTIPHASE_INPUTS` says otherwise.
const INPUTS: u64 = 2_000;
/// Inputs that a run keeps, and that are changed further.
const POOL_MAX: usize = 512;
/// Files of one decoder in the corpus.
const KEPT_MAX: usize = 40;
/// What became of an input, in few kinds: numbers and names in a message make no new one.
fn kind(outcome: &str) -> String {
    let mut out = String::new();
    let mut quoted = false;
    for c in outcome.chars() {
        match c {
            '"' | '`' => quoted = !quoted,
            _ if quoted => {}
            '0'..='9' => {
                if !out.ends_with('#') {
                    out.push('#');
                }
            }
            _ => out.push(c),
        }
    }
    out.chars().take(160).collect()
}

/// Replays the corpus and changes it.
fn run(decoder: &str) {
    let Target { seeds, mut decode } = Target::named(decoder).expect("a decoder");
    let inputs = std::env::var("ANTIPHASE_INPUTS").map_or(INPUTS, |count| count.parse().expect("ANTIPHASE_INPUTS is a number"));
    let folder = checkout().join("tests/corpus").join(decoder);
    let mut files: Vec<PathBuf> = fs::read_dir(&folder).expect("a corpus of each decoder").map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    let mut pool: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).chain(seeds).collect();
    let mut kinds: BTreeSet<String> = pool.iter().map(|input| kind(&decode(input))).collect();
    let (replayed, mut found) = (pool.len(), Vec::new());
    let (mut random, began) = (Random::of(decoder), Instant::now());
    for _ in 0..inputs {
        let input = change::changed(&mut random, &pool, BYTES_MAX);
        if kinds.insert(kind(&decode(&input))) && pool.len() < POOL_MAX {
            found.push(pool.len());
            pool.push(input);
        }
    }
    println!("{decoder}: {replayed} replayed, {inputs} changed in {:?}: {} kinds of outcomes, no finding", began.elapsed(), kinds.len());
    if let Some(folder) = std::env::var_os("ANTIPHASE_CORPUS") {
        let folder = PathBuf::from(folder).join(decoder);
        fs::create_dir_all(&folder).unwrap();
        for (number, at) in found.into_iter().take(KEPT_MAX).enumerate() {
            fs::write(folder.join(format!("found-{number:02}")), &pool[at]).unwrap();
        }
    }
}

#[test]
fn frames() {
    run("frames");
}

#[test]
fn json() {
    run("json");
}

#[test]
fn yaml() {
    run("yaml");
}

#[test]
fn page() {
    run("page");
}

#[test]
fn report() {
    run("report");
}

#[test]
fn counters() {
    run("counters");
}

#[test]
fn lldp() {
    run("lldp");
}

#[test]
fn nldev() {
    run("nldev");
}

#[test]
fn roce() {
    run("roce");
}

#[test]
fn ethtool() {
    run("ethtool");
}

/// Whoever adds a decoder adds its corpus, and its test above.
#[test]
fn each_decoder_has_a_corpus() {
    let folders = fs::read_dir(checkout().join("tests/corpus")).unwrap();
    let folders: BTreeSet<String> = folders.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(folders, DECODERS.iter().map(|(name, _)| (*name).to_owned()).collect());
}
