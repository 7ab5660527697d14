//! `antiphase profile`.

use crate::{
    expected,
    process::{antiphase, antiphase_reading, document},
};

#[test]
fn what_synth_writes_show_reads() {
    let synth = ["profile", "synth", "vgg16", "--batch", "1400", "--nic", "50G"];
    let table = antiphase(&synth);
    expected::check("profile-synth", &table);
    for format in ["json", "yaml"] {
        let document = antiphase(&[&synth[..], &["-o", format]].concat());
        let show = |more: &[&str]| antiphase_reading(&[&["profile", "show", "-"], more].concat(), document.ok().as_bytes());
        assert_eq!(show(&[]).ok(), table.stdout);
        assert_eq!(show(&["-o", format]).ok(), document.stdout);
    }
}

#[test]
fn a_profile_is_shown() {
    expected::check("profile-show", &antiphase(&["profile", "show", "profile.yaml"]));
    let profile = antiphase(&["profile", "show", "profile.yaml", "-o", "json"]).json();
    let fields = ["confidence", "iterations", "model", "name", "period_ns", "phases", "ranks", "schema", "source", "variance"];
    assert_eq!(crate::solve::keys(&profile), fields);
    assert_eq!(crate::solve::keys(&profile["phases"][0]), ["collective", "duration_ns", "rate_mbps", "scope", "start_ns"]);
    assert_eq!(crate::solve::keys(&profile["ranks"]), ["cp", "dp", "ep", "gpus_per_host", "pp", "tp"]);
    // What it prints is the document that it read, completed.
    let text = document("profile.yaml");
    let yaml = antiphase_reading(&["profile", "show", "-", "-o", "yaml"], text.as_bytes());
    assert_eq!(antiphase_reading(&["profile", "show", "-", "-o", "yaml"], yaml.ok().as_bytes()).ok(), yaml.stdout);
}

#[test]
fn options_reach_the_synthesis() {
    let synth = |options: &[&str]| antiphase(&[&["profile", "synth"], options].concat());
    let table = synth(&["llama-70b", "--tp", "8", "--pp", "4", "--dp", "2", "--gpus-per-host", "8", "--nic", "100G"]);
    assert!(table.ok().contains("64 = tp 8 x cp 1 x pp 4 x dp 2"), "{}", table.stdout);
    let fsdp = synth(&["llama-7b", "--strategy", "fsdp", "--ranks", "16"]);
    assert!(fsdp.ok().contains("llama-7b-fsdp16-b2") && fsdp.stdout.contains("more; -o json lists them all"), "{}", fsdp.stdout);
}

#[test]
fn the_zoo_is_listed() {
    assert!(antiphase(&["profile", "zoo"]).ok().starts_with("MODEL "));
    let one = antiphase(&["profile", "zoo", "vgg16"]);
    assert!(one.ok().starts_with("NUMBER ") && one.stdout.contains("reference setting: dp"), "{}", one.stdout);
}

#[test]
fn mistakes_in_options_are_one_line() {
    for (options, want) in [
        (&["synth", "vgg13"][..], "model \"vgg13\": not in the zoo; known: vgg11, "),
        (&["zoo", "vgg13"], "model \"vgg13\": not in the zoo; known: vgg11, "),
        (&["synth", "vgg16", "--nic", "50"], "--nic: capacity \"50\": expected a number with the unit M, G or T, for example 400G"),
        (&["synth", "vgg16", "--nic", "99999999999999T"], "--nic: capacity \"99999999999999T\": too large"),
        (&["synth", "vgg16", "--strategy", "ddp"], "--strategy: unknown strategy \"ddp\""),
        (&["synth", "gpt3", "--tp", "3", "--ranks", "8"], "ranks: 8; must be a multiple"),
        (&["synth", "vgg16", "--batch", "18446744073709551615"], "batch: 18446744073709551615; "),
        (&["synth", "vgg16", "--ranks", "4294967295"], "dp: 4294967295; must be 1 to "),
        (&["synth", "vgg16", "--gpu", "18446744073709551615"], "gpu: 18446744073709551615 TFLOP/s; too large"),
        (&["synth", "vgg16", "--gpu", "0"], "gpu_gflops: 0; "),
        (&["synth", "vgg16", "--efficiency", "0"], "efficiency"),
        (&["synth", "vgg16", "--overlap", "101"], "overlap"),
        (&["synth", "vgg16", "--micro-batches", "4294967295"], "micro_batches: 4294967295; "),
        (&["synth", "vgg16", "--gpus-per-host", "0"], "gpus_per_host: 0; "),
        (&["synth", "vgg16", "--nics-per-host", "0"], "nics_per_host: 0; "),
    ] {
        let got = crate::refusal::refused(&[&["profile"], options].concat(), b"");
        assert!(got.starts_with(want), "{options:?}: {got}");
    }
}
