//! `antiphase profile` as a user runs it: exit codes, one line per mistake, output that reads back.

use std::{
    io::Write,
    process::{Command, Output, Stdio},
};

fn antiphase(args: &[&str], stdin: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_antiphase"))
        .arg("profile")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut pipe = child.stdin.take().expect("a pipe was asked for");
    // A command that reads nothing may be gone already.
    let _ = pipe.write_all(stdin.as_bytes());
    drop(pipe);
    child.wait_with_output().expect("the program ends")
}

fn printed(args: &[&str], stdin: &str) -> String {
    let output = antiphase(args, stdin);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn mistake(args: &[&str], stdin: &str) -> String {
    let output = antiphase(args, stdin);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{args:?}");
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

#[test]
fn what_synth_writes_show_reads() {
    let args = ["synth", "vgg16", "--batch", "1400", "--nic", "50G"];
    let table = printed(&args, "");
    assert!(table.contains("255.000 ms") && table.contains("141.100 ms"), "{table}");
    for format in ["json", "yaml"] {
        let document = printed(&[&args[..], &["-o", format]].concat(), "");
        assert_eq!(printed(&["show", "-"], &document), table);
        assert_eq!(printed(&["show", "-", "-o", format], &document), document);
    }
}

#[test]
fn options_reach_the_synthesis() {
    let table = printed(&["synth", "llama-70b", "--tp", "8", "--pp", "4", "--dp", "2", "--gpus-per-host", "8", "--nic", "100G"], "");
    assert!(table.contains("64 = tp 8 x cp 1 x pp 4 x dp 2"), "{table}");
    let fsdp = printed(&["synth", "llama-7b", "--strategy", "fsdp", "--ranks", "16"], "");
    assert!(fsdp.contains("llama-7b-fsdp16-b2") && fsdp.contains("more; -o json lists them all"), "{fsdp}");
}

#[test]
fn mistakes_are_one_line_with_place_and_value() {
    let good = printed(&["synth", "vgg16", "-o", "json"], "");
    let cases: [(&[&str], String, &str); 8] = [
        (
            &["show", "-"],
            good.replace("\"rate_mbps\": ", "\"rate_mbps\": -"),
            "antiphase: -: phases[0].rate_mbps: invalid value: integer `-",
        ),
        (&["show", "-"], good.replace("\"ring\"", "\"circle\""), "antiphase: -: phases[0].collective: unknown collective \"circle\""),
        (&["show", "-"], String::new(), "antiphase: -: "),
        (&["show", "missing.json"], String::new(), "antiphase: missing.json: "),
        (&["synth", "vgg13"], String::new(), "antiphase: model \"vgg13\": not in the zoo; known: vgg11, "),
        (&["synth", "vgg16", "--nic", "50"], String::new(), "antiphase: --nic: capacity \"50\": "),
        (&["synth", "vgg16", "--strategy", "ddp"], String::new(), "antiphase: --strategy: unknown strategy \"ddp\""),
        (&["synth", "gpt3", "--tp", "3", "--ranks", "8"], String::new(), "antiphase: ranks: 8; must be a multiple"),
    ];
    for (args, stdin, want) in cases {
        let got = mistake(args, &stdin);
        assert!(got.starts_with(want), "{args:?}: {got}");
    }
}
