//! MLTCP as a congestion control of this kernel: built by clang, registered by bpftool, and gone with the lab that wanted it.

use std::{fs, path::Path, process};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::tool;

/// The program, for clang.
const SOURCE: &str = include_str!("../bpf/mltcp.c");
/// Its name in the kernel is this and the number of the lab's process: names are the machine's, and two labs may be up. The kernel
/// takes 15 characters, and numbers of processes have seven digits at most.
const PREFIX: &str = "mltcp_";

/// A registered congestion control; dropping it takes it back.
#[derive(Debug)]
pub(crate) struct Mltcp {
    name: String,
}

#[derive(Deserialize)]
struct Registered {
    name: String,
}

impl Mltcp {
    /// Builds it in `folder` and registers it.
    ///
    /// # Errors
    /// clang or bpftool is missing, or this kernel takes no congestion controls of that kind (5.6 with BTF, and root).
    pub(crate) fn register(folder: &Path) -> Result<Self> {
        sweep();
        let name = format!("{PREFIX}{}", process::id());
        let object = folder.join("mltcp.o");
        let object = object.to_str().context("the lab's folder has a name of plain text")?;
        let source = format!("{object}.c");
        fs::write(&source, SOURCE).with_context(|| source.clone())?;
        let define = format!("-DNAME={name}");
        // `-g` writes BTF, by which the kernel finds its own fields.
        tool::run("clang", &["-O2", "-g", "-target", "bpf", &define, "-c", &source, "-o", object], "").context("building MLTCP")?;
        tool::run("bpftool", &["struct_ops", "register", object], "").context("registering MLTCP")?;
        Ok(Self { name })
    }

    /// The name by which a socket asks for it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Mltcp {
    fn drop(&mut self) {
        // Sockets that still use it keep it until they close.
        let _ = tool::run("bpftool", &["struct_ops", "unregister", "name", &self.name], "");
    }
}

/// Takes back what labs left behind whose processes are gone.
pub(crate) fn sweep() {
    // If the list fails, nothing is removed; what is left does no harm.
    let listed = tool::run("bpftool", &["-j", "struct_ops", "list"], "").unwrap_or_default();
    for Registered { name } in serde_json::from_str::<Vec<Registered>>(&listed).unwrap_or_default() {
        let left = name.strip_prefix(PREFIX).is_some_and(|pid| pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists());
        if left {
            let _ = tool::run("bpftool", &["struct_ops", "unregister", "name", &name], "");
        }
    }
}
