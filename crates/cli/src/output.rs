//! Writing results. A reader that closes the pipe early (`antiphase ... | head`) is not an error.

use std::{
    io::{ErrorKind, Write as _},
    path::Path,
};

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

/// Writes a whole file or nothing: beside its place first, then renamed.
pub(crate) fn write_file(file: &Path, text: &str) -> Result<(), CliError> {
    let mut partial = file.as_os_str().to_owned();
    partial.push(format!(".{}.partial", std::process::id()));
    let written = std::fs::write(&partial, text).and_then(|()| std::fs::rename(&partial, file));
    written.map_err(|e| {
        // The rename did not happen; what is left beside the file is of no use.
        let _ = std::fs::remove_file(&partial);
        CliError::Failure(format!("{}: {e}", file.display()))
    })
}
