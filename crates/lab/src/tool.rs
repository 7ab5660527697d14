//! Running `ip`, `tc` and their like, and doing so inside a namespace.

use std::{
    fs::File,
    io::{Read, Write},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::thread::LinkNameSpaceType;

/// Longest run of one tool; the slowest here compiles forty lines in a quarter of a second.
const TOOL_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a running tool is looked at.
const POLL: Duration = Duration::from_millis(1);
/// Ranks, service and agents go before other programs, or the other programs' use of two cores is what is measured.
pub(crate) const NICENESS: i32 = -10;
/// Most of a tool's complaint that is repeated.
pub(crate) const COMPLAINT_CHARS_MAX: usize = 400;
/// Where `ip netns` keeps its namespaces.
const NAMESPACES: &str = "/run/netns";

/// Runs a program to its end, with `input` on its standard input, and returns its standard output.
///
/// # Errors
/// The program is missing (its Debian package is named), fails, or does not end.
pub(crate) fn run(program: &str, args: &[&str], input: &str) -> Result<String> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|e| missing(program, &e))?;
    let (Some(mut stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take()) else {
        bail!("invariant: {program} was started with pipes");
    };
    let drain = |mut pipe: Box<dyn Read + Send>| {
        thread::spawn(move || {
            let mut text = Vec::new();
            let _ = pipe.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        })
    };
    // Both outputs are drained while input is written: a full pipe would stop the tool, and this function would wait for it.
    let (stdout, stderr) = (drain(Box::new(stdout)), drain(Box::new(stderr)));
    // A tool that ends early closes its input; its status says why.
    let _ = stdin.write_all(input.as_bytes());
    // The end of input is what tells `ip -batch` and `tc -batch` that they are done.
    drop(stdin);
    let status = wait(&mut child, program)?;
    let (stdout, stderr) = (stdout.join().unwrap_or_default(), stderr.join().unwrap_or_default());
    if !status.success() {
        let complaint: String = stderr.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(COMPLAINT_CHARS_MAX).collect();
        bail!("{program} {}: {status}: {complaint}", args.join(" "));
    }
    Ok(stdout)
}

fn wait(child: &mut Child, program: &str) -> Result<std::process::ExitStatus> {
    let end = Instant::now() + TOOL_TIMEOUT;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        // A tool that waits for a lock of the kernel would otherwise hold the lab for ever; `TOOL_TIMEOUT` ends it.
        if Instant::now() > end {
            let _ = child.kill();
            let _ = child.wait();
            bail!("{program} did not end within {TOOL_TIMEOUT:?}");
        }
        thread::sleep(POLL);
    }
}

/// The end of what a program wrote to a file, on one line.
pub(crate) fn last_words(log: &Path) -> String {
    let said = std::fs::read_to_string(log).unwrap_or_default();
    let said: Vec<char> = said.trim().chars().collect();
    said[said.len().saturating_sub(COMPLAINT_CHARS_MAX)..].iter().collect::<String>().replace('\n', " | ")
}

fn missing(program: &str, error: &std::io::Error) -> anyhow::Error {
    let package = TOOLS.iter().find(|(tool, _)| *tool == program).map_or(program, |(_, package)| package);
    anyhow::anyhow!("cannot run {program:?}: {error}; Debian has it in the package {package}")
}

/// The tools of the lab, and the Debian package of each.
pub const TOOLS: [(&str, &str); 5] =
    [("ip", "iproute2"), ("tc", "iproute2"), ("ethtool", "ethtool"), ("clang", "clang"), ("bpftool", "bpftool")];

/// The tools that are missing, as `tool (package)`.
#[must_use]
pub fn missing_tools() -> Vec<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = |tool: &str| std::env::split_paths(&path).any(|folder| folder.join(tool).is_file());
    TOOLS.iter().filter(|(tool, _)| !found(tool)).map(|(tool, package)| format!("{tool} (package {package})")).collect()
}

/// Runs `inside` on a thread of its own that has entered a network namespace; programs started there are in it too.
/// `/sys` stays as it is, unlike under `ip netns exec`.
///
/// # Errors
/// No such namespace, no right to enter it, or what `inside` answers.
pub(crate) fn enter<T: Send>(namespace: &str, inside: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let file = File::open(Path::new(NAMESPACES).join(namespace)).with_context(|| format!("namespace {namespace}"))?;
    let body = move || {
        rustix::thread::move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), Some(LinkNameSpaceType::Network))?;
        inside()
    };
    // A thread keeps its namespace until it ends, so a thread of its own leaves the caller where the caller was.
    thread::scope(|scope| scope.spawn(body).join())
        .unwrap_or_else(|_| bail!("invariant: the thread in {namespace} panicked"))
        .with_context(|| format!("in namespace {namespace}"))
}

/// The namespaces whose name starts with `prefix`.
///
/// # Errors
/// The folder of namespaces cannot be read; its absence means that there are none.
pub(crate) fn namespaces(prefix: &str) -> Result<Vec<String>> {
    let entries = match std::fs::read_dir(NAMESPACES) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e).context(NAMESPACES),
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(prefix)).collect();
    names.sort();
    Ok(names)
}
