//! The command line: what there is to type. Each command lives in its own file.

mod doctor;
mod fabric;
mod jobs;
mod lab;
mod learn;
mod live;
mod plan;
mod profile;
mod reproduce;
mod seeds;
mod service;
mod shell;
mod sim;
mod solve;
mod stats;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::input::CliError;

/// Exit code when paper mode meets a loop: there are no shifts, but the input was good.
const EXIT_LOOP: u8 = 3;
/// Exit code of a comparison that found differences.
const EXIT_DIFFERENT: u8 = 4;
/// Seconds in an hour.
const HOUR_S: f64 = 3_600.0;

/// Keeps training jobs that share a link off each other's beat
#[derive(Debug, Parser)]
#[command(name = "antiphase", version, about, after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
A first plan:
  antiphase fabric generate cassini24 >fabric.yaml
  antiphase jobs synth --fabric fabric.yaml --count 6 --jobs-out jobs.yaml --candidates-out candidates.yaml
  antiphase plan --fabric fabric.yaml --jobs jobs.yaml --candidates candidates.yaml

Exit codes: 0 done; 1 failure; 2 usage or bad input; 3 a loop in paper mode; 4 fabric diff found differences;
5 no candidate reaches --min-score.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Rank candidate placements of jobs on a fabric, with shifts and predicted iteration times
    Plan(plan::PlanArgs),
    /// Say in words what happens on each contended link, and why
    Explain(plan::ExplainArgs),
    /// Find the time-shifts of a scenario file, or evaluate given ones
    Solve(solve::SolveArgs),
    /// Import, export, generate, show and compare fabrics; print routes
    #[command(subcommand)]
    Fabric(fabric::FabricCommand),
    /// Synthesise and show communication profiles of jobs
    #[command(subcommand)]
    Profile(profile::ProfileCommand),
    /// List the committed jobs of the service; generate jobs from a seed
    Jobs(jobs::JobsArgs),
    /// Run the topology service in the foreground
    Serve(server::Args),
    /// Make certificates for trials: an authority, agents, people
    #[command(subcommand)]
    Pki(server::pki::Command),
    /// Start a program that cannot be changed at its job's turn or slot; say what gates hold here
    #[command(subcommand)]
    Gate(service::GateCommand),
    /// Play jobs on a fabric of network namespaces, with and without holding them to their slots
    #[command(subcommand)]
    Lab(::lab::Command),
    /// Say what is wrong with service and node, and what to do about it
    Doctor(doctor::DoctorArgs),
    /// Say on one screen what is in force, and what is wrong
    Status(live::StatusArgs),
    /// List links with demand, worst score first
    Links(live::LinksArgs),
    /// List jobs that take turns: who has the turn, who waits for whom, what it costs and brings
    Turns(live::TurnsArgs),
    /// List agents, their clocks and their jobs
    Agents(live::AgentsArgs),
    /// List switches that export counters of their ports (sFlow), and what of them does not fit the fabric
    Exporters(live::ExportersArgs),
    /// List events of the service, or follow them
    Events(live::EventsArgs),
    /// List who changed what: commits, releases and fabrics that somebody asked for
    Audit(live::AuditArgs),
    /// Watch links, jobs and agents in a terminal, the worst first
    Top(live::TopArgs),
    /// Rank candidate placements against the jobs that the service has committed
    Evaluate(live::EvaluateArgs),
    /// Commit jobs with their placements to the service
    Commit(live::CommitArgs),
    /// Release jobs from the service
    Release(live::ReleaseArgs),
    /// Submit jobs to the service's scheduler, which starts them when they may run
    Submit(live::SubmitArgs),
    /// List what was submitted: who waits, who runs and where, and why
    Queue(live::QueueArgs),
    /// Take jobs back that were submitted
    Withdraw(live::WithdrawArgs),
    /// Compute published figures of others again
    #[command(subcommand)]
    Reproduce(reproduce::ReproduceCommand),
    /// Train a placer that learns, after Harmony, and compare it with placers that do not
    #[command(subcommand)]
    Learn(learn::LearnCommand),
    /// Play traces of jobs under scheduling policies, in virtual time
    #[command(subcommand)]
    Sim(sim::SimCommand),
    /// Print a completion script for a shell
    Completions(shell::CompletionsArgs),
    /// Write the manual pages to a folder
    Man(shell::ManArgs),
}

/// Runs the command and says with which code to exit.
pub(crate) fn run(args: Args) -> Result<ExitCode, CliError> {
    match args.command {
        Command::Plan(args) => plan::run(&args),
        Command::Explain(args) => plan::explain(&args),
        Command::Solve(args) => solve::run(&args),
        Command::Fabric(command) => fabric::run(command),
        Command::Profile(command) => profile::run(command),
        Command::Jobs(args) => jobs::run(&args),
        Command::Serve(args) => Ok(service::serve(&args)),
        Command::Pki(command) => service::pki(&command),
        Command::Gate(command) => service::gate(command),
        Command::Lab(command) => lab::run(&command),
        Command::Doctor(args) => doctor::run(&args),
        Command::Status(args) => live::status(&args),
        Command::Links(args) => live::links(&args),
        Command::Turns(args) => live::turns(&args),
        Command::Agents(args) => live::agents(&args),
        Command::Exporters(args) => live::exporters(&args),
        Command::Events(args) => live::events(&args),
        Command::Audit(args) => live::audit(&args),
        Command::Top(args) => live::top(&args),
        Command::Evaluate(args) => live::evaluate(&args),
        Command::Commit(args) => live::commit(&args),
        Command::Release(args) => live::release(&args),
        Command::Submit(args) => live::submit(&args),
        Command::Queue(args) => live::queue(&args),
        Command::Withdraw(args) => live::withdraw(&args),
        Command::Reproduce(command) => reproduce::run(&command),
        Command::Learn(command) => learn::run(&command),
        Command::Sim(command) => sim::run(&command),
        Command::Completions(args) => shell::completions(&args),
        Command::Man(args) => shell::man(&args),
    }
}

/// Time on a processor that this program has had.
fn cpu_s() -> f64 {
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9
}

/// The same of this thread, where several work.
fn thread_cpu_s() -> f64 {
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9
}
