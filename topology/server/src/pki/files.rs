//! Files of keys and certificates: written whole or not at all, and never over another one by accident.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use super::{Issued, PkiError};

/// Only the owner enters the folder, because the authority's key is in it.
const DIR_MODE: u32 = 0o700;
const KEY_MODE: u32 = 0o600;
const CERTIFICATE_MODE: u32 = 0o644;

pub(super) fn make_folder(dir: &Path) -> Result<(), PkiError> {
    DirBuilder::new().recursive(true).mode(DIR_MODE).create(dir).map_err(at(dir))
}

/// Refuses before anything is made if a file is in the way.
pub(super) fn refuse_to_replace(targets: &[&Issued], force: bool) -> Result<(), PkiError> {
    let paths = targets.iter().flat_map(|target| [&target.key, &target.certificate]);
    match paths.into_iter().find(|path| !force && path.symlink_metadata().is_ok()) {
        Some(path) => Err(PkiError::Exists { path: path.clone() }),
        None => Ok(()),
    }
}

/// The key first: a certificate without its key would look finished.
pub(super) fn write(target: &Issued, certificate: &str, key: &str, force: bool) -> Result<(), PkiError> {
    write_one(&target.key, key, KEY_MODE, force)?;
    write_one(&target.certificate, certificate, CERTIFICATE_MODE, force)
}

/// A list that is for everybody, in the place of the old one.
pub(super) fn write_list(path: &Path, text: &str) -> Result<(), PkiError> {
    write_one(path, text, CERTIFICATE_MODE, true)
}

pub(super) fn read(path: &Path) -> Result<String, PkiError> {
    fs::read_to_string(path).map_err(at(path))
}

/// Through a file beside it and one step into place, so that a reader sees the old text or the new one.
fn write_one(path: &Path, text: &str, mode: u32, force: bool) -> Result<(), PkiError> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    let beside = PathBuf::from(beside);
    // `hard_link` fails where a file is, `rename` replaces it: of two commands without --force only one can win.
    let written = fill(&beside, text, mode).and_then(|()| if force { fs::rename(&beside, path) } else { fs::hard_link(&beside, path) });
    // After a rename the file beside is gone; after anything else it must not stay, because it may hold a key.
    let _ = fs::remove_file(&beside);
    match written {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(PkiError::Exists { path: path.to_owned() }),
        Err(source) => Err(PkiError::File { path: path.to_owned(), source }),
        Ok(()) => Ok(()),
    }
}

fn fill(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    // A file of this name is from a process that died with our id.
    let _ = fs::remove_file(path);
    // The mode is set as the file is made: there is no moment in which others can read a key.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes())?;
    // The text is on the disk before the file gets its name: a crash leaves no empty key.
    file.sync_all()
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> PkiError {
    let path = path.to_owned();
    move |source| PkiError::File { path, source }
}
