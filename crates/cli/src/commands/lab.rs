//! `antiphase lab`: real jobs on a fabric of network namespaces, or the same in virtual time.

use std::{io::Write as _, process::ExitCode};

use ::lab::{Program, case::CaseError};

use crate::input::CliError;

pub(crate) fn run(command: &::lab::Command) -> Result<ExitCode, CliError> {
    let mut out = std::io::stdout().lock();
    // Ranks are this program again, as `antiphase lab rank`, so the word `lab` goes in front.
    let done = Program::this(&["lab"]).and_then(|program| ::lab::run(command, &program, &mut out));
    match done.and_then(|()| Ok(out.flush()?)) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        // A bad case is the user's to mend (exit code 2); a kernel that refuses is not (exit code 1).
        Err(error) if error.downcast_ref::<CaseError>().is_some() => Err(CliError::Usage(format!("{error:#}"))),
        Err(error) => Err(CliError::Failure(format!("{error:#}"))),
    }
}
