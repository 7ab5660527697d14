//! The lab alone: `antiphase lab` without the rest of `antiphase`.
#![forbid(unsafe_code)]

use std::{
    io::{Write as _, stdout},
    process::ExitCode,
};

use antiphase_lab::{Command, Program, case::CaseError};
use clap::Parser;
use units::OneLine;

/// A fabric of network namespaces with real traffic and real ECN marks.
#[derive(Parser)]
#[command(name = "antiphase-lab", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut out = stdout().lock();
    let done = Program::this(&[]).and_then(|program| antiphase_lab::run(&cli.command, &program, &mut out));
    match done.and_then(|()| Ok(out.flush()?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("antiphase-lab: {}", OneLine(format_args!("{error:#}")));
            // 2: what was given is wrong; 1: it could not be done.
            ExitCode::from(if error.downcast_ref::<CaseError>().is_some() { 2 } else { 1 })
        }
    }
}
