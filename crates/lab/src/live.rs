//! A lab that one can watch: the service with its page, agents, and jobs that run on, first as they come and then held.

use std::{
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    time::Duration,
};

use anyhow::{Context, Result, bail};

use crate::{
    case::{Case, CaseError, Timing},
    control::{self, By, GateTotals, Gates},
    experiment,
    gateway::Gateway,
    hold::Hold,
    interrupt::Interrupt,
    network::Lab,
    plan::plan,
    rank::{Span, monotonic_ns},
    service::{Binaries, Service},
    traffic::Ranks,
    trainer::Starter,
};

/// How often it is seen whether everybody still runs.
const WATCH: Duration = Duration::from_millis(500);

/// Options of a lab to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Where the page is; on loopback.
    pub listen: SocketAddr,
    /// How long the jobs run as they come.
    pub free: Duration,
    /// How long the jobs are held; then the lab goes.
    pub held: Duration,
    /// What they are held by.
    pub hold: Hold,
    /// Folder of the programs of the service; by default that of this program.
    pub programs: Option<PathBuf>,
}

/// Builds the lab, plays until somebody interrupts or the time is over, and takes it down. `say` is told where the page is, what is
/// played, and at the end what the gates did.
///
/// # Errors
/// A [`CaseError`] for an address that is not on loopback. Otherwise a program or a rank failed, or the lab could not be
/// built or removed; an interrupt is no error.
pub fn run(case: Case, starter: &Starter, options: &Options, interrupt: &Interrupt, say: &mut dyn FnMut(&str)) -> Result<()> {
    if !options.listen.ip().is_loopback() {
        let problem = format!("{}: the page has no authentication, so it may listen on loopback only", options.listen);
        bail!(CaseError::Value { place: "--listen".into(), problem });
    }
    let binaries = Binaries::find(options.programs.as_deref())?;
    // Before anything is built: somebody else may have the port.
    let listener = TcpListener::bind(options.listen).with_context(|| format!("--listen {}", options.listen))?;
    let lab = Lab::up(case)?;
    // All programs and ranks end inside `play`, by drop, before the lab's namespaces go.
    let played = play(&lab, starter, &binaries, listener, options, interrupt, say);
    let gone = lab.down();
    match played {
        Err(e) if !interrupt.asked() => return Err(e),
        _ => gone?,
    }
    say("the lab is gone");
    Ok(())
}

fn play(
    lab: &Lab,
    starter: &Starter,
    binaries: &Binaries,
    listener: TcpListener,
    options: &Options,
    interrupt: &Interrupt,
    say: &mut dyn FnMut(&str),
) -> Result<()> {
    let (gates, folders) = control::folders(lab)?;
    // Locals are dropped in reverse order: ranks end before the gateway, and the gateway before the service.
    let mut service = Service::start(lab, binaries, &folders, options.hold, None)?;
    let page = listener.local_addr()?;
    let _gateway = Gateway::start(lab, listener)?;
    say(&format!("the page is http://{page}/ while this runs"));
    // The service already runs, so the page shows the fabric and the agents while profiles are learned.
    let alone = experiment::alone(lab, starter, experiment::SOLO_ITERATIONS, interrupt, &mut |what| say(what))?;
    let measured: Vec<Timing> = alone.into_iter().map(|(_, timing)| timing).collect();
    let mut plan = plan(&lab.case, &measured)?;
    let jobs: Vec<usize> = (0..lab.case.jobs.len()).collect();
    if !options.free.is_zero() {
        say(&format!("all together, as they come, for {} s", options.free.as_secs()));
        // These ranks end with this block, so the held jobs below start afresh and pass their gates from the first iteration on.
        let mut ranks = Ranks::start(lab, starter, &jobs, By::Nothing, interrupt)?;
        watch(&mut ranks, &mut service, options.free, interrupt)?;
    }
    // The commit waits for the leaders' pages, so no held job starts before its slot is known.
    service.commit(lab, &mut plan, &folders)?;
    let held = plan.jobs.iter().filter(|job| job.is_held(options.hold)).count();
    say(&format!(
        "committed: {held} of {} jobs are held by {}, for {} s or until Ctrl-C",
        jobs.len(),
        options.hold.word(),
        options.held.as_secs()
    ));
    let gates = Gates { folder: &gates, hold: options.hold };
    let mut ranks = Ranks::start(lab, starter, &jobs, By::Gates(gates), interrupt)?;
    let ended = watch(&mut ranks, &mut service, options.held, interrupt);
    // Totals are printed also after an interrupt: Ctrl-C is the ordinary end of a watch.
    for (job, folder) in lab.case.jobs.iter().zip(&folders) {
        let GateTotals { iterations, holds, slips, fail_opens, .. } = GateTotals::of(folder, &job.id);
        say(&format!("{}: {iterations} starts, {holds} held, {slips} slips, {fail_opens} failed open", job.id));
    }
    ended
}

/// Lets the ranks run for `length` while ranks and service live. Dropping the ranks ends them.
fn watch(ranks: &mut Ranks, service: &mut Service, length: Duration, interrupt: &Interrupt) -> Result<()> {
    let end = monotonic_ns().saturating_add(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX));
    ranks.go(Span::now())?;
    while monotonic_ns() < end {
        interrupt.sleep_until(end.min(monotonic_ns().saturating_add(WATCH.as_nanos() as u64)))?;
        ranks.check()?;
        service.check()?;
    }
    Ok(())
}
