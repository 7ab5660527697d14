//! Which files a command has read, and which it is about to write: no input is overwritten, and no two outputs are one file.
//!
//! Files are told apart by device and inode, so another name of a file (a link, hard or symbolic, or a way through other folders) hides nothing.

use std::{
    ffi::OsString,
    fs::{self, File, Metadata},
    io,
    os::{fd::AsFd, unix::fs::MetadataExt as _},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// Device and inode.
type Id = (u64, u64);

/// What was read, in the order in which it was.
static READ: Mutex<Vec<(Id, PathBuf)>> = Mutex::new(Vec::new());

/// Takes note of a file that is read; a pipe or a device can be written, too.
pub(crate) fn note_read(file: &Path, metadata: &Metadata) {
    if metadata.is_file() {
        READ.lock().unwrap_or_else(PoisonError::into_inner).push((id(metadata), file.to_path_buf()));
    }
}

/// What a stream of this program is, where it can be known.
pub(crate) fn stream(of: &impl AsFd) -> Option<Metadata> {
    of.as_fd().try_clone_to_owned().map(File::from).and_then(|file| file.metadata()).ok()
}

/// Refuses outputs of which one is a file that was read, or that is another output, or where the answer goes.
///
/// # Errors
/// The first such output, and what stands there already.
pub(crate) fn check_outputs(files: &[&Path]) -> Result<(), (PathBuf, String)> {
    let refuse = |file: &Path, problem: String| Err((file.to_path_buf(), problem));
    let read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    let answer = stream(&io::stdout()).filter(Metadata::is_file).map(|metadata| Place::There(id(&metadata)));
    let mut placed: Vec<(Place, &Path)> = Vec::new();
    for file in files {
        let Some(place) = Place::of(file) else { continue };
        if let Some((_, input)) = read.iter().find(|(id, _)| place == Place::There(*id)) {
            return refuse(file, format!("is an input, read as {input:?}; nothing is written over it"));
        }
        if let Some((_, other)) = placed.iter().find(|(other, _)| *other == place) {
            return refuse(file, format!("is an output already, as {other:?}; each has a file of its own"));
        }
        if answer.as_ref() == Some(&place) {
            return refuse(file, "is where standard output goes; each has a file of its own".to_owned());
        }
        placed.push((place, file));
    }
    Ok(())
}

/// Where an output would stand.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// A file that exists.
    There(Id),
    /// One that does not: its folder, and its name there.
    In(Id, OsString),
}

impl Place {
    /// `None` where nothing could be lost: a pipe or a device, or a folder that is none, which whoever writes will say.
    fn of(file: &Path) -> Option<Self> {
        match fs::metadata(file) {
            Ok(metadata) => metadata.is_file().then(|| Self::There(id(&metadata))),
            Err(_) => {
                let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
                let metadata = fs::metadata(folder).ok()?;
                Some(Self::In(id(&metadata), file.file_name()?.to_owned()))
            }
        }
    }
}

fn id(metadata: &Metadata) -> Id {
    (metadata.dev(), metadata.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_itself_under_every_name_and_another_one_is_not() {
        let folder = std::env::temp_dir().join(format!("antiphase-paths-{}", std::process::id()));
        let at = |name: &str| folder.join(name);
        fs::create_dir_all(at("below")).unwrap();
        fs::write(at("read"), "text").unwrap();
        fs::hard_link(at("read"), at("hard")).unwrap();
        std::os::unix::fs::symlink(at("read"), at("soft")).unwrap();
        std::os::unix::fs::symlink(&folder, at("around")).unwrap();
        fs::write(at("other"), "text").unwrap();
        note_read(&at("read"), &fs::metadata(at("read")).unwrap());
        let refused = |names: &[&str]| {
            let files: Vec<PathBuf> = names.iter().map(|name| at(name)).collect();
            check_outputs(&files.iter().map(PathBuf::as_path).collect::<Vec<_>>()).map_err(|(_, problem)| problem).err()
        };
        for name in ["read", "hard", "soft", "below/../read", "around/read"] {
            assert!(refused(&["other", name]).is_some_and(|line| line.contains("is an input")), "{name}");
        }
        for pair in [["new", "new"], ["new", "around/new"], ["new", "below/../new"], ["other", "around/other"]] {
            assert!(refused(&pair).is_some_and(|line| line.contains("is an output already")), "{pair:?}");
        }
        assert_eq!(refused(&["other", "new", "below/new", "missing/new"]), None);
        // Devices take what they are given, as often as they are.
        assert!(check_outputs(&[Path::new("/dev/null"), Path::new("/dev/null")]).is_ok());
        fs::remove_dir_all(folder).unwrap();
    }
}
