//! Writing results. A reader that closes the pipe early (`antiphase ... | head`) is not an error.

use std::io::{ErrorKind, Write as _};

use crate::input::CliError;

/// Prints `text` to standard output, with a line break at the end.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| if text.ends_with('\n') { Ok(()) } else { out.write_all(b"\n") });
    match written.and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(CliError::Failure(format!("standard output: {e}"))),
        _ => Ok(()),
    }
}
