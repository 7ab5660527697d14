//! Coverage-guided fuzzing of the decoders that the tests know too: libFuzzer changes inputs by what they cover.
//!
//! `ANTIPHASE_DECODER` names the decoder. With `ANTIPHASE_SEEDS=FOLDER` the inputs that it begins with are written there first.
#![no_main]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure here is a finding, or a mistake of the caller")]

#[path = "../../tests/decoders/targets.rs"]
mod targets;

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use targets::{BYTES_MAX, DECODERS, Target};

thread_local! {
    // Made once: some decoders read a file, which is written anew for each input.
    static TARGET: RefCell<Target> = RefCell::new(named());
}

fn named() -> Target {
    let name = std::env::var("ANTIPHASE_DECODER").unwrap_or_default();
    let known = || DECODERS.map(|(known, _)| known).join(", ");
    Target::named(&name).unwrap_or_else(|| panic!("ANTIPHASE_DECODER={name:?}: expected one of {}", known()))
}

fn write_seeds() {
    let Some(folder) = std::env::var_os("ANTIPHASE_SEEDS") else { return };
    for (number, seed) in named().seeds.iter().enumerate() {
        std::fs::write(std::path::Path::new(&folder).join(format!("seed-{number}")), seed).expect("a folder for seeds");
    }
}

fuzz_target!(init: write_seeds(), |input: &[u8]| {
    if input.len() <= BYTES_MAX {
        TARGET.with_borrow_mut(|target| drop((target.decode)(input)));
    }
});
