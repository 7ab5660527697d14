//! `antiphase gate status`, without an agent; what it says of pages is tested beside the gate.

use std::process::Command;

use crate::{
    process::{Run, program, run},
    scratch::Scratch,
};

/// The command with nothing of the gate in its environment but `variables`.
fn status(arguments: &[&str], variables: &[(&str, &str)]) -> Run {
    let mut command = Command::new(program());
    for name in ["ANTIPHASE_JOB", "ANTIPHASE_DIR", "ANTIPHASE_GATE", "ANTIPHASE_GATE_LIBRARY", "RANK", "SLURM_PROCID"] {
        command.env_remove(name);
    }
    command.args(["gate", "status"]).args(arguments).envs(variables.iter().copied());
    run(&mut command, arguments.join(" "), b"")
}

#[test]
fn what_keeps_a_gate_from_holding_is_said_with_what_to_do() {
    let scratch = Scratch::new("gate-status");
    let here = scratch.path("");
    let missing = scratch.path("none");
    let said = status(&["--dir", &missing], &[("RANK", "3"), ("ANTIPHASE_GATE", "off")]).expect(1).to_owned();
    for part in ["gate   switched off", "job    ANTIPHASE_JOB is not set", "rank   RANK=3", "pages  "] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(said.contains("no agent has run on this host"), "{said}");
    let said = status(&["--dir", &here, "--job", "a"], &[]).expect(1).to_owned();
    assert!(said.contains("a     not held (no-page): no page: no job of this name is committed"), "{said}");
    let bad = status(&["--dir", &here, "--job", "a/b"], &[]);
    assert_eq!((bad.code, bad.stdout.as_str()), (Some(2), ""));
    assert!(bad.stderr.starts_with("antiphase: --job: job name \"a/b\": ") && bad.stderr.lines().count() == 1, "{}", bad.stderr);
}
