//! What can be chosen for a run, by the names that the command line has for it.

use ::sim::trace::{NetworkControl, Ranker};
use clap::ValueEnum;
use policy::{
    muri::Timing,
    schedule::{GandivaOptions, MuriOptions, Rule},
};

use crate::input::CliError;

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(super) enum RankerArg {
    /// Nobody: as close to each other as they go
    #[default]
    None,
    /// Nobody, and anywhere
    Random,
    /// The highest mean score by the CASSINI paper's rules
    Cassini,
    /// The shortest iterations that the planner predicts
    Antiphase,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(super) enum ControlArg {
    /// Nothing has to: every job has the network to itself
    Ideal,
    /// Nothing
    #[default]
    Free,
    /// The CASSINI paper's time-shifts, corrected where a job has drifted
    Paper,
    /// Slots
    Slots,
    /// Turns
    Turns,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(super) enum Format {
    /// Jobs of our own, with times or with models of the zoo (CSV)
    Antiphase,
    /// Traces of Muri (CSV)
    #[default]
    Muri,
    /// Philly: cluster_job_log (JSON)
    Philly,
    /// Helios: cluster_log.csv
    Helios,
    /// Alibaba, GPU cluster of 2023: openb_pod_list_*.csv
    #[value(name = "alibaba-gpu-2023")]
    AlibabaGpu2023,
    /// Lingjun: job.csv, with --workers worker.csv
    Lingjun,
    /// Sia: workloads, as tuned jobs (CSV)
    Sia,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum PolicyArg {
    /// First come, first served; who does not fit keeps all behind it waiting
    Fifo,
    /// Shortest remaining time first
    Srtf,
    /// Shortest remaining service (time times GPUs) first
    Srsf,
    /// Least attained service first, in steps
    Tiresias,
    /// Guaranteed jobs first, the others on what these leave
    #[value(name = "antman")]
    AntMan,
    /// Who would be latest beside a fair share first
    Themis,
    /// Turns on crowded hosts, packed and moved where that pays
    Gandiva,
    /// Groups that share GPUs, shortest remaining service first
    MuriS,
    /// Groups that share GPUs, least attained service first
    MuriL,
    /// Counts and types of GPUs by goodput, with --format sia
    Sia,
    /// Counts of GPUs by goodput, blind to types, with --format sia
    Pollux,
    /// Types of GPUs for the most iterations of all, with --format sia
    Gavel,
}

impl PolicyArg {
    /// The rule; `options` are those of Muri. An elastic policy has another world.
    pub(super) fn rule(self, options: MuriOptions) -> Result<Rule, CliError> {
        Ok(match self {
            Self::Fifo => Rule::Fifo,
            Self::Srtf => Rule::Srtf,
            Self::Srsf => Rule::Srsf,
            Self::Tiresias => Rule::TIRESIAS,
            Self::AntMan => Rule::AntMan,
            Self::Themis => Rule::Themis,
            Self::Gandiva => Rule::Gandiva(GandivaOptions::default()),
            Self::MuriS => Rule::Muri(MuriOptions { durations_known: true, ..options }),
            Self::MuriL => Rule::Muri(MuriOptions { durations_known: false, ..options }),
            Self::Sia | Self::Pollux | Self::Gavel => {
                return Err(CliError::Usage(format!("--policy {}: only `sim run --format sia` has elastic jobs", self.name())));
            }
        })
    }

    /// The rule under which jobs have the GPUs that they ask for, and never more.
    pub(super) fn without_growth(self) -> Result<Rule, CliError> {
        match self {
            Self::Gandiva => Ok(Rule::Gandiva(GandivaOptions { growth: false, ..GandivaOptions::default() })),
            _ => Err(CliError::Usage(format!("--no-growth: under --policy {} no job grows", self.name()))),
        }
    }

    pub(super) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(super) enum TimingArg {
    /// Equations as printed, nobody in a group faster than alone; a restart is paid when something changes
    #[default]
    Paper,
    /// As the simulator of Muri's authors computes it
    Artifact,
}

impl TimingArg {
    pub(super) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

impl From<TimingArg> for Timing {
    fn from(timing: TimingArg) -> Self {
        match timing {
            TimingArg::Paper => Self::Paper,
            TimingArg::Artifact => Self::Artifact,
        }
    }
}

impl From<RankerArg> for Ranker {
    fn from(ranker: RankerArg) -> Self {
        match ranker {
            RankerArg::None => Self::None,
            RankerArg::Random => Self::Random,
            RankerArg::Cassini => Self::Cassini,
            RankerArg::Antiphase => Self::Antiphase,
        }
    }
}

impl From<ControlArg> for NetworkControl {
    fn from(control: ControlArg) -> Self {
        match control {
            ControlArg::Ideal => Self::Ideal,
            ControlArg::Free => Self::Free,
            ControlArg::Paper => Self::Paper,
            ControlArg::Slots => Self::Slots,
            ControlArg::Turns => Self::Turns,
        }
    }
}

/// The name of a choice, as it is given.
pub(super) fn name_of(choice: &impl ValueEnum) -> String {
    choice.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}
