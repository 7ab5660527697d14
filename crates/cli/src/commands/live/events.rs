//! `antiphase events`: what happened, and what happens.

use std::process::ExitCode;

use clap::Args;
use jiff::Timestamp;
use proto::v1alpha1::{Event, ListEventsRequest, Severity, WatchEventsRequest};

use super::connect::{Client, ServerArgs, refused};
use crate::{
    input::CliError,
    output::{self, Output},
};

/// What happened, oldest first.
#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Most events listed
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,
    /// Only those after this sequence number
    #[arg(long, value_name = "SEQUENCE", default_value_t = 0)]
    after: u64,
    /// Stay, and print events as they happen
    #[arg(short, long)]
    follow: bool,
    /// Form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(crate) fn events(args: &EventsArgs) -> Result<ExitCode, CliError> {
    args.server.with(async |mut client: Client| {
        let request = ListEventsRequest { after: args.after, limit: args.limit };
        let answer = client.list_events(request).await.map_err(refused)?.into_inner();
        let lines = || answer.events.iter().map(line).collect::<Vec<_>>().join("\n");
        let nothing = answer.events.is_empty() && args.output == Output::Table;
        if !(nothing && args.follow) {
            output::print(&if nothing { "no events".into() } else { args.output.render(&answer, lines)? })?;
        }
        if args.follow {
            // The stream goes on after the last event that was listed, so no event is lost or printed twice in between.
            let after = answer.events.last().map_or(args.after, |e| e.sequence);
            let mut stream = client.watch_events(WatchEventsRequest { after: Some(after) }).await.map_err(refused)?.into_inner();
            // The loop ends with the service's stream or with Ctrl-C, or with who reads the pipe; a user who follows asks for no other end.
            let mut last = after;
            loop {
                let event = tokio::select! {
                    event = stream.message() => event.map_err(refused)?,
                    () = output::reader_leaves() => return Ok(()),
                };
                let Some(event) = event else {
                    let problem =
                        format!("{}: the service ended; `antiphase events --follow --after {last}` goes on", args.server.address());
                    return Err(CliError::Failure(problem));
                };
                last = event.sequence;
                if !output::print_on(&args.output.render(&event, || line(&event))?)? {
                    break;
                }
            }
        }
        Ok(())
    })?;
    Ok(ExitCode::SUCCESS)
}

fn line(event: &Event) -> String {
    let at = Timestamp::from_nanosecond(i128::from(event.at_ns)).unwrap_or_default();
    let severity = match event.severity() {
        Severity::Unspecified | Severity::Info => "",
        Severity::Warning => "warning: ",
        Severity::Error => "error: ",
    };
    let by = if event.by.is_empty() { String::new() } else { format!(" [by {}]", event.by) };
    format!("{:>6}  {at:.3}  {:<12}  {severity}{}{by}", event.sequence, event.kind, event.message)
}
