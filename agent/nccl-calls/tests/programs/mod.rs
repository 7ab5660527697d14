//! Programs and libraries of C for the tests, and what an agent reads of them.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use gate::{NoteReader, Received, events::Event};
use tempfile::TempDir;

const FLAGS: [&str; 5] = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1"];

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(name)
}

/// The library under test, beside this program.
pub(crate) fn library() -> PathBuf {
    let library = env::current_exe().unwrap().parent().unwrap().join("libnccl_calls_antiphase.so");
    assert!(library.exists(), "{} was not built with the tests", library.display());
    library
}

/// Runs it, and gives what it printed. Whatever the sanitizers or the loader say is on standard error, which fails nothing by itself.
pub(crate) fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{:?}: {error}; gcc is needed", command.get_program()));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    eprint!("{said}");
    assert!(!said.contains("ld.so"), "the library was not preloaded: {said}");
    String::from_utf8(output.stdout).unwrap()
}

fn compile(source_file: &str, into: &Path, with: &[&str]) {
    let mut command = Command::new("gcc");
    output(command.args(FLAGS).arg(source(source_file)).arg("-o").arg(into).args(with));
}

/// A library in NCCL's place, in its own folder.
pub(crate) struct Nccl(PathBuf);

impl Nccl {
    pub(crate) fn build(folder: &Path, name: &str, with: &[&str]) -> Self {
        let path = folder.join(name);
        compile("nccl.c", &path, &[&["-shared", "-fPIC", &format!("-Wl,-soname,{name}")], with].concat());
        Self(path)
    }

    /// A real one.
    pub(crate) fn real(path: &Path) -> Self {
        Self(path.to_owned())
    }

    fn folder(&self) -> &str {
        self.0.parent().unwrap().to_str().unwrap()
    }

    /// A library that links it, beside it.
    pub(crate) fn user(&self, name: &str) -> PathBuf {
        self.user_in(self.0.parent().unwrap(), name)
    }

    /// The same in another folder.
    pub(crate) fn user_in(&self, folder: &Path, name: &str) -> PathBuf {
        let path = folder.join(name);
        compile(
            "user.c",
            &path,
            &["-shared", "-fPIC", self.0.to_str().unwrap(), &format!("-Wl,-rpath,{}", self.folder()), "-Wl,--allow-shlib-undefined"],
        );
        path
    }
}

/// A program, which links that library or none.
pub(crate) fn program(folder: &Path, name: &str, nccl: Option<&Nccl>) -> Command {
    let path = folder.join(name.trim_end_matches(".c"));
    let (link, found) = nccl.map_or(("-ldl".to_owned(), "-ldl".to_owned()), |nccl| {
        (nccl.0.to_str().unwrap().to_owned(), format!("-Wl,-rpath,{}", nccl.folder()))
    });
    compile(name, &path, &[&link, &found, "-Wl,--allow-shlib-undefined"]);
    let mut command = Command::new(path);
    for variable in ["ANTIPHASE_JOB", "ANTIPHASE_GATE", "ANTIPHASE_DIR", "LD_PRELOAD"] {
        command.env_remove(variable);
    }
    command
}

/// The program as a job with our library before all others.
pub(crate) fn watched(mut command: Command, directory: &Path) -> Command {
    command.env("LD_PRELOAD", library()).env("ANTIPHASE_JOB", "train-7").env("ANTIPHASE_DIR", directory);
    command
}

/// The agent of a node.
pub(crate) fn agent() -> (NoteReader, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    (NoteReader::bind(directory.path()).unwrap(), directory)
}

/// What the job that passed its ring told.
pub(crate) fn events(agent: &NoteReader) -> Vec<Event> {
    let Some(Received::Events { job, mut events, .. }) = agent.recv_any().expect("a ring") else { panic!("another datagram") };
    assert_eq!(job.as_str(), "train-7");
    let mut read = Vec::new();
    events.read(&mut read);
    assert_eq!(events.lost(), 0);
    read
}

/// Names that a library has for others, in order.
pub(crate) fn exported(library: &Path) -> Vec<String> {
    let text = output(Command::new("readelf").args(["--wide", "--dyn-syms"]).arg(library));
    let words = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut names: Vec<String> =
        words.filter(|words| words.len() == 8 && words[4] == "GLOBAL" && words[6] != "UND").map(|words| words[7].to_owned()).collect();
    names.sort_unstable();
    names
}
