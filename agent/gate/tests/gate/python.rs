//! The Python package, with the machine's own interpreter and PyTorch.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use antiphase_gate::ReportReader;
use gate_core::{NoteKind, Schedule};
use units::Nanos;

use crate::{
    c_interface::library,
    ends::{Agent, due_far, due_in, ms},
    turns::Answering,
};

/// Interpreters to try. The second is Debian's, which has Debian's python3-torch also where another comes first in the path.
const INTERPRETERS: [&str; 2] = ["python3", "/usr/bin/python3"];

fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("python")
}

/// The first interpreter that can do this.
fn interpreter(code: &str) -> Option<&'static str> {
    let can = |program: &&str| {
        let status = Command::new(program).args(["-c", code]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    INTERPRETERS.into_iter().find(can)
}

/// Runs a module of tests and shows what it printed.
fn unittest(python: &str, module: &str, directory: &Path) {
    let mut command = Command::new(python);
    command.args(["-m", "unittest", "-v", module]).current_dir(package()).env("ANTIPHASE_DIR", directory);
    command.env("ANTIPHASE_GATE_LIBRARY", library()).env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONPATH", package());
    for name in ["ANTIPHASE_JOB", "ANTIPHASE_GATE", "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"] {
        command.env_remove(name);
    }
    let output = command.output().unwrap();
    let text = [String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)].concat();
    println!("{text}");
    assert!(output.status.success(), "{module}: {}\n{text}", output.status);
}

#[test]
fn the_package_uses_the_gate() {
    let Some(python) = interpreter("import ctypes, unittest") else {
        println!("skipped: there is no python3, so the Python package was not tested");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path().to_owned();
    let _agents = [
        Agent::start(here.clone(), "pass", Schedule::default()),
        Agent::start(here.clone(), "held", Schedule { tolerance: Nanos(0), ..due_in(ms(100), ms(200)) }),
        Agent::start(here.clone(), "far", due_far()),
    ];
    let turns = Answering::start(&here, "turns", true);
    unittest(python, "tests.test_gate", &here);
    // Three starts, each with its end, also where the block raised.
    let notes: Vec<(u64, NoteKind)> = turns.seen(3).iter().map(|(note, _)| (note.number, note.kind)).collect();
    assert!(notes.is_sorted(), "{notes:?}");
}

#[test]
fn ddp_is_gated_at_its_first_bucket() {
    let Some(python) = interpreter("import torch.distributed; assert torch.distributed.is_available()") else {
        println!("skipped: no interpreter of {INTERPRETERS:?} has PyTorch (Debian: python3-torch), so DDP was not gated");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path().to_owned();
    let _agent = Agent::start(here.clone(), "ddp", Schedule { tolerance: Nanos(0), ..due_in(ms(100), ms(200)) });
    let reader = ReportReader::open_or_create(&here, "ddp").unwrap();
    unittest(python, "tests.test_pytorch", &here);
    let report = reader.read().unwrap();
    let counters = report.tracker.counters();
    assert!(counters.iterations >= 6 && counters.holds >= 6, "{counters:?}");
    assert_eq!(counters.fail_opens(), 0);
}

/// The recipe of docs/ml-engineer.md, by the launcher that most jobs are started with.
#[test]
fn a_job_under_torchrun_is_gated_on_its_first_rank() {
    let Some(python) = interpreter("import torch.distributed.run; assert torch.distributed.is_available()") else {
        println!("skipped: no interpreter of {INTERPRETERS:?} has PyTorch (Debian: python3-torch), so torchrun was not tried");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path().to_owned();
    let _agent = Agent::start(here.clone(), "bert-7", Schedule { tolerance: Nanos(0), ..due_in(ms(20), ms(40)) });
    let reader = ReportReader::open_or_create(&here, "bert-7").unwrap();
    let mut command = Command::new("timeout");
    // torchrun is this module (torch.distributed.run); Debian has no script of that name. The defaults of PyTorch 1.13 for the outputs
    // of ranks cannot be read by Python 3.11, so they are said. Port 0 is any that is free.
    command.args(["120", python, "-W", "ignore", "-m", "torch.distributed.run", "--nproc_per_node", "2", "--redirects", "2", "--tee", "1"]);
    command
        .args(["--rdzv_backend", "c10d", "--rdzv_endpoint", "127.0.0.1:0", "--rdzv_id", "bert-7", "--log_dir"])
        .arg(here.join("ranks"))
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/torchrun.py"))
        .env("ANTIPHASE_DIR", &here);
    command.env("ANTIPHASE_JOB", "bert-7").env("ANTIPHASE_GATE_LIBRARY", library()).env("PYTHONPATH", package());
    command.env("GLOO_SOCKET_IFNAME", "lo").env("OMP_NUM_THREADS", "1").env("PYTHONDONTWRITEBYTECODE", "1").env_remove("ANTIPHASE_GATE");
    let output = command.output().unwrap();
    let text = [String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)].concat();
    println!("{text}");
    assert!(output.status.success(), "{}\n{text}", output.status);
    // On a busy machine the last iteration may come too late to be held.
    let leader = ["held", "slipped"].map(|outcome| format!("rank 0: 20 iterations, the gate says {outcome} (on-time)"));
    assert!(leader.iter().any(|line| text.contains(line)), "{text}");
    assert!(text.contains("rank 1: 20 iterations, the gate says went (not-leader)"), "{text}");
    let report = reader.read().unwrap();
    let counters = report.tracker.counters();
    assert!(
        counters.iterations >= 20 && counters.holds > 0 && counters.holds + counters.slips >= 20 && counters.fail_opens() == 0,
        "{counters:?}"
    );
}
