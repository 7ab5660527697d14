//! What the kernel says of this process: the numbers that every client library of Prometheus exposes as `process_*`.

use std::{
    fs,
    sync::OnceLock,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::{
    process::{Resource, getrlimit},
    time::{ClockId, Timespec, clock_gettime},
};

/// Ticks a second in which the kernel tells user space of times (`USER_HZ`): 100 wherever we are built for.
const TICKS_PER_SECOND: u64 = 100;

/// One number about this process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number {
    /// Its name for Prometheus.
    pub name: &'static str,
    /// What it is.
    pub help: &'static str,
    /// Whether it only grows.
    pub is_counter: bool,
    /// In seconds, bytes or pieces.
    pub value: f64,
}

/// The numbers of this process, now. What the kernel does not tell is absent.
#[must_use]
pub fn numbers() -> Vec<Number> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let rest = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        rest.split_whitespace().next()?.parse::<u64>().ok()
    };
    let kib = |name: &str| field(name).map(|kib| (kib << 10) as f64);
    // The folder that is listed is open too while it is listed.
    let open = fs::read_dir("/proc/self/fd").ok().map(|fds| fds.count().saturating_sub(1) as f64);
    let most = getrlimit(Resource::Nofile).current.map(|most| most as f64);
    let cpu = seconds(clock_gettime(ClockId::ProcessCPUTime));
    let one = |name, help, is_counter, value: Option<f64>| value.map(|value| Number { name, help, is_counter, value });
    [
        one("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", true, Some(cpu.as_secs_f64())),
        one("process_open_fds", "Number of open file descriptors.", false, open),
        one("process_max_fds", "Maximum number of open file descriptors.", false, most),
        one("process_virtual_memory_bytes", "Virtual memory size in bytes.", false, kib("VmSize")),
        one("process_resident_memory_bytes", "Resident memory size in bytes.", false, kib("VmRSS")),
        one("process_start_time_seconds", "Start time of the process since unix epoch in seconds.", false, started()),
        one("process_threads", "Number of OS threads in the process.", false, field("Threads").map(|threads| threads as f64)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// When the process began. The sum of two clocks would wander by their rounding, so it is made once.
fn started() -> Option<f64> {
    static STARTED: OnceLock<Option<f64>> = OnceLock::new();
    *STARTED.get_or_init(|| {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // The name of the program may have blanks and brackets; what follows the last bracket are numbers, and the start is the 22nd
        // of all fields (proc_pid_stat(5)).
        let ticks: u64 = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
        let age = seconds(clock_gettime(ClockId::Boottime)).checked_sub(Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND))?;
        Some(SystemTime::now().duration_since(UNIX_EPOCH).ok()?.checked_sub(age)?.as_secs_f64())
    })
}

fn seconds(time: Timespec) -> Duration {
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_this_process() {
        let of = |name: &str| numbers().into_iter().find(|number| number.name == name).map(|number| number.value);
        let all = numbers();
        assert_eq!(all.len(), 7, "{all:?}");
        // Other tests of this process may close a few files meanwhile, and none opens so many.
        const MANY: u32 = 64;
        let before = of("process_open_fds").unwrap();
        let held: Vec<_> = (0..MANY).map(|_| fs::File::open("/dev/null").unwrap()).collect();
        let with = of("process_open_fds").unwrap();
        assert!(with - before > f64::from(MANY / 2), "{before} {with}");
        drop(held);
        let after = of("process_open_fds").unwrap();
        assert!(with - after > f64::from(MANY / 2), "{with} {after}");
        let resident = of("process_resident_memory_bytes").unwrap();
        assert!(resident > 1e5 && resident < of("process_virtual_memory_bytes").unwrap(), "{all:?}");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        let age = now - of("process_start_time_seconds").unwrap();
        assert!((-1.0..3_600.0).contains(&age), "began {age} s ago");
        assert_eq!(of("process_start_time_seconds"), of("process_start_time_seconds"));
        assert!(of("process_threads").unwrap() >= 1.0 && of("process_cpu_seconds_total").unwrap() >= 0.0);
    }
}
