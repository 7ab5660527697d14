//! `antiphase fabric observed`: what agents see of the cabling, beside the service's fabric.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use proto::v1alpha1::{Difference, GetObservedRequest, GetObservedResponse};

use super::connect::{Client, ServerArgs, refused};
use crate::{
    commands::EXIT_DIFFERENT,
    input::CliError,
    output::{Output, print},
};

/// What agents see of the cabling.
#[derive(Debug, Args)]
pub(crate) struct ObservedArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    output: Form,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Form {
    /// For people: what differs, and how much was seen
    #[default]
    Table,
    /// For programs
    Json,
    /// The fabric with what was seen, as a document for `antiphase fabric set`
    Fabric,
}

pub(crate) fn observed(args: &ObservedArgs) -> Result<ExitCode, CliError> {
    let mut differs = false;
    args.server.with(async |mut client: Client| {
        let request = GetObservedRequest { summary: args.output != Form::Fabric };
        let answer = client.get_observed(request).await.map_err(refused)?.into_inner();
        differs = answer.total > 0;
        match args.output {
            Form::Table => print(&Output::Table.render(&answer, || table(&answer))?),
            Form::Json => print(&Output::Json.render(&answer, String::new)?),
            Form::Fabric if answer.systems == 0 => Err(CliError::Failure(NOBODY.into())),
            Form::Fabric => print(&answer.fabric),
        }
    })?;
    // As `fabric diff`: a difference is a result and no failure.
    Ok(if differs && args.output != Form::Fabric { ExitCode::from(EXIT_DIFFERENT) } else { ExitCode::SUCCESS })
}

const NOBODY: &str = "no agent has told what it sees; lldp.mode of the agents switches it on";

fn table(answer: &GetObservedResponse) -> String {
    if answer.systems == 0 {
        return NOBODY.into();
    }
    let mut text = String::new();
    for Difference { kind, place } in &answer.differences {
        text += &format!("{kind:<15}{place}\n");
    }
    let more = (answer.total as usize).saturating_sub(answer.differences.len());
    if more > 0 {
        text += &format!("{more} more differences\n");
    }
    for finding in &answer.findings {
        text += &format!("{finding}\n");
    }
    let differences = match answer.total {
        0 => "no differences".to_owned(),
        1 => "1 difference".to_owned(),
        count => format!("{count} differences"),
    };
    let against = match answer.fabric_version {
        0 => "no fabric is set".to_owned(),
        version => format!("{} of them in fabric version {version}, of which {} were out of sight", answer.confirmed, answer.unseen),
    };
    text + &format!("{differences}; {} cables seen from {} systems, {against}\n", answer.seen, answer.systems)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_sees_what_differs_and_how_much_was_seen() {
        let difference = |kind: &str, place: &str| Difference { kind: kind.into(), place: place.into() };
        let answer = GetObservedResponse {
            fabric_version: 3,
            systems: 2,
            seen: 4,
            confirmed: 2,
            unseen: 7,
            total: 2,
            differences: vec![
                difference("moved cable", "h1:eth0: intended to leaf1:p1, observed to leaf1:p2"),
                difference("missing cable", "h2:eth0 -- leaf1:p2"),
            ],
            ..GetObservedResponse::default()
        };
        let expected = "moved cable    h1:eth0: intended to leaf1:p1, observed to leaf1:p2\n\
            missing cable  h2:eth0 -- leaf1:p2\n\
            2 differences; 4 cables seen from 2 systems, 2 of them in fabric version 3, of which 7 were out of sight\n";
        assert_eq!(table(&answer), expected);
        assert_eq!(table(&GetObservedResponse::default()), NOBODY);
        let first = GetObservedResponse { systems: 1, seen: 1, ..GetObservedResponse::default() };
        assert_eq!(table(&first), "no differences; 1 cables seen from 1 systems, no fabric is set\n");
    }
}
