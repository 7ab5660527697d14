//! The integration with Slurm, in a real cluster on this machine: slurmctld, four slurmd and munged in a scratch folder.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what cannot be had is a failed test")]

mod support;

use std::{
    fmt::Write as _,
    fs,
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use support::{Service, WAIT, program, testbed};

/// Hosts of the testbed that are nodes of the cluster.
const NODES: [&str; 4] = ["h1", "h2", "h3", "h4"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// What is missing for a cluster, if anything.
fn missing() -> Option<String> {
    let tools = [("slurmctld", "slurmctld"), ("slurmd", "slurmd"), ("sbatch", "slurm-client"), ("munged", "munge"), ("python3", "python3")];
    let has = |tool: &str| ["/usr/sbin", "/usr/bin"].iter().any(|folder| Path::new(folder).join(tool).exists());
    let packages: Vec<&str> = tools.into_iter().filter(|(tool, _)| !has(tool)).map(|(_, package)| package).collect();
    if !packages.is_empty() {
        return Some(format!("apt-get install {}", packages.join(" ")));
    }
    (!rustix::process::geteuid().is_root()).then(|| "root, which slurmd has to be".into())
}

/// A cluster whose slurmctld runs the integration's scripts.
struct Cluster {
    folder: tempfile::TempDir,
    daemons: Vec<Child>,
}

/// Ports for daemons that cannot be told to take any: below those that the kernel gives away (32,768 and up), so that nobody takes one
/// between this look and the start of the daemon. Runs beside this one begin elsewhere.
fn free_ports(count: usize) -> Vec<u16> {
    let first = 20_000 + u16::try_from(std::process::id() % 10_000).unwrap();
    let free: Vec<u16> = (first..32_000).filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).take(count).collect();
    assert_eq!(free.len(), count, "ports from {first}");
    free
}

impl Cluster {
    fn start(server: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (at, repository) = (folder.path().to_owned(), root());
        fs::set_permissions(&at, fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(at.join("profiles")).unwrap();
        fs::write(at.join("profiles/mine.json"), "{}").unwrap();
        let ini = format!("[antiphase]\nserver = {server}\nprofiles = {0}/profiles\nwait_s = 20\nlog = {0}/antiphase.log\n", at.display());
        fs::write(at.join("slurm.ini"), ini).unwrap();
        let script = format!(
            "#!/bin/sh\nexec env PYTHONDONTWRITEBYTECODE=1 PYTHONPATH={1}/clients/python ANTIPHASE_SLURM_CONFIG={0}/slurm.ini python3 -W error {1}/integrations/slurm/antiphase_slurm.py \"$@\"\n",
            at.display(),
            repository.display(),
        );
        fs::write(at.join("antiphase"), script).unwrap();
        fs::set_permissions(at.join("antiphase"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(at.join("slurm.conf"), configuration(&at, &repository, &free_ports(NODES.len() + 1))).unwrap();
        // Beside slurm.conf, where slurmctld looks for it.
        fs::copy(repository.join("integrations/slurm/job_submit.lua"), at.join("job_submit.lua")).unwrap();
        fs::write(at.join("cgroup.conf"), "CgroupPlugin=autodetect\nIgnoreSystemd=yes\n").unwrap();
        // Any bytes are a key.
        fs::write(at.join("munge.key"), [7; 64]).unwrap();
        fs::set_permissions(at.join("munge.key"), fs::Permissions::from_mode(0o600)).unwrap();
        let mut cluster = Self { folder, daemons: Vec::new() };
        let option = |key: &str, name: &str| format!("--{key}={}/{name}", at.display());
        let files = [("key-file", "munge.key"), ("socket", "munge.sock"), ("pid-file", "munged.pid"), ("log-file", "munged.log")];
        let options = files.iter().map(|(key, name)| option(key, name)).chain([option("seed-file", "munge.seed")]);
        cluster.daemon("munged", options.chain(["--foreground".into(), "--force".into()]));
        cluster.wait("munged", || at.join("munge.sock").exists());
        cluster.daemon("slurmctld", ["-D".into(), "-c".into()]);
        for node in NODES {
            cluster.daemon("slurmd", ["-D".into(), "-N".into(), node.into()]);
        }
        cluster.wait("four idle nodes", || cluster.ask("sinfo", &["-h", "-t", "idle", "-o", "%D"]) == "4");
        cluster
    }

    fn daemon(&mut self, name: &str, arguments: impl IntoIterator<Item = String>) {
        let log = fs::File::create(self.at(&format!("{name}-{}.out", self.daemons.len()))).unwrap();
        let path = Path::new("/usr/sbin").join(name);
        let mut command = Command::new(if path.exists() { path } else { name.into() });
        command.args(arguments).env("SLURM_CONF", self.at("slurm.conf")).stdout(log.try_clone().unwrap()).stderr(log);
        self.daemons.push(command.spawn().unwrap());
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap_or_default()
    }

    /// What a program of Slurm prints; empty where it has nothing to say, or nobody answers yet.
    fn ask(&self, name: &str, arguments: &[&str]) -> String {
        String::from_utf8(self.run(name, arguments).stdout).unwrap().trim().to_owned()
    }

    fn run(&self, name: &str, arguments: &[&str]) -> Output {
        // A client waits long for a controller that does not answer.
        let mut command = Command::new("timeout");
        command.arg("10").arg(name).args(arguments).env("SLURM_CONF", self.at("slurm.conf")).output().unwrap()
    }

    /// A command of a user that is refused with this sentence.
    fn refused(&self, name: &str, arguments: &[&str], sentence: &str) {
        let output = self.run(name, arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && output.stdout.is_empty() && said.contains(sentence), "{name} {arguments:?}: {output:?}");
    }

    fn wait(&self, what: &str, done: impl Fn() -> bool) {
        let until = Instant::now() + WAIT;
        while !done() {
            let logs: String = ["slurmctld.log", "slurmd-h1.log", "antiphase.log"].map(|name| self.read(name)).join("\n--\n");
            assert!(Instant::now() < until, "{what} did not come:\n{logs}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// A batch job of two nodes, which tells its name in the service from each task and then waits for a file.
    fn submit(&self, name: &str, more: &[&str]) -> String {
        let script = format!(
            "#!/bin/sh\nsrun sh -c 'echo $SLURMD_NODENAME $ANTIPHASE_JOB' >{0}.told\nn=0\nuntil [ -e {0}.go ] || [ $n = 600 ]; do sleep 0.1; n=$((n+1)); done\n",
            self.at(name).display()
        );
        fs::write(self.at(&format!("{name}.sh")), script).unwrap();
        let (script, out) = (self.at(&format!("{name}.sh")), self.at(&format!("{name}.out")));
        let job = [more, &["--parsable", "-N2", "-o", out.to_str().unwrap(), script.to_str().unwrap()]].concat();
        let id = self.ask("sbatch", &job);
        assert!(id.parse::<u32>().is_ok(), "sbatch said {id:?}");
        id
    }

    /// Lets a job go on, and waits until Slurm has it as completed.
    fn end(&self, name: &str, id: &str) {
        fs::write(self.at(&format!("{name}.go")), "").unwrap();
        self.wait(&format!("the end of {name}"), || self.ask("scontrol", &["show", "job", id]).contains("JobState=COMPLETED"));
    }

    /// Waits until the job has told its name from both nodes.
    fn runs(&self, name: &str) -> Vec<String> {
        let told = format!("{name}.told");
        self.wait(&format!("the tasks of {name}"), || self.read(&told).lines().count() == 2);
        let mut lines: Vec<String> = self.read(&told).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }

    fn reconcile(&self) {
        let mut command = Command::new(self.at("antiphase"));
        let output = command.args(["reconcile", "scratch"]).env("SLURM_CONF", self.at("slurm.conf")).output().unwrap();
        assert!(output.status.success(), "{output:?}\n{}", self.read("antiphase.log"));
    }

    fn says(&self, line: &str) {
        self.wait(line, || self.read("antiphase.log").contains(line));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The last ones first: a slurmd tells its controller.
        for daemon in self.daemons.iter_mut().rev() {
            let _ = kill_process(Pid::from_child(daemon), Signal::TERM);
        }
        let until = Instant::now() + Duration::from_secs(5);
        for daemon in &mut self.daemons {
            while daemon.try_wait().unwrap().is_none() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

fn configuration(at: &Path, repository: &Path, ports: &[u16]) -> String {
    let at = at.display();
    let mut text = format!(
        "ClusterName=scratch\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort={}\nSlurmUser=root\nSlurmdUser=root\n\
         AuthType=auth/munge\nAuthInfo=socket={at}/munge.sock\nCredType=cred/munge\nMpiDefault=none\nSwitchType=switch/none\n\
         StateSaveLocation={at}/state\nSlurmdSpoolDir={at}/spool-%n\nSlurmctldPidFile={at}/slurmctld.pid\nSlurmdPidFile={at}/%n.pid\n\
         SlurmctldLogFile={at}/slurmctld.log\nSlurmdLogFile={at}/slurmd-%n.log\nProctrackType=proctrack/linuxproc\n\
         TaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\nSelectType=select/cons_tres\n\
         SchedulerParameters=sched_min_interval=0,batch_sched_delay=0\nMinJobAge=600\n\
         PrologSlurmctld={at}/antiphase\nEpilogSlurmctld={at}/antiphase\nTaskProlog={}/integrations/slurm/task-prolog.sh\n\
         JobSubmitPlugins=lua\n",
        ports[0],
        repository.display(),
    );
    fs::create_dir(format!("{at}/state")).unwrap();
    for (node, port) in NODES.iter().zip(&ports[1..]) {
        writeln!(text, "NodeName={node} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=1 State=UNKNOWN").unwrap();
    }
    text + "PartitionName=all Nodes=ALL Default=YES MaxTime=60 State=UP\n"
}

/// The jobs that the service has, with their hosts.
fn committed(service: &Service) -> String {
    let (_, jobs) = service.ask("GET", "/v1alpha1/jobs?fields=jobs.id,jobs.hosts", "");
    jobs["jobs"].to_string()
}

#[test]
fn a_job_of_slurm_is_committed_while_it_runs_and_runs_without_the_service_too() {
    if let Some(what) = missing() {
        println!("skipped: the integration with Slurm needs {what}");
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let state = state.path().join("state.redb");
    let mut service = Service::start(&state);
    let address = service.address;
    let cluster = Cluster::start(&format!("http://{address}"));

    // The profile is a model of the zoo, named in the comment; the name is one for all tasks.
    let id = cluster.submit("plain", &["--comment", "for a paper; antiphase=vgg16:batch=1700"]);
    assert_eq!(cluster.runs("plain"), [format!("h1 slurm-scratch-{id}"), format!("h2 slurm-scratch-{id}")]);
    assert_eq!(committed(&service), format!(r#"[{{"hosts":["h1","h2"],"id":"slurm-scratch-{id}"}}]"#));
    // A wrong comment is refused where it is submitted or changed, with the reason.
    for (comment, sentence) in [
        ("antiphase=vgg16:batch=many", "comment 'antiphase=vgg16:batch=many': 'batch=many': no parameter of a model"),
        ("antiphase=a antiphase=%s", "comment 'antiphase=a antiphase=%s': expected one antiphase=PROFILE[:KEY=VALUE...]"),
    ] {
        cluster.refused("sbatch", &["--comment", comment, "--wrap", "true"], &format!("error: antiphase: {sentence}"));
        cluster.refused("srun", &["--comment", comment, "true"], &format!("error: antiphase: {sentence}"));
        // Slurm 22.05 shows no sentence about a change, so it is in the log.
        cluster.refused("scontrol", &["update", &format!("JobId={id}"), &format!("Comment={comment}")], "error for job");
        assert_eq!(cluster.read("slurmctld.log").matches(&format!("antiphase: refused: {sentence}")).count(), 3);
    }
    assert!(cluster.ask("scontrol", &["show", "job", &id]).contains("antiphase=vgg16:batch=1700"));
    // A job that asks for nothing, and one whose comment only the prolog finds wrong, run beside it and are in no plan.
    let none = cluster.submit("none", &[]);
    cluster.runs("none");
    cluster.end("none", &none);
    let wrong = cluster.submit("wrong", &["--comment", "antiphase=mine:batch=8"]);
    cluster.says("['batch'] belong to models, and ");
    cluster.runs("wrong");
    assert_eq!(committed(&service).matches("slurm-").count(), 1);
    cluster.end("wrong", &wrong);
    cluster.end("plain", &id);
    cluster.wait("the release", || committed(&service) == "[]");

    // Nobody answers: the job starts all the same, and is committed as soon as somebody does.
    service.signal(Signal::KILL);
    service.wait();
    let late = cluster.submit("late", &["--comment", "antiphase=vgg16"]);
    cluster.runs("late");
    cluster.says(&format!("job {late}: prolog_slurmctld: Unreachable: "));
    let again = |address| Service::try_at(address, program().arg("--state").arg(&state).arg("--fabric").arg(testbed())).unwrap();
    let mut service = again(address);
    cluster.reconcile();
    assert!(committed(&service).contains(&format!("slurm-scratch-{late}")), "{}", cluster.read("antiphase.log"));
    // It ends while nobody answers, and is released as soon as somebody does.
    service.signal(Signal::KILL);
    service.wait();
    cluster.end("late", &late);
    cluster.says(&format!("job {late}: epilog_slurmctld: Unreachable: "));
    let service = again(address);
    assert!(committed(&service).contains(&format!("slurm-scratch-{late}")));
    cluster.reconcile();
    assert_eq!(committed(&service), "[]");
}

/// The commands by which the page installs the scripts, without its margin.
fn installs() -> String {
    let page = fs::read_to_string(root().join("docs/slurm.md")).unwrap();
    let (_, block) = page.split_once("```sh\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let lines: Vec<&str> = block.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join("\n")
}

/// As root in a copy of this machine that is thrown away: the block of the page, then the script as slurmctld starts it, by its first line
/// and without an environment.
const INSTALLED: &str = r#"
set -eu
scratch=$(mktemp -d)
mount -t tmpfs tmpfs "$scratch"
mkdir "$scratch/upper" "$scratch/work" "$scratch/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$scratch/upper,workdir=$scratch/work" "$scratch/root"
mount --bind /dev "$scratch/root/dev"
cat >"$scratch/root/inside" <<'INSIDE'
set -eu
rm -rf /usr/lib/antiphase /etc/antiphase
cd "$REPOSITORY"
eval "$BLOCK"
sed -i "s|^server = .*|server = $SERVER|; s|^#log = .*|log = /said|" /etc/antiphase/slurm.ini
cd /
test -x /usr/lib/antiphase/task-prolog.sh
env -i SLURM_SCRIPT_CONTEXT=prolog_slurmctld SLURM_CLUSTER_NAME=c SLURM_JOB_ID=7 'SLURM_JOB_NODELIST=h[1-2]' SLURM_JOB_COMMENT=antiphase=vgg16 /usr/lib/antiphase/antiphase_slurm.py
cat /said
INSIDE
chroot "$scratch/root" /bin/sh /inside
umount --lazy "$scratch"
rmdir "$scratch"
"#;

#[test]
fn what_the_page_installs_runs_as_slurmctld_starts_it() {
    let overlay = "set -e; d=$(mktemp -d); mount -t tmpfs tmpfs $d; mkdir $d/u $d/w $d/r; \
        mount -t overlay overlay -o lowerdir=/,upperdir=$d/u,workdir=$d/w $d/r; umount -l $d; rmdir $d";
    let can = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
    if !can(Command::new("unshare").args(["--mount", "sh", "-c", overlay])) {
        println!("skipped: it needs root (a namespace of mounts, an overlay of /); the block of docs/slurm.md was not run");
        return;
    }
    if !can(Command::new("/usr/bin/python3").args(["-c", "import sys; assert sys.version_info >= (3, 10)"])) {
        println!("skipped: there is no /usr/bin/python3 of 3.10 or newer, so the block of docs/slurm.md was not run");
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let service = Service::start(&state.path().join("state.redb"));
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", INSTALLED]).env("BLOCK", installs()).env("REPOSITORY", root());
    let output = command.env("SERVER", format!("http://{}", service.address)).output().unwrap();
    let said = [String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)].concat();
    assert!(output.status.success() && said.contains("slurm-c-7: committed on h[1-2]"), "{said}");
    assert_eq!(committed(&service), r#"[{"hosts":["h1","h2"],"id":"slurm-c-7"}]"#);
}

/// What needs no Slurm: lists of hosts, comments, and a service that never answers.
#[test]
fn the_scripts_for_slurm_hold_no_job_up() {
    let new_enough = Command::new("python3").args(["-c", "import sys; assert sys.version_info >= (3, 10)"]).output();
    if !new_enough.is_ok_and(|output| output.status.success()) {
        println!("skipped: there is no python3 of 3.10 or newer, so the scripts for Slurm were not tested");
        return;
    }
    let mut command = Command::new("python3");
    command.args(["-W", "error", "-m", "unittest", "discover", "-v"]).current_dir(root().join("integrations/slurm"));
    let output = command.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONPATH", root().join("clients/python")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    println!("{said}");
    if said.contains("skipped 'there is no lua5.1") {
        println!("skipped: there is no lua5.1 (apt-get install lua5.1), so job_submit.lua was not compared with what the prolog takes");
    }
    assert!(output.status.success() && said.contains("test_a_service_that_never_answers_holds_no_job_up"), "{said}");
}
