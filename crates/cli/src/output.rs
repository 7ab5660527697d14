//! Writing results. A reader that closes the pipe early (`antiphase ... | head`) is not an error.

use std::{
    fs,
    io::{ErrorKind, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use clap::ValueEnum;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use units::OneLine;

use crate::{input::CliError, paths};

/// Form of an answer, where a command has the same three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people
    #[default]
    Table,
    /// For programs
    Json,
    /// For programs
    Yaml,
}

impl Output {
    /// The answer in this form; `table` makes the one for people.
    pub(crate) fn render<T: Serialize>(self, answer: &T, table: impl FnOnce() -> String) -> Result<String, CliError> {
        match self {
            // What is not in a cell of a table is sentences, one a line, and some are of the service.
            Self::Table => Ok(escaped(&table())),
            Self::Json => json(answer),
            Self::Yaml => yaml(answer),
        }
    }
}

/// Lines for a terminal, in which nothing is a code of the terminal's.
pub(crate) fn escaped(text: &str) -> String {
    text.lines().map(|line| OneLine(line).to_string() + "\n").collect()
}

/// A document that says what it is in its first key.
#[derive(Debug, Serialize)]
pub(crate) struct Document<'a, T> {
    /// Kind and version, such as `antiphase.routes/v1`.
    pub(crate) schema: &'static str,
    #[serde(flatten)]
    pub(crate) answer: &'a T,
}

/// A document as indented JSON.
pub(crate) fn json<T: Serialize>(document: &T) -> Result<String, CliError> {
    serde_json::to_string_pretty(document).map_err(|e| CliError::Failure(format!("cannot write the answer: {e}")))
}

/// A document as YAML.
pub(crate) fn yaml<T: Serialize>(document: &T) -> Result<String, CliError> {
    serde_saphyr::to_string(document).map_err(|e| CliError::Failure(format!("cannot write the answer: {e}")))
}

/// Prints `text` to standard output, with a line break at the end.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    print_on(text).map(drop)
}

/// As [`print()`]; whether somebody may still read what comes next: a command that goes on ends where nobody does.
pub(crate) fn print_on(text: &str) -> Result<bool, CliError> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| if text.ends_with('\n') { Ok(()) } else { out.write_all(b"\n") });
    match written.and_then(|()| out.flush()) {
        // `head` closes its end when it has enough; all that it asked for was printed.
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(CliError::Failure(format!("standard output: {e}"))),
        told => Ok(told.is_ok()),
    }
}

/// How often a command that waits looks whether somebody still reads its standard output.
const READER_EVERY: Duration = Duration::from_millis(500);

/// Returns when nobody reads standard output any more, as where `head` has enough; never where it is a file or a terminal that stays.
pub(crate) async fn reader_leaves() {
    loop {
        let out = std::io::stdout();
        // No event is asked for: what is told all the same is that the other end is gone.
        let mut polled = [PollFd::new(&out, PollFlags::empty())];
        if poll(&mut polled, Some(&Timespec::default())).is_ok() && polled[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) {
            return;
        }
        tokio::time::sleep(READER_EVERY).await;
    }
}

/// Prints a line to standard error; where that is closed there is nobody to tell.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Writes whole files, all or none: beside their places first, then renamed; where one cannot be placed, those before it get their old
/// content back. A file that was read is never written over, and no two are one ([`check_outputs`]). A pipe or a device is written as it is, because
/// a file in its place would be no device any more.
pub(crate) fn write_files(files: &[(&Path, &str)]) -> Result<(), CliError> {
    check_outputs(&files.iter().map(|(file, _)| *file).collect::<Vec<_>>())?;
    let is_stream = |file: &Path| fs::metadata(file).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir());
    let (streams, files): (Vec<_>, Vec<_>) = files.iter().copied().partition(|(file, _)| is_stream(file));
    write_all_or_none(&files)?;
    streams.iter().try_for_each(|(file, text)| fs::write(file, text).map_err(|e| failed(file, e)))
}

/// Refuses outputs that are inputs, or one file, by [`paths::check_outputs`]; a command that works for long asks before it begins.
pub(crate) fn check_outputs(files: &[&Path]) -> Result<(), CliError> {
    paths::check_outputs(files).map_err(|(file, problem)| CliError::input(&file, problem))
}

fn failed(file: &Path, e: std::io::Error) -> CliError {
    CliError::Failure(format!("{}: {e}", file.display()))
}

fn write_all_or_none(files: &[(&Path, &str)]) -> Result<(), CliError> {
    let written = files.iter().try_for_each(|(file, text)| fs::write(beside(file, "partial"), text).map_err(|e| failed(file, e)));
    // No file is renamed before all are written: a full disk leaves the old files as they were.
    let mut placed = Vec::new();
    let all = written.and_then(|()| {
        files.iter().try_for_each(|(file, _)| {
            placed.push((*file, place(file).map_err(|e| failed(file, e))?));
            Ok(())
        })
    });
    for (file, was_there) in placed {
        // An old file that cannot be put back stays beside its place, and the error says which file is concerned.
        match (&all, was_there) {
            (Ok(()), true) => drop(fs::remove_file(beside(file, "before"))),
            (Err(_), true) => drop(fs::rename(beside(file, "before"), file)),
            (Err(_), false) => drop(fs::remove_file(file)),
            (Ok(()), false) => {}
        }
    }
    if all.is_err() {
        // Partial files beside their places are of no use to anybody.
        files.iter().for_each(|(file, _)| drop(fs::remove_file(beside(file, "partial"))));
    }
    all
}

/// Opens a file whose lines are written as they come, under the same rules as [`write_files`].
pub(crate) fn create(file: &Path) -> Result<fs::File, CliError> {
    check_outputs(&[file])?;
    fs::File::create(file).map_err(|e| failed(file, e))
}

/// Puts a partial file into its place, and says whether another one stood there, which is kept.
fn place(file: &Path) -> std::io::Result<bool> {
    let (partial, before) = (beside(file, "partial"), beside(file, "before"));
    let was_there = match fs::hard_link(file, &before) {
        Ok(()) => true,
        Err(e) if e.kind() == ErrorKind::NotFound => false,
        // Not all file systems give a file a second name. A folder cannot be copied either, and is no place for a file.
        Err(_) => fs::copy(file, &before).map(|_| true)?,
    };
    fs::rename(partial, file).inspect_err(|_| drop(fs::remove_file(&before))).map(|()| was_there)
}

/// A name beside a file: the rename stays within one file system, and the process id keeps two runs apart.
fn beside(file: &Path, end: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".{}.{end}", std::process::id()));
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_written_all_or_none() {
        let folder = std::env::temp_dir().join(format!("antiphase-output-{}", std::process::id()));
        let at = |name: &str| folder.join(name);
        let names = || {
            let mut names: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        fs::create_dir_all(at("folder/below")).unwrap();
        fs::write(at("old"), "old").unwrap();
        // The last cannot be placed: a folder that is not empty stands there.
        let refused = write_files(&[(&at("old"), "new"), (&at("none"), "new"), (&at("folder"), "new")]).unwrap_err();
        assert!(refused.line().contains("folder"), "{}", refused.line());
        assert_eq!((fs::read_to_string(at("old")).unwrap().as_str(), names()), ("old", vec!["folder".into(), "old".into()]));
        write_files(&[(&at("old"), "new"), (&at("none"), "made")]).unwrap();
        assert_eq!(fs::read_to_string(at("old")).unwrap() + &fs::read_to_string(at("none")).unwrap(), "newmade");
        assert_eq!(names(), ["folder", "none", "old"]);
        fs::remove_dir_all(folder).unwrap();
    }
}
