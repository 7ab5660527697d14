//! `antiphase lab`: real jobs on a fabric of network namespaces, or the same in virtual time.

use std::{io::Write as _, process::ExitCode};

use ::lab::{Program, case::CaseError};

use crate::input::CliError;

pub(crate) fn run(command: &::lab::Command) -> Result<ExitCode, CliError> {
    let mut out = std::io::stdout().lock();
    let done = Program::this(&["lab"]).and_then(|program| ::lab::run(command, &program, &mut out));
    match done.and_then(|()| Ok(out.flush()?)) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if error.downcast_ref::<CaseError>().is_some() => Err(CliError::Usage(format!("{error:#}"))),
        Err(error) => Err(CliError::Failure(format!("{error:#}"))),
    }
}
