//! `examples/two-hosts`, as its README.md says: the programs, and PyTorch jobs that take turns and go on without a service.

use std::{
    env, fs,
    io::{Read as _, Seek as _},
    net::TcpListener,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use antiphase_tests::checkout;
use serde_json::Value;

/// PyTorch starts within seconds, on a busy machine within many.
const SOON: Duration = Duration::from_secs(90);

/// What runs, and ends with this: each program leads a group of processes.
struct Running {
    folder: tempfile::TempDir,
    children: Vec<(String, Child)>,
    programs: PathBuf,
    server: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        for (_, child) in &mut self.children {
            let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", child.id())]).stderr(Stdio::null()).status();
            let _ = child.wait();
        }
    }
}

impl Running {
    fn shell(&self, line: &str) -> Command {
        let mut shell = Command::new("bash");
        let path = env::var("PATH").expect("PATH is set");
        shell.args(["-ec", line]).current_dir(self.folder.path()).stdin(Stdio::null());
        shell.env("PATH", format!("{}:{path}", self.programs.display())).env("ANTIPHASE_SERVER", &self.server);
        shell.env("PYTHONPATH", checkout().join("agent/gate/python")).env("PYTHONDONTWRITEBYTECODE", "1");
        shell.env("ANTIPHASE_GATE_LIBRARY", self.programs.join("libantiphase_gate.so"));
        shell
    }

    /// Starts a line that ends with `&`.
    fn start(&mut self, line: &str) {
        let log = fs::File::create(self.log(self.children.len())).expect("a log");
        let mut shell = self.shell(&format!("exec env {line}"));
        shell.process_group(0).stdout(log.try_clone().expect("a log")).stderr(log);
        let child = shell.spawn().expect("there is bash");
        self.children.push((line.to_owned(), child));
    }

    fn log(&self, number: usize) -> PathBuf {
        self.folder.path().join(format!("{number}.log"))
    }

    /// What a line prints, and whether it ended well.
    fn run(&self, line: &str) -> (bool, String) {
        let output = self.shell(line).output().expect("there is bash");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
    }

    /// Asks again and again until it is so.
    fn await_that(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let until = Instant::now() + SOON;
        while !is_so() {
            assert!(Instant::now() < until, "not within {SOON:?}: {what}\n{}", self.said());
            thread::sleep(Duration::from_millis(300));
        }
    }

    /// The end of what every program said.
    fn said(&self) -> String {
        let tail = |number: usize| {
            let mut text = String::new();
            let mut file = fs::File::open(self.log(number)).expect("a log");
            let from = file.metadata().map_or(0, |m| m.len().saturating_sub(1_500));
            file.seek(std::io::SeekFrom::Start(from)).and_then(|_| file.read_to_string(&mut text)).map_or_else(|e| e.to_string(), |_| text)
        };
        self.children.iter().enumerate().map(|(number, (line, _))| format!("{line}\n{}\n", tail(number))).collect()
    }

    fn states(&self) -> Vec<String> {
        let (_, said) = self.run("antiphase jobs -o json");
        let answer: Value = serde_json::from_str(&said).unwrap_or_default();
        answer["jobs"].as_array().into_iter().flatten().filter_map(|job| Some(job["state"].as_str()?.to_owned())).collect()
    }
}

/// The lines of the README's blocks, a list for each block.
fn blocks(readme: &str) -> Vec<Vec<String>> {
    let parts = readme.split("```").skip(1).step_by(2).filter_map(|block| block.strip_prefix("sh\n"));
    parts.map(|block| block.lines().map(str::to_owned).collect()).collect()
}

/// Ports that are free now. All are taken at once, so that no two are the same.
fn free_ports<const COUNT: usize>() -> [String; COUNT] {
    let taken = [(); COUNT].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
    taken.each_ref().map(|listener| listener.local_addr().expect("an address").port().to_string())
}

/// Copies the folder, with ports and folders for pages that nobody else has.
fn copied(folder: &Path, ports: &[(&str, String)]) -> String {
    let mine = |text: String| ports.iter().fold(text, |text, (theirs, ours)| text.replace(theirs, ours));
    for entry in fs::read_dir(checkout().join("examples/two-hosts")).expect("the example") {
        let file = entry.expect("a file").path();
        let text = mine(fs::read_to_string(&file).expect("a text"));
        fs::write(folder.join(file.file_name().expect("a name")), text).expect("a file");
    }
    fs::read_to_string(folder.join("README.md")).expect("the README")
}

#[test]
fn the_example_of_two_hosts_is_held_as_its_readme_says_and_outlives_its_service() {
    let programs = env::var_os("ANTIPHASE_PROGRAM").map_or_else(|| checkout().join("target/debug/antiphase"), PathBuf::from);
    let programs = programs.parent().expect("a folder").to_owned();
    let needs = ["antiphase", "antiphase-topology", "antiphase-agent", "libantiphase_gate.so"];
    if let Some(missing) = needs.iter().find(|name| !programs.join(name).exists()) {
        println!("skipped: {} is not built (cargo build --workspace)", programs.join(missing).display());
        return;
    }
    let has_torch = |python: &&str| {
        let probe = ["-c", "import torch.distributed as d; assert hasattr(d, 'ProcessGroupGloo')"];
        Command::new(python).args(probe).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    let Some(python) = ["python3", "/usr/bin/python3"].into_iter().find(has_torch) else {
        println!("skipped: no python3 has PyTorch with gloo (Debian: python3-torch)");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let pages = folder.path().join("pages").display().to_string();
    let mut ports: Vec<(&str, String)> = ["7480", "7481", "7482", "29500", "29501"].into_iter().zip(free_ports::<5>()).collect();
    ports.push(("/tmp/antiphase-", format!("{pages}-")));
    ports.push(("python3 train.py", format!("{python} train.py")));
    let readme = copied(folder.path(), &ports);
    let server = format!("http://127.0.0.1:{}", ports[0].1);
    let mut running = Running { folder, children: Vec::new(), programs, server };

    let blocks = blocks(&readme);
    // The last one is the lab's.
    assert_eq!(blocks.len(), 4, "{readme}");
    for (number, block) in blocks.iter().take(3).enumerate() {
        for line in block {
            match line.strip_suffix('&') {
                Some(line) => running.start(line),
                None => {
                    let (well, said) = running.run(line);
                    assert!(well, "{line}: {said}\n{}", running.said());
                }
            }
        }
        match number {
            0 => running.await_that("two agents", || running.run("antiphase agents -o json").1.matches("\"connected\"").count() == 2),
            1 => running.await_that("both are held", || running.states() == ["held", "held"]),
            _ => {}
        }
    }

    for host in ["h1", "h2"] {
        let about = fs::metadata(format!("{pages}-{host}")).expect("the agent's folder");
        assert_eq!(about.permissions().mode() & 0o777, 0o700, "a folder of {host} that others can enter");
    }

    // `kill %1`.
    let lines = |running: &Running| running.said().matches(" ms each").count();
    running.children[0].1.kill().expect("it runs");
    let before = lines(&running);
    running.await_that("the jobs go on", || lines(&running) >= before + 2);
}
