//! `antiphase`: commands for people. One file per command in `commands/`; pictures are drawn by the crate `render`.
//!
//! Exit codes: 0 done, 1 failure, 2 usage or bad input (one line on stderr that names the file,
//! the place and the value), 3 a loop in paper mode, 4 `fabric diff` found differences,
//! 5 no candidate reaches `--min-score`.
#![forbid(unsafe_code)]

mod cluster;
mod commands;
mod input;
mod output;
mod paths;
mod rows;
mod table;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let args = commands::Args::parse();
    match commands::run(args) {
        Ok(code) => code,
        Err(error) => {
            output::say(&format!("antiphase: {}", error.line()));
            error.exit_code()
        }
    }
}
