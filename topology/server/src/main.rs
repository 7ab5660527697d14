//! `antiphase-topology`: the topology service.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    antiphase_topology::run(&antiphase_topology::Args::parse())
}
