//! Running the program, and looking for what it may have left.

use std::{
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_antiphase-lab");
/// The whole experiment takes half a minute, a whole one with PyTorch on a busy machine two; a stuck one is a failure.
pub(crate) const RUN_TIMEOUT: Duration = Duration::from_secs(240);

/// One lab at a time: two would share the cores that each measures.
pub(crate) static ALONE: Mutex<()> = Mutex::new(());

/// Why there can be no lab here.
pub(crate) fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("lab needs root".into());
    }
    let tools = antiphase_lab::missing_tools();
    if !tools.is_empty() {
        return Some(format!("lab needs {}", tools.join(", ")));
    }
    // Root of a container may not make namespaces; the kernel may lack what the lab uses.
    let probe = Command::new("unshare").args(["--net", "true"]).output();
    probe.is_ok_and(|o| !o.status.success()).then(|| "lab needs the right to make network namespaces".into())
}

/// Why there can be no service in the lab.
pub(crate) fn no_service() -> Option<String> {
    let programs = Path::new(PROGRAM).parent().unwrap();
    let absent = ["antiphase-topology", "antiphase-agent"].into_iter().find(|name| !programs.join(name).is_file())?;
    Some(format!("no {absent} in {}; cargo build --bins makes it", programs.display()))
}

macro_rules! lab_or_skip {
    () => {
        if let Some(why) = crate::support::missing() {
            println!("skipped: {why}");
            return;
        }
    };
}
pub(crate) use lab_or_skip;

pub(crate) fn start(args: &[&str]) -> Child {
    Command::new(PROGRAM).args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

pub(crate) fn finish(mut child: Child) -> Output {
    let end = Instant::now() + RUN_TIMEOUT;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > end {
            child.kill().unwrap();
        }
        thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap()
}

pub(crate) fn lab(args: &[&str]) -> String {
    let output = finish(start(args));
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Ids of the labs of a case that stand on this machine. Others may be somebody else's.
pub(crate) fn labs(case: &str) -> Vec<String> {
    let all: Vec<Value> = serde_json::from_str(&lab(&["status", "-o", "json"])).unwrap();
    all.iter().filter(|l| l["case"] == case).map(|l| l["id"].as_str().unwrap().to_owned()).collect()
}

/// Everything of a lab that a machine could still hold: namespaces with their devices and queues, programs for the kernel,
/// processes, files.
pub(crate) fn traces_of(id: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let prefix = format!("ap-{id}-");
    if let Ok(entries) = std::fs::read_dir("/run/netns") {
        found.extend(entries.filter_map(|e| e.ok()?.file_name().into_string().ok()).filter(|n| n.starts_with(&prefix)));
    }
    let folder = format!("/run/antiphase-lab/{id}");
    if Path::new(&folder).exists() {
        found.push(folder.clone());
    }
    for process in std::fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
        let command = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        // Ranks name the lab's folder: the leader for its trace, and PyTorch's all of them.
        if command.contains(&folder) {
            found.push(command);
        }
    }
    found
}

pub(crate) fn text(path: &Path, name: &str, iteration_ms: u64) -> String {
    // A case of its own name, so that these tests know their labs from others.
    let case = antiphase_lab::case::builtin("two-equal").unwrap().replacen("name: two-equal", &format!("name: {name}"), 1);
    let case =
        case.replace("compute_ms: 200, bytes: 1600000", &format!("compute_ms: {}, bytes: {}", iteration_ms / 2, iteration_ms * 4_500));
    let file = path.join(format!("{name}.yaml"));
    std::fs::write(&file, case).unwrap();
    file.to_str().unwrap().to_owned()
}

pub(crate) fn number(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path} of {value}"))
}
