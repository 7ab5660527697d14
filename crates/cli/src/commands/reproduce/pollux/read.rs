//! The workloads and measurements of Pollux's authors.

use std::path::{Path, PathBuf};

use ::sim::trace::{
    elastic::{Application, Applications, ElasticSubmission, Speeds, Traits, traits},
    read_elastic, read_learning, read_measured,
};

use policy::elastic::POLLUX_RESTART_S;

use super::{T4, published::WORKLOADS};
use crate::input::{CliError, read_document};

/// The application that their simulator leaves on one GPU with one batch, and that batch.
const ONLY: (&str, u32) = ("ncf", 32_768);
/// The application of which it asks no more samples of a GPU.
const CUT: (&str, f64) = ("yolov3", 8.0);
/// The workload that is named where there is none: that of their testbed.
const TESTBED: usize = 6;

/// The first of some files that is there.
fn find(folder: &Path, names: &[String]) -> Result<PathBuf, CliError> {
    let missing = || {
        let names = names.join(" nor ");
        CliError::input(
            folder,
            format!("neither {names} is there; clone github.com/petuum/adaptdl, branch osdi21-artifact, and give its folder simulator"),
        )
    };
    names.iter().map(|name| folder.join(name)).find(|file| file.is_file()).ok_or_else(missing)
}

/// The workloads that are there, by number.
pub(super) fn workloads(folder: &Path) -> Result<Vec<(usize, Vec<ElasticSubmission>)>, CliError> {
    let names = |number: usize| [format!("workloads/workload-{number}.csv"), format!("pollux/workloads/tuned-{number}.csv")];
    let mut all = Vec::new();
    for number in 1..=WORKLOADS {
        let Ok(file) = find(folder, &names(number)) else { continue };
        all.push((number, read_elastic(&read_document(&file)?).map_err(|e| CliError::input(&file, e))?));
    }
    if all.is_empty() {
        find(folder, &names(TESTBED))?;
    }
    Ok(all)
}

/// What jobs train, as the authors' simulator has it.
pub(super) fn applications(folder: &Path) -> Result<Applications, CliError> {
    traits().iter().map(|of| application(folder, of)).collect()
}

fn application(folder: &Path, of: &'static Traits) -> Result<Application, CliError> {
    let file =
        |name: &str, sia: &str| find(folder, &[format!("traces/{}/{name}.csv", of.name), format!("sia/profiles/{}/{sia}.csv", of.name)]);
    let placements = file("placements", &format!("placements-{T4}"))?;
    let scalability = file("scalability", &format!("scalability-{T4}"))?;
    let measured = read_measured(&read_document(&placements)?, &read_document(&scalability)?);
    let measured = measured.map_err(|(e, second)| CliError::input(if second { &scalability } else { &placements }, e))?;
    let measured = if of.name == CUT.0 { measured.cut(CUT.1) } else { measured };
    let mut files = Vec::new();
    for batch in of.batches {
        let name = format!("validation-{batch}");
        files.push(file(&name, &name)?);
    }
    let texts = files.iter().map(|file| read_document(file)).collect::<Result<Vec<String>, _>>()?;
    let learning = read_learning(of, &texts).map_err(|(e, at)| CliError::input(files.get(at).map_or(folder, PathBuf::as_path), e))?;
    let only_batch = (of.name == ONLY.0).then_some(ONLY.1);
    let traits = Traits { restart_s: POLLUX_RESTART_S, restart_believed_s: POLLUX_RESTART_S, slowdown: 1.0, only_batch, ..*of };
    Ok(Application { traits, learning, speeds: vec![Speeds::Measured(measured)] })
}
