//! The built library before a library in NCCL's place, in programs of C; the test is the agent of the node.
#![allow(clippy::unwrap_used, reason = "a test that meets an error should stop")]

mod programs;

use gate::events::EventKind;
use programs::{Nccl, agent, library, output, program, watched};

/// Answers of the library in NCCL's place begin here.
const FIRST: i32 = 100;

#[test]
fn calls_pass_unchanged_with_every_answer_and_each_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let nccl = Nccl::build(folder.path(), "libnccl.so.2", &["-DFIRST=100"]);
    let job = program(folder.path(), "job.c", Some(&nccl));
    let alone = output(program(folder.path(), "job.c", Some(&nccl)).args(["calls", "4"]));
    let (agent, directory) = agent();
    let watched_output = output(watched(job, directory.path()).args(["calls", "4"]));
    assert_eq!(watched_output, alone);
    // 103 + ... + 110, and each function was reached in each round.
    assert_eq!(alone.matches(&format!("{}\n", 8 * FIRST + 52)).count(), 4, "{alone}");
    assert_eq!(alone.matches("reducescatter 0x1001 0xfffffffffffffffe 18446744073709551615 9 3 0x5151 (nil)\n").count(), 4, "{alone}");
    let events = programs::events(&agent);
    assert!(events.iter().all(|event| event.kind == EventKind::Called));
    let values: Vec<u64> = events.iter().map(|event| event.value).collect();
    assert_eq!(values, values[..8].repeat(4), "the same calls have the same numbers");
    let mut different = values[..8].to_vec();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), 8, "other calls have others");
}

#[test]
fn a_call_allocates_nothing_even_when_it_passes_the_ring() {
    let folder = tempfile::tempdir().unwrap();
    let nccl = Nccl::build(folder.path(), "libnccl.so.2", &["-DFIRST=0", "-DQUIET"]);
    let (agent, directory) = agent();
    let allocations = output(watched(program(folder.path(), "job.c", Some(&nccl)), directory.path()).arg("allocations"));
    assert_eq!(allocations, "0\n");
    // Once when the communicator was made, and once in a call: the job takes longer than a second.
    let rings = std::iter::from_fn(|| agent.recv_any().ok()).count();
    assert!(rings >= 2, "{rings}");
}

#[test]
fn a_library_that_python_loads_is_watched_too() {
    let folder = tempfile::tempdir().unwrap();
    let nccl = Nccl::build(folder.path(), "libnccl.so.2", &["-DFIRST=7", "-DQUIET"]);
    let user = nccl.user("libtorch.so");
    let (agent, directory) = agent();
    let said = output(watched(program(folder.path(), "loader.c", None), directory.path()).arg(&user));
    assert_eq!(said, "7010\n7010\n");
    assert_eq!(programs::events(&agent).len(), 2);
}

/// Two libraries, each with an NCCL of its own that nobody else sees: no communicator meets the other's functions.
#[test]
fn of_two_that_are_hidden_each_caller_gets_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let one = Nccl::build(folder.path(), "libnccl-one.so", &["-DFIRST=1", "-DQUIET"]).user("libone.so");
    let other = Nccl::build(folder.path(), "libnccl-other.so", &["-DFIRST=500", "-DQUIET"]).user("libother.so");
    let (agent, directory) = agent();
    let said = output(watched(program(folder.path(), "loader.c", None), directory.path()).args([&one, &other]));
    // The first before the second was there, both, and the first again.
    assert_eq!(said, "1004\n500503\n500503\n1004\n");
    assert_eq!(programs::events(&agent).len(), 4);
}

#[test]
fn a_program_without_nccl_gets_an_error_that_nccl_has() {
    let folder = tempfile::tempdir().unwrap();
    let (_agent, directory) = agent();
    assert_eq!(output(watched(program(folder.path(), "loader.c", None), directory.path()).args::<[&str; 0], _>([])), "2\n");
    assert_eq!(output(&mut program(folder.path(), "loader.c", None)), "-1\n", "without us it finds none");
}

#[test]
fn without_a_job_or_an_agent_all_calls_pass() {
    let folder = tempfile::tempdir().unwrap();
    let nccl = Nccl::build(folder.path(), "libnccl.so.2", &["-DFIRST=100"]);
    let job = || program(folder.path(), "job.c", Some(&nccl));
    let alone = output(job().args(["calls", "2"]));
    let nobody = tempfile::tempdir().unwrap();
    for (variable, value) in [("ANTIPHASE_JOB", ""), ("ANTIPHASE_JOB", "../x"), ("ANTIPHASE_GATE", "off"), ("ANTIPHASE_DIR", "/nowhere")] {
        assert_eq!(output(watched(job(), nobody.path()).env(variable, value).args(["calls", "2"])), alone, "{variable}={value}");
    }
    assert_eq!(output(watched(job(), nobody.path()).args(["calls", "2"])), alone);
    assert_eq!(nobody.path().read_dir().unwrap().count(), 0, "a job makes no files");
}

/// Names of NCCL that every release since 2.7 has (`ncclCommInitRankConfig` since 2.14), and nothing else of ours.
#[test]
fn the_library_has_names_of_nccl_and_no_other() {
    let exported = programs::exported(&library());
    let names = [
        "AllGather",
        "AllReduce",
        "Bcast",
        "Broadcast",
        "CommInitAll",
        "CommInitRank",
        "CommInitRankConfig",
        "Recv",
        "Reduce",
        "ReduceScatter",
        "Send",
    ];
    assert_eq!(exported, names.map(|name| format!("nccl{name}")));
}
