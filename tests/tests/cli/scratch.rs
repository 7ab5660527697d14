//! A folder of one test, gone when the test ends.

use std::{
    fs,
    path::{Path, PathBuf},
};

#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// An empty folder.
    pub(crate) fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("antiphase-cli-{}-{test}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a temporary folder");
        Self(folder)
    }

    /// A folder with these files.
    pub(crate) fn with(test: &str, files: &[(impl AsRef<str>, impl AsRef<[u8]>)]) -> Self {
        let scratch = Self::new(test);
        for (name, content) in files {
            let name = name.as_ref();
            fs::create_dir_all(scratch.0.join(name).parent().expect("a folder")).expect("a folder");
            scratch.file(name, content);
        }
        scratch
    }

    /// The folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }

    /// A path in it, as an argument.
    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a path of UTF-8").to_owned()
    }

    /// A file in it; returns its path.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::write(&path, content).expect("a temporary file");
        path
    }

    /// Names of what is in it, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(&self.0)
            .expect("the folder is there")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
