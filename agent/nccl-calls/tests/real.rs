//! A real libnccl, as far as it goes without a GPU: it is loaded, names itself, and refuses every call. `make test-nccl` fetches some
//! releases, of some hundred megabytes each, and runs this for each of them.
#![allow(clippy::unwrap_used, reason = "a test that meets an error should stop")]

mod programs;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use programs::{Nccl, agent, library, output, program, watched};

/// The variable that names a libnccl.so.2.
const VARIABLE: &str = "ANTIPHASE_NCCL";
/// `ncclInvalidArgument`: NCCL's answer to a communicator that is null.
const INVALID_ARGUMENT: &str = "answer 4";
/// The first release that loads a profiler, as it numbers itself.
const FIRST_WITH_PROFILER: u32 = 22_300;

fn real() -> Option<PathBuf> {
    let path = env::var_os(VARIABLE).map(PathBuf::from);
    if path.is_none() {
        println!("skipped: {VARIABLE} names no libnccl.so.2; make test-nccl fetches some");
    }
    path
}

fn plugin() -> PathBuf {
    let plugin = library().with_file_name("libnccl_profiler_antiphase.so");
    assert!(plugin.exists(), "{} was not built with the tests", plugin.display());
    plugin
}

/// A program on a machine without a GPU, whose NCCL looks for no network but loopback.
fn quiet(mut command: Command) -> Command {
    command.env("NCCL_SOCKET_IFNAME", "lo").env_remove("NCCL_DEBUG").env_remove("CUDA_VISIBLE_DEVICES");
    command
}

fn job(folder: &Path, path: &Path) -> Command {
    quiet(program(folder, "real.c", Some(&Nccl::real(path))))
}

/// The release, as NCCL numbers it: 22105 is 2.21.5.
fn version(said: &str) -> u32 {
    said.lines().find_map(|line| line.strip_prefix("version 0 ")).and_then(|number| number.parse().ok()).expect("a version")
}

#[test]
fn a_real_nccl_answers_as_without_us() {
    let Some(path) = real() else { return };
    let folder = tempfile::tempdir().unwrap();
    let alone = output(&mut job(folder.path(), &path));
    let (agent, directory) = agent();
    assert_eq!(output(&mut watched(job(folder.path(), &path), directory.path())), alone);
    let refused = alone.lines().filter(|line| *line == INVALID_ARGUMENT).count();
    assert!(alone.contains("\nname 0\n") && refused == 8, "{alone}");
    // NCCL may call a function of its own by its name, and then that call is told too.
    let told = programs::events(&agent).len();
    assert!(told >= 8, "{told}");
    println!("{}: 8 calls of the job, {told} told", version(&alone));
}

/// As Python loads PyTorch: nobody but the library that links NCCL sees its names.
#[test]
fn a_real_nccl_that_is_hidden_is_found() {
    let Some(path) = real() else { return };
    let folder = tempfile::tempdir().unwrap();
    // The library that links it stands in a folder that can be written.
    let user = Nccl::real(&path).user_in(folder.path(), "libtorch.so");
    let (agent, directory) = agent();
    let loader = || quiet(program(folder.path(), "loader.c", None));
    let alone = output(loader().arg(&user));
    assert_eq!(output(watched(loader(), directory.path()).arg(&user)), alone);
    // ncclUnhandledCudaError or the like for the communicator, and the refusal of the call.
    assert!(alone.trim_end().ends_with("004"), "{alone}");
    assert!(!programs::events(&agent).is_empty());
}

/// The release looks for profilers that the plugin has, and one before 2.23 for none: that is what our library is for.
#[test]
fn a_real_nccl_looks_for_profilers_that_the_plugin_has() {
    let Some(path) = real() else { return };
    let folder = tempfile::tempdir().unwrap();
    let release = version(&output(&mut job(folder.path(), &path)));
    let bytes = fs::read(&path).unwrap();
    let name = b"ncclProfiler_v";
    let numbers =
        bytes.windows(name.len() + 1).filter(|window| window.starts_with(name)).map(|window| u32::from(window[name.len()] - b'0'));
    let mut wanted: Vec<u32> = numbers.filter(|number| *number < 10).collect();
    wanted.sort_unstable();
    wanted.dedup();
    println!("{release}: profilers {wanted:?}");
    assert_eq!(wanted.is_empty(), release < FIRST_WITH_PROFILER, "{wanted:?}");
    // The newest is taken first, and one that the plugin lacks is passed over.
    let has = programs::exported(&plugin());
    assert!(wanted.is_empty() || wanted.iter().any(|number| has.contains(&format!("ncclProfiler_v{number}"))), "{wanted:?} {has:?}");
}

/// NCCL's own loader opens and closes the plugin, which stays mapped. Without a GPU no release comes to its profiler, so it is told to
/// look for other plugins in that file: they are not in it, and NCCL goes on without.
#[test]
fn a_real_nccl_opens_and_closes_the_plugin() {
    let Some(path) = real() else { return };
    let plugin = plugin();
    let folder = tempfile::tempdir().unwrap();
    let alone = output(&mut job(folder.path(), &path));
    let mut command = job(folder.path(), &path);
    for kind in ["PROFILER", "NET", "ENV"] {
        command.env(format!("NCCL_{kind}_PLUGIN"), &plugin);
    }
    let log = folder.path().join("log");
    command
        .env("NCCL_DEBUG", "INFO")
        .env("NCCL_DEBUG_FILE", &log)
        .env("LD_DEBUG", "files")
        .env("LD_DEBUG_OUTPUT", folder.path().join("ld"));
    assert_eq!(output(&mut command), alone);
    let loader: String = fs::read_dir(folder.path())
        .unwrap()
        .filter_map(Result::ok)
        .map(|file| file.path())
        .filter(|file| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ld.")))
        .map(|file| fs::read_to_string(file).unwrap())
        .collect();
    let opened = loader.contains("libnccl_profiler_antiphase.so");
    println!("{}: the plugin was {}", version(&alone), if opened { "opened" } else { "not looked at" });
    // Up to 2.21 the network's plugin is opened for a name, from 2.28 on that of the environment; between them none before a GPU is found.
    let release = version(&alone);
    assert_eq!(opened, !(22_200..22_800).contains(&release), "{release}");
}
